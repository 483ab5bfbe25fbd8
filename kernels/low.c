/* Which matrices get a low-bit copy, where it lies, and filling it on all threads. */
#include "kernels/low.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/matmul.h"
#include "kernels/cpu/pool.h"
#include "kernels/dtype_blocks.h"
#include "kernels/woven.h"

/* A copy must spare this share of a sub-layer's bytes, or reading it gains too little for its memory. */
static const double LEAST_SPARED = 0.25;

/* The head chooses among all tokens at once: in 4 bits it makes nearly half of the copy's mistakes, in 8
 * hardly any, and it is small beside the blocks. */
static const int HEAD_BITS = 8;

static bool can_weave(const struct low_table* low, const struct tensor* stored) {
	return low->form.woven && stored->rows % WOVEN == 0;
}

/* The type for so many bits whose blocks divide a row; the stored one where none does. Of blocks of 32, those
 * without a minimum can be woven, those with one run on a GPU. */
static enum dtype type_for(const struct low_table* low, const struct tensor* stored, int bits) {
	const bool super = stored->cols % BLOCK_SUPER == 0;
	if (stored->cols % BLOCK_SMALL != 0)
		return stored->type;
	if (bits == 8)
		return DTYPE_Q8_0;
	if (!super)
		return can_weave(low, stored) ? DTYPE_Q4_0 : DTYPE_Q4_1;
	return bits == 4 ? DTYPE_Q4_K : DTYPE_Q3_K;
}

static size_t tensor_bytes(const struct tensor* t) {
	return (size_t)t->rows * dtype_row_bytes(t->type, t->cols);
}

/* The stored matrix's copy in so many bits, no bytes yet */
static struct tensor planned_copy(const struct low_table* low, const struct tensor* stored, int bits) {
	const enum dtype type = type_for(low, stored, bits);
	const bool woven = (type == DTYPE_Q4_K || type == DTYPE_Q4_0) && can_weave(low, stored);
	return (struct tensor){.type = type, .woven = woven, .rows = stored->rows, .cols = stored->cols};
}

/* A sub-layer's matrices so far: `before` bytes as stored, `after` with the copies. */
struct share {
	size_t before, after;
	int first_item;
	size_t first_byte;
};

static struct share begin_sub_layer(const struct low_table* low) {
	return (struct share){.first_item = low->n_items, .first_byte = low->bytes};
}

/* Plans a copy of one matrix, where it is smaller. *copy is the stored tensor so far. */
static void plan_matrix(struct low_table* low, struct share* share, const struct tensor* stored,
                        struct tensor* copy, int bits) {
	const struct tensor planned = planned_copy(low, stored, bits);
	const size_t was = tensor_bytes(stored), is = tensor_bytes(&planned);
	share->before += was;
	share->after += is < was ? is : was;
	if (is >= was)
		return;
	low->item[low->n_items++] =
	    (struct low_item){.stored = stored, .copy = copy, .offset = low->bytes, .bytes = is};
	low->bytes = (low->bytes + is + LOW_ALIGNMENT - 1) / LOW_ALIGNMENT * LOW_ALIGNMENT;
}

/* Whether the sub-layer gets its copies; else none of them is planned. */
static bool end_sub_layer(struct low_table* low, const struct share* share, int bits) {
	if (share->before == 0 || (double)share->after > (1 - LEAST_SPARED) * (double)share->before) {
		low->n_items = share->first_item;
		low->bytes = share->first_byte;
		return false;
	}
	for (int i = share->first_item; i < low->n_items; i++)
		*low->item[i].copy = planned_copy(low, low->item[i].stored, bits);
	return true;
}

static bool plan_attention(struct low_table* low, const struct block_weights* s, struct block_weights* c) {
	struct share share = begin_sub_layer(low);
	plan_matrix(low, &share, &s->wq, &c->wq, low->form.bits);
	plan_matrix(low, &share, &s->wk, &c->wk, low->form.bits);
	plan_matrix(low, &share, &s->wv, &c->wv, low->form.bits);
	plan_matrix(low, &share, &s->wo, &c->wo, low->form.bits);
	return end_sub_layer(low, &share, low->form.bits);
}

