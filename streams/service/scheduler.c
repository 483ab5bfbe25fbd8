/* The thread that owns the engine, the queue and the sessions, and that gives slots to jobs. */
#include "streams/service/scheduler.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "streams/log.h"
#include "streams/service/scheduler_internal.h"

static void on_memory_event(void* user, int session, enum memory_event event, const char* task) {
	struct scheduler* s = user;
	events_publish(s->option.events, seconds_now() - s->began, session, memory_event_name(event), task);
}

/* ---- jobs and sessions -------------------------------------------------------------------- */

static void note_mask(struct slot* slot) {
	const struct mask mask = session_mask(slot->session, NULL);
	bool head;
	const struct mask quantized = session_quantized(slot->session, &head);
	for (int i = 0; i < 2 * MAX_BLOCKS; i++)
		if (mask_has(&mask, i) != mask_has(&slot->mask, i) ||
		    mask_has(&quantized, i) != mask_has(&slot->quantized, i))
			slot->since[i] = slot->tokens;
	slot->mask = mask;
	slot->quantized = quantized;
	slot->quantized_head = head;
}

static void add_up(struct scheduler* s, const struct job* job, const struct swiftlet_figures* f) {
	/* clients choose labels, so their number is bounded */
	const char* task = job->request.task;
	bool known = s->summary.n < MAX_TASKS || !task;
	for (int i = 0; i < s->summary.n && !known; i++)
		known = strcmp(s->summary.task[i].name, task) == 0;
	summary_add(&s->summary, known ? task : "(other)", f);
	const double first_token = job->first_token > 0 ? job->first_token - job->asked : (double)NAN;
	metrics_generation(&s->option.metrics[0], f, first_token);
	if (job->tenant > 0)
		metrics_generation(&s->option.metrics[job->tenant], f, first_token);
}

static void count_failure(struct scheduler* s, const struct job* job) {
	metrics_failure(&s->option.metrics[0]);
	if (job->tenant > 0)
		metrics_failure(&s->option.metrics[job->tenant]);
}

static void count_job_out(struct scheduler* s) {
	pthread_mutex_lock(&s->lock);
	s->busy--;
	pthread_cond_broadcast(&s->idle);
	pthread_mutex_unlock(&s->lock);
}

/* A session counts all the time that it does not compute as "other". Here that is mostly iterations of other
 * sessions, which count them themselves. */
static void exclude_waiting(struct slot* slot) {
	struct swiftlet_figures* f = &slot->figures;
	const double phases =
	    f->seconds.prefill + f->seconds.draft + f->seconds.verify + f->seconds.plain + f->seconds.optimize;
	f->seconds.other = fmax(0, slot->taken - phases);
}

/* Logs a problem once each time that it begins. */
static void log_store(struct scheduler* s) {
	struct memory_counts k;
	memory_counts(s->option.memory, &k);
	if (k.store_failed && !s->logged_full)
		log_line("swiftlet: %s; what was learned is kept in memory until it can be stored", k.store_message);
	else if (!k.store_failed && s->logged_full)
		log_line("swiftlet: the store can be written again");
	s->logged_full = k.store_failed;
}

static void finish_job(struct scheduler* s, struct slot* slot, const char* problem) {
	struct job* job = slot->job;
	swiftlet_session_figures(slot->session, &slot->figures);
	exclude_waiting(slot);
	if (slot->watch) {
		memory_end(slot->watch);
		log_store(s);
	}
	add_up(s, job, &slot->figures);
	slot->job = NULL;
	slot->waits = false;
	slot->ended = true;
	s->running[job->tenant]--;
	job->group->running--;
	job->calls->end(job->user, &slot->figures, problem);
	count_job_out(s);
}

/* Retrieval looks only in earlier texts of the same key. If there is no memory for a pool, the key has
 * none. */
