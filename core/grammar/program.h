/* A grammar as a program over bytes.
 *
 *     RANGE low high → next   consumes a byte between them
 *     SPLIT → next or other   both ways
 *     CALL rule → next        the rule's start, and next when it returns
 *     RETURN                  the rule ends; of the first rule: the text may end
 *     BEGIN most → next       begins to count, on the stack
 *     STEP least → next       one of those that are left is gone; as many have to be left still
 *     FINISH → next           what is left is forgotten
 *     LIST → next             begins a list, on the stack, whose items all differ
 *     ROOM most → next        the list has fewer items than that
 *     ITEM → next             begins an item: its bytes are kept from here on
 *     DIFFER → next           the item ends; its bytes are none of the items' before. FINISH ends the list
 *
 * It is emitted from back to front: whatever emits is given the instruction that follows and returns the one
 * that begins. */
#ifndef SWIFTLET_CORE_GRAMMAR_PROGRAM_H
#define SWIFTLET_CORE_GRAMMAR_PROGRAM_H

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
	uint8_t none;      /* 0, where padding would be: programs are compared as bytes */
	int32_t next,
	    other; /* other: SPLIT's, the rule that is called, or the number that is counted from, left or had */
};

struct grammar {
	atomic_int holders;
	struct instruction* at; /* (n) at[0] is RETURN */
	int n;
	int32_t* rule; /* (n_rules) where each starts; rule 0 is the text */
	int n_rules;
	bool failed; /* while emitting: too large, or no memory; what is emitted then is of no use */
};

enum { RETURNS = 0 }; /* the instruction that ends a rule */

/* A grammar with rule 0, which has no start yet. NULL with the error set on no memory. */
struct grammar* program_open(struct error*);
/* A new rule without a start; its number. */
int program_rule(struct grammar*);

int32_t emit_range(struct grammar*, uint8_t low, uint8_t high, int32_t next);
/* Either way; NOWHERE is no way at all. */
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
/* A split whose first way is set later: loops are made of it. */
int32_t emit_loop(struct grammar*, int32_t next);
void loop_close(struct grammar*, int32_t loop, int32_t body);

/* One character of a set, which is [bound[0], bound[1]), [bound[2], bound[3]) …, ascending, (n) bounds. As
 * UTF-8; surrogates are left out. */
typedef int32_t character_emitter(struct grammar*, const uint32_t* bound, int n, int32_t next);
character_emitter emit_characters;
/* The same as it stands within a JSON string: escaped where it has to be, and in any way that it may be. */
character_emitter emit_json_characters;
/* Within a JSON string, each character in one way only: as itself, or by its shortest escape. */
character_emitter emit_json_characters_once;
/* One of the texts, which are sorted by it, as a trie. characters: of those that are not of ASCII; NULL: as
 * they are. */
int32_t emit_choices(struct grammar*, const char** text, int n, character_emitter* characters, int32_t next);

/* pattern.c: regular expressions of ECMA-262, without look-behind, references and \b. Laziness means nothing
 * here. `^` and `$` may stand where a text begins and ends.
 *
 * Emits the expression before `next`. whole: all of the text matches it; else it may stand anywhere within,
 * as JSON Schema's `pattern` does, unless it is anchored. NOWHERE with the error set: malformed, not
 * supported. */
int32_t pattern_emit(struct grammar*, const char* expression, size_t size, bool whole, character_emitter*,
                     int32_t next, struct error*);

/* A rule that calls itself before it consumes anything; NOWHERE: there is none, or the program has failed for
 * want of memory. */
int program_left_recursion(struct grammar*);
/* The program is whole, and is given back; NULL with the error set, and the program freed, where it failed on
 * the way. good false: what emitted it has set the error. */
struct grammar* program_close(struct grammar*, bool good, struct error*);

#endif
