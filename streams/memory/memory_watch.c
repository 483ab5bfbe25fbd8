/* Follows a session's texts one after another: the task of each, the mask and search that it begins with, and
 * what it adds to the store. */
#include "streams/memory/memory_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Instances between two flushes. */
enum { FLUSH_INSTANCES = 4 };

struct memory_watch {
	struct memory* memory;
	swiftlet_session* session;
	struct search* search; /* NULL: no search; only figures are kept */
	int number;
	char task[BANK_TASK];
	bool begun;                         /* an instance of this memory has begun */
	struct mask mask;                   /* of the entry that is served */
	struct bank_record record;          /* of this instance, since the entry was last updated */
	int64_t round_seen;                 /* session_last_round's count */
	int steps_seen;                     /* search_steps */
	const struct memory* search_memory; /* the search is of search_task in it; NULL: of no task yet */
	char search_task[BANK_TASK];
};

/* ---- searches ------------------------------------------------------------------------------ */

static struct task_search* find_search(struct searches* s, const struct memory* m, const char* task) {
	for (int i = 0; i < SEARCHES; i++)
		if (s->kept[i].search && s->kept[i].memory == m && strcmp(s->kept[i].task, task) == 0)
			return &s->kept[i];
	return NULL;
}

/* Keeps a search that belongs to a task. If two sessions have searched for one task at the same time, the
 * search with more steps is kept. */
static void keep_search(struct searches* s, const struct task_search* last) {
	struct task_search* at = last->memory ? find_search(s, last->memory, last->task) : NULL;
	if (!last->memory || (at && search_steps(at->search) > search_steps(last->search))) {
		search_close(last->search);
		return;
	}
	if (!at) {
		at = &s->kept[0]; /* a free place was never used */
		for (int i = 1; i < SEARCHES; i++)
			if (s->kept[i].used < at->used)
				at = &s->kept[i];
	}
	search_close(at->search);
	*at = *last;
	at->used = ++s->uses;
}

static void take_up_search(struct memory_watch* w) {
	w->search = session_search(w->session);
	w->steps_seen = search_steps(w->search);
}

/* The session's present search, with the task that it is of. */
static struct task_search present_search(const struct memory_watch* w) {
	struct task_search present = {.search = w->search, .memory = w->search_memory};
	memcpy(present.task, w->search_task, sizeof present.task);
	return present;
}

/* Continues the search of the present task. True when it is a new one. */
static bool carry_search(struct memory_watch* w) {
	struct searches* s = &memory_common(w->memory)->searches;
	struct task_search last = present_search(w);
	if (!w->search || (last.memory == w->memory && strcmp(last.task, w->task) == 0))
		return false;
	struct task_search* const kept = find_search(s, w->memory, w->task);
	if (kept || last.memory) { /* the first task takes the session's own search */
		struct search* const next = kept ? kept->search : session_new_search(w->session);
		if (!next)
			return false;
		if (kept)
			*kept = (struct task_search){.search = NULL};
		last.search = session_swap_search(w->session, next);
		keep_search(s, &last);
	}
	w->search_memory = w->memory;
	memcpy(w->search_task, w->task, sizeof w->search_task);
	take_up_search(w);
	return !kept;
}

/* Keeps the search with its task, and gives the session a new one without data. */
static void carry_away(struct memory_watch* w) {
	struct task_search last = present_search(w);
	last.search = session_forget(w->session);
	if (last.search) {
		keep_search(&memory_common(w->memory)->searches, &last);
		w->search_memory = NULL;
	}
	if (w->search)
		take_up_search(w);
}

/* ---- attaching ---------------------------------------------------------------------------- */

struct memory_watch* memory_attach(struct memory* m, swiftlet_session* session, int number) {
	struct memory_watch* w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->memory = m;
	w->session = session;
	w->number = number;
	w->search = session_options(session)->learning.search ? session_search(session) : NULL;
	if (m->store && !m->device[0]) { /* the first session */
		struct engine* engine = session_engine(session);
		statistics_device(m->device, engine);
		statistics_load_costs(m->store, &m->model, m->device, &engine->cost);
		m->cost_passes = engine->cost.passes;
	}
	return w;
}

