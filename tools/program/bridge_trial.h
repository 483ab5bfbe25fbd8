/* What bridges make of spans that are left out: fitted to states of full passes over some texts, judged on
 * others.
 *
 * The model answers prompts greedily. On the texts that judge, one-step alpha is counted: how often the first
 * choice of a draft step after each position of the answer is the full model's, where the step's own row
 * leaves a span out, bare, and with a bridge, which reads the state before the span and the previous token's
 * final state. Prices of passes are measured; a GPU's stand beside them, where v
 * grows by 0.006 a row. At both it is said what a span gains where nothing else drafts, and beside what
 * speed-up of other drafters one more of its steps still pays. */
#ifndef SWIFTLET_TOOLS_PROGRAM_BRIDGE_TRIAL_H
#define SWIFTLET_TOOLS_PROGRAM_BRIDGE_TRIAL_H

#include <cjson/cJSON.h>

#include "core/bridge/bridge_file.h"
#include "core/bridge/solve.h"
#include "tools/program/state_texts.h"

enum { BRIDGE_SPANS = 8, BRIDGE_ROWS = 5, BRIDGE_SIZES = 8 };

struct bridge_span {
	int first, last;   /* blocks, both left out */
	int before, after; /* which of the states */
	struct gram gram;
	double cost[2]; /* of a draft step, bare and with a bridge: in plain ones */
	double bare;    /* one-step alpha */
	struct {
		double right; /* likewise */
		struct ridge_fit fit;
	} learned[BRIDGE_SIZES];   /* (n_sizes) */
	struct kept_bridge bridge; /* the last of them */
};

struct bridge_trial {
	struct text_maker maker; /* the caller's, as are tokens, save and the prompts */
	int64_t tokens;   /* to learn from, or all there are; judged at 2,000, 8,000 and so on, and at the end */
	const char* save; /* bridges are kept in SAVE-FIRST-LAST.safetensors; NULL: nowhere */
	struct prompt_list learn, judge;

	struct state_text *learned, *judged; /* (learn.n), (judge.n) */
	float** state;                       /* (judge.n) each (points, text's rows, dim) */
	struct bridge_span span[BRIDGE_SPANS];
	struct state_points points;
	int n_spans;
	long rows, positions; /* learned from so far; judged */
	int n_sizes;
	long size[BRIDGE_SIZES];      /* (n_sizes) rows learned from when bridges were judged */
	float *previous, *difference; /* (dim) the row before's final state; of the row at hand */
	double row_seconds[BRIDGE_ROWS];
	float *weight, *bias, *bridged; /* (dim, 2·dim), (dim), (64, dim) */
};

/* Every other of the prompts that judge is learned from. False with the error set where there are fewer than
 * two. */
bool bridge_trial_split(struct bridge_trial*, struct error*);
/* spans: "9-16,4-18", or NULL: of some lengths those of least influence. False with the error set; close in
 * any case. */
bool bridge_trial_run(struct bridge_trial*, const char* spans, struct error*);
void bridge_trial_close(struct bridge_trial*);
/* Times passes and draft steps (bridge_tell.c), at the end of a text that judges. */
bool bridge_trial_price(struct bridge_trial*, struct error*);
/* The table, and in a sentence whether anything pays. */
void bridge_trial_print(const struct bridge_trial*);
bool bridge_trial_json(const struct bridge_trial*, cJSON* out);

#endif
