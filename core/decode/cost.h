/* What passes cost, measured as they run, in one-row full passes at the same context.
 *
 * Three things are learned from the clock: the seconds of a one-row full pass, the relative cost v(n) of n
 * rows, and how far a draft step's cost is from the share of weight bytes that it reads. Estimates start
 * from the bytes, so that there is a sensible one before anything was measured. A row count that looked dear
 * is not used, hence not measured again: after 256 passes without it the old measurement is forgotten, and
 * each time that it is confirmed the next trial is four times as far away.
 *
 * A machine's speed swings: others use its memory. All costs are ratios, so what counts is that a pass and
 * the plain step it is compared with saw the same speed. Passes right after a plain step are measured by it;
 * later ones, of well-known cost, move the seconds of everything along until the next plain step. */
#ifndef SWIFTLET_CORE_DECODE_COST_H
#define SWIFTLET_CORE_DECODE_COST_H

#include "kernels/draft_weights.h"

enum { COST_KNOTS = 15 };

/* One way to run the weights: the sub-layers left out, of the others those that run with the quantized draft
 * weights, and whether the head does. NULL: none. */
struct variant {
	const struct mask *skip, *quantized;
	bool quantized_head;
	const struct levels* levels; /* of the draft weights by input channel; NULL: it is read whole */
	/* Of the bytes that a plain step reads at the text's length, the cache's share, and what attention reads
	 * of that; zeros: the cache is left out of account. */
	double cache, cache_read;
};

/* Weight bytes of one block's sub-layers, averaged, and what no mask saves: the head. */
struct cost_bytes {
	double attention, mlp, fixed;
};

struct cost_model {
	struct cost_bytes stored, quantized; /* the latter of the quantized draft weights; 0 without them */
	double kind[COLUMN_KINDS]; /* of draft weights by input channel the bytes of one block's maps, averaged */
	int blocks;
	double plain;            /* seconds of a one-row full pass; 0 before any was measured */
	double rows[COST_KNOTS]; /* seconds of a full pass at each knot's rows; 0 unmeasured */
	double draft_ratio;      /* measured cost of a draft step over its share of bytes */
	double quantized_ratio;  /* likewise, of the bytes that are the quantized draft weights' */
	double score_ratio;      /* likewise of a matchness pass, over its share of bytes times v(n) */
	int plain_seen, draft_seen, quantized_seen, score_seen, rows_seen[COST_KNOTS];
	int64_t passes, rows_last[COST_KNOTS]; /* full passes so far; their number when a knot was last seen */
	int64_t rows_trust[COST_KNOTS];        /* passes for which a knot's measurement is believed */
	int64_t news;                          /* the last pass that was the first of so many rows */
	double off; /* by how much plain steps after other passes took longer or less than was thought, of late */
	int64_t followed; /* passes since the last plain step that measured the machine's speed */
	double slope;     /* cost of one more row where nothing was measured, in plain steps */
};

/* Weight bytes that a full pass reads. */
static inline double cost_all_bytes(const struct cost_model* cost) {
	return cost->blocks * (cost->stored.attention + cost->stored.mlp) + cost->stored.fixed;
}

/* What a full pass that goes on from this sub-layer, an attention, reads of that. */
static inline double cost_rest(const struct cost_model* cost, int first) {
	return 1 - first / 2 * (cost->stored.attention + cost->stored.mlp) / cost_all_bytes(cost);
}

/* coarse_head: bytes of the draft weights that passes read in the head's place; 0: they read the head. */
void cost_open(struct cost_model*, const struct weight_table*, size_t coarse_head);
/* Passes may run with these draft weights from now on. */
void cost_use_draft_weights(struct cost_model*, const struct draft_weights*);

/* As before anything was measured: by bytes alone. */
struct cost_model cost_by_bytes(const struct cost_model*);

/* Each takes the seconds of one pass as measured. */
void cost_see_full(struct cost_model*, int rows, double seconds);
void cost_see_draft(struct cost_model*, struct variant, double seconds);
void cost_see_score(struct cost_model*, struct variant, int rows, double seconds);
/* Draft steps of this kind are to be tried again: where few were measured they cost at most what bytes say.
 */
void cost_draft_anew(struct cost_model*, struct variant);

/* Seconds of a one-row full pass: measured, or judged from wider passes. 0 when nothing is known yet. */
double cost_plain_seconds(const struct cost_model*);
/* v(n), n in 1..MAX_ROWS; v(1) = 1, not decreasing. */
double cost_verify(const struct cost_model*, int rows);
/* The most it can be where that many rows were not measured yet. */
double cost_verify_worst(const struct cost_model*, int rows);
/* v of any number of rows, by what was measured alone: along straight lines between it, and beyond it on
 * along the last one or the mean one, whichever is steeper. For costs of further rows at a large number:
 * none is less than half as dear as those before it were, or where one number was measured on a slow machine
 * and another on a fast one rows would seem to be free. */
double cost_between(const struct cost_model*, double rows);
/* Rows of which so many go through the head, as rows that all do: prompts' rows that nothing is wanted of are
 * cheaper, and must not make drafts' rows look so. */
double cost_rows_with_heads(const struct cost_model*, int rows, int with_head);
/* Whether about so many rows were measured more than once or twice. */
bool cost_rows_seen(const struct cost_model*, int rows);
/* The largest number of rows that was measured. */
int cost_rows_known(const struct cost_model*);
/* c of a variant; and the most it can be while no draft step was measured yet: a full pass. */
double cost_draft(const struct cost_model*, struct variant);
double cost_draft_worst(const struct cost_model*, struct variant);
/* The head's share of that, all of it read. */
double cost_head_share(const struct cost_model*, struct variant);
/* What it reads, as a share of a full pass's weight bytes. */
double cost_share(const struct cost_model*, struct variant);
/* What it reads of the layers, as a share of all of them: skipped sub-layers and the channels that are left
 * out are missing. In how many bits it is stored does not count. */
double cost_layers_read(const struct cost_model*, struct variant);
/* Cost of a variant's pass of n rows. */
double cost_matchness(const struct cost_model*, struct variant, int rows);
/* Cost of a block's maps by kind, whole, with draft weights by input channel, in plain steps. */
void cost_channels(const struct cost_model*, double kind[COLUMN_KINDS]);
/* Cost of one attention sub-layer, one MLP sub-layer, and the rest, in plain steps; quantized: all of them
 * run with the quantized draft weights, at these levels where they are by input channel (NULL: whole). */
void cost_sub_layers(const struct cost_model*, bool quantized, const struct levels*, double* attention,
                     double* mlp, double* fixed);

#endif
