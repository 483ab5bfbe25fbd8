/* Swapping a session's search with its kind of text. */
#include "streams/memory/memory_state.h"

#include <string.h>

void searches_close(struct searches* s) {
	for (int i = 0; i < SEARCHES; i++)
		if (s->aside[i].search)
			search_close(s->aside[i].search);
	memset(s, 0, sizeof *s);
}

static struct kind_search* find(struct searches* s, int64_t kind) {
	for (int i = 0; i < SEARCHES; i++)
		if (s->aside[i].kind == kind)
			return &s->aside[i];
	return NULL;
}

/* Two sessions may have searched for one kind at the same time: who took more steps is kept. */
static void keep(struct searches* s, const struct kind_search* last) {
	struct kind_search* at = find(s, last->kind);
	for (int i = 0; i < SEARCHES && !at; i++)
		if (!s->aside[i].search)
			at = &s->aside[i];
	if (!at) {
		at = &s->aside[0];
		for (int i = 1; i < SEARCHES; i++)
			if (s->aside[i].used < at->used)
				at = &s->aside[i];
	}
	if (at->kind == last->kind && search_steps(at->search) > search_steps(last->search)) {
		search_close(last->search);
		return;
	}
	if (at->search)
		search_close(at->search);
	*at = *last;
	at->used = ++s->uses;
}

void searches_part(struct searches* s, swiftlet_session* session, struct kind_search* present) {
	struct kind_search last = *present;
	last.search = session_forget(session, &last.influence);
	if (!last.search)
		return;
	if (last.kind != 0)
		keep(s, &last);
	else
		search_close(last.search);
	*present = (struct kind_search){.kind = 0};
}

enum searches_move searches_move(struct searches* s, swiftlet_session* session, struct kind_search* present,
                                 int64_t kind) {
	if (present->kind == kind)
		return SEARCHES_STAYED;
	struct kind_search next = {.kind = kind}, last = *present;
	struct kind_search* const aside = find(s, kind);
	struct error e;
	if (aside) {
		next = *aside;
		*aside = (struct kind_search){.kind = 0};
	} else if (present->kind == 0) {
		present->kind = kind;
		return SEARCHES_NEW;
	} else if (!(next.search = session_new_search(session, &e)))
		return SEARCHES_STAYED;
	/* the session's influence and this one's change places; so the last kind's belongs to `last` */
	last.influence = next.influence;
	last.search = session_swap_search(session, next.search, &last.influence);
	if (last.kind != 0)
		keep(s, &last);
	else
		search_close(last.search);
	*present = (struct kind_search){.kind = kind};
	return aside ? SEARCHES_MOVED : SEARCHES_NEW;
}
