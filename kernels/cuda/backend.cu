/* The CUDA backend: opening and closing, memory, caches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/parts.h"

enum { CUBLAS_WORKSPACE = 32 << 20, COPY_BYTES = 1 << 30 };

/* ---- status ------------------------------------------------------------------------------- */

bool cuda_ok(cudaError_t status, const char* call, struct error* error) {
	if (status == cudaSuccess)
		return true;
	return error_set(error, "%.80s failed: %s (%s)", call, cudaGetErrorString(status),
	                 cudaGetErrorName(status));
}

bool cublas_ok(const struct cublas_calls* calls, cublasStatus_t status, const char* call,
               struct error* error) {
	if (status == CUBLAS_STATUS_SUCCESS)
		return true;
	return error_set(error, "%.80s failed: %s", call, calls->describe(status));
}

bool cuda_available(struct error* error) {
	int driver = 0, devices = 0;
	if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
		return error_set(error, "no NVIDIA driver was found");
	/* a driver runs programs of its own major version and of older ones; conditional graphs came with 12.4 */
	const int built = CUDART_VERSION / 1000 * 1000, needed = built > 12040 ? built : 12040;
	if (driver < needed)
		return error_set(error, "the NVIDIA driver supports CUDA %d.%d: %d.%d or later is needed",
		                 driver / 1000, driver % 1000 / 10, needed / 1000, needed % 1000 / 10);
	const cudaError_t status = cudaGetDeviceCount(&devices);
	if (status != cudaSuccess || devices == 0)
		return error_set(error, "no CUDA device was found: %s", cudaGetErrorString(status));
	return true;
}

/* ---- memory ------------------------------------------------------------------------------- */

static void say_what_is_free(size_t bytes, const char* what, struct error* error) {
	size_t available = 0, total = 0;
	cudaGetLastError(); /* an allocation's failure is not sticky */
	cudaMemGetInfo(&available, &total);
	error_set(
	    error,
	    "out of GPU memory for %s: %zu MiB asked for, %zu MiB of %zu MiB free; a smaller model, a quantized "
	    "one (Q8_0) or a shorter --context would fit",
	    what, bytes >> 20, available >> 20, total >> 20);
}

void* cuda_take(struct cuda_backend* b, size_t bytes, const char* what, struct error* error) {
	void* p = NULL;
	if (b->n_allocations == b->allocation_capacity) {
		const int capacity = b->allocation_capacity ? 2 * b->allocation_capacity : 256;
		void** grown = (void**)realloc(b->allocation, (size_t)capacity * sizeof *grown);
		if (!grown) {
			error_set(error, "out of memory for %s", what);
			return NULL;
		}
		b->allocation = grown;
		b->allocation_capacity = capacity;
	}
	if (cudaMalloc(&p, bytes > 0 ? bytes : 1) != cudaSuccess) {
		say_what_is_free(bytes, what, error);
		return NULL;
	}
	b->allocation[b->n_allocations++] = p;
	return p;
}

template <class T>
static bool take(struct cuda_backend* b, T** out, size_t count, const char* what, struct error* error) {
	*out = (T*)cuda_take(b, count * sizeof(T), what, error);
	return *out != NULL;
}

static bool take_bytes(struct cuda_backend* b, void** out, size_t bytes, const char* what,
                       struct error* error) {
	*out = cuda_take(b, bytes, what, error);
	return *out != NULL;
}

/* ---- pages -------------------------------------------------------------------------------- */

static void* take_pages(void* owner, size_t bytes) {
	void* taken = NULL;
	if (cudaSetDevice(((const struct cuda_backend*)owner)->device) != cudaSuccess ||
	    cudaMalloc(&taken, bytes) != cudaSuccess)
		return NULL;
	return taken;
}

/* What a device that failed holds is left to it: it would be waited for. */
static void give_pages_back(void* owner, void* taken) {
	const struct cuda_backend* b = (const struct cuda_backend*)owner;
	if (!devices_gone(b) && cudaSetDevice(b->device) == cudaSuccess)
		cudaFree(taken);
}

