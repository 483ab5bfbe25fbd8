/* The readers of the two requests: one table of fields, one small function a field. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/service/openai.h"

enum { COMPLETION = 1, CHAT = 2, BOTH = 3 };

struct reading {
	const cJSON* body;
	const char* text; /* the body's */
	size_t size;
	struct api_request* to;
	int vocab;
	struct api_error* error;
};

static bool no_memory(struct reading* r) {
	return api_fail(r->error, 500, "server_error", NULL, "The server is out of memory.");
}

static bool copy(struct reading* r, const char* from, char** to) {
	*to = strdup(from);
	return *to || no_memory(r);
}

/* ---- numbers and flags -------------------------------------------------------------------- */

static bool read_int(struct reading* r, const char* name, int least, int most, int* out) {
	double v = *out;
	if (!api_number(r->body, name, least, most, true, &v, r->error))
		return false;
	*out = (int)v;
	return true;
}

static bool read_model(struct reading* r, const char* name) {
	const char* model = NULL;
	if (!api_string(r->body, name, 512, &model, r->error))
		return false;
	return !model || copy(r, model, &r->to->model);
}

static bool read_max_tokens(struct reading* r, const char* name) {
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

static bool read_temperature(struct reading* r, const char* name) {
	return api_number(r->body, name, 0, 2, false, &r->to->temperature, r->error);
}
static bool read_top_p(struct reading* r, const char* name) {
	if (!api_number(r->body, name, 0, 1, false, &r->to->top_p, r->error))
		return false;
	/* 0 keeps the most probable token, as the smallest positive share does */
	r->to->top_p = fmax(r->to->top_p, 1e-6);
	return true;
}
static bool read_min_p(struct reading* r, const char* name) {
	return api_number(r->body, name, 0, 1, false, &r->to->min_p, r->error);
}
static bool read_top_k(struct reading* r, const char* name) {
	return read_int(r, name, 0, 1 << 24, &r->to->top_k);
}
static bool read_presence(struct reading* r, const char* name) {
	return api_number(r->body, name, -2, 2, false, &r->to->presence_penalty, r->error);
}
static bool read_frequency(struct reading* r, const char* name) {
	return api_number(r->body, name, -2, 2, false, &r->to->frequency_penalty, r->error);
}
static bool read_repetition(struct reading* r, const char* name) {
	return api_number(r->body, name, 0.01, 10, false, &r->to->repetition_penalty, r->error);
}
static bool read_n(struct reading* r, const char* name) {
	return read_int(r, name, 1, API_MAX_CHOICES, &r->to->n);
}
static bool read_stream(struct reading* r, const char* name) {
	return api_flag(r->body, name, &r->to->stream, r->error);
}
static bool read_echo(struct reading* r, const char* name) {
	return api_flag(r->body, name, &r->to->echo, r->error);
}

static bool read_seed(struct reading* r, const char* name) {
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

static bool read_logprobs_count(struct reading* r, const char* name) {
	int v = -1;
	if (!read_int(r, name, 0, API_MAX_TOP, &v))
		return false;
	r->to->logprobs = v >= 0;
	r->to->top_logprobs = v > 0 ? v : 0;
	return true;
}

static bool read_logprobs_flag(struct reading* r, const char* name) {
	return api_flag(r->body, name, &r->to->logprobs, r->error);
}

static bool read_top_logprobs(struct reading* r, const char* name) {
	int v = -1;
	if (!read_int(r, name, 0, API_MAX_TOP, &v))
		return false;
	if (v >= 0 && !cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(r->body, "logprobs")))
		return api_refuse(r->error, name, "invalid_value", "'top_logprobs' needs 'logprobs': true.");
	r->to->top_logprobs = v > 0 ? v : 0;
	return true;
}

/* ---- objects ------------------------------------------------------------------------------ */

static const cJSON* get(const struct reading* r, const char* name) {
	const cJSON* value = cJSON_GetObjectItemCaseSensitive(r->body, name);
	return cJSON_IsNull(value) ? NULL : value;
}

static bool read_stream_options(struct reading* r, const char* name) {
	static const char* const known[] = {"include_usage", NULL};
	const cJSON* options = get(r, name);
	if (!options)
		return true;
	if (!cJSON_IsObject(options))
		return api_refuse(r->error, name, "invalid_type", "'stream_options' must be an object.");
	if (!cJSON_IsTrue(get(r, "stream")))
		return api_refuse(r->error, name, "invalid_value", "'stream_options' needs 'stream': true.");
	return api_only(options, known, r->error) &&
	       api_flag(options, "stream_options.include_usage", &r->to->include_usage, r->error);
}

static bool read_metadata(struct reading* r, const char* name) {
	const cJSON* metadata = get(r, name);
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
	return !task || !*task || copy(r, task, &r->to->task);
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

static bool read_logit_bias(struct reading* r, const char* name) {
	const cJSON* biases = get(r, name);
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
		return no_memory(r);
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
	if (!copy(r, item->valuestring, &r->to->stop[r->to->n_stop]))
		return false;
	r->to->n_stop++;
	return true;
}

static bool read_stop(struct reading* r, const char* name) {
	const cJSON* stop = get(r, name);
	if (!stop)
		return true;
	if (!cJSON_IsArray(stop))
		return add_stop(r, stop);
	for (const cJSON* item = stop->child; item; item = item->next)
		if (!add_stop(r, item))
			return false;
	return true;
}

/* ---- prompts ------------------------------------------------------------------------------ */

static bool read_text_prompt(struct reading* r, const cJSON* item, struct api_prompt* p) {
	p->text_size = strlen(item->valuestring);
	return copy(r, item->valuestring, &p->text);
}

static bool read_id_prompt(struct reading* r, const cJSON* list, struct api_prompt* p) {
	const int n = cJSON_GetArraySize(list);
	if (n < 1)
		return api_refuse(r->error, "prompt", "invalid_value", "'prompt' holds an empty array.");
	p->id = malloc((size_t)n * sizeof *p->id);
	if (!p->id)
		return no_memory(r);
	for (const cJSON* item = list->child; item; item = item->next) {
		const double v = cJSON_IsNumber(item) ? item->valuedouble : NAN;
		if (!(v >= 0 && v < r->vocab) || v != floor(v))
			return api_refuse(r->error, "prompt", "invalid_value",
			                  "'prompt' holds a token that is no whole number from 0 to %d.", r->vocab - 1);
		p->id[p->n++] = (int32_t)v;
	}
	return true;
}

static bool read_one_prompt(struct reading* r, const cJSON* item) {
	struct api_prompt* p = &r->to->prompt[r->to->n_prompts++];
	if (cJSON_IsString(item))
		return read_text_prompt(r, item, p);
	if (cJSON_IsArray(item))
		return read_id_prompt(r, item, p);
	return api_refuse(r->error, "prompt", "invalid_type",
	                  "'prompt' must be a string, an array of strings, an array of tokens or an array of "
	                  "arrays of tokens.");
}

static bool read_prompt(struct reading* r, const char* name) {
	const cJSON* prompt = get(r, name);
	if (!prompt)
		return api_refuse(r->error, name, "missing_required_parameter", "'prompt' is required.");
	/* an array of numbers is one prompt; any other array is one of prompts, all of one kind */
	const bool several = cJSON_IsArray(prompt) && prompt->child && !cJSON_IsNumber(prompt->child);
	const int n = several ? cJSON_GetArraySize(prompt) : 1;
	if (n > API_MAX_CHOICES)
		return api_refuse(r->error, name, "invalid_value", "'prompt' holds more than %d prompts.",
		                  API_MAX_CHOICES);
	r->to->prompt = calloc((size_t)n, sizeof *r->to->prompt);
	if (!r->to->prompt)
		return no_memory(r);
	if (!several)
		return read_one_prompt(r, prompt);
	for (const cJSON* item = prompt->child; item; item = item->next) {
		if ((item->type & 0xff) != (prompt->child->type & 0xff))
			return api_refuse(r->error, name, "invalid_type", "'prompt' mixes strings and tokens.");
		if (!read_one_prompt(r, item))
			return false;
	}
	return true;
}

/* ---- messages ----------------------------------------------------------------------------- */

/* Messages, tools, documents and chat_template_kwargs. */
static bool read_chat(struct reading* r, const char* name) {
	struct error error;
	const char* field = name;
	return chat_parts_read(r->text, r->size, &r->to->parts, &field, &error) ||
	       api_refuse(r->error, field, "invalid_value", "%.300s", error.message);
}

/* A string, or parts {"type": "text", "text"} joined; `where` names it in messages, `field` in the error. */
static bool read_content(struct reading* r, const cJSON* content, const char* field, const char* where,
                         char** out, size_t* size) {
	if (cJSON_IsString(content)) {
		*size = strlen(content->valuestring);
		return copy(r, content->valuestring, out);
	}
	if (!cJSON_IsArray(content))
		return api_refuse(r->error, field, "invalid_type", "'%s' must be a string or an array of text parts.",
		                  where);
	for (int pass = 0; pass < 2; pass++) {
		size_t at = 0;
		for (const cJSON* part = content->child; part; part = part->next) {
			const cJSON* type = cJSON_GetObjectItemCaseSensitive(part, "type");
			const cJSON* text = cJSON_GetObjectItemCaseSensitive(part, "text");
			if (!cJSON_IsString(type) || strcmp(type->valuestring, "text") != 0 || !cJSON_IsString(text))
				return api_refuse(r->error, field, "unsupported_field",
				                  "'%s' holds a part that is no text; only text is supported.", where);
			const size_t length = strlen(text->valuestring);
			if (pass)
				memcpy(*out + at, text->valuestring, length);
			at += length;
		}
		if (!pass && !(*out = calloc(1, at + 1)))
			return no_memory(r);
		*size = at;
	}
	return true;
}

/* OpenAI's {"type": "content", "content"}: a text that the output is expected to follow. */
static bool read_prediction(struct reading* r, const char* name) {
	const cJSON* prediction = get(r, name);
	if (!prediction)
		return true;
	const cJSON* type = cJSON_GetObjectItemCaseSensitive(prediction, "type");
	if (!cJSON_IsString(type) || strcmp(type->valuestring, "content") != 0)
		return api_refuse(r->error, name, "invalid_value",
		                  "'prediction' must be an object with \"type\": \"content\" and \"content\".");
	return read_content(r, cJSON_GetObjectItemCaseSensitive(prediction, "content"), name,
	                    "prediction.content", &r->to->prediction, &r->to->prediction_size);
}

/* ---- tools -------------------------------------------------------------------------------- */

static bool read_tool_name(struct reading* r, const char* name, const cJSON* choice) {
	const cJSON* function = cJSON_GetObjectItemCaseSensitive(choice, "function");
	const cJSON* wanted = cJSON_GetObjectItemCaseSensitive(function, "name");
	const char* text = cJSON_IsString(wanted) ? wanted->valuestring : "";
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
	if (!*text || strlen(text) > 64 || text[strspn(text, letters)])
		return api_refuse(
		    r->error, name, "invalid_value",
		    "'tool_choice' must be \"none\", \"auto\", \"required\" or {\"type\": \"function\", "
		    "\"function\": {\"name\"}}.");
	for (const cJSON* tool = get(r, "tools") ? get(r, "tools")->child : NULL; tool; tool = tool->next) {
		const cJSON* known = cJSON_GetObjectItemCaseSensitive(tool, "function");
		known = cJSON_GetObjectItemCaseSensitive(known, "name");
		if (cJSON_IsString(known) && strcmp(known->valuestring, text) == 0)
			return copy(r, text, &r->to->tool_name);
	}
	return api_refuse(r->error, name, "invalid_value",
	                  "'tool_choice' names '%.64s', which is none of 'tools'.", text);
}

static bool read_tool_choice(struct reading* r, const char* name) {
	struct api_request* q = r->to;
	const cJSON* v = get(r, name);
	const bool any = get(r, "tools") && get(r, "tools")->child;
	const char* word = cJSON_IsString(v) ? v->valuestring : "";
	q->tool_choice = any ? TOOLS_AUTO : TOOLS_NONE;
	if (!v || strcmp(word, "auto") == 0)
		return true;
	if (strcmp(word, "none") == 0) { /* the template is told of none */
		free(q->parts.tools);
		q->parts.tools = NULL;
		q->tool_choice = TOOLS_NONE;
		return true;
	}
	if (!any)
		return api_refuse(r->error, name, "invalid_value", "'tool_choice' needs 'tools'.");
	q->tool_choice = TOOLS_REQUIRED;
	return strcmp(word, "required") == 0 || read_tool_name(r, name, v);
}

static bool read_parallel(struct reading* r, const char* name) {
	bool parallel = true;
	if (!api_flag(r->body, name, &parallel, r->error))
		return false;
	r->to->one_tool_call = !parallel;
	return true;
}

/* What read_chat has read. */
static bool was_read(struct reading* r, const char* name) {
	(void)r, (void)name;
	return true;
}

/* ---- what we do not have ------------------------------------------------------------------ */

static bool refuse_unsupported(struct reading* r, const char* name, const char* only) {
	return api_refuse(r->error, name, "unsupported_field", "'%s' is not supported%s.", name, only);
}

static bool want_empty(struct reading* r, const char* name) {
	const cJSON* v = get(r, name);
	if (!v || ((cJSON_IsObject(v) || cJSON_IsArray(v)) && !v->child))
		return true;
	return refuse_unsupported(r, name, "");
}
static bool want_false(struct reading* r, const char* name) {
	const cJSON* v = get(r, name);
	return !v || cJSON_IsFalse(v) || refuse_unsupported(r, name, " but for false");
}
static bool want_nothing(struct reading* r, const char* name) {
	const cJSON* v = get(r, name);
	return !v || (cJSON_IsString(v) && !v->valuestring[0]) || refuse_unsupported(r, name, "");
}
static bool want_text(struct reading* r, const char* name) {
	const cJSON* v = get(r, name);
	const cJSON* type = cJSON_GetObjectItemCaseSensitive(v, "type");
	if (!v || (cJSON_IsString(type) && strcmp(type->valuestring, "text") == 0 && !v->child->next))
		return true;
	return refuse_unsupported(r, name, " but for {\"type\": \"text\"}");
}
static bool want_best_of(struct reading* r, const char* name) {
	const cJSON* v = get(r, name);
	if (!v || (cJSON_IsNumber(v) && v->valuedouble >= 1 && v->valuedouble <= 1) ||
	    (cJSON_IsNumber(v) && fabs(v->valuedouble - r->to->n) < 0.5))
		return true;
	return refuse_unsupported(r, name, " but for the value of 'n'");
}
static bool want_string(struct reading* r, const char* name) {
	const char* ignored = NULL;
	return api_string(r->body, name, 1 << 16, &ignored, r->error);
}
static bool want_word(struct reading* r, const char* name) {
	const cJSON* v = get(r, name);
	if (!v || (cJSON_IsString(v) && (!strcmp(v->valuestring, "auto") || !strcmp(v->valuestring, "default") ||
	                                 !strcmp(v->valuestring, "none"))))
		return true;
	return refuse_unsupported(r, name, " but for \"auto\" or \"none\"");
}
static bool want_text_only(struct reading* r, const char* name) {
	const cJSON* v = get(r, name);
	if (!v || (cJSON_IsArray(v) && v->child && !v->child->next && cJSON_IsString(v->child) &&
	           strcmp(v->child->valuestring, "text") == 0))
		return true;
	return refuse_unsupported(r, name, " but for [\"text\"]");
}

/* ---- the table ---------------------------------------------------------------------------- */

/* Read in this order: `n` before `best_of`. */
static const struct {
	const char* name;
	int where;
	bool (*read)(struct reading*, const char* name);
} fields[] = {
    {"model", BOTH, read_model},
    {"prompt", COMPLETION, read_prompt},
    {"messages", CHAT, read_chat},
    {"tools", CHAT, was_read},
    {"documents", CHAT, was_read},
    {"chat_template_kwargs", CHAT, was_read}, /* as vLLM and llama.cpp name it */
    {"max_tokens", BOTH, read_max_tokens},
    {"max_completion_tokens", CHAT, read_max_tokens},
    {"temperature", BOTH, read_temperature},
    {"top_p", BOTH, read_top_p},
    {"min_p", BOTH, read_min_p}, /* ours, as vLLM names it */
    {"top_k", BOTH, read_top_k}, /* the same */
    {"n", BOTH, read_n},
    {"stream", BOTH, read_stream},
    {"stream_options", BOTH, read_stream_options},
    {"logprobs", COMPLETION, read_logprobs_count},
    {"logprobs", CHAT, read_logprobs_flag},
    {"top_logprobs", CHAT, read_top_logprobs},
    {"echo", COMPLETION, read_echo},
    {"stop", BOTH, read_stop},
    {"seed", BOTH, read_seed},
    {"metadata", BOTH, read_metadata},
    {"prediction", BOTH, read_prediction},
    {"user", BOTH, want_string},
    {"best_of", COMPLETION, want_best_of},
    {"suffix", COMPLETION, want_nothing},
    {"presence_penalty", BOTH, read_presence},
    {"frequency_penalty", BOTH, read_frequency},
    {"repetition_penalty", BOTH, read_repetition}, /* ours, as vLLM names it */
    {"logit_bias", BOTH, read_logit_bias},
    {"response_format", CHAT, want_text},
    {"functions", CHAT, want_empty},
    {"tool_choice", CHAT, read_tool_choice},
    {"function_call", CHAT, want_word},
    {"parallel_tool_calls", CHAT, read_parallel},
    {"store", CHAT, want_false},
    {"service_tier", CHAT, want_word},
    {"modalities", CHAT, want_text_only},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static bool all_known(struct reading* r, int where) {
	for (const cJSON* item = r->body->child; item; item = item->next) {
		bool known = false;
		for (int i = 0; i < FIELDS && !known; i++)
			known = (fields[i].where & where) && strcmp(fields[i].name, item->string) == 0;
		if (!known)
			return api_refuse(r->error, item->string, "unsupported_field",
			                  "The field '%.80s' is not supported.", item->string);
	}
	return true;
}

static bool read_fields(struct reading* r, int where) {
	if (!all_known(r, where))
		return false;
	for (int i = 0; i < FIELDS; i++)
		if ((fields[i].where & where) && !fields[i].read(r, fields[i].name))
			return false;
	const struct api_request* q = r->to;
	if (q->n * (q->chat ? 1 : q->n_prompts) > API_MAX_CHOICES)
		return api_refuse(r->error, "n", "invalid_value", "More than %d choices are asked for.",
		                  API_MAX_CHOICES);
	if (q->echo && q->logprobs)
		return api_refuse(r->error, "echo", "unsupported_field",
		                  "'echo' together with 'logprobs' is not supported.");
	return true;
}

static bool read_body(const char* body, size_t size, int where, int vocab, struct api_request* q,
                      struct api_error* e) {
	*q = (struct api_request){.chat = where == CHAT,
	                          .max_tokens = where == CHAT ? 0 : 16,
	                          .temperature = 1,
	                          .top_p = 1,
	                          .repetition_penalty = 1,
	                          .n = 1};
	cJSON* json = api_parse(body, size, e);
	if (!json)
		return false;
	struct reading r = {.body = json, .text = body, .size = size, .to = q, .vocab = vocab, .error = e};
	const bool good = read_fields(&r, where);
	cJSON_Delete(json);
	if (!good)
		api_request_free(q);
	return good;
}

bool api_read_completion(const char* body, size_t size, int vocab, struct api_request* q,
                         struct api_error* e) {
	return read_body(body, size, COMPLETION, vocab, q, e);
}

bool api_read_chat(const char* body, size_t size, int vocab, struct api_request* q, struct api_error* e) {
	return read_body(body, size, CHAT, vocab, q, e);
}

void api_request_free(struct api_request* q) {
	for (int i = 0; i < q->n_prompts; i++) {
		free(q->prompt[i].text);
		free(q->prompt[i].id);
	}
	chat_parts_free(&q->parts);
	for (int i = 0; i < q->n_stop; i++)
		free(q->stop[i]);
	free(q->prompt);
	free(q->model);
	free(q->bias);
	free(q->task);
	free(q->prediction);
	free(q->tool_name);
	memset(q, 0, sizeof *q);
}
