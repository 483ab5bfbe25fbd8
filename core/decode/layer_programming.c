/* The table of states, a column at a time; layer_programming.h has the recurrence. */
#include "core/decode/layer_programming.h"

#include <math.h>
#include <string.h>

static float* at(const struct layer_programming* p, float* states, int j) {
	return states + (size_t)j * (size_t)p->n * (size_t)p->dim;
}

/* Rows of one set of states at most. */
static size_t most_rows(const struct model_shape* shape) {
	const size_t sub_layers = 2 * (size_t)shape->n_blocks;
	return sub_layers > MAX_ROWS ? sub_layers : MAX_ROWS;
}

size_t layer_programming_bytes(const struct model_shape* shape) {
	return sizeof(struct layer_programming) + 2 * most_rows(shape) * (size_t)shape->dim * sizeof(float);
}

void layer_programming_begin(struct layer_programming* p, struct cache* cache, const int32_t* token, int base,
                             int n, int size, struct mask* mask) {
	const struct model_shape* shape = &cache->backend->weights->shape;
	const int useful = MAX_ROWS / (size + 1);
	*p = (struct layer_programming){.cache = cache,
	                                .token = token,
	                                .mask = mask,
	                                .base = base,
	                                .size = size,
	                                .dim = shape->dim,
	                                .last = 2 * shape->n_blocks};
	p->n = n < useful ? n : useful > 0 ? useful : 1;
	p->state = (float*)(p + 1);
	p->ran = p->state + most_rows(shape) * (size_t)shape->dim;
	memset(mask, 0, (size_t)(size + 1) * sizeof *mask);
}

/* The first block runs from the embedding, for nothing skipped; then each sub-layer but the last block's on
 * the states of all numbers, each a chain of its own. */
bool layer_programming_fill(struct layer_programming* p, struct pass* pass) {
	static const uint8_t want[MAX_ROWS];
	const int end = p->s == 0 ? 2 : p->s + 1, chains = MAX_ROWS / p->n; /* a pass */
	if (p->s >= p->last - 2)
		return false;
	p->count = least(p->reach + 1 - p->j, chains);
	const int rows = p->count * p->n;
	for (int i = 0; i < rows; i++) {
		p->parent[i] = i % p->n == 0 ? -1 : i - 1;
		p->row_token[i] = p->token[i % p->n];
	}
	p->segment = (struct segment){.cache = p->cache, .base = p->base, .n = rows};
	*pass = pass_over(&p->segment, p->row_token, p->parent, end, want, p->out);
	pass->state = p->s > 0 ? at(p, p->state, p->j) : NULL;
	pass->first = p->s;
	pass->tap = end - 1;
	pass->tap_out = at(p, p->ran, p->j);
	return true;
}

/* Sum over rows of 1 - cosine with the full model's states. */
static double distance(const struct layer_programming* p, const float* x, const float* full) {
	double sum = 0;
	for (int i = 0; i < p->n; i++, x += p->dim, full += p->dim) {
		double xx = 0, yy = 0, xy = 0;
		for (int k = 0; k < p->dim; k++) {
			xx += (double)x[k] * x[k];
			yy += (double)full[k] * full[k];
			xy += (double)x[k] * full[k];
		}
		sum += 1 - xy / sqrt(xx * yy);
	}
	return sum;
}

/* Sub-layer s has been run on every state: each j keeps the better of running and skipping it. From the
 * largest j down, so that what j - 1 was before is still there. */
static void choose(struct layer_programming* p) {
	const size_t bytes = (size_t)p->n * (size_t)p->dim * sizeof(float);
	const float* full = at(p, p->ran, 0); /* nothing skipped */
	const int most = p->reach < p->size ? p->reach + 1 : p->size;
	for (int j = most; j > 0; j--) {
		const bool skip =
		    j > p->reach || distance(p, at(p, p->state, j - 1), full) < distance(p, at(p, p->ran, j), full);
		memcpy(at(p, p->state, j), skip ? at(p, p->state, j - 1) : at(p, p->ran, j), bytes);
		if (skip) {
			p->mask[j] = p->mask[j - 1];
			mask_set(&p->mask[j], p->s, true);
		}
	}
	memcpy(at(p, p->state, 0), full, bytes);
	p->reach = most;
}

void layer_programming_take(struct layer_programming* p) {
	p->cache->backend->discard(p->cache);
	if (p->s == 0) {
		memcpy(p->state, p->ran, (size_t)p->n * (size_t)p->dim * sizeof *p->state);
		p->s = 2;
		return;
	}
	p->passes++;
	p->j += p->count;
	if (p->j <= p->reach)
		return;
	choose(p);
	p->j = 0;
	p->s++;
}
