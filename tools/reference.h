#ifndef SWIFTLET_TOOLS_REFERENCE_H
#define SWIFTLET_TOOLS_REFERENCE_H
#include "optimizer/engine.h"
struct reference_prices { double slope; };
static inline bool reference_mask_for(struct engine* e, const struct reference_prices* p, struct mask* out, struct error* error) {
	(void)p; (void)error;
	*out = e->model->planted[0];
	return true;
}
#endif
