/* Rounds of methods in which one drafter decides alone (method.h): a driver of sessions
 * (core/decode/driver.h).
 *
 *     (passes of its own) → start → guesses, or step … until the stop rule ends it → verify → learn
 *
 * The drafter proposes tokens (jacobi.c, exit.c, …). This file does what all methods share: how far to draft
 * (stop.h), which tree the steps become, how it is accepted, and what is learned from it. */
#pragma once

#include "core/decode/driver.h"
#include "core/methods/chain.h"
#include "core/methods/exit_choice.h"
#include "core/methods/layer_programming.h"
#include "core/methods/method.h"
#include "core/methods/probe.h"

/* Checks what the options ask for of a method. Opens it on a session if the method has one drafter that makes
 * its rounds. False with the error set. */
bool method_open(struct session*, struct error*);
/* Sub-layers that a method's own mask leaves out, of those that may be. */
int method_mask_size(const struct swiftlet_options*, const struct engine*);

/* ---- shared by standalone.c, standalone_tree.c and calibration.c ----------------------------- */

/* How often something was right, fading. */
struct rate {
	float right, trials;
};

struct standalone {
	struct driver driver;
	struct session* session;
	struct engine* engine;
	const struct swiftlet_options* options;
	const struct method* method;
	const struct method_drafter* drafter;
	void* state;         /* the drafter's */
	struct chain* chain; /* its steps; NULL: it guesses */
	struct cache* side;  /* the adapter's, or an empty one for trained heads; NULL: none is needed */

	/* how far */
	struct stopper stop;
	struct draft_policy policy; /* of the rule gain */
	struct probe probe;
	int limit;       /* draft steps of this round */
	const char* why; /* the chain ended */
	enum { STANDALONE_READ, STANDALONE_CALIBRATE, STANDALONE_STEP, STANDALONE_REST, STANDALONE_DONE } next;
	int reading; /* rows of the prompt */

	/* before a round */
	struct exit_choice choice;
	struct exit_heads exit_heads;          /* its logits (3·vocab) are ours */
	float* exit_state;                     /* (2·EXIT_ROWS, dim) with heads */
	struct layer_programming* programming; /* NULL: none is run */

	/* acceptance by rejection */
	struct sampler sampler; /* of drafts */
	float* target_logits;   /* (SLICE_ROWS, vocab); NULL: coupled */
	float* distribution;    /* (4, vocab) */

	float chance[MAX_DRAFT];                           /* (steps) as the stop rule took them */
	struct rate bin[DRAFT_BINS], depth[MAX_DRAFT + 1]; /* depth: of guesses */
	int accepted;                                      /* of the last round, as far as it was emitted */
	int64_t round;                                     /* of this text */
	/* of its rounds: plain steps that drafting took, and all; draft steps; tokens */
	double draft_cost, cost;
	int64_t drafted, tokens;
	struct {
		double draft, verify, optimize; /* seconds */
		int64_t steps, accepted;
		int exit_block;
	} figures; /* of this text */
};

static inline const struct model_shape* shape_of(const struct standalone* m) {
	return &m->engine->model->weights.shape;
}

/* calibration.c: passes before a round. begin: true if there are any. fill: the next one. take: takes its
 * results and seconds; true after the last. */
bool calibration_begin(struct standalone*);
void calibration_fill(struct standalone*, struct pass*);
bool calibration_take(struct standalone*, double seconds);
/* The probability that the next step is right; the least probability, by depth, at which another step
 * pays. */
void standalone_set_policy(struct standalone*);
/* The given exit, or the one that auxiliary weights were made for; 0: chosen by cost. */
int standalone_given_exit(const struct standalone*);
/* The driver's call: true if the drafter drafts for the present text. */
bool standalone_drafts(const struct driver*);

/* standalone_tree.c: what the steps become, and what is learned of them. */
/* Each step's token, and beside it its alternatives in the order in which they were drawn. */
void standalone_build_tree(struct standalone*);
/* The newest step's probability of being right, for the stop rule. */
float standalone_step_chance(const struct standalone*);
/* The drafter's guesses, cut by the stop rule. */
void standalone_guess(struct standalone*);
/* The driver's call. */
void standalone_learn(struct driver*, int emitted, int accepted, double cost);
