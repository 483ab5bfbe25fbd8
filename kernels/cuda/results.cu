/* From logits to a row's results: token, best alternatives, probabilities, sum_exp.
 *
 * First each segment of RESULT_SEGMENT ids gets its maximum, sum and best. Then one block a row joins them in
 * order. With a sampler the row's scores are made before: filters count in integers, so that the order of
 * additions cannot matter, and the noise is the counter-based one of the CPU (kernels/noise.h). */
#include "kernels/cuda/cuda.cuh"
#include "kernels/noise.h"

enum { THREADS = 256, EACH = RESULT_SEGMENT / THREADS, LEVELS = 3, BINS = 2048 };
/* One block filters a row and reads the whole row a dozen times, so it has as many threads as possible. */
enum { SAMPLE_THREADS = 1024, SAMPLE_WARPS = SAMPLE_THREADS / 32, OWN_BINS = BINS / SAMPLE_THREADS };

/* ---- finishing the logits ----------------------------------------------------------------- */

__global__ void softcap_kernel(float* logits, float cap, int vocab, const struct device_slice* s) {
	const int v = (int)(blockIdx.x * blockDim.x + threadIdx.x);
	if (blockIdx.y >= (unsigned)s->n || v >= vocab)
		return;
	float* x = &logits[(size_t)blockIdx.y * vocab + v];
	*x = cap * tanhf(*x / cap);
}

/* ---- sampling ----------------------------------------------------------------------------- */

/* Weights are summed as integers in units of 2^-40, whose sum is the same in any order. */
__device__ __forceinline__ unsigned long long weigh(float processed, bool weighted) {
	return weighted ? (unsigned long long)(noise_exp(processed) * 1099511627776.0f) : 1ull;
}

/* The sum of the block's numbers, and that of the threads before this one. They are whole numbers, so any
 * order is exact. */
struct running {
	unsigned long long before, all;
};
__device__ struct running block_running(unsigned long long mine, unsigned long long* shared) {
	const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	unsigned long long upto = mine;
	for (unsigned step = 1; step < 32; step *= 2) {
		const unsigned long long lower = __shfl_up_sync(0xffffffffu, upto, step);
		upto += lane >= step ? lower : 0;
	}
	__syncthreads();
	if (lane == 31)
		shared[warp] = upto;
	__syncthreads();
	struct running out = {upto - mine, 0};
	for (unsigned i = 0; i < blockDim.x / 32; i++) {
		out.before += i < warp ? shared[i] : 0;
		out.all += shared[i];
	}
	return out;
}

/* Adds the warp's numbers to its bins. A few bins hold nearly all improbable tokens, so lanes with the same
 * bin add up before one of them writes to memory. Numbers are below 2^42, in two parts. */
__device__ __forceinline__ void add_to_bin(unsigned long long* bins, uint32_t bin,
                                           unsigned long long weight) {
	const unsigned peers = __match_any_sync(0xffffffffu, bin);
	const unsigned low = __reduce_add_sync(peers, (unsigned)(weight & 0xfffffu));
	const unsigned high = __reduce_add_sync(peers, (unsigned)(weight >> 20));
	const unsigned long long sum = (unsigned long long)low + ((unsigned long long)high << 20);
	if (sum > 0 && threadIdx.x % 32 == (unsigned)__ffs((int)peers) - 1)
		atomicAdd(&bins[bin], sum);
}

struct sampling_cut {
	uint32_t key;
	int ties;
};

/* The shared memory of a block that finds a cut. */
struct finding {
	unsigned long long bins[BINS], sums[SAMPLE_WARPS], above, one;
	uint32_t prefix, last;
};

/* The first bin at whose end the sum reaches the target, at most the last one with content. The content
 * above it is added to f->above. Every thread has OWN_BINS neighbouring bins. */
