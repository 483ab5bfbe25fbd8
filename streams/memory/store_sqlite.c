/* The SQLite driver: it checks the file's application, creates and migrates the schema, words failures and
 * runs statements. */
#include <errno.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "streams/memory/store_internal.h"

enum { APPLICATION_ID = 0x73776674 /* "swft" */, PATIENCE = 5000 };

/* ---- errors ------------------------------------------------------------------------------- */

/* Why the file cannot be opened. SQLite's own message holds less: only what it tried last. */
static const char* cannot_open(const char* path) {
	const int was = errno;
	char folder[4096];
	snprintf(folder, sizeof folder, "%s", path);
	char* const slash = strrchr(folder, '/');
	if (slash)
		slash[slash == folder] = 0;
	const bool there = access(path, F_OK) == 0;
	const bool may = there ? access(path, R_OK | W_OK) == 0 : access(slash ? folder : ".", W_OK | X_OK) == 0;
	if (may)
		return strerror(was ? was : EIO);
	return there                               ? strerror(errno)
	       : errno == EACCES || errno == EROFS ? "its folder is read-only"
	                                           : strerror(errno);
}

static bool report_failure(const struct store* s, const char* doing, struct error* e) {
	const int code = sqlite3_errcode(s->sqlite);
	const char* path = s->path;
	const char* words = sqlite3_errmsg(s->sqlite);
	switch (code & 0xff) {
	case SQLITE_NOTADB:
		return error_set(e, "%s is not a mask store: it is not an SQLite database (left as it is)", path);
	case SQLITE_CORRUPT:
		return error_set(e, "%s is damaged: %s (left as it is; restore a copy or choose another --store)",
		                 path, words);
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return error_set(e, "%s is locked by another process, and waiting did not help (while %s)", path,
		                 doing);
	case SQLITE_READONLY:
		return error_set(e, "%s cannot be written: it or its folder is read-only", path);
	case SQLITE_FULL:
		return error_set(e, "%s: the disk is full while %s; what was stored before is kept", path, doing);
	case SQLITE_IOERR:
		return error_set(e, "%s: reading or writing failed while %s (%s); what was stored before is kept",
		                 path, doing, words);
	case SQLITE_CANTOPEN:
		return error_set(e, "%s cannot be opened: %s", path, cannot_open(path));
	default:
		return error_set(e, "%s: %s while %s", path, words, doing);
	}
}

/* ---- the driver --------------------------------------------------------------------------- */

static void close_file(struct store* s) { sqlite3_close(s->sqlite); }

static void set_patience(struct store* s, int milliseconds) { sqlite3_busy_timeout(s->sqlite, milliseconds); }

static bool execute_sql(struct store* s, const char* sql, const char* doing, struct error* e) {
	errno = 0;
	return sqlite3_exec(s->sqlite, sql, NULL, NULL, NULL) == SQLITE_OK || report_failure(s, doing, e);
}

static bool begin_transaction(struct store* s, const char* doing, struct error* e) {
	return execute_sql(s, "BEGIN IMMEDIATE", doing, e);
}

static bool end_transaction(struct store* s, bool good, const char* doing, struct error* e) {
	if (good && execute_sql(s, "COMMIT", doing, e))
		return true;
	if (!sqlite3_get_autocommit(s->sqlite))
		sqlite3_exec(s->sqlite, "ROLLBACK", NULL, NULL, NULL);
	return false;
}

static void bind_value(sqlite3_stmt* q, int i, const struct sql_value* v) {
	switch (v->kind) {
	case SQL_INT:
		sqlite3_bind_int64(q, i, v->number);
		break;
	case SQL_REAL:
		sqlite3_bind_double(q, i, v->real);
		break;
	case SQL_TEXT:
		sqlite3_bind_text(q, i, v->data, -1, SQLITE_STATIC);
		break;
	case SQL_BLOB:
		sqlite3_bind_blob(q, i, v->data, (int)v->size, SQLITE_STATIC);
	}
}

