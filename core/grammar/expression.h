/* A regular expression that was read, as a language: with look-ahead, which needs what follows as a whole. */
#ifndef SWIFTLET_CORE_GRAMMAR_EXPRESSION_H
#define SWIFTLET_CORE_GRAMMAR_EXPRESSION_H

#include "core/grammar/language.h"
#include "core/grammar/reader.h"

/* Whether a look-ahead is in it. */
bool expression_looks(const struct reader*, int node);
/* The texts that it matches, whole or somewhere within; NULL with the reader failed. */
struct language* expression_language(struct reader*, int node, bool whole);

#endif
