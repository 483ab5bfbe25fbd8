/* Dynamic programming over sub-layers against trying every mask, on chains small enough for that. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/methods/layer_programming.h"
#include "gp/random.h"

enum { BLOCKS = 6, LAST = 2 * BLOCKS, DIM = 16, SKIPPABLE = LAST - 4 };

/* A backend whose sub-layer s adds push[s] to every state: what skipping does is a sum, and near enough so is
 * the distance. */
struct chain {
	struct backend backend;
	struct weight_table weights;
	struct cache cache;
	float push[LAST][DIM];
};

static void start_state(int32_t token, float* x) {
	for (int k = 0; k < DIM; k++)
		x[k] = k < 4 ? 3 + (float)(token % 5) * (float)k / 8 : 0;
}

static bool run(struct backend* backend, const struct pass* pass, struct error* error) {
	struct chain* chain = (struct chain*)(void*)backend;
	(void)error;
	assert_int_equal(pass->tap, pass->last - 1);
	assert_true(pass->n <= MAX_ROWS);
	for (int i = 0; i < pass->n; i++) {
		float* x = pass->tap_out + i * DIM;
		if (pass->first == 0)
			start_state(pass->token[i], x);
		else
			memcpy(x, pass->state + i * DIM, DIM * sizeof *x);
		for (int s = pass->first; s < pass->last; s++)
			for (int k = 0; k < DIM; k++)
				x[k] += chain->push[s][k];
		/* each state is a chain of its own */
		assert_int_equal(pass->parent[i], -1);
	}
	chain->cache.pending = pass->n;
	return true;
}

static void discard(struct cache* cache) { cache->pending = 0; }

static void open_chain(struct chain* c, uint64_t seed) {
	struct gp_random random = {seed};
	memset(c, 0, sizeof *c);
	c->weights.shape = (struct model_shape){.n_blocks = BLOCKS, .dim = DIM};
	c->backend = (struct backend){.weights = &c->weights, .run = run, .discard = discard};
	c->cache.backend = &c->backend;
	/* directions of their own, so that no two make up for one another */
	for (int s = 0; s < LAST; s++)
		c->push[s][4 + s] = (float)(0.1 + 0.9 * gp_uniform(&random));
}

static const int32_t token = 3;

/* 1 - cosine with the full model's state after the last sub-layer that may be skipped. */
static double distance(const struct chain* c, const struct mask* mask) {
	float x[DIM], full[DIM];
	start_state(token, x);
	start_state(token, full);
	for (int s = 0; s < LAST - 2; s++)
		for (int k = 0; k < DIM; k++) {
			full[k] += c->push[s][k];
			x[k] += mask_has(mask, s) ? 0 : c->push[s][k];
		}
	double xx = 0, yy = 0, xy = 0;
	for (int k = 0; k < DIM; k++) {
		xx += (double)x[k] * x[k];
		yy += (double)full[k] * full[k];
		xy += (double)x[k] * full[k];
	}
	return 1 - xy / sqrt(xx * yy);
}

static double best_of_all(const struct chain* c, int size) {
	double best = INFINITY;
	for (unsigned bits = 0; bits < 1u << SKIPPABLE; bits++) {
		if (__builtin_popcount(bits) != size)
			continue;
		const struct mask mask = {.word = {(uint64_t)bits << 2}};
		best = fmin(best, distance(c, &mask));
	}
	return best;
}

/* Masks of up to `size` sub-layers. */
static void program(struct chain* c, int base, int size, struct mask* mask) {
	struct layer_programming* p = malloc(layer_programming_bytes(&c->weights.shape));
	struct pass pass;
	struct error error;
	assert_non_null(p);
	layer_programming_begin(p, &c->cache, token, base, size);
	do {
		layer_programming_fill(p, &pass);
		assert_true(c->cache.backend->run(c->cache.backend, &pass, &error));
	} while (!layer_programming_take(p));
	memcpy(mask, p->mask, (size_t)(size + 1) * sizeof *mask);
	free(p);
}

static void check(struct chain* c) {
	struct mask mask[SKIPPABLE + 1];
	program(c, 40, SKIPPABLE, mask);
	assert_int_equal(c->cache.pending, 0);
	for (int size = 0; size <= SKIPPABLE; size++) {
		assert_int_equal(mask_count(&mask[size]), size);
		for (int s = 0; s < 2; s++)
			assert_false(mask_has(&mask[size], s) || mask_has(&mask[size], LAST - 1 - s));
		const double found = distance(c, &mask[size]), best = best_of_all(c, size);
		if (!(found <= best + 1e-6))
			fail_msg("%d skipped: distance %g, the best mask's %g", size, found, best);
	}
}

static void finds_the_best_sets(void** state) {
	(void)state;
	for (uint64_t seed = 1; seed <= 5; seed++) {
		struct chain c;
		open_chain(&c, seed);
		check(&c);
	}
}

/* Two sub-layers that undo each other, each of them the most influential by far: no order by influence has
 * both first. */
static void finds_what_cancels(void** state) {
	(void)state;
	struct chain c;
	open_chain(&c, 7);
	memset(c.push[2], 0, sizeof c.push[2]);
	memset(c.push[3], 0, sizeof c.push[3]);
	c.push[2][6] = 5;
	c.push[3][6] = -5;
	struct mask mask[3];
	program(&c, 0, 2, mask);
	assert_true(mask_has(&mask[2], 2) && mask_has(&mask[2], 3));
	assert_true(distance(&c, &mask[2]) < 1e-6);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(finds_the_best_sets),
	                                   cmocka_unit_test(finds_what_cancels)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
