/* Workers prepare requests away from the threads that serve connections.
 *
 * One of a few threads decompresses and parses a body, renders a template, compiles a grammar and encodes a
 * prompt, while the connection is suspended. So a health check, a stream and a small request do not wait for
 * another client's large one.
 *
 * Large requests have a thread of their own, of low priority: a few of them would keep all workers busy, and
 * one takes seconds of a processor that the passes of running requests share. The tenant with the fewest
 * requests at work goes first. Within a tenant, a request may go before earlier ones if it is smaller by as
 * much as a worker does in the time between.
 *
 * A waiting request whose client has gone is dropped: the others do not wait for it, and its connection is
 * free at once. One that is worked on is marked. */
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>

#include "streams/service/body_coding.h"
#include "streams/service/generation.h"

enum {
	WORKERS = 3,       /* the first one takes the large requests */
	LARGE = 256 << 10, /* bytes */
	LOW_PRIORITY = 5   /* nice */
};

struct body_worker {
	struct workers* all;
	bool large;
	struct http_call* call; /* that it works on; or NULL */
	pthread_t thread;
};

struct workers {
	pthread_mutex_t lock;
	pthread_cond_t more;
	struct http_call* first; /* of the waiting calls, linked by next_work */
	int at_work[SERVER_KEYS + 1];
	struct body_worker worker[WORKERS];
	int n_threads;
	bool stopping;
};

static const double seconds_a_byte = 1e-6;

/* The bytes of the body; of a compressed one as many as it may grow to. */
static double count_bytes(const struct http_call* c) {
	enum { GROWTH = 1032 }; /* the highest rate that deflate reaches */
	const char* coding = call_header(c, "Content-Encoding");
	const bool compressed = coding && body_coding_known(coding);
	return fmin(SERVER_BODY, (compressed ? GROWTH : 1) * (double)c->body.size);
}

/* With the lock held. NULL: none of this size waits. */
static struct http_call* take_next(struct workers* w, bool large) {
	struct http_call** best = NULL;
	for (struct http_call** c = &w->first; *c; c = &(*c)->next_work) {
		const int more = best ? w->at_work[(*c)->tenant] - w->at_work[(*best)->tenant] : -1;
		if ((*c)->large == large && (more < 0 || (more == 0 && (*c)->turn < (*best)->turn)))
			best = c;
	}
	struct http_call* const taken = best ? *best : NULL;
	if (taken)
		*best = taken->next_work;
	return taken;
}

/* Call with the lock held. From here on the call belongs to its connection. */
static void give_back(struct http_call* c) {
	c->work = CALL_WORKED;
	MHD_resume_connection(c->connection);
}

static void* run_worker(void* user) {
	struct body_worker* self = user;
	struct workers* w = self->all;
	if (self->large)
		setpriority(PRIO_PROCESS, 0, LOW_PRIORITY); /* of this thread alone, on Linux */
	pthread_mutex_lock(&w->lock);
	for (;;) {
		struct http_call* c = NULL;
		while (!w->stopping && !(c = take_next(w, self->large)))
			pthread_cond_wait(&w->more, &w->lock);
		if (!c)
			break;
		const int tenant = c->tenant;
		self->call = c;
		w->at_work[tenant]++;
		pthread_mutex_unlock(&w->lock);
		if (!call_answer(c) && !c->error.status)
			api_fail(&c->error, 500, NULL, "The server could not make an answer: it may be out of memory.");
		pthread_mutex_lock(&w->lock);
		self->call = NULL;
		w->at_work[tenant]--;
		give_back(c);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

struct workers* workers_open(void) {
	struct workers* w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	pthread_mutex_init(&w->lock, NULL);
	pthread_cond_init(&w->more, NULL);
	for (; w->n_threads < WORKERS; w->n_threads++) {
		struct body_worker* const one = &w->worker[w->n_threads];
		*one = (struct body_worker){.all = w, .large = w->n_threads == 0};
		if (pthread_create(&one->thread, NULL, run_worker, one) != 0) {
			workers_close(w);
			return NULL;
		}
	}
	return w;
}

bool workers_take(struct workers* w, struct http_call* c) {
	pthread_mutex_lock(&w->lock);
	const bool taken = !w->stopping;
	if (taken) {
		c->work = CALL_WORKING;
		const double bytes = count_bytes(c);
		c->turn = seconds_now() + seconds_a_byte * bytes;
		c->large = bytes > LARGE;
		c->next_work = w->first;
		w->first = c;
		MHD_suspend_connection(c->connection);
		pthread_cond_broadcast(&w->more);
	}
	pthread_mutex_unlock(&w->lock);
	return taken;
}

bool workers_done(struct workers* w, const struct http_call* c) {
	pthread_mutex_lock(&w->lock);
	const bool done = c->work == CALL_WORKED;
	pthread_mutex_unlock(&w->lock);
	return done;
}

static bool has_gone(const struct http_call* c) {
	const union MHD_ConnectionInfo* info =
	    MHD_get_connection_info(c->connection, MHD_CONNECTION_INFO_CONNECTION_FD);
	return info && gate_client_left(info->connect_fd);
}

void workers_drop_gone(struct workers* w) {
	pthread_mutex_lock(&w->lock);
	for (int i = 0; i < WORKERS; i++)
		if (w->worker[i].call && has_gone(w->worker[i].call))
			atomic_store(&w->worker[i].call->gone, true);
	for (struct http_call** at = &w->first; *at;) {
		struct http_call* const c = *at;
		if (has_gone(c)) {
			*at = c->next_work;
			call_abandoned(c);
			give_back(c);
		} else
			at = &c->next_work;
	}
	pthread_mutex_unlock(&w->lock);
}

void workers_stop(struct workers* w) {
	if (!w)
		return;
	pthread_mutex_lock(&w->lock);
	w->stopping = true;
	pthread_cond_broadcast(&w->more);
	pthread_mutex_unlock(&w->lock);
	while (w->n_threads > 0)
		pthread_join(w->worker[--w->n_threads].thread, NULL);
	pthread_mutex_lock(&w->lock);
	while (w->first) {
		struct http_call* const c = w->first;
		w->first = c->next_work;
		api_fail(&c->error, 503, "stopping", "The server is stopping.");
		give_back(c);
	}
	pthread_mutex_unlock(&w->lock);
}

void workers_close(struct workers* w) {
	if (!w)
		return;
	workers_stop(w);
	pthread_cond_destroy(&w->more);
	pthread_mutex_destroy(&w->lock);
	free(w);
}
