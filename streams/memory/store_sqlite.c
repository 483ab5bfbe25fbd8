/* The store in a file of SQLite: whose it is, its schema and migrations, what is said when SQLite fails, and
 * the driver of its statements. */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "streams/memory/store_internal.h"

enum { APPLICATION_ID = 0x73776674 /* "swft" */, PATIENCE = 5000 };

/* ---- errors ------------------------------------------------------------------------------- */

static bool fail(const struct store* s, const char* doing, struct error* e) {
	const int code = sqlite3_errcode(s->sqlite);
	const char* path = s->path;
	const char* words = sqlite3_errmsg(s->sqlite);
	switch (code & 0xff) {
	case SQLITE_NOTADB:
		return error_set(e, "%s is not a mask store: it is no SQLite database (left as it is)", path);
	case SQLITE_CORRUPT:
		return error_set(e, "%s is damaged: %s (left as it is; restore a copy or choose another --store)",
		                 path, words);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return error_set(e, "%s is locked by another process; waited while %s", path, doing);
	case SQLITE_READONLY:
		return error_set(e, "%s cannot be written: it or its folder is read-only", path);
	case SQLITE_FULL:
		return error_set(e, "%s: the disk is full while %s; what was stored before is kept", path, doing);
	case SQLITE_IOERR:
		return error_set(e, "%s: reading or writing failed while %s (%s); what was stored before is kept",
		                 path, doing, words);
	case SQLITE_CANTOPEN:
		return error_set(e, "%s cannot be opened: %s", path, strerror(errno ? errno : EIO));
	default:
		return error_set(e, "%s: %s while %s", path, words, doing);
	}
}

/* ---- the driver --------------------------------------------------------------------------- */

struct query {
	struct sql_query base;
	sqlite3_stmt* statement;
};

static sqlite3_stmt* of(struct sql_query* q) { return ((struct query*)q)->statement; }

static void close_file(struct store* s) { sqlite3_close(s->sqlite); }

static void set_patience(struct store* s, int milliseconds) { sqlite3_busy_timeout(s->sqlite, milliseconds); }

