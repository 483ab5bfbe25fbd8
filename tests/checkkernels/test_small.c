/* Fast attention, norm, gate, rounding, sum_exp and softcap against the reference: random input, odd
 * sizes, every output with poison around it. */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/key_layout.h"
#include "kernels/dtype_blocks.h"

static uint64_t random_state = 1;

static uint64_t random_bits(void) {
	uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}
static int random_below(int n) { return (int)(random_bits() % (uint64_t)n); }
static float random_float(void) { return (float)((double)(random_bits() >> 11) / 4503599627370496.0 - 1); }
static void random_row(float* x, int n, float scale) {
	for (int i = 0; i < n; i++)
		x[i] = scale * random_float();
}

/* ---- poison ------------------------------------------------------------------------------------ */

enum { MOST = 2048, GUARD = 64 };

struct guarded {
	unsigned char before[GUARD];
	unsigned char bytes[MOST * 16];
};

static void poison(struct guarded* g) { memset(g, 0xa5, sizeof *g); }

static void unharmed(const struct guarded* g, size_t used, const char* what) {
	for (size_t i = 0; i < GUARD; i++)
		if (g->before[i] != 0xa5 || g->bytes[used + i] != 0xa5)
			fail_msg("%s wrote outside its output", what);
}

static float largest_of(const float* x, int n) {
	float largest = 1e-30f;
	for (int i = 0; i < n; i++)
		largest = fmaxf(largest, fabsf(x[i]));
	return largest;
}

/* The tolerance is a share of the largest element, or of `least` if that is more: of the terms of sums that
 * may cancel out. */
static void near_terms(const float* expected, const float* got, int n, float tolerance, float least,
                       const char* what) {
	const float largest = fmaxf(least, largest_of(expected, n));
	for (int i = 0; i < n; i++)
		if (!(fabsf(expected[i] - got[i]) <= tolerance * largest))
			fail_msg("%s: element %d of %d is %g, %g was expected", what, i, n, (double)got[i],
			         (double)expected[i]);
}

static void near(const float* expected, const float* got, int n, float tolerance, const char* what) {
	near_terms(expected, got, n, tolerance, 0, what);
}

static const struct cpu_kernels* fast[MAX_ISAS];
static int n_fast;

static int find_fast(void** state) {
	(void)state;
	struct error error;
	n_fast = cpu_kernels_here(fast);
	print_message("kernels here:");
	for (int i = 0; i < n_fast; i++)
		print_message(" %s", fast[i]->name);
	print_message("\n");
	return cpu_kernels_choose("auto", &error) != (n_fast ? fast[0] : &cpu_reference);
}

static int random_size(void) {
	static const int odd[] = {1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 1000, 1023};
	return random_below(2) ? odd[random_below(14)] : 1 + random_below(1500);
}

/* ---- rows ----------------------------------------------------------------------------------------- */

static void norms(void** state) {
	(void)state;
	static struct guarded expected, got;
	float x[MOST], weight[MOST];
	for (int round = 0; round < 200 * n_fast; round++) {
		const struct cpu_kernels* k = fast[round % n_fast];
		const int n = random_size();
		const float plus = (float)random_below(2);
		random_row(x, n, 3);
		random_row(weight, n, 1);
		poison(&got);
		cpu_reference.rms_norm((float*)(void*)expected.bytes, x, weight, plus, 1e-5f, n);
		k->rms_norm((float*)(void*)got.bytes, x, weight, plus, 1e-5f, n);
		unharmed(&got, (size_t)n * 4, "rms_norm");
		near((float*)(void*)expected.bytes, (float*)(void*)got.bytes, n, 1e-6f, "rms_norm");
	}
}

