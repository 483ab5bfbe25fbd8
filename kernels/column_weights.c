/* See column_weights.h. */
#include "kernels/column_weights.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/matmul.h"

/* Channels of a part: a multiple of every type's block. */
enum { PART_CHANNELS = BLOCK_SUPER };

static struct column_rounding rounding_here(void) {
#if defined(__x86_64__)
	if (avx512_supported())
		return (struct column_rounding){avx2_decode, avx512_column_round};
	if (avx2_supported())
		return (struct column_rounding){avx2_decode, avx2_column_round};
#endif
	return (struct column_rounding){dtype_to_float, column_round};
}

/* ---- the plan ------------------------------------------------------------------------------- */

static size_t round_to_line(size_t bytes) { return (bytes + COLUMN_LINE - 1) / COLUMN_LINE * COLUMN_LINE; }

size_t block_map_bytes(const struct block_map* m) { return column_bytes(m->map.outputs, m->map.channels); }

static size_t peak_bytes(int channels) { return round_to_line((size_t)channels); }

static int count_parts(const struct block_map* m) {
	return (m->map.channels + PART_CHANNELS - 1) / PART_CHANNELS;
}

static void plan_map(struct column_weights* weights, struct block_map* m, const struct tensor* const* matrix,
                     int n) {
	*m = (struct block_map){.offset = weights->bytes, .first_part = weights->parts};
	if (n == 0)
		return;
	const int64_t channels = matrix[0]->cols;
	if (!tensor_present(matrix[0]) || channels > COLUMN_CHANNELS)
		return;
	for (int i = 0; i < n; i++)
		if (tensor_present(matrix[i])) {
			m->map.outputs += matrix[i]->rows;
			m->matrix[m->n_matrices++] = matrix[i];
		}
	m->map.channels = (int)channels;
	weights->bytes += block_map_bytes(m) + column_norm_bytes((int)channels) + peak_bytes((int)channels);
	weights->parts += count_parts(m);
}

static void plan_block(struct column_weights* weights, int b, const struct block_weights* w) {
	struct block_map* map = weights->block[b].map;
	const struct tensor *qkv[] = {&w->wq, &w->wk, &w->wv}, *out = &w->wo;
	const struct tensor *gate_up[] = {&w->w_gate, &w->w_up}, *down = &w->w_down;
	/* Sub-layers without a map: latent attention's maps have several inputs, and the experts that a row reads
	 * are not known in advance. */
	const int attention = tensor_present(&w->absorb) ? 0 : 1, mlp = tensor_present(&w->router) ? 0 : 1;
	plan_map(weights, &map[COLUMN_ATTENTION], qkv, 3 * attention);
	plan_map(weights, &map[COLUMN_ATTENTION_OUT], &out, attention);
	plan_map(weights, &map[COLUMN_MLP], gate_up, 2 * mlp);
	plan_map(weights, &map[COLUMN_DOWN], &down, mlp);
}

bool column_weights_plan(struct column_weights* weights, const struct weight_table* stored,
                         struct error* error) {
	*weights = (struct column_weights){.n_blocks = stored->shape.n_blocks, .rounding = rounding_here()};
	weights->block = calloc((size_t)weights->n_blocks, sizeof *weights->block);
	if (!weights->block)
		return error_set(error, "out of memory for the plan of the quantized draft weights");
	for (int b = 0; b < weights->n_blocks; b++)
		plan_block(weights, b, &stored->block[b]);
	return true;
}

void column_weights_close(struct column_weights* weights) {
	free(weights->block);
	*weights = (struct column_weights){0};
}

void column_weights_place(struct column_weights* weights, void* data) {
	struct block_map* before = NULL;
	weights->data = data;
	for (int b = 0; b < weights->n_blocks; b++)
		for (int k = 0; k < COLUMN_KINDS; k++) {
			struct block_map* m = &weights->block[b].map[k];
			struct column_map* map = &m->map;
			if (!block_map_present(m))
				continue;
			unsigned char* at = (unsigned char*)data + m->offset;
			map->runs = at;
			at += block_map_bytes(m);
			map->norm = (const uint16_t*)(const void*)at;
			map->peak = at + column_norm_bytes(map->channels);
			if (before)
				before->next = map;
			before = m;
		}
}

