/* Span influence: the formula, that a session measures it on the text it wrote, and that the search's first
 * mask is then the span of least influence for what is to be saved. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "core/model/model.h"
#include "gp/random.h"
#include "optimizer/optimizer_state.h"

enum { BLOCKS = 6, POINTS = 2 * BLOCKS + 1, DIM = 5, ROWS = 7 };

/* 1 - cosine of row i of two states. */
static double apart(const float* x, const float* y, int i, int dim) {
	double xy = 0, xx = 0, yy = 0;
	for (int k = i * dim; k < (i + 1) * dim; k++) {
		xy += (double)x[k] * y[k];
		xx += (double)x[k] * x[k];
		yy += (double)y[k] * y[k];
	}
	return 1 - xy / sqrt(xx) / sqrt(yy);
}

static void formula(void** state) {
	(void)state;
	static float value[POINTS][ROWS * DIM];
	struct gp_random random = {7};
	float *all[POINTS], *later[POINTS];
	struct spans spans;
	for (int p = 0; p < POINTS; p++) {
		for (int i = 0; i < ROWS * DIM; i++)
			value[p][i] = (float)gp_normal(&random);
		all[p] = p > 0 ? value[p] : NULL; /* the embedding is not known */
		later[p] = p > 0 ? value[p] + 3 * DIM : NULL;
	}
	assert_true(spans_open(&spans, BLOCKS));
	assert_true(spans_influence(&spans, 2, 5) == 0);
	for (int turn = 0; turn < 2; turn++) {
		spans_add(&spans, all, 3, DIM);
		spans_add(&spans, later, ROWS - 3, DIM);
		for (int i = 1; i < POINTS; i++)
			for (int j = i + 1; j < POINTS; j++) {
				double mean = 0;
				for (int row = 0; row < ROWS; row++)
					mean += apart(value[i], value[j], row, DIM) / ROWS;
				assert_true(fabs(spans_influence(&spans, i, j) - mean) < 1e-12);
			}
		spans_forget(&spans);
	}
	value[4][0] = NAN;
	spans_add(&spans, all, 1, DIM);
	assert_true(isnan(spans_influence(&spans, 4, 6)) && !isnan(spans_influence(&spans, 5, 7)));
	spans_close(&spans);
}

/* ---- the first mask ----------------------------------------------------------------------- */

static double saved(const struct search_costs* costs, const struct mask* mask) {
	double sum = 0;
	for (int s = 0; s < 2 * MAX_BLOCKS; s++)
		sum += mask_has(mask, s) ? s & 1 ? costs->mlp : costs->attention : 0;
	return sum;
}

/* By trial of every span: of those that save enough the one of least influence. */
static struct mask least_span(const struct spans* spans, const struct search_costs* costs, double share) {
	struct mask best = {.word = {0}};
	double influence = INFINITY;
	for (int i = 2; i < 2 * spans->blocks - 2; i++) {
		struct mask mask = {.word = {0}};
		for (int j = i; j < 2 * spans->blocks - 2; j++) {
			mask_set(&mask, j, true);
			if (saved(costs, &mask) < share || spans_influence(spans, i, j + 1) >= influence)
				continue;
			influence = spans_influence(spans, i, j + 1);
			best = mask;
		}
	}
	return best;
}

/* Influence that grows along a span, as real models' does, but is another one everywhere. */
static void make_spans(struct spans* spans, uint64_t seed) {
	struct gp_random random = {seed};
	double each[2 * MAX_BLOCKS];
	const int points = 2 * spans->blocks + 1;
	for (int i = 0; i < points; i++)
		each[i] = 0.01 + 0.02 * gp_uniform(&random);
	for (int i = 0; i < points; i++)
		for (int j = i + 1; j < points; j++)
			spans->sum[i * points + j] =
			    spans->sum[i * points + j - 1] + (j == i + 1 ? 1 : 0.4) * each[j - 1];
	spans->rows = 1;
}

static struct search* open_search(int blocks, double ratio, double share, const struct search_costs* costs) {
	struct error error;
	const struct search_options options = {.blocks = blocks,
	                                       .skip_ratio = ratio,
	                                       .skip_cost = share,
	                                       .bayes_interval = 5,
	                                       .max_steps = 200,
	                                       .patience = 200,
	                                       .max_matchness = 1,
	                                       .kappa = 2.5,
	                                       .seed = 3};
	struct search* s = search_open(&options, &error);
	assert_non_null(s);
	if (costs)
		search_set_costs(s, costs);
	return s;
}

static struct search_costs costs_of(int blocks) {
	struct search_costs costs = {
	    .attention = 0.3 / blocks, .mlp = 0.6 / blocks, .fixed = 0.1, .max_draft = 25};
	for (int n = 1; n <= SLICE_ROWS; n++)
		costs.verify[n] = 1 + 0.05 * (n - 1);
	return costs;
}

