/* From the steps of generations to an exchange's answer: what the scheduler's thread calls. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/service/exchange.h"

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

/* Of an echoed prompt's tokens, then of those that follow it. */
static void add_logprobs(struct choice* c, struct reply_logprobs* to, const struct swiftlet_step* step) {
	const struct exchange* x = c->exchange;
	for (int i = 0; i < step->n_prompt; i++) {
		reply_logprobs_add(to, false, x->server->model->tokenizer, &step->prompt[i], x->request.top_logprobs);
		const size_t over = c->unseen < to->offset ? c->unseen : to->offset;
		to->offset -= over;
		c->unseen -= over;
	}
	if (step->n > 0 && to->offset < c->echoed)
		to->offset = c->echoed;
	for (int i = 0; i < step->n; i++)
		reply_logprobs_add(to, x->request.chat, x->server->model->tokenizer, &step->token[i],
		                   x->request.top_logprobs);
}

/* Calls that are whole and not told yet; what has been said of the rest is forgotten. */
static void stream_calls(struct choice* c) {
	struct exchange* x = c->exchange;
	const struct reply_head head = exchange_head(x);
	const struct tool_reader* tools = &c->reader.tools;
	if (tools->n > c->told_calls)
		x->voice->calls(&x->out, &head, c->index, tools->call, c->told_calls, tools->n);
	c->told_calls = tools->n;
	text_clear(&c->reader.content);
	text_clear(&c->reader.reasoning);
}

/* Special tokens, which texts leave out, may begin a call or end a thought. */
static void read_step(struct choice* c, const struct swiftlet_step* step) {
	const struct tokenizer* t = c->exchange->server->model->tokenizer;
	for (int i = 0; i < step->n; i++) {
		char piece[32];
		const size_t shown = tokenizer_piece(t, step->token[i].id, false, NULL, 0);
		const size_t n = shown ? 0 : tokenizer_piece(t, step->token[i].id, true, piece, sizeof piece);
		if (n > 0 && n < sizeof piece) {
			piece[n] = '\0';
			answer_reader_mark(&c->reader, c->shown, piece);
		}
		c->shown += shown;
	}
	answer_reader_add(&c->reader, step->text ? step->text : "", step->text_size);
	if (c->reader.state == READING_THOUGHT)
		c->thought += step->n;
}

static struct reply_choice choice_so_far(const struct choice* c) {
	return (struct reply_choice){.index = c->index,
	                             .text = c->reader.content.data,
	                             .size = c->reader.content.size,
	                             .reasoning = c->reader.reasoning.data,
	                             .reasoning_size = c->reader.reasoning.size,
	                             .stop = c->figures.stop,
	                             .stop_string = c->figures.stop_string,
	                             .embedding = c->embedding,
	                             .dim = swiftlet_model_dim(c->exchange->server->model),
	                             .call = c->reader.tools.call,
	                             .n_calls = c->reader.tools.n};
}

static void count_accepted(struct choice* c, const struct swiftlet_step* step) {
	int accepted = 0;
	for (int i = 0; i < step->n; i++)
		accepted += step->token[i].drafted;
	c->speculation.steps[accepted < REPLY_ACCEPTED ? accepted : REPLY_ACCEPTED - 1]++;
}

static void stream_step(struct choice* c, const struct swiftlet_step* step) {
	struct exchange* x = c->exchange;
	const struct reply_head head = exchange_head(x);
	struct reply_logprobs logprobs = {.offset = c->logprobs.offset};
	struct reply_choice part = choice_so_far(c);
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
	if (part.size > 0 || part.reasoning_size > 0 || (step->n > 0 && x->detail) || logprobs.n > 0)
		x->voice->part(&x->out, &head, &part, detail.size ? detail.data : NULL);
	stream_calls(c);
	reply_logprobs_free(&logprobs);
	text_free(&detail);
}

static void on_step(void* user, const struct swiftlet_step* step) {
	struct choice* c = user;
	struct exchange* x = c->exchange;
	pthread_mutex_lock(&x->lock);
	count_accepted(c, step);
	if (!x->gone)
		read_step(c, step);
	if (!x->gone && x->request.stream) {
		stream_step(c, step);
		if (x->out.size - x->sent > EXCHANGE_BEHIND) {
			fprintf(stderr, "swiftlet: a client does not read its stream: cancelled\n");
			x->gone = true;
		}
		exchange_wake(x);
	} else if (!x->gone && x->request.logprobs)
		add_logprobs(c, &c->logprobs, step);
	pthread_mutex_unlock(&x->lock);
}