static bool save_costs(struct memory_watch* w, struct error* e) {
	struct memory* m = memory_common(w->memory);
	return !m->store || statistics_save_costs(m->store, &m->model, m->device,
	                                          &session_engine(w->session)->cost, &m->cost_passes, e);
}

/* Stores everything that an instance has left. The counts report a failure until a later call succeeds. */
static void store_all(struct memory_watch* w) {
	struct memory* m = w->memory;
	struct error e = {""};
	bool good = memory_flush(m, &e);
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
	struct error ignored;
	save_costs(w, &ignored);
	free(w);
}

static void keep_estimates(struct memory_watch* w) {
	struct memory* m = w->memory;
	if (!m->acceptance)
		m->acceptance = malloc(sizeof *m->acceptance);
	if (m->acceptance)
		*m->acceptance = *session_acceptance(w->session);
}

void memory_move(struct memory_watch* w, struct memory* to) {
	if (w->memory == to)
		return;
	keep_estimates(w);
	carry_away(w);
	w->memory = to;
	w->begun = false;
	if (to->acceptance)
		*session_acceptance(w->session) = *to->acceptance;
}

/* ---- entries ------------------------------------------------------------------------------ */

/* Call with the lock held, so the listener must not call the memory. */
static void emit_event(struct memory_watch* w, enum memory_event event, int64_t* counter) {
	++*counter;
	const struct memory* common = memory_common(w->memory);
	if (common->on_event)
		common->on_event(common->on_user, w->number, event, w->task);
}

/* The entry that serves the instance. */
static struct bank_entry* current_entry(struct memory_watch* w) {
	return bank_entry(w->memory->bank, w->task, &w->mask);
}

/* Continues a task that was served before, with its search's present mask. If the search is new, or if
 * another session has converged on the stored mask, it continues with that mask. */
static void recall_entry(struct memory_watch* w, struct bank_entry* e) {
	const bool fresh = carry_search(w);
	const struct mask now = session_mask(w->session, NULL);
	const bool running = w->search && search_state(w->search) == SEARCH_RUNNING;
	const bool take = !w->search || fresh || (e->converged && running);
	if (!take && !mask_equal(&now, &e->mask)) {
		const bool converged = e->converged;
		e = bank_entry(w->memory->bank, w->task, &now);
		e->skip_ratio = search_skip_ratio(w->search);
		e->converged |= converged && !running;
	}
	w->mask = e->mask;
	if (!mask_equal(&now, &e->mask)) {
		session_set_mask(w->session, &e->mask);
		emit_event(w, MEMORY_RECALLED, &w->memory->counts.recalled);
	}
	if (take && w->search && e->converged)
		search_settle(w->search);
}

/* Begins a new task: a search of its own. */
static void begin_task(struct memory_watch* w) {
	carry_search(w);
	w->mask = session_mask(w->session, NULL);
	current_entry(w)->skip_ratio = w->search ? search_skip_ratio(w->search) : 0;
	emit_event(w, MEMORY_NEW_TASK, &w->memory->counts.new_tasks);
}

/* Copies an entry that another memory knows of the task. The copy has a record of its own. NULL: none. */
static struct bank_entry* copy_entry(struct memory_watch* w, const struct bank_entry* known) {
	if (!known)
		return NULL;
	const struct bank_entry from = *known; /* which moves when a new entry makes room */
	struct bank_entry* e = bank_entry(w->memory->bank, w->task, &from.mask);
	e->skip_ratio = from.skip_ratio;
	e->converged = from.converged;
	return e;
}

/* The entry to begin with: the task's own, else the common memory's of this task. Texts without a label then
 * take the mask that served most, here or there. NULL: there is none. */
static struct bank_entry* find_entry(struct memory_watch* w) {
	struct memory* const common = w->memory->common;
	struct bank* const own = w->memory->bank;
	struct bank_entry* e = bank_find(own, w->task);
	if (e)
		return e;
	if (common) {
		pthread_mutex_lock(&common->lock);
		memory_take_news(common);
		e = copy_entry(w, bank_find(common->bank, w->task));
		if (!e && !w->task[0])
			e = copy_entry(w, own->n > 0 ? bank_most_used(own) : bank_most_used(common->bank));
		pthread_mutex_unlock(&common->lock);
		return e;
	}
	return w->task[0] ? NULL : copy_entry(w, bank_most_used(own));
}

