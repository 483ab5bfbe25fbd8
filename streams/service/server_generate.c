/* Completions and chat: from a request to jobs, and from steps to an answer.
 *
 * An exchange is shared by the connection's thread and the scheduler's; its lock is held for moments. It
 * lives until both have let go of it. The scheduler's thread writes what a step brought and wakes the
 * connection if it sleeps; the connection sends what is there and sleeps when nothing is. */
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "core/text/chat_template.h"
#include "optimizer/engine.h"
#include "streams/service/openai.h"
#include "streams/service/openai_reply.h"
#include "streams/service/server_internal.h"

struct choice { /* one generation of an exchange */
	struct exchange* exchange;
	int index;
	struct job job;
	struct text text; /* whole answers */
	struct reply_logprobs logprobs;
	struct swiftlet_figures figures;
	bool ended, generated;
};

struct exchange {
	pthread_mutex_t lock;
	atomic_int holders;
	struct server* server;
	struct api_request request;
	char id[48];
	time_t created;
	int32_t** prompt; /* (n_prompts) ids */
	int* prompt_n;
	int n_prompts;
	int32_t* expected; /* (n_expected) the prediction's ids */
	int n_expected;
	struct choice* choice; /* (n) */
	int n, ended;
	bool detail; /* the page wants to know which tokens were drafted */

	/* under the lock */
	struct MHD_Connection* connection; /* NULL: gone */
	int socket;
	bool asleep, gone, finished;
	struct text out; /* streams: what is not yet sent; else the body */
	size_t sent;
	struct api_error error; /* status != 0: what ended it */
};

/* ---- lives -------------------------------------------------------------------------------- */

static void let_go(struct exchange* x) {
	if (atomic_fetch_sub(&x->holders, 1) != 1)
		return;
	for (int i = 0; i < x->n; i++) {
		text_free(&x->choice[i].text);
		reply_logprobs_free(&x->choice[i].logprobs);
	}
	for (int i = 0; i < x->n_prompts; i++)
		free(x->prompt[i]);
	free(x->prompt);
	free(x->prompt_n);
	free(x->expected);
	free(x->choice);
	text_free(&x->out);
	api_request_free(&x->request);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

static void wake(struct exchange* x) { /* with the lock held */
	if (x->asleep && x->connection) {
		x->asleep = false;
		MHD_resume_connection(x->connection);
	}
}

static struct reply_head head_of(const struct exchange* x) {
	return (struct reply_head){.chat = x->request.chat,
	                           .id = x->id,
	                           .created = (int64_t)x->created,
	                           .model = x->server->option.name};
}

/* ---- the scheduler's side ----------------------------------------------------------------- */

/* A sleeping connection is not watched by MHD; whether its client has hung up, the socket tells. */
static bool on_gone(void* user) {
	struct exchange* x = ((struct choice*)user)->exchange;
	pthread_mutex_lock(&x->lock);
	if (!x->gone && x->connection) {
		struct pollfd p = {.fd = x->socket, .events = POLLRDHUP};
		if (poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)))
			x->gone = true;
	}
	const bool gone = x->gone;
	pthread_mutex_unlock(&x->lock);
	return gone;
}

static void add_logprobs(struct choice* c, struct reply_logprobs* to, const struct swiftlet_step* step) {
	const struct exchange* x = c->exchange;
	for (int i = 0; i < step->n; i++)
		reply_logprobs_add(to, x->request.chat, x->server->model->tokenizer, &step->token[i],
		                   x->request.top_logprobs);
}

static void stream_step(struct choice* c, const struct swiftlet_step* step) {
	struct exchange* x = c->exchange;
	const struct reply_head head = head_of(x);
	struct reply_logprobs logprobs = {.offset = c->logprobs.offset};
	struct reply_choice part = {.index = c->index, .text = step->text, .size = step->text_size};
	struct text detail = {0};
	if (x->request.logprobs) {
		add_logprobs(c, &logprobs, step);
		c->logprobs.offset = logprobs.offset;
		part.logprobs = &logprobs;
	}
	if (x->detail) {
		text_put(&detail, "{\"tokens\": ");
		reply_tokens(&detail, x->server->model->tokenizer, step);
		text_put(&detail, "}");
	}
	/* text may be held back for a stop string or an unfinished character: then there is nothing to say */
	if (step->text_size > 0 || (step->n > 0 && (x->detail || x->request.logprobs)))
		reply_part(&x->out, &head, &part, detail.size ? detail.data : NULL);
	reply_logprobs_free(&logprobs);
	text_free(&detail);
}

