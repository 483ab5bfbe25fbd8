/* See pool.h.
 *
 * A job is one 64-bit ticket: how many parts it has (high half) and which is next (low half). Threads
 * take a part by adding one. Only who holds a part reads the job's other fields, and they do not change
 * before every part is done; so a thread that comes late can do no harm. */
#include "kernels/cpu/pool.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "kernels/cpu/cores.h"

enum { MAX_THREADS = 256, SPINS = 2000, YIELDS = 64 };

struct worker {
	_Alignas(64) atomic_int asleep;
	sem_t wake;
	pthread_t thread;
	struct pool* pool;
	int number;
};

struct pool {
	_Alignas(64) _Atomic uint64_t ticket;
	_Alignas(64) atomic_int done;
	_Alignas(64) atomic_bool active, closing;
	void (*work)(void*, int, int);
	void* user;
	int threads;
	struct worker worker[]; /* (threads - 1) */
};

static inline void pause_briefly(void) {
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

static bool open_parts(uint64_t ticket) { return (uint32_t)ticket < (uint32_t)(ticket >> 32); }

/* Takes and computes parts until none is left. */
static void take_parts(struct pool* p, int thread) {
	for (;;) {
		if (!open_parts(atomic_load_explicit(&p->ticket, memory_order_relaxed)))
			return;
		const uint64_t ticket = atomic_fetch_add_explicit(&p->ticket, 1, memory_order_acq_rel);
		if (!open_parts(ticket))
			return;
		p->work(p->user, (int)(uint32_t)ticket, thread);
		atomic_fetch_add_explicit(&p->done, 1, memory_order_release);
	}
}

/* Waits briefly for a job; false when it is time to sleep. It yields while it spins, because the machine may
 * have fewer free cores than the pool has threads. */
static bool wait_for_job(struct pool* p) {
	for (int yields = 0; yields < YIELDS; yields++) {
		for (int spins = 0; spins < SPINS; spins++) {
			if (open_parts(atomic_load_explicit(&p->ticket, memory_order_relaxed)))
				return true;
			pause_briefly();
		}
		if (atomic_load_explicit(&p->active, memory_order_relaxed))
			yields = 0;
		sched_yield();
		if (atomic_load_explicit(&p->closing, memory_order_acquire))
			return true;
	}
	return false;
}

static void sleep_until_woken(struct worker* w) {
	atomic_store(&w->asleep, 1);
	/* A job published since the last check would not wake this thread, so it checks again with the flag
	 * set. */
	if ((open_parts(atomic_load(&w->pool->ticket)) || atomic_load(&w->pool->closing)) &&
	    atomic_exchange(&w->asleep, 0))
		return;
	while (sem_wait(&w->wake) != 0)
		;
}

static void* worker_main(void* user) {
	struct worker* w = user;
	while (!atomic_load_explicit(&w->pool->closing, memory_order_acquire)) {
		take_parts(w->pool, w->number);
		if (!wait_for_job(w->pool))
			sleep_until_woken(w);
	}
	return NULL;
}

static void wake_workers(struct pool* p) {
	for (int i = 0; i < p->threads - 1; i++)
		if (atomic_load(&p->worker[i].asleep) && atomic_exchange(&p->worker[i].asleep, 0))
			sem_post(&p->worker[i].wake);
}

struct pool* pool_open(int threads) {
	if (threads <= 0)
		threads = cores_available();
	if (threads > MAX_THREADS)
		threads = MAX_THREADS;
	const size_t bytes = sizeof(struct pool) + (size_t)(threads - 1) * sizeof(struct worker);
	struct pool* p = aligned_alloc(64, (bytes + 63) / 64 * 64);
	if (!p)
		return NULL;
	atomic_init(&p->ticket, 0);
	atomic_init(&p->done, 0);
	atomic_init(&p->active, false);
	atomic_init(&p->closing, false);
	p->threads = 1;
	for (int i = 0; i < threads - 1; i++) {
		struct worker* w = &p->worker[i];
		atomic_init(&w->asleep, 0);
		w->pool = p;
		w->number = i + 1;
		if (sem_init(&w->wake, 0, 0) != 0 || pthread_create(&w->thread, NULL, worker_main, w) != 0) {
			pool_close(p);
			return NULL;
		}
		p->threads++;
	}
	return p;
}

void pool_close(struct pool* p) {
	if (!p)
		return;
	atomic_store(&p->closing, true);
	wake_workers(p);
	for (int i = 0; i < p->threads - 1; i++) {
		pthread_join(p->worker[i].thread, NULL);
		sem_destroy(&p->worker[i].wake);
	}
	free(p);
}

int pool_threads(const struct pool* p) { return p->threads; }

void pool_begin(struct pool* p) { atomic_store_explicit(&p->active, true, memory_order_relaxed); }

void pool_end(struct pool* p) { atomic_store_explicit(&p->active, false, memory_order_relaxed); }

void pool_run(struct pool* p, int parts, void (*work)(void* user, int part, int thread), void* user) {
	if (p->threads == 1 || parts <= 1) {
		for (int part = 0; part < parts; part++)
			work(user, part, 0);
		return;
	}
	p->work = work;
	p->user = user;
	atomic_store_explicit(&p->done, 0, memory_order_relaxed);
	atomic_store(&p->ticket, (uint64_t)parts << 32);
	wake_workers(p);
	take_parts(p, 0);
	for (int spins = 0; atomic_load_explicit(&p->done, memory_order_acquire) != parts; spins++) {
		pause_briefly();
		if (spins >= SPINS) {
			spins = 0;
			sched_yield();
		}
	}
}
