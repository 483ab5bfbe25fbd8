/* Figures in the store: sums of what was measured, so that those of two processes add up. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/memory/store_internal.h"

static bool add(struct sql_query* q, int64_t model, struct store_place at, const struct store_figure* f,
                struct error* e) {
	sql_bind(q, sql_of_int(model), sql_of_text(at.device), sql_of_text(at.task),
	         sql_of_int(*at.task ? 0 : at.kind), sql_of_text(f->what), sql_of_real(f->total),
	         sql_of_real(f->samples));
	return sql_step(q, e) != SQL_FAILED;
}

#define INSERT_FIGURE                                                                                        \
	"INSERT INTO figure(model, device, task, kind, what, total, samples)"                                    \
	" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT(model, device, task, kind, what) DO UPDATE SET "

static struct sql_query* prepare_add(struct store* s, bool anew, const char* doing, struct error* e) {
	return sql_prepare(s,
	                   anew ? INSERT_FIGURE "total = ?6, samples = ?7"
	                        : INSERT_FIGURE "total = figure.total + ?6, samples = figure.samples + ?7",
	                   doing, e);
}

bool run_figures(struct store* s, const struct store_job* job, struct error* e) {
	const char* doing = "storing figures";
	const struct store_place at = {job->device, job->task, job->text_kind};
	if (!sql_begin(s, doing, e))
		return false;
	const int64_t row = store_model_row(s, &job->model, e);
	struct sql_query* q = row < 0 ? NULL : prepare_add(s, job->anew, doing, e);
	bool good = q != NULL;
	for (int i = 0; i < job->n && good; i++)
		good = add(q, row, at, &job->figure[i], e);
	sql_finish(q);
	return sql_end(s, good, doing, e);
}

bool store_each_figure(struct store* s, const struct store_model* model, struct store_place at,
                       void (*visit)(void*, const struct store_figure*), void* user, struct error* e) {
	pthread_mutex_lock(&s->lock);
	enum sql_step step = SQL_FAILED;
	struct sql_query* q = sql_prepare(s,
	                                  "SELECT what, total, samples FROM figure JOIN model ON model.id ="
	                                  " figure.model WHERE fingerprint = ?1 AND device = ?2 AND task = ?3 AND"
	                                  " kind = ?4 ORDER BY what",
	                                  "reading figures", e);
	if (q)
		sql_bind(q, sql_of_text(model->fingerprint), sql_of_text(at.device), sql_of_text(at.task),
		         sql_of_int(*at.task ? 0 : at.kind));
	while (q && (step = sql_step(q, e)) == SQL_ROW) {
		struct store_figure f = {.total = sql_real(q, 1), .samples = sql_real(q, 2)};
		const char* what = sql_text(q, 0);
		snprintf(f.what, sizeof f.what, "%s", what ? what : "");
		if (f.total >= 0 && f.samples > 0 && isfinite(f.total) && isfinite(f.samples))
			visit(user, &f); /* one damaged row is not worth the others */
	}
	sql_finish(q);
	pthread_mutex_unlock(&s->lock);
	return step == SQL_DONE;
}

/* One row of float64 a sub-layer becomes as many figures. */
static bool move_row(struct sql_query* from, struct sql_query* to, struct error* e) {
	size_t size = 0;
	const void* sums = sql_blob(from, 5, &size);
	const char* task = sql_text(from, 1);
	const struct store_place at = {"", task ? task : "", sql_int(from, 2)};
	bool good = true;
	for (size_t i = 0; good && sums && i < size / sizeof(double) && size == 16 * (size_t)sql_int(from, 3);
	     i++) {
		struct store_figure f = {.samples = sql_real(from, 4)};
		store_name_influence(f.what, (int)i);
		memcpy(&f.total, (const char*)sums + i * sizeof(double), sizeof(double));
		if (isfinite(f.total))
			good = add(to, sql_int(from, 0), at, &f, e);
	}
	return good;
}

bool store_move_influence(struct store* s, struct error* e) {
	const char* doing = "bringing influence up to date";
	struct sql_query* from = sql_prepare(s,
	                                     "SELECT model, task, kind, blocks, influence.rows, sums FROM"
	                                     " influence JOIN model ON model.id = influence.model",
	                                     doing, e);
	struct sql_query* to = from ? prepare_add(s, false, doing, e) : NULL;
	enum sql_step step = SQL_FAILED;
	while (to && (step = sql_step(from, e)) == SQL_ROW && move_row(from, to, e)) {
	}
	sql_finish(from);
	sql_finish(to);
	return step == SQL_DONE && sql_execute(s, "DROP TABLE influence", doing, e);
}
