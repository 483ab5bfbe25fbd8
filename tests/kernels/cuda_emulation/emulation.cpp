/* The emulated device: fibers, streams, graphs and memory. See cuda_runtime.h. */
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "kernels/cuda/cuda.cuh"
#include "tests/kernels/cuda_emulation/emulated.h"

static struct emulated_counts counts;
struct emulated_counts emulated_counts() {
	return counts;
}

/* ---- fibers ------------------------------------------------------------------------------- */

/* A stack is no power of two long: the ends of all would lie in the same few lines of the caches. */
enum { MAX_THREADS = 1024, STACK = (64 << 10) + 640 };
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
	unsigned shuffles; /* so far: which of two boards the next one uses */
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
static int vote;  /* of a __syncthreads_and */
static int count; /* of a __syncthreads_count */

void emulated_check(bool good, const char* what) {
	if (good)
		return;
	fprintf(stderr, "emulated CUDA: %s (in %s, block %u %u %u, thread %u)\n", what, kernel_name, blockIdx.x,
	        blockIdx.y, blockIdx.z, threadIdx.x);
	abort();
}

void* emulated_dynamic_shared() { return dynamic_shared; }

/* A warp's fibers in an order that turns, each until it waits: one goes straight on to the next. */
static struct { unsigned first, count, turn, backwards, at; } turns;

static struct fiber* next_fiber() {
	while (turns.at < turns.count) {
		const unsigned at = (turns.backwards ? turns.count - turns.at - 1 : turns.at) + turns.turn;
		struct fiber* f = &fibers[turns.first + (at < turns.count ? at : at - turns.count)];
		turns.at++;
		if (f->state == READY)
			return f;
	}
	return NULL;
}

static void leave(struct fiber* f) {
	struct fiber* next = next_fiber();
	if (next) {
		current = next;
		threadIdx = next->index;
	}
#if defined(__x86_64__)
	emulated_switch(&f->stack_pointer, next ? next->stack_pointer : scheduler);
#else
	swapcontext(&f->context, next ? &next->context : &scheduler);
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
	f->shuffles = 0;
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

int __syncthreads_count(int x) {
	count += x != 0;
	wait_at(AT_BLOCK);
	const int all = count;
	wait_at(AT_BLOCK);
	count = 0;
	wait_at(AT_BLOCK);
	return all;
}

uint32_t emulated_shuffle(uint32_t value, unsigned from) {
	struct warp* w = &warps[threadIdx.x / 32];
	uint32_t* board = w->board[current->shuffles++ % 2];
	board[threadIdx.x % 32] = value;
	emulated_warp_barrier();
	return board[from];
}

const uint32_t* emulated_posted(uint32_t value) {
	uint32_t* board = warps[threadIdx.x / 32].board[current->shuffles % 2];
	emulated_shuffle(value, 0);
	return board;
}

static std::map<const void*, unsigned long> adds; /* of the launch that runs */
void emulated_count_weights() { counts.weights++; }
void emulated_count_add(const void* where) {
	const unsigned long n = ++adds[where];
	counts.most_adds = n > counts.most_adds ? n : counts.most_adds;
}

struct emulated_matrices* emulated_warp_matrices() {
	return &warps[threadIdx.x / 32].matrices[current->shuffles++ % 2];
}

/* ---- one block ---------------------------------------------------------------------------- */

static uint64_t random_state = 1;
static unsigned random_below(unsigned n) {
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)((random_state >> 33) % n);
}

