/* The stored weights of a model's blocks laid side by side in memory (kernels/interleaved.h).
 *
 * Products of two to eight rows, which verification is made of, are bound by the instructions that take
 * blocks apart. Interleaved, four and eight rows of Q4_K from memory take 1.06 and 1.42 times one row's
 * time, in place of 1.54 and 2.35 (AVX-512, Cascade Lake). With AVX2, passes of four and eight rows
 * of Qwen 1.5B take .72 and .82 of the time that they take as stored (Zen 4). Bits are the same. */
#include "kernels/cpu/cpu.h"
#include "kernels/huge_pages.h"
#include "kernels/interleaved.h"

enum { MAPS = 7 };

static void maps_of(struct block_weights* k, struct tensor* maps[MAPS]) {
	struct tensor* const all[MAPS] = {&k->wq, &k->wk, &k->wv, &k->wo, &k->w_gate, &k->w_up, &k->w_down};
	memcpy(maps, all, sizeof all);
}

static bool can_interleave(const struct cpu_backend* b, const struct tensor* t) {
	return t->rows > 1 && t->rows % INTERLEAVED_ROWS == 0 && t->data && b->kernels->interleaves(t->type);
}

struct interleaving {
	const struct tensor* from;
	unsigned char* to;
};

static void interleave_part(void* user, int part, int thread) {
	(void)thread;
	const struct interleaving* job = user;
	const struct tensor* t = job->from;
	const size_t at = (size_t)part * INTERLEAVED_ROWS * dtype_row_bytes(t->type, t->cols);
	interleave_rows(t->type, job->to + at, (const unsigned char*)t->data + at, t->cols);
}

/* Bytes of the block's maps; those are laid out at `to` unless it is NULL */
static size_t interleave_block(struct cpu_backend* b, struct block_weights* block, unsigned char* to) {
	struct tensor* maps[MAPS];
	size_t bytes = 0;
	maps_of(block, maps);
	for (int i = 0; i < MAPS; i++) {
		if (!can_interleave(b, maps[i]))
			continue;
		if (to) {
			struct interleaving job = {.from = maps[i], .to = to + bytes};
			pool_run(b->pool, (int)(maps[i]->rows / INTERLEAVED_ROWS), interleave_part, &job);
			maps[i]->data = to + bytes;
			maps[i]->interleaved = true;
		}
		bytes += (tensor_bytes(maps[i]) + 63) / 64 * 64;
	}
	return bytes;
}

void interleave_weights(struct cpu_backend* b) {
	const struct model_shape* s = &b->head.weights->shape;
	/* Shares of processes and the heads of latent attention are not whole groups of rows. */
	if (b->group || s->latent > 0 || !b->kernels->interleaves)
		return;
	size_t bytes = 0;
	for (int i = 0; i < s->n_blocks; i++)
		bytes += interleave_block(b, &b->block[i], NULL);
	b->interleaved = bytes > 0 ? alloc_huge_pages(bytes) : NULL;
	if (!b->interleaved)
		return;
	unsigned char* to = b->interleaved;
	for (int i = 0; i < s->n_blocks; i++)
		to += interleave_block(b, &b->block[i], to);
}