static void on_step(void* user, const struct swiftlet_step* step) {
	struct choice* c = user;
	struct exchange* x = c->exchange;
	pthread_mutex_lock(&x->lock);
	if (!x->gone && x->request.stream) {
		stream_step(c, step);
		wake(x);
	} else if (!x->gone) {
		text_add(&c->text, step->text ? step->text : "", step->text_size);
		if (x->request.logprobs)
			add_logprobs(c, &c->logprobs, step);
	}
	pthread_mutex_unlock(&x->lock);
}

static void usage_of(const struct exchange* x, struct reply_usage* u, const struct swiftlet_figures** list) {
	*u = (struct reply_usage){.figures = list, .n = x->n, .method = x->server->option.session.method};
	for (int i = 0; i < x->n; i++) {
		list[i] = &x->choice[i].figures;
		u->completion_tokens += list[i]->tokens;
		/* OpenAI counts a prompt once, however many choices it is given */
		if (i % x->request.n == 0) {
			u->prompt_tokens += list[i]->prompt_tokens;
			u->cached_tokens += list[i]->cached_tokens;
		}
	}
}

static void put_error(struct exchange* x) {
	char* text = api_error_text(&x->error);
	if (text)
		text_print(&x->out, "data: %.*s\n\n", (int)strcspn(text, "\n"), text);
	free(text);
}

static void finish_stream(struct exchange* x, const struct reply_usage* u) {
	const struct reply_head head = head_of(x);
	if (x->error.status)
		put_error(x);
	else if (x->request.include_usage)
		reply_stream_usage(&x->out, &head, u);
	reply_done(&x->out);
}

static void finish_whole(struct exchange* x, const struct reply_usage* u) {
	struct reply_choice* list = calloc((size_t)x->n, sizeof *list);
	const struct reply_head head = head_of(x);
	if (!list) {
		x->out.failed = true;
		return;
	}
	for (int i = 0; i < x->n; i++) {
		const struct choice* c = &x->choice[i];
		list[i] = (struct reply_choice){.index = i,
		                                .text = c->text.data,
		                                .size = c->text.size,
		                                .logprobs = x->request.logprobs ? &c->logprobs : NULL,
		                                .stop = c->figures.stop};
	}
	reply_whole(&x->out, &head, list, x->n, u);
	free(list);
}

static void finish(struct exchange* x) {
	const struct swiftlet_figures** list = calloc((size_t)x->n, sizeof *list);
	struct reply_usage u;
	if (list) {
		usage_of(x, &u, list);
		if (x->request.stream)
			finish_stream(x, &u);
		else if (!x->error.status)
			finish_whole(x, &u);
	}
	free(list);
	if (!list || x->out.failed)
		api_fail(&x->error, 500, "server_error", NULL, "The server is out of memory.");
	x->finished = true;
	wake(x);
}

/* What the client is told of a problem says nothing of the machine; the log has the sentence. */
static void note_problem(struct exchange* x, const char* problem) {
	if (strcmp(problem, "cancelled") == 0) {
		x->gone = true;
		return;
	}
	if (strcmp(problem, "stopping") == 0) {
		api_fail(&x->error, 503, "server_error", "stopping", "The server is stopping.");
		return;
	}
	fprintf(stderr, "swiftlet: a generation failed: %s\n", problem);
	api_fail(&x->error, 500, "server_error", NULL, "The generation failed.");
}

static void on_end(void* user, const struct swiftlet_figures* figures, const char* problem) {
	struct choice* c = user;
	struct exchange* x = c->exchange;
	pthread_mutex_lock(&x->lock);
	if (problem)
		note_problem(x, problem);
	if (figures)
		c->figures = *figures;
	else
		c->figures.search_state = "off";
	if (x->request.stream && !x->gone && !problem) {
		const struct reply_head head = head_of(x);
		struct text detail = {0};
		if (x->detail)
			reply_figures(&detail, &c->figures, x->server->option.session.method);
		reply_last(&x->out, &head, c->index, c->figures.stop, detail.size ? detail.data : NULL);
		text_free(&detail);
	}
	if (++x->ended == x->n)
		finish(x);
	else if (x->request.stream)
		wake(x);
	pthread_mutex_unlock(&x->lock);
	let_go(x);
}

