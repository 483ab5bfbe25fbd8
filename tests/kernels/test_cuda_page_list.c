/* Page lists on the GPU: they name what the CPU's would, drafts with one read what the CPU's read, in passes
 * and in the draft loop, and noting changes no bit of an exact pass. Linked a second time with the emulated
 * device, so that it also runs where there is no GPU. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/cpu.h"
#include "tests/kernels/support_page_list.h"
#include "tests/kernels/support_random_model.h"
#include "tests/must.h"
#ifdef SWIFTLET_EMULATED
#include "tests/kernels/cuda_emulation/emulated.h"
#endif

enum { LOGITS = LIST_ROWS * LIST_VOCAB, BUDGET = 2 };

/* Random weights look at everything alike; times this they have pages that they look at most. */
static const float SHARP = 6;

/* window: of some blocks; 0: all see the whole text. */
static struct random_model* make_model(int n_blocks, int window, enum dtype type, uint64_t seed) {
	struct model_shape shape = random_shape(n_blocks, 64, 4, 2, 32, 96, LIST_VOCAB);
	shape.attention_scale *= SHARP;
	shape.sliding_window = window;
	return random_model_make(&shape, &type, 1, window ? WITH_WINDOW : 0, seed);
}

static struct backend* open_cuda(const struct random_model* m, int devices) {
	const struct backend_options options = {.context = LIST_CONTEXT, .devices = devices};
	return must_open(cuda_open, &m->weights, &options);
}

static struct backend* open_cpu(const struct random_model* m) {
	const struct backend_options options = {.threads = 1, .isa = "auto", .context = LIST_CONTEXT};
	return must_open(cpu_open, &m->weights, &options);
}

static double distance(const float* a, const float* b, int n) {
	double apart = 0, size = 0;
	for (int i = 0; i < n; i++) {
		apart += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
		size += (double)b[i] * b[i];
	}
	return sqrt(apart / size);
}

/* ---- what every backend is held to ---------------------------------------------------------- */

static void whole_lists(void** state) {
	(void)state;
	static const char* const launches[] = {"early", "separate", "fused"};
	for (int round = 0; round < 3; round++) {
		struct random_model* m =
		    make_model(2, round == 1 ? 100 : 0, round == 2 ? DTYPE_BF16 : DTYPE_F16, 7 + (uint64_t)round);
		setenv("SWIFTLET_CUDA_LAUNCHES", launches[round], 1);
		struct backend* b = open_cuda(m, round % 2);
		check_whole_list(b, DTYPE_F16, 300 + 90 * round, 3 + (uint64_t)round);
		b->close(b);
		random_model_free(m);
	}
	unsetenv("SWIFTLET_CUDA_LAUNCHES");
}

static void unlisted_pages(void** state) {
	(void)state;
	struct random_model* m = make_model(1, 0, DTYPE_F16, 70);
	struct backend* b = open_cuda(m, 0);
	check_unlisted_pages(b, DTYPE_F16, 600, 30);
	b->close(b);
	random_model_free(m);
}

static void lists(void** state) {
	(void)state;
	int32_t page[3 * 5];
	struct random_model* m = make_model(3, 0, DTYPE_F16, 5);
	struct backend* b = open_cuda(m, 0);
	check_lists(b, 18, page);
	b->close(b);
	random_model_free(m);
}

/* ---- beside the CPU ------------------------------------------------------------------------- */

/* The mass that a CPU's cache has of a page in a block. */
static float mass_of(const struct cache* c, int block, int page) {
	const int pages = look_pages((const struct cpu_backend*)c->backend);
	return ((const struct cpu_cache*)c)->mass[block * pages + page];
}

/* Each listed page has, on the CPU, at least about the mass of the last one that the CPU lists; most pages
 * have clearly less, so that another list would not pass. */
static void compare_lists(const struct page_list* list, const struct page_list* other,
                          const struct cache* cpu, int block, int* fit) {
	float least_mass = INFINITY;
	for (int i = 1; i < list->n; i++)
		least_mass = fminf(least_mass, mass_of(cpu, block, other->page[block * list->n + i]));
	for (int i = 1; i < list->n; i++)
		assert_true(mass_of(cpu, block, list->page[block * list->n + i]) > 0.95f * least_mass);
	for (int p = 1; p < list->from / LIST_POSITIONS; p++)
		*fit += mass_of(cpu, block, p) > 0.95f * least_mass;
}

