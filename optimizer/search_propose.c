/* Which mask is scored next: one that waits for its score, one that removal tries, where no spans
 * are known a draw from the posterior, or as published. */
#include "optimizer/search_state.h"

#include <math.h>

#include "optimizer/random_mask.h"

static bool is_new(const struct search* s, const struct vector* v) { return record_find(&s->record, v) < 0; }

/* Runs low of what is not skipped what pays, by what scores have said. */
static void round_rest(const struct search* s, struct vector* v) {
	double damage[MAX_BITS];
	if (!quantized_any(&s->quantized))
		return;
	linear_weights(s->belief.linear, damage);
	value_round(s, v, damage);
}

/* The best mask of a draw from the posterior (Thompson sampling), narrowed: with all weights as far off as
 * they may be a proposal has many sub-layers wrong at once, and matchness is flattest there. */
static bool propose_drawn(struct search* s, struct vector* out) {
	static const double narrowed = 0.8;
	double drawn[MAX_BITS];
	for (int try = 0; try < 16; try++) {
		linear_draw(s->belief.linear, narrowed, drawn);
		*out = value_best(s, drawn);
		if (is_new(s, out))
			return true;
	}
	return false;
}

static bool propose_random(struct search* s, struct vector* out) {
	/* where so many are known, few that are not are left */
	for (int try = 0; try < 1024; try++) {
		random_mask(&s->random, s->dims, s->size, out);
		if (is_new(s, out))
			return true;
	}
	return false;
}

/* What a challenger must be able to exceed: one match less than the incumbent, since ties are broken by
 * posterior mean. Where costs count, the fewest matches at which this mask is worth as much. */
static int needed_for(const struct search* s, const struct vector* v) {
	if (!incumbent_scored_here(s, s->incumbent))
		return 0;
	const struct entry* e = search_incumbent(s);
	const double target = value_of(s, &e->bits, (double)e->last_matches / e->last_rows);
	int least = 0;
	while (least < s->window_size && value_of(s, v, (double)least / s->window_size) < target)
		least++;
	return least > 0 ? least - 1 : 0;
}

static bool fill_queue(const struct search* s, struct proposal* p, enum proposal_kind kind,
                       const struct vector* v) {
	p->kind = kind;
	p->step = search_is_step(kind) ? s->steps + 1 : 0;
	p->mask = incumbent_mask(s, v);
	p->log_probability = NAN;
	p->needed = p->step && kind != PROPOSAL_REMOVAL && !s->option.published ? needed_for(s, v) : 0;
	return true;
}

static bool propose_step(struct search* s, struct proposal* p) {
	struct vector v;
	if (s->option.published) {
		const bool bayes = published_propose(s, &v);
		return fill_queue(s, p, bayes ? PROPOSAL_BAYES : PROPOSAL_RANDOM, &v);
	}
	/* where windows may not cost what they like there is nothing to propose: removal compares proposals by
	 * all rows of a window, which is more than a budget pays for */
	if (search_ranks(s) && s->sparing)
		return false;
	if (search_removes(s)) {
		if (!removal_propose(s, &v))
			return false;
		round_rest(s, &v);
		return fill_queue(s, p, PROPOSAL_REMOVAL, &v);
	}
	if ((s->option.bayes_interval > 0 && propose_drawn(s, &v)) || propose_random(s, &v))
		return fill_queue(s, p, PROPOSAL_RANDOM, &v);
	s->state = SEARCH_EXHAUSTED;
	return false;
}

bool search_propose(struct search* s, struct proposal* p) {
	if (s->window_size < 1)
		return false;
	if (s->levels)
		return level_propose(s->levels, p);
	if (s->pending)
		return fill_queue(s, p, PROPOSAL_START, &search_incumbent(s)->bits);
	if (s->suggestions > 0)
		return fill_queue(s, p, PROPOSAL_START, &s->suggestion[0]);
	incumbent_check_stop(s);
	if (s->state != SEARCH_RUNNING)
		return false;
	while (s->waiting > 0 && incumbent_scored_here(s, s->wait[s->waiting - 1]))
		s->waiting--;
	if (s->waiting > 0)
		return fill_queue(s, p, PROPOSAL_RESCORE, &s->record.entry[s->wait[s->waiting - 1]].bits);
	return propose_step(s, p);
}
