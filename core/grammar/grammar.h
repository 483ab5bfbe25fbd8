/* Grammars that an answer has to keep: compiled from a JSON Schema, a regular expression or GBNF.
 *
 * A compiled grammar is a program over bytes: a nondeterministic automaton as in Thompson (1968), whose rules
 * call one another with a stack. It accepts a subset of the texts that were asked for, and no others. A
 * keyword that it cannot enforce is an error that names it. It is immutable, so any thread may use it. */
#pragma once

#include "kernels/backend.h"

struct grammar;

/* All of these return NULL with the error set if the input is malformed, not supported (the error names
 * what), or too large. */

/* Texts that are JSON values valid under the schema. Object members come in the schema's order, then those
 * that it does not name, where it describes them or names none. A schema that names properties and no
 * type is an object's; any other without a type takes values of every type.
 *
 * literal: what the schema leaves open is allowed, as the specification has it: members that it neither names
 * nor forbids, values of every type wherever it gives none, any string under an unknown format. */
struct grammar* grammar_from_json_schema(const char* schema, size_t size, bool literal, struct error*);
/* Any JSON object. */
struct grammar* grammar_from_json_object(struct error*);
/* The whole text matches an ECMA-262 expression without look-behind, references and \b. */
struct grammar* grammar_from_regex(const char* expression, size_t size, struct error*);
/* GBNF, as llama.cpp reads it: rules `name ::= …` of "literals", [classes], groups, alternatives and * + ?
 * {m,n}; the text is a `root`. Rules that begin with themselves are refused. */
struct grammar* grammar_from_gbnf(const char* rules, size_t size, struct error*);
/* One of the texts. */
struct grammar* grammar_from_choices(const char* const* choice, int n, struct error*);

/* The prefix of a special token's name in a program. No text has these two bytes. */
#define GRAMMAR_SPECIAL "\xff\xff"
/* Stands for a number from 1 to 999 before the arguments of a call. */
#define GRAMMAR_NUMBER "\xff\xfe"

/* Calls of functions, with free text before them. */
struct grammar_call {
	const char *first, *before; /* what stands before the arguments, in the first call and in later ones */
	const char* schema;         /* of the arguments, JSON; NULL: any object */
	const char* after;
};
/* How arguments stand between tags: before_name NAME before_value VALUE end … A text does not contain the
 * mark, which is part of `end`. */
enum { GRAMMAR_TYPES = 6 }; /* string, number, boolean, null, array, object */
struct grammar_tags {
	const char *before_name, *before_value[GRAMMAR_TYPES], *end, *mark;
	const char* end_name; /* `end` is followed by the name and this; NULL: it is not */
	/* Between two members, as Python writes them: each name is one of Python's, and each value JSON, strings
	 * too. NULL: nothing. */
	const char* between;
	const char* whole; /* before arguments that are written as an object; NULL: nothing */
};
struct grammar_calls {
	const struct grammar_call* call; /* (n) */
	int n;
	bool literal; /* of all schemas: see grammar_from_json_schema */
	/* The arguments are written between tags, if the schema is a plain list of members; NULL: as an object.
	 */
	const struct grammar_tags* tags;
	const char *between, *finish; /* between two calls; after the last */
	const char* close;            /* after each call, where the text does not end with it; NULL: nothing */
	bool one;                     /* no more than one call */
	/* The beginning of every possible `first`, which the text does not need to write: because it is
	 * there already (`must`), or because free text ends with it. at_beginning: its one byte, as the first of
	 * the text that is no white space. */
	const char* begun;
	bool must, at_beginning;
	/* The text is calls, or else a JSON value under this schema ("": any object); NULL: free text. */
	const char* answer;
	const char* passes; /* a special token that free text may hold, or NULL */
};
struct grammar* grammar_from_calls(const struct grammar_calls*, struct error*);
/* Counted: a compiled grammar is freed when all its holders have freed it. */
struct grammar* grammar_hold(const struct grammar*);
/* Whether two are the same program. */
bool grammar_same(const struct grammar*, const struct grammar*);
void grammar_free(struct grammar*);
/* Whether the bytes are a text of the grammar, which has no special tokens. False on no memory too. */
bool grammar_accepts(const struct grammar*, const char* text, size_t size);
