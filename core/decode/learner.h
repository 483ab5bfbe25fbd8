/* A learner finds out, while a session decodes, which sub-layers its drafts may leave out.
 *
 * The session offers what its passes tell (taps, rows, how drafts fared) and time to spend between rounds,
 * and asks for the mask to draft with. It knows nothing of how one is found: the optimizer is a learner.
 * Calls come on the session's thread between two passes, and allocate nothing once the learner is open. */
#ifndef SWIFTLET_CORE_DECODE_LEARNER_H
#define SWIFTLET_CORE_DECODE_LEARNER_H

#include "kernels/backend.h"
#include "swiftlet.h"

struct learner;

struct learner_calls {
	void (*close)(struct learner*);
	/* A request begins; the session's text is still the one before. */
	void (*begin_text)(struct learner*);
	/* A full pass is about to run, over the prompt or to verify a tree: what else it is to tell. */
	void (*tap)(struct learner*, bool prompt, struct pass*);
	/* Such a pass has run: its rows row[0 … n - 1] are text now, at `position` and after it. */
	void (*rows)(struct learner*, const struct pass*, const int32_t* row, int n, int position);
	/* The prompt's rows have all been told. */
	void (*prompt_is_reported)(struct learner*);
	/* Whether a pass of its own comes now, before a round or while no request runs; it then fills passes and
	 * takes their results, in so many seconds, until take says that it is done. */
	bool (*begin)(struct learner*);
	void (*fill)(struct learner*, struct pass*);
	bool (*take)(struct learner*, const struct pass*, double seconds);
	/* Draft steps with the mask were judged: `right` of those looked at. */
	void (*drafted)(struct learner*, int right, int looked_at);
	/* Costs may have changed; a mask that is better by now is given to the session (session_adopt). */
	void (*look)(struct learner*);
	/* Draft weights have become available. */
	void (*draft_weights_joined)(struct learner*);
	/* The mask was set by someone else. */
	void (*adopt)(struct learner*, const struct mask*);
	/* The share of draft steps to expect right with the mask that it gave; NaN: unknown. */
	double (*expected)(const struct learner*);
	/* What the figures say of it. */
	void (*figures)(const struct learner*, struct swiftlet_figures*);
};

struct learner {
	const struct learner_calls* calls;
};

#endif
