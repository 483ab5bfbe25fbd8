/* The arithmetic of a prompt's chunk: what an iteration costs is bounded, and a prompt gets on. */
#include "streams/service/chunk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A row costs `slope` of a plain step more. */
static struct cost_model costs(double slope) {
	static const int rows[] = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 256};
	struct block_weights block = {.wq = {0}};
	struct cost_model cost;
	cost_open(&cost, &(struct weight_table){.shape.n_blocks = 1, .block = &block}, 0);
	for (int iteration = 0; iteration < 4; iteration++)
		for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
			cost_see_full(&cost, rows[i], 0.01 * (1 + slope * (rows[i] - 1)), 0);
	return cost;
}

static void a_whole_chunk_costs_eight_plain_steps(void** unused) {
	(void)unused;
	const struct cost_model dear = costs(0.2), cheap = costs(0.05), nothing = costs(0.001);
	assert_int_equal(chunk_whole(&dear, 0), 32);   /* 7.2 */
	assert_int_equal(chunk_whole(&cheap, 0), 128); /* 7.4; 256 would be 13.8 */
	assert_int_equal(chunk_whole(&nothing, 0), PREFILL_CHUNK);
	const struct cost_model dearest = costs(2);
	assert_int_equal(chunk_whole(&dearest, 0), LEAST_CHUNK_ROWS);
	assert_int_equal(chunk_whole(&dear, 24), 24);
	assert_int_equal(chunk_whole(&dear, 1000), PREFILL_CHUNK);
}

static void what_the_iteration_did_is_taken_off(void** unused) {
	(void)unused;
	const struct cost_model cost = costs(0.2);
	assert_int_equal(chunk_rest(&cost, 32, 0, 0), 32);
	assert_int_equal(chunk_rest(&cost, 32, 0, 5), 27);
	assert_int_equal(chunk_rest(&cost, 32, 2.01, 0), 21); /* ten rows are two plain steps */
	assert_int_equal(chunk_rest(&cost, 32, 2.01, 5), 16);
	assert_int_equal(chunk_rest(&cost, 32, 100, 0), 8);
	assert_int_equal(chunk_rest(&cost, 1, 100, 64), 1);
}

static void no_iteration_costs_more_than_a_chunk_but_where_a_quarter_does(void** unused) {
	(void)unused;
	for (double slope = 0.01; slope < 0.5; slope *= 2) {
		const struct cost_model cost = costs(slope);
		const int chunk = chunk_whole(&cost, 0);
		for (int beside = 0; beside < 64; beside++)
			for (double spent = 0; spent < 10; spent += 0.7) {
				const int rows = chunk_rest(&cost, chunk, spent, beside);
				assert_in_range(rows, (chunk + 3) / 4, chunk);
				if (rows > (chunk + 3) / 4)
					assert_true(spent + cost_verify(&cost, beside + rows) <= cost_verify(&cost, chunk));
			}
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_whole_chunk_costs_eight_plain_steps),
	    cmocka_unit_test(what_the_iteration_did_is_taken_off),
	    cmocka_unit_test(no_iteration_costs_more_than_a_chunk_but_where_a_quarter_does),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
