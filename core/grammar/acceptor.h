/* Which tokens may come next in a text that keeps a grammar.
 *
 * Where one text alone can come, of the tokens within it only the longest may, though shorter ones would
 * spell it too: it is what a tokenizer would have made of it, and a model need not be asked. Tokens that go
 * on behind that text are left to the model, which may write what comes next together with its end.
 *
 * A state after a token is known by a number that is good for the round at hand; states of a tree's rows are
 * found by stepping from their parent's. Nothing but acceptor_open allocates. */
#ifndef SWIFTLET_CORE_GRAMMAR_ACCEPTOR_H
#define SWIFTLET_CORE_GRAMMAR_ACCEPTOR_H

#include "core/grammar/grammar.h"
#include "core/grammar/token_trie.h"

struct acceptor;

enum { ACCEPTOR_DEAD = 0 };

/* The trie is the caller's. NULL on no memory. */
struct acceptor* acceptor_open(const struct grammar*, const struct token_trie*, const int32_t* end_token,
                               int n_end_tokens);
void acceptor_close(struct acceptor*);
/* Whether it could be opened for these, and so may be started again for a text of its own: what it has learnt
 * of the grammar stays. */
bool acceptor_is_for(const struct acceptor*, const struct grammar*, const int32_t* end_token,
                     int n_end_tokens);
/* A text begins. */
void acceptor_start(struct acceptor*);
/* The text goes on with this token: states of the round before are of no use any more. False: the token is
 * not allowed; nothing is from then on. */
bool acceptor_take(struct acceptor*, int32_t token);
/* The state after the text so far, with room in the tables for its tokens; to be asked first in a round.
 * ACCEPTOR_DEAD: nothing may come, or the grammar is too ambiguous for the tables. */
int acceptor_root(struct acceptor*);
/* The state after a token; ACCEPTOR_DEAD: it is not allowed there, it ends the text, or the tables are full.
 */
int acceptor_step(struct acceptor*, int state, int32_t token);
/* Bits (vocab) of the tokens that may come, good until acceptor_take; NULL for ACCEPTOR_DEAD, and where the
 * tables are full, or where a round has asked for much: never for the root. The bits of a state do not depend
 * on what was asked before. */
const uint64_t* acceptor_allowed(struct acceptor*, int state);
/* Whether the text has come to where the grammar is too ambiguous: that is why nothing may come. */
bool acceptor_is_ambiguous(const struct acceptor*);
/* Seconds that finding bits has taken since the text began. */
double acceptor_seconds(const struct acceptor*);
/* Whether NULL was given, or a step failed, for want of room since the last acceptor_take. */
bool acceptor_is_full(const struct acceptor*);
static inline bool token_is_allowed(const uint64_t* allowed, int32_t token) {
	return allowed[token >> 6] >> (token & 63) & 1u;
}
/* The token that has to come; -1: several may. */
int32_t acceptor_forced(struct acceptor*, int state);

#endif
