/* Passes of learning that are given up, again and again while another sequence's requests come: nothing of
 * them is left in the cache, and what is scored afterwards is what would have been. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/decode/session_state.h"
#include "optimizer/idle.h"
#include "optimizer/optimizer_state.h"
#include "tests/must_session.h"

static bool waits(void* user) { return *(bool*)user; }

static void what_is_given_up_leaves_nothing(void** state) {
	(void)state;
	char message[512] = "";
	struct error error;
	struct swiftlet_options options;
	options_default(&options);
	options.engine.threads = 1;
	options.cache.context = 512;
	swiftlet_model* model = must_open_model(
	    "synth:layers=6,dim=64,heads=4,kv-heads=2,ffn=128,vocab=512,dtype=f32,seed=5", &options);
	swiftlet_engine* engine = must_open_engine(model, &options);
	swiftlet_session* s = must_open_session(engine, &options);
	struct swiftlet_request request;
	swiftlet_request_default(&request, &options);
	request.prompt = (const int32_t[]){5, 6, 7};
	request.n_prompt = 3;
	request.max_tokens = 200;
	struct swiftlet_figures figures;
	assert_true(swiftlet_session_generate(s, &request, NULL, NULL, &figures, message, sizeof message));
	struct backend* backend = engine->backend;
	struct session_work work;
	for (int i = 0; i < 40; i++) { /* more rows than a cache may have pending */
		assert_true(session_next_idle(s, &work));
		backend->abandon(backend);
		assert_false(backend->run(backend, &work.pass, &error));
		assert_int_equal(s->cache->pending, 0);
		assert_true(backend->rest(backend, false));
	}
	struct idle_runner* runner = idle_open(engine, &error);
	assert_non_null(runner);
	bool another = false;
	double seconds = 0;
	int ran = 0;
	for (int i = 0; i < 40 && session_next_idle(s, &work); i++) {
		another = i % 2;
		ran += idle_run(runner, s, &work, waits, &another, &seconds);
		assert_true(s->cache->pending <= work.pass.n);
	}
	assert_true(ran > 0);
	/* windows are longer than while requests run, and are scored on */
	const struct optimizer* o = optimizer_of(s);
	another = false;
	for (int i = 0; i < 400 && !(o->window.size == 64 && o->window.scored > 0); i++)
		if (!session_next_idle(s, &work) || !idle_run(runner, s, &work, waits, &another, &seconds))
			break;
	assert_int_equal(o->window.size, 64);
	assert_true(o->window.scored > 0);
	idle_close(runner);
	swiftlet_session_close(s);
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_given_up_leaves_nothing)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
