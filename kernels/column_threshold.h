/* Finds the channels that a row keeps: a quantile of |x_j|·norm_j, without a sort (kernels/columns.h).
 *
 * Included by one source file an instruction set. A float that is not negative compares as its bits do, so
 * the quantile is found bit by bit, by counting, and has the same bits everywhere. */
#pragma once

#include "kernels/columns.h"
#include "kernels/lanes.h"

enum {
	SAMPLED = 256, /* channels at least, of a map that has as many */
	BESIDE = 4,    /* neighbours that are sampled together, since they share cache lines */
	SAMPLE_ROOM = 2 * SAMPLED + 2 * BESIDE,
	LEAST_BIT = 16 /* of a threshold: steps of less than a hundredth */
};

typedef float four_floats __attribute__((vector_size(16)));
typedef int32_t four_ints __attribute__((vector_size(16)));
typedef uint16_t four_words __attribute__((vector_size(8)));

/* The bits of |x_j|·norm_j of four neighbours, without a sign that a NaN may have */
static inline four_ints saliency_bits(const float* x, const uint16_t* norm) {
	four_words words;
	four_ints bits;
	memcpy(&words, norm, sizeof words);
	memcpy(&bits, x, sizeof bits);
	const four_ints norms = __builtin_convertvector(words, four_ints) << 16;
	return (four_ints)((four_floats)bits * (four_floats)norms) & INT32_MAX;
}

/* Returns how many; behind the last one lie negative numbers up to a whole vector. */
static inline int sample_channels(const struct column_map* map, const float* x, int32_t* sample) {
	const int fours = map->channels / BESIDE;
	const int stride = map->channels > 2 * SAMPLED ? map->channels / SAMPLED : 1;
	int n = 0;
	for (int i = 0; i < fours; i += stride, n += BESIDE) {
		const four_ints bits = saliency_bits(x + i * BESIDE, map->norm + i * BESIDE);
		memcpy(sample + n, &bits, sizeof bits);
	}
	for (int j = fours * BESIDE; fours < SAMPLED / BESIDE && j < map->channels; j++) {
		const float saliency = column_norm(map->norm[j]) * x[j];
		memcpy(sample + n, &saliency, sizeof saliency);
		sample[n++] &= INT32_MAX;
	}
	for (int i = n; i < n + FLOAT_LANES; i++)
		sample[i] = -1;
	return n;
}

/* How many of n samples are at least `least` */
static inline int count_samples(const int32_t* sample, int n, int32_t least) {
	indices count = {0};
	for (int i = 0; i < n; i += FLOAT_LANES) {
		indices some;
		memcpy(&some, sample + i, sizeof some);
		count -= some >= least;
	}
	int all = 0;
	for (int i = 0; i < FLOAT_LANES; i++)
		all += count[i];
	return all;
}

/* A multiple of 2^LEAST_BIT, in bits, less one: as many samples as wanted are greater. */
static inline float find_threshold(const struct column_map* map, const float* x, float share) {
	int32_t sample[SAMPLE_ROOM + FLOAT_LANES], least = 0;
	float threshold;
	if (share >= 1)
		return 0;
	const int n = sample_channels(map, x, sample);
	const float wanted = share * (float)n;
	for (int bit = 30; bit >= LEAST_BIT; bit--) {
		const int32_t more = least | (int32_t)1 << bit;
		if ((float)count_samples(sample, n, more) >= wanted)
			least = more;
	}
	least -= least > 0;
	memcpy(&threshold, &least, sizeof threshold);
	return threshold < __builtin_inff() ? threshold : 0;
}
