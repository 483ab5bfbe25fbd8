/* Rotary position embeddings: the angles of a row, for every published scaling.
 *
 * Frequencies and angles are computed in float as transformers' modeling_rope_utils does, so that far
 * positions agree with the models' own code. A row's angles depend on its position and, for the
 * scalings that look at the length, on max(prompt length, position + 1): never on other rows. */
#pragma once

#include "kernels/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

struct rope_frequencies {
	const struct rope* rope;
	int pairs;
	float *usual, *beyond; /* (pairs) inverse frequencies; beyond: past original_context (longrope) */
};

bool rope_open(struct rope_frequencies*, const struct rope*, struct error*);
void rope_close(struct rope_frequencies*);
/* cosine, sine (pairs) of the row at `position` in a sequence taken to be `length` long. */
void rope_row(const struct rope_frequencies*, int position, int length, float* cosine, float* sine);
/* Rotates the leading 2·pairs elements of one head in place. */
void rope_rotate(float* head, const float* cosine, const float* sine, int pairs, bool interleaved);

#ifdef __cplusplus
}
#endif
