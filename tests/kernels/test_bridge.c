/* A bridge in a draft's pass: what it adds is held to doubles over states that taps give, for a sequence's
 * last token, for rows of the draft's own, and where the state before is not known; nothing added is the bare
 * skip, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "tests/kernels/support_random_model.h"

enum { BLOCKS = 5, DIM = 64, VOCAB = 96, CONTEXT = 300, LAST = 2 * BLOCKS };

struct bridge_case {
	struct random_model* model;
	struct backend* backend;
	struct cache* cache;
	float weight[DIM][2 * DIM], bias[DIM];
	struct bridge bridge;
	struct mask skip;
	float logits[VOCAB];
	struct result out;
};

static const int32_t chain[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                  16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

static void open_case(struct bridge_case* c, const char* isa, int first, int last, float scale) {
	static const enum dtype types[] = {DTYPE_F32};
	const struct backend_options options = {.threads = 2, .isa = isa, .context = CONTEXT};
	const struct model_shape shape = random_shape(BLOCKS, DIM, 4, 2, 16, 96, VOCAB);
	struct random random = {17};
	struct error error;
	memset(c, 0, sizeof *c);
	c->model = random_model_make(&shape, types, 1, 0, 5);
	c->backend = cpu_open(&c->model->weights, &options, &error);
	assert_non_null(c->backend);
	assert_true(c->backend->has_bridges);
	c->cache = c->backend->cache_open(c->backend, CONTEXT, DTYPE_F32, &error);
	assert_non_null(c->cache);
	for (int i = 0; i < DIM; i++) {
		c->bias[i] = scale * random_normal(&random);
		for (int j = 0; j < 2 * DIM; j++)
			c->weight[i][j] = scale * random_normal(&random) / 16;
	}
	c->bridge = (struct bridge){
	    first, last, {.type = DTYPE_F32, .rows = DIM, .cols = 2 * DIM, .data = c->weight}, c->bias};
	for (int s = first; s < last; s++)
		mask_set(&c->skip, s, true);
	c->out.logits = c->logits;
}

static void close_case(struct bridge_case* c) {
	c->backend->cache_close(c->cache);
	c->backend->close(c->backend);
	random_model_free(c->model);
}

static int32_t token_at(int i) { return (i * 37 + 11) % VOCAB; }

/* Full rows that follow the committed ones, and are; the last one's final state. */
static void add_text(struct bridge_case* c, int n, enum pass_kind kind, float final[DIM]) {
	int32_t token[PREFILL_CHUNK];
	static float states[PREFILL_CHUNK][DIM];
	struct error error;
	for (int i = 0; i < n; i++)
		token[i] = token_at(c->cache->committed + i);
	c->cache->prompt_length = n;
	const struct segment segment = {.cache = c->cache, .base = c->cache->committed, .n = n};
	struct pass pass = {.kind = kind,
	                    .n = n,
	                    .n_segments = 1,
	                    .segment = &segment,
	                    .token = token,
	                    .last = LAST,
	                    .tap = LAST - 1,
	                    .tap_out = &states[0][0]};
	assert_true(c->backend->run(c->backend, &pass, &error));
	memcpy(final, states[n - 1], DIM * sizeof(float));
	if (kind == PASS_EXACT)
		c->backend->commit(c->cache, chain, n);
}

/* One row behind `parent`, which began with a token, or with a state before sub-layer `first`. */
static void run_row(struct bridge_case* c, int base, int32_t parent, const struct bridge* bridge,
                    int32_t token, int first, const float* state, float final[DIM]) {
	struct error error;
	const uint8_t want = WANT_TOKEN | WANT_LOGITS;
	const struct segment segment = {.cache = c->cache, .base = base, .n = 1};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = 1,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = state ? NULL : &token,
	                          .parent = &parent,
	                          .state = state,
	                          .skip = state ? NULL : &c->skip,
	                          .bridge = bridge,
	                          .first = first,
	                          .last = LAST,
	                          .head = true,
	                          .tap = final ? LAST - 1 : -1,
	                          .tap_out = final,
	                          .want = &want,
	                          .out = &c->out};
	assert_true(c->backend->run(c->backend, &pass, &error));
}

/* to = x + weight·[x; final] + bias in doubles. */
static void expected(const struct bridge_case* c, const float x[DIM], const float* final, float to[DIM]) {
	for (int i = 0; i < DIM; i++) {
		double sum = (double)x[i] + (double)c->bias[i];
		for (int j = 0; j < DIM; j++)
			sum += (double)c->weight[i][j] * (double)x[j] +
			       (final ? (double)c->weight[i][DIM + j] * (double) final[j] : 0);
		to[i] = (float)sum;
	}
}

