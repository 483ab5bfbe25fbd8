/* JSON of model folders: parsed by cJSON, and read field by field with messages that name the file and the
 * field. */
#pragma once

#include <cjson/cJSON.h>

#include "kernels/backend.h"

/* Parses the whole text; only white space may follow. Messages name `file`. Free with cJSON_Delete. A number
 * that a double cannot hold, or would print differently, keeps its text in valuestring. NULL with the error
 * set. cJSON bounds nesting at 1,000. */
cJSON* json_parse(const char* text, size_t size, const char* file, struct error*);
/* The same of a file. */
cJSON* json_read(const char* path, struct error*);
/* True when the file exists and is a regular one, links followed. */
bool file_exists(const char* path);

/* True when `list`, words with blanks between them, contains the word. */
bool json_lists(const char* words, const char* word);

/* A field, or NULL when it is absent or null. Case counts. */
const cJSON* json_field(const cJSON* object, const char* field);

/* Each reads object.field into *out. For an absent or null field *out keeps its value, the default, and the
 * result is true. False with the error set for another type or a value out of range. */
bool json_int(const cJSON* object, const char* file, const char* field, int64_t low, int64_t high,
              int64_t* out, struct error*);
bool json_int32(const cJSON* object, const char* file, const char* field, int low, int high, int* out,
                struct error*);
bool json_float(const cJSON* object, const char* file, const char* field, double low, double high, float* out,
                struct error*);
bool json_bool(const cJSON* object, const char* file, const char* field, bool* out, struct error*);
/* Borrowed from the object. */
bool json_string(const cJSON* object, const char* file, const char* field, const char** out, struct error*);
/* The value as text for a message, cut to fit. Returns `out`. */
const char* json_show(const cJSON* value, char* out, size_t size);
/* The value as JSON on one line, with numbers as they were written. Free with cJSON_free; NULL when memory
 * runs out. */
char* json_print(const cJSON* value);
/* Whether two values are equal: numbers exactly, members in any order. */
bool json_same(const cJSON* a, const cJSON* b);
/* True when the number is whole and within [low, high]. */
bool json_whole(const cJSON* value, int64_t low, int64_t high, int64_t* out);
