/* The inside of the reader of calls, which its files share: tool_calls.c finds calls and their names,
 * tool_object.c reads calls that are objects, and tool_arguments.c arguments between tags and as in Python.
 */
#pragma once

#include <string.h>

#include "streams/service/tool_calls.h"

/* The result of reading at a place: continue, wait for more bytes, not a call, or no more calls after this
 * opener. */
enum step { STEP_ON, STEP_WAIT, STEP_NONE, STEP_OVER };
enum { LONGEST_NAME = 256 };

static inline enum step step_if(bool good) { return good ? STEP_ON : STEP_NONE; }

/* The members of a call's object. */
enum { MEMBER_OTHER, MEMBER_NAME, MEMBER_ARGUMENTS, MEMBER_FUNCTION };

static inline struct span call_held(const struct tool_reader* r) { return span_of(&r->held); }

static inline bool call_is_at_value(const struct json_repair* json) {
	return json->state == REPAIR_VALUE && json->depth == 0;
}

/* True when arguments are required: without a mark, an object with a tool's name is not yet a call. */
static inline bool call_is_marked(const struct tool_reader* r) { return !r->format->loose; }

/* True when a grammar binds the call at hand. */
static inline bool call_is_bound(const struct tool_reader* r) {
	return r->enforced && strcmp(r->opener, r->enforced) == 0;
}

/* tool_calls.c */
struct span call_find_member(struct span object, const char* name);
char* call_string_of(struct span value); /* of a JSON string; NULL: it is none */
/* The function of that name; its data is NULL where there is none. */
struct span call_find_tool(const struct tool_reader*, const char* name);
bool call_is_tool(const struct tool_reader*, const char* name);
/* Announces the call, unless the whole of it has to be judged first. */
void call_announce(struct tool_reader*);
/* Ends the arguments of the present call, which may have none. */
void call_end(struct tool_reader*);
/* The call at hand is complete. False: it is not a call after all. */
bool call_finish(struct tool_reader*);
void call_begin(struct tool_reader*, enum call_place);
void call_begin_value(struct tool_reader*);
/* Drops bytes of `held` that were read as part of the call. */
void call_drop_read(struct tool_reader*);
/* What ends a call of the format at the beginning of s, or all of its calls: STEP_ON. STEP_WAIT: s may become
 * such a mark. */
enum step call_find_end(const struct tool_format*, struct span s);

/* tool_object.c. c: the next byte. */
enum step call_read_key(struct tool_reader*, char c);
enum step call_read_in_key(struct tool_reader*);
bool call_begin_member(struct tool_reader*, char c);
bool call_take_value(struct tool_reader*);
enum step call_read_after_member(struct tool_reader*, char c);

/* tool_arguments.c */
enum step call_read_tag_key(struct tool_reader*);
enum step call_read_tag_value(struct tool_reader*);
enum step call_read_tag_after(struct tool_reader*);
enum step call_read_python_key(struct tool_reader*, char c);
enum step call_read_python_value(struct tool_reader*);
enum step call_read_python_after(struct tool_reader*, char c);
/* Completes the arguments of a call that the text's end cut off. */
void call_close_arguments(struct tool_reader*);