static void copy_page(void* owner, void* to, const void* from, size_t bytes) {
	const struct cuda_backend* b = (const struct cuda_backend*)owner;
	if (!devices_gone(b) && cudaSetDevice(b->device) == cudaSuccess)
		cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, b->stream);
}

static size_t page_bytes(const struct cuda_backend* b) {
	const struct model_shape* m = &b->shape;
	return (size_t)m->n_blocks * 2 * (size_t)m->kv_heads * PAGE_SLOTS * (size_t)m->head_dim * sizeof(__half);
}

static bool open_pages(struct device_group* g, struct error* error) {
	struct page_memory memory[MAX_DEVICES];
	size_t available = 0, total = 0;
	for (int d = 0; d < g->devices; d++)
		memory[d] = {g->device[d], page_bytes(g->device[d]), take_pages, give_pages_back, copy_page};
	if (g->pages.page_bytes > 0 || pages_open(&g->pages, memory, g->devices, g->cache_bytes))
		return true;
	cudaGetLastError();
	cudaMemGetInfo(&available, &total);
	return error_set(error, "out of GPU memory for %zu MiB of caches: %zu MiB of %zu MiB are free",
	                 g->cache_bytes >> 20, available >> 20, total >> 20);
}

/* ---- caches ------------------------------------------------------------------------------- */

static bool say_what_would_fit(const struct device_group* g, int capacity, struct error* error) {
	const size_t page = page_bytes(g->device[0]), pages = (size_t)paged_most(capacity);
	size_t available = 0, total = 0;
	cudaGetLastError();
	cudaSetDevice(g->device[0]->device);
	cudaMemGetInfo(&available, &total);
	const size_t fit = available / page * PAGE_SLOTS, beside = MAX_ROWS + 2 * PAGE_SLOTS;
	return error_set(
	    error,
	    "out of GPU memory for a context of %d tokens: its keys and values take %zu MiB, %zu MiB of %zu MiB "
	    "are free; a --context of %zu would fit",
	    capacity, pages * page >> 20, available >> 20, total >> 20, fit > beside ? fit - beside : (size_t)0);
}

static void cache_close(struct cache* cache) {
	struct cuda_cache* c = (struct cuda_cache*)cache;
	if (!c)
		return;
	const struct cuda_backend* b = (const struct cuda_backend*)cache->backend;
	paged_close(&c->paged);
	if (!devices_gone(b))
		each_device(b, [&](const struct cuda_backend* p) { cudaFree(c->hidden[p->rank]); });
	free(c);
}

static bool take_hidden(const struct cuda_backend* b, struct cuda_cache* c, struct error* error) {
	const size_t bytes = (size_t)MAX_ROWS * (size_t)b->shape.dim * sizeof(float);
	CUDA_TRY(cudaSetDevice(b->device), error);
	if (cudaMalloc((void**)&c->hidden[b->rank], bytes) == cudaSuccess)
		return true;
	say_what_is_free(bytes, "a cache's hidden states", error);
	return false;
}

static bool open_cache(struct cuda_cache* c, struct cuda_backend* b, int capacity, struct error* error) {
	struct device_group* g = b->group;
	bool done = open_pages(g, error);
	if (done && !paged_open(&c->paged, &b->head, capacity, DTYPE_F16, &g->pages, error))
		done = g->pages.bounded ? false : say_what_would_fit(g, capacity, error);
	each_device(b, [&](const struct cuda_backend* p) { done = done && take_hidden(p, c, error); });
	return done;
}

static struct cache* cache_open(struct backend* backend, int capacity, enum dtype type, struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)backend;
	/* F16 only: an F32 model's cache is rounded, as its weights are */
	if (type == DTYPE_Q8_0) {
		error_set(error, "a cache of type q8_0 was asked for; the GPU keeps f16");
		return NULL;
	}
	if (capacity < 1 || capacity > b->context) {
		error_set(error, "a cache of %d tokens was asked for; the backend was opened for 1 to %d", capacity,
		          b->context);
		return NULL;
	}
	struct cuda_cache* c = (struct cuda_cache*)calloc(1, sizeof *c);
	if (!c) {
		error_set(error, "out of memory for a cache");
		return NULL;
	}
	c->paged.head.backend = backend;
	if (open_cache(c, b, capacity, error))
		return &c->paged.head;
	cache_close(&c->paged.head);
	return NULL;
}

