/* Plans which matrices get quantized draft weights and where they lie, and fills them on all threads. */
#include "kernels/draft_weights.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/clock.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/pool.h"
#include "kernels/dtype_blocks.h"

/* Draft weights must save this share of a sub-layer's bytes, or they are not worth their memory. */
static const double LEAST_SPARED = 0.25;

/* The head chooses among all tokens at once. In 4 bits it makes nearly half of the draft weights' mistakes,
 * in 8 hardly any, and it is small beside the blocks. */
static const int HEAD_BITS = 8;

/* The type with this many bits whose blocks divide a row, or the stored type if none does. */
static enum dtype type_for(const struct tensor* stored, int bits) {
	if (stored->cols % BLOCK_SMALL != 0)
		return stored->type;
	if (bits == 8)
		return DTYPE_Q8_0;
	return stored->cols % BLOCK_SUPER == 0 ? DTYPE_Q4_K : DTYPE_Q4_1;
}

/* The draft tensor of a stored matrix in so many bits, without bytes yet */
static struct tensor planned_tensor(const struct tensor* stored, int bits) {
	return (struct tensor){.type = type_for(stored, bits), .rows = stored->rows, .cols = stored->cols};
}

/* A sub-layer's matrices so far: `before` bytes as stored, `after` with the draft weights. */
struct sub_layer_share {
	size_t before, after;
	int first_item;
	size_t first_byte;
};

static struct sub_layer_share begin_sub_layer(const struct draft_weights* draft) {
	return (struct sub_layer_share){.first_item = draft->n_items, .first_byte = draft->bytes};
}

/* Plans the draft weights of one matrix if they are smaller. *quantized holds the stored tensor at first. */
static void plan_matrix(struct draft_weights* draft, struct sub_layer_share* share,
                        const struct tensor* stored, struct tensor* quantized, int bits) {
	const struct tensor planned = planned_tensor(stored, bits);
	const size_t was = tensor_bytes(stored), is = tensor_bytes(&planned);
	share->before += was;
	share->after += is < was ? is : was;
	if (is >= was)
		return;
	draft->item[draft->n_items++] = (struct draft_weights_item){
	    .stored = stored, .quantized = quantized, .offset = draft->bytes, .bytes = is};
	draft->bytes =
	    (draft->bytes + is + DRAFT_WEIGHTS_ALIGNMENT - 1) / DRAFT_WEIGHTS_ALIGNMENT * DRAFT_WEIGHTS_ALIGNMENT;
}

/* True when the sub-layer gets draft weights; otherwise its plans are undone. */
static bool end_sub_layer(struct draft_weights* draft, const struct sub_layer_share* share, int bits) {
	if (share->before == 0 || (double)share->after > (1 - LEAST_SPARED) * (double)share->before) {
		draft->n_items = share->first_item;
		draft->bytes = share->first_byte;
		return false;
	}
	for (int i = share->first_item; i < draft->n_items; i++)
		*draft->item[i].quantized = planned_tensor(draft->item[i].stored, bits);
	return true;
}

static bool plan_attention(struct draft_weights* draft, const struct block_weights* s,
                           struct block_weights* c) {
	struct sub_layer_share share = begin_sub_layer(draft);
	if (tensor_present(&s->absorb)) /* latent attention runs with stored weights, because its maps are used
	                                   one head at a time */
		return false;
	plan_matrix(draft, &share, &s->wq, &c->wq, draft->format.bits);
	plan_matrix(draft, &share, &s->wk, &c->wk, draft->format.bits);
	plan_matrix(draft, &share, &s->wv, &c->wv, draft->format.bits);
	plan_matrix(draft, &share, &s->wo, &c->wo, draft->format.bits);
	return end_sub_layer(draft, &share, draft->format.bits);
}

/* Plans experts too. The router stays as stored: it is small, and a wrong choice changes everything. */
static bool plan_mlp(struct draft_weights* draft, const struct block_weights* s, struct block_weights* c,
                     struct expert* expert) {
	struct sub_layer_share share = begin_sub_layer(draft);
	plan_matrix(draft, &share, &s->w_gate, &c->w_gate, draft->format.bits);
	plan_matrix(draft, &share, &s->w_up, &c->w_up, draft->format.bits);
	plan_matrix(draft, &share, &s->w_down, &c->w_down, draft->format.bits);
	const int experts = tensor_present(&s->router) ? draft->stored->shape.n_experts : 0;
	for (int e = 0; e < experts; e++) {
		expert[e] = s->expert[e];
		plan_matrix(draft, &share, &s->expert[e].w_gate, &expert[e].w_gate, draft->format.bits);
		plan_matrix(draft, &share, &s->expert[e].w_up, &expert[e].w_up, draft->format.bits);
		plan_matrix(draft, &share, &s->expert[e].w_down, &expert[e].w_down, draft->format.bits);
	}
	if (experts > 0)
		c->expert = expert;
	return end_sub_layer(draft, &share, draft->format.bits);
}

