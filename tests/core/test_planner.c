/* The planner against exhaustive search, within its bounds, and under drafters that mislead it. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "core/draft/mask.h"
#include "tests/core/support_rounds.h"

/* ---- exhaustive search ------------------------------------------------------------------------ */

enum { LETTERS = 2, TEXT_BEFORE = 40, DEPTH = 3, MOST_SHAPES = 26 };

struct shape { /* a subtree that could be verified */
	double worth;
	int rows;
};

/* Retrieval's proposal after a path: word (depth + 1), the root first. */
static int children(struct rounds* r, const int32_t* word, int depth, struct candidate* list) {
	struct tree tree;
	int n = 0;
	tree_start(&tree, word[0]);
	for (int row = 0; row <= depth; row++) {
		n = drafters[SOURCE_retrieval]->extend(r->set.state[SOURCE_retrieval], &tree, row, list, TREE_RANKS);
		if (row < depth)
			tree_add(&tree, row, word[row + 1], SOURCE_retrieval, 0, 1);
	}
	assert_in_range(n, 0, LETTERS);
	return n;
}

/* All subtrees at or below the end of a path that is taken with this chance, none included. */
static int shapes(struct rounds* r, int32_t* word, int depth, double chance, struct shape* out) {
	struct candidate list[TREE_RANKS];
	struct shape below[LETTERS][MOST_SHAPES] = {{{0}}};
	int n[LETTERS] = {1, 1}, total = 0;
	double left = 1;
	out[total++] = (struct shape){0, 0};
	const int found = depth < DEPTH ? children(r, word, depth, list) : 0;
	for (int k = 0; k < found; k++) {
		const double share = left * (double)acceptance_of(&r->acceptance, SOURCE_retrieval, list[k].bin, k);
		left -= share;
		word[depth + 1] = list[k].token;
		n[k] = shapes(r, word, depth + 1, chance * share, below[k]);
	}
	const double worth = chance * pow(0.95, depth > 0 ? depth - 1 : 0);
	for (int a = 0; a < n[0]; a++)
		for (int b = 0; b < n[1]; b++)
			out[total++] = (struct shape){worth + below[0][a].worth + below[1][b].worth,
			                              1 + below[0][a].rows + below[1][b].rows};
	return total;
}

/* A random text before the root, and random probabilities. Returns the root. */
static int32_t teach(struct rounds* r) {
	int32_t text[TEXT_BEFORE];
	for (int i = 0; i < TEXT_BEFORE; i++)
		text[i] = rand() % LETTERS;
	drafter_set_begin(&r->set, &(struct drafter_text){.prompt = text, .n_prompt = TEXT_BEFORE});
	acceptance_open(&r->acceptance);
	for (int bin = 0; bin < drafters[SOURCE_retrieval]->bins; bin++)
		for (int k = 0; k < LETTERS; k++)
			r->acceptance.seen[SOURCE_retrieval][bin][k] = (struct tally){(float)(rand() % 1000) / 10, 100};
	return text[TEXT_BEFORE - 1];
}

static void random_costs(struct cost_table* costs) {
	const int step = 1 + rand() % 4; /* passes come in slices of so many rows */
	costs->verify[1] = 1;
	for (int n = 2; n <= SLICE_ROWS; n++)
		costs->verify[n] =
		    costs->verify[n - 1] + (n % step == 0 ? (float)(rand() % 100) / 400 * (float)step : 0);
}

/* Tokens that a tree's drafts are expected to bring, each as it counts. */
static double worth(const struct tree* tree) {
	double sum = 0;
	for (int row = 1; row < tree->n; row++)
		sum += (double)tree->chance[row] * pow(0.95, tree->depth[row] - 1);
	return sum;
}

