/* The screened head on the device: as on a CPU (kernels/cpu/screened_head.h), the rows of the output head
 * that cannot have the largest logit are not computed.
 *
 * A pass multiplies a coarse copy of the head in four bits. A row of the copy has a slack: how far the logit,
 * as the head's kernel gives it, can lie from the coarse one, for activations of length 1. Then, for each
 * row of the pass, the best coarse one is computed as stored; and all that may reach it are, by the same
 * instructions in the same order. So the largest logit, who has it and which others have it too are what the
 * whole head gives, to the bit; the others are near what they are. A row's result depends on no other.
 *
 * The bound. Both products read the same activations x, so that w·x and v·x, of a stored row w and its coarse
 * one v, differ by at most |w - v| |x|. Products are exact in the tensor core, and its sums are truncated:
 * at most two units u = 2^-24 of a product for each of the 17 that an instruction adds up (Fasi et al. 2021,
 * Numerical behavior of NVIDIA tensor cores), so that what it gives for w differs from w·x by at most
 * e |w| |x| with e = 4 (cols + 64) u, scales and warps' sums included; and for v = s·q + m, whose two parts
 * are summed apart, by e (|s·q| + |m|) |x|. Half of e would do: the rest is for what comparing rounds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/product.cuh"
#include "kernels/synth_block.h"

enum { THREADS = WARPS * 32, LONGEST_REST = 1024 };
/* The cost of two more launches, one of which waits for its last block, in bytes of memory's time. */
enum { LEAST_SAVED = 24 << 20 };

/* How far a row's logits may lie from the coarse ones, by their slack, and what the largest reaches. */
struct screened_reach {
	float near, threshold;
};

/* ---- the copy ----------------------------------------------------------------------------- */

/* Beyond this nothing is screened: sums might overflow. */
__device__ static const float longest = 1e18f;

__device__ static float length_above(float squares) { return sqrtf(squares) * 1.001f + 1e-18f; }

/* A group of 32 columns as q4_1 in its planes; adds up squares: of what is left, the weights, s·q and m. */
__device__ static void make_group(const struct matrix& coarse, const struct matrix& w, int row, int group,
                                  float square[4]) {
	struct block_q4_1 block;
	float x[UNIT];
	__half2 both;
	for (int i = 0; i < UNIT; i++)
		x[i] = element_of(w, row, group * UNIT + i);
	synth_q4_1(&block, x);
	unsigned char* data =
	    static_cast<unsigned char*>(coarse.data) + (size_t)row * units_of<true>(coarse) * UNIT_BYTES;
	unsigned char* scale = static_cast<unsigned char*>(coarse.scale) +
	                       ((size_t)row * (coarse.cols / UNIT) + group) * sizeof both;
	memcpy(&both, &block, sizeof both);
	memcpy(scale, &both, sizeof both);
	const float2 s = __half22float2(both);
	for (int i = 0; i < UNIT; i++) {
		const struct nibble_place at = nibble_place(group, i, false);
		const int value = nibble(block.q, i);
		data[at.byte] = (unsigned char)((at.shift ? data[at.byte] : 0) | value << at.shift);
		const float scaled = s.x * (float)value, left = x[i] - (scaled + s.y);
		square[0] += left * left;
		square[1] += x[i] * x[i];
		square[2] += scaled * scaled;
		square[3] += s.y * s.y;
	}
}

/* A block a row. */
__global__ void coarse_kernel(struct matrix coarse, float* slack, struct matrix w, unsigned* bad) {
	__shared__ float shared[WARPS];
	const int row = (int)blockIdx.x;
	const float e = 4.0f * (float)(w.cols + 64) * 0x1p-24f;
	float square[4] = {}, length[4];
	for (int g = (int)threadIdx.x; g < w.cols / UNIT; g += THREADS)
		make_group(coarse, w, row, g, square);
	bool good = true;
	for (int i = 0; i < 4; i++) {
		length[i] = length_above(block_sum(square[i], shared));
		good = good && length[i] < longest; /* what is not a number is not */
	}
	if (threadIdx.x == 0) {
		slack[row] = 1.001f * (length[0] + e * (length[1] + length[2] + length[3]));
		if (!good)
			atomicMax(bad, 1u);
	}
}

