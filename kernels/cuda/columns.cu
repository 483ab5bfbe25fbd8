/* Products of activation rows with quantized draft weights by input channel (kernels/columns.h).
 *
 * The weights have the bytes that the host made. A block takes a range of input channels and a stripe of
 * output lines. It finds the threshold of the row by itself, lists the channels of its range that are above
 * it, rounds their activations with one step, and multiplies. All of that is one launch: on a device a launch
 * takes as long as reading some megabytes. Within a range all sums are of whole numbers and may come in any
 * order. Each range's products are left in memory, and a stripe's last block adds them in the order of the
 * ranges. So a row's bits depend on nothing else. (A CPU groups kept channels otherwise, so its bits differ.)
 */
#include <stdlib.h>

#include "kernels/cuda/columns.h"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/tensor_core.cuh"

enum {
	COLUMN_THREADS = 256,
	COLUMN_WARPS = COLUMN_THREADS / 32,
	RANGE = COLUMN_THREADS, /* channels of a block: a thread lists one */
	BESIDE = 4,             /* neighbours are sampled together, since they share a memory access */
	LEAST_BIT = 16,         /* of a threshold: steps of less than a hundredth */
	STRIPE_LINES = 4,
	STRIPE_OUTPUTS = STRIPE_LINES * COLUMN_OUTPUTS,
	STRIPE_SCALES = STRIPE_LINES * COLUMN_SCALES,
	QUADS = 4, /* of four channels each, that a warp loads at once */
	ROWS_AT_ONCE = 8
};

static_assert(COLUMN_OUTPUTS == 128 && COLUMN_LINE == 64 && COLUMN_SCALES == 4,
              "eight lanes take a line, two words each");
static_assert((int)COLUMN_THREADS == (int)ROW_THREADS, "a row's norm is summed as elsewhere");

/* ---- the channels of a row ------------------------------------------------------------------ */

__device__ __forceinline__ float scale_of(unsigned code) {
	return __uint_as_float((code << 20) + ((unsigned)COLUMN_LEAST_EXPONENT << 23));
}

__device__ __forceinline__ float saliency_of(const struct device_columns& map, int channel, float x) {
	return fabsf(x) * __uint_as_float((unsigned)map.norm[channel] << 16);
}

/* A row of the input; r: 1 over its root mean square, where that is needed */
struct column_row {
	size_t at;
	float r;
};

template <class T>
__device__ __forceinline__ float input_at(const struct column_input& in, const struct column_row& row,
                                          int j) {
	if (in.kind == COLUMN_INPUT_NORM)
		return in.x[row.at + j] * row.r * (in.norm.weight[j] + in.norm.plus);
	if (in.kind == COLUMN_INPUT_GATE)
		return activate(in.x[row.at + j], in.activation) * in.up[row.at + j];
	return to_float(static_cast<const T*>(in.activations)[row.at + j]);
}

/* Channels whose saliency is greater are kept: a quantile of some 200 channels' saliencies, which is found
 * bit by bit, since a float that is not negative compares as its bits do. */
template <class T>
__device__ __forceinline__ float threshold_of(const struct column_input& in, const struct column_row& row,
                                              const struct device_columns& map, float share) {
	const int fours = map.channels / BESIDE, most = COLUMN_THREADS / BESIDE;
	const int stride = (fours + most - 1) / most, t = (int)threadIdx.x, four = t / BESIDE * stride;
	if (share >= 1 || fours == 0)
		return 0;
	int sample = -1, least = 0;
	if (four < fours) {
		const int j = four * BESIDE + t % BESIDE;
		sample = (int)(__float_as_uint(saliency_of(map, j, input_at<T>(in, row, j))) & 0x7fffffffu);
	}
	const float wanted = share * (float)__syncthreads_count(sample >= 0);
	for (int bit = 30; bit >= LEAST_BIT; bit--) {
		const int more = least | 1 << bit;
		if ((float)__syncthreads_count(sample >= more) >= wanted)
			least = more;
	}
	const float threshold = __uint_as_float((unsigned)(least - (least > 0)));
	return threshold < __uint_as_float(0x7f800000u) ? threshold : 0;
}

