/* Sifting up and down. */
#include "core/draft/queue.h"

static bool before(const struct queued* x, const struct queued* y) {
	if (x->chance != y->chance)
		return x->chance > y->chance;
	if (x->depth != y->depth)
		return x->depth < y->depth;
	if (x->rank != y->rank)
		return x->rank < y->rank;
	return x->id < y->id;
}

bool queue_push(struct queue* queue, struct queued new) {
	if (queue->n == QUEUE_CAPACITY)
		return false;
	int i = queue->n++;
	while (i > 0 && before(&new, &queue->entry[(i - 1) / 2])) {
		queue->entry[i] = queue->entry[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	queue->entry[i] = new;
	return true;
}

struct queued queue_pop(struct queue* queue) {
	const struct queued first = queue->entry[0], last = queue->entry[--queue->n];
	int i = 0;
	for (int child = 1; child < queue->n; child = 2 * i + 1) {
		if (child + 1 < queue->n && before(&queue->entry[child + 1], &queue->entry[child]))
			child++;
		if (!before(&queue->entry[child], &last))
			break;
		queue->entry[i] = queue->entry[child];
		i = child;
	}
	queue->entry[i] = last;
	return first;
}
