/* Packed weights of folders, converted: values by the formats' formulas on small tensors, and what is
 * missing, of another shape or no number refused by name. Whole models are tests of core/oracle. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/model/repack.h"
#include "tests/core/made_tensors.h"

static const struct named_tensor* repacked(struct made* m, struct packing packing, const char* name,
                                           enum dtype type) {
	struct error error = {""};
	assert_true(tensor_table_seal(&m->table, &error));
	if (!repack_tensors(&m->table, &packing, &m->kept, &error))
		fail_msg("%s", error.message);
	const struct named_tensor* t = tensor_table_find(&m->table, name);
	assert_non_null(t);
	assert_int_equal(t->type, type);
	return t;
}

static void refused(struct made* m, struct packing packing, const char* part) {
	struct error error = {""};
	assert_true(tensor_table_seal(&m->table, &error));
	assert_false(repack_tensors(&m->table, &packing, &m->kept, &error));
	if (!strstr(error.message, part))
		fail_msg("the message is \"%s\", expected \"%s\" in it", error.message, part);
	drop(m);
}

/* 32 inputs of 8 outputs: input k of output n is (k + n) % 16. */
static void gptq_words(uint32_t out[4][8]) {
	for (uint32_t k = 0; k < 32; k++)
		for (uint32_t n = 0; n < 8; n++)
			out[k / 8][n] = (k % 8 ? out[k / 8][n] : 0) | (k + n) % 16 << 4 * (k % 8);
}

static const float one_scale[8] = {1, 2, 3, 4, 5, 6, 7, 8};

static void check_values(const struct named_tensor* t, const int zero[8]) {
	float x[32];
	assert_true(t->n_dims == 2 && t->dim[0] == 8 && t->dim[1] == 32);
	for (int n = 0; n < 8; n++) {
		dtype_to_float(t->type, t->data + (size_t)n * dtype_row_bytes(t->type, 32), x, 32);
		for (int k = 0; k < 32; k++)
			assert_true(x[k] == one_scale[n] * (float)((k + n) % 16 - zero[n]));
	}
}

static void gptq_values(void** state) {
	(void)state;
	uint32_t words[4][8], order[32] = {0};
	const uint32_t zeros[1] = {0xf7654321}; /* of outputs 0…7, the last's nibble the highest */
	static const int zero[8] = {1, 2, 3, 4, 5, 6, 7, 15}, more[8] = {2, 3, 4, 5, 6, 7, 8, 0};
	gptq_words(words);
	struct made m = {0};
	ADD(&m, "a.qweight", "I32", words, 4, 8);
	ADD(&m, "a.qzeros", "I32", zeros, 1, 1);
	ADD(&m, "a.scales", "F32", one_scale, 1, 8);
	ADD(&m, "a.g_idx", "I32", order, 32);
	check_values(
	    repacked(&m, (struct packing){.method = PACKING_GPTQ, .group = 0}, "a.weight", DTYPE_Q4_GROUP), zero);
	assert_true(tensor_table_find(&m.table, "a.g_idx")->used);
	drop(&m);
	/* zeros less one: 15 stands for 0 */
	ADD(&m, "a.qweight", "I32", words, 4, 8);
	ADD(&m, "a.qzeros", "I32", zeros, 1, 1);
	ADD(&m, "a.scales", "F32", one_scale, 1, 8);
	check_values(repacked(&m, (struct packing){.method = PACKING_GPTQ, .group = 32, .zeros_less_one = true},
	                      "a.weight", DTYPE_Q4_GROUP),
	             more);
	drop(&m);
}

static void awq_values(void** state) {
	(void)state;
	static const int deal[8] = {0, 2, 4, 6, 1, 3, 5, 7};
	uint32_t words[32][1] = {{0}}, zeros[1] = {0};
	static const int zero[8] = {8, 7, 6, 5, 4, 3, 2, 1};
	for (int i = 0; i < 8; i++) {
		for (int k = 0; k < 32; k++)
			words[k][0] |= (uint32_t)((k + deal[i]) % 16) << 4 * i;
		zeros[0] |= (uint32_t)zero[deal[i]] << 4 * i;
	}
	struct made m = {0};
	ADD(&m, "a.qweight", "I32", words, 32, 1);
	ADD(&m, "a.qzeros", "I32", zeros, 1, 1);
	ADD(&m, "a.scales", "F32", one_scale, 1, 8);
	check_values(
	    repacked(&m, (struct packing){.method = PACKING_AWQ, .group = 128}, "a.weight", DTYPE_Q4_GROUP),
	    zero);
	drop(&m);
}

