/* Sessions on the GPU that find a prefix of their prompt in another's cache, go on after a chat's
 * answer, and lose their memory midway: the text is what a session by itself gives, whether a prefill's bits
 * are the exact rows' (one device of several) or cuBLAS's own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/decode/options.h"
#include "core/decode/session.h"
#include "tests/must.h"
#include "tests/must_session.h"

enum { COMMON = 300, PROMPT = 330, TOKENS = 12, TURN_TWO = 530, CONTEXT = 560, VOCAB = 96 };
enum { LATE = 2 * PREFILL_CHUNK - 4 }; /* with what is generated, more exact rows than a pass takes */

static swiftlet_model* model;

struct text {
	int32_t token[TOKENS];
	int n, cached;
};

static struct swiftlet_options options_of(int devices) {
	struct swiftlet_options o;
	options_default(&o);
	snprintf(o.engine.backend, sizeof o.engine.backend, "cuda");
	o.drafting.method = SWIFTLET_VANILLA;
	o.cache.context = CONTEXT;
	o.engine.devices = devices;
	return o;
}

static swiftlet_engine* open_engine(int devices) {
	const struct swiftlet_options o = options_of(devices);
	return must_open_engine(model, &o);
}

static swiftlet_session* open_session(swiftlet_engine* engine, int devices) {
	const struct swiftlet_options o = options_of(devices);
	return must_open_session(engine, &o);
}

/* Its memory goes to others once it has given `released` tokens. */
static struct text generate(swiftlet_session* s, int devices, const int32_t* prompt, int n, int released) {
	struct text text = {.n = 0};
	struct swiftlet_options o = options_of(devices);
	struct swiftlet_request request;
	struct swiftlet_figures figures;
	struct swiftlet_step step = {.stop = SWIFTLET_RUNNING};
	char message[512] = "";
	swiftlet_request_default(&request, &o);
	request.prompt = prompt;
	request.n_prompt = n;
	request.max_tokens = TOKENS;
	if (!swiftlet_session_start(s, &request, message, sizeof message))
		fail_msg("%s", message);
	while (step.stop == SWIFTLET_RUNNING) {
		if (!swiftlet_session_step(s, &step, message, sizeof message))
			fail_msg("%s", message);
		for (int i = 0; i < step.n; i++)
			text.token[text.n++] = step.token[i].id;
		if (step.n > 0 && text.n == released)
			session_release(s);
	}
	swiftlet_session_figures(s, &figures);
	text.cached = figures.cached_tokens;
	assert_int_equal(text.n, TOKENS);
	return text;
}

static struct text alone(int devices, const int32_t* prompt, int n) {
	swiftlet_engine* engine = open_engine(devices);
	swiftlet_session* s = open_session(engine, devices);
	const struct text text = generate(s, devices, prompt, n, -1);
	assert_int_equal(text.cached, 0);
	swiftlet_session_close(s);
	swiftlet_engine_close(engine);
	return text;
}

static void expect(const struct text* wanted, struct text got, int cached) {
	assert_memory_equal(wanted->token, got.token, sizeof got.token);
	assert_int_equal(got.cached, cached);
}

/* Tokens that are found: of the second prompt in the first one's cache, of the turn after it in its own, and
 * of a longer prompt in both. */
static void try_with(int devices, int found, int found_next, int found_late) {
	int32_t first[PROMPT], second[TURN_TWO];
	for (int i = 0; i < TURN_TWO; i++)
		second[i] = (i * 29 + i / 11) % VOCAB;
	memcpy(first, second, sizeof first);
	for (int i = COMMON; i < PROMPT; i++)
		first[i] = (first[i] + 1) % VOCAB;
	const struct text wanted = alone(devices, second, PROMPT);
	memcpy(second + PROMPT, wanted.token, sizeof wanted.token);
	const struct text wanted_next = alone(devices, second, TURN_TWO);
	const struct text wanted_late = alone(devices, second, LATE);
	swiftlet_engine* engine = open_engine(devices);
	swiftlet_session *a = open_session(engine, devices), *b = open_session(engine, devices);
	generate(a, devices, first, PROMPT, -1);
	expect(&wanted, generate(b, devices, second, PROMPT, -1), found);
	expect(&wanted_next, generate(b, devices, second, TURN_TWO, 5), found_next);
	expect(&wanted_late, generate(a, devices, second, LATE, TOKENS - 2), found_late);
	swiftlet_session_close(a);
	swiftlet_session_close(b);
	swiftlet_engine_close(engine);
}

static void where_a_prefill_has_bits_of_its_own(void** state) {
	(void)state;
	try_with(0, PREFILL_CHUNK, PREFILL_CHUNK, PREFILL_CHUNK);
}

static void where_it_has_the_exact_rows(void** state) {
	(void)state;
	try_with(1, COMMON / 32 * 32, PROMPT + TOKENS - 1, (LATE - 1) / 32 * 32);
}

int main(void) {
	char message[512];
	if (!gpu_is_here())
		return 77;
	model = swiftlet_model_open("synth:layers=2,dim=32,heads=2,ffn=32,vocab=96,context=1024", NULL, message,
	                            sizeof message);
	if (!model) {
		fprintf(stderr, "%s\n", message);
		return 1;
	}
	const struct CMUnitTest tests[] = {cmocka_unit_test(where_a_prefill_has_bits_of_its_own),
	                                   cmocka_unit_test(where_it_has_the_exact_rows)};
	const int failed = cmocka_run_group_tests(tests, NULL, NULL);
	swiftlet_model_close(model);
	return failed;
}
