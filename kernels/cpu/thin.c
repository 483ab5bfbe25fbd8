/* Rows without the channels that drafts would leave out, for products with stored weights: a pass with them
 * shows what drafts would say before draft weights are made.
 *
 * Drafts keep the channels with the largest |x_j|·‖W_j‖ (kernels/columns.h). The norms of stored channels are
 * found when a map is first used, from some of its rows: all of them would take as long as some plain steps.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cpu/cpu.h"

enum { SAMPLED_ROWS = 64 };

bool thin_open(struct cpu_backend* b, const struct column_weights* weights) {
	const size_t maps = (size_t)weights->n_blocks * COLUMN_KINDS;
	thin_close(b);
	for (size_t i = 0; i < maps; i++) {
		const int channels = weights->block[i / COLUMN_KINDS].map[i % COLUMN_KINDS].map.channels;
		b->norm_room = (size_t)channels > b->norm_room ? (size_t)channels : b->norm_room;
	}
	b->sampled_norm = calloc(maps * b->norm_room + 1, sizeof *b->sampled_norm);
	b->norm_known = calloc(maps, sizeof *b->norm_known);
	return b->sampled_norm && b->norm_known;
}

void thin_close(struct cpu_backend* b) {
	free(b->sampled_norm);
	free(b->norm_known);
	b->sampled_norm = NULL;
	b->norm_known = NULL;
	b->norm_room = 0;
}

/* The row that gives an output of the map. */
static const void* stored_row(const struct block_map* m, int64_t output, enum dtype* type) {
	const struct tensor* const* matrix = m->matrix;
	while (output >= (*matrix)->rows)
		output -= (*matrix++)->rows;
	*type = (*matrix)->type;
	return (const unsigned char*)(*matrix)->data + (size_t)output * dtype_row_bytes(*type, (*matrix)->cols);
}

/* scratch (2, channels) */
static void sample_norms(const struct cpu_backend* b, const struct block_map* m, float* scratch,
                         uint16_t* norm) {
	const int channels = m->map.channels;
	const int64_t outputs = m->map.outputs, step = (outputs + SAMPLED_ROWS - 1) / SAMPLED_ROWS;
	float *row = scratch, *squares = scratch + channels;
	memset(squares, 0, (size_t)channels * sizeof *squares);
	for (int64_t output = step / 2; output < outputs; output += step) {
		enum dtype type;
		const void* stored = stored_row(m, output, &type);
		b->draft_weights->columns.rounding.widen(type, stored, row, channels);
		for (int j = 0; j < channels; j++)
			squares[j] += row[j] * row[j];
	}
	for (int j = 0; j < channels; j++) {
		const float size = sqrtf(squares[j]);
		uint32_t bits;
		memcpy(&bits, &size, sizeof bits);
		norm[j] = (uint16_t)(bits >> 16);
	}
}

struct thin_job {
	const struct cpu_backend* b;
	struct column_map map;
	const float* x;
	float share;
};

static void thin_row(void* user, int i, int thread) {
	(void)thread;
	const struct thin_job* job = user;
	const size_t channels = (size_t)job->map.channels, at = (size_t)i * channels;
	const float *x = job->x + at, least = job->b->kernels->column_threshold(&job->map, x, job->share);
	float* const out = job->b->thinned + at;
	for (size_t j = 0; j < channels; j++)
		out[j] = fabsf(x[j]) * column_norm(job->map.norm[j]) > least ? x[j] : 0;
}

const float* thin_rows(struct cpu_backend* b, int block, enum column_kind kind, const float* x, float share,
                       int n) {
	const struct block_map* m = &b->draft_weights->columns.block[block].map[kind];
	if (!block_map_present(m))
		return x;
	const size_t i = (size_t)block * COLUMN_KINDS + (size_t)kind;
	uint16_t* const norm = b->sampled_norm + i * b->norm_room;
	if (!b->norm_known[i])
		sample_norms(b, m, b->thinned, norm);
	b->norm_known[i] = true;
	struct thin_job job = {b, {.channels = m->map.channels, .norm = norm}, x, share};
	spread(b, n, (double)n * m->map.channels * 8, thin_row, &job);
	return b->thinned;
}
