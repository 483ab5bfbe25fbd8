/* Costs, acceptance, budget and planner: speculate.h explains each. */
#include "core/decode/speculate.h"

#include <math.h>
#include <string.h>

/* ---- the cost model ------------------------------------------------------------------------- */

/* 256 rows are a prompt's chunk. */
static const int knot_rows[COST_KNOTS] = {2, 4, 8, 16, 32, 64, 256};
/* What one row more adds before any measurement, and at least beyond all measured rows. */
static const double first_slope = 0.02;
/* A machine's speed swings, because others use its memory, and v(n) is a ratio. So the first few passes after
 * a plain step measure v by that step. Others show the speed, if their row count is known. A batch has no
 * plain steps: after some passes without one v is measured by the known speed again. */
enum { FRESH = 3, LAPSED = 128, KNOWN = 12, FEW = 3 };
static const double FOLLOWS = 0.15;
/* A late measurement confirms an old one if it reaches this share of it, and the next trial is four times as
 * far away. */
enum { TRUST = 256, LONGEST_TRUST = 1 << 16 };
static const double SAME_AGAIN = 0.8;
/* A text whose attention is less than about a tenth of a pass does not show what attention costs: there most
 * of its time is that of threads that wait for each other. */
static const double least_attention = 0.1;

/* Attention's part of a pass, in plain steps without attention. */
static double attention_at(const struct cost_model* cost, double length, double rows) {
	return cost->attention.mean * length * (1 + cost->attention_rows.mean * (rows - 1));
}

double cost_attention(const struct cost_model* cost) {
	const double one = attention_at(cost, cost->length, 1);
	return one / (1 + one);
}

/* v(rows) at another length of the text. */
static double move_v(const struct cost_model* cost, int rows, double v, double from, double to) {
	const double more = attention_at(cost, to, rows) - attention_at(cost, from, rows);
	return from == to ? v : (v * (1 + attention_at(cost, from, 1)) + more) / (1 + attention_at(cost, to, 1));
}

/* The mean at the present length. */
static double mean_now(const struct cost_model* cost, const struct recent* r) {
	return r->rows > 0 ? move_v(cost, r->rows, r->mean, r->at, cost->length) : r->mean;
}

static bool is_stale(const struct cost_model* cost, const struct recent* r) {
	return cost->passes - r->last > r->trust;
}

/* One sample counts for at most twice the mean, because a machine that paused is not a slow kernel. Of the
 * first few the least counts: a first pass is often slow. */
static void add_sample(struct cost_model* cost, struct recent* r, double x) {
	const double mean = mean_now(cost, r);
	if (is_stale(cost, r) && r->n > 0) {
		r->trust = x < SAME_AGAIN * mean ? TRUST : least(4 * r->trust, LONGEST_TRUST);
		r->n = r->rows > 0 ? 0 : 1;
	}
	const double weight = fmax(1.0 / ++r->n, FOLLOWS);
	r->mean = r->n == 1 ? x : r->n <= FEW ? fmin(mean, x) : mean + weight * (fmin(x, 2 * mean) - mean);
	r->at = cost->length;
	r->last = cost->passes;
}

/* An old measurement counts if it is less than what is estimated without it. */
static double trusted(const struct cost_model* cost, const struct recent* r, double estimate) {
	const double mean = mean_now(cost, r);
	return is_stale(cost, r) ? fmin(mean, estimate) : mean;
}

void recent_restore(struct recent* r, double mean) {
	*r = (struct recent){.rows = r->rows, .n = 1, .mean = mean, .trust = TRUST};
}

double recent_without_text(const struct cost_model* cost, const struct recent* r) {
	return r->rows > 0 ? move_v(cost, r->rows, r->mean, r->at, 0) : r->mean;
}

/* The ratios to bytes begin with one measurement, which is the estimate. */
static void forget_all(struct cost_model* cost) {
	*cost = (struct cost_model){.bytes = cost->bytes, .off = 0.5};
	for (int i = 0; i < COST_KNOTS; i++)
		cost->rows[i] = (struct recent){.rows = knot_rows[i], .trust = TRUST};
	recent_restore(&cost->draft, 1);
	recent_restore(&cost->quantized, 1);
	recent_restore(&cost->score, 1);
	cost->attention.mean = 1;
	cost->attention_rows.mean = first_slope;
}

void cost_open(struct cost_model* cost, const struct weight_table* w, size_t coarse_head) {
	cost->bytes = pass_bytes_of(w, coarse_head);
	forget_all(cost);
}

