/* A prompt's mean state, seen from what it is for: the model's own head makes of a one-token prompt's state,
 * and of what each more token adds to the sum, the log probabilities that the session reports; whether the
 * prompt fits a chunk of the prefill or not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/decode/session_state.h"
#include "tests/must_session.h"

enum { LONGEST = 300, DIM = 64 };

struct bench {
	swiftlet_model* model;
	swiftlet_engine* engine;
	swiftlet_session* session;
	int32_t prompt[LONGEST];
};

static void open_bench(struct bench* b) {
	struct swiftlet_options options;
	options_default(&options);
	options.engine.threads = 2;
	options.cache.context = 512;
	b->model = must_open_model("synth:layers=4,dim=64,heads=4,kv-heads=2,ffn=128,vocab=512,dtype=f32,seed=5",
	                           &options);
	b->engine = must_open_engine(b->model, &options);
	b->session = must_open_session(b->engine, &options);
	assert_int_equal(swiftlet_model_dim(b->model), DIM);
	for (int i = 0; i < LONGEST; i++)
		b->prompt[i] = (i * 73 + 5) % 512;
}

static void close_bench(struct bench* b) {
	swiftlet_session_close(b->session);
	swiftlet_engine_close(b->engine);
	swiftlet_model_close(b->model);
}

/* The mean over the first n tokens; the log probability that follows them is reported. */
static void embed(struct bench* b, int n, float out[DIM], struct swiftlet_token* next) {
	struct swiftlet_request request = {
	    .prompt = b->prompt, .n_prompt = n, .max_tokens = 1, .top_p = 1, .logprobs = 5, .embedding = out};
	struct swiftlet_step step;
	char message[512] = "";
	assert_true(swiftlet_session_start(b->session, &request, message, sizeof message));
	do
		assert_true(swiftlet_session_step(b->session, &step, message, sizeof message));
	while (step.stop == SWIFTLET_RUNNING);
	assert_int_equal(step.n, 1);
	*next = step.token[0];
}

static double log_probability(const struct bench* b, const double state[DIM], int32_t token) {
	const struct weight_table* w = &b->model->weights;
	double logit = 0, sum = 0;
	float row[DIM];
	for (int32_t i = 0; i < 512; i++) {
		double x = 0;
		dtype_to_float(w->output.type,
		               (const char*)w->output.data + (size_t)i * dtype_row_bytes(w->output.type, DIM), row,
		               DIM);
		for (int j = 0; j < DIM; j++)
			x += (double)row[j] * state[j];
		sum += exp(x);
		logit = i == token ? x : logit;
	}
	return logit - log(sum);
}

static void the_head_makes_the_same_of_it(void** unused) {
	(void)unused;
	static const int lengths[] = {1, 2, 17, 255, 256, 257, 300};
	struct bench b;
	open_bench(&b);
	for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
		const int n = lengths[i];
		float mean[DIM], before[DIM] = {0};
		double state[DIM];
		struct swiftlet_token next, other;
		embed(&b, n, mean, &next);
		if (n > 1)
			embed(&b, n - 1, before, &other);
		for (int j = 0; j < DIM; j++)
			state[j] = (double)mean[j] * n - (double)before[j] * (n - 1);
		for (int k = 0; k < next.n_top; k++) {
			const double expected = log_probability(&b, state, next.top_id[k]);
			if (fabs(expected - (double)next.top_logprob[k]) > 0.02)
				fail_msg("%d tokens, candidate %d: %g, expected %g", n, k, (double)next.top_logprob[k],
				         expected);
		}
	}
	close_bench(&b);
}

/* The cached part of the same prompt has no states: all of it is computed again, to the same bits. */
static void it_repeats(void** unused) {
	(void)unused;
	struct bench b;
	float first[DIM], second[DIM];
	struct swiftlet_token next;
	open_bench(&b);
	embed(&b, LONGEST, first, &next);
	embed(&b, LONGEST, second, &next);
	assert_memory_equal(first, second, sizeof first);
	close_bench(&b);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_head_makes_the_same_of_it),
	                                   cmocka_unit_test(it_repeats)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