/* The channels of a range that a row keeps, in ascending order, filled up with activations of 0 to a multiple
 * of four; their activations over the step, so that one times a scale is at most 127. */
struct range_list {
	uint16_t channel[RANGE];
	float value[RANGE];
	float step;
	int n;
	int count[COLUMN_WARPS]; /* by warp */
	float most[COLUMN_WARPS];
};

template <class T>
__device__ __forceinline__ void list_range(struct range_list* list, const struct column_input& in,
                                           const struct column_row& row, const struct device_columns& map,
                                           float threshold) {
	const int t = (int)threadIdx.x, warp = t / 32, lane = t % 32;
	const int first = (int)blockIdx.y * RANGE, channel = first + t;
	const bool there = channel < map.channels;
	const float x = there ? input_at<T>(in, row, channel) : 0;
	const bool keeps = there && saliency_of(map, channel, x) > threshold;
	const unsigned kept = __ballot_sync(0xffffffffu, keeps);
	float most = keeps ? fabsf(x) * scale_of(map.peak[channel]) : 0;
	for (int step = 16; step > 0; step /= 2) {
		const float other = __shfl_xor_sync(0xffffffffu, most, step);
		most = other > most ? other : most;
	}
	if (lane == 0) {
		list->count[warp] = __popc(kept);
		list->most[warp] = most;
	}
	__syncthreads();
	int before = 0, n = 0;
	for (int i = 0; i < COLUMN_WARPS; i++) {
		before += i < warp ? list->count[i] : 0;
		n += list->count[i];
		most = list->most[i] > most ? list->most[i] : most;
	}
	const float infinite = __uint_as_float(0x7f800000u), inverse = 127.0f / most;
	const bool usable = inverse < infinite && most < infinite;
	const int mine = before + __popc(kept & ((1u << lane) - 1));
	if (keeps) {
		list->channel[mine] = (uint16_t)channel;
		list->value[mine] = usable ? x * inverse : 0;
	}
	if (n + t < (n + 3) / 4 * 4) {
		list->channel[n + t] = (uint16_t)first;
		list->value[n + t] = 0;
	}
	if (t == 0) {
		list->step = usable ? most / 127.0f : 0;
		list->n = (n + 3) / 4 * 4;
	}
	__syncthreads();
}

/* ---- the product ---------------------------------------------------------------------------- */

/* Words of four channels to words of four outputs: out[i] has byte i of each. */
__device__ __forceinline__ void transpose(unsigned out[4], unsigned a, unsigned b, unsigned c, unsigned d) {
	const unsigned low = __byte_perm(a, b, 0x5140), low2 = __byte_perm(c, d, 0x5140);
	const unsigned high = __byte_perm(a, b, 0x7362), high2 = __byte_perm(c, d, 0x7362);
	out[0] = __byte_perm(low, low2, 0x5410);
	out[1] = __byte_perm(low, low2, 0x7632);
	out[2] = __byte_perm(high, high2, 0x5410);
	out[3] = __byte_perm(high, high2, 0x7632);
}

/* What a lane takes of a stripe: of one line two words, which have the scales `scale` and scale + 1. */
struct lane_place {
	int line, quarter, scale;
	bool there;
};

__device__ __forceinline__ struct lane_place place_of_lane(const struct column_stripe& stripe) {
	const int lane = (int)threadIdx.x % 32;
	return {lane / 8, lane % 8 / 2, lane % 2 * 2, lane / 8 < stripe.lines};
}

/* Four channels' words of a lane. Their loads are on their way together. */
struct quad {
	uint2 word[4];
	unsigned scales; /* of the channel that this lane rounds: the two that it needs */
	float value;     /* its activation */
};

