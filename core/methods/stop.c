/* The stop rules, one comparison each. */
#include "core/methods/stop.h"

#include "core/draft/tree.h"

/* Draft & Verify's constants, which AdaSPEED keeps: b1, b2, e, and a, the share accepted that is aimed at. */
static const float average_keeps = 0.5f, threshold_keeps = 0.9f, threshold_step = 0.01f, target = 0.9f;

void stop_begin(struct stopper* s) {
	s->threshold = s->start;
	s->average = 0;
}

void stop_chain(struct stopper* s) {
	s->product = 1;
	s->steps = 0;
}

static bool is_below_threshold(const struct stopper* s, float chance) {
	return chance < s->threshold || (s->at_most && chance == s->threshold);
}

static bool is_unsure(const struct stopper* s, float chance) {
	switch (s->rule) {
	case STOP_MARGINAL:
		return is_below_threshold(s, chance);
	case STOP_PRODUCT:
	case STOP_PROBE:
		return is_below_threshold(s, s->product);
	case STOP_GAIN:
		return s->product < s->policy->min_reach[s->steps];
	default:
		return false;
	}
}

bool stop_after(struct stopper* s, float chance, float top, const char** why) {
	s->steps++;
	s->product *= s->rule == STOP_GAIN ? s->policy->accept[draft_bin(top)] : chance;
	if (is_unsure(s, chance)) {
		*why = "threshold";
		return true;
	}
	*why = "steps";
	return s->steps >= s->most;
}

void stop_learn(struct stopper* s, int drafted, int accepted) {
	if (!s->adapts || drafted < 1)
		return;
	s->average = average_keeps * s->average + (1 - average_keeps) * (float)accepted / (float)drafted;
	const float moved = s->threshold + (s->average <= target ? threshold_step : -threshold_step);
	s->threshold = threshold_keeps * s->threshold + (1 - threshold_keeps) * moved;
}
