/* The end of a round: one full pass verifies the tree, and the accepted path is committed.
 *
 * The round fills the pass and takes its results. The caller runs it, perhaps together with other sequences'.
 * A tree of the root alone is a plain step. Nothing here allocates. */
#pragma once

#include "core/draft/tree.h"

struct round {
	struct segment segment;      /* the sequence's cache, base and sampler */
	const struct tree* tree;     /* the caller's, from the verify pass on */
	struct result out[MAX_ROWS]; /* the target's results by row */
	uint8_t want[MAX_ROWS];
	struct verdict verdict;
	const int32_t* pending; /* (tree rows) their numbers among the cache's pending rows; NULL: the same */
};

/* Starts a round after the cache's committed tokens. sampler may be NULL. */
void round_start(struct round*, struct cache*, const struct sampler*);
/* Drops the rows that drafts left pending, and fills the verify pass. extra_want is added to every row's
 * WANT_TOKEN. */
void round_verify_pass(struct round*, const struct tree*, uint8_t extra_want, struct pass*);
/* The same for a tree whose rows have all run [0, from) as the cache's pending rows `pending` (the caller's,
 * until the round ends). They continue from there: LayerSkip's reuse, section 4.3.3. The caller has rewound
 * the cache to `from`. */
void round_rest_pass(struct round*, const struct tree*, const int32_t* pending, int from, uint8_t extra_want,
                     struct pass*);
/* Takes the target's results: the verdict. Another rule may give it in this function's place. */
void round_judge(struct round*);
/* Commits the verdict's accepted path. */
void round_commit(struct round*);