__device__ __forceinline__ struct quad load_quad(const struct column_stripe& stripe,
                                                 const struct lane_place& lane, const uint16_t* channel,
                                                 const float* value) {
	struct quad quad;
	/* a tile has less than 2^32 bytes */
	const unsigned codes = (unsigned)(lane.line * COLUMN_LINE + 16 * lane.quarter + 4 * lane.scale);
	const unsigned scales = (unsigned)(lane.line * COLUMN_SCALES + lane.scale);
#pragma unroll
	for (int i = 0; i < 4; i++)
		quad.word[i] =
		    __ldcs(reinterpret_cast<const uint2*>(stripe.codes + (channel[i] * stripe.run + codes)));
	quad.scales =
	    *reinterpret_cast<const uint16_t*>(stripe.scales + (channel[lane.quarter] * stripe.run + scales));
	quad.value = value[lane.quarter];
	return quad;
}

/* The four channels' activations in 8 bits for the lane's two scales. The four lanes with the same scales
 * round one channel each. */
__device__ __forceinline__ void round_quad(unsigned q[2], const struct quad& quad) {
	const int lane = (int)threadIdx.x % 32, first = lane / 8 * 8 + lane % 2;
	/* 3·2^22 is so large that nothing behind the point has room beside it */
	const unsigned a = __float_as_uint(quad.value * scale_of(quad.scales & 255) + 12582912.0f);
	const unsigned b = __float_as_uint(quad.value * scale_of(quad.scales >> 8) + 12582912.0f);
	const unsigned both = __byte_perm(a, b, 0x0040);
	unsigned of[4];
#pragma unroll
	for (int i = 0; i < 4; i++)
		of[i] = __shfl_sync(0xffffffffu, both, first + 2 * i);
	const unsigned low = __byte_perm(of[0], of[1], 0x5140), high = __byte_perm(of[2], of[3], 0x5140);
	q[0] = __byte_perm(low, high, 0x5410);
	q[1] = __byte_perm(low, high, 0x7632);
}

/* The whole numbers that a lane sums: by word and byte the low nibbles' products, then the high ones'; and
 * the activations by word. */
struct lane_dots {
	int dot[2][2][4], all[2];
};

__device__ __forceinline__ void add_quad(struct lane_dots* sums, const struct quad& quad) {
	unsigned q[2];
	round_quad(q, quad);
#pragma unroll
	for (int w = 0; w < 2; w++) {
		unsigned codes[4];
		if (w == 0)
			transpose(codes, quad.word[0].x, quad.word[1].x, quad.word[2].x, quad.word[3].x);
		else
			transpose(codes, quad.word[0].y, quad.word[1].y, quad.word[2].y, quad.word[3].y);
		sums->all[w] = __dp4a(0x01010101, (int)q[w], sums->all[w]);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			sums->dot[w][0][i] = __dp4a((int)(codes[i] & 0x0f0f0f0fu), (int)q[w], sums->dot[w][0][i]);
			sums->dot[w][1][i] = __dp4a((int)(codes[i] >> 4 & 0x0f0f0f0fu), (int)q[w], sums->dot[w][1][i]);
		}
	}
}

/* A range's sums: of the codes' products by output, of the activations by scale */
struct range_sums {
	int dot[STRIPE_OUTPUTS], all[STRIPE_SCALES];
};

__device__ __forceinline__ void join_sums(struct range_sums* to, const struct lane_place& lane,
                                          const struct lane_dots& sums) {
	if (!lane.there)
		return;
#pragma unroll
	for (int w = 0; w < 2; w++) {
		const int scale = lane.scale + w;
		int* outputs = to->dot + lane.line * COLUMN_OUTPUTS + 32 * scale + 4 * lane.quarter;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			atomicAdd(outputs + i, sums.dot[w][0][i]);
			atomicAdd(outputs + 16 + i, sums.dot[w][1][i]);
		}
		if (lane.quarter == 0)
			atomicAdd(&to->all[lane.line * COLUMN_SCALES + scale], sums.all[w]);
	}
}

