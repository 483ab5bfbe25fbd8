/* The pool's insides, for the drafter that reads it. */
#ifndef SWIFTLET_CORE_DRAFT_RETRIEVAL_POOL_H
#define SWIFTLET_CORE_DRAFT_RETRIEVAL_POOL_H

#include "core/draft/retrieval.h"
#include "core/draft/suffix.h"

enum { POOL_GENERATIONS = 2 };

struct retrieval_pool {
	struct suffix_index* generation[POOL_GENERATIONS]; /* the one that grows first */
	int capacity;                                      /* of a generation, tokens */
	int64_t version;                                   /* grows when places are no longer good */
};

#endif
