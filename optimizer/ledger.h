/* The ledger: what drafting and searching have cost and saved, in plain steps.
 *
 * Promise 3 of the design, "never slower": a token is worth one plain step, whatever it took. Failed
 * drafts, extra rows, matchness passes and proposals are debits, tokens beyond the pass's own cost are
 * credits. Nothing starts whose worst case would take the balance under the floor: -2 % of the plain time
 * of the tokens emitted so far, or an opening loan of 8 steps while that is more. The search may spend a
 * share (`opt_budget`) of plain time, and half of what has been saved beyond it.
 *
 * It reads no clock: callers bring costs, so that it is tested under adversarial acceptance without timing.
 */
#ifndef SWIFTLET_OPTIMIZER_LEDGER_H
#define SWIFTLET_OPTIMIZER_LEDGER_H

#include <stdbool.h>

struct ledger {
	double share;      /* 0.02 */
	double loan;       /* 8 steps */
	double opt_budget; /* the search's share of plain time; infinity: unlimited */
	double plain;      /* tokens emitted so far: their time had all been plain steps */
	double balance;    /* saved - spent */
	double searched;   /* spent on matchness passes and proposals, part of the balance */
	/* --draft always: what drafting loses was asked for, and is not held against the search, which has
	 * its share of plain time */
	bool forced;
};

void ledger_open(struct ledger*, double opt_budget);
double ledger_floor(const struct ledger*);
/* A plain step: its token is worth what it cost. */
void ledger_plain(struct ledger*);
/* A round of drafting and verifying: `cost` plain steps' time for `tokens` tokens. */
void ledger_round(struct ledger*, double cost, int tokens);
/* A matchness pass, a proposal, a fit. */
void ledger_search(struct ledger*, double cost);
/* The most a round may cost in the worst case, in which it brings one token. */
double ledger_round_limit(const struct ledger*);
/* Whether the search may spend `cost` now. */
bool ledger_allows_search(const struct ledger*, double cost);

#endif
