/* The speculation budget: two accounts of what drafting and learning have cost and saved, in plain steps.
 *
 * Promise 3 of the design, "never slower", counts each token as worth one plain step.
 *
 * Drafting: failed drafts and extra rows lower the balance, and tokens beyond the passes' cost raise it. A
 * round starts only if its worst case keeps the balance above the floor. The floor is 1 % of the plain time
 * of the tokens emitted so far and an allowance of 3.5 steps. Learning: proposals and matchness passes draw
 * on their own share of plain time. Unless that share was given by name, they may also take half of what
 * drafting has earned at the beginning, up to some steps, because a good mask is worth most when it is found
 * early. Neither account stops the other. With the defaults both together stay within 3 % for runs of 512
 * tokens and more; draft weights that never pay may take up to 72 steps beyond that. Idle time is on neither
 * account.
 *
 * It reads no clock. Callers bring costs, so tests use adversarial acceptance without timing. */
#ifndef SWIFTLET_CORE_DECODE_BUDGET_H
#define SWIFTLET_CORE_DECODE_BUDGET_H

#include <stdbool.h>

struct speculation_budget {
	double opt_budget; /* learning's share of plain time; infinity: unlimited */
	double plain;      /* tokens emitted so far: their time had all been plain steps */
	double balance;    /* of drafting: saved less spent, at most 64 */
	double advance;    /* the most that learning may take of what drafting earned: 32 steps, or none */
	double taken;      /* taken of that so far */
	double prepayment; /* the most that making draft weights may take of learning's share ahead of time: 48
	                      steps, or none */
	double learned;    /* spent on learning */
};

/* opt_budget: learning's share of plain time, which is then a hard limit. Negative: 0.01 and the advance. */
void budget_open(struct speculation_budget*, double opt_budget);
/* The floor of drafting's balance. */
double budget_floor(const struct speculation_budget*);
/* A plain step; its token is worth its cost. */
void budget_plain(struct speculation_budget*);
/* A round of drafting and verifying: `tokens` tokens for the time of `cost` plain steps. */
void budget_round(struct speculation_budget*, double cost, int tokens);
/* A matchness pass, a proposal, a fit. */
void budget_learn(struct speculation_budget*, double cost);
/* Making quantized draft weights. It may spend half of what drafting has saved, which leaves drafting's
 * balance, and what learning may spend. It may spend ahead of time, half as much again as the
 * prepayment at most, if as many tokens were emitted as it takes steps, and if the request is long enough:
 * draft weights that make decoding a quarter faster would earn what is left. Draft weights are worth most
 * when they are made early, and nothing when they are half made. Waiting for as many tokens as steps is the
 * rule for renting or buying. It counts the tokens of all requests: a session that ends sooner pays nothing,
 * and a short answer after others may pay. whole, left: the estimated steps of all and of the rest, at worst
 * half too low. tokens: the tokens that the request may still emit. Weights that take over 48 plain steps use
 * learning's share alone. */
bool budget_allows_making(const struct speculation_budget*, double cost, double whole, double left,
                          int tokens);
void budget_make(struct speculation_budget*, double cost, double whole);
/* The most that a round may cost in its worst case, one token. */
double budget_round_limit(const struct speculation_budget*);
/* True if learning may spend `cost` now. */
bool budget_allows_learning(const struct speculation_budget*, double cost);

#endif
