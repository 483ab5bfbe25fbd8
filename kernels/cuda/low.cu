/* A low-bit copy on the device.
 *
 * Its place, and graphs of passes that take it as the slice says, are made at once; its bytes follow when it
 * is filled, in pieces, so that none delays what is decoded meanwhile. Where several devices share the model,
 * each has its rows of the copy, too. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/planes.cuh"
#include "kernels/low.h"

enum { PIECE_BYTES = 16 << 20 };

/* This device's rows of an item. */
struct low_place {
	struct matrix matrix;
	struct own_rows own;
};

struct low_state {
	const struct low_table* table;
	struct low_place* place; /* (n_items) */
	unsigned char* raw;      /* a piece, as stored */
	int allocations;         /* of the backend's, before it took this copy's */
	int item;                /* all rows of those before are there, and of this one those before `row` */
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

/* Where a pass with the copy finds a matrix: in a place of its own, or, where it has no copy, as stored.
 * Items come in the order of the blocks' matrices. */
static bool take_place(struct cuda_backend* b, int* item, const struct shared_matrix& copy,
                       struct weights* weights, struct error* error) {
	struct low_state* s = b->low;
	weights->low = weights->stored;
	if (*item == s->table->n_items || s->table->item[*item].copy != copy.of)
		return true;
	if (!take_matrix(b, copy.of->type, copy.share.n, copy.of->cols, &weights->low, "a low-bit copy", error))
		return false;
	s->place[(*item)++] = {weights->low, copy.share};
	return true;
}

static bool take_places(struct cuda_backend* b, struct error* error) {
	const struct low_table* table = b->low->table;
	int item = 0;
	for (int i = 0; i < b->shape.n_blocks; i++) {
		struct shared_matrix copy[BLOCK_MATRICES];
		matrices_of(b, &table->block[i], copy);
		for (int k = 0; k < BLOCK_MATRICES; k++)
			if (!take_place(b, &item, copy[k], &b->block[i].matrix[k], error))
				return false;
	}
	return take_place(b, &item, {table->output, shares_of(b).vocab, NULL}, &b->output, error);
}

static bool take_raw(struct cuda_backend* b, struct error* error) {
	const struct low_table* table = b->low->table;
	size_t raw = PIECE_BYTES;
	for (int i = 0; i < table->n_items; i++) {
		const size_t row = dtype_row_bytes(table->item[i].copy->type, table->item[i].copy->cols);
		raw = row > raw ? row : raw;
	}
	CUDA_TRY(cudaMalloc((void**)&b->low->raw, raw), error);
	return true;
}

/* On one device. */
static bool open_low(struct cuda_backend* b, const struct low_table* table, struct error* error) {
	struct low_state* s = (struct low_state*)calloc(1, sizeof *s);
	if (!s)
		return error_set(error, "out of memory for a low-bit copy");
	b->low = s;
	s->table = table;
	s->allocations = b->n_allocations;
	s->place = (struct low_place*)calloc((size_t)table->n_items + 1, sizeof *s->place);
	if (!s->place)
		return error_set(error, "out of memory for a low-bit copy");
	return take_places(b, error) && take_raw(b, error);
}

/* What was taken for a copy: one that cannot be run, or has to give way. */
static void give_back(struct cuda_backend* b) {
	if (b->low)
		cuda_give_back(b, b->low->allocations);
	captured_close(&b->captured[1]);
	low_state_close(b);
}

bool low_give_way(struct cuda_backend* b) {
	if (!b->low || !b->low->table->optional || devices_gone(b))
		return false;
	b->head.low_given_back = true;
	each_device(b, [&](struct cuda_backend* p) { give_back(p); });
	fprintf(stderr, "swiftlet: the low-bit copy of the weights gave its memory on the GPU to caches\n");
	return true;
}

static bool is_there(const struct cuda_backend* b, struct error* error) {
	if (devices_gone(b))
		return error_set(error, "%s", b->group->failure.message);
	return cuda_ok(cudaSetDevice(b->device), "cudaSetDevice", error);
}

bool cuda_use_low(struct backend* backend, const struct low_table* table, struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)backend;
	bool done = true;
	if (b->low)
		return error_set(error, "the CUDA backend runs one low-bit copy, and has one");
	if (!is_there(b, error))
		return false;
	each_device(b, [&](struct cuda_backend* p) { done = done && open_low(p, table, error); });
	b->group->with_low = true;
	done = done && capture_passes(b, error);
	b->group->with_low = false;
	if (!done && !devices_gone(b))
		each_device(b, [&](struct cuda_backend* p) { give_back(p); });
	b->head.low_given_back = false;
	return done;
}

/* So many bytes of one device's rows. */
static bool carry(struct low_state* s, size_t bytes, struct error* error) {
	for (size_t left = bytes; left > 0 && s->item < s->table->n_items;) {
		const struct tensor* copy = s->table->item[s->item].copy;
		const struct own_rows own = s->place[s->item].own;
		const size_t row = dtype_row_bytes(copy->type, copy->cols);
		const size_t most = left < (size_t)PIECE_BYTES ? left : (size_t)PIECE_BYTES;
		int64_t n = most > row ? (int64_t)(most / row) : 1;
		n = n < own.n - s->row ? n : own.n - s->row;
		if (!arrange_rows(&s->place[s->item].matrix,
		                  (const unsigned char*)copy->data + (size_t)(own.first + s->row) * row, s->raw,
		                  s->row, n, error))
			return false;
		left -= left < (size_t)n * row ? left : (size_t)n * row;
		s->row += n;
		if (s->row == own.n) {
			s->item++;
			s->row = 0;
		}
	}
	if (s->item == s->table->n_items)
		CUDA_TRY(cudaDeviceSynchronize(), error); /* passes run on a stream of their own */
	return true;
}

bool cuda_carry_low(struct backend* backend, size_t bytes, bool* all, struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)backend;
	const size_t devices = (size_t)b->group->devices, share = bytes > devices ? bytes / devices : bytes;
	*all = false;
	if (!is_there(b, error))
		return false;
	if (!b->low)
		return true; /* it has given way */
	bool done = true, missing = false;
	each_device(b, [&](struct cuda_backend* p) {
		struct low_state* s = p->low;
		done = done && (s->item == s->table->n_items || carry(s, share, error));
		missing = missing || s->item < s->table->n_items;
	});
	*all = done && !missing;
	return done;
}
