/* The `prediction` drafter: a text that the output is expected to follow (the API's `prediction`, `run
 * --expect`).
 *
 * A cursor walks the expected text with the output. After a difference it finds its place again: where the
 * last tokens of the output stand in the expected text, nearest to where it was; until they do, it supposes
 * that one token was exchanged for another. The evidence is how many tokens have agreed since. */
#ifndef SWIFTLET_CORE_DRAFT_PREDICTION_H
#define SWIFTLET_CORE_DRAFT_PREDICTION_H

#include "core/draft/drafter.h"

/* state: of the drafter. The text that the tokens appended from now on are expected to follow; of one longer
 * than the context the beginning. n = 0: none. Returns the tokens taken. forget(0) drops it. */
int prediction_feed(void* state, const int32_t* token, int n);

#endif
