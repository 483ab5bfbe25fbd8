/* The mask that drafts, the scores again that it has to stand, and the end of the search. */
#include "optimizer/search_state.h"

#include <math.h>

#include "gp/ranked.h"

/* Where masks save the same, one takes the incumbent's place when its rows' log-probabilities on the same
 * windows are higher by so much over the root of their number, one and a half standard errors of what one row
 * strays: the best of many by luck is not. Chosen on SmolLM2 with tools/chat.jsonl, and held on Gemma and
 * Qwen, which had no part in it (docs/lessons.md). */
static const double PROVEN = 0.6;

/* From now on what is scored of it is unseen. */
static void choose_incumbent(struct search* s, int index) {
	const struct entry* e = &s->record.entry[index];
	s->incumbent = index;
	s->unseen_matches = s->unseen_rows = 0;
	s->chosen_on = s->window;
	s->chosen_by = e->rows > 0 ? (double)e->matches / (double)e->rows : NAN;
	s->drafts = 0;
	s->standing = e->compared > 0 ? e->above_incumbent / e->compared : 0;
	s->level = e->last_window == s->window && s->window > 0 ? e->log_probability : NAN;
}

void incumbent_place(struct search* s, const struct vector* v) {
	choose_incumbent(s, record_entry(&s->record, v, &s->incumbent));
	search_incumbent(s)->may_draft = true;
	s->chosen_by = NAN;
	s->pending = true;
	s->waiting = 0;
}

bool incumbent_runs_as_asked(const struct search* s, const struct vector* v) {
	struct vector asked;
	return s->given && vector_of(&s->asked, &s->quantized, s->dims, &asked) && vector_equal(&asked, v);
}

struct mask incumbent_mask(const struct search* s, const struct vector* v) {
	return incumbent_runs_as_asked(s, v) ? s->asked : mask_of(v, &s->quantized, s->dims);
}

bool incumbent_scored_here(const struct search* s, int entry) {
	const struct entry* e = &s->record.entry[entry];
	return e->last_window == s->window && e->last_rows == s->window_size;
}

bool incumbent_is_known(const struct entry* e) { return e->rows > 0 || e->own.trials > 0; }

/* Whether it drafts with less than the full model. By matchness alone the smallest mask would win. */
static bool fits(const struct search* s, const struct entry* e) {
	return (quantized_any(&s->quantized) || vector_count(&e->bits, s->dims) > 0) &&
	       (e->may_draft || !search_ranks(s)) && (value_priced(s) || value_enough(s, &e->bits));
}

void incumbent_weigh(struct search* s, int entry, double log_probability) {
	struct entry* e = &s->record.entry[entry];
	if (!isfinite(log_probability))
		return;
	e->log_probability = log_probability;
	if (entry == s->incumbent)
		s->level = log_probability;
	else if (!isnan(s->level)) {
		e->above_incumbent += (log_probability - s->level + s->standing) * s->window_size;
		e->compared += s->window_size;
	}
}

/* Less what luck may have done, where it has to be proven: of masks that have to be priced, one standard
 * error of their hits. */
static double worth(const struct search* s, const struct entry* e, bool prove) {
	const bool proven = !prove || e->equal || e == search_incumbent(s);
	if (search_ranks(s) && e == search_incumbent(s))
		return s->standing;
	if (search_ranks(s)) {
		const double luck = proven ? 0 : PROVEN / sqrt(e->compared);
		return e->compared > 0 ? e->above_incumbent / e->compared - luck : -INFINITY;
	}
	if (!search_removes(s) || proven || e->rows == 0)
		return value_expected(s, e);
	const double matchness = value_matchness(s, e);
	return value_of(s, &e->bits, fmax(0, matchness - sqrt(belief_noise(matchness, (int)e->rows))));
}

void incumbent_compare(struct search* s, bool step) {
	if (s->pending)
		return;
	int best = s->incumbent;
	double most = worth(s, search_incumbent(s), true);
	for (int i = 0; i < s->record.entries; i++) {
		const struct entry* e = &s->record.entry[i];
		if (i == s->incumbent || !incumbent_is_known(e) || !fits(s, e))
			continue;
		const double value = worth(s, e, true);
		if (value > most) {
			most = value;
			best = i;
		}
	}
	s->drafts = 0;
	if (best == s->incumbent)
		return;
	choose_incumbent(s, best);
	if (step)
		s->improved_at = s->steps;
}

/* ---- stopping ----------------------------------------------------------------------------- */

/* Over max_matchness on confirm + 1 windows. Since the incumbent is the best of many noisy scores, a few
 * lucky windows are common; so where confirmation is asked for, one window more is pooled, with one success
 * and one failure added, and the posterior mean must agree. */
static bool is_confirmed(const struct search* s, const struct entry* e) {
	if (value_priced(s))
		return false; /* a small mask is soon that good; a larger one may be worth more */
	if (e->last_window != s->window || e->above <= s->option.confirm)
		return false;
	if (e->last_matches <= s->option.max_matchness * e->last_rows)
		return false;
	if (s->option.confirm == 0)
		return true;
	if (e->rows < (int64_t)(s->option.confirm + 2) * s->window_size ||
	    value_matchness(s, e) <= s->option.max_matchness)
		return false;
	return (double)(e->matches + 1) > s->option.max_matchness * (double)(e->rows + 2);
}

void incumbent_check_stop(struct search* s) {
	if (s->state != SEARCH_RUNNING)
		return;
	const bool confirmed =
	    s->option.published ? s->chosen_by > s->option.max_matchness : is_confirmed(s, search_incumbent(s));
	if (confirmed)
		s->state = SEARCH_CONFIRMED;
	else if (s->steps >= s->option.max_steps)
		s->state = SEARCH_EXHAUSTED;
	else if (s->steps - s->improved_at >= s->option.patience)
		s->state = SEARCH_PATIENCE;
}

/* ---- windows ------------------------------------------------------------------------------ */

/* Keeps the best few by posterior mean, best first. */
static int runners_up(const struct search* s, int* best, int most) {
	double value[RUNNERS_UP];
	int n = 0;
	for (int i = 0; i < s->record.entries; i++) {
		const struct entry* e = &s->record.entry[i];
		if (i == s->incumbent || e->rows == 0 || !fits(s, e))
			continue;
		n = ranked_add(value, best, n, most, worth(s, e, false), i);
	}
	return n;
}

/* Rescoring may not eat what little search a tight budget pays for: no more of it than the last window had
 * steps, and the incumbent waits for a challenger where there were none. */
void incumbent_stand_again(struct search* s) {
	const int steps = s->steps_on_window;
	s->steps_on_window = 0;
	s->waiting = 0;
	if (s->state != SEARCH_RUNNING || s->pending || steps == 0)
		return;
	const int many = search_ranks(s) ? 1 : RUNNERS_UP, room = steps - 1 < many ? steps - 1 : many;
	int best[RUNNERS_UP];
	const int n = room > 0 ? runners_up(s, best, room) : 0;
	for (int i = n; i-- > 0;)
		s->wait[s->waiting++] = best[i];
	s->wait[s->waiting++] = s->incumbent;
}
