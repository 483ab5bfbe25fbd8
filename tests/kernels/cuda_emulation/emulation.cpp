/* The emulated device: fibers, streams, graphs and memory. See cuda_runtime.h. */
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "kernels/cuda/cuda.cuh"

/* ---- fibers ------------------------------------------------------------------------------- */

enum { MAX_THREADS = 1024, STACK = 64 << 10 };
enum state { READY, AT_WARP, AT_BLOCK, DONE };

#if defined(__x86_64__)
/* Saves the registers that calls keep, changes the stack, takes the others'. */
extern "C" void emulated_switch(void** from, void* to);
asm(".text\n.globl emulated_switch\nemulated_switch:\n"
    "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
    "mov %rsp,(%rdi)\nmov %rsi,%rsp\n"
    "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n");
#endif

struct fiber {
	enum state state;
	uint3 index;
	unsigned thread;
	unsigned exchanges; /* so far: which of two boards the next one uses */
#if defined(__x86_64__)
	void* stack_pointer;
#else
	ucontext_t context;
#endif
	unsigned char* stack;
};

struct warp {
	uint32_t board[2][32];
	struct emulated_matrices matrices[2];
};

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

static struct fiber fibers[MAX_THREADS];
static struct warp warps[MAX_THREADS / 32];
static struct fiber* current;
#if defined(__x86_64__)
static void* scheduler;
#else
static ucontext_t scheduler;
#endif
static unsigned n_threads;
static const std::function<void()>* body;
static const char* kernel_name = "";
alignas(16) static unsigned char dynamic_shared[48 << 10];
static int vote; /* of a __syncthreads_and */

void emulated_check(bool good, const char* what) {
	if (good)
		return;
	fprintf(stderr, "emulated CUDA: %s (in %s, block %u %u %u, thread %u)\n", what, kernel_name, blockIdx.x,
	        blockIdx.y, blockIdx.z, threadIdx.x);
	abort();
}

void* emulated_dynamic_shared() { return dynamic_shared; }

static void leave(struct fiber* f) {
#if defined(__x86_64__)
	emulated_switch(&f->stack_pointer, scheduler);
#else
	swapcontext(&f->context, &scheduler);
#endif
}

static void wait_at(enum state where) {
	struct fiber* f = current;
	f->state = where;
	leave(f);
}

static void fiber_main() {
	(*body)();
	wait_at(DONE);
	abort();
}

static void start(struct fiber* f) {
	if (!f->stack)
		f->stack = (unsigned char*)malloc(STACK);
	f->state = READY;
	f->exchanges = 0;
#if defined(__x86_64__)
	void** top = (void**)((uintptr_t)(f->stack + STACK) / 16 * 16);
	*--top = NULL; /* the stack of a called function is 8 off 16 */
	*--top = (void*)fiber_main;
	for (int i = 0; i < 6; i++)
		*--top = NULL;
	f->stack_pointer = top;
#else
	getcontext(&f->context);
	f->context.uc_stack.ss_sp = f->stack;
	f->context.uc_stack.ss_size = STACK;
	makecontext(&f->context, fiber_main, 0);
#endif
}

static void resume(struct fiber* f) {
	current = f;
	threadIdx = f->index;
#if defined(__x86_64__)
	emulated_switch(&scheduler, f->stack_pointer);
#else
	swapcontext(&scheduler, &f->context);
#endif
}

void emulated_warp_barrier() { wait_at(AT_WARP); }
void __syncthreads() { wait_at(AT_BLOCK); }

int __syncthreads_and(int x) {
	if (!x)
		vote = 0;
	wait_at(AT_BLOCK);
	const int all = vote;
	wait_at(AT_BLOCK);
	vote = 1;
	wait_at(AT_BLOCK);
	return all;
}

uint32_t emulated_exchange(uint32_t value, unsigned from) {
	struct warp* w = &warps[threadIdx.x / 32];
	uint32_t* board = w->board[current->exchanges++ % 2];
	board[threadIdx.x % 32] = value;
	emulated_warp_barrier();
	return board[from];
}

struct emulated_matrices* emulated_warp_matrices() {
	return &warps[threadIdx.x / 32].matrices[current->exchanges++ % 2];
}

/* ---- one block ---------------------------------------------------------------------------- */

static uint64_t random_state = 1;
static unsigned random_below(unsigned n) {
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((random_state >> 33) % n);
}

