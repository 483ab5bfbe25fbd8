/* The measured costs of sharing, and the putting together of passes. */
#include "streams/service/merge.h"

#include <stdlib.h>
#include <string.h>

/* Exact up to 8 rows, then in steps of about a fifth. */
static int bucket(int rows) {
	static const int upto[MERGE_BUCKETS] = {1,  2,  3,  4,  5,  6,  7,  8,  10, 12,  14,  16,
	                                        20, 24, 28, 32, 40, 48, 56, 64, 96, 128, 192, 256};
	int b = 0;
	while (b < MERGE_BUCKETS - 1 && rows > upto[b])
		b++;
	return b;
}

void merge_see(struct merge_costs* c, int rows, bool shared, double seconds) {
	double* known = shared ? &c->shared[bucket(rows)] : &c->alone[bucket(rows)];
	/* one pass during which the machine was away is not to decide for long */
	if (*known > 0 && seconds > 4 * *known)
		seconds = 4 * *known;
	*known = *known > 0 ? *known + 0.1 * (seconds - *known) : seconds;
}

bool merge_pays(struct merge_costs* c, const int* rows, int n) {
	int total = 0;
	double apart = 0;
	for (int i = 0; i < n; i++) {
		const double alone = c->alone[bucket(rows[i])];
		total += rows[i];
		if (!(alone > 0)) { /* what they cost apart must be seen first */
			c->separate++;
			return false;
		}
		apart += alone;
	}
	const double together = c->shared[bucket(total)];
	bool merge = !(together > 0) || together < apart;
	if (++c->asked % MERGE_AGAIN == 0)
		merge = !merge;
	*(merge ? &c->merged : &c->separate) += 1;
	return merge;
}

bool merge_fits(const struct pass* p, int rows) {
	return p->kind == PASS_EXACT && !p->skip && !p->low && !p->low_head && p->first == 0 && p->head &&
	       !p->influence && (p->tap < 0 || p->tap == p->last - 1) && p->n_segments == 1 &&
	       p->n <= MAX_ROWS - rows;
}

bool merge_open(struct merged_pass* m, int dim) {
	m->dim = dim;
	m->state = malloc(sizeof *m->state * MAX_ROWS * (size_t)dim);
	return m->state != NULL;
}

void merge_close(struct merged_pass* m) { free(m->state); }

void merge_begin(struct merged_pass* m, int sub_layers) {
	m->pass = (struct pass){.kind = PASS_EXACT,
	                        .segment = m->segment,
	                        .token = m->token,
	                        .parent = m->parent,
	                        .last = sub_layers,
	                        .head = true,
	                        .tap = -1,
	                        .tap_out = m->state,
	                        .want = m->want,
	                        .out = m->out};
}

void merge_add(struct merged_pass* m, const struct pass* p) {
	const int at = m->pass.n;
	m->segment[m->pass.n_segments++] = p->segment[0];
	memcpy(m->token + at, p->token, (size_t)p->n * sizeof *m->token);
	memcpy(m->want + at, p->want, (size_t)p->n * sizeof *m->want);
	memcpy(m->out + at, p->out, (size_t)p->n * sizeof *m->out);
	/* parents count a segment's own pending rows: they stay; a chain is written out */
	const int pending = p->segment[0].cache->pending;
	for (int i = 0; i < p->n; i++)
		m->parent[at + i] = p->parent ? p->parent[i] : i == 0 ? -1 : pending + i - 1;
	if (p->tap >= 0)
		m->pass.tap = p->tap;
	m->pass.n += p->n;
}

int merge_take(const struct merged_pass* m, const struct pass* p, int row) {
	memcpy(p->out, m->out + row, (size_t)p->n * sizeof *m->out);
	if (p->tap >= 0)
		memcpy(p->tap_out, m->state + (size_t)row * (size_t)m->dim,
		       (size_t)p->n * (size_t)m->dim * sizeof *m->state);
	return row + p->n;
}