static void gates(void** state) {
	(void)state;
	static struct guarded expected, got;
	float up[MOST], most;
	for (int round = 0; round < 200 * n_fast; round++) {
		const struct cpu_kernels* k = fast[round % n_fast];
		const int n = random_size();
		static const enum activation all[] = {
		    ACTIVATION_SILU,  ACTIVATION_GELU_TANH,  ACTIVATION_SWIGLU_CLAMPED,
		    ACTIVATION_RELU2, ACTIVATION_QUICK_GELU, ACTIVATION_GELU,
		    ACTIVATION_RELU};
		const enum activation a = all[(size_t)(round / n_fast) % (sizeof all / sizeof *all)];
		float* e = (float*)(void*)expected.bytes;
		float* g = (float*)(void*)got.bytes;
		poison(&got);
		random_row(e, n, round % 3 ? 4 : 60);
		memcpy(g, e, (size_t)n * sizeof *g);
		random_row(up, n, 1);
		most = 0;
		for (int i = 0; i < n; i++)
			most = fmaxf(most, fabsf(e[i] * up[i]));
		cpu_reference.gate(e, up, a, n);
		k->gate(g, up, a, n);
		unharmed(&got, (size_t)n * 4, "gate");
		/* the plain 1 + tanh has no more than 24 bits, however small it is; e^-z² of a large z in floats few
		 */
		if (a == ACTIVATION_GELU_TANH || a == ACTIVATION_GELU)
			for (int i = 0; i < n; i++)
				g[i] = fabsf(g[i] - e[i]) <= most * 0x1p-24f ? e[i] : g[i];
		near(e, g, n, 1e-6f, "gate");
	}
}

static void joins(void** state) {
	(void)state;
	static struct guarded expected, got;
	float y[MOST];
	for (int round = 0; round < 200 * n_fast; round++) {
		const struct cpu_kernels* k = fast[round % n_fast];
		const int n = random_size();
		float* e = (float*)(void*)expected.bytes;
		float* g = (float*)(void*)got.bytes;
		poison(&got);
		random_row(e, n, 3);
		memcpy(g, e, (size_t)n * sizeof *g);
		random_row(y, n, powf(10, (float)(random_below(7) - 4)));
		cpu_reference.join(e, y, n);
		k->join(g, y, n);
		unharmed(&got, (size_t)n * 4, "join");
		assert_memory_equal(e, g, (size_t)n * sizeof *e);
	}
}

static void softcaps(void** state) {
	(void)state;
	static struct guarded expected, got;
	for (int round = 0; round < 100 * n_fast; round++) {
		const struct cpu_kernels* k = fast[round % n_fast];
		const int n = random_size();
		float* e = (float*)(void*)expected.bytes;
		float* g = (float*)(void*)got.bytes;
		poison(&got);
		random_row(e, n, round % 3 ? 40 : 3000);
		memcpy(g, e, (size_t)n * sizeof *g);
		cpu_reference.softcap(e, 30, n);
		k->softcap(g, 30, n);
		unharmed(&got, (size_t)n * 4, "softcap");
		/* 1 - q, q = 2 / (e^2x + 1) <= 2: sum and quotient round q by 2^-24 each, the product and the plain
		 * one's tanh what comes of it: 6·2^-24 of the cap, however small it is */
		for (int i = 0; i < n; i++)
			if (!(fabsf(e[i] - g[i]) <= 30 * 0x1.8p-22f))
				fail_msg("softcap: element %d of %d is %g, %g was expected", i, n, (double)g[i],
				         (double)e[i]);
	}
}

/* Halves are a matter of bits: values of every size, ties, infinities. */
static void rounding(void** state) {
	(void)state;
	static struct guarded expected, got;
	float x[MOST];
	for (int round = 0; round < 300 * n_fast; round++) {
		const struct cpu_kernels* k = fast[round % n_fast];
		const int n = random_size();
		for (int i = 0; i < n; i++) {
			const uint32_t bits = (uint32_t)random_bits();
			const uint32_t tie = (bits & 0xffffe000u) | 0x1000u;
			const float tiny = random_float() * 1e-7f;
			memcpy(&x[i], random_below(3) ? &bits : &tie, 4);
			if (random_below(4) == 0)
				x[i] = tiny;
			if (x[i] != x[i])
				x[i] = INFINITY;
		}
		for (int type = 0; type < 2; type++) {
			const enum dtype t = type ? DTYPE_F32 : DTYPE_F16;
			const size_t bytes = (size_t)n * (type ? 4 : 2);
			poison(&got);
			cpu_reference.store(t, expected.bytes, x, n);
			k->store(t, got.bytes, x, n);
			unharmed(&got, bytes, "store");
			assert_memory_equal(expected.bytes, got.bytes, bytes);
		}
	}
}

