/* A backend whose passes run for real and whose time is made up: a clock that each pass moves on by its
 * price.
 *
 * A one-row full pass takes one second; a pass of n rows that reads a share b of the weights takes b·v(n), an
 * adapter's pass its own weights' share of the model's. What runs outside passes takes no time. So a
 * session's decisions under any price can be looked at on any machine, as quickly as a small model runs, and
 * they repeat. */
#ifndef SWIFTLET_TOOLS_LAB_TIMED_BACKEND_H
#define SWIFTLET_TOOLS_LAB_TIMED_BACKEND_H

#include "core/decode/engine.h"
#include "tools/lab/prices.h"

struct timed_backend;

/* In place of the model's backend or the adapter's. */
struct timed_part {
	struct backend backend; /* first: what the engine sees */
	struct backend* inner;  /* the engine's own; NULL: it has none */
	struct timed_backend* clock;
};

struct timed_backend {
	struct timed_part model, adapter;
	struct engine* engine;
	struct cost_model shares;
	struct price_list prices;
	double now;
};

/* Stands in for the engine's backends until it is removed, and sets the options' clock, at the prices that a
 * bench's option --prices states; NULL: all stays as it is. What the engine has learned of costs is
 * forgotten. False with the error set. */
bool timed_backend_by_option(struct timed_backend*, struct engine*, struct swiftlet_options*,
                             const char* prices, struct error*);
/* Where none was installed it does nothing. */
void timed_backend_remove(struct timed_backend*);
extern const char timed_backend_option_help[];

#endif
