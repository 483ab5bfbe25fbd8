/* A row's logits are the same bits however it is computed, on the GPU: support_invariance.h. Linked a second
 * time with the emulated device, so that it also runs where there is no GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/kernels/support_invariance.h"
#include "tests/must.h"

static struct backend* open_cuda(const struct weight_table* weights, const struct invariance_way* way,
                                 int threads, struct error* error) {
	(void)way;
	(void)threads;
	const struct backend_options options = {.context = INVARIANCE_CONTEXT};
	return cuda_open(weights, &options, error);
}

static void try_model(const struct model_shape* shape, const enum dtype* types, int n_types, int with,
                      uint64_t seed, const int* sizes, int n_sizes) {
	struct random_model* m = random_model_make(shape, types, n_types, with, seed);
	const struct invariance_way way = {
	    .open = open_cuda, .cache = DTYPE_F16, .size = sizes, .n_sizes = n_sizes};
	assert_true(invariance_holds(m, &way, seed));
	random_model_free(m);
}

/* Either side of every number of tiles, of a slice, the paper's largest tree, the most a pass takes. */
#ifdef SWIFTLET_EMULATED
static const int sizes[] = {1, 9, 66};
static const int few_sizes[] = {20};
#else
static const int sizes[] = {1, 2, 7, 8, 9, 16, 17, 32, 33, 64, 65, 83, 130, 256};
static const int few_sizes[] = {3, 20, 70};
#endif
#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static void llama_f16(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16};
	const struct model_shape shape = random_shape(2, 128, 2, 1, 64, 352, 300);
	try_model(&shape, types, 1, 0, 1, sizes, COUNT(sizes));
}

static void biases_and_scaling(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_F16, DTYPE_F32};
	struct model_shape shape = random_shape(2, 96, 6, 1, 16, 64, 1333);
	shape.rope.scaling = ROPE_DYNAMIC;
	shape.rope.factor = 2;
	shape.rope.original_context = 32;
	try_model(&shape, types, 2, WITH_BIASES | WITH_TIED_HEAD, 2, few_sizes, COUNT(few_sizes));
}

static void quantized(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_Q8_0};
	struct model_shape shape = random_shape(2, 128, 2, 2, 64, 192, 77);
	shape.rope.interleaved = true;
	try_model(&shape, types, 1, WITH_HEAD_NORMS, 3, few_sizes, COUNT(few_sizes));
}

static void mixed_types(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_Q8_0, DTYPE_F16, DTYPE_Q4_0, DTYPE_BF16};
	const struct model_shape shape = random_shape(1, 64, 2, 1, 32, 96, 131);
	try_model(&shape, types, 4, 0, 4, few_sizes, COUNT(few_sizes));
}

static void few_bits(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_Q4_K, DTYPE_Q6_K, DTYPE_Q4_K};
	const struct model_shape shape = random_shape(1, 256, 4, 2, 64, 256, 40);
	try_model(&shape, types, 3, 0, 6, few_sizes, COUNT(few_sizes));
}

static void gemma_like(void** state) {
	(void)state;
	const enum dtype types[] = {DTYPE_BF16};
	struct model_shape shape = random_shape(3, 64, 4, 2, 80, 96, 257);
	shape.norm_plus_one = true;
	shape.activation = ACTIVATION_GELU_TANH;
	shape.embedding_scale = 8;
	try_model(&shape, types, 1, WITH_POST_NORMS | WITH_SOFTCAPS | WITH_WINDOW | WITH_BIASES, 5, few_sizes,
	          COUNT(few_sizes));
}

int main(void) {
	if (!gpu_is_here())
		return 77;
	const struct CMUnitTest tests[] = {cmocka_unit_test(llama_f16), cmocka_unit_test(biases_and_scaling),
	                                   cmocka_unit_test(quantized), cmocka_unit_test(mixed_types),
	                                   cmocka_unit_test(few_bits),  cmocka_unit_test(gemma_like)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
