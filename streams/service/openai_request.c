/* The readers of the two requests: one table of fields. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "core/grammar/grammar.h"
#include "streams/service/openai_fields.h"

enum { COMPLETION = 1, CHAT = 2, BOTH = 3 };

bool reading_copy(struct reading* r, const char* from, char** to) {
	*to = strdup(from);
	return *to || api_no_memory(r->error);
}

const cJSON* reading_get(const struct reading* r, const char* name) { return api_get(r->body, name); }

/* ---- the table ---------------------------------------------------------------------------- */

/* Read in this order: `n` before `best_of`. */
#define BY(reader) reader, 0, 0, 0, NULL
#define INTO(reader, member, least, most) reader, offsetof(struct api_request, member), least, most, NULL
/* What OpenAI has and we have not is taken at the values that change nothing: JSON, each with a comma. */
#define ONLY(values) read_nothing, 0, 0, 0, values
static const struct field fields[] = {
    {"model", BOTH, BY(read_model)},
    {"prompt", COMPLETION, BY(read_prompt)},
    {"messages", CHAT, BY(read_chat)},
    {"tools", CHAT, BY(no_matter)}, /* read_chat has read these */
    {"documents", CHAT, BY(no_matter)},
    {"chat_template_kwargs", CHAT, BY(no_matter)}, /* as vLLM and llama.cpp name it */
    {"max_tokens", BOTH, BY(read_max_tokens)},
    {"max_completion_tokens", CHAT, BY(read_max_tokens)},
    {"temperature", BOTH, INTO(read_number, temperature, 0, 2)},
    {"top_p", BOTH, BY(read_top_p)},
    {"min_p", BOTH, INTO(read_number, min_p, 0, 1)},             /* ours, as vLLM names it */
    {"top_k", BOTH, INTO(read_whole_number, top_k, 0, 1 << 24)}, /* the same */
    {"n", BOTH, INTO(read_whole_number, n, 1, API_MAX_CHOICES)},
    {"stream", BOTH, INTO(read_flag, stream, 0, 1)},
    {"stream_options", BOTH, BY(read_stream_options)},
    {"logprobs", COMPLETION, BY(read_logprobs_count)},
    {"logprobs", CHAT, INTO(read_flag, logprobs, 0, 1)},
    {"top_logprobs", CHAT, BY(read_top_logprobs)},
    {"echo", COMPLETION, INTO(read_flag, echo, 0, 1)},
    {"stop", BOTH, BY(read_stop)},
    {"ignore_eos", BOTH, INTO(read_flag, ignore_eos, 0, 1)}, /* ours, as vLLM names it */
    {"stop_token_ids", BOTH, BY(read_end_tokens)},           /* the same */
    {"seed", BOTH, BY(read_seed)},
    {"metadata", BOTH, BY(read_metadata)},
    {"prediction", BOTH, BY(read_prediction)},
    {"user", BOTH, BY(read_user)},
    {"best_of", COMPLETION, BY(read_best_of)},
    {"suffix", COMPLETION, ONLY("\"\",")},
    {"presence_penalty", BOTH, INTO(read_number, presence_penalty, -2, 2)},
    {"frequency_penalty", BOTH, INTO(read_number, frequency_penalty, -2, 2)},
    {"repetition_penalty", BOTH,
     INTO(read_number, repetition_penalty, 0.01, 10)}, /* ours, as vLLM names it */
    {"logit_bias", BOTH, BY(read_logit_bias)},
    {"response_format", CHAT, BY(read_response_format)},
    {"guided_json", BOTH, BY(read_guided)}, /* ours, as vLLM names them */
    {"guided_regex", BOTH, BY(read_guided)},
    {"guided_choice", BOTH, BY(read_guided)},
    {"guided_grammar", BOTH, BY(read_guided)},
    {"grammar", BOTH, BY(read_guided)}, /* as llama.cpp names it */
    {"functions", CHAT, ONLY("[],{},")},
    {"tool_choice", CHAT, BY(read_tool_choice)},
    {"function_call", CHAT, ONLY("\"auto\",\"default\",\"none\",")},
    {"parallel_tool_calls", CHAT, BY(read_parallel)},
    {"store", CHAT, BY(no_matter)}, /* nothing is ever stored of a request */
    {"service_tier", CHAT, BY(no_matter)},
    {"reasoning_effort", CHAT, BY(no_matter)},
    {"verbosity", CHAT, BY(no_matter)},
    {"prompt_cache_key", BOTH, BY(no_matter)},
    {"safety_identifier", BOTH, BY(no_matter)},
    {"modalities", CHAT, ONLY("[\"text\"],")},
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
		if ((fields[i].where & where) && !(r->field = &fields[i])->read(r, fields[i].name))
			return false;
	const struct api_request* q = r->to;
	if (q->grammar && q->ignore_eos && q->n_end_tokens == 0)
		return api_refuse(r->error, "ignore_eos", "invalid_value",
		                  "'ignore_eos' beside a form of the answer needs 'stop_token_ids', which end it.");
	if (q->n * (q->chat ? 1 : q->n_prompts) > API_MAX_CHOICES)
		return api_refuse(r->error, "n", "invalid_value", "More than %d choices are asked for.",
		                  API_MAX_CHOICES);
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
	free(q->echoed);
	grammar_free(q->grammar);
	free(q->tool_name);
	memset(q, 0, sizeof *q);
}
