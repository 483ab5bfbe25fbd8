/* What is remembered between instances: the bank, drift and the store, attached to sessions from outside.
 *
 * A driver (`stream`, the service) tells a watch when an instance begins, after each step, and when it
 * ends. At the beginning, by label, or once the prefill has shown what workload cluster it is, by signature,
 * the session goes on with the search of that cluster (memory_watch.c); a cluster never seen begins with the
 * influence its first prompt shows. A workload cluster whose mask has held for MEMORY_HOLD tokens without
 * drift and drafts well (four times as many where it does not), or whose search has ended, has converged on
 * its mask, and nothing is proposed while it holds. The change test (streams/memory/drift.h) watches every
 * verify pass; after a fall the cluster is searched for anew, from the influence that the turned text shows.
 * What a process ended with on a cluster that drafted well counts as converged in the next.
 *
 * One memory serves several sessions of one model. Calls on watches come from one thread; the others
 * may come from any.
 *
 * Where requests belong to tenants, each has a memory of its own beside the common one, in the same store:
 * what its texts have shown is recalled for its texts alone. A cluster that it knows nothing of begins with
 * what the common memory knows, which is the operator's, and which no tenant's text changes. */
#ifndef SWIFTLET_STREAMS_MEMORY_MEMORY_H
#define SWIFTLET_STREAMS_MEMORY_MEMORY_H

#include "core/model/model.h"
#include "streams/memory/bank.h"
#include "streams/memory/drift.h"
#include "streams/memory/store.h"
#include "swiftlet.h"

enum { MEMORY_HOLD = 1024 };

enum memory_event {
	MEMORY_RECALLED,    /* a stored mask was taken up */
	MEMORY_NEW_CLUSTER, /* a workload cluster no mask is known for */
	MEMORY_IMPROVED,    /* the search found a better mask */
	MEMORY_CONVERGED,   /* the mask has held: the search rests */
	MEMORY_DRIFT        /* acceptance fell: the search begins anew */
};
const char* memory_event_name(enum memory_event);

struct memory_counts {
	int64_t recalled, new_clusters, improved, converged, drifts;
	int64_t trials; /* of the change test */
	int entries;
	int64_t evictions;
	bool store_failed; /* the last write did not succeed; what it held is kept for the next */
	char store_message[512];
	struct store_state store; /* of one that others share */
};

struct memory;
struct memory_watch;

/* NULL with the error set. path NULL: nothing is stored. The model must outlive the memory. */
struct memory* memory_open(const struct model*, const char* name, const char* path, struct error*);
/* The memory of a tenant (> 0, once each), known to the store by `name`: hex digits, of which 16 count.
 * Closed with the common one. NULL with the error set. */
struct memory* memory_for(struct memory* common, int tenant, const char* name, struct error*);
/* The tenant's memory, where there is one; else the common one. */
struct memory* memory_of(struct memory* common, int tenant);
/* on_event may be NULL; it is called on the watches' thread. */
void memory_on_event(struct memory*,
                     void (*on_event)(void* user, int session, enum memory_event, const char* task),
                     void* user);
/* Stores what is unsaved; the message of a failure is printed nowhere but returned in memory_counts. */
void memory_close(struct memory*);
struct store* memory_store(struct memory*); /* NULL when there is none */

/* NULL on no memory. The session must outlive the watch. `session_number` names it in events. */
struct memory_watch* memory_attach(struct memory*, swiftlet_session*, int session_number);
void memory_detach(struct memory_watch*);

/* The session's texts are another tenant's from now on: what it has learned stays behind. Between instances.
 */
void memory_move(struct memory_watch*, struct memory* to);
void memory_begin(struct memory_watch*, const char* task); /* after swiftlet_session_start */
void memory_step(struct memory_watch*, const struct swiftlet_step*);
void memory_end(struct memory_watch*);
void memory_idle(struct memory_watch*); /* after a search while no request ran: what it found */

/* Writes what is unsaved; of the common memory the tenants' too. False with the error set; nothing is lost by
 * a failure. */
bool memory_flush(struct memory*, struct error*);
/* Of the common memory all together. */
void memory_counts(struct memory*, struct memory_counts*);

/* ---- the bank from outside (any thread) --------------------------------------------------- */

/* Visits the entries that a memory's tenant may know, with their tenant (0: everybody's): its own and the
 * common ones; through the common memory all. */
void memory_each(struct memory*, void (*visit)(void* user, int tenant, const struct bank_entry*), void* user);
/* Takes a mask as an entry for a task ("" none) with a record; stored at once where there is a store. */
bool memory_put(struct memory*, const struct bank_entry*, int64_t* id, struct error*);
/* 1 removed (from the store too), 0 not there, -1 with the error set. id: the bank's. Through the common
 * memory anyone's. */
int memory_remove(struct memory*, int64_t id, struct error*);

#endif
