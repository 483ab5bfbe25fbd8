/* The memory between instances: the bank, the drift test and the store, attached to sessions from outside.
 *
 * A driver (`stream`, the service) notifies a watch when an instance begins, after each step, and when it
 * ends. The label names the instance's workload cluster at the beginning; without a label the signature does,
 * once the prefill is done. The session then continues the search of that cluster (memory_watch.c). A cluster
 * has converged when its search has ended, or when its mask has held for MEMORY_HOLD tokens without drift and
 * drafts well (four times as many tokens when it does not). Nothing is proposed for a converged cluster. The
 * change test (streams/memory/drift.h) watches every verify pass. When acceptance has drifted, the search
 * starts anew. A mask that drafted well in an earlier process counts as converged.
 *
 * One memory serves several sessions of one model. Calls on watches come from one thread; all other calls may
 * come from any thread.
 *
 * Each tenant has a memory of its own beside the common one, in the same store. Its texts are remembered for
 * its own requests only. A cluster that the tenant has never shown starts from the common memory, which is
 * the operator's and which no tenant's text changes. */
#pragma once

#include "core/decode/options.h"
#include "core/model/model.h"
#include "streams/memory/bank.h"
#include "streams/memory/drift.h"
#include "streams/memory/store.h"

enum { MEMORY_HOLD = 1024 };

enum memory_event {
	MEMORY_RECALLED,    /* a stored mask was taken up */
	MEMORY_NEW_CLUSTER, /* a workload cluster without a known mask */
	MEMORY_IMPROVED,    /* the search found a better mask */
	MEMORY_CONVERGED,   /* the mask has held: the search rests */
	MEMORY_DRIFT        /* acceptance drifted: the search starts anew */
};
const char* memory_event_name(enum memory_event);

struct memory_counts {
	int64_t recalled, new_clusters, improved, converged, drifts;
	int64_t trials; /* of the change test */
	int entries;
	int64_t evictions;
	bool store_failed; /* the last write failed; its data is kept for the next one */
	char store_message[512];
	struct store_state store; /* of one that others share */
};

struct memory;
struct memory_watch;

/* path NULL: nothing is stored. The model must outlive the memory. NULL with the error set. */
struct memory* memory_open(const struct model*, const char* name, const char* path, struct error*);
/* The memory of a tenant (> 0, opened once each). The store knows it by `name`: hex digits, of which 16
 * count. It is closed with the common memory. NULL with the error set. */
struct memory* memory_for(struct memory* common, int tenant, const char* name, struct error*);
/* The tenant's memory if it has one, else the common one. */
struct memory* memory_of(struct memory* common, int tenant);
/* on_event may be NULL; it is called on the watches' thread. */
void memory_on_event(struct memory*,
                     void (*on_event)(void* user, int session, enum memory_event, const char* task),
                     void* user);
/* Stores what is unsaved. A failure is reported by memory_counts only. */
void memory_close(struct memory*);
struct store* memory_store(struct memory*); /* NULL when there is none */

/* NULL on no memory. The session must outlive the watch. `session_number` names it in events. */
struct memory_watch* memory_attach(struct memory*, swiftlet_session*, int session_number);
void memory_detach(struct memory_watch*);

/* From now on the session's texts belong to another tenant. Its statistics stay with the old one. Call
 * between instances. */
void memory_move(struct memory_watch*, struct memory* to);
void memory_begin(struct memory_watch*, const char* task); /* after swiftlet_session_start */
void memory_step(struct memory_watch*, const struct swiftlet_step*);
void memory_end(struct memory_watch*);
void memory_idle(struct memory_watch*); /* after idle search: takes its results */

/* Writes what is unsaved, of tenants too if this is the common memory. False with the error set; a failure
 * loses nothing. */
bool memory_flush(struct memory*, struct error*);
/* The common memory's counts include all tenants'. */
void memory_counts(struct memory*, struct memory_counts*);

/* ---- the bank from outside (any thread) --------------------------------------------------- */

/* Visits the entries that the memory's tenant may see, with their tenant (0: common): its own and the common
 * ones, or all of them for the common memory. */
void memory_each(struct memory*, void (*visit)(void* user, int tenant, const struct bank_entry*), void* user);
/* Adds a mask as an entry for a task ("": none) with a record. Stored at once if there is a store. */
bool memory_put(struct memory*, const struct bank_entry*, int64_t* id, struct error*);
/* 1: removed, from the store too; 0: no such entry; -1 with the error set. id: the bank's. The common memory
 * may remove any entry. */
int memory_remove(struct memory*, int64_t id, struct error*);
