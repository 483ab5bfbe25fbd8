/* The decisions of a round: who may draft, what that may cost, and which rule says so.
 *
 * With --draft auto the planner (core/draft/planner.h) weighs all drafters by measured prices and learned
 * chances, within what the ledger allows; a round that nothing improves is a plain step. With --draft always
 * the model with the mask drafts as SWIFT does: until a step is unsure, then its tree is verified. */
#include "optimizer/session_state.h"

#include <math.h>
#include <string.h>

enum {
	FIRST_REST = 64,
	LONGEST_REST = 1024,
	CALIBRATE_FIRST = 8,
	CALIBRATE_EVERY = 64,
	LOOK_EVERY = 16,
	PRICES_EVERY = 8
};

static int least(int a, int b) { return a < b ? a : b; }

int plan_useful_depth(const struct session* s, int most) {
	const int room = s->cache->capacity - s->cache->committed - 1;
	const int left = s->end - s->n_text - 1; /* the bonus token comes on top */
	const int depth = least(most, least(room, left));
	return depth > 0 ? depth : 0;
}

static bool mask_drafts(const struct session* s) {
	return s->drafters.state[SOURCE_mask] && (mask_count(session_drafts_without(s)) > 0 || s->drafts.any);
}

/* ---- SWIFT's rule ------------------------------------------------------------------------- */

static void tree_policy(struct session* s) {
	static const int published[2][4] = {{10, 8, 5, 3}, {10, 5, 3, 1}};
	const int* top_k = s->options.tree_top_k[0] > 0 ? s->options.tree_top_k : published[s->sampled];
	struct tree_policy* policy = &s->plan.tree;
	*policy = (struct tree_policy){.max_rows = MAX_ROWS};
	memcpy(policy->top_k, top_k, sizeof policy->top_k);
	if (s->options.max_tree == SWIFTLET_TREE_PAPER)
		policy->all = true;
	else if (s->options.max_tree == SWIFTLET_TREE_AUTO) {
		policy->max_rows = SLICE_ROWS;
		policy->verify_cost = s->planner.prices.verify;
	} else
		policy->max_rows = s->options.max_tree;
	if (s->logprobs > 0)
		policy->max_rows = least(policy->max_rows, LOGPROB_ROWS);
}

static void fixed_policy(struct session* s) {
	s->plan.draft = (struct draft_policy){.max_steps = plan_useful_depth(s, s->options.max_draft),
	                                      .threshold = (float)s->options.threshold,
	                                      .top = TREE_RANKS};
	tree_policy(s);
}

static bool goes_on(const struct session* s) {
	const int steps = mask_rows(s->drafters.state[SOURCE_mask]);
	if (steps == 0)
		return s->plan.draft.max_steps > 0;
	const struct result* last = &mask_results(s->drafters.state[SOURCE_mask])[steps - 1];
	return !s->plan.looped && steps < s->plan.draft.max_steps &&
	       last->max_probability >= s->plan.draft.threshold && !session_ends(s, last->token);
}

/* The chances of the draft's choices by rank, each given that those before it are wrong, as SWIFT's tree
 * takes them. */
static void fill_table(const struct session* s, struct acceptance_table* table) {
	for (int bin = 0; bin < DRAFT_BINS; bin++) {
		float left = 1;
		for (int rank = 0; rank < TREE_RANKS; rank++) {
			table->chance[bin][rank] = left * chances_broad(&s->chances, SOURCE_mask, bin, rank);
			left -= table->chance[bin][rank];
		}
	}
}

static void build_tree(struct session* s) {
	void* mask = s->drafters.state[SOURCE_mask];
	struct acceptance_table table;
	fill_table(s, &table);
	s->plan.tree.draft_cost = (float)(mask_rows(mask) * cost_draft(&s->engine->cost, session_drafts_with(s)));
	tree_build(&s->planner.tree, s->text[s->n_text - 1], mask_results(mask), mask_rows(mask), &s->plan.tree,
	           &table);
}

/* The draft's whole list of choices is compared, in the tree or not, as far as the accepted path is its
 * chain. */
