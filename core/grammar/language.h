/* Sets of texts as deterministic automata over characters. Two are joined by their product, so that what has
 * to hold at once (a pattern, a format, a length) and what must not hold become one automaton. */
#ifndef SWIFTLET_CORE_GRAMMAR_LANGUAGE_H
#define SWIFTLET_CORE_GRAMMAR_LANGUAGE_H

#include "core/grammar/program.h"

enum { LANGUAGE_STATES = 1 << 14, LANGUAGE_EDGES = 1 << 18 };

/* From `low` up to the next edge's. */
struct edge {
	uint32_t low;
	int32_t to; /* NOWHERE: no text of the set goes on so */
};

/* Every state leads to an end. An empty set has no state. */
struct language {
	int n, n_edges;
	int32_t* first;    /* (n + 1) of each state's edges, which begin with character 0 */
	struct edge* edge; /* (n_edges) */
	uint8_t* ends;     /* (n) */
};

/* All of these return NULL where it is too large, or on no memory. State 0 is the start. */
struct language* language_all(void);
struct language* language_of_length(int least, int most); /* most -1: any */
struct language* language_of_text(const char* text);
/* pattern.c: the texts that an expression matches, whole or somewhere within. NULL with the error set. */
struct language* language_of_pattern(const char* expression, size_t size, bool whole, struct error*);
enum product { BOTH, EITHER, ONLY_FIRST };
struct language* language_product(const struct language*, const struct language*, enum product);
void language_free(struct language*);

/* Encodes ASCII texts in base64 (RFC 4648), padded; url: in its alphabet for URLs. */
struct language* language_in_base64(const struct language*, bool url);
bool language_takes(const struct language*, const char* text);
/* With as few states as can be; NULL on no memory. Frees what it is given. */
struct language* language_smallest(struct language*);

/* A language that is made edge by edge, state after state. */
struct language* language_open(void);
bool language_edge(struct language*, uint32_t low, int32_t to); /* the same target as before: no new edge */
bool language_state(struct language*, bool ends);               /* closes the state whose edges came last */
/* Drops the states that lead to no end; frees it and returns NULL where good is false. */
struct language* language_close(struct language*, bool good);

/* Emits it before `next`, each character by the emitter; sets of characters become rules, kept in the list.
 * Keeps texts of no more than `most` characters; -1: all. */
struct class_rule {
	int rule, n;
	uint32_t* bound; /* (n) [low, past) in turn */
};
struct class_rules {
	struct class_rule* of; /* (n) */
	int n;
};
int32_t language_emit(struct grammar*, const struct language*, character_emitter*, struct class_rules*,
                      int most, int32_t next);
/* Characters of the longest text; -1: there is no limit. */
int language_longest(const struct language*);
void class_rules_close(struct class_rules*);

#endif
