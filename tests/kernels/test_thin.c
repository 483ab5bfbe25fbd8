/* Rows without the channels that matter least, before draft weights are made: which channels stay follows
 * from the stored columns' norms, found here in doubles. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "kernels/cpu/cpu.h"

/* No more outputs than are sampled, so that all of them are. */
enum { CHANNELS = 1536, OUTPUTS = 64, ROWS = 3 };

struct fixture {
	struct cpu_backend backend;
	struct draft_weights quantized;
	struct block_columns block;
	struct tensor first, second;
	float* data;
	double norm[CHANNELS];
	float x[ROWS * CHANNELS], thinned[ROWS * CHANNELS];
};

static uint64_t state = 5;
static double draw(void) {
	state = state * 6364136223846793005u + 1442695040888963407u;
	return (double)(state >> 40) / (1 << 24) - 0.5;
}

/* A map of two matrices, whose columns differ in size by up to 100. */
static struct fixture* open_fixture(const char* isa) {
	struct error error;
	struct fixture* f = calloc(1, sizeof *f);
	f->data = malloc(sizeof *f->data * OUTPUTS * CHANNELS);
	for (int j = 0; j < CHANNELS; j++) {
		const double size = pow(10, 2 * (draw() + 0.5));
		double sum = 0;
		for (int i = 0; i < OUTPUTS; i++) {
			f->data[i * CHANNELS + j] = (float)(size * draw());
			sum += (double)f->data[i * CHANNELS + j] * (double)f->data[i * CHANNELS + j];
		}
		f->norm[j] = sqrt(sum);
	}
	f->first = (struct tensor){.type = DTYPE_F32, .rows = OUTPUTS / 4, .cols = CHANNELS, .data = f->data};
	f->second = f->first;
	f->second.rows = OUTPUTS - OUTPUTS / 4;
	f->second.data = f->data + (size_t)f->first.rows * CHANNELS;
	f->block.map[COLUMN_MLP] = (struct block_map){.map = {.outputs = OUTPUTS, .channels = CHANNELS},
	                                              .matrix = {&f->first, &f->second},
	                                              .n_matrices = 2};
	f->quantized.columns =
	    (struct column_weights){.block = &f->block, .n_blocks = 1, .rounding = {.widen = dtype_to_float}};
	f->backend.kernels = cpu_kernels_choose(isa, &error);
	assert_non_null(f->backend.kernels);
	f->backend.thinned = f->thinned;
	f->backend.draft_weights = &f->quantized;
	assert_true(thin_open(&f->backend, &f->quantized.columns));
	for (int i = 0; i < ROWS * CHANNELS; i++)
		f->x[i] = (float)draw();
	return f;
}

static void close_fixture(struct fixture* f) {
	thin_close(&f->backend);
	free(f->data);
	free(f);
}

/* About the share stays as it is, the rest is 0, and what stays matters at least as much: within 2 %, because
 * norms have 8 bits. */
static void the_least_are_left_out(void** unused) {
	(void)unused;
	static const float share[] = {0.9f, 0.5f, 0.25f};
	static const char* const isa[] = {"reference", "auto"};
	for (int k = 0; k < 6; k++) {
		struct fixture* f = open_fixture(isa[k / 3]);
		assert_ptr_equal(thin_rows(&f->backend, 0, COLUMN_MLP, f->x, share[k % 3], ROWS), f->thinned);
		for (int r = 0; r < ROWS; r++) {
			double least_kept = INFINITY, most_left_out = 0;
			int kept = 0;
			for (int j = 0; j < CHANNELS; j++) {
				const float x = f->x[r * CHANNELS + j], y = f->thinned[r * CHANNELS + j];
				const double matters = fabs((double)x) * f->norm[j];
				assert_true(y == 0 || y == x);
				kept += y != 0;
				if (y != 0)
					least_kept = fmin(least_kept, matters);
				else
					most_left_out = fmax(most_left_out, matters);
			}
			assert_true(fabs((double)kept / CHANNELS - (double)share[k % 3]) < 0.08);
			assert_true(least_kept > 0.98 * most_left_out);
		}
		close_fixture(f);
	}
}

/* A sub-layer with experts has no map, so all of its channels stay. */
static void other_maps_stay_whole(void** unused) {
	(void)unused;
	struct fixture* f = open_fixture("auto");
	assert_ptr_equal(thin_rows(&f->backend, 0, COLUMN_DOWN, f->x, 0.5f, ROWS), f->x);
	close_fixture(f);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(the_least_are_left_out),
	                                   cmocka_unit_test(other_maps_stay_whole)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
