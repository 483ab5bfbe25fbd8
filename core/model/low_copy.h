/* A model's low-bit copy for drafting: its memory, and what speaks for one.
 *
 * It lies in huge pages, which are read a fifth faster than others, and is kept in no file: reading and
 * checking one would spare a start two or three plain steps. */
#ifndef SWIFTLET_CORE_MODEL_LOW_COPY_H
#define SWIFTLET_CORE_MODEL_LOW_COPY_H

#include "core/model/model.h"
#include "kernels/low.h"

struct low_copy {
	struct low_table table; /* placed; bytes 0: the weights are as small already */
	void* memory;           /* its bytes, filled by low_make or by slices (kernels/low.h) */
};

struct low_wish {
	struct low_form form; /* woven and coarse_head as the backend says that runs it */
	double most_bytes;    /* a larger copy is refused; 0: a quarter of the memory that is available */
};

/* Plans the copy and takes memory for it. The model must outlive the copy. False with the error set when it
 * does not fit. Close in any case. */
bool low_copy_open(struct low_copy*, const struct model*, const struct low_wish*, struct error*);
void low_copy_close(struct low_copy*);

/* The bits that a model's copy should have; 0: none, since its weights are as small already, or lie in the
 * processor's cache, where fewer bytes are not less time. */
int low_bits_for(const struct model*);
/* Whether a copy of the head in four bits is worth its memory for the certified head: it is large, and no
 * little part of what a step reads. */
bool low_head_pays(const struct weight_table*);

#endif
