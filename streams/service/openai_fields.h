/* The readers of a request's fields: one small function a field, in the table of openai_request.c. */
#ifndef SWIFTLET_STREAMS_SERVICE_OPENAI_FIELDS_H
#define SWIFTLET_STREAMS_SERVICE_OPENAI_FIELDS_H

#include "streams/service/openai.h"

struct reading;
/* A row of the table: in which requests, who reads it, and for those that only store it where and within
 * what. */
struct field {
	const char* name;
	int where;
	bool (*read)(struct reading*, const char* name);
	size_t at;
	double least, most;
	const char* only; /* the values that it may have */
};

struct reading {
	const cJSON* body;
	const char* text; /* the body's */
	size_t size;
	struct api_request* to;
	int vocab;
	const struct field* field; /* that is read */
	struct api_error* error;
};

bool reading_copy(struct reading*, const char* from, char** to);
const cJSON* reading_get(const struct reading*, const char* name); /* NULL for null too */

/* Each takes its field from the body into the request; false with the error, which names the field. */
/* Into the member that the table names. */
bool read_number(struct reading*, const char* name);
bool read_whole_number(struct reading*, const char* name);
bool read_flag(struct reading*, const char* name);
bool read_model(struct reading*, const char* name);
bool read_max_tokens(struct reading*, const char* name);
bool read_top_p(struct reading*, const char* name);
bool read_seed(struct reading*, const char* name);
bool read_logprobs_count(struct reading*, const char* name);
bool read_top_logprobs(struct reading*, const char* name);
bool read_stream_options(struct reading*, const char* name);
bool read_metadata(struct reading*, const char* name);
bool read_logit_bias(struct reading*, const char* name);
bool read_stop(struct reading*, const char* name);
bool read_end_tokens(struct reading*, const char* name);
bool read_response_format(struct reading*, const char* name);
bool read_guided(struct reading*, const char* name);

/* What the table allows of what we have not. */
bool read_nothing(struct reading*, const char* name);
bool read_best_of(struct reading*, const char* name);
bool read_user(struct reading*, const char* name);
/* Whatever it says, the text is the same; or another field's reader has read it. */
bool no_matter(struct reading*, const char* name);
bool read_prompt(struct reading*, const char* name);
bool read_chat(struct reading*, const char* name);
bool read_prediction(struct reading*, const char* name);
bool read_tool_choice(struct reading*, const char* name);
bool read_parallel(struct reading*, const char* name);

#endif