static double plan_gain(struct rounds* r, double rate, int32_t root, const struct round_limits* limits) {
	struct planner* p = &r->planner;
	/* so many steps that the rate is hardly drawn towards 1 */
	p->tokens = 1e7f * (float)rate;
	p->cost = 1e7f;
	planner_start(p, root, limits);
	assert_int_equal(planner_next(p).kind, PLAN_VERIFY);
	return 1 + worth(&p->tree) - rate * (double)p->costs.verify[p->tree.n];
}

/* The tree has the most tokens, as they count, less the worth of its cost of all trees; and at the rate that
 * it reaches itself, the best ratio of the two. */
static void test_exhaustive(void** state) {
	(void)state;
	static struct rounds r;
	static struct shape shape[MOST_SHAPES * MOST_SHAPES + 1];
	rounds_open(&r, "retrieval", 64, LETTERS, 0.1, 1);
	for (int trial = 0; trial < 400; trial++) {
		struct cost_table costs = r.planner.costs;
		const int32_t root = teach(&r);
		int32_t word[DEPTH + 1] = {root};
		const struct round_limits limits = {1 + rand() % 16, DEPTH, (float)(rand() % 40) / 10};
		const double rate = 1 + (double)(rand() % 100) / 50;
		random_costs(&costs);
		planner_set_costs(&r.planner, &costs);
		const int n = shapes(&r, word, 0, 1, shape);
		double best = -INFINITY, best_ratio = 0;
		for (int i = 1; i < n; i++) {
			const double cost = (double)costs.verify[shape[i].rows];
			if (shape[i].rows > 1 && (shape[i].rows > limits.rows || cost > (double)limits.budget))
				continue;
			best = fmax(best, shape[i].worth - rate * cost);
			best_ratio = fmax(best_ratio, shape[i].worth / cost);
		}
		assert_true(fabs(plan_gain(&r, rate, root, &limits) - best) < 1e-4);
		double own = 1;
		for (int i = 0; i < 20; i++) {
			plan_gain(&r, own, root, &limits);
			own = (1 + worth(&r.planner.tree)) / (double)costs.verify[r.planner.tree.n];
		}
		assert_true(fabs(own - best_ratio) < 1e-4);
	}
	rounds_close(&r);
}

/* ---- passes ----------------------------------------------------------------------------------- */

/* A draft model that continues 0, 1, 2, … with `sure` of its first choice. */
static void run_draft(const struct pass* pass, float sure) {
	for (int i = 0; i < pass->n; i++) {
		struct result* out = &pass->out[i];
		out->top = 2;
		out->token = out->top_token[0] = pass->token[i] + 1;
		out->top_token[1] = pass->token[i] + 1000;
		out->top_probability[0] = out->max_probability = sure;
		out->top_probability[1] = 1 - sure;
	}
}

struct draft_model {
	struct weight_table weights;
	struct backend backend;
	struct cache cache;
	struct mask skip;
};

static int plan_with_passes(struct rounds* r, struct draft_model* m, float sure,
                            const struct round_limits* limits, int32_t end) {
	struct planner* p = &r->planner;
	int passes = 0;
	float spent = 0;
	m->backend.weights = &m->weights;
	m->cache.backend = &m->backend;
	mask_start(r->set.state[SOURCE_mask],
	           &(struct mask_round){
	               .segment = {.cache = &m->cache}, .skip = &m->skip, .end_token = &end, .n_end_tokens = 1});
	planner_start(p, 0, limits);
	for (;;) {
		struct pass pass;
		const struct plan_action action = planner_next(p);
		if (action.kind == PLAN_VERIFY)
			break;
		assert_int_equal(action.source, SOURCE_mask);
		drafters[SOURCE_mask]->fill(r->set.state[SOURCE_mask], &p->tree, action.head, action.carry, &pass);
		assert_in_range(pass.n, 1, 1 + action.carry);
		for (int i = 0; i < pass.n; i++) /* parents are pending rows that come before */
			assert_in_range(pass.parent[i] + 1, 0, mask_rows(r->set.state[SOURCE_mask]) + i);
		run_draft(&pass, sure);
		drafters[SOURCE_mask]->take(r->set.state[SOURCE_mask]);
		const float cost = p->costs.pass[SOURCE_mask] * p->costs.verify[pass.n];
		planner_passed(p, cost);
		spent += cost;
		passes++;
	}
	assert_true(p->tree.n == 1 || spent + p->costs.verify[p->tree.n] <= limits->budget);
	assert_in_range(p->tree.n, 1, limits->rows);
	for (int row = 0; row < p->tree.n; row++)
		assert_in_range(p->tree.depth[row], 0, limits->depth);
	return passes;
}