static bool execute(struct store* s, const char* sql, const char* doing, struct error* e) {
	errno = 0;
	return sqlite3_exec(s->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK || fail(s, doing, e);
}

static bool begin(struct store* s, const char* doing, struct error* e) {
	return execute(s, "BEGIN IMMEDIATE", doing, e);
}

static bool end(struct store* s, bool good, const char* doing, struct error* e) {
	if (good && execute(s, "COMMIT", doing, e))
		return true;
	if (!sqlite3_get_autocommit(s->sqlite))
		sqlite3_exec(s->sqlite, "ROLLBACK", NULL, NULL, NULL);
	return false;
}

static struct sql_query* prepare(struct store* s, const char* sql, const char* doing, struct error* e) {
	struct query* q = calloc(1, sizeof *q);
	if (!q) {
		error_set(e, "out of memory");
		return NULL;
	}
	q->base = (struct sql_query){s, doing};
	if (sqlite3_prepare_v2(s->sqlite, sql, -1, &q->statement, NULL) == SQLITE_OK)
		return &q->base;
	fail(s, doing, e);
	free(q);
	return NULL;
}

static void bind(struct sql_query* q, int i, const struct sql_value* v) {
	switch (v->kind) {
	case SQL_INT:
		sqlite3_bind_int64(of(q), i, v->number);
		break;
	case SQL_REAL:
		sqlite3_bind_double(of(q), i, v->real);
		break;
	case SQL_TEXT:
		sqlite3_bind_text(of(q), i, v->data, -1, SQLITE_STATIC);
		break;
	case SQL_BLOB:
		sqlite3_bind_blob(of(q), i, v->data, (int)v->size, SQLITE_STATIC);
	}
}

static enum sql_step step(struct sql_query* q, struct error* e) {
	switch (sqlite3_step(of(q))) {
	case SQLITE_ROW:
		return SQL_ROW;
	case SQLITE_DONE:
		return SQL_DONE;
	default:
		fail(q->store, q->doing, e);
		return SQL_FAILED;
	}
}

static int64_t get_int(struct sql_query* q, int column) { return sqlite3_column_int64(of(q), column); }
static double get_real(struct sql_query* q, int column) { return sqlite3_column_double(of(q), column); }
static const char* get_text(struct sql_query* q, int column) {
	return (const char*)sqlite3_column_text(of(q), column);
}
static const void* get_blob(struct sql_query* q, int column, size_t* size) {
	const void* blob = sqlite3_column_blob(of(q), column);
	*size = (size_t)sqlite3_column_bytes(of(q), column);
	return blob;
}
static int changes(struct sql_query* q) { return sqlite3_changes(q->store->sqlite); }
static void reset(struct sql_query* q) { sqlite3_reset(of(q)); }
static void finish(struct sql_query* q) {
	sqlite3_finalize(of(q));
	free(q);
}

static const struct sql_driver sqlite_driver = {.close = close_file,
                                                .set_patience = set_patience,
                                                .execute = execute,
                                                .begin = begin,
                                                .end = end,
                                                .prepare = prepare,
                                                .bind = bind,
                                                .step = step,
                                                .get_int = get_int,
                                                .get_real = get_real,
                                                .get_text = get_text,
                                                .get_blob = get_blob,
                                                .changes = changes,
                                                .reset = reset,
                                                .finish = finish};

/* ---- schema ------------------------------------------------------------------------------- */

/* migration[v] brings version v to v + 1. Never edited once released: a change is a new line. */
static const char* const migration[STORE_SCHEMA] = {
    "CREATE TABLE model(id INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL UNIQUE, name TEXT NOT NULL,"
    " blocks INTEGER NOT NULL);"
    "CREATE TABLE mask(id INTEGER PRIMARY KEY AUTOINCREMENT, model INTEGER NOT NULL REFERENCES model(id),"
    " task TEXT NOT NULL, skipped TEXT NOT NULL, skip_ratio REAL NOT NULL, signature BLOB,"
    " signature_prompts REAL NOT NULL DEFAULT 0, matches INTEGER NOT NULL DEFAULT 0,"
    " rows INTEGER NOT NULL DEFAULT 0, accepted INTEGER NOT NULL DEFAULT 0,"
    " draft_steps INTEGER NOT NULL DEFAULT 0, rounds INTEGER NOT NULL DEFAULT 0,"
    " round_tokens INTEGER NOT NULL DEFAULT 0, tokens INTEGER NOT NULL DEFAULT 0,"
    " instances INTEGER NOT NULL DEFAULT 0, created INTEGER NOT NULL, updated INTEGER NOT NULL,"
    " UNIQUE(model, task, skipped));"
    "CREATE TABLE observation(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " model INTEGER NOT NULL REFERENCES model(id), task TEXT NOT NULL, skipped TEXT NOT NULL,"
    " matches INTEGER NOT NULL, rows INTEGER NOT NULL, window INTEGER NOT NULL, made INTEGER NOT NULL);"
    "CREATE INDEX observation_model ON observation(model, id);",

    /* 2: whether a mask's search has ended, and what the change test needs */
    "ALTER TABLE mask ADD COLUMN settled INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE mask ADD COLUMN steps INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE mask ADD COLUMN held INTEGER NOT NULL DEFAULT 0;"
    "ALTER TABLE mask ADD COLUMN trials INTEGER NOT NULL DEFAULT 0;",

    /* 3: the kind of text, where no label tells it; until now a mask's row was all that was known of one */
    "CREATE TABLE mask_of_kind(id INTEGER PRIMARY KEY AUTOINCREMENT,"
    " model INTEGER NOT NULL REFERENCES model(id), task TEXT NOT NULL, kind INTEGER NOT NULL,"
    " skipped TEXT NOT NULL, skip_ratio REAL NOT NULL, settled INTEGER NOT NULL, signature BLOB,"
    " signature_prompts REAL NOT NULL DEFAULT 0, matches INTEGER NOT NULL, rows INTEGER NOT NULL,"
    " accepted INTEGER NOT NULL, draft_steps INTEGER NOT NULL, trials INTEGER NOT NULL,"
    " rounds INTEGER NOT NULL, round_tokens INTEGER NOT NULL, tokens INTEGER NOT NULL,"
    " instances INTEGER NOT NULL, steps INTEGER NOT NULL, held INTEGER NOT NULL,"
    " created INTEGER NOT NULL, updated INTEGER NOT NULL, UNIQUE(model, task, kind, skipped));"
    "INSERT INTO mask_of_kind SELECT id, model, task, CASE task WHEN '' THEN id ELSE 0 END, skipped,"
    " skip_ratio, settled, signature, signature_prompts, matches, rows, accepted, draft_steps, trials,"
    " rounds, round_tokens, tokens, instances, steps, held, created, updated FROM mask;"
    "DROP TABLE mask; ALTER TABLE mask_of_kind RENAME TO mask;"
    "ALTER TABLE observation ADD COLUMN kind INTEGER NOT NULL DEFAULT 0;",

    /* 4: influence by kind of text */
    "CREATE TABLE influence(model INTEGER NOT NULL REFERENCES model(id), task TEXT NOT NULL,"
    " kind INTEGER NOT NULL, rows REAL NOT NULL, sums BLOB NOT NULL, updated INTEGER NOT NULL,"
    " PRIMARY KEY(model, task, kind)) WITHOUT ROWID;",

    /* 5: chances by source and kind of text, and costs, by device */
    "CREATE TABLE chance(model INTEGER NOT NULL REFERENCES model(id), device TEXT NOT NULL,"
    " task TEXT NOT NULL, kind INTEGER NOT NULL, source TEXT NOT NULL, bin INTEGER NOT NULL,"
    " rank INTEGER NOT NULL, hits REAL NOT NULL, trials REAL NOT NULL,"
    " PRIMARY KEY(model, device, task, kind, source, bin, rank)) WITHOUT ROWID;"
    "CREATE TABLE cost(model INTEGER NOT NULL REFERENCES model(id), device TEXT NOT NULL,"
    " what TEXT NOT NULL, total REAL NOT NULL, samples REAL NOT NULL,"
    " PRIMARY KEY(model, device, what)) WITHOUT ROWID;",

    /* 6: texts of tenants, for retrieval */
    "CREATE TABLE text(model INTEGER NOT NULL REFERENCES model(id), tenant TEXT NOT NULL,"
    " number INTEGER NOT NULL, writer TEXT NOT NULL, length INTEGER NOT NULL, tokens BLOB NOT NULL,"
    " made INTEGER NOT NULL, PRIMARY KEY(model, tenant, number)) WITHOUT ROWID;",

    /* 7: of observations, whether they ran with a low-bit copy; in "skipped", what a mask keeps as stored */
    "ALTER TABLE observation ADD COLUMN low INTEGER NOT NULL DEFAULT 0;",

    /* 8: chances, costs and influence (store_move_influence) are sums in one table; observations are no more
     */
    "CREATE TABLE figure(model INTEGER NOT NULL REFERENCES model(id), device TEXT NOT NULL,"
    " task TEXT NOT NULL, kind INTEGER NOT NULL, what TEXT NOT NULL, total REAL NOT NULL,"
    " samples REAL NOT NULL, PRIMARY KEY(model, device, task, kind, what)) WITHOUT ROWID;"
    "INSERT INTO figure SELECT model, device, task, kind, source || ' ' || bin || ' ' || rank, hits, trials"
    " FROM chance;"
    "INSERT INTO figure SELECT model, device, '', 0, what, total, samples FROM cost;"
    "DROP TABLE chance; DROP TABLE cost; DROP TABLE observation;",
};
enum { FIGURES = 7 }; /* the version before them */

static bool migrate(struct store* s, struct error* e) {
	const char* doing = "bringing its schema up to date";
	if (!sql_begin(s, doing, e))
		return false;
	/* read again under the lock: another process may have been first */
	int64_t version = sql_number(s, "PRAGMA user_version", doing, e);
	bool good = version >= 0;
	for (; good && version < STORE_SCHEMA; version++)
		good = sql_execute(s, migration[version], doing, e) &&
		       (version != FIGURES || store_move_influence(s, e));
	char sql[128];
	snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID,
	         STORE_SCHEMA);
	good = good && sql_execute(s, sql, doing, e);
	return sql_end(s, good, doing, e);
}

