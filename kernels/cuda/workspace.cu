/* The workspace of passes: its size, whether it fits the device beside the weights, and its allocation. */
#include <assert.h>

#include "kernels/cuda/cuda.cuh"

/* Memory that the driver is assumed to take on the device for a launch in a graph and its arguments.
 * SWIFTLET_CUDA_REPORT=memory (capture.cu) compares it with the real amount. */
enum { NODE_BYTES = 16 << 10, NODES_A_BLOCK = 9, NODES_BESIDE = 10 };

/* Counts rooms, or takes them. */
struct taker {
	struct cuda_backend* b;
	bool counts;
	size_t bytes;     /* of those counted */
	const char* what; /* for messages */
	struct error* error;
};

template <class T> static bool take_bytes(struct taker* t, T** out, size_t bytes) {
	t->bytes += (bytes + 255) / 256 * 256;
	if (t->counts)
		return true;
	*out = (T*)cuda_take(t->b, bytes, t->what, t->error);
	return *out != NULL;
}

template <class T> static bool take_workspace(struct taker* t, T** out, size_t count) {
	return take_bytes(t, out, count * sizeof(T));
}

template <class T> static bool pin_memory(struct taker* t, T** out, size_t bytes) {
	struct cuda_backend* b = t->b;
	void* taken = NULL;
	if (t->counts)
		return true;
	if (!cuda_ok(cudaMallocHost(&taken, bytes), "cudaMallocHost", t->error))
		return false;
	assert(b->n_pinned < MOST_PINNED);
	b->pinned[b->n_pinned++] = taken;
	*out = (T*)taken;
	return true;
}

/* Elements of the largest matrix that a prefill's products have to have widened. */
static size_t largest_quantized(const struct cuda_backend* b) {
	size_t most = 1;
	each_matrix(b, [&](const struct shared_matrix& m) {
		const size_t count = (size_t)m.share.n * (size_t)m.of->cols;
		most = kept_as_stored(m.of->type) && count > most ? count : most;
	});
	return most;
}

static size_t angles_of_rope(const struct cuda_backend* b, size_t rows) {
	return 2 * rows * (size_t)(b->rope.pairs + b->sliding_rope.pairs) * sizeof(float);
}

/* Bytes of the block that describes a slice: rows, ancestors, pages, page lists, angles, and what alignment
 * adds. */
static size_t slice_room(const struct cuda_backend* b) {
	return sizeof(struct device_slice) + PREFILL_CHUNK * sizeof(struct device_row) +
	       (size_t)SLICE_ROWS * MAX_ROWS * sizeof(int32_t) +
	       (size_t)SLICE_ROWS * (size_t)paged_most(b->context) * sizeof(void*) +
	       (is_alone(b) ? (size_t)SLICE_ROWS * (size_t)b->shape.n_blocks * (MAX_LISTED + 1) * sizeof(int32_t)
	                    : 0) +
	       angles_of_rope(b, PREFILL_CHUNK) + (b->states.blocks > 0 ? PROGRAM_INTS : 0) * sizeof(int32_t) +
	       256;
}

static bool take_results(struct taker* t) {
	struct cuda_backend* b = t->b;
	struct workspace* w = &b->work;
	const size_t vocab = (size_t)b->shape.vocab, segments = (size_t)SLICE_ROWS * (size_t)b->segments;
	const size_t results = (int)SLICE_ROWS > (int)MAX_DRAFT ? (size_t)SLICE_ROWS : (size_t)MAX_DRAFT;
	t->what = "the logits";
	return take_workspace(t, &w->logits, (size_t)SLICE_ROWS * vocab) &&
	       take_workspace(t, &w->score, (size_t)SLICE_ROWS * vocab) &&
	       take_workspace(t, &w->segment_sum, 2 * segments) &&
	       take_workspace(t, &w->top_score, segments * MAX_TOP) &&
	       take_workspace(t, &w->top_token, segments * MAX_TOP) && take_workspace(t, &b->result, results) &&
	       pin_memory(t, &b->host_result, results * sizeof *b->host_result) &&
	       pin_memory(t, &b->host_logits, 3 * vocab * sizeof(float));
}

static bool take_attention(struct taker* t) {
	struct cuda_backend* b = t->b;
	const struct model_shape* m = &b->shape;
	struct workspace* w = &b->work;
	const size_t rows = PREFILL_CHUNK, kv = (size_t)m->kv_heads * (size_t)m->head_dim;
	const size_t chunks = (size_t)SLICE_ROWS * (size_t)m->heads * (size_t)b->chunks;
	const size_t noted = is_alone(b) ? (size_t)NOTED_ROWS * (size_t)look_pages(b) : 0;
	t->what = "attention's workspace";
	if (noted > 0 && (!take_workspace(t, &w->page_sums, noted * (size_t)m->heads) ||
	                  !take_workspace(t, &w->looked, noted * (size_t)m->n_blocks * (size_t)m->kv_heads) ||
	                  !pin_memory(t, &b->host_mass, mass_bytes(b))))
		return false;
	return take_workspace(t, &w->q, rows * (size_t)m->heads * (size_t)m->head_dim) &&
	       take_workspace(t, &w->k, rows * kv) && take_workspace(t, &w->v, rows * kv) &&
	       take_workspace(t, &w->partial, chunks * (size_t)m->head_dim) &&
	       take_workspace(t, &w->scale, 2 * chunks) &&
	       take_workspace(t, &w->head_done, 3 * (size_t)m->heads) &&
	       take_workspace(t, &w->row_done, (size_t)SLICE_ROWS * (size_t)m->kv_heads);
}

