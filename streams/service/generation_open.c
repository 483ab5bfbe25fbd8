/* Makes a generation from a request: reads its body, encodes its prompts and makes its jobs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/decode/engine.h"
#include "core/text/chat_template.h"
#include "streams/service/generation.h"
#include "streams/service/infill.h"

enum { PROMPT_END = 8 }; /* tokens of a prompt that may open reasoning */

/* Clients send names of other servers' models. This server has one model, which answers to all names. */
static bool check_model(struct http_call* c, const struct api_request* q) {
	if (!q->model || !c->server->option.strict_model || server_is_model(c->server, q->model))
		return true;
	api_fail(&c->error, 404, "model_not_found",
	         "The model '%.120s' is not served here; '%.120s' is (and --strict-model is set).", q->model,
	         c->server->option.work.model_name);
	snprintf(c->error.param, sizeof c->error.param, "model");
	return false;
}

static bool check_fields(struct http_call* c, struct api_request* q) {
	if (q->ignored.size && c->server->option.strict_fields) {
		q->ignored.data[strcspn(q->ignored.data, ",")] = '\0';
		return api_unknown(&c->error, q->ignored.data);
	}
	return true;
}

static bool check_echo(struct http_call* c, const struct api_request* q) {
	const struct backend* backend = c->server->engine->backend;
	return !q->echo || !q->logprobs || backend->prefill_is_exact ||
	       api_refuse(&c->error, "echo", "unsupported_field",
	                  "'echo' together with 'logprobs' is not supported on the backend %s.", backend->name);
}

const char* generation_tools(const struct generation* g) {
	return g->request.allowed_tools ? g->request.allowed_tools : g->request.parts.tools;
}

static void find_syntax(struct http_call* c, struct generation* g) {
	const struct model* m = c->server->model;
	const char* template = model_chat_template(m, true);
	g->syntax = template && !chat_parts_list_tools(&g->request.parts, m) ? tool_syntax_of(template) : NULL;
	g->syntax = g->syntax ? g->syntax : &tool_syntax_generic;
}

