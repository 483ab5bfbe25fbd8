/* Element types: sizes, names, 16-bit floats over all their values, and every quantized block against
 * what the gguf package makes of it (golden/blocks.bin, from tools/oracle/blocks.py), bit for bit. */
#include "kernels/backend.h"
#include "kernels/cpu/matmul.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* A half's value from its definition: (-1)^s 2^(e-15) (1 + f/1024), or 2^-14 f/1024 */
static double half_value(unsigned h) {
	const int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
	const double sign = h & 0x8000 ? -1 : 1;
	if (exponent == 31)
		return fraction ? NAN : sign * INFINITY;
	return sign * (exponent ? ldexp(1 + fraction / 1024.0, exponent - 15) : ldexp(fraction, -24));
}

static void halves_widen(void** state) {
	(void)state;
	uint16_t* all = malloc(65536 * 2);
	float* x = malloc(65536 * 4);
	for (int h = 0; h < 65536; h++)
		all[h] = (uint16_t)h;
	dtype_to_float(DTYPE_F16, all, x, 65536);
	for (unsigned h = 0; h < 65536; h++) {
		const double want = half_value(h);
		if (isnan(want) ? !isnan(x[h]) : (double)x[h] != want || !signbit(x[h]) != !signbit(want))
			fail_msg("half %04x widens to %a, expected %a", h, (double)x[h], want);
	}
	dtype_to_float(DTYPE_BF16, all, x, 65536);
	for (unsigned h = 0; h < 65536; h++)
		assert_int_equal(bits_from_float(x[h]), h << 16);
	free(all);
	free(x);
}

/* Every half comes back from its own value, and from anywhere nearer to it than to a neighbour; halfway
 * goes to the even one. */
static void halves_round(void** state) {
	(void)state;
	for (unsigned h = 0; h < 0x7c00; h++) {
		const float x = half_to_float((uint16_t)h);
		const double above = h == 0x7bff ? 65536 : half_value(h + 1), middle = ((double)x + above) / 2;
		assert_int_equal(half_from_float(x), h);
		assert_int_equal(half_from_float(-x), h | 0x8000);
		assert_int_equal(half_from_float((float)middle), h & 1 ? h + 1 : h);
		assert_int_equal(half_from_float(nextafterf((float)middle, 0)), h);
		assert_int_equal(half_from_float(nextafterf((float)middle, INFINITY)), h + 1);
	}
	assert_int_equal(half_from_float(INFINITY), 0x7c00);
	assert_int_equal(half_from_float(-3e38f), 0xfc00);
	assert_int_equal(half_from_float(0x1p-149f), 0);
	assert_true(isnan(half_to_float(half_from_float(NAN))));
}

static void bf16_round(void** state) {
	(void)state;
	for (unsigned h = 0; h < 0x7f80; h++) {
		const float x = bf16_to_float((uint16_t)h), middle = float_from_bits(h << 16 | 0x8000);
		assert_int_equal(bf16_from_float(x), h);
		assert_int_equal(bf16_from_float(-x), h | 0x8000);
		assert_int_equal(bf16_from_float(middle), h & 1 ? h + 1 : h);
		assert_int_equal(bf16_from_float(float_from_bits(h << 16 | 0x7fff)), h);
		assert_int_equal(bf16_from_float(float_from_bits(h << 16 | 0x8001)), h + 1);
	}
	assert_true(isnan(bf16_to_float(bf16_from_float(float_from_bits(0x7f800001)))));
}

/* Random bytes as blocks of every type, numbers or not: the fast decoder's bits are the plain one's. */
static void blocks_decode_alike(void** state) {
	(void)state;
#if defined(__x86_64__)
	enum { N = 256 };
	uint8_t bytes[4 * N];
	float plain[N], fast[N];
	uint64_t random = 7;
	for (int round = 0; avx2_supported() && round < 200 * DTYPE_COUNT; round++) {
		const enum dtype type = (enum dtype)(round % DTYPE_COUNT);
		for (size_t i = 0; i < sizeof bytes; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			bytes[i] = (uint8_t)(random >> 56);
		}
		const int n = dtype_block(type) > 1 ? N : N - round % 9; /* not of whole registers alone */
		dtype_to_float(type, bytes + round % 3, plain, n);
		avx2_decode(type, bytes + round % 3, fast, n);
		for (int i = 0; i < n; i++)
			if (bits_from_float(plain[i]) != bits_from_float(fast[i]) && !(isnan(plain[i]) && isnan(fast[i])))
				fail_msg("%s element %d is %a, plainly %a", dtype_name(type), i, (double)fast[i],
				         (double)plain[i]);
	}
#endif
}

