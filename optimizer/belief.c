/* Damage by sub-layer, and matchness from it; belief.h says why. */
#include "optimizer/belief.h"

#include <math.h>

/* Relative standard deviations, measured on two small models and two landscapes (tools/bench.md): of one
 * score of 32 rows about its mask's damage; of a window's factor; of a mask's damage about the sum over its
 * sub-layers; and, absolute, of matchness about that of the damage; of a window's ease for all masks. */
static const double SCORE_SD = 0.12, WINDOW_SD = 0.12, SUM_SD = 0.1, LINK_SD = 0.016, EASE_SD = 0.08;
/* Of the scale of influence, and of a sub-layer's damage about its scaled influence. */
static const double SCALE_SD = 0.3, OWN_SD = 0.5;
/* Damage below which nothing is told apart. */
static const double LEAST = 1e-3;

/* Without influence: all sub-layers alike, the sum over `size` of them such that two thirds match. */
static void uninformed(struct belief* b, int size) {
	double mean[MAX_DIMS], sd[MAX_DIMS];
	for (int i = 0; i < b->dims; i++)
		mean[i] = sd[i] = 0.15 / (size > 0 ? size : 1);
	linear_prior(b->linear, mean, sd, 0.7);
}

bool belief_open(struct belief* b, int dims, int size, uint64_t seed) {
	*b = (struct belief){.dims = dims};
	calibration_open(&b->link);
	b->linear = linear_open(&(struct linear_options){.dims = dims,
	                                                 .members = BELIEF_DRAWS,
	                                                 .mean_sd = LEAST,
	                                                 .weight_sd = 1,
	                                                 .offset_sd = WINDOW_SD,
	                                                 .seed = seed});
	if (b->linear)
		uninformed(b, size);
	return b->linear != NULL;
}

void belief_close(struct belief* b) { linear_close(b->linear); }

void belief_inform(struct belief* b, const double* influence) {
	double mean = 0, sd[MAX_DIMS];
	for (int i = 0; i < b->dims; i++)
		mean += (b->influence[i] = influence[i]) / b->dims;
	for (int i = 0; i < b->dims; i++)
		sd[i] = OWN_SD * influence[i] + 0.1 * mean + 1e-6;
	b->informed = true;
	calibration_open(&b->link);
	linear_prior(b->linear, b->influence, sd, SCALE_SD);
	belief_window(b);
}

void belief_window(struct belief* b) {
	linear_group(b->linear);
	b->ease = 0;
	b->here = 0;
}

static double damage_of(const struct belief* b, const struct vector* v) {
	return fmax(LEAST, linear_mean(b->linear, v->word));
}

/* -d matchness / d damage, by a difference. */
static double slope_at(const struct belief* b, double damage) {
	const double step = 0.05 * damage;
	const double fall =
	    calibration_matchness(&b->link, damage - step) - calibration_matchness(&b->link, damage + step);
	return fmax(0.1, fall / (2 * step));
}

double belief_noise(double m, int rows) {
	/* at the chance expected, held off 0 and 1 by one success and one failure: at the share seen, a lucky
	 * score would pass for a sure one */
	const double chance = m < 0 ? 0 : m > 1 ? 1 : m, p = (chance * rows + 1) / (rows + 2.0);
	return p * (1 - p) / rows;
}

/* Damage from a score, and its variance: from the distance as far as that has been seen to say something of
 * hits, and from the hits, by the link's slope at the damage expected. */
static double damage_seen(struct belief* b, double expected, const struct score* s, bool here,
                          double* variance) {
	const double m = (double)s->matches / s->rows;
	const double likely = calibration_matchness(&b->link, expected), slope = slope_at(b, expected);
	const double noise = belief_noise(likely, s->rows);
	/* about half of the hits' variance is the tokens' own ease, which the window's factor takes up */
	double weight = slope * slope / (here ? noise / 2 : noise);
	double y = (expected + (likely - m) / slope) * weight;
	if (s->distance >= 0 && isfinite(s->distance)) {
		const double trust = fmax(1e-3, calibration_weight(&b->link) / 4);
		const double sd = SCORE_SD * fmax(expected, s->distance) + 0.5 * LEAST;
		const double own = trust * s->rows / (32 * sd * sd);
		calibration_see(&b->link, s->distance, m, noise);
		y += s->distance * own;
		weight += own;
	}
	*variance = 1 / weight;
	return y / weight;
}

