/* FP8 and F64 tensors become F32; scales that are missing, of another shape or no numbers are refused by
 * name. Stacks of experts are taken whole or refused. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/model/repack.h"
#include "tests/core/made_tensors.h"

static const float* widened(struct made* m, const char* name, struct fp8_blocks blocks) {
	struct error error = {""};
	assert_true(tensor_table_seal(&m->table, &error));
	if (!repack_tensors(&m->table, &(struct packing){.fp8 = blocks}, &m->kept, &error))
		fail_msg("%s", error.message);
	const struct named_tensor* t = tensor_table_find(&m->table, name);
	assert_true(t->supported && t->type == DTYPE_F32);
	return (const float*)(const void*)t->data;
}

static void refused(struct made* m, struct fp8_blocks blocks, const char* part) {
	struct error error = {""};
	assert_true(tensor_table_seal(&m->table, &error));
	assert_false(repack_tensors(&m->table, &(struct packing){.fp8 = blocks}, &m->kept, &error));
	if (!strstr(error.message, part))
		fail_msg("the message is \"%s\", expected \"%s\" in it", error.message, part);
	drop(m);
}

/* Subnormals, the smallest normal number, one, the largest, their negatives, and the two that are no numbers.
 */
static void values_of_e4m3(void** state) {
	(void)state;
	static const uint8_t bits[] = {0x00, 0x01, 0x07, 0x08, 0x38, 0x39, 0x7e, 0x81, 0xfe, 0x7f};
	static const float expected[] = {0, 0x1p-9f, 0x7p-9f, 0x1p-6f, 1, 1.125f, 448, -0x1p-9f, -448};
	static const float one[] = {1};
	struct made m = {0};
	ADD(&m, "w.weight", "F8_E4M3", bits, 2, 5);
	ADD(&m, "w.weight_scale", "F32", one, 1);
	const float* x = widened(&m, "w.weight", (struct fp8_blocks){0, 0});
	assert_memory_equal(x, expected, sizeof expected);
	assert_true(isnan(x[9]));
	drop(&m);
}

/* Blocks of 2 by 3 over 3 by 5: those at the edges are cut. */
static void scales_by_block_and_by_row(void** state) {
	(void)state;
	uint8_t ones[15];
	memset(ones, 0x38, sizeof ones);
	static const float scale[] = {1, 2, 3, 4}, rows[] = {5, 6, 7};
	static const float by_block[] = {1, 1, 1, 2, 2, 1, 1, 1, 2, 2, 3, 3, 3, 4, 4};
	struct made m = {0};
	ADD(&m, "w.weight", "F8_E4M3", ones, 3, 5);
	ADD(&m, "w.weight_scale_inv", "F32", scale, 2, 2);
	assert_memory_equal(widened(&m, "w.weight", (struct fp8_blocks){2, 3}), by_block, sizeof by_block);
	assert_true(tensor_table_find(&m.table, "w.weight_scale_inv")->used);
	drop(&m);
	m = (struct made){0};
	ADD(&m, "w.weight", "F8_E4M3", ones, 3, 5);
	ADD(&m, "w.weight_scale", "F32", rows, 3, 1);
	const float* x = widened(&m, "w.weight", (struct fp8_blocks){0, 0});
	for (int i = 0; i < 15; i++)
		assert_true(x[i] == rows[i / 5]);
	drop(&m);
}

static void broken_scales(void** state) {
	(void)state;
	static const uint8_t bits[12] = {0};
	static const float five[5] = {1, 1, 1, 1, 1}, bad[1] = {INFINITY};
	const struct fp8_blocks none = {0, 0}, blocks = {2, 2};
	struct made m = {0};
	ADD(&m, "w.weight", "F8_E4M3", bits, 3, 4);
	refused(&m, none,
	        "tensor w.weight is of type F8_E4M3, but its scale (…_scale or …_scale_inv) is missing");
	m = (struct made){0};
	ADD(&m, "w.weight", "F8_E4M3", bits, 3, 4);
	ADD(&m, "w.weight_scale", "F32", five, 5);
	refused(&m, none, "tensor w.weight_scale has 5 scales, expected 1 or one a row, 3");
	m = (struct made){0};
	ADD(&m, "w.weight", "F8_E4M3", bits, 3, 4);
	ADD(&m, "w.weight_scale_inv", "F32", five, 5);
	refused(&m, blocks, "has 5 scales, expected (2, 2) for blocks of 2 rows and 2 columns");
	m = (struct made){0};
	ADD(&m, "w.weight", "F8_E4M3", bits, 3, 4);
	ADD(&m, "w.weight_scale", "F32", bad, 1);
	refused(&m, none, "tensor w.weight_scale: scale 0 is not a finite number");
	m = (struct made){0};
	ADD(&m, "w.weight", "F8_E4M3", bits, 3, 4);
	ADD(&m, "w.weight_scale", "I32", five, 1);
	refused(&m, none, "is not a float");
	m = (struct made){0};
	ADD(&m, "b.weight", "F8_E4M3", bits, 12);
	refused(&m, none, "tensor b.weight is of type F8_E4M3, but it is not a matrix");
}

static void double_precision(void** state) {
	(void)state;
	static const double x[] = {1.5, -0.1};
	struct made m = {0};
	ADD(&m, "n", "F64", x, 2);
	const float* y = widened(&m, "n", (struct fp8_blocks){0, 0});
	assert_true(y[0] == 1.5f && y[1] == -0.1f);
	drop(&m);
}

static void stacks_of_experts(void** state) {
	(void)state;
	static const float data[24] = {0};
	struct error error = {""};
	struct made m = {0};
	struct tensor t;
	ADD(&m, "e", "F32", data, 4, 3, 2);
	assert_true(tensor_table_seal(&m.table, &error));
	assert_true(tensor_table_take_stack(&m.table, "e", 4, 3, 2, &t, &error));
	assert_true(t.rows == 12 && t.cols == 2 && t.data == (const void*)data);
	assert_false(tensor_table_take_stack(&m.table, "e", 5, 3, 2, &t, &error));
	assert_string_equal(error.message, "x.safetensors: tensor e has shape (4, 3, 2), expected (5, 3, 2)");
	assert_false(tensor_table_take_stack(&m.table, "f", 4, 3, 2, &t, &error));
	assert_string_equal(error.message, "x.safetensors: tensor f is missing");
	drop(&m);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(values_of_e4m3),
	                                   cmocka_unit_test(scales_by_block_and_by_row),
	                                   cmocka_unit_test(broken_scales), cmocka_unit_test(double_precision),
	                                   cmocka_unit_test(stacks_of_experts)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
