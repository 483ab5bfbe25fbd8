/* A schema's values into a program. */
#ifndef SWIFTLET_CORE_GRAMMAR_JSON_SCHEMA_H
#define SWIFTLET_CORE_GRAMMAR_JSON_SCHEMA_H

#include <cjson/cJSON.h>

#include "core/grammar/program.h"

/* Before `next`; schema NULL: any object. The references it holds point into it. NOWHERE with the error set:
 * malformed, not supported, or nothing is valid. */
int32_t json_schema_emit(struct grammar*, const cJSON* schema, int32_t next, struct error*);

#endif
