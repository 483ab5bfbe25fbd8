/* Parts are taken by adding one to a counter; whoever finishes the last one makes the copy ready. */
#include "core/model/low_maker.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "kernels/clock.h"
#include "kernels/cpu/cores.h"

enum { MOST_THREADS = 64 };

struct maker_thread {
	struct low_maker* maker;
	pthread_t thread;
};

struct low_maker {
	struct low_copy* copy;
	const struct model* model;
	atomic_int progress; /* enum low_progress */
	atomic_bool begun;   /* parts may be taken: there is memory for them */
	atomic_bool stop;
	atomic_int next, done; /* parts taken, and finished */
	_Atomic double busy;   /* when the model last ran a pass */
	sem_t begin;           /* posted for each thread but the first once parts may be taken, or at the end */
	sem_t wake;            /* posted for each thread when somebody helps, or at the end: they need not nap */
	sem_t finished;        /* posted when all parts are done, or at the end */
	double started;
	int threads;
	struct maker_thread thread[MOST_THREADS];
};

static void wait_for(sem_t* semaphore) {
	while (sem_wait(semaphore) != 0 && errno == EINTR)
		;
}

/* ---- parts ---------------------------------------------------------------------------------- */

/* Makes one part; false when none is left. */
static bool make_one(struct low_maker* m) {
	const struct low_table* table = &m->copy->table;
	if (atomic_load(&m->next) >= table->parts)
		return false;
	const int part = atomic_fetch_add(&m->next, 1);
	if (part >= table->parts)
		return false;
	low_make_part(table, m->copy->memory, part);
	if (atomic_fetch_add(&m->done, 1) + 1 == table->parts) {
		m->copy->seconds = seconds_now() - m->started;
		atomic_store(&m->progress, LOW_READY);
		sem_post(&m->finished);
	}
	return true;
}

void low_maker_rest(struct low_maker* m) { atomic_store(&m->busy, seconds_now()); }

static void nap(struct low_maker* m) {
	static const long length = 20000000, second = 1000000000;
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += length;
	until.tv_sec += until.tv_nsec / second;
	until.tv_nsec %= second;
	sem_clockwait(&m->wake, CLOCK_MONOTONIC, &until);
}

static void wake_all(struct low_maker* m) {
	for (int i = 0; i < m->threads; i++)
		sem_post(&m->wake);
}

static void make_parts(struct low_maker* m) {
	static const double quiet = 1; /* seconds: longer than a pass of the largest models that run at all */
	while (!atomic_load(&m->stop))
		if (seconds_now() - atomic_load(&m->busy) < quiet)
			nap(m);
		else if (!make_one(m))
			return;
}

void low_maker_help(struct low_maker* m, double seconds) {
	const double until = seconds_now() + seconds;
	atomic_store(&m->busy, -INFINITY); /* no pass runs meanwhile */
	wake_all(m);
	while (atomic_load(&m->begun) && seconds_now() < until && make_one(m))
		;
	low_maker_rest(m);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void begin_all(struct low_maker* m) {
	for (int i = 1; i < m->threads; i++)
		sem_post(&m->begin);
}

static void* lead(struct maker_thread* t) {
	struct low_maker* m = t->maker;
	struct error error;
	if (low_copy_find(m->copy, m->model)) {
		atomic_store(&m->progress, LOW_DONE);
		return NULL;
	}
	if (!low_copy_take_memory(m->copy, &error)) {
		atomic_store(&m->progress, LOW_FAILED);
		return NULL;
	}
	atomic_store(&m->begun, true);
	begin_all(m);
	make_parts(m);
	wait_for(&m->finished);
	if (atomic_load(&m->progress) == LOW_READY && !atomic_load(&m->stop)) {
		/* the file is for later starts: it is written in time that nobody else wants */
		pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
		low_copy_keep(m->copy, m->model);
		atomic_store(&m->progress, LOW_DONE);
	}
	return NULL;
}

static void* follow(struct maker_thread* t) {
	struct low_maker* m = t->maker;
	wait_for(&m->begin);
	if (atomic_load(&m->begun))
		make_parts(m);
	return NULL;
}

static void* live(void* user) {
	struct maker_thread* t = user;
	return t == t->maker->thread ? lead(t) : follow(t);
}

/* Signals are for the program's own threads. */
static bool start_threads(struct low_maker* m, int threads) {
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	bool good = true;
	for (int i = 0; good && i < threads; i++) {
		struct maker_thread* t = &m->thread[i];
		t->maker = m;
		good = (i == 0 || pthread_create(&t->thread, NULL, live, t) == 0);
		m->threads += good;
	}
	/* the first goes last: it counts the others */
	if (m->threads > 0 && pthread_create(&m->thread[0].thread, NULL, live, &m->thread[0]) != 0) {
		begin_all(m);
		for (int i = 1; i < m->threads; i++)
			pthread_join(m->thread[i].thread, NULL);
		m->threads = 0;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return m->threads > 0;
}

struct low_maker* low_maker_open(struct low_copy* copy, const struct model* model, int threads,
                                 struct error* error) {
	struct low_maker* m = calloc(1, sizeof *m);
	if (!m) {
		error_set(error, "out of memory for making a low-bit copy");
		return NULL;
	}
	m->copy = copy;
	m->model = model;
	m->started = seconds_now();
	sem_init(&m->begin, 0, 0);
	sem_init(&m->wake, 0, 0);
	sem_init(&m->finished, 0, 0);
	threads = threads > 0 ? threads : cores_available();
	if (!start_threads(m, threads < MOST_THREADS ? threads : MOST_THREADS)) {
		low_maker_close(m);
		error_set(error, "the threads that make a low-bit copy could not be made");
		return NULL;
	}
	return m;
}

void low_maker_close(struct low_maker* m) {
	if (!m)
		return;
	atomic_store(&m->stop, true);
	begin_all(m);
	wake_all(m);
	sem_post(&m->finished);
	for (int i = 0; i < m->threads; i++) {
		pthread_join(m->thread[i].thread, NULL);
	}
	sem_destroy(&m->begin);
	sem_destroy(&m->wake);
	sem_destroy(&m->finished);
	free(m);
}

enum low_progress low_maker_progress(const struct low_maker* m) {
	return (enum low_progress)atomic_load(&m->progress);
}

double low_maker_share(const struct low_maker* m) {
	const enum low_progress progress = low_maker_progress(m);
	if (progress == LOW_READY || progress == LOW_DONE)
		return 1;
	return (double)atomic_load(&m->done) / m->copy->table.parts;
}
