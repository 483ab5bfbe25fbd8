/* Whether to draft, how far, and which tree: the decisions of a round.
 *
 * With --draft auto a round is worth its cost when M / ((M - 1)·c/α + v(n)) > 1 (design, section 1). With
 * acceptance a per step, d steps bring (1 - a^(d+1)) / (1 - a) tokens for d·c + v(d + 1). Once drafting,
 * the draft goes on while some number of further steps, weighed by their chance of being accepted, brings
 * more per cost than rounds bring on average (the condition under which a ratio of sums grows). */
#include "optimizer/session_state.h"

#include <math.h>
#include <string.h>

/* Gains below this are within what the clock can tell. */
static const double WORTH_IT = 1.02;

enum {
	RATE_ROUNDS = 12,
	FIRST_BACKOFF = 64,
	LONGEST_BACKOFF = 1024,
	CALIBRATE_FIRST = 8,
	CALIBRATE_EVERY = 64,
	LOOK_EVERY = 16,
	PROBES = 4,
	PROBE_STEPS = 3
};

static int least(int a, int b) { return a < b ? a : b; }

/* Draft steps that may still be of use: a draft never goes beyond what may be emitted. */
static int useful_steps(const struct session* s) {
	const int room = s->cache->capacity - s->cache->committed - 1;
	const int left = s->end - s->n_text - 1; /* the bonus token comes on top */
	const int steps = least(s->options.max_draft, least(room, left));
	return steps > 0 ? steps : 0;
}

/* Largest tokens per cost over the number of steps, for acceptance a. */
static double best_rate(const struct cost_model* cost, double c, double a, int steps) {
	double expected = 1, power = 1, best = 0;
	for (int d = 1; d <= steps; d++) {
		power *= a;
		expected += power;
		const double rate = expected / (d * c + cost_verify(cost, d + 1));
		best = rate > best ? rate : best;
	}
	return best;
}

/* Steps whose worst case (all of them for one token) the ledger can bear. */
static int affordable_steps(const struct session* s, double c, int steps) {
	const double limit = ledger_round_limit(&s->ledger);
	while (steps > 0 && steps * c + cost_verify_worst(&s->engine->cost, steps + 1) > limit)
		steps--;
	return steps;
}

static int affordable_rows(const struct session* s, double drafted) {
	const double limit = ledger_round_limit(&s->ledger);
	int rows = SLICE_ROWS;
	while (rows > 2 && drafted + cost_verify_worst(&s->engine->cost, rows) > limit)
		rows--;
	return rows;
}

static bool mask_is_empty(const struct mask* mask) { return mask_count(mask) == 0; }

/* Draft steps with --draft auto; 0: a plain step. */
static int steps_when_it_pays(struct session* s, int steps) {
	const struct cost_model* cost = &s->engine->cost;
	/* Costs are ratios to a plain step: a few must have been measured, and one lately. */
	const int every = cost->plain_seen < 4 * CALIBRATE_FIRST ? CALIBRATE_FIRST / 2 : CALIBRATE_EVERY;
	if (cost->plain_seen < CALIBRATE_FIRST || s->rounds_since_plain >= every)
		return 0;
	if (s->plain_left > 0)
		return 0;
	const double c = cost_draft(cost, &s->mask);
	steps = affordable_steps(s, cost_draft_worst(cost, &s->mask), steps);
	if (steps == 0)
		return 0;
	/* What is not known is tried out, a few short rounds at a time. */
	if (s->probes > 0) {
		s->probes--;
		return least(steps, PROBE_STEPS);
	}
	const double rate = s->rounds_on_mask >= RATE_ROUNDS
	                        ? (double)s->acceptance.rate
	                        : best_rate(cost, c, (double)acceptance_step(&s->acceptance), steps);
	if (rate > WORTH_IT)
		return steps;
	/* It does not pay: decode plainly, and try again later. */
	s->backoff = s->backoff == 0 ? FIRST_BACKOFF : least(2 * (int)s->backoff, LONGEST_BACKOFF);
	s->plain_left = s->backoff;
	s->probes = PROBES;
	s->rounds_on_mask = 0;
	s->acceptance.rate = 1;
	acceptance_doubt(&s->acceptance);
	return 0;
}

/* The least cost per token that going on from d steps can have, if all d are accepted: e steps more bring
 * next + next² + … + next^e tokens. More than one ahead, since v(n) may rise in steps. verify (MAX_DRAFT +
 * 2): v(d + 1). */
static double least_token_cost(const double* verify, double c, double next, int d) {
	double tokens = 0, power = 1, least_cost = INFINITY;
	for (int e = 1; e == 1 || d + e <= MAX_DRAFT; e++) {
		power *= next;
		tokens += power;
		least_cost = fmin(least_cost, (e * c + verify[d + e] - verify[d]) / tokens);
	}
	return least_cost;
}

