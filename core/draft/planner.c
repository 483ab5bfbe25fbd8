/* Children of a row and their chances; growing the tree; weighing passes; learning. */
#include "core/draft/planner.h"

#include <math.h>
#include <string.h>

static const float rate_memory = 256; /* plain steps */

void planner_open(struct planner* p, struct drafter_set* set, struct chances* chances) {
	memset(p, 0, sizeof *p);
	p->set = set;
	p->chances = chances;
	p->tokens = p->cost = rate_memory / 8;
}

float planner_rate(const struct planner* p) { return fmaxf(1, p->tokens / p->cost); }

void planner_set_prices(struct planner* p, const struct prices* prices) {
	p->prices = *prices;
	for (int n = 1; n <= SLICE_ROWS; n++) {
		p->slope[n] = INFINITY;
		for (int more = n + 1; more <= SLICE_ROWS; more++)
			p->slope[n] = fminf(p->slope[n], (prices->verify[more] - prices->verify[n]) / (float)(more - n));
	}
}

void planner_start(struct planner* p, int32_t root, const struct round_limits* limits) {
	p->limits = *limits;
	p->spent = 0;
	tree_start(&p->tree, root);
}

void planner_passed(struct planner* p, float cost) { p->spent += cost; }

/* ---- children ------------------------------------------------------------------------------- */

/* Merges a drafter's candidates into the row's. */
static void add_candidates(struct planner* p, int row, int source, const struct candidate* list, int n) {
	struct child* child = p->child[row];
	for (int i = 0; i < n; i++) {
		int at = 0;
		while (at < p->n_children[row] && child[at].token != list[i].token)
			at++;
		if (at == ROW_CANDIDATES)
			continue;
		if (at == p->n_children[row]) {
			child[at] = (struct child){.token = list[i].token};
			p->n_children[row]++;
		} else if (child[at].evidence[child[at].by - 1].source == source)
			continue; /* a row's result named a token twice */
		child[at].evidence[child[at].by++] = (struct evidence){(uint8_t)source, list[i].bin, list[i].rank};
	}
}

static const float sure = 0.5f;

static float broad(const struct planner* p, const struct evidence* e) {
	return chances_broad(p->chances, e->source, e->bin, e->rank);
}

/* What the drafters that come after a child's first one say: of the child, or else of the row. */
static enum company company_of(const struct planner* p, int row, const struct child* child) {
	float agreed = 0, opposed = 0;
	for (int k = 1; k < child->by; k++)
		agreed = fmaxf(agreed, broad(p, &child->evidence[k]));
	if (agreed > 0)
		return agreed > sure ? AGREED_SURELY : AGREED;
	for (int i = 0; i < p->n_children[row]; i++) {
		const struct child* other = &p->child[row][i];
		for (int k = 0; k < other->by; k++)
			if (other->evidence[k].source != child->evidence[0].source)
				opposed = fmaxf(opposed, broad(p, &other->evidence[k]));
	}
	return opposed > sure ? OPPOSED_SURELY : opposed > 0 ? OPPOSED : ALONE;
}

/* Each child's chance: its first evidence's in this company, of what the children before it leave. */
static void weigh_children(struct planner* p, int row) {
	float left = 1;
	for (int i = 0; i < p->n_children[row]; i++) {
		struct child* child = &p->child[row][i];
		const struct evidence e = child->evidence[0];
		child->company = company_of(p, row, child);
		child->chance = left * chances_of(p->chances, e.source, e.bin, e.rank, child->company);
		left -= child->chance;
	}
}

static bool is_allowed(const struct planner* p, int row, int32_t token) {
	for (int source = 0; source < DRAFTER_COUNT; source++)
		if (p->set->state[source] && drafters[source]->allows &&
		    !drafters[source]->allows(p->set->state[source], row, token))
			return false;
	return true;
}

static void ask_drafter(struct planner* p, int row, int source) {
	struct candidate list[TREE_RANKS];
	const int n = drafters[source]->extend(p->set->state[source], &p->tree, row, list, TREE_RANKS);
	int kept = 0;
	for (int i = 0; i < n; i++)
		if (is_allowed(p, row, list[i].token))
			list[kept++] = list[i];
	add_candidates(p, row, source, list, kept);
}

static void ask_drafters(struct planner* p, int row) {
	p->n_children[row] = 0;
	for (int knows = 1; knows >= 0; knows--)
		for (int source = 0; source < DRAFTER_COUNT; source++)
			if (p->set->state[source] && (drafters[source]->allows != NULL) == knows)
				ask_drafter(p, row, source);
	weigh_children(p, row);
}

static void expand(struct planner* p, int row) {
	ask_drafters(p, row);
	if (p->tree.depth[row] >= p->limits.depth)
		return;
	for (int i = 0; i < p->n_children[row]; i++)
		queue_push(&p->queue, (struct queued){.chance = p->tree.chance[row] * p->child[row][i].chance,
		                                      .depth = (int16_t)(p->tree.depth[row] + 1),
		                                      .rank = (int16_t)i,
		                                      .id = row});
}

/* ---- growing -------------------------------------------------------------------------------- */

static int affordable_rows(const struct planner* p) {
	int rows = p->limits.rows;
	while (rows > 1 && p->spent + p->prices.verify_worst[rows] > p->limits.budget)
		rows--;
	return rows;
}

