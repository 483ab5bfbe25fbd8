/* See acceptor.h. A state's tokens are found by walking the trie and the automaton together, and kept for
 * when the state comes again. */
#include "core/grammar/acceptor.h"

#include <stdlib.h>
#include <string.h>

#include "core/grammar/states.h"
#include "kernels/clock.h"

enum { SLOTS = 2 * MAX_ROWS, MAX_END_TOKENS = 128 };

/* Of the places that a mask may visit: what takes more, some hundredths of a second, is too ambiguous. */
enum { MOST_WORK = 1 << 21 };
/* Of the places that a round's masks beside the root's may visit, some milliseconds: a draft is not worth
 * more. */
enum { MOST_WORK_OF_DRAFTS = 1 << 17 };

struct state_slot {
	int state;      /* 0: free */
	uint64_t round; /* asked for last */
	int n;          /* tokens allowed; -1: too ambiguous */
	int32_t first;  /* one of them */
};

struct acceptor {
	struct grammar* grammar;
	struct states* states;
	const struct token_trie* trie;
	int32_t end_token[MAX_END_TOKENS];
	int n_end_tokens;
	int root;
	uint64_t round;
	size_t words;
	int longest; /* bytes of a token, at most */
	struct state_slot slot[SLOTS];
	uint64_t* bits;     /* (SLOTS, words) */
	int64_t round_work; /* places visited for masks of this round, but the root's */
	double seconds;     /* of finding bits, since the text began */
	bool crowded;       /* a round wanted more than SLOTS, or what is too ambiguous */
	bool ambiguous;     /* the text has come to what is too ambiguous */
};

struct acceptor* acceptor_open(const struct grammar* grammar, const struct token_trie* trie,
                               const int32_t* end_token, int n_end_tokens) {
	struct acceptor* a = calloc(1, sizeof *a);
	if (!a)
		return NULL;
	a->trie = trie;
	a->words = ((size_t)trie->vocab + 63) / 64;
	for (int32_t i = 0; i < trie->n; i++)
		a->longest = trie->node[i].depth > a->longest ? trie->node[i].depth : a->longest;
	a->n_end_tokens = n_end_tokens < MAX_END_TOKENS ? n_end_tokens : MAX_END_TOKENS;
	memcpy(a->end_token, end_token, (size_t)a->n_end_tokens * sizeof *end_token);
	a->grammar = grammar_hold(grammar);
	a->states = states_open(grammar);
	a->bits = malloc(SLOTS * a->words * sizeof *a->bits);
	if (!a->states || !a->bits) {
		acceptor_close(a);
		return NULL;
	}
	acceptor_start(a);
	return a;
}

void acceptor_close(struct acceptor* a) {
	if (!a)
		return;
	states_close(a->states);
	grammar_free(a->grammar);
	free(a->bits);
	free(a);
}

bool acceptor_is_for(const struct acceptor* a, const struct grammar* grammar, const int32_t* end_token,
                     int n_end_tokens) {
	return n_end_tokens == a->n_end_tokens &&
	       memcmp(end_token, a->end_token, (size_t)n_end_tokens * sizeof *end_token) == 0 &&
	       grammar_same(grammar, a->grammar);
}

void acceptor_start(struct acceptor* a) {
	a->ambiguous = a->crowded = false;
	a->seconds = 0;
	a->round_work = 0;
	if (states_filling(a->states)) {
		states_forget(a->states);
		memset(a->slot, 0, sizeof a->slot);
	}
	a->root = states_start(a->states);
	a->round++;
}

int acceptor_step(struct acceptor* a, int state, int32_t token) {
	const uint32_t from = a->trie->start[token], to = a->trie->start[token + 1];
	if (from == to)
		return ACCEPTOR_DEAD;
	for (uint32_t i = from; i < to && state != STATE_DEAD; i++)
		state = states_step(a->states, state, a->trie->bytes[i]);
	return state;
}

static void renew_states(struct acceptor* a) {
	a->root = states_renew(a->states, a->root);
	memset(a->slot, 0, sizeof a->slot);
}

bool acceptor_take(struct acceptor* a, int32_t token) {
	a->round++;
	a->round_work = 0;
	a->crowded = false;
	if (states_filling(a->states))
		renew_states(a);
	a->root = acceptor_step(a, a->root, token);
	return a->root != STATE_DEAD;
}

/* ---- masks ---------------------------------------------------------------------------------- */

static void allow_token(struct state_slot* slot, uint64_t* bits, int32_t token) {
	bits[token >> 6] |= (uint64_t)1 << (token & 63);
	slot->first = token;
	slot->n++;
}

/* Nodes of the trie that a walk visits, and where it stands before them. */
struct part_of_trie {
	int32_t first, end;
	int depth, state;
};

/* The longest token of the bytes that have to come; -1: several bytes may, or no token has them. *beyond: the
 * nodes of tokens that go on where those bytes end. */
