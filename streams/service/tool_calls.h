/* Tool calls out of an answer's text, as the families of models write them:
 *
 *   <tool_call>{"name": …, "arguments": {…}}</tool_call> …       Hermes, Qwen
 *   [TOOL_CALLS][{"name": …, "arguments": {…}}, …]                Mistral
 *   [TOOL_CALLS]NAME[ARGS]{…} …                                   Mistral, later
 *   <function=NAME>{…}</function> …                               functionary 3.1, Llama
 *   {"name": …, "parameters": {…}}; …                             Llama 3.x, perhaps after <|python_tag|>;
 * where it is the whole answer and names a tool
 *
 * The text comes piece by piece; what is certainly no call is content at once, and nothing is lost: what
 * turns out to be none after all is content then. Arguments stay as they were written, to the byte. */
#ifndef SWIFTLET_STREAMS_SERVICE_TOOL_CALLS_H
#define SWIFTLET_STREAMS_SERVICE_TOOL_CALLS_H

#include <stdint.h>

#include "streams/text.h"

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
};

struct tool_reader {
	struct text content;    /* to be taken, and cleared, by whoever wants it */
	struct tool_call* call; /* (n) */
	int n;
	bool failed; /* no memory */

	const char* tools; /* the request's, JSON */
	bool one;          /* only the first call counts */
	uint64_t seed;
	struct text held;   /* not decided yet */
	const char* opener; /* which it follows; NULL: none, "": the whole answer may be a call */
	bool begun;         /* something but white space has been content, or a call */
};

/* tools: a JSON list, which must outlive the reader. seed: of the ids. */
void tool_reader_open(struct tool_reader*, const char* tools, bool only_one, uint64_t seed);
void tool_reader_close(struct tool_reader*);
/* More of the answer; first what it was made to begin with, which is no part of the text that comes. */
void tool_reader_add(struct tool_reader*, const char* text, size_t size);
void tool_reader_end(struct tool_reader*);
/* The marks that begin or end a call, NULL-ended: some vocabularies have special tokens for them. */
extern const char* const tool_marks[];

/* How a family writes its calls: all, then begin NAME middle ARGUMENTS end, with `between` two of them, then
 * finish. Strings may be empty, not NULL. */
struct tool_syntax {
	const char* trigger; /* what a text that is no call does not hold */
	const char* some;    /* what a call of whatever tool begins with */
	const char *all, *begin, *middle, *end, *between, *finish;
	bool at_beginning; /* a call is the whole answer */
};
/* As the chat template speaks of it; NULL: of none. */
const struct tool_syntax* tool_syntax_of(const char* chat_template);
/* The text that begins an answer which calls a tool (NULL: any tool), in the format that the chat template
 * speaks of. False: it speaks of none. */
bool tool_call_begin(const char* chat_template, const char* name, struct text* out);

#endif
