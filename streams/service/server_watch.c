/* Live state as server-sent events: one watcher a connection, woken by what is published. */
#include <stdlib.h>
#include <string.h>

#include "streams/service/server_internal.h"

struct watcher {
	struct server* server;
	struct MHD_Connection* connection;
	int slot;
	atomic_int holders; /* the call and the response */
	struct events_place place;
	struct text out;
	size_t sent;
	bool asleep; /* under the events' lock */
};

static void let_go(struct watcher* w) {
	if (atomic_fetch_sub(&w->holders, 1) != 1)
		return;
	text_free(&w->out);
	free(w);
}

static void wake(void* user) {
	struct watcher* w = user;
	if (!w->asleep)
		return;
	w->asleep = false;
	MHD_resume_connection(w->connection);
}

static void fall_asleep(void* user) {
	struct watcher* w = user;
	w->asleep = true;
	MHD_suspend_connection(w->connection);
}

static ssize_t read_events(void* user, uint64_t position, char* buffer, size_t most) {
	(void)position;
	struct watcher* w = user;
	if (w->sent == w->out.size) {
		text_clear(&w->out);
		w->sent = 0;
		if (atomic_load(&w->server->stopping))
			return MHD_CONTENT_READER_END_OF_STREAM;
		events_read(&w->server->events, &w->place, &w->out, fall_asleep, w);
	}
	if (w->out.failed)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	const size_t there = w->out.size - w->sent, n = there < most ? there : most;
	if (n)
		memcpy(buffer, w->out.data + w->sent, n);
	w->sent += n;
	return (ssize_t)n;
}

static void response_freed(void* user) { let_go(user); }

bool watch_begin(struct call* c) {
	struct watcher* w = calloc(1, sizeof *w);
	if (!w)
		return api_no_memory(&c->error);
	w->server = c->server;
	w->connection = c->connection;
	atomic_init(&w->holders, 2);
	w->slot = events_subscribe(&c->server->events, wake, w, &w->place);
	if (w->slot < 0) {
		free(w);
		return api_fail(&c->error, 503, "server_error", "too_many_watchers",
		                "%d connections watch already; try again later.", EVENTS_SUBSCRIBERS);
	}
	struct MHD_Response* r = event_stream(read_events, w, response_freed);
	if (!r) {
		events_unsubscribe(&c->server->events, w->slot);
		free(w);
		return api_no_memory(&c->error);
	}
	c->watcher = w;
	return call_queue(c, 200, r) == MHD_YES;
}

void watch_finished(struct call* c) {
	struct watcher* w = c->watcher;
	events_unsubscribe(&w->server->events, w->slot);
	c->watcher = NULL;
	let_go(w);
}
