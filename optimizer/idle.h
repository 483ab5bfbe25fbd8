/* Learning while no request runs, at idle priority. Its passes run on threads that get only unused processor
 * time (SCHED_IDLE), and that stop within a sub-layer when a request comes.
 *
 * A thread that has gone to idle priority cannot return without privileges. So these are threads of their
 * own: one that runs passes, and the backend's second set of workers. */
#pragma once

#include "optimizer/optimizer.h"

struct idle_runner;
/* NULL with the error set. The engine must outlive it. */
struct idle_runner* idle_open(struct engine*, struct error*);
void idle_close(struct idle_runner*); /* NULL is nothing */

/* Runs the pass of session_next_idle and takes its results. `waits` is called every few milliseconds: if it
 * returns true, the pass is given up, and the session is as before. True when the pass ran to its end.
 * *seconds grows by its cost: the thread's processor seconds, or a device's time on the clock. */
bool idle_run(struct idle_runner*, struct session*, const struct session_work*, bool (*waits)(void* user),
              void* user, double* seconds);

/* A search's progress on a text; all zero: a new text. */
struct idle_progress {
	const struct search* search;
	double best; /* the expected speed-up */
	int step;    /* the search's, when it last rose */
};
/* False once a number of proposals has not raised the expected speed-up of the best mask. */
bool idle_goes_on(struct idle_progress*, const struct search*, int patience);
/* The effect of skipping on the session's text, in plain words; NULL when it pays. */
const char* idle_status(struct session*);