/* SWIFTLET_CUDA_HEAD=screened: whatever it saves. */
static bool is_worth_it(const struct cuda_backend* b, size_t stored, size_t coarse) {
	const char* wish = getenv("SWIFTLET_CUDA_HEAD");
	return b->screens && ((wish && strcmp(wish, "screened") == 0) || stored >= coarse + LEAST_SAVED);
}

size_t screened_room(const struct cuda_backend* b) {
	const struct tensor* w = &b->head.weights->output;
	const size_t rows = (size_t)w->rows, cols = (size_t)w->cols;
	const size_t stored = rows * (w->type == DTYPE_Q8_0 ? dtype_row_bytes(DTYPE_Q8_0, w->cols) : 2 * cols);
	const struct planes p = planes_of(DTYPE_Q4_1, w->cols);
	const size_t coarse = rows * (p.data + p.scale + sizeof(float));
	const bool serves = w->type == DTYPE_Q8_0 || !kept_as_stored(w->type);
	if (!serves || !is_alone(b) || b->shape.logit_softcap > 0 || !is_worth_it(b, stored, coarse))
		return 0;
	return coarse + SLICE_ROWS * (sizeof(struct screened_reach) + sizeof(unsigned)) + 5 * 256;
}

static bool take_rooms(struct cuda_backend* b) {
	struct device_screened* c = &b->screened;
	struct error none;
	const char* what = "a coarse copy of the head";
	const size_t rows = (size_t)b->output.stored.rows;
	if (!take_matrix(b, DTYPE_Q4_1, b->output.stored.rows, b->output.stored.cols, &c->coarse, what, &none))
		return false;
	c->slack = (float*)cuda_take(b, rows * sizeof *c->slack, what, &none);
	c->reach = (struct screened_reach*)cuda_take(b, SLICE_ROWS * sizeof *c->reach, what, &none);
	c->done = (unsigned*)cuda_take(b, SLICE_ROWS * sizeof *c->done, what, &none);
	return c->slack && c->reach && c->done;
}

bool screened_open(struct cuda_backend* b, struct error* error) {
	struct device_screened* c = &b->screened;
	const size_t room = screened_room(b);
	const int before = b->n_allocations;
	unsigned bad = 1;
	if (take_rooms(b)) {
		CUDA_TRY(cudaMemsetAsync(c->done, 0, SLICE_ROWS * sizeof *c->done, b->stream), error);
		coarse_kernel<<<(unsigned)b->output.stored.rows, THREADS, 0, b->stream>>>(c->coarse, c->slack,
		                                                                          b->output.stored, c->done);
		CUDA_TRY(cudaGetLastError(), error);
		CUDA_TRY(cudaMemcpyAsync(&bad, c->done, sizeof bad, cudaMemcpyDeviceToHost, b->stream), error);
		CUDA_TRY(cudaStreamSynchronize(b->stream), error);
	}
	if (!bad)
		b->head.screened_bytes = room;
	else {
		cuda_give_back(b, before);
		*c = {};
	}
	return true;
}

/* ---- which passes ------------------------------------------------------------------------- */

/* True when only the row's largest logit is wanted, and the others' order at most as a guess; and for rows of
 * a draft loop. */
static bool serves(const struct cuda_backend* b, int i, const struct device_row* row) {
	const int may = row->want & WANT_ROUGH ? WANT_TOKEN | WANT_TOP | WANT_ROUGH : WANT_TOKEN;
	return !row->want || row->want & WANT_GUESS ||
	       (!(row->want & ~may) && !row->sampled && !b->of_row[i]->penalties && !b->allowed[i]);
}

