/* Costs that are given to a bench instead of measured: v(n), the cost of a full pass of n rows in plain
 * steps, and c, that of a draft pass. */
#pragma once

#include "core/draft/tree.h"

struct cost_list {
	double verify[SLICE_ROWS + 1]; /* v(n) for n in 1..SLICE_ROWS, at least 1, not decreasing */
	double draft;                  /* c; NaN: not given */
};

/* text: "slope=0.05,c=0.55" or "v2=1.15,v4=1.5", with straight lines between and beyond the given values; or
 * a file written by `swiftlet bench decode --rows --json`. False with the error set. */
bool cost_list_read(struct cost_list*, const char* text, struct error*);
