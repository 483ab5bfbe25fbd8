/* Several devices that share a model, driven by one thread.
 *
 * Each has a share of every matrix's output rows, and whole key/value heads. It computes its part of a
 * product for all rows of a slice. Then the parts are gathered on every device, in stream order, so that a
 * captured pass may hold its gathers too. No sum is ever split, so the bits are those of one device
 * (kernels/process_group.h compares the other way). Five things are gathered: the embedding, attention's
 * output, the feed-forward's activations, sub-layers' outputs and the logits.
 *
 * Only real devices can show whether NCCL's launches go into graphs of several devices at once as documented,
 * what a gather costs, and how long a failed device takes to report it. */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <type_traits>

#include "kernels/clock.h"
#include "kernels/cuda/cuda.cuh"
#include "kernels/process_group.h"

enum { THREADS = 256 };
/* Seconds. A pass takes some hundredths. If nothing finishes within PATIENCE, the communication is aborted,
 * for which devices have LEAVE. A device that has not ended END later is the one that failed. */
enum { PATIENCE = 5, LEAVE = 2, END = 1 };

/* ---- shares ------------------------------------------------------------------------------- */

struct shares shares_of_rows(int devices, int64_t rows) {
	struct shares shares = {};
	for (int d = 0; d <= devices; d++)
		shares.first[d] = (int)share_first(rows, d, devices);
	return shares;
}

struct shares shares_of_heads(int devices, int kv_heads, int width) {
	struct shares shares = {};
	for (int d = 0; d <= devices; d++)
		shares.first[d] = kv_heads * d / devices * width;
	return shares;
}

static int widest(const struct shares& shares, int devices) {
	int most = 0;
	for (int d = 0; d < devices; d++)
		most = max(most, shares.first[d + 1] - shares.first[d]);
	return most;
}

/* Parts of an embedding are whole rows, of whoever has the token's. */
static struct shares shares_by(const struct cuda_backend* b, enum gathered what) {
	const struct model_shape* m = &b->whole;
	const int n = b->group->devices;
	switch (what) {
	case GATHERED_EMBEDDING:
	case GATHERED_LOGITS:
		return shares_of_rows(n, m->vocab);
	case GATHERED_MIXED:
		return shares_of_heads(n, m->kv_heads, m->heads / m->kv_heads * m->head_dim);
	case GATHERED_GATED:
		return shares_of_rows(n, m->ffn);
	default:
		return shares_of_rows(n, m->dim);
	}
}

/* Elements of a row that each device sends, and bytes of one. */
static int width_of(const struct cuda_backend* b, enum gathered what) {
	return what == GATHERED_EMBEDDING ? b->whole.dim : widest(shares_by(b, what), b->group->devices);
}

static size_t size_of(enum gathered what) { return what == GATHERED_MIXED || what == GATHERED_GATED ? 2 : 4; }

size_t most_of_a_part(const struct cuda_backend* b) {
	static const enum gathered all[] = {GATHERED_EMBEDDING, GATHERED_MIXED, GATHERED_OUTPUT, GATHERED_GATED,
	                                    GATHERED_LOGITS};
	size_t most = 0;
	for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
		const size_t bytes = SLICE_ROWS * (size_t)width_of(b, all[i]) * size_of(all[i]);
		most = bytes > most ? bytes : most;
	}
	return most;
}

/* ---- gathering ---------------------------------------------------------------------------- */

/* The parts (devices, slot) lie one behind the other, rows by rows of each its own width. */
struct gathered_parts {
	const void* from;
	size_t slot; /* elements from one to the next */
	int devices;
	struct shares shares;
};

template <class T, bool ADD>
__global__ void join_parts_kernel(T* out, struct gathered_parts p, const struct device_slice* s,
                                  int sub_layer) {
	const int r = (int)blockIdx.x;
	if (r >= s->n || leaves_out(s, sub_layer))
		return;
	T* row = out + (size_t)r * p.shares.first[p.devices];
	for (int d = 0; d < p.devices; d++) {
		const int begin = p.shares.first[d], width = p.shares.first[d + 1] - begin;
		const T* part = static_cast<const T*>(p.from) + d * p.slot + (size_t)r * width;
		for (int j = threadIdx.x; j < width; j += blockDim.x)
			row[begin + j] = ADD ? row[begin + j] + part[j] : part[j];
	}
}

/* Each row from the device that has its token; kept states, which a span begins with, are on every device. */
__global__ void choose_part_kernel(float* x, struct gathered_parts p, int dim, const struct device_slice* s) {
	const int r = (int)blockIdx.x;
	if (r >= s->n)
		return;
	int holder = 0;
	while (s->first == 0 && s->row[r].token >= p.shares.first[holder + 1])
		holder++;
	const float* part = static_cast<const float*>(p.from) + holder * p.slot + (size_t)r * dim;
	for (int j = threadIdx.x; j < dim; j += blockDim.x)
		x[(size_t)r * dim + j] = part[j];
}

