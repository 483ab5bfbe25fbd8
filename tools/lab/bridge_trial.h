/* What bridges make of spans that are left out: fitted to states of full passes over some texts, judged on
 * others.
 *
 * The model answers prompts greedily. On the texts that judge, one-step alpha is counted: how often the first
 * choice of a draft step after each position of the answer is the full model's, where the step's own row
 * leaves a span out, bare, and with a bridge, which reads the state before the span and the previous token's
 * final state. A step costs the bytes that it reads. At the caller's prices of rows, and at a GPU's, where v
 * grows by 0.006 a row, it is said what a span gains where nothing else drafts, and beside what speed-up of
 * other drafters one more of its steps still pays. */
#ifndef SWIFTLET_TOOLS_LAB_BRIDGE_TRIAL_H
#define SWIFTLET_TOOLS_LAB_BRIDGE_TRIAL_H

#include "core/bridge/solve.h"
#include "tools/lab/state_texts.h"

enum { BRIDGE_SPANS = 8, BRIDGE_SIZES = 8, BRIDGE_ROWS = 16 };

struct bridge_span {
	int first, last;   /* blocks, both left out */
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
	struct text_maker maker; /* the caller's, as are tokens, the prompts and verify */
	int64_t tokens; /* to learn from, or all there are; judged at 2,000, 8,000 and so on, and at the end */
	struct prompt_list learn, judge;
	double verify[BRIDGE_ROWS + 1]; /* v(n) */

	struct state_text *learned, *judged; /* (learn.n), (judge.n) */
	float** state;                       /* (judge.n) each (points, text's rows, dim) */
	struct bridge_span span[BRIDGE_SPANS];
	struct state_points points;
	int n_spans, n_sizes;
	long size[BRIDGE_SIZES];        /* (n_sizes) rows learned from when bridges were judged */
	long rows, positions;           /* learned from so far; judged */
	float *previous, *difference;   /* (dim) the row before's final state; of the row at hand */
	float *weight, *bias, *bridged; /* (dim, 2·dim), (dim), (64, dim) */
};

/* Every other of the prompts that judge is learned from. False with the error set where there are fewer than
 * two. */
bool bridge_trial_split(struct bridge_trial*, struct error*);
/* Fits and, where there are prompts to judge by, judges. spans: "9-16,4-18". False with the error set; close
 * in any case. */
bool bridge_trial_run(struct bridge_trial*, const char* spans, struct error*);
void bridge_trial_close(struct bridge_trial*);

#endif