static void learn_chain(struct session* s) {
	const struct result* step = mask_results(s->drafters.state[SOURCE_mask]);
	const int steps = mask_rows(s->drafters.state[SOURCE_mask]);
	const struct verdict* v = &s->round.verdict;
	for (int d = 0; d < steps && d <= v->accepted && s->planner.tree.rank[v->path[d]] == 0; d++) {
		const int bin = draft_bin(step[d].max_probability);
		const int32_t token = s->round.out[v->path[d]].token;
		for (int rank = 0; rank < step[d].top; rank++) {
			const bool right = step[d].top_token[rank] == token;
			chances_see(&s->chances, SOURCE_mask, bin, rank, ALONE, right);
			if (right)
				break;
		}
	}
	chances_calibrate(&s->chances, &s->planner.tree, v);
}

/* ---- the low-bit copy --------------------------------------------------------------------- */

struct states session_states(const struct session* s, const struct mask* mask) {
	struct states states = {.head = false};
	if (!s->copy)
		return states;
	states.sub_layers = low_sub_layers(s->copy, mask, &states.head);
	states.any = states.head || mask_count(&states.sub_layers) > 0;
	return states;
}

void plan_states(struct session* s) { s->drafts = session_states(s, session_drafts_without(s)); }

/* Under an unlimited budget statistics are to repeat: by bytes then, not by the clock. */
void plan_offer_costs(const struct session* s, struct search* search) {
	const struct cost_model bytes = cost_by_bytes(&s->engine->cost);
	const struct cost_model* cost = isinf(s->options.opt_budget) ? &bytes : &s->engine->cost;
	struct search_costs costs = {.max_draft = s->options.max_draft};
	cost_sub_layers(cost, false, &costs.attention, &costs.mlp, &costs.fixed);
	cost_sub_layers(cost, true, &costs.low_attention, &costs.low_mlp, &costs.low_fixed);
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = cost_verify(cost, n);
	search_set_costs(search, &costs);
}

/* A copy joins between two rounds. Where the search knows states it says what runs with it, else all that
 * does not say otherwise. */
static void join_copy(struct session* s) {
	if (s->copy || !s->drafters.state[SOURCE_mask] || s->options.draft_bits == 0)
		return;
	s->copy = engine_low(s->engine);
	if (!s->copy)
		return;
	if (s->search) {
		plan_offer_costs(s, s->search);
		search_take_copy(s->search);
		s->mask = search_best(s->search, &s->matchness);
	}
	plan_new_mask(s);
}

void plan_help_copy(struct session* s) {
	struct low_maker* maker = s->engine->maker;
	const double plain = cost_plain_seconds(&s->engine->cost);
	if (!maker || s->copy || plain <= 0 || s->options.draft_bits == 0 ||
	    low_maker_progress(maker) != LOW_MAKING)
		return;
	const double whole = s->engine->low_seconds / plain;
	const double left = (1 - low_maker_share(maker)) * whole;
	if (!ledger_allows_making(&s->ledger, 1, whole, left, s->end - s->n_text))
		return;
	const double began = options_clock(&s->options);
	low_maker_help(maker, plain);
	const double seconds = options_clock(&s->options) - began;
	s->figures.seconds.optimize += seconds;
	ledger_make(&s->ledger, seconds / plain);
}

/* ---- the planner's rule ------------------------------------------------------------------- */

double plan_unit(const struct session* s) {
	const int sequences = s->batch.sequences + 1;
	return sequences > 1 ? cost_between(&s->engine->cost, sequences) / sequences : 1;
}

double plan_verify_cost(const struct session* s, double beside, int n) {
	const struct cost_model* cost = &s->engine->cost;
	if (s->batch.sequences == 0 && beside < 1)
		return cost_verify(cost, n);
	return 1 + (cost_between(cost, beside + n) - cost_between(cost, beside + 1)) / plan_unit(s);
}