static void use_pool(struct scheduler* s, struct slot* slot) {
	struct retrieval_pool** pool = &s->pool[slot->tenant];
	if (!*pool && s->option.session.drafting.pool > 0 &&
	    s->option.session.drafting.method != SWIFTLET_VANILLA)
		*pool = retrieval_pool_open(s->option.session.drafting.pool);
	session_use_pool(slot->session, *pool);
}

/* The second request has found this prefix, so it is worth a file. */
static void keep_prompt(struct scheduler* s, const struct slot* slot) {
	int n;
	const int32_t* text = session_text(slot->session, &n);
	if (slot->figures.cached_tokens < n)
		n = slot->figures.cached_tokens;
	prompt_cache_keep(s->option.prompts, session_cache(slot->session), session_cache(slot->session)->tenant,
	                  text, n);
}

/* Pools may grow only between rounds: after an iteration, before another job gets a slot. */
static void remember_texts(struct scheduler* s) {
	for (struct slot* slot = s->slot; slot < s->end; slot++) {
		if (slot->ended && s->pool[slot->tenant])
			session_remember(slot->session, s->pool[slot->tenant]);
		if (slot->ended && s->option.prompts)
			keep_prompt(s, slot);
		slot->ended = false;
	}
}

/* Everything that a slot learned from a tenant's texts stays with that tenant. */
static void change_tenant(struct scheduler* s, struct slot* slot, int tenant) {
	if (slot->tenant != tenant && slot->watch)
		memory_move(slot->watch, memory_of(s->option.memory, tenant));
	else if (slot->tenant != tenant)
		search_close(session_forget(slot->session));
	slot->tenant = tenant;
	session_set_tenant(slot->session, tenant, s->option.share_prefixes);
}

static void start_job(struct scheduler* s, struct slot* slot, struct job* job) {
	struct error e = {{0}};
	slot->job = job;
	slot->used = ++s->uses;
	slot->taken = 0;
	slot->rows = 1;
	slot->passed_over = 0;
	slot->grammar = slot->debt = 0;
	slot->progress = (struct idle_progress){.search = NULL};
	slot->holds = true; /* hits in caches are hidden from other tenants */
	change_tenant(s, slot, job->tenant);
	use_pool(s, slot);
	if (s->option.prompts)
		prompt_cache_bring(s->option.prompts, session_cache(slot->session),
		                   session_cache(slot->session)->tenant, job->request.prompt, job->request.n_prompt);
	snprintf(slot->task, sizeof slot->task, "%s", job->request.task ? job->request.task : "");
	if (!swiftlet_session_start(slot->session, &job->request, e.message, sizeof e.message)) {
		slot->job = NULL;
		count_failure(s, job);
		job->calls->end(job->user, NULL, e.message);
		count_job_out(s);
		return;
	}
	s->running[job->tenant]++;
	job->group->running++;
	if (slot->watch)
		memory_begin(slot->watch, job->request.task);
	note_mask(slot);
}

void slot_step(struct scheduler* s, struct slot* slot) {
	struct job* job = slot->job;
	if (session_failure(slot->session)) {
		slot_fail(s, slot, session_failure(slot->session));
		return;
	}
	struct swiftlet_step step = {.stop = SWIFTLET_RUNNING};
	session_output(slot->session, &step);
	if (step.n > 0 && !(job->first_token > 0))
		job->first_token = seconds_now();
	slot->tokens += step.n;
	s->tokens += step.n;
	job->calls->step(job->user, &step);
	if (slot->watch)
		memory_step(slot->watch, &step);
	note_mask(slot);
	if (step.stop != SWIFTLET_RUNNING)
		finish_job(s, slot,
		           step.stop != SWIFTLET_CANCELLED ? NULL
		           : job->calls->gone(job->user)   ? "cancelled"
		                                           : "stopping");
}

void slot_fail(struct scheduler* s, struct slot* slot, const struct error* e) {
	count_failure(s, slot->job);
	finish_job(s, slot, e->message[0] ? e->message : "the pass failed");
}

