/* Finds, adds, merges and evicts entries; bank.h describes them. */
#include "streams/memory/bank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "kernels/synth_value.h"

struct bank* bank_open(int capacity) {
	if (capacity < 1 || capacity > BANK_CAPACITY)
		return NULL;
	struct bank* b = calloc(1, sizeof *b + (size_t)capacity * sizeof b->entry[0]);
	if (!b)
		return NULL;
	b->capacity = capacity;
	b->next_id = 1;
	uint64_t first = 0;
	if (getrandom(&first, sizeof first, 0) != sizeof first)
		first = (uint64_t)(uintptr_t)b; /* the clusters of two processes may meet here: they share an entry */
	b->next_cluster = (int64_t)(first >> 2) + 1;
	return b;
}

void bank_close(struct bank* b) { free(b); }

/* ---- signatures --------------------------------------------------------------------------- */

/* Every input adds to each output with a random sign. One number gives 64 signs. */
static void project_state(float* out, const float* state, int dim) {
	for (int i = 0; i < dim; i++)
		for (int w = 0; w < BANK_SIGNATURE / 64; w++) {
			const uint64_t signs =
			    synth_mix(((uint64_t)i * (BANK_SIGNATURE / 64) + (uint64_t)w) * 0x9E3779B97F4A7C15u);
			for (int k = 0; k < 64; k++)
				out[w * 64 + k] += (signs >> k) & 1 ? state[i] : -state[i];
		}
}

void bank_signature(struct bank_signature* s, const float* state, int dim) {
	memset(s, 0, sizeof *s);
	if (!state || dim < 1)
		return;
	if (dim <= BANK_SIGNATURE)
		memcpy(s->value, state, (size_t)dim * sizeof *state);
	else
		project_state(s->value, state, dim);
	double norm = 0;
	for (int i = 0; i < BANK_SIGNATURE; i++)
		norm += (double)s->value[i] * s->value[i];
	if (!isfinite(norm) || !(norm > 0)) {
		memset(s, 0, sizeof *s);
		return;
	}
	const float scale = (float)(1 / sqrt(norm));
	for (int i = 0; i < BANK_SIGNATURE; i++)
		s->value[i] *= scale;
	s->prompts = 1;
}

void bank_signature_add(struct bank_signature* to, const struct bank_signature* from) {
	for (int i = 0; i < BANK_SIGNATURE; i++)
		to->value[i] += from->value[i];
	to->prompts += from->prompts;
}

/* Cosine of two signatures after subtracting the bank's common mean; 0 when either is empty. */
static double compare_signatures(const struct bank* b, const struct bank_signature* x,
                                 const struct bank_signature* y) {
	if (!(x->prompts > 0) || !(y->prompts > 0))
		return 0;
	/* With few prompts the common mean consists mostly of these two, so only a part of it is subtracted. */
	const double common = b->common.prompts > 0 ? 1 / b->common.prompts : 0;
	const double share = b->common.prompts / (b->common.prompts + 4);
	double xy = 0, xx = 0, yy = 0;
	for (int i = 0; i < BANK_SIGNATURE; i++) {
		const double mean = share * b->common.value[i] * common;
		const double p = x->value[i] / x->prompts - mean, q = y->value[i] / y->prompts - mean;
		xy += p * q;
		xx += p * p;
		yy += q * q;
	}
	return xx > 1e-12 && yy > 1e-12 ? xy / sqrt(xx * yy) : 0;
}

/* ---- finding ------------------------------------------------------------------------------ */

static bool same_task(const struct bank_entry* e, const char* task) {
	return task && *task && strncmp(e->task, task, BANK_TASK - 1) == 0;
}

/* True when a is the better entry of the cluster that both share. */
static bool better_known(const struct bank_entry* a, const struct bank_entry* b) {
	if (a->converged != b->converged)
		return a->converged;
	if (a->touched != b->touched)
		return a->touched > b->touched;
	return a->record.tokens > b->record.tokens;
}

