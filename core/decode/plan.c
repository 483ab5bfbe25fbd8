/* The decisions of a round: which drafters take part, what the round may cost, and which rule decides.
 *
 * With --draft auto the planner (core/decode/speculate.h) weighs all drafters by measured costs and learned
 * probabilities, within the budget. A round that nothing improves is a plain step. With --draft always the
 * model with the mask drafts as SWIFT does, until a step is unsure; then its tree is verified. */
#include "core/decode/session_state.h"

#include <math.h>
#include <string.h>

/* A plain step comes after so many other rounds, because costs are ratios to it, and where the text has
 * become so long that a plain step takes an eighth more. The learner looks at the text, and sessions join new
 * draft weights, once in so many rounds. */
enum { CALIBRATE_EVERY = 64, LENGTHENS = 8, LOOK_EVERY = 16, JOIN_EVERY = 8 };

static bool mask_can_draft(const struct session* s) {
	return s->drafters.state[SOURCE_mask] && (mask_count(&s->mask) > 0 || s->drafts.any || s->pages.now);
}

/* ---- SWIFT's rule ------------------------------------------------------------------------- */

/* The chain drafted so far belongs to the tree until the tree is built. */
static bool extend_chain(struct session* s) {
	const int steps = mask_rows(s->drafters.state[SOURCE_mask]);
	int head = 0;
	if (s->plan.looped || steps >= s->plan.draft.max_steps)
		return false;
	if (steps > 0) {
		const struct result* last = &mask_results(s->drafters.state[SOURCE_mask])[steps - 1];
		if (last->max_probability < s->plan.draft.threshold || session_ends(s, last->token))
			return false;
		head = tree_add(&s->planner.tree, steps - 1, last->token, SOURCE_mask, 0, 1);
	}
	s->plan.action = (struct plan_action){PLAN_PASS, SOURCE_mask, head, 0};
	return true;
}

static void build_tree(struct session* s) {
	const int asked = s->options.drafting.max_tree, steps = mask_rows(s->drafters.state[SOURCE_mask]);
	const int rows = asked > 0 ? asked : asked == SWIFTLET_TREE_AUTO ? SLICE_ROWS : MAX_ROWS;
	planner_take_all(&s->planner, s->log_probs.top > 0 ? least(rows, LOGPROB_ROWS) : rows,
	                 asked == SWIFTLET_TREE_AUTO,
	                 (float)(steps * cost_draft(&s->engine->cost, session_drafts_with(s))));
}

/* ---- the quantized draft weights --------------------------------------------------------------------- */

struct draft_states session_states(const struct session* s, const struct mask* mask) {
	struct draft_states states = {.head = false};
	if (!s->draft_weights)
		return states;
	states.sub_layers = draft_weights_sub_layers(s->draft_weights, mask, &states.head);
	states.any = states.head || mask_count(&states.sub_layers) > 0;
	states.by_channel = s->draft_weights->format.columns;
	states.levels = mask->has_levels ? mask->levels : s->engine->levels;
	return states;
}

/* Sessions begin to use draft weights between two rounds. A learner that knows states chooses which
 * sub-layers run with them; otherwise all do, except those that the mask keeps as stored. */
static void join_draft_weights(struct session* s) {
	if (s->draft_weights || !s->drafters.state[SOURCE_mask] || s->options.draft_weights.bits == 0)
		return;
	s->draft_weights = engine_draft_weights(s->engine);
	if (!s->draft_weights)
		return;
	if (s->learner)
		s->learner->calls->draft_weights_joined(s->learner);
	plan_new_mask(s);
}

/* In a batch a draft row by input channel takes a pass of its own, at least some .4 of a plain step, where a
 * plain row costs v(n) / n. Below this a draft row costs over .7 of a plain one, and drafts hardly pay: an
 * estimate. (With four clients of Qwen 0.5B making draft weights took .08 to .16 of the time.) */
static const double LEAST_ROW = 0.57;

/* A first slice often takes two to four times as long as the others. So where it promises more than so many
 * steps, a second one follows after as many tokens. (Without it making began late: in four runs the first
 * slice promised 48, 67, 71 and 141 steps, and making took 32 to 38.) */
enum { SECOND_SLICE = 16 };

static bool measures_making(const struct session* s, double whole) {
	return s->engine->draft_weights_slices == 1 && s->budget->prepayment > 0 && whole > SECOND_SLICE &&
	       s->budget->plain >= SECOND_SLICE;
}