/* Runs a warp's fibers until none of them can go on by itself. */
static void run_warp(unsigned first, unsigned last) {
	for (;;) {
		const unsigned count = last - first, turn = random_below(count);
		unsigned waiting = 0;
		turns = {first, count, turn, random_below(2), 0};
		if (struct fiber* f = next_fiber())
			resume(f);
		for (unsigned i = first; i < last; i++)
			waiting += fibers[i].state == AT_WARP;
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
			const unsigned at = (backwards ? count - i - 1 : i) + turn, w = at < count ? at : at - count;
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
	adds.clear();
	counts.launches++;
	counts.blocks += shape.grid.x * shape.grid.y * shape.grid.z;
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

enum { HOST = -1, MOST_DEVICES = 16 };
struct allocation {
	unsigned char* pages;
	size_t bytes;
	int device;
};
static std::map<void*, allocation> device_memory, pinned_memory;
static int current_device,
    touching = HOST; /* whose memory can be touched; HOST: all, until there are several */

static int count_of_devices() {
	const char* devices = getenv("EMULATED_DEVICES");
	return devices ? atoi(devices) : 1;
}

static void allow(const allocation& a, bool allowed) {
	mprotect(a.pages, a.bytes, allowed ? PROT_READ | PROT_WRITE : PROT_NONE);
}

/* A device's streams must find only its own memory. */
static void touch(int device) {
	if (device == touching || count_of_devices() == 1)
		return;
	for (auto& at : device_memory)
		if (touching == HOST || at.second.device == device || at.second.device == touching)
			allow(at.second, at.second.device == device);
	touching = device;
}

static bool is_on(int device, const void* p) {
	auto at = device_memory.upper_bound((void*)p);
	return at != device_memory.begin() && (--at)->second.device == device;
}

static bool within(const std::map<void*, allocation>& memory, const void* p, size_t bytes) {
	auto at = memory.upper_bound((void*)p);
	if (at == memory.begin())
		return false;
	--at;
	const unsigned char *begin = (const unsigned char*)at->first, *end = at->second.pages + at->second.bytes;
	return (const unsigned char*)p >= begin && (const unsigned char*)p + bytes <= end;
}

/* EMULATED_MEMORY_MIB: what a device has, of which allocations take their share. EMULATED_FREE_MIB: what is
 * free of it, whatever is taken. */
cudaError_t cudaMemGetInfo(size_t* available, size_t* total) {
	const char *mib = getenv("EMULATED_FREE_MIB"), *all = getenv("EMULATED_MEMORY_MIB");
	*total = all ? (size_t)atol(all) << 20 : (size_t)1 << 30;
	*available = mib ? (size_t)atol(mib) << 20 : *total;
	for (const auto& at : device_memory)
		if (all && at.second.device == current_device)
			*available -= at.second.bytes < *available ? at.second.bytes : *available;
	return cudaSuccess;
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
	(*memory)[*out] = {p, room, current_device};
	if (memory == &device_memory && count_of_devices() > 1 && touching != HOST && touching != current_device)
		allow((*memory)[*out], false);
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
	const char* largest = getenv("EMULATED_LARGEST_MIB"); /* that memory in pieces has room for */
	size_t available, total;
	cudaMemGetInfo(&available, &total);
	available = largest ? (size_t)atol(largest) << 20 : available;
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
/* ---- streams ------------------------------------------------------------------------------ */

/* Runs a stream's next operation. False: it waits for other streams. */
typedef std::function<bool(CUstream_st*)> step;
struct emulated_graph {
	bool early = false; /* launches in it start before the one before has ended */
	std::vector<step> node;
	std::vector<std::unique_ptr<emulated_graph>> child;
	std::vector<std::unique_ptr<cudaGraph_t>> named;
};
struct CUstream_st {
	std::deque<step> waiting;
	emulated_graph* capturing;
	int device;
};
static CUstream_st legacy[MOST_DEVICES]; /* the default streams */
static std::vector<CUstream_st*> streams;

/* EMULATED_FAILS=DEVICE:GATHER[:silently]: that device fails at its gather of that number, counted from 1,
 * with an error, or by saying nothing any more. */
struct failing {
	int device, gather;
	bool silently;
};
static struct failing failing() {
	const char* text = getenv("EMULATED_FAILS");
	char word[16] = "";
	struct failing f = {-1, 0, false};
	if (text)
		sscanf(text, "%d:%d:%15s", &f.device, &f.gather, word);
	f.silently = word[0] != 0;
	return f;
}
static int gathers[MOST_DEVICES]; /* since the device's last stream was made */

static bool has_failed(int device) {
	const struct failing f = failing();
	return device == f.device && gathers[device] >= f.gather;
}

static CUstream_st* stream_of(cudaStream_t s) {
	legacy[current_device].device = current_device;
	return s ? s : &legacy[current_device];
}

/* Runs what a stream can do now; whether that was anything. */
static bool advance(CUstream_st* s) {
	bool any = false;
	while (!s->waiting.empty() && !has_failed(s->device)) {
		step next = s->waiting.front();
		touch(s->device);
		s->waiting.pop_front();
		if (!next(s)) {
			s->waiting.push_front(next);
			break;
		}
		any = true;
	}
	return any;
}

/* Others do only what one must wait for. */
static bool try_drain(CUstream_st* s) {
	for (bool any = true; any && !s->waiting.empty();) {
		any = advance(s);
		for (size_t i = 0; i < streams.size() && !s->waiting.empty(); i++)
			any = advance(streams[i]) || any;
	}
	return s->waiting.empty();
}

static void drain(CUstream_st* s) {
	counts.waits++;
	emulated_check(try_drain(s) || has_failed(s->device),
	               "a stream is waited for that waits for others, which do not come");
}

static void enqueue(CUstream_st* stream, const step& work) {
	if (stream->capturing)
		stream->capturing->node.push_back(work);
	else
		stream->waiting.push_back(work);
}

void emulated_enqueue(cudaStream_t s, std::function<void()> work) {
	enqueue(stream_of(s), [=](CUstream_st*) {
		work();
		return true;
	});
}

void emulated_starts_early(cudaStream_t s) {
	if (stream_of(s)->capturing)
		stream_of(s)->capturing->early = true;
}

void emulated_launch_here(cudaStream_t s) {
	emulated_check(stream_of(s)->device == current_device, "a launch on another device's stream");
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t s) {
	emulated_check(!stream_of(s)->capturing, "a copy is captured");
	const bool to_device = within(device_memory, to, bytes), from_device = within(device_memory, from, bytes);
	emulated_check(kind == cudaMemcpyHostToDevice   ? to_device && !from_device
	               : kind == cudaMemcpyDeviceToHost ? !to_device && from_device
	                                                : to_device && from_device,
	               "a copy whose ends are not where its kind puts them, or beyond their memory");
	const int device = stream_of(s)->device;
	emulated_check((!to_device || is_on(device, to)) && (!from_device || is_on(device, from)),
	               "a copy of another device's memory than its stream's");
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
	drain(stream_of(NULL));
	return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
	drain(stream_of(NULL));
	for (CUstream_st* s : streams)
		if (s->device == current_device)
			drain(s);
	return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
	*s = new CUstream_st();
	(*s)->device = current_device;
	gathers[current_device] = 0;
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
	return has_failed(stream_of(s)->device) ? cudaErrorLaunchFailure : cudaSuccess;
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
	if (has_failed(s->device))
		return failing().silently ? cudaErrorNotReady : cudaErrorLaunchFailure;
	return try_drain(s) ? cudaSuccess : cudaErrorNotReady;
}

/* ---- graphs ------------------------------------------------------------------------------- */

static std::map<cudaGraphConditionalHandle, unsigned> conditions;

/* EMULATED_REFUSES=early|loops|graphs: what the driver cannot capture. */
static bool refuses(const char* what) {
	const char* text = getenv("EMULATED_REFUSES");
	return text && strcmp(text, what) == 0;
}

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
/* Set-up before all tests. */
static void begin_with(CUstream_st* s, const std::vector<step>& nodes) {
	s->waiting.insert(s->waiting.begin(), nodes.begin(), nodes.end());
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* out, cudaGraph_t g, unsigned long long) {
	if (refuses("graphs") || (g->early && refuses("early")))
		return cudaErrorNotSupported;
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
	enqueue(stream_of(s), [=](CUstream_st* on) {
		begin_with(on, g->node);
		return true;
	});
	return cudaSuccess;
}
cudaError_t cudaGraphConditionalHandleCreate(cudaGraphConditionalHandle* h, cudaGraph_t, unsigned initial,
                                             unsigned) {
	if (refuses("loops"))
		return cudaErrorNotSupported;
	*h = conditions.size() + 1;
	conditions[*h] = initial;
	return cudaSuccess;
}
static bool loop(CUstream_st* s, cudaGraphConditionalHandle handle, const emulated_graph* child) {
	if (!conditions[handle])
		return true;
	begin_with(s, {[=](CUstream_st* on) { return loop(on, handle, child); }});
	begin_with(s, child->node);
	return true;
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
	g->node.push_back([=](CUstream_st* s) {
		conditions[handle] = initial;
		return loop(s, handle, child);
	});
	return cudaSuccess;
}
void cudaGraphSetConditional(cudaGraphConditionalHandle h, unsigned value) { conditions[h] = value; }

/* ---- the rest ----------------------------------------------------------------------------- */

const char* cudaGetErrorString(cudaError_t e) {
	return e == cudaSuccess              ? "no error"
	       : e == cudaErrorLaunchFailure ? "unspecified launch failure"
	       : e == cudaErrorInvalidDevice ? "invalid device ordinal"
	       : e == cudaErrorNotSupported  ? "operation not supported"
	                                     : "out of memory";
}
const char* cudaGetErrorName(cudaError_t e) {
	return e == cudaSuccess ? "cudaSuccess" : "cudaErrorMemoryAllocation";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
static int number(const char* name, int otherwise) {
	const char* text = getenv(name);
	return text ? atoi(text) : otherwise;
}
/* EMULATED_DRIVER: its version, as 12040; EMULATED_RUNTIME: the oldest one that the runtime takes. */
cudaError_t cudaDriverGetVersion(int* version) {
	*version = number("EMULATED_DRIVER", CUDART_VERSION);
	return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
	*count = count_of_devices();
	return number("EMULATED_DRIVER", CUDART_VERSION) < number("EMULATED_RUNTIME", 12000)
	           ? cudaErrorInsufficientDriver
	           : cudaSuccess;
}
cudaError_t cudaSetDevice(int device) {
	if (device < 0 || device >= count_of_devices())
		return cudaErrorInvalidDevice;
	current_device = device;
	return cudaSuccess;
}
/* EMULATED_ODD=older|smaller: the last device is. */
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device) {
	const char* odd = device == count_of_devices() - 1 ? getenv("EMULATED_ODD") : NULL;
	snprintf(p->name, sizeof p->name, "emulated");
	p->major = odd && strcmp(odd, "older") == 0 ? 8 : 9;
	p->minor = 0;
	p->multiProcessorCount = number("EMULATED_MULTIPROCESSORS", 132);
	p->totalGlobalMem = (size_t)(odd && strcmp(odd, "smaller") == 0 ? 512 : 1024) << 20;
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
	if (getenv("EMULATED_NO_CUBLAS"))
		return false;
	*calls = {cublasCreate,       cublasDestroy, cublasSetStream,
	          cublasSetWorkspace, cublasGemmEx,  cublasGetStatusString};
	return true;
}

/* ---- NCCL --------------------------------------------------------------------------------- */

/* The devices of one group of communicators; calls are matched by their number on each. */
struct emulated_clique {
	int devices;
	std::atomic<bool> aborted{false}; /* by a thread for each device */
	std::vector<std::shared_ptr<struct emulated_gather>> gather;
};
struct ncclComm {
	std::shared_ptr<emulated_clique> clique;
	int rank;
	size_t calls;
};

/* The ranks that have arrived, this time and the time before: no rank can be two ahead of another. */
struct emulated_gather {
	size_t bytes;
	std::vector<long> arrived;
	std::vector<unsigned char> data[2]; /* (devices, bytes) */
};

static int open_groups, calls_in_group, wanted_in_group;

static bool meet(emulated_gather* g, emulated_clique* clique, int rank, const void* send, void* receive,
                 bool* here) {
	if (clique->aborted)
		return true;
	if (!*here) {
		if (++gathers[rank], has_failed(rank))
			return false;
		memcpy(g->data[g->arrived[(size_t)rank]++ % 2].data() + (size_t)rank * g->bytes, send, g->bytes);
		*here = true;
	}
	const long time = g->arrived[(size_t)rank];
	for (const long others : g->arrived)
		if (others < time)
			return false;
	memcpy(receive, g->data[(time - 1) % 2].data(), g->bytes * (size_t)clique->devices);
	*here = false;
	return true;
}

static int all_gather(const void* send, void* receive, size_t bytes, int type, struct ncclComm* comm,
                      CUstream_st* s) {
	emulated_clique* clique = comm->clique.get();
	emulated_check(open_groups > 0, "one thread's gathers on several devices are not in a group");
	emulated_check(type == NCCL_BYTES && comm->rank == s->device && comm->rank == current_device &&
	                   within(device_memory, send, bytes) && is_on(comm->rank, send) &&
	                   within(device_memory, receive, bytes * (size_t)clique->devices) &&
	                   is_on(comm->rank, receive),
	               "a gather of another device's memory, or beyond its end");
	const size_t number = comm->calls++;
	if (number == clique->gather.size()) {
		auto made = std::make_shared<emulated_gather>();
		made->bytes = bytes;
		made->arrived.resize((size_t)clique->devices);
		for (auto& data : made->data)
			data.resize(bytes * (size_t)clique->devices);
		clique->gather.push_back(made);
	}
	const auto gather = clique->gather[number];
	emulated_check(gather->bytes == bytes, "devices gather different amounts");
	const auto here = std::make_shared<bool>(false);
	const auto kept = comm->clique;
	const int rank = comm->rank;
	calls_in_group++;
	wanted_in_group = clique->devices;
	enqueue(s, [=](CUstream_st*) { return meet(gather.get(), kept.get(), rank, send, receive, here.get()); });
	return NCCL_SUCCESS;
}

static int group_start(void) {
	open_groups++;
	calls_in_group = 0;
	return NCCL_SUCCESS;
}
static int group_end(void) {
	open_groups--;
	emulated_check(calls_in_group == wanted_in_group, "a group without a call for every device");
	return NCCL_SUCCESS;
}
static int comm_init_all(struct ncclComm** comm, int devices, const int* device) {
	const auto clique = std::make_shared<emulated_clique>();
	clique->devices = devices;
	for (int d = 0; d < devices; d++) {
		emulated_check(device[d] == d, "the first devices");
		comm[d] = new ncclComm{clique, d, 0};
	}
	return NCCL_SUCCESS;
}
static int comm_destroy(struct ncclComm* comm) {
	delete comm;
	return NCCL_SUCCESS;
}
static int comm_abort(struct ncclComm* comm) {
	comm->clique->aborted = true;
	return comm_destroy(comm);
}
static int comm_get_async_error(struct ncclComm*, int* status) {
	*status = NCCL_SUCCESS;
	return NCCL_SUCCESS;
}
static const char* get_error_string(int) { return "no error"; }

extern "C" bool nccl_find(struct nccl_calls* calls, struct error* error) {
	if (getenv("EMULATED_NO_NCCL"))
		return error_set(error, "no NCCL");
	*calls = {comm_init_all, comm_destroy, comm_abort, comm_get_async_error,
	          all_gather,    group_start,  group_end,  get_error_string};
	return true;
}