/* The free session that suits the job best; there is at least one. */
static struct slot* choose_slot(struct scheduler* s, const struct job* job) {
	struct slot* best = NULL;
	int best_score = 0;
	const char* task = job->request.task ? job->request.task : "";
	for (struct slot* slot = s->slot; slot < s->end; slot++) {
		if (slot->job)
			continue;
		const bool own = slot->tenant == job->tenant;
		const int prefix =
		    own || s->option.share_prefixes
		        ? session_common_prefix(slot->session, job->request.prompt, job->request.n_prompt)
		        : 0;
		/* a longer prefix, in whole chunks, counts for more than tenant and task */
		const int score = prefix + own + (own && slot->used > 0 && strcmp(slot->task, task) == 0);
		if (!best || score > best_score || (score == best_score && slot->used < best->used)) {
			best = slot;
			best_score = score;
		}
	}
	return best;
}

/* Some sessions stay free for requests of which nothing runs, so that they need not wait until an item of
 * another request ends. */
static bool may_start(const struct scheduler* s, const struct job* job) {
	return job->group->running == 0 || s->option.sessions - s->busy > s->option.sessions / 8;
}

/* The link to the next job: of the tenant with the fewest running jobs the oldest of its requests with the
 * fewest. NULL: none may start. */
static struct job** next_in_queue(struct scheduler* s) {
	struct job** best = NULL;
	for (struct job** at = &s->first; *at; at = &(*at)->next) {
		if (!may_start(s, *at))
			continue;
		const int more = best ? s->running[(*at)->tenant] - s->running[(*best)->tenant] : -1;
		if (more < 0 || (more == 0 && (*at)->group->running < (*best)->group->running))
			best = at;
	}
	return best;
}

/* With the lock held. A job has left the queue, or is about to. */
static void count_out_of_queue(struct scheduler* s, const struct job* job) {
	s->waiting -= --job->group->waiting == 0;
}

/* Takes the next job from the queue when a session is free. */
static struct job* take_job(struct scheduler* s) {
	struct job* job = NULL;
	pthread_mutex_lock(&s->lock);
	struct job** const link = s->busy < s->option.sessions ? next_in_queue(s) : NULL;
	if (link) {
		job = *link;
		*link = job->next;
		count_out_of_queue(s, job);
		s->queue--;
		s->busy++;
	}
	pthread_mutex_unlock(&s->lock);
	return job;
}

static void fill_slots(struct scheduler* s) {
	for (struct job* job = take_job(s); job; job = take_job(s)) {
		struct slot* const slot = choose_slot(s, job);
		start_job(s, slot, job);
		if (slot->job && session_constraint_seconds(slot->session) > FREE_GRAMMAR_SECONDS)
			break; /* a step of the other sessions comes first */
	}
}

/* Removes jobs from the queue whose clients have gone or that are to end. */
static void sweep_queue(struct scheduler* s, bool all) {
	struct job* gone = NULL;
	int n = 0;
	pthread_mutex_lock(&s->lock);
	struct job** at = &s->first;
	while (*at) {
		struct job* job = *at;
		if (all || job->calls->gone(job->user)) {
			*at = job->next;
			count_out_of_queue(s, job);
			job->next = gone;
			gone = job;
			n++;
		} else
			at = &job->next;
	}
	pthread_mutex_unlock(&s->lock);
	while (gone) {
		struct job* next = gone->next;
		gone->calls->end(gone->user, NULL, all ? "stopping" : "cancelled");
		gone = next;
	}
	/* counted until their ends are reported, so that a drain waits for the reports too */
	if (n) {
		pthread_mutex_lock(&s->lock);
		s->queue -= n;
		pthread_cond_broadcast(&s->idle);
		pthread_mutex_unlock(&s->lock);
	}
}

/* ---- the thread --------------------------------------------------------------------------- */

