/* Sums over blocks of what a position takes. */
#include "kernels/attention_cost.h"

/* Bytes of a block's keys and values at one position. Latent keys are the values, too. */
static double position_bytes(const struct model_shape* s, enum dtype type, int b) {
	return (s->latent ? 1.0 : 2.0) * block_kv_heads(s, b) *
	       (double)dtype_row_bytes(type, block_head_dim(s, b));
}

/* Positions that block b's attention sees. */
static double positions_of(const struct model_shape* s, int b, int positions, int read) {
	if (block_set_has(&s->recurrent, b))
		return 0;
	return block_set_has(&s->sliding, b) && s->sliding_window > 0 ? least(positions, s->sliding_window)
	                                                              : least(positions, read);
}

double attention_bytes(const struct model_shape* s, enum dtype type, int positions, int read) {
	double sum = 0;
	for (int b = 0; b < s->n_blocks; b++)
		sum += position_bytes(s, type, b) * positions_of(s, b, positions, read);
	return sum;
}

double cache_size(const struct model_shape* s, enum dtype type, int positions) {
	double sum = (double)recurrent_bytes(s);
	for (int b = 0; b < s->n_blocks; b++)
		if (block_keys_of(s, b) == b && !block_set_has(&s->recurrent, b))
			sum += position_bytes(s, type, b) * positions;
	return sum;
}
