/* The speculation budget: two accounts of what drafting and learning have cost and saved, in plain steps.
 *
 * Promise 3 of the design, "never slower": a token is worth one plain step, whatever it took.
 *
 * Drafting: failed drafts and extra rows lower the balance, tokens beyond the passes' own cost raise it. No
 * round starts whose worst case would take the balance under the floor: 1 % of the plain time of the tokens
 * emitted so far, or an opening allowance of 3.5 steps and 0.3 % while that is more. Learning: proposals and
 * matchness passes draw on their own share of plain time, and, unless that share was given by name, in the
 * beginning on half of what drafting has earned, up to some steps: a good mask is worth most when it is found
 * early. Neither account stops the other: what was spent on learning never stops a draft that pays, and
 * failed drafts never stop learning. With the defaults both together stay within 2 % for runs of 512 tokens
 * and more; draft weights that never pay may take up to 36 steps ahead of that. Time in which no request
 * waits is on neither account.
 *
 * It reads no clock: callers bring costs, so that it is tested under adversarial acceptance without timing.
 */
#ifndef SWIFTLET_CORE_DECODE_BUDGET_H
#define SWIFTLET_CORE_DECODE_BUDGET_H

#include <stdbool.h>

struct speculation_budget {
	double opt_budget; /* learning's share of plain time; infinity: unlimited */
	double plain;      /* tokens emitted so far: their time had all been plain steps */
	double balance;    /* of drafting: saved - spent, at most 64 */
	double advance;    /* the most that learning takes of what drafting earned: 32 steps, or none */
	double taken;      /* of that, so far */
	double prepayment; /* what making draft weights may take of learning's share ahead of time: 24 steps, or
	                      none */
	double learned;    /* spent on learning */
};

/* opt_budget: learning's share of plain time, which is then what it may spend at most; negative: 0.01 and the
 * advance. */
void budget_open(struct speculation_budget*, double opt_budget);
/* The balance that drafting may not fall under. */
double budget_floor(const struct speculation_budget*);
/* A plain step: its token is worth what it cost. */
void budget_plain(struct speculation_budget*);
/* A round of drafting and verifying: `cost` plain steps' time for `tokens` tokens. */
void budget_round(struct speculation_budget*, double cost, int tokens);
/* A matchness pass, a proposal, a fit. */
void budget_learn(struct speculation_budget*, double cost);
/* Making quantized draft weights, on which half of what drafting has saved may be spent, gone from its
 * balance, and else what learning may spend, ahead of time where all of it takes no more than the prepayment,
 * as many tokens were emitted as it takes steps, and the request is long enough for draft weights that make
 * decoding a quarter faster to bring in what is left: they are worth most when they are made early and
 * nothing when they are half made, and a model whose layers cannot be skipped gets them, too. The wait is the
 * rule for renting or buying. It counts the tokens of all requests so far: a session that ends sooner does
 * not pay for them, and a short answer after others may. whole, left: what all of it and the rest are thought
 * to take, by half too little at worst; tokens: that the request may still come to. What takes over 48 plain
 * steps in all has learning's share alone. */
bool budget_allows_making(const struct speculation_budget*, double cost, double whole, double left,
                          int tokens);
void budget_make(struct speculation_budget*, double cost, double whole);
/* The most a round may cost in the worst case, in which it brings one token. */
double budget_round_limit(const struct speculation_budget*);
/* Whether learning may spend `cost` now. */
bool budget_allows_learning(const struct speculation_budget*, double cost);

#endif
