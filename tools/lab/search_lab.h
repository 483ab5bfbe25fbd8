/* A laboratory for the layer-set search: answers that a model wrote to prompts of two halves, one to search
 * on, one to judge on, and what masks get right of them.
 *
 * Nothing is simulated: a score is teacher-forced over the answers, a window of LAB_WINDOW rows a pass, each
 * row with the full model's keys and values of all tokens before it, as the optimizer scores. A mask's price
 * is the share of a plain step's weight bytes that it saves. */
#ifndef SWIFTLET_TOOLS_LAB_SEARCH_LAB_H
#define SWIFTLET_TOOLS_LAB_SEARCH_LAB_H

#include "optimizer/spans.h"
#include "tools/lab/bench.h"
#include "tools/program/state_texts.h"

enum { LAB_WINDOW = 32, LAB_LEARN = 0, LAB_JUDGE = 1, LAB_MOST_WINDOWS = 1024 };

struct lab_window {
	int text, base, size; /* predicts id[base + 1 … base + size] from `base` committed tokens */
};

struct lab_half {
	struct state_text* text; /* (n) with their caches */
	int n;
	struct lab_window window[LAB_MOST_WINDOWS]; /* round and round over the texts */
	int windows;
};

struct lab {
	struct text_maker maker;
	struct backend* backend;
	int blocks;
	struct lab_half half[2];
	struct spans spans;           /* over the answers to search on */
	double attention, mlp, fixed; /* prices, in plain steps */
	struct result out[LAB_WINDOW];
};

/* Sums over rows. */
struct lab_score {
	int rows, matches;
	double probability, log_probability; /* the draft's of the target's token; 0.03 at least in the log */
};

/* prompt: every other one to search on. False with the error set; close in any case. */
bool lab_open(struct lab*, const struct bench*, const struct swiftlet_options*, const struct prompt* prompt,
              int n, struct error*);
void lab_close(struct lab*);
/* Adds the mask's score on windows [first, first + n) of a half. */
bool lab_score(struct lab*, int half, const struct mask*, int first, int n, struct lab_score*, struct error*);
/* One-step alpha: the share of an answer's tokens that a single draft step finds after the full model's keys
 * and values of all tokens before; negative with the error set. */
double lab_alpha(struct lab*, int half, const struct mask*, struct error*);
/* Share of a plain step that a mask saves. */
double lab_saved(const struct lab*, const struct mask*);

#endif