/* The pages that a path's rows lie in, and will: slots count from the first one's. */
struct path {
	__half* page[MAX_ROWS / PAGE_SLOTS + 1];
	int first, n;
	int32_t row[MAX_ROWS];
};

/* Rows of the path move down over the others, in order. A block one head's keys or values in a block of the
 * model, a thread an element. */
__global__ void compact_kernel(struct path path, int head_dim) {
	const size_t head = (size_t)blockIdx.x * PAGE_SLOTS * head_dim;
	for (int j = threadIdx.x; j < head_dim; j += blockDim.x)
		for (int i = 0; i < path.n; i++) {
			const int to = path.first + i, from = path.first + path.row[i];
			path.page[to / PAGE_SLOTS][head + (size_t)(to % PAGE_SLOTS) * head_dim + j] =
			    path.page[from / PAGE_SLOTS][head + (size_t)(from % PAGE_SLOTS) * head_dim + j];
		}
}

static void compact(const struct cuda_backend* b, const struct paged_cache* c, const int32_t* row, int n) {
	const int first = c->head.committed / PAGE_SLOTS;
	struct path path = {};
	path.first = c->head.committed % PAGE_SLOTS;
	path.n = n;
	memcpy(path.row, row, (size_t)n * sizeof *row);
	for (int i = 0; i <= (path.first + row[n - 1]) / PAGE_SLOTS; i++)
		path.page[i] = (__half*)paged_bytes(c, b->rank)[first + i];
	compact_kernel<<<b->shape.n_blocks * 2 * b->shape.kv_heads, 128, 0, b->stream>>>(path, b->shape.head_dim);
}

static void commit(struct cache* cache, const int32_t* row, int n) {
	struct paged_cache* c = (struct paged_cache*)cache;
	const struct cuda_backend* b = (const struct cuda_backend*)cache->backend;
	if (paged_moves(c, row, n) && cudaSetDevice(b->device) == cudaSuccess)
		each_device(b, [&](const struct cuda_backend* p) { compact(p, c, row, n); });
	paged_commit(c, row, n);
}

/* ---- bandwidth ---------------------------------------------------------------------------- */

static double bandwidth(struct backend* backend) {
	struct cuda_backend* b = (struct cuda_backend*)backend;
	size_t bytes = COPY_BYTES, available = 0, total = 0;
	void *from = NULL, *to = NULL;
	cudaEvent_t start, stop;
	double best = 0;
	if (cudaSetDevice(b->device) != cudaSuccess || cudaMemGetInfo(&available, &total) != cudaSuccess)
		return 0;
	while (bytes > available / 3)
		bytes /= 2;
	if (cudaMalloc(&from, bytes) == cudaSuccess && cudaMalloc(&to, bytes) == cudaSuccess &&
	    cudaEventCreate(&start) == cudaSuccess && cudaEventCreate(&stop) == cudaSuccess) {
		for (int i = 0; i < 10; i++) {
			float ms = 0;
			cudaEventRecord(start, b->stream);
			cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, b->stream);
			cudaEventRecord(stop, b->stream);
			cudaEventSynchronize(stop);
			cudaEventElapsedTime(&ms, start, stop);
			const double rate = ms > 0 ? 2e3 * (double)bytes / (double)ms : 0; /* read and written */
			best = rate > best ? rate : best;
		}
		cudaEventDestroy(start);
		cudaEventDestroy(stop);
	}
	cudaFree(from);
	cudaFree(to);
	cudaGetLastError();
	return best * b->group->devices; /* which are alike */
}

static int threads(const struct backend* backend) { return backend ? 1 : 0; }

/* ---- opening ------------------------------------------------------------------------------ */

