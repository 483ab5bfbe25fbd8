/* Tries what drafts at the engine's levels would say before draft weights are made.
 *
 * Making draft weights takes as long as some 40 tokens, and does not pay where a model loses too much without
 * the channels that they leave out. So first one pass runs some generated tokens again, each after the same
 * tokens as before, with the stored weights and without those channels. The share of tokens that come out
 * again is matchness (SWIFT Eq. 4) of the levels. From it and from costs follows how soon draft weights bring
 * in what making them takes. */
#pragma once

#include "kernels/backend.h"

struct session;

/* DRAFTS_BRING_IN: tokens in which draft weights save one plain step before a trial says more, which is a
 * speed-up of 1.5. */
enum { TRIAL_ROWS = 16, DRAFTS_BRING_IN = 3 };

/* An engine's trials so far. */
struct draft_trials {
	double right, rows; /* of the rows, those whose token came out again */
	double at;          /* tokens emitted before the last one; 0: there was none */
};

/* A session's part of them: the rows of the pass at hand. */
struct draft_trial {
	int n; /* 0: none is wanted */
	struct segment segment[TRIAL_ROWS];
	int32_t parent[TRIAL_ROWS];
	uint8_t want[TRIAL_ROWS];
	struct result result[TRIAL_ROWS];
	struct levels levels;
};

/* True if the present request's text can be tried: by this backend, with what limits its tokens. */
bool draft_trial_can_run(const struct session*);
/* Wants a trial before the next round, unless too few tokens were generated yet, or a request waits. */
void draft_trial_begin(struct session*);
/* Its pass, and what comes of that; the caller charges the pass to learning. */
void draft_trial_fill(struct session*, struct pass*);
void draft_trial_take(struct session*);
/* Tokens in which draft weights are expected to save one plain step, 1 / (1 - 1 / r), r the speed-up of the
 * best chain (cost.h). INFINITY if they save none. */
double draft_trial_brings_in(const struct session*);
