/* Acceptance, budget and planner: speculate.h explains each. */
#include "core/decode/speculate.h"

#include <math.h>
#include <string.h>

/* ---- the acceptance estimate ---------------------------------------------------------------- */

/* Trials that are remembered, and those that a prior counts for: of one bin, and of all first choices. */
static const float memory = 400, prior_weight = 16, first_memory = 200, first_weight = 8;
/* Rounds in which a drafter without trials forgets most of them, so that it is tried again. */
static const float forgets = 512;
static const float most_acceptance = 0.998f, hopeful = 0.9f;

static void fade_tally(struct tally* tally, float remembered, float right, float trials) {
	const float keep = 1 - 1 / remembered;
	tally->right = tally->right * keep + right;
	tally->trials = tally->trials * keep + trials;
}

void acceptance_open(struct acceptance* acceptance) {
	memset(acceptance, 0, sizeof *acceptance);
	for (int source = 0; source < DRAFTER_COUNT; source++)
		acceptance_reset_first(acceptance, source, NAN);
}

/* The drafter's prior, with its odds of rejection scaled by observed over expected rejections: so every bin
 * learns from all of them. */
static float scaled_prior(const struct acceptance* acceptance, int source, int bin, int rank) {
	const float expected = drafters[source]->prior(bin, rank % TREE_RANKS);
	const struct tally* rejected = &acceptance->rejected[source];
	const float times = (rejected->right + 1) / (rejected->trials + 1);
	return rank % TREE_RANKS > 0 ? expected : expected / (expected + (1 - expected) * times);
}

float acceptance_of(const struct acceptance* acceptance, int source, int bin, int rank) {
	const float prior = scaled_prior(acceptance, source, bin, rank);
	const struct tally* seen = &acceptance->seen[source][bin][rank];
	return fminf(most_acceptance, (seen->right + prior_weight * prior) / (seen->trials + prior_weight));
}

float acceptance_first(const struct acceptance* acceptance, int source) {
	const struct tally* first = &acceptance->first[source];
	return (first->right + first_weight * acceptance->start[source]) / (first->trials + first_weight);
}

void acceptance_reset_first(struct acceptance* acceptance, int source, float start) {
	acceptance->start[source] = isnan(start) ? hopeful : start;
	acceptance->first[source] = acceptance->rejected[source] = (struct tally){0, 0};
}

void acceptance_observe(struct acceptance* acceptance, int source, int bin, int rank, bool right) {
	const float came = right ? 1 : 0;
	fade_tally(&acceptance->seen[source][bin][rank], memory, came, 1);
	if (rank % TREE_RANKS > 0)
		return;
	fade_tally(&acceptance->first[source], first_memory, came, 1);
	fade_tally(&acceptance->rejected[source], first_memory, 1 - came, 1 - drafters[source]->prior(bin, 0));
}

/* ---- the speculation budget ----------------------------------------------------------------- */

/* Drafting may lose an allowance and a share of plain time, and of what it earned at most `most_kept`: if a
 * clock swings in step with the rounds, some of the gain was never real. A fixed allowance (4 steps) was
 * often spent by token 50. One that grew by .003 a token left a session without drafts for a whole answer
 * after one with poor drafts (docs/lessons.md). */
static const double loss_share = 0.01, allowance = 3.5, most_kept = 64;

/* Draft weights that take more plain steps to make bring them in too late to be paid for by one request or by
 * what drafting earned: 72, made after as many tokens, cost Qwen 1.5B in 4 bits a tenth of its speed over 18
 * prompts. But never to make them costs more: where a machine hands out memory slowly, the 0.5B takes 55 and
 * decoded 823 tokens plainly. */
enum { LONGEST_MAKING = 48 };
/* Tokens that bring in a step of making, if each saves a third of a step (a speed-up of 1.5). */
enum { BRINGS_IN = 3 };

void budget_open(struct speculation_budget* budget, double opt_budget) {
	*budget =
	    opt_budget >= 0
	        ? (struct speculation_budget){.opt_budget = opt_budget}
	        : (struct speculation_budget){.opt_budget = 0.01, .advance = 32, .prepayment = LONGEST_MAKING};
}

double budget_floor(const struct speculation_budget* budget) {
	return -(allowance + loss_share * budget->plain);
}

void budget_round(struct speculation_budget* budget, double cost, int tokens) {
	budget->plain += tokens;
	budget->balance = fmin(most_kept, budget->balance + tokens - cost);
}

double budget_round_limit(const struct speculation_budget* budget) {
	return budget->balance - budget_floor(budget) + 1;
}

