#include "core/decode/draft_trial.h"

#include <math.h>

#include "core/decode/session_state.h"

/* Fewer rows say too little for what a pass costs. */
enum { LEAST_ROWS = 8 };
/* A matchness that counts as some rows of a trial. */
static const double prior = 0.8, prior_rows = 4;

bool draft_trial_can_run(const struct session* s) {
	const struct model_shape* shape = &s->engine->model->weights.shape;
	/* a recurrent block has no state of an earlier token */
	return s->engine->backend->thins && s->engine->draft_weights.table.format.columns &&
	       attention_blocks(shape) == shape->n_blocks && !s->history.on && !s->constraint.acceptor;
}

void draft_trial_begin(struct session* s) {
	struct draft_trial* trial = &s->trial;
	const int generated = s->n_text - s->n_prompt;
	trial->n = generated < LEAST_ROWS || s->batch.hurried ? 0 : least(generated, TRIAL_ROWS);
	if (trial->n > 0)
		s->engine->trials.at = s->budget->plain;
}

/* The text's position of a row; the token after it is known. */
static int place_of(const struct session* s, int row) { return s->n_text - 1 - s->trial.n + row; }

void draft_trial_fill(struct session* s, struct pass* pass) {
	struct draft_trial* trial = &s->trial;
	trial->levels = s->mask.has_levels ? s->mask.levels : s->engine->levels;
	for (int i = 0; i < trial->n; i++) {
		trial->parent[i] = -1;
		trial->want[i] = WANT_TOKEN;
		trial->segment[i] = (struct segment){
		    .cache = s->cache, .base = place_of(s, i), .n = 1, .sampler = s->sampled ? &s->sampler : NULL};
	}
	*pass = pass_over(trial->segment, s->text + place_of(s, 0), trial->parent,
	                  2 * s->engine->model->weights.shape.n_blocks, trial->want, trial->result);
	pass->n = pass->n_segments = trial->n;
	pass->stored_levels = &trial->levels;
	pass->head = true;
}

void draft_trial_take(struct session* s) {
	struct draft_trial* trial = &s->trial;
	struct draft_trials* all = &s->engine->trials;
	for (int i = 0; i < trial->n; i++)
		all->right += trial->result[i].token == s->text[place_of(s, i) + 1];
	all->rows += trial->n;
	trial->n = 0;
	s->cache->backend->discard(s->cache);
}

double draft_trial_brings_in(const struct session* s) {
	const struct engine* engine = s->engine;
	const struct draft_trials* all = &engine->trials;
	if (all->rows == 0)
		return DRAFTS_BRING_IN;
	const struct mask none = {.word = {0}};
	struct variant with = {.skip = &none, .levels = &engine->levels, .unread = s->pages.unread};
	const struct mask sub_layers =
	    draft_weights_sub_layers(&engine->draft_weights.table, &none, &with.quantized_head);
	with.quantized = &sub_layers;
	struct cost_model cost = engine->cost;
	cost_use_draft_weights(&cost, &engine->draft_weights.table);
	const double matchness = (all->right + prior_rows * prior) / (all->rows + prior_rows);
	const double rate =
	    chain_rate_now(&cost, s->options.drafting.max_draft, matchness, cost_draft(&cost, with));
	return rate > 1 ? rate / (rate - 1) : INFINITY;
}
