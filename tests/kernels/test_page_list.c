/* Drafts that read the pages of a list: of all pages, the bits of a draft that reads everything; of some,
 * nothing that lies in the others. And lists name what rows looked at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/cpu/kernels.h"
#include "tests/kernels/support_page_list.h"
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"
#include "tests/sanitized.h"

/* Heads of one size, of two sizes and blocks that read others' keys (Gemma 4), or latent keys (DeepSeek-V2).
 */
enum kind { USUAL, TWO_SIZES, LATENT, KINDS };

static struct random_model* make_model(enum kind kind, int n_blocks, int with, uint64_t seed) {
	static const enum dtype types[] = {DTYPE_F16};
	struct model_shape shape = random_shape(n_blocks, 64, 4, kind == LATENT ? 1 : 2, 32, 96, LIST_VOCAB);
	if (kind == TWO_SIZES) {
		shape.full_head_dim = shape.rope.dim = 64;
		shape.full_kv_heads = 4;
		shape.sliding_rope = (struct rope){.dim = 32, .theta = 100, .factor = 1, .attention_factor = 1};
		shape.sharing_from = n_blocks - 1;
	}
	if (kind == LATENT) {
		shape.rope.dim = 8;
		shape.latent = 24;
		shape.query_latent = 12;
		shape.nope_dim = 10;
		shape.value_dim = 14;
		shape.latent_epsilon = 1e-6f;
	}
	if (with & WITH_WINDOW)
		shape.sliding_window = 100;
	return random_model_make(&shape, types, 1, with, seed);
}

static struct backend* open_backend(const struct random_model* m, const char* isa, int threads) {
	const struct backend_options options = {.threads = threads, .isa = isa, .context = LIST_CONTEXT};
	return must_open(cpu_open, &m->weights, &options);
}

static const char* const isas[] = {"reference", "auto", "avx2"};
static const enum dtype types[] = {DTYPE_F16, DTYPE_F32, DTYPE_Q8_0};

static bool runs_here(const char* isa) {
	struct error error;
	return cpu_kernels_choose(isa, &error) != NULL;
}

static void whole_lists(void** state) {
	(void)state;
	/* sanitized, every fifth way: all kinds, instruction sets, types and windows are still among them */
	for (int round = 0; round < 18 * KINDS; round += SANITIZED ? 5 : 1) {
		if (!runs_here(isas[round % 3]))
			continue;
		struct random_model* m =
		    make_model((enum kind)(round / 18), 4, round % 2 ? WITH_WINDOW : 0, 7 + (uint64_t)round);
		struct backend* b = open_backend(m, isas[round % 3], 1 + round % 2);
		/* the tail begins early or late; the reference is slow */
		const int n = round % 3 ? 300 + 47 * round % 500 : 260 + 47 * round % 100;
		check_whole_list(b, types[round / 3 % 3], n, 3 + (uint64_t)round);
		b->close(b);
		random_model_free(m);
	}
}

static void unlisted_pages(void** state) {
	(void)state;
	for (int round = 0; round < 12; round++) {
		if (!runs_here(isas[round % 3]))
			continue;
		struct random_model* m = make_model(round % 2 ? LATENT : USUAL, 1, 0, 70 + (uint64_t)round);
		struct backend* b = open_backend(m, isas[round % 3], 1 + round % 2);
		check_unlisted_pages(b, types[round / 3 % 3], 600 + 13 * round, 30 + (uint64_t)round);
		b->close(b);
		random_model_free(m);
	}
}

/* The same lists however many threads and rows a pass had. */
static void lists_of(enum kind kind) {
	int32_t page[2][3 * 5];
	struct random_model* m = make_model(kind, 3, 0, 5);
	for (int threads = 1; threads <= 2; threads++) {
		struct backend* b = open_backend(m, "auto", threads);
		check_lists(b, threads == 1 ? 20 : 5, page[threads - 1]);
		b->close(b);
	}
	assert_memory_equal(page[0], page[1], sizeof page[0]);
	random_model_free(m);
}

static void lists(void** state) {
	(void)state;
	for (int kind = 0; kind < KINDS; kind++)
		lists_of((enum kind)kind);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(whole_lists), cmocka_unit_test(unlisted_pages),
	                                   cmocka_unit_test(lists)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
