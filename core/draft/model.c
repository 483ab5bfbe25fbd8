/* The `model` drafter: another model, a smaller one of the same vocabulary (Leviathan et al. 2023).
 *
 * Its passes are the `mask` drafter's with nothing left out, over a cache of its own. Rows that verification
 * finds right stay there as text; what the text got otherwise goes with the next round's first pass. */
#include "core/draft/mask.h"

static void see(void* state, const struct tree* tree, const struct verdict* verdict,
                const struct result* out) {
	(void)out;
	mask_commit(state, tree, verdict);
}

const struct drafter drafter_model = {.name = "model",
                                      .bins = DRAFT_BINS,
                                      .prior = mask_prior,
                                      .open = mask_open,
                                      .close = mask_close,
                                      .see = see,
                                      .extend = mask_extend,
                                      .head = mask_head,
                                      .fill = mask_fill,
                                      .take = mask_take};
