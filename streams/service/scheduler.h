/* Continuous batching: one thread owns the engine and its sessions, and steps all sequences.
 *
 * An iteration is one step of every session. Their rows share one budget: draft steps that run the same
 * weights share a pass, and so do plain steps, verified trees and one chunk of waiting prompts
 * (scheduler_iteration.c).
 *
 * Jobs wait in a queue, which holds a bounded number of requests. The tenant with the fewest running jobs
 * goes first, then the request with the fewest, then the oldest job. So a request of many jobs takes no turn
 * from one of few. A job goes to the free slot whose cache alone holds most of its prompt, else to
 * one that last served its tenant, preferably its task, else to the one idle the longest. Before every step
 * the scheduler asks whether the job's client has disconnected; then the slot becomes free. Metrics count
 * what happens, memory keeps what was learned, and events show it. */
#pragma once

#include "streams/memory/memory.h"
#include "streams/memory/prompt_cache.h"

struct events;
struct metrics;

/* All are called on the scheduler's thread, without holding a lock. */
struct job_calls {
	bool (*gone)(void* user); /* its client is not there any more */
	void (*step)(void* user, const struct swiftlet_step*);
	/* The last call: the figures of the generation (NULL: it never began), and a problem for the client's
	 * error: NULL for none, "cancelled", "stopping" (the text so far stands), or the failure's sentence. */
	void (*end)(void* user, const struct swiftlet_figures*, const char* problem);
};

struct job_group { /* the jobs of one request; the scheduler's, all zero before */
	int waiting, running;
};

struct job {
	struct swiftlet_request request; /* its pointers stay the caller's until `end` */
	const struct job_calls* calls;
	void* user;
	int tenant; /* the API key's number from 1, 0 without keys; at most 64 */
	struct job_group* group;
	/* the scheduler's */
	struct job* next;
	double asked, first_token;
};

struct scheduler_options {
	int sessions, queue; /* at least 1; requests that wait */
	bool share_prefixes; /* also between tenants: one tenant's requests then show in another's times and
	                        cached_tokens */
	int prefill_chunk;   /* tokens of prompts that an iteration computes; 0: chosen by measured cost */
	struct swiftlet_options session;
	const char* model_name; /* for clients */
	struct memory* memory;  /* the common memory, which has the tenants' too; NULL: nothing is remembered */
	struct prompt_cache* prompts; /* on disk; NULL: in memory alone */
	struct metrics* metrics;      /* [0] for all, and after it each tenant's */
	struct events* events;
};

struct scheduler;
/* Opens the sessions and starts the thread. The engine must outlive it. NULL with the error set. */
struct scheduler* scheduler_open(swiftlet_engine*, const struct scheduler_options*, struct error*);
enum submission { SUBMIT_TAKEN, SUBMIT_FULL, SUBMIT_STOPPING };
/* Queues the jobs of one request, linked by `next`, all or none. */
enum submission scheduler_submit(struct scheduler*, struct job* first);
/* Queues one more job of a request in place of one that has ended, without regard to the queue's limit. False
 * when the scheduler is cancelling. */
bool scheduler_follow(struct scheduler*, struct job*);
struct scheduler_now {
	int queue, busy;      /* requests that wait; jobs that run */
	int64_t cache_used;   /* tokens that running generations hold, prompts included */
	int64_t cache_tokens; /* the most that all sessions together can hold if they share none */
};
void scheduler_now(struct scheduler*, struct scheduler_now*);
/* Refuses new jobs, lets running and queued ones go on for at most `grace` seconds, then cancels them.
 * Returns when none runs any more. */
void scheduler_drain(struct scheduler*, double grace);
void scheduler_close(struct scheduler*);
