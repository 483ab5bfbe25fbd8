/* The pass on the device: it describes a slice's rows and launches a span of sub-layers.
 *
 * The common pass, all sub-layers for up to 64 rows and the head, is one captured graph for each bucket of
 * rows. Kernels read the mask. Spans, taps and prefill chunks are launched one by one, as is everything of
 * several devices unless they were asked to capture. */
#include <assert.h>
#include <string.h>

#include "kernels/cuda/cuda.cuh"
#include "kernels/noise.h"
#include "kernels/sample.h"

/* ---- launches ----------------------------------------------------------------------------- */

static int bucket_of(int rows) { return (rows + 7) / 8; }

/* Adds a matrix to a product, with its quantized draft weights where passes may take that. */
static void take_part(const struct cuda_backend* b, struct device_product* p, const struct device_weights& w,
                      float* out, const float* bias) {
	p->w[p->parts] = w.stored;
	p->quantized[p->parts] = b->group->with_quantized ? w.quantized : w.stored;
	p->has_quantized = p->has_quantized || (b->group->with_quantized && w.quantized.data != w.stored.data);
	p->out[p->parts] = out;
	p->bias[p->parts] = bias;
	p->parts++;
}

/* The product of a sub-layer's normed hidden states; the norm goes along where that pays. */
static void launch_normed_product(const struct cuda_backend* b, int bucket, const float* norm,
                                  struct device_product* product, int sub_layer) {
	if (norm_goes_along(b, product, bucket))
		product->norm = norm_of(b, norm, sub_layer);
	else
		launch_norm(b, 8 * bucket, norm, sub_layer);
	launch_product(b, product, product->norm.weight ? b->work.x : b->work.normed, bucket, sub_layer);
}

/* A sub-layer's last matrix, and what is added to the product. */
struct last_matrix {
	const struct device_weights* weights;
	const float *bias, *post_norm;
};
static struct last_matrix last_of(const struct device_block* w, int sub_layer) {
	if (sub_layer % 2 == 0)
		return {&w->matrix[WO], w->bo, w->post_attention_norm};
	return {&w->matrix[W_DOWN], w->b_down, w->post_mlp_norm};
}

/* The product at a sub-layer's end: into the hidden states, or by way of the norm after it. */
static void launch_last_product(const struct cuda_backend* b, int rows, int sub_layer) {
	const int bucket = bucket_of(rows);
	bool normed = false;
	each_device(b, [&](const struct cuda_backend* p) {
		const struct last_matrix w = last_of(&p->block[sub_layer / 2], sub_layer);
		struct device_product product = {};
		normed = w.post_norm != NULL;
		product.end = normed || !is_alone(p) ? PRODUCT_STORE : PRODUCT_ADD;
		take_part(p, &product, *w.weights,
		          !is_alone(p) ? (float*)p->work.part
		          : normed     ? p->work.y
		                       : p->work.x,
		          w.bias);
		launch_product(p, &product, sub_layer % 2 == 0 ? p->work.mixed : p->work.gated, bucket, sub_layer);
	});
	launch_gather(b, rows, normed ? GATHERED_OUTPUT : GATHERED_ADDED, sub_layer);
	if (normed)
		each_device(b, [&](const struct cuda_backend* p) {
			launch_post_norm(p, 8 * bucket, last_of(&p->block[sub_layer / 2], sub_layer).post_norm,
			                 sub_layer);
		});
}

/* A recurrent block's products in attention's place run with the stored weights. */
static bool runs_by_channel(const struct cuda_backend* b, int sub_layer) {
	const struct mask* by_channel = b->group->by_channel;
	const bool attends = sub_layer % 2 == 0;
	return by_channel && mask_has(by_channel, sub_layer) &&
	       !(attends && block_set_has(&b->shape.recurrent, sub_layer / 2)) &&
	       b->block[sub_layer / 2].columns[attends ? COLUMN_ATTENTION_OUT : COLUMN_DOWN].channels > 0;
}

static void add_output(struct column_outputs* to, const struct device_weights& w, float* out,
                       const float* bias) {
	to->out[to->parts] = out;
	to->bias[to->parts] = bias;
	to->rows[to->parts] = w.stored.rows;
	to->parts++;
}

static void launch_normed_columns(const struct cuda_backend* b, int rows, int sub_layer, const float* norm,
                                  const struct column_outputs& to) {
	struct column_input in = {};
	in.kind = COLUMN_INPUT_NORM;
	in.x = b->work.x;
	in.norm = norm_of(b, norm, sub_layer);
	launch_columns(b, rows, sub_layer, sub_layer % 2 ? COLUMN_MLP : COLUMN_ATTENTION, in, to);
}

