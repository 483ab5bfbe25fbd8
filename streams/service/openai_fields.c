/* Numbers, flags and small objects of a request; and what gives the answer a form: OpenAI's response_format,
 * vLLM's guided_json, guided_regex, guided_choice, guided_grammar; llama.cpp's grammar. */
#include "streams/service/openai_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/grammar/grammar.h"

/* ---- numbers and flags -------------------------------------------------------------------- */

static void* member(const struct reading* r) { return (char*)r->to + r->field->at; }

bool read_number(struct reading* r, const char* name) {
	return api_number(r->body, name, r->field->least, r->field->most, false, member(r), r->error);
}

static bool read_int(struct reading* r, const char* name, double least, double most, int* out) {
	double v = *out;
	if (!api_number(r->body, name, least, most, true, &v, r->error))
		return false;
	*out = (int)v;
	return true;
}

bool read_whole_number(struct reading* r, const char* name) {
	return read_int(r, name, r->field->least, r->field->most, member(r));
}

bool read_flag(struct reading* r, const char* name) { return api_flag(r->body, name, member(r), r->error); }

bool read_model(struct reading* r, const char* name) {
	const char* model = NULL;
	if (!api_string(r->body, name, 512, &model, r->error))
		return false;
	return !model || reading_copy(r, model, &r->to->model);
}

bool read_max_tokens(struct reading* r, const char* name) {
	const int before = r->to->max_tokens;
	const bool both = r->to->chat && strcmp(name, "max_completion_tokens") == 0 &&
	                  cJSON_GetObjectItemCaseSensitive(r->body, "max_tokens") && before > 0;
	if (!read_int(r, name, 1, 1 << 24, &r->to->max_tokens))
		return false;
	if (both && before != r->to->max_tokens)
		return api_refuse(r->error, name, "invalid_value",
		                  "'max_tokens' and 'max_completion_tokens' differ; give one.");
	return true;
}

bool read_top_p(struct reading* r, const char* name) {
	if (!api_number(r->body, name, 0, 1, false, &r->to->top_p, r->error))
		return false;
	/* 0 keeps the most probable token, as the smallest positive share does */
	r->to->top_p = fmax(r->to->top_p, 1e-6);
	return true;
}

bool read_seed(struct reading* r, const char* name) {
	double v = NAN;
	if (!api_number(r->body, name, -0x1p63, 0x1p63, true, &v, r->error))
		return false;
	r->to->has_seed = isfinite(v);
	if (v < 0)
		r->to->seed = (uint64_t)(int64_t)v;
	else if (r->to->has_seed)
		r->to->seed = (uint64_t)v;
	return true;
}

/* ---- log probabilities -------------------------------------------------------------------- */

bool read_logprobs_count(struct reading* r, const char* name) {
	int v = -1;
	if (!read_int(r, name, 0, API_MAX_TOP, &v))
		return false;
	r->to->logprobs = v >= 0;
	r->to->top_logprobs = v > 0 ? v : 0;
	return true;
}

bool read_top_logprobs(struct reading* r, const char* name) {
	int v = -1;
	if (!read_int(r, name, 0, API_MAX_TOP, &v))
		return false;
	if (v >= 0 && !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(r->body, "logprobs")))
		return api_refuse(r->error, name, "invalid_value", "'top_logprobs' needs 'logprobs': true.");
	r->to->top_logprobs = v > 0 ? v : 0;
	return true;
}

/* ---- objects ------------------------------------------------------------------------------ */

bool read_stream_options(struct reading* r, const char* name) {
	const cJSON* options = reading_get(r, name);
	if (!options)
		return true;
	if (!cJSON_IsObject(options))
		return api_refuse(r->error, name, "invalid_type", "'stream_options' must be an object.");
	if (!cJSON_IsTrue(reading_get(r, "stream")))
		return api_refuse(r->error, name, "invalid_value", "'stream_options' needs 'stream': true.");
	return api_only(options, "include_usage include_obfuscation", r->error) &&
	       api_flag(options, "stream_options.include_usage", &r->to->include_usage, r->error);
}

