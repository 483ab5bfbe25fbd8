/* Keeps answers to a grammar: it computes which tokens may follow each row of a full pass, the same for plain
 * steps, verify passes and the prefill, so that drafts change nothing. Draft passes may be wrong. */
#include <string.h>

#include "core/decode/session_state.h"

/* Takes the last acceptor again for the same tenant and grammar, whose states and masks are known already. */
static struct acceptor* open_acceptor(struct session* s, const struct grammar* grammar) {
	struct constraint_state* f = &s->constraint;
	if (f->kept && f->kept_tenant == s->tenant &&
	    acceptor_is_for(f->kept, grammar, s->end_token, s->n_end_tokens)) {
		acceptor_start(f->kept);
		return f->kept;
	}
	acceptor_close(f->kept);
	const struct token_trie* trie = engine_trie(s->engine);
	f->kept = trie ? acceptor_open(grammar, trie, s->end_token, s->n_end_tokens) : NULL;
	f->kept_tenant = s->tenant;
	return f->kept;
}

bool constraint_start(struct session* s, const struct swiftlet_request* r, struct error* error) {
	s->constraint.acceptor = NULL;
	if (r->grammar) {
		s->constraint.acceptor = open_acceptor(s, r->grammar);
		if (!s->constraint.acceptor)
			return error_set(error, "out of memory for a grammar");
		if (acceptor_root(s->constraint.acceptor) == ACCEPTOR_DEAD)
			return error_set(
			    error,
			    "the grammar is too ambiguous, or the model's tokens cannot write any text that it allows");
	}
	return true;
}

double session_constraint_seconds(const struct session* s) {
	return s->constraint.acceptor ? acceptor_seconds(s->constraint.acceptor) : 0;
}

void constraint_close(struct session* s) { acceptor_close(s->constraint.kept); }

const uint64_t* const* constraint_last(struct session* s, int n) {
	if (!s->constraint.acceptor)
		return NULL;
	memset(s->constraint.allowed, 0, (size_t)n * sizeof *s->constraint.allowed);
	s->constraint.allowed[n - 1] =
	    acceptor_allowed(s->constraint.acceptor, acceptor_root(s->constraint.acceptor));
	return s->constraint.allowed;
}

/* Verification never reaches a row that is not allowed. A row whose states found no room is left out, with
 * all rows after it. */
const uint64_t* const* constraint_rows(struct session* s, struct tree* tree) {
	struct constraint_state* f = &s->constraint;
	int state[MAX_ROWS];
	if (!f->acceptor)
		return NULL;
	state[0] = acceptor_root(f->acceptor);
	f->allowed[0] = acceptor_allowed(f->acceptor, state[0]);
	for (int i = 1; i < tree->n; i++) {
		state[i] = acceptor_step(f->acceptor, state[tree->parent[i]], tree->token[i]);
		f->allowed[i] = acceptor_allowed(f->acceptor, state[i]);
		if (!f->allowed[i] && acceptor_is_full(f->acceptor))
			tree_cut(tree, i);
	}
	return f->allowed;
}

void constraint_emitted(struct session* s, int32_t id) {
	if (s->constraint.acceptor && !session_ends(s, id))
		acceptor_take(s->constraint.acceptor, id);
}

bool constraint_is_over(struct session* s) {
	if (!s->constraint.acceptor || acceptor_root(s->constraint.acceptor) != ACCEPTOR_DEAD)
		return false;
	/* cut off, because the grammar is too ambiguous to continue */
	s->stop = acceptor_is_ambiguous(s->constraint.acceptor) ? SWIFTLET_LENGTH : SWIFTLET_STOP;
	return true;
}