static void launch_column_heads(const struct cuda_backend* b, int rows, int block) {
	const struct device_block* w = &b->block[block];
	struct column_outputs to = {};
	add_output(&to, w->matrix[WQ], b->shape.attention_gated ? b->work.recurrent.made : b->work.q, w->bq);
	add_output(&to, w->matrix[WK], b->work.k, w->bk);
	add_output(&to, w->matrix[WV], b->work.v, w->bv);
	launch_normed_columns(b, rows, 2 * block, w->attention_norm, to);
	launch_apply_rope(b, rows, block);
	launch_attention(b, rows, block, 0);
}

static void launch_column_gate_up(const struct cuda_backend* b, int rows, int block) {
	const struct device_block* w = &b->block[block];
	struct column_outputs to = {};
	add_output(&to, w->matrix[W_GATE], b->work.wide, w->b_gate);
	add_output(&to, w->matrix[W_UP], b->work.wide_up, w->b_up);
	launch_normed_columns(b, rows, 2 * block + 1, w->mlp_norm, to);
}

/* The last product reads what the sub-layer's first launches left. */
static void launch_last_columns(const struct cuda_backend* b, int rows, int sub_layer) {
	const struct last_matrix w = last_of(&b->block[sub_layer / 2], sub_layer);
	struct column_input in = {};
	struct column_outputs to = {};
	in.kind = sub_layer % 2 ? COLUMN_INPUT_GATE : COLUMN_INPUT_ACTIVATIONS;
	in.x = b->work.wide;
	in.up = b->work.wide_up;
	in.activation = b->shape.activation;
	in.activations = b->work.mixed;
	add_output(&to, *w.weights, w.post_norm ? b->work.y : b->work.x, w.bias);
	to.adds = !w.post_norm;
	launch_columns(b, rows, sub_layer, sub_layer % 2 ? COLUMN_DOWN : COLUMN_ATTENTION_OUT, in, to);
	if (w.post_norm)
		launch_post_norm(b, rows, w.post_norm, sub_layer);
}

/* With draft weights by input channel; of one device alone. */
static void column_launches(const struct cuda_backend* b, int rows, int sub_layer) {
	if (sub_layer % 2 == 0)
		launch_column_heads(b, rows, sub_layer / 2);
	else
		launch_column_gate_up(b, rows, sub_layer / 2);
	launch_last_columns(b, rows, sub_layer);
}

/* For one device's heads. */
static void launch_heads(const struct cuda_backend* b, int bucket, int block) {
	const struct device_block* w = &b->block[block];
	const struct workspace* k = &b->work;
	struct device_product qkv = {};
	take_part(b, &qkv, w->matrix[WQ], b->shape.attention_gated ? k->recurrent.made : k->q, w->bq);
	take_part(b, &qkv, w->matrix[WK], k->k, w->bk);
	take_part(b, &qkv, w->matrix[WV], k->v, w->bv);
	if (rope_is_fused(b) && !b->shape.attention_gated) {
		qkv.rotation = head_rotation_of(b, block);
		qkv.rotation.done = k->head_done;
	}
	launch_normed_product(b, bucket, w->attention_norm, &qkv, 2 * block);
	if (!qkv.rotation.done)
		launch_apply_rope(b, 8 * bucket, block);
	launch_attention(b, 8 * bucket, block, 0);
}

/* In attention's place. */
static void launch_recurrent_rows(const struct cuda_backend* b, int bucket, int block) {
	const struct device_block* w = &b->block[block];
	const struct recurrent_workspace* k = &b->work.recurrent;
	struct device_product in = {};
	take_part(b, &in, w->matrix[WQ], k->made, NULL);
	if (b->shape.recurrence.key_dim > 0) {
		take_part(b, &in, w->matrix[WK], k->gate, NULL);
		take_part(b, &in, w->matrix[W_BETA], k->beta, NULL);
		take_part(b, &in, w->matrix[W_DECAY], k->decay, NULL);
	}
	launch_normed_product(b, bucket, w->attention_norm, &in, 2 * block);
	launch_recurrence(b, 8 * bucket, block);
}

/* One device's share of the feed-forward's activations. */
static void launch_gated(const struct cuda_backend* b, int bucket, int block) {
	const struct device_block* w = &b->block[block];
	struct device_product gate = {};
	gate.end = PRODUCT_GATE;
	gate.gated = is_alone(b) ? b->work.gated : b->work.part;
	gate.activation = b->shape.activation;
	take_part(b, &gate, w->matrix[W_GATE], NULL, w->b_gate);
	take_part(b, &gate, w->matrix[W_UP], NULL, w->b_up);
	launch_normed_product(b, bucket, w->mlp_norm, &gate, 2 * block + 1);
}

