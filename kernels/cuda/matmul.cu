/* Products of weights with 1 to 64 rows of activations, on the tensor cores.
 *
 * One block takes 16 rows of a weight matrix, its eight warps an eighth of the columns each, and every
 * weight is loaded once, 16 bytes a lane, for all rows of activations. The weights are the left operand of
 * mma.m16n8k16, so activation rows are its columns: a row alone and the same row among 64 go through the
 * same instructions in the same order, and the order of every reduction depends on the matrix's shape
 * alone: along k within a warp, then warp by warp. Where a matrix has so few rows that its blocks would share
 * out unevenly among multiprocessors, two or four blocks of fewer warps take a tile, and the last of them to
 * finish adds all eight warps' parts in the same order: so how many they are changes no bit.
 *
 * A dot product may take its columns in any order as long as both sides agree: lane q of four takes columns
 * 8q…8q+7 of each 32 with one load, where the instruction's own layout would need four. */
#include "kernels/cuda/parts.h"
#include "kernels/cuda/planes.cuh"
#include "kernels/cuda/rows.cuh"
#include "kernels/cuda/tensor_core.cuh"

enum { WARPS = 8, TILE = 16, AHEAD = 4, FEW_AHEAD = 2, FUSED_HEAD = 256, FEW_BUCKETS = 2 };
enum { UNIT = GROUP_COLUMNS, SUPER = SUPER_COLUMNS };
static_assert(WARPS * 32 == ROW_THREADS, "a row's norm is summed by as many threads as in its own kernel");

/* ---- whole numbers as activations ---------------------------------------------------------- */

__device__ __forceinline__ uint32_t less(uint32_t pair, unsigned short offset, __half) {
	const __half2 d =
	    __hsub2(*reinterpret_cast<const __half2*>(&pair), __half2half2(__ushort_as_half(offset)));
	return *reinterpret_cast<const uint32_t*>(&d);
}
__device__ __forceinline__ uint32_t less(uint32_t pair, unsigned short offset, __nv_bfloat16) {
	const __nv_bfloat162 d = __hsub2(*reinterpret_cast<const __nv_bfloat162*>(&pair),
	                                 __bfloat162bfloat162(__ushort_as_bfloat16(offset)));
	return *reinterpret_cast<const uint32_t*>(&d);
}

/* Where a whole number u fits the low bits of a float's fraction, its bits are those of 1024 + u (0x6400) in
 * F16 and of 128 + u (0x4300) in BF16: an exact subtraction gives u less what else is to come off. */
template <class T> struct whole;
template <> struct whole<__half> {
	/* two of 0…63, less OFF */
	template <int OFF> static __device__ __forceinline__ uint32_t pair(uint32_t u) {
		static_assert(OFF == 0 || OFF == 32, "1024 + OFF as a half");
		return less(u | 0x64006400u, OFF ? 0x6420 : 0x6400, __half());
	}
	/* two signed bytes, of which 0x80 was flipped: 0x6400 | u is 1024 + 128 + byte */
	static __device__ __forceinline__ uint32_t bytes(uint32_t flipped, bool upper) {
		return less(__byte_perm(flipped, 0x64646464u, upper ? 0x4342 : 0x4140), 0x6480, __half());
	}
	static constexpr uint32_t ones = 0x3c003c00u;
};
template <> struct whole<__nv_bfloat16> {
	template <int OFF> static __device__ __forceinline__ uint32_t pair(uint32_t u) {
		static_assert(OFF == 0 || OFF == 32, "128 + OFF as a bfloat16");
		return less(u | 0x43004300u, OFF ? 0x4320 : 0x4300, __nv_bfloat16());
	}
	/* Eight bits do not fit: by way of 2^23 + u as a float, whose difference has its upper half alone. */
	static __device__ __forceinline__ uint32_t bytes(uint32_t flipped, bool upper) {
		const uint32_t first = __byte_perm(flipped, 0x4b000000u, upper ? 0x7652 : 0x7650);
		const uint32_t second = __byte_perm(flipped, 0x4b000000u, upper ? 0x7653 : 0x7651);
		const float a = __uint_as_float(first) - 8388736.0f, b = __uint_as_float(second) - 8388736.0f;
		return __byte_perm(__float_as_uint(a), __float_as_uint(b), 0x7632);
	}
	static constexpr uint32_t ones = 0x3f803f80u;
};

/* Eight signed bytes, in their order. */
template <class T> __device__ __forceinline__ uint4 widen_bytes(uint32_t first, uint32_t second) {
	const uint32_t a = first ^ 0x80808080u, b = second ^ 0x80808080u;
	return make_uint4(whole<T>::bytes(a, false), whole<T>::bytes(a, true), whole<T>::bytes(b, false),
	                  whole<T>::bytes(b, true));
}

