/* See kept_states.h. There are few, so all are looked through. */
#include "kernels/kept_states.h"

#include <stdlib.h>

bool kept_states_want(struct kept_states* k) {
	const int wanted = (k->wanted > 0 ? k->wanted : KEPT_BESIDE) + 1;
	if (wanted > k->made) {
		struct kept_state** state = realloc(k->state, (size_t)wanted * sizeof(struct kept_state*));
		if (!state)
			return false;
		k->state = state;
	}
	for (; k->made < wanted; k->made++) {
		k->state[k->made] = calloc(1, sizeof **k->state + k->floats * sizeof(float));
		if (!k->state[k->made])
			return false;
	}
	k->wanted = wanted;
	return true;
}

void kept_states_want_no_more(struct kept_states* k) { k->wanted--; }

void kept_states_close(struct kept_states* k) {
	for (int i = 0; i < k->made; i++)
		free(k->state[i]);
	free(k->state);
}

/* A free one, or the one that was used the longest ago. */
static struct kept_state* choose_state(const struct kept_states* k) {
	struct kept_state* best = k->state[0];
	for (int i = 0; i < k->made && best->page; i++)
		if (!k->state[i]->page || k->state[i]->used < best->used)
			best = k->state[i];
	return best;
}

float* kept_states_put(struct kept_states* k, struct page* page) {
	struct kept_state* s = page->state ? page->state : choose_state(k);
	if (s->page)
		s->page->state = NULL;
	s->page = page;
	s->found = 0;
	page->state = s;
	s->used = ++k->uses;
	return s->content;
}

const float* kept_states_get(struct kept_states* k, struct page* page) {
	page->state->used = ++k->uses;
	return page->state->content;
}

/* The nearer one of two, if it is behind `from` and not too early. */
static int nearer(int at, int from, int stop) {
	return at > from && at >= KEPT_FROM && at < stop ? at : stop;
}

int kept_states_stop(int from, int n, int branch) {
	const int last = (n - 1) / PAGE_SLOTS * PAGE_SLOTS;
	int stop = nearer(last, from, INT32_MAX), doubling = KEPT_CHUNK;
	while (doubling <= from && doubling <= INT32_MAX / 2)
		doubling *= 2;
	if (doubling < last)
		stop = nearer(doubling, from, stop);
	return branch < last ? nearer(branch, from, stop) : stop;
}