#ifdef SWIFTLET_EMULATED
/* All of them, decay and rows' order included. */
static void compare_masses(const struct cache* cuda, const struct cache* cpu, int blocks) {
	const int pages = cuda->committed / LIST_POSITIONS;
	float* mass = calloc((size_t)pages * (size_t)blocks, sizeof *mass);
	emulated_mass(cuda, pages, mass);
	for (int i = 0; i < blocks; i++) {
		double apart = 0, size = 0;
		for (int p = 0; p < pages; p++) {
			const double own = mass[p * blocks + i], of_cpu = mass_of(cpu, i, p);
			apart += (own - of_cpu) * (own - of_cpu);
			size += of_cpu * of_cpu;
		}
		if (!(size > 0 ? apart < 1e-4 * size : apart == 0))
			fail_msg("block %d: %g of the CPU's masses apart", i, sqrt(apart / size));
	}
	free(mass);
}
#endif

/* Prompts by exact rows, then rows one by one; forgotten tokens have no mass. */
static void the_cpus_lists(void** state) {
	(void)state;
	enum { BLOCKS = 3, TOKENS = 620 };
	int32_t token[LIST_CONTEXT], page[2][BLOCKS * (BUDGET + 1)];
	int fit = 0;
	for (int round = 0; round < 2; round++) {
		struct random_model* m = make_model(BLOCKS, round ? 100 : 0, DTYPE_F16, 5 + (uint64_t)round);
		struct backend* b[2] = {open_cuda(m, round), open_cpu(m)};
		struct cache* c[2];
		struct page_list list[2];
		list_text(token, LIST_CONTEXT, 1);
		for (int i = 0; i < 2; i++) {
			c[i] = list_cache(b[i], DTYPE_F16);
			list_commit(c[i], token, 520, 100, true);
			list_commit(c[i], token, 600, 1, true);
			b[i]->truncate(c[i], 570);
			list_commit(c[i], token + 20, TOKENS, 7, true); /* another continuation */
			assert_true(b[i]->list_pages(c[i], BUDGET, page[i], &list[i]));
		}
#ifdef SWIFTLET_EMULATED
		compare_masses(c[0], c[1], BLOCKS);
#endif
		for (int i = 0; i < BLOCKS; i++)
			if (!round || !block_set_has(&m->weights.shape.sliding, i))
				compare_lists(&list[0], &list[1], c[1], i, &fit);
		for (int i = 0; i < 2; i++) {
			b[i]->cache_close(c[i]);
			b[i]->close(b[i]);
		}
		random_model_free(m);
	}
	/* of seven pages in each of four blocks with full attention */
	if (fit > 14)
		fail_msg("%d pages are looked at alike", fit);
}

/* A prefill by the library has its last rows noted too. */
static void chunks_are_noted(void** state) {
	(void)state;
	int32_t token[LIST_CONTEXT], page[2 * 2];
	struct page_list list;
	struct random_model* m = make_model(2, 0, DTYPE_F16, 8);
	struct backend* b = open_cuda(m, 0);
	struct backend* cpu = open_cpu(m);
	struct cache *c = list_cache(b, DTYPE_F16), *d = list_cache(cpu, DTYPE_F16);
	list_text(token, 2 * PREFILL_CHUNK, 2);
	for (struct cache* of = c; of; of = of == c ? d : NULL)
		while (of->committed < 2 * PREFILL_CHUNK) {
			const struct segment segment = {
			    .cache = of, .base = of->committed, .n = PREFILL_CHUNK, .noted = true};
			struct pass pass = pass_over(&segment, token + of->committed, NULL, 4, NULL, NULL);
			pass.kind = PASS_PREFILL;
			must_run(of->backend, &pass);
		}
	assert_true(b->list_pages(c, 1, page, &list));
#ifdef SWIFTLET_EMULATED
	compare_masses(c, d, 2);
#endif
	b->cache_close(c);
	cpu->cache_close(d);
	b->close(b);
	cpu->close(cpu);
	random_model_free(m);
}

/* The window has more chunks than the list. */
static void the_cpus_drafts(void** state) {
	(void)state;
	static const int32_t page[3 * 4] = {0, 1, 4, 6, 0, 2, 3, 5, 0, 1, 2, 6};
	int32_t token[LIST_CONTEXT];
	float cuda[LOGITS], cpu[LOGITS], all[LOGITS];
	for (int round = 0; round < 2; round++) {
		struct random_model* m = make_model(3, round ? 400 : 0, DTYPE_F16, 15 + (uint64_t)round);
		struct backend *b = open_cuda(m, 0), *reference = open_cpu(m);
		struct cache *c = list_cache(b, DTYPE_F16), *d = list_cache(reference, DTYPE_F16);
		const struct page_list list = {.from = 7 * LIST_POSITIONS, .n = 4, .page = page};
		const int n = 540 + 30 * round;
		list_text(token, n, 4);
		list_commit(c, token, n, 100, false);
		list_commit(d, token, n, 100, false);
		list_draft(c, &list, cuda);
		list_draft(d, &list, cpu);
		list_draft(c, NULL, all);
		const double apart = distance(cuda, cpu, LOGITS), shift = distance(all, cpu, LOGITS);
		if (!(apart < 0.02 && shift > 4 * apart))
			fail_msg("%g from the CPU's draft; without a list %g", apart, shift);
		b->cache_close(c);
		reference->cache_close(d);
		b->close(b);
		reference->close(reference);
		random_model_free(m);
	}
}

