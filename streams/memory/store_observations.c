/* The optimizer's observations in the store. */
#include <time.h>

#include "streams/memory/store_internal.h"

static bool write_observation(struct store* s, sqlite3_stmt* q, int64_t model,
                              const struct store_observation* o, struct error* e) {
	char text[STORE_MASK_TEXT];
	store_mask_text(&o->mask, text);
	sqlite3_reset(q);
	sqlite3_bind_int64(q, 1, model);
	sqlite3_bind_text(q, 2, o->task, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 3, text, -1, SQLITE_TRANSIENT);
	sqlite3_bind_int(q, 4, o->matches);
	sqlite3_bind_int(q, 5, o->rows);
	sqlite3_bind_int64(q, 6, o->window);
	sqlite3_bind_int64(q, 7, (int64_t)time(NULL));
	sqlite3_bind_int64(q, 8, o->task[0] ? 0 : o->kind);
	return sqlite3_step(q) == SQLITE_DONE || sql_fail(s, "storing observations", e);
}

/* Only the latest STORE_OBSERVATIONS of a model are kept. */
static bool trim_observations(struct store* s, int64_t model, struct error* e) {
	const char* doing = "trimming observations";
	sqlite3_stmt* q =
	    sql_prepare(s,
	                "DELETE FROM observation WHERE model = ?1 AND id <= (SELECT id FROM observation"
	                " WHERE model = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
	                doing, e);
	if (!q)
		return false;
	sqlite3_bind_int64(q, 1, model);
	sqlite3_bind_int(q, 2, STORE_OBSERVATIONS);
	return sql_finish(s, q, doing, e);
}

static bool observe_locked(struct store* s, const struct store_model* model,
                           const struct store_observation* o, int n, struct error* e) {
	const char* doing = "storing observations";
	if (n == 0)
		return true;
	if (!sql_begin(s, doing, e))
		return false;
	const int64_t row = store_model_row(s, model, e);
	sqlite3_stmt* q = row < 0
	                      ? NULL
	                      : sql_prepare(s,
	                                    "INSERT INTO observation(model, task, skipped, matches, rows, window,"
	                                    " made, kind) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
	                                    doing, e);
	bool good = q != NULL;
	for (int i = 0; i < n && good; i++)
		good = write_observation(s, q, row, &o[i], e);
	sqlite3_finalize(q);
	good = good && trim_observations(s, row, e);
	return sql_end(s, good, doing, e);
}

static bool each_observation_locked(struct store* s, const char* fingerprint, const char* task, int64_t kind,
                                    void (*visit)(void*, const struct store_observation*), void* user,
                                    struct error* e) {
	const char* doing = "reading observations";
	sqlite3_stmt* q = sql_prepare(s,
	                              "SELECT skipped, matches, rows, window FROM observation JOIN model ON"
	                              " model.id = observation.model WHERE fingerprint = ?1 AND task = ?2 AND"
	                              " kind = ?3 ORDER BY observation.id",
	                              doing, e);
	if (!q)
		return false;
	sqlite3_bind_text(q, 1, fingerprint, -1, SQLITE_STATIC);
	sqlite3_bind_text(q, 2, task, -1, SQLITE_STATIC);
	sqlite3_bind_int64(q, 3, *task ? 0 : kind);
	int code;
	while ((code = sqlite3_step(q)) == SQLITE_ROW) {
		struct store_observation o = {.rows = 0};
		const int64_t matches = sqlite3_column_int64(q, 1), rows = sqlite3_column_int64(q, 2);
		if (!store_mask_parse((const char*)sqlite3_column_text(q, 0), &o.mask) || rows < 1 ||
		    rows > 1 << 20 || matches < 0 || matches > rows)
			continue; /* one damaged observation is not worth the others */
		o.matches = (int)matches;
		o.rows = (int)rows;
		o.window = sqlite3_column_int64(q, 3);
		visit(user, &o);
	}
	const bool good = code == SQLITE_DONE || sql_fail(s, doing, e);
	sqlite3_finalize(q);
	return good;
}

bool store_observe(struct store* s, const struct store_model* model, const struct store_observation* o, int n,
                   struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool result = observe_locked(s, model, o, n, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}

bool store_each_observation(struct store* s, const char* fingerprint, const char* task, int64_t kind,
                            void (*visit)(void*, const struct store_observation*), void* user,
                            struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool result = each_observation_locked(s, fingerprint, task, kind, visit, user, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}