enum { IDLE_PASSES = 16 }; /* passes of one session before the next one's turn */

static void show_sometimes(struct scheduler* s, bool always) {
	const double at = seconds_now();
	if (!always && at - s->shown < 0.25)
		return;
	for (struct slot* slot = s->slot; slot < s->end; slot++)
		if (slot->job)
			swiftlet_session_figures(slot->session, &slot->figures);
	metrics_draft_weights(&s->option.metrics[0], engine_draft_weights_made(s->engine));
	scheduler_show(s, at);
}

static void note_cache(struct scheduler* s) {
	int64_t used = 0;
	for (const struct slot* slot = s->slot; slot < s->end; slot++) {
		int n;
		session_text(slot->session, &n);
		used += slot->job ? n : 0;
	}
	atomic_store(&s->cache_used, used);
}

static bool has_work(void* user) {
	struct scheduler* s = user;
	pthread_mutex_lock(&s->lock);
	const bool waits = s->first || s->stop || s->cancel_all;
	pthread_mutex_unlock(&s->lock);
	return waits;
}

/* The seconds that idle learning may take: as many as requests took, or the given share of them. */
static bool may_learn(const struct scheduler* s) {
	const double share = s->option.session.learning.idle;
	return share > 0 && s->idle_seconds < share * fmax(s->busy_seconds, 1e-9);
}

/* Draft weights that are ready before a request needs them take none of its time. */
static bool make_draft_weights(struct scheduler* s) {
	return s->option.session.learning.idle > 0 && engine_make_draft_weights(s->engine);
}

/* Runs some passes of one session's search on its last text. False when there is nothing to learn. */
static bool learn_from(struct scheduler* s, struct slot* slot) {
	struct session_work work;
	bool scored = false;
	const int before = search_steps(session_search(slot->session));
	const double began = s->idle_seconds;
	for (int n = 0;
	     n < IDLE_PASSES && may_learn(s) && !has_work(s) && session_next_idle(slot->session, &work); n++) {
		if (!idle_run(s->runner, slot->session, &work, has_work, s, &s->idle_seconds))
			break;
		scored = true;
	}
	metrics_idle(&s->option.metrics[0], search_steps(session_search(slot->session)) - before,
	             s->idle_seconds - began);
	if (scored && slot->watch)
		memory_idle(slot->watch);
	note_mask(slot);
	return scored;
}

const char* scheduler_status(const struct scheduler* s) {
	const char* status = NULL;
	for (const struct slot* slot = s->slot; slot < s->end; slot++)
		if (slot->used > 0 && session_search(slot->session) && !(status = idle_status(slot->session)))
			return NULL;
	return status;
}

/* Logs once when learning has ended without a gain. */
static void log_gain_of_skipping(struct scheduler* s) {
	const char* status = scheduler_status(s);
	if (status && !s->logged_status && s->idle_seconds > 0)
		log_line("swiftlet: %s", status);
	s->logged_status |= status && s->idle_seconds > 0;
}

/* While no request runs, continues the searches session by session and pass by pass, until a request comes,
 * their time is over, or the last texts have nothing more to teach. True when a mask was scored. */
static bool learn_while_idle(struct scheduler* s) {
	struct error ignored;
	bool any = false;
	if (!may_learn(s))
		return false;
	if (!s->runner && !(s->runner = idle_open(s->engine, &ignored)))
		return false;
	for (struct slot* slot = s->slot; slot < s->end; slot++) {
		struct search* const search = session_search(slot->session);
		if (slot->used > 0 && search &&
		    idle_goes_on(&slot->progress, search, s->option.session.learning.patience))
			any |= learn_from(s, slot);
	}
	return any;
}

/* For pthread_cond_timedwait. */
static struct timespec add_to_now(double seconds) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_sec += (time_t)seconds;
	t.tv_nsec += (long)((seconds - floor(seconds)) * 1e9);
	if (t.tv_nsec >= 1000000000) {
		t.tv_nsec -= 1000000000;
		t.tv_sec++;
	}
	return t;
}

