/* Rounds of the methods that one drafter makes.
 *
 *     start → model pass (→ adapter's or head's pass) → stop? … → the rows not yet run to the exit → verify
 *
 * An exit's rows are kept: verification goes on from the exit for all of the tree's rows (LayerSkip, section
 * 4.3.3), after those that were drafted last, or beside the chain, have run up to it. Without reuse they are
 * dropped and the tree is verified as any other. The work is the session's (core/decode/flow.c). */
#ifndef SWIFTLET_CORE_DECODE_METHOD_ROUND_H
#define SWIFTLET_CORE_DECODE_METHOD_ROUND_H

#include "core/decode/exit_choice.h"
#include "core/decode/method.h"
#include "core/draft/probe.h"
#include "core/draft/tree.h"

struct session;

struct method_round {
	const struct method* method;
	struct stopper stop;
	int span;   /* sub-layers that a draft's model pass runs */
	int limit;  /* draft steps of this round */
	bool reuse; /* of what ran below the exit */
	enum { STEP_NONE, STEP_MODEL, STEP_SIDE, STEP_REST } next;
	int steps, rows;                 /* of this round: results; rows run up to the span */
	bool reused;                     /* the verify pass goes on from the span */
	const char* why;                 /* the chain ended */
	struct result result[MAX_DRAFT]; /* (steps) */
	float chance[MAX_DRAFT];         /* (steps) as the stop rule took them */
	uint8_t want[MAX_DRAFT];         /* of model passes */
	int32_t token[MAX_ROWS];         /* of the rows run up to the span */
	int32_t parent[MAX_ROWS];        /* likewise */
	int32_t pending[MAX_ROWS];       /* by row of the tree: such a row */
	struct segment segment;          /* of model passes */
	struct sampler sampler;          /* of drafts, under rejection */
	float* hidden;                   /* (MAX_DRAFT + 2, dim) after the span; NULL: not kept */
	struct exit_choice choice;
	struct probe probe;
	void* programming;            /* work space of dynamic programming; NULL: none is run */
	struct mask* programmed_mask; /* (2L) what it finds */
	/* the adapter's cache, or the one that a head's pass wants, which holds nothing */
	struct cache* side;
	struct segment side_segment;
	float* behind; /* (MAX_DRAFT + 2, dim) states of committed tokens that the adapter has not seen */
	int n_behind;
	float* side_in; /* (MAX_DRAFT + 3, dim) */
	int side_rows;  /* pending there */
	struct result side_result[MAX_DRAFT + 3];
	uint8_t side_want[MAX_DRAFT + 3];
	int32_t side_parent[MAX_DRAFT + 3];
	float* prefill; /* (PREFILL_CHUNK, dim) */
	uint8_t prefill_want[PREFILL_CHUNK];
	float* head_logits; /* (3, vocab) of a trained head, for the sampler, and its work space */

	struct draft_policy policy; /* gain */
	float right[DRAFT_BINS], trials[DRAFT_BINS];
	float depth_right[MAX_DRAFT + 1], depth_trials[MAX_DRAFT + 1]; /* of guesses */

	float *target_logits, *draft_logits; /* (SLICE_ROWS, vocab), (MAX_DRAFT, vocab) under rejection */
	float* distribution;                 /* (4, vocab) */
	int accepted;                        /* of the last round, as far as it was emitted */
	int64_t round;                       /* of this text */
	/* of its rounds: plain steps that drafting took, and all; draft steps; tokens */
	double draft_cost, cost;
	int64_t drafted, tokens;
};

/* Sub-layers that a method's own mask leaves out, of all that may be. */
int method_mask_size(const struct session*);
/* What it keeps beside the model and its cache. */
size_t session_method_bytes(const struct session*);
/* NULL with the error set. */
struct method_round* method_open(struct session*, const struct method*, struct error*);
void method_close(struct method_round*);
/* Who runs passes over a cache of the session's: the engine's backend or its adapter's, before which a clock
 * may stand. */
struct backend* method_backend(const struct session*, const struct cache*);
/* A text begins; how many of the cached tokens may stay. */
int method_keeps(const struct session*, int kept);
bool method_begin(struct session*, int kept, struct error*); /* after s->text is set */
/* Whether an adapter has to see every row of the prompt. */
bool method_sees_prompt(const struct session*);
/* The prefill: where it is tapped, or false; and after a pass of n rows. */
bool method_taps(const struct session*, int* tap, float** out);
bool method_prefilled(struct session*, int n, struct error*);

void method_start(struct session*);
bool method_goes_on(const struct session*);
void method_fill(struct session*, struct pass*);
void method_take(struct session*);
void method_verify_pass(struct session*, uint8_t wants, struct pass*);
/* The verdict and its commitment. */
void method_verdict(struct session*);
/* What a verify pass that goes on from the span is of a whole one, by weight bytes. */
double method_rest_share(const struct session*);
void method_learn(struct session*, int emitted, int accepted);
/* Drafting took so many seconds. */
void method_charge(struct session*, double seconds);

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
void method_trace(const struct session*, struct round_trace*);

#endif