/* Runs a warp's fibers, in an order that turns, until none of them can go on by itself. */
static void run_warp(unsigned first, unsigned last) {
	for (;;) {
		const unsigned count = last - first, turn = random_below(count), backwards = random_below(2);
		unsigned waiting = 0, done = 0;
		for (unsigned i = 0; i < count; i++) {
			const unsigned at = (backwards ? count - i - 1 : i) + turn;
			struct fiber* f = &fibers[first + at % count];
			if (f->state == READY)
				resume(f);
			waiting += f->state == AT_WARP;
			done += f->state == DONE;
		}
		if (waiting == 0)
			return;
		threadIdx = fibers[first].index;
		emulated_check(waiting == count, "part of a warp stands at a warp's barrier, part elsewhere");
		for (unsigned i = first; i < last; i++)
			fibers[i].state = READY;
	}
}

static void run_block(size_t shared) {
	vote = 1;
	memset(dynamic_shared, 0xff, shared);
	for (unsigned i = 0; i < n_threads; i++)
		start(&fibers[i]);
	const unsigned count = (n_threads + 31) / 32;
	for (;;) {
		const unsigned turn = random_below(count), backwards = random_below(2);
		for (unsigned i = 0; i < count; i++) {
			const unsigned w = ((backwards ? count - i - 1 : i) + turn) % count;
			run_warp(32 * w, 32 * w + 32 < n_threads ? 32 * w + 32 : n_threads);
		}
		unsigned done = 0;
		for (unsigned i = 0; i < n_threads; i++)
			done += fibers[i].state == DONE;
		if (done == n_threads)
			return;
		emulated_check(done == 0, "part of a block stands at the block's barrier, part has ended");
		for (unsigned i = 0; i < n_threads; i++)
			fibers[i].state = READY;
	}
}

void emulated_run(const emulated_shape& shape, const char* name, const std::function<void()>& thread) {
	kernel_name = name;
	body = &thread;
	gridDim = shape.grid;
	blockDim = shape.block;
	n_threads = shape.block.x;
	emulated_check(n_threads <= MAX_THREADS && n_threads > 0 && shape.block.y == 1 && shape.block.z == 1,
	               "a block of this shape");
	emulated_check(shape.shared <= sizeof dynamic_shared, "more dynamic shared memory than there is");
	emulated_check(shape.grid.y <= 65535 && shape.grid.z <= 65535 && shape.grid.x > 0 && shape.grid.y > 0 &&
	                   shape.grid.z > 0,
	               "a grid of this shape");
	for (unsigned i = 0; i < n_threads; i++)
		fibers[i].index = {i, 0, 0};
	const unsigned blocks = shape.grid.x * shape.grid.y * shape.grid.z, turn = random_below(blocks);
	for (unsigned i = 0; i < blocks; i++) {
		const unsigned b = (i + turn) % blocks;
		blockIdx = {b % shape.grid.x, b / shape.grid.x % shape.grid.y, b / shape.grid.x / shape.grid.y};
		run_block(shape.shared);
	}
}

/* ---- memory ------------------------------------------------------------------------------- */

struct allocation {
	unsigned char* pages;
	size_t bytes;
};
static std::map<void*, allocation> device_memory, pinned_memory;

static bool within(const std::map<void*, allocation>& memory, const void* p, size_t bytes) {
	auto at = memory.upper_bound((void*)p);
	if (at == memory.begin())
		return false;
	--at;
	const unsigned char *begin = (const unsigned char*)at->first, *end = at->second.pages + at->second.bytes;
	return (const unsigned char*)p >= begin && (const unsigned char*)p + bytes <= end;
}