static void plan_block(struct draft_weights* draft, int b) {
	const struct block_weights* s = &draft->stored->block[b];
	struct expert* expert = draft->expert + (size_t)b * (size_t)draft->stored->shape.n_experts;
	mask_set(&draft->sub_layers, 2 * b, plan_attention(draft, s, &draft->block[b]));
	mask_set(&draft->sub_layers, 2 * b + 1, plan_mlp(draft, s, &draft->block[b], expert));
}
/* The type of most bytes of the blocks' draft weights, or the stored head's type if there are none. */
static enum dtype main_type(const struct draft_weights* draft) {
	size_t bytes[DTYPE_COUNT] = {0};
	enum dtype most = draft->output->type;
	for (int i = 0; i < draft->n_items; i++)
		bytes[draft->item[i].quantized->type] += draft->item[i].bytes;
	for (int t = 0; t < DTYPE_COUNT; t++)
		most = bytes[t] > bytes[most] ? (enum dtype)t : most;
	return most;
}

enum { PART_ROWS = 16 };

static void count_parts(struct draft_weights* draft) {
	for (int i = 0; i < draft->n_items; i++) {
		const struct tensor* stored = draft->item[i].stored;
		draft->item[i].first_part = draft->parts;
		draft->parts += (int)((stored->rows + PART_ROWS - 1) / PART_ROWS);
	}
}

static const struct quantizer* rounding_here(void) {
	static const struct quantizer plain = {dtype_to_float, quantize_row};
#if defined(__x86_64__)
	static const struct quantizer avx2 = {avx2_decode, avx2_quantize_row};
	if (avx2_supported())
		return &avx2;
#endif
	return &plain;
}

static void plan_head(struct draft_weights* draft) {
	struct sub_layer_share share = begin_sub_layer(draft);
	plan_matrix(draft, &share, &draft->stored->output, draft->output, HEAD_BITS);
	draft->head = end_sub_layer(draft, &share, HEAD_BITS);
}

const char* draft_weights_kind(const struct draft_weights* quantized) {
	return quantized->format.columns ? "4 bits by input channel" : dtype_name(quantized->type);
}

bool draft_weights_by_channel(const struct draft_weights* draft, int sub_layer) {
	const enum column_kind first = sub_layer % 2 == 0 ? COLUMN_ATTENTION : COLUMN_MLP;
	const struct block_map* map = draft->format.columns ? draft->columns.block[sub_layer / 2].map : NULL;
	return map && block_map_present(&map[first]) && block_map_present(&map[first + 1]);
}

/* Sub-layers that lack a map (experts, latent attention) have no draft weights. */
static bool plan_columns(struct draft_weights* draft, struct error* error) {
	if (!column_weights_plan(&draft->columns, draft->stored, error))
		return false;
	draft->bytes = draft->columns.bytes;
	draft->parts = draft->columns.parts;
	for (int s = 0; s < 2 * draft->stored->shape.n_blocks; s++)
		mask_set(&draft->sub_layers, s, draft_weights_by_channel(draft, s));
	return true;
}

bool draft_weights_plan(struct draft_weights* draft, const struct weight_table* stored,
                        struct draft_weights_format format, struct error* error) {
	const size_t blocks = (size_t)stored->shape.n_blocks, experts = (size_t)stored->shape.n_experts;
	*draft = (struct draft_weights){.format = format, .rounding = rounding_here(), .stored = stored};
	if (!stored->output.data)
		return error_set(error,
		                 "the weights are made on the device, so there is nothing to copy from the host");
	draft->block = malloc(blocks * sizeof *draft->block);
	draft->output = malloc(sizeof *draft->output);
	draft->expert = malloc((blocks * experts + 1) * sizeof *draft->expert);
	draft->item = malloc((blocks * (7 + 3 * experts) + 1) * sizeof *draft->item);
	if (!draft->block || !draft->output || !draft->expert || !draft->item)
		return error_set(error, "out of memory for the plan of quantized draft weights");
	memcpy(draft->block, stored->block, blocks * sizeof *draft->block);
	*draft->output = stored->output;
	if (format.columns && !plan_columns(draft, error))
		return false;
	for (int b = 0; b < stored->shape.n_blocks && !format.columns; b++)
		plan_block(draft, b);
	draft->type = main_type(draft);
	if (!format.coarse_head)
		plan_head(draft);
	count_parts(draft);
	return true;
}

void draft_weights_close(struct draft_weights* draft) {
	column_weights_close(&draft->columns);
	free(draft->block);
	free(draft->output);
	free(draft->expert);
	free(draft->item);
	*draft = (struct draft_weights){0};
}

void draft_weights_place(struct draft_weights* draft, void* data) {
	if (draft->format.columns)
		column_weights_place(&draft->columns, data);
	for (int i = 0; i < draft->n_items; i++)
		draft->item[i].quantized->data = (const unsigned char*)data + draft->item[i].offset;
}

struct mask draft_weights_sub_layers(const struct draft_weights* draft, const struct mask* mask, bool* head) {
	struct mask set = {.word = {0}};
	for (int i = 0; i < MASK_WORDS; i++)
		set.word[i] = draft->sub_layers.word[i] & ~mask->word[i];
	*head = draft->head;
	return set;
}

