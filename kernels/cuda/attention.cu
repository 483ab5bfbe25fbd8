/* Attention of a tree's rows, cut by absolute position.
 *
 * Positions are cut into chunks of ATTENTION_CHUNK counted from 0. A block takes one row, one key/value head
 * and one chunk after another, for all query heads that share it. The number of blocks does not depend on the
 * context. The last block of a row to finish, or a second kernel, combines the chunks in order. A row sees
 * positions below its base at slots of the same number, and its own ancestors at their slots. Slots lie in
 * pages, and a thread looks its position's page up once. So a row's result depends only on its own path.
 *
 * A draft's row with a page list reads the list's pages and what lies behind them like a shorter text: its
 * chunks are cut by the place there. Of a noted row the weights are kept by page (looked.cu): a chunk has the
 * sums of its warps at hand, and combining the chunks brings them to one scale. */
#include "kernels/cuda/cuda.cuh"
#include "kernels/cuda/tensor_core.cuh"

enum { CHUNK = ATTENTION_CHUNK, HEADS_AT_ONCE = 8, BLOCKS_A_MULTIPROCESSOR = 8 };

struct attend {
	const float* q;
	float *partial, *scale;
	const float* gate; /* (rows, heads, 2, head_dim) the second halves gate the heads' outputs; NULL: none */
	int place;         /* of the block among those with keys */
	int heads, kv_heads, head_dim, block, chunks, window, first_row, rows;
	float factor, softcap;
	unsigned* done;            /* as workspace.row_done; NULL: another kernel combines the chunks */
	float *page_sums, *looked; /* of the workspace */
};

/* What a row's attention reads: places [from, end) of its text, or of the pages of its list and what lies
 * behind them. */
struct attention_reach {
	int from, end;
	bool listed;
};

__device__ __forceinline__ struct attention_reach reach_of(const struct attend& a,
                                                           const struct device_row& row) {
	if (a.window > 0)
		return {max(0, row.position + 1 - a.window), row.position + 1, false};
	if (row.list > 0)
		return {0, row.listed * LIST_POSITIONS + row.position + 1 - row.listed_from, true};
	return {0, row.position + 1, false};
}

/* Windows have no page lists. */
__device__ __forceinline__ bool is_noted(const struct attend& a, const struct device_row& row) {
	return row.noted >= 0 && a.window == 0;
}

__device__ __forceinline__ int slot_of(const struct device_slice* s, const struct device_row& row, int block,
                                       bool listed, int place) {
	int position = place;
	if (listed) {
		const int32_t* page = (const int32_t*)((const char*)s + row.list) + block * row.listed;
		if (place < row.listed * LIST_POSITIONS)
			return page[place / LIST_POSITIONS] * LIST_POSITIONS + place % LIST_POSITIONS;
		position += row.listed_from - row.listed * LIST_POSITIONS;
	}
	if (row.ancestor < 0 || position < row.base)
		return position;
	return ((const int32_t*)((const char*)s + s->ancestors))[row.ancestor + position - row.base];
}

/* Scores (HEADS_AT_ONCE, CHUNK) of up to HEADS_AT_ONCE query heads for the thread's own position; q (count,
 * head_dim), both in shared memory. Keys come 16 bytes a load if heads are whole numbers of them; the order
 * of additions is the same either way. */
__device__ __forceinline__ void score_position(float* scores, const float* q, int count, const __half* key,
                                               int head_dim) {
	float score[HEADS_AT_ONCE];
#pragma unroll
	for (int h = 0; h < HEADS_AT_ONCE; h++)
		score[h] = 0;
	const auto add_pair = [&](__half2 pair, int j) {
		const float2 k = __half22float2(pair);
#pragma unroll
		for (int h = 0; h < HEADS_AT_ONCE; h++)
			if (h < count)
				score[h] =
				    __fmaf_rn(q[h * head_dim + j + 1], k.y, __fmaf_rn(q[h * head_dim + j], k.x, score[h]));
	};
	if (head_dim % 8 == 0)
		for (int j = 0; j < head_dim; j += 8) {
			const uint4 eight = *reinterpret_cast<const uint4*>(key + j);
			const __half2* pair = reinterpret_cast<const __half2*>(&eight);
#pragma unroll
			for (int i = 0; i < 4; i++)
				add_pair(pair[i], j + 2 * i);
		}
	else
		for (int j = 0; j < head_dim; j += 2)
			add_pair(*reinterpret_cast<const __half2*>(key + j), j);
#pragma unroll
	for (int h = 0; h < HEADS_AT_ONCE; h++)
		scores[h * CHUNK + (int)threadIdx.x] = score[h];
}

/* Weighted sum of values for one head, each `to_value` elements behind its key. Threads share the dimensions
 * in pairs, and the chunk's positions in as many groups as fit; the groups are summed in order. */
