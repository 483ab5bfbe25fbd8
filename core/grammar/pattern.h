/* Regular expressions, read to a tree and emitted into a program.
 *
 * ECMA-262 without what no automaton has: look-around, references, \b. Laziness means nothing here. `^` and
 * `$` may stand where a text begins and ends. */
#ifndef SWIFTLET_CORE_GRAMMAR_PATTERN_H
#define SWIFTLET_CORE_GRAMMAR_PATTERN_H

#include "core/grammar/program.h"

enum pattern_text {
	PATTERN_PLAIN, /* characters stand for themselves */
	PATTERN_JSON   /* within a JSON string: escaped where they have to be */
};

/* Emits the expression before `next`. whole: all of the text matches it; else it may stand anywhere within,
 * as JSON Schema's `pattern` does, unless it is anchored. NOWHERE with the error set: malformed, not
 * supported. */
int32_t pattern_emit(struct grammar*, const char* expression, size_t size, bool whole, enum pattern_text,
                     int32_t next, struct error*);

#endif
