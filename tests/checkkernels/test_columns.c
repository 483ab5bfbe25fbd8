/* Weights by input channel: every instruction set rounds to the same bytes and multiplies to the same bits as
 * the plain functions, and those come near the products of the weights as they were. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul.h"

static uint64_t random_state = 7;

static uint64_t random_bits(void) {
	uint64_t z = (random_state += 0x9e3779b97f4a7c15u);
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}
static int random_below(int n) { return (int)(random_bits() % (uint64_t)n); }
static float random_float(void) { return (float)((double)(random_bits() >> 11) / 4503599627370496.0 - 1); }

enum { MOST_CHANNELS = 1500, MOST_LINES = 20, MOST_OUTPUTS = MOST_LINES * COLUMN_OUTPUTS };
enum { TILED_CHANNELS = 400 }; /* of a map with more than one tile, at most */

/* A random matrix, and its map as one function rounds it */
struct trial {
	struct column_map map;
	float* w; /* (outputs, channels) */
	uint8_t *runs, *peak;
	uint16_t* norm;
	float* x; /* (channels) */
};

static void* allocate(size_t bytes) {
	void* memory = aligned_alloc(64, (bytes + 127) / 64 * 64);
	assert_non_null(memory);
	memset(memory, 0, (bytes + 127) / 64 * 64);
	return memory;
}

static int tile_of(int outputs, int line) {
	int t = 0;
	while (column_tile(outputs, t + 1).line <= line && t + 1 < column_tiles(outputs))
		t++;
	return t;
}

static void round_map(struct trial* t, column_round_function* round, int channels_a_call) {
	const int channels = t->map.channels, outputs = (int)t->map.outputs;
	float *const peak = allocate((size_t)channels * 4), *const norm2 = allocate((size_t)channels * 4);
	for (int line = 0; line * COLUMN_OUTPUTS < outputs; line++) {
		const int first = line * COLUMN_OUTPUTS, left = outputs - first;
		const int t_of_line = tile_of(outputs, line);
		const struct column_span tile = column_tile(outputs, t_of_line);
		const size_t run = column_run(tile.lines);
		uint8_t* const runs = t->runs + column_tile_offset(outputs, channels, t_of_line);
		for (int j = 0; j < channels; j += channels_a_call) {
			const int n = channels - j < channels_a_call ? channels - j : channels_a_call;
			uint8_t* const scale = runs + (size_t)j * run + (line - tile.line) * COLUMN_SCALES;
			uint8_t* const codes =
			    runs + (size_t)j * run + column_run_scales(tile.lines) + (line - tile.line) * COLUMN_LINE;
			round(codes, scale, run, peak + j, norm2 + j, t->w + (size_t)first * (size_t)channels + j,
			      channels, left < COLUMN_OUTPUTS ? left : COLUMN_OUTPUTS, n);
		}
	}
	column_keys(t->peak, t->norm, peak, norm2, channels);
	free(peak);
	free(norm2);
}

static struct trial open_trial(int outputs, int channels) {
	const size_t n = (size_t)channels;
	struct trial t = {.w = allocate((size_t)outputs * n * 4),
	                  .runs = allocate(column_bytes(outputs, channels)),
	                  .peak = allocate(n),
	                  .norm = allocate(n * 2),
	                  .x = allocate(n * 4)};
	t.map = (struct column_map){
	    .outputs = outputs, .channels = channels, .runs = t.runs, .peak = t.peak, .norm = t.norm};
	for (int j = 0; j < channels; j++) {
		const float size = expf(3 * random_float());
		t.x[j] = random_below(20) ? random_float() * size : 0;
		for (int o = 0; o < outputs; o++)
			t.w[(size_t)o * n + (size_t)j] = random_below(50) ? random_float() / size : 0;
	}
	return t;
}

