/* What happens, for whoever watches: a short memory of events and the latest state, and subscribers who
 * are woken when either is new. The scheduler publishes; connections read at their own pace, and one that
 * is slow misses events rather than holding anybody up. */
#ifndef SWIFTLET_STREAMS_SERVICE_EVENTS_H
#define SWIFTLET_STREAMS_SERVICE_EVENTS_H

#include <pthread.h>
#include <stdint.h>

#include "streams/text.h"

enum { EVENTS_KEPT = 256, EVENTS_SUBSCRIBERS = 32, EVENTS_TEXT = 400, EVENTS_POINTS = 720, EVENTS_POINT = 5 };

struct events {
	pthread_mutex_t lock;
	char event[EVENTS_KEPT][EVENTS_TEXT]; /* JSON objects, by number modulo EVENTS_KEPT */
	int64_t next;                         /* number of the event to come; numbers begin at 0 */
	struct text state;                    /* JSON */
	int64_t state_number;
	double point[EVENTS_POINTS][EVENTS_POINT]; /* seconds, matchness, tokens/s, alpha, M */
	int64_t points;
	int64_t beat;
	struct {
		void (*wake)(void* user); /* NULL: free */
		void* user;
	} subscriber[EVENTS_SUBSCRIBERS];
	int subscribers;
};

struct events_place { /* how far a reader has come */
	int64_t event, state, beat;
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
int events_watched(struct events*);

/* wake is called with the lock held, from the publisher's thread. A slot, or -1 when all are taken. */
int events_subscribe(struct events*, void (*wake)(void* user), void* user, struct events_place*);
void events_unsubscribe(struct events*, int slot);
/* Appends what is new since `place`, as server-sent events. When there is nothing, calls `sleep` (with the
 * lock held, so that no wake is lost) and appends nothing. */
void events_read(struct events*, struct events_place*, struct text* out, void (*sleep)(void* user),
                 void* user);
/* The latest state with two members more: "history", the points, and "events", oldest first. */
void events_all(struct events*, struct text* out);

#endif
