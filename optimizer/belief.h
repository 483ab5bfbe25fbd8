/* What is believed of masks: the damage that skipping does, and the matchness that follows from it.
 *
 * Skipping a set of sub-layers moves the state that the model ends with away from the full model's; the
 * *damage* is that distance, 1 - cosine. Measured, it is close to a sum over the sub-layers skipped, each
 * contributing about its influence (docs/lessons.md), where matchness itself is no sum. So a Bayesian linear
 * model learns damage by sub-layer, from a prior mean of influence times a learned scale; a window's text is
 * harder or easier by a factor that all its scores share; and the share of misses is taken to be
 * b1·sqrt(d) + b2·d at a damage d, since near 0 misses grow with the number of wrong sub-layers or with its
 * root, as the model has it. Rounded weights do damage too, and that adds up the same way: before any was
 * measured, as much as draft weights of so many bits get wrong. What a mask's own scores and
 * drafts say beside the model corrects its estimate. */
#ifndef SWIFTLET_OPTIMIZER_BELIEF_H
#define SWIFTLET_OPTIMIZER_BELIEF_H

#include "gp/linear.h"
#include "optimizer/spans.h"
#include "optimizer/vector.h"

/* One score of a mask. */
struct score {
	int matches, rows;
	int64_t window;
};

/* Evidence from a mask's own scores and drafts, as weighted sums (weights are 1 / variance). */
struct evidence {
	double damage, damage_weight;
	double hits, hits_weight; /* matchness, less the ease of its windows */
	double accepted, trials;  /* draft steps, fading */
	int scores;
};

struct belief {
	int dims, bits;              /* skippable sub-layers; of a vector: one more where there are some */
	double rounding;             /* tokens that draft weights get wrong, before any was measured */
	struct linear_model* linear; /* damage by bit */
	const double* misses;        /* b1 and b2 */
	double ease;                 /* sum over the present window's scores of matchness above the expected */
	int here;                    /* scores of the present window */
	bool informed, spanned;
	double influence[MAX_BITS]; /* (bits) if informed: the damage expected of each from influence alone */
	double* span; /* (dims + 1, dims + 1) where spanned: mean influence of the sub-layers [i + 2, j + 2) */
};

/* size: sub-layers that are skipped as a rule; without influence a mask of that many is expected to match
 * two thirds. draft_bits: of the quantized draft weights that drafts may run with; 0: there are none. False
 * on no memory; close in any case. */
bool belief_open(struct belief*, int dims, int draft_bits, int size, uint64_t seed);
void belief_close(struct belief*);
/* Begins again with influence (dims + 4: of every sub-layer) as the prior mean. The caller then adds all
 * scores again. */
void belief_inform(struct belief*, const double* influence);
/* Likewise from span influence, because neighbours left out together do other damage than one by one. */
void belief_inform_spans(struct belief*, const struct spans*, const double* influence);
/* The damage of leaving out the sub-layers [i + 2, j + 2) over the sum of theirs one by one; 1 where no spans
 * are known. */
double belief_together(const struct belief*, int i, int j);
/* The influence of a mask, summed over its spans. */
double belief_spans(const struct belief*, const struct vector*);
void belief_window(struct belief*); /* the next scores `here` are of a new window */
/* Learns from a score, also into the mask's own evidence. `here`: it is of the present window. */
void belief_see(struct belief*, const struct vector*, const struct score*, bool here, struct evidence* own);
void belief_see_draft(struct evidence* own, double accepted, double trials);

/* The expected matchness at a damage >= 0, in [0, 1]. */
double belief_at(const struct belief*, double damage);
/* The expected matchness of a mask, in [0, 1]. */
double belief_matchness(const struct belief*, const struct vector*, const struct evidence* own);
/* Variance of the share of hits in `rows` rows about the matchness m. */
double belief_noise(double m, int rows);

#endif
