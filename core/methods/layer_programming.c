/* Fills the table of states column by column; layer_programming.h has the recurrence. */
#include "core/methods/layer_programming.h"

#include <math.h>
#include <string.h>

static float* states_at(const struct layer_programming* p, float* states, int j) {
	return states + (size_t)j * (size_t)p->dim;
}

/* Floats of one set of states at most. */
static size_t set_size(const struct model_shape* shape) {
	return 2 * (size_t)shape->n_blocks * (size_t)shape->dim;
}

size_t layer_programming_bytes(const struct model_shape* shape) {
	return sizeof(struct layer_programming) + 2 * (size_t)shape->n_blocks * sizeof(struct mask) +
	       2 * set_size(shape) * sizeof(float);
}

void layer_programming_begin(struct layer_programming* p, struct cache* cache, int32_t token, int base,
                             int size) {
	const struct model_shape* shape = &cache->backend->weights->shape;
	*p = (struct layer_programming){.mask = (struct mask*)(p + 1),
	                                .size = size,
	                                .dim = shape->dim,
	                                .last = 2 * shape->n_blocks,
	                                .segment = {.cache = cache, .base = base}};
	for (int i = 0; i < MAX_ROWS; i++) {
		p->token[i] = token;
		p->parent[i] = -1;
	}
	p->state = (float*)(p->mask + p->last);
	p->ran = p->state + set_size(shape);
	memset(p->mask, 0, (size_t)(size + 1) * sizeof *p->mask);
}

/* The first block runs from the embedding, with nothing skipped. Then each sub-layer, except the last
 * block's, runs on the states of all numbers. */
void layer_programming_fill(struct layer_programming* p, struct pass* pass) {
	const int end = p->s == 0 ? 2 : p->s + 1;
	p->segment.n = p->count = least(p->reach + 1 - p->j, MAX_ROWS);
	*pass = pass_over(&p->segment, p->token, p->parent, end, NULL, NULL);
	pass->state = p->s > 0 ? states_at(p, p->state, p->j) : NULL;
	pass->first = p->s;
	pass->tap = end - 1;
	pass->tap_out = states_at(p, p->ran, p->j);
}

/* 1 - cosine with the full model's state. */
static double measure_distance(const struct layer_programming* p, const float* x, const float* full) {
	double xx = 0, yy = 0, xy = 0;
	for (int k = 0; k < p->dim; k++) {
		xx += (double)x[k] * x[k];
		yy += (double)full[k] * full[k];
		xy += (double)x[k] * full[k];
	}
	return 1 - xy / sqrt(xx * yy);
}

/* Sub-layer s has run on every state. Each j keeps the better of running and skipping it. j falls, so that
 * the state of j - 1 is still the old one. */
static void choose_state(struct layer_programming* p) {
	const size_t bytes = (size_t)p->dim * sizeof(float);
	const float* full = states_at(p, p->ran, 0); /* nothing skipped */
	const int most = p->reach < p->size ? p->reach + 1 : p->size;
	for (int j = most; j > 0; j--) {
		const bool skip = j > p->reach || measure_distance(p, states_at(p, p->state, j - 1), full) <
		                                      measure_distance(p, states_at(p, p->ran, j), full);
		memcpy(states_at(p, p->state, j), skip ? states_at(p, p->state, j - 1) : states_at(p, p->ran, j),
		       bytes);
		if (skip) {
			p->mask[j] = p->mask[j - 1];
			mask_set(&p->mask[j], p->s, true);
		}
	}
	memcpy(states_at(p, p->state, 0), full, bytes);
	p->reach = most;
}

bool layer_programming_take(struct layer_programming* p) {
	p->segment.cache->backend->discard(p->segment.cache);
	if (p->s == 0) {
		memcpy(p->state, p->ran, (size_t)p->dim * sizeof *p->state);
		p->s = 2;
		return false;
	}
	p->j += p->count;
	if (p->j <= p->reach)
		return false;
	choose_state(p);
	p->j = 0;
	return ++p->s == p->last - 2;
}