static void add_first(struct planner* p) {
	const struct queued first = queue_pop(&p->queue);
	const struct child* child = &p->child[first.id][first.rank];
	int row = 0;
	for (int k = 0; k < child->by; k++) {
		const struct evidence e = child->evidence[k];
		row = tree_add(&p->tree, first.id, child->token, e.source, e.rank, first.chance);
	}
	expand(p, row);
}

static void grow(struct planner* p) {
	const float rate = planner_rate(p);
	const int limit = affordable_rows(p);
	int best_rows = 1;
	tree_start(&p->tree, p->tree.token[0]);
	p->queue.n = 0;
	expand(p, 0);
	float best = 1 - rate * p->prices.verify[1];
	while (p->queue.n > 0 && p->tree.n < limit && p->queue.entry[0].chance > rate * p->slope[p->tree.n]) {
		add_first(p);
		const float gain = p->tree.expected - rate * p->prices.verify[p->tree.n];
		if (gain > best) {
			best = gain;
			best_rows = p->tree.n;
		}
	}
	tree_cut(&p->tree, best_rows);
}

/* ---- passes --------------------------------------------------------------------------------- */

/* What the tree holds below a row. */
struct below {
	int n;
	float chance[SLICE_ROWS], sum; /* (n) by row order, parents first */
};

static void look_below(const struct tree* tree, int head, struct below* below) {
	bool under[SLICE_ROWS] = {false};
	below->n = 0;
	below->sum = 0;
	under[head] = true;
	for (int row = head + 1; row < tree->n; row++) {
		under[row] = under[tree->parent[row]];
		if (under[row]) {
			below->chance[below->n++] = tree->chance[row];
			below->sum += tree->chance[row];
		}
	}
}

/* Rows that a pass should take along: those that make its steps cheapest. The cost of a step, in passes. */
static float best_carry(const struct planner* p, float head_chance, const struct below* below, int* carry) {
	float steps = 1, cheapest = 1;
	*carry = 0;
	for (int k = 0; p->prices.cascade && k < below->n && k + 2 <= SLICE_ROWS; k++) {
		steps += below->chance[k] / head_chance;
		const float cost = p->prices.verify[k + 2] / steps;
		if (cost < cheapest) {
			cheapest = cost;
			*carry = k + 1;
		}
	}
	return cheapest;
}

/* By how much some number of draft steps from the head would beat what the tree holds below it; at most 0: by
 * none. */
static float pass_gain(const struct planner* p, int source, int head, int* carry) {
	struct below below;
	look_below(&p->tree, head, &below);
	const float chance = p->tree.chance[head], next = chances_first(p->chances, source);
	const float step = p->prices.pass[source] * best_carry(p, chance, &below, carry);
	const float rate = planner_rate(p), *verify = p->prices.verify;
	const int rows = p->tree.n - below.n;
	const float present = below.sum - rate * (verify[p->tree.n] - verify[rows]);
	const int most =
	    (int)fminf((float)(p->limits.depth - p->tree.depth[head]), (float)(p->limits.rows - rows));
	float best = 0, tokens = 0, power = chance;
	for (int e = 1; e <= most; e++) {
		power *= next;
		tokens += power;
		best = fmaxf(best, tokens - rate * ((float)e * step + verify[rows + e] - verify[rows]) - present);
	}
	return best;
}

/* Whether the pass, and a row for what it brings, can be paid even if all of it is for nothing. */
static bool affordable_pass(const struct planner* p, int source, int carry) {
	const int rows = p->tree.n < SLICE_ROWS ? p->tree.n + 1 : SLICE_ROWS;
	const float pass = p->prices.pass_worst[source] * p->prices.verify_worst[carry + 1];
	return p->spent + pass + p->prices.verify_worst[rows] <= p->limits.budget;
}

struct plan_action planner_next(struct planner* p) {
	struct plan_action action = {.kind = PLAN_VERIFY};
	float best = 0;
	grow(p);
	for (int source = 0; source < DRAFTER_COUNT; source++) {
		const struct drafter* drafter = drafters[source];
		if (!p->set->state[source] || !drafter->head || isinf(p->prices.pass[source]))
			continue;
		const int head = drafter->head(p->set->state[source], &p->tree);
		int carry;
		const float gain = head < 0 ? 0 : pass_gain(p, source, head, &carry);
		if (gain > best && affordable_pass(p, source, carry)) {
			best = gain;
			action = (struct plan_action){PLAN_PASS, source, head, carry};
		}
	}
	return action;
}

/* ---- learning ------------------------------------------------------------------------------- */

/* The target's token after a row: every child up to it was a trial, in the tree or not. */
static void see_row(struct planner* p, int row, int32_t token) {
	for (int i = 0; i < p->n_children[row]; i++) {
		const struct child* child = &p->child[row][i];
		const bool right = child->token == token;
		for (int k = 0; k < child->by; k++) {
			const struct evidence e = child->evidence[k];
			chances_see(p->chances, e.source, e.bin, e.rank, child->company, right);
		}
		if (right)
			return;
	}
}

void planner_see(struct planner* p, const struct verdict* verdict, const struct result* out, int tokens,
                 float cost) {
	for (int i = 0; i <= verdict->accepted; i++)
		see_row(p, verdict->path[i], out[verdict->path[i]].token);
	chances_calibrate(p->chances, &p->tree, verdict);
	drafter_set_see(p->set, &p->tree, verdict, out);
	const float keep = p->cost > rate_memory ? rate_memory / p->cost : 1;
	p->tokens = p->tokens * keep + (float)tokens;
	p->cost = p->cost * keep + cost;
}