static void sums_of_exp(void** state) {
	(void)state;
	static float x[40000];
	for (int round = 0; round < 60 * n_fast; round++) {
		const struct cpu_kernels* k = fast[round % n_fast];
		const int n = round % 5 == 0 ? 32000 + random_below(3000) : random_size();
		random_row(x, n, round % 2 ? 20 : 1);
		if (round % 7 == 0)
			for (int i = 0; i < n; i++)
				x[i] -= 200;
		float max, sum, fast_max, fast_sum;
		assert_true(cpu_reference.sum_exp(x, n, &max, &sum));
		assert_true(k->sum_exp(x, n, &fast_max, &fast_sum));
		assert_memory_equal(&max, &fast_max, sizeof max);
		near(&sum, &fast_sum, 1, 2e-5f, "sum_exp"); /* the reference adds up one by one */
		const float bad[] = {NAN, INFINITY, -INFINITY};
		x[random_below(n)] = bad[random_below(3)];
		assert_false(cpu_reference.sum_exp(x, n, &max, &sum));
		assert_false(k->sum_exp(x, n, &fast_max, &fast_sum));
	}
}

/* ---- attention ------------------------------------------------------------------------------------ */

enum { CASE_SLOTS = 1024, CASE_PAGES = CASE_SLOTS / PAGE_SLOTS, CASE_MASS = CASE_SLOTS / LIST_POSITIONS };

struct attention_case {
	struct attention_row row;
	float* q;
	unsigned char* memory;
	const unsigned char* page[CASE_PAGES]; /* scattered: slots follow one another in a page alone */
	int32_t ancestor[300];
	float sinks[70];
};

static const int head_sizes[] = {2, 6, 8, 10, 16, 18, 24, 32, 48, 64, 80, 96, 112, 128, 250, 256};
static const int groups[] = {1, 2, 3, 4, 5, 7, 8, 16, 70};

static unsigned char* slot_of(const struct attention_case* c, size_t rows, int slot) {
	const size_t page = (size_t)(c->page[slot / PAGE_SLOTS] - c->memory);
	return c->memory + page + rows + (size_t)(slot % PAGE_SLOTS) * c->row.slot_bytes;
}

static unsigned char* page_of(const struct attention_case* c, int slot) {
	return c->memory + (c->page[slot / PAGE_SLOTS] - c->memory) + c->row.key;
}

static void lay_pages(struct attention_case* c) {
	const size_t page_bytes = 2 * PAGE_SLOTS * c->row.slot_bytes;
	c->memory = calloc(CASE_PAGES, page_bytes);
	for (int i = 0; i < CASE_PAGES; i++)
		c->page[i] = c->memory + (size_t)(i * 7 % CASE_PAGES) * page_bytes;
	c->row.page = c->page;
	c->row.value = PAGE_SLOTS * c->row.slot_bytes;
}

static void make_case(struct attention_case* c) {
	static const enum dtype types[] = {DTYPE_F16, DTYPE_F32, DTYPE_Q8_0};
	const enum dtype type = types[random_below(3)];
	int head_dim = head_sizes[random_below(16)];
	if (type == DTYPE_Q8_0)
		head_dim = (head_dim + 31) / 32 * 32;
	const int group = groups[random_below(9)];
	const int base = random_below(4) ? random_below(700) : random_below(3), pending = 1 + random_below(40);
	c->q = calloc((size_t)(group * head_dim), sizeof(float));
	random_row(c->q, group * head_dim, 2);
	random_row(c->sinks, group, 4);
	c->row = (struct attention_row){
	    .slot_bytes = dtype_row_bytes(type, head_dim),
	    .type = type,
	    .base = base,
	    .n_ancestors = pending,
	    .ancestor = c->ancestor,
	    .head_dim = head_dim,
	    .group = group,
	    .from = random_below(2) ? 0 : random_below(base + pending),
	    .scale = 1 / sqrtf((float)head_dim),
	    .softcap = random_below(3) ? 0 : 3,
	    .sinks = random_below(3) ? NULL : c->sinks,
	};
	lay_pages(c);
	float row[256];
	unsigned char key[sizeof row];
	for (int i = 0; i < base + 300; i++) {
		random_row(row, head_dim, 2);
		cpu_reference.store(type, key, row, head_dim);
		key_put(type, page_of(c, i), i % PAGE_SLOTS, key, head_dim);
		random_row(row, head_dim, 2);
		cpu_reference.store(type, slot_of(c, c->row.value, i), row, head_dim);
	}
	for (int i = 0, at = base; i < pending; i++, at += 1 + random_below(3))
		c->ancestor[i] = at;
}

