/* The pass that most callers mean; they change what they want otherwise. */
#include "kernels/backend.h"

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