/* Eight nibbles of a word, as they are laid out (see struct matrix): pair k is nibbles k and k + 4. */
template <class T> __device__ __forceinline__ uint4 widen_nibbles(uint32_t w) {
	return make_uint4(
	    whole<T>::template pair<0>(w & 0x000f000fu), whole<T>::template pair<0>(w >> 4 & 0x000f000fu),
	    whole<T>::template pair<0>(w >> 8 & 0x000f000fu), whole<T>::template pair<0>(w >> 12 & 0x000f000fu));
}

/* The same with two bits more of each, in pairs 2 bits apart from `high` bit 0 and 16 on, and less 32. */
template <class T> __device__ __forceinline__ uint4 widen_sixes(uint32_t w, uint32_t high) {
	uint4 out;
	out.x = whole<T>::template pair<32>((w & 0x000f000fu) | (high & 0x00030003u) << 4);
	out.y = whole<T>::template pair<32>((w >> 4 & 0x000f000fu) | (high >> 2 & 0x00030003u) << 4);
	out.z = whole<T>::template pair<32>((w >> 8 & 0x000f000fu) | (high >> 4 & 0x00030003u) << 4);
	out.w = whole<T>::template pair<32>((w >> 12 & 0x000f000fu) | (high >> 6 & 0x00030003u) << 4);
	return out;
}

/* acc (tiles, 4) += the weights' two rows of this lane (r, r + 8) times the activations, over 32 columns. */
template <class T, int TILES>
__device__ __forceinline__ void multiply_unit(float (*acc)[4], uint4 low, uint4 high, const uint4* b) {
#pragma unroll
	for (int t = 0; t < TILES; t++) {
		tensor_core<T>::multiply(acc[t], low.x, high.x, low.y, high.y, b[t].x, b[t].y);
		tensor_core<T>::multiply(acc[t], low.z, high.z, low.w, high.w, b[t].z, b[t].w);
	}
}

/* What a product reads: activations, or with NORM hidden states that it normalises as it loads them. */
struct input {
	const void* x;        /* (n, cols) of T, with NORM of float */
	const float* inverse; /* (n) with NORM: 1 over each row's root mean square */
	const float* weight;
	float plus;
	int n, cols;
};

template <class T>
__device__ __forceinline__ uint4 normalised_eight(const float* x, const float* weight, float r, float plus) {
	alignas(16) T out[8];
#pragma unroll
	for (int i = 0; i < 8; i++)
		out[i] = to_activation<T>(x[i] * r * (weight[i] + plus));
	return *reinterpret_cast<const uint4*>(out);
}

/* Of each row the lane's eight columns: `column` and the three after it, then those APART columns on. */
template <class T, int TILES, bool NORM, int APART>
__device__ __forceinline__ void load_activations(uint4* b, const struct input& in, int column) {
	static_assert(!NORM || APART == 4, "norms go along with columns that lie together");
	const int lane = threadIdx.x % 32, group = lane / 4;
#pragma unroll
	for (int t = 0; t < TILES; t++) {
		const int row = 8 * t + group;
		const size_t at = (size_t)row * in.cols + column;
		const T* from = static_cast<const T*>(in.x) + at;
		if (row >= in.n)
			b[t] = make_uint4(0, 0, 0, 0);
		else if (NORM)
			b[t] = normalised_eight<T>(static_cast<const float*>(in.x) + at, in.weight + column,
			                           in.inverse[row], in.plus);
		else if (APART == 4)
			b[t] = *reinterpret_cast<const uint4*>(from);
		else {
			const uint2 first = *reinterpret_cast<const uint2*>(from);
			const uint2 second = *reinterpret_cast<const uint2*>(from + APART);
			b[t] = make_uint4(first.x, first.y, second.x, second.y);
		}
	}
}

/* A row of weights is units of UNIT_BYTES, 16 bytes a lane of four: 32 columns in halves, 64 in bytes, 128 in
 * nibbles. */
template <bool MIXED> __device__ __forceinline__ int units_of(const struct matrix& w) {
	if (!MIXED || w.type == DTYPE_F16 || w.type == DTYPE_BF16)
		return w.cols / UNIT;
	const int columns = w.type == DTYPE_Q8_0 ? 2 * UNIT : 4 * UNIT;
	return (w.cols + columns - 1) / columns;
}

/* Where the lane's weights of two rows (r, r + 8) begin. */
struct lane_weights {
	const unsigned char *low, *high;
	int r0, r1;
};
template <bool MIXED>
__device__ __forceinline__ struct lane_weights weights_of(const struct matrix& w, int row) {
	const int lane = threadIdx.x % 32, group = lane / 4, q = lane % 4;
	const size_t bytes = (size_t)units_of<MIXED>(w) * UNIT_BYTES;
	struct lane_weights l;
	l.r0 = min(row + group, w.rows - 1);
	l.r1 = min(row + group + 8, w.rows - 1);
	l.low = static_cast<const unsigned char*>(w.data) + l.r0 * bytes + 16 * q;
	l.high = static_cast<const unsigned char*>(w.data) + l.r1 * bytes + 16 * q;
	return l;
}