static void names_and_sizes(void** state) {
	(void)state;
	enum dtype type;
	for (int t = 0; t < DTYPE_COUNT; t++) {
		assert_true(dtype_parse(dtype_name((enum dtype)t), &type));
		assert_int_equal(type, t);
		assert_int_equal(dtype_row_bytes((enum dtype)t, 512),
		                 512 / (size_t)dtype_block((enum dtype)t) * dtype_block_bytes((enum dtype)t));
	}
	assert_true(dtype_parse("Q4_K", &type));
	assert_int_equal(type, DTYPE_Q4_K);
	assert_false(dtype_parse("q4", &type));
	assert_false(dtype_parse("q4_kk", &type));
	assert_false(dtype_parse("", &type));
	assert_int_equal(dtype_row_bytes(DTYPE_Q8_0, 33), 0);
	assert_int_equal(dtype_row_bytes(DTYPE_Q6_K, 128), 0);
	assert_int_equal(dtype_row_bytes(DTYPE_F32, 0), 0);
	assert_int_equal(dtype_row_bytes(DTYPE_F32, -4), 0);
	assert_int_equal(dtype_row_bytes(DTYPE_F32, INT64_MAX), 0);
}

static void read_exactly(FILE* file, void* out, size_t bytes) {
	assert_int_equal(fread(out, 1, bytes, file), bytes);
}

/* One type's blocks, laid at an odd address */
static void check_golden(FILE* file, const char* name) {
	enum dtype type;
	uint32_t count, bytes, elements;
	assert_true(dtype_parse(name, &type));
	read_exactly(file, &count, 4);
	read_exactly(file, &bytes, 4);
	read_exactly(file, &elements, 4);
	assert_int_equal(dtype_block_bytes(type), bytes);
	assert_int_equal(dtype_block(type), elements);
	const size_t n = (size_t)count * elements;
	uint8_t* blocks = malloc((size_t)count * bytes + 1);
	float *want = malloc(n * 4), *got = malloc(n * 4);
	read_exactly(file, blocks + 1, (size_t)count * bytes);
	read_exactly(file, want, n * 4);
	dtype_to_float(type, blocks + 1, got, (int64_t)n);
	for (size_t i = 0; i < n; i++)
		if (bits_from_float(got[i]) != bits_from_float(want[i]))
			fail_msg("%s element %zu is %a, expected %a", name, i, (double)got[i], (double)want[i]);
	free(blocks);
	free(want);
	free(got);
}

static void blocks_widen(void** state) {
	(void)state;
	const char* source = getenv("SWIFTLET_SOURCE");
	char path[4096], name[17] = {0};
	snprintf(path, sizeof path, "%s/tests/checkkernels/golden/blocks.bin", source ? source : ".");
	FILE* file = fopen(path, "rb");
	if (!file)
		fail_msg("%s is missing", path);
	int types = 0;
	while (fread(name, 1, 16, file) == 16) {
		check_golden(file, name);
		types++;
	}
	fclose(file);
	assert_int_equal(types, DTYPE_COUNT - 6); /* but floats and the groups of our own */
}

/* E4M3 from its definition: (-1)^s 2^(e-7) (1 + m/8), or 2^-6 m/8; and the groups that hold it. */
static void f8_widens(void** state) {
	(void)state;
	struct block_f8_group block;
	float x[32];
	const float d = 3;
	memcpy(block.d, &d, 4);
	for (int bits = 0; bits < 256; bits++) {
		const int exponent = bits >> 3 & 15, m = bits & 7;
		const double size = exponent ? ldexp(1 + m / 8.0, exponent - 7) : ldexp(m, -9);
		memset(block.q, bits, sizeof block.q);
		dtype_to_float(DTYPE_F8_GROUP, &block, x, 32);
		if ((bits & 127) == 127)
			assert_true(isnan(x[31]));
		else
			assert_true((double)x[31] == 3 * (bits & 128 ? -size : size));
	}
}

/* x = d·(q - zero) at either end of both. */
static void groups_widen(void** state) {
	(void)state;
	struct block_q4_group block;
	float x[32];
	const float d = 0.1f;
	memcpy(block.d, &d, 4);
	for (int zero = 0; zero <= 16; zero++) {
		block.zero = (uint8_t)zero;
		for (int j = 0; j < 16; j++)
			block.q[j] = (uint8_t)(j | (15 - j) << 4);
		dtype_to_float(DTYPE_Q4_GROUP, &block, x, 32);
		for (int j = 0; j < 16; j++) {
			assert_true(x[j] == d * (float)(j - zero));
			assert_true(x[16 + j] == d * (float)(15 - j - zero));
		}
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(halves_widen), cmocka_unit_test(halves_round),
	                                   cmocka_unit_test(bf16_round),   cmocka_unit_test(names_and_sizes),
	                                   cmocka_unit_test(blocks_widen), cmocka_unit_test(blocks_decode_alike),
	                                   cmocka_unit_test(f8_widens),    cmocka_unit_test(groups_widen)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