static void sub_layer_launches(const struct cuda_backend* b, int rows, int sub_layer) {
	const bool attends = sub_layer % 2 == 0;
	if (runs_by_channel(b, sub_layer))
		return column_launches(b, 8 * bucket_of(rows), sub_layer);
	each_device(b, [&](const struct cuda_backend* p) {
		if (attends && block_set_has(&p->shape.recurrent, sub_layer / 2))
			launch_recurrent_rows(p, bucket_of(rows), sub_layer / 2);
		else if (attends)
			launch_heads(p, bucket_of(rows), sub_layer / 2);
		else
			launch_gated(p, bucket_of(rows), sub_layer / 2);
	});
	launch_gather(b, rows, attends ? GATHERED_MIXED : GATHERED_GATED, sub_layer);
	launch_last_product(b, rows, sub_layer);
}

/* bare: the states are what the head reads. The first device alone looks at the logits. */
static void head_launches(const struct cuda_backend* b, int rows, bool bare) {
	const int bucket = bucket_of(rows);
	each_device(b, [&](const struct cuda_backend* p) {
		if (bare)
			launch_round(p, 8 * bucket);
		else
			launch_norm(p, 8 * bucket, p->output_norm, -1);
		struct device_product head = {};
		take_part(p, &head, p->output, is_alone(p) ? p->work.logits : (float*)p->work.part, NULL);
		if (p->screened.coarse.rows > 0) {
			head.quantized[HEAD_COARSE - HEAD_QUANTIZED] = p->screened.coarse;
			head.has_quantized = true;
		}
		launch_product(p, &head, p->work.normed, bucket, -1);
	});
	launch_gather(b, rows, GATHERED_LOGITS, -1);
	cudaSetDevice(b->device);
	launch_screened(b, bucket);
	launch_results(b, 8 * bucket, b->result);
}

static void embed_launches(const struct cuda_backend* b, int rows) {
	each_device(b, [&](const struct cuda_backend* p) { launch_embed(p, rows); });
	launch_gather(b, rows, GATHERED_EMBEDDING, -1);
}

/* After a span: the states as they are left. */
static void keep_launches(const struct cuda_backend* b, int rows) {
	each_device(b, [&](const struct cuda_backend* p) { launch_keep(p, rows); });
}

static bool is_skipped(const struct mask* skip, int sub_layer) { return skip && mask_has(skip, sub_layer); }

void launch_whole(const struct cuda_backend* b, int rows) {
	const int sub_layers = 2 * b->shape.n_blocks;
	embed_launches(b, rows);
	for (int s = 0; s < sub_layers; s++)
		sub_layer_launches(b, rows, s);
	keep_launches(b, rows);
	head_launches(b, rows, false);
}

/* ---- describing a slice ------------------------------------------------------------------- */

/* The staging block from that byte on. */
static void* staged(const struct cuda_backend* b, size_t at) { return (unsigned char*)b->staging + at; }

size_t list_pages(const struct cuda_backend* b, const struct paged_cache* c, size_t at) {
	const size_t bytes = (size_t)c->n_pages * sizeof(unsigned char*);
	memcpy(staged(b, at), paged_bytes(c, b->rank), bytes);
	return bytes;
}

size_t reserve_angles(const struct cuda_backend* b, size_t at, int rows) {
	struct device_slice* s = b->staging;
	const size_t each = 2 * (size_t)rows * sizeof(float);
	s->angle_rows = rows;
	s->angles = (int)align_place(at);
	s->sliding_angles = (int)align_place((size_t)s->angles + each * (size_t)b->rope.pairs);
	return align_place((size_t)s->sliding_angles + each * (size_t)b->sliding_rope.pairs);
}

void put_angles(const struct cuda_backend* b, int row, int position, int prompt_length) {
	const struct device_slice* s = b->staging;
	const int length = prompt_length > position + 1 ? prompt_length : position + 1;
	const struct {
		const struct rope_frequencies* rope;
		int at;
	} kinds[] = {{&b->rope, s->angles}, {&b->sliding_rope, s->sliding_angles}};
	for (int k = 0; k < 2; k++) {
		const size_t pairs = (size_t)kinds[k].rope->pairs;
		float* cosine = (float*)staged(b, (size_t)kinds[k].at);
		if (pairs > 0)
			rope_row(kinds[k].rope, position, length, cosine + (size_t)row * pairs,
			         cosine + (size_t)(s->angle_rows + row) * pairs);
	}
}