template <class T, int TILES, bool NORM>
__device__ __forceinline__ void accumulate_plain(float (*acc)[4], const struct matrix& w, int row,
                                                 const struct input& in, int begin, int end) {
	const int q = threadIdx.x % 4;
	const struct lane_weights l = weights_of<false>(w, row);
	for (int u = begin; u < end; u += AHEAD) {
		uint4 a[AHEAD], c[AHEAD];
#pragma unroll
		for (int i = 0; i < AHEAD; i++)
			if (u + i < end) {
				a[i] = load_once(l.low + (size_t)(u + i) * UNIT_BYTES);
				c[i] = load_once(l.high + (size_t)(u + i) * UNIT_BYTES);
			}
#pragma unroll
		for (int i = 0; i < AHEAD; i++)
			if (u + i < end) {
				uint4 b[TILES];
				load_activations<T, TILES, NORM, 4>(b, in, (u + i) * UNIT + 8 * q);
				multiply_unit<T, TILES>(acc, a[i], c[i], b);
			}
	}
}

/* acc += scale · part, of the lane's two rows each. */
__device__ __forceinline__ void add_scaled(float* acc, const float* part, float s0, float s1) {
	acc[0] = __fmaf_rn(s0, part[0], acc[0]);
	acc[1] = __fmaf_rn(s0, part[1], acc[1]);
	acc[2] = __fmaf_rn(s1, part[2], acc[2]);
	acc[3] = __fmaf_rn(s1, part[3], acc[3]);
}

/* Q8_0: a lane's 16 bytes are 8 of one block and 8 of the next. Each block's products with whole numbers are
 * summed by themselves and then scaled, in the order of the blocks. */
template <class T, int TILES, bool NORM>
__device__ __forceinline__ void accumulate_bytes(float (*acc)[4], const struct matrix& w, int row,
                                                 const struct input& in, int begin, int end) {
	const int q = threadIdx.x % 4, blocks = w.cols / UNIT;
	const struct lane_weights l = weights_of<true>(w, row);
	const __half* scale = static_cast<const __half*>(w.scale);
	for (int u = begin; u < end; u += AHEAD) {
		uint4 a[AHEAD], c[AHEAD];
#pragma unroll
		for (int i = 0; i < AHEAD; i++)
			if (u + i < end) {
				a[i] = load_once(l.low + (size_t)(u + i) * UNIT_BYTES);
				c[i] = load_once(l.high + (size_t)(u + i) * UNIT_BYTES);
			}
#pragma unroll
		for (int i = 0; i < AHEAD; i++) {
			if (u + i >= end)
				break;
			const uint32_t* al = reinterpret_cast<const uint32_t*>(&a[i]);
			const uint32_t* ch = reinterpret_cast<const uint32_t*>(&c[i]);
#pragma unroll
			for (int half = 0; half < 2; half++) {
				const int block = 2 * (u + i) + half;
				if (block >= blocks)
					break;
				const uint4 low = widen_bytes<T>(al[2 * half], al[2 * half + 1]);
				const uint4 high = widen_bytes<T>(ch[2 * half], ch[2 * half + 1]);
				const float s0 = __half2float(scale[(size_t)l.r0 * blocks + block]);
				const float s1 = __half2float(scale[(size_t)l.r1 * blocks + block]);
				uint4 b[TILES];
				load_activations<T, TILES, NORM, 4>(b, in, block * UNIT + 8 * q);
#pragma unroll
				for (int t = 0; t < TILES; t++) {
					float part[4] = {};
					multiply_unit<T, 1>(&part, low, high, &b[t]);
					add_scaled(acc[t], part, s0, s1);
				}
			}
		}
	}
}

/* Scale and what is added, of the four groups of 32 columns in unit u of a row: x = scale·q + added. */
struct group_scales {
	float scale[4], added[4];
};

__device__ __forceinline__ struct group_scales scales_of(const struct matrix& w, int row, int u) {
	struct group_scales out = {};
	if (w.type == DTYPE_Q4_1) {
		const int groups = w.cols / UNIT;
		const __half2* at = static_cast<const __half2*>(w.scale) + (size_t)row * groups;
#pragma unroll
		for (int g = 0; g < 4; g++)
			if (4 * u + g < groups) {
				const float2 both = __half22float2(at[4 * u + g]);
				out.scale[g] = both.x;
				out.added[g] = both.y;
			}
		return out;
	}
	/* Q4_K: d, dmin, and six bits each of eight scales and minima; a unit has four of them */
	const uint4 head = static_cast<const uint4*>(w.scale)[(size_t)row * (w.cols / SUPER) + u / 2];
	const float2 d = __half22float2(*reinterpret_cast<const __half2*>(&head.x));
	const uint32_t scale =
	    u % 2 == 0 ? head.y & 0x3f3f3f3fu : (head.w & 0x0f0f0f0fu) | (head.y >> 2 & 0x30303030u);
	const uint32_t minimum =
	    u % 2 == 0 ? head.z & 0x3f3f3f3fu : (head.w >> 4 & 0x0f0f0f0fu) | (head.z >> 2 & 0x30303030u);
#pragma unroll
	for (int g = 0; g < 4; g++) {
		out.scale[g] = d.x * (float)(scale >> 8 * g & 255u);
		out.added[g] = -d.y * (float)(minimum >> 8 * g & 255u);
	}
	return out;
}

