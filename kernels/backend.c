/* Functions that are the same for every backend. */
#include "kernels/backend.h"

#include <stdarg.h>
#include <stdio.h>

bool error_set(struct error* error, const char* format, ...) {
	if (error) {
		va_list arguments;
		va_start(arguments, format);
		vsnprintf(error->message, sizeof error->message, format, arguments);
		va_end(arguments);
	}
	return false;
}

/* The usual pass; callers change what they need. */
struct pass pass_over(const struct segment* segment, const int32_t* token, const int32_t* parent, int last,
                      const uint8_t* want, struct result* out) {
	return (struct pass){.kind = PASS_EXACT,
	                     .n = segment->n,
	                     .n_segments = 1,
	                     .segment = segment,
	                     .token = token,
	                     .parent = parent,
	                     .last = last,
	                     .tap = -1,
	                     .want = want,
	                     .out = out};
}

/* One list of a block's tensors, for code that visits every tensor, whatever it is for. */
static const struct part {
	const char* name;
	size_t offset;
} parts[BLOCK_PARTS] = {
#define PART(field, name)                                                                                    \
	{ name, offsetof(struct block_weights, field) }
    PART(attention_norm, "attention norm"),
    PART(wq, "query weights"),
    PART(wk, "key weights"),
    PART(wv, "value weights"),
    PART(bq, "query bias"),
    PART(bk, "key bias"),
    PART(bv, "value bias"),
    PART(q_norm, "query norm"),
    PART(k_norm, "key norm"),
    PART(wo, "attention output"),
    PART(bo, "attention output bias"),
    PART(post_attention_norm, "norm after attention"),
    PART(mlp_norm, "MLP norm"),
    PART(w_gate, "gate weights"),
    PART(w_up, "up weights"),
    PART(w_down, "down weights"),
    PART(b_gate, "gate bias"),
    PART(b_up, "up bias"),
    PART(b_down, "down bias"),
    PART(post_mlp_norm, "norm after the MLP"),
    PART(attention_norm_bias, "attention norm bias"),
    PART(mlp_norm_bias, "MLP norm bias"),
    PART(router, "router"),
    PART(sinks, "attention sinks"),
    PART(router_bias, "router bias"),
    PART(expert_gate_bias, "experts' gate bias"),
    PART(expert_up_bias, "experts' up bias"),
    PART(expert_down_bias, "experts' down bias"),
    PART(choice_bias, "bias of the experts' choice"),
    PART(shared_gate, "gate of the shared expert"),
    PART(w_beta, "beta weights"),
    PART(w_decay, "decay weights"),
    PART(convolution, "convolution"),
    PART(decay_bias, "decay bias"),
    PART(decay_rate, "decay rates"),
    PART(state_norm, "norm of the recurrence"),
    PART(convolution_bias, "convolution's bias"),
    PART(state_skip, "skip rates of the recurrence"),
    PART(router_norm, "router norm"),
    PART(expert_norm, "experts' norm"),
    PART(post_dense_norm, "norm after the MLP beside experts"),
    PART(post_expert_norm, "norm after the experts"),
    PART(expert_scale, "experts' scales"),
    PART(input_gate, "gate of the token's input"),
    PART(input_out, "output of the token's input"),
    PART(input_norm, "norm of the token's input"),
    PART(stream_scale, "scale of the stream"),
    PART(altup_router, "AltUp's router"),
    PART(altup_router_norm, "norm of AltUp's router"),
    PART(altup_predict, "AltUp's prediction coefficients"),
    PART(altup_correct, "AltUp's correction coefficients"),
    PART(altup_scale, "scale of AltUp's first state"),
    PART(laurel_down, "LAuReL, down"),
    PART(laurel_up, "LAuReL, up"),
    PART(laurel_norm, "norm of LAuReL"),
    PART(wq_a, "latent query weights"),
    PART(bq_a, "latent query bias"),
    PART(q_a_norm, "latent query norm"),
    PART(absorb, "absorbed key weights"),
#undef PART
};

struct tensor* block_tensor(const struct block_weights* block, int part) {
	return (struct tensor*)((uintptr_t)block + parts[part].offset);
}

const char* block_tensor_name(int part) { return parts[part].name; }
