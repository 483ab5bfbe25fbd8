/* The planner of a round (rule `gain`): which candidates make the tree, whether another draft pass comes
 * first, and when to verify.
 *
 * What counts is tokens over time in the long run. With the rate λ at which tokens come on average (tokens in
 * the time of a plain step, at least 1), a round is the better the larger
 *
 *     expected tokens - λ · (passes' cost + v(rows)),
 *
 * and the policy that maximises this at its own λ maximises the ratio of the sums (Dinkelbach 1967). A token
 * counts 0.95 of the one before it: a round that ends early leaves its successor where drafts are good, and
 * sees more before it pays for more. (Replayed over 280 answers of four models at four cost lists, without
 * it and with it: the half that it was chosen on 1.863, 1.896, the other 1.844, 1.883.) For n
 * rows the best tree is the n worthiest paths, so it grows worthiest first; it stops where no number of
 * further rows can pay, since v(n) may rise in steps, and is cut to the best length. A draft pass is made
 * while some number of further steps, at the drafter's average chance, would bring more than what the tree
 * holds below its head now.
 *
 * Everything is bounded: rows, depth (what may still be emitted), and a budget, the most that the round may
 * cost. Nothing allocates. */
#ifndef SWIFTLET_CORE_DRAFT_PLANNER_H
#define SWIFTLET_CORE_DRAFT_PLANNER_H

#include "core/draft/acceptance.h"

enum { ROW_CANDIDATES = 16 };

/* In plain steps. */
struct cost_table {
	float verify[SLICE_ROWS + 1]; /* v(n) for n in 1..SLICE_ROWS, not decreasing */
	float pass[DRAFTER_COUNT]; /* c of a one-row pass of each drafter that makes passes; INFINITY: none now */
	/* what a round's first pass of each costs beside that, as far as the round is to bear it */
	float start[DRAFTER_COUNT];
	/* the most that each can be, the start's whole cost included: what counts against the budget */
	float verify_worst[SLICE_ROWS + 1], pass_worst[DRAFTER_COUNT];
	/* whose passes may take cheap candidates along, n rows for c·v(n): not those whose rows share no weights
	 */
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
	float slope[SLICE_ROWS + 1]; /* the least that a row costs from n on, whatever their number */
	float tokens, cost;          /* of recent rounds, fading: the rate */
	struct round_limits limits;
	float spent; /* on this round's passes */
	struct tree tree;
	float deeper; /* worth of a token over that of the one before it */
	int n_children[MAX_ROWS];
	/* By row: the worthiest of its children that may yet join the tree (-1: none), and what that is worth. */
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
/* λ: tokens in the time of a plain step, lately; at least 1. */
float planner_rate(const struct planner*);
/* Begins a round at the sequence's last token. */
void planner_start(struct planner*, int32_t root, const struct round_limits*);
/* Grows the tree from what drafters know now, and says what comes next. */
struct plan_action planner_next(struct planner*);
/* In place of planner_next SWIFT's tree (section 4.2, "dynamic verification"): all that drafters propose now,
 * the likeliest paths first, up to max_rows <= MAX_ROWS rows. priced: of those, as many as bring the most
 * tokens over cost, with what drafting has cost; at least the root and one more. */
void planner_take_all(struct planner*, int max_rows, bool priced, float draft_cost);
/* A pass was made and its drafter has taken the results; it cost this much. */
void planner_passed(struct planner*, float cost);
/* The tree was verified: probabilities learn. */
void planner_learn(struct planner*, const struct verdict*, const struct result* out);
/* The same, and drafters learn, and what rounds bring for their cost. tokens: emitted (the verdict's, or
 * fewer where the text ended); cost: of the round. out (tree rows) as struct drafter's see takes it. */
void planner_see(struct planner*, const struct verdict*, const struct result* out, int tokens, float cost);

#endif