__device__ uint32_t find_bin(struct finding* f, unsigned long long target) {
	const uint32_t first = threadIdx.x * OWN_BINS;
	unsigned long long mine = 0;
	for (int i = 0; i < OWN_BINS; i++)
		mine += f->bins[first + i];
	if (threadIdx.x == 0)
		f->last = 0;
	unsigned long long reached = f->above + block_running(mine, f->sums).before;
	/* weights are not negative: the bins that fall short of the target are the leading ones */
	uint32_t found = 0;
	for (int i = 0; i < OWN_BINS; i++) {
		const unsigned long long upto = reached + f->bins[first + i];
		if (f->bins[first + i] > 0 && (reached < target || reached == f->above))
			found = first + i;
		reached = upto;
	}
	atomicMax(&f->last, found);
	__syncthreads();
	return f->last;
}

/* The last key that is needed for the weights, from the most probable on, to reach the target. */
__device__ struct sampling_cut find_cut(const float* x, int vocab, bool weighted, unsigned long long target,
                                        struct finding* f) {
	const int shift[LEVELS] = {20, 10, 0};
	uint32_t known = 0;
	__syncthreads();
	if (threadIdx.x == 0) {
		f->prefix = 0;
		f->above = 0;
		f->one = 1;
	}
	for (int level = 0; level < LEVELS; level++) {
		const uint32_t within = level == 0 ? 0x7ff : 0x3ff;
		for (int i = threadIdx.x; i < BINS; i += blockDim.x)
			f->bins[i] = 0;
		__syncthreads();
		for (int from = 0; from < vocab; from += blockDim.x) {
			const int v = from + (int)threadIdx.x;
			const uint32_t key = v < vocab ? bits_from_float(x[v]) & 0x7fffffffu : 0;
			const bool counts = v < vocab && (key & known) == f->prefix;
			add_to_bin(f->bins, key >> shift[level] & within, counts ? weigh(x[v], weighted) : 0);
		}
		__syncthreads();
		const uint32_t bin = find_bin(f, target);
		unsigned long long lower = 0;
		for (int i = 0; i < OWN_BINS; i++)
			lower += threadIdx.x * OWN_BINS + i < bin ? f->bins[threadIdx.x * OWN_BINS + i] : 0;
		lower = block_running(lower, f->sums).all;
		if (threadIdx.x == 0) {
			f->above += lower;
			f->prefix |= bin << shift[level];
		}
		known |= within << shift[level];
		__syncthreads();
	}
	for (int v = threadIdx.x; v < vocab && weighted; v += blockDim.x)
		if ((bits_from_float(x[v]) & 0x7fffffffu) == f->prefix)
			f->one = weigh(x[v], true); /* the same value whoever writes it */
	__syncthreads();
	struct sampling_cut cut;
	cut.key = f->prefix;
	const unsigned long long left = target > f->above ? target - f->above : 0;
	const unsigned long long ties = f->one > 0 ? (left + f->one - 1) / f->one : 1;
	cut.ties = ties < 1 ? 1 : ties < (unsigned long long)vocab ? (int)ties : vocab;
	return cut;
}

/* Keeps what is above the cut, and of the ties the lowest ids: every thread owns a run of ids. */
__device__ void apply_cut(float* x, int vocab, struct sampling_cut cut, unsigned long long* shared) {
	const int each = (vocab + (int)blockDim.x - 1) / (int)blockDim.x, first = (int)threadIdx.x * each;
	const int end = min(first + each, vocab);
	unsigned long long mine = 0;
	for (int v = first; v < end; v++)
		mine += (bits_from_float(x[v]) & 0x7fffffffu) == cut.key;
	unsigned long long before = block_running(mine, shared).before;
	for (int v = first; v < end; v++) {
		const uint32_t key = bits_from_float(x[v]) & 0x7fffffffu;
		if (key > cut.key || (key == cut.key && before++ >= (unsigned long long)cut.ties))
			x[v] = -INFINITY;
	}
	__syncthreads();
}

