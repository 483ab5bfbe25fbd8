/* The interface of drafters.
 *
 * A candidate is a token proposed as the child of a node, with evidence: a bin, which means something to its
 * drafter alone. core/decode/speculate.h learns from verification how often a bin is right, and knows the
 * cost of rows and passes. A drafter knows neither.
 *
 * Drafters without passes extend a node at once. Others run passes first, and extend nodes from their
 * results. A new drafter takes its file and one line of DRAFTERS. */
#pragma once

#include "core/draft/tree.h"

struct acceptor; /* core/grammar/acceptor.h */

/* The names for the option --drafters. At a node, earlier ones are asked first. */
#define DRAFTERS(name)                                                                                       \
	name(mask) name(model) name(mtp) name(prediction) name(retrieval) name(recycle) name(form)

enum drafter_source {
#define DRAFTER_SOURCE(name) SOURCE_##name,
	DRAFTERS(DRAFTER_SOURCE) DRAFTER_COUNT
#undef DRAFTER_SOURCE
};

enum { EVIDENCE_BINS = 64 };

struct candidate {
	int32_t token;
	uint8_t bin; /* below the drafter's `bins` */
	bool spare;  /* for learning alone, not for the tree */
};

/* Appends one to the n of the list unless its token is there; returns how many there are then. */
static inline int candidate_add(struct candidate* list, int n, int32_t token, int bin) {
	for (int i = 0; i < n; i++)
		if (list[i].token == token)
			return n;
	list[n] = (struct candidate){.token = token, .bin = (uint8_t)bin};
	return n + 1;
}

/* The last of n classes, by ascending lower bounds, that the value reaches; 0: none. */
static inline int evidence_class(const int* lowest, int n, int value) {
	int at = n - 1;
	while (at > 0 && value < lowest[at])
		at--;
	return at;
}

struct drafter_setup {
	int context; /* the most tokens a sequence has */
	int vocab;
};

/* A text that begins; the arrays are valid during the call. */
struct drafter_text {
	int tenant;
	const int32_t* prompt;     /* (n_prompt) */
	int n_prompt, kept;        /* tokens of the prompt that were kept from an earlier text */
	const int32_t* expected;   /* (n_expected) a text that the output may follow */
	int n_expected;            /* beyond the context the end is left out */
	struct acceptor* acceptor; /* the grammar that the output keeps; NULL: none */
};

/* A drafter's functions; `state` is one sequence's. Only open may allocate. Optional functions are NULL. */
struct drafter {
	int bins;             /* at most EVIDENCE_BINS */
	bool pays_on_devices; /* on a CPU it drafts only if it is asked for */
	/* The chance that a candidate is right if those before it at its node are wrong, before anything was
	 * learned. */
	float (*prior)(int bin, int rank);
	void* (*open)(const struct drafter_setup*); /* NULL on no memory */
	void (*close)(void* state);
	/* A text begins, and replaces the one before. Optional. */
	void (*begin)(void* state, const struct drafter_text*);
	/* Emitted tokens join the text, except those beyond the context. Optional. */
	void (*append)(void* state, const int32_t* token, int n);
	/* WANT_ bits of verified rows beside WANT_TOKEN. Optional. */
	uint8_t (*wants)(const void* state);
	/* A tree was verified: out (tree rows) holds WANT_TOKEN and `wants`. The tokens that it brought are
	 * appended afterwards. Optional. */
	void (*see)(void* state, const struct tree*, const struct verdict*, const struct result* out);
	/* Proposes children of a row: different tokens, at most `most` <= TREE_RANKS, best first; returns how
	 * many. Called once for each row, in row order as the tree grows, from row 0, which holds the sequence's
	 * last token. A drafter may keep its findings about a row for the row's children. */
	int (*extend)(void* state, const struct tree*, int row, struct candidate* out, int most);

	/* True when a token may come after a row that `extend` was called for; optional. Drafters with this
	 * function are asked first, and it filters the others' candidates. */
	bool (*allows)(void* state, int row, int32_t token);

	/* Passes; all three or none. */
	/* The row of the tree whose children another pass would find, or -1. */
	int (*head)(void* state, const struct tree*);
	/* Fills that pass. Up to `carry` rows below the head go with it (a cascade), so that the pass finds their
	 * children too. */
	void (*fill)(void* state, const struct tree*, int head, int carry, struct pass*);
	/* Takes its results. */
	void (*take)(void* state);
};

#define DRAFTER_DECLARED(name) extern const struct drafter drafter_##name;
DRAFTERS(DRAFTER_DECLARED)
#undef DRAFTER_DECLARED

extern const struct drafter* const drafters[DRAFTER_COUNT];
extern const char* const drafter_name[DRAFTER_COUNT];

/* The drafters of one sequence. */
struct drafter_set {
	void* state[DRAFTER_COUNT]; /* NULL: does not take part */
};

/* Opens the drafters whose bits are set. False on no memory; close in any case. */
bool drafter_set_open(struct drafter_set*, unsigned which, const struct drafter_setup*);
void drafter_set_close(struct drafter_set*);
void drafter_set_begin(struct drafter_set*, const struct drafter_text*);
void drafter_set_append(struct drafter_set*, const int32_t* token, int n);
/* The results that the drafters want of verified rows. */
uint8_t drafter_set_wants(const struct drafter_set*);
void drafter_set_see(struct drafter_set*, const struct tree*, const struct verdict*,
                     const struct result* out);
/* The bits of a list of names such as "mask,retrieval"; "none" and "all" too. False with the error set. */
bool drafter_parse(const char* list, unsigned* which, struct error*);