static bool take_recurrent(struct taker* t) {
	const struct model_shape* m = &t->b->shape;
	const struct recurrence* r = &m->recurrence;
	struct recurrent_workspace* w = &t->b->work.recurrent;
	const size_t rows = PREFILL_CHUNK, values = (size_t)recurrence_values(r), heads = (size_t)r->value_heads;
	t->what = "the workspace of recurrent blocks and gated attention";
	if (made_width(m) > 0 && !take_workspace(t, &w->made, rows * made_width(m)))
		return false;
	return t->b->states.units == 0 ||
	       (take_workspace(t, &w->gate, rows * values) && take_workspace(t, &w->beta, rows * heads) &&
	        take_workspace(t, &w->decay, rows * heads) &&
	        take_workspace(t, &w->query, rows * (size_t)recurrence_keys(r)) &&
	        take_workspace(t, &w->out, rows * values) &&
	        take_workspace(t, &w->saved, SAVED_STATES * values * (size_t)r->key_dim));
}

static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static bool take_rows(struct taker* t) {
	struct cuda_backend* b = t->b;
	const struct model_shape *m = &b->shape, *whole = &b->whole;
	struct workspace* w = &b->work;
	const size_t rows = PREFILL_CHUNK, states = rows * (size_t)m->dim;
	const size_t sub_layers = 2 * (size_t)m->n_blocks;
	const size_t tapped = (sub_layers > rows ? sub_layers : rows) * (size_t)m->dim;
	const size_t mixed =
	    larger((size_t)(whole->heads * whole->head_dim), (size_t)recurrence_values(&whole->recurrence));
	t->what = "the workspace";
	return take_workspace(t, &w->x, states) && take_workspace(t, &w->y, states) &&
	       take_bytes(t, &w->normed, states * 2) && take_bytes(t, &w->mixed, rows * mixed * 2) &&
	       take_bytes(t, &w->gated, rows * (size_t)whole->ffn * 2) &&
	       take_workspace(t, &w->wide, rows * (size_t)m->ffn) &&
	       take_workspace(t, &w->wide_up, rows * (size_t)m->ffn) &&
	       pin_memory(t, &b->host_tap, tapped * sizeof(float));
}

static bool take_all(struct taker* t) {
	struct cuda_backend* b = t->b;
	struct workspace* w = &b->work;
	const size_t part = is_alone(b) ? 1 : most_of_a_part(b);
	b->chunks = (b->context + MAX_ROWS + ATTENTION_CHUNK - 1) / ATTENTION_CHUNK;
	b->segments = (b->shape.vocab + RESULT_SEGMENT - 1) / RESULT_SEGMENT;
	b->slice_bytes = slice_room(b);
	if (!take_rows(t) || !take_attention(t) || !take_recurrent(t) || !take_results(t))
		return false;
	t->what = "one matrix of a prefill";
	if (!take_bytes(t, &w->dequantized, 2 * largest_quantized(b)))
		return false;
	t->what = "the workspace";
	return take_workspace(t, &w->tile_sums, tile_sums_of(b)) &&
	       take_workspace(t, &w->tile_done, tiles_of(b)) && take_bytes(t, &w->part, part) &&
	       take_bytes(t, &w->gathered, (size_t)b->group->devices * part) &&
	       take_bytes(t, &b->slice, b->slice_bytes) && pin_memory(t, &b->staging, b->slice_bytes);
}

bool workspace_open(struct cuda_backend* b, struct error* error) {
	struct taker t = {b, false, 0, NULL, error};
	return take_all(&t);
}

/* A cache of the longest context, or all that caches may take; with the hidden states of its rows. */
static size_t caches_room(const struct cuda_backend* b) {
	size_t pages = (size_t)paged_most(b->context), all = 0;
	for (int d = 0; b->group->cache_bytes > 0 && d < b->group->devices; d++)
		all += cuda_page_bytes(b); /* shares of one size, about */
	if (all > 0)
		pages = b->group->cache_bytes / all;
	return pages * cuda_page_bytes(b) + (size_t)MAX_ROWS * (size_t)b->shape.dim * sizeof(float) +
	       (is_alone(b) ? mass_bytes(b) : 0) + states_bytes(b);
}

size_t graphs_room(const struct cuda_backend* b) {
	const size_t nodes = NODES_A_BLOCK * (size_t)b->shape.n_blocks + NODES_BESIDE;
	return b->group->captures ? (BUCKETS + 1) * nodes * NODE_BYTES : 0;
}

/* Checks it before anything is loaded, rather than after minutes of copying. */
bool weights_fit(struct cuda_backend* b, size_t beside, struct error* error) {
	size_t available = 0, total = 0;
	struct taker count = {b, true, 0, NULL, error};
	CUDA_TRY(cudaMemGetInfo(&available, &total), error);
	take_all(&count);
	const size_t weights = weight_bytes(b), passes = count.bytes + graphs_room(b) + beside;
	const size_t caches = caches_room(b), before = upload_room(b);
	return weights + (passes + caches > before ? passes + caches : before) <= available ||
	       error_set(error,
	                 "the model does not fit the GPU: its weights take %zu MiB there, passes %zu MiB, caches "
	                 "for a context of %d tokens %zu MiB; %zu MiB of %zu MiB are free; a smaller model, Q8_0 "
	                 "weights or a shorter --context would fit",
	                 weights >> 20, passes >> 20, b->context, caches >> 20, available >> 20, total >> 20);
}
