/* Which backend runs a model where there is a GPU: `cuda` runs it there or says what it does not do, `auto`
 * leaves such a model to the CPU and says so in a line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/backend.h"
#include "swiftlet.h"

static swiftlet_engine* open_on(const char* backend, const char* spec, swiftlet_model** model,
                                char message[512]) {
	struct swiftlet_options o;
	swiftlet_options_default(&o);
	snprintf(o.backend, sizeof o.backend, "%s", backend);
	o.context = 64;
	*model = swiftlet_model_open(spec, &o, message, 512);
	if (!*model)
		fail_msg("%s", message);
	return swiftlet_engine_open(*model, &o, message, 512);
}

static const char plain[] = "synth:layers=2,dim=64,heads=2,ffn=64,vocab=512";
static const char experts[] = "synth:layers=2,dim=64,heads=2,ffn=64,vocab=512,experts=4";

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
	         "swiftlet: %s runs on the CPU: the CUDA backend does no mixture of experts: --backend cpu does",
	         experts);
	expect("auto", experts, "cpu", note);
	expect("cpu", experts, "cpu", "");
}

static void unless_the_gpu_was_asked_for(void** state) {
	(void)state;
	char message[512] = "";
	swiftlet_model* model;
	assert_null(open_on("cuda", experts, &model, message));
	assert_string_equal(message, "the CUDA backend does no mixture of experts: --backend cpu does");
	swiftlet_model_close(model);
}

int main(void) {
	struct error error;
	if (!cuda_available(&error)) {
		printf("skipped: %s\n", error.message);
		return 77;
	}
	const struct CMUnitTest tests[] = {cmocka_unit_test(what_the_gpu_runs_goes_there),
	                                   cmocka_unit_test(what_it_does_not_goes_to_the_cpu),
	                                   cmocka_unit_test(unless_the_gpu_was_asked_for)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
