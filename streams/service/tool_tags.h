/* Values of arguments that are written as texts between tags. */
#ifndef SWIFTLET_STREAMS_SERVICE_TOOL_TAGS_H
#define SWIFTLET_STREAMS_SERVICE_TOOL_TAGS_H

#include "streams/service/tool_calls.h"

/* Types that a value may have. */
enum {
	TAG_STRING = 1,
	TAG_NUMBER = 2,
	TAG_BOOLEAN = 4,
	TAG_NULL = 8,
	TAG_LIST = 16,
	TAG_OBJECT = 32,
	TAG_ANY = 63
};

/* The types that the schema of the function's parameters gives the parameter; TAG_ANY where it gives none. */
unsigned tag_types(struct span schema, struct span parameter);
/* Appends the text as a part of a JSON string. */
void tag_escape(struct text* out, struct span);
/* Appends the value of a parameter that may be more than a string: as it is if it is JSON of one of the
 * types, else as a string. */
void tag_value(struct text* out, struct span, unsigned types);

#endif
