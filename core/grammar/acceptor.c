/* Finds a state's tokens by walking the trie and the automaton together, and keeps them for the next time
 * that the state occurs. See acceptor.h. */
#include "core/grammar/acceptor.h"

#include <stdlib.h>
#include <string.h>

#include "core/grammar/states.h"
#include "kernels/clock.h"

enum { SLOTS = 2 * MAX_ROWS, MAX_END_TOKENS = 128 };

/* The most places that a mask may visit. A grammar that needs more, some hundredths of a second, is too
 * ambiguous. */
enum { MOST_WORK = 1 << 21 };
/* The most places that a round's masks beside the root's may visit, some milliseconds: drafts are not worth
 * more. */
enum { MOST_WORK_OF_DRAFTS = 1 << 17 };

struct state_slot {
	int state;      /* 0: free */
	uint64_t round; /* asked for last */
	int n;          /* 0, 1, or more tokens are allowed; -1: too ambiguous */
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
	struct state_slot slot[SLOTS];
	uint64_t* bits;     /* (SLOTS, words) */
	int64_t round_work; /* places visited for this round's masks, without the root's */
	double seconds;     /* of finding bits, since the text began */
	bool crowded;       /* a round wanted more than SLOTS, or met an ambiguous place */
	bool ambiguous;     /* the text has reached a place that is too ambiguous */
};