static void the_first_mask_is_the_best_span(void** state) {
	(void)state;
	enum { MANY = 20 };
	const struct search_costs costs = costs_of(MANY);
	for (uint64_t seed = 1; seed <= 5; seed++)
		for (double share = 0.1; share < 0.55; share += 0.1) {
			struct spans spans;
			assert_true(spans_open(&spans, MANY));
			make_spans(&spans, seed);
			struct search* s = open_search(MANY, 0.45, share, &costs);
			search_set_spans(s, &spans);
			const struct mask best = search_best(s, NULL), expected = least_span(&spans, &costs, share);
			assert_true(mask_equal(&best, &expected));
			search_close(s);
			/* a number instead of a cost; and no first mask from what is not known */
			s = open_search(MANY, 0.25, 0, NULL);
			struct spans none = {.blocks = MANY};
			const struct mask before = search_best(s, NULL);
			search_set_spans(s, &none);
			struct mask now = search_best(s, NULL);
			assert_true(mask_equal(&before, &now));
			search_set_spans(s, &spans);
			now = search_best(s, NULL);
			const struct search_costs one = {.attention = 1, .mlp = 1};
			const struct mask nine = least_span(&spans, &one, 9);
			assert_true(mask_equal(&now, &nine));
			search_close(s);
			spans_close(&spans);
		}
}

/* Scored before anything else are the spans of least influence, each once; the best of them drafts. */
static void spans_are_scored_first(void** state) {
	(void)state;
	enum { MANY = 20, WINDOW = 64, RIGHT = 7 };
	const struct search_costs costs = costs_of(MANY);
	struct mask scored[SEARCH_SPANS];
	struct proposal p;
	struct spans spans;
	assert_true(spans_open(&spans, MANY));
	make_spans(&spans, 4);
	struct search* s = open_search(MANY, 0.45, 0.2, &costs);
	search_set_spans(s, &spans);
	search_window(s, 1, WINDOW);
	for (int n = 0; n < SEARCH_SPANS; n++) {
		assert_true(search_propose(s, &p) && p.kind == PROPOSAL_START);
		for (int i = 0; i < n; i++)
			assert_false(mask_equal(&p.mask, &scored[i]));
		scored[n] = p.mask;
		p.log_probability = n == RIGHT ? -0.5 : -0.6;
		search_observe(s, &p, WINDOW / 2, WINDOW);
	}
	const struct mask best = search_best(s, NULL);
	assert_true(mask_equal(&best, &scored[RIGHT]));
	assert_true(search_propose(s, &p) && p.kind == PROPOSAL_REMOVAL);
	search_close(s);
	spans_close(&spans);
}

/* Whatever is scored well, the mask that drafts saves what it is to save. */
static void the_cost_is_saved(void** state) {
	(void)state;
	enum { MANY = 16, WINDOW = 32 };
	const struct search_costs costs = costs_of(MANY);
	struct spans spans;
	struct gp_random random = {5};
	assert_true(spans_open(&spans, MANY));
	make_spans(&spans, 9);
	struct search* s = open_search(MANY, 0.45, 0.2, &costs);
	search_set_spans(s, &spans);
	struct proposal p;
	for (int n = 0; n < 120; n++) {
		if (n % 10 == 0)
			search_window(s, n / 10 + 1, WINDOW);
		assert_true(search_propose(s, &p));
		const double share = saved(&costs, &p.mask);
		search_observe(s, &p, (int)(WINDOW * fmax(0, 1 - share)) - gp_below(&random, 4), WINDOW);
		const struct mask best = search_best(s, NULL);
		assert_true(saved(&costs, &best) >= 0.2 - 1e-9);
	}
	search_close(s);
	spans_close(&spans);
	/* by cost: a span too */
	s = open_search(MANY, 0, 0, &costs);
	assert_true(spans_open(&spans, MANY));
	make_spans(&spans, 9);
	search_set_spans(s, &spans);
	const struct mask best = search_best(s, NULL);
	int runs = 0;
	for (int i = 2; i < 2 * MANY - 2; i++)
		runs += mask_has(&best, i) && !mask_has(&best, i - 1);
	assert_int_equal(runs, 1);
	assert_true(isfinite(search_speedup(s)));
	search_close(s);
	spans_close(&spans);
}

/* ---- a session's states ------------------------------------------------------------------- */

