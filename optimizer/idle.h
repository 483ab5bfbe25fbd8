/* Learning while no request runs, at idle priority: passes on threads that get what the rest of the machine
 * leaves (SCHED_IDLE), and that give way within a sub-layer when a request comes.
 *
 * A thread that has gone to idle priority may not come back without privileges, so they are threads of their
 * own: one that runs passes, and the backend's second crew. */
#ifndef SWIFTLET_OPTIMIZER_IDLE_H
#define SWIFTLET_OPTIMIZER_IDLE_H

#include "optimizer/optimizer.h"

struct idle_runner;
/* NULL with the error set. The engine must outlive it. */
struct idle_runner* idle_open(struct engine*, struct error*);
void idle_close(struct idle_runner*); /* NULL is nothing */

/* Runs what session_next_idle gave, and takes its results; `waits` is asked every few milliseconds whether
 * someone waits: then the pass is given up, and the session is as it was. True when it ran to its end.
 * *seconds grows by what it took: the thread's processor seconds, or a device's on the clock. */
bool idle_run(struct idle_runner*, struct session*, const struct session_work*, bool (*waits)(void* user),
              void* user, double* seconds);

/* How a search gets on; all zero: a new text's. */
struct idle_progress {
	const struct search* search;
	double best; /* the expected speed-up */
	int step;    /* the search's, when it last rose */
};
/* False once so many proposals have not raised what drafting with the best mask is expected to bring. */
bool idle_goes_on(struct idle_progress*, const struct search*, int patience);
/* What skipping brings on the session's text, in plain words; NULL where it pays. */
const char* idle_status(struct session*);

#endif
