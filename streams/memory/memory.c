/* The bank, drift and the store around a session's search; memory.h says what happens when. */
#include "streams/memory/memory.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optimizer/session.h"
#include "streams/memory/experience.h"
#include "streams/memory/searches.h"

enum { GATHERED = 512, FLUSH_INSTANCES = 4, BRIEF = 64, PROVEN = 64 };

/* Acceptance at which a mask is good enough to rest on. */
static const double GOOD = 0.93;

struct memory {
	pthread_mutex_t lock; /* of the bank, the counts and what is unsaved */
	struct store_model model;
	int dim;
	struct bank* bank;
	struct store* store;
	struct memory_counts counts;
	int unflushed;      /* instances since the last flush */
	int64_t generation; /* the store's, when the bank was last told of it */
	char device[STORE_DEVICE];
	int64_t cost_passes; /* whose costs are stored */
	void (*on_event)(void*, int, enum memory_event, const char*);
	void* on_user;
};

struct memory_watch {
	struct memory* memory;
	swiftlet_session* session;
	struct search* search; /* NULL: no search, nothing to remember but what is drafted with */
	int number;
	char task[BANK_TASK];
	bool placed; /* the instance's kind is known */
	bool has_entry;
	struct mask mask; /* of the entry that is being served */
	char entry_task[BANK_TASK];
	int64_t entry_kind;
	struct bank_signature signature;
	struct bank_record record; /* of this instance, since the entry's last update */
	struct drift drift;
	int64_t round_seen; /* session_last_round's count */
	int steps_seen;     /* search_steps */
	struct searches searches;
	struct store_observation* gathered; /* (GATHERED) for the store; NULL without one */
	int n_gathered;
	struct influence unsaved_influence; /* of this kind, for the store */
	int64_t unsaved_kind;
	char unsaved_task[BANK_TASK];
	int64_t chances_kind; /* of which the session's chances are; 0: none yet */
	char chances_task[BANK_TASK];
};

const char* memory_event_name(enum memory_event event) {
	static const char* const name[] = {"recalled", "new-kind", "improved", "settled", "drift"};
	return name[event];
}

/* ---- opening and closing ------------------------------------------------------------------ */

/* A mask that an earlier process served long and that drafted well is rested on, though its search had some
 * way to go: the change test wakes it. */
static bool served_well(const struct bank_record* r) {
	if (r->tokens < MEMORY_HOLD / 2 || r->trials < PROVEN)
		return false;
	const double p = (double)r->accepted / (double)r->trials;
	return p + sqrt(p * (1 - p) / (double)r->trials) >= GOOD;
}

static bool restore(void* user, const struct store_mask* stored) {
	struct memory* m = user;
	struct bank_entry entry = stored->entry;
	entry.settled |= served_well(&entry.record);
	if (stored->model.blocks == m->model.blocks)
		bank_restore(m->bank, &entry);
	return true;
}

static bool refresh(void* user, const struct store_mask* stored) {
	struct memory* m = user;
	struct bank_entry entry = stored->entry;
	entry.settled |= served_well(&entry.record);
	if (stored->model.blocks == m->model.blocks)
		bank_refresh(m->bank, &entry);
	return true;
}

/* What other replicas have learned meanwhile; the store has it here in memory. */
static void take_news(struct memory* m) {
	struct store_state state;
	struct error unsaid;
	if (!m->store)
		return;
	store_state(m->store, &state);
	if (state.generation == m->generation)
		return;
	m->generation = state.generation;
	store_each(m->store, m->model.fingerprint, refresh, m, &unsaid);
}

struct memory* memory_open(const struct model* model, const char* name, const char* path, struct error* e) {
	struct memory* m = calloc(1, sizeof *m);
	if (!m || !(m->bank = bank_open(BANK_CAPACITY))) {
		free(m);
		error_set(e, "out of memory for the mask bank");
		return NULL;
	}
	pthread_mutex_init(&m->lock, NULL);
	snprintf(m->model.fingerprint, sizeof m->model.fingerprint, "%s", model->fingerprint);
	snprintf(m->model.name, sizeof m->model.name, "%s", name);
	m->model.blocks = model->weights.shape.n_blocks;
	m->dim = model->weights.shape.dim;
	if (path && (!(m->store = store_open(path, STORE_SERVE, e)) ||
	             !store_each(m->store, m->model.fingerprint, restore, m, e))) {
		store_close(m->store);
		m->store = NULL;
		memory_close(m);
		return NULL;
	}
	return m;
}

void memory_on_event(struct memory* m, void (*on_event)(void*, int, enum memory_event, const char*),
                     void* user) {
	m->on_event = on_event;
	m->on_user = user;
}