static const struct job_calls job_calls = {.gone = on_gone, .step = on_step, .end = on_end};

/* ---- from a request to jobs --------------------------------------------------------------- */

static bool no_memory(struct call* c) {
	return api_fail(&c->error, 500, "server_error", NULL, "The server is out of memory.");
}

static bool check_model(struct call* c, const struct api_request* q) {
	const char* name = c->server->option.name;
	if (!q->model || strcmp(q->model, name) == 0 || strcmp(q->model, c->server->model->name) == 0)
		return true;
	api_fail(&c->error, 404, NULL, "model_not_found",
	         "The model '%.120s' does not exist; this server has '%.120s'.", q->model, name);
	snprintf(c->error.param, sizeof c->error.param, "model");
	return false;
}

/* False with a 400 where the backend cannot do what changes logits. */
static bool check_penalties(struct call* c, const struct api_request* q) {
	const struct {
		const char* name;
		bool wanted;
	} field[] = {{"presence_penalty", fabs(q->presence_penalty) > 0},
	             {"frequency_penalty", fabs(q->frequency_penalty) > 0},
	             {"repetition_penalty", fabs(q->repetition_penalty - 1) > 0},
	             {"logit_bias", q->n_bias > 0}};
	const struct backend* backend = c->server->engine->backend;
	for (size_t i = 0; i < sizeof field / sizeof *field && !backend->has_penalties; i++)
		if (field[i].wanted)
			return api_refuse(&c->error, field[i].name, "unsupported_field",
			                  "'%s' is not supported on the backend %s.", field[i].name, backend->name);
	return true;
}

static bool encode_chat(struct call* c, struct exchange* x) {
	const struct model* m = c->server->model;
	struct token_list list = {0};
	struct error e;
	if (!chat_parts_encode(&x->request.parts, m, &list, &e)) {
		token_list_free(&list);
		return api_refuse(&c->error, "messages",
		                  model_chat_template(m, false) ? "chat_template" : "no_chat_template", "%.390s",
		                  e.message);
	}
	x->prompt[0] = list.id;
	x->prompt_n[0] = list.n;
	return true;
}

static bool encode_prediction(struct call* c, struct exchange* x) {
	const struct api_request* q = &x->request;
	struct token_list list = {0};
	if (!q->prediction || q->prediction_size == 0)
		return true;
	if (!tokenizer_encode(c->server->model->tokenizer, q->prediction, q->prediction_size, TOKENIZE_NO_SPECIAL,
	                      &list)) {
		token_list_free(&list);
		return no_memory(c);
	}
	x->expected = list.id;
	x->n_expected = list.n;
	return true;
}

static bool encode_text(struct call* c, struct exchange* x, int i) {
	const struct model* m = c->server->model;
	struct api_prompt* p = &x->request.prompt[i];
	if (p->id) { /* given as ids already */
		x->prompt[i] = p->id;
		x->prompt_n[i] = p->n;
		p->id = NULL;
		return true;
	}
	struct token_list list = {0};
	const int32_t bos = tokenizer_bos(m->tokenizer);
	const bool good = p->text_size
	                      ? tokenizer_encode(m->tokenizer, p->text, p->text_size, TOKENIZE_ADD_SPECIAL, &list)
	                      : bos < 0 || token_list_append(&list, bos);
	x->prompt[i] = list.id;
	x->prompt_n[i] = list.n;
	if (!good)
		return no_memory(c);
	return list.n > 0 || api_refuse(&c->error, "prompt", "invalid_value",
	                                "'prompt' is empty and the model has no token to begin with.");
}

static bool encode_prompts(struct call* c, struct exchange* x) {
	x->n_prompts = x->request.chat ? 1 : x->request.n_prompts;
	x->prompt = calloc((size_t)x->n_prompts, sizeof *x->prompt);
	x->prompt_n = calloc((size_t)x->n_prompts, sizeof *x->prompt_n);
	if (!x->prompt || !x->prompt_n) {
		x->n_prompts = 0;
		return no_memory(c);
	}
	bool good = encode_prediction(c, x);
	for (int i = 0; i < x->n_prompts && good; i++)
		good = x->request.chat ? encode_chat(c, x) : encode_text(c, x, i);
	for (int i = 0; i < x->n_prompts && good; i++) {
		const int context = c->server->context, n = x->prompt_n[i], more = x->request.max_tokens;
		if (n >= context || (more > 0 && more > context - n))
			good = api_refuse(&c->error, x->request.chat ? "messages" : "prompt", "context_length_exceeded",
			                  "This model's context holds %d tokens; the prompt has %d and %d more were "
			                  "asked for.",
			                  context, n, more > 0 ? more : 1);
	}
	return good;
}

