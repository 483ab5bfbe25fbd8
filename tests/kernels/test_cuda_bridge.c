/* Bridges on the GPU: drafts' passes with one are those of the CPU's reference within rounding, whatever the
 * row before is; the draft loop is its passes, bit for bit; and so are several devices, launches one by one,
 * low-bit copies that came before or after. Linked a second time with the emulated device, so that it also
 * runs where there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/low.h"
#include "tests/kernels/support_random_model.h"

enum { BLOCKS = 4, DIM = 64, WIDE = 256, VOCAB = 96, CONTEXT = 300, STEPS = 6, MANY = 66, ROWS = 90 };

/* ---- a bridge, and who crosses it ---------------------------------------------------------- */

struct crossing {
	float weight[WIDE * 2 * WIDE], bias[WIDE];
	struct bridge bridge;
	struct mask skip;
};

static struct crossing* crossing_make(int dim, int first, int last) {
	struct crossing* x = calloc(1, sizeof *x);
	struct random random = {(uint64_t)(first + 17)};
	for (int i = 0; i < dim; i++)
		x->bias[i] = random_normal(&random);
	for (int i = 0; i < 2 * dim * dim; i++)
		x->weight[i] = random_normal(&random) / 16;
	x->bridge = (struct bridge){
	    first, last, {.type = DTYPE_F32, .rows = dim, .cols = 2 * dim, .data = x->weight}, x->bias};
	for (int s = first; s < last; s++)
		mask_set(&x->skip, s, true);
	return x;
}

static struct backend* open_backend(bool gpu, const struct weight_table* w, int devices) {
	struct error error = {""};
	const struct backend_options options = {
	    .isa = "reference", .threads = 1, .context = CONTEXT, .devices = devices};
	struct backend* b = (gpu ? cuda_open : cpu_open)(w, &options, &error);
	if (!b)
		fail_msg("%s", error.message);
	assert_true(b->has_bridges);
	return b;
}

static struct cache* open_cache(struct backend* b) {
	struct error error = {""};
	struct cache* c = b->cache_open(b, CONTEXT, DTYPE_F16, &error);
	if (!c)
		fail_msg("%s", error.message);
	return c;
}

static void use(struct backend* b, const struct bridge* bridge) {
	struct error error = {""};
	if (b->use_bridge && !b->use_bridge(b, bridge, &error))
		fail_msg("%s", error.message);
}

static void run(struct backend* b, const struct pass* pass) {
	struct error error = {""};
	if (!b->run(b, pass, &error))
		fail_msg("%s", error.message);
}

/* ---- the same text and the same drafts on any backend ---------------------------------------- */

struct game {
	struct backend* b;
	struct cache *c, *other;
	const struct crossing* x;
	const struct mask* low;
	bool bare;
	int many;
	float logits[ROWS][VOCAB];
	int rows;
};

/* The next tokens of both sequences, n and m, as text. */
static void add_text(struct game* g, enum pass_kind kind, int n, int m) {
	static const int32_t path[8] = {0, 1, 2, 3, 4, 5, 6, 7};
	static const uint8_t want[PREFILL_CHUNK] = {0};
	int32_t token[PREFILL_CHUNK];
	for (int i = 0; i < n + m; i++)
		token[i] = (i * 37 + 11 + g->c->committed) % VOCAB;
	const struct segment segment[] = {{.cache = g->c, .base = g->c->committed, .n = n},
	                                  {.cache = g->other, .base = g->other->committed, .n = m}};
	const struct pass pass = {.kind = kind,
	                          .n = n + m,
	                          .n_segments = m > 0 ? 2 : 1,
	                          .segment = segment,
	                          .token = token,
	                          .last = 2 * BLOCKS,
	                          .tap = -1,
	                          .want = want};
	run(g->b, &pass);
	if (kind == PASS_EXACT)
		g->b->commit(g->c, path, n);
}

