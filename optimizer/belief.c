/* Estimates damage by sub-layer, and matchness from it; belief.h explains why. */
#include "optimizer/belief.h"

#include <math.h>
#include <stdlib.h>

/* How scores vary, as measured (docs/lessons.md) on the built-in model with prompts of spec-bench and on
 * planted and graded synthetic models, seeds 101 to 103. Nothing here was chosen on streams that figures are
 * reported on. Relative standard deviations: of a window's factor; of a mask's damage about the sum over its
 * sub-layers. Absolute ones: of matchness about its estimate from damage; of a window's ease for all
 * masks. */
static const double WINDOW_SD = 0.12, SUM_SD = 0.15, LINK_SD = 0.02, EASE_SD = 0.05;
/* Damage over influence, relative standard deviation of that from model to model, and of a sub-layer's damage
 * about its scaled influence. */
static const double SCALE = 1.35, SCALE_SD = 0.25, OWN_SD = 0.3;
/* The least damage that is distinguished; and the least distance of a mask's damage from the sum. */
static const double LEAST = 1e-3, LEAST_SD = 4e-3;

/* The share of tokens that 4-bit draft weights get wrong, which grows fourfold with each bit less; and how
 * certain that is (tiny-tasks-20l: 8 bits leave 0.996 of the tokens right, 4 bits 0.950; real models whose
 * weights were already quantized 0.96 to 0.98). */
static const double ROUNDING = 0.05, ROUNDING_SD = 0.7;

/* sd (bits): the last one, of rounding, is set here. */
static void begin_update(struct belief* b, const double* mean, double* sd, double scale_sd) {
	if (b->bits > b->dims)
		sd[b->dims] = ROUNDING_SD * mean[b->dims];
	linear_begin(b->linear,
	             &(struct linear_prior){.mean = mean, .sd = sd, .split = b->dims, .scale_sd = scale_sd});
}

/* belief_at's inverse. */
static double damage_at(const struct belief* b, double misses) {
	const double root = b->misses[0], linear = b->misses[1];
	const double x = (sqrt(root * root + 4 * linear * misses) - root) / (2 * linear);
	return x * x;
}

/* Without influence all sub-layers are alike. A random mask of `size` matches two thirds, give or take 0.2,
 * whatever the number of its sub-layers. */
static void uninformed(struct belief* b, int size) {
	double mean[MAX_BITS], sd[MAX_BITS];
	const double each = size > 0 ? size : 1;
	for (int i = 0; i < b->dims; i++) {
		mean[i] = 0.15 / each;
		sd[i] = 0.1 / sqrt(each);
	}
	mean[b->dims] = damage_at(b, b->rounding);
	begin_update(b, mean, sd, 0.7);
}

/* b1 and b2: without influence damage is on no scale but that of misses themselves. */
static const double ALONE[2] = {0, 1.5}, INFORMED[2] = {0.8, 0.6};

bool belief_open(struct belief* b, int dims, int draft_bits, int size, uint64_t seed) {
	*b = (struct belief){.dims = dims,
	                     .bits = draft_bits > 0 ? dims + 1 : dims,
	                     .rounding = ROUNDING * pow(4, 4 - draft_bits),
	                     .misses = ALONE};
	b->linear = linear_open(&(struct linear_options){
	    .dims = b->bits, .constant_sd = LEAST, .offset_sd = WINDOW_SD, .seed = seed});
	b->span = calloc((size_t)(dims + 1) * (size_t)(dims + 1), sizeof *b->span);
	if (b->linear)
		uninformed(b, size);
	return b->linear && b->span;
}

void belief_close(struct belief* b) {
	linear_close(b->linear);
	free(b->span);
}

void belief_inform(struct belief* b, const double* influence) {
	double sum = 0, sd[MAX_BITS];
	for (int i = 0; i < b->dims; i++)
		sum += b->influence[i] = SCALE * influence[i + 2];
	for (int i = 0; i < b->dims; i++)
		sd[i] = OWN_SD * b->influence[i] + 0.1 * sum / b->dims + 1e-6;
	b->informed = true;
	b->misses = INFORMED;
	b->influence[b->dims] = damage_at(b, b->rounding);
	begin_update(b, b->influence, sd, SCALE_SD);
	belief_window(b);
}

void belief_window(struct belief* b) {
	linear_group(b->linear);
	b->ease = 0;
	b->here = 0;
}

void belief_inform_spans(struct belief* b, const struct spans* spans, const double* influence) {
	for (int i = 0; i <= b->dims; i++)
		for (int j = i + 1; j <= b->dims; j++)
			b->span[i * (b->dims + 1) + j] = spans_influence(spans, i + 2, j + 2);
	b->spanned = true;
	belief_inform(b, influence);
}

double belief_together(const struct belief* b, int i, int j) {
	double sum = 0;
	for (int k = i; k < j && b->spanned; k++)
		sum += b->span[k * (b->dims + 1) + k + 1];
	return sum > 0 ? b->span[i * (b->dims + 1) + j] / sum : 1;
}

double belief_spans(const struct belief* b, const struct vector* v) {
	double whole = 0;
	for (int i = 0, j; i < b->dims; i = j + 1) {
		for (j = i; j < b->dims && vector_has(v, j);)
			j++;
		whole += j > i ? b->span[i * (b->dims + 1) + j] : 0;
	}
	return whole;
}

/* Likewise of all that a mask skips. */
static double together(const struct belief* b, const struct vector* v) {
	double sum = 0;
	for (int i = 0; i < b->dims; i++)
		sum += vector_has(v, i) ? b->span[i * (b->dims + 1) + i + 1] : 0;
	return sum > 0 ? belief_spans(b, v) / sum : 1;
}