static struct sql_value read_column(sqlite3_stmt* q, int i) {
	const int type = sqlite3_column_type(q, i);
	struct sql_value v = {.kind = SQL_TEXT};
	if (type == SQLITE_TEXT) {
		v.data = sqlite3_column_text(q, i);
	} else if (type == SQLITE_BLOB) {
		v.kind = SQL_BLOB;
		v.data = sqlite3_column_blob(q, i);
		v.size = (size_t)sqlite3_column_bytes(q, i);
	} else if (type != SQLITE_NULL) {
		v.kind = type == SQLITE_INTEGER ? SQL_INT : SQL_REAL;
		v.number = sqlite3_column_int64(q, i);
		v.real = sqlite3_column_double(q, i);
	}
	return v;
}

static bool run_sql(struct store* s, const char* sql, const char* doing, const struct sql_value* value, int n,
                    sql_visit* visit, void* user, struct error* e) {
	sqlite3_stmt* q;
	errno = 0;
	if (sqlite3_prepare_v2(s->sqlite, sql, -1, &q, NULL) != SQLITE_OK)
		return report_failure(s, doing, e);
	for (int i = 0; i < n; i++)
		bind_value(q, i + 1, &value[i]);
	bool good = true;
	int is = SQLITE_DONE;
	while (good && (is = sqlite3_step(q)) == SQLITE_ROW) {
		struct sql_value row[SQL_MOST];
		for (int i = 0; i < sqlite3_column_count(q) && i < SQL_MOST; i++)
			row[i] = read_column(q, i);
		good = !visit || visit(user, row, e);
	}
	if (good && is != SQLITE_DONE)
		good = report_failure(s, doing, e);
	sqlite3_finalize(q);
	return good;
}

static const struct sql_driver sqlite_driver = {.close = close_file,
                                                .set_patience = set_patience,
                                                .execute = execute_sql,
                                                .begin = begin_transaction,
                                                .end = end_transaction,
                                                .run = run_sql};

/* ---- schema ------------------------------------------------------------------------------- */

/* Masks have had their columns since this version. */
enum { MASKS_SINCE = 3 };

static int64_t run_pragma(struct store* s, const char* sql, const char* doing, struct error* e) {
	return sql_number(s, sql, doing, e, NULL, 0);
}

/* Makes the tables, or takes over the masks of an earlier version. A copy is brought up to date in silence,
 * because the file stays as it is. */
static bool set_up(struct store* s, bool is_copy, struct error* e) {
	const char* doing = "bringing its schema up to date";
	char header[128];
	snprintf(header, sizeof header, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID,
	         STORE_SCHEMA);
	if (!begin_transaction(s, doing, e))
		return false;
	/* read again under the lock, because another process may have been first */
	const int64_t version = run_pragma(s, "PRAGMA user_version", doing, e);
	const bool good =
	    version >= 0 && store_check_schema(s, version, MASKS_SINCE, e) &&
	    (version == 0 || version >= STORE_TIMES || execute_sql(s, STORE_TIME_COLUMNS(""), doing, e)) &&
	    execute_sql(s, STORE_TABLES("INTEGER PRIMARY KEY AUTOINCREMENT") STORE_FORGOTTEN, doing, e) &&
	    execute_sql(s, header, doing, e);
	if (!end_transaction(s, good, doing, e))
		return false;
	if (!is_copy)
		store_log_upgrade(s, version);
	return true;
}

/* Reads a store of an earlier version from a copy in memory that is brought up to date. So the file may be
 * read-only, and programs of that version still read it. */
static bool read_from_copy(struct store* s, struct error* e) {
	sqlite3* const file = s->sqlite;
	if (sqlite3_open_v2(":memory:", &s->sqlite, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) ==
	    SQLITE_OK) {
		sqlite3_backup* const backup = sqlite3_backup_init(s->sqlite, "main", file, "main");
		if (backup)
			sqlite3_backup_step(backup, -1);
		sqlite3_backup_finish(backup); /* sets the error code where either failed */
	}
	sqlite3_close(file);
	return (sqlite3_errcode(s->sqlite) == SQLITE_OK || report_failure(s, "copying it", e)) &&
	       set_up(s, true, e);
}

