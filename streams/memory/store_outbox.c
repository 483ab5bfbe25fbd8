/* The outbox: its thread, its queue, and how the copy in memory is filled. */
#include "streams/memory/store_outbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "kernels/clock.h"
#include "streams/log.h"
#include "streams/memory/store_postgres.h"

enum { JOBS = 256, BYTES = 32 << 20, FIRST_PAUSE = 250, LONGEST_PAUSE = 5000, BETWEEN = 1000, GRACE = 10000 };

struct waiting_write { /* a write with arrays of its own */
	struct store_job job;
	void* data;
	size_t bytes;
};

struct outbox {
	struct store *local, *remote; /* remote: local's */
	pthread_t thread;
	bool running;
	int wake; /* an eventfd */
	/* the thread's: */
	bool stale;     /* other processes have written since `local` was filled */
	int64_t filled; /* time of the last filling; with many replicas not each write is worth one */

	pthread_mutex_t lock; /* of all below; taken after local's */
	struct waiting_write queue[JOBS];
	int first, n;
	size_t bytes;
	int64_t put; /* writes that came */
	struct store_state state;
	bool stopping;
	int64_t stop_at;
};

/* ---- the queue ---------------------------------------------------------------------------- */

bool outbox_put(struct outbox* o, const struct store_job* job, struct error* e) {
	const bool figures = job->kind == JOB_FIGURES;
	const void* data = figures ? (const void*)job->figure : job->entry;
	const size_t bytes = (size_t)job->n * (figures ? sizeof *job->figure : sizeof *job->entry);
	struct waiting_write w = {.job = *job, .data = malloc(bytes + 1), .bytes = bytes};
	if (!w.data)
		return error_set(e, "out of memory");
	if (bytes)
		memcpy(w.data, data, bytes);
	w.job.entry = w.data;
	w.job.figure = w.data;
	w.job.id = NULL;
	pthread_mutex_lock(&o->lock);
	const bool fits = o->n < JOBS && o->bytes + bytes <= BYTES;
	if (fits) {
		o->queue[(o->first + o->n++) % JOBS] = w;
		o->bytes += bytes;
		o->put++;
	} else {
		free(w.data);
		error_set(e, "%s: the queue of writes is full (%d are waiting)", o->remote->path, o->n);
	}
	pthread_mutex_unlock(&o->lock);
	(void)!write(o->wake, &(uint64_t){1}, sizeof(uint64_t));
	return fits;
}

static void drop_first(struct outbox* o) { /* with the lock held */
	struct waiting_write* w = &o->queue[o->first];
	o->bytes -= w->bytes;
	free(w->data);
	o->first = (o->first + 1) % JOBS;
	o->n--;
	o->remote->postgres->number++;
}

/* ---- the database ------------------------------------------------------------------------- */

static void note_state(struct outbox* o, bool away, const char* message) {
	pthread_mutex_lock(&o->lock);
	const bool was_away = o->state.away;
	o->state.away = away;
	snprintf(o->state.message, sizeof o->state.message, "%.255s", message);
	const int waiting = o->n;
	pthread_mutex_unlock(&o->lock);
	if (away && !was_away)
		log_line("swiftlet: %s; the server goes on and tries again", message);
	if (!away && was_away)
		log_line("swiftlet: %s can be reached again; %d writes wait for it", o->remote->path, waiting);
}

/* Sends the queue's first write to the database. False: to be tried again later. */
static bool send_first(struct outbox* o) {
	struct error e = {""};
	pthread_mutex_lock(&o->lock);
	const struct store_job job = o->queue[o->first].job; /* nobody else takes it out */
	pthread_mutex_unlock(&o->lock);
	struct postgres* p = o->remote->postgres;
	p->has_it = p->blames_data = false;
	bool done = run_job(o->remote, &job, &e) || p->has_it;
	if (!done && p->blames_data) {
		log_line("swiftlet: the database refused a write, which is dropped: %s", e.message);
		done = true;
	}
	if (!done) {
		note_state(o, true, e.message);
		return false;
	}
	pthread_mutex_lock(&o->lock);
	drop_first(o);
	o->state.stored++;
	pthread_mutex_unlock(&o->lock);
	note_state(o, false, "");
	return true;
}

