/* What a device does: chances of drafters by kind of text, and costs of passes. Sums, so that those of two
 * processes add up. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "streams/memory/store_internal.h"

/* ---- chances ------------------------------------------------------------------------------ */

static bool write_chance(struct sql_query* q, int64_t model, const struct store_job* job,
                         const struct store_chance* c, struct error* e) {
	sql_reset(q);
	sql_bind_int(q, 1, model);
	sql_bind_text(q, 2, job->device);
	sql_bind_text(q, 3, job->task);
	sql_bind_int(q, 4, job->text_kind);
	sql_bind_text(q, 5, c->source);
	sql_bind_int(q, 6, c->bin);
	sql_bind_int(q, 7, c->rank);
	sql_bind_real(q, 8, c->hits);
	sql_bind_real(q, 9, c->trials);
	return sql_step(q, e) != SQL_FAILED;
}

bool run_chances(struct store* s, const struct store_job* job, struct error* e) {
	const char* doing = "storing chances";
	if (!sql_begin(s, doing, e))
		return false;
	const int64_t row = store_model_row(s, &job->model, e);
	struct sql_query* q =
	    row < 0 ? NULL
	            : sql_prepare(s,
	                          "INSERT INTO chance(model, device, task, kind, source, bin, rank, hits, trials)"
	                          " VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
	                          " ON CONFLICT(model, device, task, kind, source, bin, rank) DO UPDATE"
	                          " SET hits = chance.hits + ?8, trials = chance.trials + ?9",
	                          doing, e);
	bool good = q != NULL;
	for (int i = 0; i < job->n && good; i++)
		good = write_chance(q, row, job, &job->chance[i], e);
	sql_finish(q);
	return sql_end(s, good, doing, e);
}

static bool each_chance(struct store* s, const struct store_model* model, const char* device,
                        const char* task, int64_t kind, void (*visit)(void*, const struct store_chance*),
                        void* user, struct error* e) {
	struct sql_query* q = sql_prepare(s,
	                                  "SELECT source, bin, rank, hits, trials FROM chance JOIN model ON"
	                                  " model.id = chance.model WHERE fingerprint = ?1 AND device = ?2 AND"
	                                  " task = ?3 AND kind = ?4 ORDER BY source, bin, rank",
	                                  "reading chances", e);
	if (!q)
		return false;
	sql_bind_text(q, 1, model->fingerprint);
	sql_bind_text(q, 2, device);
	sql_bind_text(q, 3, task);
	sql_bind_int(q, 4, *task ? 0 : kind);
	enum sql_step step;
	while ((step = sql_step(q, e)) == SQL_ROW) {
		const int64_t bin = sql_int(q, 1), rank = sql_int(q, 2);
		struct store_chance c = {.hits = sql_real(q, 3), .trials = sql_real(q, 4)};
		const char* source = sql_text(q, 0);
		snprintf(c.source, sizeof c.source, "%s", source ? source : "");
		if (bin < 0 || bin > 1 << 20 || rank < 0 || rank > 1 << 20 || !isfinite(c.trials) || c.hits < 0 ||
		    !(c.hits <= c.trials))
			continue; /* one damaged row is not worth the others */
		c.bin = (int)bin;
		c.rank = (int)rank;
		visit(user, &c);
	}
	sql_finish(q);
	return step == SQL_DONE;
}

bool store_each_chance(struct store* s, const struct store_model* model, const char* device, const char* task,
                       int64_t kind, void (*visit)(void*, const struct store_chance*), void* user,
                       struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool result = each_chance(s, model, device, task, kind, visit, user, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}

/* ---- costs -------------------------------------------------------------------------------- */

bool run_costs(struct store* s, const struct store_job* job, struct error* e) {
	const char* doing = "storing costs";
	if (!sql_begin(s, doing, e))
		return false;
	const int64_t row = store_model_row(s, &job->model, e);
	struct sql_query* q = row < 0 ? NULL
	                              : sql_prepare(s,
	                                            "INSERT INTO cost(model, device, what, total, samples)"
	                                            " VALUES(?1, ?2, ?3, ?4, ?5) ON CONFLICT(model, device, what)"
	                                            " DO UPDATE SET total = cost.total + ?4,"
	                                            " samples = cost.samples + ?5",
	                                            doing, e);
	bool good = q != NULL;
	for (int i = 0; i < job->n && good; i++) {
		sql_reset(q);
		sql_bind_int(q, 1, row);
		sql_bind_text(q, 2, job->device);
		sql_bind_text(q, 3, job->cost[i].what);
		sql_bind_real(q, 4, job->cost[i].total);
		sql_bind_real(q, 5, job->cost[i].samples);
		good = sql_step(q, e) != SQL_FAILED;
	}
	sql_finish(q);
	return sql_end(s, good, doing, e);
}

static bool each_cost(struct store* s, const struct store_model* model, const char* device,
                      void (*visit)(void*, const struct store_cost*), void* user, struct error* e) {
	struct sql_query* q = sql_prepare(s,
	                                  "SELECT what, total, samples FROM cost JOIN model ON model.id ="
	                                  " cost.model WHERE fingerprint = ?1 AND device = ?2 ORDER BY what",
	                                  "reading costs", e);
	if (!q)
		return false;
	sql_bind_text(q, 1, model->fingerprint);
	sql_bind_text(q, 2, device);
	enum sql_step step;
	while ((step = sql_step(q, e)) == SQL_ROW) {
		struct store_cost c = {.total = sql_real(q, 1), .samples = sql_real(q, 2)};
		const char* what = sql_text(q, 0);
		snprintf(c.what, sizeof c.what, "%s", what ? what : "");
		if (c.total > 0 && c.samples > 0 && isfinite(c.total) && isfinite(c.samples))
			visit(user, &c);
	}
	sql_finish(q);
	return step == SQL_DONE;
}

bool store_each_cost(struct store* s, const struct store_model* model, const char* device,
                     void (*visit)(void*, const struct store_cost*), void* user, struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool result = each_cost(s, model, device, visit, user, e);
	pthread_mutex_unlock(&s->lock);
	return result;
}
