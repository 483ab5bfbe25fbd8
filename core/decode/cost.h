/* The cost table: costs of passes in one-row full passes at the same context, measured as they run.
 *
 * The clock teaches three things: the seconds of a one-row full pass, the relative cost v(n) of n rows, and
 * the ratio of a draft step's cost to the share of weight bytes that it reads. Estimates start from the
 * bytes, so they are sensible before any measurement. A row count that looked dear is not used, so it is not
 * measured again. After 256 passes without it the old measurement is dropped, and each confirmation makes the
 * next trial four times as far away.
 *
 * Attention takes the longer, the longer the text. Measurements are kept with the length at which they were
 * made, and costs are those at the present length: attention's part of the difference is added. That part
 * follows from the cache's bytes, at first as if they were weights, then by what backends measure:
 * attention(n) = ratio · length · (1 + slope · (n - 1)), in plain steps without attention.
 *
 * A machine's speed swings, because others use its memory. All costs are ratios, so a pass and its plain step
 * must see the same speed. Passes right after a plain step are measured by it. Later passes of well-known
 * cost adjust the seconds of all passes until the next plain step. */
#ifndef SWIFTLET_CORE_DECODE_COST_H
#define SWIFTLET_CORE_DECODE_COST_H

#include "kernels/draft_weights.h"

enum { COST_KNOTS = 15 };

/* One way to run the weights: the sub-layers left out, those of the others that run with the quantized draft
 * weights, and whether the head does. NULL: none. */
struct variant {
	const struct mask *skip, *quantized;
	bool quantized_head;
	const struct levels* levels; /* levels of the draft weights by input channel; NULL: all is read */
	double unread;               /* the share of the cache that its attention does not read */
};

/* A measurement, and the length of the text at which it was made. */
struct cost_sample {
	double seconds, length;
};

/* Mean weight bytes of one block's sub-layers, and of the head, which no mask saves. */
struct cost_bytes {
	double attention, mlp, fixed;
};

struct cost_model {
	struct cost_bytes stored, quantized; /* of stored weights; of quantized draft weights, 0 without them */
	double kind[COLUMN_KINDS]; /* mean bytes of one block's maps in draft weights by input channel */
	int blocks;
	double plain;                            /* seconds of a one-row full pass; 0: not measured */
	double rows[COST_KNOTS];                 /* seconds of a full pass at each knot's rows; 0: not measured */
	struct cost_sample measured[COST_KNOTS]; /* what these were made from; plain is the first */
	double length;          /* of the text: bytes of the cache that a row reads, over the weights' bytes */
	double attention_ratio; /* cost of a byte of the cache over that of a byte of weights */
	double attention_slope; /* what one row more adds to attention, over what one row takes */
	double draft_ratio;     /* cost of a draft step over its share of bytes */
	double quantized_ratio; /* the same for the bytes of the quantized draft weights */
	double score_ratio;     /* the same for a matchness pass, over its share of bytes times v(n) */
	int plain_seen, draft_seen, quantized_seen, score_seen, rows_seen[COST_KNOTS];
	int attention_seen, attention_rows_seen;
	int64_t passes, rows_last[COST_KNOTS]; /* full passes so far; their number when a knot was last used */
	int64_t rows_trust[COST_KNOTS];        /* passes for which a knot's measurement holds */
	int64_t news;                          /* the last pass that was the first with so many rows */
	double off;       /* recent deviation of plain steps after other passes from their estimate */
	int64_t followed; /* passes since the last plain step that measured the machine's speed */
	double slope;     /* assumed cost of one more row before any measurement, in plain steps */
};

/* Weight bytes that a full pass reads. */
static inline double cost_all_bytes(const struct cost_model* cost) {
	return cost->blocks * (cost->stored.attention + cost->stored.mlp) + cost->stored.fixed;
}

/* coarse_head: bytes of the draft weights that passes read in the head's place; 0: they read the head. */
void cost_open(struct cost_model*, const struct weight_table*, size_t coarse_head);
/* Passes may run with these draft weights from now on. */
void cost_use_draft_weights(struct cost_model*, const struct draft_weights*);

/* Drops all measurements, so that costs follow from bytes. */
struct cost_model cost_by_bytes(const struct cost_model*);

/* The text at hand has so many bytes of keys and values that a row reads (kernels/attention_cost.h): costs
 * are those at its length from now on. */
void cost_at(struct cost_model*, double cache_bytes);
/* Attention's share of a plain step at the present length. */
double cost_attention(const struct cost_model*);

/* Each takes the measured seconds of one pass. attention: its share of them; 0: not measured. */
void cost_see_full(struct cost_model*, int rows, double seconds, double attention);
void cost_see_draft(struct cost_model*, struct variant, double seconds);
void cost_see_score(struct cost_model*, struct variant, int rows, double seconds);
/* Allows draft steps of this kind to be tried again: if few were measured, they cost at most their bytes'
 * share. */
void cost_draft_anew(struct cost_model*, struct variant);

/* Seconds of a one-row full pass: measured, or estimated from wider passes. 0: unknown yet. */
double cost_plain_seconds(const struct cost_model*);
/* v(n), n in 1..MAX_ROWS; v(1) = 1, not decreasing. */
double cost_verify(const struct cost_model*, int rows);
/* An upper bound of v(n) while that many rows were not measured. */
double cost_verify_worst(const struct cost_model*, int rows);
/* v of any number of rows from measurements alone: on straight lines between them, and beyond them along the
 * last line or the mean one, whichever is steeper. It serves for costs of further rows at a large number. No
 * row costs less than half of those before it, because measurements at two speeds of the machine would
 * otherwise make rows look free. */
double cost_between(const struct cost_model*, double rows);
/* The number of rows with the head that costs as much as these rows, of which `with_head` go through the
 * head. Rows of prompts without results are cheaper, and must not make drafts' rows look cheap. */
double cost_rows_with_heads(const struct cost_model*, int rows, int with_head);
/* The part of a plain step that is left if a pass goes on from this sub-layer, an attention. */
double cost_rest(const struct cost_model*, int first);
/* True if about so many rows were measured several times. */
bool cost_rows_seen(const struct cost_model*, int rows);
/* The largest measured number of rows. */
int cost_rows_known(const struct cost_model*);
/* c of a variant; and its upper bound while no draft step was measured: a full pass. */
double cost_draft(const struct cost_model*, struct variant);
double cost_draft_worst(const struct cost_model*, struct variant);
/* The head's share of c, if all of it is read. */
double cost_head_share(const struct cost_model*, struct variant);
/* The bytes that a variant reads, as a share of a full pass's; the cache's count at their measured cost. */
double cost_share(const struct cost_model*, struct variant);
/* The share of the layers that a variant reads: without skipped sub-layers and left-out channels. The number
 * of bits does not count. */
double cost_layers_read(const struct cost_model*, struct variant);
/* Cost of a variant's pass of n rows. */
double cost_matchness(const struct cost_model*, struct variant, int rows);
/* Cost of a block's maps by kind, all channels read, with draft weights by input channel, in plain steps. */
void cost_channels(const struct cost_model*, double kind[COLUMN_KINDS]);
/* Cost of one attention sub-layer, one MLP sub-layer, and the rest, in plain steps; quantized: all of them
 * run with the quantized draft weights, at these levels where they are by input channel (NULL: whole). */
void cost_sub_layers(const struct cost_model*, bool quantized, const struct levels*, double* attention,
                     double* mlp, double* fixed);

#endif