void cost_use_draft_weights(struct cost_model* cost, const struct draft_weights* quantized) {
	pass_bytes_add(&cost->bytes, quantized);
}

struct cost_model cost_by_bytes(const struct cost_model* cost) {
	struct cost_model bytes = *cost;
	forget_all(&bytes);
	return bytes;
}

void cost_at(struct cost_model* cost, double cache_bytes) {
	const double all = pass_bytes_all(&cost->bytes), length = all > 0 ? cache_bytes / all : 0;
	cost->length = length;
}

static double move_seconds(const struct cost_model* cost, double to) {
	const double was = 1 + attention_at(cost, cost->seconds_at, 1);
	return cost->seconds_at == to ? cost->seconds : cost->seconds * (1 + attention_at(cost, to, 1)) / was;
}

double cost_plain_seconds(const struct cost_model* cost) { return move_seconds(cost, cost->length); }

double cost_verify(const struct cost_model* cost, double rows) {
	double from = 1, below = 1, slope = first_slope;
	for (int i = 0; i < COST_KNOTS; i++) {
		if (cost->rows[i].n == 0)
			continue;
		const double estimate = below + slope * (knot_rows[i] - from);
		const double here = fmax(below, trusted(cost, &cost->rows[i], estimate));
		slope = (here - below) / (knot_rows[i] - from);
		if (rows <= knot_rows[i])
			break;
		below = here;
		from = knot_rows[i];
		slope = fmax(first_slope, 0.5 * (below - 1) / (from - 1));
	}
	return below + slope * fmax(0, rows - from);
}

static int nearest_knot(int rows) {
	int knot = 0;
	while (knot < COST_KNOTS - 1 && 2 * rows >= knot_rows[knot] + knot_rows[knot + 1])
		knot++;
	return knot;
}

/* A plain step shows what attention takes by itself, and passes right after it what their further rows add.
 */
static void see_attention(struct cost_model* cost, int rows, double seconds, double share) {
	if (share <= 0 || share >= 1 || cost->length < least_attention || rows > SLICE_ROWS)
		return;
	if (rows > 1)
		add_sample(cost, &cost->attention_rows,
		           fmax(0, (share * seconds / (cost->plain_attention * cost->length) - 1) / (rows - 1)));
	else
		add_sample(cost, &cost->attention, share / (1 - share) / cost->length);
}

static bool is_well_known(const struct cost_model* cost, int knot) {
	return cost->rows[knot].n >= KNOWN && !is_stale(cost, &cost->rows[knot]);
}

/* True if the knots on both sides were measured often enough to show the machine's speed. */
static bool is_known(const struct cost_model* cost, int rows) {
	int above = 0;
	while (above < COST_KNOTS - 1 && knot_rows[above] < rows)
		above++;
	const bool between = knot_rows[above] != rows && above > 0;
	return rows == 1 || (is_well_known(cost, above) && (!between || is_well_known(cost, above - 1)));
}

/* A pass of known cost shows the machine's speed. */
static void see_speed(struct cost_model* cost, double seconds) {
	const double mean = cost_plain_seconds(cost);
	const double weight = fmax(1.0 / ++cost->speeds, FOLLOWS);
	cost->seconds = cost->speeds > 1 ? mean + weight * (fmin(seconds, 2 * mean) - mean) : seconds;
	cost->seconds_at = cost->length;
}

/* Rows between knots count for the nearest one, along a line from one row. */
void cost_see_full(struct cost_model* cost, int rows, double seconds, double attention) {
	const int64_t since = cost->plain_steps > 0 ? cost->passes - cost->last_plain : INT64_MAX;
	if (rows == 1 || (since <= FRESH && cost->plain_attention > 0))
		see_attention(cost, rows, seconds, attention); /* first, because it moves what was measured before */
	const double v = cost_verify(cost, rows);
	cost->passes++;
	if (rows == 1) {
		if (since > 0 && cost->plain_steps > 0)
			cost->off += 0.25 * (fmin(1, fabs(seconds / cost_plain_seconds(cost) - 1)) - cost->off);
		cost->last_plain = cost->passes;
		cost->plain = seconds;
		cost->plain_at = cost->length;
		cost->plain_attention = cost->length > 0 ? attention * seconds / cost->length : 0;
		cost->plain_steps++;
	}
	const bool fresh = since <= FRESH, known = since <= LAPSED && is_known(cost, rows);
	if (rows == 1 || cost->speeds == 0 || (!fresh && known))
		see_speed(cost, seconds / v);
	struct recent* r = &cost->rows[nearest_knot(rows)];
	if (rows > 1 && (fresh || !known))
		add_sample(cost, r,
		           1 + (seconds / (fresh ? cost->plain : cost_plain_seconds(cost)) - 1) * (r->rows - 1) /
		                   (rows - 1));
	else if (rows > 1)
		r->last = cost->passes;
}

