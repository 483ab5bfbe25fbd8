/* A driver makes rounds in place of the planner: a published method in which one drafter decides alone
 * (core/methods). It chooses which passes precede a verification and which tree is verified.
 *
 * The session runs the driver's passes between its own, verifies and commits the driver's tree, emits the
 * tokens and keeps the accounts. It does not know the methods. Calls come on the session's thread between two
 * passes, and must not allocate. */
#pragma once

#include "core/decode/engine.h"
#include "core/draft/drafter.h"
#include "core/draft/round.h"

struct driver;
struct session;

/* The last round, for traces. */
struct round_trace {
	int64_t round;             /* full passes so far: 0 before any */
	int position;              /* of the root in the text */
	int steps;                 /* of the chain */
	const struct result* step; /* (steps) */
	const char* why;           /* the chain ended */
	const struct tree* tree;
	int accepted; /* draft tokens, without those beyond the text's end */
	int32_t bonus;
};

struct driver_calls {
	void (*close)(struct driver*);
	/* How many of `kept` cached tokens of an earlier text may stay. */
	int (*keeps)(const struct driver*, int kept);
	/* A text begins, which is already the session's. */
	bool (*begin)(struct driver*, const struct drafter_text*, struct error*);
	/* Tokens were emitted. */
	void (*append)(struct driver*, const int32_t* token, int n);
	/* The cache was emptied during a prefill. */
	void (*release)(struct driver*);

	/* Only with sees_prompt: adds the driver's tap to a pass over the prompt; begins the driver's own pass
	 * over these n rows. */
	void (*tap)(struct driver*, struct pass*);
	void (*read)(struct driver*, int n);
	/* True when passes come before the next round. */
	bool (*calibrate)(struct driver*);
	/* True when it drafts for the present text; otherwise rounds are plain steps. */
	bool (*drafts)(const struct driver*);
	/* Begins a round: true when draft passes come, false when the tree is complete. */
	bool (*start)(struct driver*);
	/* The next pass after read, calibrate or start. take gets its results and this session's seconds, and
	 * returns whether another pass comes. */
	void (*fill)(struct driver*, struct pass*);
	bool (*take)(struct driver*, double seconds);

	/* The verify pass; its verdict; what was emitted and accepted, and at what cost. */
	void (*verify)(struct driver*, uint8_t wants, struct pass*);
	void (*judge)(struct driver*);
	void (*learn)(struct driver*, int emitted, int accepted, double cost);

	void (*figures)(const struct driver*, struct swiftlet_figures*);
	void (*trace)(const struct driver*, struct round_trace*);
};

/* A driver's state begins with it. */
struct driver {
	const struct driver_calls* calls;
	bool sees_prompt;
	double round_cost; /* of the passes of this round so far, in plain steps */
};

/* Replaces the planner by a driver, before the first request. The session closes it. */
void session_set_driver(struct session*, struct driver*);

/* A session as its driver sees it. Pointers are the session's. */
struct session_view {
	struct engine* engine;
	const struct swiftlet_options* options;
	struct cache* cache;
	const int32_t* text; /* (n_text) the prompt and what was generated */
	int n_text, n_prompt;
	const struct mask* mask;
	struct variant drafts;             /* what drafts with the mask run */
	const struct sampler* sampler;     /* NULL: greedy */
	const struct penalties* penalties; /* for the rows after the committed tokens; NULL: none */
	bool constrained;                  /* by a grammar */
	bool prefills_again;               /* the text, not the prompt, is computed */
	int most_rows;                     /* of a tree */
	struct tree* tree;                 /* the driver's, from start to judge */
	struct round* round;
};
struct session_view session_view(struct session*);
/* True if the token ends the text. */
bool session_ends(const struct session*, int32_t token);