/* Whose file is it, and how old? Refuses others' and newer ones. */
static bool check_owner(struct store* s, int64_t* version, struct error* e) {
	const char* doing = "reading its header";
	*version = sql_number(s, "PRAGMA user_version", doing, e);
	if (*version < 0)
		return false;
	const int64_t application = sql_number(s, "PRAGMA application_id", doing, e);
	const int64_t tables = sql_number(s, "SELECT count(*) FROM sqlite_master", doing, e);
	if (application < 0 || tables < 0)
		return false;
	if (application != APPLICATION_ID && (tables > 0 || application != 0 || *version != 0))
		return error_set(e, "%s is another program's database, not a mask store (left as it is)", s->path);
	if (*version > STORE_SCHEMA)
		return error_set(e,
		                 "%s has schema version %lld, newer than this program's %d: use a newer swiftlet "
		                 "(left as it is)",
		                 s->path, (long long)*version, STORE_SCHEMA);
	return true;
}

static bool check_whole(struct store* s, struct error* e) {
	struct sql_query* q = sql_prepare(s, "PRAGMA quick_check(1)", "checking it", e);
	if (!q)
		return false;
	bool good = sql_step(q, e) == SQL_ROW;
	const char* found = good ? sql_text(q, 0) : NULL;
	if (good && (!found || strcmp(found, "ok") != 0))
		good = error_set(e, "%s is damaged: %.200s (left as it is; restore a copy or choose another --store)",
		                 s->path, found ? found : "the check gave nothing");
	sql_finish(q);
	return good;
}