enum { TOGETHER = 8, MOST_QUERIES = TOGETHER * 70, MOST_CHUNKS = CASE_SLOTS / ATTENTION_CHUNK };

/* Rows' attention and mass by a table's functions, as kernels/cpu/attention.c has them from all chunks. They
 * are computed from the last to the first if `backwards`. */
static void attend_rows(const struct cpu_kernels* k, float* out, const float* q, size_t stride,
                        const struct attention_row* rows, int n, bool backwards) {
	static float most[MOST_CHUNKS + 1][MOST_QUERIES], total[MOST_CHUNKS + 1][MOST_QUERIES];
	static float mixed[MOST_CHUNKS + 1][3 * MOST * TOGETHER], mass[MOST_CHUNKS][MOST_QUERIES][CHUNK_PAGES];
	static float scores[MOST_QUERIES * CHUNK_SCORES];
	const int group = rows->group, head_dim = rows->head_dim, queries = n * group;
	int first = MOST_CHUNKS, end = 0;
	for (int i = 0; i < n; i++) {
		const int last = (rows[i].base + rows[i].n_ancestors - 1) / ATTENTION_CHUNK;
		first = rows[i].from / ATTENTION_CHUNK < first ? rows[i].from / ATTENTION_CHUNK : first;
		end = last + 1 > end ? last + 1 : end;
	}
	const struct attention_bundle bundle = attention_bundle_of(rows, n);
	for (int i = first; i < end; i++) {
		const int c = backwards ? first + end - 1 - i : i;
		k->attention((struct attention_sums){most[c], total[c], mixed[c], mass[c][0]}, q, stride, &bundle, c,
		             scores);
	}
	const struct attention_sums whole = {most[MOST_CHUNKS], total[MOST_CHUNKS], mixed[MOST_CHUNKS], NULL};
	for (int i = 0; i < queries; i++) {
		whole.most[i] = rows->sinks ? rows->sinks[i % group] : -FLT_MAX;
		whole.total[i] = rows->sinks ? 1 : 0;
	}
	memset(whole.mixed, 0, (size_t)(queries * head_dim) * sizeof(float));
	for (int c = first; c < end; c++)
		k->attention_join(whole, (struct attention_sums){most[c], total[c], mixed[c], NULL}, queries,
		                  head_dim);
	for (int i = 0; i < queries; i++)
		for (int d = 0; d < head_dim; d++)
			out[(size_t)(i / group) * stride + (size_t)(i % group * head_dim + d)] =
			    whole.mixed[i * head_dim + d] * (1.0f / whole.total[i]);
	for (int i = 0; i < queries; i++) {
		const struct attention_row* row = rows + i / group;
		const int pages = (row->base + row->n_ancestors + LIST_POSITIONS - 1) / LIST_POSITIONS;
		for (int p = 0; p < pages && row->mass; p++)
			row->mass[p] = (i % group ? row->mass[p] : 0) + expf(most[p / CHUNK_PAGES][i] - whole.most[i]) /
			                                                    whole.total[i] *
			                                                    mass[p / CHUNK_PAGES][i][p % CHUNK_PAGES];
	}
}

