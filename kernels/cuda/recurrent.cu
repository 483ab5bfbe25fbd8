/* The kernels of recurrent blocks (recurrent.cuh): the convolution, the steps through the states, the gate.
 *
 * A unit's warp takes eight lanes a column, of which each has every eighth element. Sums go by element, then
 * by lane, in an order that the shape fixes. A row's step reads its parent's state and its own inputs, so a
 * row alone and the same row in a tree have the same bits. */
#include <type_traits>

#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/tensor_core.cuh"

enum {
	THREADS = 128,
	WARPS_A_BLOCK = THREADS / 32,
	COLUMN_LANES = 32 / UNIT_COLUMNS,
	BLOCKS_A_MULTIPROCESSOR = 8
};

struct recurrent_launch {
	struct states_layout at;
	struct recurrence r;
	struct recurrence_weights w;
	struct recurrent_workspace k;
	int block, place; /* of all blocks; of the recurrent ones */
	float epsilon;    /* of the norm */
};

static struct recurrent_launch job_of(const struct cuda_backend* b, int block) {
	const struct model_shape* m = &b->shape;
	return {b->states,       m->recurrence,  b->block[block].recurrence, b->work.recurrent, block,
	        b->place[block], m->norm_epsilon};
}

/* ---- where things are ---------------------------------------------------------------------- */

__device__ __forceinline__ float* pending_row(const struct recurrent_launch& job, float* states, int row) {
	return states + job.at.pending + ((size_t)job.place * MAX_ROWS + row) * job.at.row;
}

/* The index, among the cache's pending rows, of a row's ancestor at this depth. */
__device__ __forceinline__ int pending_at(const struct device_slice* s, const struct device_row& row,
                                          int depth) {
	const int committed = row.slot - row.pending;
	const int32_t* ancestors = (const int32_t*)((const char*)s + s->ancestors);
	return row.ancestor < 0 ? depth : ancestors[row.ancestor + depth] - committed;
}

__device__ __forceinline__ int key_head(const struct recurrence& r, int head) {
	return r.tiled ? head % r.key_heads : head / (r.value_heads / r.key_heads);
}

/* ---- the convolution ------------------------------------------------------------------------ */

/* An input of the convolution, channel by channel: a, times b where it is not NULL. */
struct tap {
	const float *a, *b;
};
__device__ __forceinline__ float tapped(const struct tap& tap, int channel) {
	return tap.b ? tap.a[channel] * tap.b[channel] : tap.a[channel];
}

/* What the convolution reads `back` tokens before row i of the slice: of the slice, or of a pending row that
 * ran before, or of a committed token. */
__device__ struct tap find_tap(const struct recurrent_launch& job, const struct device_slice* s, int i,
                               int back) {
	const struct device_row& row = s->row[i];
	const int channels = job.at.channels, depth = row.position - row.base - back;
	const int held = job.r.kernel - 1;
	int at = i;
	for (int k = 0; k < back && at >= 0; k++)
		at = s->row[at].above;
	if (at >= 0 && job.r.key_dim == 0) {
		const float* made = job.k.made + (size_t)at * 3 * channels;
		return {made, made + 2 * channels};
	}
	if (at >= 0)
		return {job.k.made + (size_t)at * channels, NULL};
	if (depth >= 0)
		return {pending_row(job, row.states, pending_at(s, row, depth)), NULL};
	return {row.states + job.at.column + ((size_t)job.place * held + held + depth) * channels, NULL};
}

/* taps (kernel), the oldest first, in shared memory. */
__device__ __forceinline__ void find_taps(const struct recurrent_launch& job, const struct device_slice* s,
                                          int i, struct tap* taps) {
	if ((int)threadIdx.x < job.r.kernel)
		taps[threadIdx.x] = find_tap(job, s, i, job.r.kernel - 1 - (int)threadIdx.x);
	__syncthreads();
}

