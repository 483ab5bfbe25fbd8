/* A model's quantized draft weights: its memory, and what speaks for one.
 *
 * It lies in huge pages, which are read a fifth faster than others, and is kept in no file: reading and
 * checking one would spare a start two or three plain steps. */
#ifndef SWIFTLET_CORE_MODEL_DRAFT_WEIGHTS_MEMORY_H
#define SWIFTLET_CORE_MODEL_DRAFT_WEIGHTS_MEMORY_H

#include "core/model/model.h"
#include "kernels/draft_weights.h"

struct draft_weights_memory {
	struct draft_weights table; /* placed; bytes 0: the weights are as small already */
	void* data; /* its bytes, filled by draft_weights_make or by slices (kernels/draft_weights.h) */
};

struct draft_weights_request {
	struct draft_weights_format format; /* interleaved and coarse_head as the backend says that runs it */
	double most_bytes; /* a larger copy is refused; 0: a quarter of the memory that is available */
};

/* Plans the draft weights and takes memory for it. The model must outlive the draft weights. False with the
 * error set when it does not fit. Close in any case. */
bool draft_weights_memory_open(struct draft_weights_memory*, const struct model*,
                               const struct draft_weights_request*, struct error*);
void draft_weights_memory_close(struct draft_weights_memory*);

/* The bits that a model's copy should have; 0: none, since its weights are as small already, or lie in the
 * processor's cache, where fewer bytes are not less time. */
int draft_bits_for(const struct model*);
/* Whether draft weights of the head in four bits is worth its memory for the screened head: it is large, and
 * no little part of what a step reads. */
bool wants_screened_head(const struct weight_table*);

#endif
