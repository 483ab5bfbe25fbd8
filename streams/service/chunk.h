/* Rows of prompts that an iteration computes, by what passes cost.
 *
 * A whole chunk is the most rows that cost no more than eight plain steps, and 32 whatever they cost. All
 * that an iteration does is to cost no more than that, drafts and the others' rows included: a token, and a
 * newcomer's first one, waits for the end of an iteration that runs and then for its own. */
#ifndef SWIFTLET_STREAMS_SERVICE_CHUNK_H
#define SWIFTLET_STREAMS_SERVICE_CHUNK_H

#include "core/decode/cost.h"

enum { LEAST_CHUNK_ROWS = 32 };

/* Rows of a whole chunk, at most PREFILL_CHUNK; `asked` of them where that is not 0. */
int chunk_whole(const struct cost_model*, int asked);
/* The most rows of prompts, up to `chunk`, with which an iteration costs no more than a pass of `chunk` rows,
 * when `spent` plain steps' time went before its full pass, in which the others have `beside` rows. At least
 * a quarter of the chunk: a prompt must get on. */
int chunk_rest(const struct cost_model*, int chunk, double spent, int beside);

#endif