/* In a batch rows beyond any that were measured may cost twice what is thought. */
static double worst_cost(const struct session* s, double beside, int n) {
	const struct cost_model* cost = &s->engine->cost;
	if (s->batch.sequences == 0)
		return cost_verify_worst(cost, n);
	const double likely = plan_verify_cost(s, beside, n);
	return beside + n <= cost_rows_known(cost) ? likely : 1 + 2 * (likely - 1);
}

static void set_prices(struct session* s) {
	const double beside = s->batch.sequences > 0 ? s->batch.rows : 0;
	struct prices prices = {.cascade = true};
	for (int n = 1; n <= SLICE_ROWS; n++) {
		prices.verify[n] = (float)plan_verify_cost(s, beside, n);
		prices.verify_worst[n] = (float)worst_cost(s, beside, n);
	}
	s->priced = s->batch;
	for (int i = 0; i < DRAFTER_COUNT; i++)
		prices.pass[i] = prices.pass_worst[i] = INFINITY;
	planner_set_prices(&s->planner, &prices);
}

/* The batch has another size than the prices were made for. */
static bool batch_changed(const struct session* s) {
	return s->batch.sequences != s->priced.sequences ||
	       fabs(s->batch.rows - s->priced.rows) > 1 + s->priced.rows / 8;
}

static void price_passes(struct session* s) {
	struct prices* prices = &s->planner.prices;
	const struct cost_model* cost = &s->engine->cost;
	const bool may = mask_drafts(s) && !s->plan.looped;
	const int rows = s->batch.drafting + 1;
	const double part = cost_between(cost, rows) / rows / plan_unit(s);
	prices->pass[SOURCE_mask] = may ? (float)(part * cost_draft(cost, session_drafts_with(s))) : INFINITY;
	prices->pass_worst[SOURCE_mask] =
	    may ? (float)(part * cost_draft_worst(cost, session_drafts_with(s))) : INFINITY;
}

/* Prices are ratios to a plain step: a few must have been measured, and one lately, the sooner the more the
 * last ones were off. In company they are ratios to the batch's own passes, which are measured all the time.
 */
static bool calibrates(const struct session* s) {
	const struct cost_model* cost = &s->engine->cost;
	if (s->batch.sequences > 0)
		return cost->passes < CALIBRATE_FIRST;
	return cost->plain_seen < CALIBRATE_FIRST ||
	       s->rounds_since_plain >= fmin(CALIBRATE_EVERY, fmax(CALIBRATE_FIRST / 2, 2 / cost->off));
}

/* No round may lose more than half of what is left to lose, or one that was judged wrong would end all
 * drafting. */
static struct round_limits limits_of(const struct session* s) {
	struct round_limits limits = {.rows = SLICE_ROWS,
	                              .depth = plan_useful_depth(s, MAX_DRAFT),
	                              .budget = (float)(1 + (ledger_round_limit(&s->ledger) - 1) / 2)};
	if (s->options.max_tree > 0)
		limits.rows = least(s->options.max_tree, SLICE_ROWS);
	if (s->logprobs > 0)
		limits.rows = least(limits.rows, LOGPROB_ROWS);
	if (s->batch.hurried || calibrates(s))
		limits.rows = 1;
	return limits;
}

/* The least cost per token that going on from d steps can have, if all d are accepted: e steps more bring
 * next + next² + … + next^e tokens. More than one ahead, since v(n) may rise in steps. */
double plan_least_token_cost(const struct cost_model* cost, double c, double next, int d) {
	double tokens = 0, power = 1, least_cost = INFINITY;
	for (int e = 1; e == 1 || d + e <= MAX_DRAFT; e++) {
		power *= next;
		tokens += power;
		const double verify = cost_verify(cost, d + e + 1) - cost_verify(cost, d + 1);
		least_cost = fmin(least_cost, (e * c + verify) / tokens);
	}
	return least_cost;
}

double plan_chain_rate(const struct session* s, double right, double c) {
	double best = 1, tokens = 1, power = 1;
	for (int d = 1; d <= s->options.max_draft && d < SLICE_ROWS; d++) {
		tokens += power *= right;
		best = fmax(best, tokens / (d * c + cost_verify(&s->engine->cost, d + 1)));
	}
	return best;
}

