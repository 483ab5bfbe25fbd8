/* The door: which database a path names, and how a call becomes a job that is run here, or here and there. */
#include "streams/memory/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "streams/memory/store_internal.h"
#include "streams/memory/store_outbox.h"
#include "streams/memory/store_postgres.h"

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

static struct store* open_shared(const char* path, struct error* e) {
	struct store* s = sqlite_open(":memory:", STORE_WRITE, e);
	if (s && !(s->outbox = outbox_open(s, path, e))) {
		store_close(s);
		return NULL;
	}
	return s;
}

struct store* store_open(const char* path, enum store_mode mode, struct error* e) {
	if (!postgres_is(path))
		return sqlite_open(path, mode == STORE_SERVE ? STORE_WRITE : mode, e);
	return mode == STORE_SERVE ? open_shared(path, e) : postgres_open(path, mode, e);
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

const char* store_path(const struct store* s) { return s->outbox ? outbox_path(s->outbox) : s->path; }

void store_set_patience(struct store* s, int milliseconds) {
	if (s->outbox)
		outbox_set_patience(s->outbox, milliseconds);
	else
		s->driver->set_patience(s, milliseconds);
}

void store_state(struct store* s, struct store_state* out) {
	memset(out, 0, sizeof *out);
	if (s->outbox)
		outbox_state(s->outbox, out);
}

/* ---- writing ------------------------------------------------------------------------------ */

/* The model's row, made when there is none, and locked until the transaction ends: those of one model do not
 * cross. */
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
	return job->kind == JOB_ADD   ? run_add(s, job, row, e)
	       : job->kind == JOB_PUT ? run_put(s, job, row, e)
	                              : run_figures(s, job, row, e);
}

bool run_job(struct store* s, const struct store_job* job, struct error* e) {
	const char* doing = "storing what was learned";
	if (job->kind == JOB_TRIM)
		return run_trim(s, job, e);
	return s->driver->begin(s, doing, e) &&
	       s->driver->end(s, job->kind == JOB_DELETE ? run_delete(s, job, e) : run_for_model(s, job, e),
	                      doing, e);
}

/* Where others share the store, what does not fit the outbox is refused: the caller keeps it and tries again.
 */
static bool run(struct store* s, const struct store_job* job, struct error* e) {
	pthread_mutex_lock(&s->lock);
	const bool put = !s->outbox || outbox_put(s->outbox, job, e);
	const bool good = put && run_job(s, job, e);
	pthread_mutex_unlock(&s->lock);
	return good || (put && s->outbox); /* the database will be told, which is what counts */
}

bool store_add(struct store* s, const struct store_model* model, const struct bank_entry* entry, int64_t* id,
               struct error* e) {
	return run(s, &(struct store_job){.kind = JOB_ADD, .model = *model, .entry = entry, .n = 1, .id = id}, e);
}

bool store_add_all(struct store* s, const struct store_model* model, const struct bank_entry* entry, int n,
                   struct error* e) {
	return n == 0 || run(s, &(struct store_job){.kind = JOB_ADD, .model = *model, .entry = entry, .n = n}, e);
}

bool store_put(struct store* s, const struct store_model* model, const struct bank_entry* entry, int64_t* id,
               struct error* e) {
	return run(s, &(struct store_job){.kind = JOB_PUT, .model = *model, .entry = entry, .n = 1, .id = id}, e);
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
	return run(s, &(struct store_job){.kind = JOB_DELETE, .model = *model, .entry = entry, .n = 1}, e);
}

bool store_trim(struct store* s, const char* fingerprint, int capacity, int a_kind, struct error* e) {
	struct store_job job = {.kind = JOB_TRIM, .capacity = capacity, .a_kind = a_kind};
	strncpy(job.model.fingerprint, fingerprint, sizeof job.model.fingerprint - 1);
	return run(s, &job, e);
}

static bool figures(struct store* s, const struct store_model* model, struct store_place at, bool anew,
                    const struct store_figure* figure, int n, struct error* e) {
	struct store_job job = {
	    .kind = JOB_FIGURES, .model = *model, .text_kind = at.kind, .figure = figure, .n = n, .anew = anew};
	strncpy(job.device, at.device, sizeof job.device - 1);
	strncpy(job.task, at.task, sizeof job.task - 1);
	return n == 0 || run(s, &job, e);
}

bool store_add_figures(struct store* s, const struct store_model* model, struct store_place at,
                       const struct store_figure* figure, int n, struct error* e) {
	return figures(s, model, at, false, figure, n, e);
}

bool store_put_figures(struct store* s, const struct store_model* model, struct store_place at,
                       const struct store_figure* figure, int n, struct error* e) {
	return figures(s, model, at, true, figure, n, e);
}

void store_name_influence(char what[STORE_WHAT], int sub_layer) {
	snprintf(what, STORE_WHAT, "influence %d", sub_layer);
}
