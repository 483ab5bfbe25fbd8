/* The ledger's few sums. */
#include "core/decode/ledger.h"

#include <math.h>

/* Of what drafting has earned no more than this is there to be lost again, in plain steps: where a clock
 * swings in step with the rounds, some of it was never earned. */
static const double kept = 64;

/* What drafting may lose: of plain time, but in the first 500 tokens a loan that grows by a little. Of one
 * that stood still (4 steps) losses and charges for misjudged speed often left nothing by token 50, and
 * drafts that paid waited for token 400. */
static const double share = 0.01, loan = 3.5, growth = 0.003;

void ledger_open(struct ledger* ledger, double opt_budget) {
	*ledger = (struct ledger){.opt_budget = opt_budget};
	if (opt_budget < 0) {
		ledger->opt_budget = 0.01;
		ledger->advance = 32;
		ledger->credit = 16;
	}
}

double ledger_floor(const struct ledger* ledger) {
	return -fmax(loan + growth * ledger->plain, share * ledger->plain);
}

void ledger_plain(struct ledger* ledger) { ledger->plain += 1; }

void ledger_round(struct ledger* ledger, double cost, int tokens) {
	ledger->plain += tokens;
	ledger->balance = fmin(kept, ledger->balance + tokens - cost);
}

/* What the share does not cover is taken out of drafting's balance for good: what drafting loses later is
 * held to the same floor. */
void ledger_learn(struct ledger* ledger, double cost) {
	ledger->learned += cost;
	const double over = ledger->learned - ledger->opt_budget * ledger->plain - ledger->taken;
	const double take = fmin(over, fmin(ledger->advance - ledger->taken, ledger->balance));
	if (take > 0) {
		ledger->balance -= take;
		ledger->taken += take;
	}
}

static bool has_earned(const struct ledger* ledger, double cost) { return cost <= ledger->balance / 2; }

bool ledger_allows_making(const struct ledger* ledger, double cost, double whole, double left, int tokens) {
	const bool brings_in = tokens >= 5 * left; /* a fifth of a step each */
	return has_earned(ledger, cost) ||
	       (brings_in && whole <= ledger->credit && ledger->learned + cost <= 1.5 * ledger->credit) ||
	       ledger_allows_learning(ledger, cost);
}

void ledger_make(struct ledger* ledger, double cost) {
	if (has_earned(ledger, cost))
		ledger->balance -= cost;
	else
		ledger_learn(ledger, cost);
}

double ledger_round_limit(const struct ledger* ledger) { return ledger->balance - ledger_floor(ledger) + 1; }

bool ledger_allows_learning(const struct ledger* ledger, double cost) {
	const double earned = fmin(ledger->advance - ledger->taken, fmax(0, ledger->balance / 2));
	return isinf(ledger->opt_budget) ||
	       ledger->learned + cost <= ledger->opt_budget * ledger->plain + ledger->taken + earned;
}
