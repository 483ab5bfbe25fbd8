/* Follows a session's texts one after another: the workload cluster of each, the mask and search that it
 * begins with, and what it adds to the store. */
#include "streams/memory/memory_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/report.h"

/* Instances between two flushes. */
enum { FLUSH_INSTANCES = 4 };

struct memory_watch {
	struct memory* memory;
	swiftlet_session* session;
	struct search* search; /* NULL: no search; only figures are kept */
	int number;
	char task[BANK_TASK];
	bool placed; /* the instance's cluster is known */
	/* of the entry that is served, or, until the instance has a cluster, of the last one served: */
	struct mask mask;
	char entry_task[BANK_TASK];
	int64_t entry_cluster; /* 0: there was none */
	struct bank_signature signature;
	struct bank_record record; /* of this instance, since it got its cluster or the entry was last updated */
	struct drift drift;
	int64_t round_seen;     /* session_last_round's count */
	int steps_seen;         /* search_steps */
	int64_t search_cluster; /* the search is of; 0: of none yet */
};

/* ---- searches ------------------------------------------------------------------------------ */

static struct cluster_search* find_search(struct searches* s, int64_t cluster) {
	for (int i = 0; i < SEARCHES; i++)
		if (s->kept[i].cluster == cluster)
			return &s->kept[i];
	return NULL;
}

/* Keeps a search that belongs to a cluster. If two sessions have searched for one cluster at the same time,
 * the search with more steps is kept. */