__device__ void mix_values(float* out, const float* weight, const __half* const* key, size_t to_value, int n,
                           int head_dim, float* shared) {
	const int pairs = head_dim / 2, groups = CHUNK / pairs > 0 ? CHUNK / pairs : 1;
	const int group = threadIdx.x / pairs, pair = threadIdx.x % pairs;
	for (int first = 0; first < pairs; first += CHUNK) {
		float2 sum = {0, 0};
		if (group < groups && first + pair < pairs)
			for (int p = group; p < n; p += groups) {
				const float2 v =
				    __half22float2(*reinterpret_cast<const __half2*>(key[p] + to_value + 2 * (first + pair)));
				sum.x = __fmaf_rn(weight[p], v.x, sum.x);
				sum.y = __fmaf_rn(weight[p], v.y, sum.y);
			}
		__syncthreads();
		shared[2 * threadIdx.x] = sum.x;
		shared[2 * threadIdx.x + 1] = sum.y;
		__syncthreads();
		if (group == 0 && first + pair < pairs) {
			float2 all = {0, 0};
			for (int g = 0; g < groups; g++) {
				all.x += shared[2 * (g * pairs + pair)];
				all.y += shared[2 * (g * pairs + pair) + 1];
			}
			out[2 * (first + pair)] = all.x;
			out[2 * (first + pair) + 1] = all.y;
		}
	}
}

/* A noted row's weights by page: of one head, whose chunks' largest scores are at a.scale[2 · at]. A thread
 * has the same pages of each head of a group, which come in order. */
__device__ void note_head(const struct attend& a, const struct device_row& row, int h, size_t at, float most,
                          float sum) {
	const int pages = a.chunks * CHUNK_PAGES, group = a.heads / a.kv_heads;
	const float* page_sum = a.page_sums + ((size_t)row.noted * a.heads + h) * pages;
	float* looked = a.looked + (((size_t)a.block * NOTED_ROWS + row.noted) * a.kv_heads + h / group) * pages;
	for (int p = threadIdx.x; p <= row.position / LIST_POSITIONS; p += blockDim.x) {
		const float factor = __expf(__ldcg(&a.scale[2 * (at + p / CHUNK_PAGES)]) - most) / sum;
		const float x = __ldcg(&page_sum[p]) * factor;
		looked[p] = h % group == 0 ? x : looked[p] + x;
	}
}

/* The chunks of row `of` of the launch, of one head, in order. The loads bypass the first-level cache,
 * because other blocks wrote the data. */
template <class T>
__device__ void combine_head(const struct attend& a, T* out, const struct device_row& row, int of, int h) {
	const size_t at = ((size_t)of * a.heads + h) * a.chunks, r = (size_t)of + a.first_row;
	const struct attention_reach reach = reach_of(a, row);
	const int from = reach.from, last = reach.end - 1;
	float most = -INFINITY, sum = 0;
	for (int c = from / CHUNK; c <= last / CHUNK; c++)
		most = fmaxf(most, __ldcg(&a.scale[2 * (at + c)]));
	for (int c = from / CHUNK; c <= last / CHUNK; c++)
		sum += __ldcg(&a.scale[2 * (at + c) + 1]) * __expf(__ldcg(&a.scale[2 * (at + c)]) - most);
	for (int j = threadIdx.x; j < a.head_dim; j += blockDim.x) {
		float x = 0;
		for (int c = from / CHUNK; c <= last / CHUNK; c++)
			x = __fmaf_rn(__expf(__ldcg(&a.scale[2 * (at + c)]) - most),
			              __ldcg(&a.partial[(at + c) * a.head_dim + j]), x);
		const size_t head = (size_t)r * a.heads + h;
		const float gate = a.gate ? 1.0f + __expf(-a.gate[(2 * head + 1) * a.head_dim + j]) : 1.0f;
		out[head * a.head_dim + j] = to_activation<T>(x / sum / gate);
	}
	if (is_noted(a, row))
		note_head(a, row, h, at, most, sum);
}

/* Those of the heads that share a key/value head. */
template <class T>
__device__ void combine_group(const struct attend& a, T* out, const struct device_row& row, int of, int kv) {
	const int group = a.heads / a.kv_heads;
	for (int h = kv * group; h < (kv + 1) * group; h++)
		combine_head(a, out, row, of, h);
}

