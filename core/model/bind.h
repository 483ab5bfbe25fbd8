/* Finds a model's tensors by the names its format gives them and hangs them into the weight table. */
#ifndef SWIFTLET_CORE_MODEL_BIND_H
#define SWIFTLET_CORE_MODEL_BIND_H

#include "core/files/tensor_table.h"
#include "core/model/config.h"

/* Names as a format spells them; NULL where it has none. Those of a block come after `block`, which holds one
 * %d; norms, and what may have a bias, go without their ".weight" or ".bias"; an expert's hold one more %d.
 */
struct tensor_names {
	const char *embedding, *output_norm, *output;
	const char* block;
	const char *attention_norm, *mlp_norm;
	const char *post_attention_norm, *post_mlp_norm; /* of the sub-layer's output */
	const char *wq, *wk, *wv, *wo, *fused_qkv;
	const char *q_norm, *k_norm;
	const char *w_gate, *w_up, *w_down, *fused_gate_up;
	const char *router, *expert_gate, *expert_up, *expert_down;
	const char *sinks, *router_bias; /* in full but for the block */
	const char *stacked_gate, *stacked_up,
	    *stacked_down; /* (experts, rows, cols) where the others are NULL */
};

/* What the blocks' weights lie in; the model's own, freed by bind_free. */
struct bound {
	struct block_weights* block; /* (n_blocks) */
	struct expert* expert;       /* (n_blocks, n_experts) where there are any */
};

/* Fills the model's weight table from the sealed tensor table, and its warning where the files contradict
 * themselves. False with the error set; bind_free in both cases. */
bool bind_weights(struct model*, struct bound*, const struct config*, const struct tensor_names*,
                  struct tensor_table*, struct error*);
void bind_free(struct bound*);
/* Type of most weight bytes. */
enum dtype bind_main_type(const struct tensor_table*);
/* Elements of the tensors that were taken, each counted once. */
double bind_parameters(const struct tensor_table*);

#endif
