/* SQLite behind the bank; store.h says what is kept and what is promised. */
#include "streams/store.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { APPLICATION_ID = 0x73776674 /* "swft" */, PATIENCE = 5000 };

struct store {
	pthread_mutex_t lock; /* one transaction at a time: several threads may share a store */
	sqlite3* db;
	char* path;
};

/* ---- errors ------------------------------------------------------------------------------- */

static bool fail(const struct store* s, const char* doing, struct error* e) {
	const int code = sqlite3_errcode(s->db);
	const char* path = s->path;
	switch (code & 0xff) {
	case SQLITE_NOTADB:
		return error_set(e, "%s is not a mask store: it is no SQLite database (left as it is)", path);
	case SQLITE_CORRUPT:
		return error_set(e, "%s is damaged: %s (left as it is; restore a copy or choose another --store)",
		                 path, sqlite3_errmsg(s->db));
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
		return error_set(e, "%s is locked by another process; waited while %s", path, doing);
	case SQLITE_READONLY:
		return error_set(e, "%s cannot be written: it or its folder is read-only", path);
	case SQLITE_FULL:
		return error_set(e, "%s: the disk is full while %s; what was stored before is kept", path, doing);
	case SQLITE_IOERR:
		return error_set(e, "%s: reading or writing failed while %s (%s); what was stored before is kept",
		                 path, doing, sqlite3_errmsg(s->db));
	case SQLITE_CANTOPEN:
		return error_set(e, "%s cannot be opened: %s", path, strerror(errno ? errno : EIO));
	default:
		return error_set(e, "%s: %s while %s", path, sqlite3_errmsg(s->db), doing);
	}
}

static bool execute(struct store* s, const char* sql, const char* doing, struct error* e) {
	errno = 0;
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK || fail(s, doing, e);
}

static sqlite3_stmt* prepare(struct store* s, const char* sql, const char* doing, struct error* e) {
	sqlite3_stmt* statement = NULL;
	if (sqlite3_prepare_v2(s->db, sql, -1, &statement, NULL) != SQLITE_OK)
		fail(s, doing, e);
	return statement;
}

/* Runs a statement that gives no rows and frees it. */
static bool finish(struct store* s, sqlite3_stmt* statement, const char* doing, struct error* e) {
	const int code = sqlite3_step(statement);
	const bool done = code == SQLITE_DONE || code == SQLITE_ROW;
	if (!done)
		fail(s, doing, e);
	sqlite3_finalize(statement);
	return done;
}

/* The first column of the first row as a number; -1 with the error set. */
static int64_t number(struct store* s, const char* sql, const char* doing, struct error* e) {
	sqlite3_stmt* statement = prepare(s, sql, doing, e);
	if (!statement)
		return -1;
	int64_t value = -1;
	const int code = sqlite3_step(statement);
	if (code == SQLITE_ROW)
		value = sqlite3_column_int64(statement, 0);
	else
		fail(s, doing, e);
	sqlite3_finalize(statement);
	return value;
}

static bool begin(struct store* s, const char* doing, struct error* e) {
	return execute(s, "BEGIN IMMEDIATE", doing, e);
}

/* Commits, or rolls back when what came before had failed. */
static bool end(struct store* s, bool good, const char* doing, struct error* e) {
	if (good && execute(s, "COMMIT", doing, e))
		return true;
	if (!sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
	return false;
}

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
};

static bool migrate(struct store* s, struct error* e) {
	const char* doing = "bringing its schema up to date";
	if (!begin(s, doing, e))
		return false;
	/* read again under the lock: another process may have been first */
	int64_t version = number(s, "PRAGMA user_version", doing, e);
	bool good = version >= 0;
	for (; good && version < STORE_SCHEMA; version++)
		good = execute(s, migration[version], doing, e);
	char sql[128];
	snprintf(sql, sizeof sql, "PRAGMA application_id = %d; PRAGMA user_version = %d", APPLICATION_ID,
	         STORE_SCHEMA);
	good = good && execute(s, sql, doing, e);
	return end(s, good, doing, e);
}

