/* Texts of tenants in the store: each call acts for one tenant, and can name no other. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "streams/memory/store_internal.h"

/* PostgreSQL's row-level security goes by this setting. */
static bool act_for(struct store* s, const char* tenant, struct error* e) {
	if (!s->postgres)
		return true;
	struct sql_query* q =
	    sql_prepare(s, "SELECT set_config('swiftlet.tenant', ?1, false)", "choosing a tenant", e);
	if (!q)
		return false;
	sql_bind(q, sql_of_text(tenant));
	const bool good = sql_step(q, e) == SQL_ROW;
	sql_finish(q);
	return good;
}

static bool insert(struct store* s, int64_t model, const char* tenant, const char* writer,
                   const int32_t* token, int n, struct error* e) {
	struct sql_query* q =
	    sql_prepare(s,
	                "INSERT INTO text(model, tenant, number, writer, length, tokens, made) SELECT"
	                " CAST(?1 AS BIGINT), CAST(?2 AS TEXT), COALESCE(MAX(number), 0) + 1,"
	                " CAST(?3 AS TEXT), CAST(?4 AS BIGINT), ?5, CAST(?6 AS BIGINT)"
	                " FROM text WHERE model = ?1 AND tenant = ?2",
	                "storing a text", e);
	if (!q)
		return false;
	sql_bind(q, sql_of_int(model), sql_of_text(tenant), sql_of_text(writer), sql_of_int(n),
	         sql_of_blob(token, (size_t)n * sizeof *token), sql_of_int(time(NULL)));
	return sql_run(q, NULL, e);
}

/* The newest stays whatever it holds, so that numbers go on growing. */
static bool trim(struct store* s, int64_t model, const char* tenant, int capacity, struct error* e) {
	struct sql_query* q = sql_prepare(s,
	                                  "DELETE FROM text WHERE model = ?1 AND tenant = ?2 AND number IN"
	                                  " (SELECT number FROM (SELECT number, SUM(length) OVER"
	                                  " (ORDER BY number DESC) AS held FROM text WHERE model = ?1 AND"
	                                  " tenant = ?2) AS of_all WHERE held > ?3)",
	                                  "forgetting old texts", e);
	if (!q)
		return false;
	sql_bind(q, sql_of_int(model), sql_of_text(tenant), sql_of_int(capacity));
	return sql_run(q, NULL, e);
}

bool store_add_text(struct store* s, const struct store_model* model, const char* tenant, const char* writer,
                    const int32_t* token, int n, int capacity, struct error* e) {
	const char* doing = "storing a text";
	const int over = n > capacity ? n - capacity : 0;
	if (n - over < 1)
		return true;
	pthread_mutex_lock(&s->lock);
	bool good = sql_begin(s, doing, e);
	if (good) {
		const int64_t row = store_model_row(s, model, e);
		good = row >= 0 && act_for(s, tenant, e) &&
		       insert(s, row, tenant, writer, token + over, n - over, e) && trim(s, row, tenant, capacity, e);
		good = sql_end(s, good, doing, e);
	}
	pthread_mutex_unlock(&s->lock);
	return good;
}

bool store_each_text(struct store* s, const struct store_model* model, const char* tenant, const char* writer,
                     int64_t after, bool (*visit)(void*, const struct store_text*), void* user,
                     struct error* e) {
	enum sql_step step = SQL_FAILED;
	bool more = true;
	pthread_mutex_lock(&s->lock);
	struct sql_query* q =
	    !act_for(s, tenant, e)
	        ? NULL
	        : sql_prepare(
	              s,
	              "SELECT number, tokens FROM text JOIN model ON model.id = text.model WHERE"
	              " fingerprint = ?1 AND tenant = ?2 AND writer <> ?3 AND number > ?4 ORDER BY number",
	              "reading texts", e);
	if (q)
		sql_bind(q, sql_of_text(model->fingerprint), sql_of_text(tenant), sql_of_text(writer),
		         sql_of_int(after));
	while (q && more && (step = sql_step(q, e)) == SQL_ROW) {
		size_t size = 0;
		const void* blob = sql_blob(q, 1, &size);
		const size_t n = size / sizeof(int32_t);
		int32_t* token = blob && n > 0 && n < 1 << 24 ? malloc(n * sizeof *token) : NULL;
		if (!token)
			continue; /* one damaged row is not worth the others */
		memcpy(token, blob, n * sizeof *token);
		more = visit(user, &(struct store_text){sql_int(q, 0), token, (int)n});
		free(token);
	}
	sql_finish(q);
	pthread_mutex_unlock(&s->lock);
	return !more || step == SQL_DONE;
}
