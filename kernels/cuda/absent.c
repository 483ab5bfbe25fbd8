/* Stands in for the CUDA backend where it was not compiled, and explains why. */
#include "kernels/cuda/columns.h"

bool cuda_available(struct error* error) {
	return error_set(error, "this swiftlet has no CUDA backend: %s", CUDA_ABSENT_REASON);
}

struct backend* cuda_open(const struct weight_table* weights, const struct backend_options* options,
                          struct error* error) {
	(void)weights;
	(void)options;
	cuda_available(error);
	return NULL;
}

bool cuda_column_product(const struct column_map* map, const float* x, int left_out, float* out,
                         struct error* error) {
	(void)map;
	(void)x;
	(void)left_out;
	(void)out;
	return cuda_available(error);
}
