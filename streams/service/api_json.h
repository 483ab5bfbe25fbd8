/* JSON from clients: bounded before it is parsed, with errors in OpenAI's format.
 *
 * A body is checked against RFC 8259 (streams/json_text.h). Its values are counted before memory is allocated
 * for them. An object that names a key twice is refused, because two readers could see two different requests
 * in it. */
#pragma once

#include <cjson/cJSON.h>

#include "core/files/json.h"
#include "kernels/backend.h"
#include "streams/text.h"

enum {
	API_MAX_VALUES = 1 << 19,
	API_MAX_KEYS = 1024,   /* members of an object */
	API_MAX_NUMBERS = 8192 /* if all of them are numbers */
};

/* The error that a client gets: {"error": {"message", "type", "param", "code"}}. */
struct api_error {
	int status; /* HTTP */
	char message[400];
	const char* type; /* "invalid_request_error", "server_error"…: depends on the status */
	char param[96];
	char code[48]; /* param and code: "" is null */
};

/* Fills a 400 that names the field; param and code may be NULL. Returns false. */
bool api_refuse(struct api_error*, const char* param, const char* code, const char* format, ...)
    __attribute__((format(printf, 4, 5)));
/* Fills in another status; code may be NULL. Returns false. */
bool api_fail(struct api_error*, int status, const char* code, const char* format, ...)
    __attribute__((format(printf, 4, 5)));
bool api_no_memory(struct api_error*);                  /* false, with a 500 */
bool api_unknown(struct api_error*, const char* field); /* false, with a 400 that names it */
/* The body of the error response, malloc'd; NULL on no memory. */
char* api_error_text(const struct api_error*);

/* Parses the body as an object without duplicate keys; free with cJSON_Delete. NULL with a 400. */
cJSON* api_parse(const char* body, size_t size, struct api_error*);

/* A member's text, NULL if it is no string; and whether it equals the given one. */
const char* api_text(const cJSON* object, const char* name);
bool api_is(const cJSON* object, const char* name, const char* text);
/* True if the text ends in `end`. */
bool api_ends(const char* text, const char* end);
/* A value as JSON text. */
void api_put(struct text*, const cJSON* value);
/* Reads object.name as a number in [least, most] (whole if `whole`). `name` may be a path for messages, whose
 * last part is the key. False with a 400 for another type, out of range or not whole. For an absent or null
 * member *out keeps its value. */
bool api_number(const cJSON* object, const char* name, double least, double most, bool whole, double* out,
                struct api_error*);
/* The same, whole, of an int. */
bool api_int(const cJSON* object, const char* name, double least, double most, int* out, struct api_error*);
bool api_flag(const cJSON* object, const char* name, bool* out, struct api_error*);
/* Borrowed from the object; at most `limit` bytes. */
bool api_string(const cJSON* object, const char* name, size_t limit, const char** out, struct api_error*);
/* The joined texts of a list of parts {"type", "text"}, whose types must be among `types`, words with a blank
 * between; or a string itself. Messages call it `name`, and the error's field is `field`. NULL with a 400.
 * free() it. */
char* api_texts(const cJSON* content, const char* field, const char* name, const char* types,
                struct api_error*);
/* Reads a list of at most `most` whole numbers from 0 to vocab - 1 into out. Returns how many, or -1 with a
 * 400. */
int api_tokens(const cJSON* list, const char* name, int vocab, int32_t* out, int most, struct api_error*);
/* Reads the members "attention" and "mlp" as a mask: arrays of blocks, without the first and the last. With
 * `states` also the optional member "levels" of a mask file of format 2. */
bool api_mask(const cJSON* object, int blocks, bool states, struct mask* out, struct api_error*);
/* False with a 400 that names the first member which is not among `known`, words with a blank between. */
bool api_only(const cJSON* object, const char* known, struct api_error*);
