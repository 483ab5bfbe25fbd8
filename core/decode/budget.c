/* Sums of the speculation budget. */
#include "core/decode/budget.h"

#include <math.h>

/* Drafting may lose again at most this much of what it earned, in plain steps. If a clock swings in step with
 * the rounds, some of the gain was never real. */
static const double kept = 64;

/* Drafting may lose an allowance and a share of plain time. A fixed allowance (4 steps) was often spent by
 * token 50. One that grew by .003 a token left a session without drafts for a whole answer after one with
 * poor drafts (docs/lessons.md). */
static const double share = 0.01, allowance = 3.5;

/* Draft weights that take more plain steps to make bring them in too late to be paid for ahead of time or by
 * what drafting earned: 72 cost Qwen 1.5B in 4 bits a tenth of its speed over 18 prompts. */
enum { LONGEST_MAKING = 48 };

void budget_open(struct speculation_budget* budget, double opt_budget) {
	*budget = (struct speculation_budget){.opt_budget = opt_budget};
	if (opt_budget < 0) {
		budget->opt_budget = 0.01;
		budget->advance = 32;
		budget->prepayment = LONGEST_MAKING;
	}
}

double budget_floor(const struct speculation_budget* budget) { return -(allowance + share * budget->plain); }

void budget_plain(struct speculation_budget* budget) { budget->plain += 1; }

void budget_round(struct speculation_budget* budget, double cost, int tokens) {
	budget->plain += tokens;
	budget->balance = fmin(kept, budget->balance + tokens - cost);
}

/* Drafting's balance loses for good what the share does not cover, so the same floor limits later losses. */
void budget_learn(struct speculation_budget* budget, double cost) {
	budget->learned += cost;
	const double over = budget->learned - budget->opt_budget * budget->plain - budget->taken;
	const double take = fmin(over, fmin(budget->advance - budget->taken, budget->balance));
	if (take > 0) {
		budget->balance -= take;
		budget->taken += take;
	}
}

static bool has_earned(const struct speculation_budget* budget, double cost) {
	return cost <= budget->balance / 2;
}

bool budget_allows_making(const struct speculation_budget* budget, double cost, double whole, double left,
                          int tokens) {
	/* a fourth of a step each, after as many tokens as all of it takes steps: a short first answer pays
	 * nothing, and a text that ends right after it took at most twice its time */
	const bool brings_in = tokens >= 4 * left && budget->plain >= whole;
	if (whole > LONGEST_MAKING)
		return isinf(budget->opt_budget) || budget->learned + cost <= budget->opt_budget * budget->plain;
	return has_earned(budget, cost) || (brings_in && budget->learned + cost <= 1.5 * budget->prepayment) ||
	       budget_allows_learning(budget, cost);
}

void budget_make(struct speculation_budget* budget, double cost, double whole) {
	if (whole <= LONGEST_MAKING && has_earned(budget, cost))
		budget->balance -= cost;
	else
		budget_learn(budget, cost);
}

double budget_round_limit(const struct speculation_budget* budget) {
	return budget->balance - budget_floor(budget) + 1;
}

bool budget_allows_learning(const struct speculation_budget* budget, double cost) {
	const double earned = fmin(budget->advance - budget->taken, fmax(0, budget->balance / 2));
	return isinf(budget->opt_budget) ||
	       budget->learned + cost <= budget->opt_budget * budget->plain + budget->taken + earned;
}
