/* The session as its learner sees it. */
#include "core/decode/learner.h"

#include "core/decode/session_state.h"

void session_set_learner(struct session* s, struct learner* learner) { s->learner = learner; }
struct learner* session_learner(const struct session* s) {
	return s->learner;
}

struct learner_view session_learning(const struct session* s) {
	return (struct learner_view){.engine = s->engine,
	                             .options = &s->options,
	                             .cache = s->cache,
	                             .text = s->text,
	                             .n_text = s->n_text,
	                             .n_prompt = s->n_prompt,
	                             .end = s->end,
	                             .idle = s->phase == PHASE_IDLE,
	                             .done = s->phase == PHASE_DONE,
	                             .by_channel = s->draft_weights && s->draft_weights->format.columns,
	                             .mask = &s->mask,
	                             .rate = (double)planner_rate(&s->planner)};
}

void session_charge_learning(struct session* s, double seconds) {
	if (s->phase == PHASE_IDLE)
		return;
	s->figures.seconds.optimize += seconds;
	budget_learn(s->budget, session_cost_of(s, seconds, 0));
}

bool session_affords_learning(const struct session* s, double plain_steps) {
	return s->batch.sequences == 0 && !s->batch.hurried && cost_plain_seconds(&s->engine->cost) > 0 &&
	       budget_allows_learning(s->budget, plain_steps / session_cost_unit(s));
}

void session_replace_mask(struct session* s, const struct mask* mask, double matchness) {
	s->mask = *mask;
	s->matchness = matchness;
	plan_new_mask(s);
}
