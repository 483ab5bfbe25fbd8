/* Counts the bytes of weights, and those of them that a variant reads. */
#include "core/decode/pass_bytes.h"

#include <string.h>

static double count_attention(const struct block_weights* k) {
	return (double)(tensor_bytes(&k->wq_a) + tensor_bytes(&k->wq) + tensor_bytes(&k->wk) +
	                tensor_bytes(&k->wv) + tensor_bytes(&k->absorb) + tensor_bytes(&k->wo));
}

/* The experts that one row chooses. */
static double count_mlp(const struct block_weights* k, int experts_used) {
	const size_t all = tensor_bytes(&k->w_gate) + tensor_bytes(&k->w_up) + tensor_bytes(&k->w_down);
	if (!tensor_present(&k->router))
		return (double)all;
	const struct expert* e = k->expert;
	const size_t each = tensor_bytes(&e->w_gate) + tensor_bytes(&e->w_up) + tensor_bytes(&e->w_down);
	return (double)(all + tensor_bytes(&k->router) + (size_t)experts_used * each);
}

static struct layer_bytes count_layers(const struct block_weights* block, const struct model_shape* shape,
                                       double head) {
	struct layer_bytes bytes = {.head = head};
	for (int b = 0; b < shape->n_blocks; b++) {
		bytes.attention += count_attention(&block[b]) / shape->n_blocks;
		bytes.mlp += count_mlp(&block[b], shape->experts_used) / shape->n_blocks;
	}
	return bytes;
}

/* What a row reads of the head: with centroids some of its groups. */
static double count_head(const struct weight_table* w) {
	const double all = (double)tensor_bytes(&w->output);
	return tensor_present(&w->centroids) ? (double)tensor_bytes(&w->centroids) +
	                                           all * w->shape.centroids_used / (double)w->centroids.rows
	                                     : all;
}

struct pass_bytes pass_bytes_of(const struct weight_table* w, size_t coarse_head) {
	const double head = coarse_head > 0 ? (double)coarse_head : count_head(w);
	const double ends = (double)(tensor_bytes(&w->join) + tensor_bytes(&w->leave));
	return (struct pass_bytes){.stored = count_layers(w->block, &w->shape, head + ends),
	                           .blocks = w->shape.n_blocks};
}

void pass_bytes_add(struct pass_bytes* bytes, const struct draft_weights* quantized) {
	bytes->quantized =
	    count_layers(quantized->block, &quantized->stored->shape,
	                 quantized->head ? (double)tensor_bytes(quantized->output) : bytes->stored.head);
	if (!quantized->format.columns)
		return;
	memset(bytes->kind, 0, sizeof bytes->kind);
	for (int b = 0; b < bytes->blocks; b++)
		for (int k = 0; k < COLUMN_KINDS; k++)
			bytes->kind[k] += (double)block_map_bytes(&quantized->columns.block[b].map[k]) / bytes->blocks;
	bytes->quantized.attention = bytes->kind[COLUMN_ATTENTION] + bytes->kind[COLUMN_ATTENTION_OUT];
	bytes->quantized.mlp = bytes->kind[COLUMN_MLP] + bytes->kind[COLUMN_DOWN];
}

/* Bytes of the draft weights that a sub-layer reads. */
static double count_quantized(const struct pass_bytes* bytes, const struct levels* levels, int sub_layer) {
	const bool attention = sub_layer % 2 == 0;
	if (!levels)
		return attention ? bytes->quantized.attention : bytes->quantized.mlp;
	const int first = attention ? COLUMN_ATTENTION : COLUMN_MLP;
	double sum = 0;
	for (int k = first; k < first + 2; k++)
		sum += bytes->kind[k] * (double)level_kept(levels, sub_layer / 2, bytes->blocks, (enum column_kind)k);
	return sum;
}

struct byte_share pass_bytes_share(const struct pass_bytes* bytes, struct variant v, double cache) {
	struct byte_share sum = {0, 0};
	int attentions = 0;
	for (int s = 0; s < 2 * bytes->blocks; s++) {
		if (v.skip && mask_has(v.skip, s))
			continue;
		attentions += s % 2 == 0;
		if (v.quantized && mask_has(v.quantized, s))
			sum.quantized += count_quantized(bytes, v.levels, s);
		else
			sum.stored += s % 2 == 0 ? bytes->stored.attention : bytes->stored.mlp;
	}
	*(v.quantized_head ? &sum.quantized : &sum.stored) +=
	    v.quantized_head ? bytes->quantized.head : bytes->stored.head;
	const double weights = (1 - cache) / pass_bytes_all(bytes);
	return (struct byte_share){sum.stored * weights + cache * (1 - v.unread) * attentions / bytes->blocks,
	                           sum.quantized * weights};
}

double pass_bytes_layers_read(const struct pass_bytes* bytes, struct variant v) {
	double read = 0, all = 0;
	for (int s = 0; s < 2 * bytes->blocks; s++) {
		const double whole = s % 2 == 0 ? bytes->stored.attention : bytes->stored.mlp;
		const bool quantized = v.quantized && mask_has(v.quantized, s);
		const double kept =
		    quantized ? count_quantized(bytes, v.levels, s) / count_quantized(bytes, NULL, s) : 1;
		all += whole;
		read += v.skip && mask_has(v.skip, s) ? 0 : whole * kept;
	}
	return all > 0 ? read / all : 1;
}

struct layer_bytes pass_bytes_layers(const struct pass_bytes* bytes, bool quantized,
                                     const struct levels* levels) {
	if (!quantized || !levels)
		return quantized ? bytes->quantized : bytes->stored;
	struct layer_bytes sum = {.head = bytes->quantized.head};
	for (int b = 0; b < bytes->blocks; b++) {
		sum.attention += count_quantized(bytes, levels, 2 * b) / bytes->blocks;
		sum.mlp += count_quantized(bytes, levels, 2 * b + 1) / bytes->blocks;
	}
	return sum;
}
