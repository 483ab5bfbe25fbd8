/* A session's texts one after another: which kind each is, which mask it begins with, and what it shows. */
#include "streams/memory/memory_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Instances between two flushes. */
enum { FLUSH_INSTANCES = 4 };

struct memory_watch* memory_attach(struct memory* m, swiftlet_session* session, int number) {
	struct memory_watch* w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->memory = m;
	w->session = session;
	w->number = number;
	w->search = session_options(session)->search ? session_search(session) : NULL;
	drift_open(&w->drift);
	if (m->store && !m->device[0]) { /* the first session */
		struct engine* engine = session_engine(session);
		experience_device(m->device, engine);
		experience_load_costs(m->store, &m->model, m->device, &engine->cost);
		m->cost_passes = engine->cost.passes;
	}
	session_want_signature(session, true);
	return w;
}

static bool save_costs(struct memory_watch* w, struct error* e) {
	struct memory* m = memory_common(w->memory);
	return !m->store || experience_save_costs(m->store, &m->model, m->device,
	                                          &session_engine(w->session)->cost, &m->cost_passes, e);
}

/* All that an instance has left to be stored. A failure is told by the counts, until a later time succeeds.
 */
static void store_all(struct memory_watch* w) {
	struct memory* m = w->memory;
	struct error e = {""};
	bool good = memory_flush(m, &e);
	good &= carry_store(w, &e);
	good &= save_costs(w, &e);
	pthread_mutex_lock(&m->lock);
	m->counts.store_failed = !good;
	if (!good)
		snprintf(m->counts.store_message, sizeof m->counts.store_message, "%s", e.message);
	pthread_mutex_unlock(&m->lock);
}

void memory_detach(struct memory_watch* w) {
	if (!w)
		return;
	struct error unsaid;
	carry_store(w, &unsaid);
	save_costs(w, &unsaid);
	free(w);
}

static void set_chances_aside(struct memory_watch* w) {
	struct memory* m = w->memory;
	if (!m->chances)
		m->chances = malloc(sizeof *m->chances);
	if (m->chances)
		*m->chances = *session_chances(w->session);
}

void memory_move(struct memory_watch* w, struct memory* to) {
	if (w->memory == to)
		return;
	set_chances_aside(w);
	carry_away(w);
	w->memory = to;
	w->placed = w->has_entry = false;
	drift_open(&w->drift);
	if (to->chances)
		*session_chances(w->session) = *to->chances;
}

/* ---- entries ------------------------------------------------------------------------------ */

/* The event is told with the lock held: the listener calls nothing of the memory. */
static void tell(struct memory_watch* w, enum memory_event event, int64_t* counter) {
	++*counter;
	const struct memory* common = memory_common(w->memory);
	if (common->on_event)
		common->on_event(common->on_user, w->number, event, w->task);
}

static struct bank_entry* current(struct memory_watch* w) {
	return w->has_entry ? bank_entry(w->memory->bank, w->entry_task, w->entry_kind, &w->mask) : NULL;
}

/* From now on this entry is served; w->record starts afresh. What it is known to reach is the change test's
 * baseline, so that it can start at once. */
static void place(struct memory_watch* w, struct bank_entry* e) {
	w->has_entry = true;
	w->mask = e->mask;
	w->entry_kind = e->kind;
	memcpy(w->entry_task, e->task, sizeof w->entry_task);
	memset(&w->record, 0, sizeof w->record);
	drift_expect(&w->drift, (double)e->record.accepted, (double)e->record.trials);
}

/* A kind that was served before goes on: with what its search drafts with now, or, where the search is new or
 * another session has settled the matter, with the stored mask. */
