/* The memory of a model: its bank, its store and their interface; memory.h explains what happens when. */
#include "streams/memory/memory_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char* memory_event_name(enum memory_event event) {
	static const char* const name[] = {"recalled", "new-kind", "improved", "settled", "drift"};
	return name[event];
}

/* ---- opening and closing ------------------------------------------------------------------ */

/* A mask that an earlier process served long and that drafted well is kept without further search, although
 * its search had not ended. The change test starts it again. */
static bool served_well(const struct bank_record* r) {
	return r->tokens >= MEMORY_HOLD / 2 && memory_drafts_well(r);
}

/* Merges a stored entry with what is unsaved here. */
static bool merge_entry(void* user, const struct store_mask* stored) {
	struct memory* m = user;
	struct bank_entry entry = stored->entry;
	entry.converged |= served_well(&entry.record);
	if (stored->model.blocks == m->model.blocks)
		bank_restore(m->bank, &entry);
	return true;
}

/* Reads what other replicas have learned meanwhile, from the store's copy in memory. */
void memory_take_news(struct memory* m) {
	struct store_state state;
	struct error ignored;
	if (!m->store)
		return;
	store_state(m->store, &state);
	if (state.generation == m->generation)
		return;
	m->generation = state.generation;
	store_each(m->store, m->model.fingerprint, merge_entry, m, &ignored);
}

/* Each memory begins at another number, so that no two tenants' entries share one. */
enum { TENANT_ID_BITS = 40 }; /* bits */

static struct memory* new_memory(struct error* e) {
	struct memory* m = calloc(1, sizeof *m);
	if (!m || !(m->bank = bank_open(BANK_CAPACITY))) {
		free(m);
		error_set(e, "out of memory for a mask bank");
		return NULL;
	}
	pthread_mutex_init(&m->lock, NULL);
	return m;
}

struct memory* memory_for(struct memory* common, int tenant, const char* name, struct error* e) {
	struct memory* m = new_memory(e);
	if (!m)
		return NULL;
	m->common = common;
	m->tenant = tenant;
	m->model = common->model;
	m->dim = common->dim;
	m->store = common->store;
	m->bank->next_id = ((int64_t)tenant << TENANT_ID_BITS) + 1;
	snprintf(m->model.fingerprint, sizeof m->model.fingerprint, "%.64s.%.16s", common->model.fingerprint,
	         name);
	pthread_mutex_lock(&common->lock);
	m->next = common->next;
	common->next = m;
	pthread_mutex_unlock(&common->lock);
	return m->store && !store_each(m->store, m->model.fingerprint, merge_entry, m, e) ? NULL : m;
}

struct memory* memory_of(struct memory* common, int tenant) {
	struct memory* m = tenant > 0 ? common->next : NULL;
	while (m && m->tenant != tenant)
		m = m->next;
	return m ? m : common;
}

