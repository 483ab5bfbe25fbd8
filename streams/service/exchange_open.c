/* From a request to an exchange: its body read, its prompts as tokens, its jobs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/decode/engine.h"
#include "core/text/chat_template.h"
#include "streams/service/exchange.h"

enum { PROMPT_END = 8 }; /* tokens of a prompt that may open a thought */

static bool check_model(struct call* c, const struct api_request* q) {
	const char* name = c->server->option.work.model_name;
	if (!q->model || strcmp(q->model, name) == 0 || strcmp(q->model, c->server->model->name) == 0)
		return true;
	api_fail(&c->error, 404, "model_not_found",
	         "The model '%.120s' does not exist; this server has '%.120s'.", q->model, name);
	snprintf(c->error.param, sizeof c->error.param, "model");
	return false;
}

static bool check_echo(struct call* c, const struct api_request* q) {
	const struct backend* backend = c->server->engine->backend;
	return !q->echo || !q->logprobs || backend->prefill_is_exact ||
	       api_refuse(&c->error, "echo", "unsupported_field",
	                  "'echo' together with 'logprobs' is not supported on the backend %s.", backend->name);
}

/* An answer that must call a tool begins with a call, which the prompt then ends with. */
static bool encode_begin(struct call* c, struct exchange* x) {
	const struct model* m = c->server->model;
	if (!tool_call_begin(model_chat_template(m, true), x->request.tool_name, &x->begun))
		return api_refuse(
		    &c->error, "tool_choice", "unsupported_field",
		    "The model's chat template says nothing of tool calls: 'tool_choice' can be \"auto\" or "
		    "\"none\".");
	return (!x->begun.failed &&
	        tokenizer_encode(m->tokenizer, x->begun.data, x->begun.size, 0, &x->prompt[0])) ||
	       api_no_memory(&c->error);
}

static bool encode_chat(struct call* c, struct exchange* x) {
	const struct model* m = c->server->model;
	struct error e;
	if (!chat_parts_encode(&x->request.parts, m, &x->prompt[0], &e))
		return api_refuse(&c->error, "messages",
		                  model_chat_template(m, false) ? "chat_template" : "no_chat_template", "%.390s",
		                  e.message);
	return x->request.tool_choice != TOOLS_REQUIRED || encode_begin(c, x);
}

static bool encode_prediction(struct call* c, struct exchange* x) {
	const char* text = x->request.prediction;
	return !text || !*text ||
	       tokenizer_encode(c->server->model->tokenizer, text, strlen(text), TOKENIZE_NO_SPECIAL,
	                        &x->expected) ||
	       api_no_memory(&c->error);
}

