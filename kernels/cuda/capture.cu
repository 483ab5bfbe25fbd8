/* Passes, and the draft loop, as graphs; and what is done where a device or its driver makes none. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda.cuh"

static bool clear_graphs(struct cuda_backend* b, struct error* error) {
	const size_t heads = (size_t)b->shape.heads, rows = (size_t)SLICE_ROWS * (size_t)b->shape.kv_heads;
	CUDA_TRY(cudaMemsetAsync(b->slice, 0, b->slice_bytes, b->stream), error);
	CUDA_TRY(cudaMemsetAsync(b->work.head_done, 0, 3 * heads * sizeof(unsigned), b->stream), error);
	CUDA_TRY(cudaMemsetAsync(b->work.row_done, 0, rows * sizeof(unsigned), b->stream), error);
	CUDA_TRY(cudaMemsetAsync(b->work.tile_done, 0, tiles_of(b) * sizeof(unsigned), b->stream), error);
	return true;
}

/* Runs each kernel once on a slice without rows, before any capture: all are loaded then, and a launch that
 * fails is reported. */
static bool warm_up(struct cuda_backend* b, struct error* error) {
	static const int bucket[] = {1, 2, 3, 5}; /* one for each number of tiles */
	bool done = true;
	each_device(b, [&](struct cuda_backend* p) { done = done && clear_graphs(p, error); });
	for (size_t i = 0; i < sizeof bucket / sizeof bucket[0] && done; i++)
		launch_whole(b, 8 * bucket[i]);
	if (!done)
		return false;
	CUDA_TRY(cudaGetLastError(), error);
	return devices_wait(b, error);
}

/* One graph a device, which meet in their gathers. No stream is left capturing, whatever fails. */
static bool capture_graph(struct cuda_backend* b, int index, int rows, struct error* error) {
	bool done = true, begun[MAX_DEVICES] = {};
	each_device(b, [&](struct cuda_backend* p) {
		done = done && cuda_ok(cudaStreamBeginCapture(p->stream, cudaStreamCaptureModeThreadLocal),
		                       "cudaStreamBeginCapture", error);
		begun[p->rank] = done;
	});
	if (done)
		launch_whole(b, rows);
	each_device(b, [&](struct cuda_backend* p) {
		cudaGraph_t graph = NULL;
		const bool ended = !begun[p->rank] ||
		                   cuda_ok(cudaStreamEndCapture(p->stream, &graph), "cudaStreamEndCapture", error);
		done = done && ended &&
		       cuda_ok(cudaGraphInstantiate(&captured_now(p)->pass[index], graph, 0), "cudaGraphInstantiate",
		               error);
		if (graph)
			cudaGraphDestroy(graph);
	});
	return done;
}

static size_t memory_left(const struct cuda_backend* b) {
	size_t available = 0, total = 0;
	cudaSetDevice(b->device);
	return cudaMemGetInfo(&available, &total) == cudaSuccess ? available : 0;
}

/* SWIFTLET_CUDA_REPORT=memory: what graphs take, beside what weights_fit assumes of them. */
static void log_memory(const struct cuda_backend* b, size_t before) {
	const char* wish = getenv("SWIFTLET_CUDA_REPORT");
	const size_t after = memory_left(b);
	if (wish && strcmp(wish, "memory") == 0)
		fprintf(stderr, "swiftlet: captured passes take %.1f MiB of the GPU's memory, %.1f were assumed\n",
		        before > after ? (double)(before - after) / 0x1p20 : 0.0, (double)graphs_room(b) / 0x1p20);
}

static bool capture_all(struct cuda_backend* b, struct error* error) {
	if (!warm_up(b, error))
		return false;
	if (!b->group->captures)
		return true;
	const size_t before = memory_left(b);
	bool done = is_alone(b) || capture_graph(b, 0, 1, error);
	/* Launches by input channel have eight rows each. Passes of more are rare, and their graphs would be
	 * large: the host launches their kernels. */
	const int buckets = b->group->by_channel ? 1 : BUCKETS;
	for (int i = 1; i <= buckets && done; i++)
		done = capture_graph(b, i, 8 * i, error);
	done = done && devices_wait(b, error); /* whether NCCL took all that it was asked for */
	if (done)
		log_memory(b, before);
	return done;
}

/* Without early launches, then without graphs; what was captured for it before is dropped. */
static bool step_back(struct cuda_backend* b, const struct error* why) {
	if (b->launches != LAUNCHES_EARLY && !b->group->captures)
		return false;
	const bool early = b->launches == LAUNCHES_EARLY;
	cudaGetLastError();
	each_device(b, [&](struct cuda_backend* p) { captured_close(captured_now(p)); });
	if (early)
		b->launches = LAUNCHES_FUSED;
	else
		b->group->captures = false;
	fprintf(stderr, "swiftlet: this GPU or its driver %s: %s\n",
	        early ? "cannot start kernels early, so each waits for the one before"
	              : "cannot capture passes, so the host launches their kernels one by one",
	        why->message);
	return true;
}

/* The loop on the device if it is possible; otherwise the host runs step by step, with the same bits. */
static void capture_loop(struct cuda_backend* b) {
	struct error why = {""};
	if (!b->head.draft)
		return;
	if (b->group->captures && draft_capture(b, &why))
		return;
	cudaGetLastError();
	b->head.draft = NULL;
	if (b->group->captures)
		fprintf(stderr,
		        "swiftlet: this GPU or its driver cannot loop a graph, so drafts go step by step: %s\n",
		        why.message);
}

bool capture_passes(struct cuda_backend* b, struct error* error) {
	while (!capture_all(b, error))
		if (devices_gone(b) || !step_back(b, error))
			return false;
	capture_loop(b);
	return true;
}

void captured_close(struct cuda_backend::captured* c) {
	for (int i = 0; i <= BUCKETS; i++)
		if (c->pass[i])
			cudaGraphExecDestroy(c->pass[i]);
	if (c->draft)
		cudaGraphExecDestroy(c->draft);
	if (c->draft_source)
		cudaGraphDestroy(c->draft_source);
	*c = {};
}