bool budget_allows_learning(const struct speculation_budget* budget, double cost) {
	const double earned = fmin(budget->advance - budget->taken, fmax(0, budget->balance / 2));
	return budget->learned + cost <= budget->opt_budget * budget->plain + budget->taken + earned ||
	       isinf(budget->opt_budget);
}

/* Drafting's balance loses for good what the share does not cover, so the same floor limits later losses. */
void budget_learn(struct speculation_budget* budget, double cost) {
	budget->learned += cost;
	const double over = budget->learned - budget->opt_budget * budget->plain - budget->taken;
	const double take = fmax(0, fmin(over, fmin(budget->advance - budget->taken, budget->balance)));
	budget->balance -= take;
	budget->taken += take;
}

static bool has_earned(const struct speculation_budget* budget, double cost) {
	return cost <= budget->balance / 2;
}

bool budget_allows_making(const struct speculation_budget* budget, double cost, double whole, double left,
                          int tokens) {
	/* After BRINGS_IN tokens a step, doing without has cost as much as making. That is when to buy what one
	 * could rent (ski rental; Karlin et al. 1988), unless as many tokens are known to come. A short first
	 * answer pays nothing, since making has to take fewer steps than there were tokens. */
	const bool together = budget->prepayment > 0 && budget->plain >= BRINGS_IN * left;
	const bool brings_in = budget->plain >= whole && (tokens >= BRINGS_IN * left || together);
	if (whole > LONGEST_MAKING)
		return isinf(budget->opt_budget) || budget->learned + cost <= budget->opt_budget * budget->plain ||
		       (together && budget->learned + cost <= budget->plain / BRINGS_IN);
	return has_earned(budget, cost) || (brings_in && budget->learned + cost <= 1.5 * budget->prepayment) ||
	       budget_allows_learning(budget, cost);
}

void budget_make(struct speculation_budget* budget, double cost, double whole) {
	if (whole <= LONGEST_MAKING && has_earned(budget, cost))
		budget->balance -= cost;
	else
		budget_learn(budget, cost);
}

/* ---- the planner ---------------------------------------------------------------------------- */

/* The rate is a mean over about so many plain steps of late, with as many at a rate of 1 beside them. A token
 * is worth what the tokens after it take, and hard places lie side by side. With the mean of 256 steps an
 * easy text kept drafts out of a harder one, where they would still have been better than plain steps
 * (docs/lessons.md). */
static const float rate_memory = 32;
/* Each token counts so much of the one before it, because a round that ends early can start another one where
 * drafts are good, with more known. (Replayed over 280 answers of four models at four cost lists, without and
 * with this factor: 1.863 and 1.896 on the half that chose it, 1.844 and 1.883 on the other.) */
static const float deeper = 0.95f;

void planner_open(struct planner* p, struct drafter_set* set, struct acceptance* acceptance) {
	memset(p, 0, sizeof *p);
	p->set = set;
	p->acceptance = acceptance;
}

float planner_rate(const struct planner* p) {
	return fmaxf(1, (p->tokens + rate_memory) / (p->cost + rate_memory));
}

void planner_set_costs(struct planner* p, const struct cost_table* costs) {
	p->costs = *costs;
	for (int n = 1; n <= SLICE_ROWS; n++) {
		p->slope[n] = INFINITY;
		for (int more = n + 1; more <= SLICE_ROWS; more++)
			p->slope[n] = fminf(p->slope[n], (costs->verify[more] - costs->verify[n]) / (float)(more - n));
	}
}

void planner_start(struct planner* p, int32_t root, const struct round_limits* limits) {
	p->limits = *limits;
	p->spent = 0;
	tree_start(&p->tree, root);
}

void planner_passed(struct planner* p, float cost) { p->spent += cost; }

/* Joins a drafter's candidates to the row's. A token that an earlier drafter proposed stays with that one. */
static void add_candidates(struct planner* p, int row, int source, const struct candidate* list, int n) {
	struct child* child = p->child[row];
	for (int i = 0; i < n; i++) {
		int at = 0;
		while (at < p->n_children[row] && child[at].token != list[i].token)
			at++;
		if (at == ROW_CANDIDATES)
			continue;
		if (at < p->n_children[row]) {
			child[at].agreed |= child[at].source != source;
			continue;
		}
		const int rank = at < TREE_RANKS ? at : TREE_RANKS - 1;
		child[at] = (struct child){.token = list[i].token,
		                           .source = (uint8_t)source,
		                           .bin = list[i].bin,
		                           .rank = (uint8_t)rank,
		                           .spare = list[i].spare};
		p->n_children[row]++;
	}
}

static int acceptance_rank(const struct child* child) {
	return child->rank + (child->agreed ? TREE_RANKS : 0);
}