void memory_close(struct memory* m) {
	if (!m)
		return;
	struct error e;
	memory_flush(m, &e);
	store_close(m->store);
	bank_close(m->bank);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

struct store* memory_store(struct memory* m) {
	return m->store;
}

/* What earlier runs measured speaks for masks, not for a window: it is taken in as of an unknown one. */
struct taking {
	struct search* search;
	int n;
};
static void take_observation(void* user, const struct store_observation* o) {
	struct taking* t = user;
	search_observe_mask(t->search, &o->mask, o->matches, o->rows, 0);
	t->n++;
}

static void count_observation(void* user, const struct mask* mask, int matches, int rows, int64_t window) {
	(void)mask, (void)matches, (void)rows, (void)window;
	++*(int*)user;
}

struct memory_watch* memory_attach(struct memory* m, swiftlet_session* session, int number) {
	struct memory_watch* w = calloc(1, sizeof *w);
	if (!w)
		return NULL;
	w->memory = m;
	w->session = session;
	w->number = number;
	w->search = session_options(session)->search ? session_search(session) : NULL;
	struct drift_options o;
	drift_options_default(&o);
	drift_open(&w->drift, &o);
	searches_open(&w->searches, session);
	if (m->store && !m->device[0]) { /* the first session */
		struct engine* engine = session_engine(session);
		experience_device(m->device, engine);
		experience_load_costs(m->store, &m->model, m->device, &engine->cost);
		m->cost_passes = engine->cost.passes;
	}
	if (m->store && w->search && !(w->gathered = calloc(GATHERED, sizeof *w->gathered))) {
		free(w);
		return NULL;
	}
	session_want_signature(session, true);
	return w;
}

/* ---- observations to the store ------------------------------------------------------------ */

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
	*o = (struct store_observation){.mask = *mask, .matches = matches, .rows = rows, .window = window};
	memcpy(o->task, w->task, sizeof o->task);
	o->kind = w->has_entry ? w->entry_kind : 0;
	w->searches.present->observed++;
}

/* What the present search has observed since the last time was observed on this text. */
static void gather_observations(struct memory_watch* w) {
	struct kind_search* of = w->searches.present;
	if (!of || !w->gathered)
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
	const struct memory* m = w->memory;
	struct error unsaid;
	if (m->store && w->chances_kind)
		experience_save_chances(m->store, &m->model, m->device, w->chances_task, w->chances_kind,
		                        session_chances(w->session), &unsaid);
}

/* The session's chances are of this kind from now on; a new session begins with what is stored of it. */
static void turn_chances(struct memory_watch* w) {
	const struct memory* m = w->memory;
	const bool first = w->chances_kind == 0;
	if (!m->store || !w->has_entry || w->chances_kind == w->entry_kind)
		return;
	store_chances(w);
	w->chances_kind = w->entry_kind;
	memcpy(w->chances_task, w->entry_task, sizeof w->chances_task);
	if (first)
		experience_load_chances(m->store, &m->model, m->device, w->chances_task, w->chances_kind,
		                        session_chances(w->session));
}

/* What cannot be stored is kept for the next time, as far as there is room. */
static void store_observations(struct memory_watch* w) {
	struct error e;
	store_chances(w);
	if (w->n_gathered > 0 &&
	    store_observe(w->memory->store, &w->memory->model, w->gathered, w->n_gathered, &e))
		w->n_gathered = 0;
	store_unsaved_influence(w);
}

void memory_detach(struct memory_watch* w) {
	if (!w)
		return;
	struct memory* m = w->memory;
	struct error unsaid;
	gather_observations(w);
	store_observations(w);
	if (m->store)
		experience_save_costs(m->store, &m->model, m->device, &session_engine(w->session)->cost,
		                      &m->cost_passes, &unsaid);
	searches_close(&w->searches);
	free(w->gathered);
	free(w);
}

/* A new search begins with what earlier runs measured on texts of this label, or of this kind. */
static void inherit(struct memory_watch* w, int64_t kind) {
	struct memory* m = w->memory;
	struct taking t = {.search = w->search};
	struct influence influence;
	struct error e;
	if (!m->store)
		return;
	if (store_influence(m->store, &m->model, w->task, kind, &influence, &e))
		session_add_influence(w->session, &influence);
	store_each_observation(m->store, m->model.fingerprint, w->task, kind, take_observation, &t, &e);
	search_each(w->search, count_observation, &w->searches.present->observed);
}

/* Goes on with the search of this kind. True when it is a new one. */
static bool take_search(struct memory_watch* w, int64_t kind) {
	const struct kind_search* here = w->searches.present;
	if (!w->search || (here && here->kind == kind))
		return false;
	gather_observations(w);
	const enum searches_move move = searches_move(&w->searches, kind);
	if (move == SEARCHES_STAYED)
		return false;
	w->search = session_search(w->session);
	w->steps_seen = search_steps(w->search);
	if (move == SEARCHES_NEW)
		inherit(w, kind);
	return move == SEARCHES_NEW;
}

