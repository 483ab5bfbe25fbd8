/* Span influence: the formula, and that a session measures it on the text it wrote. */
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

#include "core/decode/session_state.h"
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

/* A session's findings about its rounds' first rows are those of plain passes. */
static void a_session_measures_its_own_text(void** state) {
	(void)state;
	const char* set[] = {"draft", "always",     "max-tree", "paper",   "opt-budget", "inf",     "draft-bits",
	                     "off",   "cache-type", "f16",      "threads", "2",          "context", "256"};
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
	assert_true(rows == SPANS_ENOUGH && row[0] >= 5);
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

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(formula),
	                                   cmocka_unit_test(a_session_measures_its_own_text)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