struct acceptor* acceptor_open(const struct grammar* grammar, const struct token_trie* trie,
                               const int32_t* end_token, int n_end_tokens) {
	struct acceptor* a = calloc(1, sizeof *a);
	if (!a)
		return NULL;
	a->trie = trie;
	a->words = trie->words;
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

static void allow_token(uint64_t* bits, int32_t token) { bits[token >> 6] |= (uint64_t)1 << (token & 63); }

static void forbid_token(uint64_t* bits, int32_t token) {
	bits[token >> 6] &= ~((uint64_t)1 << (token & 63));
}

/* The trie's nodes that a walk visits, and the present one. */
struct part_of_trie {
	int32_t first, end;
	int depth, state;
};

/* The longest token within the required bytes; -1: several bytes may follow, or no token fits. *beyond: the
 * nodes of tokens that continue after those bytes. */
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

/* A walk from one state. */
struct trie_walk {
	struct acceptor* a;
	uint64_t* bits;
	int64_t work, most;  /* places visited; with more than `most` it is given up */
	bool plain_set;      /* the plain tokens were allowed beforehand, and have to be forbidden where not */
	states_steps* steps; /* of this walk */
	int after[TRIE_DEPTH + 1]; /* the state at each depth */
};

/* Steps to a node from the one above. */
static int step_to(struct trie_walk* w, const struct trie_node* node) {
	const int state = w->after[node->depth - 1], known = w->steps[state][node->byte];
	return w->after[node->depth] =
	           known != STATES_NOT_MET ? known : states_meet(w->a->states, state, node->byte, &w->work);
}

enum { ANY_NUMBER = INT32_MAX, UNEVEN = -1 };

/* How many plain characters may follow, whichever they are; UNEVEN: that depends on them. A counter
 * gives each state on the way another name. If more is left than a token uses up, these states count as one.
 */
static int plain_reach(struct trie_walk* w, int state) {
	struct states* s = w->a->states;
	const int longest = w->a->trie->longest;
	int known = 0;
	for (int n = 0; state != STATE_DEAD; n++) {
		const int next = n < longest ? states_after_plain(s, state, &w->work) : state;
		if (next == state || (next != STATE_DEAD && next != STATES_DIFFER &&
		                      states_clipped(s, next, longest - 1) == states_clipped(s, state, longest - 1)))
			return ANY_NUMBER;
		if (next == STATES_DIFFER || w->work > w->most)
			return UNEVEN;
		if (next == STATE_DEAD)
			return known + n;
		state = next;
		if (n == 0) {
			state = states_counted_down(s, state, &known, &w->work);
			if (known > longest)
				return ANY_NUMBER;
		}
	}
	return 0;
}

/* Allows or forbids the plain tokens that end at these nodes, of at most so many characters. */
static void allow_plain(struct trie_walk* w, int32_t first, int32_t end, int characters) {
	const struct token_trie* trie = w->a->trie;
	const struct plain_token *plain = trie->plain + trie->plain_before[first],
	                         *past = trie->plain + trie->plain_before[end];
	if (!w->plain_set)
		for (; plain < past; plain++)
			if (plain->characters <= characters)
				allow_token(w->bits, plain->token);
	if (w->plain_set && characters != ANY_NUMBER)
		for (; plain < past; plain++)
			if (plain->characters > characters)
				forbid_token(w->bits, plain->token);
}

/* Allows those tokens of these nodes that the grammar allows. */
static void walk_nodes(struct trie_walk* w, const struct trie_node* nodes, int32_t first, int32_t end) {
	const struct token_trie* trie = w->a->trie;
	for (int32_t i = first; i < end && w->work <= w->most;) {
		const struct trie_node* node = &nodes[i];
		const int next = step_to(w, node);
		if (next == STATE_DEAD) {
			i = node->past;
			continue;
		}
		for (int32_t token = node->token; token >= 0; token = trie->same[token])
			allow_token(w->bits, token);
		i++;
	}
}

/* How many plain characters may stand from a node on; UNEVEN: that depends on them. */
static int reach_of_node(struct trie_walk* w, const struct trie_node* node, int state) {
	if (node->characters) {
		const int reach = plain_reach(w, state);
		return reach > 0 && reach != ANY_NUMBER ? reach + node->characters : reach;
	}
	if (node->depth > 1)
		return UNEVEN;
	const int after = states_after_character(w->a->states, state, node->byte);
	const int reach = after == STATES_DIFFER || after == STATE_DEAD ? UNEVEN : plain_reach(w, after);
	return reach >= 0 && reach != ANY_NUMBER ? reach + 1 : reach;
}

enum { WORTH_A_LOOK = 24 }; /* nodes below one */

/* The same for nodes of the whole trie. If plain characters lead on evenly, only the other tokens are
 * walked. */
static void walk_part(struct trie_walk* w, int32_t first, int32_t end) {
	const struct token_trie* trie = w->a->trie;
	for (int32_t i = first; i < end && w->work <= w->most;) {
		const struct trie_node* node = &trie->node[i];
		const int next = step_to(w, node);
		if (next == STATE_DEAD) {
			if (w->plain_set)
				allow_plain(w, i, node->past, 0);
			i = node->past;
			continue;
		}
		for (int32_t token = node->token; token >= 0; token = trie->same[token])
			allow_token(w->bits, token);
		const int reach = node->past - i < WORTH_A_LOOK ? UNEVEN : reach_of_node(w, node, next);
		if (reach > 0) {
			allow_plain(w, i + 1, node->past, reach);
			walk_nodes(w, trie->other, trie->other_before[i + 1], trie->other_before[node->past]);
			i = node->past;
		} else {
			i++;
		}
	}
}

/* Begins with the plain tokens of at most so many characters. */
static void begin_with_plain(struct trie_walk* w, int characters) {
	const struct token_trie* trie = w->a->trie;
	const int row = characters < PLAIN_LENGTHS ? characters : PLAIN_LENGTHS - 1;
	memcpy(w->bits, trie->plain_bits + (size_t)row * trie->words, trie->words * sizeof *w->bits);
	for (int i = 0; characters > row && i < trie->n_plain_long; i++)
		if (trie->plain_long[i].characters <= characters)
			allow_token(w->bits, trie->plain_long[i].token);
}

/* Whether most tokens begin with a character after which any plain ones may follow. */
static bool is_mostly_plain(struct trie_walk* w) {
	const struct token_trie* trie = w->a->trie;
	int many = 0;
	for (int32_t i = 0; i < trie->n; i = trie->node[i].past) {
		const struct trie_node* node = &trie->node[i];
		const int next = step_to(w, node);
		if (next != STATE_DEAD && reach_of_node(w, node, next) == ANY_NUMBER)
			many += trie->plain_before[node->past] - trie->plain_before[i];
	}
	return 2 * many > trie->plain_before[trie->n];
}

enum { MOST_BEFORE_LOOP = 3 }; /* letters that lead to a state in which they may be repeated */

/* Which words may stand from a state on, of letters alone, and with another character. */
enum word_share { NO_WORD, ANY_WORD, SOME_WORDS };
struct word_reach {
	enum word_share letters, others;
};

static struct word_reach find_word_reach(struct trie_walk* w, int state) {
	struct states* s = w->a->states;
	const int longest = w->a->trie->longest;
	bool same = true, none = true;
	for (int n = 0; n < MOST_BEFORE_LOOP && w->work <= w->most; n++) {
		const struct after_word next = states_after_word(s, state, &w->work);
		same = same && next.other == next.letter;
		none = none && next.other == STATE_DEAD;
		if (next.letter == STATES_DIFFER || (next.letter == STATE_DEAD && n > 0))
			break;
		const bool loops = next.letter == state || states_clipped(s, next.letter, longest - 1) ==
		                                               states_clipped(s, state, longest - 1);
		if (loops || next.letter == STATE_DEAD)
			return (struct word_reach){next.letter == STATE_DEAD ? NO_WORD : ANY_WORD, none   ? NO_WORD
			                                                                           : same ? ANY_WORD
			                                                                                  : SOME_WORDS};
		state = next.letter;
	}
	return (struct word_reach){SOME_WORDS, SOME_WORDS};
}

static void allow_words(struct trie_walk* w, enum word_kind kind, enum word_share reach) {
	const uint64_t* bits = w->a->trie->word_bits + (size_t)kind * w->a->words;
	for (size_t i = 0; reach == ANY_WORD && i < w->a->words; i++)
		w->bits[i] |= bits[i];
}

/* Allows all words of a kind at once, or none. False: some may stand and some may not. */
static bool begin_with_words(struct trie_walk* w) {
	const int spaced = step_to(w, &(struct trie_node){.byte = ' ', .depth = 1});
	const struct word_reach at_once = find_word_reach(w, w->after[0]),
	                        after_space = find_word_reach(w, spaced);
	if (at_once.letters == SOME_WORDS || at_once.others == SOME_WORDS || after_space.letters == SOME_WORDS ||
	    after_space.others == SOME_WORDS)
		return false;
	allow_words(w, LETTERS, at_once.letters);
	allow_words(w, WORD, at_once.others);
	allow_words(w, SPACED_LETTERS, after_space.letters);
	allow_words(w, SPACED_WORD, after_space.others);
	return true;
}

static void walk_all(struct trie_walk* w, int state) {
	const struct token_trie* trie = w->a->trie;
	w->after[0] = state;
	const int reach = plain_reach(w, state);
	if (reach > 0) {
		begin_with_plain(w, reach);
		walk_nodes(w, trie->other, 0, trie->n_other);
		return;
	}
	w->plain_set = is_mostly_plain(w);
	if (w->plain_set)
		begin_with_plain(w, ANY_NUMBER);
	else if (begin_with_words(w)) {
		walk_nodes(w, trie->rest, 0, trie->n_rest);
		return;
	}
	walk_part(w, 0, trie->n);
}

/* The bits of a state, with the text's end. If certain bytes are required, only the longest token within them
 * is allowed, and tokens that continue after them, because the model may write what follows together with
 * their end. Returns the places visited; more than `most`: it was given up. */
static int64_t walk_trie(struct acceptor* a, int state, int64_t most, uint64_t* bits) {
	struct part_of_trie part;
	struct trie_walk w = {.a = a, .bits = bits, .most = most};
	memset(bits, 0, a->words * sizeof *bits);
	const int32_t forced = longest_forced(a, state, &part);
	w.steps = states_begin_walk(a->states, forced >= 0 ? part.state : state);
	if (forced >= 0) {
		allow_token(bits, forced);
		w.after[part.depth] = part.state;
		walk_nodes(&w, a->trie->node, part.first, part.end);
	} else {
		walk_all(&w, state);
	}
	for (int i = 0; forced < 0 && states_ends(a->states, state) && i < a->n_end_tokens; i++)
		allow_token(bits, a->end_token[i]);
	return w.work;
}

/* Notes the first token, and whether there are more. */
static void count_allowed(struct state_slot* slot, const uint64_t* bits, size_t words) {
	slot->n = 0;
	for (size_t i = 0; i < words && slot->n < 2; i++) {
		if (!bits[i])
			continue;
		if (slot->n == 0)
			slot->first = (int32_t)(64 * i) + __builtin_ctzll(bits[i]);
		slot->n += __builtin_popcountll(bits[i]);
	}
}

/* Finds the slot's bits. False when they belong to a draft and cost more than it is worth: nothing is known
 * then. */
static bool fill_slot(struct acceptor* a, int state, bool root, struct state_slot* slot) {
	const int64_t most = root ? MOST_WORK : MOST_WORK_OF_DRAFTS - a->round_work;
	const double began = seconds_now();
	uint64_t* bits = a->bits + (size_t)(slot - a->slot) * a->words;
	const int64_t work = most > 0 ? walk_trie(a, state, most, bits) : 1;
	if (work <= most)
		count_allowed(slot, bits, a->words);
	a->seconds += seconds_now() - began;
	a->round_work += root ? 0 : work;
	if (work > most && root)
		slot->n = -1;
	return root || work <= most;
}

static struct state_slot* find_slot(struct acceptor* a, int state) {
	struct state_slot* oldest = NULL;
	const bool root = state == a->root;
	state = states_clipped(a->states, state, a->trie->longest);
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
	*oldest = (struct state_slot){0}; /* parts may be missing for lack of room */
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
