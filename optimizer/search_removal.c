/* Greedy removal: from a short span on, or where the size is a matter of cost from the full model, the
 * sub-layer goes whose absence costs the text least for what it saves, again and again, so that one way leads
 * through masks of every cost.
 *
 * The loss is of the draft's mean log-probability of the target's tokens, which ranks masks better than hits
 * do, and always between two masks on one window. What was never tried is expected to do what its span's
 * influence says, by the measure of those that were; what was tried, what it did then. So a step tries a few.
 * At the end of the way a few sub-layers drawn at random are put back, and it goes on from there. */
#include <math.h>

#include "optimizer/search_state.h"

/* A step tries so many; a way ends at this share of cost where nobody says; so many are put back. */
enum { TRIALS = 4, PUT_BACK = 3 };
static const double FIRST_SHARE = 0.05, LAST_SHARE = 0.5;
/* Where the size is a matter of cost, a mask worth less than this share of the best one ends the way too. */
static const double HOPELESS = 0.85;

/* Influence by which one more sub-layer lengthens what is gone, half of its own at least. */
static double lengthens(const struct search* s, int i) {
	const struct removal* r = &s->removal;
	struct vector with = r->mask, alone = {{0}};
	vector_set(&with, i, true);
	vector_set(&alone, i, true);
	return fmax(0.5 * belief_spans(&s->belief, &alone),
	            belief_spans(&s->belief, &with) - belief_spans(&s->belief, &r->mask));
}

/* For what it saves. */
static double loss_of(const struct search* s, int i) {
	const struct removal* r = &s->removal;
	if (!isnan(r->loss[i]))
		return r->loss[i];
	return (r->measured + 3) / (r->expected + 1) * lengthens(s, i) / value_saves(s, i);
}

/* Of those that may go now: all, or those tried in this step. -1: none. */
static int least_loss(const struct search* s, bool tried) {
	const struct removal* r = &s->removal;
	double loss = INFINITY;
	int best = -1;
	for (int i = 0; i < s->dims; i++) {
		if (vector_has(&r->mask, i) || (tried && !r->tried[i]) || loss_of(s, i) >= loss)
			continue;
		loss = loss_of(s, i);
		best = i;
	}
	return best;
}

void removal_window(struct removal* r) {
	r->now = NAN;
	r->trials = 0;
	for (int i = 0; i < MAX_DIMS; i++)
		r->tried[i] = false;
}

static void begin_removal(struct search* s) {
	struct removal* r = &s->removal;
	*r = (struct removal){.begun = true};
	for (int i = 0; i < s->dims; i++)
		r->loss[i] = NAN;
	/* 5 % have room to grow into any; where the size is free, the best may be smaller */
	if (!value_priced(s))
		value_best_spans(s, s->belief.influence, FIRST_SHARE, 1, &r->mask);
	removal_window(r);
}

/* The mask's entry, whatever of the rest runs with draft weights; -1: it was not scored yet. */
static int entry_of(const struct search* s, const struct vector* mask) {
	for (int e = s->record.entries; e-- > 0;) {
		const struct vector skips = vector_skips(&s->record.entry[e].bits, s->dims);
		if (vector_equal(&skips, mask))
			return e;
	}
	return -1;
}

static bool at_end(const struct search* s) {
	const struct removal* r = &s->removal;
	if (!value_priced(s))
		return value_enough(s, &r->mask);
	if (value_saved(s, &r->mask) >= LAST_SHARE)
		return true;
	const int e = entry_of(s, &r->mask);
	return e >= 0 &&
	       value_expected(s, &s->record.entry[e]) < HOPELESS * value_expected(s, search_incumbent(s));
}

static void put_back(struct search* s) {
	struct removal* r = &s->removal;
	r->mask = vector_skips(&search_incumbent(s)->bits, s->dims);
	for (int n = 0, left = vector_count(&r->mask, s->dims); n < PUT_BACK && left > (s->free_size ? 0 : 1);
	     n++, left--) {
		int nth = gp_below(&s->random, left), i = 0;
		for (; !vector_has(&r->mask, i) || nth-- > 0; i++)
			;
		vector_set(&r->mask, i, false);
	}
	removal_window(r);
}

/* What was least goes; the mask is one that may draft. */
static void go_on(struct search* s, int i) {
	struct removal* r = &s->removal;
	const double now = r->now - r->loss[i] * value_saves(s, i);
	vector_set(&r->mask, i, true);
	removal_window(r);
	r->now = now;
	const int e = entry_of(s, &r->mask);
	if (e >= 0)
		s->record.entry[e].may_draft = true;
}

bool removal_propose(struct search* s, struct vector* out) {
	struct removal* r = &s->removal;
	if (!r->begun)
		begin_removal(s);
	for (int step = 0; step <= s->dims; step++) {
		if (at_end(s)) {
			incumbent_compare(s, true);
			put_back(s);
		}
		*out = r->mask;
		if (isnan(r->now))
			return true;
		const int best = least_loss(s, r->trials >= TRIALS);
		if (best < 0)
			return false;
		if (r->tried[best]) {
			go_on(s, best);
			continue;
		}
		vector_set(out, best, true);
		return true;
	}
	return false;
}

void removal_see(struct search* s, const struct vector* v, double log_probability) {
	struct removal* r = &s->removal;
	const struct vector skips = vector_skips(v, s->dims);
	if (!r->begun || !isfinite(log_probability))
		return;
	if (vector_equal(&skips, &r->mask)) {
		r->now = log_probability;
		return;
	}
	for (int i = 0; i < s->dims && !isnan(r->now); i++) {
		struct vector with = r->mask;
		vector_set(&with, i, true);
		if (vector_has(&r->mask, i) || !vector_equal(&skips, &with))
			continue;
		const double loss = r->now - log_probability;
		r->measured += fmax(0, loss);
		r->expected += lengthens(s, i);
		r->loss[i] = loss / value_saves(s, i);
		r->trials += !r->tried[i];
		r->tried[i] = true;
	}
}