/* Experts too; the router stays as it is: it is small, and its choice is all or nothing. */
static bool plan_mlp(struct low_table* low, const struct block_weights* s, struct block_weights* c,
                     struct expert* expert) {
	struct share share = begin_sub_layer(low);
	plan_matrix(low, &share, &s->w_gate, &c->w_gate, low->form.bits);
	plan_matrix(low, &share, &s->w_up, &c->w_up, low->form.bits);
	plan_matrix(low, &share, &s->w_down, &c->w_down, low->form.bits);
	const int experts = tensor_present(&s->router) ? low->stored->shape.n_experts : 0;
	for (int e = 0; e < experts; e++) {
		expert[e] = s->expert[e];
		plan_matrix(low, &share, &s->expert[e].w_gate, &expert[e].w_gate, low->form.bits);
		plan_matrix(low, &share, &s->expert[e].w_up, &expert[e].w_up, low->form.bits);
		plan_matrix(low, &share, &s->expert[e].w_down, &expert[e].w_down, low->form.bits);
	}
	if (experts > 0)
		c->expert = expert;
	return end_sub_layer(low, &share, low->form.bits);
}

static void plan_block(struct low_table* low, int b) {
	const struct block_weights* s = &low->stored->block[b];
	struct expert* expert = low->expert + (size_t)b * (size_t)low->stored->shape.n_experts;
	mask_set(&low->sub_layers, 2 * b, plan_attention(low, s, &low->block[b]));
	mask_set(&low->sub_layers, 2 * b + 1, plan_mlp(low, s, &low->block[b], expert));
}
/* Of the blocks, so that it tells copies of different bits apart; the stored head's where they have none. */
static enum dtype main_type(const struct low_table* low) {
	size_t bytes[DTYPE_COUNT] = {0};
	enum dtype most = low->output->type;
	for (int i = 0; i < low->n_items; i++)
		bytes[low->item[i].copy->type] += low->item[i].bytes;
	for (int t = 0; t < DTYPE_COUNT; t++)
		most = bytes[t] > bytes[most] ? (enum dtype)t : most;
	return most;
}

enum { PART_ROWS = WOVEN };

static void count_parts(struct low_table* low) {
	for (int i = 0; i < low->n_items; i++) {
		const struct tensor* stored = low->item[i].stored;
		low->item[i].first_part = low->parts;
		low->parts += (int)((stored->rows + PART_ROWS - 1) / PART_ROWS);
		low->widest = (size_t)stored->cols > low->widest ? (size_t)stored->cols : low->widest;
	}
}

static const struct low_rounding* rounding_here(void) {
	static const struct low_rounding plain = {dtype_to_float, low_round, 8e7};
#if defined(__x86_64__)
	static const struct low_rounding avx2 = {avx2_decode, avx2_round, 9e8};
	if (avx2_supported())
		return &avx2;
#endif
	return &plain;
}

static void plan_head(struct low_table* low) {
	struct share share = begin_sub_layer(low);
	plan_matrix(low, &share, &low->stored->output, low->output, HEAD_BITS);
	low->head = end_sub_layer(low, &share, HEAD_BITS);
}

bool low_plan(struct low_table* low, const struct weight_table* stored, struct low_form form,
              struct error* error) {
	const size_t blocks = (size_t)stored->shape.n_blocks, experts = (size_t)stored->shape.n_experts;
	*low = (struct low_table){.form = form, .rounding = rounding_here(), .stored = stored};
	if (!stored->output.data)
		return error_set(error, "the weights are made on the device: there is nothing here to copy");
	low->block = malloc(blocks * sizeof *low->block);
	low->output = malloc(sizeof *low->output);
	low->expert = malloc((blocks * experts + 1) * sizeof *low->expert);
	low->item = malloc((blocks * (7 + 3 * experts) + 1) * sizeof *low->item);
	if (!low->block || !low->output || !low->expert || !low->item)
		return error_set(error, "out of memory for the plan of a low-bit copy");
	memcpy(low->block, stored->block, blocks * sizeof *low->block);
	*low->output = stored->output;
	for (int b = 0; b < stored->shape.n_blocks; b++)
		plan_block(low, b);
	low->type = main_type(low);
	if (!form.coarse_head)
		plan_head(low);
	count_parts(low);
	return true;
}

void low_close(struct low_table* low) {
	free(low->block);
	free(low->output);
	free(low->expert);
	free(low->item);
	*low = (struct low_table){0};
}

void low_place(struct low_table* low, const void* data) {
	for (int i = 0; i < low->n_items; i++)
		low->item[i].copy->data = (const unsigned char*)data + low->item[i].offset;
}

struct mask low_sub_layers(const struct low_table* low, const struct mask* mask, bool* head) {
	struct mask set = {.word = {0}};
	for (int i = 0; i < MASK_WORDS; i++)
		set.word[i] = low->sub_layers.word[i] & ~mask->word[i] & ~mask->stored[i];
	*head = low->head && !mask->stored_head;
	return set;
}

