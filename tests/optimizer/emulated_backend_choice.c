/* Which backend runs a model where there is a GPU: `cuda` runs it there or states what it does not do, `auto`
 * leaves such a model to the CPU and reports it in a line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/decode/options.h"
#include "core/decode/session.h"
#include "core/draft/drafter.h"
#include "kernels/backend.h"
#include "tests/must.h"
#include "tests/must_session.h"

static swiftlet_engine* open_on(const char* backend, const char* spec, swiftlet_model** model,
                                char message[512]) {
	struct swiftlet_options o;
	options_default(&o);
	snprintf(o.engine.backend, sizeof o.engine.backend, "%s", backend);
	o.cache.context = 64;
	*model = swiftlet_model_open(spec, &o, message, 512);
	if (!*model)
		fail_msg("%s", message);
	return swiftlet_engine_open(*model, &o, message, 512);
}

static const char plain[] = "synth:layers=2,dim=64,heads=2,ffn=64,vocab=512";
static const char experts[] = "synth:layers=2,dim=64,heads=2,ffn=64,vocab=512,experts=4";

static const char shared[] = "synth:layers=6,dim=64,heads=4,kv-heads=2,ffn=64,vocab=512,plant=0.45";

static void expect(const char* backend, const char* spec, const char* name, const char* note) {
	char message[512] = "";
	swiftlet_model* model;
	swiftlet_engine* engine = open_on(backend, spec, &model, message);
	if (!engine)
		fail_msg("%s", message);
	assert_int_equal(strncmp(swiftlet_engine_name(engine), name, strlen(name)), 0);
	assert_string_equal(swiftlet_engine_note(engine), note);
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
}

static void what_the_gpu_runs_goes_there(void** state) {
	(void)state;
	expect("auto", plain, "cuda", "");
	expect("cuda", plain, "cuda", "");
	expect("cpu", plain, "cpu", "");
}

static void what_it_does_not_goes_to_the_cpu(void** state) {
	(void)state;
	char note[600];
	snprintf(note, sizeof note,
	         "swiftlet: %s runs on the CPU: the CUDA backend does not support mixture of experts: --backend "
	         "cpu does",
	         experts);
	expect("auto", experts, "cpu", note);
	expect("cpu", experts, "cpu", "");
}

static void unless_the_gpu_was_asked_for(void** state) {
	(void)state;
	char message[512] = "";
	swiftlet_model* model;
	assert_null(open_on("cuda", experts, &model, message));
	assert_string_equal(message, "the CUDA backend does not support mixture of experts: --backend cpu does");
	swiftlet_model_close(model);
}

/* Recycling drafts unasked on a device alone, and anywhere where it is asked for. */
static bool recycles(const char* backend, const char* who) {
	char message[512] = "";
	swiftlet_model* model;
	swiftlet_engine* engine = open_on(backend, plain, &model, message);
	struct swiftlet_options o;
	options_default(&o);
	o.cache.context = 64;
	if (who && swiftlet_options_set(&o, "drafters", who, message, sizeof message) != 1)
		fail_msg("%s", message);
	swiftlet_session* session = engine ? swiftlet_session_open(engine, &o, message, sizeof message) : NULL;
	if (!session)
		fail_msg("%s", message);
	const unsigned may = session_options(session)->drafting.drafters;
	assert_true(may >> SOURCE_retrieval & 1u);
	swiftlet_session_close(session);
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
	return may >> SOURCE_recycle & 1u;
}

static void recycling_takes_a_device(void** state) {
	(void)state;
	assert_true(recycles("cuda", NULL));
	assert_false(recycles("cpu", NULL));
	assert_true(recycles("cpu", "all"));
	assert_true(recycles("cpu", "retrieval,recycle"));
	assert_false(recycles("cuda", "retrieval"));
}

/* Greedy tokens of one request; how many. */
static int generate(swiftlet_engine* engine, enum swiftlet_method method, double frequency, int32_t out[40]) {
	char message[512] = "";
	struct swiftlet_options o;
	options_default(&o);
	o.cache.context = 64;
	o.drafting.method = method;
	swiftlet_session* session = must_open_session(engine, &o);
	static const int32_t prompt[] = {5, 6, 7, 8};
	struct swiftlet_request r;
	swiftlet_request_default(&r, &o);
	r.prompt = prompt;
	r.n_prompt = 4;
	r.max_tokens = 40;
	r.frequency_penalty = frequency;
	r.repetition_penalty = frequency > 0 ? 1.5 : 1;
	struct swiftlet_step step = {.stop = SWIFTLET_RUNNING};
	int n = 0;
	assert_true(swiftlet_session_start(session, &r, message, sizeof message));
	while (step.stop == SWIFTLET_RUNNING) {
		if (!swiftlet_session_step(session, &step, message, sizeof message))
			fail_msg("%s", message);
		for (int i = 0; i < step.n; i++)
			out[n++] = step.token[i].id;
	}
	swiftlet_session_close(session);
	return n;
}

/* Penalties change the text; drafting does not. */
static void penalties_hold_there_too(void** state) {
	(void)state;
	char message[512] = "";
	swiftlet_model* model;
	swiftlet_engine* engine = open_on("cuda", plain, &model, message);
	if (!engine)
		fail_msg("%s", message);
	int32_t as_is[40], plainly[40], drafted[40];
	const int n = generate(engine, SWIFTLET_VANILLA, 0, as_is);
	assert_int_equal(generate(engine, SWIFTLET_VANILLA, 2, plainly), n);
	assert_int_equal(generate(engine, SWIFTLET_AUTO, 2, drafted), n);
	assert_memory_equal(drafted, plainly, (size_t)n * sizeof *plainly);
	assert_memory_not_equal(as_is, plainly, (size_t)n * sizeof *plainly);
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
}