static void test_passes(void** state) {
	(void)state;
	static struct rounds r;
	static struct draft_model m;
	const struct round_limits wide = {SLICE_ROWS, 12, INFINITY};
	rounds_open(&r, "mask", 64, 4096, 0.05, 0.3);
	acceptance_reset_first(&r.acceptance, SOURCE_mask, 0.95f);
	const int good = plan_with_passes(&r, &m, 0.97f, &wide, -1);
	assert_in_range(good, 4, 12); /* sure and cheap: a long chain */
	assert_true(r.planner.tree.n > good);
	for (int row = 1; row <= good; row++)
		assert_int_equal(r.planner.tree.token[row], row);
	assert_int_equal(plan_with_passes(&r, &m, 0.97f, &wide, 2), 2); /* nothing after an end token */
	assert_int_equal(plan_with_passes(&r, &m, 0.97f, &(struct round_limits){SLICE_ROWS, 3, INFINITY}, -1), 3);
	assert_int_equal(plan_with_passes(&r, &m, 0.97f, &(struct round_limits){SLICE_ROWS, 12, 1.2f}, -1), 0);
	assert_in_range(plan_with_passes(&r, &m, 0.1f, &wide, -1), 1, 2); /* unsure: not gone on with */
	acceptance_reset_first(&r.acceptance, SOURCE_mask, 0.3f);
	assert_int_equal(plan_with_passes(&r, &m, 0.97f, &wide, -1), 0); /* never right */
	acceptance_reset_first(&r.acceptance, SOURCE_mask, 0.95f);
	r.planner.costs.pass[SOURCE_mask] = r.planner.costs.pass_worst[SOURCE_mask] = 1;
	assert_int_equal(plan_with_passes(&r, &m, 0.97f, &wide, -1), 0); /* too dear */
	r.planner.costs.pass[SOURCE_mask] = INFINITY;
	assert_int_equal(plan_with_passes(&r, &m, 0.97f, &wide, -1), 0);
	rounds_close(&r);
}

/* Retrieval knows the same chain: with the cascade fewer passes predict more tokens.
 */
static void test_cascade(void** state) {
	(void)state;
	static struct rounds r;
	static struct draft_model m;
	int32_t text[41];
	for (int i = 0; i < 41; i++)
		text[i] = i < 20 ? i : i == 20 ? 2000 : i - 21; /* 0 … 19, 2000, 0 … 19 */
	int passes[2], rows[2];
	for (int cascade = 0; cascade < 2; cascade++) {
		rounds_open(&r, "mask,retrieval", 64, 4096, 0.02, 0.1);
		r.planner.costs.cascade[SOURCE_mask] = cascade;
		acceptance_reset_first(&r.acceptance, SOURCE_mask, 0.97f);
		drafter_set_append(&r.set, text, 22); /* … 2000, 0 */
		passes[cascade] = plan_with_passes(&r, &m, 0.97f, &(struct round_limits){16, 12, INFINITY}, -1);
		rows[cascade] = mask_rows(r.set.state[SOURCE_mask]);
		rounds_close(&r);
	}
	assert_true(passes[0] >= 2);
	assert_true(passes[1] < passes[0]);
	assert_true(rows[1] >= passes[1] + 2);
}

/* ---- adversaries ------------------------------------------------------------------------------ */

enum { TEXT = 6000 };

