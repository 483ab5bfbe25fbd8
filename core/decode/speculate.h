/* What is worth drafting: costs as measured, acceptance as learned, one cap on losses, and the tree with the
 * most expected tokens for its cost. It reads no clock and runs no pass: callers bring seconds and results.
 *
 * A round makes draft passes, then verifies a tree of n rows. Costs are in plain steps, one-row full passes
 * at the same context: c of a draft pass, v(n) of a full pass of n rows, v(1) = 1. λ is the recent rate of
 * tokens in the time of a plain step, at least 1. The planner makes
 *
 *     expected tokens - λ · (cost of the draft passes + v(n))
 *
 * as large as it can. The policy that does so at its own λ maximises the ratio of tokens to cost (Dinkelbach
 * 1967). Nothing allocates. */
#ifndef SWIFTLET_CORE_DECODE_SPECULATE_H
#define SWIFTLET_CORE_DECODE_SPECULATE_H

#include "core/decode/pass_bytes.h"
#include "core/draft/drafter.h"

/* ---- the cost model ------------------------------------------------------------------------- */

/* Medians of recent measurements: seconds of a plain step, v(n) at a few row counts, and the ratio of draft
 * steps' costs to their shares of bytes. The bytes alone count before anything was measured.
 *
 * A row count that looked dear is not used, so it is not measured again. So a measurement that was not
 * repeated for 256 full passes counts only if it is less than the estimate without it. A late repetition
 * replaces it, and makes the next trial four times as far away.
 *
 * Attention takes the longer, the longer the text. Measurements keep the length at which they were made, and
 * are moved to the present one: attention(n) = ratio · length · (1 + slope · (n - 1)), in plain steps without
 * attention. Ratio and slope are measured by backends; before that the cache's bytes count as weights do. */

enum { COST_KNOTS = 7 };

struct recent {
	double mean, at; /* fading; the length of the text at which it holds */
	int rows;        /* it is v of so many rows; 0: it does not depend on the length */
	int n, trust;    /* samples so far; full passes for which the last one counts */
	int64_t last;    /* full passes at the last one */
};

struct cost_model {
	struct pass_bytes bytes;
	struct recent rows[COST_KNOTS]; /* v at each knot's number of rows */
	/* cost over share of bytes: draft steps with stored and with quantized weights, matchness passes */
	struct recent draft, quantized, score;
	struct recent attention, attention_rows; /* attention's ratio and slope */
	double length; /* of the text: bytes of the cache that a row reads, over the weights' bytes */
	double seconds, seconds_at; /* of a plain step, a fading mean; the length at which it was measured last */
	int speeds;                 /* measurements of that */
	int64_t passes;             /* full passes so far */
	/* the last plain step: after so many passes, at which length, and its seconds, of which attention's over
	 * the length */
	int64_t last_plain;
	double plain_at, plain, plain_attention;
	double off;      /* recent deviation of plain steps after other passes from their estimate */
	int plain_steps; /* so far */
};

/* coarse_head: bytes of the draft weights that passes read in the head's place; 0: they read the head. */
void cost_open(struct cost_model*, const struct weight_table*, size_t coarse_head);
/* Passes may run with these draft weights from now on. */
void cost_use_draft_weights(struct cost_model*, const struct draft_weights*);
/* Drops all measurements, so that costs follow from bytes. */
struct cost_model cost_by_bytes(const struct cost_model*);
/* The text at hand has so many bytes of keys and values that a row reads (kernels/attention_cost.h): costs
 * are those at its length from now on. */
void cost_at(struct cost_model*, double cache_bytes);
/* A measurement as it would be without a text, and a stored one of that kind in its place. */
double recent_without_text(const struct cost_model*, const struct recent*);
void recent_restore(struct recent*, double value);

/* Each takes the measured seconds of one pass. attention: its share of them; 0: not measured. */
void cost_see_full(struct cost_model*, int rows, double seconds, double attention);
void cost_see_draft(struct cost_model*, struct variant, double seconds);
void cost_see_score(struct cost_model*, struct variant, int rows, double seconds);

/* Seconds of a one-row full pass; 0: unknown yet. */
double cost_plain_seconds(const struct cost_model*);
/* v of any number of rows. It never falls. Beyond the measured rows it takes half their mean slope, which is
 * somewhat too low, so that more rows are tried. */