double cost_rows_with_heads(const struct cost_model* cost, int rows, int with_head) {
	const double all = pass_bytes_all(&cost->bytes), head = all > 0 ? cost->bytes.stored.head / all : 0;
	return rows - (rows - with_head) * head * (1 - cost_attention(cost));
}

double cost_rest(const struct cost_model* cost, int first) {
	const struct pass_bytes* bytes = &cost->bytes;
	const double cache = cost_attention(cost), block = bytes->stored.attention + bytes->stored.mlp;
	return 1 - first / 2 * (block * (1 - cache) / pass_bytes_all(bytes) + cache / bytes->blocks);
}

bool cost_rows_seen(const struct cost_model* cost, int rows) {
	return rows == 1 ? cost->plain_steps > 0 : cost->rows[nearest_knot(rows)].n > 0;
}

int cost_rows_known(const struct cost_model* cost) {
	int known = 1;
	for (int i = 0; i < COST_KNOTS; i++)
		known = cost->rows[i].n > 0 ? knot_rows[i] : known;
	return known;
}

static struct byte_share share_of(const struct cost_model* cost, struct variant v) {
	return pass_bytes_share(&cost->bytes, v, cost_attention(cost));
}

static double ratio_of(const struct cost_model* cost, bool quantized) {
	return trusted(cost, quantized ? &cost->quantized : &cost->draft, 1);
}

double cost_draft(const struct cost_model* cost, struct variant v) {
	const struct byte_share share = share_of(cost, v);
	return share.stored * ratio_of(cost, false) + share.quantized * ratio_of(cost, true);
}

double cost_draft_worst(const struct cost_model* cost, struct variant v) {
	const struct recent* r = share_of(cost, v).quantized > 0 ? &cost->quantized : &cost->draft;
	return r->n > 1 ? cost_draft(cost, v) : 1;
}

/* A step with quantized sub-layers measures their cost; the other sub-layers count at their known cost. */
void cost_see_draft(struct cost_model* cost, struct variant v, double seconds) {
	const struct byte_share share = share_of(cost, v);
	const bool quantized = share.quantized > 0;
	const double plain = cost_plain_seconds(cost);
	const double stored = quantized ? share.stored * ratio_of(cost, false) : 0;
	if (plain > 0)
		add_sample(cost, quantized ? &cost->quantized : &cost->draft,
		           fmax(0, seconds / plain - stored) / (quantized ? share.quantized : share.stored));
}

double cost_share(const struct cost_model* cost, struct variant v) {
	const struct byte_share share = share_of(cost, v);
	return share.stored + share.quantized;
}

double cost_head_share(const struct cost_model* cost, struct variant v) {
	const double head = v.quantized_head ? cost->bytes.quantized.head : cost->bytes.stored.head;
	return head * (1 - cost_attention(cost)) / pass_bytes_all(&cost->bytes) / cost_share(cost, v);
}

double cost_matchness(const struct cost_model* cost, struct variant v, int rows) {
	return cost_share(cost, v) * cost_verify(cost, rows) * cost->score.mean;
}

void cost_see_score(struct cost_model* cost, struct variant v, int rows, double seconds) {
	const double thought = cost_plain_seconds(cost) * cost_share(cost, v) * cost_verify(cost, rows);
	if (thought > 0)
		add_sample(cost, &cost->score, seconds / thought);
}

void cost_sub_layers(const struct cost_model* cost, bool quantized, const struct levels* levels,
                     double* attention, double* mlp, double* fixed) {
	const struct layer_bytes bytes = pass_bytes_layers(&cost->bytes, quantized, levels);
	const double cache = cost_attention(cost);
	const double unit = ratio_of(cost, quantized) * (1 - cache) / pass_bytes_all(&cost->bytes);
	*attention = bytes.attention * unit + ratio_of(cost, false) * cache / cost->bytes.blocks;
	*mlp = bytes.mlp * unit;
	*fixed = bytes.head * unit;
}

void cost_channels(const struct cost_model* cost, double kind[COLUMN_KINDS]) {
	const double unit = ratio_of(cost, true) * (1 - cost_attention(cost)) / pass_bytes_all(&cost->bytes);
	for (int k = 0; k < COLUMN_KINDS; k++)
		kind[k] = cost->bytes.kind[k] * unit;
}

