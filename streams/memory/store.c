/* Opens the database that a path names, and turns each call into a job. A job runs on the local store, and on
 * the remote one if there is one. Figures are sums of measurements, so that those of two processes can be
 * added. */
#include "streams/memory/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/memory/store_internal.h"
#include "streams/memory/store_outbox.h"
#include "streams/memory/store_postgres.h"

/* ---- statements --------------------------------------------------------------------------- */

static bool take_number(void* user, const struct sql_value* column, struct error* e) {
	(void)e;
	*(int64_t*)user = column[0].number;
	return true;
}

int64_t sql_number(struct store* s, const char* sql, const char* doing, struct error* e,
                   const struct sql_value* value, int n) {
	int64_t number = -1;
	if (!s->driver->run(s, sql, doing, value, n, take_number, &number, e))
		return -1;
	if (number < 0)
		error_set(e, "%s: the store returned nothing while %s", s->path, doing);
	return number;
}

void sql_copy_text(const struct sql_value* v, char* to, size_t size) {
	snprintf(to, size, "%s", v->kind == SQL_TEXT && v->data ? (const char*)v->data : "");
}

/* ---- schemas ------------------------------------------------------------------------------ */

bool store_check_schema(const struct store* s, int64_t version, int oldest, struct error* e) {
	if (version > STORE_SCHEMA)
		return error_set(e,
		                 "%s has schema version %lld, newer than this program's %d: use a newer swiftlet "
		                 "(left as it is)",
		                 s->path, (long long)version, STORE_SCHEMA);
	return version == 0 || version >= oldest ||
	       error_set(e, "%s has schema version %lld, which is too old for this program (left as it is)",
	                 s->path, (long long)version);
}

void store_log_upgrade(const struct store* s, int64_t version) {
	if (version > 0 && version < STORE_SCHEMA)
		fprintf(stderr,
		        "swiftlet: %s had schema version %lld: its masks are kept; old measurements are dropped and "
		        "made again\n",
		        s->path, (long long)version);
}

/* ---- opening and closing ------------------------------------------------------------------ */

static bool is_address(const char* path) {
	return strncmp(path, "postgresql://", 13) == 0 || strncmp(path, "postgres://", 11) == 0;
}

struct store* store_new(const char* path, struct error* e) {
	struct store* s = calloc(1, sizeof *s);
	if (!s || !(s->path = strdup(path))) {
		free(s);
		error_set(e, "out of memory");
		return NULL;
	}
	pthread_mutex_init(&s->lock, NULL);
	return s;
}

struct store* store_open(const char* path, enum store_mode mode, struct error* e) {
	struct store* s;
	bool good;
	if (!*path) {
		error_set(e,
		          "the store's name is empty: expected a file or postgresql://… (--no-store keeps nothing)");
		return NULL;
	}
	if (!is_address(path) && strstr(path, "://")) {
		error_set(e, "--store %.200s: expected a file or postgresql://USER@HOST/DATABASE", path);
		return NULL;
	}
	if (!is_address(path))
		return sqlite_open(path, mode == STORE_SERVE ? STORE_WRITE : mode, e);
	if (mode == STORE_SERVE) {
		s = sqlite_open(":memory:", STORE_WRITE, e);
		good = s && (s->outbox = outbox_open(s, path, e));
	} else {
		s = postgres_prepare(path, mode, e);
		good = s && postgres_connect(s, e);
	}
	if (good)
		return s;
	store_close(s);
	return NULL;
}

void store_close(struct store* s) {
	if (!s)
		return;
	outbox_close(s->outbox);
	if (s->driver)
		s->driver->close(s);
	pthread_mutex_destroy(&s->lock);
	free(s->path);
	free(s);
}

const char* store_path(const struct store* s) { return s->remote ? s->remote->path : s->path; }

void store_set_patience(struct store* s, int milliseconds) {
	struct store* waits = s->remote ? s->remote : s;
	waits->driver->set_patience(waits, milliseconds);
}

void store_state(struct store* s, struct store_state* out) {
	memset(out, 0, sizeof *out);
	if (s->outbox)
		outbox_state(s->outbox, out);
}

/* ---- writing ------------------------------------------------------------------------------ */

/* Earlier versions stored figures by task and kind, too. */
static bool run_figures(struct store* s, const struct store_job* job, int64_t model, struct error* e) {
	bool good = true;
	for (const struct store_figure* f = job->figure; good && f < job->figure + job->n; f++)
		good = sql_run(
		    s,
		    "INSERT INTO figure(model, device, task, kind, what, total, samples)"
		    " VALUES(?1, ?2, '', 0, ?3, ?4, ?5) ON CONFLICT(model, device, task, kind, what) DO UPDATE"
		    " SET total = figure.total + ?4, samples = figure.samples + ?5",
		    "storing figures", e, sql_of_int(model), sql_of_text(job->device), sql_of_text(f->what),
		    sql_of_real(f->total), sql_of_real(f->samples));
	return good;
}