/* If the answer must call a tool, the prompt ends with the beginning of the call. */
static bool encode_begin(struct http_call* c, struct generation* g) {
	const struct model* m = c->server->model;
	tool_syntax_begin(g->syntax, g->request.tool_name, &g->begun);
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
	if (g->request.tool_choice)
		find_syntax(c, g);
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

static const char* prompt_field(const struct generation* g) {
	return g->request.chat ? "messages" : g->request.embedding ? "input" : "prompt";
}

static bool encode_text(struct http_call* c, struct generation* g, int i) {
	const struct tokenizer* t = c->server->model->tokenizer;
	const struct api_prompt* p = &g->request.prompt[i];
	struct token_list* list = &g->prompt[i];
	const int32_t bos = tokenizer_bos(t);
	bool good = true;
	if (g->request.suffix)
		return infill_encode(g, &g->request, list, &c->error);
	for (int k = 0; k < p->n && k < list->limit && good; k++) /* given as ids already */
		good = token_list_append(list, p->id[k]);
	if (!p->id && p->text_size)
		good = tokenizer_encode(t, p->text, p->text_size, TOKENIZE_ADD_SPECIAL, list);
	else if (!p->id && bos >= 0)
		good = token_list_append(list, bos);
	if (!good)
		return api_no_memory(&c->error);
	return list->n > 0 ||
	       api_refuse(
	           &c->error, prompt_field(g), "invalid_value",
	           "'%s' is empty, and the model has no token that begins a text: send at least one character.",
	           prompt_field(g));
}

static bool encode_prompts(struct http_call* c, struct generation* g) {
	const int n_prompts = g->request.chat ? 1 : g->request.n_prompts;
	g->prompt = calloc((size_t)n_prompts, sizeof *g->prompt);
	if (!g->prompt)
		return api_no_memory(&c->error);
	g->n_prompts = n_prompts;
	for (int i = 0; i < n_prompts; i++) /* one more than fits shows that the prompt is too long */
		g->prompt[i].limit = c->server->context + 1;
	bool good = encode_prediction(c, g);
	for (int i = 0; i < g->n_prompts && good; i++)
		good = g->request.chat ? encode_chat(c, g) : encode_text(c, g, i);
	const bool written = !g->request.prompt_only && !g->request.embedding;
	for (int i = 0; i < g->n_prompts && good; i++) {
		const int context = c->server->context, n = g->prompt[i].n;
		if (n > context)
			good = api_refuse(&c->error, prompt_field(g), "context_length_exceeded",
			                  "This model's maximum context length is %d tokens; the prompt has more. Send a "
			                  "shorter one, or serve with a larger --context.",
			                  context);
		else if (n > context - written)
			good = api_refuse(&c->error, prompt_field(g), "context_length_exceeded",
			                  "This model's maximum context length is %d tokens; the prompt has %d. Send a "
			                  "shorter one, or serve with a larger --context.",
			                  context, n);
	}
	return good;
}

/* A limit beyond the context becomes the context's limit. The answer then reports that its length ended
 * it. */
static int limit_of(const struct generation* g, const struct swiftlet_request* r) {
	const int room = g->server->context - r->n_prompt;
	if (g->request.prompt_only || g->request.embedding)
		return 1;
	return r->max_tokens == 0 || r->max_tokens > room ? room : r->max_tokens;
}

/* Fills in the server's defaults for fields that the request leaves out. */
static void fill_sampling(const struct generation* g, struct swiftlet_request* r) {
	const struct api_request* q = &g->request;
	const struct server_options* o = &g->server->option;
	if (!q->has_temperature && o->has_temperature)
		r->temperature = o->work.session.sampling.temperature;
	if (!q->has_top_p)
		r->top_p = o->work.session.sampling.top_p;
	if (!q->has_top_k)
		r->top_k = o->work.session.sampling.top_k;
	if (!q->has_min_p)
		r->min_p = o->work.session.sampling.min_p;
}

static void fill_job(struct generation* g, struct choice* c) {
	const struct api_request* q = &g->request;
	const int prompt = c->index / q->n;
	struct swiftlet_request* r = &c->job.request;
	*r = q->ask;
	r->prompt = g->prompt[prompt].id;
	r->n_prompt = g->prompt[prompt].n;
	r->max_tokens = limit_of(g, r);
	fill_sampling(g, r);
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

size_t characters(const char* text, size_t size) {
	size_t n = 0;
	for (size_t i = 0; i < size; i++)
		n += ((unsigned char)text[i] & 0xc0) != 0x80;
	return n;
}

/* The text of a completion with echo begins with its prompt, as it was given or as its tokens decode. */
static bool echo_prompt(struct generation* g, struct choice* c) {
	const int i = c->index / g->request.n;
	const struct api_prompt* p = &g->request.prompt[i];
	const struct tokenizer* t = g->server->model->tokenizer;
	size_t size = p->text_size;
	char* decoded = p->text ? NULL : tokenizer_decode(t, g->prompt[i].id, g->prompt[i].n, false, true, &size);
	if (!p->text && !decoded)
		return false;
	text_add(&c->reader.content, p->text ? p->text : decoded, size);
	const size_t echoed = characters(p->text ? p->text : decoded, size);
	free(decoded);
	if (g->request.stream) {
		g->formatter->part(c, NULL);
		text_clear(&c->reader.content);
	}
	size_t pieces = 0; /* the first token's leading space may not be part of the text */
	for (int k = 0; k < g->prompt[i].n; k++) {
		char piece[512];
		const size_t n = tokenizer_piece(t, g->prompt[i].id[k], false, piece, sizeof piece);
		pieces += characters(piece, n < sizeof piece ? n : sizeof piece);
	}
	c->echoed = echoed;
	c->unseen = pieces > echoed ? pieces - echoed : 0;
	return true;
}

/* Sets the state that the answer continues: a forced call, or open reasoning. */
static void open_reader(struct generation* g, struct choice* c) {
	const struct model* m = g->server->model;
	const struct api_request* q = &g->request;
	const char* template = q->chat ? model_chat_template(m, q->parts.tools != NULL) : NULL;
	const enum reasoning_style written = reasoning_style_of(template);
	const enum reasoning_style style =
	    g->begun.size && written != REASONING_CHANNELS ? REASONING_NONE : written;
	bool thinking = false;
	if (style != REASONING_NONE && !g->begun.size && (!q->grammar || g->bound)) {
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
	tool_reader_open(&c->reader.tools, generation_tools(g), q->one_tool_call,
	                 q->ask.seed ^ name ^ (uint64_t)c->index << 32);
	c->reader.tools.bound = q->schema != NULL;
	c->reader.tools.tagged = q->schema && !g->syntax->at_beginning;
	c->reader.tools.checks = &g->checks;
	c->reader.tools.enforced = !g->bound ? NULL : g->syntax->at_beginning ? "" : g->syntax->trigger;
	answer_reader_add(&c->reader, g->begun.data, g->begun.size);
	c->reader.taken = 0;
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
		choice->job.group = &g->jobs;
		open_reader(g, choice);
		if (g->request.stream)
			g->formatter->first(choice);
		if (g->request.echo && !echo_prompt(g, choice))
			return api_no_memory(&c->error);
	}
	return true;
}

/* Names the request. Without a seed of its own it gets the server's, or a random one. */
static bool name_generation(struct http_call* c, struct generation* g) {
	const struct server_options* o = &c->server->option;
	uint64_t random[3];
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
		return api_fail(&c->error, 500, NULL, "The system gave no random number for the answer's id.");
	if (!g->request.has_seed)
		g->request.ask.seed = o->has_seed ? o->work.session.sampling.seed : random[2];
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
	g->request.literal_schemas = c->server->option.literal_schemas;
	g->request.variables = c->server->option.variables;
	const bool read = g->formatter->read(c->body.data, c->body.size, vocab, &g->request, &c->error);
	text_free(&c->body);
	const char* detail = call_header(c, "Swiftlet-Detail");
	g->detail = detail && strcmp(detail, "tokens") == 0;
	if (read && check_fields(c, &g->request) && check_model(c, &g->request) && check_echo(c, &g->request) &&
	    name_generation(c, g) && encode_prompts(c, g) && tools_bind(g, &c->error) && make_choices(c, g)) {
		server_note_ignored(c->server, g->request.ignored.data);
		c->ignored = text_take(&g->request.ignored);
		return g;
	}
	generation_let_go(g);
	return NULL;
}
