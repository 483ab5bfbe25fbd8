/* Grammars that an answer has to keep: compiled from a JSON Schema, a regular expression or GBNF.
 *
 * A compiled grammar is a program over bytes: a nondeterministic automaton whose rules call one another, as
 * Thompson's (1968) with a stack. What it accepts is a subset of what was asked for, never more: a keyword
 * that it cannot keep is an error that names it. Immutable once compiled: any thread may use it. */
#ifndef SWIFTLET_CORE_GRAMMAR_GRAMMAR_H
#define SWIFTLET_CORE_GRAMMAR_GRAMMAR_H

#include "kernels/backend.h"

struct grammar;

/* All of these return NULL with the error set: malformed, not supported (named), or too large. */

/* Texts that are JSON values valid under the schema. Object members come in the schema's order, members that
 * the schema does not name are left out unless it names none. */
struct grammar* grammar_from_json_schema(const char* schema, size_t size, struct error*);
/* Any JSON object. */
struct grammar* grammar_from_json_object(struct error*);
/* The whole text matches an ECMA-262 expression without look-around and references. */
struct grammar* grammar_from_regex(const char* expression, size_t size, struct error*);
/* One of the texts. */
struct grammar* grammar_from_choices(const char* const* choice, int n, struct error*);
void grammar_free(struct grammar*);

#endif