static bool encode_text(struct call* c, struct exchange* x, int i) {
	const struct tokenizer* t = c->server->model->tokenizer;
	const struct api_prompt* p = &x->request.prompt[i];
	struct token_list* list = &x->prompt[i];
	const int32_t bos = tokenizer_bos(t);
	bool good = true;
	for (int k = 0; k < p->n && good; k++) /* given as ids already */
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

static bool encode_prompts(struct call* c, struct exchange* x) {
	const int n_prompts = x->request.chat ? 1 : x->request.n_prompts;
	x->prompt = calloc((size_t)n_prompts, sizeof *x->prompt);
	if (!x->prompt)
		return api_no_memory(&c->error);
	x->n_prompts = n_prompts;
	bool good = encode_prediction(c, x);
	for (int i = 0; i < x->n_prompts && good; i++)
		good = x->request.chat ? encode_chat(c, x) : encode_text(c, x, i);
	for (int i = 0; i < x->n_prompts && good; i++) {
		const int context = c->server->context, n = x->prompt[i].n, more = x->request.ask.max_tokens;
		if (n >= context || (more > 0 && more > context - n))
			good = api_refuse(&c->error, x->request.chat ? "messages" : "prompt", "context_length_exceeded",
			                  "This model's context holds %d tokens; the prompt has %d and %d more were "
			                  "asked for.",
			                  context, n, more > 0 ? more : 1);
	}
	return good;
}

static void fill_job(struct exchange* x, struct choice* c) {
	const struct api_request* q = &x->request;
	const int prompt = c->index / q->n;
	struct swiftlet_request* r = &c->job.request;
	*r = q->ask;
	r->prompt = x->prompt[prompt].id;
	r->n_prompt = x->prompt[prompt].n;
	if (r->max_tokens == 0)
		r->max_tokens = x->server->context - r->n_prompt;
	r->stop = (const char* const*)q->stop;
	r->n_stop = q->n_stop;
	r->end_token = q->end_token;
	r->bias = q->bias;
	r->n_bias = q->n_bias;
	r->sequence = (uint64_t)(c->index % q->n);
	r->logprobs = q->logprobs ? (q->top_logprobs > 0 ? q->top_logprobs : 1) : 0;
	r->prompt_logprobs = q->echo && q->logprobs;
	r->task = q->task;
	r->expected = x->expected.id;
	r->n_expected = x->expected.n;
	r->grammar = q->grammar;
	c->job.calls = &exchange_calls;
	c->job.user = c;
}

/* A completion's text begins with its prompt's, as it was given or as its tokens read. */
static bool echo_prompt(struct exchange* x, struct choice* c) {
	const int i = c->index / x->request.n;
	const struct api_prompt* p = &x->request.prompt[i];
	const struct tokenizer* t = x->server->model->tokenizer;
	size_t size = p->text_size;
	char* decoded = p->text ? NULL : tokenizer_decode(t, x->prompt[i].id, x->prompt[i].n, false, true, &size);
	if (!p->text && !decoded)
		return false;
	text_add(&c->reader.content, p->text ? p->text : decoded, size);
	free(decoded);
	if (x->request.stream) {
		x->voice->part(c, NULL);
		text_clear(&c->reader.content);
	}
	size_t pieces = 0; /* the first one's space may not be the text's */
	for (int k = 0; k < x->prompt[i].n; k++)
		pieces += tokenizer_piece(t, x->prompt[i].id[k], false, NULL, 0);
	c->echoed = size;
	c->unseen = pieces > size ? pieces - size : 0;
	return true;
}

/* What an answer goes on from: a call that it was made to begin with, or a thought. */
static void open_reader(struct exchange* x, struct choice* c) {
	const struct model* m = x->server->model;
	const struct api_request* q = &x->request;
	const char* template = q->chat ? model_chat_template(m, q->parts.tools != NULL) : NULL;
	const enum reasoning_style style = x->begun.size ? REASONING_NONE : reasoning_style_of(template);
	bool thinking = false;
	if (style != REASONING_NONE && (!q->grammar || x->bound)) {
		const struct token_list* prompt = &x->prompt[0];
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
	memcpy(&name, x->id + strlen(x->voice->id), sizeof name);
	tool_reader_open(&c->reader.tools, q->parts.tools, q->one_tool_call,
	                 q->ask.seed ^ name ^ (uint64_t)c->index << 32);
	tool_reader_add(&c->reader.tools, x->begun.data, x->begun.size);
}

static bool make_choices(struct call* c, struct exchange* x) {
	const int n = x->n_prompts * x->request.n;
	x->choice = calloc((size_t)n, sizeof *x->choice);
	if (!x->choice)
		return api_no_memory(&c->error);
	x->n = n;
	x->usage.prompt_tokens = x->prompt[0].n; /* as far as is known before the end */
	for (int i = 0; i < n; i++) {
		struct choice* choice = &x->choice[i];
		choice->exchange = x;
		choice->index = i;
		fill_job(x, choice);
		if (x->request.embedding) {
			choice->embedding = calloc((size_t)swiftlet_model_dim(c->server->model), sizeof(float));
			choice->job.request.embedding = choice->embedding;
			if (!choice->embedding)
				return api_no_memory(&c->error);
		}
		choice->job.owner = c->owner;
		open_reader(x, choice);
		choice->job.next = i + 1 < n ? &x->choice[i + 1].job : NULL;
		if (x->request.stream)
			x->voice->first(choice);
		if (x->request.echo && !echo_prompt(x, choice))
			return api_no_memory(&c->error);
	}
	return true;
}

/* Its name, and a seed where none was given. */
static bool name_exchange(struct call* c, struct exchange* x) {
	uint64_t random[3];
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
		return api_fail(&c->error, 500, NULL, "No random name could be had.");
	if (!x->request.has_seed)
		x->request.ask.seed = random[2];
	snprintf(x->id, sizeof x->id, "%s%016llx%08llx", x->voice->id, (unsigned long long)random[0],
	         (unsigned long long)(random[1] & 0xffffffff));
	x->created = time(NULL);
	return true;
}

struct exchange* exchange_open(struct call* c) {
	struct exchange* x = calloc(1, sizeof *x);
	if (!x) {
		api_no_memory(&c->error);
		return NULL;
	}
	pthread_mutex_init(&x->lock, NULL);
	atomic_init(&x->holders, 1);
	x->server = c->server;
	x->voice = c->route->voice;
	const int vocab = c->server->model->weights.shape.vocab;
	const bool read = x->voice->read(c->body.data, c->body.size, vocab, &x->request, &c->error);
	text_free(&c->body);
	const char* detail = call_header(c, "Swiftlet-Detail");
	x->detail = detail && strcmp(detail, "tokens") == 0;
	if (read && check_model(c, &x->request) && check_echo(c, &x->request) && name_exchange(c, x) &&
	    encode_prompts(c, x) && tools_bind(x, &c->error) && make_choices(c, x))
		return x;
	exchange_let_go(x);
	return NULL;
}