/* What hits say beyond the damage: less the ease of the window, as far as other scores have shown it. */
static void see_excess(struct belief* b, double expected, const struct score* s, bool here,
                       struct evidence* own) {
	const double ease = here ? b->ease / (b->here + 1.5) : 0;
	const double excess = (double)s->matches / s->rows - expected;
	const double unknown = EASE_SD * EASE_SD / (1 + (here ? b->here : 0));
	const double weight = 1 / (belief_noise(expected, s->rows) + unknown);
	own->excess += (excess - ease) * weight;
	own->excess_weight += weight;
	if (here) {
		b->ease += excess;
		b->here++;
	}
}

void belief_see(struct belief* b, const struct vector* v, const struct score* s, bool here,
                struct evidence* own) {
	const double sum = damage_of(b, v), factor = here ? fmax(0.5, 1 + linear_offset(b->linear)) : 1;
	double variance, damage = damage_seen(b, sum * factor, s, here, &variance);
	linear_add(b->linear, v->word, damage, variance, sum, here);
	damage /= factor;
	const double weight = 1 / (variance + (here ? 0.25 : 1) * WINDOW_SD * WINDOW_SD * sum * sum);
	own->damage += damage * weight;
	own->damage_weight += weight;
	const bool measured = s->distance >= 0 && isfinite(s->distance);
	see_excess(b, calibration_matchness(&b->link, measured ? s->distance : sum * factor), s, here, own);
}

void belief_see_draft(struct evidence* own, double accepted, double trials) {
	const double keep = own->trials + trials > 400 ? fmax(0, 400 - trials) / fmax(1, own->trials) : 1;
	own->accepted = own->accepted * fmin(1, keep) + accepted;
	own->trials = own->trials * fmin(1, keep) + trials;
}

/* Variance of a mask's matchness about that of its damage: as measured, or more where its own scores have
 * shown it to be an exception, beyond three standard errors. */
static double stray(const struct evidence* own) {
	const double known = LINK_SD * LINK_SD;
	if (!own || own->excess_weight <= 0)
		return known;
	const double excess = own->excess / own->excess_weight;
	return known + fmax(0, excess * excess - 9 / own->excess_weight);
}

/* A mask's damage: the sum's, corrected by its own scores. */
static double own_damage(const struct belief* b, const struct vector* v, const struct evidence* own) {
	const double sum = damage_of(b, v), prior = 1 / (SUM_SD * SUM_SD * sum * sum);
	return own ? fmax(LEAST, (sum * prior + own->damage) / (prior + own->damage_weight)) : sum;
}

/* Acceptance is matchness but for this: its texts are others, and it counts only where the draft was right so
 * far. */
static double draft_weight(const struct evidence* own) {
	const double p = (own->accepted + 1) / (own->trials + 2);
	return own->trials > 0 ? 1 / (2 * p * (1 - p) / own->trials + 0.02 * 0.02) : 0;
}

double belief_matchness(const struct belief* b, const struct vector* v, const struct evidence* own) {
	double m = calibration_matchness(&b->link, own_damage(b, v, own));
	if (own) {
		const double prior = 1 / stray(own), drafts = draft_weight(own);
		const double accepted = own->trials > 0 ? own->accepted / own->trials - m : 0;
		m += (own->excess + accepted * drafts) / (prior + own->excess_weight + drafts);
	}
	return m < 0 ? 0 : m > 1 ? 1 : m;
}

double belief_variance(const struct belief* b, const struct vector* v, const struct evidence* own) {
	const double sum = damage_of(b, v), slope = slope_at(b, sum);
	const double known = own ? own->excess_weight + draft_weight(own) : 0;
	const double damage = linear_variance(b->linear, v->word) + SUM_SD * SUM_SD * sum * sum;
	const double left = 1 / (1 / damage + (own ? own->damage_weight : 0));
	return slope * slope * left + 1 / (1 / stray(own) + known);
}