static void usage_of(const struct exchange* x, struct reply_usage* u, const struct swiftlet_figures** list) {
	*u = (struct reply_usage){.figures = list,
	                          .n = x->n,
	                          .method = x->server->option.session.method,
	                          .wanted = x->request.include_usage};
	if (x->server->option.tell_speculation)
		u->speculation = &x->choice[0].speculation;
	for (int i = 0; i < x->n; i++) {
		list[i] = &x->choice[i].figures;
		u->completion_tokens += list[i]->tokens;
		u->reasoning_tokens += x->choice[i].thought;
		/* OpenAI counts a prompt once, however many choices it is given */
		if (i % x->request.n == 0) {
			u->prompt_tokens += list[i]->prompt_tokens;
			u->cached_tokens += list[i]->cached_tokens;
		}
	}
}

static void finish_stream(struct exchange* x, const struct reply_usage* u) {
	const struct reply_head head = exchange_head(x);
	x->voice->end(&x->out, &head, u, x->error.status ? &x->error : NULL);
}

static void finish_whole(struct exchange* x, const struct reply_usage* u) {
	struct reply_choice* list = calloc((size_t)x->n, sizeof *list);
	const struct reply_head head = exchange_head(x);
	if (!list) {
		x->out.failed = true;
		return;
	}
	for (int i = 0; i < x->n; i++) {
		list[i] = choice_so_far(&x->choice[i]);
		list[i].logprobs = x->request.logprobs ? &x->choice[i].logprobs : NULL;
	}
	x->voice->whole(&x->out, &head, list, x->n, u);
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
	bool failed = !list || x->out.failed;
	for (int i = 0; i < x->n; i++)
		failed |= x->choice[i].reader.failed;
	if (failed)
		api_no_memory(&x->error);
	x->finished = true;
	exchange_wake(x);
}

/* What the client is told of a problem says nothing of the machine; the log has the sentence. */
static void note_problem(struct exchange* x, const char* problem) {
	if (strcmp(problem, "cancelled") == 0) {
		x->gone = true;
		return;
	}
	fprintf(stderr, "swiftlet: a generation failed: %s\n", problem);
	api_fail(&x->error, 500, "server_error", NULL, "The generation failed.");
}

/* The server ends: the answer is what there is of it, as if its limit had been reached. One of which there is
 * nothing is refused, so that it is asked for elsewhere. */
static void cut_off(struct choice* c) {
	struct exchange* x = c->exchange;
	c->figures.stop = SWIFTLET_LENGTH;
	x->unbegun += c->figures.tokens == 0;
	if (x->unbegun == x->n || c->embedding)
		api_fail(&x->error, 503, "server_error", "stopping", "The server is stopping.");
}

static void on_end(void* user, const struct swiftlet_figures* figures, const char* problem) {
	struct choice* c = user;
	struct exchange* x = c->exchange;
	pthread_mutex_lock(&x->lock);
	if (figures)
		c->figures = *figures;
	else
		c->figures.search_state = "off";
	if (problem && strcmp(problem, "stopping") == 0) {
		cut_off(c);
		problem = NULL;
	} else if (problem)
		note_problem(x, problem);
	if (!x->gone && !problem)
		answer_reader_end(&c->reader);
	if (x->request.stream && !x->gone && !problem && !x->error.status) {
		const struct reply_head head = exchange_head(x);
		struct text detail = {0};
		const struct reply_choice rest = choice_so_far(c);
		if (rest.size || rest.reasoning_size)
			x->voice->part(&x->out, &head, &rest, NULL);
		stream_calls(c);
		if (x->detail)
			reply_figures(&detail, &c->figures, x->server->option.session.method);
		x->voice->last(&x->out, &head, &rest, detail.size ? detail.data : NULL);
		text_free(&detail);
	}
	if (++x->ended == x->n)
		finish(x);
	else if (x->request.stream)
		exchange_wake(x);
	pthread_mutex_unlock(&x->lock);
	exchange_let_go(x);
}

const struct job_calls exchange_calls = {.gone = on_gone, .step = on_step, .end = on_end};