/* One trial comes before the first draft weights are made, and a second one before the third slice, when most
 * of them are still missing. If trials say that draft weights do not pay, another one follows after so many
 * times as many tokens. Weights of which over half are made are finished in any case. */
enum { TRY_AGAIN = 4 };

static bool pays_by_trials(struct session* s, double made) {
	const struct engine* engine = s->engine;
	const struct draft_trials* trials = &engine->trials;
	if (isinf(s->budget->opt_budget) || made > 0.5 || !draft_trial_can_run(s))
		return true;
	const int wanted = engine->draft_weights_slices < 2 ? 1 : 2;
	const bool enough = trials->rows >= wanted * TRIAL_ROWS, pays = enough && draft_trial_pays(s);
	if (!enough || (!pays && s->budget->plain >= TRY_AGAIN * trials->at))
		draft_trial_begin(s);
	return pays;
}

/* The cheapest slice so far shows how long making takes; nothing else knows the speed of this processor and
 * its memory. Making that looked cheap enough to begin does not stop halfway because a later slice took
 * longer. */
void plan_make_draft_weights(struct session* s) {
	struct engine* engine = s->engine;
	const double unit = session_cost_unit(s);
	const double plain = cost_plain_seconds(&engine->cost);
	const double made = engine->making ? draft_weights_job_share(engine->making) : 1;
	if (made == 1 || s->draft_weights || plain <= 0 || s->options.draft_weights.bits == 0 ||
	    !s->drafters.state[SOURCE_mask] || (engine->backend->columns && unit < LEAST_ROW))
		return;
	if (made > 0 && engine->draft_weights_steps == 0) /* all so far was made in idle time */
		engine->draft_weights_steps = engine->draft_weights_seconds / plain / made;
	const double whole = fmax(1, engine->draft_weights_steps);
	if (!measures_making(s, whole / unit) &&
	    !budget_allows_making(s->budget, 1 / unit, whole / unit, (1 - made) * whole / unit,
	                          s->end - s->n_text))
		return;
	if (!pays_by_trials(s, made))
		return;
	const double began = options_clock(&s->options);
	const double now = draft_weights_job_run(engine->making, plain);
	const double seconds = options_clock(&s->options) - began;
	engine->draft_weights_seconds += seconds;
	const double steps = seconds / plain / (now - made), known = engine->draft_weights_steps;
	engine->draft_weights_steps = known > 0 ? fmin(known, steps) : steps;
	engine->draft_weights_slices++;
	s->figures.seconds.optimize += seconds;
	budget_make(s->budget, seconds / plain / unit, whole / unit);
}

/* ---- the planner's rule ------------------------------------------------------------------- */

static void set_cost_table(struct session* s) {
	const double beside = s->batch.sequences > 0 ? s->batch.rows : 0;
	struct cost_table costs = {.cascade[SOURCE_model] = true};
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = (float)session_rows_cost(s, beside, n);
	for (int i = 0; i < DRAFTER_COUNT; i++)
		costs.pass[i] = costs.pass_worst[i] = INFINITY;
	planner_set_costs(&s->planner, &costs);
}

static void set_pass_costs(struct session* s) {
	struct cost_table* costs = &s->planner.costs;
	const struct cost_model* cost = &s->engine->cost;
	const struct variant with = session_drafts_with(s);
	const int rows = s->batch.drafting + 1;
	/* by input channel each row reads others: n rows cost almost n steps */
	costs->cascade[SOURCE_mask] = !s->draft_weights || !s->draft_weights->format.columns;
	costs->pass[SOURCE_mask] = costs->pass_worst[SOURCE_mask] = INFINITY;
	if (!mask_can_draft(s) || s->plan.looped)
		return;
	const double part = cost_draft_rows(cost, with, rows) / rows / session_cost_unit(s);
	costs->pass[SOURCE_mask] = (float)(part * cost_draft(cost, with));
	costs->pass_worst[SOURCE_mask] = (float)(part * cost_draft_worst(cost, with));
}

/* A few plain steps must have been measured, and one lately: the more the last ones deviated, the sooner. (At
 * one in 64 rounds drafts that are right at random slowed decoding by 3.2 % where memory swings every 500
 * steps, at one in 32 those that are right once by 5 % where it swings every 100.) A batch has its own passes
 * instead. */
