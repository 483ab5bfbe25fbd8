/* Shared by all instruction sets for weights by input channel: the order of lines, thresholds and lists. */
#include "kernels/columns.h"

#include <math.h>

#include "kernels/column_round.h"

void column_round(uint8_t* codes, uint8_t* scale, float* peak, float* norm2, const uint16_t* order,
                  const float* x, int64_t stride, int outputs, int n) {
	round_columns(codes, scale, peak, norm2, order, x, stride, outputs, n);
}

/* Fisher and Yates's shuffle with numbers from splitmix64, which is the same on every machine. */
void column_order(uint16_t* order, int channels) {
	uint64_t state = (uint64_t)channels;
	for (int i = 0; i < channels; i++)
		order[i] = (uint16_t)i;
	for (int i = channels - 1; i > 0; i--) {
		uint64_t z = (state += 0x9e3779b97f4a7c15u);
		z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
		z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
		z ^= z >> 31;
		const int j = (int)(z % (uint64_t)(i + 1));
		const uint16_t other = order[j];
		order[j] = order[i];
		order[i] = other;
	}
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
	for (int i = 0; i < list->n; i++)
		list->place[i] = map->order[list->channel[i]];
	for (int i = 0; list->n && i < COLUMN_AHEAD; i++)
		list->place[list->n + i] = (uint32_t)map->channels + list->place[i % list->n];
	for (int i = 0; i < list->n; i += COLUMN_GROUP) {
		const int some = list->n - i < COLUMN_GROUP ? list->n - i : COLUMN_GROUP;
		quantize_group(map, list->channel + i, list->value + i, list->step + i / COLUMN_GROUP, some);
	}
}
