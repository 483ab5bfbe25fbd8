/* The CUDA backend: opening and closing, and what it does not do. */
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
	const cudaError_t status = cudaGetDeviceCount(&devices);
	/* the runtime knows which drivers it runs on; what newer ones bring is done without where it is missing
	 */
	if (status == cudaErrorInsufficientDriver)
		return error_set(
		    error,
		    "the NVIDIA driver supports CUDA %d.%d, but this swiftlet was built with CUDA %d.%d and needs a "
		    "newer driver; a swiftlet built with the CUDA Toolkit 12.4 runs on drivers for 12.0 and later",
		    driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
	if (status != cudaSuccess || devices == 0)
		return error_set(error, "no CUDA device was found: %s", cudaGetErrorString(status));
	return true;
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

/* The place of an environment variable's value among `names`, which end with NULL; `usual` if it is not
 * set. */
static bool choose_kernels(const char* variable, const char* const* names, const char* expected, int usual,
                           int* chosen, struct error* error) {
	const char* wish = getenv(variable);
	*chosen = usual;
	for (int i = 0; wish && names[i]; i++)
		if (strcmp(wish, names[i]) == 0) {
			*chosen = i;
			return true;
		}
	return !wish || error_set(error, "%s=%.40s: %s was expected", variable, wish, expected);
}

/* So that ways to launch can be compared; by itself the best that the device can. */
static bool choose_launches(struct cuda_backend* b, int major, struct error* error) {
	static const char* const names[] = {"separate", "fused", "early", NULL};
	int chosen;
	if (!choose_kernels("SWIFTLET_CUDA_LAUNCHES", names, "separate, fused or early", LAUNCHES_EARLY, &chosen,
	                    error))
		return false;
	/* whether NCCL's kernels go between launches that start early is not documented */
	const bool can = major >= 9 && is_alone(b);
	b->launches = chosen == LAUNCHES_EARLY && !can ? LAUNCHES_FUSED : (enum launches)chosen;
	return true;
}

/* Likewise. */
static bool choose_parts(struct cuda_backend* b, struct error* error) {
	static const char* const names[] = {"shape", "1", "2", "4", NULL};
	static const int parts[] = {0, 1, 2, MOST_PARTS};
	int chosen;
	const bool done = choose_kernels("SWIFTLET_CUDA_PARTS", names, "shape, 1, 2 or 4", 0, &chosen, error);
	b->column_parts = parts[chosen];
	return done;
}

/* One device captures its passes unless asked not to, several only if asked to. NCCL's guide advises against
 * it when one thread drives them: a graph's launch may wait for the other devices, which have not received
 * theirs. */
static bool choose_captures(struct device_group* g, struct error* error) {
	static const char* const names[] = {"off", "on", NULL};
	int chosen;
	const bool done =
	    choose_kernels("SWIFTLET_CUDA_GRAPHS", names, "on or off", g->devices == 1, &chosen, error);
	g->captures = chosen;
	return done;
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
	b->multiprocessors = device.multiProcessorCount;
	return choose_launches(b, device.major, error) && choose_parts(b, error);
}

static bool open_cublas(struct cuda_backend* b, struct error* error) {
	if (!cublas_find(&b->calls)) {
		fprintf(stderr,
		        "swiftlet: cuBLAS (libcublas.so.%d) was not found: prompts are computed by the kernels for "
		        "decoding, %d tokens at a time, which is slower and gives other bits than cuBLAS\n",
		        CUDART_VERSION / 1000, SLICE_ROWS);
		return true;
	}
	CUBLAS_TRY(b->calls.create(&b->cublas), error);
	CUBLAS_TRY(b->calls.set_stream(b->cublas, b->stream), error);
	void* workspace = cuda_take(b, CUBLAS_WORKSPACE, "cuBLAS's workspace", error);
	if (!workspace)
		return false;
	/* a workspace of our own, of fixed size: cuBLAS then chooses the same algorithm for a shape every time */
	CUBLAS_TRY(b->calls.set_workspace(b->cublas, workspace, CUBLAS_WORKSPACE), error);
	return true;
}

static void close_device(struct cuda_backend* b) {
	cudaSetDevice(b->device);
	draft_weights_state_close(b);
	if (b->cublas)
		b->calls.destroy(b->cublas);
	cuda_give_back(b, 0);
	for (int i = 0; i < b->n_pinned; i++)
		cudaFreeHost(b->pinned[i]);
	if (b->stream)
		cudaStreamDestroy(b->stream);
}

/* Memory of devices is not freed after one failed, because freeing would wait for that device. Captured
 * passes are closed before the communicators. */
static void close_group(struct device_group* g) {
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
		rope_close(&b->sliding_rope);
		free(b->allocation);
		free(b->block);
		free(b);
	}
	free(g);
}

static void cuda_close(struct backend* backend) { close_group(((struct cuda_backend*)backend)->group); }

/* ---- what it does not do --------------------------------------------------------------------- */

static const char* lacking_for(const struct block_weights* w, const struct model_shape* m, int block) {
	if (tensor_present(&w->router))
		return "mixture of experts";
	if (tensor_present(&w->sinks))
		return "attention sinks";
	if (!tensor_present(&w->attention_norm) || !tensor_present(&w->mlp_norm))
		return "sub-layers without a norm before them";
	if (tensor_present(&w->q_norm) && w->q_norm.cols != m->head_dim)
		return "norm over all heads at once";
	if (block_set_has(&m->without_mlp, block))
		return "blocks without an MLP";
	return block_set_has(&m->unrotated, block) ? "blocks without RoPE" : NULL;
}

