/* Influence by kind of text in the store: sums, so that those of two processes add up. */
#include <math.h>
#include <string.h>
#include <time.h>

#include "streams/memory/store_internal.h"

/* 1 found, 0 not there or of another shape, -1 error. */
static int read_influence(struct store* s, const struct store_model* model, const char* task, int64_t kind,
                          struct influence* out, struct error* e) {
	const char* doing = "reading influence";
	const size_t bytes = 2 * (size_t)model->blocks * sizeof out->sum[0];
	struct sql_query* q = sql_prepare(s,
	                                  "SELECT influence.rows, sums FROM influence JOIN model ON model.id ="
	                                  " influence.model WHERE fingerprint = ?1 AND task = ?2 AND kind = ?3",
	                                  doing, e);
	if (!q)
		return -1;
	sql_bind_text(q, 1, model->fingerprint);
	sql_bind_text(q, 2, task);
	sql_bind_int(q, 3, *task ? 0 : kind);
	memset(out, 0, sizeof *out);
	const enum sql_step step = sql_step(q, e);
	int found = step == SQL_DONE ? 0 : -1;
	if (step == SQL_ROW) {
		size_t size = 0;
		out->rows = sql_real(q, 0);
		const void* sums = sql_blob(q, 1, &size);
		found = sums && size == bytes && out->rows > 0 && isfinite(out->rows);
		if (found)
			memcpy(out->sum, sums, bytes);
		for (int i = 0; found && i < 2 * model->blocks; i++)
			found = out->sum[i] >= 0 && out->sum[i] <= 2.0001 * out->rows; /* 1 - cos; NaN fails */
	}
	if (found <= 0)
		memset(out, 0, sizeof *out);
	sql_finish(q);
	return found;
}

static bool write_influence(struct store* s, int64_t model, int blocks, const char* task, int64_t kind,
                            const struct influence* of, struct error* e) {
	const char* doing = "storing influence";
	struct sql_query* q =
	    sql_prepare(s,
	                "INSERT INTO influence(model, task, kind, rows, sums, updated)"
	                " VALUES(?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT(model, task, kind) DO UPDATE"
	                " SET rows = excluded.rows, sums = excluded.sums, updated = excluded.updated",
	                doing, e);
	if (!q)
		return false;
	sql_bind_int(q, 1, model);
	sql_bind_text(q, 2, task);
	sql_bind_int(q, 3, *task ? 0 : kind);
	sql_bind_real(q, 4, of->rows);
	sql_bind_blob(q, 5, of->sum, 2 * (size_t)blocks * sizeof of->sum[0]);
	sql_bind_int(q, 6, (int64_t)time(NULL));
	return sql_run(q, NULL, e);
}

bool run_influence(struct store* s, const struct store_job* job, struct error* e) {
	const char* doing = "storing influence";
	const int blocks = job->model.blocks;
	struct influence sum;
	if (!sql_begin(s, doing, e))
		return false;
	const int64_t row = store_model_row(s, &job->model, e);
	const bool read = row >= 0 && read_influence(s, &job->model, job->task, job->text_kind, &sum, e) >= 0;
	if (read)
		influence_join(&sum, job->influence, blocks);
	return sql_end(s, read && write_influence(s, row, blocks, job->task, job->text_kind, &sum, e), doing, e);
}

bool store_influence(struct store* s, const struct store_model* model, const char* task, int64_t kind,
                     struct influence* out, struct error* e) {
	e->message[0] = 0;
	pthread_mutex_lock(&s->lock);
	const bool result = read_influence(s, model, task, kind, out, e) > 0;
	pthread_mutex_unlock(&s->lock);
	return result;
}
