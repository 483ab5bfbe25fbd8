/* A backend without arithmetic, for testing decisions: the full model's next token is a function of the
 * position alone, the draft model's is whatever an adversary likes, and time passes as the test sets it. */
#pragma once

#include "core/decode/session_state.h"

struct fake {
	struct backend backend;
	struct cache cache;
	int depth[MAX_ROWS];
	double now;         /* the injected clock, seconds */
	double c, slope;    /* a draft step, and one more row, in plain steps of 1 s */
	double quantized_c; /* a draft step with the quantized draft weights, once they are ready */
	bool quantized;     /* the pass at hand runs with it */
	double noise;       /* each pass takes up to this share more or less */
	/* in the second half of every `period` seconds everything takes `swing` times as long; 0: never */
	double swing, period;
	/* attention over the cache: bytes of keys and values take so many times what bytes of weights take, and
	 * one row more adds so much of one row's */
	double attention, attention_slope;
	bool memory;  /* of memory alone: a pass of many rows waits for arithmetic, which goes on as before */
	double again; /* a commit takes each row of a pass of several once more: what this adds for a row */
	double work;  /* seconds that the passes would have taken without */
	uint64_t random;
	/* Whether the draft guesses the token at `position` right; *probability is its confidence. */
	bool (*right)(struct fake*, int position, float* probability);
	int64_t full, drafts, scored; /* passes */
	struct block_weights block[32], quantized_block[32];
	struct tensor quantized_head;
	struct model model;
	struct engine engine;
};

/* Token at a position when the full model speaks. */
int32_t fake_truth(int position);
void fake_open(struct fake*, bool (*right)(struct fake*, int, float*), double c, double slope);
void fake_close(struct fake*);
/* Attention takes time from now on, as the backend measures. */
void fake_set_attention(struct fake*, double ratio, double slope);
/* Seconds of attention in a full pass of n rows after so many tokens. */
double fake_attention(const struct fake*, int tokens, int rows);
/* A copy of all weights in a quarter of their bytes is to be made; and it joins: a draft step with it costs
 * quantized_c.
 */
void fake_plan_draft_weights(struct fake*);
void fake_join_draft_weights(struct fake*, double quantized_c);
struct session* fake_session(struct fake*, struct swiftlet_options*);
/* Adversaries for fake_open: sure of each token, and wrong at each or right at each. */
bool fake_always_wrong(struct fake*, int position, float* probability);
bool fake_always_right(struct fake*, int position, float* probability);
uint64_t fake_random(struct fake*);