static void attentions(void** state) {
	(void)state;
	static struct guarded expected, got;
	for (int round = 0; round < 400; round++) {
		struct attention_case c;
		make_case(&c);
		const int n = c.row.group * c.row.head_dim;
		if (n <= MOST * 3) {
			attend_rows(&cpu_reference, (float*)(void*)expected.bytes, c.q, 0, &c.row, 1, false);
			for (int i = 0; i < n_fast; i++) {
				poison(&got);
				attend_rows(fast[i], (float*)(void*)got.bytes, c.q, 0, &c.row, 1, false);
				unharmed(&got, (size_t)n * 4, "attention");
				near((float*)(void*)expected.bytes, (float*)(void*)got.bytes, n, 3e-6f, "attention");
			}
		}
		free(c.q);
		free(c.memory);
	}
}

/* The same keys and values, given as committed tokens or as ancestors in scattered slots: the same bits. */
static void attention_division(void** state) {
	(void)state;
	static struct guarded committed, pending;
	for (int round = 0; round < 200 * n_fast; round++) {
		const struct cpu_kernels* k =
		    round % (n_fast + 1) == n_fast ? &cpu_reference : fast[round % (n_fast + 1)];
		struct attention_case c;
		make_case(&c);
		const int n = c.row.group * c.row.head_dim, end = c.row.base + c.row.n_ancestors;
		if (n <= MOST * 3 && end <= CASE_SLOTS) {
			attend_rows(k, (float*)(void*)pending.bytes, c.q, 0, &c.row, 1, false);
			/* gather the rows to the front, in order */
			for (int i = 0; i < c.row.n_ancestors; i++) {
				const int to = c.row.base + i, from = c.ancestor[i];
				key_copy(c.row.type, page_of(&c, to), to % PAGE_SLOTS, page_of(&c, from), from % PAGE_SLOTS,
				         c.row.head_dim);
				memmove(slot_of(&c, c.row.value, to), slot_of(&c, c.row.value, from), c.row.slot_bytes);
			}
			const int32_t last = end - 1;
			c.row.base = end - 1;
			c.row.n_ancestors = 1;
			c.row.ancestor = &last;
			attend_rows(k, (float*)(void*)committed.bytes, c.q, 0, &c.row, 1, false);
			assert_memory_equal(pending.bytes, committed.bytes, (size_t)n * sizeof(float));
		}
		free(c.q);
		free(c.memory);
	}
}

/* The softmax's weights of each page in doubles, over the scores that the plain kernel would have. */
static void plain_mass(const struct attention_case* c, double* mass) {
	const struct attention_row* a = &c->row;
	static double score[CASE_SLOTS];
	float key[256];
	unsigned char stored[sizeof key];
	const int end = a->base + a->n_ancestors;
	memset(mass, 0, CASE_MASS * sizeof *mass);
	for (int g = 0; g < a->group; g++) {
		double sum = a->sinks ? exp((double)a->sinks[g]) : 0;
		for (int p = 0; p < end; p++) {
			const int slot = p < a->base ? p : a->ancestor[p - a->base];
			key_get(a->type, page_of(c, slot), slot % PAGE_SLOTS, stored, a->head_dim);
			dtype_to_float(a->type, stored, key, a->head_dim);
			double dot = 0;
			for (int j = 0; j < a->head_dim; j++)
				dot += (double)c->q[g * a->head_dim + j] * (double)key[j];
			dot *= (double)a->scale;
			sum += score[p] = exp(a->softcap > 0 ? (double)a->softcap * tanh(dot / (double)a->softcap) : dot);
		}
		for (int p = 0; p < end; p++)
			mass[p / LIST_POSITIONS] += score[p] / sum;
	}
}