/* Sleeps until there is work. Every few seconds it sends watchers a sign of life. */
static void wait_for_work(struct scheduler* s) {
	const struct timespec until = add_to_now(5);
	bool beat = false;
	pthread_mutex_lock(&s->lock);
	pthread_cond_broadcast(&s->idle);
	while (!s->first && !s->stop && !beat)
		beat = pthread_cond_timedwait(&s->work, &s->lock, &until) == ETIMEDOUT;
	pthread_mutex_unlock(&s->lock);
	if (beat)
		events_beat(s->option.events);
}

static void* run_thread(void* user) {
	struct scheduler* s = user;
	bool busy = false;
	show_sometimes(s, true);
	for (;;) {
		pthread_mutex_lock(&s->lock);
		const bool stop = s->stop, cancel = s->cancel_all;
		pthread_mutex_unlock(&s->lock);
		if (stop)
			return NULL;
		const double at = seconds_now();
		if (cancel || at - s->swept > 0.05) {
			sweep_queue(s, cancel);
			s->swept = at;
		}
		fill_slots(s);
		if (scheduler_iterate(s, cancel)) {
			s->busy_seconds += seconds_now() - at;
			remember_texts(s);
			note_cache(s);
			show_sometimes(s, false);
			busy = true;
			continue;
		}
		if (busy) /* learning at idle priority may take long */
			show_sometimes(s, true);
		busy = false;
		const bool learned = make_draft_weights(s) || learn_while_idle(s);
		show_sometimes(s, !learned);
		if (!learned) {
			log_gain_of_skipping(s);
			wait_for_work(s);
		}
	}
}

/* ---- the door ----------------------------------------------------------------------------- */

static bool open_slot(struct scheduler* s, struct slot* slot, int index, struct error* e) {
	struct swiftlet_options own = s->option.session;
	own.drafting.pool = 0; /* a slot serves many tenants, so no tenant's text may serve another's drafts */
	slot->session = swiftlet_session_open(s->engine, &own, e->message, sizeof e->message);
	if (!slot->session)
		return false;
	session_share_budget(slot->session, &s->budget);
	slot->figures.matchness = slot->figures.alpha = slot->figures.mean_generated = NAN;
	slot->figures.c = slot->figures.expected_speedup = slot->figures.tokens_per_second = NAN;
	slot->figures.skip_ratio = NAN;
	slot->mask = session_mask(slot->session, NULL);
	if (s->option.memory && !(slot->watch = memory_attach(s->option.memory, slot->session, index)))
		return error_set(e, "out of memory for session %d", index);
	return true;
}

static void measure_cache(struct scheduler* s) {
	const int64_t contexts =
	    (int64_t)s->option.sessions * options_context(&s->option.session, s->engine->model);
	const int room = session_room(s->slot[0].session);
	s->cache_tokens = room < contexts ? room : contexts;
}

struct scheduler* scheduler_open(swiftlet_engine* engine, const struct scheduler_options* o,
                                 struct error* e) {
	struct scheduler* s = calloc(1, sizeof *s);
	const bool sane = o->sessions >= 1 && o->sessions <= MAX_SESSIONS && o->queue >= 1;
	if (!s) {
		error_set(e, "out of memory for a scheduler");
		return NULL;
	}
	s->option = *o;
	s->engine = engine;
	s->blocks = engine->model->weights.shape.n_blocks;
	s->began = s->shown = seconds_now();
	s->slot = sane ? calloc((size_t)o->sessions, sizeof *s->slot) : NULL;
	s->end = s->slot ? s->slot + o->sessions : NULL;
	pthread_mutex_init(&s->lock, NULL);
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&s->work, &attributes);
	pthread_cond_init(&s->idle, &attributes);
	pthread_condattr_destroy(&attributes);
	bool good = (s->slot && merge_open(&s->merged, engine->model->weights.shape.dim)) ||
	            error_set(e, "out of memory for %d sessions", o->sessions);
	budget_open(&s->budget, o->session.learning.budget);
	for (int i = 0; i < o->sessions && good; i++)
		good = open_slot(s, &s->slot[i], i, e);
	if (good)
		measure_cache(s);
	if (good && o->memory)
		memory_on_event(o->memory, on_memory_event, s);
	if (good)
		s->started = pthread_create(&s->thread, NULL, run_thread, s) == 0 ||
		             error_set(e, "the scheduler's thread could not be started");
	if (s->started)
		return s;
	scheduler_close(s);
	return NULL;
}

