/* Synthetic models, `synth:SHAPE[,key=value…]`: the spec, and the functions that make the weights.
 *
 * They have the memory traffic of a published shape whose weights are not at hand, text that neither loops
 * nor hesitates, and sub-layers that are known to be skippable. */
#pragma once

#include "kernels/backend.h"

struct synth_spec {
	int layers, dim, heads, kv_heads, head_dim, ffn, vocab, context;
	int experts, experts_used, expert_ffn; /* 0: every MLP is a single one */
	/* Every attention_every-th block has (gated) attention and the others a gated delta rule; 0: all have
	 * attention. */
	int attention_every, key_heads, value_heads, key_dim, value_dim, taps;
	/* With a window: blocks as in Gemma 4. Every full_every-th block and the last one see the whole text,
	 * with heads of full_head_dim. 0: no block has a window. */
	int window, full_every, full_head_dim;
	double shared;   /* share of the blocks, the last ones, that read the keys of earlier ones */
	int token_input; /* elements that each block reads of the token itself */
	int mtp;         /* 1: there is an MTP layer */
	double theta;    /* RoPE's base */
	enum dtype dtype;
	uint64_t seed;
	double plant;   /* share of the 2(L-2) inner sub-layers made nearly redundant, 0 = none */
	double epsilon; /* what is left of their output */
	int tasks;      /* 1 or 2 */
};

/* Reads the text behind "synth:". False with the error set; the message names the key. */
bool synth_spec_parse(struct synth_spec*, const char* text, struct error*);

/* The number of blocks that read the keys of earlier ones: at most so many that a block of each kind comes
 * before them. */
int synth_shared_blocks(const struct synth_spec*);

/* The planted sub-layers of a half. The seed draws the blocks, as many attention as MLP (±1). */
struct mask synth_planted(const struct synth_spec*, int half);

/* Stores n elements (a whole number of blocks) in one of the types that a spec allows. */
void synth_encode(enum dtype, void* out, const float* x, int64_t n);

/* Makes every tensor's elements, on all cores, in the memory that its data points to. False with the error
 * set. */
bool synth_fill(struct tensor* const* list, int n, struct error*);
