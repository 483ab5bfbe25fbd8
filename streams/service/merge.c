/* Joins passes, and takes their results apart. */
#include "streams/service/merge.h"

#include <stdlib.h>
#include <string.h>

bool merge_open(struct merged_pass* m, int dim) {
	m->dim = dim;
	m->state = malloc(sizeof *m->state * MAX_ROWS * (size_t)dim);
	m->normed = malloc(sizeof *m->normed * MAX_ROWS * (size_t)dim);
	m->given = malloc(sizeof *m->given * MAX_ROWS * (size_t)dim);
	return m->state && m->normed && m->given;
}

void merge_close(struct merged_pass* m) {
	free(m->state);
	free(m->normed);
	free(m->given);
}

bool merge_may(const struct pass* p) {
	return p->kind == PASS_EXACT && p->first == 0 && p->n_segments == 1 && !p->stored_levels;
}

static bool same_levels(const struct levels* a, const struct levels* b) {
	static const struct levels none;
	return levels_equal(a ? a : &none, b ? b : &none);
}

static bool same_set(const struct mask* a, const struct mask* b) {
	static const struct mask none;
	return mask_equal(a ? a : &none, b ? b : &none);
}

void merge_begin(struct merged_pass* m, const struct pass* p) {
	m->pass = (struct pass){.kind = PASS_EXACT,
	                        .segment = m->segment,
	                        .token = m->token,
	                        .parent = m->parent,
	                        .skip = p->skip,
	                        .quantized = p->quantized,
	                        .quantized_head = p->quantized_head,
	                        .levels = p->levels,
	                        .last = p->last,
	                        .tap = -1,
	                        .tap_out = m->state,
	                        .state = p->state ? m->given : NULL,
	                        .states = p->states,
	                        .want = m->want,
	                        .out = m->out};
	merge_add(m, p);
}

bool merge_fits(const struct merged_pass* m, const struct pass* p) {
	const struct pass* all = &m->pass;
	return merge_may(p) && p->n <= MAX_ROWS - all->n && p->last == all->last &&
	       p->segment[0].cache->backend == all->segment[0].cache->backend && !p->state == !all->state &&
	       same_set(p->skip, all->skip) && same_set(p->quantized, all->quantized) &&
	       p->quantized_head == all->quantized_head && same_levels(p->levels, all->levels) &&
	       (p->tap < 0 || all->tap < 0 || p->tap == all->tap);
}

void merge_add(struct merged_pass* m, const struct pass* p) {
	const int at = m->pass.n;
	m->segment[m->pass.n_segments++] = p->segment[0];
	memcpy(m->token + at, p->token, (size_t)p->n * sizeof *m->token);
	if (p->state)
		memcpy(m->given + (size_t)at * (size_t)m->dim, p->state,
		       (size_t)p->n * (size_t)m->dim * sizeof *m->given);
	/* a row of a pass without a head wants nothing */
	if (p->head) {
		memcpy(m->want + at, p->want, (size_t)p->n * sizeof *m->want);
		memcpy(m->out + at, p->out, (size_t)p->n * sizeof *m->out);
	} else
		memset(m->want + at, WANT_NOTHING, (size_t)p->n * sizeof *m->want);
	/* parents are numbers among a segment's own pending rows, so they stay; a chain is written out */
	const int pending = p->segment[0].cache->pending;
	for (int i = 0; i < p->n; i++)
		m->parent[at + i] = p->parent ? p->parent[i] : i == 0 ? -1 : pending + i - 1;
	m->pass.head |= p->head;
	if (p->tap >= 0) {
		m->pass.tap = p->tap;
		m->pass.states = NULL; /* no pass gives both */
	}
	if (p->normed_out)
		m->pass.normed_out = m->normed;
	m->pass.n += p->n;
}

int merge_take(const struct merged_pass* m, const struct pass* p, int row) {
	const size_t n = (size_t)p->n;
	if (p->head)
		memcpy(p->out, m->out + row, n * sizeof *m->out);
	if (p->tap >= 0)
		memcpy(p->tap_out, m->state + (size_t)row * (size_t)m->dim, n * (size_t)m->dim * sizeof *m->state);
	if (p->normed_out)
		memcpy(p->normed_out, m->normed + (size_t)row * (size_t)m->dim,
		       n * (size_t)m->dim * sizeof *m->normed);
	return row + p->n;
}
