/* Turns the steps of jobs into a generation's response; the scheduler's thread calls these functions. */
#include <stdlib.h>
#include <string.h>

#include "streams/log.h"
#include "streams/service/generation.h"
#include "streams/service/infill.h"

/* Sends a comment during a long prompt, so that no client or proxy takes the connection for dead. */
static void emit_keepalive(struct generation* g) {
	enum { SILENCE = 5 }; /* seconds */
	const double now = seconds_now();
	if (g->out.size > g->sent || !(g->heard > 0))
		g->heard = now;
	if (!g->request.stream || !g->formatter->keepalive || g->finished || now - g->heard < SILENCE)
		return;
	g->heard = now;
	text_put(&g->out, g->formatter->keepalive);
	generation_wake(g);
}

/* True when nobody wants more of the answer. */
static bool on_gone(void* user) {
	struct generation* g = ((struct choice*)user)->generation;
	pthread_mutex_lock(&g->lock);
	g->gone = g->gone || gate_client_left(g->socket);
	if (!g->gone)
		emit_keepalive(g);
	const bool gone = g->gone || ((struct choice*)user)->lines.enough;
	pthread_mutex_unlock(&g->lock);
	return gone;
}

/* Adds the log probabilities of an echoed prompt's tokens, then of the tokens that follow it. */
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
	for (int i = 0; i < step->n && !c->generation->request.prompt_only; i++)
		reply_logprobs_add(c, &step->token[i]);
}

/* Emits the new output, and drops what has been emitted. */
static void emit_output(struct choice* c, const struct swiftlet_step* step) {
	c->generation->formatter->part(c, step);
	c->sent_calls = c->reader.tools.n;
	const char* arguments = c->sent_calls ? c->reader.tools.call[c->sent_calls - 1].arguments : NULL;
	c->sent_arguments = arguments ? strlen(arguments) : 0;
	text_clear(&c->reader.content);
	text_clear(&c->reader.reasoning);
	c->lines.until = 0;
	reply_logprobs_free(&c->logprobs);
}

/* Special tokens, which texts leave out, may begin a call or end reasoning. */
static void read_step(struct choice* c, const struct swiftlet_step* step) {
	const struct tokenizer* t = c->generation->server->model->tokenizer;
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
}

/* Tokens that begin before the reasoning's end. */
static void count_thought(struct choice* c) {
	const struct tokenizer* t = c->generation->server->model->tokenizer;
	size_t at = 0;
	for (int64_t i = 0; i < c->tokens && at < c->reader.thought_until; i++, c->thought++)
		at += tokenizer_piece(t, c->token[i], false, NULL, 0);
}

static void note_tokens(struct choice* c, const struct swiftlet_step* step) {
	struct generation* g = c->generation;
	const int64_t n = c->tokens + step->n;
	int32_t* more = realloc(c->token, (size_t)(n + 1) * sizeof *more);
	g->out.failed |= !more;
	if (!more)
		return;
	c->token = more;
	for (int i = 0; i < step->n; i++)
		more[c->tokens + i] = step->token[i].id;
	c->tokens = n;
}

static void count_accepted(struct choice* c, const struct swiftlet_step* step) {
	int accepted = 0;
	for (int i = 0; i < step->n; i++)
		accepted += step->token[i].drafted;
	c->accepted[accepted < CHOICE_ACCEPTED ? accepted : CHOICE_ACCEPTED - 1]++;
}

static void stream_step(struct choice* c, const struct swiftlet_step* step) {
	struct generation* g = c->generation;
	emit_output(c, step);
	g->heard = seconds_now();
	if (g->out.size - g->sent > GENERATION_BACKLOG) {
		log_line("swiftlet: a client did not read its stream, so its request was cancelled");
		g->gone = true;
	}
	generation_wake(g);
}

static void on_step(void* user, const struct swiftlet_step* step) {
	struct choice* c = user;
	struct generation* g = c->generation;
	pthread_mutex_lock(&g->lock);
	count_accepted(c, step);
	if (!g->gone) {
		if (!g->request.prompt_only && !c->lines.enough) {
			note_tokens(c, step);
			read_step(c, step);
			infill_step(c);
		}
		if (g->request.logprobs)
			add_logprobs(c, step);
		if (g->request.stream)
			stream_step(c, step);
	}
	pthread_mutex_unlock(&g->lock);
}