/* The states of every row of the text after a sub-layer, one row a pass. */
static float* plain_states(struct backend* backend, const int32_t* text, int n, int tap) {
	struct error error;
	const int dim = backend->weights->shape.dim;
	float* states = malloc((size_t)n * (size_t)dim * sizeof *states);
	struct cache* cache = backend->cache_open(backend, n, DTYPE_F16, &error);
	assert_true(states && cache);
	for (int i = 0; i < n; i++) {
		const struct segment segment = {.cache = cache, .base = i, .n = 1};
		const uint8_t want = WANT_NOTHING;
		const int32_t row = 0;
		struct result out;
		const struct pass pass = {.kind = PASS_EXACT,
		                          .n = 1,
		                          .n_segments = 1,
		                          .segment = &segment,
		                          .token = text + i,
		                          .last = tap + 1,
		                          .tap = tap,
		                          .tap_out = states + (size_t)i * (size_t)dim,
		                          .want = &want,
		                          .out = &out};
		const struct pass rest = {.kind = PASS_EXACT,
		                          .n = 1,
		                          .n_segments = 1,
		                          .segment = &segment,
		                          .row = &row,
		                          .first = tap + 1,
		                          .last = 2 * backend->weights->shape.n_blocks,
		                          .tap = -1};
		assert_true(backend->run(backend, &pass, &error));
		assert_true(rest.first == rest.last || backend->run(backend, &rest, &error));
		backend->commit(cache, &row, 1);
	}
	backend->cache_close(cache);
	return states;
}

/* ---- removal ------------------------------------------------------------------------------ */

/* A landscape where losses add up, but for neighbours, which share a third of theirs. */
static double log_probability(const double* loss, const struct mask* mask) {
	double sum = 0.1;
	for (int i = 0; i < 2 * MAX_BLOCKS; i++)
		sum += mask_has(mask, i) ? loss[i] * (mask_has(mask, i - 1) ? 0.67 : 1) : 0;
	return -sum;
}

/* Plain greedy removal: all are tried in every step. */
static struct mask greedy(const double* loss, const struct search_costs* costs, int blocks, double share) {
	struct mask mask = {.word = {0}};
	while (saved(costs, &mask) < share - 1e-9) {
		double least_loss = INFINITY;
		int best = -1;
		for (int i = 2; i < 2 * blocks - 2; i++) {
			struct mask with = mask;
			mask_set(&with, i, true);
			const double more = log_probability(loss, &mask) - log_probability(loss, &with);
			if (mask_has(&mask, i) || more / (i & 1 ? costs->mlp : costs->attention) >= least_loss)
				continue;
			least_loss = more / (i & 1 ? costs->mlp : costs->attention);
			best = i;
		}
		mask_set(&mask, best, true);
	}
	return mask;
}

/* On windows that differ in how hard they are a hundred proposals make up for half at least of what the best
 * span loses beside greedy removal that tries everything; and once more they are the same. */
static void removal_nears_greedy(void** state) {
	(void)state;
	enum { MANY = 20, ROWS_SCORED = 200 };
	const struct search_costs costs = costs_of(MANY);
	double by_span = 0, by_search = 0, by_greedy = 0;
	for (uint64_t seed = 1; seed <= 6; seed++) {
		struct gp_random random = {seed};
		double loss[2 * MAX_BLOCKS + 1] = {0};
		struct spans spans;
		assert_true(spans_open(&spans, MANY));
		make_spans(&spans, seed);
		for (int i = 2; i < 2 * MANY - 2; i++)
			loss[i] = 2 * spans_influence(&spans, i, i + 1) * (0.5 + gp_uniform(&random));
		const struct mask target = greedy(loss, &costs, MANY, 0.25);
		by_greedy += log_probability(loss, &target);
		struct mask twice[2];
		for (int turn = 0; turn < 2; turn++) {
			struct search* s = open_search(MANY, 0.45, 0.25, &costs);
			search_set_spans(s, &spans);
			const struct mask first = search_best(s, NULL);
			struct proposal p;
			for (int n = 0; n < 100; n++) {
				if (n % 10 == 0)
					search_window(s, n / 10 + 1, ROWS_SCORED);
				assert_true(search_propose(s, &p));
				const double truth = log_probability(loss, &p.mask);
				p.log_probability = truth - 0.02 * (n / 10 % 3);
				search_observe(s, &p, (int)(ROWS_SCORED * exp(truth)), ROWS_SCORED);
			}
			twice[turn] = search_best(s, NULL);
			if (turn == 0) {
				by_span += log_probability(loss, &first);
				by_search += log_probability(loss, &twice[0]);
			}
			search_close(s);
		}
		assert_true(mask_equal(&twice[0], &twice[1]));
		spans_close(&spans);
	}
	printf("mean log-probability: span %.3f, search %.3f, greedy %.3f\n", by_span / 6, by_search / 6,
	       by_greedy / 6);
	assert_true(by_search > by_greedy - 0.5 * (by_greedy - by_span));
}

/* ---- what a session does with it ---------------------------------------------------------- */

struct opened {
	swiftlet_model* model;
	swiftlet_engine* engine;
	struct session* session;
};

