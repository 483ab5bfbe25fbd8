/* Finds, adds, merges and evicts entries; bank.h describes them. */
#include "streams/memory/bank.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bank* bank_open(int capacity) {
	if (capacity < 1 || capacity > BANK_CAPACITY)
		return NULL;
	struct bank* b = calloc(1, sizeof *b + (size_t)capacity * sizeof b->entry[0]);
	if (!b)
		return NULL;
	b->capacity = capacity;
	b->next_id = 1;
	return b;
}

void bank_close(struct bank* b) { free(b); }

/* ---- finding ------------------------------------------------------------------------------ */

static bool same_task(const struct bank_entry* e, const char* task) {
	return strncmp(e->task, task ? task : "", BANK_TASK - 1) == 0;
}

/* True when a is the better entry of the task that both share. */
static bool better_known(const struct bank_entry* a, const struct bank_entry* b) {
	if (a->converged != b->converged)
		return a->converged;
	if (a->touched != b->touched)
		return a->touched > b->touched;
	return a->record.tokens > b->record.tokens;
}

struct bank_entry* bank_find(struct bank* b, const char* task) {
	struct bank_entry* found = NULL;
	for (struct bank_entry* e = b->entry; e < b->entry + b->n; e++)
		if (same_task(e, task) && (!found || better_known(e, found)))
			found = e;
	return found;
}

struct bank_entry* bank_most_used(struct bank* b) {
	struct bank_entry* found = NULL;
	for (struct bank_entry* e = b->entry; e < b->entry + b->n; e++)
		if (!found || e->record.tokens > found->record.tokens)
			found = e;
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

static struct bank_entry* find_entry(struct bank* b, const char* task, const struct mask* mask) {
	for (struct bank_entry* e = b->entry; e < b->entry + b->n; e++)
		if (mask_equal(&e->mask, mask) && same_task(e, task))
			return e;
	return NULL;
}

static void drop_entry(struct bank* b, int index) {
	b->n--;
	if (index != b->n)
		b->entry[index] = b->entry[b->n];
}

/* The index of the least useful entry, of all (NULL) or of one task. */
static int least_useful(const struct bank* b, const char* task) {
	int least = -1;
	for (int i = 0; i < b->n; i++)
		if ((!task || same_task(&b->entry[i], task)) &&
		    (least < 0 || rate_entry(b, &b->entry[i]) < rate_entry(b, &b->entry[least])))
			least = i;
	return least;
}

/* The entry that makes room for another of this task. A task with many masks evicts its own, and not other
 * tasks'. NULL: there is room. */
static const struct bank_entry* in_the_way(const struct bank* b, const char* task) {
	int n = 0;
	for (int i = 0; i < b->n; i++)
		n += same_task(&b->entry[i], task);
	const bool crowded = n >= BANK_PER_TASK;
	return crowded || b->n == b->capacity ? &b->entry[least_useful(b, crowded ? task : NULL)] : NULL;
}

static struct bank_entry* append_entry(struct bank* b, const char* task) {
	const struct bank_entry* least = in_the_way(b, task);
	if (least) {
		b->evictions++;
		drop_entry(b, (int)(least - b->entry));
	}
	struct bank_entry* e = &b->entry[b->n++];
	memset(e, 0, sizeof *e);
	e->id = b->next_id++;
	e->last_used = b->clock;
	return e;
}

struct bank_entry* bank_entry(struct bank* b, const char* task, const struct mask* mask) {
	char own[BANK_TASK]; /* `task` may point to an entry here, which moves when another makes room */
	snprintf(own, sizeof own, "%.*s", BANK_TASK - 1, task ? task : "");
	struct bank_entry* e = find_entry(b, own, mask);
	if (!e) {
		e = append_entry(b, own);
		memcpy(e->task, own, sizeof own);
		e->mask = *mask;
		e->changed = true;
	}
	e->last_used = b->clock;
	e->touched = ++b->touches;
	return e;
}

void bank_add(struct bank_entry* e, const struct bank_record* r) {
	record_add(&e->record, r);
	record_add(&e->unsaved, r);
	e->changed = true;
}

static bool take_up(struct bank* b, const struct bank_entry* stored) {
	const struct bank_entry* least = in_the_way(b, stored->task);
	if (least && rate_entry(b, least) >= (double)(stored->record.tokens + 1))
		return false;
	struct bank_entry* e = append_entry(b, stored->task);
	const int64_t id = e->id;
	*e = *stored;
	e->task[BANK_TASK - 1] = '\0';
	e->id = id;
	e->last_used = b->clock;
	e->touched = 0;
	e->changed = false;
	memset(&e->unsaved, 0, sizeof e->unsaved);
	return true;
}

bool bank_restore(struct bank* b, const struct bank_entry* stored) {
	struct bank_entry* e = find_entry(b, stored->task, &stored->mask);
	if (!e)
		return take_up(b, stored);
	e->record = stored->record;
	record_add(&e->record, &e->unsaved);
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