__global__ void __launch_bounds__(SAMPLE_THREADS)
    sample_kernel(float* score, const float* logits, int vocab, const struct device_slice* s) {
	__shared__ struct finding f;
	__shared__ float shared[SAMPLE_WARPS];
	if (blockIdx.x >= (unsigned)s->n || !s->row[blockIdx.x].want || !s->row[blockIdx.x].sampled)
		return;
	const struct device_row& row = s->row[blockIdx.x];
	const struct sampler p = row.sampler;
	const float* in = logits + (size_t)blockIdx.x * vocab;
	float* x = score + (size_t)blockIdx.x * vocab;
	float most = -INFINITY;
	for (int v = threadIdx.x; v < vocab; v += blockDim.x)
		most = fmaxf(most, in[v]);
	most = block_max(most, shared);
	for (int v = threadIdx.x; v < vocab; v += blockDim.x)
		x[v] = noise_score(in[v], most, p.temperature, 0);
	__syncthreads();
	if (p.top_k > 0 && p.top_k < vocab)
		apply_cut(x, vocab, find_cut(x, vocab, false, (unsigned long long)p.top_k, &f), f.sums);
	if (p.top_p < 1) {
		unsigned long long mine = 0;
		for (int v = threadIdx.x; v < vocab; v += blockDim.x)
			mine += weigh(x[v], true);
		const unsigned long long total = block_running(mine, f.sums).all;
		const unsigned long long target = (unsigned long long)((double)p.top_p * (double)total);
		apply_cut(x, vocab, find_cut(x, vocab, true, target, &f), f.sums);
	}
	for (int v = threadIdx.x; v < vocab; v += blockDim.x) {
		if (p.min_p > 0 && noise_exp(x[v]) < p.min_p)
			x[v] = -INFINITY;
		if (x[v] == -INFINITY)
			continue;
		const struct noise_words words =
		    noise_philox(p.seed, p.sequence, (uint32_t)(row.position + 1), (uint32_t)v / 4);
		x[v] += noise_gumbel(words.word[v % 4]);
	}
}

/* ---- choosing ----------------------------------------------------------------------------- */

struct choosing {
	const float *logits, *score;
	float *sums, *top_score;
	int32_t* top_token;
	int vocab, segments;
};

__device__ __forceinline__ const float* scores_of(const struct choosing& c, const struct device_slice* s,
                                                  int row) {
	return (s->row[row].sampled ? c.score : c.logits) + (size_t)row * c.vocab;
}

__device__ __forceinline__ int wanted(const struct device_row& row) {
	return row.want & WANT_TOP ? min(max(row.top, 1), (int)MAX_TOP) : 1;
}

__global__ void segment_kernel(struct choosing c, const struct device_slice* s) {
	__shared__ float shared[THREADS / 32];
	__shared__ struct scored_token best[THREADS / 32];
	const int r = blockIdx.y, first = (int)blockIdx.x * RESULT_SEGMENT;
	if (r >= s->n || !s->row[r].want)
		return;
	const float *logits = c.logits + (size_t)r * c.vocab, *score = scores_of(c, s, r);
	float most = -INFINITY, sum = 0, mine[EACH];
	for (int i = 0; i < EACH; i++) {
		const int v = first + i * THREADS + (int)threadIdx.x;
		most = v < c.vocab ? fmaxf(most, logits[v]) : most;
		mine[i] = v < c.vocab ? score[v] : -INFINITY;
	}
	most = block_max(most, shared);
	bool finite = true;
	for (int i = 0; i < EACH; i++) {
		const int v = first + i * THREADS + (int)threadIdx.x;
		if (v < c.vocab) {
			finite = finite && isfinite(logits[v]);
			sum += noise_exp(logits[v] - most);
		}
	}
	sum = block_sum(sum, shared);
	const int good = __syncthreads_and(finite);
	const size_t at = (size_t)r * c.segments + blockIdx.x;
	if (threadIdx.x == 0) {
		c.sums[2 * at] = good ? most : NAN;
		c.sums[2 * at + 1] = sum;
	}
	for (int k = 0; k < wanted(s->row[r]); k++) {
		struct scored_token top = {-INFINITY, INT32_MAX};
		for (int i = 0; i < EACH; i++) {
			const struct scored_token here = {mine[i], first + i * THREADS + (int32_t)threadIdx.x};
			if (mine[i] > -INFINITY)
				top = better(top, here);
		}
		top = block_best(top, best);
		if (threadIdx.x == 0) {
			c.top_score[at * MAX_TOP + k] = top.score;
			c.top_token[at * MAX_TOP + k] = top.token;
		}
		for (int i = 0; i < EACH; i++)
			if (first + i * THREADS + (int32_t)threadIdx.x == top.token)
				mine[i] = -INFINITY;
	}
}

