/* From the steps of generations to an exchange's answer: what the scheduler's thread calls. */
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "streams/service/exchange.h"

/* A sleeping connection is not watched by MHD; whether its client has hung up, the socket tells. */
static bool on_gone(void* user) {
	struct exchange* x = ((struct choice*)user)->exchange;
	pthread_mutex_lock(&x->lock);
	if (!x->gone) {
		struct pollfd p = {.fd = x->socket, .events = POLLRDHUP};
		if (poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR)))
			x->gone = true;
	}
	const bool gone = x->gone;
	pthread_mutex_unlock(&x->lock);
	return gone;
}

/* Of an echoed prompt's tokens, then of those that follow it. */
static void add_logprobs(struct choice* c, const struct swiftlet_step* step) {
	struct reply_logprobs* to = &c->logprobs;
	for (int i = 0; i < step->n_prompt; i++) {
		reply_logprobs_add(c, &step->prompt[i]);
		const size_t over = c->unseen < to->offset ? c->unseen : to->offset;
		to->offset -= over;
		c->unseen -= over;
	}
	if (step->n > 0 && to->offset < c->echoed)
		to->offset = c->echoed;
	for (int i = 0; i < step->n; i++)
		reply_logprobs_add(c, &step->token[i]);
}

/* Says what there is, and forgets what has been said. */
static void tell(struct choice* c, const struct swiftlet_step* step) {
	c->exchange->voice->part(c, step);
	c->told_calls = c->reader.tools.n;
	text_clear(&c->reader.content);
	text_clear(&c->reader.reasoning);
	reply_logprobs_free(&c->logprobs);
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

static void count_accepted(struct choice* c, const struct swiftlet_step* step) {
	int accepted = 0;
	for (int i = 0; i < step->n; i++)
		accepted += step->token[i].drafted;
	c->accepted[accepted < CHOICE_ACCEPTED ? accepted : CHOICE_ACCEPTED - 1]++;
}

static void stream_step(struct choice* c, const struct swiftlet_step* step) {
	struct exchange* x = c->exchange;
	tell(c, step);
	if (x->out.size - x->sent > EXCHANGE_BEHIND) {
		fprintf(stderr, "swiftlet: a client does not read its stream: cancelled\n");
		x->gone = true;
	}
	exchange_wake(x);
}

static void on_step(void* user, const struct swiftlet_step* step) {
	struct choice* c = user;
	struct exchange* x = c->exchange;
	pthread_mutex_lock(&x->lock);
	count_accepted(c, step);
	if (!x->gone) {
		read_step(c, step);
		if (x->request.logprobs)
			add_logprobs(c, step);
		if (x->request.stream)
			stream_step(c, step);
	}
	pthread_mutex_unlock(&x->lock);
}

static void count_usage(struct exchange* x) {
	x->usage.prompt_tokens = x->usage.cached_tokens = 0;
	for (int i = 0; i < x->n; i++) {
		const struct swiftlet_figures* f = &x->choice[i].figures;
		x->usage.completion_tokens += f->tokens;
		x->usage.reasoning_tokens += x->choice[i].thought;
		/* OpenAI counts a prompt once, however many choices it is given */
		if (i % x->request.n == 0) {
			x->usage.prompt_tokens += f->prompt_tokens;
			x->usage.cached_tokens += f->cached_tokens;
		}
	}
}

static void finish(struct exchange* x) {
	count_usage(x);
	if (x->request.stream)
		x->voice->end(x);
	else if (!x->error.status)
		x->voice->whole(x);
	x->out.failed |= x->story.text.failed || x->story.said.failed;
	bool failed = x->out.failed;
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
	api_fail(&x->error, 500, NULL, "The generation failed.");
}

/* The server ends: the answer is what there is of it, as if its limit had been reached. One of which there is
 * nothing is refused, so that it is asked for elsewhere. */
static void cut_off(struct choice* c) {
	struct exchange* x = c->exchange;
	c->figures.stop = SWIFTLET_LENGTH;
	x->unbegun += c->figures.tokens == 0;
	if (x->unbegun == x->n || c->embedding)
		api_fail(&x->error, 503, "stopping", "The server is stopping.");
}

static void on_end(void* user, const struct swiftlet_figures* figures, const char* problem) {
	struct choice* c = user;
	struct exchange* x = c->exchange;
	pthread_mutex_lock(&x->lock);
	if (figures)
		c->figures = *figures;
	if (problem && strcmp(problem, "stopping") == 0) {
		cut_off(c);
		problem = NULL;
	} else if (problem)
		note_problem(x, problem);
	if (!x->gone && !problem)
		answer_reader_end(&c->reader);
	if (x->request.stream && !x->gone && !problem && !x->error.status) {
		tell(c, NULL);
		x->voice->last(c);
	}
	if (++x->ended == x->n)
		finish(x);
	else if (x->request.stream)
		exchange_wake(x);
	pthread_mutex_unlock(&x->lock);
	exchange_let_go(x);
}

const struct job_calls exchange_calls = {.gone = on_gone, .step = on_step, .end = on_end};
