/* The bytes that passes read: costs follow from them before anything was measured, and the measured cost of
 * one kind of draft step predicts another's. */
#pragma once

#include "kernels/draft_weights.h"

/* One way to run the weights: the sub-layers left out, those of the others that run with the quantized draft
 * weights, and whether the head does. NULL: none. */
struct variant {
	const struct mask *skip, *quantized;
	bool quantized_head;
	const struct levels* levels; /* levels of the draft weights by input channel; NULL: all is read */
	double unread;               /* the share of the cache that its attention does not read */
};

/* Mean weight bytes of one block's sub-layers, and of the head, which no mask saves. */
struct layer_bytes {
	double attention, mlp, head;
};

struct pass_bytes {
	struct layer_bytes stored, quantized; /* of stored weights; of quantized draft weights, 0 without them */
	double kind[COLUMN_KINDS]; /* mean bytes of one block's maps in draft weights by input channel */
	int blocks;
};

/* The bytes that a variant reads over those of a full pass, apart for stored and for quantized weights. The
 * cache counts as stored. */
struct byte_share {
	double stored, quantized;
};

/* coarse_head: bytes of the draft weights that passes read in the head's place; 0: they read the head. */
struct pass_bytes pass_bytes_of(const struct weight_table*, size_t coarse_head);
/* Passes may run with these draft weights from now on. */
void pass_bytes_add(struct pass_bytes*, const struct draft_weights*);
/* Weight bytes of a full pass. */
static inline double pass_bytes_all(const struct pass_bytes* bytes) {
	return bytes->blocks * (bytes->stored.attention + bytes->stored.mlp) + bytes->stored.head;
}
/* cache: the share of a plain step's time that reading the cache takes. */
struct byte_share pass_bytes_share(const struct pass_bytes*, struct variant, double cache);
/* The share of the layers that a variant reads: without skipped sub-layers and left-out channels. The number
 * of bits does not count. */
double pass_bytes_layers_read(const struct pass_bytes*, struct variant);
/* quantized: with the draft weights, at these levels where they are by input channel (NULL: whole). */
struct layer_bytes pass_bytes_layers(const struct pass_bytes*, bool quantized, const struct levels*);
