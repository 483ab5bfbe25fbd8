/* Numbers without sign between bounds, digit by digit; those below 0 are their mirror. */
#include "core/grammar/json_compiler.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MAX_DIGITS = 18, FRACTION = 9 };
static const int64_t unbounded = INT64_MAX;

static int32_t digits(struct grammar* g, int least, int most, int32_t next) { /* most < 0: any number */
	int32_t at = next;
	if (most < 0) {
		at = emit_loop(g, next);
		loop_close(g, at, emit_range(g, '0', '9', at));
	}
	for (int i = least; i < most; i++)
		at = emit_split(g, emit_range(g, '0', '9', at), next);
	for (int i = 0; i < least; i++)
		at = emit_range(g, '0', '9', at);
	return at;
}

/* Digits from low's on, or up to high's: one of them may be NULL. Both have as many. */
static int32_t between(struct grammar* g, const char* low, const char* high, int32_t next) {
	const char* either = low ? low : high;
	const int left = (int)strlen(either);
	if (left == 0)
		return next;
	const char from = low ? *low : '0', to = high ? *high : '9';
	if (low && high && from == to)
		return emit_range(g, (uint8_t)from, (uint8_t)to, between(g, low + 1, high + 1, next));
	const char first = (char)(low ? from + 1 : from), last = (char)(high ? to - 1 : to);
	int32_t all = NOWHERE;
	if (low)
		all = emit_range(g, (uint8_t)from, (uint8_t)from, between(g, low + 1, NULL, next));
	if (first <= last)
		all = emit_split(g, emit_range(g, (uint8_t)first, (uint8_t)last, digits(g, left - 1, left - 1, next)),
		                 all);
	if (high)
		all = emit_split(g, emit_range(g, (uint8_t)to, (uint8_t)to, between(g, NULL, high + 1, next)), all);
	return all;
}

/* Whole numbers from low >= 0 to high, `unbounded` or not. */
static int32_t whole_between(struct grammar* g, int64_t low, int64_t high, int32_t next) {
	int32_t all = NOWHERE;
	char from[24], to[24];
	int64_t first = 1;
	for (int length = 1; length <= MAX_DIGITS && low <= high; length++, first *= 10) {
		const int64_t least = length == 1 ? 0 : first, most = first * 10 - 1;
		if (low > most || high < least)
			continue;
		snprintf(from, sizeof from, "%lld", (long long)(low > least ? low : least));
		snprintf(to, sizeof to, "%lld", (long long)(high < most ? high : most));
		if (high == unbounded && low <= least && length > 1) /* and all that are longer */
			return emit_split(g, emit_range(g, '1', '9', digits(g, length - 1, -1, next)), all);
		all = emit_split(g, between(g, from, to, next), all);
	}
	return all;
}

static int32_t fraction(struct grammar* g, int decimals, bool not_zero, int32_t next) {
	if (!not_zero)
		return emit_range(g, '.', '.', digits(g, 1, decimals, next));
	const int before = (decimals < 0 ? FRACTION : decimals) - 1;
	return emit_range(g, '.', '.', digits(g, 0, before, emit_range(g, '1', '9', next)));
}

/* Numbers from low >= 0 on up to high, with a fraction too where they need not be whole. */
static int32_t from_zero(struct grammar* g, const struct json_range* r, int64_t low, bool low_exclusive,
                         int64_t high, bool high_exclusive, int32_t next) {
	const int64_t last = high == unbounded ? unbounded : high_exclusive ? high - 1 : high;
	const int64_t last_split = high == unbounded ? unbounded : high - 1;
	int32_t all = whole_between(g, low_exclusive ? low + 1 : low, last, next);
	if (r->whole)
		return all;
	const int32_t after = fraction(g, r->decimals, false, next);
	all = emit_split(g, whole_between(g, low_exclusive ? low + 1 : low, last_split, after), all);
	if (low_exclusive && low <= last_split)
		all = emit_split(g, whole_between(g, low, low, fraction(g, r->decimals, true, next)), all);
	return all;
}

static bool bounded(const struct json_bound* bound, bool whole) {
	return !bound->there ||
	       (fabs(bound->at) <= 1e15 && (whole || fabs(bound->at - floor(bound->at)) < 1e-300));
}

bool json_range_emit(struct grammar* g, const struct json_range* r, int32_t next, int32_t* start) {
	*start = NOWHERE;
	if (!bounded(&r->low, r->whole) || !bounded(&r->high, r->whole))
		return false;
	const int64_t low = r->low.there ? (int64_t)ceil(r->low.at) : -unbounded,
	              high = r->high.there ? (int64_t)floor(r->high.at) : unbounded;
	/* beside a bound that is itself no whole number none is left out */
	const bool low_exclusive = r->low.exclusive && ceil(r->low.at) <= r->low.at,
	           high_exclusive = r->high.exclusive && floor(r->high.at) >= r->high.at;
	if (high > 0 || (high == 0 && !high_exclusive))
		*start = from_zero(g, r, low > 0 ? low : 0, low >= 0 && low_exclusive, high, high_exclusive, next);
	if (low < 0) { /* 0 is none of these */
		const bool below = high < 0;
		const int32_t mirrored = from_zero(g, r, below ? -high : 0, !below || high_exclusive,
		                                   low == -unbounded ? unbounded : -low, low_exclusive, next);
		*start = emit_split(g, emit_range(g, '-', '-', mirrored), *start);
	}
	return true;
}