/* Inputs of two groups in turn do not make blocks: F32. */
static void reordered_inputs(void** state) {
	(void)state;
	uint32_t words[4][8], order[32];
	const uint32_t zeros[2] = {0, 0x11111111};
	float scales[16];
	gptq_words(words);
	for (uint32_t k = 0; k < 32; k++)
		order[k] = k % 2;
	for (int i = 0; i < 16; i++)
		scales[i] = i < 8 ? 1 : 10;
	struct made m = {0};
	ADD(&m, "a.qweight", "I32", words, 4, 8);
	ADD(&m, "a.qzeros", "I32", zeros, 2, 1);
	ADD(&m, "a.scales", "F32", scales, 2, 8);
	ADD(&m, "a.g_idx", "I32", order, 32);
	const struct named_tensor* t =
	    repacked(&m, (struct packing){.method = PACKING_GPTQ, .group = 16}, "a.weight", DTYPE_F32);
	const float* x = (const float*)(const void*)t->data;
	for (int n = 0; n < 8; n++)
		for (int k = 0; k < 32; k++)
			assert_true(x[n * 32 + k] == (k % 2 ? 10.0f * (float)((k + n) % 16 - 1) : (float)((k + n) % 16)));
	drop(&m);
}

static void broken_groups(void** state) {
	(void)state;
	static const uint32_t words[4][8] = {{0}}, zeros[1] = {0}, order[32] = {3};
	static const float bad[8] = {1, 1, 1, INFINITY, 1, 1, 1, 1};
	const struct packing gptq = {.method = PACKING_GPTQ, .group = 0};
	struct made m = {0};
	ADD(&m, "a.qweight", "F32", words, 4, 8);
	refused(&m, gptq, "tensor a.qweight is not a matrix of I32");
	ADD(&m, "a.qweight", "I32", words, 4, 8);
	refused(&m, gptq, "tensor a.qzeros is missing, and a.qweight needs it");
	ADD(&m, "a.qweight", "I32", words, 4, 8);
	ADD(&m, "a.qzeros", "I32", words, 4, 8);
	refused(&m, gptq, "tensor a.qzeros is not I32 of shape (1, 1)");
	ADD(&m, "a.qweight", "I32", words, 4, 8);
	ADD(&m, "a.qzeros", "I32", zeros, 1, 1);
	refused(&m, gptq, "tensor a.scales is missing");
	ADD(&m, "a.qweight", "I32", words, 4, 8);
	ADD(&m, "a.qzeros", "I32", zeros, 1, 1);
	ADD(&m, "a.scales", "F32", one_scale, 8, 1);
	refused(&m, gptq, "tensor a.scales is not floats of shape (1, 8)");
	ADD(&m, "a.qweight", "I32", words, 4, 8);
	ADD(&m, "a.qzeros", "I32", zeros, 1, 1);
	ADD(&m, "a.scales", "F32", bad, 1, 8);
	refused(&m, gptq, "the scale of group 0, output 3 is not a finite number");
	ADD(&m, "a.qweight", "I32", words, 4, 8);
	ADD(&m, "a.qzeros", "I32", zeros, 1, 1);
	ADD(&m, "a.scales", "F32", one_scale, 1, 8);
	ADD(&m, "a.g_idx", "I32", order, 32);
	refused(&m, gptq, "input 0 belongs to group 3, but there are 1 groups");
	ADD(&m, "a.weight", "F32", one_scale, 8);
	ADD(&m, "a.qweight", "I32", words, 4, 8);
	ADD(&m, "a.qzeros", "I32", zeros, 1, 1);
	ADD(&m, "a.scales", "F32", one_scale, 1, 8);
	refused(&m, gptq, "tensor a.weight occurs twice");
}

/* compressed-tensors: words of eight inputs an output, a zero of 8 where none is stored, zeros eight outputs
 * a word. Input k of output n is (k + n) % 16. */
