/* The optimizer's observations in the store. */
#include <time.h>

#include "streams/memory/store_internal.h"

static bool write_observation(struct sql_query* q, int64_t model, const struct store_observation* o,
                              struct error* e) {
	char text[STORE_MASK_TEXT];
	store_mask_text(&o->mask, text);
	sql_reset(q);
	sql_bind_int(q, 1, model);
	sql_bind_text(q, 2, o->task);
	sql_bind_text(q, 3, text);
	sql_bind_int(q, 4, o->matches);
	sql_bind_int(q, 5, o->rows);
	sql_bind_int(q, 6, o->window);
	sql_bind_int(q, 7, (int64_t)time(NULL));
	sql_bind_int(q, 8, o->task[0] ? 0 : o->kind);
	sql_bind_int(q, 9, o->low);
	return sql_step(q, e) != SQL_FAILED;
}

/* Only the latest STORE_OBSERVATIONS of a model are kept. */
static bool trim_observations(struct store* s, int64_t model, struct error* e) {
	const char* doing = "trimming observations";
	struct sql_query* q =
	    sql_prepare(s,
	                "DELETE FROM observation WHERE model = ?1 AND id <= (SELECT id FROM observation"
	                " WHERE model = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)",
	                doing, e);
	if (!q)
		return false;
	sql_bind_int(q, 1, model);
	sql_bind_int(q, 2, STORE_OBSERVATIONS);
	return sql_run(q, NULL, e);
}

bool run_observe(struct store* s, const struct store_job* job, struct error* e) {
	const char* doing = "storing observations";
	if (!sql_begin(s, doing, e))
		return false;
	const int64_t row = store_model_row(s, &job->model, e);
	struct sql_query* q =
	    row < 0 ? NULL
	            : sql_prepare(s,
	                          "INSERT INTO observation(model, task, skipped, matches, rows, \"window\","
	                          " made, kind, low) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
	                          doing, e);
	bool good = q != NULL;
	for (int i = 0; i < job->n && good; i++)
		good = write_observation(q, row, &job->observation[i], e);
	sql_finish(q);
	good = good && trim_observations(s, row, e);
	return sql_end(s, good, doing, e);
}

static bool each_observation_locked(struct store* s, const char* fingerprint, const char* task, int64_t kind,
                                    void (*visit)(void*, const struct store_observation*), void* user,
                                    struct error* e) {
	const char* doing = "reading observations";
	struct sql_query* q =
	    sql_prepare(s,
	                "SELECT skipped, matches, rows, \"window\", low FROM observation JOIN model ON"
	                " model.id = observation.model WHERE fingerprint = ?1 AND task = ?2 AND"
	                " kind = ?3 ORDER BY observation.id",
	                doing, e);
	if (!q)
		return false;
	sql_bind_text(q, 1, fingerprint);
	sql_bind_text(q, 2, task);
	sql_bind_int(q, 3, *task ? 0 : kind);
	enum sql_step step;
	while ((step = sql_step(q, e)) == SQL_ROW) {
		struct store_observation o = {.rows = 0};
		const int64_t matches = sql_int(q, 1), rows = sql_int(q, 2);
		if (!store_mask_parse(sql_text(q, 0), &o.mask) || rows < 1 || rows > 1 << 20 || matches < 0 ||
		    matches > rows)
			continue; /* one damaged observation is not worth the others */
		o.matches = (int)matches;
		o.rows = (int)rows;
		o.window = sql_int(q, 3);
		o.low = sql_int(q, 4) != 0;
		visit(user, &o);
	}
	sql_finish(q);
	return step == SQL_DONE;
}

bool store_each_observation(struct store* s, const char* fingerprint, const char* task, int64_t kind,
                            void (*visit)(void*, const struct store_observation*), void* user,
                            struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool result = each_observation_locked(s, fingerprint, task, kind, visit, user, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}
