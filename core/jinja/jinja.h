/* Interprets the part of Jinja that chat templates use.
 *
 * Rendering follows Jinja 3.1 in the environment that transformers makes for chat templates: trim_blocks,
 * lstrip_blocks, break and continue, {% generation %}, tojson with json.dumps' defaults, raise_exception,
 * strftime_now, and the sandbox, in which nothing is changed in place. Values behave and print as Python's.
 *
 * Text that a request brought (JSON variables) is marked as foreign, and stays marked through concatenation,
 * slicing and filters. So for each byte of the output it is known whether it is the template's own.
 *
 * Templates come from strangers. So steps, memory, nesting and output are bounded, and an error names the
 * line. */
#pragma once

#include <time.h>

#include "core/files/utf8.h"
#include "kernels/backend.h"

struct jinja_text {
	char* data;                 /* NUL-terminated */
	size_t size;                /* the NUL not counted */
	struct text_range* foreign; /* (n_foreign) the request's text: ascending, disjoint ranges */
	size_t n_foreign;
};
void jinja_text_free(struct jinja_text*);

enum jinja_form {
	JINJA_WORDS,  /* a string that counts as the template's own, such as bos_token */
	JINJA_JSON,   /* a JSON value, of the request's kind */
	JINJA_MEMBERS /* a JSON object, whose members become variables */
};

struct jinja_variable {
	const char* name;
	enum jinja_form form;
	const char* text;
	size_t size;
};

struct jinja_call {
	const char* source; /* the template */
	size_t size;
	const struct jinja_variable* variable; /* (n_variables) if two have one name, the last one counts */
	int n_variables;
	time_t now; /* the result of strftime_now, as local time */
	/* JSON members of this name whose value is one of these words (blanks between) are trusted: templates
	 * write the roles of messages between the marks of special tokens. NULL: none. */
	const char *trusted_member, *trusted_words;
};

enum jinja_outcome {
	JINJA_DONE,
	JINJA_RAISED, /* the template itself refuses; the error is only raise_exception's message */
	JINJA_FAILED  /* the error names the line */
};

/* Renders. When the outcome is JINJA_DONE, `out` is filled, and the caller frees it. Any thread may call
 * it. */
enum jinja_outcome jinja_render(const struct jinja_call*, struct jinja_text* out, struct error*);

/* True when the template can be read: syntax, filters and tests are known. */
bool jinja_check(const char* source, size_t size, struct error*);
