/* Events for watchers: a short history of events and the latest state, and the watchers
 * (server_watch.c) who are woken when either is new. The scheduler publishes; connections read at their own
 * pace, and one that is slow misses events rather than holding anybody up. */
#ifndef SWIFTLET_STREAMS_SERVICE_EVENTS_H
#define SWIFTLET_STREAMS_SERVICE_EVENTS_H

#include <pthread.h>
#include <stdint.h>

#include "streams/text.h"

enum { EVENTS_KEPT = 256, EVENTS_WATCHERS = 32, EVENTS_TEXT = 400, EVENTS_POINTS = 720, EVENTS_POINT = 5 };

struct watcher { /* a connection that reads; under the events' lock */
	struct MHD_Connection* connection;
	bool asleep;
	int64_t event, state, beat; /* how far it has come */
};

struct events {
	pthread_mutex_t lock;
	char event[EVENTS_KEPT][EVENTS_TEXT]; /* JSON objects, by number modulo EVENTS_KEPT */
	int64_t next;                         /* number of the event to come; numbers begin at 0 */
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
/* A new state; the text is swapped for the old one (which is left in *state). */
void events_state(struct events*, struct text* state);
/* One point of the curves; as a list. */
void events_point(struct events*, const double point[EVENTS_POINT]);
void events_put_point(struct text*, const double point[EVENTS_POINT]);
void events_beat(struct events*); /* a sign of life: finds out who is gone */

/* A watcher more: the present state at once, events from now on. False where there are too many. */
bool events_join(struct events*, struct watcher*);
void events_leave(struct events*, const struct watcher*);
/* Appends what is new to the watcher, as server-sent events. When there is nothing its connection sleeps. */
void events_read(struct events*, struct watcher*, struct text* out);
/* The latest state with two members more: "history", the points, and "events", oldest first. */
void events_all(struct events*, struct text* out);

#endif
