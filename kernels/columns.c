/* Shared by all instruction sets for weights by input channel: thresholds and lists. */
#include "kernels/columns.h"

#include <math.h>

#include "kernels/column_round.h"

void column_round(uint8_t* codes, uint8_t* scale, size_t run, float* peak, float* norm2, const float* x,
                  int64_t x_stride, int outputs, int n) {
	round_columns(codes, scale, run, peak, norm2, x, x_stride, outputs, n);
}

/* A histogram's bin: the float's exponent and the first 4 bits of its mantissa, about 4 % wide. */
enum { BIN_SHIFT = 19, BINS = 1 << 12, SAMPLES = 256 };

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
	const int stride = map->channels > 2 * SAMPLES ? map->channels / SAMPLES : 1;
	for (int j = 0; j < map->channels; j += stride, sampled++) {
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

enum { LANES = 16 };

static void quantize_group(const struct column_map* map, const uint16_t* channel, float* value, float* step,
                           int n) {
	float size[COLUMN_GROUP], lane[LANES] = {0}, most = 0;
	memset(size, 0, sizeof size);
	for (int i = 0; i < n; i++)
		size[i] = fabsf(value[i]) * map->peak[channel[i]];
	for (int i = 0; i < COLUMN_GROUP; i += LANES) /* independent ones, since a maximum takes several cycles */
		for (int l = 0; l < LANES; l++)
			lane[l] = size[i + l] > lane[l] ? size[i + l] : lane[l];
	for (int l = 0; l < LANES; l++)
		most = lane[l] > most ? lane[l] : most;
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
	for (int i = 0; i < list->n; i += COLUMN_GROUP) {
		const int some = list->n - i < COLUMN_GROUP ? list->n - i : COLUMN_GROUP;
		quantize_group(map, list->channel + i, list->value + i, list->step + i / COLUMN_GROUP, some);
	}
}
