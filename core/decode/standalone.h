/* Rounds of the methods that one drafter makes (method.h).
 *
 *     (passes of its own) → start → guesses, or step … until the stop rule ends it → verify → learn
 *
 * The drafter says what comes next (core/draft: jacobi.c, exit.c, …); here is what holds for all of them: how
 * far (stop.h), what tree the steps become, how it is accepted, and what is learned of them. The work is the
 * session's (core/decode/flow.c). */
#ifndef SWIFTLET_CORE_DECODE_STANDALONE_H
#define SWIFTLET_CORE_DECODE_STANDALONE_H

#include "core/decode/exit_choice.h"
#include "core/decode/layer_programming.h"
#include "core/decode/method.h"
#include "core/draft/chain.h"
#include "core/draft/probe.h"

struct session;

/* How often something was right, fading. */
struct rate {
	float right, trials;
};

struct standalone {
	const struct method* method;
	const struct drafter* drafter;
	void* state;         /* the drafter's */
	struct chain* chain; /* its steps; NULL: it guesses */
	struct cache* side; /* the adapter's, or one that holds nothing for trained heads; NULL: none is wanted */

	/* how far */
	struct stopper stop;
	struct probe probe;
	int limit;       /* draft steps of this round */
	const char* why; /* the chain ended */
	enum { STANDALONE_STEP, STANDALONE_REST, STANDALONE_DONE } next;

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
};

/* Sub-layers that a method's own mask leaves out, of all that may be. */
int method_mask_size(const struct session*);
/* What it keeps beside the model and its cache. */
size_t session_method_bytes(const struct session*);
/* Opens the drafter and what it needs. False with the error set; close in any case. */
bool standalone_open(struct session*, struct error*);
void standalone_close(struct standalone*);
/* A text begins; how many of the cached tokens may stay. */
int standalone_keeps(const struct session*, int kept);
bool standalone_begin(struct session*, struct error*); /* after s->text is set */
/* The cache is empty; the text is computed again. */
void standalone_release(struct session*);
/* Whether the drafter has to see every row of the prompt: the prefill is then tapped at its exit, and after
 * each pass of it comes one of the drafter's own. */
bool standalone_sees_prompt(const struct session*);

/* calibration.c: passes before a round. Whether there are any; the next; takes its results, in so many
 * seconds, until it was the last. */
bool calibration_begin(struct session*);
void calibration_fill(struct session*, struct pass*);
bool calibration_take(struct session*, double seconds);
/* The chance that the next step is right, and the least chance at which a further one pays, by depth. */
void standalone_set_policy(struct session*);
/* The exit that is given, or that auxiliary weights were made for; 0: by cost. */
int standalone_given_exit(const struct session*);

/* Whether the drafter drafts for the text at hand; else its rounds are plain steps. */
bool standalone_drafts(const struct session*);
void standalone_start(struct session*);
void standalone_fill(struct session*, struct pass*);
/* After such a pass, which took so long. The rows that run up to an exit for verification alone are its. */
void standalone_take(struct session*, double seconds);
void standalone_verify_pass(struct session*, uint8_t wants, struct pass*);
/* The verdict and its commitment. */
void standalone_verdict(struct session*);

/* standalone_tree.c: what the steps become, and what is learned of them. */
/* Each step's token, and beside it its alternatives in the order in which they were drawn. */
void standalone_build_tree(struct session*);
/* What the stop rule takes the newest step's chance for. */
float standalone_step_chance(const struct standalone*);
/* The drafter's guesses, cut where the stop rule says so. */
void standalone_guess(struct session*);
void standalone_learn(struct session*, int emitted, int accepted);

/* The last round, for traces. */
struct round_trace {
	int64_t round;             /* full passes so far: 0 before any */
	int position;              /* of the root in the text */
	int steps;                 /* of the chain */
	const struct result* step; /* (steps) */
	const char* why;
	const struct tree* tree;
	int accepted; /* draft tokens, those beyond the text's end left out */
	int32_t bonus;
};
void session_trace(const struct session*, struct round_trace*);

#endif
