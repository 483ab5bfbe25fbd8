/* The device's memory: what the backend owns, pages and caches. */
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.cuh"

/* ---- memory ------------------------------------------------------------------------------- */

void describe_free_memory(size_t bytes, const char* what, struct error* error) {
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
		describe_free_memory(bytes, what, error);
		return NULL;
	}
	b->allocation[b->n_allocations++] = p;
	return p;
}

void cuda_give_back(struct cuda_backend* b, int n) {
	while (b->n_allocations > n)
		cudaFree(b->allocation[--b->n_allocations]);
}

/* ---- pages -------------------------------------------------------------------------------- */

static void* take_pages(void* user, size_t bytes) {
	void* taken = NULL;
	if (cudaSetDevice(((const struct cuda_backend*)user)->device) != cudaSuccess ||
	    cudaMalloc(&taken, bytes) != cudaSuccess)
		return NULL;
	return taken;
}

/* Memory of a failed device is not freed: that would wait for the device. */
static void give_pages_back(void* user, void* taken) {
	const struct cuda_backend* b = (const struct cuda_backend*)user;
	if (!devices_gone(b) && cudaSetDevice(b->device) == cudaSuccess)
		cudaFree(taken);
}

static void copy_page(void* user, void* to, const void* from, size_t bytes) {
	const struct cuda_backend* b = (const struct cuda_backend*)user;
	if (!devices_gone(b) && cudaSetDevice(b->device) == cudaSuccess)
		cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, b->stream);
}

size_t cuda_page_bytes(const struct cuda_backend* b) {
	const struct model_shape* m = &b->shape;
	return (size_t)attention_blocks(m) * 2 * (size_t)m->kv_heads * PAGE_SLOTS * (size_t)m->head_dim *
	       sizeof(__half);
}

static bool open_pages(struct device_group* g, struct error* error) {
	struct page_memory memory[MAX_DEVICES];
	size_t available = 0, total = 0;
	for (int d = 0; d < g->devices; d++)
		memory[d] = {g->device[d], cuda_page_bytes(g->device[d]), take_pages, give_pages_back, copy_page};
	if (g->pages.page_bytes > 0 || pages_open(&g->pages, memory, g->devices, g->cache_bytes))
		return true;
	cudaGetLastError();
	cudaMemGetInfo(&available, &total);
	return error_set(error, "out of GPU memory for %zu MiB of caches: %zu MiB of %zu MiB are free",
	                 g->cache_bytes >> 20, available >> 20, total >> 20);
}

/* ---- caches ------------------------------------------------------------------------------- */

static bool describe_what_fits(const struct device_group* g, int capacity, struct error* error) {
	const size_t page = cuda_page_bytes(g->device[0]), pages = (size_t)paged_most(capacity);
	size_t available = 0, total = 0;
	cudaGetLastError();
	cudaSetDevice(g->device[0]->device);
	cudaMemGetInfo(&available, &total);
	const size_t fit = available / page * PAGE_SLOTS, beside = MAX_ROWS + 2 * PAGE_SLOTS;
	return error_set(
	    error,
	    "out of GPU memory for a context of %d tokens: its KV cache takes %zu MiB, %zu MiB of %zu MiB "
	    "are free; a --context of %zu would fit",
	    capacity, pages * page >> 20, available >> 20, total >> 20, fit > beside ? fit - beside : (size_t)0);
}

void cuda_cache_close(struct cache* cache) {
	struct cuda_cache* c = (struct cuda_cache*)cache;
	if (!c)
		return;
	const struct cuda_backend* b = (const struct cuda_backend*)cache->backend;
	paged_close(&c->paged);
	if (!devices_gone(b)) {
		each_device(b, [&](const struct cuda_backend* p) { cudaFree(c->hidden[p->rank]); });
		cudaFree(c->mass);
		states_close(c);
	}
	free(c);
}

static bool take_hidden(const struct cuda_backend* b, struct cuda_cache* c, struct error* error) {
	const size_t bytes = (size_t)MAX_ROWS * (size_t)b->shape.dim * sizeof(float);
	CUDA_TRY(cudaSetDevice(b->device), error);
	if (cudaMalloc((void**)&c->hidden[b->rank], bytes) == cudaSuccess)
		return true;
	describe_free_memory(bytes, "a cache's hidden states", error);
	return false;
}

static bool take_mass(const struct cuda_backend* b, struct cuda_cache* c, struct error* error) {
	if (cudaMalloc((void**)&c->mass, mass_bytes(b)) == cudaSuccess)
		return true;
	describe_free_memory(mass_bytes(b), "a cache's attention mass", error);
	return false;
}

static bool open_cache(struct cuda_cache* c, struct cuda_backend* b, int capacity, struct error* error) {
	struct device_group* g = b->group;
	bool done = open_pages(g, error);
	if (done && !paged_open(&c->paged, &b->head, capacity, DTYPE_F16, &g->pages, error))
		done = g->pages.bounded ? false : describe_what_fits(g, capacity, error);
	each_device(b, [&](const struct cuda_backend* p) { done = done && take_hidden(p, c, error); });
	return done && (!is_alone(b) || take_mass(b, c, error)) && states_open(b, c, error);
}

struct cache* cuda_cache_open(struct backend* backend, int capacity, enum dtype type, struct error* error) {
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
	struct cuda_cache* c = NULL;
	do {
		cuda_cache_close(c ? &c->paged.head : NULL);
		c = (struct cuda_cache*)calloc(1, sizeof *c);
		if (!c) {
			error_set(error, "out of memory for a cache");
			return NULL;
		}
		c->paged.head.backend = backend;
		if (open_cache(c, b, capacity, error))
			return &c->paged.head;
	} while (release_draft_weights(b)); /* caches come first: draft weights that nobody asked for give way */
	cuda_cache_close(&c->paged.head);
	return NULL;
}

/* The pages that a path's rows lie in, and will: slots count from the first one's. */
struct page_path {
	__half* page[MAX_ROWS / PAGE_SLOTS + 1];
	int first, n;
	int32_t row[MAX_ROWS];
};

/* Moves rows of the path down over the others, in order. A block has one head's keys or values in one block
 * of the model, and each thread has an element. */
__global__ void compact_kernel(struct page_path path, int head_dim) {
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
	struct page_path path = {};
	path.first = c->head.committed % PAGE_SLOTS;
	path.n = n;
	memcpy(path.row, row, (size_t)n * sizeof *row);
	for (int i = 0; i <= (path.first + row[n - 1]) / PAGE_SLOTS; i++)
		path.page[i] = (__half*)paged_bytes(c, b->rank)[first + i];
	const int heads = attention_blocks(&b->shape) * 2 * b->shape.kv_heads;
	compact_kernel<<<heads, 128, 0, b->stream>>>(path, b->shape.head_dim);
}

void cuda_commit(struct cache* cache, const int32_t* row, int n) {
	struct paged_cache* c = (struct paged_cache*)cache;
	const struct cuda_backend* b = (const struct cuda_backend*)cache->backend;
	if (paged_moves(c, row, n) && cudaSetDevice(b->device) == cudaSuccess)
		each_device(b, [&](const struct cuda_backend* p) { compact(p, c, row, n); });
	states_commit((struct cuda_cache*)cache, row, n);
	paged_commit(c, row, n);
	states_keep((struct cuda_cache*)cache);
}