struct device_slice* describe_slice(struct cuda_backend* b, int n, const struct mask* skip,
                                    const struct mask* quantized, const struct levels* levels) {
	struct device_slice* s = b->staging;
	memset(s, 0, sizeof *s);
	s->n = n;
	if (skip)
		memcpy(s->skip, skip->word, sizeof s->skip);
	if (quantized)
		memcpy(s->quantized, quantized->word, sizeof s->quantized);
	if (levels)
		s->levels = *levels;
	return s;
}

struct device_row describe_row(const struct segment* segment) {
	struct device_row row = {};
	row.ancestor = row.noted = -1;
	row.sampled = segment->sampler != NULL;
	if (segment->sampler)
		row.sampler = *segment->sampler;
	const struct cuda_cache* c = (const struct cuda_cache*)segment->cache;
	row.hidden = c->hidden[0];
	row.states = c->states;
	row.above = -1;
	return row;
}

static struct device_row open_row(const struct pass* pass, const struct segment* segment, int r, int index) {
	const struct pending_row* p = &((const struct paged_cache*)segment->cache)->row[index];
	struct device_row row = describe_row(segment);
	row.token = pass->first > 0 ? 0 : pass->token[r];
	row.position = p->base + p->depth;
	row.slot = segment->cache->committed + index;
	row.base = p->base;
	row.pending = index;
	row.want = pass->head ? pass->want[r] : 0;
	row.top = row.want & WANT_TOP ? pass->out[r].top : 0;
	return row;
}

/* The leading device's staging block, with what another one's cache holds. */
static bool send_to(struct cuda_backend* b, const struct cuda_backend* lead, size_t bytes,
                    struct error* error) {
	struct device_slice* s = b->staging;
	if (b != lead)
		memcpy(s, lead->staging, bytes);
	for (int i = 0; b != lead && i < s->n; i++) {
		const struct cuda_cache* c = (const struct cuda_cache*)lead->of_row[i]->cache;
		s->row[i].hidden = c->hidden[b->rank];
		if (i == 0 || s->row[i].pages != s->row[i - 1].pages)
			list_pages(b, &c->paged, (size_t)s->row[i].pages);
	}
	CUDA_TRY(cudaMemcpyAsync(b->slice, b->staging, bytes, cudaMemcpyHostToDevice, b->stream), error);
	return true;
}

/* Each sequence's once; returns where they end. */
static size_t list_all_pages(struct cuda_backend* b, size_t at) {
	struct device_slice* s = b->staging;
	for (int i = 0; i < s->n; i++) {
		const bool again = i > 0 && b->of_row[i] == b->of_row[i - 1];
		s->row[i].pages = again ? s->row[i - 1].pages : (int)at;
		if (!again)
			at += list_pages(b, (const struct paged_cache*)b->of_row[i]->cache, at);
	}
	return at;
}

/* The page lists that rows read, each once; returns where they end. */
static size_t put_all_lists(struct cuda_backend* b, size_t at) {
	struct device_slice* s = b->staging;
	for (int i = 0; i < s->n; i++) {
		struct device_row* row = &s->row[i];
		if (i > 0 && b->of_row[i]->pages == b->of_row[i - 1]->pages) {
			row->list = row[-1].list;
			row->listed = row[-1].listed;
			row->listed_from = row[-1].listed_from;
		} else
			at += put_page_list(b, b->of_row[i]->pages, at, row);
		reach_chunks(s, row, row->position);
	}
	return at;
}

void reach_chunks(struct device_slice* s, const struct device_row* row, int position) {
	const int unread = row->list ? row->listed_from - row->listed * LIST_POSITIONS : 0;
	s->chunks = max(s->chunks, position / ATTENTION_CHUNK + 1);
	s->read_chunks = max(s->read_chunks, (position - unread) / ATTENTION_CHUNK + 1);
}