static size_t largest_quantized(const struct cuda_backend* b) {
	size_t most = 1;
	for (int i = 0; i < b->shape.n_blocks; i++) {
		const struct device_block* w = &b->block[i];
		const struct matrix* const m[] = {&w->wq, &w->wk, &w->wv, &w->wo, &w->gate, &w->up, &w->down};
		for (size_t k = 0; k < sizeof m / sizeof m[0]; k++) {
			const size_t count = (size_t)m[k]->rows * (size_t)m[k]->cols;
			most = kept_as_stored((enum dtype)m[k]->type) && count > most ? count : most;
		}
	}
	return most;
}

static bool open_workspace(struct cuda_backend* b, struct error* error) {
	const struct model_shape *m = &b->shape, *whole = &b->whole;
	struct workspace* w = &b->work;
	const size_t part = is_alone(b) ? 1 : most_of_a_part(b);
	const size_t rows = PREFILL_CHUNK, q = (size_t)m->heads * (size_t)m->head_dim,
	             kv = (size_t)m->kv_heads * (size_t)m->head_dim, vocab = (size_t)m->vocab;
	b->chunks = (b->context + MAX_ROWS + ATTENTION_CHUNK - 1) / ATTENTION_CHUNK;
	b->segments = (m->vocab + RESULT_SEGMENT - 1) / RESULT_SEGMENT;
	const size_t chunks = (size_t)SLICE_ROWS * (size_t)m->heads * (size_t)b->chunks;
	const size_t segments = (size_t)SLICE_ROWS * (size_t)b->segments;
	const size_t influence = 2 * (size_t)m->n_blocks * rows;
	const char* what = "the workspace";
	b->slice_bytes = sizeof(struct device_slice) + PREFILL_CHUNK * sizeof(struct device_row) +
	                 (size_t)SLICE_ROWS * MAX_ROWS * sizeof(int32_t) +
	                 (size_t)SLICE_ROWS * (size_t)paged_most(b->context) * sizeof(void*) +
	                 2 * rows * (size_t)b->rope.pairs * sizeof(float) + 256;
	const size_t results = (int)SLICE_ROWS > (int)MAX_DRAFT ? (size_t)SLICE_ROWS : (size_t)MAX_DRAFT;
	return take(b, &w->x, rows * (size_t)m->dim, what, error) &&
	       take(b, &w->y, rows * (size_t)m->dim, what, error) &&
	       take(b, &w->before, rows * (size_t)m->dim, what, error) &&
	       take(b, &w->influence, influence, what, error) && take(b, &w->q, rows * q, what, error) &&
	       take(b, &w->k, rows * kv, what, error) && take(b, &w->v, rows * kv, what, error) &&
	       take_bytes(b, &w->normed, rows * (size_t)m->dim * 2, what, error) &&
	       take_bytes(b, &w->mixed, rows * (size_t)(whole->heads * whole->head_dim) * 2, what, error) &&
	       take_bytes(b, &w->gated, rows * (size_t)whole->ffn * 2, what, error) &&
	       take(b, &w->wide, rows * (size_t)m->ffn, what, error) &&
	       take(b, &w->wide_up, rows * (size_t)m->ffn, what, error) &&
	       take(b, &w->partial, chunks * (size_t)m->head_dim, what, error) &&
	       take(b, &w->scale, 2 * chunks, what, error) &&
	       take(b, &w->logits, (size_t)SLICE_ROWS * vocab, "the logits", error) &&
	       take(b, &w->score, (size_t)SLICE_ROWS * vocab, "the logits", error) &&
	       take(b, &w->segment_sum, 2 * segments, what, error) &&
	       take(b, &w->top_score, segments * MAX_TOP, what, error) &&
	       take(b, &w->top_token, segments * MAX_TOP, what, error) &&
	       take(b, &w->head_done, 3 * (size_t)m->heads, what, error) &&
	       take(b, &w->row_done, (size_t)SLICE_ROWS * (size_t)m->kv_heads, what, error) &&
	       take(b, &w->tile_sums, tile_sums_of(b), what, error) &&
	       take(b, &w->tile_done, tiles_of(b), what, error) &&
	       take_bytes(b, &w->dequantized, 2 * largest_quantized(b), "one matrix of a prefill", error) &&
	       take_bytes(b, &w->part, part, what, error) &&
	       take_bytes(b, &w->gathered, (size_t)b->group->devices * part, what, error) &&
	       take(b, &b->slice, b->slice_bytes, what, error) && take(b, &b->result, results, what, error) &&
	       cuda_ok(cudaMallocHost((void**)&b->staging, b->slice_bytes), "cudaMallocHost", error) &&
	       cuda_ok(cudaMallocHost((void**)&b->host_result, results * sizeof *b->host_result),
	               "cudaMallocHost", error) &&
	       cuda_ok(cudaMallocHost((void**)&b->host_influence, influence * sizeof *b->host_influence),
	               "cudaMallocHost", error) &&
	       cuda_ok(cudaMallocHost((void**)&b->host_logits, 3 * vocab * sizeof *b->host_logits),
	               "cudaMallocHost", error);
}

