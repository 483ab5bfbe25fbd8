/* Any bytes as a bridge's file: refused with a message, or a bridge of finite weights for blocks that the
 * model has. */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/bridge/bridge_file.h"

enum { DIM = 2 };

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
	const struct model_shape shape = {.dim = DIM, .n_blocks = 6};
	struct error error = {""};
	struct kept_bridge kept;
	if (!bridge_read(&kept, data, size, &shape, "0123", "fuzz", &error)) {
		if (kept.memory || !error.message[0] || !memchr(error.message, 0, sizeof error.message))
			abort();
		return 0;
	}
	const struct bridge* b = &kept.bridge;
	if (b->first < 2 || b->last > 10 || b->first >= b->last || b->weight.rows != DIM ||
	    b->weight.cols != 2 * DIM)
		abort();
	for (int i = 0; i < DIM; i++)
		if (!isfinite(b->bias[i]))
			abort();
	kept_bridge_free(&kept);
	return 0;
}