/* ---- making it ------------------------------------------------------------------------------ */

static int item_of(const struct draft_weights* draft, int part) {
	int from = 0, to = draft->n_items - 1;
	while (from < to) {
		const int middle = (from + to + 1) / 2;
		if (draft->item[middle].first_part <= part)
			from = middle;
		else
			to = middle - 1;
	}
	return from;
}

/* Zeroes the bytes between two matrices and after the last one. */
static void clear_gap(const struct draft_weights* draft, unsigned char* data, int item) {
	const struct draft_weights_item* i = &draft->item[item];
	const size_t end = i->offset + i->bytes, next = item + 1 < draft->n_items ? i[1].offset : draft->bytes;
	memset(data + end, 0, next - end);
}

/* Some rows of a matrix, and the place of their draft weights. */
struct part_rows {
	const struct quantizer* by;
	const struct tensor *from, *to;
	const unsigned char* row;
	unsigned char* out;
	size_t row_bytes;
	int64_t n;
};

/* Columns at a time, so that what is widened stays in the first-level cache. */
enum { COLS_AT_ONCE = 16 * BLOCK_SUPER };

static void round_rows(const struct part_rows* rows) {
	float x[COLS_AT_ONCE];
	unsigned char* out = rows->out;
	for (int64_t r = 0; r < rows->n; r++) {
		const unsigned char* from = rows->row + (size_t)r * rows->row_bytes;
		for (int64_t k = 0, some; k < rows->to->cols; k += some) {
			some = rows->to->cols - k < COLS_AT_ONCE ? rows->to->cols - k : COLS_AT_ONCE;
			const size_t bytes = dtype_row_bytes(rows->from->type, some);
			rows->by->widen(rows->from->type, from, x, some);
			rows->by->round(rows->to->type, out, x, some);
			out += dtype_row_bytes(rows->to->type, some);
			from += bytes;
		}
	}
}

/* Makes the part's rows, and zeroes the gap before or after the matrix. */
static void make_part(const struct draft_weights* draft, void* data, int part) {
	if (part < draft->columns.parts) {
		column_weights_make(&draft->columns, part);
		return;
	}
	const int index = item_of(draft, part);
	const struct draft_weights_item* item = &draft->item[index];
	const struct tensor *from = item->stored, *to = item->quantized;
	const int64_t begin = (int64_t)(part - item->first_part) * PART_ROWS, left = to->rows - begin;
	const size_t row_bytes = dtype_row_bytes(from->type, from->cols);
	const size_t done = (size_t)begin * dtype_row_bytes(to->type, to->cols);
	const struct part_rows rows = {.by = draft->rounding,
	                               .from = from,
	                               .to = to,
	                               .row = (const unsigned char*)from->data + (size_t)begin * row_bytes,
	                               .out = (unsigned char*)data + item->offset + done,
	                               .row_bytes = row_bytes,
	                               .n = left < PART_ROWS ? left : PART_ROWS};
	round_rows(&rows);
	if (begin == 0)
		clear_gap(draft, data, index);
}

struct draft_weights_job {
	const struct draft_weights* draft;
	void* data;
	struct pool* pool;
	atomic_int next; /* the part that nobody has taken yet */
	double until;    /* by the clock */
};

struct draft_weights_job* draft_weights_job_open(const struct draft_weights* draft, void* data, int threads,
                                                 struct error* error) {
	struct draft_weights_job* m = calloc(1, sizeof *m);
	struct pool* pool = m ? pool_open(threads) : NULL;
	if (!pool) {
		free(m);
		error_set(error, "the threads that make quantized draft weights could not be made");
		return NULL;
	}
	m->draft = draft;
	m->data = data;
	m->pool = pool;
	return m;
}

void draft_weights_job_close(struct draft_weights_job* m) {
	if (m)
		pool_close(m->pool);
	free(m);
}

static void take_parts(void* user, int worker, int thread) {
	struct draft_weights_job* m = user;
	(void)worker, (void)thread;
	do {
		const int part = atomic_fetch_add(&m->next, 1);
		if (part >= m->draft->parts) {
			atomic_store(&m->next, m->draft->parts);
			return;
		}
		make_part(m->draft, m->data, part);
	} while (seconds_now() < m->until);
}

double draft_weights_job_run(struct draft_weights_job* m, double seconds) {
	m->until = seconds_now() + seconds;
	pool_run(m->pool, pool_threads(m->pool), take_parts, m);
	return draft_weights_job_share(m);
}

double draft_weights_job_share(const struct draft_weights_job* m) {
	return m->draft->parts ? (double)atomic_load(&m->next) / m->draft->parts : 1;
}

bool draft_weights_make(const struct draft_weights* draft, void* data, int threads,
                        void (*progress)(void* user, double share), void* user, struct error* error) {
	struct draft_weights_job* m = draft_weights_job_open(draft, data, threads, error);
	while (m && draft_weights_job_share(m) < 1) {
		const double share = draft_weights_job_run(m, progress ? 0.1 : INFINITY);
		if (progress)
			progress(user, share);
	}
	draft_weights_job_close(m);
	return m != NULL;
}