/* Said before anything is loaded, rather than after minutes of copying. */
static bool weights_fit(struct cuda_backend* b, struct error* error) {
	size_t available = 0, total = 0;
	CUDA_TRY(cudaMemGetInfo(&available, &total), error);
	const size_t bytes = weight_bytes(b);
	return bytes <= available ||
	       error_set(
	           error,
	           "the model does not fit the GPU: its weights take %zu MiB there, %zu MiB of %zu MiB are free; "
	           "a smaller model, or Q8_0 weights, would fit",
	           bytes >> 20, available >> 20, total >> 20);
}

/* SWIFTLET_CUDA_LAUNCHES=separate|fused|early, so that they can be compared; the best that the device can. */
static bool choose_launches(struct cuda_backend* b, int major, struct error* error) {
	static const char* const name[] = {"separate", "fused", "early"};
	const char* wish = getenv("SWIFTLET_CUDA_LAUNCHES");
	int chosen = LAUNCHES_EARLY;
	for (int i = 0; wish && i < 3; i++)
		if (strcmp(wish, name[i]) == 0)
			chosen = i;
	if (wish && strcmp(wish, name[chosen]) != 0)
		return error_set(error, "SWIFTLET_CUDA_LAUNCHES=%.40s: separate, fused or early was expected", wish);
	/* whether NCCL's kernels go between launches that start early is not documented */
	const bool can = major >= 9 && is_alone(b);
	b->launches = chosen == LAUNCHES_EARLY && !can ? LAUNCHES_FUSED : (enum launches)chosen;
	return true;
}

/* SWIFTLET_CUDA_PARTS=shape|1|2|4, likewise. */
static bool choose_parts(struct cuda_backend* b, struct error* error) {
	static const char* const name[] = {"shape", "1", "2", "4"};
	static const int parts[] = {0, 1, 2, MOST_PARTS};
	const char* wish = getenv("SWIFTLET_CUDA_PARTS");
	int chosen = 0;
	for (int i = 0; wish && i < 4; i++)
		if (strcmp(wish, name[i]) == 0)
			chosen = i;
	if (wish && strcmp(wish, name[chosen]) != 0)
		return error_set(error, "SWIFTLET_CUDA_PARTS=%.40s: shape, 1, 2 or 4 was expected", wish);
	b->column_parts = parts[chosen];
	return true;
}

/* SWIFTLET_CUDA_GRAPHS=on has several devices capture their passes, too. NCCL's guide advises against it
 * where one thread drives them: a graph's launch may wait for the other devices, which have not got theirs.
 */
static bool choose_captures(struct device_group* g, struct error* error) {
	const char* wish = getenv("SWIFTLET_CUDA_GRAPHS");
	const bool on = wish && strcmp(wish, "on") == 0;
	g->captures = on || g->devices == 1;
	return !wish || on || strcmp(wish, "off") == 0 ||
	       error_set(error, "SWIFTLET_CUDA_GRAPHS=%.40s: on or off was expected", wish);
}

