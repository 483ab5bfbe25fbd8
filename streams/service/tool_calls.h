/* Reads tool calls from an answer's text, in the formats of the model families:
 *
 *    <tool_call>{"name": …, "arguments": {…}}</tool_call> …  Hermes, Qwen
 *    [TOOL_CALLS][{"name": …, "arguments": {…}}, …]          Mistral
 *    [TOOL_CALLS]NAME[ARGS]{…} …                             Mistral, later
 *    <function=NAME>{…}</function> …                         functionary 3.1, Llama
 *    functools[{"name": …, "arguments": {…}}, …]             FireFunction
 *    {"name": …, "parameters": {…}}; …                       Llama 3.x, at the beginning of the answer,
 *                                                            perhaps after <|python_tag|>; Qwen2.5-Coder also
 *                                                            writes ```json {…} ``` and <tools>{…}</tools>
 *
 * The text comes piece by piece. Text that cannot be a call becomes content at once, and held text that turns
 * out not to be a call becomes content then; none is lost. A call is announced when its name is known to be a
 * tool's and its arguments have begun. The arguments follow piece by piece, unchanged if they are JSON,
 * corrected if not (json_repair.h). The end of a call is found by reading its arguments, so a closing tag
 * inside a string is text. */
#ifndef SWIFTLET_STREAMS_SERVICE_TOOL_CALLS_H
#define SWIFTLET_STREAMS_SERVICE_TOOL_CALLS_H

#include <stdint.h>

#include "streams/service/json_repair.h"

struct span { /* of a text that comes piece by piece */
	const char* data;
	size_t size;
};
struct span span_after(struct span, size_t n); /* without its first n bytes */
bool span_starts(struct span, const char* with);
size_t span_spaces(struct span);  /* at its beginning */
size_t span_trimmed(struct span); /* bytes without the white space at its end */
/* The position of the text; s.size when there is none. */
size_t span_find(struct span s, const char* what);
/* The position of the first mark of a NULL-ended list, and the mark; s.size and NULL if there is none. */
size_t span_first(struct span s, const char* const* marks, const char** which);
/* Length of the text's end that may begin one of the marks, and so is undecided. */
size_t span_undecided(struct span, const char* const* marks);

enum { TOOL_ID = 10 };

struct tool_call {
	char id[TOOL_ID]; /* nine letters and digits, which Mistral's template accepts */
	char *name, *arguments;
	bool ended; /* the arguments are complete, or no more will come */
};

/* The reader's position within a call. */
enum call_place {
	CALL_BEFORE,    /* expects an object, a list of them, or a name */
	CALL_NAME,      /* the name, outside any object */
	CALL_KEY,       /* a member's name is to come */
	CALL_IN_KEY,    /* inside it */
	CALL_VALUE,     /* its value is to come, after a colon */
	CALL_IN_VALUE,  /* inside it */
	CALL_MEMBER,    /* after a member */
	CALL_ARGUMENTS, /* expects a value that consists of the arguments alone */
	CALL_AFTER      /* after a call */
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
	uint64_t seed;
	struct text held;   /* not decided yet */
	const char* opener; /* the mark before it; NULL: none, "": the answer may begin with a call */
	bool begun;         /* content other than white space, or a call, has come */

	/* the call at hand */
	enum call_place place;
	size_t at; /* bytes of `held` that were read */
	int depth; /* of objects around the member */
	int calls; /* of this opener */
	bool list, known, announced;
	int member; /* what the member is: tool_calls.c */
	struct text name, key, value, arguments;
	struct json_repair json;
};

/* tools: a JSON list, which must outlive the reader. seed: for the calls' ids. */
void tool_reader_open(struct tool_reader*, const char* tools, bool only_one, uint64_t seed);
void tool_reader_close(struct tool_reader*);
/* Adds more of the answer. The first text is the forced beginning, which the model did not write. */
void tool_reader_add(struct tool_reader*, const char* text, size_t size);
void tool_reader_end(struct tool_reader*);
/* The marks that begin or end a call, NULL-ended. Some vocabularies have special tokens for them. */
extern const char* const tool_marks[];

/* A family's syntax for calls: all, then begin NAME middle ARGUMENTS end close, with `between` two of them,
 * then finish. The text may end before a `close`. Strings may be empty, not NULL. */
struct tool_syntax {
	const char* trigger; /* text that every call contains */
	const char* some;    /* the beginning of a call of any tool */
	const char *all, *begin, *middle, *end, *close, *between, *finish;
	bool at_beginning; /* a call is the whole answer */
};
/* The chat template's syntax; NULL: it has no calls. */
const struct tool_syntax* tool_syntax_of(const char* chat_template);
/* For models whose template has no calls: the syntax that the system message asks for
 * (streams/chat_shape.h). */
extern const struct tool_syntax tool_syntax_generic;
/* Appends the text that begins an answer which calls a tool (NULL: any tool). */
void tool_syntax_begin(const struct tool_syntax*, const char* name, struct text* out);

#endif