/* Each child's probability: a share of what the children before it leave. */
static void weigh_children(struct planner* p, int row) {
	float left = 1;
	for (int i = 0; i < p->n_children[row]; i++) {
		struct child* child = &p->child[row][i];
		child->chance =
		    left * acceptance_of(p->acceptance, child->source, child->bin, acceptance_rank(child));
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

/* The value of a token that comes with this probability at this depth. */
static float worth_of(const struct planner* p, float chance, int depth) {
	return chance * powf(p->deeper, (float)(depth - 1));
}

/* Ties go to the better ranked. */
static void find_next(struct planner* p, int row) {
	const struct child* child = p->child[row];
	const float sure = worth_of(p, 1, p->tree.depth[row] + 1);
	p->next[row] = -1;
	for (int i = 0; i < p->n_children[row] && !child[i].spare; i++) {
		const float brings = p->tree.chance[row] * child[i].chance * sure;
		if (!child[i].joined && (p->next[row] < 0 || brings > p->worth[row])) {
			p->next[row] = i;
			p->worth[row] = brings;
		}
	}
}

static void expand_row(struct planner* p, int row) {
	ask_drafters(p, row);
	p->next[row] = -1;
	if (p->tree.depth[row] < p->limits.depth)
		find_next(p, row);
}

/* True if the next child of row x joins before that of y. Ties go to the shallower row, then to the better
 * ranked. */
static bool joins_before(const struct planner* p, int x, int y) {
	if (p->worth[x] != p->worth[y])
		return p->worth[x] > p->worth[y];
	if (p->tree.depth[x] != p->tree.depth[y])
		return p->tree.depth[x] < p->tree.depth[y];
	return p->next[x] < p->next[y];
}

/* The row whose next child joins first; -1: none may. */
static int find_first_row(const struct planner* p) {
	int first = -1;
	for (int row = 0; row < p->tree.n; row++)
		if (p->next[row] >= 0 && (first < 0 || joins_before(p, row, first)))
			first = row;
	return first;
}

/* The budget pays for rows that may fail; the first `sure` ones bring a token each. */
static int limit_rows(const struct planner* p, int sure) {
	const float budget = p->limits.budget + (float)(sure - 1);
	int rows = p->limits.rows;
	while (rows > sure && p->spent + p->costs.verify[rows] > budget)
		rows--;
	return rows;
}

/* The row's next child joins the tree; what it is worth. */
static float add_next(struct planner* p, int row) {
	struct child* child = &p->child[row][p->next[row]];
	const float brings = p->worth[row], chance = p->tree.chance[row] * child->chance;
	child->joined = true;
	find_next(p, row);
	expand_row(p, tree_add(&p->tree, row, child->token, child->source, child->rank, chance));
	return brings;
}

static void start_growing(struct planner* p, float next) {
	p->deeper = next;
	tree_start(&p->tree, p->tree.token[0]);
	expand_row(p, 0);
}

/* The only child that may follow, as its drafter knows. Such a row cannot fail, and saves a row of a later
 * pass, so cost never excludes it. */
static bool is_forced(const struct planner* p, int row) {
	return drafters[p->child[row][p->next[row]].source]->allows != NULL;
}

static void grow_tree(struct planner* p) {
	const float rate = planner_rate(p);
	start_growing(p, deeper);
	float tokens = 1;
	int row;
	while ((row = find_first_row(p)) >= 0 && p->tree.n < p->limits.rows && is_forced(p, row))
		tokens += add_next(p, row);
	int best_rows = p->tree.n;
	const int limit = limit_rows(p, best_rows);
	float best = tokens - rate * p->costs.verify[best_rows];
	while ((row = find_first_row(p)) >= 0 && p->tree.n < limit &&
	       p->worth[row] > rate * p->slope[p->tree.n]) {
		tokens += add_next(p, row);
		const float gain = tokens - rate * p->costs.verify[p->tree.n];
		if (gain > best) {
			best = gain;
			best_rows = p->tree.n;
		}
	}
	tree_cut(&p->tree, best_rows);
}

void planner_take_all(struct planner* p, int max_rows, bool by_cost, float draft_cost) {
	float tokens = 1, best = 0;
	start_growing(p, 1);
	int row, best_rows = p->tree.n;
	while ((row = find_first_row(p)) >= 0 && p->tree.n < max_rows) {
		tokens += add_next(p, row);
		const int n = p->tree.n;
		const float rate = n <= SLICE_ROWS ? tokens / (draft_cost + p->costs.verify[n]) : 0;
		if (rate > best) {
			best = rate;
			best_rows = n;
		}
	}
	if (by_cost)
		tree_cut(&p->tree, best_rows);
}

/* The value of the tree below a row. */
struct below {
	int n;
	float chance[SLICE_ROWS], sum; /* (n) by row order, parents first */
};

static void look_below(const struct planner* p, int head, struct below* below) {
	const struct tree* tree = &p->tree;
	bool under[SLICE_ROWS] = {false};
	below->n = 0;
	below->sum = 0;
	under[head] = true;
	for (int row = head + 1; row < tree->n; row++) {
		under[row] = under[tree->parent[row]];
		if (under[row]) {
			below->chance[below->n++] = tree->chance[row];
			below->sum += worth_of(p, tree->chance[row], tree->depth[row]);
		}
	}
}

/* The rows that a pass should take along: those that make its steps cheapest. Returns the cost of a step, in
 * passes. */
static float choose_carry(const struct planner* p, int source, float head_chance, const struct below* below,
                          int* carry) {
	float steps = 1, cheapest = 1;
	*carry = 0;
	for (int k = 0; p->costs.cascade[source] && k < below->n && k + 2 <= SLICE_ROWS; k++) {
		steps += below->chance[k] / head_chance;
		const float cost = p->costs.verify[k + 2] / steps;
		if (cost < cheapest) {
			cheapest = cost;
			*carry = k + 1;
		}
	}
	return cheapest;
}

/* The gain of the best number of draft steps from the head over the tree below it; at most 0: no number
 * gains. */
static float pass_gain(const struct planner* p, int source, int head, int* carry) {
	struct below below;
	look_below(p, head, &below);
	const float chance = p->tree.chance[head], next = acceptance_first(p->acceptance, source);
	const float step = p->costs.pass[source] * choose_carry(p, source, chance, &below, carry);
	const float rate = planner_rate(p), *verify = p->costs.verify;
	const int rows = p->tree.n - below.n;
	const float present = below.sum - rate * (verify[p->tree.n] - verify[rows]);
	const int most =
	    (int)fminf((float)(p->limits.depth - p->tree.depth[head]), (float)(p->limits.rows - rows));
	const float start = p->costs.start[source];
	float best = 0, tokens = 0, power = chance;
	for (int e = 1; e <= most; e++) {
		power *= next;
		tokens += worth_of(p, power, p->tree.depth[head] + e);
		best = fmaxf(best,
		             tokens - rate * (start + (float)e * step + verify[rows + e] - verify[rows]) - present);
	}
	return best;
}

/* True if the budget can pay for the pass, and for a row of its result, even if both fail. */
static bool can_afford_pass(const struct planner* p, int source, int carry) {
	const int rows = p->tree.n < SLICE_ROWS ? p->tree.n + 1 : SLICE_ROWS;
	const float pass = p->costs.pass_worst[source] * p->costs.verify[carry + 1];
	return p->spent + pass + p->costs.verify[rows] <= p->limits.budget;
}

struct plan_action planner_next(struct planner* p) {
	struct plan_action action = {.kind = PLAN_VERIFY};
	float best = 0;
	grow_tree(p);
	for (int source = 0; source < DRAFTER_COUNT; source++) {
		const struct drafter* drafter = drafters[source];
		if (!p->set->state[source] || !drafter->head || isinf(p->costs.pass[source]))
			continue;
		const int head = drafter->head(p->set->state[source], &p->tree);
		int carry;
		const float gain = head < 0 ? 0 : pass_gain(p, source, head, &carry);
		if (gain > best && can_afford_pass(p, source, carry)) {
			best = gain;
			action = (struct plan_action){PLAN_PASS, source, head, carry};
		}
	}
	return action;
}

/* The target's token after a row is known: every child up to it was a trial, in the tree or not. */
static void see_row(struct planner* p, int row, int32_t token) {
	for (int i = 0; i < p->n_children[row]; i++) {
		const struct child* child = &p->child[row][i];
		const bool right = child->token == token;
		acceptance_observe(p->acceptance, child->source, child->bin, acceptance_rank(child), right);
		if (right)
			return;
	}
}

void planner_learn(struct planner* p, const struct verdict* verdict, const struct result* out) {
	for (int i = 0; i <= verdict->accepted; i++)
		see_row(p, verdict->path[i], out[verdict->path[i]].token);
}

void planner_see(struct planner* p, const struct verdict* verdict, const struct result* out, int tokens,
                 float cost) {
	planner_learn(p, verdict, out);
	drafter_set_see(p->set, &p->tree, verdict, out);
	for (int source = 0; source < DRAFTER_COUNT; source++)
		fade_tally(&p->acceptance->first[source], forgets, 0, 0);
	const float keep = p->cost > rate_memory ? rate_memory / p->cost : 1;
	p->tokens = p->tokens * keep + (float)tokens;
	p->cost = p->cost * keep + cost;
}