/* With the lock held. */
static void append_jobs(struct scheduler* s, struct job* first) {
	const double at = seconds_now();
	struct job** end = &s->first;
	for (struct job* job = first; job; job = job->next) {
		job->asked = at;
		job->first_token = 0;
		s->waiting += job->group->waiting++ == 0;
		s->queue++;
	}
	while (*end)
		end = &(*end)->next;
	*end = first;
	pthread_cond_signal(&s->work);
}

enum submission scheduler_submit(struct scheduler* s, struct job* first) {
	enum submission result = SUBMIT_TAKEN;
	pthread_mutex_lock(&s->lock);
	/* requests that find a free session do not wait, so they do not count against the queue */
	if (s->refusing)
		result = SUBMIT_STOPPING;
	else if (s->waiting >= s->option.queue + s->option.sessions - s->busy)
		result = SUBMIT_FULL;
	else
		append_jobs(s, first);
	pthread_mutex_unlock(&s->lock);
	return result;
}

bool scheduler_follow(struct scheduler* s, struct job* job) {
	pthread_mutex_lock(&s->lock);
	const bool taken = !s->cancel_all;
	if (taken)
		append_jobs(s, job);
	pthread_mutex_unlock(&s->lock);
	return taken;
}

void scheduler_now(struct scheduler* s, struct scheduler_now* out) {
	pthread_mutex_lock(&s->lock);
	*out = (struct scheduler_now){.queue = s->waiting,
	                              .busy = s->busy,
	                              .cache_used = atomic_load(&s->cache_used),
	                              .cache_tokens = s->cache_tokens};
	pthread_mutex_unlock(&s->lock);
}

void scheduler_drain(struct scheduler* s, double grace) {
	const struct timespec until = add_to_now(fmin(fmax(grace, 0), 1e6));
	pthread_mutex_lock(&s->lock);
	s->refusing = true;
	bool late = false;
	while ((s->queue || s->busy) && !late)
		late = pthread_cond_timedwait(&s->idle, &s->lock, &until) == ETIMEDOUT;
	s->cancel_all = true;
	pthread_cond_signal(&s->work);
	while (s->queue || s->busy)
		pthread_cond_wait(&s->idle, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

void scheduler_close(struct scheduler* s) {
	if (!s)
		return;
	if (s->started) {
		scheduler_drain(s, 0);
		pthread_mutex_lock(&s->lock);
		s->stop = true;
		pthread_cond_signal(&s->work);
		pthread_mutex_unlock(&s->lock);
		pthread_join(s->thread, NULL);
	}
	idle_close(s->runner);
	for (struct slot* slot = s->slot; slot < s->end; slot++) {
		memory_detach(slot->watch);
		if (slot->session)
			swiftlet_session_close(slot->session);
	}
	if (s->option.memory)
		memory_on_event(s->option.memory, NULL, NULL);
	summary_free(&s->summary);
	pthread_cond_destroy(&s->work);
	pthread_cond_destroy(&s->idle);
	pthread_mutex_destroy(&s->lock);
	for (int i = 0; i < MAX_TENANTS; i++)
		retrieval_pool_close(s->pool[i]);
	merge_close(&s->merged);
	free(s->slot);
	free(s);
}