bool plan_mask_may_pay(const struct session* s) {
	const struct cost_model* cost = &s->engine->cost;
	if (s->options.draft != SWIFTLET_DRAFT_AUTO || s->options.published)
		return true;
	double attention, mlp, fixed;
	cost_sub_layers(cost, false, &attention, &mlp, &fixed);
	const struct states states = session_states(s, &s->mask);
	/* a mask that skips little is not all that learning may come to */
	double c = 0.5 * s->engine->model->weights.shape.n_blocks * (attention + mlp) + fixed;
	if (mask_count(&s->mask) > 0 || states.any)
		c = fmin(c, cost_draft(cost, states_variant(&states, &s->mask)));
	return plan_chain_rate(s, 1, c) > (double)planner_rate(&s->planner);
}

/* A device's draft loop decides by itself when to stop. */
static void loop_policy(struct session* s) {
	const struct cost_model* cost = &s->engine->cost;
	const double c = cost_draft(cost, session_drafts_with(s)),
	             worst = cost_draft_worst(cost, session_drafts_with(s));
	const double rate = (double)planner_rate(&s->planner), limit = ledger_round_limit(&s->ledger);
	const double next = fmax(0.05, (double)chances_first(&s->chances, SOURCE_mask));
	struct draft_policy* policy = &s->plan.draft;
	*policy =
	    (struct draft_policy){.max_steps = plan_useful_depth(s, s->options.max_draft), .top = TREE_RANKS};
	while (policy->max_steps > 1 &&
	       policy->max_steps * worst + cost_verify_worst(cost, policy->max_steps + 1) > limit)
		policy->max_steps--;
	for (int bin = 0; bin < DRAFT_BINS; bin++)
		policy->accept[bin] = chances_broad(&s->chances, SOURCE_mask, bin, 0);
	for (int d = 1; d <= MAX_DRAFT; d++)
		policy->min_reach[d] = (float)(rate * plan_least_token_cost(cost, c, next, d));
}

/* What a drafter that was not tried lately is supposed to reach: enough to be tried. */
static const float hopeful = 0.9f;

/* A drafter whose passes do not pay rests, each time longer, before it is given another chance. */
static void rest(struct session* s, bool passed) {
	if (!mask_drafts(s))
		return;
	s->rested = passed ? 0 : s->rested + 1;
	s->passed = passed ? s->passed + 1 : 0;
	if (s->passed > FIRST_REST / 4)
		s->rest = 0;
	if (s->rested < (s->rest > 0 ? s->rest : FIRST_REST))
		return;
	s->rest = s->rest > 0 ? least(2 * s->rest, LONGEST_REST) : FIRST_REST;
	s->rested = 0;
	chances_first_anew(&s->chances, SOURCE_mask, hopeful);
}

/* ---- a round ------------------------------------------------------------------------------ */

void plan_round(struct session* s) {
	const bool never = s->options.method == SWIFTLET_VANILLA || s->options.draft == SWIFTLET_DRAFT_NEVER;
	const bool formed = s->form.acceptor != NULL; /* methods' own rounds know no grammar */
	s->plan.rule = never || (formed && !method_plans(&s->options)) ? RULE_PLAIN
	               : !method_plans(&s->options)                    ? RULE_METHOD
	               : s->options.draft == SWIFTLET_DRAFT_ALWAYS     ? RULE_FIXED
	                                                               : RULE_GAIN;
	s->plan.looped = false;
	if (s->plan.rule == RULE_METHOD) {
		method_start(s);
		return;
	}
	if (s->plan.rule == RULE_GAIN)
		plan_exit(s);
	if (s->drafters.state[SOURCE_mask]) {
		const struct mask_round round = {.cache = s->cache,
		                                 .sampler = s->sampled ? &s->sampler : NULL,
		                                 .penalties = penalties_now(s),
		                                 .skip = session_drafts_without(s),
		                                 .end_token = s->end_token,
		                                 .n_end_tokens = s->n_end_tokens};
		mask_start(s->drafters.state[SOURCE_mask], &round);
	}
	if (s->rounds % PRICES_EVERY == 0)
		join_copy(s);
	if (s->rounds % PRICES_EVERY == 0 || batch_changed(s))
		set_prices(s);
	const struct round_limits limits = limits_of(s);
	if (s->plan.rule == RULE_GAIN && limits.rows > 1 && !formed && plan_part(s, (double)limits.budget)) {
		s->plan.rule = RULE_METHOD;
		method_start(s);
		return;
	}
	planner_start(&s->planner, s->text[s->n_text - 1], &limits);
	if (s->plan.rule == RULE_FIXED)
		fixed_policy(s);
}