/* The attention mass of each page, whoever shares the work, and the output as without it. */
static void attention_mass(void** state) {
	(void)state;
	static struct guarded plain, got;
	for (int round = 0; round < 100 * (n_fast + 1); round++) {
		const struct cpu_kernels* k =
		    round % (n_fast + 1) == n_fast ? &cpu_reference : fast[round % (n_fast + 1)];
		struct attention_case c;
		make_case(&c);
		c.row.from = 0;
		const int n = c.row.group * c.row.head_dim;
		if (n <= MOST * 3) {
			float mass[CASE_MASS + 2];
			double expected[CASE_MASS];
			memset(mass, 0x5a, sizeof mass);
			attend_rows(k, (float*)(void*)plain.bytes, c.q, 0, &c.row, 1, false);
			c.row.mass = mass;
			attend_rows(k, (float*)(void*)got.bytes, c.q, 0, &c.row, 1, round % 2);
			assert_memory_equal(plain.bytes, got.bytes, (size_t)n * sizeof(float));
			plain_mass(&c, expected);
			const int pages = (c.row.base + c.row.n_ancestors + LIST_POSITIONS - 1) / LIST_POSITIONS;
			for (int p = 0; p < pages; p++)
				if (!(fabs(expected[p] - (double)mass[p]) <= 1e-4 * c.row.group))
					fail_msg("page %d has the mass %g, %g was expected", p, (double)mass[p], expected[p]);
			assert_memory_equal(mass + pages, "\x5a\x5a\x5a\x5a\x5a\x5a\x5a\x5a", 8);
		}
		free(c.q);
		free(c.memory);
	}
}

/* Keys that are values, in rows: the bits of such keys by dimension. */
static void attention_keys_are_values(void** state) {
	(void)state;
	static struct guarded apart, one;
	for (int round = 0; round < 100 * (n_fast + 1); round++) {
		const struct cpu_kernels* k =
		    round % (n_fast + 1) == n_fast ? &cpu_reference : fast[round % (n_fast + 1)];
		struct attention_case c;
		make_case(&c);
		const int n = c.row.group * c.row.head_dim;
		for (int i = 0; i < c.row.base + 300; i++)
			key_put(c.row.type, page_of(&c, i), i % PAGE_SLOTS, slot_of(&c, c.row.value, i), c.row.head_dim);
		if (n <= MOST * 3) {
			attend_rows(k, (float*)(void*)apart.bytes, c.q, 0, &c.row, 1, false);
			c.row.key = c.row.value;
			attend_rows(k, (float*)(void*)one.bytes, c.q, 0, &c.row, 1, false);
			assert_memory_equal(apart.bytes, one.bytes, (size_t)n * sizeof(float));
		}
		free(c.q);
		free(c.memory);
	}
}

/* Rows of one tree: each has some of the case's ancestors, then others of its own, and its own window. */
static void make_rows(const struct attention_case* c, struct attention_row* rows,
                      int32_t ancestor[TOGETHER][300], int n) {
	for (int i = 0; i < n; i++) {
		rows[i] = c->row;
		const int common = random_below(c->row.n_ancestors + 1), own = random_below(20) + (common == 0);
		memcpy(ancestor[i], c->ancestor, (size_t)common * sizeof(int32_t));
		for (int j = 0; j < own; j++)
			ancestor[i][common + j] = c->row.base + random_below(250);
		rows[i].ancestor = ancestor[i];
		rows[i].n_ancestors = common + own;
		rows[i].from = random_below(2) ? c->row.from : random_below(c->row.base + common + own);
		if (rows[i].from >= c->row.base + common + own)
			rows[i].from = 0;
		rows[i].scale = c->row.scale * (1 + 0.1f * (float)random_below(3));
	}
}

/* A row has the bits that it has alone, with any other rows, whenever its chunks are computed. */
static void attention_together(void** state) {
	(void)state;
	static struct guarded alone;
	for (int round = 0; round < 200 * (n_fast + 1); round++) {
		const struct cpu_kernels* k =
		    round % (n_fast + 1) == n_fast ? &cpu_reference : fast[round % (n_fast + 1)];
		struct attention_case c;
		make_case(&c);
		struct attention_row rows[TOGETHER];
		int32_t ancestor[TOGETHER][300];
		const int n = 1 + random_below(TOGETHER), width = c.row.group * c.row.head_dim;
		make_rows(&c, rows, ancestor, n);
		const size_t stride = (size_t)width + (size_t)random_below(3) * 7;
		float *q = calloc((size_t)n * stride, sizeof *q), *got = calloc((size_t)n * stride, sizeof *got);
		random_row(q, n * (int)stride, 2);
		if (width <= MOST * 3) {
			attend_rows(k, got, q, stride, rows, n, round % 2);
			for (int i = 0; i < n; i++) {
				attend_rows(k, (float*)(void*)alone.bytes, q + (size_t)i * stride, 0, rows + i, 1, false);
				assert_memory_equal(alone.bytes, got + (size_t)i * stride, (size_t)width * sizeof *got);
			}
		}
		free(got);
		free(q);
		free(c.q);
		free(c.memory);
	}
}