static void recall(struct memory_watch* w, struct bank_entry* e, int64_t common_kind) {
	const bool fresh = carry_search(w, e->kind, common_kind);
	const struct mask now = session_mask(w->session, NULL);
	const bool running = w->search && search_state(w->search) == SEARCH_RUNNING;
	const bool take = !w->search || fresh || (e->settled && running);
	if (!take && !mask_equal(&now, &e->mask)) {
		const bool settled = e->settled;
		e = bank_entry(w->memory->bank, e->task, e->kind, &now);
		e->skip_ratio = search_skip_ratio(w->search);
		e->settled |= settled && !running;
	}
	const bool same = mask_equal(&now, &e->mask);
	const bool goes_on = same && w->has_entry && w->entry_kind == e->kind && mask_equal(&w->mask, &now);
	if (goes_on) /* the change test runs on across instances */
		memset(&w->record, 0, sizeof w->record);
	else
		place(w, e);
	if (!same) {
		session_set_mask(w->session, &e->mask);
		tell(w, MEMORY_RECALLED, &w->memory->counts.recalled);
	}
	if (take && w->search && e->settled)
		search_settle(w->search);
}

/* The first instance of its kind: a search of its own, which begins with what the prompt tells. */
static void begin_kind(struct memory_watch* w) {
	const int64_t kind = bank_new_kind(w->memory->bank, w->task);
	carry_search(w, kind, 0);
	const struct mask now = session_mask(w->session, NULL);
	struct bank_entry* e = bank_entry(w->memory->bank, w->task, kind, &now);
	e->skip_ratio = w->search ? search_skip_ratio(w->search) : 0;
	place(w, e);
	tell(w, MEMORY_NEW_KIND, &w->memory->counts.new_kinds);
}

/* A kind that the owner's texts have not shown yet and the common memory knows: an entry of the owner's own,
 * with a record of its own. NULL: there is none. */
static struct bank_entry* take_common(struct memory_watch* w, const struct bank_signature* s, int64_t* kind) {
	struct memory* const common = w->memory->common;
	if (!common)
		return NULL;
	pthread_mutex_lock(&common->lock);
	memory_take_news(common);
	const struct bank_entry* known = bank_find(common->bank, w->task, s);
	struct bank_entry* e = NULL;
	if (known) {
		*kind = known->kind;
		e = bank_entry(w->memory->bank, w->task, bank_new_kind(w->memory->bank, w->task), &known->mask);
		e->skip_ratio = known->skip_ratio;
		e->settled = known->settled;
		e->signature = known->signature;
	}
	pthread_mutex_unlock(&common->lock);
	return e;
}

static void find_place(struct memory_watch* w, bool signature_known) {
	const struct bank_signature* s = signature_known ? &w->signature : NULL;
	struct bank_entry* e = bank_find(w->memory->bank, w->task, s);
	int64_t common_kind = 0;
	if (!e)
		e = take_common(w, s, &common_kind);
	if (!e && !signature_known)
		return; /* the prefill will tell */
	w->placed = true;
	if (e)
		recall(w, e, common_kind);
	else
		begin_kind(w);
}

/* ---- an instance -------------------------------------------------------------------------- */

void memory_begin(struct memory_watch* w, const char* task) {
	struct memory* m = w->memory;
	snprintf(w->task, sizeof w->task, "%s", task ? task : "");
	memset(&w->signature, 0, sizeof w->signature);
	memset(&w->record, 0, sizeof w->record);
	w->placed = false;
	w->steps_seen = w->search ? search_steps(w->search) : 0;
	int steps, accepted;
	w->round_seen = session_last_round(w->session, &steps, &accepted);
	pthread_mutex_lock(&m->lock);
	memory_take_news(m);
	bank_tick(m->bank);
	find_place(w, false);
	pthread_mutex_unlock(&m->lock);
}

/* Adds what the instance has gathered to its entry. */
static void account(struct memory_watch* w) {
	struct bank_entry* e = current(w);
	if (!e)
		return;
	bank_add(w->memory->bank, e, &w->record, NULL);
	memset(&w->record, 0, sizeof w->record);
}

/* The text has turned: it is searched for anew, from the influence that it shows itself. */
static void fell(struct memory_watch* w) {
	struct memory* m = w->memory;
	pthread_mutex_lock(&m->lock);
	account(w);
	struct bank_entry* e = current(w);
	if (e) {
		e->settled = false;
		const struct bank_record back = {.held = -e->record.held};
		bank_add(m->bank, e, &back, NULL);
	}
	tell(w, MEMORY_DRIFT, &m->counts.drifts);
	pthread_mutex_unlock(&m->lock);
	carry_anew(w);
}

