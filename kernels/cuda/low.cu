/* A low-bit copy on the device.
 *
 * Its place, and graphs of passes that take it as the slice says, are made at once; its bytes follow when it
 * is filled, in pieces, so that none delays what is decoded meanwhile. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/planes.cuh"
#include "kernels/low.h"

enum { PIECE_BYTES = 16 << 20 };

struct low_state {
	const struct low_table* table;
	struct matrix* place; /* (n_items) */
	unsigned char* raw;   /* a piece, as stored */
	int item;             /* all rows of those before are there, and of this one those before `row` */
	int64_t row;
};

void low_state_close(struct cuda_backend* b) {
	if (!b->low)
		return;
	cudaFree(b->low->raw);
	free(b->low->place);
	free(b->low);
	b->low = NULL;
}

static bool check_types(const struct low_table* table, struct error* error) {
	for (int i = 0; i < table->n_items; i++)
		if (!kept_as_stored(table->item[i].copy->type))
			return error_set(error,
			                 "the CUDA backend runs copies of 4 or 8 bits; this one has weights of type %s",
			                 dtype_name(table->item[i].copy->type));
	return true;
}

static bool take_places(struct cuda_backend* b, struct error* error) {
	struct low_state* s = b->low;
	size_t raw = PIECE_BYTES;
	for (int i = 0; i < s->table->n_items; i++) {
		const struct tensor* copy = s->table->item[i].copy;
		const size_t row = dtype_row_bytes(copy->type, copy->cols);
		raw = row > raw ? row : raw;
		if (!take_matrix(b, copy->type, copy->rows, copy->cols, &s->place[i], "a low-bit copy", error))
			return false;
	}
	CUDA_TRY(cudaMalloc((void**)&s->raw, raw), error);
	return true;
}

/* What a pass with the copy runs in the place of a matrix: items come in the order of the blocks' matrices.
 */
static struct matrix copy_or(const struct low_state* s, int* item, const struct tensor* copy,
                             const struct matrix& stored) {
	return *item < s->table->n_items && s->table->item[*item].copy == copy ? s->place[(*item)++] : stored;
}

static void put_places(struct cuda_backend* b) {
	const struct low_state* s = b->low;
	int item = 0;
	for (int i = 0; i < b->shape.n_blocks; i++) {
		const struct block_weights* c = &s->table->block[i];
		struct device_block* d = &b->block[i];
		struct device_block::low_matrices* low = &d->low;
		low->wq = copy_or(s, &item, &c->wq, d->wq);
		low->wk = copy_or(s, &item, &c->wk, d->wk);
		low->wv = copy_or(s, &item, &c->wv, d->wv);
		low->wo = copy_or(s, &item, &c->wo, d->wo);
		low->gate = copy_or(s, &item, &c->w_gate, d->gate);
		low->up = copy_or(s, &item, &c->w_up, d->up);
		low->down = copy_or(s, &item, &c->w_down, d->down);
	}
	b->low_output = copy_or(s, &item, s->table->output, b->output);
}

/* What was taken for a copy that cannot be run. */
static void give_back(struct cuda_backend* b, int n_allocations) {
	while (b->n_allocations > n_allocations)
		cudaFree(b->allocation[--b->n_allocations]);
	captured_close(&b->captured[1]);
	low_state_close(b);
}

bool cuda_use_low(struct backend* backend, const struct low_table* table, struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)backend;
	const int before = b->n_allocations;
	if (b->low)
		return error_set(error, "the CUDA backend runs one low-bit copy, and has one");
	if (!check_types(table, error))
		return false;
	CUDA_TRY(cudaSetDevice(b->device), error);
	b->low = (struct low_state*)calloc(1, sizeof *b->low);
	struct matrix* place = (struct matrix*)calloc((size_t)table->n_items + 1, sizeof *place);
	if (!b->low || !place) {
		free(place);
		free(b->low);
		b->low = NULL;
		return error_set(error, "out of memory for a low-bit copy");
	}
	b->low->table = table;
	b->low->place = place;
	bool done = take_places(b, error);
	if (done) {
		put_places(b);
		b->with_low = true;
		done = capture_passes(b, error);
		b->with_low = false;
	}
	if (!done)
		give_back(b, before);
	return done;
}

bool cuda_carry_low(struct backend* backend, size_t bytes, bool* all, struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)backend;
	struct low_state* s = b->low;
	*all = s->item == s->table->n_items;
	if (*all)
		return true;
	CUDA_TRY(cudaSetDevice(b->device), error);
	for (size_t left = bytes; left > 0 && s->item < s->table->n_items;) {
		const struct tensor* copy = s->table->item[s->item].copy;
		const size_t row = dtype_row_bytes(copy->type, copy->cols);
		const size_t most = left < (size_t)PIECE_BYTES ? left : (size_t)PIECE_BYTES;
		int64_t n = most > row ? (int64_t)(most / row) : 1;
		n = n < copy->rows - s->row ? n : copy->rows - s->row;
		if (!arrange_rows(&s->place[s->item], copy->type,
		                  (const unsigned char*)copy->data + (size_t)s->row * row, s->raw, s->row, n, error))
			return false;
		left -= left < (size_t)n * row ? left : (size_t)n * row;
		s->row += n;
		if (s->row == copy->rows) {
			s->item++;
			s->row = 0;
		}
	}
	*all = s->item == s->table->n_items;
	if (*all)
		CUDA_TRY(cudaDeviceSynchronize(), error); /* passes run on a stream of their own */
	return true;
}