/* The cluster's entries that are compared: all but those with another label, when both have one. */
static bool is_open_to(const struct bank_entry* e, bool labelled) { return !labelled || !e->task[0]; }

static struct bank_entry* find_best_known(struct bank* b, int64_t cluster, bool labelled) {
	struct bank_entry* found = NULL;
	for (int i = 0; i < b->n; i++) {
		struct bank_entry* e = &b->entry[i];
		if (e->cluster == cluster && is_open_to(e, labelled) && (!found || better_known(e, found)))
			found = e;
	}
	return found;
}

/* The sum of signatures of a cluster's prompts. */
static struct bank_signature cluster_signature(const struct bank* b, int64_t cluster, bool labelled) {
	struct bank_signature sum = {.prompts = 0};
	for (int i = 0; i < b->n; i++)
		if (b->entry[i].cluster == cluster && is_open_to(&b->entry[i], labelled))
			bank_signature_add(&sum, &b->entry[i].signature);
	return sum;
}

struct bank_entry* bank_find(struct bank* b, const char* task, const struct bank_signature* s) {
	struct bank_entry* found = NULL;
	const bool labelled = task && *task;
	for (int i = 0; i < b->n; i++) {
		struct bank_entry* e = &b->entry[i];
		if (same_task(e, task) && (!found || better_known(e, found)))
			found = e;
	}
	if (found || !s)
		return found;
	double best = BANK_AGREES;
	for (int i = 0; i < b->n; i++) {
		struct bank_entry* e = &b->entry[i];
		if (find_best_known(b, e->cluster, labelled) != e)
			continue; /* one speaks for its cluster */
		const struct bank_signature all = cluster_signature(b, e->cluster, labelled);
		const double agrees = compare_signatures(b, &all, s);
		if (agrees >= best) {
			best = agrees;
			found = e;
		}
	}
	return found;
}

/* ---- entries ------------------------------------------------------------------------------ */

void bank_tick(struct bank* b) { b->clock++; }

/* The value that eviction compares: tokens served, halved for each 512 instances without use. */
static double rate_entry(const struct bank* b, const struct bank_entry* e) {
	return (double)(e->record.tokens + 1) * exp2(-(double)(b->clock - e->last_used) / 512);
}

static void record_add(struct bank_record* to, const struct bank_record* from) {
	for (int i = 0; i < BANK_SUMS; i++)
		to->sum[i] += from->sum[i];
}

/* A label has one cluster; without a label 0 stands for any cluster. */
static struct bank_entry* find_entry(struct bank* b, const char* task, int64_t cluster,
                                     const struct mask* mask) {
	for (int i = 0; i < b->n; i++) {
		struct bank_entry* e = &b->entry[i];
		const bool same_cluster = *task || cluster == 0 || e->cluster == cluster;
		if (same_cluster && mask_equal(&e->mask, mask) && strncmp(e->task, task, BANK_TASK - 1) == 0)
			return e;
	}
	return NULL;
}

static void drop_entry(struct bank* b, int index) {
	b->n--;
	if (index != b->n)
		b->entry[index] = b->entry[b->n];
}

/* The label's cluster if it has one, else the given one, else a new one. */
static int64_t cluster_of(struct bank* b, const char* task, int64_t given) {
	for (int i = 0; i < b->n && *task; i++)
		if (strcmp(b->entry[i].task, task) == 0)
			return b->entry[i].cluster;
	return given > 0 ? given : b->next_cluster++;
}

/* The index of the least useful entry, of all (cluster 0) or of one cluster. */
static int find_least_useful(const struct bank* b, int64_t cluster) {
	int least = -1;
	for (int i = 0; i < b->n; i++)
		if ((!cluster || b->entry[i].cluster == cluster) &&
		    (least < 0 || rate_entry(b, &b->entry[i]) < rate_entry(b, &b->entry[least])))
			least = i;
	return least;
}

