/* The plain matrix product, with which the fast ones are compared.
 *
 * Float types: sixteen running sums; column k goes to sum k mod 16. Quantized types: the exact integer dot
 * product of each block, scaled and added in ascending order of the block. */
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matmul.h"

#include <math.h>

#include "kernels/interleaved.h"

enum { LANES = 16, CHUNK = 256 };

/* ---- activations --------------------------------------------------------------------------- */

size_t reference_prepared_bytes(enum dtype weight, int cols) {
	return dtype_takes_floats(weight) ? prepared_float_bytes(cols) : prepared_layout(weight, cols).bytes;
}

/* q (n), returns d */
static float quantize_values(const float* x, int8_t* q, int n) {
	float largest = 0, poison = 0;
	for (int i = 0; i < n; i++) {
		largest = fmaxf(largest, fabsf(x[i]));
		poison += x[i] * 0.0f; /* NaN where x is not finite */
	}
	const float inverse = 127.0f / largest;
	const bool usable = poison == 0.0f && isfinite(inverse); /* else all are zero, tiny or not finite */
	for (int i = 0; i < n; i++)
		q[i] = usable ? (int8_t)rintf(x[i] * inverse) : 0;
	return usable ? largest / 127.0f : fabsf(poison);
}

static int sum_of(const int8_t* q, int n) {
	int sum = 0;
	for (int i = 0; i < n; i++)
		sum += q[i];
	return sum;
}

/* The data after the scales, for blocks of 256 */
static void prepare_groups(enum dtype weight, uint8_t* out, const struct prepared* layout, int cols) {
	const int group = group_of(weight), offset = group_offset(weight);
	const int8_t* q = (const int8_t*)out;
	for (int g = 0; g < cols / group; g++, q += group) {
		const int32_t sum = sum_of(q, group), start = -offset * sum;
		int first = 0;
		for (int j = 0; j < group; j++)
			first += j % 4 < 2 ? q[j] : 0;
		const int16_t whole = (int16_t)sum;
		const int16_t halves[2] = {(int16_t)(-offset * first), (int16_t)(-offset * (sum - first))};
		if (offset) {
			memcpy(out + layout->sums + (size_t)g * 4, halves, 4);
			memcpy(out + layout->starts + (size_t)g * 4, &start, 4);
		} else {
			memcpy(out + layout->sums + (size_t)g * 2, &whole, 2);
		}
	}
}

void reference_prepare(enum dtype weight, void* out, const float* x, int cols) {
	uint8_t* bytes = out;
	const size_t size = reference_prepared_bytes(weight, cols);
	if (dtype_takes_floats(weight)) {
		memcpy(out, x, (size_t)cols * 4);
		memset(bytes + (size_t)cols * 4, 0, size - (size_t)cols * 4);
		return;
	}
	memset(bytes, 0, size);
	const struct prepared layout = prepared_layout(weight, cols);
	const int block = activation_block(weight);
	int8_t* q = out;
	for (int b = 0; b < cols / block; b++) {
		const float d = quantize_values(x + b * block, q + b * block, block);
		memcpy(bytes + layout.d + (size_t)b * 4, &d, 4);
		if (block == BLOCK_SMALL) {
			const int32_t sum = sum_of(q + b * block, block), correction = -dtype_bias(weight) * sum;
			const float min_factor = d * (float)sum;
			memcpy(bytes + layout.sums + (size_t)b * 4,
			       dtype_has_min(weight) ? (const void*)&min_factor : (const void*)&correction, 4);
		}
	}
	if (block == BLOCK_SUPER)
		prepare_groups(weight, bytes, &layout, cols);
}

/* ---- float types --------------------------------------------------------------------------- */

static float add_lanes(const float sum[LANES]) {
	float s[LANES];
	memcpy(s, sum, sizeof s);
	for (int width = LANES / 2; width > 0; width /= 2)
		for (int l = 0; l < width; l++)
			s[l] += s[l + width];
	return s[0];
}

