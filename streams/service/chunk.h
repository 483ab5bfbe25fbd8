/* Chooses how many rows of prompts an iteration computes, by the cost of passes.
 *
 * A whole chunk is the most rows that cost no more than eight plain steps, and at least 32. A whole iteration
 * is meant to cost no more than that, drafts and other sequences' rows included. So a token, and a new
 * request's first token, waits for the end of one iteration and then for its own. */
#pragma once

#include "core/decode/cost.h"

enum { LEAST_CHUNK_ROWS = 32 };

/* Rows of a whole chunk, at most PREFILL_CHUNK; `asked` unless that is 0. */
int chunk_whole(const struct cost_model*, int asked);
/* The most rows of prompts, up to `chunk`, with which an iteration costs no more than a pass of `chunk` rows.
 * `spent` plain steps' time went before its full pass, which has `beside` rows of other sequences. At least a
 * quarter of the chunk, so that prompts make progress. */
int chunk_rest(const struct cost_model*, int chunk, double spent, int beside);
