/* Positions by block, times what each takes. */
#include "kernels/attention_cost.h"

double attention_positions(const struct model_shape* s, int positions, int read) {
	double sum = 0;
	for (int b = 0; b < s->n_blocks; b++)
		if (!block_set_has(&s->recurrent, b))
			sum += block_set_has(&s->sliding, b) && s->sliding_window > 0
			           ? least(positions, s->sliding_window)
			           : least(positions, read);
	return sum;
}

double attention_bytes(const struct model_shape* s, enum dtype type, int positions, int read) {
	return 2.0 * s->kv_heads * (double)dtype_row_bytes(type, s->head_dim) *
	       attention_positions(s, positions, read);
}

double attention_operations(const struct model_shape* s, int positions, int read) {
	return 2.0 * s->heads * s->head_dim * attention_positions(s, positions, read);
}
