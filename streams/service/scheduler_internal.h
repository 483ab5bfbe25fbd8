/* What the files of the scheduler share: its sessions, and what is shown of them. */
#ifndef SWIFTLET_STREAMS_SERVICE_SCHEDULER_INTERNAL_H
#define SWIFTLET_STREAMS_SERVICE_SCHEDULER_INTERNAL_H

#include <stdatomic.h>

#include "optimizer/session.h"
#include "streams/report.h"
#include "streams/service/merge.h"
#include "streams/service/scheduler.h"

enum { MAX_TASKS = 64, MAX_SESSIONS = 64 };

/* One session with what it serves. The scheduler's thread alone touches it. */
struct seat {
	swiftlet_session* session;
	struct memory_watch* watch;
	struct job* job; /* NULL: free */
	char task[128];  /* the last served */
	int64_t used;    /* turn of the last use */
	int64_t tokens;  /* emitted in all */
	int64_t before;  /* tokens when its job began */
	struct mask mask;
	int64_t since[2 * MAX_BLOCKS]; /* tokens when each sub-layer last changed between kept and skipped */
	double taken;                  /* seconds of its job's turns */
	bool gone;                     /* its client */
	struct session_work work;      /* of the step under way: a full pass that may share */
	struct swiftlet_figures figures;
};

struct scheduler {
	struct scheduler_options option;
	swiftlet_engine* engine;
	int blocks;
	pthread_t thread;
	bool started;
	double began;

	pthread_mutex_t lock;
	pthread_cond_t work, idle;
	struct job *first, *last; /* the queue */
	int queue, busy;
	bool refusing, cancel_all, stop;

	/* the thread's own */
	struct seat* seat;
	struct merge_costs costs;
	struct merged_pass* merged;
	int64_t uses;
	struct summary summary;
	double seconds[6]; /* by phase */
	double swept, shown;
	int64_t tokens, tokens_shown;

	_Atomic int64_t cache_used; /* tokens that running generations hold; whoever asks reads it */
};

/* Publishes the state as one JSON object, and its point of the curves; `at` by the scheduler's clock. */
void scheduler_show(struct scheduler*, double at);

#endif