/* Fills the staging block for rows [r0, r0 + n) and sends it. */
static bool send_slice(struct cuda_backend* b, const struct pass* pass, struct paged_walk* walk, int r0,
                       int n, struct error* error) {
	struct device_slice* s = describe_slice(b, n, pass->skip, pass->quantized, pass->levels);
	s->first = pass->first;
	size_t at = reserve_angles(b, sizeof *s + (size_t)n * sizeof(struct device_row), n);
	s->ancestors = (int)at;
	int32_t* ancestors = (int32_t*)staged(b, at);
	int listed = 0;
	for (int i = 0; i < n; i++) {
		int index;
		const struct segment* segment = paged_next(pass, walk, r0 + i, &index);
		const struct paged_cache* c = (const struct paged_cache*)segment->cache;
		struct device_row row = open_row(pass, segment, r0 + i, index);
		row.angle = i;
		if (pass->kind != PASS_PREFILL) {
			row.ancestor = listed;
			listed += paged_ancestors(c, row.pending, ancestors + listed);
		}
		put_angles(b, i, row.position, c->head.prompt_length);
		note_row(b, segment, segment->n - walk->within, &row);
		s->row[i] = row;
		b->of_row[i] = segment;
		/* a guess may be any token */
		b->allowed[i] =
		    segment->allowed && !(row.want & WANT_GUESS) ? segment->allowed[walk->within - 1] : NULL;
	}
	s->head = head_for(b, s, pass->quantized_head);
	at = put_all_lists(b, list_all_pages(b, align_place(at + (size_t)listed * sizeof *ancestors)));
	at = describe_states(b, align_place(at));
	bool done = true;
	each_device(b, [&](struct cuda_backend* p) { done = done && send_to(p, b, at, error); });
	return done;
}

/* ---- taking results ----------------------------------------------------------------------- */

/* A copy from or to the caller's memory waits for the stream, and would wait forever after another device
 * failed. So all devices are waited for first. Afterwards the first device is the current one. */
static bool settle_results(struct cuda_backend* b, struct error* error) {
	if (is_alone(b))
		return true;
	const bool done = devices_wait(b, error);
	cudaSetDevice(b->device);
	return done;
}

/* Penalties read the text, and grammars the allowed tokens, which both are on the host. So these rows' tokens
 * are chosen there, as on a CPU, from the device's logits. The stream is idle. */
static bool host_result(struct cuda_backend* b, int i, uint8_t want, struct result* out,
                        struct error* error) {
	const struct device_row* row = &b->staging->row[i];
	const struct segment* segment = b->of_row[i];
	const int vocab = b->shape.vocab;
	const float* logits = b->host_logits;
	int32_t path[MAX_ROWS];
	CUDA_TRY(cudaMemcpyAsync(b->host_logits, b->work.logits + (size_t)i * (size_t)vocab,
	                         (size_t)vocab * sizeof(float), cudaMemcpyDeviceToHost, b->stream),
	         error);
	CUDA_TRY(cudaStreamSynchronize(b->stream), error);
	float max = logits[0];
	double sum = 0;
	for (int v = 1; v < vocab; v++)
		max = logits[v] > max ? logits[v] : max;
	for (int v = 0; v < vocab; v++)
		sum += (double)noise_exp(logits[v] - max);
	const struct paged_cache* c = (const struct paged_cache*)segment->cache;
	struct penalised_row penalised = {segment->penalties, path, 0};
	if (penalised.penalties)
		penalised.n = paged_generated(c, row->pending, penalised.penalties->prompt, path);
	result_from_softmax(out, (uint8_t)(want & ~WANT_LOG_SUM_EXP), logits, vocab, max, (float)sum,
	                    segment->sampler, penalised.penalties ? &penalised : NULL, b->allowed[i],
	                    (uint64_t)row->position + 1, b->host_logits + vocab);
	return true;
}

void give_result(const struct device_result* from, uint8_t want, struct result* to) {
	to->token = from->token;
	to->max_probability = from->max_probability;
	to->log_sum_exp = from->log_sum_exp;
	if (!(want & WANT_TOP))
		return;
	to->top = from->top;
	memcpy(to->top_token, from->top_token, sizeof to->top_token);
	memcpy(to->top_probability, from->top_probability, sizeof to->top_probability);
}

static bool take_results(struct cuda_backend* b, const struct pass* pass, int r0, int n,
                         struct error* error) {
	if (!settle_results(b, error))
		return false;
	CUDA_TRY(cudaMemcpyAsync(b->host_result, b->result, (size_t)n * sizeof *b->result, cudaMemcpyDeviceToHost,
	                         b->stream),
	         error);
	const size_t vocab = (size_t)b->shape.vocab;
	for (int i = 0; i < n; i++)
		if (pass->want[r0 + i] & WANT_LOGITS)
			CUDA_TRY(cudaMemcpyAsync(pass->out[r0 + i].logits, b->work.logits + (size_t)i * vocab,
			                         vocab * sizeof(float), cudaMemcpyDeviceToHost, b->stream),
			         error);
	CUDA_TRY(cudaStreamSynchronize(b->stream), error);
	bool weighed = b->staging->head != HEAD_COARSE;
	for (int i = 0; i < n; i++) {
		struct result* out = &pass->out[r0 + i];
		const struct device_result* in = &b->host_result[i];
		if (!pass->want[r0 + i])
			continue;
		if (!in->finite)
			return error_set(error,
			                 "the model gave logits that are not finite numbers: its weights are damaged or "
			                 "overflow f16");
		if (!weighed)
			screened_weigh(b, in->survivors);
		weighed = true;
		if (!b->of_row[i]->penalties && !b->allowed[i]) {
			give_result(in, pass->want[r0 + i], out);
			continue;
		}
		out->log_sum_exp = in->log_sum_exp;
		if (!host_result(b, i, pass->want[r0 + i], out, error))
			return false;
	}
	return true;
}