static void compressed_values(void** state) {
	(void)state;
	static const int eights[8] = {8, 8, 8, 8, 8, 8, 8, 8}, own[8] = {0, 1, 2, 3, 4, 5, 6, 7};
	static const int64_t shape[2] = {8, 32}, other[2] = {8, 31};
	static const uint32_t zeros[1] = {0x76543210};
	const struct packing packing = {.method = PACKING_COMPRESSED, .group = 32};
	uint32_t words[8][4] = {{0}};
	struct made m = {0};
	for (uint32_t n = 0; n < 8; n++)
		for (uint32_t k = 0; k < 32; k++)
			words[n][k / 8] |= (k + n) % 16 << 4 * (k % 8);
	for (int with_zeros = 0; with_zeros < 2; with_zeros++) {
		ADD(&m, "a.weight_packed", "I32", words, 8, 4);
		ADD(&m, "a.weight_scale", "F32", one_scale, 8, 1);
		ADD(&m, "a.weight_shape", "I64", shape, 2);
		if (with_zeros)
			ADD(&m, "a.weight_zero_point", "I32", zeros, 1, 1);
		check_values(repacked(&m, packing, "a.weight", DTYPE_Q4_GROUP), with_zeros ? own : eights);
		drop(&m);
	}
	ADD(&m, "a.weight_packed", "I32", words, 8, 4);
	refused(&m, packing, "tensor a.weight_scale is missing");
	ADD(&m, "a.weight_packed", "I32", words, 8, 4);
	ADD(&m, "a.weight_scale", "F32", one_scale, 1, 8);
	refused(&m, packing, "tensor a.weight_scale is not floats of shape (8, 1)");
	ADD(&m, "a.weight_packed", "I32", words, 8, 4);
	ADD(&m, "a.weight_scale", "F32", one_scale, 8, 1);
	ADD(&m, "a.weight_shape", "I64", other, 2);
	refused(&m, packing,
	        "tensor a.weight_shape gives the shape (8, 31), but the packed words have room for (8, 32)");
}

/* Q1_0: ±d by bits, Q2_0: d·(code - 1), the first code lowest; both by ggml's definition. */
static void few_bits(void** state) {
	(void)state;
	uint8_t one[2][18] = {{0}}, two[2][18] = {{0}};
	float x[256];
	struct made m = {0};
	struct error error = {""};
	for (int i = 0; i < 256; i++)
		one[i / 128][2 + i % 128 / 8] |= (uint8_t)((i * i / 3 & 1) << i % 8);
	for (int i = 0; i < 128; i++)
		two[i / 64][2 + i % 64 / 4] |= (uint8_t)((i * 7 / 3 & 3) << 2 * (i % 4));
	one[0][1] = two[0][1] = 0x3c; /* 1 */
	one[1][1] = two[1][1] = 0xb8; /* -1/2 */
	ADD(&m, "a", "Q1_0", one, 1, 256);
	ADD(&m, "b", "Q2_0", two, 2, 64);
	assert_true(tensor_table_seal(&m.table, &error));
	assert_true(repack_few_bits(&m.table, &m.kept, &error));
	const struct named_tensor *a = tensor_table_find(&m.table, "a"), *b = tensor_table_find(&m.table, "b");
	assert_true(a->supported && a->type == DTYPE_Q4_0 && a->bytes == dtype_row_bytes(DTYPE_Q4_0, 256));
	dtype_to_float(a->type, a->data, x, 256);
	for (int i = 0; i < 256; i++)
		assert_true(x[i] == (i < 128 ? 1.0f : -0.5f) * (i * i / 3 & 1 ? 1.0f : -1.0f));
	assert_true(b->supported && b->bytes == dtype_row_bytes(DTYPE_Q4_0, 128));
	dtype_to_float(b->type, b->data, x, 128);
	for (int i = 0; i < 128; i++)
		assert_true(x[i] == (i < 64 ? 1.0f : -0.5f) * (float)((i * 7 / 3 & 3) - 1));
	drop(&m);
}

/* A GGUF block: four scales, then four groups, of which a byte has an element of each half. The codes' values
 * are ggml's doubled ones, so its scales are halved. */
