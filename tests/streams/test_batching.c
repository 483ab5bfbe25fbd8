/* Batch invariance end to end: many requests at once, in too little memory for all of their caches, drafting
 * and sharing pages; each gets the tokens that it gets alone, plainly, with memory of its own. */
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/draft/retrieval.h"
#include "streams/service/scheduler_internal.h"
#include "tests/must_session.h"

enum {
	VOCAB = 320,
	CONTEXT = 192,
	MOST_PROMPT = 120,
	MOST_TOKENS = 150,
	TENANTS = 3,
	SESSIONS = 12,
	PAGE = 32,
	PAGES = 16
};

/* the model, with fewer blocks of its own */
static const char draft_spec[] = "synth:layers=2,dim=32,heads=2,kv-heads=1,ffn=32,vocab=320,dtype=f32,seed=5";
static const char model_spec[] = "synth:layers=4,dim=64,heads=4,kv-heads=2,ffn=96,vocab=320,dtype=f32,seed=5";

struct case_job {
	struct job job;
	struct job_group group;
	int32_t prompt[MOST_PROMPT];
	struct swiftlet_bias bias;
	int32_t expected[MOST_TOKENS];
	int n_expected;
	int32_t got[MOST_TOKENS];
	int n_got;
	int leaves_after; /* tokens after which its client is gone; INT_MAX: it stays */
	bool ended, failed;
	int cached;
};

/* ---- requests ----------------------------------------------------------------------------- */

static uint32_t state;
static int below(int n) {
	state = state * 1664525u + 1013904223u;
	return (int)((state >> 8) % (uint32_t)n);
}

/* A prompt begins with one of a few texts, cut anywhere: pages that others have, and pages like them. The
 * first ones, which begin together, have short prompts and long answers: all find room to begin, and none to
 * go on. */
static void make_request(struct case_job* c, const struct swiftlet_options* options, int i) {
	struct swiftlet_request* r = &c->job.request;
	swiftlet_request_default(r, options);
	const bool grows = i < SESSIONS;
	const int beginning = below(4), kept = below(grows ? 8 : MOST_PROMPT - 8), n = kept + 1 + below(7);
	for (int k = 0; k < n; k++)
		c->prompt[k] = k < kept ? (k * 37 + beginning * 101 + 3) % VOCAB : below(VOCAB);
	r->prompt = c->prompt;
	r->n_prompt = n;
	r->max_tokens = grows ? MOST_TOKENS : 1 + below(64);
	r->seed = (uint64_t)i;
	if (i % 3 == 1 || grows)
		r->temperature = 0.9;
	if (i % 6 == 4)
		r->top_k = 20;
	if (i % 5 == 2) {
		r->repetition_penalty = 1.2;
		c->bias = (struct swiftlet_bias){.token = below(VOCAB), .bias = 3};
		r->bias = &c->bias;
		r->n_bias = 1;
	}
	c->leaves_after = i % 11 == 7 && !grows ? below(20) : INT_MAX;
	c->job.tenant = i % TENANTS;
}

/* ---- alone -------------------------------------------------------------------------------- */

static bool take_expected(void* user, const struct swiftlet_step* step) {
	struct case_job* c = user;
	for (int i = 0; i < step->n; i++)
		c->expected[c->n_expected++] = step->token[i].id;
	return true;
}

static int64_t run_alone_first(swiftlet_model* model, struct case_job* list, int n, const char* cache_type) {
	char message[512];
	struct swiftlet_options o;
	int64_t tokens = 0;
	options_default(&o);
	o.cache.context = CONTEXT;
	o.drafting.method = SWIFTLET_VANILLA;
	snprintf(o.cache.type, sizeof o.cache.type, "%s", cache_type);
	swiftlet_engine* engine = must_open_engine(model, &o);
	swiftlet_session* session = must_open_session(engine, &o);
	for (int i = 0; i < n; i++) {
		if (!swiftlet_session_generate(session, &list[i].job.request, take_expected, &list[i], NULL, message,
		                               sizeof message))
			fail_msg("%s", message);
		tokens += list[i].n_expected;
	}
	swiftlet_session_close(session);
	swiftlet_engine_close(engine);
	return tokens;
}

/* ---- together ----------------------------------------------------------------------------- */

/* Nobody is answered before all have asked: how many run at once is then no matter of this machine's load. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t opens;
	bool open;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .opens = PTHREAD_COND_INITIALIZER};

static void gate_set(bool open) {
	pthread_mutex_lock(&gate.lock);
	gate.open = open;
	pthread_cond_broadcast(&gate.opens);
	pthread_mutex_unlock(&gate.lock);
}

static void gate_pass(void) {
	pthread_mutex_lock(&gate.lock);
	while (!gate.open)
		pthread_cond_wait(&gate.opens, &gate.lock);
	pthread_mutex_unlock(&gate.lock);
}

static bool on_gone(void* user) {
	const struct case_job* c = user;
	return c->n_got > c->leaves_after;
}

static void on_step(void* user, const struct swiftlet_step* step) {
	struct case_job* c = user;
	gate_pass();
	for (int i = 0; i < step->n && c->n_got < MOST_TOKENS; i++)
		c->got[c->n_got++] = step->token[i].id;
}

static void on_end(void* user, const struct swiftlet_figures* figures, const char* problem) {
	struct case_job* c = user;
	c->ended = true;
	c->failed = problem && strcmp(problem, "cancelled") != 0;
	c->cached = figures ? figures->cached_tokens : 0;
}

static const struct job_calls calls = {.gone = on_gone, .step = on_step, .end = on_end};

/* Texts of one tenant are in that tenant's pool alone. */
static void check_pools(const struct scheduler* s, const struct case_job* list, int n) {
	int64_t texts[TENANTS] = {0};
	for (int i = 0; i < n; i++)
		texts[list[i].job.tenant] += list[i].job.request.n_prompt + list[i].n_got;
	for (int i = 0; i < TENANTS; i++) {
		assert_non_null(s->pool[i]);
		const int64_t held = suffix_size(s->pool[i]->generation[0]) + suffix_size(s->pool[i]->generation[1]);
		assert_true(held > 0 && held <= texts[i]);
		for (int k = 0; k < i; k++)
			assert_ptr_not_equal(s->pool[i], s->pool[k]);
	}
	assert_null(s->pool[TENANTS]);
}

