/* The table of states, a column at a time; layer_programming.h has the recurrence. */
#include "core/decode/layer_programming.h"

#include <math.h>
#include <string.h>

struct programming {
	struct backend* backend;
	struct cache* cache;
	const int32_t* token;          /* those of the rows */
	int base, n, size, dim, reach; /* reach: most sub-layers that can have been skipped so far */
	float *state, *ran;            /* (size + 1, n, dim) before and after running the sub-layer */
	int32_t parent[MAX_ROWS], row_token[MAX_ROWS];
	struct result out[MAX_ROWS];
};

static float* at(const struct programming* p, float* states, int j) {
	return states + (size_t)j * (size_t)p->n * (size_t)p->dim;
}

/* Runs sub-layers [first, last) on the states of `count` numbers skipped, from j on, each a chain of its own;
 * from the embedding where first is 0. */
static bool run(struct programming* p, int first, int last, int j, int count, struct error* error) {
	static const uint8_t want[MAX_ROWS];
	const int rows = count * p->n;
	for (int i = 0; i < rows; i++) {
		p->parent[i] = i % p->n == 0 ? -1 : i - 1;
		p->row_token[i] = p->token[i % p->n];
	}
	const struct segment segment = {.cache = p->cache, .base = p->base, .n = rows};
	struct pass pass = pass_over(&segment, p->row_token, p->parent, last, want, p->out);
	pass.state = first > 0 ? at(p, p->state, j) : NULL;
	pass.first = first;
	pass.tap = last - 1;
	pass.tap_out = at(p, p->ran, j);
	const bool good = p->backend->run(p->backend, &pass, error);
	if (good)
		p->backend->discard(p->cache);
	return good;
}

/* Sum over rows of 1 - cosine with the full model's states. */
static double distance(const struct programming* p, const float* x, const float* full) {
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
static void choose(struct programming* p, int s, struct mask* mask) {
	const size_t bytes = (size_t)p->n * (size_t)p->dim * sizeof(float);
	const float* full = at(p, p->ran, 0); /* nothing skipped */
	const int most = p->reach < p->size ? p->reach + 1 : p->size;
	for (int j = most; j > 0; j--) {
		const bool skip =
		    j > p->reach || distance(p, at(p, p->state, j - 1), full) < distance(p, at(p, p->ran, j), full);
		memcpy(at(p, p->state, j), skip ? at(p, p->state, j - 1) : at(p, p->ran, j), bytes);
		if (skip) {
			mask[j] = mask[j - 1];
			mask_set(&mask[j], s, true);
		}
	}
	memcpy(at(p, p->state, 0), full, bytes);
	p->reach = most;
}

static bool solve(struct programming* p, int last, struct mask* mask, int* passes, struct error* error) {
	const int chains = MAX_ROWS / p->n; /* a pass */
	if (!run(p, 0, 2, 0, 1, error))
		return false;
	memcpy(p->state, p->ran, (size_t)p->n * (size_t)p->dim * sizeof *p->state);
	for (int s = 2; s < last - 2; s++) {
		for (int j = 0; j <= p->reach; j += chains) {
			const int left = p->reach + 1 - j;
			if (!run(p, s, s + 1, j, left < chains ? left : chains, error))
				return false;
			++*passes;
		}
		choose(p, s, mask);
	}
	return true;
}

/* Rows of one set of states at most. */
static size_t most_rows(const struct model_shape* shape) {
	const size_t sub_layers = 2 * (size_t)shape->n_blocks;
	return sub_layers > MAX_ROWS ? sub_layers : MAX_ROWS;
}

size_t layer_programming_bytes(const struct model_shape* shape) {
	return sizeof(struct programming) + 2 * most_rows(shape) * (size_t)shape->dim * sizeof(float);
}

bool layer_programming(struct backend* backend, struct cache* cache, const int32_t* token, int base, int n,
                       int size, struct mask* mask, void* space, struct layer_programming* out,
                       struct error* error) {
	const struct model_shape* shape = &cache->backend->weights->shape;
	const int useful = MAX_ROWS / (size + 1);
	struct programming* p = space;
	*p = (struct programming){
	    .backend = backend, .cache = cache, .token = token, .base = base, .size = size, .dim = shape->dim};
	p->n = n < useful ? n : useful > 0 ? useful : 1;
	p->state = (float*)(p + 1);
	p->ran = p->state + most_rows(shape) * (size_t)shape->dim;
	int passes = 0;
	memset(mask, 0, (size_t)(size + 1) * sizeof *mask);
	const bool good = solve(p, 2 * shape->n_blocks, mask, &passes, error);
	*out =
	    (struct layer_programming){.rows = p->n,
	                               .passes = (double)passes / (2 * shape->n_blocks),
	                               .pass_rows = (size + 1) * p->n < MAX_ROWS ? (size + 1) * p->n : MAX_ROWS};
	return good;
}
