/* Prints the JSON that programs get for people: a line for each figure, and a table for a list or an object
 * of objects. Deeper levels are left to --json. */
#ifndef SWIFTLET_TOOLS_PROGRAM_TABLES_H
#define SWIFTLET_TOOLS_PROGRAM_TABLES_H

#include <cjson/cJSON.h>

void tables_print(const cJSON*);

#endif