static void keep_search(struct searches* s, const struct cluster_search* last) {
	struct cluster_search* at = last->cluster ? find_search(s, last->cluster) : NULL;
	if (last->cluster == 0 || (at && search_steps(at->search) > search_steps(last->search))) {
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

/* Continues the search of this cluster. True when it is a new one. */
static bool continue_search(struct memory_watch* w, int64_t cluster) {
	struct searches* s = &memory_common(w->memory)->searches;
	struct cluster_search* const kept = find_search(s, cluster);
	struct cluster_search last = {.cluster = w->search_cluster}, next = {.cluster = 0};
	if (!w->search || last.cluster == cluster)
		return false;
	if (kept || last.cluster != 0) { /* the first cluster takes the session's own search */
		if (kept) {
			next = *kept;
			*kept = (struct cluster_search){.cluster = 0};
		} else if (!(next.search = session_new_search(w->session))) {
			return false;
		}
		last.search = session_swap_search(w->session, next.search);
		keep_search(s, &last);
	}
	w->search_cluster = cluster;
	take_up_search(w);
	return !kept;
}

/* Keeps the search with its cluster, and gives the session a new one without data. */
static void leave_search(struct memory_watch* w) {
	struct cluster_search last = {.cluster = w->search_cluster};
	last.search = session_forget(w->session);
	if (last.search) {
		keep_search(&memory_common(w->memory)->searches, &last);
		w->search_cluster = 0;
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
	drift_open(&w->drift);
	if (m->store && !m->device[0]) { /* the first session */
		struct engine* engine = session_engine(session);
		statistics_device(m->device, engine);
		statistics_load_costs(m->store, &m->model, m->device, &engine->cost);
		m->cost_passes = engine->cost.passes;
	}
	session_want_signature(session);
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
	leave_search(w);
	w->memory = to;
	w->placed = false;
	w->entry_cluster = 0;
	drift_open(&w->drift);
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

/* The entry that serves the instance, once it has a cluster. */
static struct bank_entry* current_entry(struct memory_watch* w) {
	return bank_entry(w->memory->bank, w->entry_task, w->entry_cluster, &w->mask);
}

/* Serves this entry from now on. The change test takes its known acceptance as the baseline, so that it can
 * start at once. */
static void serve_entry(struct memory_watch* w, const struct bank_entry* e) {
	w->mask = e->mask;
	w->entry_cluster = e->cluster;
	memcpy(w->entry_task, e->task, sizeof w->entry_task);
	drift_expect(&w->drift, (double)e->record.accepted, (double)e->record.trials);
}

/* Continues a cluster that was served before, with its search's present mask. If the search is new, or if
 * another session has converged on the stored mask, it continues with that mask. */
static void recall_entry(struct memory_watch* w, struct bank_entry* e) {
	const bool fresh = continue_search(w, e->cluster);
	const struct mask now = session_mask(w->session, NULL);
	const bool running = w->search && search_state(w->search) == SEARCH_RUNNING;
	const bool take = !w->search || fresh || (e->converged && running);
	if (!take && !mask_equal(&now, &e->mask)) {
		const bool converged = e->converged;
		e = bank_entry(w->memory->bank, e->task, e->cluster, &now);
		e->skip_ratio = search_skip_ratio(w->search);
		e->converged |= converged && !running;
	}
	const bool same = mask_equal(&now, &e->mask);
	const bool goes_on = same && w->entry_cluster == e->cluster && mask_equal(&w->mask, &now);
	if (!goes_on) /* else the change test runs on from instance to instance */
		serve_entry(w, e);
	if (!same) {
		session_set_mask(w->session, &e->mask);
		emit_event(w, MEMORY_RECALLED, &w->memory->counts.recalled);
	}
	if (take && w->search && e->converged)
		search_settle(w->search);
}

/* Begins a new cluster: a search of its own. */
static void begin_cluster(struct memory_watch* w) {
	const int64_t cluster = bank_cluster(w->memory->bank, w->task, NULL);
	continue_search(w, cluster);
	const struct mask now = session_mask(w->session, NULL);
	struct bank_entry* e = bank_entry(w->memory->bank, w->task, cluster, &now);
	e->skip_ratio = w->search ? search_skip_ratio(w->search) : 0;
	serve_entry(w, e);
	emit_event(w, MEMORY_NEW_CLUSTER, &w->memory->counts.new_clusters);
}

/* Copies an entry of the common memory for a cluster that is new to the tenant. The copy has a record of its
 * own. NULL: the common memory does not know the cluster. */
static struct bank_entry* take_common(struct memory_watch* w, const struct bank_signature* s) {
	struct memory* const common = w->memory->common;
	if (!common)
		return NULL;
	pthread_mutex_lock(&common->lock);
	memory_take_news(common);
	const struct bank_entry* known = bank_find(common->bank, w->task, s);
	struct bank_entry* e = NULL;
	if (known) {
		e = bank_entry(w->memory->bank, w->task, -1, &known->mask);
		e->skip_ratio = known->skip_ratio;
		e->converged = known->converged;
		e->signature = known->signature;
	}
	pthread_mutex_unlock(&common->lock);
	return e;
}

static void find_place(struct memory_watch* w, bool signature_known) {
	const struct bank_signature* s = signature_known ? &w->signature : NULL;
	struct bank_entry* e = bank_find(w->memory->bank, w->task, s);
	if (!e)
		e = take_common(w, s);
	if (!e && !signature_known)
		return; /* the prefill will show it */
	w->placed = true;
	if (e)
		recall_entry(w, e);
	else
		begin_cluster(w);
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

/* Adds the instance's figures to its entry; signature: NULL until it ends. */
static struct bank_entry* record_instance(struct memory_watch* w, const struct bank_signature* signature) {
	struct bank_entry* e = current_entry(w);
	bank_add(w->memory->bank, e, &w->record, signature);
	memset(&w->record, 0, sizeof w->record);
	return e;
}

/* Handles drift: a new search begins. The old one's mask stays in the bank. */
static void restart_search(struct memory_watch* w) {
	struct memory* m = w->memory;
	pthread_mutex_lock(&m->lock);
	struct bank_entry* e = record_instance(w, NULL);
	e->converged = false;
	bank_add(m->bank, e, &(struct bank_record){.held = -e->record.held}, NULL);
	emit_event(w, MEMORY_DRIFT, &m->counts.drifts);
	pthread_mutex_unlock(&m->lock);
	struct search* const fresh = session_new_search(w->session);
	if (!fresh)
		return;
	search_close(session_swap_search(w->session, fresh));
	take_up_search(w);
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
		restart_search(w);
}

/* Stores a better mask of the search as this cluster's entry. */
static void take_better_mask(struct memory_watch* w, const struct mask* now) {
	struct memory* m = w->memory;
	pthread_mutex_lock(&m->lock);
	record_instance(w, NULL)->converged = false;
	struct bank_entry* e = bank_entry(m->bank, w->task, w->entry_cluster, now);
	e->skip_ratio = search_skip_ratio(w->search);
	serve_entry(w, e);
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
		w->record.rows = session_options(w->session)->learning.window;
		w->record.matches = lround(f.matchness * (double)w->record.rows);
	}
	if (isfinite(figures_speedup(&f))) {
		w->record.micros = llround(f.seconds.decode * 1e6);
		w->record.plain_micros = llround(f.seconds.decode * figures_speedup(&f) * 1e6);
	}
	pthread_mutex_lock(&m->lock);
	record_instance(w, &w->signature);
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