double cost_verify(const struct cost_model*, double rows);
/* The number of rows with the head that costs as much as these rows, of which `with_head` go through the
 * head. Rows of prompts without results are cheaper, and must not make drafts' rows look cheap. */
double cost_rows_with_heads(const struct cost_model*, int rows, int with_head);
/* True if about so many rows were measured; the largest number that was. */
bool cost_rows_seen(const struct cost_model*, int rows);
int cost_rows_known(const struct cost_model*);
/* c of a variant; and its upper bound while no draft step was measured: a full pass. */
double cost_draft(const struct cost_model*, struct variant);
double cost_draft_worst(const struct cost_model*, struct variant);
/* The head's share of c, if all of it is read. */
double cost_head_share(const struct cost_model*, struct variant);
/* The bytes that a variant reads, as a share of a full pass's; the cache's count at their measured cost. */
double cost_share(const struct cost_model*, struct variant);
/* Cost of a variant's pass of n rows. */
double cost_matchness(const struct cost_model*, struct variant, int rows);
/* Attention's share of a plain step. */
double cost_attention(const struct cost_model*);
/* The part of a plain step that is left if a pass goes on from this sub-layer, an attention. */
double cost_rest(const struct cost_model*, int first);
/* Cost of one attention sub-layer, one MLP sub-layer, and the rest, in plain steps; quantized: all of them
 * run with the quantized draft weights, at these levels where they are by input channel (NULL: whole). */
void cost_sub_layers(const struct cost_model*, bool quantized, const struct levels*, double* attention,
                     double* mlp, double* fixed);
/* Cost of a block's maps by kind, all channels read, with draft weights by input channel, in plain steps. */
void cost_channels(const struct cost_model*, double kind[COLUMN_KINDS]);

/* Tokens over cost of the best chain of d = 1 … most steps, each accepted after the last with probability a:
 * M / (d·c + v(d + 1)), M = 1 + a + … + a^d tokens, with c the cost of a step and verify[n] = v(n). Under 1
 * if no chain pays. It is SWIFT's Eq. 6 with the cost of verification in it. */
double chain_rate(const double* verify, int most, double a, double c);
/* The same under a cost model. */
double chain_rate_now(const struct cost_model*, int most, double a, double c);
/* The policy's min_reach at this rate of tokens: the rate times the least cost per token of going on from d
 * steps at cost c, if all d are accepted and the share `next` of further ones is right. */
void set_min_reach(const struct cost_model*, double rate, double c, double next, struct draft_policy*);

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

/* What drafting and learning have cost and saved, in plain steps. Promise 3 of the design, "never slower",
 * counts each token as worth one plain step.
 *
 * Drafting: a round starts only if its worst case keeps the balance above the floor, an allowance of 3.5
 * steps and 1 % of the plain time of the tokens emitted so far. Learning: proposals and matchness passes draw
 * on their own share of plain time. Unless that share was given by name, they may also take half of what
 * drafting has earned at the beginning, up to some steps, because a good mask is worth most when it is found
 * early. Neither account stops the other. With the defaults both together stay within 3 % for runs of 512
 * tokens and more; draft weights that never pay may take up to 72 steps beyond that. Idle time is on neither
 * account. */
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
	/* drafters whose passes may take cheap candidates along, n rows for c·v(n); not those whose rows share no
	 * weights */
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
	float tokens, cost;          /* of recent rounds, fading: the rate */
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
 * the likeliest paths first, up to max_rows <= MAX_ROWS rows. priced: only as many of these as bring the most
 * tokens over cost, drafting's cost included; at least the root and one more. */
void planner_take_all(struct planner*, int max_rows, bool priced, float draft_cost);
/* A pass was made and its drafter has taken the results; this was its cost. */
void planner_passed(struct planner*, float cost);
/* The tree was verified: acceptance estimates learn. */
void planner_learn(struct planner*, const struct verdict*, const struct result* out);
/* The same; drafters and the rate λ learn, too. tokens: emitted (the verdict's, or fewer if the text ended);
 * cost: the round's. out (tree rows) as for struct drafter's see. */
void planner_see(struct planner*, const struct verdict*, const struct result* out, int tokens, float cost);

#endif
