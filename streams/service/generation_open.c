/* From a request to a generation: its body read, its prompts as tokens, its jobs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/decode/engine.h"
#include "core/text/chat_template.h"
#include "streams/service/generation.h"

enum { PROMPT_END = 8 }; /* tokens of a prompt that may open a thought */

static bool check_model(struct http_call* c, const struct api_request* q) {
	const char* name = c->server->option.work.model_name;
	if (!q->model || strcmp(q->model, name) == 0 || strcmp(q->model, c->server->model->name) == 0)
		return true;
	api_fail(&c->error, 404, "model_not_found",
	         "The model '%.120s' does not exist; this server has '%.120s'.", q->model, name);
	snprintf(c->error.param, sizeof c->error.param, "model");
	return false;
}

static bool check_echo(struct http_call* c, const struct api_request* q) {
	const struct backend* backend = c->server->engine->backend;
	return !q->echo || !q->logprobs || backend->prefill_is_exact ||
	       api_refuse(&c->error, "echo", "unsupported_field",
	                  "'echo' together with 'logprobs' is not supported on the backend %s.", backend->name);
}

/* An answer that must call a tool begins with a call, which the prompt then ends with. */
static bool encode_begin(struct http_call* c, struct generation* g) {
	const struct model* m = c->server->model;
	if (!tool_call_begin(model_chat_template(m, true), g->request.tool_name, &g->begun))
		return api_refuse(
		    &c->error, "tool_choice", "unsupported_field",
		    "The model's chat template says nothing of tool calls: 'tool_choice' can be \"auto\" or "
		    "\"none\".");
	return (!g->begun.failed &&
	        tokenizer_encode(m->tokenizer, g->begun.data, g->begun.size, 0, &g->prompt[0])) ||
	       api_no_memory(&c->error);
}

static bool encode_chat(struct http_call* c, struct generation* g) {
	const struct model* m = c->server->model;
	struct error e;
	if (!chat_parts_encode(&g->request.parts, m, &g->prompt[0], &e))
		return api_refuse(&c->error, "messages",
		                  model_chat_template(m, false) ? "chat_template" : "no_chat_template", "%.390s",
		                  e.message);
	return g->request.tool_choice != TOOLS_REQUIRED || encode_begin(c, g);
}

static bool encode_prediction(struct http_call* c, struct generation* g) {
	const char* text = g->request.prediction;
	g->expected.limit = c->server->context;
	return !text || !*text ||
	       tokenizer_encode(c->server->model->tokenizer, text, strlen(text), TOKENIZE_NO_SPECIAL,
	                        &g->expected) ||
	       api_no_memory(&c->error);
}

static bool encode_text(struct http_call* c, struct generation* g, int i) {
	const struct tokenizer* t = c->server->model->tokenizer;
	const struct api_prompt* p = &g->request.prompt[i];
	struct token_list* list = &g->prompt[i];
	const int32_t bos = tokenizer_bos(t);
	bool good = true;
	for (int k = 0; k < p->n && k < list->limit && good; k++) /* given as ids already */
		good = token_list_append(list, p->id[k]);
	if (!p->id && p->text_size)
		good = tokenizer_encode(t, p->text, p->text_size, TOKENIZE_ADD_SPECIAL, list);
	else if (!p->id && bos >= 0)
		good = token_list_append(list, bos);
	if (!good)
		return api_no_memory(&c->error);
	return list->n > 0 || api_refuse(&c->error, "prompt", "invalid_value",
	                                 "'prompt' is empty and the model has no token to begin with.");
}

static bool encode_prompts(struct http_call* c, struct generation* g) {
	const int n_prompts = g->request.chat ? 1 : g->request.n_prompts;
	g->prompt = calloc((size_t)n_prompts, sizeof *g->prompt);
	if (!g->prompt)
		return api_no_memory(&c->error);
	g->n_prompts = n_prompts;
	for (int i = 0; i < n_prompts; i++) /* one more than can be taken tells that it is too long */
		g->prompt[i].limit = c->server->context + 1;
	bool good = encode_prediction(c, g);
	for (int i = 0; i < g->n_prompts && good; i++)
		good = g->request.chat ? encode_chat(c, g) : encode_text(c, g, i);
	for (int i = 0; i < g->n_prompts && good; i++) {
		const int context = c->server->context, n = g->prompt[i].n, more = g->request.ask.max_tokens;
		if (n > context)
			good = api_refuse(&c->error, g->request.chat ? "messages" : "prompt", "context_length_exceeded",
			                  "This model's context holds %d tokens; the prompt has more.", context);
		else if (n >= context || (more > 0 && more > context - n))
			good = api_refuse(&c->error, g->request.chat ? "messages" : "prompt", "context_length_exceeded",
			                  "This model's context holds %d tokens; the prompt has %d and %d more were "
			                  "asked for.",
			                  context, n, more > 0 ? more : 1);
	}
	return good;
}