static void close_trial(struct trial* t) {
	void* const all[] = {t->w, t->runs, t->peak, t->norm, t->x};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

static struct column_list open_list(int channels) {
	const size_t room = column_list_room(channels);
	return (struct column_list){.channel = allocate(room * 2),
	                            .value = allocate(room * 4),
	                            .size = allocate(room * 4),
	                            .step = allocate(room * 4)};
}

static void close_list(struct column_list* list) {
	free(list->channel);
	free(list->value);
	free(list->size);
	free(list->step);
}

static void fill_list(struct column_list* list, const struct cpu_kernels* kernels, const struct trial* t,
                      struct column_range range, float threshold) {
	column_finish(list, kernels->column_keep(&t->map, range, t->x, threshold, list));
}

static struct column_range all_channels(const struct trial* t) {
	return (struct column_range){0, t->map.channels};
}

static void tiles_cover_all_lines(void** state) {
	(void)state;
	for (int outputs = 1; outputs < 40000; outputs += 61) {
		int64_t line = 0;
		for (int t = 0; t < column_tiles(outputs); t++) {
			const struct column_span tile = column_tile(outputs, t);
			assert_true(tile.line == line && tile.lines >= 1 && tile.lines <= COLUMN_TILE_LINES);
			line += tile.lines;
		}
		assert_true(line == column_lines(outputs));
	}
}

/* ---- rounding ------------------------------------------------------------------------------- */

#if defined(__x86_64__)
/* `odd`: some weights are no numbers, or larger than the largest scale's. */
static void same_bytes(int outputs, int channels, bool odd, column_round_function* fast) {
	static const float values[] = {NAN, INFINITY, -INFINITY, 1e30f, -3000, 1700, 1e-30f};
	struct trial plain = open_trial(outputs, channels);
	struct trial other = open_trial(outputs, channels);
	for (int i = 0; odd && i < outputs * channels / 200 + 1; i++)
		plain.w[random_below(outputs * channels)] = values[random_below(sizeof values / sizeof *values)];
	memcpy(other.w, plain.w, (size_t)outputs * (size_t)channels * 4);
	round_map(&plain, column_round, channels);
	round_map(&other, fast, 1 + random_below(channels));
	const size_t n = (size_t)channels;
	assert_memory_equal(plain.runs, other.runs, column_bytes(outputs, channels));
	assert_memory_equal(plain.peak, other.peak, n);
	for (size_t j = 0; j < n; j++) { /* what is no number has no particular bits */
		const float norm = column_norm(plain.norm[j]), also = column_norm(other.norm[j]);
		assert_true(odd && isnan(norm) ? isnan(also) : memcmp(&norm, &also, 4) == 0);
	}
	close_trial(&plain);
	close_trial(&other);
}
#endif

static void rounding_is_the_same_everywhere(void** state) {
	(void)state;
#if defined(__x86_64__)
	for (int i = 0; i < 20; i++) {
		const int outputs = 1 + random_below(MOST_OUTPUTS), channels = 1 + random_below(200);
		for (int odd = 0; odd < 2; odd++) {
			if (avx2_supported())
				same_bytes(outputs, channels, odd, avx2_column_round);
			if (avx512_supported())
				same_bytes(outputs, channels, odd, avx512_column_round);
		}
	}
#endif
}

/* ---- products ------------------------------------------------------------------------------- */

enum { ROOM = COLUMN_TILE_LINES * COLUMN_OUTPUTS + 16 };

/* `plain` by the plain function, and both lists at once by the fast one */
static void check_span(const struct cpu_kernels* fast, const struct trial* t, int tile,
                       struct column_span span, const struct column_list* list,
                       const struct column_list* plain) {
	static float expected[ROOM], got[2][ROOM];
	const struct column_list two[2] = {*list, *plain};
	const size_t outputs = (size_t)span.lines * COLUMN_OUTPUTS;
	cpu_reference.column_product(expected, ROOM, &t->map, tile, span, plain, 1);
	memset(got, 0xa5, sizeof got);
	fast->column_product(got[0], ROOM, &t->map, tile, span, two, 2);
	assert_memory_equal(got[0], expected, outputs * sizeof(float));
	assert_memory_equal(got[1], expected, outputs * sizeof(float));
	for (size_t b = 0; b < 64; b++)
		assert_int_equal(((const unsigned char*)(got[0] + outputs))[b], 0xa5);
}

/* A range of the channels: a half of them, or all */
static void check_products(struct trial* t, struct column_range range, float share) {
	const struct cpu_kernels* fast[MAX_ISAS];
	const int n_fast = cpu_kernels_here(fast), channels = t->map.channels;
	const float threshold = cpu_reference.column_threshold(&t->map, t->x, share);
	struct column_list plain = open_list(channels), list = open_list(channels);
	fill_list(&plain, &cpu_reference, t, range, threshold);
	for (int tile = 0; tile < column_tiles(t->map.outputs); tile++) {
		struct column_span span = column_tile(t->map.outputs, tile);
		const int skipped = random_below(span.lines);
		span.line += skipped;
		span.lines = 1 + random_below(span.lines - skipped);
		for (int i = 0; i < n_fast; i++) {
			const float same = fast[i]->column_threshold(&t->map, t->x, share);
			assert_memory_equal(&same, &threshold, sizeof same);
			fill_list(&list, fast[i], t, range, threshold);
			assert_int_equal(list.n, plain.n);
			assert_memory_equal(list.channel, plain.channel, (size_t)list.n * 2);
			assert_memory_equal(list.value, plain.value, (size_t)list.n * 4);
			assert_memory_equal(list.size, plain.size, (size_t)list.n * 4);
			check_span(fast[i], t, tile, span, &list, &plain);
		}
	}
	close_list(&plain);
	close_list(&list);
}

static void halves_hold_every_channel(void** state) {
	(void)state;
	for (int channels = 1; channels < 2000; channels++) {
		const struct column_range first = column_half(channels, 0), second = column_half(channels, 1);
		assert_true(first.begin == 0 && first.end > 0 && first.end == second.begin);
		assert_true(second.end == channels && (second.begin % 64 == 0 || second.begin == channels));
		assert_true(abs(first.end - (channels - second.begin)) <= 128);
	}
}

static void products_are_the_same_everywhere(void** state) {
	(void)state;
	const float shares[] = {1, 0.5f, 0.25f, 0.03f};
	for (int i = 0; i < 24; i++) {
		const bool tiled = i % 6 == 5; /* more than one tile */
		const int least = tiled ? COLUMN_TILE_LINES * COLUMN_OUTPUTS : 0;
		struct trial t = open_trial(least + 1 + random_below(tiled ? 5 * COLUMN_OUTPUTS : MOST_OUTPUTS),
		                            1 + random_below(tiled ? TILED_CHANNELS : MOST_CHANNELS));
		round_map(&t, column_round, t.map.channels);
		const struct column_range half = column_half(t.map.channels, i % 2);
		check_products(&t, half.begin < half.end ? half : all_channels(&t), shares[i % 4]);
		close_trial(&t);
	}
}

/* All codes and activations as large as they can be: no sum may overflow on the way. */
static void the_largest_products_fit(void** state) {
	(void)state;
	struct trial t = open_trial(COLUMN_OUTPUTS, 1024);
	for (int sign = -1; sign <= 1; sign += 2) {
		for (int j = 0; j < 1024; j++) {
			t.x[j] = (float)sign;
			for (int o = 0; o < COLUMN_OUTPUTS; o++)
				t.w[o * 1024 + j] = 1;
		}
		round_map(&t, column_round, 1024);
		check_products(&t, all_channels(&t), 1);
	}
	close_trial(&t);
}

static void products_come_near(void** state) {
	(void)state;
	enum { LINES = 16, OUTPUTS = LINES * COLUMN_OUTPUTS };
	const int channels = 1024, outputs = OUTPUTS;
	struct trial t = open_trial(outputs, channels);
	round_map(&t, column_round, channels);
	struct column_list list = open_list(channels);
	double error = 0, size = 0;
	static float got[2][OUTPUTS];
	for (int half = 0; half < 2; half++) {
		fill_list(&list, &cpu_reference, &t, column_half(channels, half), 0);
		cpu_reference.column_product(got[half], 0, &t.map, 0, (struct column_span){0, LINES}, &list, 1);
	}
	for (int o = 0; o < outputs; o++) {
		double exact = 0;
		for (int j = 0; j < channels; j++)
			exact += (double)t.w[o * channels + j] * (double)t.x[j];
		const double whole = (double)got[0][o] + (double)got[1][o];
		error += (exact - whole) * (exact - whole);
		size += exact * exact;
	}
	/* uniform weights in steps of 2/15: (2/15)/sqrt(12) over their size 1/sqrt(3) is .067 */
	assert_true(sqrt(error / size) < 0.07);
	close_list(&list);
	close_trial(&t);
}

static void thresholds_keep_their_share(void** state) {
	(void)state;
	struct trial t = open_trial(COLUMN_OUTPUTS, MOST_CHANNELS);
	round_map(&t, column_round, MOST_CHANNELS);
	struct column_list list = open_list(MOST_CHANNELS);
	for (float share = 0.1f; share < 1; share += 0.2f) {
		const float threshold = cpu_reference.column_threshold(&t.map, t.x, share);
		const int n = cpu_reference.column_keep(&t.map, all_channels(&t), t.x, threshold, &list);
		assert_true(fabsf((float)n / MOST_CHANNELS - share) < 0.08f);
	}
	assert_true(cpu_reference.column_threshold(&t.map, t.x, 1) <= 0);
	for (int j = 0; j < MOST_CHANNELS; j++)
		t.x[j] = j == 5 ? NAN : j == 8 ? INFINITY : 0;
	for (int i = 0; i < 2; i++) {
		fill_list(&list, &cpu_reference, &t, all_channels(&t),
		          cpu_reference.column_threshold(&t.map, t.x, 0.5f));
		float out[COLUMN_OUTPUTS];
		cpu_reference.column_product(out, 0, &t.map, 0, (struct column_span){0, 1}, &list,
		                             1); /* whatever comes: no trap */
	}
	close_list(&list);
	close_trial(&t);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(tiles_cover_all_lines),       cmocka_unit_test(rounding_is_the_same_everywhere),
	    cmocka_unit_test(halves_hold_every_channel),   cmocka_unit_test(products_are_the_same_everywhere),
	    cmocka_unit_test(the_largest_products_fit),    cmocka_unit_test(products_come_near),
	    cmocka_unit_test(thresholds_keep_their_share),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