/* ---- recurrence ---------------------------------------------------------------------------------------- */

enum { MOST_KEYS = 130, MOST_VALUES = 140 };

static float random_state_of[MOST_KEYS * MOST_VALUES], plain_state[MOST_KEYS * MOST_VALUES],
    fast_state[MOST_KEYS * MOST_VALUES + GUARD];

typedef void step(float* to, const float* from, float* out, const struct delta_row*, int keys, int values);

/* Some tokens through a head by both functions; the state in place or not, with an output or without. */
static void try_steps(step* plain_step, step* fast_step, const char* name) {
	const int keys = 1 + random_below(MOST_KEYS), values = 1 + random_below(MOST_VALUES);
	float q[MOST_KEYS], key[MOST_KEYS], v[MOST_VALUES], plain[MOST_VALUES];
	static struct guarded out;
	float* const got = (float*)(void*)out.bytes;
	const size_t n = (size_t)(keys * values);
	random_row(random_state_of, (int)n, 1);
	memcpy(plain_state, random_state_of, n * sizeof(float));
	memset(fast_state, 0xa5, sizeof fast_state);
	memcpy(fast_state, random_state_of, n * sizeof(float));
	for (int token = 0; token < 4; token++) {
		random_row(q, keys, 0.2f);
		random_row(key, keys, 2 / sqrtf((float)keys));
		random_row(v, values, 1);
		const struct delta_row row = {
		    .q = q, .k = key, .v = v, .decay = fabsf(random_float()), .beta = fabsf(random_float())};
		poison(&out);
		plain_step(plain_state, plain_state, plain, &row, keys, values);
		if (token == 1) { /* from elsewhere, and nothing is wanted: the same state */
			memcpy(random_state_of, fast_state, n * sizeof(float));
			fast_step(fast_state, random_state_of, NULL, &row, keys, values);
			fast_step(random_state_of, random_state_of, got, &row, keys, values);
			assert_memory_equal(random_state_of, fast_state, n * sizeof(float));
		} else
			fast_step(fast_state, fast_state, got, &row, keys, values);
		unharmed(&out, (size_t)values * 4, name);
		near_terms(plain, got, values, 2e-5f, largest_of(plain_state, (int)n) * largest_of(q, keys), name);
		near(plain_state, fast_state, (int)n, 2e-5f, name);
	}
	for (int i = 0; i < GUARD; i++)
		if (memcmp(&fast_state[n + (size_t)i], "\xa5\xa5\xa5\xa5", 4) != 0 &&
		    n + (size_t)i < sizeof fast_state / sizeof *fast_state)
			fail_msg("%s wrote behind its state", name);
}

static void recurrences(void** state) {
	(void)state;
	for (int round = 0; round < 60 * n_fast; round++) {
		const struct cpu_kernels* k = fast[round % n_fast];
		try_steps(cpu_reference.delta_step, k->delta_step, "delta_step");
		try_steps(cpu_reference.scan_step, k->scan_step, "scan_step");
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(norms),
	                                   cmocka_unit_test(gates),
	                                   cmocka_unit_test(joins),
	                                   cmocka_unit_test(softcaps),
	                                   cmocka_unit_test(rounding),
	                                   cmocka_unit_test(sums_of_exp),
	                                   cmocka_unit_test(attentions),
	                                   cmocka_unit_test(attention_division),
	                                   cmocka_unit_test(attention_together),
	                                   cmocka_unit_test(attention_mass),
	                                   cmocka_unit_test(attention_keys_are_values),
	                                   cmocka_unit_test(recurrences)};
	return cmocka_run_group_tests(tests, find_fast, NULL);
}
