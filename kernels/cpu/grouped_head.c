/* The head of a table with centroids (kernels/backend.h): of the whole head only the rows of the groups
 * nearest to a state are read. */
#include "kernels/cpu/cpu.h"

#include <math.h>

/* b->near: the centroids with the largest products, ties to the lowest, ascending. */
static void choose_near(const struct cpu_backend* b, int centroids, int used) {
	int count = 0;
	for (int k = 0; k < used; k++) {
		int best = -1;
		for (int c = 0; c < centroids; c++)
			if (b->centroid[c] > -INFINITY && (best < 0 || b->centroid[c] > b->centroid[best]))
				best = c;
		if (best < 0) /* numbers that are not finite: their logits will not be, either */
			best = k;
		b->centroid[best] = -INFINITY;
		int at = count++;
		for (; at > 0 && b->near[at - 1] > best; at--)
			b->near[at] = b->near[at - 1];
		b->near[at] = best;
	}
}

/* The groups of INTERLEAVED_ROWS rows of the head that they have a row in. */
static int list_groups(const struct cpu_backend* b, int used, int each) {
	int count = 0;
	for (int i = 0; i < used; i++)
		for (int g = b->near[i] * each / INTERLEAVED_ROWS; g * INTERLEAVED_ROWS < (b->near[i] + 1) * each;
		     g++)
			if (count == 0 || b->head_group[count - 1] < g)
				b->head_group[count++] = g;
	return count;
}

static void give_logits(const struct cpu_backend* b, const float* ordered, int used, int each,
                        float* logits) {
	const struct weight_table* w = b->head.weights;
	float least = INFINITY;
	for (int i = 0; i < used; i++)
		for (int k = b->near[i] * each; k < (b->near[i] + 1) * each; k++)
			least = ordered[k] < least ? ordered[k] : least;
	for (int v = 0; v < w->shape.vocab; v++)
		logits[v] = least - 1;
	for (int i = 0; i < used; i++)
		for (int k = b->near[i] * each; k < (b->near[i] + 1) * each; k++)
			logits[w->token_order[k]] = ordered[k];
}

void grouped_logits(struct cpu_backend* b, int n) {
	const struct weight_table* w = b->head.weights;
	const struct model_shape* s = &w->shape;
	const int centroids = (int)w->centroids.rows, used = s->centroids_used, each = s->vocab / centroids;
	const struct product to_centroids = {.out = b->centroid, .stride = (size_t)centroids, .w = &w->centroids};
	const struct product to_tokens = {.out = b->scratch, .stride = (size_t)s->vocab, .w = &w->output};
	for (int i = 0; i < n; i++) {
		const float* x = b->normed + (size_t)i * (size_t)s->dim;
		multiply(b, x, s->dim, 1, &to_centroids, 1);
		choose_near(b, centroids, used);
		multiply_groups(b, x, s->dim, 1, &to_tokens, b->head_group, list_groups(b, used, each));
		give_logits(b, b->scratch, used, each, b->logits + (size_t)i * (size_t)s->vocab);
	}
}