static void float_row(float* out, size_t out_stride, enum dtype type, const uint8_t* row, int64_t cols,
                      const uint8_t* x, size_t x_bytes, int n) {
	float sum[MAX_ROWS][LANES], w[CHUNK];
	memset(sum, 0, (size_t)n * sizeof sum[0]);
	for (int64_t k = 0; k < cols; k += CHUNK) {
		const int64_t some = cols - k < CHUNK ? cols - k : CHUNK;
		memset(w, 0, sizeof w);
		dtype_to_float(type, row + dtype_row_bytes(type, k), w, some);
		for (int i = 0; i < n; i++) {
			const float* xi = (const float*)(const void*)(x + (size_t)i * x_bytes) + k;
			for (int64_t j = 0; j < some; j += LANES) /* x is padded with zeros */
				for (int l = 0; l < LANES; l++)
					sum[i][l] += w[j + l] * xi[j + l];
		}
	}
	for (int i = 0; i < n; i++)
		out[(size_t)i * out_stride] = add_lanes(sum[i]);
}

/* ---- quantized types ------------------------------------------------------------------------ */

/* One decoded block: element j is d·scale[j/16]·q[j] - dmin·min[j/16]. */
struct decoded_parts {
	int q[BLOCK_SUPER];
	int scale[16], min[16];
	float d, dmin;
};

static float half_at(const uint8_t* p) { return half_to_float(load_u16(p)); }

/* Blocks of 32: the integers less the offset; d and the negated minimum */
static void take_small(enum dtype type, const void* block, struct decoded_parts* p) {
	const struct block_q8_0* q8 = block;
	const struct block_q4_0* q4 = block; /* iq4_nl too */
	const struct block_q4_1* q41 = block;
	const struct block_q5_0* q5 = block;
	const struct block_q5_1* q51 = block;
	p->d = half_at(block);
	p->dmin = dtype_has_min(type) ? -half_at(q41->m) : 0; /* q5_1's lies at the same place */
	p->scale[0] = p->scale[1] = p->min[0] = p->min[1] = 1;
	for (int j = 0; j < 32; j++)
		switch (type) {
		case DTYPE_Q8_0:
			p->q[j] = q8->q[j];
			break;
		case DTYPE_Q4_0:
			p->q[j] = nibble(q4->q, j) - 8;
			break;
		case DTYPE_Q4_1:
			p->q[j] = nibble(q41->q, j);
			break;
		case DTYPE_Q5_0:
			p->q[j] = five_bits(q5->q, q5->high, j) - 16;
			break;
		case DTYPE_Q5_1:
			p->q[j] = five_bits(q51->q, q51->high, j);
			break;
		default:
			p->q[j] = iq4_values[nibble(q4->q, j)];
		}
}

/* The scales and minima of sixteen groups of 16 (types with groups of 32: each twice) */
static void take_scales(enum dtype type, const void* block, struct decoded_parts* p) {
	const struct block_q2_k* q2 = block;
	const struct block_q3_k* q3 = block;
	const struct block_q4_k* q4 = block;
	const struct block_q5_k* q5 = block;
	const struct block_q6_k* q6 = block;
	uint8_t scale, min;
	memset(p->min, 0, sizeof p->min);
	p->dmin = 0;
	for (int g = 0; g < 16; g++)
		switch (type) {
		case DTYPE_Q2_K:
			p->d = half_at(q2->d), p->dmin = half_at(q2->dmin);
			p->scale[g] = q2->scales[g] & 15, p->min[g] = q2->scales[g] >> 4;
			break;
		case DTYPE_Q3_K:
			p->d = half_at(q3->d), p->scale[g] = q3_scale(g, q3->scales);
			break;
		case DTYPE_Q4_K:
		case DTYPE_Q5_K:
			k4_scale_min(g / 2, type == DTYPE_Q4_K ? q4->scales : q5->scales, &scale, &min);
			p->d = half_at(q4->d), p->dmin = half_at(q4->dmin);
			p->scale[g] = scale, p->min[g] = min;
			break;
		case DTYPE_Q6_K:
			p->d = half_at(q6->d), p->scale[g] = q6->scales[g];
			break;
		default:
			p->d = half_at(block), p->scale[g] = iq4_scale(g / 2, block);
		}
}

