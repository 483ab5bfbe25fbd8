/* Events for watchers: a short history of events, the latest state, and the watchers (server_watch.c), which
 * are woken when either is new. The scheduler publishes. Connections read at their own pace, and a slow one
 * loses events instead of delaying others. */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "streams/text.h"

enum { EVENTS_KEPT = 256, EVENTS_WATCHERS = 32, EVENTS_TEXT = 400, EVENTS_POINTS = 720, EVENTS_POINT = 5 };

struct watcher { /* a connection that reads; guarded by the events' lock */
	struct MHD_Connection* connection;
	bool asleep;
	int64_t event, state, beat; /* how far it has come */
	bool gone;                  /* its client */
};

struct events {
	pthread_mutex_t lock;
	char event[EVENTS_KEPT][EVENTS_TEXT]; /* JSON objects, by number modulo EVENTS_KEPT */
	int64_t next;                         /* number of the next event; numbers begin at 0 */
	struct text state;                    /* JSON */
	int64_t state_number;
	double point[EVENTS_POINTS][EVENTS_POINT]; /* seconds, matchness, tokens/s, alpha, M */
	int64_t points;
	int64_t beat;
	struct watcher* watcher[EVENTS_WATCHERS]; /* NULL: free */
};

void events_open(struct events*);
void events_close(struct events*);
/* kind and task are escaped; at `seconds` since the service began. */
void events_publish(struct events*, double seconds, int session, const char* kind, const char* task);
/* Publishes a new state; *state receives the old text. */
void events_state(struct events*, struct text* state);
/* One point of the curves; as a list. */
void events_point(struct events*, const double point[EVENTS_POINT]);
void events_put_point(struct text*, const double point[EVENTS_POINT]);
void events_beat(struct events*); /* a sign of life */

/* Adds a watcher, which gets the present state at once and events from now on. False when there are too
 * many. */
bool events_join(struct events*, struct watcher*);
void events_leave(struct events*, const struct watcher*);
/* Wakes the watchers whose clients have gone. */
void events_drop_gone(struct events*);
/* Appends new events to the watcher's text as server-sent events. Without any, its connection sleeps. False
 * when the client has gone. */
bool events_read(struct events*, struct watcher*, struct text* out);
/* The latest state with two more members: "history", the points, and "events", oldest first. */
void events_all(struct events*, struct text* out);