/* The list's products with a stripe, to product (STRIPE_OUTPUTS) */
__device__ __forceinline__ void multiply_range(const struct column_stripe& stripe,
                                               const struct range_list* list, float* product,
                                               struct range_sums* sums) {
	enum { AT_ONCE = 4 * QUADS * COLUMN_WARPS };
	const struct lane_place lane = place_of_lane(stripe);
	const int first = (int)threadIdx.x / 32 * 4, n = list->n;
	struct lane_dots mine = {};
	for (int i = (int)threadIdx.x; i < STRIPE_OUTPUTS + STRIPE_SCALES; i += (int)blockDim.x)
		(i < STRIPE_OUTPUTS ? sums->dot[i] : sums->all[i - STRIPE_OUTPUTS]) = 0;
	__syncthreads();
	for (int from = first; from < n; from += AT_ONCE) {
		struct quad quad[QUADS];
#pragma unroll
		for (int i = 0; i < QUADS; i++) {
			const int at = from + 4 * COLUMN_WARPS * i;
			quad[i] = {};
			if (at < n && lane.there)
				quad[i] = load_quad(stripe, lane, list->channel + at, list->value + at);
		}
#pragma unroll
		for (int i = 0; i < QUADS; i++)
			add_quad(&mine, quad[i]);
	}
	join_sums(sums, lane, mine);
	__syncthreads();
	for (int o = (int)threadIdx.x; o < stripe.lines * COLUMN_OUTPUTS; o += (int)blockDim.x)
		product[o] = (float)(16 * sums->dot[o] - 120 * sums->all[o / 32]) * (list->step / 16);
}

__device__ __forceinline__ void put_column_output(const struct column_outputs& to, int row, int64_t output,
                                                  float y) {
	for (int p = 0; p < to.parts; p++) {
		if (output < to.rows[p]) {
			float* out = to.out[p] + (size_t)row * to.rows[p] + output;
			y += to.bias[p] ? to.bias[p][output] : 0.0f;
			*out = to.adds ? *out + y : y;
			return;
		}
		output -= to.rows[p];
	}
}

/* Block (stripe, range of channels, row) */
template <class T>
__global__ void __launch_bounds__(COLUMN_THREADS)
    column_kernel(struct column_input in, struct device_columns map, struct column_sums all,
                  struct column_outputs to, const struct device_slice* s, int first_row, int sub_layer) {
	__shared__ struct range_list list;
	__shared__ struct range_sums sums;
	__shared__ float shared[COLUMN_WARPS];
	wait_for_inputs();
	const int at = (int)blockIdx.z, row = first_row + at;
	if (row >= s->n || leaves_out(s, sub_layer))
		return;
	struct column_row mine = {(size_t)row * map.channels, 0};
	if (in.kind == COLUMN_INPUT_NORM)
		mine.r = inverse_root(in.x + mine.at, map.channels, in.norm.epsilon, shared);
	const float share = 1 - (float)s->levels.left_out[map.depth][map.kind] / 100;
	const float threshold = threshold_of<T>(in, mine, map, share);
	list_range<T>(&list, in, mine, map, threshold);
	const struct column_stripe stripe = map.stripe[blockIdx.x];
	const int ranges = (int)gridDim.y;
	float* products =
	    all.product + (size_t)at * all.products + (size_t)blockIdx.x * (size_t)ranges * STRIPE_OUTPUTS;
	multiply_range(stripe, &list, products + (size_t)blockIdx.y * STRIPE_OUTPUTS, &sums);
	if (!is_last_block(&all.done[at * all.stripes + (int)blockIdx.x], ranges))
		return;
	for (int o = (int)threadIdx.x; o < stripe.lines * COLUMN_OUTPUTS; o += (int)blockDim.x) {
		float sum = 0;
		for (int r = 0; r < ranges; r++)
			sum += __ldcg(&products[(size_t)r * STRIPE_OUTPUTS + o]);
		put_column_output(to, row, (int64_t)stripe.line * COLUMN_OUTPUTS + o, sum);
	}
}

/* ---- launches ------------------------------------------------------------------------------- */

static int ranges_of(int channels) { return (channels + RANGE - 1) / RANGE; }

