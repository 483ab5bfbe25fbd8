/* The bank's entries in SQLite; store.h says what is kept and what is promised. */
#include "streams/memory/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "streams/memory/store_internal.h"

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

int64_t store_model_row(struct store* s, const struct store_model* model, struct error* e) {
	const char* doing = "storing a model";
	sqlite3_stmt* q = sql_prepare(s,
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
		sql_fail(s, doing, e);
	sqlite3_finalize(q);
	return id;
}

/* The signature on file plus what is new of it. */
static bool add_signature(struct store* s, int64_t row, const struct bank_signature* more, struct error* e) {
	const char* doing = "storing a signature";
	struct bank_signature sum = *more;
	sqlite3_stmt* q = sql_prepare(s, "SELECT signature, signature_prompts FROM mask WHERE id = ?1", doing, e);
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
	q = sql_prepare(s, "UPDATE mask SET signature = ?2, signature_prompts = ?3 WHERE id = ?1", doing, e);
	if (!q)
		return false;
	sqlite3_bind_int64(q, 1, row);
	sqlite3_bind_blob(q, 2, sum.value, sizeof sum.value, SQLITE_TRANSIENT);
	sqlite3_bind_double(q, 3, sum.prompts);
	return sql_finish(s, q, doing, e);
}

/* Where no label tells the kind and none is given, it is that of a row with this mask, else a new one. */
#define INSERT_MASK                                                                                          \
	"INSERT INTO mask(model, task, skipped, skip_ratio, settled, matches, rows, accepted, draft_steps,"      \
	" trials, rounds, round_tokens, tokens, instances, steps, held, created, updated, kind)"                 \
	" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?17,"               \
	" CASE WHEN ?2 <> '' THEN 0 WHEN ?18 > 0 THEN ?18 ELSE"                                                  \
	" coalesce((SELECT kind FROM mask WHERE model = ?1 AND task = '' AND skipped = ?3 ORDER BY id LIMIT 1)," \
	" 1 + (random() >> 2 & 0x1fffffffffffffff)) END)"                                                        \
	" ON CONFLICT(model, task, kind, skipped) DO UPDATE SET skip_ratio = ?4, settled = ?5,"
static const char add_sql[] = INSERT_MASK
    " matches = matches + ?6, rows = rows + ?7, accepted = accepted + ?8, draft_steps = draft_steps + ?9,"
    " trials = trials + ?10, rounds = rounds + ?11, round_tokens = round_tokens + ?12,"
    " tokens = tokens + ?13, instances = instances + ?14, steps = steps + ?15,"
    " held = max(held + ?16, 0), updated = ?17 RETURNING id";
static const char put_sql[] =
    INSERT_MASK " matches = ?6, rows = ?7, accepted = ?8, draft_steps = ?9, trials = ?10, rounds = ?11, "
                "round_tokens = ?12,"
                " tokens = ?13, instances = ?14, steps = ?15, held = ?16, updated = ?17 RETURNING id";

static int64_t write_row(struct store* s, const char* sql, int64_t model, const struct bank_entry* entry,
                         const struct bank_record* r, struct error* e) {
	const char* doing = "storing a mask";
	char text[STORE_MASK_TEXT];
	store_mask_text(&entry->mask, text);
	sqlite3_stmt* q = sql_prepare(s, sql, doing, e);
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
	sqlite3_bind_int64(q, 18, entry->kind);
	int64_t id = -1;
	if (sqlite3_step(q) == SQLITE_ROW)
		id = sqlite3_column_int64(q, 0);
	else
		sql_fail(s, doing, e);
	sqlite3_finalize(q);
	return id;
}

static bool add_all_locked(struct store* s, const struct store_model* model, const struct bank_entry* entry,
                           int n, struct error* e) {
	const char* doing = "storing masks";
	if (n == 0)
		return true;
	if (!sql_begin(s, doing, e))
		return false;
	const int64_t row = store_model_row(s, model, e);
	bool good = row >= 0;
	for (int i = 0; good && i < n; i++) {
		const int64_t id = write_row(s, add_sql, row, &entry[i], &entry[i].unsaved, e);
		good = id >= 0 && (!(entry[i].unsaved_signature.prompts > 0) ||
		                   add_signature(s, id, &entry[i].unsaved_signature, e));
	}
	return sql_end(s, good, doing, e);
}

/* One mask in its own transaction, added to or set. */
static bool write_one(struct store* s, const char* sql, const struct store_model* model,
                      const struct bank_entry* entry, const struct bank_record* record,
                      const struct bank_signature* signature, int64_t* id, struct error* e) {
	const char* doing = "storing a mask";
	pthread_mutex_lock(&s->lock);
	if (!sql_begin(s, doing, e)) {
		pthread_mutex_unlock(&s->lock);
		return false;
	}
	const int64_t row = store_model_row(s, model, e);
	const int64_t made = row < 0 ? -1 : write_row(s, sql, row, entry, record, e);
	bool good = made >= 0 && (!(signature->prompts > 0) || add_signature(s, made, signature, e));
	good = sql_end(s, good, doing, e);
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
	" instances, steps, held, created, updated, kind FROM mask JOIN model ON model.id = mask.model "

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
	m->entry.kind = sqlite3_column_int64(q, 23);
	return true;
}

static bool each_locked(struct store* s, const char* fingerprint,
                        bool (*visit)(void*, const struct store_mask*), void* user, struct error* e) {
	const char* doing = "reading masks";
	sqlite3_stmt* q = sql_prepare(
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
		good = sql_fail(s, doing, e);
	free(m);
	sqlite3_finalize(q);
	return good;
}

static int get_locked(struct store* s, int64_t id, struct store_mask* out, struct error* e) {
	const char* doing = "reading a mask";
	sqlite3_stmt* q = sql_prepare(s, MASK_COLUMNS "WHERE mask.id = ?1", doing, e);
	if (!q)
		return -1;
	sqlite3_bind_int64(q, 1, id);
	const int code = sqlite3_step(q);
	int found = 0;
	if (code == SQLITE_ROW)
		found = read_row(s, q, out, e) ? 1 : -1;
	else if (code != SQLITE_DONE) {
		sql_fail(s, doing, e);
		found = -1;
	}
	sqlite3_finalize(q);
	return found;
}

/* ---- deleting ----------------------------------------------------------------------------- */

static int delete_locked(struct store* s, int64_t id, struct error* e) {
	const char* doing = "deleting a mask";
	sqlite3_stmt* q = sql_prepare(s, "DELETE FROM mask WHERE id = ?1", doing, e);
	if (!q)
		return -1;
	sqlite3_bind_int64(q, 1, id);
	if (!sql_finish(s, q, doing, e))
		return -1;
	return sqlite3_changes(s->db) > 0;
}

static bool delete_model_locked(struct store* s, const char* fingerprint, int* n, struct error* e) {
	const char* doing = "deleting masks";
	static const char* const sql[] = {
	    "DELETE FROM influence WHERE ?1 IS NULL OR model IN (SELECT id FROM model WHERE fingerprint = ?1)",
	    "DELETE FROM observation WHERE ?1 IS NULL OR model IN (SELECT id FROM model WHERE fingerprint = ?1)",
	    "DELETE FROM mask WHERE ?1 IS NULL OR model IN (SELECT id FROM model WHERE fingerprint = ?1)"};
	*n = 0;
	if (!sql_begin(s, doing, e))
		return false;
	bool good = true;
	for (int i = 0; i < 3 && good; i++) {
		sqlite3_stmt* q = sql_prepare(s, sql[i], doing, e);
		good = q != NULL;
		if (!good)
			break;
		sqlite3_bind_text(q, 1, fingerprint, -1, SQLITE_STATIC);
		good = sql_finish(s, q, doing, e);
		*n = sqlite3_changes(s->db);
	}
	return sql_end(s, good, doing, e);
}

/* A settled mask outranks all others: it is what its kind of text is served with. */
static bool trim_locked(struct store* s, const char* fingerprint, int capacity, int a_kind, struct error* e) {
	const char* doing = "trimming masks";
	sqlite3_stmt* q = sql_prepare(
	    s,
	    "DELETE FROM mask WHERE id IN (SELECT id FROM (SELECT mask.id AS id,"
	    " row_number() OVER (ORDER BY settled DESC, tokens DESC) AS rank,"
	    " row_number() OVER (PARTITION BY task, kind ORDER BY settled DESC, tokens DESC) AS kind_rank"
	    " FROM mask JOIN model ON model.id = mask.model WHERE fingerprint = ?1)"
	    " WHERE rank > ?2 OR kind_rank > ?3)",
	    doing, e);
	if (!q)
		return false;
	sqlite3_bind_text(q, 1, fingerprint, -1, SQLITE_STATIC);
	sqlite3_bind_int(q, 2, capacity);
	sqlite3_bind_int(q, 3, a_kind);
	return sql_finish(s, q, doing, e);
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

bool store_trim(struct store* s, const char* fingerprint, int capacity, int a_kind, struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool result = trim_locked(s, fingerprint, capacity, a_kind, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}
