/* How the elements of a made-up weight tensor come about: a counter-based generator, so that a CPU
 * and a GPU make the same values in any order. The fields' meaning is core/synth.c's business. */
#ifndef SWIFTLET_KERNELS_SYNTH_H
#define SWIFTLET_KERNELS_SYNTH_H

#include <stdint.h>

enum synth_kind { SYNTH_NONE, SYNTH_CONSTANT, SYNTH_NORMAL, SYNTH_EMBEDDING, SYNTH_HEAD };

struct synth_tensor {
	enum synth_kind kind;
	uint64_t seed;   /* the tensor's own */
	uint64_t shared; /* seed of the cluster vectors, the same for embedding and head */
	float scale;     /* standard deviation, or the constant */
	int halves;      /* 2: block-diagonal over rows and columns, zeros elsewhere; else 1 */
};

#endif
