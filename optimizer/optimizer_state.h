/* The optimizer's state, shared by optimizer.c and score.c, which it calls. */
#pragma once

#include "optimizer/optimizer.h"

/* The tokens that proposals are scored on: text[base + 1 … base + size], predicted from the rows
 * text[base … base + size - 1] in one pass over base committed tokens. */
struct window {
	int64_t id;
	int start, size; /* in generated tokens; size 0: none in this instance yet */
	int base;
	int scored; /* proposals scored on it */
	struct proposal proposal;
	double usual; /* tokens that a request generates, of late; 0: none has ended yet */
};

/* A scoring pass's rows. */
struct scoring {
	int32_t parent[MAX_ROWS];
	struct segment segment[MAX_ROWS];
	uint8_t want[MAX_ROWS];
	struct result result[MAX_ROWS];
};

struct optimizer {
	struct learner learner; /* first */
	struct session* session;
	struct search* search;
	struct window window;
	int64_t proposals;          /* scored during this generation */
	struct draft_states scored; /* of the proposal at hand: what runs with the draft weights */
	struct spans spans;         /* of generated text; no sum: not measured */
	float* states;              /* (2L, dim) of a pass's first row, for the spans */
	struct scoring pass;        /* at hand */
};

static inline struct optimizer* optimizer_of(const struct session* s) {
	return (struct optimizer*)session_learner(s);
}

/* The best mask drafts, if it is another now. */
void optimizer_adopt_best(struct optimizer*);
/* The learner's calls of these names. */
void score_new_instance(struct optimizer*);
bool score_begin(struct learner*);
void score_fill(struct learner*, struct pass*);
bool score_take(struct learner*, const struct pass*, double seconds);
