/* The automaton: states, their edges in lists, and one hash table that finds an edge by state and token. */
#include "core/draft/suffix.h"

#include <stdlib.h>
#include <string.h>

enum { NONE = -1 };

struct suffix_state {
	int32_t link;   /* NONE for the empty substring's, state 0 */
	int32_t length; /* of its longest substring */
	int32_t first;  /* edge taken last */
};

struct suffix_edge {
	int32_t from, token, to;
	int32_t next, previous; /* edges of the same state */
	int32_t count, last;
};

struct suffix_index {
	int capacity, n, n_states, n_edges;
	int32_t text; /* the state of the text at hand */
	bool known;   /* the whole of it, so far, stands in another text too */
	uint32_t slot_mask;
	struct suffix_state* state; /* (2·capacity + 2) */
	struct suffix_edge* edge;   /* (3·capacity + 3) */
	int32_t* slot;              /* (slot_mask + 1) edges by hash of state and token, or NONE */
};

/* An automaton of n tokens has at most 2n states and 3n edges, counting one edge into each state and one for
 * each suffix of a text. */
static size_t most_states(int capacity) { return 2 * (size_t)capacity + 2; }
static size_t most_edges(int capacity) { return 3 * (size_t)capacity + 3; }

static size_t slot_count(int capacity) {
	size_t n = 16;
	while (n < most_edges(capacity) * 3 / 2)
		n *= 2;
	return n;
}

void suffix_clear(struct suffix_index* s) {
	s->n = s->n_edges = 0;
	s->n_states = 1;
	suffix_break(s);
	s->state[0] = (struct suffix_state){NONE, 0, NONE};
	memset(s->slot, 0xff, ((size_t)s->slot_mask + 1) * sizeof *s->slot);
}

struct suffix_index* suffix_open(int capacity) {
	struct suffix_index* s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	s->capacity = capacity;
	s->slot_mask = (uint32_t)(slot_count(capacity) - 1);
	s->state = malloc(most_states(capacity) * sizeof *s->state);
	s->edge = malloc(most_edges(capacity) * sizeof *s->edge);
	s->slot = malloc(slot_count(capacity) * sizeof *s->slot);
	if (!s->state || !s->edge || !s->slot) {
		suffix_close(s);
		return NULL;
	}
	suffix_clear(s);
	return s;
}

void suffix_close(struct suffix_index* s) {
	if (!s)
		return;
	free(s->state);
	free(s->edge);
	free(s->slot);
	free(s);
}

int suffix_size(const struct suffix_index* s) { return s->n; }
void suffix_break(struct suffix_index* s) {
	s->text = 0;
	s->known = true;
}

/* ---- edges ---------------------------------------------------------------------------------- */

static uint32_t hash_edge(int32_t state, int32_t token) {
	const uint64_t key = (uint64_t)(uint32_t)state << 32 | (uint32_t)token;
	return (uint32_t)(key * 0x9e3779b97f4a7c15u >> 29);
}

/* The slot of the edge, or the free slot for it. */
static uint32_t find_slot(const struct suffix_index* s, int32_t state, int32_t token) {
	uint32_t i = hash_edge(state, token) & s->slot_mask;
	while (s->slot[i] != NONE) {
		const struct suffix_edge* e = &s->edge[s->slot[i]];
		if (e->from == state && e->token == token)
			break;
		i = (i + 1) & s->slot_mask;
	}
	return i;
}

static int32_t find_edge(const struct suffix_index* s, int32_t state, int32_t token) {
	return s->slot[find_slot(s, state, token)];
}

static void put_first(struct suffix_index* s, int32_t e) {
	struct suffix_state* state = &s->state[s->edge[e].from];
	s->edge[e].previous = NONE;
	s->edge[e].next = state->first;
	if (state->first != NONE)
		s->edge[state->first].previous = e;
	state->first = e;
}

static void add_edge(struct suffix_index* s, struct suffix_edge new) {
	const int32_t e = s->n_edges++;
	s->edge[e] = new;
	s->slot[find_slot(s, new.from, new.token)] = e;
	put_first(s, e);
}

/* The edge was taken once more. */
static void take_edge(struct suffix_index* s, int32_t e) {
	struct suffix_edge* edge = &s->edge[e];
	edge->count++;
	edge->last = s->n;
	if (edge->previous == NONE)
		return;
	s->edge[edge->previous].next = edge->next;
	if (edge->next != NONE)
		s->edge[edge->next].previous = edge->previous;
	put_first(s, e);
}