/* ---- entries ------------------------------------------------------------------------------ */

/* The event is told with the lock held: the listener calls nothing of the memory. */
static void tell(struct memory_watch* w, enum memory_event event, int64_t* counter) {
	++*counter;
	if (w->memory->on_event)
		w->memory->on_event(w->memory->on_user, w->number, event, w->task);
}

static struct bank_entry* current(struct memory_watch* w) {
	return w->has_entry ? bank_entry(w->memory->bank, w->entry_task, w->entry_kind, &w->mask) : NULL;
}

/* What an entry is known to reach is the change test's baseline, so that it can start at once. */
static void expect(struct memory_watch* w, const struct bank_entry* e) {
	if (e->record.trials >= 32)
		drift_expect(&w->drift, (double)e->record.accepted, (double)e->record.trials);
	else
		drift_restart(&w->drift);
}

/* From now on this entry is served; w->record starts afresh. */
static void place(struct memory_watch* w, struct bank_entry* e) {
	w->has_entry = true;
	w->mask = e->mask;
	w->entry_kind = e->kind;
	memcpy(w->entry_task, e->task, sizeof w->entry_task);
	memset(&w->record, 0, sizeof w->record);
	expect(w, e);
}

static void open_or_rest(struct memory_watch* w, bool settled) {
	if (!w->search)
		return;
	if (settled)
		search_settle(w->search);
	else if (search_state(w->search) != SEARCH_RUNNING)
		search_reopen(w->search);
}

/* A kind that was served before goes on: with what its search drafts with now, or, where the search is new or
 * another session has settled the matter, with the stored mask. */
static void recall(struct memory_watch* w, struct bank_entry* e) {
	const bool fresh = take_search(w, e->kind);
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
	if (take)
		open_or_rest(w, e->settled);
}

/* The first instance of its kind: a search of its own, which begins with what the prompt tells. */
static void begin_kind(struct memory_watch* w) {
	const int64_t kind = bank_new_kind(w->memory->bank, w->task);
	take_search(w, kind);
	const struct mask now = session_mask(w->session, NULL);
	struct bank_entry* e = bank_entry(w->memory->bank, w->task, kind, &now);
	e->skip_ratio = w->search ? search_skip_ratio(w->search) : 0;
	place(w, e);
	open_or_rest(w, false);
	tell(w, MEMORY_NEW_KIND, &w->memory->counts.new_kinds);
}

static void find_place(struct memory_watch* w, bool signature_known) {
	const struct bank_signature* s = signature_known ? &w->signature : NULL;
	struct bank_entry* e = bank_find(w->memory->bank, w->task, s);
	if (!e && !signature_known)
		return; /* the prefill will tell */
	w->placed = true;
	if (e)
		recall(w, e);
	else
		begin_kind(w);
	turn_chances(w);
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
	take_news(m);
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
	session_reopen(w->session);
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
	if (drift_add(&w->drift, accepted, steps) == DRIFT_FALL && w->search)
		fell(w);
}

/* The search has found a better mask: it becomes this kind's entry. How long the kind has been searched
 * goes on counting. */
static void improved(struct memory_watch* w, const struct mask* now) {
	struct memory* m = w->memory;
	pthread_mutex_lock(&m->lock);
	account(w);
	struct bank_entry* old = current(w);
	const int64_t held = old ? old->record.held : 0, id = old ? old->id : 0;
	if (old) {
		if (old->settled)
			old->changed = true;
		old->settled = false;
	}
	const bool brief = old && old->record.tokens < BRIEF;
	if (brief) /* a mask that hardly served is not worth a place */
		bank_remove(m->bank, id);
	struct bank_entry* e = bank_entry(m->bank, w->task, w->entry_kind, now);
	e->skip_ratio = search_skip_ratio(w->search);
	const struct bank_record carried = {.held = held - e->record.held};
	bank_add(m->bank, e, &carried, NULL);
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
	const bool good = w->drift.trials >= PROVEN / 2 && drift_baseline(&w->drift) >= GOOD;
	const bool long_enough = held >= (good ? MEMORY_HOLD : 4 * MEMORY_HOLD);
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
	if (!w->search)
		return;
	take_improvement(w);
}

/* What the text told of influence waits for the store, with its kind. */
static void note_influence(struct memory_watch* w) {
	const struct influence* text = session_text_influence(w->session);
	if (!w->memory->store || !w->has_entry || text->rows == 0)
		return;
	if (w->unsaved_kind != w->entry_kind)
		store_unsaved_influence(w);
	w->unsaved_kind = w->entry_kind;
	memcpy(w->unsaved_task, w->entry_task, sizeof w->unsaved_task);
	influence_join(&w->unsaved_influence, text, w->memory->model.blocks);
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
	note_influence(w);
	m->counts.trials = w->drift.trials_seen;
	const bool flush = m->store && ++m->unflushed >= FLUSH_INSTANCES;
	pthread_mutex_unlock(&m->lock);
	gather_observations(w);
	if (flush) {
		struct error error;
		memory_flush(m, &error);
		store_observations(w);
		experience_save_costs(m->store, &m->model, m->device, &session_engine(w->session)->cost,
		                      &m->cost_passes, &error);
	}
}