struct memory* memory_open(const struct model* model, const char* name, const char* path, struct error* e) {
	struct memory* m = new_memory(e);
	if (!m)
		return NULL;
	snprintf(m->model.fingerprint, sizeof m->model.fingerprint, "%s", model->fingerprint);
	snprintf(m->model.name, sizeof m->model.name, "%s", name);
	m->model.blocks = model->weights.shape.n_blocks;
	m->dim = model->weights.shape.dim;
	if (path && (!(m->store = store_open(path, STORE_SERVE, e)) ||
	             !store_each(m->store, m->model.fingerprint, merge_entry, m, e))) {
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

static void free_memory(struct memory* m) {
	bank_close(m->bank);
	free(m->acceptance);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

void memory_close(struct memory* m) {
	if (!m)
		return;
	struct error e;
	memory_flush(m, &e);
	store_close(m->store);
	for (int i = 0; i < SEARCHES; i++)
		search_close(m->searches.kept[i].search);
	while (m->next) {
		struct memory* const tenants = m->next;
		m->next = tenants->next;
		free_memory(tenants);
	}
	free_memory(m);
}

struct store* memory_store(struct memory* m) {
	return m->store;
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
	const bool good = store_add(m->store, &m->model, changed, n, NULL, e) &&
	                  store_trim(m->store, m->model.fingerprint, BANK_CAPACITY, BANK_PER_CLUSTER, e);
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

static bool flush_memory(struct memory* m, struct error* e) {
	pthread_mutex_lock(&m->lock);
	const bool good = write_changed(m, e);
	m->unflushed = 0;
	m->counts.store_failed = !good;
	if (!good)
		snprintf(m->counts.store_message, sizeof m->counts.store_message, "%s", e->message);
	pthread_mutex_unlock(&m->lock);
	return good;
}

/* The memory to visit after this one: all tenants' follow the common one. */
static struct memory* next_memory(const struct memory* all, struct memory* m) {
	return all->common ? NULL : m->next;
}

bool memory_flush(struct memory* m, struct error* e) {
	bool good = true;
	for (struct memory* each = m; each && m->store; each = next_memory(m, each))
		good &= flush_memory(each, e);
	return good;
}

static void add_counts(struct memory_counts* to, struct memory* m) {
	pthread_mutex_lock(&m->lock);
	const struct memory_counts* c = &m->counts;
	to->recalled += c->recalled;
	to->new_clusters += c->new_clusters;
	to->improved += c->improved;
	to->converged += c->converged;
	to->drifts += c->drifts;
	to->trials += c->trials;
	to->entries += m->bank->n;
	to->evictions += m->bank->evictions;
	if (c->store_failed) {
		to->store_failed = true;
		memcpy(to->store_message, c->store_message, sizeof to->store_message);
	}
	pthread_mutex_unlock(&m->lock);
}

void memory_counts(struct memory* m, struct memory_counts* out) {
	memset(out, 0, sizeof *out);
	for (struct memory* each = m; each; each = next_memory(m, each))
		add_counts(out, each);
	if (m->store)
		store_state(m->store, &out->store);
}

/* ---- the bank from outside ---------------------------------------------------------------- */

static void visit_bank(struct memory* m, void (*visit)(void*, int, const struct bank_entry*), void* user) {
	pthread_mutex_lock(&m->lock);
	for (int i = 0; i < m->bank->n; i++)
		visit(user, m->tenant, &m->bank->entry[i]);
	pthread_mutex_unlock(&m->lock);
}

void memory_each(struct memory* m, void (*visit)(void*, int, const struct bank_entry*), void* user) {
	for (struct memory* each = m; each; each = next_memory(m, each))
		visit_bank(each, visit, user);
	if (m->common)
		visit_bank(m->common, visit, user);
}

bool memory_put(struct memory* m, const struct bank_entry* given, int64_t* id, struct error* e) {
	pthread_mutex_lock(&m->lock);
	struct bank_entry put = *given;
	put.cluster = bank_cluster(m->bank, given->task, &given->mask);
	bool good = !m->store || store_put(m->store, &m->model, &put, NULL, e);
	if (good) {
		struct bank_entry* entry = bank_entry(m->bank, given->task, put.cluster, &given->mask);
		entry->record = given->record;
		entry->skip_ratio = given->skip_ratio;
		entry->converged = given->converged;
		memset(&entry->unsaved, 0, sizeof entry->unsaved);
		entry->changed = false;
		*id = entry->id;
	}
	pthread_mutex_unlock(&m->lock);
	return good;
}

static int remove_from(struct memory* m, int64_t id, struct error* e) {
	pthread_mutex_lock(&m->lock);
	int found = 0;
	for (int i = 0; i < m->bank->n && !found; i++) {
		const struct bank_entry* entry = &m->bank->entry[i];
		if (entry->id != id)
			continue;
		found = !m->store || store_forget(m->store, &m->model, entry, e) ? 1 : -1;
		if (found > 0)
			bank_remove(m->bank, id);
	}
	pthread_mutex_unlock(&m->lock);
	return found;
}

int memory_remove(struct memory* m, int64_t id, struct error* e) {
	int found = 0;
	for (struct memory* each = m; each && !found; each = next_memory(m, each))
		found = remove_from(each, id, e);
	return found;
}
