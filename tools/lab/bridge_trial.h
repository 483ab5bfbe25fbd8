/* What bridges make of spans that are left out: fitted to states of full passes over some texts, judged on
 * others.
 *
 * The model answers prompts greedily. On the texts that judge, one-step alpha is counted: how often the first
 * choice of a draft step after each position of the answer is the full model's, where the step's own row
 * leaves a span out, bare, and with a bridge, which reads the state before the span and the previous token's
 * final state. */
#ifndef SWIFTLET_TOOLS_LAB_BRIDGE_TRIAL_H
#define SWIFTLET_TOOLS_LAB_BRIDGE_TRIAL_H

#include "core/bridge/solve.h"
#include "tools/lab/state_texts.h"

enum { BRIDGE_SPANS = 8, BRIDGE_SIZES = 8 };

struct bridge_span {
	int first, last;   /* blocks, both left out */
	struct mask mask;  /* likewise */
	int before, after; /* which of the states */
	struct gram gram;
	double bare; /* one-step alpha */
	struct {
		double right; /* likewise */
		struct ridge_fit fit;
	} learned[BRIDGE_SIZES]; /* (n_sizes) */
	struct bridge bridge;    /* the last of them */
	void* memory;            /* what it points into */
};

struct bridge_trial {
	const struct runtime* bench; /* the caller's, as are tokens and the prompts */
	int64_t tokens; /* to learn from, or all there are; judged at 2,000, 8,000 and so on, and at the end */
	struct prompt_list learn, judge;

	struct state_text *learned, *judged; /* (learn.n), (judge.n) */
	struct bridge_span span[BRIDGE_SPANS];
	struct state_points points;
	int n_spans, n_sizes;
	long size[BRIDGE_SIZES];      /* (n_sizes) rows learned from when bridges were judged */
	long rows, positions;         /* learned from so far; judged */
	float *previous, *difference; /* (dim) the row before's final state; of the row at hand */
	float *weight, *bias;         /* (dim, 2·dim), (dim) */
};

/* Fits and, where there are prompts to judge by, judges. spans: "9-16,4-18". False with the error set; close
 * in any case. */
bool bridge_trial_run(struct bridge_trial*, const char* spans, struct error*);
void bridge_trial_close(struct bridge_trial*);

#endif