static void watch_rounds(struct memory_watch* w) {
	int steps, accepted;
	const int64_t round = session_last_round(w->session, &steps, &accepted);
	if (round == w->round_seen)
		return;
	w->round_seen = round;
	const int trials = accepted + (accepted < steps);
	w->record.accepted += accepted;
	w->record.draft_steps += steps;
	w->record.trials += trials;
	w->record.rounds++;
	w->record.round_tokens += accepted + 1;
	if (drift_add(&w->drift, accepted, steps) && w->search)
		fell(w);
}

/* The search has found a better mask: it becomes this kind's entry. */
static void improved(struct memory_watch* w, const struct mask* now) {
	struct memory* m = w->memory;
	pthread_mutex_lock(&m->lock);
	account(w);
	struct bank_entry* old = current(w);
	if (old && old->settled) {
		old->settled = false;
		old->changed = true;
	}
	struct bank_entry* e = bank_entry(m->bank, w->task, w->entry_kind, now);
	e->skip_ratio = search_skip_ratio(w->search);
	place(w, e);
	tell(w, MEMORY_IMPROVED, &m->counts.improved);
	pthread_mutex_unlock(&m->lock);
}

/* A search that has ended, or a mask that has held long enough, lets the entry rest. */
static void settle_if_held(struct memory_watch* w) {
	struct memory* m = w->memory;
	const bool ended = search_state(w->search) != SEARCH_RUNNING;
	pthread_mutex_lock(&m->lock);
	struct bank_entry* e = current(w);
	const int64_t held = e ? e->record.held + w->record.held : 0;
	const bool long_enough = e && held >= (memory_drafts_well(&e->record) ? MEMORY_HOLD : 4 * MEMORY_HOLD);
	if (e && !e->settled && (ended || long_enough)) {
		e->settled = e->changed = true;
		search_settle(w->search);
		tell(w, MEMORY_SETTLED, &m->counts.settled);
	}
	pthread_mutex_unlock(&m->lock);
}

static void take_improvement(struct memory_watch* w) {
	const int steps = search_steps(w->search);
	w->record.steps += steps - w->steps_seen;
	w->steps_seen = steps;
	const struct mask now = session_mask(w->session, NULL);
	if (!mask_equal(&now, &w->mask))
		improved(w, &now);
	else
		settle_if_held(w);
}

void memory_step(struct memory_watch* w, const struct swiftlet_step* step) {
	struct memory* m = w->memory;
	if (!w->placed) {
		const float* state = session_signature(w->session);
		if (state || step->n > 0) {
			bank_signature(&w->signature, state, m->dim);
			pthread_mutex_lock(&m->lock);
			find_place(w, true);
			pthread_mutex_unlock(&m->lock);
		}
	}
	w->record.tokens += step->n;
	w->record.held += step->n;
	if (!w->placed || step->n == 0)
		return;
	watch_rounds(w);
	if (w->search)
		take_improvement(w);
}

void memory_end(struct memory_watch* w) {
	struct memory* m = w->memory;
	if (!w->placed)
		return;
	struct swiftlet_figures f;
	swiftlet_session_figures(w->session, &f);
	if (!(w->signature.prompts > 0))
		bank_signature(&w->signature, session_signature(w->session), m->dim);
	w->record.instances = 1;
	if (isfinite(f.matchness) && f.optimize_steps > 0) {
		w->record.rows = session_options(w->session)->window;
		w->record.matches = lround(f.matchness * (double)w->record.rows);
	}
	pthread_mutex_lock(&m->lock);
	struct bank_entry* e = current(w);
	if (e) {
		account(w);
		bank_add(m->bank, e, &(struct bank_record){.tokens = 0}, &w->signature);
	}
	carry_influence(w);
	m->counts.trials = w->drift.trials_seen;
	const bool flush = m->store && ++m->unflushed >= FLUSH_INSTANCES;
	pthread_mutex_unlock(&m->lock);
	if (flush)
		store_all(w);
}

void memory_idle(struct memory_watch* w) {
	if (w->placed && w->search)
		take_improvement(w);
}