__device__ __forceinline__ float convolve(const struct recurrent_launch& job, const struct tap* taps,
                                          int channel) {
	const float* weight = job.w.convolution + (size_t)channel * job.r.kernel;
	float sum = 0;
	for (int t = 0; t < job.r.kernel; t++)
		sum = __fmaf_rn(weight[t], tapped(taps[t], channel), sum);
	return sum;
}

/* to (n) = SiLU of the convolution of channels [from, from + n), each thread its own; returns their squares.
 */
__device__ float mix(const struct recurrent_launch& job, const struct tap* taps, float* to, int from, int n) {
	float squares = 0;
	for (int j = threadIdx.x; j < n; j += blockDim.x) {
		const float x = activate(convolve(job, taps, from + j), ACTIVATION_SILU);
		to[j] = x;
		squares = __fmaf_rn(x, x, squares);
	}
	return squares;
}

__device__ void make_length(float* x, float squares, float length, int n, float* shared) {
	const float scale = length / sqrtf(block_sum(squares, shared) + 1e-6f);
	for (int j = threadIdx.x; j < n; j += blockDim.x)
		x[j] *= scale;
}

/* PyTorch's, which is linear above 20. */
__device__ __forceinline__ float softplus(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

/* A block takes the channels of a key head in one row: its query, its key and a share of the values, and
 * beta and decay of as many value heads. All but the query is what the row's step is kept as. */
__global__ void mix_kernel(struct recurrent_launch job, const struct device_slice* s) {
	__shared__ float shared[THREADS / 32];
	__shared__ struct tap taps[MOST_TAPS];
	wait_for_inputs();
	const int i = blockIdx.y, g = blockIdx.x;
	if (i >= s->n || leaves_out(s, 2 * job.block))
		return;
	const struct recurrence& r = job.r;
	const struct device_row& row = s->row[i];
	const int keys = job.at.keys, values = job.at.values, channels = job.at.channels;
	const int heads = r.value_heads / r.key_heads, share = heads * r.value_dim;
	float* pending = pending_row(job, row.states, row.pending);
	float *query = job.k.query + (size_t)i * keys + g * r.key_dim, *key = pending + channels + g * r.key_dim,
	      *value = pending + channels + keys + g * share;
	find_taps(job, s, i, taps);
	const int from[] = {job.at.query_at + g * r.key_dim, job.at.key_at + g * r.key_dim,
	                    job.at.value_at + g * share};
	make_length(query, mix(job, taps, query, from[0], r.key_dim), rsqrtf((float)r.key_dim), r.key_dim,
	            shared);
	make_length(key, mix(job, taps, key, from[1], r.key_dim), 1, r.key_dim, shared);
	mix(job, taps, value, from[2], share);
	const float* made = job.k.made + (size_t)i * channels;
	for (int part = 0; part < 3; part++)
		for (int j = threadIdx.x; j < (part < 2 ? r.key_dim : share); j += blockDim.x)
			pending[from[part] + j] = made[from[part] + j];
	float* const beta = pending + channels + keys + values;
	for (int h = g * heads + threadIdx.x; h < (g + 1) * heads; h += blockDim.x) {
		const size_t at = (size_t)i * r.value_heads + h;
		const float rate = r.log_rates ? -expf(job.w.decay_rate[h]) : job.w.decay_rate[h];
		beta[h] = 1.0f / (1.0f + expf(-job.k.beta[at]));
		beta[r.value_heads + h] = expf(rate * softplus(job.k.decay[at] + job.w.decay_bias[h]));
	}
}

/* A gated short convolution: c times the convolution of b·x, which is the row's column. */
template <class T>
__global__ void short_kernel(struct recurrent_launch job, T* out, const struct device_slice* s) {
	__shared__ struct tap taps[MOST_TAPS];
	wait_for_inputs();
	const int i = blockIdx.y, channels = job.at.channels;
	if (i >= s->n || leaves_out(s, 2 * job.block))
		return;
	const struct device_row& row = s->row[i];
	const int j = blockIdx.x * THREADS + (int)threadIdx.x;
	find_taps(job, s, i, taps);
	if (j >= channels)
		return;
	const float c = job.k.made[(size_t)i * 3 * channels + channels + j];
	pending_row(job, row.states, row.pending)[j] = tapped(taps[job.r.kernel - 1], j);
	out[(size_t)i * channels + j] = to_activation<T>(c * convolve(job, taps, j));
}

/* ---- through the states ---------------------------------------------------------------------- */

/* A lane's place: a column of a unit, and which of the column's eight lanes it is. */
struct state_lane {
	int unit, head, column, lane;
	bool there; /* false past a head's last column */
};

__device__ __forceinline__ struct state_lane lane_of(const struct recurrence& r, int unit) {
	const int of_head = (r.value_dim + UNIT_COLUMNS - 1) / UNIT_COLUMNS, within = threadIdx.x % 32;
	const int column = unit % of_head * UNIT_COLUMNS + within / COLUMN_LANES;
	return {unit, unit / of_head, column, within % COLUMN_LANES, column < r.value_dim};
}

/* The start of the lane's column in a state (value_heads, value_dim, key_dim), or of a lane that has none. */
__device__ __forceinline__ float* column_of(const struct recurrence& r, const struct state_lane& l,
                                            float* state) {
	return state + ((size_t)l.head * r.value_dim + (l.there ? l.column : 0)) * r.key_dim;
}

__device__ __forceinline__ float* side_of(const struct recurrent_launch& job, const struct state_lane& l,
                                          float* states, int side) {
	const size_t state = (size_t)job.at.values * job.r.key_dim;
	return column_of(job.r, l, states + job.at.state + ((size_t)side * job.at.blocks + job.place) * state);
}

__device__ __forceinline__ struct state_unit* unit_of(const struct recurrent_launch& job,
                                                      const struct state_lane& l, float* states) {
	return (struct state_unit*)(states + job.at.unit) + (size_t)job.place * job.at.units + l.unit;
}

template <int HELD>
__device__ __forceinline__ void load_column(float* x, const float* from, int keys,
                                            const struct state_lane& l) {
#pragma unroll
	for (int t = 0; t < HELD; t++) {
		const int i = l.lane + COLUMN_LANES * t;
		x[t] = l.there && i < keys ? from[i] : 0.0f;
	}
}

template <int HELD>
__device__ __forceinline__ void store_column(const float* x, float* to, int keys,
                                             const struct state_lane& l) {
#pragma unroll
	for (int t = 0; t < HELD; t++) {
		const int i = l.lane + COLUMN_LANES * t;
		if (l.there && i < keys)
			to[i] = x[t];
	}
}

__device__ __forceinline__ float sum_of_lanes(float x) {
#pragma unroll
	for (int step = COLUMN_LANES / 2; step > 0; step /= 2)
		x += __shfl_xor_sync(0xffffffffu, x, step);
	return x;
}

/* Takes a column through a pending row's step: S becomes decay·S + k·beta·(v - decay·Sᵀk) (Yang et al. 2024,
 * equation 10). With a query it returns its product with the new column. keep false: x stays as it is. */
template <int HELD, bool QUERY>
__device__ __forceinline__ float apply_step(const struct recurrent_launch& job, const struct state_lane& l,
                                            float* x, const float* pending, const float* query, bool keep) {
	const struct recurrence& r = job.r;
	const int keys = job.at.keys, values = job.at.values;
	const float* key = pending + job.at.channels;
	const float* value = key + keys + l.head * r.value_dim;
	const float *beta = pending + job.at.channels + keys + values, *decay = beta + r.value_heads;
	float k[HELD], held = 0, given = 0;
	load_column<HELD>(k, key + key_head(r, l.head) * r.key_dim, r.key_dim, l);
	const float v = l.there ? value[l.column] : 0.0f, kept = decay[l.head];
#pragma unroll
	for (int t = 0; t < HELD; t++)
		held = __fmaf_rn(k[t], x[t], held);
	const float delta = beta[l.head] * (v - kept * sum_of_lanes(held));
	float q[HELD];
	if (QUERY)
		load_column<HELD>(q, query + key_head(r, l.head) * r.key_dim, r.key_dim, l);
#pragma unroll
	for (int t = 0; t < HELD; t++) {
		const float y = __fmaf_rn(k[t], delta, kept * x[t]);
		if (QUERY)
			given = __fmaf_rn(q[t], y, given);
		x[t] = keep ? y : x[t];
	}
	return QUERY ? sum_of_lanes(given) : 0.0f;
}

/* The state that a row starts from, of which no row of the slice is the parent: from the nearest ancestor's
 * that is there, the steps since then are applied again. */
template <int HELD>
__device__ void load_parent(const struct recurrent_launch& job, const struct state_lane& l, float* x,
                            const struct device_slice* s, const struct device_row& row) {
	const struct state_unit unit = *unit_of(job, l, row.states);
	int depth = row.position - row.base - 1;
	const int parent = depth;
	while (depth >= 0 && pending_at(s, row, depth) != unit.tip)
		depth--;
	load_column<HELD>(x, side_of(job, l, row.states, depth >= 0 ? !unit.side : unit.side), job.r.key_dim, l);
	while (depth < parent)
		apply_step<HELD, false>(job, l, x, pending_row(job, row.states, pending_at(s, row, ++depth)), NULL,
		                        true);
}

/* A sequence's program. The last row's state becomes the tip. */
template <int HELD>
__device__ void run_unit(const struct recurrent_launch& job, const struct device_slice* s, int run,
                         const struct state_lane& l) {
	const int32_t* first = (const int32_t*)((const char*)s + s->programs);
	const int32_t* program = first + s->runs + 1;
	const struct recurrence& r = job.r;
	const int keys = job.at.keys, values = job.at.values;
	float x[HELD];
	int last = 0;
	for (int at = first[run]; at < first[run + 1]; at++) {
		const int operation = program[at] % OPERATIONS, operand = program[at] / OPERATIONS;
		float* saved = job.k.saved + (size_t)operand * values * r.key_dim;
		switch (operation) {
		case STATE_LOAD:
			load_parent<HELD>(job, l, x, s, s->row[operand]);
			break;
		case STATE_SAVE:
			store_column<HELD>(x, column_of(r, l, saved), r.key_dim, l);
			break;
		case STATE_TAKE:
			load_column<HELD>(x, column_of(r, l, saved), r.key_dim, l);
			break;
		default: {
			const struct device_row& row = s->row[operand];
			const float out =
			    apply_step<HELD, true>(job, l, x, pending_row(job, row.states, row.pending),
			                           job.k.query + (size_t)operand * keys, operation == STATE_STEP);
			if (l.there && l.lane == 0)
				job.k.out[(size_t)operand * values + l.head * r.value_dim + l.column] = out;
			last = operand;
		}
		}
	}
	const struct device_row& row = s->row[last];
	struct state_unit* unit = unit_of(job, l, row.states);
	store_column<HELD>(x, side_of(job, l, row.states, !unit->side), r.key_dim, l);
	__syncwarp();
	if (threadIdx.x % 32 == 0)
		unit->tip = row.pending;
}

template <int HELD> __global__ void states_kernel(struct recurrent_launch job, const struct device_slice* s) {
	wait_for_inputs();
	if (leaves_out(s, 2 * job.block))
		return;
	const int all = s->runs * job.at.units;
	for (int i = blockIdx.x * WARPS_A_BLOCK + (int)threadIdx.x / 32; i < all; i += gridDim.x * WARPS_A_BLOCK)
		run_unit<HELD>(job, s, i / job.at.units, lane_of(job.r, i % job.at.units));
}

/* A warp a head: its output under the norm, times SiLU of the gate. */
template <class T>
__global__ void end_kernel(struct recurrent_launch job, T* to, const struct device_slice* s) {
	wait_for_inputs();
	const int i = blockIdx.y, head = blockIdx.x * WARPS_A_BLOCK + (int)threadIdx.x / 32,
	          lane = threadIdx.x % 32;
	const int n = job.r.value_dim;
	if (i >= s->n || leaves_out(s, 2 * job.block) || head >= job.r.value_heads)
		return;
	const size_t at = (size_t)i * job.at.values + (size_t)head * n;
	const float* x = job.k.out + at;
	float sum = 0;
	for (int j = lane; j < n; j += 32)
		sum = __fmaf_rn(x[j], x[j], sum);
	for (int step = 16; step > 0; step /= 2)
		sum += __shfl_xor_sync(0xffffffffu, sum, step);
	const float root = rsqrtf(sum / (float)n + job.epsilon);
	for (int j = lane; j < n; j += 32)
		to[at + j] = to_activation<T>(x[j] * root * job.w.state_norm[j] *
		                              activate(job.k.gate[at + j], ACTIVATION_SILU));
}

/* what(elements a lane holds) with the fewest that hold a column, as a constant. */
template <class F> static void by_keys(int key_dim, F what) {
	if (key_dim <= 4 * COLUMN_LANES)
		what(std::integral_constant<int, 4>());
	else if (key_dim <= 16 * COLUMN_LANES)
		what(std::integral_constant<int, 16>());
	else
		what(std::integral_constant<int, MOST_KEY_DIM / COLUMN_LANES>());
}

static unsigned blocks_for(int warps) { return (unsigned)((warps + WARPS_A_BLOCK - 1) / WARPS_A_BLOCK); }

void launch_recurrence(const struct cuda_backend* b, int rows, int block) {
	const struct recurrent_launch job = job_of(b, block);
	const struct recurrence& r = job.r;
	const unsigned n = (unsigned)rows, most = (unsigned)b->multiprocessors * BLOCKS_A_MULTIPROCESSOR;
	if (r.key_dim == 0) {
		const unsigned parts = (unsigned)((job.at.channels + THREADS - 1) / THREADS);
		by_activation(b, [&](auto type) {
			using T = decltype(type);
			launch(b, dim3(parts, n), THREADS, 0, short_kernel<T>, job, (T*)b->work.mixed, b->slice);
		});
		return;
	}
	launch(b, dim3((unsigned)r.key_heads, n), THREADS, 0, mix_kernel, job, b->slice);
	const unsigned all = blocks_for(rows * job.at.units);
	by_keys(r.key_dim, [&](auto held) {
		launch(b, dim3(all < most ? all : most), THREADS, 0, states_kernel<decltype(held)::value>, job,
		       b->slice);
	});
	by_activation(b, [&](auto type) {
		using T = decltype(type);
		launch(b, dim3(blocks_for(r.value_heads), n), THREADS, 0, end_kernel<T>, job, (T*)b->work.mixed,
		       b->slice);
	});
}

/* ---- committed tokens ------------------------------------------------------------------------- */

template <int HELD>
__device__ void commit_unit(const struct recurrent_launch& job, const struct state_lane& l, float* states,
                            const struct state_path& path) {
	struct state_unit* unit = unit_of(job, l, states);
	const struct state_unit was = *unit;
	if (was.tip == path.row[path.n - 1]) {
		__syncwarp();
		if (threadIdx.x % 32 == 0)
			unit->side = !was.side;
		return;
	}
	float x[HELD];
	float* state = side_of(job, l, states, was.side);
	load_column<HELD>(x, state, job.r.key_dim, l);
	for (int i = 0; i < path.n; i++)
		apply_step<HELD, false>(job, l, x, pending_row(job, states, path.row[i]), NULL, true);
	store_column<HELD>(x, state, job.r.key_dim, l);
}

/* The last columns of the path come after the committed ones. */
__device__ void commit_column(const struct recurrent_launch& job, float* states, int channel,
                              const struct state_path& path) {
	const int channels = job.at.channels, held = job.r.kernel - 1;
	float* column = states + job.at.column + (size_t)job.place * held * channels + channel;
	for (int m = 0; m < held; m++) {
		const int i = path.n - held + m; /* of the path */
		column[(size_t)m * channels] =
		    i < 0 ? column[(size_t)(m + path.n) * channels] : pending_row(job, states, path.row[i])[channel];
	}
}

/* A block of the grid's second dimension is one of the model's; the first `by_unit` of the others take units,
 * the rest channels. */
template <int HELD>
__global__ void commit_kernel(struct recurrent_launch job, float* states, struct state_path path,
                              int by_unit) {
	const int part = (int)blockIdx.x - by_unit;
	job.place = blockIdx.y;
	if (part >= 0) {
		const int channel = part * THREADS + (int)threadIdx.x;
		if (channel < job.at.channels)
			commit_column(job, states, channel, path);
		return;
	}
	const int unit = blockIdx.x * WARPS_A_BLOCK + (int)threadIdx.x / 32;
	if (unit < job.at.units)
		commit_unit<HELD>(job, lane_of(job.r, unit), states, path);
}

static struct recurrent_launch job_of_cache(const struct cuda_backend* b) {
	struct recurrent_launch job = {};
	job.at = b->states;
	job.r = b->shape.recurrence;
	return job;
}

template <int HELD>
static void launch_commit_of(const struct cuda_backend* b, const struct recurrent_launch& job, float* states,
                             const struct state_path& path) {
	const unsigned by_unit = blocks_for(job.at.units),
	               by_channel = (unsigned)((job.at.channels + THREADS - 1) / THREADS);
	const dim3 grid(by_unit + by_channel, (unsigned)job.at.blocks);
	commit_kernel<HELD><<<grid, THREADS, 0, b->stream>>>(job, states, path, (int)by_unit);
}

void launch_commit_states(const struct cuda_backend* b, float* states, const struct state_path& path) {
	const struct recurrent_launch job = job_of_cache(b);
	by_keys(job.r.key_dim, [&](auto held) { launch_commit_of<decltype(held)::value>(b, job, states, path); });
}

/* A warp a unit. */
__global__ void keep_states_kernel(struct recurrent_launch job, float* states, int back) {
	const int unit = blockIdx.x * WARPS_A_BLOCK + (int)threadIdx.x / 32;
	job.place = blockIdx.y;
	if (unit >= job.at.units)
		return;
	const struct state_lane l = lane_of(job.r, unit);
	const size_t state = (size_t)job.at.values * job.r.key_dim;
	float* now = side_of(job, l, states, unit_of(job, l, states)->side);
	float* kept = column_of(job.r, l, states + job.at.kept_state + (size_t)job.place * state);
	for (int i = l.lane; l.there && i < job.r.key_dim; i += COLUMN_LANES)
		(back ? now : kept)[i] = (back ? kept : now)[i];
}

void launch_keep_states(const struct cuda_backend* b, float* states, bool back) {
	const struct recurrent_launch job = job_of_cache(b);
	const size_t columns = (size_t)job.at.blocks * (size_t)(job.r.kernel - 1) * (size_t)job.at.channels;
	float *now = states + job.at.column, *kept = states + job.at.kept_column;
	if (job.at.units > 0)
		keep_states_kernel<<<dim3(blocks_for(job.at.units), (unsigned)job.at.blocks), THREADS, 0,
		                     b->stream>>>(job, states, back);
	cudaMemcpyAsync(back ? now : kept, back ? kept : now, columns * sizeof(float), cudaMemcpyDeviceToDevice,
	                b->stream);
}