/* ---- what others have learned ------------------------------------------------------------- */

static const struct copied_table {
	const char *name, *columns;
} tables[] = {
    {"model", "id, fingerprint, name, blocks"},
    {"mask",
     "id, model, task, kind, skipped, skip_ratio, settled, signature, signature_prompts, " RECORD_COLUMNS
     ", created, updated"},
    {"figure", "model, device, task, kind, what, total, samples"},
};

struct row_copy {
	struct store* to;
	char sql[768];
	const char* doing;
	int columns;
};
static bool copy_row(void* user, const struct sql_value* column, struct error* e) {
	const struct row_copy* c = user;
	return c->to->driver->run(c->to, c->sql, c->doing, column, c->columns, NULL, NULL, e);
}

static bool copy_table(struct store* to, struct store* from, const struct copied_table* t, const char* doing,
                       struct error* e) {
	char read[512];
	struct row_copy c = {.to = to, .doing = doing, .columns = 1};
	snprintf(read, sizeof read, "SELECT %s FROM %s", t->columns, t->name);
	int n = snprintf(c.sql, sizeof c.sql, "INSERT INTO %s(%s) VALUES(?1", t->name, t->columns);
	for (const char* at = t->columns; (at = strchr(at, ',')); at++)
		n += snprintf(c.sql + n, sizeof c.sql - (size_t)n, ", ?%d", ++c.columns);
	snprintf(c.sql + n, sizeof c.sql - (size_t)n, ")");
	return from->driver->run(from, read, doing, NULL, 0, copy_row, &c, e);
}

/* Fills an empty store in memory with all that another holds. */
static bool copy_store(struct store* to, struct store* from, const char* doing, struct error* e) {
	if (!to->driver->begin(to, doing, e))
		return false;
	bool good = true;
	for (size_t i = 0; i < sizeof tables / sizeof *tables && good; i++)
		good = copy_table(to, from, &tables[i], doing, e);
	return to->driver->end(to, good, doing, e);
}

/* Replaces `local` by the copy that was read, unless something was written to it meanwhile. */
static bool swap_local(struct outbox* o, struct store* fresh, int64_t put) {
	struct store* local = o->local;
	pthread_mutex_lock(&local->lock);
	pthread_mutex_lock(&o->lock);
	const bool good = o->n == 0 && o->put == put;
	if (good) {
		struct sqlite3* old = local->sqlite;
		local->sqlite = fresh->sqlite;
		fresh->sqlite = old;
		o->state.generation++;
	}
	pthread_mutex_unlock(&o->lock);
	pthread_mutex_unlock(&local->lock);
	return good;
}