bool plan_goes_on(struct session* s) {
	struct plan* plan = &s->plan;
	if (plan->rule == RULE_PLAIN)
		return false;
	if (plan->rule == RULE_METHOD)
		return method_goes_on(s);
	if (plan->rule == RULE_FIXED) {
		if (mask_drafts(s) && goes_on(s))
			return true;
		if (mask_drafts(s))
			build_tree(s);
		return false;
	}
	price_passes(s);
	plan->action = planner_next(&s->planner);
	if (plan->action.kind == PLAN_VERIFY)
		return false;
	if (session_loops(s))
		loop_policy(s);
	return true;
}

void plan_new_mask(struct session* s) {
	s->expected = s->search ? search_expected(s->search) : s->matchness;
	const double expected = isnan(s->expected) ? (double)hopeful : s->expected;
	s->mask_right = expected;
	plan_states(s);
	if (s->exit_block > 0)
		return;
	chances_first_anew(&s->chances, SOURCE_mask, (float)s->mask_right);
	s->rest = s->rested = s->passed = 0;
}

/* Sizes are a matter of price: the search hears of costs when they are known, and again as they change. */
static void look_again(struct session* s) {
	if (!s->search || !s->options.search || s->options.published)
		return;
	if (isinf(s->options.opt_budget) || s->engine->cost.passes >= CALIBRATE_FIRST)
		plan_offer_costs(s, s->search);
	score_adopt_best(s);
}

/* What the draft model's own steps came to. */
static void learn_steps(struct session* s, int accepted) {
	void* mask = s->drafters.state[SOURCE_mask];
	int looked_at, right;
	mask_judge(mask, &s->planner.tree, s->round.out, &looked_at, &right);
	s->verified_rounds++;
	s->last_draft_steps = mask_steps(mask);
	s->last_accepted = s->plan.rule == RULE_FIXED ? accepted : right;
	s->figures.draft_steps += s->last_draft_steps;
	s->figures.draft_accepted += s->last_accepted;
	if (s->exit_block > 0 || !s->search || s->options.published)
		return;
	/* a search that knows no states would take what rounding gets wrong for the mask's fault */
	if (!s->drafts.any || search_has_copy(s->search))
		search_see_draft(s->search, &s->mask, right, looked_at);
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

void plan_learn(struct session* s, int emitted, int accepted) {
	const int64_t rounds = ++s->rounds;
	const bool passed = s->drafters.state[SOURCE_mask] && mask_rows(s->drafters.state[SOURCE_mask]) > 0;
	if (s->planner.tree.n == 1 && !passed) {
		ledger_plain(&s->ledger);
		s->rounds_since_plain = 0;
	} else {
		ledger_round(&s->ledger, s->round_cost, emitted);
		s->rounds_since_plain++;
	}
	learn_sources(s);
	if (s->plan.rule == RULE_METHOD)
		method_learn(s, emitted, accepted);
	plan_part_learn(s, emitted);
	if (passed)
		learn_steps(s, accepted);
	if (s->plan.rule == RULE_FIXED && passed)
		learn_chain(s);
	if (s->plan.rule == RULE_GAIN) {
		planner_see(&s->planner, &s->round.verdict, s->round.out, emitted, (float)s->round_cost);
		rest(s, passed);
	}
	if (rounds % LOOK_EVERY == 0)
		look_again(s);
}
