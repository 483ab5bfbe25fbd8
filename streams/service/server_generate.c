/* Completions and chat, the connection's side: an exchange's life, and the sending of its answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/service/exchange.h"

/* ---- lives -------------------------------------------------------------------------------- */

void exchange_let_go(struct exchange* x) {
	if (atomic_fetch_sub(&x->holders, 1) != 1)
		return;
	for (int i = 0; i < x->n; i++) {
		reply_logprobs_free(&x->choice[i].logprobs);
		answer_reader_close(&x->choice[i].reader);
		free(x->choice[i].embedding);
	}
	for (int i = 0; i < x->n_prompts; i++)
		token_list_free(&x->prompt[i]);
	free(x->prompt);
	token_list_free(&x->expected);
	free(x->choice);
	text_free(&x->out);
	text_free(&x->begun);
	text_free(&x->story.text);
	text_free(&x->story.said);
	api_request_free(&x->request);
	pthread_mutex_destroy(&x->lock);
	free(x);
}

void exchange_wake(struct exchange* x) {
	if (x->asleep && x->connection) {
		x->asleep = false;
		MHD_resume_connection(x->connection);
	}
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

static void stream_freed(void* user) { exchange_let_go(user); }

static bool begin_stream(struct call* c, struct exchange* x) {
	atomic_fetch_add(&x->holders, 1);
	struct MHD_Response* r = event_stream(read_stream, x, stream_freed);
	if (!r) {
		exchange_let_go(x);
		return api_no_memory(&c->error);
	}
	return call_queue(c, 200, r);
}

/* True when the answer is ready; else the connection sleeps. */
static bool is_done_or_sleeps(struct exchange* x) {
	pthread_mutex_lock(&x->lock);
	const bool finished = x->finished;
	if (!finished) {
		x->asleep = true;
		MHD_suspend_connection(x->connection);
	}
	pthread_mutex_unlock(&x->lock);
	return finished;
}

static bool submit(struct call* c, struct exchange* x) {
	atomic_fetch_add(&x->holders, x->n);
	const enum submission s = scheduler_submit(c->server->scheduler, &x->choice[0].job, x->n);
	if (s == SUBMIT_TAKEN)
		return true;
	atomic_fetch_sub(&x->holders, x->n);
	if (s == SUBMIT_STOPPING)
		return api_fail(&c->error, 503, "stopping", "The server is stopping.");
	return api_fail(&c->error, 503, "queue_full", "The server is busy: its queue is full. Try again.");
}

bool answer_generation(struct call* c) {
	if (atomic_load(&c->server->stopping))
		return api_fail(&c->error, 503, "stopping", "The server is stopping.");
	struct exchange* x = exchange_open(c);
	if (!x)
		return false;
	const union MHD_ConnectionInfo* info =
	    MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	x->connection = c->connection;
	x->socket = info ? info->connect_fd : -1;
	const bool stream = x->request.stream;
	if (!submit(c, x)) {
		exchange_let_go(x);
		return false;
	}
	c->exchange = x;
	atomic_fetch_add(&c->server->answers, 1);
	if (stream)
		return begin_stream(c, x);
	is_done_or_sleeps(x);
	return true;
}

bool generate_resumed(struct call* c) {
	struct exchange* x = c->exchange;
	if (!is_done_or_sleeps(x)) /* not woken by us: sleep on */
		return true;
	if (x->error.status || x->gone) {
		if (!x->error.status)
			api_fail(&x->error, 499, "cancelled", "The client has gone.");
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
	pthread_mutex_unlock(&x->lock);
	c->exchange = NULL;
	atomic_fetch_sub(&c->server->answers, 1);
	exchange_let_go(x);
}