void memory_idle(struct memory_watch* w) {
	if (!w->placed || !w->search)
		return;
	take_improvement(w);
	gather_observations(w);
}

/* ---- storing ------------------------------------------------------------------------------ */

static bool write_changed(struct memory* m, struct error* e) {
	struct bank_entry* changed = malloc(BANK_CAPACITY * sizeof *changed);
	if (!changed)
		return error_set(e, "out of memory");
	int n = 0;
	for (int i = 0; i < m->bank->n; i++)
		if (m->bank->entry[i].changed && m->bank->entry[i].record.tokens > 0)
			changed[n++] = m->bank->entry[i];
	const bool good = store_add_all(m->store, &m->model, changed, n, e) &&
	                  store_trim(m->store, m->model.fingerprint, BANK_CAPACITY, BANK_A_KIND, e);
	for (int i = 0; good && i < m->bank->n; i++) {
		struct bank_entry* entry = &m->bank->entry[i];
		if (entry->record.tokens == 0)
			continue;
		memset(&entry->unsaved, 0, sizeof entry->unsaved);
		memset(&entry->unsaved_signature, 0, sizeof entry->unsaved_signature);
		entry->changed = false;
	}
	free(changed);
	return good;
}

bool memory_flush(struct memory* m, struct error* e) {
	if (!m->store)
		return true;
	pthread_mutex_lock(&m->lock);
	const bool good = write_changed(m, e);
	m->unflushed = 0;
	m->counts.store_failed = !good;
	if (!good)
		snprintf(m->counts.store_message, sizeof m->counts.store_message, "%s", e->message);
	pthread_mutex_unlock(&m->lock);
	return good;
}

void memory_counts(struct memory* m, struct memory_counts* out) {
	pthread_mutex_lock(&m->lock);
	*out = m->counts;
	out->entries = m->bank->n;
	out->merges = m->bank->merges;
	out->evictions = m->bank->evictions;
	if (m->store)
		store_state(m->store, &out->store);
	pthread_mutex_unlock(&m->lock);
}

/* ---- the bank from outside ---------------------------------------------------------------- */

void memory_each(struct memory* m, void (*visit)(void*, const struct bank_entry*), void* user) {
	pthread_mutex_lock(&m->lock);
	for (int i = 0; i < m->bank->n; i++)
		visit(user, &m->bank->entry[i]);
	pthread_mutex_unlock(&m->lock);
}

bool memory_put(struct memory* m, const struct bank_entry* given, int64_t* id, struct error* e) {
	pthread_mutex_lock(&m->lock);
	struct bank_entry put = *given;
	put.kind = bank_kind(m->bank, given->task, &given->mask);
	bool good = !m->store || store_put(m->store, &m->model, &put, NULL, e);
	if (good) {
		struct bank_entry* entry = bank_entry(m->bank, given->task, put.kind, &given->mask);
		entry->record = given->record;
		entry->skip_ratio = given->skip_ratio;
		entry->settled = given->settled;
		memset(&entry->unsaved, 0, sizeof entry->unsaved);
		entry->changed = false;
		*id = entry->id;
	}
	pthread_mutex_unlock(&m->lock);
	return good;
}

struct sought {
	const struct bank_entry* entry;
	int64_t id;
};
static bool seek(void* user, const struct store_mask* stored) {
	struct sought* s = user;
	const struct bank_entry* e = &stored->entry;
	if (strcmp(e->task, s->entry->task) != 0 || !mask_equal(&e->mask, &s->entry->mask) ||
	    (!e->task[0] && e->kind != s->entry->kind))
		return true;
	s->id = stored->id;
	return false;
}

int memory_remove(struct memory* m, int64_t id, struct error* e) {
	pthread_mutex_lock(&m->lock);
	int found = 0;
	for (int i = 0; i < m->bank->n && !found; i++) {
		struct bank_entry* entry = &m->bank->entry[i];
		if (entry->id != id)
			continue;
		found = 1;
		struct sought sought = {.entry = entry};
		if (m->store && (!store_each(m->store, m->model.fingerprint, seek, &sought, e) ||
		                 (sought.id && store_delete(m->store, sought.id, e) < 0)))
			found = -1;
		else
			bank_remove(m->bank, id);
	}
	pthread_mutex_unlock(&m->lock);
	return found;
}