double chain_rate(const double* verify, int most, double a, double c) {
	double best = 0, tokens = 1, reach = 1;
	for (int d = 1; d <= most && d < SLICE_ROWS; d++) {
		tokens += reach *= a;
		best = fmax(best, tokens / (d * c + verify[d + 1]));
	}
	return best;
}

double chain_rate_now(const struct cost_model* cost, int most, double a, double c) {
	double verify[SLICE_ROWS + 1];
	for (int n = 1; n <= SLICE_ROWS; n++)
		verify[n] = cost_verify(cost, n);
	return chain_rate(verify, most, a, c);
}

/* e more steps bring next + next² + … + next^e tokens. It looks more than one step ahead, because v(n) may
 * rise in steps. */
static double least_token(const struct cost_model* cost, double c, double next, int d) {
	double tokens = 0, reach = 1, least_cost = INFINITY;
	for (int e = 1; e == 1 || d + e <= MAX_DRAFT; e++) {
		tokens += reach *= next;
		const double verify = cost_verify(cost, d + e + 1) - cost_verify(cost, d + 1);
		least_cost = fmin(least_cost, (e * c + verify) / tokens);
	}
	return least_cost;
}

void set_min_reach(const struct cost_model* cost, double rate, double c, double next,
                   struct draft_policy* policy) {
	for (int d = 1; d <= MAX_DRAFT; d++)
		policy->min_reach[d] = (float)(rate * least_token(cost, c, next, d));
}

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
static float prior_of(const struct acceptance* acceptance, int source, int bin, int rank) {
	const float expected = drafters[source]->prior(bin, rank % TREE_RANKS);
	const struct tally* rejected = &acceptance->rejected[source];
	const float times = (rejected->right + 1) / (rejected->trials + 1);
	return rank % TREE_RANKS > 0 ? expected : expected / (expected + (1 - expected) * times);
}

