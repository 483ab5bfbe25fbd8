/* Decides what to draft. It learns how often drafts are accepted, caps losses, and builds the tree with the
 * most expected tokens for its cost. It reads no clock and runs no pass: callers bring costs (cost.h) and
 * results.
 *
 * A round makes draft passes, then verifies a tree of n rows. Costs are in plain steps, one-row full passes
 * at the same context: c of a draft pass, v(n) of a full pass of n rows, v(1) = 1. λ is the recent
 * rate of tokens in the time of a plain step, drawn towards 1. The planner makes
 *
 *     expected tokens - λ · (cost of the draft passes + v(n))
 *
 * as large as it can. The policy that does so at its own λ maximises the ratio of tokens to cost (Dinkelbach
 * 1967). Nothing allocates. */
#pragma once

#include "core/draft/drafter.h"

/* ---- the acceptance estimate ---------------------------------------------------------------- */

/* The probability that a candidate is the target's token.
 *
 * Candidates of one node are asked about in turn. A candidate's probability is that of being right when all
 * earlier ones are wrong, times what they leave, so probabilities at one node never sum to more than 1.
 * Learning follows the same order: if a node's target token is known, each candidate up to the right one is a
 * trial, in the tree or not. Counts are kept by source, evidence bin, rank among the node's children and
 * whether another drafter proposes the same token. They start from the drafter's prior, and fade. */

/* Ranks from TREE_RANKS on belong to candidates that another drafter proposes as well. */
enum { ACCEPTANCE_RANKS = 2 * TREE_RANKS };

struct tally {
	float right, trials;
};

struct acceptance {
	struct tally seen[DRAFTER_COUNT][EVIDENCE_BINS][ACCEPTANCE_RANKS];
	struct tally first[DRAFTER_COUNT]; /* each drafter's first choices, whatever the evidence */
	float start[DRAFTER_COUNT];        /* what is expected of them before any trial */
	/* Rejected first choices (right), and those that the prior expected (trials). Drafts by quantized weights
	 * are rejected far less often than their probabilities suggest, drafts that skip much more often. */
	struct tally rejected[DRAFTER_COUNT];
};

void acceptance_open(struct acceptance*);
/* In (0, 1). */
float acceptance_of(const struct acceptance*, int source, int bin, int rank);
/* The probability that a drafter's first choice at some node is right. */
float acceptance_first(const struct acceptance*, int source);
/* The drafter has changed (another mask): its first choices are right as often as `start`, NaN if that is
 * unknown. The value counts as a few trials. */
void acceptance_reset_first(struct acceptance*, int source, float start);
/* One trial. */
void acceptance_observe(struct acceptance*, int source, int bin, int rank, bool right);

/* ---- the speculation budget ----------------------------------------------------------------- */

/* Counts what drafting and learning have cost and saved, in plain steps, so that a session is never slower
 * than plain decoding. Each token is worth one plain step.
 *
 * Drafting: a round starts only if its worst case keeps the balance above the floor, an allowance of 3.5
 * steps and 1 % of the plain time of the tokens emitted so far. Learning: proposals and matchness passes draw
 * on their own share of plain time. Unless that share was given by name, they may also take half of what
 * drafting has earned at the beginning, up to some steps, because a good mask is worth most when it is found
 * early. Neither account stops the other. With the defaults both together stay within 3 % for runs of 512
 * tokens and more; draft weights that never pay may take up to 72 steps beyond that, or a fourth of the time
 * so far. Idle time is on neither account. */
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
/* A round of drafting and verifying: `tokens` tokens for the time of `cost` plain steps. A plain step is
 * {1, 1}. */
void budget_round(struct speculation_budget*, double cost, int tokens);
/* The most that a round may cost in its worst case, one token. */
double budget_round_limit(const struct speculation_budget*);
/* True if learning may spend `cost` now; a matchness pass, a proposal, a fit. */
bool budget_allows_learning(const struct speculation_budget*, double cost);
void budget_learn(struct speculation_budget*, double cost);
/* True if a slice of the quantized draft weights may be made now. whole, left: the estimated steps of all of
 * them and of the rest, at worst half too low. tokens: those that the request may still emit.
 *
 * Draft weights are worth most when they are made early, and nothing when they are half made. Making them may
 * spend half of what drafting has saved, which is taken from drafting's balance, and whatever learning may
 * spend. It may spend more ahead of time, up to 1.5 times the prepayment. For this as many tokens must have
 * been emitted as making takes steps. Besides, the request must be long enough to earn the rest if draft
 * weights make decoding a quarter faster, or all requests together must have been that long. So a session
 * that ends earlier pays for little more than the one or two slices that show how long making takes (plan.c),
 * and a short answer after others may pay. Weights that take over 48 plain steps use learning's share, or a
 * fourth of the time of all requests together. */