/* Whose file is it, and how old? Refuses others' and newer ones. */
static bool check_owner(struct store* s, int64_t* version, struct error* e) {
	const char* doing = "reading its header";
	*version = number(s, "PRAGMA user_version", doing, e);
	if (*version < 0)
		return false;
	const int64_t application = number(s, "PRAGMA application_id", doing, e);
	const int64_t tables = number(s, "SELECT count(*) FROM sqlite_master", doing, e);
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
	sqlite3_stmt* statement = prepare(s, "PRAGMA quick_check(1)", "checking it", e);
	if (!statement)
		return false;
	bool good = sqlite3_step(statement) == SQLITE_ROW;
	if (!good)
		fail(s, "checking it", e);
	const char* found = good ? (const char*)sqlite3_column_text(statement, 0) : NULL;
	if (good && (!found || strcmp(found, "ok") != 0)) {
		error_set(e, "%s is damaged: %.200s (left as it is; restore a copy or choose another --store)",
		          s->path, found ? found : "the check gave nothing");
		good = false;
	}
	sqlite3_finalize(statement);
	return good;
}

static bool prepare_file(struct store* s, enum store_mode mode, struct error* e) {
	int64_t version;
	sqlite3_busy_timeout(s->db, PATIENCE);
	sqlite3_extended_result_codes(s->db, 0);
	if (!check_owner(s, &version, e) || !check_whole(s, e))
		return false;
	if (mode == STORE_READ)
		return version == STORE_SCHEMA ||
		       error_set(e, "%s has schema version %lld, expected %d: open it once for writing", s->path,
		                 (long long)version, STORE_SCHEMA);
	if (sqlite3_db_readonly(s->db, "main") == 1)
		return error_set(e, "%s cannot be written: it or its folder is read-only", s->path);
	if (!execute(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON",
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

struct store* store_open(const char* path, enum store_mode mode, struct error* e) {
	if (!check_path(path, mode, e))
		return NULL;
	struct store* s = calloc(1, sizeof *s);
	if (!s || !(s->path = strdup(path))) {
		free(s);
		error_set(e, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&s->lock, NULL);
	const int flags = mode == STORE_READ    ? SQLITE_OPEN_READONLY
	                  : mode == STORE_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
	                                        : SQLITE_OPEN_READWRITE;
	errno = 0;
	if (sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK) {
		fail(s, "opening it", e);
		store_close(s);
		return NULL;
	}
	if (!prepare_file(s, mode, e)) {
		store_close(s);
		return NULL;
	}
	return s;
}

void store_close(struct store* s) {
	if (!s)
		return;
	sqlite3_close(s->db);
	pthread_mutex_destroy(&s->lock);
	free(s->path);
	free(s);
}

const char* store_path(const struct store* s) { return s->path; }

void store_set_patience(struct store* s, int milliseconds) { sqlite3_busy_timeout(s->db, milliseconds); }

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

/* ---- masks as text ------------------------------------------------------------------------ */

static char* write_blocks(char* at, const struct mask* m, int half) {
	const char* separator = "";
	for (int b = 0; b < MAX_BLOCKS; b++)
		if (mask_has(m, 2 * b + half)) {
			at += sprintf(at, "%s%d", separator, b);
			separator = ",";
		}
	return at;
}

void store_mask_text(const struct mask* m, char text[STORE_MASK_TEXT]) {
	*text++ = 'a';
	text = write_blocks(text, m, 0);
	*text++ = 'm';
	text = write_blocks(text, m, 1);
	*text = '\0';
}

static const char* read_blocks(const char* at, struct mask* m, int half) {
	if (*at < '0' || *at > '9')
		return at; /* none */
	for (;; at++) {
		int block = 0, digits = 0;
		for (; *at >= '0' && *at <= '9' && digits < 4; at++, digits++)
			block = block * 10 + (*at - '0');
		if (digits == 0 || block >= MAX_BLOCKS)
			return NULL;
		mask_set(m, 2 * block + half, true);
		if (*at != ',')
			return at;
	}
}

bool store_mask_parse(const char* text, struct mask* m) {
	memset(m, 0, sizeof *m);
	if (!text || *text != 'a')
		return false;
	text = read_blocks(text + 1, m, 0);
	if (!text || *text != 'm')
		return false;
	text = read_blocks(text + 1, m, 1);
	return text && *text == '\0';
}

/* ---- writing ------------------------------------------------------------------------------ */

/* The model's row, made when there is none; -1 with the error set. */
static int64_t model_row(struct store* s, const struct store_model* model, struct error* e) {
	const char* doing = "storing a model";
	sqlite3_stmt* q = prepare(s,
	                          "INSERT INTO model(fingerprint, name, blocks) VALUES(?1, ?2, ?3)"
	                          " ON CONFLICT(fingerprint) DO UPDATE SET name = excluded.name RETURNING id",
	                          doing, e);
	if (!q)
		return -1;
	sqlite3_bind_text(q, 1, model->fingerprint, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 2, model->name, -1, SQLITE_STATIC);
	sqlite3_bind_int(q, 3, model->blocks);
	int64_t id = -1;
	if (sqlite3_step(q) == SQLITE_ROW)
		id = sqlite3_column_int64(q, 0);
	else
		fail(s, doing, e);
	sqlite3_finalize(q);
	return id;
}

/* The signature on file plus what is new of it. */
static bool add_signature(struct store* s, int64_t row, const struct bank_signature* more, struct error* e) {
	const char* doing = "storing a signature";
	struct bank_signature sum = *more;
	sqlite3_stmt* q = prepare(s, "SELECT signature, signature_prompts FROM mask WHERE id = ?1", doing, e);
	if (!q)
		return false;
	sqlite3_bind_int64(q, 1, row);
	if (sqlite3_step(q) == SQLITE_ROW && sqlite3_column_bytes(q, 0) == (int)sizeof sum.value) {
		float old[BANK_SIGNATURE];
		memcpy(old, sqlite3_column_blob(q, 0), sizeof old);
		for (int i = 0; i < BANK_SIGNATURE; i++)
			sum.value[i] += old[i];
		sum.prompts += sqlite3_column_double(q, 1);
	}
	sqlite3_finalize(q);
	q = prepare(s, "UPDATE mask SET signature = ?2, signature_prompts = ?3 WHERE id = ?1", doing, e);
	if (!q)
		return false;
	sqlite3_bind_int64(q, 1, row);
	sqlite3_bind_blob(q, 2, sum.value, sizeof sum.value, SQLITE_TRANSIENT);
	sqlite3_bind_double(q, 3, sum.prompts);
	return finish(s, q, doing, e);
}

static const char add_sql[] =
    "INSERT INTO mask(model, task, skipped, skip_ratio, settled, matches, rows, accepted, draft_steps,"
    " trials, rounds, round_tokens, tokens, instances, steps, held, created, updated)"
    " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?17)"
    " ON CONFLICT(model, task, skipped) DO UPDATE SET skip_ratio = ?4, settled = ?5,"
    " matches = matches + ?6, rows = rows + ?7, accepted = accepted + ?8, draft_steps = draft_steps + ?9,"
    " trials = trials + ?10, rounds = rounds + ?11, round_tokens = round_tokens + ?12,"
    " tokens = tokens + ?13, instances = instances + ?14, steps = steps + ?15,"
    " held = max(held + ?16, 0), updated = ?17 RETURNING id";
static const char put_sql[] =
    "INSERT INTO mask(model, task, skipped, skip_ratio, settled, matches, rows, accepted, draft_steps,"
    " trials, rounds, round_tokens, tokens, instances, steps, held, created, updated)"
    " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?17)"
    " ON CONFLICT(model, task, skipped) DO UPDATE SET skip_ratio = ?4, settled = ?5, matches = ?6,"
    " rows = ?7, accepted = ?8, draft_steps = ?9, trials = ?10, rounds = ?11, round_tokens = ?12,"
    " tokens = ?13, instances = ?14, steps = ?15, held = ?16, updated = ?17 RETURNING id";

static int64_t write_row(struct store* s, const char* sql, int64_t model, const struct bank_entry* entry,
                         const struct bank_record* r, struct error* e) {
	const char* doing = "storing a mask";
	char text[STORE_MASK_TEXT];
	store_mask_text(&entry->mask, text);
	sqlite3_stmt* q = prepare(s, sql, doing, e);
	if (!q)
		return -1;
	sqlite3_bind_int64(q, 1, model);
	sqlite3_bind_text(q, 2, entry->task, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 3, text, -1, SQLITE_STATIC);
	sqlite3_bind_double(q, 4, isfinite(entry->skip_ratio) ? entry->skip_ratio : 0);
	sqlite3_bind_int(q, 5, entry->settled);
	const int64_t sums[] = {r->matches,      r->rows,   r->accepted,  r->draft_steps, r->trials, r->rounds,
	                        r->round_tokens, r->tokens, r->instances, r->steps,       r->held};
	for (int i = 0; i < 11; i++)
		sqlite3_bind_int64(q, 6 + i, sums[i]);
	sqlite3_bind_int64(q, 17, (int64_t)time(NULL));
	int64_t id = -1;
	if (sqlite3_step(q) == SQLITE_ROW)
		id = sqlite3_column_int64(q, 0);
	else
		fail(s, doing, e);
	sqlite3_finalize(q);
	return id;
}

static bool add_all_locked(struct store* s, const struct store_model* model, const struct bank_entry* entry,
                           int n, struct error* e) {
	const char* doing = "storing masks";
	if (n == 0)
		return true;
	if (!begin(s, doing, e))
		return false;
	const int64_t row = model_row(s, model, e);
	bool good = row >= 0;
	for (int i = 0; good && i < n; i++) {
		const int64_t id = write_row(s, add_sql, row, &entry[i], &entry[i].unsaved, e);
		good = id >= 0 && (!(entry[i].unsaved_signature.prompts > 0) ||
		                   add_signature(s, id, &entry[i].unsaved_signature, e));
	}
	return end(s, good, doing, e);
}

/* One mask in its own transaction, added to or set. */
static bool write_one(struct store* s, const char* sql, const struct store_model* model,
                      const struct bank_entry* entry, const struct bank_record* record,
                      const struct bank_signature* signature, int64_t* id, struct error* e) {
	const char* doing = "storing a mask";
	pthread_mutex_lock(&s->lock);
	if (!begin(s, doing, e)) {
		pthread_mutex_unlock(&s->lock);
		return false;
	}
	const int64_t row = model_row(s, model, e);
	const int64_t made = row < 0 ? -1 : write_row(s, sql, row, entry, record, e);
	bool good = made >= 0 && (!(signature->prompts > 0) || add_signature(s, made, signature, e));
	good = end(s, good, doing, e);
	pthread_mutex_unlock(&s->lock);
	if (good && id)
		*id = made;
	return good;
}

bool store_add(struct store* s, const struct store_model* model, const struct bank_entry* entry, int64_t* id,
               struct error* e) {
	return write_one(s, add_sql, model, entry, &entry->unsaved, &entry->unsaved_signature, id, e);
}

bool store_put(struct store* s, const struct store_model* model, const struct bank_entry* entry, int64_t* id,
               struct error* e) {
	return write_one(s, put_sql, model, entry, &entry->record, &(struct bank_signature){.prompts = 0}, id, e);
}

/* ---- reading ------------------------------------------------------------------------------ */

#define MASK_COLUMNS                                                                                         \
	"SELECT mask.id, fingerprint, name, blocks, task, skipped, skip_ratio, settled, signature,"              \
	" signature_prompts, matches, rows, accepted, draft_steps, trials, rounds, round_tokens, tokens,"        \
	" instances, steps, held, created, updated FROM mask JOIN model ON model.id = mask.model "

static void copy_text(char* to, size_t size, sqlite3_stmt* q, int column) {
	const char* text = (const char*)sqlite3_column_text(q, column);
	snprintf(to, size, "%s", text ? text : "");
}

/* What a row holds is checked like any other file: a mask with a block the model lacks is damage. */
static bool read_row(const struct store* s, sqlite3_stmt* q, struct store_mask* m, struct error* e) {
	memset(m, 0, sizeof *m);
	m->id = sqlite3_column_int64(q, 0);
	copy_text(m->model.fingerprint, sizeof m->model.fingerprint, q, 1);
	copy_text(m->model.name, sizeof m->model.name, q, 2);
	const int64_t blocks = sqlite3_column_int64(q, 3);
	copy_text(m->entry.task, sizeof m->entry.task, q, 4);
	const char* text = (const char*)sqlite3_column_text(q, 5);
	bool good = blocks >= 1 && blocks <= MAX_BLOCKS && store_mask_parse(text, &m->entry.mask);
	for (int i = good ? 2 * (int)blocks : 2 * MAX_BLOCKS; i < 2 * MAX_BLOCKS && good; i++)
		good = !mask_has(&m->entry.mask, i);
	if (!good)
		return error_set(e, "%s: mask %lld is damaged: \"%.80s\" for a model of %lld blocks", s->path,
		                 (long long)m->id, text ? text : "", (long long)blocks);
	m->model.blocks = (int)blocks;
	m->entry.skip_ratio = sqlite3_column_double(q, 6);
	m->entry.settled = sqlite3_column_int(q, 7) != 0;
	if (sqlite3_column_bytes(q, 8) == (int)sizeof m->entry.signature.value) {
		memcpy(m->entry.signature.value, sqlite3_column_blob(q, 8), sizeof m->entry.signature.value);
		m->entry.signature.prompts = sqlite3_column_double(q, 9);
	}
	struct bank_record* r = &m->entry.record;
	int64_t* const sums[] = {&r->matches,   &r->rows,   &r->accepted,     &r->draft_steps,
	                         &r->trials,    &r->rounds, &r->round_tokens, &r->tokens,
	                         &r->instances, &r->steps,  &r->held};
	for (int i = 0; i < 11; i++)
		*sums[i] = sqlite3_column_int64(q, 10 + i);
	m->created = sqlite3_column_int64(q, 21);
	m->updated = sqlite3_column_int64(q, 22);
	return true;
}

static bool each_locked(struct store* s, const char* fingerprint,
                        bool (*visit)(void*, const struct store_mask*), void* user, struct error* e) {
	const char* doing = "reading masks";
	sqlite3_stmt* q = prepare(
	    s, MASK_COLUMNS "WHERE ?1 IS NULL OR fingerprint = ?1 ORDER BY tokens DESC, mask.id", doing, e);
	if (!q)
		return false;
	sqlite3_bind_text(q, 1, fingerprint, -1, SQLITE_STATIC);
	struct store_mask* m = malloc(sizeof *m);
	bool good = m != NULL || error_set(e, "out of memory");
	int code = SQLITE_DONE;
	while (good && (code = sqlite3_step(q)) == SQLITE_ROW) {
		good = read_row(s, q, m, e);
		if (good && !visit(user, m)) {
			code = SQLITE_DONE;
			break;
		}
	}
	if (good && code != SQLITE_DONE)
		good = fail(s, doing, e);
	free(m);
	sqlite3_finalize(q);
	return good;
}

static int get_locked(struct store* s, int64_t id, struct store_mask* out, struct error* e) {
	const char* doing = "reading a mask";
	sqlite3_stmt* q = prepare(s, MASK_COLUMNS "WHERE mask.id = ?1", doing, e);
	if (!q)
		return -1;
	sqlite3_bind_int64(q, 1, id);
	const int code = sqlite3_step(q);
	int found = 0;
	if (code == SQLITE_ROW)
		found = read_row(s, q, out, e) ? 1 : -1;
	else if (code != SQLITE_DONE) {
		fail(s, doing, e);
		found = -1;
	}
	sqlite3_finalize(q);
	return found;
}

/* ---- deleting ----------------------------------------------------------------------------- */

static int delete_locked(struct store* s, int64_t id, struct error* e) {
	const char* doing = "deleting a mask";
	sqlite3_stmt* q = prepare(s, "DELETE FROM mask WHERE id = ?1", doing, e);
	if (!q)
		return -1;
	sqlite3_bind_int64(q, 1, id);
	if (!finish(s, q, doing, e))
		return -1;
	return sqlite3_changes(s->db) > 0;
}

static bool delete_model_locked(struct store* s, const char* fingerprint, int* n, struct error* e) {
	const char* doing = "deleting masks";
	static const char* const sql[] = {
	    "DELETE FROM observation WHERE ?1 IS NULL OR model IN (SELECT id FROM model WHERE fingerprint = ?1)",
	    "DELETE FROM mask WHERE ?1 IS NULL OR model IN (SELECT id FROM model WHERE fingerprint = ?1)"};
	*n = 0;
	if (!begin(s, doing, e))
		return false;
	bool good = true;
	for (int i = 0; i < 2 && good; i++) {
		sqlite3_stmt* q = prepare(s, sql[i], doing, e);
		good = q != NULL;
		if (!good)
			break;
		sqlite3_bind_text(q, 1, fingerprint, -1, SQLITE_STATIC);
		good = finish(s, q, doing, e);
		*n = sqlite3_changes(s->db);
	}
	return end(s, good, doing, e);
}

/* A settled mask outranks all others: it is what its kind of text is served with. */
static bool trim_locked(struct store* s, const char* fingerprint, int capacity, int a_task, struct error* e) {
	const char* doing = "trimming masks";
	sqlite3_stmt* q =
	    prepare(s,
	            "DELETE FROM mask WHERE id IN (SELECT id FROM (SELECT mask.id AS id, task,"
	            " row_number() OVER (ORDER BY settled DESC, tokens DESC) AS rank,"
	            " row_number() OVER (PARTITION BY task ORDER BY settled DESC, tokens DESC) AS task_rank"
	            " FROM mask JOIN model ON model.id = mask.model WHERE fingerprint = ?1)"
	            " WHERE rank > ?2 OR (task <> '' AND task_rank > ?3))",
	            doing, e);
	if (!q)
		return false;
	sqlite3_bind_text(q, 1, fingerprint, -1, SQLITE_STATIC);
	sqlite3_bind_int(q, 2, capacity);
	sqlite3_bind_int(q, 3, a_task);
	return finish(s, q, doing, e);
}

/* ---- observations ------------------------------------------------------------------------- */

static bool write_observation(struct store* s, sqlite3_stmt* q, int64_t model, const char* task,
                              const struct store_observation* o, struct error* e) {
	char text[STORE_MASK_TEXT];
	store_mask_text(&o->mask, text);
	sqlite3_reset(q);
	sqlite3_bind_int64(q, 1, model);
	sqlite3_bind_text(q, 2, task ? task : "", -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 3, text, -1, SQLITE_TRANSIENT);
	sqlite3_bind_int(q, 4, o->matches);
	sqlite3_bind_int(q, 5, o->rows);
	sqlite3_bind_int64(q, 6, o->window);
	sqlite3_bind_int64(q, 7, (int64_t)time(NULL));
	return sqlite3_step(q) == SQLITE_DONE || fail(s, "storing observations", e);
}

/* Only the latest STORE_OBSERVATIONS of a model are kept. */
static bool trim_observations(struct store* s, int64_t model, struct error* e) {
	const char* doing = "trimming observations";
	sqlite3_stmt* q = prepare(s,
	                          "DELETE FROM observation WHERE model = ?1 AND id <= (SELECT id FROM observation"
	                          " WHERE model = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
	                          doing, e);
	if (!q)
		return false;
	sqlite3_bind_int64(q, 1, model);
	sqlite3_bind_int(q, 2, STORE_OBSERVATIONS);
	return finish(s, q, doing, e);
}

static bool observe_locked(struct store* s, const struct store_model* model, const char* task,
                           const struct store_observation* o, int n, struct error* e) {
	const char* doing = "storing observations";
	if (n == 0)
		return true;
	if (!begin(s, doing, e))
		return false;
	const int64_t row = model_row(s, model, e);
	sqlite3_stmt* q = row < 0 ? NULL
	                          : prepare(s,
	                                    "INSERT INTO observation(model, task, skipped, matches, rows, window,"
	                                    " made) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
	                                    doing, e);
	bool good = q != NULL;
	for (int i = 0; i < n && good; i++)
		good = write_observation(s, q, row, task, &o[i], e);
	sqlite3_finalize(q);
	good = good && trim_observations(s, row, e);
	return end(s, good, doing, e);
}

static bool each_observation_locked(struct store* s, const char* fingerprint, const char* task,
                                    void (*visit)(void*, const struct store_observation*), void* user,
                                    struct error* e) {
	const char* doing = "reading observations";
	sqlite3_stmt* q = prepare(s,
	                          "SELECT skipped, matches, rows, window FROM observation JOIN model ON"
	                          " model.id = observation.model WHERE fingerprint = ?1 AND (?2 IS NULL OR"
	                          " task = ?2) ORDER BY observation.id",
	                          doing, e);
	if (!q)
		return false;
	sqlite3_bind_text(q, 1, fingerprint, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 2, task, -1, SQLITE_STATIC);
	int code;
	while ((code = sqlite3_step(q)) == SQLITE_ROW) {
		struct store_observation o;
		const int64_t matches = sqlite3_column_int64(q, 1), rows = sqlite3_column_int64(q, 2);
		if (!store_mask_parse((const char*)sqlite3_column_text(q, 0), &o.mask) || rows < 1 ||
		    rows > 1 << 20 || matches < 0 || matches > rows)
			continue; /* one damaged observation is not worth the others */
		o.matches = (int)matches;
		o.rows = (int)rows;
		o.window = sqlite3_column_int64(q, 3);
		visit(user, &o);
	}
	const bool good = code == SQLITE_DONE || fail(s, doing, e);
	sqlite3_finalize(q);
	return good;
}

/* ---- the door: one caller at a time ------------------------------------------------------ */

bool store_add_all(struct store* s, const struct store_model* model, const struct bank_entry* entry, int n,
                   struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool result = add_all_locked(s, model, entry, n, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}

bool store_each(struct store* s, const char* fingerprint, bool (*visit)(void*, const struct store_mask*),
                void* user, struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool result = each_locked(s, fingerprint, visit, user, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}

int store_get(struct store* s, int64_t id, struct store_mask* out, struct error* e) {
	pthread_mutex_lock(&s->lock);
	const int result = get_locked(s, id, out, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}

int store_delete(struct store* s, int64_t id, struct error* e) {
	pthread_mutex_lock(&s->lock);
	const int result = delete_locked(s, id, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}

bool store_delete_model(struct store* s, const char* fingerprint, int* n, struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool result = delete_model_locked(s, fingerprint, n, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}

bool store_observe(struct store* s, const struct store_model* model, const char* task,
                   const struct store_observation* o, int n, struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool result = observe_locked(s, model, task, o, n, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}

bool store_each_observation(struct store* s, const char* fingerprint, const char* task,
                            void (*visit)(void*, const struct store_observation*), void* user,
                            struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool result = each_observation_locked(s, fingerprint, task, visit, user, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}

bool store_trim(struct store* s, const char* fingerprint, int capacity, int a_task, struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool result = trim_locked(s, fingerprint, capacity, a_task, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}
