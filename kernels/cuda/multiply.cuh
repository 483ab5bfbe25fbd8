/* Products of a warp's two rows a lane with up to eight tiles of activations, by the weights' type.
 *
 * The weights are the left operand of mma.m16n8k16, so activation rows are its columns: a row alone and the
 * same row among 64 go through the same instructions in the same order. A dot product may take its columns in
 * any order as long as both sides agree: lane q of four takes columns 8q…8q+7 of each 32 with one load of 16
 * bytes, where the instruction's own layout would need four. */
#pragma once

#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/planes.cuh"
#include "kernels/cuda/tensor_core.cuh"

enum { AHEAD = 4, FEW_AHEAD = 2, UNIT = GROUP_COLUMNS, SUPER = SUPER_COLUMNS };

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

/* If a whole number u fits the low bits of a float's fraction, its bits are those of 1024 + u (0x6400) in F16
 * and of 128 + u (0x4300) in BF16. One exact subtraction gives u less the offset. */
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

/* The input of a product: activations, or with NORM hidden states that it normalises as it loads them. */
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

/* The lane's eight columns of each row: `column` and the three after it, then those APART columns on. */
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

/* The two rows of weights that a lane takes: of a tile that begins at `row`, row + group and 8 further. */
struct lane_rows {
	int r0, r1;
};
__device__ __forceinline__ struct lane_rows rows_of_tile(const struct matrix& w, int row) {
	const int group = threadIdx.x % 32 / 4;
	return {min(row + group, w.rows - 1), min(row + group + 8, w.rows - 1)};
}

/* The start of the lane's weights of its two rows. */
struct lane_weights {
	const unsigned char *low, *high;
	int r0, r1;
};
template <bool MIXED>
__device__ __forceinline__ struct lane_weights weights_of(const struct matrix& w, struct lane_rows rows) {
	const int q = threadIdx.x % 4;
	const size_t bytes = (size_t)units_of<MIXED>(w) * UNIT_BYTES;
	struct lane_weights l;
	l.r0 = rows.r0;
	l.r1 = rows.r1;
	l.low = static_cast<const unsigned char*>(w.data) + l.r0 * bytes + 16 * q;
	l.high = static_cast<const unsigned char*>(w.data) + l.r1 * bytes + 16 * q;
	return l;
}

/* Units [begin, end) of the lane's two rows, HELD of them on their way at once: take(unit, low, high). */
template <int HELD, class F>
__device__ __forceinline__ void each_unit(const struct lane_weights& l, int begin, int end, F take) {
	for (int u = begin; u < end; u += HELD) {
		uint4 low[HELD], high[HELD];
#pragma unroll
		for (int i = 0; i < HELD; i++)
			if (u + i < end) {
				low[i] = load_once(l.low + (size_t)(u + i) * UNIT_BYTES);
				high[i] = load_once(l.high + (size_t)(u + i) * UNIT_BYTES);
			}
#pragma unroll
		for (int i = 0; i < HELD; i++)
			if (u + i < end)
				take(u + i, low[i], high[i]);
	}
}