/* Fills the copy in memory from the database. False: to be tried again later. */
static bool fill_local(struct outbox* o) {
	struct error e = {""};
	const char* doing = "reading what others have learned";
	pthread_mutex_lock(&o->lock);
	const int64_t put = o->put;
	pthread_mutex_unlock(&o->lock);
	struct store* fresh = sqlite_open(":memory:", STORE_WRITE, &e);
	o->filled = milliseconds_now();
	const bool begun = fresh && o->remote->driver->execute(
	                                o->remote, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", doing, &e);
	bool good = begun && copy_store(fresh, o->remote, doing, &e);
	if (begun && o->remote->postgres->connection) {
		struct error ignored;
		good = o->remote->driver->execute(o->remote, "COMMIT", doing, &ignored) && good;
	}
	if (good)
		o->stale = !swap_local(o, fresh, put);
	store_close(fresh);
	note_state(o, !good, good ? "" : e.message);
	return good;
}

/* ---- the thread --------------------------------------------------------------------------- */

struct outbox_status {
	int n;
	bool stopping, late;
};
static struct outbox_status read_status(struct outbox* o) {
	pthread_mutex_lock(&o->lock);
	const struct outbox_status is = {o->n, o->stopping, o->stopping && milliseconds_now() > o->stop_at};
	pthread_mutex_unlock(&o->lock);
	return is;
}

/* Does one piece of pending work. False: it failed, and is tried again after a pause. */
static bool work_queue(struct outbox* o) {
	struct error e = {""};
	const bool fresh = !o->remote->postgres->connection;
	if (!postgres_connect(o->remote, &e)) {
		note_state(o, true, e.message);
		return false;
	}
	o->stale |= fresh; /* notifications were missed meanwhile */
	for (struct outbox_status is = read_status(o); is.n > 0 && !is.late; is = read_status(o))
		if (!send_first(o))
			return false;
	return !o->stale || read_status(o).stopping || milliseconds_now() < o->filled + BETWEEN || fill_local(o);
}

/* Waits until the next try, or less when little time is left. */
static void wait_before_retry(struct outbox* o, int milliseconds) {
	const bool stopping = read_status(o).stopping;
	for (int64_t until = milliseconds_now() + milliseconds;
	     milliseconds_now() < until && read_status(o).stopping == stopping;)
		nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

static void* run_thread(void* user) {
	struct outbox* o = user;
	int pause = FIRST_PAUSE;
	for (;;) {
		const bool good = work_queue(o);
		const struct outbox_status is = read_status(o);
		if (is.stopping && (is.n == 0 || is.late))
			return NULL;
		if (good && is.n == 0)
			o->stale |= postgres_news(o->remote->postgres, o->wake, o->stale ? BETWEEN / 4 : LONGEST_PAUSE);
		else if (!good)
			wait_before_retry(o, pause);
		pause = good || is.stopping ? FIRST_PAUSE : pause * 2 > LONGEST_PAUSE ? LONGEST_PAUSE : pause * 2;
		uint64_t count;
		(void)!read(o->wake, &count, sizeof count);
	}
}

/* ---- opening and closing ------------------------------------------------------------------ */

/* Names the writer, whose writes are numbered as they are sent. */
static void name_writer(struct postgres* p) {
	unsigned char random[16] = {0};
	(void)!getrandom(random, sizeof random, 0);
	for (int i = 0; i < 16; i++)
		sprintf(p->writer + 2 * i, "%02x", random[i]);
	p->number = 1;
}

static bool open_remote(struct outbox* o, const char* path, struct error* e) {
	o->remote = o->local->remote = postgres_prepare(path, STORE_WRITE, e);
	if (!o->remote)
		return false;
	name_writer(o->remote->postgres);
	o->remote->postgres->listens = true;
	if (!postgres_connect(o->remote, e)) {
		if (o->remote->postgres->unfit)
			return false;
		note_state(o, true, e->message);
		return true;
	}
	o->stale = !fill_local(o);
	return true;
}

struct outbox* outbox_open(struct store* local, const char* path, struct error* e) {
	struct outbox* o = calloc(1, sizeof *o);
	if (!o) {
		error_set(e, "out of memory");
		return NULL;
	}
	o->local = local;
	o->state.shared = true;
	pthread_mutex_init(&o->lock, NULL);
	o->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	bool good = open_remote(o, path, e);
	if (good && (o->wake < 0 || pthread_create(&o->thread, NULL, run_thread, o) != 0))
		good = error_set(e, "the mask store's thread could not be started");
	o->running = good;
	if (good)
		return o;
	outbox_close(o);
	return NULL;
}

void outbox_close(struct outbox* o) {
	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	o->stopping = true;
	o->stop_at = milliseconds_now() + GRACE;
	pthread_mutex_unlock(&o->lock);
	(void)!write(o->wake, &(uint64_t){1}, sizeof(uint64_t));
	if (o->running)
		pthread_join(o->thread, NULL);
	if (o->n > 0)
		log_line("swiftlet: %d writes did not reach %s: %s", o->n, o->remote->path, o->state.message);
	while (o->n > 0)
		drop_first(o);
	store_close(o->remote);
	if (o->wake >= 0)
		close(o->wake);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

void outbox_state(struct outbox* o, struct store_state* out) {
	pthread_mutex_lock(&o->lock);
	*out = o->state;
	out->waiting = o->n;
	pthread_mutex_unlock(&o->lock);
}