static void assert_close(const float a[VOCAB], const float b[VOCAB]) {
	for (int i = 0; i < VOCAB; i++)
		assert_true(fabs((double)a[i] - (double)b[i]) < 1e-4 * (1 + fabs((double)b[i])));
}

/* The state before sub-layer `first` of a row behind `base` tokens. */
static void state_before(struct bridge_case* c, int base, int32_t token, int first, float x[DIM]) {
	struct error error;
	const struct segment segment = {.cache = c->cache, .base = base, .n = 1};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = 1,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = &token,
	                          .last = first,
	                          .tap = first - 1,
	                          .tap_out = x};
	assert_true(c->backend->run(c->backend, &pass, &error));
	c->backend->discard(c->cache);
}

/* What the bridge should give behind `base` tokens, the state before being `final`; and what it gives. */
static void holds_for_a_root(struct bridge_case* c, int base, const float* final) {
	float x[DIM], to[DIM], meant[VOCAB];
	state_before(c, base, 7, c->bridge.first, x);
	expected(c, x, final, to);
	run_row(c, base, -1, NULL, 0, c->bridge.last, to, NULL);
	memcpy(meant, c->logits, sizeof meant);
	c->backend->discard(c->cache);
	run_row(c, base, -1, &c->bridge, 7, 0, NULL, NULL);
	c->backend->discard(c->cache);
	assert_close(c->logits, meant);
}

static void the_last_tokens_state_is_read(void** isa) {
	struct bridge_case c;
	float final[DIM];
	open_case(&c, *isa, 3, 8, 1);
	holds_for_a_root(&c, 0, NULL);
	for (int turn = 0; turn < 2; turn++) {
		add_text(&c, 9, PASS_EXACT, final);
		holds_for_a_root(&c, c.cache->committed, final);
	}
	holds_for_a_root(&c, 12, NULL); /* among committed tokens */
	c.backend->truncate(c.cache, 12);
	holds_for_a_root(&c, 12, NULL);
	add_text(&c, 1, PASS_EXACT, final);
	holds_for_a_root(&c, 13, final);
	c.backend->truncate(c.cache, 0);
	add_text(&c, PREFILL_CHUNK, PASS_PREFILL, final);
	holds_for_a_root(&c, PREFILL_CHUNK, final);
	close_case(&c);
}

/* A span from the first sub-layer on, so that rows with states of their own have all the keys that the draft
 * has. */
static void drafted_rows_read_their_parents(void** isa) {
	struct bridge_case c;
	float final[DIM], mine[DIM], to[DIM], embedded[2][DIM], meant[2][VOCAB];
	static const int32_t token[2] = {7, 55};
	open_case(&c, *isa, 0, 4, 1);
	add_text(&c, 20, PASS_EXACT, final);
	for (int i = 0; i < 2; i++) {
		memcpy(embedded[i], (const float*)c.model->weights.embedding.data + token[i] * DIM,
		       sizeof embedded[i]);
		expected(&c, embedded[i], i == 0 ? final : mine, to);
		run_row(&c, 20, i - 1, NULL, 0, 4, to, mine);
		memcpy(meant[i], c.logits, sizeof meant[i]);
	}
	c.backend->discard(c.cache);
	for (int i = 0; i < 2; i++) {
		run_row(&c, 20, i - 1, &c.bridge, token[i], 0, NULL, NULL);
		assert_close(c.logits, meant[i]);
	}
	close_case(&c);
}

static void a_bridge_of_zeros_is_the_bare_skip(void** isa) {
	struct bridge_case c;
	float final[DIM], bare[VOCAB];
	open_case(&c, *isa, 2, 6, 0);
	add_text(&c, 30, PASS_EXACT, final);
	run_row(&c, 30, -1, NULL, 3, 0, NULL, NULL);
	memcpy(bare, c.logits, sizeof bare);
	c.backend->discard(c.cache);
	run_row(&c, 30, -1, &c.bridge, 3, 0, NULL, NULL);
	assert_memory_equal(bare, c.logits, sizeof bare);
	close_case(&c);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_prestate(the_last_tokens_state_is_read, "reference"),
	    cmocka_unit_test_prestate(the_last_tokens_state_is_read, "auto"),
	    cmocka_unit_test_prestate(drafted_rows_read_their_parents, "reference"),
	    cmocka_unit_test_prestate(drafted_rows_read_their_parents, "auto"),
	    cmocka_unit_test_prestate(a_bridge_of_zeros_is_the_bare_skip, "auto"),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