/* ---- bits ----------------------------------------------------------------------------------- */

/* Three sequences in a pass: one with a list, one that is noted, one with another list. Each has its bits
 * alone, whether it is noted or not. */
static void others_change_nothing(void** state) {
	(void)state;
	enum { ROWS = 4, SEQUENCES = 3 };
	static const int32_t pages[2][4] = {{0, 3, 0, 1}, {0, 2, 0, 4}};
	static float logits[2][SEQUENCES * ROWS * LIST_VOCAB];
	struct page_list list[2];
	struct random_model* m = make_model(2, 0, DTYPE_F16, 25);
	struct backend* b = open_cuda(m, 0);
	struct segment segment[SEQUENCES];
	struct result out[SEQUENCES * ROWS];
	uint8_t want[SEQUENCES * ROWS];
	int32_t token[LIST_CONTEXT], parent[SEQUENCES * ROWS];
	for (int i = 0; i < 2; i++)
		list[i] = (struct page_list){.from = (5 + i) * LIST_POSITIONS, .n = 2, .page = pages[i]};
	for (int i = 0; i < SEQUENCES; i++) {
		struct cache* c = list_cache(b, DTYPE_F16);
		list_text(token, 500, 9 + (uint64_t)i);
		list_commit(c, token, 400 + 45 * i, 100, false);
		segment[i] = (struct segment){.cache = c, .base = c->committed, .n = ROWS};
		segment[i].pages = i == 1 ? NULL : &list[i / 2];
		for (int r = 0; r < ROWS; r++)
			parent[i * ROWS + r] = r == 2 ? 0 : r - 1;
	}
	for (int together = 0; together < 2; together++) {
		segment[1].noted = together;
		for (int i = 0; i < SEQUENCES * ROWS; i++) {
			want[i] = WANT_LOGITS;
			out[i].logits = logits[together] + i * LIST_VOCAB;
		}
		for (int i = 0; i < (together ? 1 : SEQUENCES); i++) {
			const int n = together ? SEQUENCES * ROWS : ROWS;
			struct pass pass = pass_over(&segment[i], token + i * ROWS, parent + i * ROWS, 4, want + i * ROWS,
			                             out + i * ROWS);
			pass.n = n;
			pass.n_segments = n / ROWS;
			pass.head = true;
			must_run(b, &pass);
		}
		for (int i = 0; i < SEQUENCES; i++)
			b->discard(segment[i].cache);
	}
	assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
	for (int i = 0; i < SEQUENCES; i++)
		b->cache_close(segment[i].cache);
	b->close(b);
	random_model_free(m);
}

enum { STEPS = 40 };

static void draft_in_steps(struct cache* c, const struct page_list* list, int32_t token,
                           struct result out[STEPS]) {
	struct backend* b = c->backend;
	static const uint8_t want = WANT_TOKEN | WANT_TOP | WANT_GUESS;
	for (int32_t i = 0; i < STEPS; i++) {
		const int32_t parent = i - 1;
		const struct segment segment = {.cache = c, .base = c->committed, .n = 1, .pages = list};
		out[i] = (struct result){.top = 3};
		struct pass pass =
		    pass_over(&segment, &token, &parent, 2 * b->weights->shape.n_blocks, &want, &out[i]);
		pass.head = true;
		must_run(b, &pass);
		token = out[i].token;
	}
	b->discard(c);
}

static bool same_result(const struct result* a, const struct result* b) {
	bool same = a->token == b->token && a->max_probability == b->max_probability && a->top == b->top;
	for (int i = 0; i < a->top; i++)
		same = same && a->top_token[i] == b->top_token[i] && a->top_probability[i] == b->top_probability[i];
	return same;
}

/* The loop gives the bits of steps, over the borders of pages and chunks, and ignores that its segment is
 * noted. */