float acceptance_of(const struct acceptance* acceptance, int source, int bin, int rank) {
	const float prior = prior_of(acceptance, source, bin, rank);
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

/* Draft weights that take more plain steps to make bring them in too late to be paid for ahead of time or by
 * what drafting earned: 72 cost Qwen 1.5B in 4 bits a tenth of its speed over 18 prompts. */
enum { LONGEST_MAKING = 48 };

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
	/* a fourth of a step each, after as many tokens as all of it takes steps: a short first answer pays
	 * nothing, and a text that ends right after it took at most twice its time */
	const bool brings_in = tokens >= 4 * left && budget->plain >= whole;
	if (whole > LONGEST_MAKING)
		return isinf(budget->opt_budget) || budget->learned + cost <= budget->opt_budget * budget->plain;
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

static const float rate_memory = 256; /* plain steps */
/* Each token counts so much of the one before it, because a round that ends early can start another one where
 * drafts are good, with more known. (Replayed over 280 answers of four models at four cost lists, without and
 * with this factor: 1.863 and 1.896 on the half that chose it, 1.844 and 1.883 on the other.) */
static const float deeper = 0.95f;

void planner_open(struct planner* p, struct drafter_set* set, struct acceptance* acceptance) {
	memset(p, 0, sizeof *p);
	p->set = set;
	p->acceptance = acceptance;
	p->tokens = p->cost = rate_memory / 8;
}

float planner_rate(const struct planner* p) { return fmaxf(1, p->tokens / p->cost); }

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
static float worth(const struct planner* p, float chance, int depth) {
	return chance * powf(p->deeper, (float)(depth - 1));
}

/* Ties go to the better ranked. */
static void find_next(struct planner* p, int row) {
	const struct child* child = p->child[row];
	const float sure = worth(p, 1, p->tree.depth[row] + 1);
	p->next[row] = -1;
	for (int i = 0; i < p->n_children[row] && !child[i].spare; i++) {
		const float brings = p->tree.chance[row] * child[i].chance * sure;
		if (!child[i].joined && (p->next[row] < 0 || brings > p->worth[row])) {
			p->next[row] = i;
			p->worth[row] = brings;
		}
	}
}

static void expand(struct planner* p, int row) {
	ask_drafters(p, row);
	p->next[row] = -1;
	if (p->tree.depth[row] < p->limits.depth)
		find_next(p, row);
}

/* True if the next child of row x joins before that of y. Ties go to the shallower row, then to the better
 * ranked. */
static bool before(const struct planner* p, int x, int y) {
	if (p->worth[x] != p->worth[y])
		return p->worth[x] > p->worth[y];
	if (p->tree.depth[x] != p->tree.depth[y])
		return p->tree.depth[x] < p->tree.depth[y];
	return p->next[x] < p->next[y];
}

/* The row whose next child joins first; -1: none may. */
static int first_row(const struct planner* p) {
	int first = -1;
	for (int row = 0; row < p->tree.n; row++)
		if (p->next[row] >= 0 && (first < 0 || before(p, row, first)))
			first = row;
	return first;
}

/* The budget pays for rows that may fail; the first `sure` ones bring a token each. */
static int affordable_rows(const struct planner* p, int sure) {
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
	expand(p, tree_add(&p->tree, row, child->token, child->source, child->rank, chance));
	return brings;
}

static void start_growing(struct planner* p, float next) {
	p->deeper = next;
	tree_start(&p->tree, p->tree.token[0]);
	expand(p, 0);
}

/* The only child that may follow, as its drafter knows. Such a row cannot fail, and saves a row of a later
 * pass, so cost never excludes it. */
static bool is_forced(const struct planner* p, int row) {
	return drafters[p->child[row][p->next[row]].source]->allows != NULL;
}

static void grow(struct planner* p) {
	const float rate = planner_rate(p);
	start_growing(p, deeper);
	float tokens = 1;
	int row;
	while ((row = first_row(p)) >= 0 && p->tree.n < p->limits.rows && is_forced(p, row))
		tokens += add_next(p, row);
	int best_rows = p->tree.n;
	const int limit = affordable_rows(p, best_rows);
	float best = tokens - rate * p->costs.verify[best_rows];
	while ((row = first_row(p)) >= 0 && p->tree.n < limit && p->worth[row] > rate * p->slope[p->tree.n]) {
		tokens += add_next(p, row);
		const float gain = tokens - rate * p->costs.verify[p->tree.n];
		if (gain > best) {
			best = gain;
			best_rows = p->tree.n;
		}
	}
	tree_cut(&p->tree, best_rows);
}

void planner_take_all(struct planner* p, int max_rows, bool priced, float draft_cost) {
	float tokens = 1, best = 0;
	start_growing(p, 1);
	int row, best_rows = p->tree.n;
	while ((row = first_row(p)) >= 0 && p->tree.n < max_rows) {
		tokens += add_next(p, row);
		const int n = p->tree.n;
		const float rate = n <= SLICE_ROWS ? tokens / (draft_cost + p->costs.verify[n]) : 0;
		if (rate > best) {
			best = rate;
			best_rows = n;
		}
	}
	if (priced)
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
			below->sum += worth(p, tree->chance[row], tree->depth[row]);
		}
	}
}

/* The rows that a pass should take along: those that make its steps cheapest. Returns the cost of a step, in
 * passes. */
static float best_carry(const struct planner* p, int source, float head_chance, const struct below* below,
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
	const float step = p->costs.pass[source] * best_carry(p, source, chance, &below, carry);
	const float rate = planner_rate(p), *verify = p->costs.verify;
	const int rows = p->tree.n - below.n;
	const float present = below.sum - rate * (verify[p->tree.n] - verify[rows]);
	const int most =
	    (int)fminf((float)(p->limits.depth - p->tree.depth[head]), (float)(p->limits.rows - rows));
	const float start = p->costs.start[source];
	float best = 0, tokens = 0, power = chance;
	for (int e = 1; e <= most; e++) {
		power *= next;
		tokens += worth(p, power, p->tree.depth[head] + e);
		best = fmaxf(best,
		             tokens - rate * (start + (float)e * step + verify[rows + e] - verify[rows]) - present);
	}
	return best;
}

/* True if the budget can pay for the pass, and for a row of its result, even if both fail. */
static bool affordable_pass(const struct planner* p, int source, int carry) {
	const int rows = p->tree.n < SLICE_ROWS ? p->tree.n + 1 : SLICE_ROWS;
	const float pass = p->costs.pass_worst[source] * p->costs.verify[carry + 1];
	return p->spent + pass + p->costs.verify[rows] <= p->limits.budget;
}

struct plan_action planner_next(struct planner* p) {
	struct plan_action action = {.kind = PLAN_VERIFY};
	float best = 0;
	grow(p);
	for (int source = 0; source < DRAFTER_COUNT; source++) {
		const struct drafter* drafter = drafters[source];
		if (!p->set->state[source] || !drafter->head || isinf(p->costs.pass[source]))
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
