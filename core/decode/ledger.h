/* The ledger: what drafting and learning have cost and saved, in plain steps; two accounts.
 *
 * Promise 3 of the design, "never slower": a token is worth one plain step, whatever it took.
 *
 * Drafting: failed drafts and extra rows are debits, tokens beyond the passes' own cost are credits. No round
 * starts whose worst case would take the balance under the floor: 1 % of the plain time of the tokens emitted
 * so far, or an opening loan of 3.5 steps and 0.3 % while that is more. Learning: proposals and matchness
 * passes draw on their own share of plain time, and, unless that share was given by name, in the beginning on
 * half of what drafting has earned, up to some steps: a good mask is worth most when it is found early.
 * Neither account stops the other: what was spent on learning never stops a draft that pays, and failed
 * drafts never stop learning. With the defaults both together stay within 2 % for runs of 512 tokens and
 * more; draft weights that never pay may take up to 24 steps ahead of that. Time in which no request waits is
 * on neither account.
 *
 * It reads no clock: callers bring costs, so that it is tested under adversarial acceptance without timing.
 */
#ifndef SWIFTLET_CORE_DECODE_LEDGER_H
#define SWIFTLET_CORE_DECODE_LEDGER_H

#include <stdbool.h>

struct ledger {
	double opt_budget; /* learning's share of plain time; infinity: unlimited */
	double plain;      /* tokens emitted so far: their time had all been plain steps */
	double balance;    /* of drafting: saved - spent, at most 64 */
	double advance;    /* the most that learning takes of what drafting earned: 32 steps, or none */
	double taken;      /* of that, so far */
	double
	    credit; /* what making draft weights may take of learning's share ahead of time: 16 steps, or none */
	double learned; /* spent on learning */
};

/* opt_budget: learning's share of plain time, which is then what it may spend at most; negative: 0.01 and the
 * advance. */
void ledger_open(struct ledger*, double opt_budget);
/* The balance that drafting may not fall under. */
double ledger_floor(const struct ledger*);
/* A plain step: its token is worth what it cost. */
void ledger_plain(struct ledger*);
/* A round of drafting and verifying: `cost` plain steps' time for `tokens` tokens. */
void ledger_round(struct ledger*, double cost, int tokens);
/* A matchness pass, a proposal, a fit. */
void ledger_learn(struct ledger*, double cost);
/* Making quantized draft weights, on which half of what drafting has saved may be spent, gone from its
 * balance, and else what learning may spend, ahead of time where all of it takes no more than the credit and
 * the request is long enough for draft weights that make decoding a quarter faster to bring in what is left:
 * draft weights are worth most when it is made early, nothing when it is made by half, and a model whose
 * layers cannot be skipped gets one, too. whole, left: what all of it and the rest are thought to take, by
 * half too little at worst; tokens: that the request may still come to. */
bool ledger_allows_making(const struct ledger*, double cost, double whole, double left, int tokens);
void ledger_make(struct ledger*, double cost);
/* The most a round may cost in the worst case, in which it brings one token. */
double ledger_round_limit(const struct ledger*);
/* Whether learning may spend `cost` now. */
bool ledger_allows_learning(const struct ledger*, double cost);

#endif
