/* Products of weights with 1 to 64 rows of activations on the tensor cores: chooses the kernel (product.cuh),
 * the number of parts, and what runs with it. */
#include "kernels/cuda/matmul.cuh"
#include "kernels/cuda/parts.h"
#include "kernels/cuda/planes.cuh"

static bool is_half(const struct matrix& w) { return w.type == DTYPE_F16 || w.type == DTYPE_BF16; }

/* Whether all that the product may run is in halves: a kernel of its own, since registers are few. */
static bool is_plain(const struct device_product& p) {
	bool plain = !p.has_quantized;
	for (int i = 0; i < p.parts; i++)
		plain = plain && is_half(p.w[i]);
	return plain;
}

size_t tiles_of(const struct cuda_backend* b) { return (size_t)tiles_in(b->shape.dim); }
size_t tile_sums_of(const struct cuda_backend* b) { return tiles_of(b) * WARPS * TILE * 8 * FEW_BUCKETS; }

static int parts_for(const struct cuda_backend* b, const struct device_product& p, int bucket) {
	const struct matrix& w = p.has_quantized ? p.quantized[0] : p.w[0];
	const struct planes row = planes_of(w.type, w.cols);
	if (p.parts > 1 || p.norm.weight || bucket > FEW_BUCKETS || w.rows > b->shape.dim)
		return 1;
	if (b->column_parts > 0)
		return b->column_parts;
	return parts_by_shape(tiles_in(w.rows),
	                      (double)w.rows * (double)(row.data + row.high + row.scale + row.factor),
	                      b->multiprocessors);
}

void launch_product(const struct cuda_backend* b, const struct device_product* p, const void* x, int bucket,
                    int sub_layer) {
	const int parts = parts_for(b, *p, bucket);
	by_activation(b, [&](auto type) {
		using T = decltype(type);
		(is_plain(*p) ? launch_product_of<T, false> : launch_product_of<T, true>)(b, p, x, bucket, sub_layer,
		                                                                          parts);
	});
}

/* Every block of the product would normalise the activations again. Beside weights of few bits, which are
 * read in a quarter of the time, that costs more than a launch. */
bool norm_goes_along(const struct cuda_backend* b, const struct device_product* p, int bucket) {
	bool wide = true;
	for (int i = 0; i < p->parts; i++) {
		wide = wide && (is_half(p->w[i]) || p->w[i].type == DTYPE_Q8_0);
		wide = wide && (!p->has_quantized || is_half(p->quantized[i]) || p->quantized[i].type == DTYPE_Q8_0);
	}
	return wide && b->launches != LAUNCHES_SEPARATE && bucket <= FEW_BUCKETS;
}

bool rope_is_fused(const struct cuda_backend* b) {
	const int head = b->shape.head_dim;
	return b->launches != LAUNCHES_SEPARATE && head % TILE == 0 && head <= FUSED_HEAD;
}
