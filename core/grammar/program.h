/* A grammar as a program over bytes.
 *
 *     RANGE low high → next   consumes a byte from low to high
 *     SPLIT → next or other   goes both ways
 *     CALL rule → next        runs the rule, and goes on at next when it returns
 *     RETURN                  ends the rule; in the first rule, the text may end here
 *     BEGIN most → next       pushes the count `most` on the stack
 *     STEP least → next       lowers the count by one, if at least `least` is left then
 *     FINISH → next           pops the count or list
 *     LIST → next             pushes a list whose items must differ
 *     ROOM most → next        goes on if the list has fewer than `most` items
 *     ITEM → next             begins an item, whose bytes are kept from here on
 *     DIFFER → next           ends the item; goes on if no earlier item has the same bytes
 *
 * Programs are emitted from back to front: an emitter takes the instruction that follows and returns the one
 * that its code begins with. */
#pragma once

#include <stdatomic.h>

#include "core/grammar/grammar.h"

enum { GRAMMAR_INSTRUCTIONS = 1 << 18, GRAMMAR_RULES = 1 << 14 };

enum opcode {
	OP_RANGE,
	OP_SPLIT,
	OP_CALL,
	OP_RETURN,
	OP_BEGIN,
	OP_STEP,
	OP_FINISH,
	OP_LIST,
	OP_ROOM,
	OP_ITEM,
	OP_DIFFER
};

struct instruction {
	uint8_t opcode;
	uint8_t low, high; /* RANGE */
	uint8_t none;      /* 0 in place of padding, because programs are compared as bytes */
	int32_t next,
	    other; /* other: SPLIT's, the rule that is called, or the number that is counted from, left or had */
};

struct grammar {
	atomic_int holders;
	struct instruction* at; /* (n) at[0] is RETURN */
	int n;
	int32_t* rule; /* (n_rules) where each starts; rule 0 is the text */
	int n_rules;
	bool failed; /* emitting failed: the program is too large, or there is no memory */
};

enum { RETURNS = 0 }; /* the instruction that ends a rule */

/* A grammar with rule 0, which has no start yet. NULL with the error set on no memory. */
struct grammar* program_open(struct error*);
/* A new rule without a start; its number. */
int program_rule(struct grammar*);

int32_t emit_range(struct grammar*, uint8_t low, uint8_t high, int32_t next);
/* NOWHERE stands for code that matches nothing. */
enum { NOWHERE = -1 };
int32_t emit_split(struct grammar*, int32_t a, int32_t b);
int32_t emit_call(struct grammar*, int rule, int32_t next);
int32_t emit_text(struct grammar*, const char* text, size_t size, int32_t next);
int32_t emit_begin(struct grammar*, int most, int32_t next);
int32_t emit_step(struct grammar*, int least, int32_t next);
int32_t emit_finish(struct grammar*, int32_t next);
int32_t emit_distinct_list(struct grammar*, int32_t next);
int32_t emit_room(struct grammar*, int most, int32_t next);
/* Around an item: body ends with emit_differ. */
int32_t emit_distinct_item(struct grammar*, int32_t body);
int32_t emit_differ(struct grammar*, int32_t next);
/* A split for loops: loop_close sets its first way. */
int32_t emit_loop(struct grammar*, int32_t next);
void loop_close(struct grammar*, int32_t loop, int32_t body);

/* Emits one character of a set in UTF-8, without surrogates. The set is [bound[0], bound[1]), [bound[2],
 * bound[3]) …, ascending, with n bounds. */
typedef int32_t character_emitter(struct grammar*, const uint32_t* bound, int n, int32_t next);
character_emitter emit_characters;
/* The same within a JSON string: with each escape that JSON allows for the character. */
character_emitter emit_json_characters;
/* The same within a JSON string, each character in one way only: as itself, or by its shortest escape. */
character_emitter emit_json_characters_once;
/* Emits one of the texts as a trie, and sorts them. `characters` emits those beyond ASCII; NULL: their bytes.
 */
int32_t emit_choices(struct grammar*, const char** text, int n, character_emitter* characters, int32_t next);

/* pattern.c: regular expressions of ECMA-262, without look-behind, references and \b. Laziness means nothing
 * here. `^` and `$` may stand where a text begins and ends.
 *
 * Emits the expression before `next`. whole: all of the text matches it; else it may stand anywhere within,
 * as JSON Schema's `pattern` does, unless it is anchored. NOWHERE with the error set if it is malformed or
 * not supported. */
int32_t pattern_emit(struct grammar*, const char* expression, size_t size, bool whole, character_emitter*,
                     int32_t next, struct error*);

/* A rule that calls itself before it consumes a byte; NOWHERE: there is none, or there is no memory, and the
 * program has failed. */
int program_left_recursion(struct grammar*);
/* Completes the program and returns it. If it has failed, frees it and returns NULL with the error set. good
 * false: the emitter failed and has set the error. */
struct grammar* program_close(struct grammar*, bool good, struct error*);
