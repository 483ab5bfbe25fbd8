/* The arena, ranges of characters, numbers; reader.h says for whom. */
#include "core/grammar/reader.h"

#include <stdlib.h>
#include <string.h>

bool reader_open(struct reader* r) {
	r->node = malloc(READER_NODES * sizeof *r->node);
	r->range = malloc(READER_RANGES * sizeof *r->range);
	return r->node && r->range;
}

void reader_close(struct reader* r) {
	free(r->node);
	free(r->range);
}

int reader_fail(struct reader* r, const char* why) {
	if (!r->failed)
		r->say(r, why);
	r->failed = true;
	return 0;
}

int reader_node(struct reader* r, struct node node) {
	if (r->n_nodes == READER_NODES)
		return reader_fail(r, "too many parts");
	r->node[r->n_nodes] = node;
	return r->n_nodes++;
}

void reader_range(struct reader* r, uint32_t low, uint32_t high) {
	if (r->n_ranges == READER_RANGES)
		reader_fail(r, "too many characters");
	else
		r->range[r->n_ranges++] = (struct range){low, high};
}

static int compare_ranges(const void* a, const void* b) {
	const struct range *x = a, *y = b;
	return (x->low > y->low) - (x->low < y->low);
}

void reader_tidy(struct reader* r, int from) {
	qsort(r->range + from, (size_t)(r->n_ranges - from), sizeof *r->range, compare_ranges);
	int n = from;
	for (int i = from; i < r->n_ranges; i++) {
		if (n > from && r->range[i].low <= r->range[n - 1].high + 1) {
			if (r->range[i].high > r->range[n - 1].high)
				r->range[n - 1].high = r->range[i].high;
		} else
			r->range[n++] = r->range[i];
	}
	r->n_ranges = n;
}

void reader_negate(struct reader* r, int from) {
	reader_tidy(r, from);
	const int n = r->n_ranges - from;
	uint32_t low = 0;
	for (int i = 0; i < n && !r->failed; i++) {
		const struct range range = r->range[from + i];
		if (low < range.low)
			reader_range(r, low, range.low - 1);
		low = range.high + 1;
	}
	if (low <= LAST_CODE)
		reader_range(r, low, LAST_CODE);
	if (r->failed)
		return;
	memmove(r->range + from, r->range + from + n, (size_t)(r->n_ranges - from - n) * sizeof *r->range);
	r->n_ranges -= n;
}

uint32_t reader_hexadecimal(struct reader* r, int digits) {
	uint32_t code = 0;
	for (int i = 0; i < digits; i++) {
		const char c = reader_more(r) ? r->text[r->at++] : 0;
		const int value = c >= '0' && c <= '9'   ? c - '0'
		                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
		                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
		                                         : -1;
		if (value < 0)
			return (uint32_t)reader_fail(r, "a hexadecimal digit is missing");
		code = code << 4 | (uint32_t)value;
	}
	return code <= LAST_CODE ? code : (uint32_t)reader_fail(r, "no character has this number");
}

int reader_number(struct reader* r) {
	int value = UNBOUNDED;
	while (reader_more(r) && r->text[r->at] >= '0' && r->text[r->at] <= '9') {
		value = (value < 0 ? 0 : value) * 10 + (r->text[r->at++] - '0');
		if (value > READER_REPEAT)
			return reader_fail(r, "a count is over 4096");
	}
	return value;
}