template <class T, int TILES, bool NORM>
__device__ __forceinline__ void accumulate_plain(float (*acc)[4], const struct matrix& w,
                                                 struct lane_rows row, const struct input& in, int begin,
                                                 int end) {
	const int q = threadIdx.x % 4;
	each_unit<AHEAD>(weights_of<false>(w, row), begin, end, [&](int u, uint4 low, uint4 high) {
		uint4 b[TILES];
		load_activations<T, TILES, NORM, 4>(b, in, u * UNIT + 8 * q);
		multiply_unit<T, TILES>(acc, low, high, b);
	});
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
__device__ __forceinline__ void accumulate_bytes(float (*acc)[4], const struct matrix& w,
                                                 struct lane_rows row, const struct input& in, int begin,
                                                 int end) {
	const int q = threadIdx.x % 4, blocks = w.cols / UNIT;
	const struct lane_weights l = weights_of<true>(w, row);
	const __half* scale = static_cast<const __half*>(w.scale);
	each_unit<AHEAD>(l, begin, end, [&](int u, uint4 first, uint4 second) {
		const uint32_t* words[2] = {reinterpret_cast<const uint32_t*>(&first),
		                            reinterpret_cast<const uint32_t*>(&second)};
#pragma unroll
		for (int half = 0; half < 2; half++) {
			const int block = 2 * u + half;
			if (block >= blocks)
				break;
			const uint4 low = widen_bytes<T>(words[0][2 * half], words[0][2 * half + 1]);
			const uint4 high = widen_bytes<T>(words[1][2 * half], words[1][2 * half + 1]);
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
	});
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
__device__ __forceinline__ void accumulate_nibbles(float (*acc)[4], const struct matrix& w,
                                                   struct lane_rows row, const struct input& in, int begin,
                                                   int end) {
	const int q = threadIdx.x % 4, groups = w.cols / UNIT;
	const struct lane_weights l = weights_of<true>(w, row);
	const uint32_t one = whole<T>::ones;
	each_unit<FEW_AHEAD>(l, begin, end, [&](int u, uint4 first, uint4 second) {
		const uint32_t* words[2] = {reinterpret_cast<const uint32_t*>(&first),
		                            reinterpret_cast<const uint32_t*>(&second)};
		const struct group_scales s0 = scales_of(w, l.r0, u), s1 = scales_of(w, l.r1, u);
#pragma unroll
		for (int g = 0; g < 4; g++) {
			const int group = 4 * u + g;
			if (group >= groups)
				break;
			uint4 b[TILES];
			load_activations<T, TILES, false, 4>(b, in, group * UNIT + 8 * q);
			const uint4 low = widen_nibbles<T>(words[0][g]), high = widen_nibbles<T>(words[1][g]);
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
	});
}

/* Q6_K: as Q8_0, with a scale for every 16 columns: one instruction's worth, as the columns are laid out. */
template <class T, int TILES>
__device__ __forceinline__ void accumulate_sixes(float (*acc)[4], const struct matrix& w,
                                                 struct lane_rows row, const struct input& in, int begin,
                                                 int end) {
	const int q = threadIdx.x % 4, units = units_of<true>(w), supers = w.cols / SUPER;
	const struct lane_weights l = weights_of<true>(w, row);
	const int lane_row[2] = {l.r0, l.r1};
	each_unit<1>(l, begin, end, [&](int u, uint4 first_row, uint4 second_row) {
		const uint4 nibbles[2] = {first_row, second_row};
		uint2 high[2], scale[2];
		float d[2];
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
	});
}

/* One element, as floats. */
__device__ inline float element_of(const struct matrix& w, int row, int column) {
	if (w.type == DTYPE_F16)
		return to_float(static_cast<const __half*>(w.data)[(size_t)row * w.cols + column]);
	if (w.type == DTYPE_BF16)
		return to_float(static_cast<const __nv_bfloat16*>(w.data)[(size_t)row * w.cols + column]);
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

/* A warp's share of the columns in units, fixed by the shape: [share(warp), share(warp + 1)). */
template <bool MIXED> __device__ __forceinline__ int share(const struct matrix& w, int warp) {
	return (int)((int64_t)units_of<MIXED>(w) * warp / WARPS);
}

/* The first weights that the lane will load are on their way before what they multiply is there. */
template <bool MIXED> __device__ __forceinline__ void fetch_first(const struct matrix& w, int row, int warp) {
	const struct lane_weights l = weights_of<MIXED>(w, rows_of_tile(w, row));
	const int begin = share<MIXED>(w, warp), end = share<MIXED>(w, warp + 1);
#pragma unroll
	for (int i = 0; i < AHEAD; i++)
		if (begin + i < end) {
			fetch_ahead(l.low + (size_t)(begin + i) * UNIT_BYTES);
			fetch_ahead(l.high + (size_t)(begin + i) * UNIT_BYTES);
		}
}

template <class T, int TILES, bool MIXED, bool NORM>
__device__ __forceinline__ void accumulate(float (*acc)[4], const struct matrix& w, struct lane_rows row,
                                           int warp, const struct input& in) {
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
