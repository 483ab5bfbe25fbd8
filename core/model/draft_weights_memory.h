/* The memory of a model's quantized draft weights, and when they are worth making.
 *
 * They lie in huge pages, which are read a fifth faster than small ones. They are not stored in a file:
 * reading and checking one would save only two or three plain steps at start. */
#pragma once

#include "core/model/model.h"
#include "kernels/draft_weights.h"

/* The share of draft weights by input channel that a draft step reads unless another is asked for
 * (docs/lessons.md). */
static const double DRAFT_READ = 0.43;

struct draft_weights_memory {
	struct draft_weights table; /* placed; bytes 0: the weights are already as small */
	void* data; /* its bytes, filled by draft_weights_make or by slices (kernels/draft_weights.h) */
};

struct draft_weights_request {
	struct draft_weights_format format; /* columns and coarse_head as the backend that runs them wants */
	double most_bytes; /* larger ones are refused; 0: a quarter of the memory that is available */
};

/* Plans the draft weights and takes memory for them. The model must outlive them. False with the error set
 * when they do not fit. Close in any case. */
bool draft_weights_memory_open(struct draft_weights_memory*, const struct model*,
                               const struct draft_weights_request*, struct error*);
void draft_weights_memory_close(struct draft_weights_memory*);

/* The bits that draft weights in this format should have; 0: none, because the model's weights are already as
 * small, or because they lie in the processor's cache, where fewer bytes save no time. */
int draft_bits_for(const struct model*, struct draft_weights_format);
/* True when a screened head is worth the memory of its coarse copy: the head is large, and is much of what a
 * step reads. */
bool wants_screened_head(const struct weight_table*);
/* Whether a copy of the blocks' weights in another order fits (backend_options.interleaves). */
bool wants_interleaved(const struct weight_table*);