static cudaError_t map_memory(std::map<void*, allocation>* memory, void** out, size_t bytes) {
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	if (bytes > (size_t)1 << 40)
		return cudaErrorMemoryAllocation;
	const size_t room = (bytes + page - 1) / page * page;
	unsigned char* p = (unsigned char*)mmap(NULL, room + page, PROT_READ | PROT_WRITE,
	                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return cudaErrorMemoryAllocation;
	mprotect(p + room, page, PROT_NONE);
	memset(p, 0xff, room <= (size_t)64 << 20 ? room : 0);
	*out = p + (room - (bytes + 15) / 16 * 16);
	(*memory)[*out] = {p, room};
	return cudaSuccess;
}

static cudaError_t unmap_memory(std::map<void*, allocation>* memory, void* p) {
	if (!p)
		return cudaSuccess;
	auto at = memory->find(p);
	emulated_check(at != memory->end(), "memory is freed that was not taken");
	munmap(at->second.pages, at->second.bytes + (size_t)sysconf(_SC_PAGESIZE));
	memory->erase(at);
	return cudaSuccess;
}

cudaError_t cudaMalloc(void** p, size_t bytes) {
	size_t available, total;
	cudaMemGetInfo(&available, &total);
	return bytes > available ? cudaErrorMemoryAllocation : map_memory(&device_memory, p, bytes);
}
cudaError_t cudaFree(void* p) {
	cudaDeviceSynchronize();
	return unmap_memory(&device_memory, p);
}
cudaError_t cudaMallocHost(void** p, size_t bytes) { return map_memory(&pinned_memory, p, bytes); }
cudaError_t cudaFreeHost(void* p) {
	cudaDeviceSynchronize();
	return unmap_memory(&pinned_memory, p);
}
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
	const char* mib = getenv("EMULATED_FREE_MIB");
	*total = (size_t)1 << 30;
	*available = mib ? (size_t)atol(mib) << 20 : *total;
	return cudaSuccess;
}

/* ---- streams ------------------------------------------------------------------------------ */

struct emulated_graph {
	std::vector<std::function<void()>> node;
	std::vector<std::unique_ptr<emulated_graph>> child;
	std::vector<std::unique_ptr<cudaGraph_t>> named;
};
struct emulated_stream {
	std::vector<std::function<void()>> waiting;
	emulated_graph* capturing;
};
static emulated_stream legacy; /* the default stream */
static std::vector<emulated_stream*> streams;

static emulated_stream* stream_of(cudaStream_t s) { return s ? s : &legacy; }

static void drain(emulated_stream* s) {
	std::vector<std::function<void()>> work;
	work.swap(s->waiting);
	for (auto& f : work)
		f();
}

void emulated_enqueue(cudaStream_t s, std::function<void()> work) {
	emulated_stream* stream = stream_of(s);
	if (stream->capturing)
		stream->capturing->node.push_back(work);
	else
		stream->waiting.push_back(work);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s) {
	emulated_check(!stream_of(s)->capturing, "a copy is captured");
	const bool to_device = within(device_memory, to, bytes), from_device = within(device_memory, from, bytes);
	emulated_check(kind == cudaMemcpyHostToDevice   ? to_device && !from_device
	               : kind == cudaMemcpyDeviceToHost ? !to_device && from_device
	                                                : to_device && from_device,
	               "a copy whose ends are not where its kind says, or beyond their memory");
	const bool pinned = within(pinned_memory, kind == cudaMemcpyHostToDevice ? from : to, bytes);
	emulated_enqueue(s, [=] { memmove(to, from, bytes); });
	if (kind != cudaMemcpyDeviceToDevice && !pinned)
		drain(stream_of(s)); /* pageable memory is done with when the call returns */
	return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t s) {
	emulated_check(within(device_memory, p, bytes), "memory is set beyond its end");
	emulated_enqueue(s, [=] { memset(p, value, bytes); });
	return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
	cudaMemcpyAsync(to, from, bytes, kind, NULL);
	drain(&legacy);
	return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
	drain(&legacy);
	for (emulated_stream* s : streams)
		drain(s);
	return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
	*s = new emulated_stream();
	streams.push_back(*s);
	return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
	drain(s);
	for (size_t i = 0; i < streams.size(); i++)
		if (streams[i] == s)
			streams.erase(streams.begin() + (long)i);
	delete s;
	return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
	emulated_check(!stream_of(s)->capturing, "a stream is waited for while it captures");
	drain(stream_of(s));
	return cudaSuccess;
}

/* ---- graphs ------------------------------------------------------------------------------- */

static std::map<cudaGraphConditionalHandle, unsigned> conditions;

