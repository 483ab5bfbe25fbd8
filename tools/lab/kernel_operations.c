#include "tools/lab/kernel_operations.h"
#include "kernels/clock.h"

#include <string.h>

/* Of eight weight rows and 32 columns: what takes them apart, and what a row of activations adds. Taking
 * apart: 16 bytes of eight rows turned round (4 inserts, 8 unpackings), nibbles parted (12), a further bit
 * placed (5 a vector), scales widened. A row: four columns of eight rows a time multiplied and added (2
 * operations; 4 of weights with a sign; 1 with VNNI), sums in 16 bits widened, a block's scales met. */
struct counted {
	enum dtype type;
	double apart, row;           /* AVX2 */
	double vnni_apart, vnni_row; /* AVX-VNNI */
};

static const struct counted counted[] = {
    {DTYPE_Q4_0, 35, 21, 35, 11}, {DTYPE_Q4_1, 40, 22, 40, 12}, {DTYPE_Q5_0, 82, 23, 82, 11},
    {DTYPE_Q5_1, 87, 24, 87, 12}, {DTYPE_Q8_0, 43, 35, 43, 11}, {DTYPE_IQ4_NL, 51, 35, 51, 11},
    {DTYPE_Q4_K, 32, 20, 30, 11}, {DTYPE_Q5_K, 59, 22, 57, 11}, {DTYPE_Q6_K, 65, 20, 63, 12},
};

double kernel_operations(const char* isa, enum dtype type, int rows) {
	const bool vnni = strcmp(isa, "avx-vnni") == 0;
	if (!vnni && strcmp(isa, "avx2") != 0)
		return 0;
	for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
		if (counted[i].type == type)
			return (vnni ? counted[i].vnni_apart + rows * counted[i].vnni_row
			             : counted[i].apart + rows * counted[i].row) /
			       8;
	return 0;
}

double core_clock(void) {
	enum { TURNS = 1 << 16, ADDITIONS = 16, TRIES = 8 };
	double best = 0;
	unsigned long x = 1;
	for (int try = 0; try < TRIES; try++) {
		const double start = seconds_now();
		for (int turn = 0; turn < TURNS; turn++)
#pragma GCC unroll 16
			for (int i = 0; i < ADDITIONS; i++) {
				x += 1;
				__asm__ volatile("" : "+r"(x));
			}
		const double speed = (double)TURNS * ADDITIONS / (seconds_now() - start);
		best = speed > best ? speed : best;
	}
	return best;
}
