/* A golden folder: what transformers computes for a model (tools/oracle/golden.py). */
#pragma once

#include "core/model/model.h"

enum { GOLDEN_ROWS = 4, GOLDEN_MASKS = 3, GOLDEN_TOKENS = 512 };

struct golden_mask {
	struct mask skip;
	int base, window, matched;
	int n_rows, row[GOLDEN_ROWS];
};

struct golden {
	int32_t prompt[GOLDEN_TOKENS];
	int n_prompt;
	int32_t token[GOLDEN_TOKENS];
	int n_tokens;
	int n_rows, row[GOLDEN_ROWS];
	int n_masks;
	struct golden_mask mask[GOLDEN_MASKS];
	float* logits; /* (kept rows, vocab) */
	int n_kept;
	double llama_cpp_error; /* how far llama.cpp was from the golden logits, of the largest; 0: not asked */
};

/* Reads FOLDER/golden.json and logits.bin; fails the running test when they are not as expected. */
void golden_read(struct golden*, const char* folder, int vocab);
void golden_free(struct golden*);

/* How far our results may be from the golden ones, as a share of the row's largest logit. */
struct golden_bound {
	double logits;
	enum dtype cache;
	const char* isa;
};
/* Runs the model as the golden folder describes, token by token and then with each mask; fails the test on
 * any other token, or matchness, or on logits beyond the bound. Returns the largest error seen. */
double golden_check(const struct model*, const struct golden*, const struct golden_bound*);
