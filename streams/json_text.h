/* JSON as text: what cJSON is too lenient for, and what it cannot hold.
 *
 * cJSON reads numbers such as 01, control characters inside strings and bytes that are not UTF-8, turns
 * every number into a double and ends strings at a NUL. Whatever comes from outside is checked here
 * first, by the letter of RFC 8259 with bounded nesting; values that must come back as they were given
 * (the id of a prompt) are kept as the span of text they are. */
#ifndef SWIFTLET_STREAMS_JSON_TEXT_H
#define SWIFTLET_STREAMS_JSON_TEXT_H

#include "kernels/backend.h"

enum { JSON_DEPTH = 64 };

/* True when the bytes are whole, shortest-form UTF-8 without surrogates. */
bool utf8_valid(const char* text, size_t size);

/* True when text is exactly one JSON value with white space around it: UTF-8, nested at most JSON_DEPTH
 * deep, escapes whole (surrogates in pairs), no \u0000. Else false, and the error names the problem at
 * which byte ("at byte 17: …"). */
bool json_check(const char* text, size_t size, struct error*);

/* The text of a checked object's first member of that name; NULL when there is none or text is no
 * object. Points into text; *value_size bytes. The name is compared as written, escapes unread. */
const char* json_member(const char* text, size_t size, const char* name, size_t* value_size);

struct json_item {    /* what json_next stands at; {0} before the first */
	const char* name; /* as written, without quotes; NULL in a list */
	size_t name_size;
	const char* value;
	size_t value_size;
};
/* The next element of a checked list or object, both pointing into text. False at the end, and when text is
 * neither. */
bool json_next(const char* text, size_t size, struct json_item*);
/* Whether it is a member of that name, as written. */
bool json_named(const struct json_item*, const char* name);

#endif
