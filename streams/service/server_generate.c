/* The connection's side of completions and chat: a generation's life, and sending its answer. */
#include <stdlib.h>
#include <string.h>

#include "streams/service/generation.h"

/* ---- lives -------------------------------------------------------------------------------- */

void generation_let_go(struct generation* g) {
	if (atomic_fetch_sub(&g->holders, 1) != 1)
		return;
	for (int i = 0; i < g->n; i++) {
		reply_logprobs_free(&g->choice[i].logprobs);
		free(g->choice[i].token);
		answer_reader_close(&g->choice[i].reader);
		free(g->choice[i].embedding);
	}
	for (int i = 0; i < g->n_prompts; i++)
		token_list_free(&g->prompt[i]);
	free(g->prompt);
	token_list_free(&g->expected);
	free(g->choice);
	tool_checks_free(&g->checks);
	text_free(&g->out);
	text_free(&g->begun);
	text_free(&g->items.text);
	text_free(&g->items.logprobs);
	text_free(&g->items.unsent);
	text_free(&g->items.closed);
	api_request_free(&g->request);
	pthread_mutex_destroy(&g->lock);
	free(g);
}

void generation_wake(struct generation* g) {
	if (g->asleep && g->connection) {
		g->asleep = false;
		MHD_resume_connection(g->connection);
	}
}

/* ---- the connection's side ---------------------------------------------------------------- */

static ssize_t read_stream(void* user, uint64_t position, char* buffer, size_t most) {
	(void)position;
	struct generation* g = user;
	ssize_t n = 0;
	pthread_mutex_lock(&g->lock);
	const size_t there = g->out.size - g->sent;
	if (g->gone && !g->finished) {
		n = MHD_CONTENT_READER_END_WITH_ERROR;
	} else if (there > 0) {
		n = (ssize_t)(there < most ? there : most);
		memcpy(buffer, g->out.data + g->sent, (size_t)n);
		g->sent += (size_t)n;
		if (g->sent == g->out.size) {
			text_clear(&g->out);
			g->sent = 0;
		}
	} else if (g->finished) {
		n = g->out.failed ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
	} else {
		g->asleep = true;
		MHD_suspend_connection(g->connection);
	}
	pthread_mutex_unlock(&g->lock);
	return n;
}

static void stream_freed(void* user) { generation_let_go(user); }

static bool begin_stream(struct http_call* c, struct generation* g) {
	atomic_fetch_add(&g->holders, 1);
	struct MHD_Response* r = event_stream(g->formatter->type, read_stream, g, stream_freed);
	if (!r) {
		generation_let_go(g);
		return api_no_memory(&c->error);
	}
	return call_queue(c, 200, r);
}

enum progress { ASLEEP, READY, GONE };

/* Whether the answer is ready, or nobody waits for it any more. Otherwise the connection sleeps. */
static enum progress look_or_sleep(struct generation* g) {
	pthread_mutex_lock(&g->lock);
	const enum progress at = g->gone ? GONE : g->finished ? READY : ASLEEP;
	if (at == ASLEEP) {
		g->asleep = true;
		MHD_suspend_connection(g->connection);
	}
	pthread_mutex_unlock(&g->lock);
	return at;
}

static void join_live(struct generation* g) {
	pthread_mutex_lock(&g->server->live_lock);
	g->next_live = g->server->live;
	g->server->live = g;
	pthread_mutex_unlock(&g->server->live_lock);
}

static void leave_live(struct generation* g) {
	pthread_mutex_lock(&g->server->live_lock);
	struct generation** at = &g->server->live;
	while (*at != g)
		at = &(*at)->next_live;
	*at = g->next_live;
	pthread_mutex_unlock(&g->server->live_lock);
}

void generations_drop_gone(struct server* s) {
	pthread_mutex_lock(&s->live_lock);
	for (struct generation* g = s->live; g; g = g->next_live) {
		pthread_mutex_lock(&g->lock);
		g->gone = g->gone || gate_client_left(g->socket);
		if (g->gone)
			generation_wake(g);
		pthread_mutex_unlock(&g->lock);
	}
	pthread_mutex_unlock(&s->live_lock);
}

/* Submits the first choices. Each of the others follows one that has ended, so that many choices leave room
 * in the queue and turns for other requests. */
static bool submit_jobs(struct http_call* c, struct generation* g) {
	const int most = c->server->option.work.sessions, n = g->n < most ? g->n : most;
	for (int i = 0; i + 1 < n; i++)
		g->choice[i].job.next = &g->choice[i + 1].job;
	g->submitted = n;
	atomic_fetch_add(&g->holders, g->n);
	const enum submission s = scheduler_submit(c->server->scheduler, &g->choice[0].job);
	if (s == SUBMIT_TAKEN)
		return true;
	atomic_fetch_sub(&g->holders, g->n);
	if (s == SUBMIT_STOPPING)
		return api_fail(&c->error, 503, "stopping", "The server is stopping.");
	return api_fail(&c->error, 503, "queue_full", "The server is busy: its queue is full. Try again.");
}

bool answer_generation(struct http_call* c) {
	if (atomic_load(&c->server->stopping))
		return api_fail(&c->error, 503, "stopping", "The server is stopping.");
	c->opened = generation_open(c);
	return c->opened;
}

bool generate_begin(struct http_call* c) {
	struct generation* g = c->opened;
	c->opened = NULL;
	const union MHD_ConnectionInfo* info =
	    MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	g->connection = c->connection;
	g->socket = info ? info->connect_fd : -1;
	const bool stream = g->request.stream;
	if (!submit_jobs(c, g)) {
		generation_let_go(g);
		return false;
	}
	c->generation = g;
	join_live(g);
	atomic_fetch_add(&c->server->answers, 1);
	if (stream)
		return begin_stream(c, g);
	look_or_sleep(g);
	return true;
}

bool generate_resumed(struct http_call* c) {
	struct generation* g = c->generation;
	const enum progress at = look_or_sleep(g);
	if (at == ASLEEP) /* not woken by us: sleep on */
		return true;
	if (at == GONE) /* the generation may not have ended, so its own error is not looked at */
		return !call_abandoned(c) && call_reply_error(c, &c->error);
	if (g->error.status)
		return call_reply_error(c, &g->error);
	struct text body = g->out;
	g->out = (struct text){0};
	return call_reply(c, 200, "application/json", &body);
}

void generate_finished(struct http_call* c) {
	struct generation* g = c->generation;
	leave_live(g);
	pthread_mutex_lock(&g->lock);
	g->gone = true;
	g->connection = NULL;
	pthread_mutex_unlock(&g->lock);
	c->generation = NULL;
	atomic_fetch_sub(&c->server->answers, 1);
	generation_let_go(g);
}
