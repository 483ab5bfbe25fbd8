/* Chains of every length, priced; speedup.h has the formula. */
#include "optimizer/speedup.h"

#include "core/decode/price.h"

double speedup_of(const struct search_costs* cost, double step, double alpha) {
	const double c = step > 1e-3 ? step : 1e-3, a = alpha < 0 ? 0 : alpha > 1 ? 1 : alpha;
	return price_chain(cost->verify, cost->max_draft, a, c);
}
