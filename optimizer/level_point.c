/* Points to masks, and back. */
#include "optimizer/level_point.h"

#include <math.h>

/* Ratios lie between 1 over this and this. */
static const double MOST_KIND_RATIO = 4, MOST_DEPTH_RATIO = 2.5;

static double to_ratio(double x, double most) { return pow(most, 2 * x - 1); }
static double to_coordinate(double ratio, double most) {
	return fmin(1, fmax(0, 0.5 + 0.5 * log(ratio) / log(most)));
}

double level_read_coordinate(double share) {
	return fmin(1, fmax(0, log(share / LEVEL_LEAST) / log(1 / LEVEL_LEAST)));
}

/* Kept shares by depth and kind, in blocks that are not skipped. */
static double compute_share(const struct level_model* m, const struct mask* skip,
                            double kept[LEVEL_DEPTHS][COLUMN_KINDS]) {
	double read = 0, all = 0;
	for (int s = 0; s < 2 * m->blocks; s++) {
		const int first = s % 2 == 0 ? COLUMN_ATTENTION : COLUMN_MLP;
		for (int k = first; k < first + 2; k++) {
			all += m->bytes[k];
			read += mask_has(skip, s) ? 0 : m->bytes[k] * kept[level_depth(s / 2, m->blocks)][k];
		}
	}
	return all > 0 ? read / all : 1;
}

static const struct levels* choose_levels(const struct mask* mask, const struct levels* otherwise) {
	return mask->has_levels ? &mask->levels : otherwise;
}

double level_share(const struct level_model* m, const struct mask* mask, const struct levels* otherwise) {
	const struct levels* const levels = choose_levels(mask, otherwise);
	double kept[LEVEL_DEPTHS][COLUMN_KINDS];
	for (int d = 0; d < LEVEL_DEPTHS; d++)
		for (int k = 0; k < COLUMN_KINDS; k++)
			kept[d][k] = 1 - levels->left_out[d][k] / 100.0;
	return compute_share(m, mask, kept);
}

static double clamp_share(double share) { return fmin(1, fmax(1 - LEVEL_MOST / 100.0, share)); }

struct mask level_mask(const struct level_model* m, const double x[LEVEL_DIMS]) {
	struct mask mask = {.has_levels = true};
	double weight[LEVEL_DEPTHS][COLUMN_KINDS], kept[LEVEL_DEPTHS][COLUMN_KINDS];
	for (int d = 0; d < LEVEL_DEPTHS; d++)
		for (int k = 0; k < COLUMN_KINDS; k++) {
			static const int kind[COLUMN_KINDS] = {[COLUMN_ATTENTION] = LEVEL_ATTENTION,
			                                       [COLUMN_ATTENTION_OUT] = LEVEL_OUTPUT,
			                                       [COLUMN_MLP] = -1,
			                                       [COLUMN_DOWN] = LEVEL_DOWN};
			static const int third[LEVEL_DEPTHS] = {LEVEL_FIRST, -1, LEVEL_LAST};
			weight[d][k] = (kind[k] < 0 ? 1 : to_ratio(x[kind[k]], MOST_KIND_RATIO)) *
			               (third[d] < 0 ? 1 : to_ratio(x[third[d]], MOST_DEPTH_RATIO));
		}
	const double wanted = pow(LEVEL_LEAST, 1 - x[LEVEL_READ]);
	double low = 1e-3, high = 1e3; /* the share read rises with the scale */
	for (int step = 0; step < 40; step++) {
		const double scale = sqrt(low * high);
		for (int d = 0; d < LEVEL_DEPTHS; d++)
			for (int k = 0; k < COLUMN_KINDS; k++)
				kept[d][k] = clamp_share(scale * weight[d][k]);
		if (compute_share(m, &mask, kept) < wanted)
			low = scale;
		else
			high = scale;
	}
	for (int d = 0; d < LEVEL_DEPTHS; d++)
		for (int k = 0; k < COLUMN_KINDS; k++)
			mask.levels.left_out[d][k] = (uint8_t)lround(100 * (1 - kept[d][k]));
	return mask;
}

void level_point(const struct level_model* m, const struct mask* mask, const struct levels* otherwise,
                 double x[LEVEL_DIMS]) {
	const struct levels* const levels = choose_levels(mask, otherwise);
	double by_kind[COLUMN_KINDS] = {0}, by_depth[LEVEL_DEPTHS] = {0};
	for (int d = 0; d < LEVEL_DEPTHS; d++)
		for (int k = 0; k < COLUMN_KINDS; k++) {
			const double kept = log(1 - levels->left_out[d][k] / 100.0);
			by_kind[k] += kept / LEVEL_DEPTHS;
			by_depth[d] += kept / COLUMN_KINDS;
		}
	x[LEVEL_READ] = level_read_coordinate(level_share(m, mask, otherwise));
	x[LEVEL_ATTENTION] = to_coordinate(exp(by_kind[COLUMN_ATTENTION] - by_kind[COLUMN_MLP]), MOST_KIND_RATIO);
	x[LEVEL_OUTPUT] =
	    to_coordinate(exp(by_kind[COLUMN_ATTENTION_OUT] - by_kind[COLUMN_MLP]), MOST_KIND_RATIO);
	x[LEVEL_DOWN] = to_coordinate(exp(by_kind[COLUMN_DOWN] - by_kind[COLUMN_MLP]), MOST_KIND_RATIO);
	x[LEVEL_FIRST] = to_coordinate(exp(by_depth[0] - by_depth[1]), MOST_DEPTH_RATIO);
	x[LEVEL_LAST] = to_coordinate(exp(by_depth[2] - by_depth[1]), MOST_DEPTH_RATIO);
}
