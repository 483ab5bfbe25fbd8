/* Shared by the memory's files: memory.c (the memory of a model: bank, store, public functions) and
 * memory_watch.c (a session's texts, one after another, and its searches). */
#pragma once

#include <pthread.h>

#include "optimizer/optimizer.h"
#include "streams/memory/memory.h"
#include "streams/memory/statistics.h"

/* ---- searches --------------------------------------------------------------------------- */

/* The searches of workload clusters that are not served at present, of all sessions together.
 *
 * A session has one search, its present one. When it changes to another workload cluster, its search is kept
 * here, and the next session that changes to that cluster continues it. A full list drops the search that was
 * unused the longest. A search has a thread and grows to some twenty megabytes, so their number is bounded by
 * sessions and these places, not by sessions times clusters. */
enum { SEARCHES = 8 };

struct cluster_search {
	int64_t cluster;       /* 0: a free place */
	struct search* search; /* NULL: a free place */
	int64_t used;
};

struct searches {
	struct cluster_search kept[SEARCHES];
	int64_t uses;
};

/* ---- the memory --------------------------------------------------------------------------- */

/* True when a mask's acceptance is good enough to keep it early. */
static inline bool memory_drafts_well(const struct bank_record* r) {
	return r->trials > 0 && (double)r->accepted >= 0.93 * (double)r->trials;
}

struct memory {
	pthread_mutex_t lock; /* of the bank, the searches, the counts and the unsaved data */
	struct store_model model;
	int dim;
	struct bank* bank;
	struct memory*
	    common;          /* NULL: this is the common memory, which owns store, searches, costs and listener */
	struct memory* next; /* another tenant's */
	int tenant;
	struct acceptance* acceptance; /* of its sessions that have changed to other tenants; NULL: none */
	struct searches searches;
	struct store* store;
	struct memory_counts counts;
	int unflushed;      /* instances since the last flush */
	int64_t generation; /* the store's change number when the bank was last read */
	char device[STORE_DEVICE];
	int64_t cost_passes; /* whose costs are stored */
	void (*on_event)(void*, int, enum memory_event, const char*);
	void* on_user;
};

/* The memory that all tenants share. */
static inline struct memory* memory_common(struct memory* m) { return m->common ? m->common : m; }

/* memory.c */
/* Reads what other replicas have stored since. Call with the lock held, or before other threads see the
 * memory. */
void memory_take_news(struct memory*);