__global__ void join_kernel(struct choosing c, const struct device_slice* s, struct device_result* out) {
	__shared__ struct scored_token best[THREADS / 32];
	__shared__ float most, sum;
	const int r = blockIdx.x;
	if (r >= s->n || !s->row[r].want)
		return;
	const struct device_row& row = s->row[r];
	struct device_result* result = &out[s->steps > 0 ? s->steps - 1 : r];
	const size_t at = (size_t)r * c.segments;
	if (threadIdx.x == 0) {
		bool finite = true;
		most = -INFINITY;
		sum = 0;
		for (int i = 0; i < c.segments; i++) {
			finite = finite && isfinite(c.sums[2 * (at + i)]);
			most = fmaxf(most, c.sums[2 * (at + i)]);
		}
		for (int i = 0; i < c.segments; i++)
			sum += c.sums[2 * (at + i) + 1] * noise_exp(c.sums[2 * (at + i)] - most);
		result->finite = finite;
		result->survivors = s->survivors;
		result->log_sum_exp = most + noise_log(sum);
		result->max_probability = 1.0f / sum;
	}
	__syncthreads();
	struct scored_token last = {INFINITY, -1};
	int n = 0;
	for (; n < wanted(row); n++) {
		struct scored_token top = {-INFINITY, INT32_MAX};
		for (int i = threadIdx.x; i < c.segments * wanted(row); i += blockDim.x) {
			const size_t from = (at + i / wanted(row)) * MAX_TOP + i % wanted(row);
			const struct scored_token here = {c.top_score[from], c.top_token[from]};
			const bool after =
			    here.score < last.score || (here.score == last.score && here.token > last.token);
			if (here.score > -INFINITY && after)
				top = better(top, here);
		}
		last = block_best(top, best);
		if (last.token == INT32_MAX)
			break;
		if (threadIdx.x == 0) {
			result->top_token[n] = last.token;
			result->top_probability[n] = noise_exp(c.logits[(size_t)r * c.vocab + last.token] - most) / sum;
		}
	}
	if (threadIdx.x == 0) {
		result->top = n;
		result->token = n > 0 ? result->top_token[0] : 0;
	}
}

void launch_results(const struct cuda_backend* b, int rows, struct device_result* out) {
	const struct workspace* w = &b->work;
	const int vocab = b->shape.vocab;
	if (b->shape.logit_softcap > 0)
		softcap_kernel<<<dim3((unsigned)((vocab + THREADS - 1) / THREADS), (unsigned)rows), THREADS, 0,
		                 b->stream>>>(w->logits, b->shape.logit_softcap, vocab, b->slice);
	sample_kernel<<<rows, SAMPLE_THREADS, 0, b->stream>>>(w->score, w->logits, vocab, b->slice);
	const struct choosing c = {w->logits,    w->score, w->segment_sum, w->top_score,
	                           w->top_token, vocab,    b->segments};
	segment_kernel<<<dim3((unsigned)b->segments, (unsigned)rows), THREADS, 0, b->stream>>>(c, b->slice);
	join_kernel<<<rows, THREADS, 0, b->stream>>>(c, b->slice, out);
}
