/* Numbers between bounds, as JSON writes them, into a program. */
#ifndef SWIFTLET_CORE_GRAMMAR_JSON_RANGE_H
#define SWIFTLET_CORE_GRAMMAR_JSON_RANGE_H

#include "core/grammar/program.h"

struct json_range {
	bool whole;   /* integers */
	int decimals; /* digits after the point, at most; -1: any number */
	bool has_low, has_high, low_exclusive, high_exclusive;
	double low, high;
};

/* *start: before `next`; NOWHERE where no number is between the bounds. Of numbers that need not be whole the
 * bounds are; false where they are not, or beyond 10^15. */
bool json_range_emit(struct grammar*, const struct json_range*, int32_t next, int32_t* start);

#endif