cudaError_t cudaGraphCreate(cudaGraph_t* g, unsigned) {
	*g = new emulated_graph();
	return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t g) {
	delete g;
	return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
	s->capturing = new emulated_graph();
	return cudaSuccess;
}
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t s, cudaGraph_t g, const cudaGraphNode_t*, const void*,
                                          size_t, cudaStreamCaptureMode) {
	s->capturing = g;
	return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t* g) {
	*g = s->capturing;
	s->capturing = NULL;
	return cudaSuccess;
}
static void run_graph(const emulated_graph* g) {
	for (auto& f : g->node)
		f();
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t g, unsigned long long) {
	/* children are shared: the graph must outlive its instances here, as is prudent elsewhere */
	*out = new emulated_graph();
	(*out)->node = g->node;
	return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t g) {
	cudaDeviceSynchronize();
	delete g;
	return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t g, cudaStream_t s) {
	emulated_enqueue(s, [=] { run_graph(g); });
	return cudaSuccess;
}
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* h, cudaGraph_t, unsigned initial,
                                             unsigned) {
	*h = conditions.size() + 1;
	conditions[*h] = initial;
	return cudaSuccess;
}
cudaError_t cudaGraphAddNode(cudaGraphNode_t* node, cudaGraph_t g, const cudaGraphNode_t*, const void*,
                             size_t, cudaGraphNodeParams* p) {
	const cudaGraphConditionalHandle handle = p->conditional.handle;
	const unsigned initial = conditions[handle];
	g->child.emplace_back(new emulated_graph());
	emulated_graph* child = g->child.back().get();
	g->named.emplace_back(new cudaGraph_t(child));
	p->conditional.phGraph_out = g->named.back().get();
	*node = child;
	g->node.push_back([=] {
		for (conditions[handle] = initial; conditions[handle];)
			run_graph(child);
	});
	return cudaSuccess;
}
void cudaGraphSetConditional(cudaGraphConditionalHandle h, unsigned value) { conditions[h] = value; }

/* ---- the rest ----------------------------------------------------------------------------- */

const char* cudaGetErrorString(cudaError_t e) { return e == cudaSuccess ? "no error" : "out of memory"; }
const char* cudaGetErrorName(cudaError_t e) {
	return e == cudaSuccess ? "cudaSuccess" : "cudaErrorMemoryAllocation";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaDriverGetVersion(int* version) {
	*version = CUDART_VERSION;
	return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
	*count = 1;
	return cudaSuccess;
}
cudaError_t cudaSetDevice(int) { return cudaSuccess; }
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
	snprintf(p->name, sizeof p->name, "emulated");
	p->major = 9;
	p->minor = 0;
	return cudaSuccess;
}
cudaError_t cudaEventCreate(cudaEvent_t* e) {
	*e = new double(0);
	return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
	delete e;
	return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaDeviceSynchronize(); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
	*ms = 1;
	return cudaSuccess;
}

const char* cublasGetStatusString(cublasStatus_t) { return "not supported"; }
cublasStatus_t cublasCreate(cublasHandle_t* h) {
	*h = new emulated_cublas();
	return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t h) {
	delete h;
	return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t h, cudaStream_t s) {
	h->stream = s;
	return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetWorkspace(cublasHandle_t, void*, size_t) { return CUBLAS_STATUS_SUCCESS; }

static float element(const void* p, size_t at, cudaDataType_t type) {
	return type == CUDA_R_16F ? __half2float(((const __half*)p)[at])
	                          : __bfloat162float(((const __nv_bfloat16*)p)[at]);
}

cublasStatus_t cublasGemmEx(cublasHandle_t h, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                            const void*, const void* a, cudaDataType_t type_a, int lda, const void* b,
                            cudaDataType_t type_b, int ldb, const void*, void* c, cudaDataType_t type_c,
                            int ldc, cublasComputeType_t, cublasGemmAlgo_t) {
	if (ta != CUBLAS_OP_T || tb != CUBLAS_OP_N || type_a != type_b || type_c != CUDA_R_32F || lda != k ||
	    ldb != k || ldc != m)
		return CUBLAS_STATUS_NOT_SUPPORTED;
	emulated_enqueue(h->stream, [=] {
		for (int i = 0; i < n; i++)
			for (int r = 0; r < m; r++) {
				double sum = 0;
				for (int j = 0; j < k; j++)
					sum += (double)element(a, (size_t)r * (size_t)lda + (size_t)j, type_a) *
					       (double)element(b, (size_t)i * (size_t)ldb + (size_t)j, type_b);
				((float*)c)[(size_t)i * (size_t)ldc + (size_t)r] = (float)sum;
			}
	});
	return CUBLAS_STATUS_SUCCESS;
}

bool cublas_find(struct cublas_calls* calls) {
	*calls = {cublasCreate,       cublasDestroy, cublasSetStream,
	          cublasSetWorkspace, cublasGemmEx,  cublasGetStatusString};
	return true;
}