/* Copies the edges, in the same order, to a state that is split off. */
static void copy_edges(struct suffix_index* s, int32_t from, int32_t to) {
	int32_t last = s->state[from].first;
	while (last != NONE && s->edge[last].next != NONE)
		last = s->edge[last].next;
	for (int32_t e = last; e != NONE; e = s->edge[e].previous) {
		struct suffix_edge copy = s->edge[e];
		copy.from = to;
		add_edge(s, copy);
	}
}

/* ---- appending ------------------------------------------------------------------------------ */

static int32_t add_state(struct suffix_index* s, int32_t link, int32_t length) {
	s->state[s->n_states] = (struct suffix_state){link, length, NONE};
	return s->n_states++;
}

/* The state of p's substrings, the longest first, followed by the token, if p has an edge for it. It is split
 * off from the edge's target when that also stands for longer substrings. */
static int32_t target_of(struct suffix_index* s, int32_t p, int32_t token) {
	const int32_t q = s->edge[find_edge(s, p, token)].to, length = s->state[p].length + 1;
	if (s->state[q].length == length)
		return q;
	const int32_t split = add_state(s, s->state[q].link, length);
	copy_edges(s, q, split);
	s->state[q].link = split;
	for (; p != NONE; p = s->state[p].link) {
		const int32_t e = find_edge(s, p, token);
		if (e == NONE || s->edge[e].to != q)
			break;
		s->edge[e].to = split;
	}
	return split;
}

static void count_follower(struct suffix_index* s, int32_t p, int32_t token) {
	for (int i = 0; i < SUFFIX_COUNTED && p != NONE; i++, p = s->state[p].link)
		take_edge(s, find_edge(s, p, token));
}

bool suffix_append(struct suffix_index* s, int32_t token) {
	if (s->n >= s->capacity)
		return false;
	s->n++;
	const int32_t from = s->text;
	if (find_edge(s, from, token) != NONE) { /* another text has had this one's prefix */
		s->text = target_of(s, from, token);
		count_follower(s, from, token);
		return true;
	}
	s->known = false;
	const int32_t new = add_state(s, 0, s->state[from].length + 1);
	int32_t p = from;
	for (; p != NONE && find_edge(s, p, token) == NONE; p = s->state[p].link)
		add_edge(s, (struct suffix_edge){.from = p, .token = token, .to = new, .count = 1, .last = s->n});
	if (p != NONE) {
		const int32_t link = target_of(s, p, token);
		s->state[new].link = link;
		count_follower(s, p, token);
	}
	s->text = new;
	return true;
}

/* ---- looking up ----------------------------------------------------------------------------- */

struct suffix_place suffix_shorter(const struct suffix_index* s, struct suffix_place place) {
	const int32_t link = s->state[place.state].link;
	return link == NONE ? (struct suffix_place){0, 0} : (struct suffix_place){link, s->state[link].length};
}

struct suffix_place suffix_repeated(const struct suffix_index* s) {
	const struct suffix_place whole = {s->text, s->state[s->text].length};
	return s->known ? whole : suffix_shorter(s, whole);
}

struct suffix_place suffix_step(const struct suffix_index* s, struct suffix_place place, int32_t token) {
	for (;;) {
		const int32_t e = find_edge(s, place.state, token);
		if (e != NONE)
			return (struct suffix_place){s->edge[e].to, place.length + 1};
		if (place.state == 0)
			return place;
		place = suffix_shorter(s, place);
	}
}

static bool more_frequent(const struct suffix_edge* e, const struct suffix_follower* f) {
	return e->count != f->count ? e->count > f->count : e->last > f->last;
}

int suffix_followers(const struct suffix_index* s, struct suffix_place place, struct suffix_follower* out,
                     int most, int32_t* total) {
	int n = 0, looked = 0;
	*total = 0;
	for (int32_t e = s->state[place.state].first; e != NONE && looked < SUFFIX_LOOKED_AT;
	     e = s->edge[e].next, looked++) {
		const struct suffix_edge* edge = &s->edge[e];
		*total += edge->count;
		int i = n < most ? n++ : most;
		for (; i > 0 && more_frequent(edge, &out[i - 1]); i--)
			if (i < most)
				out[i] = out[i - 1];
		if (i < most)
			out[i] = (struct suffix_follower){edge->token, edge->count, edge->last};
	}
	return n;
}
