/* A learner finds out, while a session decodes, which sub-layers its drafts may leave out.
 *
 * The session gives it measurements of its passes (taps, rows, how drafts fared) and time between rounds, and
 * asks it for a mask. It does not know how masks are found; the optimizer is a learner. Calls come on the
 * session's thread between two passes, and must not allocate once the learner is open. */
#ifndef SWIFTLET_CORE_DECODE_LEARNER_H
#define SWIFTLET_CORE_DECODE_LEARNER_H

#include "kernels/backend.h"
#include "swiftlet.h"

struct learner;

struct learner_calls {
	void (*close)(struct learner*);
	/* A request begins. The session still has the text of the one before. */
	void (*begin_text)(struct learner*);
	/* A full pass is about to run, over the prompt or to verify a tree. The learner may ask it for more
	 * output. */
	void (*tap)(struct learner*, bool prompt, struct pass*);
	/* Such a pass has run: its rows row[0 … n - 1] belong to the text now, from `position` on. */
	void (*rows)(struct learner*, const struct pass*, const int32_t* row, int n, int position);
	/* The learner has been given all rows of the prompt. */
	void (*prompt_is_reported)(struct learner*);
	/* True when the learner wants a pass of its own, before a round or while no request runs. It then fills
	 * passes and takes their results and seconds, until take returns that it is done. */
	bool (*begin)(struct learner*);
	void (*fill)(struct learner*, struct pass*);
	bool (*take)(struct learner*, const struct pass*, double seconds);
	/* Draft steps with the mask were verified: `right` of them were right. */
	void (*drafted)(struct learner*, int right, int looked_at);
	/* Costs may have changed. If another mask is better now, the learner gives it to the session
	 * (session_adopt). */
	void (*look)(struct learner*);
	/* Draft weights have become available. */
	void (*draft_weights_joined)(struct learner*);
	/* The mask was set by someone else. */
	void (*adopt)(struct learner*, const struct mask*);
	/* The share of draft steps expected to be right with its mask; NaN: unknown. */
	double (*expected)(const struct learner*);
	/* The learner's part of the figures. */
	void (*figures)(const struct learner*, struct swiftlet_figures*);
};

struct learner {
	const struct learner_calls* calls;
};

#endif