static void fill_job(struct exchange* x, struct choice* c, uint64_t seed) {
	const struct api_request* q = &x->request;
	const int prompt = c->index / q->n;
	struct swiftlet_request* r = &c->job.request;
	swiftlet_request_default(r, &x->server->option.session);
	r->prompt = x->prompt[prompt];
	r->n_prompt = x->prompt_n[prompt];
	r->max_tokens = q->max_tokens > 0 ? q->max_tokens : x->server->context - r->n_prompt;
	r->stop = (const char* const*)q->stop;
	r->n_stop = q->n_stop;
	r->temperature = q->temperature;
	r->top_p = q->top_p;
	r->min_p = q->min_p;
	r->top_k = q->top_k;
	r->presence_penalty = q->presence_penalty;
	r->frequency_penalty = q->frequency_penalty;
	r->repetition_penalty = q->repetition_penalty;
	r->bias = q->bias;
	r->n_bias = q->n_bias;
	r->seed = seed;
	r->sequence = (uint64_t)(c->index % q->n);
	r->logprobs = q->logprobs ? (q->top_logprobs > 0 ? q->top_logprobs : 1) : 0;
	r->task = q->task;
	r->expected = x->expected;
	r->n_expected = x->n_expected;
	c->job.calls = &job_calls;
	c->job.user = c;
}

/* A completion's text begins with its prompt's, as it was given or as its tokens read. */
static bool echo_prompt(struct exchange* x, struct choice* c) {
	const int i = c->index / x->request.n;
	const struct api_prompt* p = &x->request.prompt[i];
	const struct reply_head head = head_of(x);
	struct reply_choice echo = {.index = c->index, .text = p->text, .size = p->text_size};
	char* decoded = NULL;
	if (!p->text) {
		decoded = tokenizer_decode(x->server->model->tokenizer, x->prompt[i], x->prompt_n[i], false, true,
		                           &echo.size);
		if (!decoded)
			return false;
		echo.text = decoded;
	}
	if (x->request.stream)
		reply_part(&x->out, &head, &echo, NULL);
	else
		text_add(&c->text, echo.text, echo.size);
	free(decoded);
	return true;
}

static bool make_choices(struct call* c, struct exchange* x) {
	const int n = x->n_prompts * x->request.n;
	uint64_t seed = x->request.seed;
	if (!x->request.has_seed && getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
		return api_fail(&c->error, 500, "server_error", NULL, "No random seed could be had.");
	x->choice = calloc((size_t)n, sizeof *x->choice);
	if (!x->choice)
		return no_memory(c);
	x->n = n;
	for (int i = 0; i < n; i++) {
		struct choice* choice = &x->choice[i];
		choice->exchange = x;
		choice->index = i;
		fill_job(x, choice, seed);
		choice->job.next = i + 1 < n ? &x->choice[i + 1].job : NULL;
		if (x->request.stream) {
			const struct reply_head head = head_of(x);
			reply_first(&x->out, &head, i);
		}
		if (x->request.echo && !echo_prompt(x, choice))
			return no_memory(c);
	}
	return true;
}

static bool name_exchange(struct call* c, struct exchange* x) {
	uint64_t random[2];
	if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
		return api_fail(&c->error, 500, "server_error", NULL, "No random name could be had.");
	snprintf(x->id, sizeof x->id, "%s%016llx%08llx", x->request.chat ? "chatcmpl-" : "cmpl-",
	         (unsigned long long)random[0], (unsigned long long)(random[1] & 0xffffffff));
	x->created = time(NULL);
	return true;
}

static struct exchange* open_exchange(struct call* c, bool chat) {
	struct exchange* x = calloc(1, sizeof *x);
	if (!x) {
		no_memory(c);
		return NULL;
	}
	pthread_mutex_init(&x->lock, NULL);
	atomic_init(&x->holders, 1);
	x->server = c->server;
	const int vocab = c->server->model->weights.shape.vocab;
	const bool read = chat ? api_read_chat(c->body.data, c->body.size, vocab, &x->request, &c->error)
	                       : api_read_completion(c->body.data, c->body.size, vocab, &x->request, &c->error);
	text_free(&c->body);
	const char* detail = call_header(c, "Swiftlet-Detail");
	x->detail = detail && strcmp(detail, "tokens") == 0;
	if (read && check_model(c, &x->request) && check_penalties(c, &x->request) && name_exchange(c, x) &&
	    encode_prompts(c, x) && make_choices(c, x))
		return x;
	let_go(x);
	return NULL;
}

/* ---- the connection's side ---------------------------------------------------------------- */

static ssize_t read_stream(void* user, uint64_t position, char* buffer, size_t most) {
	(void)position;
	struct exchange* x = user;
	ssize_t n = 0;
	pthread_mutex_lock(&x->lock);
	const size_t there = x->out.size - x->sent;
	if (there > 0) {
		n = (ssize_t)(there < most ? there : most);
		memcpy(buffer, x->out.data + x->sent, (size_t)n);
		x->sent += (size_t)n;
		if (x->sent == x->out.size) {
			text_clear(&x->out);
			x->sent = 0;
		}
	} else if (x->finished) {
		n = x->out.failed ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
	} else {
		x->asleep = true;
		MHD_suspend_connection(x->connection);
	}
	pthread_mutex_unlock(&x->lock);
	return n;
}

static void stream_freed(void* user) { let_go(user); }

static bool begin_stream(struct call* c, struct exchange* x) {
	atomic_fetch_add(&x->holders, 1);
	struct MHD_Response* r =
	    MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, 16384, read_stream, x, stream_freed);
	if (!r) {
		let_go(x);
		return no_memory(c);
	}
	MHD_add_response_header(r, "Content-Type", "text/event-stream");
	MHD_add_response_header(r, "X-Accel-Buffering", "no");
	return call_queue(c, 200, r) == MHD_YES;
}