/* The entry that makes room for another of this cluster. A cluster with many masks evicts its own, and not
 * other clusters'. NULL: there is room. */
static const struct bank_entry* find_entry_to_evict(const struct bank* b, int64_t cluster) {
	int n = 0;
	for (int i = 0; i < b->n; i++)
		n += b->entry[i].cluster == cluster;
	const bool crowded = n >= BANK_PER_CLUSTER;
	return crowded || b->n == b->capacity ? &b->entry[find_least_useful(b, crowded ? cluster : 0)] : NULL;
}

static struct bank_entry* append_entry(struct bank* b, int64_t cluster) {
	const struct bank_entry* least = find_entry_to_evict(b, cluster);
	if (least) {
		b->evictions++;
		drop_entry(b, (int)(least - b->entry));
	}
	struct bank_entry* e = &b->entry[b->n++];
	memset(e, 0, sizeof *e);
	e->id = b->next_id++;
	e->cluster = cluster;
	e->last_used = b->clock;
	return e;
}

struct bank_entry* bank_entry(struct bank* b, const char* task, int64_t cluster, const struct mask* mask) {
	char own[BANK_TASK]; /* `given` may point to an entry here, which moves when another makes room */
	snprintf(own, sizeof own, "%.*s", BANK_TASK - 1, task ? task : "");
	task = own;
	struct bank_entry* e = find_entry(b, task, cluster, mask);
	if (!e) {
		e = append_entry(b, cluster_of(b, task, cluster));
		memcpy(e->task, own, sizeof own);
		e->mask = *mask;
		e->changed = true;
	}
	e->last_used = b->clock;
	e->touched = ++b->touches;
	return e;
}

int64_t bank_cluster(struct bank* b, const char* task, const struct mask* mask) {
	const struct bank_entry* e = mask ? find_entry(b, task, 0, mask) : NULL;
	return e ? e->cluster : cluster_of(b, task, 0);
}

void bank_add(struct bank* b, struct bank_entry* e, const struct bank_record* r,
              const struct bank_signature* s) {
	record_add(&e->record, r);
	record_add(&e->unsaved, r);
	if (s && s->prompts > 0) {
		bank_signature_add(&e->signature, s);
		bank_signature_add(&e->unsaved_signature, s);
		bank_signature_add(&b->common, s);
	}
	e->changed = true;
}

static bool add_stored_entry(struct bank* b, const struct bank_entry* stored) {
	if (stored->signature.prompts > 0)
		bank_signature_add(&b->common, &stored->signature);
	const int64_t cluster = cluster_of(b, stored->task, stored->cluster);
	const struct bank_entry* least = find_entry_to_evict(b, cluster);
	if (least && rate_entry(b, least) >= (double)(stored->record.tokens + 1))
		return false;
	struct bank_entry* e = append_entry(b, cluster);
	const int64_t id = e->id;
	*e = *stored;
	e->task[BANK_TASK - 1] = '\0';
	e->id = id;
	e->cluster = cluster;
	e->last_used = b->clock;
	e->touched = 0;
	e->changed = false;
	memset(&e->unsaved, 0, sizeof e->unsaved);
	memset(&e->unsaved_signature, 0, sizeof e->unsaved_signature);
	return true;
}

bool bank_restore(struct bank* b, const struct bank_entry* stored) {
	struct bank_entry* e = find_entry(b, stored->task, stored->cluster, &stored->mask);
	if (!e)
		return add_stored_entry(b, stored);
	e->record = stored->record;
	record_add(&e->record, &e->unsaved);
	e->signature = stored->signature;
	bank_signature_add(&e->signature, &e->unsaved_signature);
	e->converged |= stored->converged;
	return true;
}

void bank_remove(struct bank* b, int64_t id) {
	for (int i = 0; i < b->n; i++)
		if (b->entry[i].id == id) {
			drop_entry(b, i);
			return;
		}
}
