#include "core/decode/draft_trial.h"

#include <math.h>
#include <string.h>

#include "core/decode/session_state.h"

/* A matchness that counts as some rows of a trial. */
static const double prior = 0.8, prior_rows = 4;
/* The cost of one more row where none was measured. */
static const double usual_slope = 0.1;
/* Drafts look most of the coarse head up in a list (kernels/cpu/listed_head.c) and read the rest: with that,
 * c was .31, .41 and .28 on Qwen 0.5B, 1.5B and Gemma 270M where whole heads would make it .50, .48 and .74.
 */
static const double head_read = 0.25;
/* Drafts with the stored weights and a page list need no draft weights: 16 pages kept .93 and more
 * (lessons.md, "bench pages"). */
static const double page_matchness = 0.93;
/* The least speed-up worth making draft weights for: an estimate from few rows may be too high. */
static const double least_rate = 1.1;

bool draft_trial_can_run(const struct session* s) {
	const struct model_shape* shape = &s->engine->model->weights.shape;
	/* a recurrent block has no state of an earlier token */
	return s->engine->backend->thins && s->engine->draft_weights.table.format.columns &&
	       attention_blocks(shape) == shape->n_blocks && !s->history.on && !s->constraint.acceptor;
}

void draft_trial_begin(struct session* s) {
	s->trial.wanted = s->n_text - s->n_prompt >= TRIAL_ROWS && !s->batch.hurried;
	if (s->trial.wanted)
		s->engine->trials.at = s->budget->plain;
}

/* At which drafts would read draft weights. */
static const struct levels* levels_of(const struct session* s) {
	return s->mask.has_levels ? &s->mask.levels : &s->engine->levels;
}

/* The text's position of a row; the token after it is known. */
static int place_of(const struct session* s, int row) { return s->n_text - 1 - TRIAL_ROWS + row; }

void draft_trial_fill(struct session* s, struct pass* pass) {
	struct draft_trial* trial = &s->trial;
	trial->segment = (struct segment){.cache = s->cache,
	                                  .base = place_of(s, 0),
	                                  .n = TRIAL_ROWS,
	                                  .sampler = s->sampled ? &s->sampler : NULL};
	memset(trial->want, WANT_TOKEN, sizeof trial->want);
	*pass = pass_over(&trial->segment, s->text + place_of(s, 0), NULL,
	                  2 * s->engine->model->weights.shape.n_blocks, trial->want, trial->result);
	pass->stored_levels = levels_of(s);
	pass->head = true;
}

void draft_trial_take(struct session* s) {
	struct draft_trial* trial = &s->trial;
	struct draft_trials* all = &s->engine->trials;
	for (int i = 0; i < TRIAL_ROWS; i++)
		all->right += trial->result[i].token == s->text[place_of(s, i) + 1];
	all->rows += TRIAL_ROWS;
	trial->wanted = false;
	s->cache->backend->discard(s->cache);
}

/* Drafts read little of a head whose rows are bounded. */
static double cost_of(const struct session* s, const struct cost_model* cost, struct variant with) {
	const bool bounded = s->engine->backend->bounds_guesses && !with.quantized_head;
	return cost_draft(cost, with) * (bounded ? 1 - (1 - head_read) * cost_head_share(cost, with) : 1);
}

bool draft_trial_pays(const struct session* s) {
	const struct engine* engine = s->engine;
	const struct draft_trials* all = &engine->trials;
	double verify[SLICE_ROWS + 1];
	for (int n = 1; n <= SLICE_ROWS; n++)
		verify[n] = fmax(cost_verify(&engine->cost, n),
		                 cost_rows_seen(&engine->cost, n) ? 0 : 1 + usual_slope * (n - 1));
	const int most = s->options.drafting.max_draft;
	const struct mask none = {.word = {0}};
	struct variant with = {.skip = &none, .unread = s->pages.unread};
	const double without =
	    with.unread > 0 ? chain_rate(verify, most, page_matchness, cost_of(s, &engine->cost, with)) : 0;
	const struct mask sub_layers =
	    draft_weights_sub_layers(&engine->draft_weights.table, &none, &with.quantized_head);
	with.quantized = &sub_layers;
	with.levels = levels_of(s);
	struct cost_model cost = engine->cost;
	cost_use_draft_weights(&cost, &engine->draft_weights.table);
	const double matchness = (all->right + prior_rows * prior) / (all->rows + prior_rows);
	return chain_rate(verify, most, matchness, cost_of(s, &cost, with)) >= least_rate * fmax(1, without);
}
