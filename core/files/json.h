/* JSON as found in model folders: parsed by cJSON, read field by field with messages that name the file
 * and the field. */
#ifndef SWIFTLET_CORE_FILES_JSON_H
#define SWIFTLET_CORE_FILES_JSON_H

#include <cjson/cJSON.h>

#include "kernels/backend.h"

/* Parses the whole text; only white space may follow. `file` names it in messages. Free with cJSON_Delete.
 * The valuestring of a number that a double may not hold, or print so, is as it was written.
 * NULL with the error set; nesting is bounded by cJSON's own limit of 1,000. */
cJSON* json_parse(const char* text, size_t size, const char* file, struct error*);
/* The same of a file. */
cJSON* json_read(const char* path, struct error*);
/* True when the file exists and is a regular one, links followed. */
bool file_exists(const char* path);

/* Whether a list, words with a blank between, has this one. */
bool json_lists(const char* words, const char* word);

/* A field, or NULL when it is absent or null. Case counts. */
const cJSON* json_field(const cJSON* object, const char* field);

/* Each reads object.field into *out. When the field is absent or null *out keeps its value, which is
 * the default; so `true` is returned. False with the error set on another type or out of range. */
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
/* The value as JSON on one line, its numbers as they were written. Free with cJSON_free; NULL on no memory.
 */
char* json_print(const cJSON* value);
/* True when the number is whole and within [low, high]. */
bool json_whole(const cJSON* value, int64_t low, int64_t high, int64_t* out);

#endif
