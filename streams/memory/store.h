/* The mask store: what the bank and the optimizer have learned, in a database: one SQLite file, or
 * PostgreSQL, which many processes on many machines share.
 *
 * Stored data survives a kill or a power failure at any later instant, and several processes
 * may use one store at once (each waits for the other up to a limit). Records are added to, never
 * overwritten, so that two processes that serve the same mask both count. A database of another program, or
 * one that is damaged, newer, read-only or locked, is refused with the reason and left unchanged. The schema
 * has a version. A store of an older version opens, and its masks are kept: reading leaves the store as it
 * is, and the first write brings it up to date.
 *
 * A server does not wait for PostgreSQL: opened with STORE_SERVE, the store is a copy in memory, with an
 * outbox to the database and news from it (store_outbox.h).
 *
 *   model(id, fingerprint, name, blocks)
 *   mask(id, model, task, kind, skipped, skip_ratio, settled, signature, the sums of struct bank_record,
 *        created, updated)                                       one a model, task, kind and mask
 *   figure(model, device, task, kind, what, total, samples)        costs of passes: sums
 *                                                                  (streams/memory/statistics.h)
 *
 * `kind` is the workload cluster of texts without a label (struct bank_entry), and 0 for texts with one.
 * `skipped` is the mask as text, "a1,3,5m2,3": attention blocks, then MLP blocks, then after an
 * "l" the per cents that levels leave out, by depth and kind of map. No text of any request is in it. */
#pragma once

#include "streams/memory/bank.h"

enum { STORE_SCHEMA = 12, STORE_NAME = 128, STORE_DEVICE = 128, STORE_WHAT = 32 };

enum store_mode {
	STORE_READ,  /* the file must exist; it is not written to */
	STORE_WRITE, /* made when missing, with its folders */
	STORE_EDIT,  /* written, but must exist */
	STORE_SERVE  /* as STORE_WRITE, but no call waits for a remote database */
};

struct store;
/* path: a file, or "postgresql://…". With STORE_SERVE the call does not wait for a database that cannot be
 * reached; closing waits a few seconds for writes that are not stored yet. */
struct store* store_open(const char* path, enum store_mode, struct error*);
void store_close(struct store*);
const char* store_path(const struct store*); /* for people: without a password */
/* $XDG_STATE_HOME/swiftlet/masks.db, else ~/.local/state/swiftlet/masks.db. False without a home folder. */
bool store_default_path(char* path, size_t size, struct error*);

struct store_state {    /* all zero when calls are durable as soon as they return */
	bool shared;        /* others write there too */
	bool away;          /* the database cannot be used now; `message` gives the reason */
	int waiting;        /* writes that have not reached it */
	int64_t stored;     /* writes that have reached it */
	int64_t generation; /* grows whenever writes of other processes have arrived */
	char message[256];
};
void store_state(struct store*, struct store_state*);

struct store_model {
	char
	    fingerprint[96]; /* 64 hex digits; for rows of one tenant they are followed by a point and its name */
	char name[STORE_NAME];
	int blocks;
};

struct store_mask {
	int64_t id; /* the row's id, which `swiftlet masks show` takes */
	struct store_model model;
	struct bank_entry
	    entry; /* task, kind, mask, skip_ratio, record, signature, converged; the other fields are zero */
	int64_t updated; /* seconds since 1970 */
};

/* Adds each entry's `unsaved` (and unsaved signature) to the row of this model, task and mask, which is made
 * if missing; sets converged and skip_ratio. Writes all n or none; durable when it returns true. id: the last
 * entry's row, or NULL. */
bool store_add(struct store*, const struct store_model*, const struct bank_entry*, int n, int64_t* id,
               struct error*);
/* Sets a mask's record to the given one (an import): entry->record, not unsaved. */
bool store_put(struct store*, const struct store_model*, const struct bank_entry*, int64_t* id,
               struct error*);
/* Visits the masks of a model (fingerprint NULL: of all models), those that served most tokens first. The
 * callback must not call the store; it returns false to stop. False only on an error. */
bool store_each(struct store*, const char* fingerprint, bool (*visit)(void* user, const struct store_mask*),
                void* user, struct error*);
/* 1 found, 0 not there, -1 error. */
int store_get(struct store*, int64_t id, struct store_mask* out, struct error*);
/* 1 deleted, 0 not there, -1 error. */
int store_delete(struct store*, int64_t id, struct error*);
/* Deletes the row of this model, task, kind and mask, if there is one. */
bool store_forget(struct store*, const struct store_model*, const struct bank_entry*, struct error*);

/* Keeps the `capacity` masks of a model that served most, and `per_cluster` of each task or kind. */
bool store_trim(struct store*, const char* fingerprint, int capacity, int per_cluster, struct error*);

/* A sum of measurements: `samples` of them came to `total`. statistics.h lists the figures. */
struct store_figure {
	char what[STORE_WHAT];
	double total, samples;
};
/* Adds to the stored figures of a device. */
bool store_add_figures(struct store*, const struct store_model*, const char* device,
                       const struct store_figure*, int n, struct error*);
bool store_each_figure(struct store*, const struct store_model*, const char* device,
                       void (*visit)(void* user, const struct store_figure*), void* user, struct error*);