static void count_usage(struct generation* g) {
	g->usage.prompt_tokens = g->usage.cached_tokens = 0;
	for (int i = 0; i < g->n; i++) {
		const struct swiftlet_figures* f = &g->choice[i].figures;
		g->usage.completion_tokens += g->request.prompt_only ? 0 : f->tokens;
		g->usage.reasoning_tokens += g->choice[i].thought;
		/* OpenAI counts a prompt once, however many choices it is given */
		if (i % g->request.n == 0) {
			g->usage.prompt_tokens += f->prompt_tokens;
			g->usage.cached_tokens += f->cached_tokens;
		}
	}
}

static void finish_generation(struct generation* g) {
	count_usage(g);
	if (g->request.stream)
		g->formatter->end(g);
	else if (!g->error.status)
		g->formatter->whole(g);
	g->out.failed |=
	    g->items.text.failed || g->items.logprobs.failed || g->items.unsent.failed || g->items.closed.failed;
	bool failed = g->out.failed;
	for (int i = 0; i < g->n; i++)
		failed |= g->choice[i].reader.failed;
	if (failed)
		api_no_memory(&g->error);
	g->finished = true;
	generation_wake(g);
}

/* Sets the client's error, which reveals nothing of the machine; the log has the details. */
static void note_problem(struct generation* g, const char* problem) {
	if (strcmp(problem, "cancelled") == 0) {
		g->gone = true;
		return;
	}
	if (strncmp(problem, "the grammar ", 12) == 0) { /* as the client asked for it, with this vocabulary */
		api_fail(&g->error, 400, "invalid_value", "%s.", problem);
		return;
	}
	log_line("swiftlet: a generation failed: %s", problem);
	api_fail(&g->error, 500, NULL, "The generation failed.");
}

/* Ends a choice when the server stops. The answer is what there is of it, as if its limit had been reached.
 * Without any text the request is refused, so that the client asks elsewhere. */
static void cut_off(struct choice* c) {
	struct generation* g = c->generation;
	c->figures.stop = SWIFTLET_LENGTH;
	g->unbegun += c->figures.tokens == 0;
	if (g->unbegun == g->n || c->embedding)
		api_fail(&g->error, 503, "stopping", "The server is stopping.");
}

static void end_reading(struct choice* c) {
	const struct api_request* q = &c->generation->request;
	const char* stop = c->figures.stop_string >= 0 ? q->stop[c->figures.stop_string] : NULL;
	if (q->include_stop && stop)
		answer_reader_add(&c->reader, stop, strlen(stop));
	c->reader.tools.cut = c->figures.stop == SWIFTLET_LENGTH;
	answer_reader_end(&c->reader);
	count_thought(c);
}

static void end_choice(struct choice* c, const struct swiftlet_figures* figures, const char* problem) {
	struct generation* g = c->generation;
	pthread_mutex_lock(&g->lock);
	if (figures)
		c->figures = *figures;
	if (c->lines.enough && !g->gone)
		problem = NULL;
	if (problem && strcmp(problem, "stopping") == 0) {
		cut_off(c);
		problem = NULL;
	} else if (problem)
		note_problem(g, problem);
	if (!g->gone && !problem)
		end_reading(c);
	if (c->lines.enough)
		infill_cut(c);
	if (g->request.stream && !g->gone && !problem && !g->error.status) {
		emit_output(c, NULL);
		g->formatter->last(c);
	}
	if (++g->ended == g->n)
		finish_generation(g);
	else if (g->request.stream)
		generation_wake(g);
	pthread_mutex_unlock(&g->lock);
}

/* Starts the next choice in place of one that has ended. If none may start any more, the unstarted ones
 * end. */
static void submit_next(struct generation* g) {
	while (g->submitted < g->n) { /* only this thread counts, once the first choices are submitted */
		struct choice* const next = &g->choice[g->submitted++];
		next->job.next = NULL;
		const bool gone = on_gone(next);
		if (!gone && scheduler_follow(g->server->scheduler, &next->job))
			return;
		end_choice(next, NULL, gone ? "cancelled" : "stopping");
		generation_let_go(g); /* as the scheduler would have */
	}
}

static void on_end(void* user, const struct swiftlet_figures* figures, const char* problem) {
	struct choice* c = user;
	struct generation* g = c->generation;
	end_choice(c, figures, problem);
	submit_next(g);
	generation_let_go(g);
}

const struct job_calls generation_calls = {.gone = on_gone, .step = on_step, .end = on_end};
