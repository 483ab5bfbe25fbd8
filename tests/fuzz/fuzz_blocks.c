/* Any bytes as a row of each element type, at any address: widened without reading or computing anything that
 * is not defined. The types whose rows are too long for the bytes are left out. */
#include <stdlib.h>
#include <string.h>

#include "kernels/backend.h"

static volatile float sum;

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	float x[256];
	for (int t = 0; t < DTYPE_COUNT; t++) {
		const enum dtype type = (enum dtype)t;
		const size_t bytes = dtype_block_bytes(type);
		if (size < bytes)
			continue;
		uint8_t* exact = malloc(bytes); /* so that a byte too far is found */
		if (!exact)
			abort();
		memcpy(exact, data, bytes);
		dtype_to_float(type, exact, x, dtype_block(type));
		sum += x[dtype_block(type) - 1];
		free(exact);
	}
	return 0;
}
