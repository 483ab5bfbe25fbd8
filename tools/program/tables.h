/* The one way in which commands print what they found: JSON for programs, or lines and tables for people.
 *
 * A command puts its figures into one JSON value. Without --json each figure becomes a line, and a list or an
 * object of objects becomes a table; deeper levels are left to --json. Names are those of the JSON, with
 * spaces. A figure whose name ends in "bytes" is printed in MiB, as a size. Headings are bold where colours
 * are allowed. */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdio.h>

void tables_print(const cJSON* object);
/* One table of a list of objects. */
void table_print(const cJSON* rows);
/* Prints the value in one line of JSON, or for people, and frees it. The exit status. */
int report_print(cJSON* value, bool json);
/* True for a terminal, unless NO_COLOR is set. */
bool colours_allowed(FILE*);