/* Greedy tokens over so many devices; 40 of them. */
static void generate_on(int devices, bool screened, enum swiftlet_method method, int32_t out[40]) {
	struct swiftlet_options o;
	options_default(&o);
	o.engine.devices = devices;
	o.engine.screened_head = screened;
	o.cache.context = 64;
	swiftlet_model* model = must_open_model(shared, &o);
	swiftlet_engine* engine = must_open_engine(model, &o);
	assert_int_equal(strncmp(swiftlet_engine_note(engine), "screened head:", 14) == 0, screened);
	assert_int_equal(generate(engine, method, 0, out), 40);
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
}

static void several_give_the_tokens_of_one(void** state) {
	(void)state;
	int32_t alone[40], plainly[40], drafted[40], skipping[40];
	setenv("EMULATED_DEVICES", "2", 1);
	generate_on(1, false, SWIFTLET_VANILLA, alone);
	generate_on(2, false, SWIFTLET_VANILLA, plainly);
	generate_on(2, false, SWIFTLET_AUTO, drafted);
	generate_on(2, false, SWIFTLET_SWIFT, skipping);
	assert_memory_equal(plainly, alone, sizeof alone);
	assert_memory_equal(drafted, alone, sizeof alone);
	assert_memory_equal(skipping, alone, sizeof alone);
	unsetenv("EMULATED_DEVICES");
}

/* In plain steps, verify passes of several rows, and draft steps by the device's loop. */
static void a_screened_head_gives_the_whole_ones_tokens(void** state) {
	(void)state;
	int32_t whole[40], plainly[40], drafted[40], skipping[40];
	setenv("SWIFTLET_CUDA_HEAD", "screened", 1);
	generate_on(1, false, SWIFTLET_VANILLA, whole);
	generate_on(1, true, SWIFTLET_VANILLA, plainly);
	generate_on(1, true, SWIFTLET_AUTO, drafted);
	generate_on(1, true, SWIFTLET_SWIFT, skipping);
	assert_memory_equal(plainly, whole, sizeof whole);
	assert_memory_equal(drafted, whole, sizeof whole);
	assert_memory_equal(skipping, whole, sizeof whole);
	unsetenv("SWIFTLET_CUDA_HEAD");
}

static void expect_refusal(const char* backend, int devices, const char* expected) {
	char message[512] = "";
	struct swiftlet_options o;
	options_default(&o);
	snprintf(o.engine.backend, sizeof o.engine.backend, "%s", backend);
	o.engine.devices = devices;
	swiftlet_model* model = swiftlet_model_open(shared, &o, message, sizeof message);
	assert_true(!model || !swiftlet_engine_open(model, &o, message, sizeof message));
	assert_string_equal(message, expected);
	swiftlet_model_close(model);
}

static void devices_that_are_not_there_are_missed(void** state) {
	(void)state;
	expect_refusal("cpu", 2,
	               "--devices 2 counts GPUs, and --backend cpu uses none: leave one of the two out");
	expect_refusal("auto", 2, "--devices 2: there is 1 CUDA device, and at most 16 share a model");
}

/* Weights of blocks beyond this machine's caches, which are worth draft weights; blocks of 16 MiB. */
static int blocks_beyond_the_caches(void) {
	int most = 0;
	for (int i = 0; i < 8; i++) {
		char path[80];
		int kib = 0;
		snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
		FILE* file = fopen(path, "r");
		if (file && fscanf(file, "%d", &kib) == 1 && kib > most)
			most = kib;
		if (file)
			fclose(file);
	}
	return most / (16 << 10) + 1;
}

/* A GPU that has room for the model but not for the draft weights that nobody asked for. */
static void a_copy_without_room_is_done_without(void** state) {
	(void)state;
	char spec[128], message[512] = "";
	const int blocks = blocks_beyond_the_caches();
	if (blocks > 8)
		skip(); /* a model of that size takes too long here */
	struct swiftlet_options host, o;
	options_default(&host);
	snprintf(host.engine.backend, sizeof host.engine.backend, "cpu");
	snprintf(spec, sizeof spec, "synth:layers=%d,dim=512,heads=8,ffn=2048,vocab=512,dtype=f32", blocks);
	swiftlet_model* model = must_open_model(spec, &host);
	options_default(&o);
	snprintf(o.engine.backend, sizeof o.engine.backend, "cuda");
	o.cache.context = 64;
	o.engine.devices = 1; /* without cuBLAS, whose workspace is larger than the room for draft weights */
	setenv("EMULATED_LARGEST_MIB", "15", 1);
	swiftlet_engine* engine = swiftlet_engine_open(model, &o, message, sizeof message);
	unsetenv("EMULATED_LARGEST_MIB");
	if (!engine)
		fail_msg("%s", message);
	assert_int_equal(strncmp(swiftlet_engine_note(engine), "no draft weights: cudaMalloc", 28), 0);
	swiftlet_engine_close(engine);
	swiftlet_model_close(model);
}

int main(void) {
	if (!gpu_is_here())
		return 77;
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_the_gpu_runs_goes_there),
	                                   cmocka_unit_test(what_it_does_not_goes_to_the_cpu),
	                                   cmocka_unit_test(unless_the_gpu_was_asked_for),
	                                   cmocka_unit_test(penalties_hold_there_too),
	                                   cmocka_unit_test(recycling_takes_a_device),
	                                   cmocka_unit_test(several_give_the_tokens_of_one),
	                                   cmocka_unit_test(a_screened_head_gives_the_whole_ones_tokens),
	                                   cmocka_unit_test(devices_that_are_not_there_are_missed),
	                                   cmocka_unit_test(a_copy_without_room_is_done_without)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