/* Q4_1 and Q4_K: Σ(scale·q + added)·x = scale·Σqx + added·Σx over a group, both sums by the tensor core. */
template <class T, int TILES>
__device__ __forceinline__ void accumulate_nibbles(float (*acc)[4], const struct matrix& w, int row,
                                                   const struct input& in, int begin, int end) {
	const int q = threadIdx.x % 4, groups = w.cols / UNIT;
	const struct lane_weights l = weights_of<true>(w, row);
	const uint32_t one = whole<T>::ones;
	for (int u = begin; u < end; u += FEW_AHEAD) {
		uint4 a[FEW_AHEAD], c[FEW_AHEAD];
#pragma unroll
		for (int i = 0; i < FEW_AHEAD; i++)
			if (u + i < end) {
				a[i] = load_once(l.low + (size_t)(u + i) * UNIT_BYTES);
				c[i] = load_once(l.high + (size_t)(u + i) * UNIT_BYTES);
			}
#pragma unroll
		for (int i = 0; i < FEW_AHEAD; i++) {
			if (u + i >= end)
				break;
			const uint32_t* al = reinterpret_cast<const uint32_t*>(&a[i]);
			const uint32_t* ch = reinterpret_cast<const uint32_t*>(&c[i]);
			const struct group_scales s0 = scales_of(w, l.r0, u + i), s1 = scales_of(w, l.r1, u + i);
#pragma unroll
			for (int g = 0; g < 4; g++) {
				const int group = 4 * (u + i) + g;
				if (group >= groups)
					break;
				uint4 b[TILES];
				load_activations<T, TILES, false, 4>(b, in, group * UNIT + 8 * q);
				const uint4 low = widen_nibbles<T>(al[g]), high = widen_nibbles<T>(ch[g]);
				const uint4 ones = make_uint4(one, one, one, one);
#pragma unroll
				for (int t = 0; t < TILES; t++) {
					float part[4] = {}, sum[4] = {};
					multiply_unit<T, 1>(&part, low, high, &b[t]);
					multiply_unit<T, 1>(&sum, ones, ones, &b[t]);
					add_scaled(acc[t], part, s0.scale[g], s1.scale[g]);
					add_scaled(acc[t], sum, s0.added[g], s1.added[g]);
				}
			}
		}
	}
}

/* Q6_K: as Q8_0, with a scale for every 16 columns: one instruction's worth, as the columns are laid out. */
template <class T, int TILES>
__device__ __forceinline__ void accumulate_sixes(float (*acc)[4], const struct matrix& w, int row,
                                                 const struct input& in, int begin, int end) {
	const int q = threadIdx.x % 4, units = units_of<true>(w), supers = w.cols / SUPER;
	const struct lane_weights l = weights_of<true>(w, row);
	const int lane_row[2] = {l.r0, l.r1};
	for (int u = begin; u < end; u++) {
		uint4 nibbles[2];
		uint2 high[2], scale[2];
		float d[2];
		nibbles[0] = load_once(l.low + (size_t)u * UNIT_BYTES);
		nibbles[1] = load_once(l.high + (size_t)u * UNIT_BYTES);
#pragma unroll
		for (int r = 0; r < 2; r++) {
			const size_t super = (size_t)lane_row[r] * supers + u / 2;
			high[r] = static_cast<const uint2*>(w.high)[((size_t)lane_row[r] * units + u) * 4 + q];
			scale[r] = static_cast<const uint2*>(w.scale)[2 * super + u % 2];
			d[r] = __half2float(w.factor[super]);
		}
#pragma unroll
		for (int g = 0; g < 4; g++) {
			uint4 v[2], b[TILES];
			float s[2][2];
#pragma unroll
			for (int r = 0; r < 2; r++) {
				const uint32_t word = reinterpret_cast<const uint32_t*>(&nibbles[r])[g];
				const uint32_t bits = (g < 2 ? high[r].x : high[r].y) >> 8 * (g % 2);
				const uint32_t both = (g < 2 ? scale[r].x : scale[r].y) >> 16 * (g % 2);
				v[r] = widen_sixes<T>(word, bits);
				s[0][r] = d[r] * (float)(signed char)(both & 255u);
				s[1][r] = d[r] * (float)(signed char)(both >> 8 & 255u);
			}
			load_activations<T, TILES, false, 16>(b, in, (4 * u + g) * UNIT + 4 * q);
#pragma unroll
			for (int t = 0; t < TILES; t++) {
				float first[4] = {}, second[4] = {};
				tensor_core<T>::multiply(first, v[0].x, v[1].x, v[0].y, v[1].y, b[t].x, b[t].y);
				tensor_core<T>::multiply(second, v[0].z, v[1].z, v[0].w, v[1].w, b[t].z, b[t].w);
				add_scaled(acc[t], first, s[0][0], s[0][1]);
				add_scaled(acc[t], second, s[1][0], s[1][1]);
			}
		}
	}
}