/* ---- one slice ---------------------------------------------------------------------------- */

/* Requests n rows' states from work.x, to be stored from row `at` of host_tap on. They are there once the
 * stream is idle. */
static bool ask_states(struct cuda_backend* b, int at, int n, struct error* error) {
	const size_t dim = (size_t)b->shape.dim;
	cudaSetDevice(b->device);
	CUDA_TRY(cudaMemcpyAsync(b->host_tap + (size_t)at * dim, b->work.x, (size_t)n * dim * sizeof(float),
	                         cudaMemcpyDeviceToHost, b->stream),
	         error);
	return true;
}

static bool ask_tap(struct cuda_backend* b, int n, struct error* error) { return ask_states(b, 0, n, error); }

static void take_asked(const struct cuda_backend* b, const struct pass* pass, int r0, int n) {
	const size_t dim = (size_t)b->shape.dim;
	if (pass->tap >= 0)
		memcpy(pass->tap_out + (size_t)r0 * dim, b->host_tap, (size_t)n * dim * sizeof(float));
	for (int s = pass->first; s < pass->last; s++) {
		if (is_skipped(pass->skip, s))
			continue;
		if (pass->states && r0 == 0)
			memcpy(pass->states + (size_t)s * dim, b->host_tap + (size_t)s * dim, dim * sizeof(float));
	}
}

/* Hidden states come from the caller, or from tokens or the cache. */
static bool begin_span(struct cuda_backend* b, const struct pass* pass, int r0, int n, struct error* error) {
	const size_t dim = (size_t)b->shape.dim;
	bool done = true;
	if (!pass->state)
		embed_launches(b, n);
	else
		each_device(b, [&](struct cuda_backend* p) {
			done = done && cuda_ok(cudaMemcpyAsync(p->work.x, pass->state + (size_t)r0 * dim,
			                                       (size_t)n * dim * sizeof(float), cudaMemcpyHostToDevice,
			                                       p->stream),
			                       "cudaMemcpyAsync", error);
		});
	return done;
}

static bool run_span(struct cuda_backend* b, const struct pass* pass, int r0, int n, struct error* error) {
	if (!begin_span(b, pass, r0, n, error))
		return false;
	for (int s = pass->first; s < pass->last; s++) {
		if (!is_skipped(pass->skip, s)) {
			sub_layer_launches(b, n, s);
			if (pass->states && r0 == 0 && !ask_states(b, s, 1, error))
				return false;
		}
		if (s != pass->tap)
			continue;
		keep_launches(b, n);
		if (!ask_tap(b, n, error))
			return false;
	}
	if (pass->tap < 0)
		keep_launches(b, n);
	if (pass->head)
		head_launches(b, n, pass->bare_head);
	CUDA_TRY(cudaGetLastError(), error);
	return true;
}

/* The graph of all sub-layers and the head, where the pass asks for no more and one was captured. */
static bool is_captured(struct cuda_backend* b, const struct pass* pass, int index) {
	const int sub_layers = 2 * b->shape.n_blocks;
	return pass->first == 0 && pass->last == sub_layers && pass->head && !pass->bare_head && !pass->states &&
	       (pass->tap < 0 || pass->tap == sub_layers - 1) && captured_now(b)->pass[index] &&
	       (!b->group->with_quantized || runs_all_by_channel(b, pass->skip, pass->quantized));
}

static bool run_captured(struct cuda_backend* b, const struct pass* pass, int index, int n,
                         struct error* error) {
	bool done = true;
	each_device(b, [&](struct cuda_backend* p) {
		done = done &&
		       cuda_ok(cudaGraphLaunch(captured_now(p)->pass[index], p->stream), "cudaGraphLaunch", error);
	});
	return done && (pass->tap < 0 || ask_tap(b, n, error));
}

