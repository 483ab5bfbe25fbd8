/* A service makes draft weights while no request runs, so that the first request finds them; not where the
 * user wants nothing to run then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "streams/service/scheduler_internal.h"
#include "tests/must_session.h"

static const char model_spec[] = "synth:layers=4,dim=256,heads=4,ffn=512,vocab=320,dtype=f32,seed=5";

/* Small models get none by themselves. */
static void open_making(struct engine* engine) {
	struct error error;
	const struct draft_weights_request wish = {.format = {.bits = 4}};
	assert_true(draft_weights_memory_open(&engine->draft_weights, engine->model, &wish, &error));
	assert_true(engine->backend->use_draft_weights(engine->backend, &engine->draft_weights.table, &error));
	engine->making =
	    draft_weights_job_open(&engine->draft_weights.table, engine->draft_weights.data, 2, &error);
	assert_non_null(engine->making);
}

static double share_made(struct metrics* m) {
	pthread_mutex_lock(&m->lock);
	const double share = m->draft_weights;
	pthread_mutex_unlock(&m->lock);
	return share;
}

/* What is made in two seconds, or until all is, without a request */
static double made_by_service(double idle) {
	struct error e;
	struct metrics metrics;
	struct events events;
	struct swiftlet_options o;
	options_default(&o);
	o.cache.context = 64;
	o.learning.idle = idle;
	metrics_open(&metrics);
	events_open(&events);
	swiftlet_model* model = must_open_model(model_spec, NULL);
	struct engine* engine = must_open_engine(model, &o);
	open_making(engine);
	const struct scheduler_options how = {.sessions = 1,
	                                      .queue = 1,
	                                      .session = o,
	                                      .model_name = "synth",
	                                      .metrics = &metrics,
	                                      .events = &events};
	struct scheduler* s = scheduler_open(engine, &how, &e);
	if (!s)
		fail_msg("%s", e.message);
	for (int i = 0; i < 2000 && !(share_made(&metrics) >= 1); i++)
		usleep(1000);
	scheduler_close(s);
	const double made = share_made(&metrics);
	assert_true(made == draft_weights_job_share(engine->making));
	assert_true((made == 1) == (engine_draft_weights(engine) != NULL));
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
	events_close(&events);
	metrics_close(&metrics);
	return made;
}

static void a_service_makes_them_before_a_request(void** state) {
	(void)state;
	assert_true(made_by_service(1) == 1);
}

static void nothing_runs_where_idle_learning_is_off(void** state) {
	(void)state;
	assert_true(made_by_service(0) == 0);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(a_service_makes_them_before_a_request),
	                                   cmocka_unit_test(nothing_runs_where_idle_learning_is_off)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
