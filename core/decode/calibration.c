/* Calibration of a standalone method before its rounds: a mask by dynamic programming, an exit by its cost,
 * the costs for the rule gain. */
#include <math.h>

#include "core/decode/session_state.h"

/* SWIFT's own ratio where none is given. */
int method_mask_size(const struct session* s) {
	const double ratio = s->options.skip_ratio > 0 ? s->options.skip_ratio : 0.45;
	const int size = (int)(ratio * 2 * (s->engine->model->weights.shape.n_blocks - 2));
	return size > 1 ? size : 1;
}

/* ---- CLaSp's mask ------------------------------------------------------------------------- */

/* After a verification, on the last committed token. */
static bool begin_program(struct session* s) {
	struct standalone* m = s->standalone;
	const int at = s->cache->committed - 1;
	if (m->method->mask != MASK_PROGRAMMED || s->n_text <= s->n_prompt + 1)
		return false;
	layer_programming_begin(m->programming, s->cache, s->text[at], at, method_mask_size(s));
	return true;
}

/* ---- the exit ----------------------------------------------------------------------------- */

int standalone_given_exit(const struct session* s) {
	const struct engine* e = s->engine;
	if (s->standalone->method->source == SOURCE_adapter)
		return e->adapter.exit_block;
	return s->options.exit_block > 0 ? s->options.exit_block : e->probe.weight ? e->probe.exit_block : 0;
}

/* Exits are measured once 17 tokens are there, and again when there are four times as many. */
static bool begin_exits(struct session* s) {
	struct standalone* m = s->standalone;
	const int generated = s->n_text - s->n_prompt, n = least(generated, EXIT_ROWS + 1), from = s->n_text - n;
	const bool given =
	    standalone_given_exit(s) > 0 && (m->method->tree == TREE_CHILDREN /* and one step */
	                                         ? s->options.children > 0
	                                         : s->options.speculations > 0 || m->stop.rule != STOP_FIXED);
	if (m->method->source != SOURCE_exit || m->choice.exits == 0 || given || generated < 17 ||
	    generated < 4 * m->choice.measured_at)
		return false;
	m->choice.measured_at = generated;
	exit_choice_begin(&m->choice, s->cache, s->text + from, from, n, s->sampled ? &s->sampler : NULL,
	                  m->side ? &m->exit_heads : NULL, m->exit_state);
	return true;
}

/* Under rejection sampling the drafts decide the text, and one seed has to give one text: costs then come
 * from bytes, not from the clock. */
static struct cost_model costs_of(const struct session* s) {
	return s->options.rejection ? cost_by_bytes(&s->engine->cost) : s->engine->cost;
}

static void choose_exit(struct session* s) {
	struct standalone* m = s->standalone;
	const bool children = m->method->tree == TREE_CHILDREN, fixed = m->stop.rule == STOP_FIXED;
	const struct cost_model cost = costs_of(s);
	exit_choice_make(&m->choice, &cost, s->options.reuse, fixed ? s->options.speculations : 0,
	                 children ? s->options.children : -1, s->options.max_draft);
	if (fixed && !children && s->options.speculations == 0)
		m->stop.most = m->choice.steps;
}

bool standalone_drafts(const struct session* s) {
	/* no grammar is known here */
	return s->standalone && s->options.draft != SWIFTLET_DRAFT_NEVER && !s->constraint.acceptor;
}

/* ---- passes ------------------------------------------------------------------------------- */

bool calibration_begin(struct session* s) {
	return standalone_drafts(s) && (begin_program(s) || begin_exits(s));
}

void calibration_fill(struct session* s, struct pass* pass) {
	if (s->standalone->programming)
		layer_programming_fill(s->standalone->programming, pass);
	else
		exit_choice_fill(&s->standalone->choice, pass);
}

bool calibration_take(struct session* s, double seconds) {
	struct standalone* m = s->standalone;
	s->figures.seconds.optimize += seconds;
	if (!(m->programming ? layer_programming_take(m->programming) : exit_choice_take(&m->choice)))
		return false;
	if (m->programming)
		s->mask = m->programming->mask[m->programming->size];
	else
		choose_exit(s);
	return true;
}

/* ---- costs ------------------------------------------------------------------------------- */

void standalone_set_policy(struct session* s) {
	struct standalone* m = s->standalone;
	struct draft_policy* policy = &s->plan.draft;
	const struct cost_model cost = costs_of(s);
	const bool timed = !s->options.rejection;
	double right = 4, trials = 8, c = 0;
	for (int i = 0; i < DRAFT_BINS; i++) {
		const struct rate* bin = &m->bin[i];
		policy->accept[i] = (bin->right + 2 * ((float)i + 0.5f) / DRAFT_BINS) / (bin->trials + 2);
		right += (double)bin->right;
		trials += (double)bin->trials;
	}
	if (m->chain)
		c = m->drafted > 7 && timed ? m->draft_cost / (double)m->drafted
		                            : cost_draft(&cost, states_variant(&s->drafts, &s->mask)) *
		                                  m->chain->span / (2 * m->chain->setup.shape->n_blocks);
	const double rate = m->cost > 16 && timed ? fmax(1, (double)m->tokens / m->cost) : 1;
	set_min_reach(&cost, rate, c, right / trials, policy);
}