/* Checks the file's application and version. Refuses other programs' files and newer versions. */
static bool check_application(struct store* s, int64_t* version, struct error* e) {
	const char* doing = "reading its header";
	*version = run_pragma(s, "PRAGMA user_version", doing, e);
	if (*version < 0)
		return false;
	const int64_t application = run_pragma(s, "PRAGMA application_id", doing, e);
	const int64_t tables = run_pragma(s, "SELECT count(*) FROM sqlite_master", doing, e);
	if (application < 0 || tables < 0)
		return false;
	if (application != APPLICATION_ID && (tables > 0 || application != 0 || *version != 0))
		return error_set(e, "%s is a database of another program, not a mask store (left as it is)", s->path);
	return store_check_schema(s, *version, MASKS_SINCE, e);
}

static bool take_words(void* user, const struct sql_value* column, struct error* e) {
	(void)e;
	sql_copy_text(column, user, 200);
	return true;
}

static bool check_whole(struct store* s, struct error* e) {
	char found[200] = "the check returned nothing";
	return run_sql(s, "PRAGMA quick_check(1)", "checking it", NULL, 0, take_words, found, e) &&
	       (strcmp(found, "ok") == 0 ||
	        error_set(e, "%s is damaged: %s (left as it is; restore a copy or choose another --store)",
	                  s->path, found));
}

static bool prepare_file(struct store* s, enum store_mode mode, struct error* e) {
	int64_t version;
	sqlite3_busy_timeout(s->sqlite, PATIENCE);
	sqlite3_extended_result_codes(s->sqlite, 0);
	if (!check_application(s, &version, e) || !check_whole(s, e))
		return false;
	if (mode == STORE_READ)
		return version == STORE_SCHEMA || read_from_copy(s, e);
	if (sqlite3_db_readonly(s->sqlite, "main") == 1)
		return error_set(e, "%s cannot be written: it or its folder is read-only", s->path);
	if (!execute_sql(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON",
	                 "setting it up", e))
		return false;
	return version == STORE_SCHEMA || set_up(s, false, e);
}

/* ---- opening ------------------------------------------------------------------------------ */

/* Makes the folders above path, readable by this user alone. */
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
			return error_set(e, "%s is not a regular file: expected the file of a mask store, or a new file",
			                 path);
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

/* SQLite reads a file in WAL mode only if it may write beside it, or if nobody changes the file. Without a
 * log beside it in a folder that cannot be written, nobody does. */
static bool is_at_rest(const char* path) {
	char beside[PATH_MAX + 8]; /* of the file that a link names */
	if (!realpath(path, beside))
		return false;
	char* const slash = strrchr(beside, '/');
	strcat(beside, "-wal");
	if (access(beside, F_OK) == 0)
		return false;
	slash[1] = '\0';
	return access(beside, W_OK) != 0;
}

/* The file as a URI that tells SQLite that nobody changes it; malloc'd. NULL on no memory. */
static char* uri_at_rest(const char* path) {
	static const char end[] = "?immutable=1";
	const char* const start =
	    *path == '/' ? "file://" : "file:"; /* an absolute path follows a host, none here */
	char* const uri = malloc(strlen(start) + 3 * strlen(path) + sizeof end);
	if (!uri)
		return NULL;
	char* to = stpcpy(uri, start);
	for (const char* c = path; *c; c++)
		to += sprintf(to, strchr("?#%", *c) ? "%%%02x" : "%c", (unsigned char)*c);
	strcpy(to, end);
	return uri;
}

struct store* sqlite_open(const char* path, enum store_mode mode, struct error* e) {
	if (strcmp(path, ":memory:") != 0 && !check_path(path, mode, e))
		return NULL;
	struct store* s = store_new(path, e);
	if (!s)
		return NULL;
	char* const uri = mode == STORE_READ && is_at_rest(path) ? uri_at_rest(path) : NULL;
	const int flags = mode == STORE_READ    ? SQLITE_OPEN_READONLY | (uri ? SQLITE_OPEN_URI : 0)
	                  : mode == STORE_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
	                                        : SQLITE_OPEN_READWRITE;
	s->driver = &sqlite_driver;
	errno = 0;
	const bool opened =
	    sqlite3_open_v2(uri ? uri : path, &s->sqlite, flags | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK ||
	    report_failure(s, "opening it", e);
	free(uri);
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
		return error_set(
		    e, "neither HOME nor XDG_STATE_HOME is set: give the mask store's path with --store FILE");
	if (n < 0 || (size_t)n >= size)
		return error_set(e, "the path of the mask store is too long: give another one with --store FILE");
	return true;
}