/* Its thread has ended: what it wrote may be looked at. */
static void stop(struct scheduler* s) {
	scheduler_drain(s, 1e6);
	pthread_mutex_lock(&s->lock);
	s->stop = true;
	pthread_cond_signal(&s->work);
	pthread_mutex_unlock(&s->lock);
	pthread_join(s->thread, NULL);
	s->started = false;
}

static void open_options(struct swiftlet_options* o, double pages, const char* cache_type,
                         const char* drafts) {
	options_default(o);
	snprintf(o->drafting.model, sizeof o->drafting.model, "%s", drafts);
	o->cache.context = CONTEXT;
	o->engine.threads = 2;
	o->drafting.pool = 4096;
	snprintf(o->cache.type, sizeof o->cache.type, "%s", cache_type);
	/* a page of this model: 4 blocks, keys and values, 2 heads of 16 elements */
	const double element = strcmp(cache_type, "f16") == 0 ? 2 : 4;
	o->cache.memory = pages * 4 * 2 * 2 * 16 * PAGE * element;
}

static void run_together(swiftlet_model* model, struct case_job* list, int n, const char* cache_type,
                         const char* drafts) {
	char message[512];
	struct swiftlet_options o;
	struct metrics metrics[TENANTS];
	struct events events;
	struct error e;
	open_options(&o, PAGES, cache_type, drafts);
	for (int i = 0; i < TENANTS; i++)
		metrics_open(&metrics[i]);
	events_open(&events);
	swiftlet_engine* engine = swiftlet_engine_open(model, &o, message, sizeof message);
	if (!engine)
		fail_msg("%s", message);
	const struct scheduler_options how = {.sessions = SESSIONS,
	                                      .queue = n,
	                                      .prefill_chunk = 24,
	                                      .session = o,
	                                      .model_name = "synth",
	                                      .metrics = metrics,
	                                      .events = &events};
	struct scheduler* s = scheduler_open(engine, &how, &e);
	if (!s)
		fail_msg("%s", e.message);
	gate_set(false);
	for (int i = 0; i < n; i++) {
		list[i].job.calls = &calls;
		list[i].job.user = &list[i];
		list[i].job.group = &list[i].group;
		list[i].job.next = NULL;
		assert_int_equal(scheduler_submit(s, &list[i].job), SUBMIT_TAKEN);
	}
	gate_set(true);
	stop(s);
	check_pools(s, list, n);
	printf("  %lld shared passes, %lld of one sequence, %lld times a sequence gave way\n",
	       (long long)s->shared, (long long)s->separate, (long long)s->preempted);
	assert_true(s->shared > 0 && s->preempted > 0);
	scheduler_close(s);
	swiftlet_engine_close(engine);
	events_close(&events);
	for (int i = 0; i < TENANTS; i++)
		metrics_close(&metrics[i]);
}

static void compare(const struct case_job* list, int n) {
	int64_t tokens = 0, cached = 0;
	for (int i = 0; i < n; i++) {
		const struct case_job* c = &list[i];
		assert_true(c->ended && !c->failed);
		assert_true(c->n_got <= c->n_expected);
		assert_true(c->n_got == c->n_expected || c->n_got > c->leaves_after);
		if (memcmp(c->got, c->expected, (size_t)c->n_got * sizeof *c->got) != 0)
			fail_msg("request %d of %d tokens differs from its run alone", i, c->n_got);
		tokens += c->n_got;
		cached += c->cached;
	}
	printf("  %lld tokens compared, 0 differ; %lld prompt tokens were found in caches\n", (long long)tokens,
	       (long long)cached);
	assert_true(cached > 0);
}

static void all_at_once(const char* cache_type, int requests, const char* drafts) {
	const char* full = getenv("SWIFTLET_FULL");
	const int n = full && strcmp(full, "1") == 0 ? 12 * requests : requests;
	struct case_job* list = calloc((size_t)n, sizeof *list);
	struct swiftlet_options o;
	options_default(&o);
	swiftlet_model* model = must_open_model(model_spec, NULL);
	state = 1;
	for (int i = 0; i < n; i++)
		make_request(&list[i], &o, i);
	run_alone_first(model, list, n, cache_type);
	int wanted = 0; /* pages, by those that begin together */
	for (int i = 0; i < SESSIONS; i++)
		wanted += (list[i].job.request.n_prompt + list[i].n_expected + PAGE - 1) / PAGE;
	assert_true(wanted > 3 * PAGES);
	run_together(model, list, n, cache_type, drafts);
	compare(list, n);
	swiftlet_model_close(model);
	free(list);
}

static void requests_get_what_they_get_alone(void** unused) {
	(void)unused;
	all_at_once("f32", 300, "");
}

static void and_in_half_precision(void** unused) {
	(void)unused;
	all_at_once("f16", 100, "");
}

static void and_with_a_draft_model(void** unused) {
	(void)unused;
	all_at_once("f32", 60, draft_spec);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(requests_get_what_they_get_alone),
	                                   cmocka_unit_test(and_in_half_precision),
	                                   cmocka_unit_test(and_with_a_draft_model)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
