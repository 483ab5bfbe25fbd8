/* Shared by all instruction sets for weights by input channel: thresholds and lists. */
#include "kernels/columns.h"

#include <math.h>

#include "kernels/column_round.h"

void column_round(uint8_t* codes, size_t codes_stride, uint8_t* scale, size_t scale_stride, float* peak,
                  float* norm2, const float* x, int64_t x_stride, int outputs, int n) {
	round_columns(codes, codes_stride, scale, scale_stride, peak, norm2, x, x_stride, outputs, n);
}

/* A histogram's bin: the float's exponent and the first 4 bits of its mantissa, about 4 % wide. */
enum { BIN_SHIFT = 19, BINS = 1 << 12, SAMPLED = 4 };

static uint32_t bin_of(float x) {
	uint32_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits >> BIN_SHIFT & (BINS - 1);
}

static float bin_start(uint32_t bin) {
	const uint32_t bits = bin << BIN_SHIFT;
	float x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

float column_threshold(const struct column_map* map, const float* x, float share) {
	uint16_t count[BINS] = {0};
	if (share >= 1)
		return 0;
	uint32_t highest = 0;
	int sampled = 0;
	for (int j = 0; j < map->channels; j += SAMPLED, sampled++) {
		const uint32_t bin = bin_of(fabsf(x[j]) * map->norm[j]);
		count[bin]++;
		highest = bin > highest ? bin : highest;
	}
	const float wanted = share * (float)sampled;
	int above = 0;
	uint32_t bin = highest;
	while (bin > 0 && (float)(above + count[bin]) < wanted)
		above += count[bin--];
	/* within the bin, as if its channels lay evenly */
	const float start = bin_start(bin), end = bin_start(bin + 1);
	const float inside = count[bin] ? (wanted - (float)above) / (float)count[bin] : 0;
	const float threshold = end - (end - start) * inside;
	return threshold < INFINITY ? threshold : 0;
}

/* Halves begin at a multiple of the channels that kernels read side by side. */
enum { COLUMN_HALF_UNIT = 32 };

static void quantize_group(const struct column_map* map, const uint16_t* channel, float* value, float* step,
                           int n) {
	float most = 0;
	for (int i = 0; i < n; i++) {
		const float largest = fabsf(value[i]) * map->peak[channel[i]];
		most = largest > most ? largest : most;
	}
	const float inverse = 127.0f / most;
	const bool usable = inverse < INFINITY && most < INFINITY;
	*step = usable ? most / 127.0f : 0;
	for (int i = 0; i < n; i++)
		value[i] = usable ? value[i] * inverse : 0;
}

void column_finish(const struct column_map* map, struct column_list* list, int n) {
	list->n = (n + 3) / 4 * 4;
	for (int i = n; i < list->n; i++) {
		list->channel[i] = 0;
		list->value[i] = 0;
	}
	list->half = list->n;
	if (column_halves(map) == 2 && list->n >= 2 * COLUMN_HALF_UNIT)
		list->half = list->n / 2 / COLUMN_HALF_UNIT * COLUMN_HALF_UNIT;
	for (int h = 0; h < 2; h++) {
		const struct column_list half = column_half(list, h);
		for (int i = 0; i < half.n; i += COLUMN_GROUP) {
			const int some = half.n - i < COLUMN_GROUP ? half.n - i : COLUMN_GROUP;
			quantize_group(map, half.channel + i, half.value + i, half.step + i / COLUMN_GROUP, some);
		}
	}
}
