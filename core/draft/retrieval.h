/* The `retrieval` drafter: tokens that followed an earlier place with the same last tokens.
 *
 * It finds the longest suffix of the sequence that occurred before, in the sequence itself or in a pool of
 * earlier texts, whichever promises more, and proposes the tokens that followed there (prompt lookup;
 * SuffixDecoding, Oliaro et al. 2024, arXiv 2411.04975). Shorter suffixes come after it. The evidence is the
 * suffix's length, the follower's share, and which of the two it came from. */
#pragma once

#include "core/draft/drafter.h"
#include "core/draft/suffix.h"

enum { POOL_GENERATIONS = 2 };

/* Earlier texts of one tenant (an API key, a stream). Tenants never share a pool, because the timing of
 * drafts reveals its texts. Sequences read it; nobody may read while it grows. Old texts leave a whole
 * generation at a time. */
struct retrieval_pool {
	struct suffix_index* generation[POOL_GENERATIONS]; /* the one that grows first */
	int capacity;                                      /* of a generation, tokens */
	int64_t version;                                   /* grows when places are no longer good */
};

/* Holds at least the last capacity / 2 tokens, at most capacity. NULL on no memory. */
struct retrieval_pool* retrieval_pool_open(int capacity);
void retrieval_pool_close(struct retrieval_pool*);
/* Adds a whole text, or the end of one that is longer than capacity / 2. Does not allocate. */
void retrieval_pool_add(struct retrieval_pool*, const int32_t* token, int n);

/* state: the drafter's. Sets the pool that it reads, or NULL. */
void retrieval_use_pool(void* state, const struct retrieval_pool*);
