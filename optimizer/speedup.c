/* Chains of every length, priced; speedup.h has the formula. */
#include "optimizer/speedup.h"

double speedup_of(const struct search_costs* cost, double step, double alpha) {
	const double c = step > 1e-3 ? step : 1e-3, a = alpha < 0 ? 0 : alpha > 1 ? 1 : alpha;
	double best = 0, emitted = 1, reach = 1;
	for (int depth = 1; depth <= cost->max_draft && depth < SLICE_ROWS; depth++) {
		reach *= a;
		emitted += reach;
		const double gain = emitted / (depth * c + cost->verify[depth + 1]);
		if (gain > best)
			best = gain;
	}
	return best;
}
