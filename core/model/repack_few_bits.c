/* Converts GGUF's weights of one and two bits: a scale of 16 bits, then the codes, the first in the lowest
 * bits. Q1_0 has 128 codes of one bit, 0 for -d and 1 for d. Q2_0 has 64 codes of two bits, d·(code - 1).
 * Both become Q4_0, d·(q - 8), exactly. It takes four or two times the bytes and runs on every backend. */
#include "core/model/repack.h"

#include <string.h>

#include "kernels/dtype_blocks.h"

struct few_bit_type {
	const char* name;
	int elements, bits;
};

static unsigned code_at(const uint8_t* codes, const struct few_bit_type* few, int i) {
	const int bit = i * few->bits;
	return (unsigned)codes[bit / 8] >> bit % 8 & ((1u << few->bits) - 1);
}

/* Q4_0's code of the same value. */
static unsigned wide_code(const struct few_bit_type* few, const uint8_t* codes, int i) {
	const unsigned code = code_at(codes, few, i);
	return few->bits == 1 ? 7 + 2 * code : 7 + code;
}

static void lay_block(const struct few_bit_type* few, const uint8_t* from, struct block_q4_0* out) {
	const uint8_t* codes = from + 2;
	for (int b = 0; b < few->elements / BLOCK_SMALL; b++, out++) {
		const int first = b * BLOCK_SMALL;
		memcpy(out->d, from, 2);
		for (int j = 0; j < 16; j++)
			out->q[j] =
			    (uint8_t)(wide_code(few, codes, first + j) | wide_code(few, codes, first + 16 + j) << 4);
	}
}

static bool lay_tensor(struct named_tensor* t, const struct few_bit_type* few, struct kept* kept,
                       struct error* error) {
	const size_t size = 2 + (size_t)(few->elements * few->bits / 8), blocks = t->bytes / size;
	const size_t small = (size_t)few->elements / BLOCK_SMALL;
	const size_t bytes = blocks * small * sizeof(struct block_q4_0);
	struct block_q4_0* const out = repack_memory(kept, t, bytes, error);
	if (!out)
		return false;
	for (size_t i = 0; i < blocks; i++)
		lay_block(few, t->data + i * size, out + i * small);
	repack_replace(t, DTYPE_Q4_0, out, bytes);
	return true;
}

bool repack_few_bits(struct tensor_table* table, struct kept* kept, struct error* error) {
	static const struct few_bit_type known[] = {{"Q1_0", 128, 1}, {"Q2_0", 64, 2}};
	for (size_t i = 0; i < table->n; i++)
		for (size_t k = 0; k < sizeof known / sizeof *known; k++)
			if (strcmp(table->item[i].type_name, known[k].name) == 0 &&
			    !lay_tensor(&table->item[i], &known[k], kept, error))
				return false;
	return true;
}