/* n rows behind one, with a bridge; their logits are kept. */
static void draft(struct game* g, struct cache* c, int base, int32_t parent, int n) {
	static struct result out[MANY];
	int32_t token[MANY], parents[MANY];
	uint8_t want[MANY];
	assert_true(g->rows + n <= ROWS);
	for (int i = 0; i < n; i++) {
		token[i] = (i * 13 + 7) % VOCAB;
		parents[i] = parent;
		want[i] = WANT_TOKEN | WANT_LOGITS;
		out[i].logits = g->logits[g->rows++];
	}
	const struct segment segment = {.cache = c, .base = base, .n = n};
	const struct pass pass = {.kind = PASS_EXACT,
	                          .n = n,
	                          .n_segments = 1,
	                          .segment = &segment,
	                          .token = token,
	                          .parent = parents,
	                          .skip = &g->x->skip,
	                          .bridge = g->bare ? NULL : &g->x->bridge,
	                          .low = g->low,
	                          .last = 2 * BLOCKS,
	                          .head = true,
	                          .tap = -1,
	                          .want = want,
	                          .out = out};
	run(g->b, &pass);
}

static void play(struct game* g) {
	g->c = open_cache(g->b);
	g->other = open_cache(g->b);
	g->rows = 0;
	draft(g, g->c, 0, -1, 1); /* behind nothing */
	g->b->discard(g->c);
	add_text(g, PASS_EXACT, 8, 0);
	draft(g, g->c, 8, -1, 1);
	draft(g, g->c, 8, 0, 3); /* behind a row of the draft's own, which has siblings then */
	draft(g, g->c, 8, 2, 2);
	g->b->discard(g->c);
	draft(g, g->c, 5, -1, 1); /* among the text */
	g->b->discard(g->c);
	g->b->truncate(g->c, 4);
	draft(g, g->c, 4, -1, 1);
	g->b->discard(g->c);
	add_text(g, PASS_EXACT, 1, 0);
	draft(g, g->c, 5, -1, g->many);
	g->b->discard(g->c);
	add_text(g, PASS_PREFILL, 20, 12);
	draft(g, g->c, 25, -1, 1);
	draft(g, g->other, 12, -1, 1);
	draft(g, g->other, 12, 0, 1);
	g->b->cache_close(g->c);
	g->b->cache_close(g->other);
}

/* The greatest distance of a row's logits from another's, over their length. */
static double apart(const struct game* a, const struct game* b) {
	double most = 0;
	assert_int_equal(a->rows, b->rows);
	for (int i = 0; i < a->rows; i++) {
		double square = 0, size = 0;
		for (int v = 0; v < VOCAB; v++) {
			const double d = (double)a->logits[i][v] - (double)b->logits[i][v];
			square += d * d;
			size += (double)b->logits[i][v] * (double)b->logits[i][v];
		}
		most = square / size > most ? square / size : most;
	}
	return most;
}

static struct game* game_of(struct backend* b, const struct crossing* x) {
	struct game* g = calloc(1, sizeof *g);
	g->b = b;
	g->x = x;
	g->many = MANY; /* of two slices */
	return g;
}

static void same_bits(const struct game* a, const struct game* b) {
	assert_memory_equal(a->logits, b->logits, sizeof a->logits);
}

/* ---- against the CPU's reference --------------------------------------------------------------- */

static void compare(enum dtype type, int with, int first, int last, double bound) {
	const struct model_shape shape = random_shape(BLOCKS, DIM, 4, 2, 16, 96, VOCAB);
	struct random_model* m = random_model_make(&shape, &type, 1, with, 5);
	struct crossing* x = crossing_make(DIM, first, last);
	struct backend *gpu = open_backend(true, &m->weights, 0), *cpu = open_backend(false, &m->weights, 0);
	struct game *a = game_of(gpu, x), *b = game_of(cpu, x), *bare = game_of(gpu, x);
	use(gpu, &x->bridge);
	play(a);
	play(b);
	if (apart(a, b) > bound)
		fail_msg("%s, [%d, %d): %g", dtype_name(type), first, last, apart(a, b));
	/* without it the same rows are others, and those that are not bridged are as ever */
	bare->bare = true;
	play(bare);
	assert_true(apart(bare, a) > 100 * bound);
	b->bare = true;
	play(b);
	assert_true(apart(bare, b) < bound);
	gpu->close(gpu);
	cpu->close(cpu);
	free(a);
	free(b);
	free(bare);
	free(x);
	random_model_free(m);
}