/* A warp's share of the columns in units, fixed by the shape: [share(warp), share(warp + 1)). */
template <bool MIXED> __device__ __forceinline__ int share(const struct matrix& w, int warp) {
	return (int)((int64_t)units_of<MIXED>(w) * warp / WARPS);
}

/* The first weights that the lane will load are on their way before what they multiply is there. */
template <bool MIXED> __device__ __forceinline__ void fetch_first(const struct matrix& w, int row, int warp) {
	const struct lane_weights l = weights_of<MIXED>(w, row);
	const int begin = share<MIXED>(w, warp), end = share<MIXED>(w, warp + 1);
#pragma unroll
	for (int i = 0; i < AHEAD; i++)
		if (begin + i < end) {
			fetch_ahead(l.low + (size_t)(begin + i) * UNIT_BYTES);
			fetch_ahead(l.high + (size_t)(begin + i) * UNIT_BYTES);
		}
}

template <class T, int TILES, bool MIXED, bool NORM>
__device__ __forceinline__ void accumulate(float (*acc)[4], const struct matrix& w, int row, int warp,
                                           const struct input& in) {
#pragma unroll
	for (int t = 0; t < TILES; t++)
		for (int i = 0; i < 4; i++)
			acc[t][i] = 0;
	const int begin = share<MIXED>(w, warp), end = share<MIXED>(w, warp + 1);
	if (MIXED && w.type == DTYPE_Q8_0)
		accumulate_bytes<T, TILES, NORM>(acc, w, row, in, begin, end);
	else if (MIXED && !NORM && w.type == DTYPE_Q6_K)
		accumulate_sixes<T, TILES>(acc, w, row, in, begin, end);
	else if (MIXED && !NORM && (w.type == DTYPE_Q4_K || w.type == DTYPE_Q4_1))
		accumulate_nibbles<T, TILES>(acc, w, row, in, begin, end);
	else
		accumulate_plain<T, TILES, NORM>(acc, w, row, in, begin, end);
}

/* The warps' parts of the first n columns' outputs. to (WARPS, TILE, 8·TILES) */
template <int TILES> __device__ __forceinline__ void spill(float* to, int warp, int n, float (*acc)[4]) {
	const int lane = threadIdx.x % 32, group = lane / 4, q = lane % 4;
	float* mine = to + (size_t)warp * TILE * 8 * TILES;
#pragma unroll
	for (int t = 0; t < TILES; t++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const int row = group + i / 2 * 8, column = 8 * t + 2 * q + i % 2;
			if (column < n)
				mine[row * 8 * TILES + column] = acc[t][i];
		}
}

/* They are summed in the order of the warps. */

template <int TILES> __device__ __forceinline__ float gather(const float* shared, int row, int column) {
	float sum = 0;
#pragma unroll
	for (int warp = 0; warp < WARPS; warp++)
		sum += shared[((size_t)warp * TILE + row) * 8 * TILES + column];
	return sum;
}

