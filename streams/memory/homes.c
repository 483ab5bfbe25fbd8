/* Searches that kinds of text share: see homes.h. */
#include "streams/memory/homes.h"

#include <math.h>
#include <string.h>

#include "optimizer/session.h"

/* What a kind of text drafted counts for less with each round since. */
static const double RESIDENT_MEMORY = 0.98;

void homes_open(struct homes* h, swiftlet_session* session) {
	memset(h, 0, sizeof *h);
	h->session = session;
}

void homes_close(struct homes* h) {
	for (int i = 0; i < HOMES; i++)
		if (h->home[i].search)
			search_close(h->home[i].search);
}

/* The home of this id, else a free place for it, else that of the one longest unused. */
static struct home* find_home(struct homes* h, int64_t id) {
	struct home* longest = NULL;
	for (int i = 0; i < HOMES; i++) {
		struct home* home = &h->home[i];
		if (home->id == id)
			return home;
		if (home != h->present && (!longest || home->used < longest->used))
			longest = home;
	}
	if (longest->search)
		search_close(longest->search);
	*longest = (struct home){.id = id};
	return longest;
}

enum homes_move homes_move(struct homes* h, int64_t id) {
	struct home* last = h->present;
	if (last && last->id == id)
		return HOMES_STAYED;
	struct home* next = find_home(h, id);
	next->used = ++h->uses;
	if (!last) {
		h->present = next;
		return HOMES_NEW;
	}
	struct error e;
	const bool fresh = !next->search;
	struct search* search = fresh ? session_new_search(h->session, &e) : next->search;
	if (!search) {
		*next = (struct home){.id = 0};
		return HOMES_STAYED;
	}
	last->search = session_swap_search(h->session, search);
	next->search = NULL;
	h->present = next;
	return fresh ? HOMES_NEW : HOMES_MOVED;
}

int64_t homes_held(const struct homes* h) { return h->present ? h->present->held : 0; }

int64_t homes_new_id(struct homes* h) { return -++h->founded; }

struct resident* homes_resident(struct homes* h, int64_t kind) {
	for (int i = 0; i < HOMES_RESIDENTS && i < h->n_residents; i++)
		if (h->resident[i].kind == kind)
			return &h->resident[i];
	return NULL;
}

struct resident* homes_settle(struct homes* h, int64_t kind, int64_t home) {
	struct resident* r = &h->resident[h->n_residents++ % HOMES_RESIDENTS];
	*r = (struct resident){.kind = kind, .home = home};
	return r;
}

bool homes_is_shared(const struct homes* h, const struct resident* r) {
	for (int i = 0; i < HOMES_RESIDENTS && i < h->n_residents; i++)
		if (h->resident[i].home == r->home && h->resident[i].kind != r->kind)
			return true;
	return false;
}

bool resident_is_ill_at_ease(struct resident* r, int accepted, int trials, bool had_time) {
	r->accepted = r->accepted * RESIDENT_MEMORY + accepted;
	r->trials = r->trials * RESIDENT_MEMORY + trials;
	const double error = sqrt(BANK_GOOD * (1 - BANK_GOOD) / fmax(r->trials, 1));
	const double low = BANK_GOOD - (had_time ? 1 : 3) * error;
	return r->trials >= RESIDENT_TRIALS && r->accepted < low * r->trials;
}

static int64_t present_id(const struct homes* h) { return h->present ? h->present->id : 0; }

bool homes_was_tried(const struct homes* h, const struct mask* mask) {
	for (int i = 0; i < HOMES_TRIED && i < h->n_tried; i++)
		if (h->tried[i].home == present_id(h) && mask_equal(&h->tried[i].mask, mask))
			return true;
	return false;
}

void homes_note_tried(struct homes* h, const struct mask* mask) {
	const int64_t i = h->n_tried++ % HOMES_TRIED;
	h->tried[i].home = present_id(h);
	h->tried[i].mask = *mask;
}
