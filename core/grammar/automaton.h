/* A nondeterministic automaton over characters, with conditions on the text before a place and on the rest.
 * expression.c makes it, automaton.c makes it deterministic. */
#pragma once

#include "core/grammar/language.h"
#include "core/grammar/reader.h"

enum { MAX_PLACES = 1 << 17, MAX_BEFORE = 8, MAX_FIXED = 64, MAX_FIXED_LENGTH = 64 };

enum place_kind {
	PLACE_CHARACTER, /* takes one character of the reader's ranges [a, b) */
	PLACE_SPLIT,     /* goes on at `next` and at `other` */
	PLACE_END,
	PLACE_BEFORE, /* goes on if the text before is in the language before[a] (b true), or if it is not */
	PLACE_AHEAD   /* goes on if the rest is a text from place a on (b true), or if it is none. `other` is true
	                 where place a has conditions on the text before. */
};

struct automaton_place {
	enum place_kind kind;
	int a, b, next, other;
};

/* The language that the rest of a text must be in: the texts from `start` on, or all others (must false). It
 * may depend on the text before. */
struct rest {
	int start;
	bool must;
	uint64_t before;
	struct language* of;
};

struct fixed_text {
	uint32_t code[MAX_FIXED_LENGTH]; /* (n) */
	int n;
};

struct automaton {
	struct reader* r;
	const struct fixed_text* fixed[READER_GROUPS]; /* the texts that groups have; NULL: any of theirs */
	int texts;                                     /* how many were fixed */
	struct automaton_place* place;                 /* (n) the first is the end */
	int n;
	struct language* before[MAX_BEFORE]; /* (n_before) that conditions on the text before are about */
	int n_before, looks_back;            /* looks_back: the number of such conditions */
	int behind;                          /* the nesting of the look-behind that is being made */
	int empty, word;                     /* the languages of `^` and `\b`; NOWHERE: not needed so far */
	struct rest* rest;                   /* (n_rests) */
	int n_rests;
	int64_t work; /* done so far, in members of subsets: what a pattern may take is limited */
};

/* The states of the languages of `before`, a byte each, where the text begins. */
uint64_t automaton_begin(const struct automaton*);
/* The texts from a place on; NULL with the reader failed. */
struct language* automaton_language(struct automaton*, int start, uint64_t before);
void automaton_close(struct automaton*);