static void fill_job(struct generation* g, struct choice* c) {
	const struct api_request* q = &g->request;
	const int prompt = c->index / q->n;
	struct swiftlet_request* r = &c->job.request;
	*r = q->ask;
	r->prompt = g->prompt[prompt].id;
	r->n_prompt = g->prompt[prompt].n;
	if (r->max_tokens == 0)
		r->max_tokens = g->server->context - r->n_prompt;
	r->stop = (const char* const*)q->stop;
	r->n_stop = q->n_stop;
	r->end_token = q->end_token;
	r->bias = q->bias;
	r->n_bias = q->n_bias;
	r->sequence = (uint64_t)(c->index % q->n);
	r->logprobs = q->logprobs ? (q->top_logprobs > 0 ? q->top_logprobs : 1) : 0;
	r->prompt_logprobs = q->echo && q->logprobs;
	r->task = q->task;
	r->expected = g->expected.id;
	r->n_expected = g->expected.n;
	r->grammar = q->grammar;
	c->job.calls = &generation_calls;
	c->job.user = c;
}

/* A completion's text begins with its prompt's, as it was given or as its tokens read. */
static bool echo_prompt(struct generation* g, struct choice* c) {
	const int i = c->index / g->request.n;
	const struct api_prompt* p = &g->request.prompt[i];
	const struct tokenizer* t = g->server->model->tokenizer;
	size_t size = p->text_size;
	char* decoded = p->text ? NULL : tokenizer_decode(t, g->prompt[i].id, g->prompt[i].n, false, true, &size);
	if (!p->text && !decoded)
		return false;
	text_add(&c->reader.content, p->text ? p->text : decoded, size);
	free(decoded);
	if (g->request.stream) {
		g->formatter->part(c, NULL);
		text_clear(&c->reader.content);
	}
	size_t pieces = 0; /* the first one's space may not be the text's */
	for (int k = 0; k < g->prompt[i].n; k++)
		pieces += tokenizer_piece(t, g->prompt[i].id[k], false, NULL, 0);
	c->echoed = size;
	c->unseen = pieces > size ? pieces - size : 0;
	return true;
}

/* What an answer goes on from: a call that it was made to begin with, or a thought. */
static void open_reader(struct generation* g, struct choice* c) {
	const struct model* m = g->server->model;
	const struct api_request* q = &g->request;
	const char* template = q->chat ? model_chat_template(m, q->parts.tools != NULL) : NULL;
	const enum reasoning_style style = g->begun.size ? REASONING_NONE : reasoning_style_of(template);
	bool thinking = false;
	if (style != REASONING_NONE && (!q->grammar || g->bound)) {
		const struct token_list* prompt = &g->prompt[0];
		const int n = prompt->n < PROMPT_END ? prompt->n : PROMPT_END;
		size_t size = 0;
		char* end = tokenizer_decode(m->tokenizer, prompt->id + prompt->n - n, n, true, false, &size);
		thinking = end && reasoning_begun(style, end, size);
		free(end);
	}
	answer_reader_open(&c->reader, style, thinking);
	if (!q->tool_choice)
		return;
	uint64_t name = 0;
	memcpy(&name, g->id + strlen(g->formatter->id), sizeof name);
	tool_reader_open(&c->reader.tools, q->parts.tools, q->one_tool_call,
	                 q->ask.seed ^ name ^ (uint64_t)c->index << 32);
	tool_reader_add(&c->reader.tools, g->begun.data, g->begun.size);
}

static bool make_choices(struct http_call* c, struct generation* g) {
	const int n = g->n_prompts * g->request.n;
	g->choice = calloc((size_t)n, sizeof *g->choice);
	if (!g->choice)
		return api_no_memory(&c->error);
	g->n = n;
	g->usage.prompt_tokens = g->prompt[0].n; /* as far as is known before the end */
	for (int i = 0; i < n; i++) {
		struct choice* choice = &g->choice[i];
		choice->generation = g;
		choice->index = i;
		fill_job(g, choice);
		if (g->request.embedding) {
			choice->embedding = calloc((size_t)swiftlet_model_dim(c->server->model), sizeof(float));
			choice->job.request.embedding = choice->embedding;
			if (!choice->embedding)
				return api_no_memory(&c->error);
		}
		choice->job.tenant = c->tenant;
		open_reader(g, choice);
		if (g->request.stream)
			g->formatter->first(choice);
		if (g->request.echo && !echo_prompt(g, choice))
			return api_no_memory(&c->error);
	}
	return true;
}

/* Its name, and a seed where none was given. */
static bool name_generation(struct http_call* c, struct generation* g) {
	uint64_t random[3];
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
		return api_fail(&c->error, 500, NULL, "No random name could be had.");
	if (!g->request.has_seed)
		g->request.ask.seed = random[2];
	snprintf(g->id, sizeof g->id, "%s%016llx%08llx", g->formatter->id, (unsigned long long)random[0],
	         (unsigned long long)(random[1] & 0xffffffff));
	g->created = time(NULL);
	return true;
}

struct generation* generation_open(struct http_call* c) {
	struct generation* g = calloc(1, sizeof *g);
	if (!g) {
		api_no_memory(&c->error);
		return NULL;
	}
	pthread_mutex_init(&g->lock, NULL);
	atomic_init(&g->holders, 1);
	g->server = c->server;
	g->formatter = c->route->formatter;
	const int vocab = c->server->model->weights.shape.vocab;
	const bool read = g->formatter->read(c->body.data, c->body.size, vocab, &g->request, &c->error);
	text_free(&c->body);
	const char* detail = call_header(c, "Swiftlet-Detail");
	g->detail = detail && strcmp(detail, "tokens") == 0;
	if (read && check_model(c, &g->request) && check_echo(c, &g->request) && name_generation(c, g) &&
	    encode_prompts(c, g) && tools_bind(g, &c->error) && make_choices(c, g))
		return g;
	generation_let_go(g);
	return NULL;
}
