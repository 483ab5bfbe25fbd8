/* Finds the tokens that may come next in a text that keeps a grammar.
 *
 * If only one text is possible, only the longest token within it is allowed, although shorter ones would
 * spell it too. A tokenizer would have chosen the longest, and no model needs to be asked. Tokens that
 * continue after that text are left to the model, which may write what follows together with its end.
 *
 * A state after a token has a number that is valid for the present round. States of a tree's rows are found
 * by stepping from their parents' states. Only acceptor_open allocates. */
#pragma once

#include "core/grammar/grammar.h"
#include "core/grammar/token_trie.h"

struct acceptor;

enum { ACCEPTOR_DEAD = 0 };

/* The trie is the caller's. NULL on no memory. */
struct acceptor* acceptor_open(const struct grammar*, const struct token_trie*, const int32_t* end_token,
                               int n_end_tokens);
void acceptor_close(struct acceptor*);
/* True if it was opened for this grammar and these end tokens. It may then start another text, and keeps the
 * states that it has computed. */
bool acceptor_is_for(const struct acceptor*, const struct grammar*, const int32_t* end_token,
                     int n_end_tokens);
/* A text begins. */
void acceptor_start(struct acceptor*);
/* Adds this token to the text. States of the previous round become invalid. False: the token is not allowed,
 * and from then on none is. */
bool acceptor_take(struct acceptor*, int32_t token);
/* The state after the text so far; call it first in a round. It makes room in the tables. ACCEPTOR_DEAD: no
 * token is allowed, or the grammar is too ambiguous for the tables. */
int acceptor_root(struct acceptor*);
/* The state after a token; ACCEPTOR_DEAD: it is not allowed, ends the text, or the tables are
 * full. */
int acceptor_step(struct acceptor*, int state, int32_t token);
/* Bits (vocab) of the tokens that may come, valid until acceptor_take. NULL for ACCEPTOR_DEAD; for other
 * states than the root also if the tables are full or the round's work is used up. The bits of a state do not
 * depend on earlier calls. */
const uint64_t* acceptor_allowed(struct acceptor*, int state);
/* True when the text has reached a place where the grammar is too ambiguous, so that no token is allowed. */
bool acceptor_is_ambiguous(const struct acceptor*);
/* Seconds spent on computing bits since the text began. */
double acceptor_seconds(const struct acceptor*);
/* True when lack of room made a result NULL or a step fail since the last acceptor_take. */
bool acceptor_is_full(const struct acceptor*);
static inline bool token_is_allowed(const uint64_t* allowed, int32_t token) {
	return allowed[token >> 6] >> (token & 63) & 1u;
}
/* The only allowed token; -1: there are several. */
int32_t acceptor_forced(struct acceptor*, int state);
