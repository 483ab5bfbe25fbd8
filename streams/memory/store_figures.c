/* Figures in the store: sums of what was measured, so that those of two processes add up. */
#include <math.h>

#include "streams/memory/store_internal.h"

#define INSERT_FIGURE                                                                                        \
	"INSERT INTO figure(model, device, task, kind, what, total, samples)"                                    \
	" VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT(model, device, task, kind, what) DO UPDATE SET "

bool run_figures(struct store* s, const struct store_job* job, int64_t model, struct error* e) {
	const char* sql = job->anew ? INSERT_FIGURE "total = ?6, samples = ?7"
	                            : INSERT_FIGURE "total = figure.total + ?6, samples = figure.samples + ?7";
	bool good = true;
	for (const struct store_figure* f = job->figure; good && f < job->figure + job->n; f++)
		good = sql_run(s, sql, "storing figures", e,
		               sql_with(sql_of_int(model), sql_of_text(job->device), sql_of_text(job->task),
		                        sql_of_int(*job->task ? 0 : job->text_kind), sql_of_text(f->what),
		                        sql_of_real(f->total), sql_of_real(f->samples)));
	return good;
}

bool store_each_figure(struct store* s, const struct store_model* model, struct store_place at,
                       void (*visit)(void*, const struct store_figure*), void* user, struct error* e) {
	pthread_mutex_lock(&s->lock);
	enum sql_step step = SQL_FAILED;
	struct sql_query* q =
	    sql_open(s,
	             "SELECT what, total, samples FROM figure JOIN model ON model.id = figure.model"
	             " WHERE fingerprint = ?1 AND device = ?2 AND task = ?3 AND kind = ?4 ORDER BY what",
	             "reading figures", e,
	             sql_with(sql_of_text(model->fingerprint), sql_of_text(at.device), sql_of_text(at.task),
	                      sql_of_int(*at.task ? 0 : at.kind)));
	while (q && (step = sql_step(q, e)) == SQL_ROW) {
		struct store_figure f = {.total = sql_real(q, 1), .samples = sql_real(q, 2)};
		sql_copy_text(q, 0, f.what, sizeof f.what);
		if (f.total >= 0 && f.samples > 0 && isfinite(f.total) && isfinite(f.samples))
			visit(user, &f); /* one damaged row is not worth the others */
	}
	sql_finish(q);
	pthread_mutex_unlock(&s->lock);
	return step == SQL_DONE;
}
