/* The ledger's few sums. */
#include "optimizer/ledger.h"

#include <math.h>

void ledger_open(struct ledger* ledger, double opt_budget) {
	*ledger = (struct ledger){.share = 0.02, .loan = 8, .opt_budget = opt_budget};
}

double ledger_floor(const struct ledger* ledger) {
	return -fmax(ledger->loan, ledger->share * ledger->plain);
}

void ledger_plain(struct ledger* ledger) { ledger->plain += 1; }

void ledger_round(struct ledger* ledger, double cost, int tokens) {
	ledger->plain += tokens;
	ledger->balance += tokens - cost;
}

void ledger_search(struct ledger* ledger, double cost) {
	ledger->balance -= cost;
	ledger->searched += cost;
}

double ledger_round_limit(const struct ledger* ledger) { return ledger->balance - ledger_floor(ledger) + 1; }

bool ledger_allows_search(const struct ledger* ledger, double cost) {
	if (isinf(ledger->opt_budget))
		return true;
	/* Half of the way down to the floor is kept for drafts, or a good mask could not be tried out. */
	if (!ledger->forced && ledger->balance - cost < ledger_floor(ledger) / 2)
		return false;
	const double saved = ledger->balance + ledger->searched; /* by drafting alone */
	const double allowance = ledger->opt_budget * ledger->plain + (saved > 0 ? saved / 2 : 0);
	return ledger->searched + cost <= allowance;
}
