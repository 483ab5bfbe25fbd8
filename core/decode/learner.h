/* A learner finds out, while a session decodes, which sub-layers its drafts may leave out.
 *
 * The session gives it measurements of its passes (taps, rows, how drafts fared) and time between rounds, and
 * asks it for a mask. It does not know how masks are found; the optimizer is a learner. Calls come on the
 * session's thread between two passes, and must not allocate once the learner is open. */
#pragma once

#include "core/decode/draft_states.h"
#include "core/decode/engine.h"

struct learner;

struct learner_calls {
	void (*close)(struct learner*);
	/* A request begins. The session still has the text of the one before. */
	void (*begin_text)(struct learner*);
	/* A full pass that verifies a tree is about to run: the learner may ask it for more output. It has run:
	 * its first row is text. */
	void (*tap)(struct learner*, struct pass*);
	void (*tapped)(struct learner*, const struct pass*);
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

/* Before the first request; the session closes it. */
void session_set_learner(struct session*, struct learner*);
struct learner* session_learner(const struct session*); /* NULL: none */

/* A session as its learner sees it. Pointers are the session's. */
struct learner_view {
	struct engine* engine;
	const struct swiftlet_options* options;
	struct cache* cache;
	const int32_t* text; /* (n_text) the prompt and what was generated */
	int n_text, n_prompt;
	int end;                 /* n_text at which the request's limit is reached */
	bool idle, done;         /* no request runs; the last one's text is complete */
	bool by_channel;         /* drafts run with quantized draft weights by input channel */
	const struct mask* mask; /* that drafts */
	double rate;             /* tokens in the time of a plain step, as decoding goes now */
};
struct learner_view session_learning(const struct session*);
/* Charges the cost of a pass or a proposal to the learning account, unless no request waits. */
void session_charge_learning(struct session*, double seconds);
/* True if that account has so many plain steps left, and no other request would wait for its tokens. */
bool session_affords_learning(const struct session*, double plain_steps);
/* Another mask drafts from now on, of another search than before. */
void session_replace_mask(struct session*, const struct mask*, double matchness);
