/* Memory that sequences hold before a row of theirs has run: what they found in caches when they sat down.
 * The oldest gets that, too, when there is no other, and what is found twice is counted once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "streams/service/scheduler_internal.h"
#include "tests/must_session.h"

enum {
	VOCAB = 320,
	CONTEXT = 192,
	SESSIONS = 8,
	PAGE = 32,
	PAGES = 16,
	CHATS = 3,
	SAID = 4 * PAGE, /* tokens of a chat so far */
	MORE = 50,       /* and of its next turn */
	SHORT = 5,
	LONG = 150,
	PATIENCE = 4000 /* turns: twenty times what all of this takes */
};

static const char model_spec[] = "synth:layers=4,dim=64,heads=4,kv-heads=2,ffn=96,vocab=320,dtype=f32,seed=5";

struct client {
	struct job job;
	struct job_group group;
	int32_t prompt[CONTEXT];
	char task[8]; /* each text has a session of its own */
	int turns;
	bool failed;
	struct swiftlet_figures figures;
};

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changes;
	int ended;
} answers = {.lock = PTHREAD_MUTEX_INITIALIZER, .changes = PTHREAD_COND_INITIALIZER};

/* Asked once a turn. */
static bool on_gone(void* user) {
	struct client* c = user;
	return ++c->turns > PATIENCE;
}

static void on_step(void* user, const struct swiftlet_step* step) {
	(void)user;
	(void)step;
}

static void on_end(void* user, const struct swiftlet_figures* figures, const char* problem) {
	struct client* c = user;
	pthread_mutex_lock(&answers.lock);
	c->failed = problem != NULL;
	if (figures)
		c->figures = *figures;
	answers.ended++;
	pthread_cond_signal(&answers.changes);
	pthread_mutex_unlock(&answers.lock);
}

static const struct job_calls calls = {.gone = on_gone, .step = on_step, .end = on_end};

/* The text of that number, from its beginning. */
static void ask(struct client* c, int text, int n, int tokens) {
	struct swiftlet_options o;
	options_default(&o);
	*c = (struct client){.job = {.calls = &calls}};
	swiftlet_request_default(&c->job.request, &o);
	for (int i = 0; i < n; i++)
		c->prompt[i] = (i * 37 + text * 101 + 3) % VOCAB;
	c->job.user = c;
	c->job.group = &c->group;
	snprintf(c->task, sizeof c->task, "%d", text);
	c->job.request.task = c->task;
	c->job.request.prompt = c->prompt;
	c->job.request.n_prompt = n;
	c->job.request.max_tokens = tokens;
}

/* They sit down together, in order, and all come to their ends. */
static void answer(struct scheduler* s, struct client* client, int n) {
	for (int i = 0; i + 1 < n; i++)
		client[i].job.next = &client[i + 1].job;
	answers.ended = 0;
	assert_int_equal(scheduler_submit(s, &client[0].job), SUBMIT_TAKEN);
	pthread_mutex_lock(&answers.lock);
	while (answers.ended < n)
		pthread_cond_wait(&answers.changes, &answers.lock);
	pthread_mutex_unlock(&answers.lock);
	for (int i = 0; i < n; i++) {
		assert_false(client[i].failed);
		assert_int_equal(client[i].figures.tokens, client[i].job.request.max_tokens);
	}
}

static void what_was_found_when_they_sat_down_is_given_back(void** state) {
	(void)state;
	struct error e;
	struct metrics metrics;
	struct events events;
	struct swiftlet_options o;
	options_default(&o);
	o.cache.context = CONTEXT;
	o.drafting.method = SWIFTLET_VANILLA;
	o.cache.memory = (double)PAGES * 4 * 2 * 2 * 16 * PAGE * 4; /* 4 blocks, keys and values, 2 heads of 16 */
	metrics_open(&metrics);
	events_open(&events);
	swiftlet_model* model = must_open_model(model_spec, NULL);
	swiftlet_engine* engine = must_open_engine(model, &o);
	const struct scheduler_options how = {.sessions = SESSIONS,
	                                      .queue = SESSIONS,
	                                      .session = o,
	                                      .model_name = "synth",
	                                      .metrics = &metrics,
	                                      .events = &events};
	struct scheduler* s = scheduler_open(engine, &how, &e);
	if (!s)
		fail_msg("%s", e.message);
	static struct client chat[1 + CHATS]; /* outlives a test that fails */
	for (int i = 0; i < CHATS; i++) {
		ask(&chat[0], i, SAID, 1);
		answer(s, chat, 1);
	}
	/* others make room for themselves: the chats' pages are nobody's, and still there */
	for (int i = 0; i < CHATS; i++)
		ask(&chat[i], CHATS + i, SHORT, 1);
	answer(s, chat, CHATS);
	/* the chats come back, behind one who needs a page more than they leave */
	ask(&chat[0], 2 * CHATS, SHORT, LONG);
	for (int i = 0; i < CHATS; i++)
		ask(&chat[1 + i], i, SAID + MORE, 1);
	answer(s, chat, 1 + CHATS);
	assert_true(s->preempted > 0);
	int found = 0;
	for (int i = 0; i < CHATS; i++) {
		assert_in_range(chat[1 + i].figures.cached_tokens, 0, SAID);
		found += chat[1 + i].figures.cached_tokens;
	}
	assert_true(found > 0);
	scheduler_close(s);
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
	events_close(&events);
	metrics_close(&metrics);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_found_when_they_sat_down_is_given_back)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
