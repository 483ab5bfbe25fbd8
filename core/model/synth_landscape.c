/* The graded landscape of a made-up model: what each sub-layer adds to the residual stream, and which
 * neighbours interact.
 *
 * Trained models lose most by their first and last blocks and least by those past the middle, attention and
 * MLP differ, the more so the deeper, and neither falls or rises steadily. Here the logarithm of a
 * sub-layer's variance is such a curve of depth plus noise, brought to one mean and spread, so that every
 * seed and depth is as hard; none is free. Neighbours are the same kind of two blocks in a row. The second of
 * a pair computes the same hidden values from its own input, and its output shares a part with the first's:
 * with one sign it goes further the same way (both skipped cost more than the sum), with the other it takes
 * part of the first's back (both cost less). All is drawn from the seed and the number of blocks, whatever
 * the widths: a narrow model of the same depth and seed has the same landscape. */
#include <math.h>
#include <string.h>

#include "core/model/synth.h"
#include "kernels/synth_value.h"

/* Variance of a coordinate that inner sub-layers add together, and outer ones each in units of their mean:
 * random masks that leave out 0.45 of them then match about half. */
static const double INNER_VARIANCE = 28, OUTER_SHARE = 1.5;
/* Standard deviation of the logarithm of the variance, of the noise in it before it is brought to that, and
 * how far a sub-layer lies from the mean at most. */
static const double SPREAD = 1.35, NOISE = 0.5, FARTHEST = 2.0;

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
		variance[s] = exp(SPREAD * fmax(-FARTHEST, fmin(FARTHEST, z)));
		sum += variance[s];
	}
	for (int s = first; s < last; s++)
		variance[s] *= INNER_VARIANCE / sum;
	variance[0] = variance[1] = variance[last] = variance[last + 1] = OUTER_SHARE * INNER_VARIANCE / n;
}

/* Blocks of a kind two by two, from the first or the second inner one on; two pairs of three interact. */
static void pair_up(struct synth_landscape* out, int layers, int kind, uint64_t seed) {
	static const struct {
		int common, own;
	} parts[] = {{1, 1}, {4, 3}, {2, 1}}; /* correlations 0.5, 0.64, 0.8 */
	for (int b = 1 + (int)(seed & 1u); b + 1 <= layers - 2; b += 2) {
		const uint64_t draw = synth_mix(seed + (uint64_t)b);
		const int s = 2 * b + kind, next = s + 2;
		if (draw % 3 == 0)
			continue;
		const int common = parts[(draw >> 8) % 3].common, own = parts[(draw >> 8) % 3].own;
		out->first[next] = s;
		out->common[s] = common;
		out->common[next] = (draw >> 16) & 1u ? common : -common;
		out->own[s] = out->own[next] = own;
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
	pair_up(out, layers, 0, synth_mix(mixed + 1));
	pair_up(out, layers, 1, synth_mix(mixed + 2));
}
