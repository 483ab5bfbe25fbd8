/* Shared by the store's files: a small layer over SQLite and PostgreSQL, and jobs. Each call of store.h
 * becomes a job. run_job runs it on a store: once, or with an outbox once on the copy and once on the
 * database. */
#pragma once

#include <pthread.h>

#include "streams/memory/store.h"

struct sqlite3;
struct postgres;
struct outbox;

struct store {
	const struct sql_driver* driver;
	pthread_mutex_t lock; /* one transaction at a time, because threads may share a store */
	struct sqlite3* sqlite;
	struct postgres* postgres;
	char* path;            /* for messages: without a password */
	struct outbox* outbox; /* NULL: this is the store itself; else this is a copy in memory of a shared one */
	struct store* remote;  /* which is this one */
};

/* ---- statements --------------------------------------------------------------------------- */

/* A statement is SQL that both databases understand, with parameters ?1, ?2, …; messages call the operation
 * `doing`. Functions that return bool return false with the error set. */
struct sql_value { /* of a parameter or a column; a number has both fields set */
	enum { SQL_INT, SQL_REAL, SQL_TEXT, SQL_BLOB } kind;
	int64_t number;
	double real;
	const void* data; /* NULL is NULL */
	size_t size;      /* of a blob */
};
enum { SQL_MOST = 32 /* parameters, and columns, of a statement */ };

/* Called for each row. The values are valid until it returns. False ends the statement. */
typedef bool sql_visit(void* user, const struct sql_value* column, struct error*);

struct sql_driver {
	void (*close)(struct store*);
	void (*set_patience)(struct store*, int milliseconds);
	bool (*execute)(struct store*, const char* sql, const char* doing, struct error*); /* no parameters */
	/* A transaction that writes. end rolls back if an earlier step failed (`good` false). */
	bool (*begin)(struct store*, const char* doing, struct error*);
	bool (*end)(struct store*, bool good, const char* doing, struct error*);
	/* visit may be NULL. False also when visit returned false. */
	bool (*run)(struct store*, const char* sql, const char* doing, const struct sql_value*, int n,
	            sql_visit* visit, void* user, struct error*);
};

static inline struct sql_value sql_of_int(int64_t v) {
	return (struct sql_value){.kind = SQL_INT, .number = v};
}
static inline struct sql_value sql_of_real(double v) {
	return (struct sql_value){.kind = SQL_REAL, .real = v};
}
static inline struct sql_value sql_of_text(const char* v) {
	return (struct sql_value){.kind = SQL_TEXT, .data = v};
}
static inline struct sql_value sql_of_blob(const void* v, size_t size) {
	return (struct sql_value){.kind = SQL_BLOB, .data = v, .size = size};
}
/* Parameters from ?1 on, and their number. */
#define sql_with(...)                                                                                        \
	(const struct sql_value[]){__VA_ARGS__},                                                                 \
	    (int)(sizeof((const struct sql_value[]){__VA_ARGS__}) / sizeof(struct sql_value))
/* Runs a statement that returns no rows; with parameters. */
#define sql_run(store, sql, doing, error, ...)                                                               \
	(store)->driver->run(store, sql, doing, sql_with(__VA_ARGS__), NULL, NULL, error)
/* The first column of the last row as a number; -1 with the error set. */
int64_t sql_number(struct store*, const char* sql, const char* doing, struct error*, const struct sql_value*,
                   int n);
void sql_copy_text(const struct sql_value*, char* to, size_t size);

/* The sums of a struct bank_record, in its order. */
#define RECORD_COLUMNS                                                                                       \
	"matches, rows, accepted, draft_steps, trials, rounds, round_tokens, tokens, instances, steps, held, "   \
	"micros, plain_micros"