static bool open_device(struct cuda_backend* b, struct error* error) {
	struct cudaDeviceProp device;
	CUDA_TRY(cudaSetDevice(b->device), error);
	CUDA_TRY(cudaGetDeviceProperties(&device, b->device), error);
	if (device.major < 8)
		return error_set(error, "%s has compute capability %d.%d: 8.0 or later is needed", device.name,
		                 device.major, device.minor);
	snprintf(b->head.name, sizeof b->head.name, "cuda (%.50s)", device.name);
	CUDA_TRY(cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), error);
	return choose_launches(b, device.major, error) && choose_parts(b, error);
}

static bool open_cublas(struct cuda_backend* b, struct error* error) {
	if (!cublas_find(&b->calls))
		return true;
	CUBLAS_TRY(b->calls.create(&b->cublas), error);
	CUBLAS_TRY(b->calls.set_stream(b->cublas, b->stream), error);
	b->cublas_workspace = cuda_take(b, CUBLAS_WORKSPACE, "cuBLAS's workspace", error);
	if (!b->cublas_workspace)
		return false;
	/* a workspace of our own, of fixed size: cuBLAS then chooses the same algorithm for a shape every time */
	CUBLAS_TRY(b->calls.set_workspace(b->cublas, b->cublas_workspace, CUBLAS_WORKSPACE), error);
	return true;
}

static void close_device(struct cuda_backend* b) {
	cudaSetDevice(b->device);
	low_state_close(b);
	if (b->cublas)
		b->calls.destroy(b->cublas);
	for (int i = 0; i < b->n_allocations; i++)
		cudaFree(b->allocation[i]);
	if (b->staging)
		cudaFreeHost(b->staging);
	if (b->host_result)
		cudaFreeHost(b->host_result);
	if (b->host_influence)
		cudaFreeHost(b->host_influence);
	if (b->host_logits)
		cudaFreeHost(b->host_logits);
	if (b->stream)
		cudaStreamDestroy(b->stream);
}

/* What devices hold of which one failed is left to them: giving it back would wait for that one. Captured
 * passes go before what they exchange by. */
static void cuda_close(struct backend* backend) {
	struct device_group* g = ((struct cuda_backend*)backend)->group;
	const bool gone = g->failure.message[0] != 0;
	for (int d = 0; d < g->devices && !gone; d++)
		for (int i = 0; g->device[d] && i < 2; i++)
			captured_close(&g->device[d]->captured[i]);
	if (!gone)
		devices_leave(g);
	pages_close(&g->pages);
	for (int d = 0; d < g->devices; d++) {
		struct cuda_backend* b = g->device[d];
		if (!b)
			continue;
		if (!gone)
			close_device(b);
		rope_close(&b->rope);
		free(b->allocation);
		free(b->block);
		free(b);
	}
	free(g);
}

/* ---- what it does not do --------------------------------------------------------------------- */

static bool does_blocks(const struct weight_table* w, struct error* error) {
	const struct model_shape* m = &w->shape;
	for (int i = 0; i < m->n_blocks; i++) {
		const struct block_weights* b = &w->block[i];
		if (tensor_present(&b->router))
			return error_set(error, "the CUDA backend does no mixture of experts: --backend cpu does");
		if (tensor_present(&b->sinks))
			return error_set(error, "the CUDA backend does no attention sinks: --backend cpu does");
		if (!tensor_present(&b->attention_norm) || !tensor_present(&b->mlp_norm))
			return error_set(error, "the CUDA backend does no sub-layers without a norm before them: "
			                        "--backend cpu does");
		if (tensor_present(&b->q_norm) && b->q_norm.cols != m->head_dim)
			return error_set(error,
			                 "the CUDA backend does no norm over all heads at once: --backend cpu does");
		if (block_set_has(&m->unrotated, i))
			return error_set(error, "the CUDA backend does no blocks without RoPE: --backend cpu does");
	}
	return true;
}

/* Families that came later than this backend ask for parts it lacks. */
static bool does_model(const struct weight_table* w, struct error* error) {
	const struct model_shape* m = &w->shape;
	if (m->norm != NORM_RMS)
		return error_set(error, "the CUDA backend does no LayerNorm: --backend cpu does");
	if (m->sliding_rope.dim > 0)
		return error_set(error, "the CUDA backend does no RoPE that differs by block: --backend cpu does");
	if (m->residual_scale != 1.0f || m->logit_scale != 1.0f || m->attention_growth != 0.0f)
		return error_set(error, "the CUDA backend does not scale residuals, logits or long attention: "
		                        "--backend cpu does");
	return does_blocks(w, error);
}

