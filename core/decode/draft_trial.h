/* Tries what drafts at the engine's levels would say before draft weights are made.
 *
 * Making draft weights takes as long as some 40 tokens, and does not pay where a model loses too much without
 * the channels that they leave out. So first one pass runs eight generated tokens again, with the stored
 * weights and without those channels. The share of tokens that come out again is matchness (SWIFT Eq. 3 and
 * 4) of the levels: keys and values before the eight are the target's, and among them the draft's. From it
 * and from costs follows the speed-up to expect. */
#pragma once

#include "kernels/backend.h"

struct session;

/* A pass of eight rows costs some two plain steps, and tells a matchness of .6 from one of .85. */
enum { TRIAL_ROWS = 8 };

/* An engine's trials so far. */
struct draft_trials {
	double right, rows; /* of the rows, those whose token came out again */
	double at;          /* tokens emitted before the last one; 0: there was none */
};

/* A session's part of them: the rows of the pass at hand. */
struct draft_trial {
	bool wanted;
	struct segment segment;
	uint8_t want[TRIAL_ROWS];
	struct result result[TRIAL_ROWS];
};

/* True if the present request's text can be tried. That needs a backend that thins, keys of all earlier
 * tokens in place of recurrent states, and tokens that neither penalties nor a grammar chose. */
bool draft_trial_can_run(const struct session*);
/* Wants a trial before the next round, unless too few tokens were generated yet, or a request waits. */
void draft_trial_begin(struct session*);
/* Its pass, and what comes of that; the caller charges the pass to learning. */
void draft_trial_fill(struct session*, struct pass*);
void draft_trial_take(struct session*);
/* After at least one trial: true if draft weights are expected to be worth making. The best chain (cost.h) at
 * the trials' matchness has to be faster than plain decoding, and than drafts that have a page list without
 * draft weights. */
bool draft_trial_pays(const struct session*);
