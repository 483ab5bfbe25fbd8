/* Positions by block, times what each takes. */
#include "kernels/attention_cost.h"

/* Positions that block b's attention sees. */
static double positions_of(const struct model_shape* s, int b, int positions, int read) {
	if (block_set_has(&s->recurrent, b))
		return 0;
	return block_set_has(&s->sliding, b) && s->sliding_window > 0 ? least(positions, s->sliding_window)
	                                                              : least(positions, read);
}

double attention_bytes(const struct model_shape* s, enum dtype type, int positions, int read) {
	const double rows = s->latent ? 1 : 2; /* of keys and of values; latent keys are the values, too */
	double sum = 0;
	for (int b = 0; b < s->n_blocks; b++)
		sum += rows * block_kv_heads(s, b) * (double)dtype_row_bytes(type, block_head_dim(s, b)) *
		       positions_of(s, b, positions, read);
	return sum;
}