bool read_metadata(struct reading* r, const char* name) {
	const cJSON* metadata = reading_get(r, name);
	if (!metadata)
		return true;
	if (!cJSON_IsObject(metadata))
		return api_refuse(r->error, name, "invalid_type", "'metadata' must be an object of strings.");
	for (const cJSON* item = metadata->child; item; item = item->next)
		if (!cJSON_IsString(item))
			return api_refuse(r->error, name, "invalid_type", "'metadata' must be an object of strings.");
	const char* task = NULL;
	if (!api_string(metadata, "metadata.task", API_MAX_TASK, &task, r->error))
		return false;
	return !task || !*task || reading_copy(r, task, &r->to->task);
}

/* A token's id as JSON's keys have it: digits, no zero before others. -1: it is none. */
static int32_t token_of(const char* key, int vocab) {
	int64_t id = 0;
	if (!*key || (key[0] == '0' && key[1]))
		return -1;
	for (; *key; key++) {
		if (*key < '0' || *key > '9')
			return -1;
		id = id * 10 + (*key - '0');
		if (id >= vocab)
			return -1;
	}
	return (int32_t)id;
}

static bool add_bias(struct reading* r, const cJSON* item) {
	struct api_request* q = r->to;
	const int32_t token = token_of(item->string, r->vocab);
	if (token < 0)
		return api_refuse(r->error, "logit_bias", "invalid_value",
		                  "'logit_bias' names '%.40s': expected a token from \"0\" to \"%d\".", item->string,
		                  r->vocab - 1);
	if (!cJSON_IsNumber(item) || !(item->valuedouble >= -100 && item->valuedouble <= 100))
		return api_refuse(r->error, "logit_bias", "invalid_value",
		                  "'logit_bias' of token %d must be a number from -100 to 100.", token);
	int at = q->n_bias++;
	for (; at > 0 && q->bias[at - 1].token > token; at--)
		q->bias[at] = q->bias[at - 1];
	q->bias[at] = (struct swiftlet_bias){token, (float)item->valuedouble};
	return true;
}

bool read_logit_bias(struct reading* r, const char* name) {
	const cJSON* biases = reading_get(r, name);
	if (!biases)
		return true;
	if (!cJSON_IsObject(biases))
		return api_refuse(r->error, name, "invalid_type", "'logit_bias' must be an object.");
	const int n = cJSON_GetArraySize(biases);
	if (n > API_MAX_BIASES)
		return api_refuse(r->error, name, "invalid_value", "'logit_bias' holds more than %d tokens.",
		                  API_MAX_BIASES);
	r->to->bias = n ? calloc((size_t)n, sizeof *r->to->bias) : NULL;
	if (n && !r->to->bias)
		return api_no_memory(r->error);
	for (const cJSON* item = biases->child; item; item = item->next)
		if (!add_bias(r, item))
			return false;
	return true;
}

static bool add_stop(struct reading* r, const cJSON* item) {
	if (!cJSON_IsString(item) || !item->valuestring[0])
		return api_refuse(r->error, "stop", "invalid_type",
		                  "'stop' must be a string or an array of strings that are not empty.");
	if (r->to->n_stop == API_MAX_STOPS)
		return api_refuse(r->error, "stop", "invalid_value", "'stop' holds more than %d strings.",
		                  API_MAX_STOPS);
	if (strlen(item->valuestring) > API_MAX_STOP_BYTES)
		return api_refuse(r->error, "stop", "invalid_value", "A string of 'stop' is longer than %d bytes.",
		                  API_MAX_STOP_BYTES);
	if (!reading_copy(r, item->valuestring, &r->to->stop[r->to->n_stop]))
		return false;
	r->to->n_stop++;
	return true;
}

bool read_stop(struct reading* r, const char* name) {
	const cJSON* stop = reading_get(r, name);
	if (!stop)
		return true;
	if (!cJSON_IsArray(stop))
		return add_stop(r, stop);
	for (const cJSON* item = stop->child; item; item = item->next)
		if (!add_stop(r, item))
			return false;
	return true;
}

bool read_end_tokens(struct reading* r, const char* name) {
	const cJSON* list = reading_get(r, name);
	const int n =
	    list ? api_tokens(list, name, r->vocab, r->to->end_token, SWIFTLET_END_TOKENS, r->error) : 0;
	r->to->n_end_tokens = n > 0 ? n : 0;
	return n >= 0;
}

/* ---- the answer's form ---------------------------------------------------------------------- */

enum { MOST_CHOICES = 1024 };