static void join_parts(const struct cuda_backend* b, const struct gathered_parts& p, int rows,
                       enum gathered what, int sub_layer) {
	const struct workspace* k = &b->work;
	const unsigned grid = (unsigned)rows;
	const int dim = b->shape.dim;
	const auto store = [&](auto* out) {
		const auto kernel = join_parts_kernel<typename std::remove_pointer<decltype(out)>::type, false>;
		launch(b, dim3(grid), THREADS, 0, kernel, out, p, b->slice, sub_layer);
	};
	switch (what) {
	case GATHERED_EMBEDDING:
		launch(b, dim3(grid), THREADS, 0, choose_part_kernel, k->x, p, dim, b->slice);
		return;
	case GATHERED_MIXED:
		store((uint16_t*)k->mixed);
		return;
	case GATHERED_GATED:
		store((uint16_t*)k->gated);
		return;
	case GATHERED_OUTPUT:
		store(k->y);
		return;
	case GATHERED_LOGITS:
		store(k->logits);
		return;
	case GATHERED_ADDED:
		launch(b, dim3(grid), THREADS, 0, join_parts_kernel<float, true>, k->x, p, b->slice, sub_layer);
	}
}

static void note_status(struct device_group* g, int status) {
	if (g->status == NCCL_SUCCESS && status != NCCL_IN_PROGRESS)
		g->status = status;
}

void launch_gather(const struct cuda_backend* b, int rows, enum gathered what, int sub_layer) {
	struct device_group* g = b->group;
	if (is_alone(b) || devices_gone(b))
		return;
	const size_t slot = (size_t)rows * (size_t)width_of(b, what);
	/* one group: NCCL may have one of them wait for the others' calls */
	note_status(g, g->nccl.group_start());
	each_device(b, [&](const struct cuda_backend* p) {
		note_status(g, g->nccl.all_gather(p->work.part, p->work.gathered, slot * size_of(what), NCCL_BYTES,
		                                  g->comm[p->rank], p->stream));
	});
	note_status(g, g->nccl.group_end());
	const struct shares shares = shares_by(b, what);
	each_device(b, [&](const struct cuda_backend* p) {
		join_parts(p, {p->work.gathered, slot, g->devices, shares}, rows, what, sub_layer);
	});
}

/* ---- opening ------------------------------------------------------------------------------ */

static bool are_alike(const struct cudaDeviceProp& a, const struct cudaDeviceProp& b) {
	const size_t more = a.totalGlobalMem > b.totalGlobalMem ? a.totalGlobalMem : b.totalGlobalMem;
	const size_t less = a.totalGlobalMem + b.totalGlobalMem - more;
	return a.major == b.major && a.minor == b.minor && more - less <= more / 16;
}

static bool check_devices(int first, int devices, struct error* error) {
	struct cudaDeviceProp leads, other;
	int there = 0;
	CUDA_TRY(cudaGetDeviceCount(&there), error);
	if (devices > MAX_DEVICES || first + devices > there)
		return error_set(error, "--devices %d: there %s %d CUDA device%s, and at most %d share a model",
		                 devices, there == 1 ? "is" : "are", there, there == 1 ? "" : "s", MAX_DEVICES);
	CUDA_TRY(cudaGetDeviceProperties(&leads, first), error);
	for (int d = 1; d < devices; d++) {
		CUDA_TRY(cudaGetDeviceProperties(&other, first + d), error);
		if (!are_alike(leads, other))
			return error_set(
			    error,
			    "--devices %d: GPU %d (%.60s, compute capability %d.%d, %zu MiB) is not like GPU %d "
			    "(%.60s, %d.%d, %zu MiB): only equal ones share a model (CUDA_VISIBLE_DEVICES "
			    "chooses which)",
			    devices, first + d, other.name, other.major, other.minor, other.totalGlobalMem >> 20, first,
			    leads.name, leads.major, leads.minor, leads.totalGlobalMem >> 20);
	}
	return true;
}

bool devices_check(const struct weight_table* weights, int first, int devices, struct nccl_calls* nccl,
                   struct error* error) {
	const struct model_shape* m = &weights->shape;
	if (devices <= 1)
		return true;
	if (!check_devices(first, devices, error))
		return false;
	const int least = min(m->dim, min(m->ffn, m->vocab)) / 16;
	if (devices > m->kv_heads || devices > least)
		return error_set(
		    error,
		    "--devices %d: each takes whole key/value heads and 16 rows of every matrix; this model, "
		    "of %d such heads, can be shared by %d",
		    devices, m->kv_heads, min(m->kv_heads, least));
	return nccl_find(nccl, error);
}

bool devices_join(struct device_group* g, struct error* error) {
	int device[MAX_DEVICES];
	if (g->devices == 1)
		return true;
	for (int d = 0; d < g->devices; d++)
		device[d] = g->device[d]->device;
	const int status = g->nccl.comm_init_all(g->comm, g->devices, device);
	return status == NCCL_SUCCESS ||
	       error_set(error, "NCCL cannot join %d GPUs: %.200s", g->devices, g->nccl.get_error_string(status));
}

