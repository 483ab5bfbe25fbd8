/* Quantized draft weights on the device.
 *
 * Their memory, and graphs of passes that use them as the slice specifies, are made at once. Their bytes
 * follow in pieces when they are filled, so that none delays decoding. Devices that share a model each have
 * their rows of the draft weights, too. Weights by input channel (columns.cu) are one device's, and keep the
 * order of the host's bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/planes.cuh"
#include "kernels/draft_weights.h"

enum { PIECE_BYTES = 16 << 20 };

/* This device's rows of an item. */
struct draft_weights_place {
	struct matrix matrix;
	struct own_rows own;
};

struct draft_weights_state {
	const struct draft_weights* table;
	struct draft_weights_place* place; /* (n_items) */
	unsigned char* raw;                /* a piece, as stored */
	uint8_t* columns;                  /* weights by input channel; NULL: none */
	size_t column_bytes;               /* of them, that are there */
	int allocations;                   /* of the backend's, before it took those of the draft weights */
	int item; /* all rows of those before are there, and of this one those before `row` */
	int64_t row;
};

void draft_weights_state_close(struct cuda_backend* b) {
	if (!b->draft_weights)
		return;
	cudaFree(b->draft_weights->raw);
	free(b->draft_weights->place);
	free(b->draft_weights);
	b->draft_weights = NULL;
}

/* Finds a matrix for a pass with draft weights: in its own place, or as stored if it has no draft weights.
 * Items come in the order of the blocks' matrices. */
static bool take_place(struct cuda_backend* b, int* item, const struct shared_matrix& quantized,
                       struct device_weights* weights, struct error* error) {
	struct draft_weights_state* s = b->draft_weights;
	weights->quantized = weights->stored;
	if (*item == s->table->n_items || s->table->item[*item].quantized != quantized.of)
		return true;
	if (!take_matrix(b, quantized.of->type, quantized.share.n, quantized.of->cols, &weights->quantized,
	                 "quantized draft weights", error))
		return false;
	s->place[(*item)++] = {weights->quantized, quantized.share};
	return true;
}

static bool take_places(struct cuda_backend* b, struct error* error) {
	const struct draft_weights* table = b->draft_weights->table;
	int item = 0;
	for (int i = 0; i < b->shape.n_blocks; i++) {
		struct shared_matrix quantized[BLOCK_MATRICES];
		matrices_of(b, &table->block[i], quantized);
		for (int k = 0; k < BLOCK_MATRICES; k++)
			if (!take_place(b, &item, quantized[k], &b->block[i].matrix[k], error))
				return false;
	}
	return take_place(b, &item, {table->output, shares_of(b).vocab, NULL}, &b->output, error);
}

static bool take_raw(struct cuda_backend* b, struct error* error) {
	const struct draft_weights* table = b->draft_weights->table;
	size_t raw = PIECE_BYTES;
	for (int i = 0; i < table->n_items; i++) {
		const size_t row = dtype_row_bytes(table->item[i].quantized->type, table->item[i].quantized->cols);
		raw = row > raw ? row : raw;
	}
	CUDA_TRY(cudaMalloc((void**)&b->draft_weights->raw, raw), error);
	return true;
}

/* On one device. */
static bool open_draft_weights(struct cuda_backend* b, const struct draft_weights* table,
                               struct error* error) {
	struct draft_weights_state* s = (struct draft_weights_state*)calloc(1, sizeof *s);
	if (!s)
		return error_set(error, "out of memory for quantized draft weights");
	b->draft_weights = s;
	s->table = table;
	s->allocations = b->n_allocations;
	s->place = (struct draft_weights_place*)calloc((size_t)table->n_items + 1, sizeof *s->place);
	if (!s->place)
		return error_set(error, "out of memory for quantized draft weights");
	if (table->format.columns && !(s->columns = columns_open(b, &table->columns, error)))
		return false;
	return take_places(b, error) && take_raw(b, error);
}

/* Gives back the memory of draft weights that cannot run or have to give way. */
static void give_back(struct cuda_backend* b) {
	if (b->draft_weights)
		cuda_give_back(b, b->draft_weights->allocations);
	b->sums = {};
	captured_close(&b->captured[1]);
	draft_weights_state_close(b);
}

bool release_draft_weights(struct cuda_backend* b) {
	if (!b->draft_weights || !b->draft_weights->table->optional || devices_gone(b))
		return false;
	b->head.draft_weights_released = true;
	each_device(b, [&](struct cuda_backend* p) { give_back(p); });
	fprintf(stderr, "swiftlet: the quantized draft weights gave their memory on the GPU to caches\n");
	return true;
}

