/* Whole sessions of a model with recurrent blocks on the GPU: plain decoding's text is the CPU's, and drafts,
 * the device's own or from earlier text, greedy or sampled, leave it as it is, request after request. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/decode/options.h"
#include "core/draft/drafter.h"
#include "kernels/backend.h"
#include "tests/must.h"
#include "tests/must_session.h"

enum { PROMPT = 12, TOKENS = 40 };

static const char spec[] =
    "synth:layers=4,dim=64,heads=2,kv-heads=1,ffn=96,vocab=512,attention-every=4,key-heads=2,"
    "value-heads=4,key-dim=16,value-dim=16,taps=4";

struct text {
	int32_t token[TOKENS];
	int n;
	struct swiftlet_figures figures;
};

/* Every look at the clock takes a millisecond: a pass of many rows costs what one of a single row does. */
static double tick(void* user) { return *(double*)user += 1e-3; }

static bool keep(void* user, const struct swiftlet_step* step) {
	struct text* text = user;
	for (int i = 0; i < step->n; i++)
		text->token[text->n++] = step->token[i].id;
	return true;
}

static struct swiftlet_options options_of(const char* backend, double* now, int bits, unsigned sources) {
	struct swiftlet_options o;
	options_default(&o);
	snprintf(o.engine.backend, sizeof o.engine.backend, "%s", backend);
	o.cache.context = PROMPT + TOKENS;
	o.learning.search = false;
	o.drafting.drafters = sources;
	o.drafting.method = sources ? o.drafting.method : SWIFTLET_VANILLA;
	o.draft_weights.bits = bits;
	o.clock = tick;
	o.clock_user = now;
	return o;
}

static struct text generate(swiftlet_session* session, const struct swiftlet_options* o, double temperature) {
	struct text text = {.n = 0};
	struct swiftlet_request request;
	char message[512];
	int32_t prompt[PROMPT];
	for (int i = 0; i < PROMPT; i++)
		prompt[i] = (i * 37 + 5) % 512;
	swiftlet_request_default(&request, o);
	request.prompt = prompt;
	request.n_prompt = PROMPT;
	request.max_tokens = TOKENS;
	request.temperature = temperature;
	request.seed = 3;
	if (!swiftlet_session_generate(session, &request, keep, &text, &text.figures, message, sizeof message))
		fail_msg("%s", message);
	return text;
}

/* One session's two answers to the same request. */
static void answer(const char* backend, int bits, unsigned sources, double temperature, struct text text[2]) {
	double now = 0;
	const struct swiftlet_options o = options_of(backend, &now, bits, sources);
	struct swiftlet_options opening = o;
	opening.clock = NULL;
	swiftlet_model* model = must_open_model(spec, &opening);
	swiftlet_engine* engine = must_open_engine(model, &opening);
	swiftlet_session* s = must_open_session(engine, &o);
	assert_int_equal(strncmp(swiftlet_engine_name(engine), backend, strlen(backend)), 0);
	for (int i = 0; i < 2; i++)
		text[i] = generate(s, &o, temperature);
	swiftlet_session_close(s);
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
}

static void same(const struct text* expected, const struct text* got) {
	assert_int_equal(expected->n, got->n);
	assert_memory_equal(expected->token, got->token, (size_t)got->n * sizeof(int32_t));
}

static void plain_text_is_the_cpus(void** state) {
	(void)state;
	struct text cpu[2], cuda[2];
	answer("cpu", 0, 0, 0, cpu);
	answer("cuda", 0, 0, 0, cuda);
	assert_int_equal(cuda[0].n, TOKENS);
	same(&cpu[0], &cuda[0]);
	same(&cpu[0], &cuda[1]);
}

static void drafts_leave_it_as_it_is(void** state) {
	(void)state;
	static const struct {
		int bits;
		unsigned sources;
	} way[] = {{0, 1u << SOURCE_mask | 1u << SOURCE_retrieval | 1u << SOURCE_recycle},
	           {4, 1u << SOURCE_mask | 1u << SOURCE_recycle}};
	for (int sampled = 0; sampled < 2; sampled++) {
		struct text plain[2], drafted[2];
		answer("cuda", 0, 0, sampled ? 0.9 : 0, plain);
		for (size_t i = 0; i < sizeof way / sizeof *way; i++) {
			answer("cuda", way[i].bits, way[i].sources, sampled ? 0.9 : 0, drafted);
			same(&plain[0], &drafted[0]);
			same(&plain[0], &drafted[1]);
			assert_true(drafted[1].figures.accepted > 0);
			assert_true(drafted[1].figures.full_passes < plain[1].figures.full_passes);
			assert_true(way[i].bits == 0 ||
			            drafted[0].figures.draft_steps + drafted[1].figures.draft_steps > 0);
		}
	}
}

int main(void) {
	if (!gpu_is_here())
		return 77;
	const struct CMUnitTest tests[] = {cmocka_unit_test(plain_text_is_the_cpus),
	                                   cmocka_unit_test(drafts_leave_it_as_it_is)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
