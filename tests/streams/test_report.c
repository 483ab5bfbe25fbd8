/* The JSON of a generation has section 7's fields, NaN is null, and sums over a stream are sums. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "streams/report.h"

static struct swiftlet_figures sample(void) {
	struct swiftlet_figures f = {.prompt_tokens = 7, .tokens = 3, .stop = SWIFTLET_EOS};
	f.tokens_per_second = 12.5;
	f.seconds.decode = 0.24;
	f.verify_passes = 2;
	f.round_tokens = 3;
	f.draft_steps = 4;
	f.accepted = f.draft_accepted = 1;
	f.mean_generated = 1.5;
	f.alpha = 0.25;
	f.matchness = f.c = f.expected_speedup = f.skip_ratio = NAN;
	f.n_attention = 2;
	f.attention[0] = 1;
	f.attention[1] = 5;
	return f;
}

static void has_every_field(void** state) {
	(void)state;
	static const char* const field[] = {"id",
	                                    "task",
	                                    "model",
	                                    "backend",
	                                    "method",
	                                    "prompt_tokens",
	                                    "cached_tokens",
	                                    "tokens",
	                                    "text",
	                                    "stop",
	                                    "seconds",
	                                    "tokens_per_second",
	                                    "full_passes",
	                                    "verify_passes",
	                                    "plain_steps",
	                                    "draft_steps",
	                                    "accepted",
	                                    "M",
	                                    "alpha",
	                                    "CR",
	                                    "CTAR",
	                                    "exit_block",
	                                    "matchness",
	                                    "chosen_by",
	                                    "optimize_steps",
	                                    "skip_ratio",
	                                    "read",
	                                    "c",
	                                    "expected_speedup",
	                                    "speedup",
	                                    "sources",
	                                    "mask"};
	static const char* const part[] = {"load",   "prefill", "decode",   "draft",
	                                   "verify", "plain",   "optimize", "other"};
	const struct swiftlet_figures figures = sample();
	const int32_t token[] = {4, 5, 2};
	const struct report report = {.id = "12345678901234567890",
	                              .model = "m",
	                              .backend = "cpu (reference)",
	                              .token = token,
	                              .n_tokens = 3,
	                              .text = " a\"\n",
	                              .text_size = 4,
	                              .figures = &figures};
	char* const text = report_text(&report);
	assert_non_null(text);
	assert_null(strchr(text, '\n'));
	assert_non_null(strstr(text, "\"id\":12345678901234567890,"));
	cJSON* const object = cJSON_Parse(text);
	assert_non_null(object);
	const cJSON* item = object->child;
	for (size_t i = 0; i < sizeof field / sizeof *field; i++, item = item->next) {
		assert_non_null(item);
		assert_string_equal(item->string, field[i]);
	}
	assert_null(item);
	const cJSON* const seconds = cJSON_GetObjectItem(object, "seconds");
	for (size_t i = 0; i < sizeof part / sizeof *part; i++)
		assert_true(cJSON_IsNumber(cJSON_GetObjectItem(seconds, part[i])));
	assert_true(cJSON_IsNull(cJSON_GetObjectItem(object, "task")));
	assert_true(cJSON_IsNull(cJSON_GetObjectItem(object, "matchness")));
	assert_string_equal(cJSON_GetObjectItem(object, "stop")->valuestring, "eos");
	assert_string_equal(cJSON_GetObjectItem(object, "text")->valuestring, " a\"\n");
	assert_string_equal(cJSON_GetObjectItem(object, "method")->valuestring, "swift");
	assert_int_equal(cJSON_GetArraySize(cJSON_GetObjectItem(object, "tokens")), 3);
	assert_int_equal(
	    cJSON_GetArrayItem(cJSON_GetObjectItem(cJSON_GetObjectItem(object, "mask"), "attention"), 1)
	        ->valueint,
	    5);
	cJSON_Delete(object);
	free(text);
}

static void errors_are_objects(void** state) {
	(void)state;
	char* const text = report_error_text("[1]", 12, "no \"prompt\" \xff");
	assert_string_equal(
	    text, "{\"id\":[1],\"line\":12,\"error\":{\"message\":\"no \\\"prompt\\\" \xef\xbf\xbd\"}}");
	free(text);
	char* const none = report_error_text(NULL, 1, "x");
	assert_non_null(strstr(none, "\"id\":null"));
	free(none);
}

static void sums_by_task(void** state) {
	(void)state;
	struct summary summary = {0};
	struct swiftlet_figures f = sample();
	assert_true(summary_add(&summary, "math", &f));
	f.matchness = 0.5;
	f.verify_passes = 4;
	f.round_tokens = 12;
	assert_true(summary_add(&summary, "math", &f));
	assert_true(summary_add(&summary, NULL, &f));
	assert_int_equal(summary.n, 2);
	assert_int_equal(summary.task[0].instances, 2);
	assert_true(task_sum_mean_generated(&summary.task[0]) == 15.0 / 6.0);
	assert_true(task_sum_matchness(&summary.task[0]) == 0.5);
	assert_true(task_sum_alpha(&summary.total) == 0.25);
	assert_true(fabs(task_sum_tokens_per_second(&summary.total) - 12.5) < 1e-9);
	char* const text = summary_text(&summary);
	cJSON* const root = cJSON_Parse(text);
	const cJSON* const math = cJSON_GetObjectItem(cJSON_GetObjectItem(root, "tasks"), "math");
	static const char* const field[] = {"instances",      "tokens",           "M", "alpha", "matchness",
	                                    "optimize_steps", "tokens_per_second"};
	for (size_t i = 0; i < sizeof field / sizeof *field; i++)
		assert_true(cJSON_IsNumber(cJSON_GetObjectItem(math, field[i])));
	assert_int_equal(cJSON_GetObjectItem(cJSON_GetObjectItem(root, "total"), "instances")->valueint, 3);
	cJSON_Delete(root);
	free(text);
	summary_free(&summary);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(has_every_field),
	    cmocka_unit_test(errors_are_objects),
	    cmocka_unit_test(sums_by_task),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