/* Finds or makes the model's row, and locks it until the transaction ends, so that writes of one model do not
 * overlap. */
static bool run_for_model(struct store* s, const struct store_job* job, struct error* e) {
	const int64_t row =
	    sql_number(s,
	               "INSERT INTO model(fingerprint, name, blocks) VALUES(?1, ?2, ?3)"
	               " ON CONFLICT(fingerprint) DO UPDATE SET name = excluded.name RETURNING id",
	               "storing a model", e,
	               sql_with(sql_of_text(job->model.fingerprint), sql_of_text(job->model.name),
	                        sql_of_int(job->model.blocks)));
	if (row < 0)
		return false;
	return job->kind == JOB_FIGURES ? run_figures(s, job, row, e) : run_masks(s, job, row, e);
}

bool run_job(struct store* s, const struct store_job* job, struct error* e) {
	const char* doing = "storing what was learned";
	if (job->kind == JOB_TRIM)
		return run_trim(s, job, e);
	return s->driver->begin(s, doing, e) &&
	       s->driver->end(s, job->kind == JOB_DELETE ? run_delete(s, job, e) : run_for_model(s, job, e),
	                      doing, e);
}

/* Runs a job. When other processes share the store, a write that does not fit the outbox is refused: the
 * caller keeps it and tries again. */
static bool run_or_queue(struct store* s, const struct store_job* job, struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool put = !s->outbox || outbox_put(s->outbox, job, e);
	const bool good = put && run_job(s, job, e);
	pthread_mutex_unlock(&s->lock);
	return good || (put && s->outbox); /* the write will reach the database, so it counts as done */
}

bool store_add(struct store* s, const struct store_model* model, const struct bank_entry* entry, int n,
               int64_t* id, struct error* e) {
	const struct store_job job = {.kind = JOB_MASKS, .model = *model, .entry = entry, .n = n, .id = id};
	return n == 0 || run_or_queue(s, &job, e);
}

bool store_put(struct store* s, const struct store_model* model, const struct bank_entry* entry, int64_t* id,
               struct error* e) {
	const struct store_job job = {
	    .kind = JOB_MASKS, .model = *model, .entry = entry, .n = 1, .anew = true, .id = id};
	return run_or_queue(s, &job, e);
}

int store_delete(struct store* s, int64_t id, struct error* e) {
	struct store_mask found;
	const int there = store_get(s, id, &found, e);
	if (there <= 0)
		return there;
	return store_forget(s, &found.model, &found.entry, e) ? 1 : -1;
}

bool store_forget(struct store* s, const struct store_model* model, const struct bank_entry* entry,
                  struct error* e) {
	return run_or_queue(s, &(struct store_job){.kind = JOB_DELETE, .model = *model, .entry = entry, .n = 1},
	                    e);
}

bool store_trim(struct store* s, const char* fingerprint, int capacity, int per_cluster, struct error* e) {
	struct store_job job = {.kind = JOB_TRIM, .capacity = capacity, .per_cluster = per_cluster};
	strncpy(job.model.fingerprint, fingerprint, sizeof job.model.fingerprint - 1);
	return run_or_queue(s, &job, e);
}

bool store_add_figures(struct store* s, const struct store_model* model, const char* device,
                       const struct store_figure* figure, int n, struct error* e) {
	struct store_job job = {.kind = JOB_FIGURES, .model = *model, .figure = figure, .n = n};
	strncpy(job.device, device, sizeof job.device - 1);
	return n == 0 || run_or_queue(s, &job, e);
}

struct figure_visit {
	void (*visit)(void* user, const struct store_figure*);
	void* user;
};
static bool see_figure(void* user, const struct sql_value* column, struct error* e) {
	const struct figure_visit* v = user;
	struct store_figure f = {.total = column[1].real, .samples = column[2].real};
	(void)e;
	sql_copy_text(&column[0], f.what, sizeof f.what);
	if (f.total >= 0 && f.samples > 0 && isfinite(f.total) && isfinite(f.samples))
		v->visit(v->user, &f); /* skips one damaged row; the others are still read */
	return true;
}

bool store_each_figure(struct store* s, const struct store_model* model, const char* device,
                       void (*visit)(void*, const struct store_figure*), void* user, struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool good =
	    s->driver->run(s,
	                   "SELECT what, total, samples FROM figure JOIN model ON model.id = figure.model"
	                   " WHERE fingerprint = ?1 AND device = ?2 ORDER BY what",
	                   "reading figures", sql_with(sql_of_text(model->fingerprint), sql_of_text(device)),
	                   see_figure, &(struct figure_visit){visit, user}, e);
	pthread_mutex_unlock(&s->lock);
	return good;
}
