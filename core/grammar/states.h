/* The states of a match: each is a set of places in the program, with the stack of rules to which each place
 * returns.
 *
 * Stacks and sets are interned, so a state is a number, and equal states have one number. Steps are
 * remembered, so the automaton becomes deterministic as it is walked. All data lies in tables of fixed size.
 * A full table is emptied, and keeps only the present state. */
#pragma once

#include "core/grammar/program.h"

enum { STATE_DEAD = 0 }; /* nothing may follow, and the text may not end */

struct states;

/* NULL on no memory. The grammar stays the caller's. */
struct states* states_open(const struct grammar*);
void states_close(struct states*);

/* The state at the beginning of a text. */
int states_start(struct states*);
/* Forgets every state. */
void states_forget(struct states*);
/* The state after a byte. STATE_DEAD: the byte is not allowed, the set would be too large, or the tables are
 * full. */
int states_step(struct states*, int state, uint8_t byte);
/* A walk over many texts from one state. It has a table of its own, with a row of steps for each state, so
 * that the work that it counts does not depend on earlier walks. If a step is STATES_NOT_MET in the table,
 * states_meet takes it and adds the number of places of both states to *work. Only the rows of states that
 * the walk has reached are valid. */
enum { STATES_NOT_MET = -1 };
typedef int16_t states_steps[256];
states_steps* states_begin_walk(struct states*, int state);
int states_meet(struct states*, int state, uint8_t byte, int64_t* work);
/* Plain characters stand for themselves in a JSON string and begin no mark of a tag: all but control
 * characters, the quote, the backslash, < and ]. */
bool states_is_plain(uint8_t ascii);
/* Returns the state after any one of them, or STATES_DIFFER if it depends on the character. *work
 * grows when a walk asks for a state for the first time, also if an earlier walk has found the answer. */
enum { STATES_DIFFER = -2 };
int states_after_plain(struct states*, int state, int64_t* work);
/* If plain characters do nothing but count down from this state: the latest state on that way whose steps are
 * still the same. *by: how many plain characters lead to it; 0: it is this state itself. *work as above. */
int states_counted_down(struct states*, int state, int* by, int64_t* work);
/* The state after any ASCII letter, and after any character beyond ASCII that a word may hold. The latter are
 * all but the Unicode blocks with white space and punctuation. STATES_DIFFER and *work as above. */
struct after_word {
	int letter, other;
};
struct after_word states_after_word(struct states*, int state, int64_t* work);
/* Whether a word may hold this character of several bytes. */
bool states_is_beyond_ascii(const uint8_t* character);
/* The state after the other bytes of a character of several bytes, whose first byte led to this state. */
int states_after_character(struct states*, int state, uint8_t lead);
/* A state that allows the same texts of at most so many bytes. Many states share it: counts that so few bytes
 * cannot use up are clipped to the same number. */
int states_clipped(struct states*, int state, int bytes);
/* Whether the text may end here. */
bool states_ends(const struct states*, int state);
/* For a grammar that begins with a list's item: the number of texts that the item may be, at most `most`. It
 * may be too low if texts are long. */
int states_count(struct states*, int most);
/* The only byte that may come next, if the text may not end here; -1: several may come, or none. */
int states_only_byte(struct states*, int state);
/* True when a step was STATE_DEAD only because the tables were full. */
bool states_full(const struct states*);
/* True when a step since the last states_forget was STATE_DEAD because its set was too large. */
bool states_overflowed(const struct states*);
/* Checks that the beginning of a text is not too ambiguous, and returns the grammar. Otherwise it frees the
 * grammar and returns NULL with the error set. NULL gives NULL. */
struct grammar* states_checked(struct grammar*, struct error*);
/* Whether the tables are half full. */
bool states_filling(const struct states*);
/* Forgets everything but one state. Returns its new number. */
int states_renew(struct states*, int state);