static void draft_policy(struct session* s, struct draft_policy* policy) {
	memset(policy, 0, sizeof *policy);
	policy->max_steps = s->plan.steps;
	policy->top = TREE_RANKS;
	for (int bin = 0; bin < DRAFT_BINS; bin++)
		policy->accept[bin] = s->acceptance.table.chance[bin][0];
	if (s->options.draft != SWIFTLET_DRAFT_AUTO) {
		policy->threshold = (float)s->options.threshold;
		return;
	}
	const struct cost_model* cost = &s->engine->cost;
	const double c = cost_draft(cost, &s->mask), rate = fmax(1, (double)s->acceptance.rate);
	const double next = fmax(0.05, (double)acceptance_step(&s->acceptance));
	double verify[MAX_DRAFT + 2];
	for (int d = 0; d <= MAX_DRAFT + 1; d++)
		verify[d] = cost_verify(cost, d + 1);
	for (int d = 1; d <= MAX_DRAFT; d++)
		policy->min_reach[d] = (float)(rate * least_token_cost(verify, c, next, d));
}

static void tree_policy(struct session* s, struct tree_policy* policy) {
	*policy = (struct tree_policy){.max_rows = MAX_ROWS};
	static const int published[2][4] = {{10, 8, 5, 3}, {10, 5, 3, 1}};
	const int* top_k = s->options.tree_top_k[0] > 0 ? s->options.tree_top_k : published[s->sampled];
	memcpy(policy->top_k, top_k, sizeof policy->top_k);
	if (s->options.max_tree == SWIFTLET_TREE_PAPER)
		policy->all = true;
	else if (s->options.max_tree == SWIFTLET_TREE_AUTO) {
		policy->max_rows = SLICE_ROWS;
		for (int n = 0; n <= SLICE_ROWS; n++)
			s->plan.verify_cost[n] = (float)cost_verify(&s->engine->cost, n);
		policy->verify_cost = s->plan.verify_cost;
	} else
		policy->max_rows = s->options.max_tree;
	if (s->logprobs > 0)
		policy->max_rows = least(policy->max_rows, LOGPROB_ROWS);
}

void plan_round(struct session* s) {
	const bool never = s->options.method == SWIFTLET_VANILLA || s->options.draft == SWIFTLET_DRAFT_NEVER;
	int steps = never || mask_is_empty(&s->mask) ? 0 : useful_steps(s);
	if (steps > 0 && s->options.draft == SWIFTLET_DRAFT_AUTO)
		steps = steps_when_it_pays(s, steps);
	s->plan.steps = steps;
	if (s->plain_left > 0)
		s->plain_left--;
	draft_policy(s, &s->plan.draft);
	tree_policy(s, &s->plan.tree);
}

/* What the tree may still cost, once the draft steps taken are known. */
void plan_tree(struct session* s, int steps) {
	const double c = cost_draft(&s->engine->cost, &s->mask);
	s->plan.tree.draft_cost = (float)(steps * c);
	if (s->options.draft == SWIFTLET_DRAFT_AUTO)
		s->plan.tree.max_rows = least(s->plan.tree.max_rows, affordable_rows(s, s->round_cost));
}

void plan_new_mask(struct session* s) {
	acceptance_new_mask(&s->acceptance, s->search ? search_expected(s->search) : s->matchness);
	s->rounds_on_mask = 0;
	s->probes = isnan(s->matchness) ? PROBES : 0;
	s->plain_left = s->backoff = 0;
	s->acceptance.rate = 1;
}

static void offer_costs(struct session* s) {
	struct search_costs costs = {.max_draft = s->options.max_draft};
	cost_sub_layers(&s->engine->cost, &costs.attention, &costs.mlp, &costs.fixed);
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = cost_verify(&s->engine->cost, n);
	search_set_costs(s->search, &costs);
}

/* Sizes are a matter of price: the search hears of costs when they are known, and again as they change. */
static void look_again(struct session* s) {
	if (!s->search || !s->options.search || s->options.published)
		return;
	if (s->engine->cost.plain_seen >= CALIBRATE_FIRST)
		offer_costs(s);
	score_adopt_best(s);
}

void plan_learn(struct session* s, int emitted, int accepted) {
	const int64_t rounds = ++s->rounds;
	if (s->round.steps == 0) {
		ledger_plain(&s->ledger);
		s->rounds_since_plain = 0;
	} else {
		ledger_round(&s->ledger, s->round_cost, emitted);
		acceptance_see(&s->acceptance, &s->round);
		acceptance_see_rate(&s->acceptance, emitted, s->round_cost);
		s->rounds_on_mask++;
		s->rounds_since_plain++;
		if (s->rounds_on_mask > 2 * RATE_ROUNDS && s->acceptance.rate > 1)
			s->backoff = 0;
		s->verified_rounds++;
		s->last_draft_steps = s->round.steps;
		s->last_accepted = accepted;
		/* the draft stopped being right after `accepted` steps, or not at all */
		if (s->search && !s->options.published)
			search_see_draft(s->search, &s->mask, accepted, accepted + (accepted < s->round.steps));
	}
	if (rounds % LOOK_EVERY == 0)
		look_again(s);
}
