/* Sets of texts as deterministic automata over characters. The product of two automata joins conditions that
 * must hold together (a pattern, a format, a length), or that must not hold, into one automaton. */
#pragma once

#include "core/grammar/program.h"

enum { LANGUAGE_STATES = 1 << 14, LANGUAGE_EDGES = 1 << 18 };

/* The characters from `low` up to the next edge's `low`. */
struct edge {
	uint32_t low;
	int32_t to; /* the next state; NOWHERE: the set has no such text */
};

/* Every state leads to an end. An empty set has no state. */
struct language {
	int n, n_edges;
	int32_t* first;    /* (n + 1) of each state's edges, which begin with character 0 */
	struct edge* edge; /* (n_edges) */
	uint8_t* ends;     /* (n) */
};

/* All of these return NULL if the automaton is too large, or on no memory. State 0 is the start. */
struct language* language_all(void);
struct language* language_of_length(int least, int most); /* most -1: any */
struct language* language_of_text(const char* text);
/* pattern.c: the texts that an expression matches, whole or somewhere within. NULL with the error set. */
struct language* language_of_pattern(const char* expression, size_t size, bool whole, struct error*);
enum language_product { BOTH, EITHER, ONLY_FIRST };
struct language* language_product(const struct language*, const struct language*, enum language_product);
void language_free(struct language*);

/* The base64 encodings (RFC 4648), with padding, of a set of ASCII texts; url: with the alphabet for URLs. */
struct language* language_in_base64(const struct language*, bool url);
bool language_takes(const struct language*, const char* text);
/* The state after a character; NOWHERE: no text goes on so. */
int language_next(const struct language*, int state, uint32_t code);
/* The same set with the fewest states; NULL on no memory. Takes ownership of the language. */
struct language* language_smallest(struct language*);

/* A language that is made edge by edge, state after state. */
struct language* language_open(void);
bool language_edge(struct language*, uint32_t low, int32_t to); /* the same target as before: no new edge */
bool language_state(struct language*, bool ends);               /* closes the state whose edges came last */
/* Removes the states that lead to no end. If `good` is false, frees the language and returns NULL. */
struct language* language_close(struct language*, bool good);

/* A rule for a set of characters. */
struct class_rule {
	int rule, n;
	uint32_t* bound; /* (n) [low, past) in turn */
};
struct class_rules {
	struct class_rule* of; /* (n) */
	int n;
};
/* Emits the texts of at most `most` characters (-1: all), each character by the emitter; the code goes on at
 * `next`. Sets of characters become rules, which the list keeps. */
int32_t language_emit(struct grammar*, const struct language*, character_emitter*, struct class_rules*,
                      int most, int32_t next);
/* Characters of the longest text; -1: there is no limit. */
int language_longest(const struct language*);
void class_rules_close(struct class_rules*);
