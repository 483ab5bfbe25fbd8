/* Calibrates a standalone method before its rounds: a mask by dynamic programming, an exit by its cost, the
 * costs for the rule gain. */
#include <math.h>

#include "core/decode/cost.h"
#include "core/decode/session.h"
#include "core/methods/standalone.h"

/* SWIFT's own ratio where none is given. */
int method_mask_size(const struct swiftlet_options* options, const struct engine* engine) {
	const double ratio = options->learning.skip_ratio > 0 ? options->learning.skip_ratio : 0.45;
	const int size = (int)(ratio * 2 * (engine->model->weights.shape.n_blocks - 2));
	return size > 1 ? size : 1;
}

/* ---- CLaSp's mask ------------------------------------------------------------------------- */

/* After a verification, on the last committed token. */
static bool begin_program(struct standalone* m, const struct session_view* view) {
	const int at = view->cache->committed - 1;
	if (m->method->mask != MASK_PROGRAMMED || view->n_text <= view->n_prompt + 1)
		return false;
	layer_programming_begin(m->programming, view->cache, view->text[at], at,
	                        method_mask_size(m->options, m->engine));
	return true;
}

/* ---- the exit ----------------------------------------------------------------------------- */

int standalone_given_exit(const struct standalone* m) {
	const struct engine* e = m->engine;
	if (m->drafter == &adapter_drafter)
		return e->adapter.exit_block;
	return m->options->standalone.exit_block > 0 ? m->options->standalone.exit_block
	       : e->probe.weight                     ? e->probe.exit_block
	                                             : 0;
}

/* Measures exits once there are 17 tokens, and again when there are four times as many. */
static bool begin_exits(struct standalone* m, const struct session_view* view) {
	const int generated = view->n_text - view->n_prompt, n = least(generated, EXIT_ROWS + 1),
	          from = view->n_text - n;
	const bool given = standalone_given_exit(m) > 0 &&
	                   (m->method->tree == TREE_CHILDREN /* and one step */
	                        ? m->options->standalone.children > 0
	                        : m->options->standalone.speculations > 0 || m->stop.rule != STOP_FIXED);
	if (m->drafter != &exit_drafter || m->choice.exits == 0 || given || generated < 17 ||
	    generated < 4 * m->choice.measured_at)
		return false;
	m->choice.measured_at = generated;
	exit_choice_begin(&m->choice, view->cache, view->text + from, from, n, view->sampler,
	                  m->side ? &m->exit_heads : NULL, m->exit_state);
	return true;
}

/* With rejection sampling the drafts decide the text, and one seed has to give one text. Costs then come from
 * bytes, not from the clock. */
static struct cost_model costs_of(const struct standalone* m) {
	return m->options->standalone.rejection ? cost_by_bytes(&m->engine->cost) : m->engine->cost;
}

static void choose_exit(struct standalone* m) {
	const bool children = m->method->tree == TREE_CHILDREN, fixed = m->stop.rule == STOP_FIXED;
	const struct cost_model cost = costs_of(m);
	exit_choice_make(&m->choice, &cost, m->options->standalone.reuse,
	                 fixed ? m->options->standalone.speculations : 0,
	                 children ? m->options->standalone.children : -1, m->options->drafting.max_draft);
	if (fixed && !children && m->options->standalone.speculations == 0)
		m->stop.most = m->choice.steps;
}

bool standalone_drafts(const struct driver* driver) {
	const struct standalone* m = (const struct standalone*)driver;
	/* no grammar is known here */
	return m->options->drafting.when != SWIFTLET_DRAFT_NEVER && !session_view(m->session).constrained;
}

/* ---- passes ------------------------------------------------------------------------------- */

bool calibration_begin(struct standalone* m) {
	const struct session_view view = session_view(m->session);
	return standalone_drafts(&m->driver) && (begin_program(m, &view) || begin_exits(m, &view));
}

void calibration_fill(struct standalone* m, struct pass* pass) {
	if (m->programming)
		layer_programming_fill(m->programming, pass);
	else
		exit_choice_fill(&m->choice, pass);
}

bool calibration_take(struct standalone* m, double seconds) {
	m->figures.optimize += seconds;
	if (!(m->programming ? layer_programming_take(m->programming) : exit_choice_take(&m->choice)))
		return false;
	if (m->programming)
		session_adopt(m->session, &m->programming->mask[m->programming->size], NAN);
	else
		choose_exit(m);
	return true;
}

/* ---- costs ------------------------------------------------------------------------------- */

void standalone_set_policy(struct standalone* m) {
	struct draft_policy* policy = &m->policy;
	const struct cost_model cost = costs_of(m);
	const bool timed = !m->options->standalone.rejection;
	double right = 4, trials = 8, c = 0;
	for (int i = 0; i < DRAFT_BINS; i++) {
		const struct rate* bin = &m->bin[i];
		policy->accept[i] = (bin->right + 2 * ((float)i + 0.5f) / DRAFT_BINS) / (bin->trials + 2);
		right += (double)bin->right;
		trials += (double)bin->trials;
	}
	if (m->chain)
		c = m->drafted > 7 && timed ? m->draft_cost / (double)m->drafted
		                            : cost_draft(&cost, session_view(m->session).drafts) * m->chain->span /
		                                  (2 * m->chain->setup.shape->n_blocks);
	const double rate = m->cost > 16 && timed ? fmax(1, (double)m->tokens / m->cost) : 1;
	set_min_reach(&cost, rate, c, right / trials, policy);
}
