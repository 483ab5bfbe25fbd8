/* What the files of the store share. A call of store.h becomes a job; a job is run on a store by run_job, at
 * once or, where an outbox is between, once here and once there. */
#ifndef SWIFTLET_STREAMS_MEMORY_STORE_INTERNAL_H
#define SWIFTLET_STREAMS_MEMORY_STORE_INTERNAL_H

#include <pthread.h>

#include "streams/memory/sql.h"
#include "streams/memory/store.h"

struct sqlite3;
struct postgres;
struct outbox;

struct store {
	const struct sql_driver* driver;
	pthread_mutex_t lock; /* one transaction at a time: several threads may share a store */
	struct sqlite3* sqlite;
	struct postgres* postgres;
	char* path;            /* for messages: without a password */
	struct outbox* outbox; /* NULL: this is the store; else a copy in memory of one that others share */
};

enum job_kind { JOB_ADD, JOB_PUT, JOB_DELETE, JOB_TRIM, JOB_FIGURES };

/* A write. The arrays are the caller's. */
struct store_job {
	enum job_kind kind;
	struct store_model model;
	const struct bank_entry* entry;    /* (n) ADD; one of PUT and DELETE (task, kind, mask) */
	const struct store_figure* figure; /* (n) */
	bool anew;                         /* figures: in place of what is stored */
	int n, capacity, a_kind;
	char task[BANK_TASK];
	int64_t text_kind;
	char device[STORE_DEVICE];
	int64_t* id; /* PUT, ADD of one: the row's; may be NULL */
};

/* With the store's lock held. */
bool run_job(struct store*, const struct store_job*, struct error*);
bool run_add(struct store*, const struct store_job*, struct error*);
bool run_put(struct store*, const struct store_job*, struct error*);
bool run_delete(struct store*, const struct store_job*, struct error*);
bool run_trim(struct store*, const struct store_job*, struct error*);
bool run_figures(struct store*, const struct store_job*, struct error*);

/* The model's row, made when there is none, and locked until the transaction ends: those of one model do not
 * cross. -1 with the error set. */
int64_t store_model_row(struct store*, const struct store_model*, struct error*);

/* A store without a driver: freed by store_close. NULL with the error set. */
struct store* store_new(const char* path, struct error*);
struct store* sqlite_open(const char* path, enum store_mode, struct error*); /* ":memory:" too */
/* A part of a migration, in its transaction: the table of influence, of rows of numbers, into figures. */
bool store_move_influence(struct store*, struct error*);
/* Fills an empty store in memory with all that another holds. */
bool store_copy(struct store* to, struct store* from, struct error*);

#endif
