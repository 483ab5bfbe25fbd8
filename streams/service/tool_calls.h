/* Tool calls out of an answer's text, as the families of models write them:
 *
 *   <tool_call>{"name": …, "arguments": {…}}</tool_call> …       Hermes, Qwen
 *   [TOOL_CALLS][{"name": …, "arguments": {…}}, …]                Mistral
 *   [TOOL_CALLS]NAME[ARGS]{…} …                                   Mistral, later
 *   <function=NAME>{…}</function> …                               functionary 3.1, Llama
 *   {"name": …, "parameters": {…}}; …                             Llama 3.x, perhaps after <|python_tag|>,
 * at the beginning of the answer; ```json {…} ``` and <tools>{…}</tools>, as Qwen2.5-Coder writes it
 *
 * The text comes piece by piece. What is certainly no call is content at once, and nothing is lost: what
 * turns out to be none is content then. A call is announced as soon as its name is known to be a tool's and
 * its arguments have begun; they follow piece by piece, to the byte as they were written where they are JSON,
 * and mended where they are not (json_repair.h). Where a call ends is found by reading them: a closing tag
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
/* The position of the first mark of a NULL-ended list, and the mark; s.size and NULL when there is none. */
size_t span_first(struct span s, const char* const* marks, const char** which);
/* The bytes at the end that may begin one of the marks, and so are nothing yet. */
size_t span_undecided(struct span, const char* const* marks);

enum { TOOL_ID = 10 };

struct tool_call {
	char id[TOOL_ID]; /* nine letters and digits: more than Mistral's template refuses */
	char *name, *arguments;
	bool ended; /* the arguments are whole, or all that there will be of them */
};

/* The position of the reader within a call. */
enum call_place {
	CALL_BEFORE,    /* an object, a list of them, or a name is to come */
	CALL_NAME,      /* the name, outside any object */
	CALL_KEY,       /* a member's name is to come */
	CALL_IN_KEY,    /* inside it */
	CALL_VALUE,     /* its value is to come, after a colon */
	CALL_IN_VALUE,  /* inside it */
	CALL_MEMBER,    /* after a member */
	CALL_ARGUMENTS, /* a value that is nothing but the arguments is to come */
	CALL_AFTER      /* after a call */
};

struct tool_reader {
	struct text content;    /* to be taken, and cleared, by whoever wants it */
	struct tool_call* call; /* (n) */
	int n;
	bool failed; /* no memory */

	const char* tools; /* the request's, JSON */
	bool one;          /* only the first call counts */
	bool bound;        /* the answer keeps a form: what it does not begin with is no call */
	bool tagged;       /* a call has a mark before it: an object alone, or between fences, is none */
	bool cut;          /* the text ended at its limit: what is there of a call counts */
	uint64_t seed;
	struct text held;   /* not decided yet */
	const char* opener; /* which it follows; NULL: none, "": the answer may begin with a call */
	bool begun;         /* something but white space has been content, or a call */

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

/* tools: a JSON list, which must outlive the reader. seed: of the ids. */
void tool_reader_open(struct tool_reader*, const char* tools, bool only_one, uint64_t seed);
void tool_reader_close(struct tool_reader*);
/* More of the answer; first what it was made to begin with, which is no part of the text that comes. */
void tool_reader_add(struct tool_reader*, const char* text, size_t size);
void tool_reader_end(struct tool_reader*);
/* The marks that begin or end a call, NULL-ended: some vocabularies have special tokens for them. */
extern const char* const tool_marks[];

/* How a family writes its calls: all, then begin NAME middle ARGUMENTS end close, with `between` two of them,
 * then finish. The text may end before a `close`. Strings may be empty, not NULL. */
struct tool_syntax {
	const char* trigger; /* what a text that is no call does not hold */
	const char* some;    /* what a call of whatever tool begins with */
	const char *all, *begin, *middle, *end, *close, *between, *finish;
	bool at_beginning; /* a call is the whole answer */
};
/* The syntax that the chat template uses; NULL: it has no calls. */
const struct tool_syntax* tool_syntax_of(const char* chat_template);
/* For models whose template has no calls: the syntax that the prompt asks for (streams/chat_shape.h). */
extern const struct tool_syntax tool_syntax_generic;
/* Appends the text that begins an answer which calls a tool (NULL: any tool). */
void tool_syntax_begin(const struct tool_syntax*, const char* name, struct text* out);

#endif
