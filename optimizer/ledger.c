/* The ledger's few sums. */
#include "optimizer/ledger.h"

#include <math.h>

void ledger_open(struct ledger* ledger, double opt_budget) {
	*ledger = (struct ledger){.share = 0.01, .loan = 4, .opt_budget = opt_budget};
}

double ledger_floor(const struct ledger* ledger) {
	return -fmax(ledger->loan, ledger->share * ledger->plain);
}

void ledger_plain(struct ledger* ledger) { ledger->plain += 1; }

void ledger_round(struct ledger* ledger, double cost, int tokens) {
	ledger->plain += tokens;
	ledger->balance += tokens - cost;
}

void ledger_learn(struct ledger* ledger, double cost) { ledger->learned += cost; }

double ledger_round_limit(const struct ledger* ledger) { return ledger->balance - ledger_floor(ledger) + 1; }

bool ledger_allows_learning(const struct ledger* ledger, double cost) {
	return isinf(ledger->opt_budget) || ledger->learned + cost <= ledger->opt_budget * ledger->plain;
}
