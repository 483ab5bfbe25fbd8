/* An early exit as one more draft model that `auto` may plan with.
 *
 * To the planner it is a mask that leaves out every sub-layer from the exit on, the last block's too. How
 * often exits are right is measured on the text (optimizer/exit_choice.h), on the learning account; the exit
 * drafts while a chain of its steps would bring more tokens over cost than one of the mask's. */
#include <math.h>
#include <string.h>

#include "optimizer/session_state.h"

static void draft_by(struct session* s, int block) {
	const int sub_layers = 2 * s->engine->model->weights.shape.n_blocks;
	s->exit_mask = (struct mask){.stored_head = s->mask.stored_head};
	memcpy(s->exit_mask.stored, s->mask.stored, sizeof s->exit_mask.stored);
	s->exit_block = block;
	for (int i = 2 * block; block > 0 && i < sub_layers; i++)
		mask_set(&s->exit_mask, i, true);
	s->rest = s->rested = s->passed = 0;
	plan_states(s);
}

/* A measurement runs as many rows as matchness does, and a head at each exit. */
bool plan_affords_exits(const struct session* s, int rows) {
	double attention, mlp, head;
	const struct cost_model* cost = &s->engine->cost;
	if (isinf(s->options.opt_budget))
		return true;
	cost_sub_layers(cost, false, &attention, &mlp, &head);
	return cost->plain_seen > 0 &&
	       ledger_allows_learning(&s->ledger, cost_verify_worst(cost, rows) * (1 + EXITS * head));
}

static void compare(struct session* s) {
	static const double margin = 1.02;
	const struct cost_model* cost = &s->engine->cost;
	const struct states states = session_states(s, &s->mask);
	const struct variant mask = states_variant(&states, &s->mask);
	const bool drafts = mask_count(&s->mask) > 0 || states.any;
	/* what the mask is known for, not what the exit that may draft now is */
	const double right = s->exit_block > 0 ? s->mask_right : (double)chances_first(&s->chances, SOURCE_mask);
	const double by_mask = drafts ? plan_chain_rate(s, right, cost_draft(cost, mask)) : 1;
	const struct exit_choice* c = &s->exits;
	const int block = c->rate > margin * by_mask ? c->exit_block : 0;
	if (block == s->exit_block)
		return;
	s->mask_right = right;
	draft_by(s, block);
	int e = 0;
	while (e + 1 < c->exits && c->block[e] != block)
		e++;
	chances_first_anew(&s->chances, SOURCE_mask, (float)(block > 0 ? c->hits[e][0] / c->seen : right));
}

void plan_exit(struct session* s) {
	const int generated = s->n_text - s->n_prompt, n = generated < EXIT_ROWS + 1 ? generated : EXIT_ROWS + 1;
	const int from = s->n_text - n;
	struct error error;
	if (s->options.method != SWIFTLET_AUTO || s->options.published || !s->drafters.state[SOURCE_mask] ||
	    s->exits.exits == 0 || n < EXIT_ROWS || s->ledger.plain < 4 * (double)s->exits.measured_at ||
	    !plan_affords_exits(s, n))
		return;
	const double began = options_clock(&s->options), plain = cost_plain_seconds(&s->engine->cost);
	s->exits.measured_at = (int64_t)s->ledger.plain + 1;
	if (exit_choice_measure(&s->exits, s->engine->backend, s->cache, s->text + from, from, n,
	                        s->sampled ? &s->sampler : NULL, NULL, NULL, &error)) {
		exit_choice_make(&s->exits, &s->engine->cost, false, 0, -1, s->options.max_draft);
		compare(s);
	}
	const double seconds = options_clock(&s->options) - began;
	s->figures.seconds.optimize += seconds;
	if (plain > 0)
		ledger_learn(&s->ledger, seconds / plain);
}
