/* Reads tool calls from an answer's text, in the formats of the model families (tool_formats.h).
 *
 * The text comes piece by piece. Text that cannot be a call becomes content at once, and held text that turns
 * out not to be a call becomes content then; none is lost. A call is announced when its name is known to be a
 * tool's and its arguments have begun. The arguments follow piece by piece, unchanged if they are JSON,
 * corrected if not (json_repair.h), and as JSON where they were written in another way. The end of a call is
 * found by reading its arguments, so a closing tag inside a string is text.
 *
 * A call of a strict tool that no grammar has bound is announced when it is complete and keeps the tool's
 * schema. Else it is content. */
#pragma once

#include <stdint.h>

#include "streams/service/json_repair.h"
#include "streams/service/span.h"
#include "streams/service/tool_check.h"
#include "streams/service/tool_formats.h"

enum { TOOL_ID = 10 };

struct tool_call {
	char id[TOOL_ID]; /* nine letters and digits, which Mistral's template accepts */
	char *name, *arguments;
	bool ended; /* the arguments are complete, or no more will come */
};

/* The reader's position within a call. */
enum call_place {
	CALL_BEFORE,       /* expects an object, a list of them, or a name */
	CALL_NAME,         /* the name, outside any object */
	CALL_KEY,          /* a member's name is to come */
	CALL_IN_KEY,       /* inside it */
	CALL_VALUE,        /* its value is to come, after a colon */
	CALL_IN_VALUE,     /* inside it */
	CALL_MEMBER,       /* after a member */
	CALL_ARGUMENTS,    /* expects a value that consists of the arguments alone, or the first of its members */
	CALL_TAG_KEY,      /* a member's name, after the mark before it */
	CALL_TAG_VALUE,    /* its value, up to the mark after it */
	CALL_TAG_AFTER,    /* after that mark */
	CALL_PYTHON_KEY,   /* KEY= or the closing parenthesis */
	CALL_PYTHON_VALUE, /* inside a literal of Python */
	CALL_PYTHON_AFTER, /* after it */
	CALL_AFTER         /* after a call */
};

struct tool_reader {
	struct text content;    /* output, which the caller takes and clears */
	struct tool_call* call; /* (n) */
	int n;
	bool failed; /* no memory */

	const char* tools; /* the request's, JSON */
	bool one;          /* only the first call counts */
	bool bound;        /* the answer keeps a format: only a call at its beginning counts */
	bool tagged;       /* calls have a mark before them; an object alone, or in a code fence, is no call */
	bool cut;          /* the text ended at its limit, so an incomplete call counts */
	const struct tool_checks* checks; /* of strict tools; NULL: none */
	const char* enforced;             /* the opener after which a grammar binds the calls; NULL: after none */
	uint64_t seed;
	struct text held;   /* not decided yet */
	const char* opener; /* the mark before it; NULL: none, "": the answer may begin with a call */
	const struct tool_format* format; /* of the calls after it; NULL: not known yet */
	bool begun;                       /* content other than white space, or a call, has come */

	/* the call at hand */
	enum call_place place;
	size_t at; /* bytes of `held` that were read */
	int depth; /* of objects around the member */
	int calls; /* of this opener */
	bool list, known, announced;
	int member; /* what the member is: tool_calls.c */
	struct text name, key, value, arguments;
	struct text value_end; /* the mark after a tag's value */
	struct json_repair json;
	unsigned types;  /* that the value of a tag may have: tool_tags.h */
	size_t searched; /* of a tag's value: bytes after `at` without its end */
};

/* tools: a JSON list, which must outlive the reader. seed: for the calls' ids. */
void tool_reader_open(struct tool_reader*, const char* tools, bool only_one, uint64_t seed);
void tool_reader_close(struct tool_reader*);
/* Adds more of the answer. The first text is the forced beginning, which the model did not write. */
void tool_reader_add(struct tool_reader*, const char* text, size_t size);
void tool_reader_end(struct tool_reader*);