static bool needs_plain_step(const struct session* s) {
	const struct cost_model* cost = &s->engine->cost;
	if (s->batch.sequences > 0)
		return cost->passes < CALIBRATE_FIRST || !cost_rows_seen(cost, s->batch.sequences + 1);
	if (fabs(cost->length - cost->plain_at) > (1 + cost->plain_at) / LENGTHENS)
		return true;
	return cost->plain_steps < CALIBRATE_FIRST ||
	       (double)s->rounds_since_plain >= fmin(CALIBRATE_EVERY, fmax(CALIBRATE_FIRST / 2, 2 / cost->off));
}

/* A round may lose at most half of what is left to lose, or one misjudged round would end all drafting; in a
 * batch all sessions plan at once. A round may also have at most twice the rows that were measured: once a
 * pass waits for arithmetic, further rows cost more than the first ones suggest (18 rows with an estimate
 * of 1.3 took 2.9). */
static struct round_limits limit_round(const struct session* s) {
	const int most = s->options.drafting.max_tree > 0 ? s->options.drafting.max_tree
	                                                  : 2 * cost_rows_known(&s->engine->cost);
	const double share = 2 * (s->batch.sequences + 1);
	struct round_limits limits = {.rows = least(most, SLICE_ROWS),
	                              .depth = session_useful_depth(s, MAX_DRAFT),
	                              .budget = (float)(1 + (budget_round_limit(s->budget) - 1) / share)};
	if (s->log_probs.top > 0)
		limits.rows = least(limits.rows, LOGPROB_ROWS);
	if (s->batch.hurried || needs_plain_step(s))
		limits.rows = 1;
	return limits;
}

/* True if this drafter's model ran in this round. */
static bool has_run(const struct session* s, int source) {
	return s->drafters.state[source] && mask_rows(s->drafters.state[source]) > 0;
}

bool plan_is_plain(const struct session* s) {
	return s->planner.tree.n == 1 && !has_run(s, SOURCE_mask) && !has_run(s, SOURCE_model) &&
	       !has_run(s, SOURCE_mtp);
}

/* A device's draft loop decides by itself when to stop, within what the round may lose. */
static void set_loop_policy(struct session* s) {
	const struct cost_model* cost = &s->engine->cost;
	const struct variant with = session_drafts_with(s);
	const double c = cost_draft(cost, with), worst = cost_draft_worst(cost, with);
	const double rate = (double)planner_rate(&s->planner), limit = (double)s->planner.limits.budget;
	const double next = fmax(0.05, (double)acceptance_first(&s->acceptance, SOURCE_mask));
	struct draft_policy* policy = &s->plan.draft;
	while (policy->max_steps > 1 &&
	       policy->max_steps * worst + cost_verify(cost, policy->max_steps + 1) > limit)
		policy->max_steps--;
	for (int bin = 0; bin < DRAFT_BINS; bin++)
		policy->accept[bin] = acceptance_of(&s->acceptance, SOURCE_mask, bin, 0);
	set_min_reach(cost, rate, c, next, policy);
}

/* ---- a round ------------------------------------------------------------------------------ */

/* The share of the coarse head that a draft step reads, where the backend has one. */
static double find_head_share(const struct session* s) {
	const bool coarse = s->engine->backend->bounds_guesses && !s->drafts.head;
	return coarse ? cost_head_share(&s->engine->cost, session_drafts_with(s)) : 0;
}

void plan_round(struct session* s) {
	const bool never =
	    s->options.drafting.method == SWIFTLET_VANILLA || s->options.drafting.when == SWIFTLET_DRAFT_NEVER;
	s->plan.rule = never || (s->driver && !s->driver->calls->drafts(s->driver)) ? RULE_PLAIN
	               : s->driver                                                  ? RULE_DRIVEN
	               : s->options.drafting.when == SWIFTLET_DRAFT_ALWAYS          ? RULE_FIXED
	                                                                            : RULE_GAIN;
	s->plan.looped = false;
	if (s->plan.rule == RULE_DRIVEN) {
		s->plan.goes_on = s->driver->calls->start(s->driver);
		return;
	}
	draft_pages_round(s);
	if (s->drafters.state[SOURCE_mask]) {
		const struct mask_round round = {
		    .segment = {.cache = s->cache,
		                .pages = s->pages.now,
		                .sampler = s->sampled ? &s->sampler : NULL,
		                .penalties = penalties_now(s)},
		    .skip = &s->mask,
		    .top_k = s->plan.rule == RULE_FIXED ? options_top_k(&s->options, s->sampled) : NULL,
		    .end_token = s->end_token,
		    .n_end_tokens = s->n_end_tokens,
		    .head_share = find_head_share(s)};
		mask_start(s->drafters.state[SOURCE_mask], &round);
	}
	draft_model_round(s);
	mtp_round(s);
	if (s->rounds % JOIN_EVERY == 0 || !s->engine->backend->upload_draft_weights)
		join_draft_weights(s);
	set_cost_table(s);
	const struct round_limits limits = limit_round(s);
	planner_start(&s->planner, s->text[s->n_text - 1], &limits);
	s->plan.draft = (struct draft_policy){
	    .max_steps = session_useful_depth(s, s->options.drafting.max_draft),
	    .threshold = s->plan.rule == RULE_FIXED ? (float)s->options.drafting.threshold : 0,
	    .top = TREE_RANKS};
}

