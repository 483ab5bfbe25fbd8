/* The thread, the ring, and what is done when a proposal is wanted; bayes.h says why so. */
#include "optimizer/bayes.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "gp/gp.h"

enum { RING = 1024, FIT_FIRST = 32, FIT_EVALUATIONS = 16, FIT_MOST = 512, MAX_OBSERVATIONS = 1024 };
enum request { REQUEST_NONE, REQUEST_WANTED, REQUEST_READY };

struct sample {
	struct vector bits;
	double y, variance;
	int64_t window;
};

struct bayes {
	struct gp* gp;
	int dims, capacity, next_fit;
	bool hamming;
	double amplitude; /* of y, to begin with */
	struct gp_search how;
	double trend[MAX_DIMS];
	struct vector answer;
	atomic_int request;

	struct sample ring[RING];
	atomic_uint written, read;

	bool threaded;
	pthread_t thread;
	sem_t wake;
	atomic_bool stop;
	atomic_llong nanoseconds;
};

static bool stopping(void* user) {
	struct bayes* b = user;
	return atomic_load_explicit(&b->stop, memory_order_relaxed);
}

/* ---- the work ----------------------------------------------------------------------------- */

/* group (dims): whose length-scale is which. */
static struct gp* model_of(struct bayes* b, const uint8_t* group) {
	/* Half of the cube away is one length away, to begin with. */
	const double length = b->hamming ? 0.5 * b->dims : sqrt(0.5 * b->dims);
	return gp_open(&(struct gp_options){
	    .dims = b->dims,
	    .group = group,
	    .capacity = b->capacity,
	    .kernel = b->hamming ? GP_HAMMING : GP_MATERN52,
	    .jitter = 1e-6,
	    .hyper = {.amplitude = b->amplitude, .length = {length, length}, .window = b->amplitude / 4},
	    .cancelled = stopping,
	    .user = b,
	});
}

static void take_in(struct bayes* b) {
	const unsigned end = atomic_load_explicit(&b->written, memory_order_acquire);
	unsigned at = atomic_load_explicit(&b->read, memory_order_relaxed);
	for (; at != end; at++) {
		const struct sample* s = &b->ring[at % RING];
		if (gp_count(b->gp) == b->capacity) {
			gp_forget(b->gp, b->capacity - b->capacity / 4);
			b->next_fit = b->capacity;
		}
		gp_add(b->gp, s->bits.word, s->y, s->variance, s->window);
	}
	atomic_store_explicit(&b->read, at, memory_order_release);
}

/* At 32, 64, 128… observations: the factor is rebuilt only then. */
static void fit_when_due(struct bayes* b) {
	if (gp_count(b->gp) < b->next_fit)
		return;
	gp_fit(b->gp, FIT_EVALUATIONS, FIT_MOST);
	while (b->next_fit <= gp_count(b->gp))
		b->next_fit *= 2;
}

static void work(struct bayes* b) {
	take_in(b);
	if (atomic_load_explicit(&b->request, memory_order_acquire) != REQUEST_WANTED)
		return;
	gp_set_trend(b->gp, b->trend);
	fit_when_due(b);
	const bool found = gp_propose(b->gp, &b->how, b->answer.word) == GP_OK;
	atomic_store_explicit(&b->request, found ? REQUEST_READY : REQUEST_NONE, memory_order_release);
}

static long long thread_nanoseconds(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void* live(void* user) {
	struct bayes* b = user;
	/* Only what the decoding threads leave. Where it is refused, the thread runs like any other. */
	pthread_setschedparam(pthread_self(), SCHED_IDLE, &(struct sched_param){0});
	while (!stopping(b)) {
		if (sem_wait(&b->wake) != 0 && errno != EINTR)
			break;
		if (!stopping(b))
			work(b);
		atomic_store_explicit(&b->nanoseconds, thread_nanoseconds(), memory_order_relaxed);
	}
	return NULL;
}

/* ---- made and freed ----------------------------------------------------------------------- */

/* Signals are for the program's own threads. */
static bool start_thread(struct bayes* b) {
	sigset_t all, before;
	sigfillset(&all);
	if (sem_init(&b->wake, 0, 0) != 0)
		return false;
	pthread_sigmask(SIG_SETMASK, &all, &before);
	b->threaded = pthread_create(&b->thread, NULL, live, b) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (!b->threaded)
		sem_destroy(&b->wake);
	return b->threaded;
}

struct bayes* bayes_open(const struct search_options* o, int dims) {
	struct bayes* b = calloc(1, sizeof *b);
	if (!b)
		return NULL;
	b->dims = dims;
	b->capacity = o->max_steps < MAX_OBSERVATIONS - 64 ? o->max_steps + 64 : MAX_OBSERVATIONS;
	b->next_fit = FIT_FIRST;
	b->how = (struct gp_search){.acquisition = o->acquisition == SEARCH_EI ? GP_EI : GP_UCB,
	                            .kappa = o->kappa,
	                            .starts = 3,
	                            .evaluations = 6,
	                            .rounds = 3};
	b->hamming = o->kernel == SEARCH_HAMMING;
	b->amplitude = o->published ? 0.2 : 0.05; /* matchness; what a sum leaves of damage */
	uint8_t kind[MAX_DIMS];
	for (int i = 0; i < dims; i++)
		kind[i] = i & 1;
	b->gp = model_of(b, kind);
	if (!b->gp || (o->background && !o->published && !start_thread(b))) {
		bayes_close(b);
		return NULL;
	}
	return b;
}

void bayes_close(struct bayes* b) {
	if (!b)
		return;
	if (b->threaded) {
		atomic_store(&b->stop, true);
		sem_post(&b->wake);
		/* whoever waits for it must not wait until a busy machine has time to spare */
		pthread_setschedparam(b->thread, SCHED_OTHER, &(struct sched_param){0});
		pthread_join(b->thread, NULL);
		sem_destroy(&b->wake);
	}
	gp_close(b->gp);
	free(b);
}

/* ---- the search's side -------------------------------------------------------------------- */

static void rouse(struct bayes* b) {
	if (b->threaded)
		sem_post(&b->wake);
	else
		work(b);
}

void bayes_observe(struct bayes* b, const struct vector* v, double y, double variance, int64_t window) {
	const unsigned end = atomic_load_explicit(&b->written, memory_order_relaxed);
	const unsigned waiting = end - atomic_load_explicit(&b->read, memory_order_acquire);
	/* A model so far behind does without this score. */
	if (waiting >= RING)
		return;
	b->ring[end % RING] = (struct sample){*v, y, variance, window};
	atomic_store_explicit(&b->written, end + 1, memory_order_release);
	if (waiting + 1 == RING / 2)
		rouse(b);
}

void bayes_want(struct bayes* b, int size, const double* trend, uint64_t seed) {
	if (atomic_load_explicit(&b->request, memory_order_acquire) != REQUEST_NONE)
		return;
	b->how.size = size;
	b->how.seed = seed;
	for (int i = 0; i < b->dims; i++)
		b->trend[i] = trend ? trend[i] : 0;
	atomic_store_explicit(&b->request, REQUEST_WANTED, memory_order_release);
	rouse(b);
}

bool bayes_take(struct bayes* b, struct vector* v) {
	if (atomic_load_explicit(&b->request, memory_order_acquire) != REQUEST_READY)
		return false;
	*v = b->answer;
	atomic_store_explicit(&b->request, REQUEST_NONE, memory_order_release);
	return true;
}

double bayes_seconds(const struct bayes* b) {
	return (double)atomic_load_explicit(&b->nanoseconds, memory_order_relaxed) * 1e-9;
}