/* Nothing repeats as it did: whatever retrieval and recycling say is wrong. */
static void never_right(int32_t* text) {
	for (int i = 0; i < TEXT; i++) /* the successor of a token is another each time */
		text[i] = i % 2 ? i / 2 % 50 : 50 + (i / 2 % 50 + i / 100 * 7) % 997;
}

/* Long copies of what was said, then something else just when it is believed. */
static void right_then_wrong(int32_t* text) {
	for (int i = 0; i < TEXT; i++) {
		const int phase = i / 300;
		text[i] = phase % 2 ? rand() % 1000
		          : i < 300 ? rand() % 1000
		                    : text[i % 300 + (phase / 2 % 2) * 17 % 3];
	}
}

static void test_adversaries(void** state) {
	(void)state;
	static struct rounds r;
	static int32_t text[TEXT];
	static const double slopes[] = {0.006, 0.05, 0.2, 1};
	for (int kind = 0; kind < 3; kind++)
		for (int s = 0; s < 4; s++) {
			if (kind == 0)
				never_right(text);
			else if (kind == 1)
				right_then_wrong(text);
			else
				for (int i = 0; i < TEXT; i++)
					text[i] = rand() % 1000;
			rounds_open(&r, "retrieval,recycle", TEXT, 1048, slopes[s], 1);
			r.honour_budget = true;
			rounds_run(&r, text, 10, TEXT);
			assert_true(r.worst >= -1e-3); /* never beyond what the budget allows */
			assert_true((double)r.tokens / r.cost >= 0.98);
			if (kind == 1 && slopes[s] < 0.1)
				assert_true((double)r.tokens / r.cost > 1.2); /* the copies are made use of */
			rounds_close(&r);
		}
}

/* Two thirds of a text are copies: it is found out, and expectations come true. */
static void test_gain_is_reached(void** state) {
	(void)state;
	static struct rounds r;
	static int32_t text[TEXT];
	for (int i = 0; i < TEXT; i++) {
		text[i] = rand() % 1000;
		if (i > 400 && i % 60 >= 20) /* copied from a place that stays the same for 40 tokens */
			text[i] = text[i - 211];
	}
	rounds_open(&r, "retrieval,recycle", TEXT, 1000, 0.05, 1);
	rounds_run(&r, text, 10, TEXT);
	assert_true((double)r.tokens / r.cost > 1.9);
	assert_true(fabs(r.predicted / (double)(r.tokens - r.passes) - 1) < 0.05);
	rounds_close(&r);
}

/* After a long easy text a hard one is planned by what its own tokens take, within a few of them. */
static void test_rate_follows_the_text(void** state) {
	(void)state;
	static struct rounds r;
	rounds_open(&r, "retrieval", 64, LETTERS, 0.1, 1);
	const struct round_limits alone = {1, DEPTH, 1};
	const struct verdict verdict = {.accepted = 0};
	const struct result out[1] = {{.token = 0}};
	assert_true(planner_rate(&r.planner) == 1);
	for (int i = 0; i < 1000; i++) {
		planner_start(&r.planner, teach(&r), &alone);
		planner_next(&r.planner);
		planner_see(&r.planner, &verdict, out, 3, 1.5f);
	}
	assert_float_equal(planner_rate(&r.planner), 1.5, 0.02);
	for (int i = 0; i < 40; i++) {
		planner_start(&r.planner, teach(&r), &alone);
		planner_next(&r.planner);
		planner_see(&r.planner, &verdict, out, 1, 1);
	}
	assert_in_range((uintmax_t)(100 * planner_rate(&r.planner)), 100, 120);
	rounds_close(&r);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_exhaustive),      cmocka_unit_test(test_passes),
	    cmocka_unit_test(test_cascade),         cmocka_unit_test(test_adversaries),
	    cmocka_unit_test(test_gain_is_reached), cmocka_unit_test(test_rate_follows_the_text)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
