/* The graded landscape of a made-up model: what each sub-layer adds to the residual stream, and which repeat
 * one another.
 *
 * Trained models lose most by their first and last blocks and least by those past the middle, attention and
 * MLP differ, the more so the deeper, and neither falls or rises steadily. Here the logarithm of a
 * sub-layer's variance is such a curve of depth plus noise, brought to one mean and spread, so that every
 * seed and depth is as hard; none is free, and none outweighs the rest by far. Trained models also stand the
 * loss of a good part of their sub-layers, and say nothing of use without nearly all: blocks in a row work
 * the same way. So neighbours of one kind compute the same hidden values, each from its own input, and their
 * outputs share a part: some left out, the others still say it; all left out, it is gone. One in eight has
 * the other sign and takes part of it back. Which sub-layers to leave out is so a matter of which others are.
 * All is drawn from the seed and the number of blocks, whatever the widths: a narrow model of the same depth
 * and seed has the same landscape. */
#include <math.h>
#include <string.h>

#include "core/model/synth.h"
#include "kernels/synth_value.h"

/* Variance of a coordinate that inner sub-layers add, were they independent, and outer ones each in units of
 * their mean. */
static const double INNER_VARIANCE = 38, OUTER_SHARE = 0.3;
/* Standard deviation of the logarithm of the variance, of the noise in it before it is brought to that, and
 * how far a sub-layer lies from the mean at most, below and above. */
static const double SPREAD = 2.0, NOISE = 0.5, LEAST = -2.5, MOST = 0.4;

/* 1 at the first inner block, 0 past the middle, 0.7 at the last. */
static double depth_curve(double u) {
	const double lowest = 0.6, x = u < lowest ? 1 - u / lowest : (u - lowest) / (1 - lowest);
	return u < lowest ? x * x : 0.7 * x * x;
}

static double normal_draw(uint64_t seed, int i) {
	return synth_draw(synth_row_key(seed, 0x67726164u), (uint32_t)i) / SYNTH_DEVIATION;
}

/* Of the inner sub-layers, 2 to 2L - 3. */
static void grade(double* variance, int layers, uint64_t seed) {
	const int first = 2, last = 2 * layers - 2, n = last - first;
	double mean = 0, square = 0, sum = 0;
	for (int s = first; s < last; s++) {
		const double u = (double)(s / 2 - 1) / (layers - 3), kind = s % 2 ? 0.4 : 0.1 - 0.9 * u;
		variance[s] = 2 * depth_curve(u) + kind + NOISE * normal_draw(seed, s);
		mean += variance[s] / n;
		square += variance[s] * variance[s] / n;
	}
	const double deviation = sqrt(square - mean * mean);
	for (int s = first; s < last; s++) {
		const double z = (variance[s] - mean) / deviation;
		variance[s] = exp(SPREAD * fmax(LEAST, fmin(MOST, z)));
		sum += variance[s];
	}
	for (int s = first; s < last; s++)
		variance[s] *= INNER_VARIANCE / sum;
	variance[0] = variance[1] = variance[last] = variance[last + 1] = OUTER_SHARE * INNER_VARIANCE / n;
}

/* Inner blocks of a kind in groups of a sixth to a third of them. */
static void group(struct synth_landscape* out, int layers, int kind, uint64_t seed) {
	static const struct {
		int common, own;
	} parts[] = {{3, 2}, {2, 1}, {3, 1}}; /* correlations 0.69, 0.8, 0.9 */
	const int inner = layers - 2, least = inner / 6 > 2 ? inner / 6 : 2;
	for (int b = 1; b <= inner;) {
		const uint64_t draw = synth_mix(seed + (uint64_t)b);
		const int size = least + (int)(draw % (uint64_t)(least + 1)), first = b;
		const int common = parts[(draw >> 8) % 3].common, own = parts[(draw >> 8) % 3].own;
		for (; b < first + size && b <= inner; b++) {
			const int s = 2 * b + kind;
			const bool back = b > first && synth_mix(draw + (uint64_t)b) % 8 == 0;
			out->first[s] = 2 * first + kind;
			out->common[s] = back ? -common : common;
			out->own[s] = own;
		}
	}
}

void synth_landscape(struct synth_landscape* out, int layers, uint64_t seed) {
	const uint64_t mixed = synth_mix(seed ^ 0x6c616e64u);
	memset(out, 0, sizeof *out);
	for (int s = 0; s < 2 * layers; s++) {
		out->first[s] = s;
		out->own[s] = 1;
	}
	grade(out->variance, layers, mixed);
	group(out, layers, 0, synth_mix(mixed + 1));
	group(out, layers, 1, synth_mix(mixed + 2));
}
