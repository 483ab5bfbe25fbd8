/* Live state as server-sent events: one watcher a connection, woken by what is published. */
#include <stdlib.h>
#include <string.h>

#include "streams/service/server_internal.h"

struct watching {
	struct watcher watcher;
	struct server* server;
	struct text out;
};

/* The connection or the server is done with it. */
static void stop_watching(void* user) {
	struct watching* w = user;
	events_leave(&w->server->events, &w->watcher);
	text_free(&w->out);
	free(w);
}

static ssize_t read_events(void* user, uint64_t position, char* buffer, size_t most) {
	(void)position;
	struct watching* w = user;
	if (w->out.size == 0) {
		if (atomic_load(&w->server->stopping))
			return MHD_CONTENT_READER_END_OF_STREAM;
		if (!events_read(&w->server->events, &w->watcher, &w->out))
			return MHD_CONTENT_READER_END_WITH_ERROR;
	}
	if (w->out.failed)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	const size_t n = w->out.size < most ? w->out.size : most;
	if (n)
		memcpy(buffer, w->out.data, n);
	text_drop(&w->out, n);
	return (ssize_t)n;
}

bool watch_begin(struct http_call* c) {
	struct watching* w = calloc(1, sizeof *w);
	if (!w)
		return api_no_memory(&c->error);
	w->server = c->server;
	w->watcher.connection = c->connection;
	if (!events_join(&c->server->events, &w->watcher)) {
		free(w);
		return api_fail(&c->error, 503, "too_many_watchers", "%d connections watch already; try again later.",
		                EVENTS_WATCHERS);
	}
	struct MHD_Response* r = event_stream(NULL, read_events, w, stop_watching);
	if (r)
		return call_queue(c, 200, r);
	stop_watching(w);
	return api_no_memory(&c->error);
}