void devices_leave(struct device_group* g) {
	for (int d = 0; d < g->devices; d++)
		if (g->comm[d])
			g->nccl.comm_destroy(g->comm[d]);
	memset(g->comm, 0, sizeof g->comm);
}

/* ---- waiting, and failing ----------------------------------------------------------------- */

/* The state of one device: cudaSuccess where all is done, cudaErrorNotReady, or its failure. */
static cudaError_t look_at(const struct cuda_backend* b) {
	cudaSetDevice(b->device);
	return cudaStreamQuery(b->stream);
}

/* The first device whose stream failed; else -1, and whether all are done. */
static int look_at_all(const struct device_group* g, bool* done, cudaError_t* failed) {
	*done = true;
	for (int d = 0; d < g->devices; d++) {
		const cudaError_t status = look_at(g->device[d]);
		*done = *done && status == cudaSuccess;
		if (status != cudaSuccess && status != cudaErrorNotReady) {
			*failed = status;
			return d;
		}
	}
	return -1;
}

/* The first device whose communication failed, or -1. */
static int check_communication(struct device_group* g) {
	for (int d = 0; d < g->devices && g->status == NCCL_SUCCESS; d++) {
		int status = NCCL_SUCCESS;
		g->nccl.comm_get_async_error(g->comm[d], &status);
		note_status(g, status);
		if (g->status != NCCL_SUCCESS)
			return d;
	}
	return -1;
}

struct giving_up {
	int (*abort)(struct ncclComm*);
	struct ncclComm* comm;
};

static void* abort_one(void* user) {
	const struct giving_up own = *(struct giving_up*)user;
	free(user);
	own.abort(own.comm);
	return NULL;
}

/* Aborts the communication on each device, which ends what waits in it. The call may never return for a
 * device that does not answer, so each runs in a thread of its own. */
static void abort_all(struct device_group* g) {
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += LEAVE;
	pthread_t thread[MAX_DEVICES];
	bool started[MAX_DEVICES] = {};
	for (int d = 0; d < g->devices; d++) {
		struct giving_up* own = g->comm[d] ? (struct giving_up*)malloc(sizeof *own) : NULL;
		if (own) {
			*own = {g->nccl.comm_abort, g->comm[d]};
			started[d] = pthread_create(&thread[d], NULL, abort_one, own) == 0;
		}
		if (!started[d])
			free(own);
	}
	for (int d = 0; d < g->devices; d++)
		if (started[d] && pthread_timedjoin_np(thread[d], NULL, &until) != 0)
			pthread_detach(thread[d]);
	memset(g->comm, 0, sizeof g->comm);
}

/* Nobody has failed and nobody goes on: who does not even end when the communication was aborted is the one.
 */
static int find_silent(struct device_group* g) {
	bool done = false;
	cudaError_t failed;
	abort_all(g);
	for (const double until = seconds_now() + END; !done && seconds_now() < until; sched_yield())
		if (const int d = look_at_all(g, &done, &failed); d >= 0)
			return d;
	for (int d = 0; d < g->devices; d++)
		if (look_at(g->device[d]) != cudaSuccess)
			return d;
	return -1;
}

/* Records which device failed of what, for good; -1: it is not known which. */
static bool give_up(const struct cuda_backend* b, int d, const char* what, struct error* error) {
	struct device_group* g = b->group;
	const struct cuda_backend* failed = d >= 0 ? g->device[d] : NULL;
	if (failed)
		error_set(&g->failure, "GPU %d of the %d that share the model failed: %.200s", failed->device,
		          g->devices, what);
	else
		error_set(&g->failure, "the communication between the %d GPUs that share the model failed: %.200s",
		          g->devices, what);
	abort_all(g);
	*error = g->failure;
	return false;
}

static bool wait_for_several(const struct cuda_backend* b, struct error* error) {
	struct device_group* g = b->group;
	bool done = false;
	cudaError_t failed = cudaSuccess;
	for (const double until = seconds_now() + PATIENCE; !done && seconds_now() < until; sched_yield()) {
		int d = look_at_all(g, &done, &failed);
		if (d >= 0)
			return give_up(b, d, cudaGetErrorString(failed), error);
		d = check_communication(g);
		if (g->status != NCCL_SUCCESS)
			return give_up(b, d, g->nccl.get_error_string(g->status), error);
	}
	return done || give_up(b, find_silent(g), "it does not answer", error);
}

bool devices_wait(const struct cuda_backend* b, struct error* error) {
	if (is_alone(b))
		return cuda_ok(cudaStreamSynchronize(b->stream), "cudaStreamSynchronize", error);
	if (devices_gone(b)) {
		*error = b->group->failure;
		return false;
	}
	return wait_for_several(b, error);
}
