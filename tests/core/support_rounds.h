/* Rounds without a model: a text that the target emits whatever is drafted, and costs instead of a clock.
 */
#pragma once

#include "core/decode/speculate.h"

struct rounds {
	struct drafter_set set;
	struct acceptance acceptance;
	struct planner planner;
	struct result out[MAX_ROWS];
	int32_t vocab;
	int64_t passes, tokens, rows;
	double cost, balance;    /* plain steps; what was saved so far */
	double predicted;        /* over rows whose parents were right: their acceptance estimates */
	double worst;            /* least balance, less the floor it may fall to */
	const int32_t* expected; /* (n_expected) what `prediction` is fed after the beginning, or NULL */
	int n_expected;
	bool honour_budget; /* a round's budget is what the budget's rule allows (design, section 4, promise 3) */
};

/* v(n) = 1 + slope (n - 1), c for every drafter that makes passes. */
void rounds_open(struct rounds*, const char* drafters, int context, int vocab, double slope, double c);
void rounds_close(struct rounds*);
/* The target continues text[0..from) up to n tokens, whatever was drafted; drafters know the beginning. What
 * it would say elsewhere, and its lesser choices, are drawn at random. */
void rounds_run(struct rounds*, const int32_t* text, int from, int n);
