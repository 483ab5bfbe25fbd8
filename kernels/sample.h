/* Coupled sampling of one row of logits.
 *
 * The token at position i is argmax over v of log p_i(v) + G(seed, sequence, i, v), with p the processed
 * target distribution and G standard Gumbel noise made by a counter (Gumbel-max). A draft model that uses the
 * same noise at the same position tends to choose the same token. The target's own choice is that of plain
 * decoding, whatever was drafted (docs/architecture.md, "Exactness"). */
#pragma once

#include "kernels/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Filters, in transformers' order: logits are divided by the temperature; top_k keeps that many; top_p
 * keeps the smallest set of the most probable of those whose probabilities, made to sum to 1, reach it;
 * min_p keeps those at least min_p times as probable as the best. Among equals the lowest ids stay. */

/* Standard Gumbel noise, a function of its arguments alone: kernels/noise.h. Positions are taken modulo
 * 2^32. */
float gumbel_noise(uint64_t seed, uint64_t sequence, uint64_t position, uint32_t token);

/* Fills token, top_token, top_probability, max_probability and log_sum_exp of `out` (as `want`
 * states) from logits (vocab). sampler NULL: greedy. position: that of the token being chosen, 0-based.
 * scratch: (2·vocab) floats. False when a logit is not finite. */
bool result_from_logits(struct result* out, uint8_t want, const float* logits, int vocab,
                        const struct sampler* sampler, uint64_t position, float* scratch);

/* p (vocab): the processed distribution that the sampler draws from, summing to 1. scratch: (vocab) floats.
 */
void sample_distribution(const float* logits, int vocab, const struct sampler*, float* p, float* scratch);

/* The `wanted` best of processed scores (vocab) with their noise, best first, into `token`, ties to the
 * lowest id, those at -infinity left out; how many there are. */
int best_with_noise(const float* processed, int vocab, const struct sampler*, uint64_t position,
                    int32_t* token, int wanted);

/* A row's penalties: the request's, and the generated tokens of its path from the segment's base on. */
struct penalised_row {
	const struct penalties* penalties;
	const int32_t* path; /* (n) */
	int n;
};

/* The same, when the softmax's max and sum of exp(x - max) are known. penalised NULL: the token is chosen
 * from the logits as they are; allowed (vocab bits) NULL: from all of them. */
void result_from_softmax(struct result* out, uint8_t want, const float* logits, int vocab, float max,
                         float sum, const struct sampler* sampler, const struct penalised_row* penalised,
                         const uint64_t* allowed, uint64_t position, float* scratch);

#ifdef __cplusplus
}
#endif
