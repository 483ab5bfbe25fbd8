/* One round of one sequence: draft steps with sub-layers skipped, a tree, one verify pass.
 *
 * The round fills passes and takes their results; who runs them, and which other sequences share them, is
 * the caller's business. What to draft and which tree to build are given as policies. Nothing here
 * allocates; a round is a plain struct of fixed size. */
#ifndef SWIFTLET_CORE_DRAFT_ROUND_H
#define SWIFTLET_CORE_DRAFT_ROUND_H

#include "core/draft/tree.h"
#include "core/draft/verify.h"

struct round {
	struct segment segment;        /* the sequence's cache, base and sampler */
	int32_t root;                  /* the last token emitted */
	int steps;                     /* draft steps taken */
	bool stopped;                  /* no further draft step */
	float chance;                  /* learned chance of the drafted path */
	struct result step[MAX_DRAFT]; /* the draft's results by depth */
	struct tree tree;
	struct result out[MAX_ROWS]; /* the target's results by row */
	uint8_t want[MAX_ROWS];
	int32_t token[1], parent[1];
	struct verdict verdict;
};

/* Starts a round at `root`, which follows the cache's committed tokens. sampler may be NULL. */
void round_start(struct round*, struct cache*, const struct sampler*, int32_t root);
/* The next draft step as a pass with `skip` left out; top is TREE_RANKS wide. */
void round_draft_pass(struct round*, const struct mask* skip, int blocks, struct pass*);
/* Takes the step's result; sets `stopped` when the policy, or an end token, says so. */
void round_take_draft(struct round*, const struct draft_policy*, bool is_end);
/* What the policy says after steps were taken elsewhere (a device's draft loop). */
bool draft_goes_on(const struct draft_policy*, const struct result* step, int steps, float chance);
/* Drops the draft's rows, builds the tree and fills the verify pass; a round without draft steps is a
 * plain step, a tree of the root alone. extra_want is added to every row's WANT_TOKEN. */
void round_verify_pass(struct round*, const struct tree_policy*, const struct acceptance_table*, int blocks,
                       uint8_t extra_want, struct pass*);
/* Takes the target's results and commits the accepted path. */
void round_take_verify(struct round*);

#endif