static bool is_there(const struct cuda_backend* b, struct error* error) {
	if (devices_gone(b))
		return error_set(error, "%s", b->group->failure.message);
	return cuda_ok(cudaSetDevice(b->device), "cudaSetDevice", error);
}

bool cuda_use_draft_weights(struct backend* backend, const struct draft_weights* table, struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)backend;
	bool done = true;
	if (b->draft_weights)
		return error_set(
		    error, "the CUDA backend holds only one set of quantized draft weights, and it already has one");
	if (!is_there(b, error))
		return false;
	each_device(b, [&](struct cuda_backend* p) { done = done && open_draft_weights(p, table, error); });
	b->group->with_quantized = true;
	b->group->by_channel = table->format.columns ? &table->sub_layers : NULL;
	done = done && capture_passes(b, error);
	b->group->with_quantized = false;
	b->group->by_channel = NULL;
	if (!done && !devices_gone(b))
		each_device(b, [&](struct cuda_backend* p) { give_back(p); });
	b->head.draft_weights_released = false;
	return done;
}

bool runs_all_by_channel(const struct cuda_backend* b, const struct mask* skip,
                         const struct mask* quantized) {
	const struct draft_weights* table = b->draft_weights->table;
	bool all = true;
	for (int s = 0; s < 2 * b->shape.n_blocks && table->format.columns; s++)
		all = all && (!mask_has(&table->sub_layers, s) || (skip && mask_has(skip, s)) ||
		              (quantized && mask_has(quantized, s)));
	return all;
}

/* So many bytes of the weights by input channel; takes them from *bytes. */
static bool carry_columns(struct draft_weights_state* s, size_t* bytes, struct error* error) {
	const struct column_weights* weights = &s->table->columns;
	const size_t missing = s->columns ? weights->bytes - s->column_bytes : 0;
	const size_t n = *bytes < missing ? *bytes : missing;
	if (n > 0)
		CUDA_TRY(cudaMemcpy(s->columns + s->column_bytes, (const uint8_t*)weights->data + s->column_bytes, n,
		                    cudaMemcpyHostToDevice),
		         error);
	s->column_bytes += n;
	*bytes -= n;
	return true;
}

static bool all_there(const struct draft_weights_state* s) {
	return s->item == s->table->n_items && (!s->columns || s->column_bytes == s->table->columns.bytes);
}

/* So many bytes of one device's rows. */
static bool carry_rows(struct draft_weights_state* s, size_t bytes, struct error* error) {
	for (size_t left = bytes; left > 0 && s->item < s->table->n_items;) {
		const struct tensor* quantized = s->table->item[s->item].quantized;
		const struct own_rows own = s->place[s->item].own;
		const size_t row = dtype_row_bytes(quantized->type, quantized->cols);
		const size_t most = left < (size_t)PIECE_BYTES ? left : (size_t)PIECE_BYTES;
		int64_t n = most > row ? (int64_t)(most / row) : 1;
		n = n < own.n - s->row ? n : own.n - s->row;
		if (!arrange_rows(&s->place[s->item].matrix,
		                  (const unsigned char*)quantized->data + (size_t)(own.first + s->row) * row, s->raw,
		                  s->row, n, error))
			return false;
		left -= left < (size_t)n * row ? left : (size_t)n * row;
		s->row += n;
		if (s->row == own.n) {
			s->item++;
			s->row = 0;
		}
	}
	return true;
}

static bool carry(struct draft_weights_state* s, size_t bytes, struct error* error) {
	if (!carry_columns(s, &bytes, error) || !carry_rows(s, bytes, error))
		return false;
	if (all_there(s))
		CUDA_TRY(cudaDeviceSynchronize(), error); /* passes run on a stream of their own */
	return true;
}

bool cuda_upload_draft_weights(struct backend* backend, size_t bytes, bool* all, struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)backend;
	const size_t devices = (size_t)b->group->devices, share = bytes > devices ? bytes / devices : bytes;
	*all = false;
	if (!is_there(b, error))
		return false;
	if (!b->draft_weights)
		return true; /* it has given way */
	bool done = true, missing = false;
	each_device(b, [&](struct cuda_backend* p) {
		struct draft_weights_state* s = p->draft_weights;
		done = done && (all_there(s) || carry(s, share, error));
		missing = missing || !all_there(s);
	});
	*all = done && !missing;
	return done;
}