/* Chunk `nth` of those that row `of` of the launch sees, for one key/value head. */
template <class T>
__device__ void attend_chunk(const struct attend& a, T* out, const struct device_slice* s, int of, int kv,
                             int nth, float* dynamic) {
	__shared__ float weight[CHUNK], shared[2 * CHUNK], scores[HEADS_AT_ONCE * CHUNK];
	__shared__ const __half* key[CHUNK]; /* of a position of the chunk */
	const int r = of + a.first_row, hd = a.head_dim;
	const struct device_row& row = s->row[r];
	const struct attention_reach reach = reach_of(a, row);
	const int chunk = reach.from / CHUNK + nth;
	const int begin = max(chunk * CHUNK, reach.from), end = min((chunk + 1) * CHUNK, reach.end),
	          n = end - begin;
	if (n <= 0)
		return;
	const size_t to_value = (size_t)a.kv_heads * PAGE_SLOTS * hd;
	if ((int)threadIdx.x < n)
		key[threadIdx.x] = at_slot(s, row, slot_of(s, row, a.block, reach.listed, begin + (int)threadIdx.x),
		                           2 * a.place * a.kv_heads + kv, hd);
	const int group = a.heads / a.kv_heads;
	for (int h0 = 0; h0 < group; h0 += HEADS_AT_ONCE) {
		const int count = min(HEADS_AT_ONCE, group - h0), first = kv * group + h0;
		__syncthreads();
		for (int j = threadIdx.x; j < count * hd; j += CHUNK)
			dynamic[j] = a.q[((size_t)r * a.heads + first) * hd + j];
		__syncthreads();
		if ((int)threadIdx.x < n) /* each thread reads its own scores alone */
			score_position(scores, dynamic, count, key[threadIdx.x], hd);
		for (int h = 0; h < count; h++) {
			float x = -INFINITY;
			if ((int)threadIdx.x < n) {
				x = scores[h * CHUNK + (int)threadIdx.x] * a.factor;
				if (a.softcap > 0)
					x = a.softcap * tanhf(x / a.softcap);
			}
			const float most = block_max(x, shared);
			const float e = (int)threadIdx.x < n ? __expf(x - most) : 0.0f;
			const float sum = block_sum(e, shared);
			weight[threadIdx.x] = e;
			if (is_noted(a, row) && threadIdx.x < CHUNK_PAGES) { /* two warps have a page's positions */
				const size_t page = ((size_t)row.noted * a.heads + first + h) * a.chunks + chunk;
				a.page_sums[page * CHUNK_PAGES + threadIdx.x] =
				    shared[2 * threadIdx.x] + shared[2 * threadIdx.x + 1];
			}
			__syncthreads();
			const size_t at = ((size_t)of * a.heads + first + h) * a.chunks + chunk;
			mix_values(a.partial + at * hd, weight, key, to_value, n, hd, shared);
			if (threadIdx.x == 0) {
				a.scale[2 * at] = most;
				a.scale[2 * at + 1] = sum;
			}
			__syncthreads();
		}
	}
	unsigned* done = a.done ? &a.done[(size_t)of * a.kv_heads + kv] : NULL;
	if (done && is_last_block(done, (reach.end - 1) / CHUNK - reach.from / CHUNK + 1))
		combine_group(a, out, row, of, kv);
}

/* The largest number of chunks of a window's positions, for any context. */
__device__ __forceinline__ int chunks_in_use(const struct attend& a, const struct device_slice* s) {
	return a.window > 0 ? min(s->chunks, (a.window - 1) / CHUNK + 2) : s->read_chunks;
}

/* Four blocks a multiprocessor: 64 registers. */
template <class T>
__global__ void __launch_bounds__(CHUNK, 4)
    attend_kernel(struct attend a, T* out, const struct device_slice* s) {
	extern __shared__ float dynamic[]; /* q (HEADS_AT_ONCE, head_dim) */
	wait_for_inputs();
	if (leaves_out(s, 2 * a.block))
		return;
	const int rows = min(a.rows, s->n - a.first_row), all = rows * a.kv_heads * chunks_in_use(a, s);
	for (int i = blockIdx.x; i < all; i += gridDim.x) {
		attend_chunk(a, out, s, i / a.kv_heads % rows, i % a.kv_heads, i / a.kv_heads / rows, dynamic);
		__syncthreads(); /* before the next chunk's keys take the place of this one's */
	}
}

template <class T> __global__ void combine_kernel(struct attend a, T* out, const struct device_slice* s) {
	const int r = blockIdx.y + a.first_row;
	wait_for_inputs();
	if (r >= s->n || leaves_out(s, 2 * a.block))
		return;
	combine_group(a, out, s->row[r], (int)blockIdx.y, (int)blockIdx.x);
}

void launch_attention(const struct cuda_backend* b, int rows, int block, int first_row) {
	const struct model_shape* m = &b->shape;
	const int window = block_set_has(&m->sliding, block) ? m->sliding_window : 0;
	const float scale = m->attention_scale;
	unsigned* done = b->launches == LAUNCHES_SEPARATE ? NULL : b->work.row_done;
	const float* gate = m->attention_gated ? b->work.recurrent.made : NULL;
	const struct attend a = {b->work.q, b->work.partial,   b->work.scale, gate,  b->place[block],
	                         m->heads,  m->kv_heads,       m->head_dim,   block, b->chunks,
	                         window,    first_row,         rows,          scale, m->attention_softcap,
	                         done,      b->work.page_sums, b->work.looked};
	const int all = m->kv_heads * rows * b->chunks, most = b->multiprocessors * BLOCKS_A_MULTIPROCESSOR;
	by_activation(b, [&](auto type) {
		using T = decltype(type);
		T* out = (T*)(is_alone(b) ? b->work.mixed : b->work.part);
		launch(b, dim3((unsigned)(all < most ? all : most)), CHUNK,
		       HEADS_AT_ONCE * (size_t)m->head_dim * sizeof(float), attend_kernel<T>, a, out, b->slice);
		if (!a.done)
			launch(b, dim3((unsigned)m->kv_heads, (unsigned)rows), 128, 0, combine_kernel<T>, a, out,
			       b->slice);
	});
}
