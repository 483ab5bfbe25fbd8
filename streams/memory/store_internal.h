/* What the files of the store share: the open database, and statements that say what failed. */
#ifndef SWIFTLET_STREAMS_MEMORY_STORE_INTERNAL_H
#define SWIFTLET_STREAMS_MEMORY_STORE_INTERNAL_H

#include <pthread.h>
#include <sqlite3.h>

#include "streams/memory/store.h"

struct store {
	pthread_mutex_t lock; /* one transaction at a time: several threads may share a store */
	sqlite3* db;
	char* path;
};

/* `doing` is what the message says was being done. What returns bool returns false with the error set. */
bool sql_fail(const struct store*, const char* doing, struct error*); /* false: sets SQLite's last error */
bool sql_execute(struct store*, const char* sql, const char* doing, struct error*);
sqlite3_stmt* sql_prepare(struct store*, const char* sql, const char* doing, struct error*); /* NULL */
/* Runs a statement that gives no rows and frees it. */
bool sql_finish(struct store*, sqlite3_stmt*, const char* doing, struct error*);
/* The first column of the first row as a number; -1 with the error set. */
int64_t sql_number(struct store*, const char* sql, const char* doing, struct error*);
bool sql_begin(struct store*, const char* doing, struct error*);
/* Commits, or rolls back when what came before had failed (`good` false). */
bool sql_end(struct store*, bool good, const char* doing, struct error*);

/* The model's row, made when there is none; -1 with the error set. */
int64_t store_model_row(struct store*, const struct store_model*, struct error*);

#endif
