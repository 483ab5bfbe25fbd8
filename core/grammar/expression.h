/* Turns a regular expression's syntax tree into a language. Programs cannot express conditions on the text
 * before or on the rest. */
#pragma once

#include "core/grammar/language.h"
#include "core/grammar/reader.h"

/* Whether the expression has a look-ahead, a look-behind, \b or a back-reference; whether it has ^ or $. */
bool expression_looks(const struct reader*, int node);
bool expression_anchors(const struct reader*, int node);
/* The texts that it matches, whole or somewhere within; NULL with the reader failed. */
struct language* expression_language(struct reader*, int node, bool whole);