/* ---- making it ------------------------------------------------------------------------------ */

static int item_of(const struct low_table* low, int part) {
	int from = 0, to = low->n_items - 1;
	while (from < to) {
		const int middle = (from + to + 1) / 2;
		if (low->item[middle].first_part <= part)
			from = middle;
		else
			to = middle - 1;
	}
	return from;
}

/* The bytes between two matrices, and behind the last, are zero. */
static void clear_gap(const struct low_table* low, unsigned char* data, int item) {
	const struct low_item* i = &low->item[item];
	const size_t end = i->offset + i->bytes, next = item + 1 < low->n_items ? i[1].offset : low->bytes;
	memset(data + end, 0, next - end);
}

/* One row to its lane, a block at a time; of blocks of 32 the scales of all lanes stand first. */
static void round_woven(const struct low_rounding* by, enum dtype type, unsigned char* out, int lane,
                        const float* row, int64_t cols) {
	struct block_q4_k block;
	struct block_q4_0 small[BLOCK_SUPER / BLOCK_SMALL];
	const int step = type == DTYPE_Q4_K ? BLOCK_SUPER : BLOCK_SMALL;
	for (int64_t k = 0; k < cols; k += BLOCK_SUPER) {
		const int64_t some = cols - k < BLOCK_SUPER ? cols - k : BLOCK_SUPER;
		by->round(type, type == DTYPE_Q4_K ? (void*)&block : (void*)small, row + k, some);
		for (int64_t b = 0; b < some / step; b++, out += WOVEN * dtype_block_bytes(type)) {
			if (type == DTYPE_Q4_K) {
				weave(out, &block, lane, sizeof block);
				continue;
			}
			memcpy(out + lane * 2, small[b].d, sizeof small[b].d);
			weave(out + WOVEN * sizeof small[b].d, small[b].q, lane, sizeof small[b].q);
		}
	}
}

void low_make_part(const struct low_table* low, void* data, int part, float* row) {
	const int index = item_of(low, part);
	const struct low_item* item = &low->item[index];
	const struct low_rounding* by = low->rounding;
	const struct tensor *from = item->stored, *to = item->copy;
	unsigned char* out = (unsigned char*)data + item->offset;
	const size_t from_bytes = dtype_row_bytes(from->type, from->cols);
	const size_t to_bytes = dtype_row_bytes(to->type, to->cols);
	const int64_t begin = (int64_t)(part - item->first_part) * PART_ROWS;
	const int64_t end = begin + PART_ROWS < from->rows ? begin + PART_ROWS : from->rows;
	for (int64_t r = begin; r < end; r++) {
		by->widen(from->type, (const unsigned char*)from->data + (size_t)r * from_bytes, row, from->cols);
		if (to->woven)
			round_woven(by, to->type, out + (size_t)begin * to_bytes, (int)(r - begin), row, to->cols);
		else
			by->round(to->type, out + (size_t)r * to_bytes, row, to->cols);
	}
	if (begin == 0)
		clear_gap(low, data, index);
}

struct make_job {
	const struct low_table* low;
	void* data;
	int first_part;
	float* row; /* (threads, widest) */
};

static void make_part(void* user, int part, int thread) {
	const struct make_job* job = user;
	low_make_part(job->low, job->data, job->first_part + part, job->row + (size_t)thread * job->low->widest);
}

static void make_all(const struct low_table* low, struct pool* pool, struct make_job* job,
                     void (*progress)(void*, double), void* user) {
	for (int i = 0; i < low->n_items; i++) {
		job->first_part = low->item[i].first_part;
		const int next = i + 1 < low->n_items ? low->item[i + 1].first_part : low->parts;
		pool_run(pool, next - job->first_part, make_part, job);
		if (progress)
			progress(user, (double)next / low->parts);
	}
}

bool low_make(const struct low_table* low, void* data, int threads,
              void (*progress)(void* user, double share), void* user, struct error* error) {
	struct pool* pool = pool_open(threads);
	if (!pool)
		return error_set(error, "the threads that make a low-bit copy could not be made");
	struct make_job job = {.low = low, .data = data};
	job.row = malloc((size_t)pool_threads(pool) * low->widest * sizeof *job.row);
	if (job.row)
		make_all(low, pool, &job, progress, user);
	const bool done = job.row != NULL;
	free(job.row);
	pool_close(pool);
	return done || error_set(error, "out of memory while a low-bit copy is made");
}
