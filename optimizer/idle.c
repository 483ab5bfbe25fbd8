/* The thread that runs idle passes, and the caller that waits for it; idle.h explains it. */
#include "optimizer/idle.h"
#include "kernels/clock.h"

#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { LOOK_NANOSECONDS = 2000000 }; /* time between two checks whether a request waits */

struct idle_runner {
	struct backend* backend;
	pthread_t thread;
	bool threaded;
	pthread_mutex_t lock;
	pthread_cond_t begun, ended;
	const struct pass* pass; /* NULL: none is to be run */
	bool ran, closing;
	double took; /* processor seconds of the thread in the last pass */
};

static bool run_resting(struct backend* b, const struct pass* pass) {
	struct error ignored;
	if (!b->rest(b, true))
		return false;
	return b->run(b, pass, &ignored);
}

/* The time that the thread computed, without the time it waited: on a busy machine it waits most of the time,
 * which costs nothing. */
static double computed_seconds(void) {
	struct timespec now;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void* run_thread(void* user) {
	struct idle_runner* r = user;
	pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
	pthread_mutex_lock(&r->lock);
	while (!r->closing) {
		if (!r->pass) {
			pthread_cond_wait(&r->begun, &r->lock);
			continue;
		}
		const struct pass* const pass = r->pass;
		pthread_mutex_unlock(&r->lock);
		const double before = computed_seconds();
		const bool ran = run_resting(r->backend, pass);
		const double took = computed_seconds() - before;
		pthread_mutex_lock(&r->lock);
		r->ran = ran;
		r->took = took;
		r->pass = NULL;
		pthread_cond_signal(&r->ended);
	}
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* Signals go to the program's other threads. */
static bool start_thread(struct idle_runner* r) {
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	r->threaded = pthread_create(&r->thread, NULL, run_thread, r) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r->threaded;
}

struct idle_runner* idle_open(struct engine* engine, struct error* e) {
	struct idle_runner* r = calloc(1, sizeof *r);
	if (!r) {
		error_set(e, "out of memory");
		return NULL;
	}
	r->backend = engine->backend;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->begun, NULL);
	pthread_cond_init(&r->ended, NULL);
	if (!r->backend->rest || start_thread(r))
		return r;
	idle_close(r);
	error_set(e, "the thread that learns while no request runs could not be started");
	return NULL;
}

void idle_close(struct idle_runner* r) {
	if (!r)
		return;
	if (r->threaded) {
		pthread_mutex_lock(&r->lock);
		r->closing = true;
		pthread_cond_signal(&r->begun);
		pthread_mutex_unlock(&r->lock);
		pthread_join(r->thread, NULL);
	}
	pthread_cond_destroy(&r->begun);
	pthread_cond_destroy(&r->ended);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

static void wait_a_moment(struct idle_runner* r) {
	struct timespec until;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += LOOK_NANOSECONDS;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_cond_clockwait(&r->ended, &r->lock, CLOCK_MONOTONIC, &until);
}

static bool run_on_thread(struct idle_runner* r, const struct pass* pass, bool (*waits)(void*), void* user,
                          double* seconds) {
	pthread_mutex_lock(&r->lock);
	r->pass = pass;
	pthread_cond_signal(&r->begun);
	while (r->pass) {
		wait_a_moment(r);
		if (r->pass && waits(user)) /* sent again until it arrives, because the thread may not have begun */
			r->backend->abandon(r->backend);
	}
	const bool ran = r->ran;
	*seconds += r->took;
	pthread_mutex_unlock(&r->lock);
	r->backend->rest(r->backend, false);
	return ran;
}

static bool run_here(struct idle_runner* r, const struct pass* pass, double* seconds) {
	struct error ignored;
	const double before = seconds_now();
	const bool ran = r->backend->run(r->backend, pass, &ignored);
	*seconds += seconds_now() - before;
	return ran;
}

bool idle_run(struct idle_runner* r, struct session* s, const struct session_work* work, bool (*waits)(void*),
              void* user, double* seconds) {
	const bool ran =
	    r->threaded ? run_on_thread(r, &work->pass, waits, user, seconds) : run_here(r, &work->pass, seconds);
	if (ran)
		session_absorb(s, work, work->pass.n, 0);
	return ran;
}

bool idle_goes_on(struct idle_progress* p, const struct search* search, int patience) {
	const double speedup = search_speedup(search);
	if (p->search != search || speedup > p->best) {
		*p = (struct idle_progress){search, isfinite(speedup) ? speedup : 0, search_steps(search)};
		return true;
	}
	return search_steps(search) - p->step < patience;
}

const char* idle_status(struct session* s) {
	const struct search* search = session_search(s);
	const struct engine* engine = session_engine(s);
	const bool waits = engine->making && draft_weights_job_share(engine->making) < 1;
	if (waits || (search && isnan(search_speedup(search)))) /* it is not known yet */
		return NULL;
	return search && search_speedup(search) > 1 ? NULL : "leaving out layers does not pay here";
}
