/* Finds a model's tensors by the names its format gives them and hangs them into the weight table. */
#ifndef SWIFTLET_CORE_MODEL_BIND_H
#define SWIFTLET_CORE_MODEL_BIND_H

#include "core/files/tensor_table.h"
#include "core/model/config.h"

/* Names as a format spells them; a block's hold one %d. NULL where the format has none. */
struct tensor_names {
	const char *embedding, *output_norm, *output;
	const char *attention_norm, *mlp_norm;
	const char *post_attention_norm, *post_mlp_norm; /* of the sub-layer's output */
	const char *wq, *wk, *wv, *wo, *fused_qkv;
	const char *bq, *bk, *bv, *bo;
	const char *q_norm, *k_norm;
	const char *w_gate, *w_up, *w_down, *fused_gate_up;
	const char *b_gate, *b_up, *b_down;
};

/* Fills the weight table from the sealed tensor table. The blocks are malloc'd into *blocks and are the
 * caller's. False with the error set; *blocks may then be set all the same. */
bool bind_weights(struct weight_table*, struct block_weights** blocks, const struct config*,
                  const struct tensor_names*, struct tensor_table*, struct error*);
/* Type of most weight bytes. */
enum dtype bind_main_type(const struct tensor_table*);
/* Elements of the tensors that were taken, each counted once. */
double bind_parameters(const struct tensor_table*);

#endif
