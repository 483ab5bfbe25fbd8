/* Weights that a folder stores in ways of its own are laid anew when it is opened, with all their bits: 4-bit
 * GPTQ and AWQ become groups of 32 (DTYPE_Q4_GROUP), gpt-oss' experts matrices of their own, in MXFP4 as they
 * were or in the float type they have. */
#ifndef SWIFTLET_CORE_MODEL_REPACK_H
#define SWIFTLET_CORE_MODEL_REPACK_H

#include "core/files/tensor_table.h"
#include "core/model/kept.h"

enum packing_method {
	PACKING_NONE,
	PACKING_GPTQ, /* Frantar et al. 2022, as AutoGPTQ stores it */
	PACKING_AWQ   /* Lin et al. 2023, as AutoAWQ's "gemm" stores it */
};

/* How config.json says that the weights are packed (quantization_config). */
struct packing {
	enum packing_method method;
	int group;             /* inputs that share a scale and a zero; 0: all */
	bool zeros_less_one;   /* GPTQ's first format stores zeros less 1 */
	bool experts_inverted; /* gpt-oss: stacks have their inputs first, rows of gate and up in turn */
};

/* Adds the new tensors to the sealed table, which stays sealed, and marks those they are made of used. False
 * with the error set when a part is missing, of another shape or type, or a scale is not a finite number. */
bool repack_tensors(struct tensor_table*, const struct packing*, struct kept*, struct error*);

/* The parts of the above. */
bool repack_groups(struct tensor_table*, const struct packing*, struct kept*, struct error*);
bool repack_experts(struct tensor_table*, struct kept*, struct error*);

/* `name` with its last `cut` bytes replaced. */
const char* repack_name(char out[256], const char* name, size_t cut, const char* suffix);
bool repack_ends(const char* name, const char* suffix);
/* Adds a tensor of `file` whose data are kept. */
bool repack_add(struct tensor_table*, const char* name, const struct named_tensor*, struct error*);

#endif
