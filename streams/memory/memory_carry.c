/* What a session's texts have shown of influence, carried to the store and back, and its search with it. */
#include "streams/memory/memory_state.h"

#include <string.h>

/* What cannot be stored waits for the next time. */
bool carry_store(struct memory_watch* w, struct error* e) {
	if (!(w->unsaved_influence.rows > 0))
		return true;
	const bool good = experience_save_influence(w->memory->store, &w->memory->model, w->unsaved_task,
	                                            w->unsaved_kind, &w->unsaved_influence, e);
	if (good)
		memset(&w->unsaved_influence, 0, sizeof w->unsaved_influence);
	return good;
}

/* A new search begins with what earlier runs measured on texts of this label, or of this kind. */
static void inherit_from(struct memory_watch* w, struct memory* m, int64_t kind) {
	struct influence influence;
	struct error e;
	if (m->store && kind && experience_load_influence(m->store, &m->model, w->task, kind, &influence, &e))
		session_add_influence(w->session, &influence);
}

/* Goes on with the search of this kind. True when it is a new one. */
bool carry_search(struct memory_watch* w, int64_t kind, int64_t common_kind) {
	if (!w->search || w->present.kind == kind)
		return false;
	const enum searches_move move =
	    searches_move(&memory_common(w->memory)->searches, w->session, &w->present, kind);
	if (move == SEARCHES_STAYED)
		return false;
	w->search = session_search(w->session);
	w->steps_seen = search_steps(w->search);
	if (move == SEARCHES_NEW) {
		inherit_from(w, w->memory, kind);
		inherit_from(w, memory_common(w->memory), common_kind);
	}
	return move == SEARCHES_NEW;
}

/* The old search's mask stays in the bank. */
void carry_anew(struct memory_watch* w) {
	struct influence nothing = {.rows = 0};
	struct error unsaid;
	struct search* const fresh = session_new_search(w->session, &unsaid);
	if (!fresh)
		return;
	search_close(session_swap_search(w->session, fresh, &nothing));
	w->search = fresh;
	w->steps_seen = 0;
}

/* What the text told of influence waits for the store, with its kind. */
void carry_influence(struct memory_watch* w) {
	const struct influence* text = session_text_influence(w->session);
	struct error unsaid;
	if (!w->memory->store || !w->has_entry || text->rows == 0)
		return;
	if (w->unsaved_kind != w->entry_kind)
		carry_store(w, &unsaid);
	w->unsaved_kind = w->entry_kind;
	memcpy(w->unsaved_task, w->entry_task, sizeof w->unsaved_task);
	influence_join(&w->unsaved_influence, text, w->memory->model.blocks);
}

void carry_away(struct memory_watch* w) {
	struct error unsaid;
	carry_store(w, &unsaid);
	memset(&w->unsaved_influence, 0, sizeof w->unsaved_influence);
	searches_part(&memory_common(w->memory)->searches, w->session, &w->present);
	if (w->search) {
		w->search = session_search(w->session);
		w->steps_seen = search_steps(w->search);
	}
}