bool plan_goes_on(struct session* s) {
	struct plan* plan = &s->plan;
	if (plan->rule == RULE_PLAIN)
		return false;
	if (plan->rule == RULE_DRIVEN)
		return plan->goes_on;
	if (plan->rule == RULE_FIXED) {
		if (mask_can_draft(s) && extend_chain(s))
			return true;
		if (mask_can_draft(s))
			build_tree(s);
		return false;
	}
	set_pass_costs(s);
	draft_model_set_costs(s, has_run(s, SOURCE_model));
	mtp_set_costs(s, has_run(s, SOURCE_mtp));
	plan->action = planner_next(&s->planner);
	if (plan->action.kind == PLAN_VERIFY)
		return false;
	if (session_loops(s))
		set_loop_policy(s);
	return true;
}

void plan_new_mask(struct session* s) {
	const double expected = s->learner ? s->learner->calls->expected(s->learner) : s->matchness;
	s->drafts = session_states(s, &s->mask);
	acceptance_reset_first(&s->acceptance, SOURCE_mask, (float)expected);
}

/* The result of the draft model's own steps. */
static void learn_steps(struct session* s, int accepted) {
	void* mask = s->drafters.state[SOURCE_mask];
	int looked_at, right;
	mask_judge(mask, &s->planner.tree, s->round.out, &looked_at, &right);
	s->last_round.count++;
	s->last_round.draft_steps = mask_steps(mask);
	s->last_round.accepted = s->plan.rule == RULE_FIXED ? accepted : right;
	s->figures.draft_steps += s->last_round.draft_steps;
	s->figures.draft_accepted += s->last_round.accepted;
	if (s->learner)
		s->learner->calls->drafted(s->learner, right, looked_at);
}

static void learn_sources(struct session* s) {
	const struct tree* tree = &s->planner.tree;
	const struct verdict* v = &s->round.verdict;
	for (int row = 1; row < tree->n; row++) {
		s->figures.source[tree->source[row]].rows++;
		s->figures.source[tree->source[row]].predicted += (double)tree->chance[row];
	}
	for (int i = 1; i <= v->accepted; i++)
		s->figures.source[tree->source[v->path[i]]].accepted++;
}

void plan_settle(struct session* s, double seconds) {
	const double faster = seconds > 0 ? fmin(2, cost_plain_seconds(&s->engine->cost) / seconds) - 1 : 0;
	const double left = s->budget->balance - budget_floor(s->budget);
	if (faster > 0 && left > 0)
		budget_round(s->budget, fmin(left, 0.5 * faster * s->cost_since_plain), 0);
	s->cost_since_plain = 0;
}

void plan_learn(struct session* s, int emitted, int accepted) {
	const bool plain = plan_is_plain(s), passed = has_run(s, SOURCE_mask);
	s->rounds++;
	s->rounds_since_plain = plain ? 0 : s->rounds_since_plain + 1;
	s->cost_since_plain += plain ? 0 : s->round_cost;
	budget_round(s->budget, plain ? 1 : s->round_cost, emitted);
	learn_sources(s);
	if (s->plan.rule == RULE_DRIVEN)
		s->driver->calls->learn(s->driver, emitted, accepted, s->round_cost);
	if (passed)
		learn_steps(s, accepted);
	if (s->plan.rule == RULE_FIXED && passed)
		planner_learn(&s->planner, &s->round.verdict, s->round.out);
	if (s->plan.rule == RULE_GAIN)
		planner_see(&s->planner, &s->round.verdict, s->round.out, emitted, (float)s->round_cost);
	if (s->learner && s->rounds % LOOK_EVERY == 0)
		s->learner->calls->look(s->learner);
}