/* Creates missing tables, in SQL that both databases read. `own` is the type of a row's own number. */
#define STORE_TABLES(own)                                                                                    \
	"CREATE TABLE IF NOT EXISTS model(id " own ", fingerprint TEXT NOT NULL UNIQUE, name TEXT NOT NULL,"     \
	" blocks BIGINT NOT NULL);"                                                                              \
	"CREATE TABLE IF NOT EXISTS mask(id " own ", model BIGINT NOT NULL REFERENCES model(id),"                \
	" task TEXT NOT NULL, kind BIGINT NOT NULL, skipped TEXT NOT NULL,"                                      \
	" skip_ratio DOUBLE PRECISION NOT NULL, settled BIGINT NOT NULL, signature BYTEA,"                       \
	" signature_prompts DOUBLE PRECISION NOT NULL DEFAULT 0, matches BIGINT NOT NULL, rows BIGINT NOT NULL," \
	" accepted BIGINT NOT NULL, draft_steps BIGINT NOT NULL, trials BIGINT NOT NULL,"                        \
	" rounds BIGINT NOT NULL, round_tokens BIGINT NOT NULL, tokens BIGINT NOT NULL,"                         \
	" instances BIGINT NOT NULL, steps BIGINT NOT NULL, held BIGINT NOT NULL,"                               \
	" micros BIGINT NOT NULL DEFAULT 0, plain_micros BIGINT NOT NULL DEFAULT 0, created BIGINT NOT NULL,"    \
	" updated BIGINT NOT NULL, UNIQUE(model, task, kind, skipped));"                                         \
	"CREATE TABLE IF NOT EXISTS figure(model BIGINT NOT NULL REFERENCES model(id), device TEXT NOT NULL,"    \
	" task TEXT NOT NULL, kind BIGINT NOT NULL, what TEXT NOT NULL, total DOUBLE PRECISION NOT NULL,"        \
	" samples DOUBLE PRECISION NOT NULL, PRIMARY KEY(model, device, task, kind, what));"
/* Columns that masks have had since version STORE_TIMES. `new` is IF NOT EXISTS where a database has it. */
enum { STORE_TIMES = 12 };
#define STORE_TIME_COLUMN(new, name) "ALTER TABLE mask ADD COLUMN " new " " name " BIGINT NOT NULL DEFAULT 0;"
#define STORE_TIME_COLUMNS(new) STORE_TIME_COLUMN(new, "micros") STORE_TIME_COLUMN(new, "plain_micros")
/* Tables and figures of earlier schemas that are not read any more. */
#define STORE_FORGOTTEN                                                                                      \
	"DROP TABLE IF EXISTS observation; DROP TABLE IF EXISTS influence; DROP TABLE IF EXISTS chance;"         \
	"DROP TABLE IF EXISTS cost; DROP TABLE IF EXISTS text; DELETE FROM figure WHERE what LIKE 'influence%'"  \
	" OR what LIKE 'rows-%' OR what = 'plain';"
/* Refuses a schema that is newer than this program's, or older than `oldest`. */
bool store_check_schema(const struct store*, int64_t version, int oldest, struct error*);
/* Logs that a store of an earlier schema was opened, and what of it is dropped. */
void store_log_upgrade(const struct store*, int64_t version);

/* The mask as the store writes it; false when a block is MAX_BLOCKS or larger, or when the text is malformed.
 * STORE_MASK_TEXT bytes always suffice. */
enum { STORE_MASK_TEXT = MAX_BLOCKS * 16 + 64 };
void store_mask_text(const struct mask*, char text[STORE_MASK_TEXT]);
bool store_mask_parse(const char* text, struct mask*);

/* How long a call waits for another process; 5,000 ms by default. */
void store_set_patience(struct store*, int milliseconds);

/* ---- jobs --------------------------------------------------------------------------------- */

enum job_kind { JOB_MASKS, JOB_DELETE, JOB_TRIM, JOB_FIGURES };

/* A write. The arrays are the caller's. */
struct store_job {
	enum job_kind kind;
	struct store_model model;
	const struct bank_entry* entry;    /* (n) of MASKS; one of DELETE (task, kind, mask) */
	const struct store_figure* figure; /* (n) */
	bool anew;                         /* MASKS: replaces what is stored instead of adding to it */
	int n, capacity, per_cluster;
	char device[STORE_DEVICE];
	int64_t* id; /* of MASKS: the last one's row id; may be NULL */
};

/* With the store's lock held; a transaction. */
bool run_job(struct store*, const struct store_job*, struct error*);
/* store_masks.c: parts of a job; model: the row's number. */
bool run_masks(struct store*, const struct store_job*, int64_t model, struct error*);
bool run_delete(struct store*, const struct store_job*, struct error*);
bool run_trim(struct store*, const struct store_job*, struct error*);

/* Allocates a store without a driver; store_close frees it. NULL with the error set. */
struct store* store_new(const char* path, struct error*);
struct store* sqlite_open(const char* path, enum store_mode, struct error*); /* ":memory:" too */