/* ---- making it ------------------------------------------------------------------------------ */

static struct block_map* map_of(const struct column_weights* weights, int part) {
	int from = 0, to = weights->n_blocks * COLUMN_KINDS - 1;
	struct block_map* found = NULL;
	/* absent maps have no parts; of maps that begin at the same part the last one has it */
	while (from <= to) {
		const int middle = (from + to) / 2;
		struct block_map* m = &weights->block[middle / COLUMN_KINDS].map[middle % COLUMN_KINDS];
		if (m->first_part <= part) {
			found = m;
			from = middle + 1;
		} else {
			to = middle - 1;
		}
	}
	return found;
}

/* Rows whose pieces are fetched ahead: pieces of neighbouring rows lie too far apart for the processor's own
 * prefetching. */
enum { ROWS_AHEAD = 12 };

/* From one output's floats to the next one's. A line more than the channels, or all outputs of a channel
 * would lie in a few sets of the cache. */
enum { WIDENED_STRIDE = PART_CHANNELS + COLUMN_LINE / 4 };

/* Widens n channels from `first` on of `outputs` outputs from `row` on, of all the map's matrices in turn, to
 * x (outputs, WIDENED_STRIDE). */
static void widen_outputs(const struct column_weights* weights, const struct block_map* m, int64_t row,
                          int outputs, int first, int n, float* x) {
	int i = 0;
	while (row >= m->matrix[i]->rows)
		row -= m->matrix[i++]->rows;
	for (int o = 0; o < outputs; i++, row = 0) {
		const struct tensor* w = m->matrix[i];
		const size_t stride = dtype_row_bytes(w->type, w->cols), piece = dtype_row_bytes(w->type, n);
		const unsigned char* from = (const unsigned char*)w->data + dtype_row_bytes(w->type, first);
		for (; row < w->rows && o < outputs; row++, o++) {
			if (row + ROWS_AHEAD < w->rows)
				for (size_t at = 0; at < piece; at += COLUMN_LINE)
					__builtin_prefetch(from + (size_t)(row + ROWS_AHEAD) * stride + at);
			weights->rounding.widen(w->type, from + (size_t)row * stride, x + (size_t)o * WIDENED_STRIDE, n);
		}
	}
}

void column_weights_make(const struct column_weights* weights, int part) {
	const struct block_map* m = map_of(weights, part);
	const struct column_map* map = &m->map;
	const int first = (part - m->first_part) * PART_CHANNELS, left = map->channels - first;
	const int n = left < PART_CHANNELS ? left : PART_CHANNELS;
	float x[COLUMN_OUTPUTS * WIDENED_STRIDE], peak[PART_CHANNELS] = {0}, norm2[PART_CHANNELS] = {0};
	for (int64_t t = 0; t < column_tiles(map->outputs); t++) {
		const struct column_span tile = column_tile(map->outputs, t);
		const size_t run = column_run(tile.lines);
		/* their own memory, which maps point to as read-only */
		uint8_t* scale = (uint8_t*)(uintptr_t)map->runs + column_tile_offset(map->outputs, map->channels, t) +
		                 (size_t)first * run;
		uint8_t* codes = scale + column_run_scales(tile.lines);
		for (int i = 0; i < tile.lines; i++) {
			const int64_t row = (tile.line + i) * COLUMN_OUTPUTS, rows = map->outputs - row;
			const int outputs = rows < COLUMN_OUTPUTS ? (int)rows : COLUMN_OUTPUTS;
			widen_outputs(weights, m, row, outputs, first, n, x);
			weights->rounding.round(codes + i * COLUMN_LINE, scale + i * COLUMN_SCALES, run, peak, norm2, x,
			                        WIDENED_STRIDE, outputs, n);
		}
	}
	column_keys((uint8_t*)(uintptr_t)map->peak + first, (uint16_t*)(uintptr_t)map->norm + first, peak, norm2,
	            n);
}
