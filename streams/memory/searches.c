/* Swapping a session's search with its kind of text: see searches.h. */
#include "streams/memory/searches.h"

#include <string.h>

void searches_open(struct searches* s, swiftlet_session* session) {
	memset(s, 0, sizeof *s);
	s->session = session;
}

void searches_close(struct searches* s) {
	for (int i = 0; i < SEARCHES; i++)
		if (s->of[i].search)
			search_close(s->of[i].search);
}

/* The place of this kind, else a free one for it, else that of the one longest unused. */
static struct kind_search* find(struct searches* s, int64_t kind) {
	struct kind_search* longest = NULL;
	for (int i = 0; i < SEARCHES; i++) {
		struct kind_search* of = &s->of[i];
		if (of->kind == kind)
			return of;
		if (of != s->present && (!longest || of->used < longest->used))
			longest = of;
	}
	if (longest->search)
		search_close(longest->search);
	*longest = (struct kind_search){.kind = kind};
	return longest;
}

enum searches_move searches_move(struct searches* s, int64_t kind) {
	struct kind_search* last = s->present;
	if (last && last->kind == kind)
		return SEARCHES_STAYED;
	struct kind_search* next = find(s, kind);
	next->used = ++s->uses;
	if (!last) {
		s->present = next;
		return SEARCHES_NEW;
	}
	struct error e;
	const bool fresh = !next->search;
	struct search* search = fresh ? session_new_search(s->session, &e) : next->search;
	if (!search) {
		*next = (struct kind_search){.kind = 0};
		return SEARCHES_STAYED;
	}
	/* the session's influence and this place's change places; so the last kind's belongs to `last` */
	struct influence influence = next->influence;
	last->search = session_swap_search(s->session, search, &influence);
	last->influence = influence;
	next->search = NULL;
	s->present = next;
	return fresh ? SEARCHES_NEW : SEARCHES_MOVED;
}
