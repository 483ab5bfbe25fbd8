#include "tests/core/support_rounds.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above */
#include <cmocka.h>

void rounds_open(struct rounds* r, const char* names, int context, int vocab, double slope, double c) {
	struct cost_table costs = {.verify = {0}};
	struct error error;
	unsigned which;
	memset(r, 0, sizeof *r);
	r->vocab = vocab;
	assert_true(drafter_parse(names, &which, &error));
	assert_true(
	    drafter_set_open(&r->set, which, &(struct drafter_setup){.context = context, .vocab = vocab}));
	acceptance_open(&r->acceptance);
	planner_open(&r->planner, &r->set, &r->acceptance);
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = (float)(1 + slope * (n - 1));
	for (int i = 0; i < DRAFTER_COUNT; i++)
		costs.pass[i] = costs.pass_worst[i] = (float)c;
	planner_set_costs(&r->planner, &costs);
}

void rounds_close(struct rounds* r) { drafter_set_close(&r->set); }

/* The target's token at each row: the text where the path to it is the text, else anything. */
static void answer(struct rounds* r, const int32_t* text, int at, int n) {
	const struct tree* tree = &r->planner.tree;
	bool on[MAX_ROWS] = {true};
	for (int row = 0; row < tree->n; row++) {
		const int d = tree->depth[row];
		if (row > 0)
			on[row] = on[tree->parent[row]] && at + d < n && tree->token[row] == text[at + d];
		struct result* out = &r->out[row];
		out->top = TREE_RANKS;
		for (int k = 0; k < TREE_RANKS; k++) {
			out->top_token[k] = rand() % r->vocab;
			out->top_probability[k] = 0.5f / (float)(k + 1);
		}
		if (on[row] && at + d + 1 < n)
			out->top_token[0] = text[at + d + 1];
		out->token = out->top_token[0];
	}
}

static double floor_of(const struct rounds* r) { return -fmax(8, 0.02 * (double)r->tokens); }

/* The sum of the acceptance estimates of rows whose parents were right. */
static double predicted(const struct tree* tree, const struct verdict* verdict) {
	double sum = 0;
	for (int i = 0; i <= verdict->accepted; i++)
		for (int row = verdict->path[i] + 1; row < tree->n; row++)
			if (tree->parent[row] == verdict->path[i])
				sum += (double)(tree->chance[row] / tree->chance[verdict->path[i]]);
	return sum;
}

void rounds_run(struct rounds* r, const int32_t* text, int from, int n) {
	struct planner* p = &r->planner;
	drafter_set_begin(
	    &r->set, &(struct drafter_text){
	                 .prompt = text, .n_prompt = from, .expected = r->expected, .n_expected = r->n_expected});
	for (int at = from - 1; at < n - 1;) { /* the root */
		const int left = n - 2 - at;
		const double budget = r->honour_budget ? r->balance - floor_of(r) + 1 : INFINITY;
		struct verdict verdict;
		planner_start(p, text[at],
		              &(struct round_limits){SLICE_ROWS, left < MAX_DRAFT ? left : MAX_DRAFT, (float)budget});
		assert_int_equal(planner_next(p).kind, PLAN_VERIFY);
		answer(r, text, at, n);
		tree_verify(&p->tree, r->out, &verdict);
		const int tokens = verdict.accepted + 1;
		const float cost = p->costs.verify[p->tree.n];
		assert_true(verdict.accepted <= left);
		planner_see(p, &verdict, r->out, tokens, cost);
		drafter_set_append(&r->set, text + at + 1, tokens);
		at += tokens;
		r->passes++;
		r->predicted += predicted(&p->tree, &verdict);
		r->tokens += tokens;
		r->rows += p->tree.n;
		r->cost += (double)cost;
		r->balance += tokens - (double)cost;
		r->worst = fmin(r->worst, r->balance - floor_of(r));
	}
}