bool budget_allows_making(const struct speculation_budget*, double cost, double whole, double left,
                          int tokens);
void budget_make(struct speculation_budget*, double cost, double whole);

/* ---- the planner ---------------------------------------------------------------------------- */

/* It chooses the candidates of the tree, whether another draft pass comes first, and when to verify. The best
 * tree of n rows is the n worthiest paths, so the tree grows worthiest first. It stops where no number of
 * further rows can pay, because v(n) may rise in steps, and is cut to the best length. A draft pass comes
 * first while some number of further steps, at the drafter's average acceptance, would bring more than the
 * tree below its head. Rows, depth (by what may still be emitted) and what the round may cost are bounded. */

enum { ROW_CANDIDATES = 16 };

/* In plain steps. */
struct cost_table {
	float verify[SLICE_ROWS + 1]; /* v(n) for n in 1..SLICE_ROWS, not decreasing */
	float pass[DRAFTER_COUNT]; /* c of a one-row pass of each drafter that makes passes; INFINITY: none now */
	/* further cost of a round's first pass of each, as far as the round bears it */
	float start[DRAFTER_COUNT];
	/* an upper bound of pass with the whole cost of the start, which counts against the budget */
	float pass_worst[DRAFTER_COUNT];
	/* true: a pass of this drafter may take cheap candidates along, n rows for c·v(n), because its rows share
	 * the weights that they read */
	bool cascade[DRAFTER_COUNT];
};

struct round_limits {
	int rows;     /* root counted, at most SLICE_ROWS */
	int depth;    /* draft tokens that may still be emitted beside the bonus token, at most MAX_DRAFT */
	float budget; /* plain steps; a plain step is always allowed */
};

/* A child that drafters propose for a row. */
struct child {
	int32_t token;
	float chance;        /* given the row */
	uint8_t source, bin; /* of the drafter that proposed it first */
	uint8_t rank;        /* among the row's children */
	bool agreed;         /* another proposes it as well */
	bool spare;          /* not for the tree */
	bool joined;         /* is in the tree */
};

struct planner {
	struct drafter_set* set;       /* the caller's */
	struct acceptance* acceptance; /* the caller's, perhaps shared by sequences of one thread */
	struct cost_table costs;
	float slope[SLICE_ROWS + 1]; /* the least cost of a row from n on, for any number of rows */
	float tokens, cost;          /* of recent rounds, fading */
	struct round_limits limits;
	float spent; /* on this round's passes */
	struct tree tree;
	float deeper; /* worth of a token over that of the one before it */
	int n_children[MAX_ROWS];
	/* By row: the worthiest child that may still join the tree (-1: none), and its value. */
	int next[MAX_ROWS];
	float worth[MAX_ROWS];
	struct child child[MAX_ROWS][ROW_CANDIDATES];
};

struct plan_action {
	enum { PLAN_VERIFY, PLAN_PASS } kind;
	int source, head, carry; /* PLAN_PASS: as struct drafter's fill takes them */
};

void planner_open(struct planner*, struct drafter_set*, struct acceptance*);
void planner_set_costs(struct planner*, const struct cost_table*);
/* λ */
float planner_rate(const struct planner*);
/* Begins a round at the sequence's last token. */
void planner_start(struct planner*, int32_t root, const struct round_limits*);
/* Grows the tree from what drafters know now, and returns what comes next. */
struct plan_action planner_next(struct planner*);
/* SWIFT's tree (section 4.2, "dynamic verification") in place of planner_next: all that drafters propose now,
 * the likeliest paths first, up to max_rows <= MAX_ROWS rows. by_cost: only as many of these as bring the
 * most tokens over cost, drafting's cost included; at least the root and one more. */
void planner_take_all(struct planner*, int max_rows, bool by_cost, float draft_cost);
/* A pass was made and its drafter has taken the results; this was its cost. */
void planner_passed(struct planner*, float cost);
/* The tree was verified: acceptance estimates learn. */
void planner_learn(struct planner*, const struct verdict*, const struct result* out);
/* The same; drafters and the rate λ learn, too. tokens: emitted (the verdict's, or fewer if the text ended);
 * cost: the round's. out (tree rows) as for struct drafter's see. */
void planner_see(struct planner*, const struct verdict*, const struct result* out, int tokens, float cost);