enum head_matrix head_for(struct cuda_backend* b, const struct device_slice* s, bool quantized_head) {
	struct device_screened* c = &b->screened;
	if (quantized_head)
		return HEAD_QUANTIZED;
	bool all = c->coarse.rows > 0;
	for (int i = 0; i < s->n && all; i++)
		all = serves(b, i, &s->row[i]);
	if (all && c->resting > 0)
		c->resting--;
	return all && c->resting == 0 ? HEAD_COARSE : HEAD_STORED;
}

/* Rows that are read here and there may make it dearer than the whole head: then it rests for a while. */
void screened_weigh(struct cuda_backend* b, unsigned survivors) {
	static const double part = 0.05, scattered = 2;
	struct device_screened* c = &b->screened;
	const struct planes stored = planes_of(b->output.stored.type, b->output.stored.cols);
	const struct planes coarse = planes_of(DTYPE_Q4_1, b->output.stored.cols);
	const double share = (double)(coarse.data + coarse.scale) / (double)(stored.data + stored.scale);
	c->cost += part * (share + scattered * survivors / b->output.stored.rows - c->cost);
	if (c->cost > 1) {
		c->resting = LONGEST_REST;
		c->cost = share;
	}
}

/* ---- a pass ------------------------------------------------------------------------------- */

struct screening {
	struct matrix head; /* as stored */
	const float* slack;
	float* logits; /* (n, vocab) coarse ones, which become exact where they have to be */
	float* best_score;
	int32_t* best_token; /* (SLICE_ROWS, segments) */
	struct screened_reach* reach;
	unsigned* done;
	int segments;
};

/* Comparisons with what is not a number say yes. */
__device__ __forceinline__ bool may_win(const struct screening& c, int r, int v) {
	const struct screened_reach reach = c.reach[r];
	return !(c.logits[(size_t)r * c.head.rows + v] + c.slack[v] * reach.near < reach.threshold);
}

/* The row's best coarse one, as stored: what the others have to reach. */
template <class T>
__device__ void take_reach(const struct screening& c, const T* x, int r, struct scored_token* best,
                           float* shared) {
	const int dim = c.head.cols, warp = (int)threadIdx.x / 32;
	const size_t at = (size_t)r * c.segments;
	struct scored_token mine = {-INFINITY, 0};
	float squares = 0, acc[1][4];
	for (int i = threadIdx.x; i < c.segments; i += THREADS)
		mine = better(mine, {__ldcg(&c.best_score[at + i]), __ldcg(&c.best_token[at + i])});
	const int row = block_best(mine, best).token;
	x += (size_t)r * dim;
	for (int j = threadIdx.x; j < dim; j += THREADS)
		squares += to_float(x[j]) * to_float(x[j]);
	const float length = length_above(block_sum(squares, shared));
	__syncthreads();
	accumulate<T, 1, true, false>(acc, c.head, {row, row}, warp, {x, NULL, NULL, 0, 1, dim});
	spill<1>(shared, warp, 8, acc);
	__syncthreads();
	if (threadIdx.x == 0)
		c.reach[r] = {length < longest ? length : INFINITY, gather<1>(shared, 0, 0) - 1e-24f};
}

template <class T>
__global__ void __launch_bounds__(THREADS)
    best_kernel(struct screening c, const T* x, const struct device_slice* s) {
	__shared__ struct scored_token best[WARPS];
	__shared__ float shared[WARPS * TILE * 8];
	const int r = (int)blockIdx.y, first = (int)blockIdx.x * RESULT_SEGMENT;
	if (r >= s->n || s->head != HEAD_COARSE || !s->row[r].want)
		return;
	const float* logits = c.logits + (size_t)r * c.head.rows;
	struct scored_token mine = {-INFINITY, first};
	for (int v = first + (int)threadIdx.x; v < min(first + RESULT_SEGMENT, c.head.rows); v += THREADS)
		mine = better(mine, {logits[v], v});
	mine = block_best(mine, best);
	if (threadIdx.x == 0) {
		c.best_score[(size_t)r * c.segments + blockIdx.x] = mine.score;
		c.best_token[(size_t)r * c.segments + blockIdx.x] = mine.token;
	}
	if (is_last_block(&c.done[r], c.segments))
		take_reach(c, x, r, best, shared);
}

