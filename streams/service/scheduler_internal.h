/* Shared by the scheduler's files: its slots, and their state for display. */
#pragma once

#include <stdatomic.h>

#include "kernels/clock.h"
#include "optimizer/idle.h"
#include "optimizer/optimizer.h"
#include "streams/report.h"
#include "streams/service/events.h"
#include "streams/service/merge.h"
#include "streams/service/metrics.h"
#include "streams/service/scheduler.h"

/* Seconds that a grammar may take in a step without its slot sitting out (scheduler_iteration.c). */
#define FREE_GRAMMAR_SECONDS 0.002
enum { MAX_TASKS = 64, MAX_SESSIONS = 256, MAX_TENANTS = 65 };

/* One session and the job that it serves. Only the scheduler's thread touches it. */
struct slot {
	swiftlet_session* session;
	struct memory_watch* watch;
	struct job* job;             /* NULL: free */
	char task[128];              /* the last served */
	int64_t used;                /* iteration of the last use */
	int64_t tokens;              /* emitted in all */
	struct mask mask, quantized; /* and the sub-layers that drafts run with the quantized draft weights */
	bool quantized_head;
	int64_t since[2 * MAX_BLOCKS]; /* tokens when each sub-layer's state last changed */
	double taken;                  /* seconds of its job's iterations */
	bool waits;                    /* `work` is the step's next pass, which has not run yet */
	struct session_work work;
	int64_t begun;   /* iteration of its last step */
	double rows;     /* of its full passes, lately */
	int allotted;    /* rows of its prompt that this iteration computes */
	int passed_over; /* iterations in which its prompt got less than a quarter of the chunk */
	int tenant;      /* its job's, or its last one's */
	bool holds;      /* memory of a cache, as far as is known */
	bool ended;      /* its job, in this iteration */
	double grammar;  /* seconds that its job's grammar has taken, as last read */
	double debt;     /* the part of these that it still has to sit out, so that others do not pay for them */
	struct swiftlet_figures figures;
	struct idle_progress progress; /* of learning from its last text */
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
	struct job* first;        /* the queue */
	int queue, waiting, busy; /* its jobs; their requests; jobs that run */
	bool refusing, cancel_all, stop;

	/* the thread's own */
	struct slot *slot, *end; /* of the sessions */
	struct merged_pass merged;
	struct speculation_budget budget;     /* the budget that drafting and learning of all slots share */
	int64_t iterations, shared, separate; /* passes of several sequences, of one */
	double drafted;                       /* seconds of this iteration's passes before the full one */
	int64_t preempted;                    /* how often a sequence gave its memory to others */
	struct retrieval_pool* pool[MAX_TENANTS];
	int running[MAX_TENANTS];  /* generations */
	double spent[MAX_TENANTS]; /* rows of late, fading: a tenant with many waits for the others' prompts */
	int64_t uses;
	struct summary summary;
	double swept, shown;
	double iterated;            /* when the last iteration began */
	int payee;                  /* the slot whose debt is paid next */
	struct idle_runner* runner; /* NULL: no idle learning has happened yet */
	double busy_seconds, idle_seconds;
	bool logged_status; /* that skipping does not pay */
	bool logged_full;   /* that the store cannot be written */
	int64_t tokens, tokens_shown;

	int64_t cache_tokens;       /* what memory there is for */
	_Atomic int64_t cache_used; /* tokens that running generations hold; other threads read it */
};

/* One step of every sequence (scheduler_iteration.c). False when none runs. */
bool scheduler_iterate(struct scheduler*, bool cancel_all);
/* Rows of prompts that an iteration computes. */
int scheduler_chunk(const struct scheduler*);
/* Gives the step that ended to the job, which leaves the slot when it is done; or fails the job. */
void slot_step(struct scheduler*, struct slot*);
void slot_fail(struct scheduler*, struct slot*, const struct error*);

/* The state of learning as a sentence; NULL when skipping pays in some session. */
const char* scheduler_status(const struct scheduler*);
/* Publishes the state as a JSON object, and its point of the curves; `at` is in seconds of the scheduler's
 * clock. */
void scheduler_show(struct scheduler*, double at);