static void fill_in(struct backend* head, const struct weight_table* weights, bool alone) {
	head->weights = weights;
	head->close = cuda_close;
	head->cache_open = cache_open;
	head->cache_close = cache_close;
	head->run = cuda_run;
	head->commit = commit;
	head->discard = paged_discard;
	head->rewind = paged_rewind;
	head->truncate = paged_truncate;
	head->adopt = paged_adopt;
	head->reserve = paged_reserve;
	head->room = paged_room;
	head->has_penalties = true;
	head->bandwidth = bandwidth;
	head->threads = threads;
	head->use_low = cuda_use_low;
	head->carry_low = cuda_carry_low;
	/* the body of a loop on the device takes kernels of that device alone, and no waits for events, which
	 * NCCL's captured calls bring along */
	head->draft = alone ? cuda_draft : NULL;
}

/* Its share of the heads and of the feed-forward width. */
static void take_share(struct cuda_backend* b) {
	const struct shares heads = shares_of_heads(b->group->devices, b->whole.kv_heads, 1);
	const struct shares ffn = shares_of_rows(b->group->devices, b->whole.ffn);
	b->shape = b->whole;
	b->shape.kv_heads = heads.first[b->rank + 1] - heads.first[b->rank];
	b->shape.heads = b->whole.heads / b->whole.kv_heads * b->shape.kv_heads;
	b->shape.ffn = ffn.first[b->rank + 1] - ffn.first[b->rank];
}

/* The group's next device; cuda_close frees it whether it opened or not. */
static bool open_one(struct device_group* g, int rank, const struct weight_table* weights,
                     const struct backend_options* options, struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)calloc(1, sizeof *b);
	if (!b)
		return error_set(error, "out of memory for the backend");
	g->device[rank] = b;
	b->group = g;
	b->rank = rank;
	b->whole = weights->shape;
	b->device = options->device + rank;
	b->context = options->context > 0 ? options->context : weights->shape.context;
	b->block = (struct device_block*)calloc((size_t)weights->shape.n_blocks, sizeof *b->block);
	fill_in(&b->head, weights, g->devices == 1);
	take_share(b);
	if (!b->block)
		return error_set(error, "out of memory for the backend");
	/* a library's product may take another way for a share of a matrix than for the whole */
	const bool library = options->devices == 0;
	if (!rope_open(&b->rope, &weights->shape.rope, error) || !open_device(b, error) ||
	    !weights_fit(b, error) || (library && !open_cublas(b, error)) || !upload_weights(b, error))
		return false;
	b->head.prefill_is_exact = !b->cublas;
	return open_workspace(b, error);
}

struct backend* cuda_open(const struct weight_table* weights, const struct backend_options* options,
                          struct error* error) {
	const int devices = options->devices > 1 ? options->devices : 1;
	if (!cuda_available(error) || !does_model(weights, error))
		return NULL;
	struct device_group* g = (struct device_group*)calloc(1, sizeof *g);
	if (!g) {
		error_set(error, "out of memory for the backend");
		return NULL;
	}
	if (!devices_check(weights, options->device, devices, &g->nccl, error)) {
		free(g);
		return NULL;
	}
	g->devices = devices;
	g->cache_bytes = options->cache_bytes;
	bool done = choose_captures(g, error);
	for (int d = 0; d < devices && done; d++)
		done = open_one(g, d, weights, options, error);
	done = done && devices_join(g, error) && capture_passes(g->device[0], error);
	struct backend* head = g->device[0] ? &g->device[0]->head : NULL;
	if (done && devices > 1) {
		const size_t used = strlen(head->name);
		snprintf(head->name + used, sizeof head->name - used, " x %d", devices);
	}
	if (!done && head)
		cuda_close(head);
	else if (!head)
		free(g);
	return done ? head : NULL;
}