/* The ids of the block's, one a thread, that may win in some row of the slice, ascending; how many. */
__device__ static int list_survivors(const struct screening& c, const struct device_slice* s, int32_t* id,
                                     int* count) {
	const int v = (int)blockIdx.x * THREADS + (int)threadIdx.x, warp = (int)threadIdx.x / 32;
	bool may = false;
	for (int r = 0; r < s->n && v < c.head.rows && !may; r++)
		may = s->row[r].want && may_win(c, r, v);
	const unsigned lanes = __ballot_sync(0xffffffffu, may);
	if (threadIdx.x % 32 == 0)
		count[warp] = __popc(lanes);
	__syncthreads();
	int before = 0, all = 0;
	for (int i = 0; i < WARPS; i++) {
		before += i < warp ? count[i] : 0;
		all += count[i];
	}
	if (may)
		id[before + __popc(lanes & ((1u << threadIdx.x % 32) - 1))] = v;
	__syncthreads();
	return all;
}

template <class T, int TILES>
__global__ void __launch_bounds__(THREADS, blocks_at_once(TILES, true))
    exact_kernel(struct screening c, const T* x, struct device_slice* s) {
	__shared__ float shared[WARPS * TILE * 8 * TILES];
	__shared__ int32_t id[THREADS];
	__shared__ int count[WARPS];
	if (s->n == 0 || s->head != HEAD_COARSE)
		return;
	const int n = list_survivors(c, s, id, count), group = (int)threadIdx.x % 32 / 4;
	const struct input in = {x, NULL, NULL, 0, s->n, c.head.cols};
	for (int first = 0; first < n; first += TILE) {
		const struct lane_rows rows = {id[min(first + group, n - 1)], id[min(first + group + 8, n - 1)]};
		float acc[TILES][4];
		accumulate<T, TILES, true, false>(acc, c.head, rows, (int)threadIdx.x / 32, in);
		spill<TILES>(shared, (int)threadIdx.x / 32, 8 * TILES, acc);
		__syncthreads();
		for (int i = threadIdx.x; i < TILE * 8 * TILES; i += THREADS) {
			const int at = first + i % TILE, r = i / TILE;
			if (at < n && r < s->n && s->row[r].want && may_win(c, r, id[at]))
				c.logits[(size_t)r * c.head.rows + id[at]] = gather<TILES>(shared, i % TILE, r);
		}
		__syncthreads();
	}
	if (threadIdx.x == 0 && n > 0)
		atomicAdd(&s->survivors, (unsigned)n);
}

void launch_screened(const struct cuda_backend* b, int bucket) {
	const struct device_screened* of = &b->screened;
	const struct workspace* w = &b->work;
	const struct screening c = {b->output.stored, of->slack, w->logits, w->top_score,
	                            w->top_token,     of->reach, of->done,  b->segments};
	const unsigned blocks = (unsigned)((c.head.rows + THREADS - 1) / THREADS);
	if (of->coarse.rows == 0)
		return;
	by_activation(b, [&](auto type) {
		using T = decltype(type);
		const T* x = (const T*)w->normed;
		best_kernel<<<dim3((unsigned)c.segments, (unsigned)(8 * bucket)), THREADS, 0, b->stream>>>(c, x,
		                                                                                           b->slice);
		by_tiles(bucket, [&](auto tiles) {
			exact_kernel<T, decltype(tiles)::value><<<blocks, THREADS, 0, b->stream>>>(c, x, b->slice);
		});
	});
}
