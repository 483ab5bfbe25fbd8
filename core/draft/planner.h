/* The planner of a round (rule `gain`): it chooses the candidates of the tree, whether another draft pass
 * comes first, and when to verify.
 *
 * It maximises tokens over time in the long run. λ is the average rate of tokens in the time of a plain step,
 * at least 1. A round is better the larger
 *
 *     expected tokens - λ · (passes' cost + v(rows)),
 *
 * and the policy that maximises this at its own λ maximises the ratio of the sums (Dinkelbach 1967). Each
 * token counts 0.95 of the one before it, because a round that ends early can start another one where drafts
 * are good, with more known. (Replayed over 280 answers of four models at four cost lists, without and with
 * this factor: 1.863 and 1.896 on the half that chose it, 1.844 and 1.883 on the other.) The best tree of n
 * rows is the n worthiest paths, so the tree grows worthiest first. It stops where no number of further rows
 * can pay, because v(n) may rise in steps, and is cut to the best length. A draft pass comes first while some
 * number of further steps, at the drafter's average acceptance, would bring more than the tree below its
 * head.
 *
 * Everything is bounded: rows, depth (by what may still be emitted), and a budget, the most that the round
 * may cost. Nothing allocates. */
#ifndef SWIFTLET_CORE_DRAFT_PLANNER_H
#define SWIFTLET_CORE_DRAFT_PLANNER_H

#include "core/draft/acceptance.h"

enum { ROW_CANDIDATES = 16 };

/* In plain steps. */
struct cost_table {
	float verify[SLICE_ROWS + 1]; /* v(n) for n in 1..SLICE_ROWS, not decreasing */
	float pass[DRAFTER_COUNT]; /* c of a one-row pass of each drafter that makes passes; INFINITY: none now */
	/* further cost of a round's first pass of each, as far as the round bears it */
	float start[DRAFTER_COUNT];
	/* an upper bound of each with the whole cost of the start, which counts against the budget */
	float verify_worst[SLICE_ROWS + 1], pass_worst[DRAFTER_COUNT];
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
/* λ: the recent rate of tokens in the time of a plain step; at least 1. */
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
/* The tree was verified: probabilities learn. */
void planner_learn(struct planner*, const struct verdict*, const struct result* out);
/* The same; drafters and the rate λ learn, too. tokens: emitted (the verdict's, or fewer if the text ended);
 * cost: the round's. out (tree rows) as for struct drafter's see. */
void planner_see(struct planner*, const struct verdict*, const struct result* out, int tokens, float cost);

#endif
