/* A trained part that was given to `auto`, an adapter or heads, and when it drafts in the planner's place.
 *
 * It drafts in rounds of its own (optimizer/method_round.h). Which of the two drafts is a choice between two
 * arms: tokens over cost of each are measured on its own rounds, and the better one stays. The other is tried
 * again for some rounds, or until it has lost some plain steps against the better one's rate, when that and
 * all that was lost before is a small share of the time so far: however much better the one that drafts is,
 * trials of the other cost no more. Both are on the drafting account, and so is what brings an adapter up to
 * date with the text. */
#include <math.h>
#include <string.h>

#include "optimizer/session_state.h"

enum { TRIAL = 16, FIRST_TRIAL = 12 };

static const double most_lost = 4; /* by one trial, plain steps; the first ones may cost twice that */
static const double share_lost = 0.005;
static const double memory = 128;     /* rounds */
static const double remembers = 0.25; /* of what an arm was worth, when it is tried again */
static const double better = 1.02;

void plan_part_open(struct session* s) { s->part = (struct part_choice){.now = ARM_PLANNER}; }

/* Blocks up to the exit and a head, in plain steps; an adapter is about an attention sub-layer more. */
static double step_cost(const struct session* s) {
	const struct method_round* m = s->method;
	double attention, mlp, head;
	cost_sub_layers(&s->engine->cost, false, &attention, &mlp, &head);
	const double by_bytes = m->span / 2 * (attention + mlp) + attention + head;
	return m->drafted > 7 ? fmax(by_bytes, m->draft_cost / (double)m->drafted) : 2 * by_bytes;
}

/* Steps that the round may cost in the worst case, in which all of them are wrong. */
static int afforded(const struct session* s, double budget) {
	const double c = step_cost(s);
	int steps = 0;
	while (steps < MAX_DRAFT && (steps + 1) * c + cost_verify_worst(&s->engine->cost, steps + 2) <= budget)
		steps++;
	return steps;
}

bool plan_part(struct session* s, double budget) {
	struct part_choice* c = &s->part;
	struct method_round* m = s->method;
	int missing;
	if (!m)
		return false;
	m->afford = c->now == ARM_PART && s->batch.sequences == 0
	                ? afforded(s, budget - method_ready_cost(s, &missing))
	                : 0;
	if (m->afford == 0) {
		method_pause(m);
		return false;
	}
	const double began = options_clock(&s->options), plain = cost_plain_seconds(&s->engine->cost);
	const double optimized = s->figures.seconds.optimize;
	const bool ready = method_ready(s);
	/* what exits were measured for is on the learning account */
	const double learned = s->figures.seconds.optimize - optimized;
	const double cost = (options_clock(&s->options) - began - learned) / plain;
	s->figures.seconds.draft += cost * plain;
	ledger_learn(&s->ledger, learned / plain);
	ledger_round(&s->ledger, cost, 0);
	c->cost[ARM_PART] += cost;
	c->gain -= cost;
	if (!ready)
		method_pause(m);
	return ready;
}

static double rate(const struct part_choice* c, int arm) {
	return c->cost[arm] > 0 ? c->tokens[arm] / c->cost[arm] : 0;
}

static void try_other(struct part_choice* c) {
	c->now = !c->now;
	c->trial = true;
	c->rounds = 0;
	c->gain = 0;
	c->tokens[c->now] *= remembers;
	c->cost[c->now] *= remembers;
}

static void end_trial(struct part_choice* c) {
	if (rate(c, c->now) <= better * rate(c, !c->now))
		c->now = !c->now;
	c->lost += fmax(0, -c->gain);
	c->trial = false;
	c->rounds = 0;
}

/* What a trial of the other arm may lose, the way to its first round included. */
static bool trial_is_due(const struct session* s) {
	const struct part_choice* c = &s->part;
	int missing;
	const double way = c->now == ARM_PLANNER ? method_ready_cost(s, &missing) : 0;
	return c->rounds >= FIRST_TRIAL &&
	       c->lost + most_lost + way <= fmax(2 * most_lost, share_lost * c->spent);
}

void plan_part_learn(struct session* s, int emitted) {
	struct part_choice* c = &s->part;
	const int arm = s->plan.rule == RULE_METHOD ? ARM_PART : ARM_PLANNER;
	if (!s->method || s->batch.sequences > 0)
		return;
	c->spent += s->round_cost;
	/* plain steps that prices want are neither's */
	if (arm == c->now) {
		c->gain += emitted / fmax(1, rate(c, !arm)) - s->round_cost;
		c->tokens[arm] += emitted - c->tokens[arm] / memory;
		c->cost[arm] += s->round_cost - c->cost[arm] / memory;
	}
	c->rounds++;
	if (c->trial && (c->rounds >= TRIAL || c->gain < -most_lost))
		end_trial(c);
	else if (!c->trial && trial_is_due(s))
		try_other(c);
}
