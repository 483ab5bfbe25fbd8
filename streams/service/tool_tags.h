/* Values of arguments that are written as texts between tags. */
#pragma once

#include "core/grammar/json_tags.h"
#include "streams/service/tool_calls.h"

/* The types that the schema of the function's parameters gives the parameter; TAG_ANY where it gives none. */
unsigned tag_types(struct span schema, struct span parameter);
/* Appends the text as a part of a JSON string. */
void tag_escape(struct text* out, struct span);
/* Appends the value of a parameter that may be more than a string: as it is if it is JSON of one of the
 * types, else as a string. */
void tag_value(struct text* out, struct span, unsigned types);
