/* The costs of passes in plain steps, one-row full passes at the same context, measured as they run.
 *
 * The table keeps fading means of three things: the seconds of a plain step; v(n), the cost of a full pass of
 * n rows with v(1) = 1, at powers of two of rows, and in a batch at each count; and the ratio of draft steps'
 * costs to their shares of bytes. Before anything is measured, the bytes alone give the costs. (Medians of
 * the last seven were tried in place of means. A machine that swings between two speeds has no median speed.
 * If it swings every 20 steps, drafts that are right gained 1.13 to 1.16 with medians, and gain 1.28 with
 * means: tests/optimizer/test_budget.c.)
 *
 * A row count that seemed expensive is not used, so nothing would measure it again. Therefore a measurement
 * that was not repeated for 256 full passes counts only if it is less than the estimate without it. A late
 * repetition replaces it. If the repetition confirms it, the next trial comes after four times as many
 * passes.
 *
 * Attention takes more time in a longer text. Measurements keep the length at which they were made, and are
 * converted to the present length: attention(n) = ratio · length · (1 + slope · (n - 1)), in plain steps
 * without attention. Backends measure ratio and slope; before that the cache's bytes count as weights do. */
#pragma once

#include "core/decode/pass_bytes.h"

enum { COST_KNOTS = 20 };

struct recent {
	double mean, at; /* fading; the length of the text at which it holds */
	int rows;        /* it is v of so many rows; 0: it does not depend on the length */
	int n, trust;    /* samples so far; full passes for which the last one counts */
	int64_t last;    /* full passes at the last one */
};

struct cost_model {
	struct pass_bytes bytes;
	struct recent rows[COST_KNOTS]; /* v at each knot's number of rows */
	/* cost over share of bytes: draft steps with stored and with quantized weights, matchness passes */
	struct recent draft, quantized, score;
	struct recent attention, attention_rows; /* attention's ratio and slope */
	double length; /* of the text: bytes of the cache that a row reads, over the weights' bytes */
	double seconds, seconds_at; /* of a plain step, a fading mean; the length at which it was measured last */
	int speeds;                 /* measurements of that */
	int64_t passes;             /* full passes so far */
	/* the last plain step: after so many passes, at which length, and its seconds, of which attention's over
	 * the length */
	int64_t last_plain;
	double plain_at, plain, plain_attention;
	double off;      /* recent deviation of plain steps after other passes from their estimate */
	int plain_steps; /* so far */
};

/* coarse_head: bytes of the draft weights that passes read in the head's place; 0: they read the head. */
void cost_open(struct cost_model*, const struct weight_table*, size_t coarse_head);
/* Passes may run with these draft weights from now on. */
void cost_use_draft_weights(struct cost_model*, const struct draft_weights*);
/* Drops all measurements, so that costs follow from bytes. */
struct cost_model cost_by_bytes(const struct cost_model*);
/* The text at hand has so many bytes of keys and values that a row reads (kernels/attention_cost.h): costs
 * are those at its length from now on. */
void cost_at(struct cost_model*, double cache_bytes);
/* A measurement as it would be without a text, and a stored one of that kind in its place. */
double recent_without_text(const struct cost_model*, const struct recent*);
void recent_restore(struct recent*, double value);

/* Each takes the measured seconds of one pass. attention: its share of them; 0: not measured. */
void cost_see_full(struct cost_model*, int rows, double seconds, double attention);
void cost_see_draft(struct cost_model*, struct variant, double seconds);
void cost_see_score(struct cost_model*, struct variant, int rows, double seconds);

/* Seconds of a one-row full pass; 0: unknown yet. */
double cost_plain_seconds(const struct cost_model*);
/* v of any number of rows. It never falls. Beyond the measured rows it takes half their mean slope, which is
 * somewhat too low, so that more rows are tried. */
double cost_verify(const struct cost_model*, double rows);
/* The number of rows with the head that costs as much as these rows, of which `with_head` go through the
 * head. Rows of prompts without results are cheaper, and must not make drafts' rows look cheap. */
double cost_rows_with_heads(const struct cost_model*, int rows, int with_head);
/* True if about so many rows were measured; the largest number that was. */
bool cost_rows_seen(const struct cost_model*, int rows);
int cost_rows_known(const struct cost_model*);
/* c of a variant; and its upper bound while no draft step was measured: a full pass. */
double cost_draft(const struct cost_model*, struct variant);
double cost_draft_worst(const struct cost_model*, struct variant);
/* The time of a draft pass of n rows, in draft passes of one row. With weights by input channel each row
 * reads other channels, so n rows take n passes; else they share what they read. */
double cost_draft_rows(const struct cost_model*, struct variant, int rows);
/* The head's share of c, if all of it is read. */
double cost_head_share(const struct cost_model*, struct variant);
/* The bytes that a variant reads, as a share of a full pass's; the cache's count at their measured cost. */
double cost_share(const struct cost_model*, struct variant);
/* Cost of a variant's pass of n rows. */
double cost_matchness(const struct cost_model*, struct variant, int rows);
/* Attention's share of a plain step. */
double cost_attention(const struct cost_model*);
/* The part of a plain step that is left if a pass goes on from this sub-layer, an attention. */
double cost_rest(const struct cost_model*, int first);
/* Cost of one attention sub-layer, one MLP sub-layer, and the rest, in plain steps; quantized: all of them
 * run with the quantized draft weights, at these levels where they are by input channel (NULL: whole). */
void cost_sub_layers(const struct cost_model*, bool quantized, const struct levels*, double* attention,
                     double* mlp, double* fixed);
/* Cost of a block's maps by kind, all channels read, with draft weights by input channel, in plain steps. */
void cost_channels(const struct cost_model*, double kind[COLUMN_KINDS]);

/* Tokens over cost of the best chain of d = 1 … most steps, each accepted after the last with probability a:
 * M / (d·c + v(d + 1)), M = 1 + a + … + a^d tokens, with c the cost of a step and verify[n] = v(n). Under 1
 * if no chain pays. It is SWIFT's Eq. 6 with the cost of verification in it. */
double chain_rate(const double* verify, int most, double a, double c);
/* The same under a cost model. */
double chain_rate_now(const struct cost_model*, int most, double a, double c);
/* The policy's min_reach at this rate of tokens: the rate times the least cost per token of going on from d
 * steps at cost c, if all d are accepted and the share `next` of further ones is right. */
void set_min_reach(const struct cost_model*, double rate, double c, double next, struct draft_policy*);
