/* Bayesian proposals. For now the maximiser of the linear model's posterior mean. */
#include "optimizer/search_internal.h"
#include <stdlib.h>
struct background {
	bool wanted;
};
struct background* background_open(const struct search* s) {
	(void)s;
	return calloc(1, sizeof(struct background));
}
void background_close(struct background* b) { free(b); }
void background_observe(struct search* s, const struct vector* v, double y, double variance, int64_t window) {
	(void)s, (void)v, (void)y, (void)variance, (void)window;
}
void background_want(struct search* s) { s->background->wanted = true; }
bool background_take(struct search* s, struct vector* v) {
	if (!s->background->wanted)
		return false;
	s->background->wanted = false;
	linear_weights(s->linear, s->weight);
	best_of_weights(s, s->weight, linear_constant(s->linear), v);
	for (int try = 0; try < 32 && record_find(&s->record, v) >= 0; try++)
		swap_one(s, v);
	return record_find(&s->record, v) < 0;
}
double background_seconds(const struct background* b) {
	(void)b;
	return 0;
}