static void take_super(enum dtype type, const void* block, struct decoded_parts* p) {
	const struct block_q2_k* q2 = block;
	const struct block_q4_k* q4 = block;
	const struct block_iq4_xs* iq4 = block;
	take_scales(type, block, p);
	for (int j = 0; j < BLOCK_SUPER; j++)
		switch (type) {
		case DTYPE_Q2_K:
			p->q[j] = low_two_bits(q2->q, j);
			break;
		case DTYPE_Q3_K:
			p->q[j] = q3_bits(block, j) - 4;
			break;
		case DTYPE_Q4_K:
			p->q[j] = k4_nibble(q4->q, j);
			break;
		case DTYPE_Q5_K:
			p->q[j] = q5_bits(block, j);
			break;
		case DTYPE_Q6_K:
			p->q[j] = q6_bits(block, j) - 32;
			break;
		default:
			p->q[j] = iq4_values[nibble(iq4->q + j / 32 * 16, j % 32)];
		}
}

/* Elements [first, first + count) of a block against as many of a prepared row */
static float group_product(const struct decoded_parts* p, int first, int count, const int8_t* q, float d) {
	int sum = 0, minima = 0;
	for (int j = 0; j < count; j += 16) {
		const int g = (first + j) / 16;
		int dot = 0;
		for (int e = 0; e < 16; e++)
			dot += p->q[first + j + e] * q[j + e];
		sum += p->scale[g] * dot;
		minima += p->min[g] * sum_of(q + j, 16);
	}
	return p->d * d * (float)sum - p->dmin * d * (float)minima;
}

/* row: in an interleaved tensor the group of INTERLEAVED_ROWS rows that contains `lane`; otherwise that row,
 * and lane is negative */
static void quantized_row(float* out, size_t out_stride, enum dtype type, const uint8_t* row, int lane,
                          int64_t cols, const uint8_t* x, size_t x_bytes, int n) {
	const int block = dtype_block(type), group = activation_block(type);
	const size_t d_offset = prepared_layout(type, (int)cols).d, bytes = dtype_block_bytes(type);
	float sum[MAX_ROWS] = {0};
	struct decoded_parts parts;
	unsigned char own[sizeof(struct block_q6_k)]; /* a block out of a group; none is larger */
	for (int64_t k = 0; k < cols; k += group) {
		if (k % block == 0) {
			const uint8_t* at = row + bytes * (lane >= 0 ? INTERLEAVED_ROWS : 1) * (size_t)(k / block);
			if (lane >= 0)
				deinterleave_block(type, own, at, lane);
			(block == BLOCK_SMALL ? take_small : take_super)(type, lane >= 0 ? own : at, &parts);
		}
		for (int i = 0; i < n; i++) {
			const uint8_t* xi = x + (size_t)i * x_bytes;
			float d;
			memcpy(&d, xi + d_offset + (size_t)(k / group) * 4, 4);
			sum[i] += group_product(&parts, (int)(k % block), group, (const int8_t*)xi + k, d);
		}
	}
	for (int i = 0; i < n; i++)
		out[(size_t)i * out_stride] = sum[i];
}

void reference_matmul(float* out, size_t out_stride, const struct tensor* w, int64_t begin, int64_t end,
                      const void* x, int n) {
	const size_t row_bytes = dtype_row_bytes(w->type, w->cols);
	const size_t x_bytes = reference_prepared_bytes(w->type, (int)w->cols);
	for (int64_t r = begin; r < end; r++) {
		const int lane = w->interleaved ? (int)(r % INTERLEAVED_ROWS) : -1;
		const uint8_t* row = (const uint8_t*)w->data + row_bytes * (size_t)(w->interleaved ? r - lane : r);
		if (dtype_takes_floats(w->type))
			float_row(out + r, out_stride, w->type, row, w->cols, x, x_bytes, n);
		else
			quantized_row(out + r, out_stride, w->type, row, lane, w->cols, x, x_bytes, n);
	}
}
