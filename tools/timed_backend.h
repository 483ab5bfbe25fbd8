/* A backend whose passes run for real and whose time is made up: a clock that each pass moves on by its
 * price.
 *
 * A one-row full pass takes one second; a pass of n rows that reads a share b of the weights takes
 * b·(1 + slope·(n - 1)). So a session's decisions under any price can be looked at on any machine, as quickly
 * as a small model runs, and they repeat. */
#ifndef SWIFTLET_TOOLS_TIMED_BACKEND_H
#define SWIFTLET_TOOLS_TIMED_BACKEND_H

#include "optimizer/engine.h"

struct timed_backend {
	struct backend backend; /* first: what the engine sees */
	struct backend* inner;  /* the engine's own */
	struct engine* engine;
	struct cost_model shares;
	double slope, now;
};

/* Stands in for the engine's backend until it is removed. What the engine has learned of costs is forgotten.
 */
void timed_backend_install(struct timed_backend*, struct engine*, double slope);
void timed_backend_remove(struct timed_backend*);
/* The clock, for swiftlet_options.clock; user: the timed backend. */
double timed_backend_clock(void* user);

#endif
