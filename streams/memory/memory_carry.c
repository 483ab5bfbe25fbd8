/* What a session's search has learned, carried to the store and back: scores, influence, chances. */
#include "streams/memory/memory_state.h"

#include <string.h>

/* What earlier runs measured speaks for masks, not for a window: it is taken in as of an unknown one. */
struct taking {
	struct search* search;
	int n;
};
static void take_observation(void* user, const struct store_observation* o) {
	struct taking* t = user;
	search_remember(t->search, &o->mask, o->low, o->matches, o->rows);
	t->n++;
}

static void count_observation(void* user, const struct mask* mask, int matches, int rows, int64_t window) {
	(void)mask, (void)matches, (void)rows, (void)window;
	++*(int*)user;
}

struct gathering {
	struct memory_watch* watch;
	int skip;
};
static void gather(void* user, const struct mask* mask, int matches, int rows, int64_t window) {
	struct gathering* g = user;
	struct memory_watch* w = g->watch;
	if (g->skip-- > 0 || w->n_gathered == GATHERED)
		return;
	struct store_observation* o = &w->gathered[w->n_gathered++];
	*o = (struct store_observation){
	    .mask = *mask, .low = search_has_copy(w->search), .matches = matches, .rows = rows, .window = window};
	memcpy(o->task, w->task, sizeof o->task);
	o->kind = w->has_entry ? w->entry_kind : 0;
	w->present.observed++;
}

/* What the present search has observed since the last time was observed on this text. */
void carry_gather(struct memory_watch* w) {
	struct kind_search* of = &w->present;
	if (of->kind == 0 || !w->gathered)
		return;
	int now = 0;
	search_each(w->search, count_observation, &now);
	if (now < of->observed) /* the search has forgotten its older half */
		of->observed = now;
	struct gathering g = {w, of->observed};
	if (now > of->observed)
		search_each(w->search, gather, &g);
}

/* What cannot be stored waits for the next time. */
static void store_unsaved_influence(struct memory_watch* w) {
	struct error e;
	if (w->unsaved_influence.rows > 0 &&
	    store_add_influence(w->memory->store, &w->memory->model, w->unsaved_task, w->unsaved_kind,
	                        &w->unsaved_influence, &e))
		memset(&w->unsaved_influence, 0, sizeof w->unsaved_influence);
}

static void store_chances(struct memory_watch* w) {
	struct memory* m = w->memory;
	struct error unsaid;
	if (m->store && w->chances_kind)
		experience_save_chances(m->store, &m->model, memory_common(m)->device, w->chances_task,
		                        w->chances_kind, session_chances(w->session), &unsaid);
}

/* The session's chances are of this kind from now on; a new session begins with what is stored of it. */
void carry_chances(struct memory_watch* w, int64_t common_kind) {
	struct memory* m = w->memory;
	struct memory* common = memory_common(m);
	const bool first = w->chances_kind == 0;
	if (!m->store || !w->has_entry || w->chances_kind == w->entry_kind)
		return;
	store_chances(w);
	w->chances_kind = w->entry_kind;
	memcpy(w->chances_task, w->entry_task, sizeof w->chances_task);
	if (first)
		experience_load_chances(m->store, &m->model, common->device, w->chances_task, w->chances_kind,
		                        session_chances(w->session));
	if (first && common_kind)
		experience_load_chances(m->store, &common->model, common->device, w->chances_task, common_kind,
		                        session_chances(w->session));
}

/* What cannot be stored is kept for the next time, as far as there is room. */
void carry_store(struct memory_watch* w) {
	struct error e;
	store_chances(w);
	if (w->n_gathered > 0 &&
	    store_observe(w->memory->store, &w->memory->model, w->gathered, w->n_gathered, &e))
		w->n_gathered = 0;
	store_unsaved_influence(w);
}

/* A new search begins with what earlier runs measured on texts of this label, or of this kind. */
static void inherit_from(struct memory_watch* w, struct memory* m, int64_t kind) {
	struct taking t = {.search = w->search};
	struct influence influence;
	struct error e;
	if (store_influence(m->store, &m->model, w->task, kind, &influence, &e))
		session_add_influence(w->session, &influence);
	store_each_observation(m->store, m->model.fingerprint, w->task, kind, take_observation, &t, &e);
}

static void inherit(struct memory_watch* w, int64_t kind, int64_t common_kind) {
	if (!w->memory->store)
		return;
	inherit_from(w, w->memory, kind);
	if (common_kind)
		inherit_from(w, memory_common(w->memory), common_kind);
	search_each(w->search, count_observation, &w->present.observed);
}

/* Goes on with the search of this kind. True when it is a new one. */
bool carry_search(struct memory_watch* w, int64_t kind, int64_t common_kind) {
	if (!w->search || w->present.kind == kind)
		return false;
	carry_gather(w);
	const enum searches_move move =
	    searches_move(&memory_common(w->memory)->searches, w->session, &w->present, kind);
	if (move == SEARCHES_STAYED)
		return false;
	w->search = session_search(w->session);
	w->steps_seen = search_steps(w->search);
	if (move == SEARCHES_NEW)
		inherit(w, kind, common_kind);
	return move == SEARCHES_NEW;
}

/* What the old search observed is stored as far as it was gathered; its mask stays in the bank. */
void carry_anew(struct memory_watch* w) {
	struct influence nothing = {.rows = 0};
	struct error unsaid;
	carry_gather(w);
	struct search* const fresh = session_new_search(w->session, &unsaid);
	if (!fresh)
		return;
	search_close(session_swap_search(w->session, fresh, &nothing));
	w->search = fresh;
	w->steps_seen = 0;
	w->present.observed = 0;
}

/* What the text told of influence waits for the store, with its kind. */
void carry_influence(struct memory_watch* w) {
	const struct influence* text = session_text_influence(w->session);
	if (!w->memory->store || !w->has_entry || text->rows == 0)
		return;
	if (w->unsaved_kind != w->entry_kind)
		store_unsaved_influence(w);
	w->unsaved_kind = w->entry_kind;
	memcpy(w->unsaved_task, w->entry_task, sizeof w->unsaved_task);
	influence_join(&w->unsaved_influence, text, w->memory->model.blocks);
}

void carry_away(struct memory_watch* w) {
	carry_gather(w);
	carry_store(w);
	w->n_gathered = 0;
	memset(&w->unsaved_influence, 0, sizeof w->unsaved_influence);
	w->chances_kind = 0;
	searches_part(&memory_common(w->memory)->searches, w->session, &w->present);
	if (w->search) {
		w->search = session_search(w->session);
		w->steps_seen = search_steps(w->search);
	}
}
