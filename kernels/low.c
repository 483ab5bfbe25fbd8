/* Which matrices get a low-bit copy, where it lies, and filling it on all threads. */
#include "kernels/low.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/pool.h"
#include "kernels/dtype_blocks.h"

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
	return DTYPE_Q4_K;
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
	}
}

static const struct low_rounding* rounding_here(void) {
	static const struct low_rounding plain = {dtype_to_float, low_round, low_weave};
#if defined(__x86_64__)
	static const struct low_rounding avx2 = {avx2_decode, avx2_round, avx2_weave};
	static const struct low_rounding avx512 = {avx2_decode, avx2_round, avx512_weave};
	if (avx512_supported())
		return &avx512;
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

/* Some rows of a matrix, and where their copy goes. */
struct rows {
	const struct low_rounding* by;
	const struct tensor *from, *to;
	const unsigned char* row;
	unsigned char* out;
	size_t row_bytes;
	int64_t n;
};

/* Columns at a time: what is widened of WOVEN rows stays in the first-level cache. */
enum { COLS_WOVEN = BLOCK_SUPER, COLS_OF_A_ROW = WOVEN * BLOCK_SUPER };

/* Fetches what follows: rows side by side are too many streams for the processor to see where they go. */
static void widen(const struct rows* rows, const unsigned char* from, size_t bytes, float* x, int64_t cols) {
	for (size_t i = 0; i < bytes; i += 64)
		__builtin_prefetch(from + bytes + i);
	rows->by->widen(rows->from->type, from, x, cols);
}

static void round_woven(const struct rows* rows, float x[COLS_OF_A_ROW]) {
	const enum dtype type = rows->to->type;
	const unsigned char* from = rows->row;
	unsigned char* out = rows->out;
	for (int64_t k = 0, some; k < rows->to->cols; k += some) {
		some = rows->to->cols - k < COLS_WOVEN ? rows->to->cols - k : COLS_WOVEN;
		const size_t bytes = dtype_row_bytes(rows->from->type, some);
		for (size_t r = 0; r < WOVEN; r++)
			widen(rows, from + r * rows->row_bytes, bytes, x + r * COLS_WOVEN, some);
		for (int64_t b = 0; b < some; b += dtype_block(type), out += WOVEN * dtype_block_bytes(type))
			rows->by->weave(type, out, x + b, COLS_WOVEN);
		from += bytes;
	}
}

static void round_rows(const struct rows* rows, float x[COLS_OF_A_ROW]) {
	unsigned char* out = rows->out;
	for (int64_t r = 0; r < rows->n; r++) {
		const unsigned char* from = rows->row + (size_t)r * rows->row_bytes;
		for (int64_t k = 0, some; k < rows->to->cols; k += some) {
			some = rows->to->cols - k < COLS_OF_A_ROW ? rows->to->cols - k : COLS_OF_A_ROW;
			const size_t bytes = dtype_row_bytes(rows->from->type, some);
			widen(rows, from, bytes, x, some);
			rows->by->round(rows->to->type, out, x, some);
			out += dtype_row_bytes(rows->to->type, some);
			from += bytes;
		}
	}
}

/* The part's rows, and the gap before or behind the matrix. */
static void make_part(const struct low_table* low, void* data, int part) {
	const int index = item_of(low, part);
	const struct low_item* item = &low->item[index];
	const struct tensor *from = item->stored, *to = item->copy;
	const int64_t begin = (int64_t)(part - item->first_part) * PART_ROWS, left = to->rows - begin;
	const size_t row_bytes = dtype_row_bytes(from->type, from->cols);
	const size_t done = (size_t)begin * dtype_row_bytes(to->type, to->cols);
	const struct rows rows = {.by = low->rounding,
	                          .from = from,
	                          .to = to,
	                          .row = (const unsigned char*)from->data + (size_t)begin * row_bytes,
	                          .out = (unsigned char*)data + item->offset + done,
	                          .row_bytes = row_bytes,
	                          .n = left < PART_ROWS ? left : PART_ROWS};
	float x[COLS_OF_A_ROW];
	(to->woven ? round_woven : round_rows)(&rows, x);
	if (begin == 0)
		clear_gap(low, data, index);
}

struct low_making {
	const struct low_table* low;
	void* data;
	struct pool* pool;
	atomic_int next; /* the part that nobody has taken yet */
	double until;    /* by the clock */
};

struct low_making* low_making_open(const struct low_table* low, void* data, int threads,
                                   struct error* error) {
	struct low_making* m = calloc(1, sizeof *m);
	struct pool* pool = m ? pool_open(threads) : NULL;
	if (!pool) {
		free(m);
		error_set(error, "the threads that make a low-bit copy could not be made");
		return NULL;
	}
	m->low = low;
	m->data = data;
	m->pool = pool;
	return m;
}

void low_making_close(struct low_making* m) {
	if (m)
		pool_close(m->pool);
	free(m);
}

static void take_parts(void* user, int worker, int thread) {
	struct low_making* m = user;
	(void)worker, (void)thread;
	do {
		const int part = atomic_fetch_add(&m->next, 1);
		if (part >= m->low->parts) {
			atomic_store(&m->next, m->low->parts);
			return;
		}
		make_part(m->low, m->data, part);
	} while (seconds_now() < m->until);
}

double low_make_for(struct low_making* m, double seconds) {
	m->until = seconds_now() + seconds;
	pool_run(m->pool, pool_threads(m->pool), take_parts, m);
	return low_made(m);
}

double low_made(const struct low_making* m) {
	return m->low->parts ? (double)atomic_load(&m->next) / m->low->parts : 1;
}

bool low_make(const struct low_table* low, void* data, int threads,
              void (*progress)(void* user, double share), void* user, struct error* error) {
	struct low_making* m = low_making_open(low, data, threads, error);
	while (m && low_made(m) < 1) {
		const double share = low_make_for(m, progress ? 0.1 : INFINITY);
		if (progress)
			progress(user, share);
	}
	low_making_close(m);
	return m != NULL;
}