static void nvfp4_blocks(void** state) {
	(void)state;
	static const int doubled[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
	static const float scale[2][4] = {{1, 0.5f, 448, 0.001953125f}, {0, 1.125f, 0, 240}};
	/* 0 is 0, 0x7f too, and the sign means nothing */
	uint8_t block[2][36] = {{0x38, 0x30, 0x7e, 0x01}, {0x00, 0xb9, 0x7f, 0x77}};
	const float factors[2] = {3, -0.5f}, none[1] = {INFINITY};
	float x[64];
	struct error error = {""};
	for (int b = 0; b < 2; b++)
		for (int i = 0; i < 32; i++)
			block[b][4 + i] = (uint8_t)(37 * i + 11 * b);
	struct made m = {0};
	ADD(&m, "e.weight", "NVFP4", block, 2, 1, 64);
	ADD(&m, "e.scale", "F32", factors, 2);
	ADD(&m, "e.input_scale", "F32", none, 1);
	assert_true(tensor_table_seal(&m.table, &error));
	assert_true(repack_nvfp4_blocks(&m.table, &m.kept, &error));
	const struct named_tensor* t = tensor_table_find(&m.table, "e.weight");
	assert_true(t->supported && t->type == DTYPE_BF16 && t->bytes == 2 * 2 * 64);
	for (int b = 0; b < 2; b++) {
		dtype_to_float(t->type, t->data + 2 * 64 * b, x, 64);
		for (int i = 0; i < 64; i++) {
			const uint8_t byte = block[b][4 + i / 16 * 8 + i % 8];
			const int code = i % 16 < 8 ? byte & 15 : byte >> 4;
			assert_true(x[i] == 0.5f * scale[b][i / 16] * (float)doubled[code] * factors[b]);
		}
	}
	assert_true(tensor_table_find(&m.table, "e.scale")->used);
	drop(&m);
	ADD(&m, "e.weight", "NVFP4", block, 2, 64);
	ADD(&m, "e.scale", "F32", none, 1);
	assert_true(tensor_table_seal(&m.table, &error));
	assert_false(repack_nvfp4_blocks(&m.table, &m.kept, &error));
	assert_non_null(strstr(error.message, "tensor e.scale is not made of finite numbers"));
	drop(&m);
	ADD(&m, "e.weight", "NVFP4", block, 2, 64);
	ADD(&m, "e.scale", "F32", factors, 2);
	assert_true(tensor_table_seal(&m.table, &error));
	assert_false(repack_nvfp4_blocks(&m.table, &m.kept, &error));
	drop(&m);
}

/* Rows of gate and up in turn, inputs first: gate[e][n][k] = up's minus 100. */
static void experts_apart(void** state) {
	(void)state;
	float stack[2][3][4];
	for (int e = 0; e < 2; e++)
		for (int k = 0; k < 3; k++)
			for (int n = 0; n < 4; n++)
				stack[e][k][n] = (float)(100 * (n % 2) + 10 * (2 * e + n / 2) + k);
	struct made m = {0};
	ADD(&m, "b.experts.gate_up_proj", "F32", stack, 2, 3, 4);
	const struct packing packing = {.experts_inverted = true};
	const struct named_tensor* gate = repacked(&m, packing, "b.experts.gate_proj.weight", DTYPE_F32);
	const struct named_tensor* up = tensor_table_find(&m.table, "b.experts.up_proj.weight");
	assert_non_null(up);
	for (int i = 0; i < 12; i++) {
		const float *g = (const float*)(const void*)gate->data, *u = (const float*)(const void*)up->data;
		assert_true(g[i] == (float)(10 * (i / 3) + i % 3) && u[i] == g[i] + 100);
	}
	drop(&m);
}

static void broken_experts(void** state) {
	(void)state;
	static const uint8_t blocks[2 * 4 * 16] = {0}, scales[8] = {0};
	static const float floats[18] = {0};
	const struct packing packing = {.experts_inverted = true};
	struct made m = {0};
	ADD(&m, "b.experts.gate_up_proj_blocks", "U8", blocks, 2, 4, 1, 16);
	refused(&m, packing, "tensor b.experts.gate_up_proj_scales is missing");
	ADD(&m, "b.experts.gate_up_proj_blocks", "U8", blocks, 2, 4, 1, 16);
	ADD(&m, "b.experts.gate_up_proj_scales", "U8", scales, 2, 2, 2);
	refused(&m, packing, "is not U8 with one exponent for each block");
	ADD(&m, "b.experts.gate_up_proj_blocks", "U8", blocks, 2, 2, 2, 16);
	ADD(&m, "b.experts.gate_up_proj_scales", "I8", scales, 2, 2, 2);
	refused(&m, packing, "is not U8 with one exponent for each block");
	ADD(&m, "b.experts.down_proj_blocks", "U8", blocks, 2, 4, 16);
	refused(&m, packing, "is not U8 of shape (experts, outputs, blocks, 16)");
	ADD(&m, "b.experts.gate_up_proj", "F32", floats, 2, 3, 3);
	refused(&m, packing, "an even number of rows");
	ADD(&m, "b.experts.down_proj_bias", "F32", floats, 18);
	refused(&m, packing, "is not floats of shape (experts, outputs)");
	ADD(&m, "b.experts.down_proj", "F32", floats, 18);
	refused(&m, packing, "is not floats of shape (experts, inputs, outputs)");
}

/* Two elements a byte, the first in the lower bits, in both layouts; and what is refused. */
static void nvfp4_values(void** state) {
	(void)state;
	const struct packing packing = {.method = PACKING_NVFP4};
	uint8_t codes[2][16];
	const uint8_t scales[2][2] = {{0x38, 0x40}, {0x30, 0xb8}}; /* 1, 2, 1/2, -1 */
	const uint8_t broken[2][2] = {{0x38, 0x40}, {0x7f, 0x38}}; /* one is no number */
	const float whole[1] = {4}, two[2] = {4, 4};
	static const float e2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, 0, -0.5f, -1, -1.5f, -2, -3, -4, -6};
	static const float scale[2][2] = {{1, 2}, {0.5f, -1}};
	float x[32];
	for (int n = 0; n < 2; n++)
		for (int k = 0; k < 16; k++)
			codes[n][k] = (uint8_t)((2 * k) % 16 | (2 * k + 1) % 16 << 4);
	for (int modelopt = 0; modelopt < 2; modelopt++) {
		struct made m = {0};
		ADD(&m, modelopt ? "a.weight" : "a.weight_packed", "U8", codes, 2, 16);
		ADD(&m, "a.weight_scale", "F8_E4M3", scales, 2, 2);
		ADD(&m, modelopt ? "a.weight_scale_2" : "a.weight_global_scale", "F32", whole, 1);
		const struct named_tensor* t = repacked(&m, packing, "a.weight", DTYPE_BF16);
		assert_true(t->n_dims == 2 && t->dim[0] == 2 && t->dim[1] == 32);
		for (int n = 0; n < 2; n++) {
			dtype_to_float(DTYPE_BF16, t->data + (size_t)n * 64, x, 32);
			for (int k = 0; k < 32; k++)
				assert_true(x[k] == e2m1[k % 16] * scale[n][k / 16] * (modelopt ? 4 : 0.25f));
		}
		drop(&m);
	}
	struct made m = {0};
	ADD(&m, "a.weight_packed", "U8", codes, 2, 16);
	refused(&m, packing, "a weight_scale of F8_E4M3 for each 16 elements");
	ADD(&m, "a.weight_packed", "U8", codes, 2, 16);
	ADD(&m, "a.weight_scale", "F8_E4M3", scales, 2, 2);
	ADD(&m, "a.weight_global_scale", "F32", two, 2);
	refused(&m, packing, "one scale for the matrix");
	ADD(&m, "a.weight_packed", "U8", codes, 4, 8);
	ADD(&m, "a.weight_scale", "F8_E4M3", scales, 2, 2);
	ADD(&m, "a.weight_global_scale", "F32", whole, 1);
	refused(&m, packing, "a weight_scale of F8_E4M3 for each 16 elements");
	ADD(&m, "a.weight_packed", "U8", codes, 8, 4);
	refused(&m, packing, "whole groups of 16 elements");
	ADD(&m, "a.weight_packed", "U8", codes, 2, 16);
	ADD(&m, "a.weight_scale", "F8_E4M3", broken, 2, 2);
	ADD(&m, "a.weight_global_scale", "F32", whole, 1);
	refused(&m, packing, "made of finite numbers");
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(gptq_values),       cmocka_unit_test(nvfp4_values),
	                                   cmocka_unit_test(nvfp4_blocks),      cmocka_unit_test(awq_values),
	                                   cmocka_unit_test(reordered_inputs),  cmocka_unit_test(broken_groups),
	                                   cmocka_unit_test(compressed_values), cmocka_unit_test(few_bits),
	                                   cmocka_unit_test(experts_apart),     cmocka_unit_test(broken_experts)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
