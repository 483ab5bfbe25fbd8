/* JSON as text, where cJSON is too lenient or loses data.
 *
 * cJSON accepts numbers such as 01, control characters inside strings and bytes that are not UTF-8. It turns
 * every number into a double and ends strings at a NUL. So all JSON from outside is first checked here
 * against RFC 8259, with bounded nesting. Values that must be returned unchanged, such as the id of a prompt,
 * are kept as spans of the text. */
#pragma once

#include "kernels/backend.h"

enum { JSON_DEPTH = 64 };

/* True when the bytes are well-formed UTF-8: no overlong forms and no surrogates. */
bool utf8_valid(const char* text, size_t size);

/* True when text is exactly one JSON value with white space around it: UTF-8, nested at most JSON_DEPTH deep,
 * whole escapes (surrogates in pairs), no \u0000. Otherwise the error names the problem and its byte ("at
 * byte 17: …"). */
bool json_check(const char* text, size_t size, struct error*);

/* The text of a checked object's first member of that name; NULL if there is none or text is no object.
 * Points into text; *value_size bytes. Names are compared as written, without reading escapes. */
const char* json_member(const char* text, size_t size, const char* name, size_t* value_size);

struct json_item {    /* the present element; {0} before the first */
	const char* name; /* as written, without quotes; NULL in a list */
	size_t name_size;
	const char* value;
	size_t value_size;
};
/* Steps to the next element of a checked list or object, both pointing into text. False at the end, and when
 * text is neither. */
bool json_next(const char* text, size_t size, struct json_item*);
/* True when the element is a member of that name, as written. */
bool json_named(const struct json_item*, const char* name);