static bool prepare_file(struct store* s, enum store_mode mode, struct error* e) {
	int64_t version;
	sqlite3_busy_timeout(s->sqlite, PATIENCE);
	sqlite3_extended_result_codes(s->sqlite, 0);
	if (!check_owner(s, &version, e) || !check_whole(s, e))
		return false;
	if (mode == STORE_READ)
		return version == STORE_SCHEMA ||
		       error_set(e, "%s has schema version %lld, expected %d: open it once for writing", s->path,
		                 (long long)version, STORE_SCHEMA);
	if (sqlite3_db_readonly(s->sqlite, "main") == 1)
		return error_set(e, "%s cannot be written: it or its folder is read-only", s->path);
	if (!sql_execute(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON",
	                 "setting it up", e))
		return false;
	return version == STORE_SCHEMA || migrate(s, e);
}

/* ---- opening ------------------------------------------------------------------------------ */

/* Makes the folders above path, readable by their owner alone. */
static bool make_folders(const char* path, struct error* e) {
	char* folder = strdup(path);
	if (!folder)
		return error_set(e, "out of memory");
	bool good = true;
	for (char* slash = strchr(folder + 1, '/'); slash && good; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(folder, 0700) != 0 && errno != EEXIST)
			good = error_set(e, "%s: its folder %s cannot be made: %s", path, folder, strerror(errno));
		*slash = '/';
	}
	free(folder);
	return good;
}

static bool check_path(const char* path, enum store_mode mode, struct error* e) {
	struct stat st;
	if (stat(path, &st) == 0) {
		if (!S_ISREG(st.st_mode))
			return error_set(e, "%s is not a regular file; a mask store is one", path);
		if (access(path, R_OK) != 0)
			return error_set(e, "%s cannot be read: %s", path, strerror(errno));
		if (mode != STORE_READ && access(path, W_OK) != 0)
			return error_set(e, "%s cannot be written: it or its folder is read-only", path);
		return true;
	}
	if (errno != ENOENT)
		return error_set(e, "%s: %s", path, strerror(errno));
	if (mode != STORE_WRITE)
		return error_set(e, "%s: there is no such mask store", path);
	return make_folders(path, e);
}

struct store* sqlite_open(const char* path, enum store_mode mode, struct error* e) {
	if (strcmp(path, ":memory:") != 0 && !check_path(path, mode, e))
		return NULL;
	struct store* s = store_new(path, e);
	if (!s)
		return NULL;
	const int flags = mode == STORE_READ    ? SQLITE_OPEN_READONLY
	                  : mode == STORE_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
	                                        : SQLITE_OPEN_READWRITE;
	s->driver = &sqlite_driver;
	errno = 0;
	const bool opened = sqlite3_open_v2(path, &s->sqlite, flags | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK ||
	                    fail(s, "opening it", e);
	if (opened && prepare_file(s, mode, e))
		return s;
	store_close(s);
	return NULL;
}

bool store_default_path(char* path, size_t size, struct error* e) {
	const char* state = getenv("XDG_STATE_HOME");
	const char* home = getenv("HOME");
	int n;
	if (state && state[0] == '/')
		n = snprintf(path, size, "%s/swiftlet/masks.db", state);
	else if (home && home[0] == '/')
		n = snprintf(path, size, "%s/.local/state/swiftlet/masks.db", home);
	else
		return error_set(e, "neither HOME nor XDG_STATE_HOME is set: say where with --store FILE");
	if (n < 0 || (size_t)n >= size)
		return error_set(e, "the path of the mask store is too long: say where with --store FILE");
	return true;
}