/* Takes what was compiled; one form an answer. */
static bool take(struct reading* r, const char* name, struct grammar* grammar, const struct error* error) {
	if (!grammar)
		return api_refuse(r->error, name, "invalid_value", "'%.40s': %.400s.", name, error->message);
	if (r->to->grammar) {
		grammar_free(grammar);
		return api_refuse(r->error, name, "invalid_value", "More than one form is asked for.");
	}
	r->to->grammar = grammar;
	return true;
}

static bool take_schema(struct reading* r, const char* name, const cJSON* schema) {
	struct error error = {""};
	char* text = cJSON_IsString(schema) ? NULL : cJSON_PrintUnformatted(schema);
	const char* of = cJSON_IsString(schema) ? schema->valuestring : text;
	if (!of)
		return api_refuse(r->error, name, "invalid_value", "'%.40s' holds no schema.", name);
	struct grammar* grammar = grammar_from_json_schema(of, strlen(of), &error);
	cJSON_free(text);
	return take(r, name, grammar, &error);
}

bool read_response_format(struct reading* r, const char* name) {
	const cJSON* format = reading_get(r, name);
	const char* type = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(format, "type"));
	struct error error = {""};
	if (!format || (type && strcmp(type, "text") == 0 && !format->child->next))
		return true;
	if (type && strcmp(type, "json_object") == 0)
		return take(r, name, grammar_from_json_object(&error), &error);
	if (!type || strcmp(type, "json_schema") != 0)
		return api_refuse(r->error, name, "invalid_value",
		                  "'response_format' has a type of \"text\", \"json_object\" or \"json_schema\".");
	const cJSON* of = cJSON_GetObjectItemCaseSensitive(format, "json_schema");
	return take_schema(r, name, cJSON_GetObjectItemCaseSensitive(of, "schema"));
}

static bool take_choices(struct reading* r, const char* name, const cJSON* list) {
	const char* choice[MOST_CHOICES];
	struct error error = {""};
	const cJSON* item;
	int n = 0;
	cJSON_ArrayForEach (item, list) {
		if (!cJSON_IsString(item) || n == MOST_CHOICES)
			return api_refuse(r->error, name, "invalid_value", "'%.40s' is not a list of up to %d strings.",
			                  name, MOST_CHOICES);
		choice[n++] = item->valuestring;
	}
	return take(r, name, grammar_from_choices(choice, n, &error), &error);
}

bool read_guided(struct reading* r, const char* name) {
	const cJSON* value = reading_get(r, name);
	struct error error = {""};
	if (!value)
		return true;
	if (strcmp(name, "guided_json") == 0)
		return take_schema(r, name, value);
	if (strcmp(name, "guided_choice") == 0)
		return take_choices(r, name, value);
	if (!cJSON_IsString(value))
		return api_refuse(r->error, name, "invalid_value", "'%.40s' is not a string.", name);
	if (strcmp(name, "guided_regex") != 0)
		return take(r, name, grammar_from_gbnf(value->valuestring, strlen(value->valuestring), &error),
		            &error);
	return take(r, name, grammar_from_regex(value->valuestring, strlen(value->valuestring), &error), &error);
}

/* ---- what we do not have ------------------------------------------------------------------ */

bool no_matter(struct reading* r, const char* name) {
	(void)r, (void)name;
	return true;
}

bool read_nothing(struct reading* r, const char* name) {
	const cJSON* value = reading_get(r, name);
	char* text = value ? cJSON_PrintUnformatted(value) : NULL;
	const char* at = text ? strstr(r->field->only, text) : NULL;
	const bool good = !value || (at && at[strlen(text)] == ',' && (at == r->field->only || at[-1] == ','));
	cJSON_free(text);
	return good || api_refuse(r->error, name, "unsupported_field", "'%s' is not supported but for %.*s.",
	                          name, (int)strlen(r->field->only) - 1, r->field->only);
}

bool read_best_of(struct reading* r, const char* name) {
	const cJSON* v = reading_get(r, name);
	return !v ||
	       (cJSON_IsNumber(v) && (fabs(v->valuedouble - 1) < 0.5 || fabs(v->valuedouble - r->to->n) < 0.5)) ||
	       api_refuse(r->error, name, "unsupported_field", "'%s' is not supported but for the value of 'n'.",
	                  name);
}

bool read_user(struct reading* r, const char* name) {
	const char* ignored = NULL;
	return api_string(r->body, name, 1 << 16, &ignored, r->error);
}