static void the_pass_is_the_references(void** state) {
	(void)state;
	compare(DTYPE_F16, 0, 2, 6, 1e-4);
	compare(DTYPE_F16, WITH_BIASES | WITH_POST_NORMS, 3, 6, 1e-4);
	compare(DTYPE_F16, 0, 0, 4, 1e-4); /* from the first sub-layer on */
	compare(DTYPE_F16, 0, 4, 8, 1e-4); /* to the last */
	compare(DTYPE_BF16, 0, 2, 6, 2e-3);
	compare(DTYPE_Q8_0, 0, 2, 6, 4e-3); /* the reference rounds activations to bytes */
}

/* ---- the loop ------------------------------------------------------------------------------------ */

static void by_hand(struct backend* b, struct cache* c, const struct crossing* x, const struct mask* low,
                    int32_t token, struct result* out) {
	const uint8_t want = WANT_TOKEN | WANT_TOP;
	for (int d = 0; d < STEPS; d++) {
		const int32_t parent = d - 1;
		const struct segment segment = {.cache = c, .base = c->committed, .n = 1};
		const struct pass pass = {.n = 1,
		                          .kind = PASS_EXACT,
		                          .n_segments = 1,
		                          .segment = &segment,
		                          .token = &token,
		                          .parent = &parent,
		                          .skip = &x->skip,
		                          .bridge = &x->bridge,
		                          .low = low,
		                          .last = 2 * b->weights->shape.n_blocks,
		                          .head = true,
		                          .tap = -1,
		                          .want = &want,
		                          .out = &out[d]};
		out[d].top = 3;
		run(b, &pass);
		token = out[d].token;
	}
	b->discard(c);
}

static void loops_are_passes(struct backend* b, const struct crossing* x, const struct mask* low) {
	struct result got[STEPS] = {{0}}, expected[STEPS] = {{0}};
	struct draft_policy policy = {.max_steps = STEPS, .top = 3};
	struct error error = {""};
	struct game g = {.b = b, .c = open_cache(b), .other = open_cache(b)};
	for (int i = 0; i < DRAFT_BINS; i++)
		policy.accept[i] = 1;
	for (int text = 0; text < 3; text++) {
		const struct segment segment = {.cache = g.c, .base = g.c->committed, .n = 1};
		assert_int_equal(
		    b->draft(b, &segment, 5 + text, &x->skip, &x->bridge, low, false, &policy, got, &error), STEPS);
		b->discard(g.c);
		by_hand(b, g.c, x, low, 5 + text, expected);
		for (int d = 0; d < STEPS; d++) {
			assert_int_equal(got[d].token, expected[d].token);
			assert_memory_equal(got[d].top_token, expected[d].top_token, 3 * sizeof(int32_t));
			assert_memory_equal(got[d].top_probability, expected[d].top_probability, 3 * sizeof(float));
		}
		add_text(&g, PASS_EXACT, 3, 0);
	}
	b->cache_close(g.c);
	b->cache_close(g.other);
}

static void the_loop_is_its_passes(void** state) {
	(void)state;
	static const enum dtype type = DTYPE_F16;
	const struct model_shape shape = random_shape(BLOCKS, DIM, 4, 2, 16, 96, VOCAB);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 9);
	struct crossing* x = crossing_make(DIM, 2, 6);
	struct backend* b = open_backend(true, &m->weights, 0);
	use(b, &x->bridge);
	loops_are_passes(b, x, NULL);
	b->close(b);
	free(x);
	random_model_free(m);
}

/* ---- ways to the same bits ----------------------------------------------------------------------- */