__device__ __forceinline__ float activate(float x, int gelu) {
	if (!gelu)
		return x / (1.0f + __expf(-x));
	return 0.5f * x * (1.0f + tanhf(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}

/* Every block needs the rows' roots, so each takes them; the first also measures. inverse (n) */
__device__ __forceinline__ void take_roots(float* inverse, const struct norm& norm, const float* x, int dim,
                                           const struct device_slice* s, float* shared) {
	for (int i = 0; i < s->n; i++) {
		const float* row = x + (size_t)i * dim;
		if (blockIdx.x == 0)
			measure_before(row, i, norm, dim, s, shared);
		const float r = inverse_root(row, dim, norm.epsilon, shared);
		if (threadIdx.x == 0)
			inverse[i] = r;
	}
	__syncthreads();
}

/* The last block of a head's products turns it in every row, a warp a row, and stores keys and values. What
 * other blocks wrote is read past the first-level cache. buffer (WARPS, FUSED_HEAD) */
__device__ void finish_head(const struct turn& t, int part, int head, const struct device_slice* s,
                            float* buffer) {
	const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, hd = t.head_dim;
	float* const from[] = {t.q, t.k, t.v};
	float* mine = buffer + warp * FUSED_HEAD;
	for (int r = warp; r < s->n; r += WARPS) {
		const struct device_row& row = s->row[r];
		const float* cosine = angles_of(t, s, r);
		float* at = from[part] + ((size_t)r * (part == 0 ? t.heads : t.kv_heads) + head) * hd;
		for (int j = lane; j < hd; j += 32)
			mine[j] = __ldcg(at + j);
		__syncwarp();
		if (part < 2)
			turn_head(t, mine, part == 0 ? t.q_norm : t.k_norm, cosine,
			          cosine + (size_t)s->angle_rows * t.pairs);
		if (part > 0)
			store_head(t, s, row, part == 1 ? KEPT_KEY : KEPT_VALUE, head, mine);
		else
			for (int j = lane; j < hd; j += 32)
				at[j] = mine[j];
		__syncwarp();
	}
}

/* The matrix of a part that the slice asks for: as stored, or its low-bit copy. That is known before the
 * launch, and does not change during it. */
template <bool MIXED>
__device__ __forceinline__ const struct matrix& chosen(const struct product& p, int part,
                                                       const struct device_slice* s, int sub_layer) {
	return MIXED && p.has_low && runs_low(s, sub_layer) ? p.low[part] : p.w[part];
}

__device__ __forceinline__ void put_output(const struct product& p, int part, int rows, int row, int column,
                                           float sum) {
	const float y = sum + (p.bias[part] ? p.bias[part][row] : 0.0f);
	float* out = &p.out[part][(size_t)column * rows + row];
	*out = p.end == PRODUCT_ADD ? *out + y : y;
}

template <class T, int TILES, bool MIXED, bool NORM>
__global__ void __launch_bounds__(WARPS * 32)
    product_kernel(struct product p, const void* x, const struct device_slice* slice, int sub_layer) {
	enum { SPILLED = WARPS * TILE * 8 * TILES, TURNED = WARPS * FUSED_HEAD };
	__shared__ float shared[(int)SPILLED > (int)TURNED ? (int)SPILLED : (int)TURNED], inverse[8 * TILES];
	int tile = blockIdx.x, part = 0;
	if (p.end != PRODUCT_GATE)
		for (; part + 1 < p.parts && tile >= (p.w[part].rows + TILE - 1) / TILE; part++)
			tile -= (p.w[part].rows + TILE - 1) / TILE;
	const struct matrix& w = chosen<MIXED>(p, part, slice, sub_layer);
	const int row0 = tile * TILE, warp = threadIdx.x / 32;
	fetch_first<MIXED>(w, row0, warp);
	wait_for_inputs();
	if (leaves_out(slice, sub_layer))
		return;
	const int n = slice->n;
	const struct input in = {x, inverse, p.norm.weight, p.norm.plus, n, w.cols};
	if (NORM)
		take_roots(inverse, p.norm, static_cast<const float*>(x), w.cols, slice, shared);
	float acc[TILES][4];
	accumulate<T, TILES, MIXED, NORM>(acc, w, row0, warp, in);
	if (NORM)
		__syncthreads();
	spill<TILES>(shared, warp, 8 * TILES, acc);
	__syncthreads();
	if (p.end == PRODUCT_GATE) {
		/* gate's sums are kept by the threads that will need them while up's go through the same memory */
		enum { KEPT = (TILE * 8 * TILES + WARPS * 32 - 1) / (WARPS * 32) };
		float gate[KEPT];
#pragma unroll
		for (int kept = 0; kept < KEPT; kept++) {
			const int i = (int)threadIdx.x + kept * WARPS * 32;
			gate[kept] = i < TILE * 8 * TILES ? gather<TILES>(shared, i % TILE, i / TILE) : 0.0f;
		}
		__syncthreads();
		accumulate<T, TILES, MIXED, NORM>(acc, chosen<MIXED>(p, 1, slice, sub_layer), row0, warp, in);
		spill<TILES>(shared, warp, 8 * TILES, acc);
		__syncthreads();
#pragma unroll
		for (int kept = 0; kept < KEPT; kept++) {
			const int i = (int)threadIdx.x + kept * WARPS * 32, row = row0 + i % TILE, column = i / TILE;
			if (i >= TILE * 8 * TILES || row >= w.rows || column >= n)
				continue;
			const float g = gate[kept] + (p.bias[0] ? p.bias[0][row] : 0.0f);
			const float u = gather<TILES>(shared, i % TILE, column) + (p.bias[1] ? p.bias[1][row] : 0.0f);
			static_cast<T*>(p.gated)[(size_t)column * w.rows + row] =
			    to_activation<T>(activate(g, p.gelu) * u);
		}
		return;
	}
	for (int i = threadIdx.x; i < TILE * 8 * TILES; i += WARPS * 32) {
		const int row = row0 + i % TILE, column = i / TILE;
		if (row < w.rows && column < n)
			put_output(p, part, w.rows, row, column, gather<TILES>(shared, i % TILE, column));
	}
	const int head = p.turn.done ? row0 / p.turn.head_dim : 0;
	if (p.turn.done &&
	    is_last_block(&p.turn.done[(size_t)part * p.turn.heads + head], p.turn.head_dim / TILE))
		finish_head(p.turn, part, head, slice, shared);
}

/* The blocks that share out the columns of a tile. */
struct split {
	float* sums; /* (tiles, WARPS, TILE, 8·TILES) */
	unsigned* done;
	int parts;
};

/* A matrix alone, a block's warps being some of the eight. What other blocks wrote is read past the
 * first-level cache. */
template <class T, int TILES, bool MIXED>
__global__ void __launch_bounds__(WARPS * 32 / 2)
    split_kernel(struct product p, const void* x, const struct device_slice* slice, int sub_layer,
                 struct split split) {
	const int tile = (int)blockIdx.x / split.parts, part = (int)blockIdx.x % split.parts;
	const int row0 = tile * TILE, warp = part * (WARPS / split.parts) + (int)threadIdx.x / 32;
	const struct matrix& w = chosen<MIXED>(p, 0, slice, sub_layer);
	fetch_first<MIXED>(w, row0, warp);
	wait_for_inputs();
	if (leaves_out(slice, sub_layer))
		return;
	const struct input in = {x, NULL, NULL, 0, slice->n, w.cols};
	float acc[TILES][4];
	accumulate<T, TILES, MIXED, false>(acc, w, row0, warp, in);
	float* sums = split.sums + (size_t)tile * WARPS * TILE * 8 * TILES;
	spill<TILES>(sums, warp, in.n, acc);
	if (!is_last_block(&split.done[tile], split.parts))
		return;
	for (int i = threadIdx.x; i < TILE * in.n; i += blockDim.x) {
		const int row = i % TILE, column = i / TILE;
		float sum = 0;
#pragma unroll
		for (int k = 0; k < WARPS; k++)
			sum += __ldcg(&sums[(k * TILE + row) * 8 * TILES + column]);
		if (row0 + row < w.rows)
			put_output(p, 0, w.rows, row0 + row, column, sum);
	}
}

/* ---- launches ----------------------------------------------------------------------------- */

static bool is_half(const struct matrix& w) { return w.type == DTYPE_F16 || w.type == DTYPE_BF16; }

/* Whether all that the product may run is in halves: a kernel of its own, since registers are few. */
static bool is_plain(const struct product& p) {
	bool plain = !p.has_low;
	for (int i = 0; i < p.parts; i++)
		plain = plain && is_half(p.w[i]);
	return plain;
}

static int tiles_in(int rows) { return (rows + TILE - 1) / TILE; }

size_t tiles_of(const struct cuda_backend* b) { return (size_t)tiles_in(b->shape.dim); }
size_t tile_sums_of(const struct cuda_backend* b) { return tiles_of(b) * WARPS * TILE * 8 * FEW_BUCKETS; }

static int parts_for(const struct cuda_backend* b, const struct product& p, int bucket) {
	const struct matrix& w = p.has_low ? p.low[0] : p.w[0];
	const struct planes row = planes_of(w.type, w.cols);
	if (p.parts > 1 || p.norm.weight || bucket > FEW_BUCKETS || w.rows > b->shape.dim)
		return 1;
	if (b->column_parts > 0)
		return b->column_parts;
	return parts_by_shape(tiles_in(w.rows),
	                      (double)w.rows * (double)(row.data + row.high + row.scale + row.factor));
}

template <int TILES>
static void launch_split(const struct cuda_backend* b, cudaStream_t stream, const struct product& p,
                         const void* x, int sub_layer, int parts) {
	const struct device_slice* slice = (const struct device_slice*)b->slice;
	const struct split split = {b->work.tile_sums, b->work.tile_done, parts};
	const auto go = [&](auto kernel) {
		launch(b, stream, dim3((unsigned)(tiles_in(p.w[0].rows) * parts)), (unsigned)(WARPS * 32 / parts), 0,
		       kernel, p, x, slice, sub_layer, split);
	};
	if (!is_plain(p))
		b->bf16 ? go(split_kernel<__nv_bfloat16, TILES, true>) : go(split_kernel<__half, TILES, true>);
	else
		b->bf16 ? go(split_kernel<__nv_bfloat16, TILES, false>) : go(split_kernel<__half, TILES, false>);
}

template <int TILES, bool NORM>
static void launch_tiles(const struct cuda_backend* b, cudaStream_t stream, const struct product& p,
                         const void* x, int sub_layer) {
	int blocks = 0;
	for (int i = 0; i < (p.end == PRODUCT_GATE ? 1 : p.parts); i++)
		blocks += tiles_in(p.w[i].rows);
	const struct device_slice* slice = (const struct device_slice*)b->slice;
	const auto go = [&](auto kernel) {
		launch(b, stream, dim3((unsigned)blocks), WARPS * 32, 0, kernel, p, x, slice, sub_layer);
	};
	if (!is_plain(p))
		b->bf16 ? go(product_kernel<__nv_bfloat16, TILES, true, NORM>)
		        : go(product_kernel<__half, TILES, true, NORM>);
	else if (b->bf16)
		go(product_kernel<__nv_bfloat16, TILES, false, NORM>);
	else
		go(product_kernel<__half, TILES, false, NORM>);
}

void launch_product(const struct cuda_backend* b, cudaStream_t stream, const struct product* p, const void* x,
                    int bucket, int sub_layer) {
	const bool norm = p->norm.weight != NULL;
	const int parts = parts_for(b, *p, bucket);
	if (parts > 1) {
		bucket == 1 ? launch_split<1>(b, stream, *p, x, sub_layer, parts)
		            : launch_split<2>(b, stream, *p, x, sub_layer, parts);
		return;
	}
	switch (bucket) {
	case 1:
		norm ? launch_tiles<1, true>(b, stream, *p, x, sub_layer)
		     : launch_tiles<1, false>(b, stream, *p, x, sub_layer);
		return;
	case 2:
		norm ? launch_tiles<2, true>(b, stream, *p, x, sub_layer)
		     : launch_tiles<2, false>(b, stream, *p, x, sub_layer);
		return;
	case 3:
	case 4:
		launch_tiles<4, false>(b, stream, *p, x, sub_layer);
		return;
	default:
		launch_tiles<8, false>(b, stream, *p, x, sub_layer);
	}
}

/* Every block of the product would make the normed activations anew: beside weights of few bits, which are
 * read in a quarter of the time, that costs more than a launch. */
bool norm_goes_along(const struct cuda_backend* b, const struct product* p, int bucket) {
	bool wide = true;
	for (int i = 0; i < p->parts; i++) {
		wide = wide && (is_half(p->w[i]) || p->w[i].type == DTYPE_Q8_0);
		wide = wide && (!p->has_low || is_half(p->low[i]) || p->low[i].type == DTYPE_Q8_0);
	}
	return wide && b->launches != LAUNCHES_SEPARATE && bucket <= FEW_BUCKETS;
}

bool turn_goes_along(const struct cuda_backend* b) {
	const int head = b->shape.head_dim;
	return b->launches != LAUNCHES_SEPARATE && head % TILE == 0 && head <= FUSED_HEAD;
}

/* ---- prefill ------------------------------------------------------------------------------ */

/* One element, as floats. */
__device__ float element_of(const struct matrix& w, int row, int column) {
	const int units = units_of<true>(w), group = column / UNIT, within = column % UNIT;
	const unsigned char* bytes = static_cast<const unsigned char*>(w.data) + (size_t)row * units * UNIT_BYTES;
	if (w.type == DTYPE_Q8_0) {
		const float scale =
		    __half2float(static_cast<const __half*>(w.scale)[(size_t)row * (w.cols / UNIT) + group]);
		return (float)(signed char)bytes[interleaved_byte(group, within)] * scale;
	}
	const bool six = w.type == DTYPE_Q6_K;
	const struct nibble_place at = nibble_place(group, within, six);
	const int nibble = bytes[at.byte] >> at.shift & 15;
	if (!six) {
		const struct group_scales s = scales_of(w, row, group / 4);
		return s.scale[group % 4] * (float)nibble + s.added[group % 4];
	}
	const unsigned char* high =
	    static_cast<const unsigned char*>(w.high) + (size_t)row * units * (UNIT_BYTES / 2);
	const int value = nibble | (high[at.high_byte] >> at.high_shift & 3) << 4;
	const size_t super = (size_t)row * (w.cols / SUPER) + column / SUPER;
	const signed char scale = static_cast<const signed char*>(w.scale)[16 * super + column % SUPER / 16];
	return __half2float(w.factor[super]) * (float)scale * (float)(value - 32);
}

__global__ void dequantize_kernel(__half* out, struct matrix w, int64_t n) {
	const int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		out[i] = __float2half_rn(element_of(w, (int)(i / w.cols), (int)(i % w.cols)));
}

bool prefill_product(struct cuda_backend* b, const struct matrix* w, const void* x, int n, float* out,
                     struct error* error) {
	const float one = 1, zero = 0;
	const void* data = w->data;
	cudaDataType_t type = w->type == DTYPE_BF16 ? CUDA_R_16BF : CUDA_R_16F;
	if (!is_half(*w)) {
		const int64_t count = (int64_t)w->rows * w->cols;
		dequantize_kernel<<<(unsigned)((count + 255) / 256), 256, 0, b->stream>>>(
		    (__half*)b->work.dequantized, *w, count);
		data = b->work.dequantized;
	}
	CUBLAS_TRY(b->calls.gemm(b->cublas, CUBLAS_OP_T, CUBLAS_OP_N, w->rows, n, w->cols, &one, data, type,
	                         w->cols, x, type, w->cols, &zero, out, CUDA_R_32F, w->rows, CUBLAS_COMPUTE_32F,
	                         CUBLAS_GEMM_DEFAULT),
	           error);
	return true;
}