void launch_columns(const struct cuda_backend* b, int rows, int sub_layer, enum column_kind kind,
                    const struct column_input& in, const struct column_outputs& to) {
	const struct device_columns& map = b->block[sub_layer / 2].columns[kind];
	for (int first = 0; first < rows; first += ROWS_AT_ONCE) {
		const int n = rows - first < ROWS_AT_ONCE ? rows - first : ROWS_AT_ONCE;
		const dim3 grid((unsigned)map.stripes, (unsigned)ranges_of(map.channels), (unsigned)n);
		by_activation(b, [&](auto type) {
			launch(b, grid, COLUMN_THREADS, 0, column_kernel<decltype(type)>, in, map, b->sums, to, b->slice,
			       first, sub_layer);
		});
	}
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Lists a map's stripes, whose runs lie on the device, in `to`, or only counts them (NULL). */
static int list_stripes(const struct column_map* map, const uint8_t* runs, struct column_stripe* to) {
	int n = 0;
	for (int64_t t = 0; t < column_tiles(map->outputs); t++) {
		const struct column_span tile = column_tile(map->outputs, t);
		const uint8_t* at = runs + column_tile_offset(map->outputs, map->channels, t);
		const unsigned run = (unsigned)column_run(tile.lines);
		for (int l = 0; l < tile.lines; l += STRIPE_LINES, n++)
			if (to)
				to[n] = {at + column_run_scales(tile.lines) + (size_t)l * COLUMN_LINE, at + l * COLUMN_SCALES,
				         run, (int)tile.line + l,
				         tile.lines - l < STRIPE_LINES ? tile.lines - l : STRIPE_LINES};
	}
	return n;
}

/* What sums must have room for */
struct sums_room {
	int stripes;
	size_t products; /* floats a row */
};

static void make_room(struct sums_room* room, const struct column_map* map) {
	const int stripes = list_stripes(map, NULL, NULL);
	const size_t products = (size_t)stripes * (size_t)ranges_of(map->channels) * STRIPE_OUTPUTS;
	room->stripes = stripes > room->stripes ? stripes : room->stripes;
	room->products = products > room->products ? products : room->products;
}

template <class T> static bool take_array(struct cuda_backend* b, T** to, size_t n, struct error* error) {
	*to = (T*)cuda_take(b, n * sizeof(T), "products by input channel", error);
	return *to != NULL;
}

static bool take_sums(struct cuda_backend* b, const struct sums_room* room, struct error* error) {
	struct column_sums* sums = &b->sums;
	const size_t counts = ROWS_AT_ONCE * (size_t)room->stripes;
	sums->stripes = room->stripes;
	sums->products = room->products;
	if (!take_array(b, &sums->product, ROWS_AT_ONCE * room->products, error) ||
	    !take_array(b, &sums->done, counts, error))
		return false;
	CUDA_TRY(cudaMemsetAsync(sums->done, 0, counts * sizeof *sums->done, b->stream), error);
	return true;
}

/* A map whose bytes, runs with norms and peaks behind them, lie on the device at `data`. */
static bool place_map(struct cuda_backend* b, const struct column_map* map, const uint8_t* data,
                      struct device_columns* to, struct error* error) {
	const uint8_t* behind = data + column_bytes(map->outputs, map->channels);
	struct column_stripe* stripe;
	to->channels = map->channels;
	to->stripes = list_stripes(map, data, NULL);
	to->norm = (const uint16_t*)(const void*)behind;
	to->peak = behind + column_norm_bytes(map->channels);
	if (!take_array(b, &stripe, (size_t)to->stripes, error))
		return false;
	to->stripe = stripe;
	struct column_stripe* host = (struct column_stripe*)malloc((size_t)to->stripes * sizeof *host);
	if (!host)
		return error_set(error, "out of memory for quantized draft weights");
	list_stripes(map, data, host);
	const cudaError_t copied =
	    cudaMemcpy(stripe, host, (size_t)to->stripes * sizeof *host, cudaMemcpyHostToDevice);
	free(host);
	return cuda_ok(copied, "cudaMemcpy", error);
}

uint8_t* columns_open(struct cuda_backend* b, const struct column_weights* weights, struct error* error) {
	struct sums_room room = {};
	uint8_t* data = (uint8_t*)cuda_take(b, weights->bytes, "quantized draft weights", error);
	bool done = data != NULL;
	for (int i = 0; i < weights->n_blocks && done; i++)
		for (int k = 0; k < COLUMN_KINDS && done; k++) {
			const struct block_map* m = &weights->block[i].map[k];
			struct device_columns* to = &b->block[i].columns[k];
			*to = {};
			to->depth = level_depth(i, weights->n_blocks);
			to->kind = k;
			if (!block_map_present(m))
				continue;
			make_room(&room, &m->map);
			done = place_map(b, &m->map, data + m->offset, to, error);
		}
	return done && take_sums(b, &room, error) ? data : NULL;
}

/* ---- for tests ------------------------------------------------------------------------------ */

static bool upload_map(struct cuda_backend* b, const struct column_map* map, struct error* error) {
	const size_t runs = column_bytes(map->outputs, map->channels), norms = column_norm_bytes(map->channels);
	const size_t n = (size_t)map->channels;
	struct sums_room room = {};
	uint8_t* data = (uint8_t*)cuda_take(b, runs + norms + n, "a map", error);
	if (!data || !place_map(b, map, data, &b->block[0].columns[0], error))
		return false;
	make_room(&room, map);
	CUDA_TRY(cudaMemcpy(data, map->runs, runs, cudaMemcpyHostToDevice), error);
	CUDA_TRY(cudaMemcpy(data + runs, map->norm, n * sizeof *map->norm, cudaMemcpyHostToDevice), error);
	CUDA_TRY(cudaMemcpy(data + runs + norms, map->peak, n, cudaMemcpyHostToDevice), error);
	return take_sums(b, &room, error);
}

static bool multiply_row(struct cuda_backend* b, const struct column_map* map, const __half* x, int left_out,
                         float* out, struct error* error) {
	const size_t cols = (size_t)map->channels * sizeof *x, outputs = (size_t)map->outputs * sizeof *out;
	struct column_input in = {};
	struct column_outputs to = {};
	struct device_slice slice = {};
	if (!upload_map(b, map, error))
		return false;
	slice.n = 1;
	slice.levels.left_out[0][0] = (uint8_t)left_out;
	void* activations = cuda_take(b, cols, "a row", error);
	to.out[0] = activations ? (float*)cuda_take(b, outputs, "a row's outputs", error) : NULL;
	b->slice = to.out[0] ? (struct device_slice*)cuda_take(b, sizeof slice, "a slice", error) : NULL;
	if (!b->slice)
		return false;
	CUDA_TRY(cudaMemcpy(activations, x, cols, cudaMemcpyHostToDevice), error);
	CUDA_TRY(cudaMemcpy(b->slice, &slice, sizeof slice, cudaMemcpyHostToDevice), error);
	in.kind = COLUMN_INPUT_ACTIVATIONS;
	in.activations = activations;
	to.rows[0] = map->outputs;
	to.parts = 1;
	launch_columns(b, 1, 0, COLUMN_ATTENTION, in, to);
	CUDA_TRY(cudaGetLastError(), error);
	CUDA_TRY(cudaDeviceSynchronize(), error);
	CUDA_TRY(cudaMemcpy(out, to.out[0], outputs, cudaMemcpyDeviceToHost), error);
	return true;
}

bool cuda_column_product(const struct column_map* map, const float* x, int left_out, float* out,
                         struct error* error) {
	struct cuda_backend* b = (struct cuda_backend*)calloc(1, sizeof *b);
	struct device_block block = {};
	__half* halves = (__half*)malloc((size_t)map->channels * sizeof *halves);
	bool done = b && halves;
	if (!done)
		error_set(error, "out of memory for a product");
	for (int j = 0; j < map->channels && done; j++)
		halves[j] = __float2half_rn(x[j]);
	if (done) {
		b->block = &block;
		done = multiply_row(b, map, halves, left_out, out, error);
		cuda_give_back(b, 0);
		free(b->allocation);
	}
	free(halves);
	free(b);
	return done;
}
