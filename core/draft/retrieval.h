/* The `retrieval` drafter: what followed the last time that the text read like this.
 *
 * The longest suffix of the sequence that occurred before, in the sequence itself or in a pool of earlier
 * texts, whichever promises more, and what followed there (prompt lookup; SuffixDecoding, Oliaro et al. 2024,
 * arXiv 2411.04975); shorter suffixes after it. The evidence is the suffix's length, the follower's share and
 * where it was found. */
#ifndef SWIFTLET_CORE_DRAFT_RETRIEVAL_H
#define SWIFTLET_CORE_DRAFT_RETRIEVAL_H

#include "core/draft/drafter.h"
#include "core/draft/suffix.h"

enum { POOL_GENERATIONS = 2 };

/* Earlier texts of one tenant (an API key, a stream), never of two: what a text is drafted from can be told
 * by its timing. Sequences read it; nobody may read while it grows. Old texts leave in whole generations. */
struct retrieval_pool {
	struct suffix_index* generation[POOL_GENERATIONS]; /* the one that grows first */
	int capacity;                                      /* of a generation, tokens */
	int64_t version;                                   /* grows when places are no longer good */
};

/* Holds at least the last capacity / 2 tokens, at most capacity. NULL on no memory. */
struct retrieval_pool* retrieval_pool_open(int capacity);
void retrieval_pool_close(struct retrieval_pool*);
/* Adds a whole text; of one longer than capacity / 2 the end. Allocates nothing. */
void retrieval_pool_add(struct retrieval_pool*, const int32_t* token, int n);

/* state: of the drafter. The pool it reads from now on, or NULL. */
void retrieval_use_pool(void* state, const struct retrieval_pool*);
/* Tokens of the suffix that the first candidate for the row 0 asked of last was found by; 0: none. */
int retrieval_match(const void* state);

#endif
