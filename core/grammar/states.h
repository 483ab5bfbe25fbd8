/* The state of a match after some text: a set of places in the program, each with the rules that it returns
 * to.
 *
 * Stacks and sets are interned, so a state is a number, and equal states have one number. Steps are
 * remembered, so the automaton becomes deterministic as it is walked. All data lies in tables of fixed size.
 * A full table is started over from the present state alone. */
#ifndef SWIFTLET_CORE_GRAMMAR_STATES_H
#define SWIFTLET_CORE_GRAMMAR_STATES_H

#include "core/grammar/program.h"

enum { STATE_DEAD = 0 }; /* nothing may follow, and the text may not end */

struct states;

/* At the beginning of a text: states_start. NULL on no memory. The grammar is the caller's. */
struct states* states_open(const struct grammar*);
void states_close(struct states*);

int states_start(struct states*);
/* Forgets every state. */
void states_forget(struct states*);
/* The state after a byte. STATE_DEAD also if the set would be too large, or if the tables are
 * full. */
int states_step(struct states*, int state, uint8_t byte);
/* A walk over many texts from one state. Its steps are remembered apart, by state and byte, so that its work
 * does not depend on what was known before: a step that is STATES_NOT_MET is taken by states_meet, and *work
 * grows by the places of both states. Rows are good for the states that the walk has reached. */
enum { STATES_NOT_MET = -1 };
typedef int16_t states_steps[256];
states_steps* states_begin_walk(struct states*, int state);
int states_meet(struct states*, int state, uint8_t byte, int64_t* work);
/* Plain characters are those that stand for themselves in a JSON string: all but controls, the quote and the
 * backslash. The state after any one of them; STATES_DIFFER: that depends on the character. *work grows where
 * a walk asks for a state's first time, whatever was known before. */
enum { STATES_DIFFER = -2 };
int states_after_plain(struct states*, int state, int64_t* work);
/* If plain characters only count down from a state: a later one, which has the least left from which every
 * step is still as it was. *by: how many plain characters lead there; 0: it is the state itself. *work as
 * above. */
int states_counted_down(struct states*, int state, int* by, int64_t* work);
/* The state after any letter of ASCII, and after any character beyond ASCII that a word may hold: all but
 * those of the blocks with white space and punctuation. STATES_DIFFER and *work as above. */
struct after_word {
	int letter, other;
};
struct after_word states_after_word(struct states*, int state, int64_t* work);
/* Whether a whole character of several bytes is one of the latter. */
bool states_is_beyond_ascii(const uint8_t* character);
/* The state after what is left of any character of several bytes, whose first byte led to this state. */
int states_after_character(struct states*, int state, uint8_t lead);
/* A state from which the same texts of at most so many bytes go on, and which many states have in common:
 * where more is left of what is counted than those can use up, it is all the same how much. */
int states_clipped(struct states*, int state, int bytes);
/* Whether the text may end here. */
bool states_ends(const struct states*, int state);
/* Of a grammar that begins with a list's item: how many texts the item may be; `most`, if there are more. It
 * may be too low, where texts are long. */
int states_count(struct states*, int most);
/* The only byte that may come, if the text may not end here; -1: there are several, or none. */
int states_only_byte(struct states*, int state);
/* True when a step was STATE_DEAD only because the tables were full. */
bool states_full(const struct states*);
/* Whether a step since the last states_forget led to a set that is too large: it was STATE_DEAD for that
 * reason. */
bool states_overflowed(const struct states*);
/* The grammar, which has a text's beginning; NULL with the error set, and the grammar freed, where that
 * leaves too much open. NULL is passed on. */
struct grammar* states_checked(struct grammar*, struct error*);
/* Whether the tables are half full. */
bool states_filling(const struct states*);
/* Forgets everything but one state. Returns its new number. */
int states_renew(struct states*, int state);

#endif
