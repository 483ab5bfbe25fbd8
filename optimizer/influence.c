/* Running sums of influence that fade. */
#include "optimizer/influence.h"

#include <math.h>

static void fade_counts(struct influence* influence, int blocks) {
	if (influence->rows <= INFLUENCE_MEMORY)
		return;
	const double keep = INFLUENCE_MEMORY / influence->rows;
	for (int s = 0; s < 2 * blocks; s++)
		influence->sum[s] *= keep;
	influence->rows = INFLUENCE_MEMORY;
}

void influence_add(struct influence* influence, const float* of, int blocks, int n, int row) {
	for (int s = 0; s < 2 * blocks; s++)
		if (!isfinite(of[s * n + row]))
			return;
	for (int s = 0; s < 2 * blocks; s++)
		influence->sum[s] += (double)of[s * n + row];
	influence->rows += 1;
	fade_counts(influence, blocks);
}

void influence_join(struct influence* influence, const struct influence* other, int blocks) {
	for (int s = 0; s < 2 * blocks; s++)
		influence->sum[s] += other->sum[s];
	influence->rows += other->rows;
	fade_counts(influence, blocks);
}

void influence_mean(const struct influence* influence, int blocks, double* mean) {
	for (int s = 0; s < 2 * blocks; s++)
		mean[s] = influence->rows > 0 ? influence->sum[s] / influence->rows : 0;
}