/* ---- an instance -------------------------------------------------------------------------- */

void memory_begin(struct memory_watch* w, const char* task) {
	struct memory* m = w->memory;
	snprintf(w->task, sizeof w->task, "%s", task ? task : "");
	memset(&w->record, 0, sizeof w->record);
	w->begun = true;
	w->steps_seen = w->search ? search_steps(w->search) : 0;
	int steps, accepted;
	w->round_seen = session_last_round(w->session, &steps, &accepted);
	pthread_mutex_lock(&m->lock);
	memory_take_news(m);
	bank_tick(m->bank);
	struct bank_entry* const e = find_entry(w);
	if (e)
		recall_entry(w, e);
	else
		begin_task(w);
	pthread_mutex_unlock(&m->lock);
}

/* Adds the instance's figures to its entry. */
static struct bank_entry* record_instance(struct memory_watch* w) {
	struct bank_entry* e = current_entry(w);
	bank_add(e, &w->record);
	memset(&w->record, 0, sizeof w->record);
	return e;
}

static void watch_rounds(struct memory_watch* w) {
	int steps, accepted;
	const int64_t round = session_last_round(w->session, &steps, &accepted);
	if (round == w->round_seen)
		return;
	w->round_seen = round;
	w->record.accepted += accepted;
	w->record.draft_steps += steps;
	w->record.trials += accepted + (accepted < steps);
	w->record.rounds++;
	w->record.round_tokens += accepted + 1;
}

/* Stores a better mask of the search as this task's entry. */
static void take_better_mask(struct memory_watch* w, const struct mask* now) {
	struct memory* m = w->memory;
	pthread_mutex_lock(&m->lock);
	record_instance(w)->converged = false;
	w->mask = *now;
	current_entry(w)->skip_ratio = search_skip_ratio(w->search);
	emit_event(w, MEMORY_IMPROVED, &m->counts.improved);
	pthread_mutex_unlock(&m->lock);
}

/* Marks the entry as converged when its search has ended, or when its mask has held long enough. */
static void settle_if_held(struct memory_watch* w) {
	struct memory* m = w->memory;
	const bool ended = search_state(w->search) != SEARCH_RUNNING;
	pthread_mutex_lock(&m->lock);
	struct bank_entry* e = current_entry(w);
	const int64_t held = e->record.held + w->record.held;
	const bool long_enough = held >= (memory_drafts_well(&e->record) ? MEMORY_HOLD : 4 * MEMORY_HOLD);
	if (!e->converged && (ended || long_enough)) {
		e->converged = e->changed = true;
		search_settle(w->search);
		emit_event(w, MEMORY_CONVERGED, &m->counts.converged);
	}
	pthread_mutex_unlock(&m->lock);
}

static void take_improvement(struct memory_watch* w) {
	const int steps = search_steps(w->search);
	w->record.steps += steps - w->steps_seen;
	w->steps_seen = steps;
	const struct mask now = session_mask(w->session, NULL);
	if (!mask_equal(&now, &w->mask))
		take_better_mask(w, &now);
	else
		settle_if_held(w);
}

void memory_step(struct memory_watch* w, const struct swiftlet_step* step) {
	w->record.tokens += step->n;
	w->record.held += step->n;
	if (step->n == 0)
		return;
	watch_rounds(w);
	if (w->search)
		take_improvement(w);
}

void memory_end(struct memory_watch* w) {
	struct memory* m = w->memory;
	struct swiftlet_figures f;
	swiftlet_session_figures(w->session, &f);
	w->record.instances = 1;
	if (isfinite(f.matchness) && f.optimize_steps > 0) {
		w->record.rows = session_options(w->session)->learning.window;
		w->record.matches = lround(f.matchness * (double)w->record.rows);
	}
	pthread_mutex_lock(&m->lock);
	record_instance(w);
	const bool flush = m->store && ++m->unflushed >= FLUSH_INSTANCES;
	pthread_mutex_unlock(&m->lock);
	if (flush)
		store_all(w);
}

void memory_idle(struct memory_watch* w) {
	if (w->begun && w->search)
		take_improvement(w);
}