/* With options (pairs of name and value), and a request of five tokens begun. */
static struct opened open_session(const char* spec, int most, const char* const* set, size_t n) {
	char message[256];
	struct opened o;
	struct swiftlet_options options;
	options_default(&options);
	for (size_t i = 0; i < n; i += 2)
		assert_int_equal(swiftlet_options_set(&options, set[i], set[i + 1], message, sizeof message), 1);
	o.model = swiftlet_model_open(spec, NULL, message, sizeof message);
	o.engine = o.model ? swiftlet_engine_open(o.model, &options, message, sizeof message) : NULL;
	o.session = o.engine ? swiftlet_session_open(o.engine, &options, message, sizeof message) : NULL;
	assert_non_null(o.session);
	static const int32_t prompt[] = {5, 6, 7, 8, 9};
	struct swiftlet_request request;
	swiftlet_request_default(&request, &options);
	request.prompt = prompt;
	request.n_prompt = 5;
	request.max_tokens = most;
	assert_true(swiftlet_session_start(o.session, &request, message, sizeof message));
	return o;
}

static void close_session(struct opened* o) {
	swiftlet_session_close(o->session);
	swiftlet_engine_close(o->engine);
	swiftlet_model_close(o->model);
}

/* What a session has found of its rounds' first rows is what plain passes say of them. */
static void a_session_measures_its_own_text(void** state) {
	(void)state;
	const char* set[] = {"draft",      "always", "max-tree", "paper", "opt-budget", "inf",
	                     "cache-type", "f16",    "threads",  "2",     "context",    "256"};
	struct opened opened =
	    open_session("synth:layers=6,dim=64,heads=2,kv-heads=1,ffn=128,vocab=512,dtype=f16,plant=0.45,seed=1",
	                 240, set, sizeof set / sizeof *set);
	struct session* session = opened.session;
	char message[256];
	struct swiftlet_step step = {.stop = SWIFTLET_RUNNING};
	const struct optimizer* o = optimizer_of(session);
	int row[64], rows = 0;
	const int dim = 64;
	while (step.stop == SWIFTLET_RUNNING) {
		row[rows] = session->n_text - 1;
		assert_true(swiftlet_session_step(session, &step, message, sizeof message));
		assert_true(rows <= o->spans.rows && o->spans.rows <= rows + 1);
		rows = (int)o->spans.rows;
	}
	assert_true(rows >= 24 && row[0] >= 5);
	float* at[13] = {NULL};
	for (int i = 1; i <= 12; i++)
		at[i] = plain_states(session_engine(session)->backend, session->text, row[rows - 1] + 1, i - 1);
	for (int i = 1; i < 12; i++)
		for (int j = i + 1; j <= 12; j++) {
			double mean = 0;
			for (int r = 0; r < rows; r++)
				mean += apart(at[i], at[j], row[r], dim) / rows;
			assert_true(fabs(spans_influence(&o->spans, i, j) - mean) < 1e-9);
		}
	for (int i = 1; i <= 12; i++)
		free(at[i]);
	close_session(&opened);
}

/* --skip-cost: what drafts saves that share, by the bytes that a repeatable run costs by. */
static void a_session_saves_what_is_asked(void** state) {
	(void)state;
	const char* set[] = {"skip-cost", "0.3", "opt-budget", "inf", "threads", "2", "draft-bits", "off"};
	struct opened opened = open_session(
	    "synth:layers=10,dim=64,heads=2,kv-heads=1,ffn=128,vocab=512,dtype=f16,plant=0.45,seed=1", 120, set,
	    sizeof set / sizeof *set);
	struct session* session = opened.session;
	char message[256];
	struct swiftlet_step step = {.stop = SWIFTLET_RUNNING};
	while (step.stop == SWIFTLET_RUNNING)
		assert_true(swiftlet_session_step(session, &step, message, sizeof message));
	const struct mask best = search_best(session_search(session), NULL);
	const struct cost_model bytes = cost_by_bytes(&session_engine(session)->cost);
	struct search_costs costs;
	cost_sub_layers(&bytes, false, NULL, &costs.attention, &costs.mlp, &costs.fixed);
	assert_true(search_steps(session_search(session)) > 10);
	assert_true(saved(&costs, &best) >= 0.3 - 1e-9 && saved(&costs, &best) < 0.45);
	close_session(&opened);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(formula),
	                                   cmocka_unit_test(the_first_mask_is_the_best_span),
	                                   cmocka_unit_test(spans_are_scored_first),
	                                   cmocka_unit_test(the_cost_is_saved),
	                                   cmocka_unit_test(removal_nears_greedy),
	                                   cmocka_unit_test(a_session_measures_its_own_text),
	                                   cmocka_unit_test(a_session_saves_what_is_asked)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
