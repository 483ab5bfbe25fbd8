/* Chat templates: the part of Jinja that they use, interpreted.
 *
 * A template is given with variables and written out as Jinja 3.1 would in the environment that transformers
 * makes for chat templates: trim_blocks, lstrip_blocks, break and continue, {% generation %}, tojson with
 * json.dumps' defaults, raise_exception, strftime_now, and the sandbox, in which nothing is changed in place.
 * Values behave, and print, as Python's.
 *
 * What a request brought (JSON variables) is marked as foreign and stays so through concatenation, slicing
 * and filters: the text that comes out says, byte for byte, what is the template's own and what is not.
 *
 * Templates come from strangers: steps, memory, nesting and output are bounded, and an error names the line.
 */
#ifndef SWIFTLET_CORE_JINJA_JINJA_H
#define SWIFTLET_CORE_JINJA_JINJA_H

#include <time.h>

#include "core/files/utf8.h"
#include "kernels/backend.h"

struct jinja_text {
	char* data;                 /* NUL-terminated */
	size_t size;                /* the NUL not counted */
	struct text_range* foreign; /* (n_foreign) ascending, apart: what the request brought */
	size_t n_foreign;
};
void jinja_text_free(struct jinja_text*);

enum jinja_form {
	JINJA_WORDS,  /* a string of the template's own kind, such as bos_token */
	JINJA_JSON,   /* a JSON value, of the request's kind */
	JINJA_MEMBERS /* a JSON object, each member of which is a variable by its own name */
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
	const struct jinja_variable* variable; /* (n_variables) of equal names the last counts */
	int n_variables;
	time_t now; /* what strftime_now tells, as local time */
	/* JSON members of this name whose value is one of the words (with blanks between) are no foreign text:
	 * the roles of messages, which templates write between the marks of special tokens. NULL: there are none.
	 */
	const char *trusted_member, *trusted_words;
};

enum jinja_outcome {
	JINJA_DONE,
	JINJA_RAISED, /* the template itself refuses: the error is raise_exception's message alone */
	JINJA_FAILED  /* the error names the line */
};

/* Renders. `out` is filled when the outcome is JINJA_DONE, and then the caller's to free. Any thread. */
enum jinja_outcome jinja_render(const struct jinja_call*, struct jinja_text* out, struct error*);

/* True when the template can be read: syntax, filters and tests are known. */
bool jinja_check(const char* source, size_t size, struct error*);

#endif
