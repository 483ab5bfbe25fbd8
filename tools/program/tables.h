/* Figures for people from the JSON that programs get: a line each; lists of objects, and objects of objects,
 * as a table. What lies deeper is for JSON alone. */
#ifndef SWIFTLET_TOOLS_PROGRAM_TABLES_H
#define SWIFTLET_TOOLS_PROGRAM_TABLES_H

#include <cjson/cJSON.h>

void tables_print(const cJSON*);

#endif