static double damage_of(const struct belief* b, const struct vector* v) {
	const double sum = linear_mean(b->linear, v->word);
	if (!b->spanned)
		return fmax(LEAST, sum);
	const struct vector skips = vector_skips(v, b->dims);
	return fmax(LEAST, sum + (together(b, v) - 1) * linear_mean(b->linear, skips.word));
}

/* The part of a damage that the linear model learns: as much as its own sum, with that factor on the
 * variance. */
static void learn_damage(struct belief* b, const struct vector* v, double damage, double variance,
                         double share, bool here) {
	const struct vector skips = vector_skips(v, b->dims);
	const double factor = b->spanned ? fmax(0.1, together(b, v)) : 1;
	const double rounding = linear_mean(b->linear, v->word) - linear_mean(b->linear, skips.word);
	linear_add(b->linear, v->word, (damage - rounding) / factor + rounding, variance / (factor * factor),
	           share / factor, here);
}

double belief_at(const struct belief* b, double damage) {
	return fmax(0, 1 - b->misses[0] * sqrt(damage) - b->misses[1] * damage);
}

/* -d matchness / d damage, by a difference. */
static double slope_at(const struct belief* b, double damage) {
	const double step = 0.05 * damage;
	return fmax(0.1, (belief_at(b, damage - step) - belief_at(b, damage + step)) / (2 * step));
}

double belief_noise(double m, int rows) {
	/* uses the expected acceptance, held off 0 and 1 by one success and one failure. With the observed share
	 * a lucky score would seem certain */
	const double chance = m < 0 ? 0 : m > 1 ? 1 : m, p = (chance * rows + 1) / (rows + 2.0);
	return p * (1 - p) / rows;
}

/* Damage from a score's hits, by the slope at the expected damage, and its variance. */
static double damage_seen(const struct belief* b, double expected, const struct score* s, bool here,
                          double* variance) {
	const double m = (double)s->matches / s->rows, likely = belief_at(b, expected);
	const double slope = slope_at(b, expected), noise = belief_noise(likely, s->rows);
	/* about half of the hits' variance is the tokens' own ease, which belongs to the window's factor */
	*variance = 1 / (slope * slope / (here ? noise / 2 : noise));
	return expected + (likely - m) / slope;
}

/* Hits less the window's ease, as far as other scores have shown it. */
static void see_hits(struct belief* b, double expected, const struct score* s, bool here,
                     struct evidence* own) {
	const double ease = here ? b->ease / (b->here + 1.5) : 0, m = (double)s->matches / s->rows;
	const double unknown = EASE_SD * EASE_SD / (1 + (here ? b->here : 0));
	const double weight = 1 / (belief_noise(expected, s->rows) + unknown);
	own->hits += (m - ease) * weight;
	own->hits_weight += weight;
	if (here) {
		b->ease += m - expected;
		b->here++;
	}
}

void belief_see(struct belief* b, const struct vector* v, const struct score* s, bool here,
                struct evidence* own) {
	/* a window's ease shifts a score by a share of its hits */
	const double sum = damage_of(b, v), share = EASE_SD / WINDOW_SD / slope_at(b, sum);
	const double shift = here ? share * linear_offset(b->linear) : 0, expected = fmax(LEAST, sum + shift);
	double variance;
	const double damage = damage_seen(b, expected, s, here, &variance);
	learn_damage(b, v, damage, variance + SUM_SD * SUM_SD * sum * sum, share, here);
	const double weight = 1 / (variance + (here ? 0.25 : 1) * WINDOW_SD * WINDOW_SD * share * share);
	own->damage += (damage - shift) * weight;
	own->damage_weight += weight;
	own->scores++;
	see_hits(b, belief_at(b, expected), s, here, own);
}

void belief_see_draft(struct evidence* own, double accepted, double trials) {
	const double keep = own->trials + trials > 400 ? fmax(0, 400 - trials) / fmax(1, own->trials) : 1;
	own->accepted = own->accepted * fmin(1, keep) + accepted;
	own->trials = own->trials * fmin(1, keep) + trials;
}

/* Variance of a mask's matchness about its estimate from damage, when its own scores are `excess` away (with
 * that weight): the measured variance, or more if they show it to be an exception, beyond three standard
 * errors. */
static double stray(double excess, double weight) {
	const double known = LINK_SD * LINK_SD;
	return weight > 0 ? known + fmax(0, excess * excess - 9 / weight) : known;
}

/* A mask's damage: the sum, corrected by its own scores. */
static double own_damage(const struct belief* b, const struct vector* v, const struct evidence* own) {
	const double sum = damage_of(b, v), prior = 1 / (SUM_SD * SUM_SD * sum * sum + LEAST_SD * LEAST_SD);
	return fmax(LEAST, (sum * prior + own->damage) / (prior + own->damage_weight));
}

/* Acceptance differs from matchness: it comes from other texts, and counts only after right drafts. */
static double draft_weight(const struct evidence* own) {
	const double p = (own->accepted + 1) / (own->trials + 2);
	return own->trials > 0 ? 1 / (2 * p * (1 - p) / own->trials + 0.02 * 0.02) : 0;
}

double belief_matchness(const struct belief* b, const struct vector* v, const struct evidence* own) {
	double m = belief_at(b, own_damage(b, v, own));
	const double weight = own->hits_weight, drafts = draft_weight(own);
	const double excess = weight > 0 ? (own->hits - weight * m) / weight : 0; /* of its own scores */
	const double accepted = own->trials > 0 ? own->accepted / own->trials - m : 0;
	m += (excess * weight + accepted * drafts) / (1 / stray(excess, weight) + weight + drafts);
	return m < 0 ? 0 : m > 1 ? 1 : m;
}