/* One in another's place, another span; kernel by kernel; on two devices. */
static void ways_give_the_same_bits(void** state) {
	(void)state;
	static const enum dtype type = DTYPE_F16;
	const struct model_shape shape = random_shape(BLOCKS, DIM, 4, 2, 16, 96, VOCAB);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 9);
	struct crossing *x = crossing_make(DIM, 2, 6), *other = crossing_make(DIM, 4, 6);
	struct backend* b = open_backend(true, &m->weights, 1);
	struct game *first = game_of(b, x), *again = game_of(b, x);
	use(b, &x->bridge);
	play(first);
	use(b, &other->bridge);
	again->x = other;
	play(again);
	assert_true(apart(again, first) > 0.01);
	use(b, &x->bridge);
	again->x = x;
	play(again);
	same_bits(first, again);
	b->close(b);
	setenv("SWIFTLET_CUDA_GRAPHS", "off", 1);
	again->b = open_backend(true, &m->weights, 1);
	unsetenv("SWIFTLET_CUDA_GRAPHS");
	use(again->b, &x->bridge);
	play(again);
	same_bits(first, again);
	again->b->close(again->b);
#ifdef SWIFTLET_EMULATED
	again->b = open_backend(true, &m->weights, 2);
	use(again->b, &x->bridge);
	play(again);
	same_bits(first, again);
	again->b->close(again->b);
#endif
	free(first);
	free(again);
	free(x);
	free(other);
	random_model_free(m);
}

/* A low-bit copy before the bridge or after it, the loop too. */
static void with_a_low_copy(void** state) {
	(void)state;
	static const enum dtype type = DTYPE_F16;
	const struct model_shape shape = random_shape(BLOCKS, WIDE, 4, 2, 64, 256, VOCAB);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 3);
	struct crossing* x = crossing_make(WIDE, 2, 4);
	struct game* game[2][2];
	struct low_table low;
	struct error error = {""};
	assert_true(low_plan(&low, &m->weights, (struct low_form){.bits = 4}, &error));
	void* data =
	    aligned_alloc(LOW_ALIGNMENT, (low.bytes + LOW_ALIGNMENT - 1) / LOW_ALIGNMENT * LOW_ALIGNMENT);
	low_place(&low, data);
	assert_true(low_make(&low, data, 1, NULL, NULL, &error));
	for (int order = 0; order < 2; order++) {
		struct backend* gpu = open_backend(true, &m->weights, 0);
		if (order == 0)
			use(gpu, &x->bridge);
		assert_true(gpu->use_low(gpu, &low, &error));
		if (order == 1)
			use(gpu, &x->bridge);
		for (int lows = 0; lows < 2; lows++) {
			struct game* g = game[order][lows] = game_of(gpu, x);
			g->many = 10;
			g->low = lows ? &low.sub_layers : NULL;
			play(g);
			same_bits(game[0][lows], g);
		}
		assert_true(apart(game[order][0], game[order][1]) > 1e-4);
		loops_are_passes(gpu, x, &low.sub_layers);
		gpu->close(gpu);
	}
	for (int i = 0; i < 4; i++)
		free(game[i / 2][i % 2]);
	free(data);
	free(x);
	low_close(&low);
	random_model_free(m);
}

/* ---- what there is no room for --------------------------------------------------------------------- */

static void refusals(void** state) {
	(void)state;
#ifdef SWIFTLET_EMULATED
	static const enum dtype type = DTYPE_F16;
	const struct model_shape shape = random_shape(BLOCKS, DIM, 4, 2, 16, 96, VOCAB);
	struct random_model* m = random_model_make(&shape, &type, 1, 0, 9);
	struct crossing* x = crossing_make(DIM, 2, 6);
	struct backend* b = open_backend(true, &m->weights, 0);
	struct error error = {""};
	setenv("EMULATED_FREE_MIB", "0", 1);
	assert_false(b->use_bridge(b, &x->bridge, &error));
	assert_non_null(strstr(error.message, "out of GPU memory for a bridge"));
	unsetenv("EMULATED_FREE_MIB");
	use(b, &x->bridge);
	loops_are_passes(b, x, NULL);
	b->close(b);
	free(x);
	random_model_free(m);
#endif
}

int main(void) {
	struct error error;
	setenv("EMULATED_DEVICES", "2", 1);
	if (!cuda_available(&error)) {
		printf("skipped: %s\n", error.message);
		return 77;
	}
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_pass_is_the_references),
	                                   cmocka_unit_test(the_loop_is_its_passes),
	                                   cmocka_unit_test(ways_give_the_same_bits),
	                                   cmocka_unit_test(with_a_low_copy), cmocka_unit_test(refusals)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
