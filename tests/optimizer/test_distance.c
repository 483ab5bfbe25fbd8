/* Distances of hidden states: the formula, and that a session compares with the states of plain decoding. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the ones above */
#include <cmocka.h>

#include "core/model/model.h"
#include "optimizer/optimizer_state.h"

enum { DIM = 4 };

static void formula(void** state) {
	(void)state;
	const float norm[DIM] = {1, 0, 2, 0.5f};
	for (int plus_one = 0; plus_one < 2; plus_one++) {
		const struct weight_table weights = {
		    .shape = {.dim = DIM, .norm_plus_one = plus_one},
		    .output_norm = {.type = DTYPE_F32, .rows = 1, .cols = DIM, .data = norm}};
		struct distance d;
		assert_true(distance_open(&d, &weights, 3));
		const float full[] = {1, 2, 3, 4, 1, 0, 0, 0, 0, 0, 0, 0}, draft[] = {4, 3, 2, 1, 2, 0, 0, 0};
		memcpy(d.full, full, sizeof full);
		memcpy(d.pass, draft, sizeof draft);
		double xy = 0, xx = 0, yy = 0;
		for (int j = 0; j < DIM; j++) {
			const double g = (double)norm[j] + plus_one;
			xy += g * g * full[j] * draft[j];
			xx += g * g * full[j] * full[j];
			yy += g * g * draft[j] * draft[j];
		}
		assert_true(fabs(distance_sum(&d, 0, 1) - (1 - xy / sqrt(xx * yy))) < 1e-12);
		/* the second row differs in length alone */
		assert_true(fabs(distance_sum(&d, 0, 2) - distance_sum(&d, 0, 1)) < 1e-12);
		assert_true(distance_sum(&d, 2, 1) == 1); /* a state of zeros */
		memcpy(d.pass, full, sizeof full);
		assert_true(distance_sum(&d, 0, 2) < 1e-12);
		d.pass[0] = INFINITY;
		assert_true(isnan(distance_sum(&d, 0, 1)));
		distance_close(&d);
	}
}

/* The states after the last sub-layer of every row of the text, one row a pass. */
static float* plain_states(struct backend* backend, const int32_t* text, int n_prompt, int n) {
	struct error error;
	const int dim = backend->weights->shape.dim, last = 2 * backend->weights->shape.n_blocks;
	float* states = malloc((size_t)n * (size_t)dim * sizeof *states);
	struct cache* cache = backend->cache_open(backend, n, DTYPE_F16, &error);
	assert_non_null(states);
	assert_non_null(cache);
	cache->prompt_length = n_prompt;
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
		                          .last = last,
		                          .tap = last - 1,
		                          .tap_out = states + (size_t)i * (size_t)dim,
		                          .want = &want,
		                          .out = &out};
		assert_true(backend->run(backend, &pass, &error));
		backend->commit(cache, &row, 1);
	}
	backend->cache_close(cache);
	return states;
}

static void compares_with_plain_decoding(void** state) {
	(void)state;
	enum { TOKENS = 200 };
	char message[256];
	struct swiftlet_options options;
	swiftlet_options_default(&options);
	const char* set[] = {"draft",   "always",     "max-tree",      "paper",   "opt-budget",
	                     "inf",     "cache-type", "f16",           "threads", "2",
	                     "context", "256",        "max-matchness", "1"};
	for (size_t i = 0; i < sizeof set / sizeof *set; i += 2)
		assert_int_equal(swiftlet_options_set(&options, set[i], set[i + 1], message, sizeof message), 1);
	swiftlet_model* model = swiftlet_model_open(
	    "synth:layers=12,dim=64,heads=2,kv-heads=1,ffn=128,vocab=512,dtype=f16,plant=0.45,seed=1", NULL,
	    message, sizeof message);
	assert_non_null(model);
	swiftlet_engine* engine = swiftlet_engine_open(model, &options, message, sizeof message);
	assert_non_null(engine);
	struct session* session = swiftlet_session_open(engine, &options, message, sizeof message);
	assert_non_null(session);
	const int32_t prompt[] = {5, 6, 7, 8, 9};
	struct swiftlet_request request;
	swiftlet_request_default(&request, &options);
	request.prompt = prompt;
	request.n_prompt = 5;
	request.max_tokens = TOKENS;
	assert_true(swiftlet_session_start(session, &request, message, sizeof message));

	const size_t dim = (size_t)optimizer_of(session)->distance.dim;
	int proposals = 0, windows = 0, seen = 0;
	int64_t window = 0;
	struct swiftlet_step step = {.stop = SWIFTLET_RUNNING};
	while (step.stop == SWIFTLET_RUNNING) {
		struct session_work work;
		struct error error;
		session_begin_step(session);
		while (session_next(session, &work)) {
			const struct window* w = &optimizer_of(session)->window;
			if (work.kind == WORK_MATCHNESS && !w->full) {
				proposals++;
				assert_int_equal(optimizer_of(session)->distance.known, w->size);
				if (w->id != window || w->size != seen) {
					float* plain =
					    plain_states(session_engine(session)->backend, session->text, 5, w->base + w->size);
					assert_memory_equal(optimizer_of(session)->distance.full, plain + (size_t)w->base * dim,
					                    (size_t)w->size * dim * sizeof *plain);
					free(plain);
					windows++;
				}
				window = w->id;
				seen = w->size;
			}
			assert_true(session_run(session, &work, &error));
			const bool scored = work.kind == WORK_MATCHNESS && !w->full;
			const bool ended = session_absorb(session, &work, 0.001);
			if (scored)
				assert_true(w->distance >= 0 && w->distance <= 2 * w->size);
			if (ended)
				break;
		}
		session_output(session, &step);
	}
	assert_true(windows >= 5 && proposals > 3 * windows);
	swiftlet_session_close(session);
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(formula),
	                                   cmocka_unit_test(compares_with_plain_decoding)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
