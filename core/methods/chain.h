/* A chain of draft steps that one drafter makes alone, by passes of the model itself.
 *
 *     row up to the span (→ another pass of the drafter's) → step → row …  → the rows not yet run → verify
 *
 * A step runs one more row through the sub-layers below `span`, without those of the mask. The drafter turns
 * its state into the next token: by the model's head (skip: chain.c), a trained one (exit.c), or an adapter
 * (adapter.c). Rows that ran up to an exit may be kept. Then verification continues from there for all of the
 * tree's rows (LayerSkip, section 4.3.3), after the last and the alternative rows have run up to it. */
#pragma once

#include "core/draft/round.h"
#include "core/methods/exit_heads.h"
#include "core/methods/method_drafter.h"

/* The setup of a chain. All of it is the caller's, and has to live as long as the drafter is open. */
struct chain_setup {
	const struct model_shape* shape;
	bool reuse;               /* of what ran below the span */
	bool states;              /* the caller reads each step's state after the span */
	bool logits;              /* and its logits */
	struct exit_heads* heads; /* NULL: none */
	struct cache* side;       /* the adapter's; else NULL */
};

struct chain {
	struct chain_setup setup;
	int span;                /* sub-layers that a row runs */
	const struct mask* skip; /* of them left out; NULL: none */
	struct segment segment;
	int32_t root;
	int rows, steps;                 /* rows of this round that have run up to the span; results */
	bool second;                     /* the last row's step waits for a pass of the drafter's own */
	struct result result[MAX_DRAFT]; /* (steps) */
	uint8_t want[MAX_DRAFT];
	int32_t token[MAX_ROWS], parent[MAX_ROWS]; /* (rows) */
	int32_t pending[MAX_ROWS];                 /* by row of the tree: such a row */
	float* hidden; /* (MAX_DRAFT + 2, dim) states after the span; NULL: not kept */
	float* logits; /* (MAX_DRAFT, vocab); NULL: not kept */
	float* prompt; /* (PREFILL_CHUNK, dim) states of the prompt's rows after the span; NULL: not wanted */
};

/* Allocates a drafter's state of this many bytes, zeros except the chain at its beginning; NULL on no
 * memory. */
void* chain_open(size_t size, const struct chain_setup*);
void chain_close(void* state);
/* Begins a round after the cache's committed tokens. The pointers are valid until it ends. */
void chain_start(struct chain*, int32_t root, int span, const struct mask* skip, const struct segment*);
/* Fills a pass for the next row. head: it runs the model's own head. */
void chain_row_pass(struct chain*, bool head, struct pass*);
/* The wants of the present step. */
uint8_t chain_ask(struct chain*, struct result*);
/* Its result is there. */
void chain_step(struct chain*);

/* A pass of the tree's rows that must run up to the span before verification; false: there are none. */
bool chain_rest_pass(struct chain*, const struct tree*, struct pass*);
/* The verify pass, which continues from the span if rows are kept. */
void chain_verify_pass(struct chain*, struct round*, const struct tree*, uint8_t wants, struct pass*);
