/* The head of drafts that choose among a list of tokens (core/draft/shortlist.h): the other rows of the head
 * are not read. */
#include "kernels/cpu/cpu.h"

static const float next_to_none = -1e30f;

/* Groups of INTERLEAVED_ROWS rows with a token that some row is allowed; -1: some row is allowed all. */
static int list_groups(const struct cpu_backend* b, const int* row, int n, int64_t tokens) {
	const int groups = (int)((tokens + INTERLEAVED_ROWS - 1) / INTERLEAVED_ROWS),
	          a_word = 64 / INTERLEAVED_ROWS;
	int count = 0;
	for (int i = 0; i < n; i++)
		if (!b->row[row[i]].allowed)
			return -1;
	for (int g = 0; g < groups; g += a_word) {
		uint64_t any = 0;
		for (int i = 0; i < n; i++)
			any |= b->row[row[i]].allowed[g / a_word];
		for (int in = 0; in < a_word && g + in < groups; in++)
			if (any >> in * INTERLEAVED_ROWS & 0xffff)
				b->head_group[count++] = g + in;
	}
	return count;
}

bool listed_logits(struct cpu_backend* b, const int* row, int n, const struct product* product) {
	const int groups = list_groups(b, row, n, product->w->rows);
	if (groups < 0)
		return false;
	for (size_t v = 0; v < product->stride * (size_t)n; v++)
		product->out[v] = next_to_none;
	multiply_groups(b, b->normed, product->w->cols, n, product, b->head_group, groups);
	return true;
}