static void sleep_until_done(struct exchange* x) {
	pthread_mutex_lock(&x->lock);
	if (!x->finished) {
		x->asleep = true;
		MHD_suspend_connection(x->connection);
	}
	pthread_mutex_unlock(&x->lock);
}

static bool submit(struct call* c, struct exchange* x) {
	atomic_fetch_add(&x->holders, x->n);
	const enum submission s = scheduler_submit(c->server->scheduler, &x->choice[0].job, x->n);
	if (s == SUBMIT_TAKEN)
		return true;
	atomic_fetch_sub(&x->holders, x->n);
	if (s == SUBMIT_STOPPING)
		return api_fail(&c->error, 503, "server_error", "stopping", "The server is stopping.");
	return api_fail(&c->error, 503, "server_error", "queue_full",
	                "The server is busy: its queue is full. Try again.");
}

static bool generate(struct call* c, bool chat) {
	if (atomic_load(&c->server->stopping))
		return api_fail(&c->error, 503, "server_error", "stopping", "The server is stopping.");
	struct exchange* x = open_exchange(c, chat);
	if (!x)
		return false;
	const union MHD_ConnectionInfo* info =
	    MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	x->connection = c->connection;
	x->socket = info ? info->connect_fd : -1;
	const bool stream = x->request.stream;
	if (!submit(c, x)) {
		let_go(x);
		return false;
	}
	c->exchange = x;
	if (stream)
		return begin_stream(c, x);
	sleep_until_done(x);
	return true;
}

bool answer_completions(struct call* c) { return generate(c, false); }
bool answer_chat(struct call* c) { return generate(c, true); }

enum MHD_Result generate_resumed(struct call* c) {
	struct exchange* x = c->exchange;
	pthread_mutex_lock(&x->lock);
	const bool finished = x->finished;
	if (!finished) { /* not woken by us: sleep on */
		x->asleep = true;
		MHD_suspend_connection(x->connection);
	}
	pthread_mutex_unlock(&x->lock);
	if (!finished)
		return MHD_YES;
	if (x->error.status || x->gone) {
		if (!x->error.status)
			api_fail(&x->error, 499, NULL, "cancelled", "The client has gone.");
		return call_reply_error(c, &x->error);
	}
	struct text body = x->out;
	x->out = (struct text){0};
	return call_reply(c, 200, "application/json", &body);
}

void generate_finished(struct call* c) {
	struct exchange* x = c->exchange;
	pthread_mutex_lock(&x->lock);
	x->gone = true;
	x->connection = NULL;
	x->socket = -1;
	pthread_mutex_unlock(&x->lock);
	c->exchange = NULL;
	let_go(x);
}
