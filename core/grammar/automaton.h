/* A nondeterministic automaton over characters, with conditions on the text before a place and on the rest.
 * expression.c makes it, automaton.c makes it deterministic. */
#ifndef SWIFTLET_CORE_GRAMMAR_AUTOMATON_H
#define SWIFTLET_CORE_GRAMMAR_AUTOMATON_H

#include "core/grammar/language.h"
#include "core/grammar/reader.h"

enum { MAX_PLACES = 1 << 17, MAX_BEFORE = 8 };

enum place_kind {
	PLACE_CHARACTER, /* of the reader's ranges [a, b) */
	PLACE_SPLIT,     /* goes on at `other`, too */
	PLACE_END,
	PLACE_BEFORE, /* the text before has to be in the language a of `before`, or, b false, must not */
	PLACE_AHEAD   /* the rest has to be one of place a, or, b false, must not; `other`: that looks back */
};

struct automaton_place {
	enum place_kind kind;
	int a, b, next, other;
};

/* What the rest of a text has to be, seen from a place with some text before it. */
struct rest {
	int start;
	bool must;
	uint64_t before;
	struct language* of;
};

struct automaton {
	struct reader* r;
	struct automaton_place* place; /* (n) the first is the end */
	int n;
	struct language* before[MAX_BEFORE]; /* (n_before) each reads the whole text as it comes */
	int n_before, looks_back;            /* places that ask for it */
	int behind;                          /* look-behinds that are being made */
	int empty, word;                     /* those of `^` and `\b`; NOWHERE: none has come */
	struct rest* rest;                   /* (n_rests) */
	int n_rests;
	int64_t work;
};

/* The states of the languages of `before`, a byte each, where the text begins. */
uint64_t automaton_begin(const struct automaton*);
/* The texts from a place on; NULL with the reader failed. */
struct language* automaton_language(struct automaton*, int start, uint64_t before);
void automaton_close(struct automaton*);

#endif