static void the_loop_reads_the_list(void** state) {
	(void)state;
	static const int32_t page[] = {0, 4, 0, 2};
	struct page_list list = {.from = 6 * LIST_POSITIONS, .n = 2, .page = page};
	static struct result looped[STEPS], stepped[STEPS], all[STEPS];
	struct draft_policy policy = {.max_steps = STEPS, .top = 3};
	int32_t token[LIST_CONTEXT], none[2 * 2];
	struct page_list listed;
	struct random_model* m = make_model(2, 0, DTYPE_F16, 35);
	struct backend* b = open_cuda(m, 0);
	struct cache* c = list_cache(b, DTYPE_F16);
	struct error error;
	for (int i = 0; i < DRAFT_BINS; i++)
		policy.accept[i] = 1;
	list_text(token, 500, 3);
	list_commit(c, token, 490, 100, false); /* 128 + 106 places, and 40 more */
	struct segment segment = {.cache = c, .base = c->committed, .n = 1, .pages = &list, .noted = true};
	assert_int_equal(b->draft(b, &segment, token[490], NULL, NULL, false, NULL, &policy, looped, &error),
	                 STEPS);
	b->discard(c);
	assert_false(b->list_pages(c, 1, none, &listed));
	draft_in_steps(c, &list, token[490], stepped);
	segment.pages = NULL;
	assert_int_equal(b->draft(b, &segment, token[490], NULL, NULL, false, NULL, &policy, all, &error), STEPS);
	b->discard(c);
	int shifted = 0;
	for (int i = 0; i < STEPS; i++) {
		assert_true(same_result(&looped[i], &stepped[i]));
		shifted += !same_result(&looped[i], &all[i]);
	}
	assert_true(shifted > STEPS / 2);
	b->cache_close(c);
	b->close(b);
	random_model_free(m);
}

#ifdef SWIFTLET_EMULATED
/* However many rows a pass has, and by either way to combine the chunks. */
static void the_same_masses(void** state) {
	(void)state;
	enum { BLOCKS = 2, PAGES = 5 };
	static const int rows[] = {32, 5, 13};
	int32_t token[LIST_CONTEXT];
	float mass[3][PAGES * BLOCKS];
	struct random_model* m = make_model(BLOCKS, 0, DTYPE_F16, 55);
	list_text(token, LIST_CONTEXT, 3);
	for (int i = 0; i < 3; i++) {
		setenv("SWIFTLET_CUDA_LAUNCHES", i == 1 ? "separate" : "early", 1);
		struct backend* b = open_cuda(m, 0);
		struct cache* c = list_cache(b, DTYPE_F16);
		list_commit(c, token, 250, 100, false);
		list_commit(c, token, 310, rows[i], true);
		emulated_mass(c, PAGES, mass[i]);
		b->cache_close(c);
		b->close(b);
	}
	unsetenv("SWIFTLET_CUDA_LAUNCHES");
	assert_memory_equal(mass[0], mass[1], sizeof mass[0]);
	assert_memory_equal(mass[0], mass[2], sizeof mass[0]);
	random_model_free(m);
}

/* A pass without noted rows has no more launches than before, one with them one more. Several devices make no
 * lists. */
static void what_it_costs(void** state) {
	(void)state;
	int32_t token[LIST_CONTEXT];
	struct random_model* m = make_model(2, 0, DTYPE_F16, 45);
	struct backend* b = open_cuda(m, 0);
	struct cache* c = list_cache(b, DTYPE_F16);
	unsigned long launches[2];
	list_text(token, 40, 3);
	list_commit(c, token, 10, 10, true);
	for (int noted = 0; noted < 2; noted++) {
		const unsigned long before = emulated_counts().launches;
		list_commit(c, token, 20 + 10 * noted, 10, noted);
		launches[noted] = emulated_counts().launches - before;
	}
	assert_int_equal(launches[1], launches[0] + 1);
	b->cache_close(c);
	b->close(b);
	setenv("EMULATED_DEVICES", "2", 1);
	b = open_cuda(m, 2);
	assert_null(b->list_pages);
	c = list_cache(b, DTYPE_F16);
	list_commit(c, token, 10, 10, true);
	b->cache_close(c);
	b->close(b);
	unsetenv("EMULATED_DEVICES");
	random_model_free(m);
}
#endif

int main(void) {
	if (!gpu_is_here())
		return 77;
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(whole_lists),
	    cmocka_unit_test(unlisted_pages),
	    cmocka_unit_test(lists),
	    cmocka_unit_test(the_cpus_lists),
	    cmocka_unit_test(chunks_are_noted),
	    cmocka_unit_test(the_cpus_drafts),
	    cmocka_unit_test(others_change_nothing),
	    cmocka_unit_test(the_loop_reads_the_list),
#ifdef SWIFTLET_EMULATED
	    cmocka_unit_test(the_same_masses),
	    cmocka_unit_test(what_it_costs),
#endif
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
