/* The events, the latest state, and their watchers. */
#include "streams/service/events.h"

#include <inttypes.h>
#include <microhttpd.h>
#include <string.h>

#include "streams/service/server_internal.h"

void events_open(struct events* e) {
	memset(e, 0, sizeof *e);
	pthread_mutex_init(&e->lock, NULL);
}

void events_close(struct events* e) {
	text_free(&e->state);
	pthread_mutex_destroy(&e->lock);
}

static void wake_reader(struct watcher* w) {
	if (!w->asleep)
		return;
	w->asleep = false;
	MHD_resume_connection(w->connection);
}

static void wake_all(struct events* e) {
	for (int i = 0; i < EVENTS_WATCHERS; i++)
		if (e->watcher[i])
			wake_reader(e->watcher[i]);
}

void events_publish(struct events* e, double seconds, int session, const char* kind, const char* task) {
	struct text t = {0};
	/* labels are cut so that they fit even when each byte is escaped */
	text_print(&t, "{\"seconds\": %.3f", seconds);
	text_json(&t, ", 'session': %d, 'kind': %q, 'task': %Q}", session, kind, task, strnlen(task, 48));
	pthread_mutex_lock(&e->lock);
	if (!t.failed && t.size < EVENTS_TEXT) {
		memcpy(e->event[e->next % EVENTS_KEPT], t.data, t.size + 1);
		e->next++;
		wake_all(e);
	}
	pthread_mutex_unlock(&e->lock);
	text_free(&t);
}

void events_state(struct events* e, struct text* state) {
	pthread_mutex_lock(&e->lock);
	const struct text old = e->state;
	e->state = *state;
	*state = old;
	e->state_number++;
	wake_all(e);
	pthread_mutex_unlock(&e->lock);
}

void events_beat(struct events* e) {
	pthread_mutex_lock(&e->lock);
	e->beat++;
	wake_all(e);
	pthread_mutex_unlock(&e->lock);
}

/* Moves from one place to another in a watcher. */
static bool replace_watcher(struct events* e, const struct watcher* from, struct watcher* to) {
	int i = 0;
	while (i < EVENTS_WATCHERS && e->watcher[i] != from)
		i++;
	if (i < EVENTS_WATCHERS)
		e->watcher[i] = to;
	return i < EVENTS_WATCHERS;
}

bool events_join(struct events* e, struct watcher* w) {
	pthread_mutex_lock(&e->lock);
	w->event = e->next;
	w->state = e->state_number - 1;
	w->beat = e->beat;
	const bool good = replace_watcher(e, NULL, w);
	pthread_mutex_unlock(&e->lock);
	return good;
}

void events_leave(struct events* e, const struct watcher* w) {
	pthread_mutex_lock(&e->lock);
	replace_watcher(e, w, NULL);
	pthread_mutex_unlock(&e->lock);
}

void events_drop_gone(struct events* e) {
	pthread_mutex_lock(&e->lock);
	for (int i = 0; i < EVENTS_WATCHERS; i++) {
		struct watcher* const w = e->watcher[i];
		const union MHD_ConnectionInfo* info =
		    w ? MHD_get_connection_info(w->connection, MHD_CONNECTION_INFO_CONNECTION_FD) : NULL;
		if (info && gate_client_left(info->connect_fd)) {
			w->gone = true;
			wake_reader(w);
		}
	}
	pthread_mutex_unlock(&e->lock);
}

bool events_read(struct events* e, struct watcher* w, struct text* out) {
	const size_t before = out->size;
	pthread_mutex_lock(&e->lock);
	const bool gone = w->gone;
	if (w->event < e->next - EVENTS_KEPT)
		w->event = e->next - EVENTS_KEPT;
	for (; w->event < e->next; w->event++)
		text_print(out, "event: happened\nid: %" PRId64 "\ndata: %s\n\n", w->event,
		           e->event[w->event % EVENTS_KEPT]);
	if (w->state < e->state_number && e->state.size) {
		text_put(out, "event: state\ndata: ");
		text_add(out, e->state.data, e->state.size);
		text_put(out, "\n\n");
	}
	w->state = e->state_number;
	if (out->size == before && w->beat < e->beat)
		text_put(out, ": still here\n\n");
	w->beat = e->beat;
	if (out->size == before && !gone) { /* holds the lock, so that no wake-up is lost */
		w->asleep = true;
		MHD_suspend_connection(w->connection);
	}
	pthread_mutex_unlock(&e->lock);
	return !gone;
}

void events_point(struct events* e, const double point[EVENTS_POINT]) {
	pthread_mutex_lock(&e->lock);
	memcpy(e->point[e->points++ % EVENTS_POINTS], point, sizeof e->point[0]);
	pthread_mutex_unlock(&e->lock);
}

void events_put_point(struct text* out, const double point[EVENTS_POINT]) {
	for (int i = 0; i < EVENTS_POINT; i++)
		text_json(out, i ? ", %g" : "[%g", point[i]);
	text_put(out, "]");
}

void events_all(struct events* e, struct text* out) {
	pthread_mutex_lock(&e->lock);
	if (e->state.size > 1)
		text_add(out, e->state.data, e->state.size - 1); /* without its closing brace */
	text_put(out, e->state.size > 1 ? ", \"history\": [" : "{\"history\": [");
	const int64_t from = e->points > EVENTS_POINTS ? e->points - EVENTS_POINTS : 0;
	for (int64_t i = from; i < e->points; i++) {
		text_put(out, i > from ? ", " : "");
		events_put_point(out, e->point[i % EVENTS_POINTS]);
	}
	text_put(out, "], \"events\": [");
	const int64_t first = e->next > EVENTS_KEPT ? e->next - EVENTS_KEPT : 0;
	for (int64_t i = first; i < e->next; i++)
		text_print(out, "%s%s", i > first ? ", " : "", e->event[i % EVENTS_KEPT]);
	text_put(out, "]}");
	pthread_mutex_unlock(&e->lock);
}