/* Families that came later than this backend ask for parts it lacks. */
static const char* lacking_in(const struct model_shape* m) {
	if (m->norm != NORM_RMS)
		return "LayerNorm";
	if (m->ungated)
		return "MLP without a gate";
	if (m->norm_after_rope || m->value_norm)
		return "norm of values or of turned keys";
	if (m->altup)
		return "several states of a row (Gemma 3n)";
	if (m->full_head_dim || m->full_kv_heads || m->sharing_from || m->token_input)
		return "heads of two sizes, keys that blocks share or inputs by token and block (Gemma 4)";
	if (m->window_in_chunks)
		return "attention in chunks";
	if (m->recurrence.state_space || attention_beside(m))
		return "state-space blocks (Mamba-2)";
	if (m->latent || m->parallel)
		return m->latent ? "latent attention" : "attention and MLP side by side";
	return NULL;
}

static bool does_model(const struct weight_table* w, struct error* error) {
	const struct model_shape* m = &w->shape;
	const char* lacking = lacking_in(m);
	if (tensor_present(&w->output_bias))
		lacking = "output heads with a bias";
	if (tensor_present(&w->join))
		lacking = "layers that predict later tokens";
	const bool scaled = m->attention_out_scale != 0.0f || m->recurrent_out_scale != 0.0f ||
	                    m->mlp_out_scale != 0.0f || m->gate_scale != 0.0f;
	if (!lacking &&
	    (m->residual_scale != 1.0f || m->logit_scale != 1.0f || m->attention_growth != 0.0f || scaled))
		return error_set(error, "the CUDA backend does not scale residuals, logits or long attention: "
		                        "--backend cpu does");
	for (int i = 0; i < m->n_blocks && !lacking; i++)
		lacking = lacking_for(&w->block[i], m, i);
	return !lacking || error_set(error, "the CUDA backend does not support %s: --backend cpu does", lacking);
}

static void fill_in(struct backend* head, const struct weight_table* weights, bool alone) {
	head->weights = weights;
	head->close = cuda_close;
	head->cache_open = cuda_cache_open;
	head->cache_close = cuda_cache_close;
	head->run = cuda_run;
	head->commit = cuda_commit;
	head->discard = paged_discard;
	head->rewind = paged_rewind;
	head->truncate = cuda_truncate;
	/* pages hold no states, so other caches could not use them */
	head->adopt = attention_blocks(&weights->shape) < weights->shape.n_blocks ? cuda_adopt_own : paged_adopt;
	head->reserve = paged_reserve;
	head->room = paged_room;
	head->bandwidth = bandwidth;
	head->threads = threads;
	head->use_draft_weights = cuda_use_draft_weights;
	head->upload_draft_weights = cuda_upload_draft_weights;
	head->columns = alone; /* several devices would need each its rows of every channel */
	/* the body of a loop on the device may hold kernels of that device only, and no waits for events, which
	 * NCCL's captured calls contain */
	head->draft = alone ? cuda_draft : NULL;
	head->list_pages = alone ? cuda_list_pages : NULL; /* each device sees its own heads' attention alone */
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

/* With a screened head where there is room for it, too. */
static bool fits(struct cuda_backend* b, bool library, struct error* error) {
	const size_t room = screened_room(b), beside = library ? CUBLAS_WORKSPACE : 0;
	b->screens = room > 0 && weights_fit(b, beside + room, error);
	return b->screens || weights_fit(b, beside, error);
}

/* The group's next device; close_group frees it whether it opened or not. */
static bool open_one(struct device_group* g, int rank, const struct weight_table* weights,
                     const struct backend_options* options, struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)calloc(1, sizeof *b);
	if (!b)
		return error_set(error, "out of memory for the backend");
	g->device[rank] = b;
	b->group = g;
	b->rank = rank;
	b->screens = options->screened_head;
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
	if (!states_plan(b, error) || !rope_open(&b->rope, &weights->shape.rope, error) ||
	    !rope_open(&b->sliding_rope, &weights->shape.sliding_rope, error) || !open_device(b, error) ||
	    !fits(b, library, error) || (library && !open_cublas(b, error)) || !upload_weights(b, error))
		return false;
	b->head.prefill_is_exact = !b->cublas;
	return workspace_open(b, error) && (!b->screens || screened_open(b, error));
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
	g->cache_bytes = options->cache_bytes;
	const bool one =
	    weights->shape.attention_gated || attention_blocks(&weights->shape) < weights->shape.n_blocks;
	if (devices > 1 && one) {
		error_set(error, "several GPUs cannot share a model with recurrent blocks or gated attention: use "
		                 "one GPU or --backend cpu");
		free(g);
		return NULL;
	}
	bool done = devices_check(weights, options->device, devices, &g->nccl, error);
	g->devices = done ? devices : 0;
	done = done && choose_captures(g, error);
	for (int d = 0; d < g->devices && done; d++)
		done = open_one(g, d, weights, options, error);
	if (!done || !devices_join(g, error) || !capture_passes(g->device[0], error)) {
		close_group(g);
		return NULL;
	}
	struct backend* head = &g->device[0]->head;
	if (devices > 1) {
		const size_t used = strlen(head->name);
		snprintf(head->name + used, sizeof head->name - used, " x %d", devices);
	}
	return head;
}
