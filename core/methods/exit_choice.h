/* Chooses by measured cost at which block to leave the model early, and how far to draft from there.
 *
 * It measures on generated text how often an exit's choices are the target's, for all exits at once: rows run
 * up to the first exit, give their choices, and go on to the next. It measures again when the text is four
 * times as long. The exit with the most tokens over cost drafts. With e and h the shares of its blocks and of
 * the head in a plain step, a the share of its first choices that are right, and p that of its k likeliest,
 * tokens over cost are, if verification continues from the exit,
 *
 *     a chain of d steps:     (1 + a + … + a^d) / (d·(e + h) + e + v(d + 1)·(1 - e))
 *     k children, one step:   (1 + p) / (e + h + v(k)·e + v(k + 1)·(1 - e))
 *
 * and if it does not (no reuse) the same with v(d + 1) or v(k + 1) for what follows the drafts. */
#pragma once

#include "core/decode/cost.h"
#include "core/draft/tree.h"
#include "core/methods/exit_heads.h"
#include "core/model/auxiliary_weights.h"

enum { EXITS = 10, EXIT_ROWS = 32 };

struct exit_choice {
	int exits, block[EXITS];         /* ascending */
	double seen;                     /* rows, fading */
	double hits[EXITS][TREE_RANKS];  /* rows whose target token was among the k + 1 likeliest */
	int64_t measured_at;             /* tokens that had been generated */
	int exit_block, steps, children; /* chosen */
	double rate;                     /* expected tokens over cost; 0: unknown */

	/* the measurement under way */
	int exit, n;          /* of block[]; rows */
	bool tapped;          /* their states after it are there */
	const int32_t* token; /* (n + 1) */
	struct segment segment;
	struct exit_heads* heads;
	float* state;
	struct result out[EXIT_ROWS];
	uint8_t want[EXIT_ROWS];
	int32_t row[EXIT_ROWS];
};

/* The exits to measure: only `given` unless it is 0, else some between the first and last block. */
void exit_choice_open(struct exit_choice*, int blocks, int given);
/* Measures only exits that have a trained head, at most EXITS of them. There must be one. */
void exit_choice_keep(struct exit_choice*, const struct heads*);
/* Measures on the n <= EXIT_ROWS + 1 tokens after `base`, which are committed except the last; nothing may be
 * pending. The sampler is the text's own, or NULL. Trained heads, if given (then without noise), read states
 * (EXIT_ROWS, dim) that are written to `state`. Begins; the next pass; takes its results, true after the
 * last. The arrays stay the caller's. */
void exit_choice_begin(struct exit_choice*, struct cache*, const int32_t* token, int base, int n,
                       const struct sampler*, struct exit_heads*, float* state);
void exit_choice_fill(struct exit_choice*, struct pass*);
bool exit_choice_take(struct exit_choice*);
/* Chooses those of `steps` and `children` that are not given (0); children < 0: a chain. most: steps. */
void exit_choice_make(struct exit_choice*, const struct cost_model*, bool reuse, int steps, int children,
                      int most);