static bool run_slice(struct cuda_backend* b, const struct pass* pass, struct paged_walk* walk, int r0, int n,
                      struct error* error) {
	if (!send_slice(b, pass, walk, r0, n, error))
		return false;
	const int index = !is_alone(b) && n == 1 ? 0 : bucket_of(n);
	if (!(is_captured(b, pass, index) ? run_captured(b, pass, index, n, error)
	                                  : run_span(b, pass, r0, n, error)))
		return false;
	cudaSetDevice(b->device);
	launch_looked(b, pass);
	if ((pass->head && !take_results(b, pass, r0, n, error)) || !devices_wait(b, error))
		return false;
	take_asked(b, pass, r0, n);
	return true;
}

/* ---- prefill ------------------------------------------------------------------------------ */

/* A sub-layer's output joins the hidden states. */
static bool finish_prefill(struct cuda_backend* b, const struct last_matrix& w, const void* x, int n,
                           struct error* error) {
	if (!prefill_product(b, w.weights, w.bias, x, n, b->work.y, error))
		return false;
	if (w.post_norm)
		launch_post_norm(b, n, w.post_norm, -1);
	else
		launch_add(b, n);
	return true;
}

static bool prefill_recurrence(struct cuda_backend* b, int block, int n, struct error* error) {
	const struct device_block* w = &b->block[block];
	const struct recurrent_workspace* k = &b->work.recurrent;
	const void* x = b->work.normed;
	if (!prefill_product(b, &w->matrix[WQ], NULL, x, n, k->made, error))
		return false;
	if (b->shape.recurrence.key_dim > 0 &&
	    (!prefill_product(b, &w->matrix[WK], NULL, x, n, k->gate, error) ||
	     !prefill_product(b, &w->matrix[W_BETA], NULL, x, n, k->beta, error) ||
	     !prefill_product(b, &w->matrix[W_DECAY], NULL, x, n, k->decay, error)))
		return false;
	launch_recurrence(b, n, block);
	return true;
}

static bool prefill_attention(struct cuda_backend* b, int block, int n, struct error* error) {
	const struct device_block* w = &b->block[block];
	struct workspace* k = &b->work;
	float* q = b->shape.attention_gated ? k->recurrent.made : k->q;
	if (!prefill_product(b, &w->matrix[WQ], w->bq, k->normed, n, q, error) ||
	    !prefill_product(b, &w->matrix[WK], w->bk, k->normed, n, k->k, error) ||
	    !prefill_product(b, &w->matrix[WV], w->bv, k->normed, n, k->v, error))
		return false;
	launch_apply_rope(b, n, block);
	/* attention's partial results are sized for a slice */
	for (int first = 0; first < n; first += SLICE_ROWS)
		launch_attention(b, n - first < SLICE_ROWS ? n - first : SLICE_ROWS, block, first);
	return true;
}

static bool prefill_block(struct cuda_backend* b, int block, int n, struct error* error) {
	const struct device_block* w = &b->block[block];
	struct workspace* k = &b->work;
	launch_norm(b, n, w->attention_norm, 2 * block);
	const bool recurrent = block_set_has(&b->shape.recurrent, block);
	if (!(recurrent ? prefill_recurrence : prefill_attention)(b, block, n, error))
		return false;
	if (!finish_prefill(b, last_of(w, 2 * block), k->mixed, n, error))
		return false;
	launch_norm(b, n, w->mlp_norm, 2 * block + 1);
	if (!prefill_product(b, &w->matrix[W_GATE], w->b_gate, k->normed, n, k->wide, error) ||
	    !prefill_product(b, &w->matrix[W_UP], w->b_up, k->normed, n, k->wide_up, error))
		return false;
	launch_gate(b, n);
	return finish_prefill(b, last_of(w, 2 * block + 1), k->gated, n, error);
}

/* The last row alone goes through the head, by the exact kernels: its hidden state moves to the front. */
static bool prefill_head(struct cuda_backend* b, const struct pass* pass, int n, struct error* error) {
	struct device_slice* s = b->staging;
	const size_t dim = (size_t)b->shape.dim;
	for (int i = 0; i < n - 1; i++)
		if (pass->want[i])
			return error_set(error, "a prefill chunk gives results for its last row only");
	if (!pass->want[n - 1])
		return true;
	if (n > 1)
		CUDA_TRY(cudaMemcpyAsync(b->work.x, b->work.x + (size_t)(n - 1) * dim, dim * sizeof(float),
		                         cudaMemcpyDeviceToDevice, b->stream),
		         error);
	/* the staging block may still be on its way */
	CUDA_TRY(cudaStreamSynchronize(b->stream), error);
	s->row[0] = s->row[n - 1];
	b->of_row[0] = b->of_row[n - 1];
	b->allowed[0] = b->allowed[n - 1];
	s->n = 1;
	CUDA_TRY(cudaMemcpyAsync(b->slice, b->staging, sizeof *s, cudaMemcpyHostToDevice, b->stream), error);
	head_launches(b, 1, false);
	struct pass last = *pass;
	last.want = pass->want + n - 1;
	last.out = pass->out + n - 1;
	return take_results(b, &last, 0, 1, error);
}

