/* How drafts with a mask run: which sub-layers with the quantized draft weights, and how much of these is
 * read. */
#pragma once

#include "core/decode/pass_bytes.h"

struct session;

struct draft_states {
	struct mask sub_layers; /* with the quantized draft weights */
	bool head, any;
	bool by_channel;      /* the draft weights are by input channel */
	struct levels levels; /* how much of them drafts read */
};

static inline const struct mask* states_quantized(const struct draft_states* states) {
	return states->any ? &states->sub_layers : NULL;
}
static inline const struct levels* states_levels(const struct draft_states* states) {
	return states->by_channel ? &states->levels : NULL;
}
static inline struct variant states_variant(const struct draft_states* states, const struct mask* skip) {
	return (struct variant){.skip = skip,
	                        .quantized = states_quantized(states),
	                        .quantized_head = states->head,
	                        .levels = states_levels(states)};
}

/* A mask's states with the draft weights that the session has. */
struct draft_states session_states(const struct session*, const struct mask*);