static int32_t longest_forced(struct acceptor* a, int state, struct part_of_trie* beyond) {
	const struct trie_node* node = a->trie->node;
	int32_t best = -1;
	int depth = 0;
	*beyond = (struct part_of_trie){0};
	for (int32_t i = 0, end = a->trie->n; i < end;) {
		const int byte = states_only_byte(a->states, state);
		if (byte < 0)
			*beyond = (struct part_of_trie){i, end, depth, state};
		while (byte >= 0 && i < end && node[i].byte != byte)
			i = node[i].past;
		if (byte < 0 || i >= end)
			break;
		best = node[i].token >= 0 ? node[i].token : best;
		state = states_step(a->states, state, (uint8_t)byte);
		end = node[i].past;
		i++;
		depth++;
	}
	return best;
}

/* Allows the tokens of these nodes that the grammar does. The places visited; more than `most`: it was given
 * up. */
static int64_t walk_nodes(struct acceptor* a, const struct part_of_trie* part, int64_t most,
                          struct state_slot* slot, uint64_t* bits) {
	const struct token_trie* trie = a->trie;
	int after[TRIE_DEPTH + 1];
	int64_t work = 0;
	after[part->depth] = part->state;
	states_begin_walk(a->states);
	for (int32_t i = part->first; i < part->end;) {
		const struct trie_node* node = &trie->node[i];
		const int next = states_walk(a->states, after[node->depth - 1], node->byte, &work);
		if (work > most)
			break;
		if (next == STATE_DEAD) {
			i = node->past;
			continue;
		}
		after[node->depth] = next;
		for (int32_t token = node->token; token >= 0; token = trie->same[token])
			allow_token(slot, bits, token);
		i++;
	}
	return work;
}

/* The same of all tokens, and of the text's end. Where bytes have to come, of the tokens within them the
 * longest alone: but those that go on behind them may come as well, for the model would write what comes next
 * with them. */
static int64_t walk_trie(struct acceptor* a, int state, int64_t most, struct state_slot* slot,
                         uint64_t* bits) {
	struct part_of_trie part;
	memset(bits, 0, a->words * sizeof *bits);
	const int32_t forced = longest_forced(a, state, &part);
	if (forced >= 0)
		allow_token(slot, bits, forced);
	else
		part = (struct part_of_trie){0, a->trie->n, 0, state};
	const int64_t work = walk_nodes(a, &part, most, slot, bits);
	for (int i = 0; forced < 0 && states_ends(a->states, state) && i < a->n_end_tokens; i++)
		allow_token(slot, bits, a->end_token[i]);
	return work;
}

/* Finds the slot's bits. False where they are of a draft and cost more than it is worth: nothing is known
 * then. */
static bool fill_slot(struct acceptor* a, int state, bool root, struct state_slot* slot) {
	const int64_t most = root ? MOST_WORK : MOST_WORK_OF_DRAFTS - a->round_work;
	const double began = seconds_now();
	const int64_t work =
	    most > 0 ? walk_trie(a, state, most, slot, a->bits + (size_t)(slot - a->slot) * a->words) : 1;
	a->seconds += seconds_now() - began;
	a->round_work += root ? 0 : work;
	if (work > most && root)
		slot->n = -1;
	return root || work <= most;
}

static struct state_slot* find_slot(struct acceptor* a, int state) {
	struct state_slot* oldest = NULL;
	const bool root = state == a->root;
	state = states_clipped(a->states, state, a->longest);
	for (int i = 0; i < SLOTS; i++) {
		struct state_slot* slot = &a->slot[i];
		if (slot->state == state)
			return slot;
		if (!oldest || slot->round < oldest->round)
			oldest = slot;
	}
	if (oldest->round == a->round) {
		a->crowded = true;
		return NULL;
	}
	if (states_full(a->states))
		return NULL;
	*oldest = (struct state_slot){.state = state, .first = -1};
	const bool known = fill_slot(a, state, root, oldest);
	if (known && !states_full(a->states))
		return oldest;
	a->crowded |= !known;
	*oldest = (struct state_slot){0}; /* what is left out may be for want of room */
	return NULL;
}

const uint64_t* acceptor_allowed(struct acceptor* a, int state) {
	struct state_slot* slot = state == ACCEPTOR_DEAD ? NULL : find_slot(a, state);
	if (!slot)
		return NULL;
	slot->round = a->round;
	if (slot->n < 0) {
		a->crowded = true;
		a->ambiguous |= state == a->root;
		return NULL;
	}
	return a->bits + (size_t)(slot - a->slot) * a->words;
}

bool acceptor_is_ambiguous(const struct acceptor* a) {
	return a->ambiguous || (a->root == ACCEPTOR_DEAD && states_overflowed(a->states));
}

double acceptor_seconds(const struct acceptor* a) { return a->seconds; }

bool acceptor_is_full(const struct acceptor* a) { return a->crowded || states_full(a->states); }

int acceptor_root(struct acceptor* a) {
	if (a->root != ACCEPTOR_DEAD && !acceptor_allowed(a, a->root))
		renew_states(a);
	return acceptor_allowed(a, a->root) ? a->root : ACCEPTOR_DEAD;
}

int32_t acceptor_forced(struct acceptor* a, int state) {
	const struct state_slot* slot = acceptor_allowed(a, state) ? find_slot(a, state) : NULL;
	return slot && slot->n == 1 ? slot->first : -1;
}