static bool run_prefill(struct cuda_backend* b, const struct pass* pass, struct error* error) {
	struct paged_walk walk = {};
	if (pass->skip || pass->first != 0 || pass->last != 2 * b->shape.n_blocks)
		return error_set(error, "a prefill chunk runs the whole model");
	if (pass->n_segments > SLICE_ROWS)
		return error_set(error, "a prefill chunk has rows of %d sequences at most", SLICE_ROWS);
	if (pass->tap >= 0 && pass->tap % 2 == 0)
		return error_set(error, "a prefill chunk is tapped at the end of a block");
	if (!send_slice(b, pass, &walk, 0, pass->n, error))
		return false;
	launch_embed(b, pass->n);
	for (int block = 0; block < b->shape.n_blocks; block++) {
		if (!prefill_block(b, block, pass->n, error))
			return false;
		if (pass->tap == 2 * block + 1 && !ask_tap(b, pass->n, error))
			return false;
	}
	launch_looked(b, pass);
	CUDA_TRY(cudaGetLastError(), error);
	if (pass->head && !prefill_head(b, pass, pass->n, error))
		return false;
	CUDA_TRY(cudaStreamSynchronize(b->stream), error);
	take_asked(b, pass, 0, pass->n);
	return true;
}

/* ---- the pass ----------------------------------------------------------------------------- */

static void note_rows(const struct pass* pass) {
	struct paged_walk walk = {};
	for (int r = 0, index; r < pass->n; r++) {
		const struct segment* segment = paged_next(pass, &walk, r, &index);
		struct pending_row* row = &((struct paged_cache*)segment->cache)->row[index];
		row->at = pass->tap >= 0 ? pass->tap + 1 : pass->last;
		for (int s = pass->first; s < pass->last && s < row->skipped; s++)
			if (is_skipped(pass->skip, s) || is_skipped(pass->quantized, s))
				row->skipped = s;
	}
}

/* Ends the pass for its caches. */
static void end_rows(const struct pass* pass, bool done) {
	const bool commits = done && pass->kind == PASS_PREFILL;
	for (int i = 0; i < pass->n_segments && commits; i++)
		states_commit((struct cuda_cache*)pass->segment[i].cache, NULL, pass->segment[i].n);
	paged_end(pass, done);
	for (int i = 0; i < pass->n_segments && commits; i++)
		states_keep((struct cuda_cache*)pass->segment[i].cache);
}

bool cuda_run(struct backend* backend, const struct pass* pass, struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)backend;
	bool all, done = paged_begin(pass, error) && cuda_ok(cudaSetDevice(b->device), "cudaSetDevice", error);
	if (devices_gone(b))
		done = error_set(error, "%s", b->group->failure.message);
	assert((!pass->quantized && !pass->quantized_head) || pass->kind != PASS_PREFILL);
	/* both lie in host_tap */
	assert(!pass->states || (pass->tap < 0 && pass->kind != PASS_PREFILL));
	b->group->with_quantized =
	    b->draft_weights && (pass->quantized || pass->quantized_head); /* it may have been given back */
	b->group->by_channel = b->group->with_quantized && b->sums.stripes > 0 ? pass->quantized : NULL;
	done = done && (!b->group->with_quantized || cuda_upload_draft_weights(backend, SIZE_MAX, &all, error));
	struct paged_walk walk = {};
	if (pass->kind == PASS_PREFILL && b->cublas)
		done = done && run_prefill(b, pass, error);
	else
		for (int r0 = 0; r0 < pass->n && done; r0 += SLICE_ROWS)
			done =
			    run_slice(b, pass, &walk, r0, pass->n - r0 < SLICE_ROWS ? pass->n - r0 : SLICE_ROWS, error);
	if (done)
		note_rows(pass);
	else if (!devices_gone(b)) {
		struct error ignored;
		devices_wait(b, &ignored); /* what is under way reads the staging blocks */
	}
	b->group->with_quantized = false;
	b->group->by_channel = NULL;
	end_rows(pass, done);
	return done;
}
