/* Lines of a stream: what is read, what is refused and with which words, ids as they came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "streams/jsonl.h"

static void reads_a_line(void** state) {
	(void)state;
	static const char line[] = "{\"id\": \"a-1\", \"task\": \"math\", \"prompt\": \"1 + \\u00e9\\n=\", "
	                           "\"max_tokens\": 64, \"other\": []}";
	struct instance instance;
	struct error error;
	assert_true(instance_parse(line, strlen(line), &instance, &error));
	assert_string_equal(instance.id, "\"a-1\"");
	assert_string_equal(instance.task, "math");
	assert_string_equal(instance.prompt, "1 + é\n=");
	assert_int_equal(instance.max_tokens, 64);
	assert_null(instance.chat.messages);
	instance_free(&instance);
}

static void reads_messages(void** state) {
	(void)state;
	static const char line[] = "{\"id\":1,\"messages\":[{\"role\":\"system\",\"content\":\"Be brief.\"},"
	                           "{\"role\":\"user\",\"content\":\"\"}]}";
	struct instance instance;
	struct error error;
	assert_true(instance_parse(line, strlen(line), &instance, &error));
	assert_null(instance.prompt);
	assert_int_equal(instance.chat.n_messages, 2);
	assert_string_equal(instance.chat.messages, "[{\"role\": \"system\", \"content\": \"Be brief.\"}, "
	                                            "{\"role\": \"user\", \"content\": \"\"}]");
	assert_int_equal(instance.max_tokens, 128);
	instance_free(&instance);
}

static void reads_a_batch_line(void** state) {
	(void)state;
	static const char line[] =
	    "{\"custom_id\": \"r-1\", \"method\": \"POST\", \"url\": \"/v1/chat/completions\", \"body\": "
	    "{\"model\": \"x\", "
	    "\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"max_completion_tokens\": 7}}";
	static const char prompt[] =
	    "{\"custom_id\": \"r-2\", \"body\": {\"prompt\": \"Once\", \"max_tokens\": 9}}";
	struct instance instance;
	struct error error;
	assert_true(instance_parse(line, strlen(line), &instance, &error));
	assert_string_equal(instance.id, "\"r-1\"");
	assert_string_equal(instance.chat.messages, "[{\"role\": \"user\", \"content\": \"Hi\"}]");
	assert_int_equal(instance.max_tokens, 7);
	instance_free(&instance);
	assert_true(instance_parse(prompt, strlen(prompt), &instance, &error));
	assert_string_equal(instance.id, "\"r-2\"");
	assert_string_equal(instance.prompt, "Once");
	assert_int_equal(instance.max_tokens, 9);
	instance_free(&instance);
}

static void ids_come_back_as_given(void** state) {
	(void)state;
	static const char* const id[] = {
	    "12345678901234567890123",
	    "1.50e+3",
	    "null",
	    "{\"a\": [1, \"\\u00e9\"]}",
	    "\"\\/\"",
	    "1111111111222222222233333333334444444444555555555566666666667777777777"};
	for (size_t i = 0; i < sizeof id / sizeof *id; i++) {
		char line[300];
		struct instance instance;
		struct error error = {{0}};
		snprintf(line, sizeof line, "{\"prompt\": \"x\", \"id\": %s}", id[i]);
		if (!instance_parse(line, strlen(line), &instance, &error))
			fail_msg("%s: %s", id[i], error.message);
		assert_string_equal(instance.id, id[i]);
		instance_free(&instance);
	}
}

struct refusal {
	const char* line;
	const char* message; /* a part of it */
};

static void refuses_with_the_reason(void** state) {
	(void)state;
	static const struct refusal refusal[] = {
	    {"{\"id\": 7}", "neither \"prompt\" nor \"messages\""},
	    {"{\"id\": 7, \"prompt\": 3}", "\"prompt\" is 3, expected a string"},
	    {"{\"id\": 7, \"prompt\": \"a\", \"messages\": []}", "both"},
	    {"{\"id\": 7, \"messages\": []}", "messages is empty"},
	    {"{\"id\": 7, \"messages\": {}}", "messages is not a list"},
	    {"{\"id\": 7, \"messages\": [1]}", "messages[0] is 1"},
	    {"{\"id\": 7, \"messages\": [{\"role\": \"robot\", \"content\": \"\"}]}",
	     "messages[0].role is \"robot\""},
	    {"{\"id\": 7, \"messages\": [{\"content\": \"\"}]}", "messages[0].role is missing"},
	    {"{\"id\": 7, \"messages\": [{\"role\": \"user\"}]}", "messages[0].content is missing"},
	    {"{\"id\": 7, \"prompt\": \"a\", \"max_tokens\": 0}", "\"max_tokens\" is 0"},
	    {"{\"id\": 7, \"prompt\": \"a\", \"max_tokens\": -5}", "\"max_tokens\" is -5"},
	    {"{\"id\": 7, \"prompt\": \"a\", \"max_tokens\": 1.5}", "\"max_tokens\" is 1.5"},
	    {"{\"id\": 7, \"prompt\": \"a\", \"max_tokens\": 1e300}", "\"max_tokens\" is"},
	    {"{\"id\": 7, \"prompt\": \"a\", \"max_tokens\": \"9\"}", "\"max_tokens\" is \"9\""},
	    {"{\"id\": 7, \"prompt\": \"a\", \"task\": 1}", "\"task\" is 1"},
	    {"{\"id\": 7, \"body\": 3}", "\"body\" is 3, expected an object"},
	    {"{\"id\": 7, \"body\": {}}", "neither \"prompt\" nor \"messages\""},
	    {"{\"id\": 7, \"body\": {\"messages\": [1]}}", "messages[0] is 1"},
	    {"{\"custom_id\": 7, \"url\": \"/v1/embeddings\", \"body\": {}}",
	     "\"url\" is \"/v1/embeddings\", expected"},
	    {"{\"custom_id\": 7, \"body\": {\"prompt\": \"a\", \"max_completion_tokens\": 0}}",
	     "\"max_completion_tokens\" is 0"},
	};
	for (size_t i = 0; i < sizeof refusal / sizeof *refusal; i++) {
		struct instance instance;
		struct error error = {{0}};
		assert_false(instance_parse(refusal[i].line, strlen(refusal[i].line), &instance, &error));
		if (!strstr(error.message, refusal[i].message))
			fail_msg("%s: %s", refusal[i].line, error.message);
		assert_string_equal(instance.id, "7");
		instance_free(&instance);
	}
}

static void goes_on_after_a_broken_line(void** state) {
	(void)state;
	char text[] = "\xef\xbb\xbf{\"id\": 1, \"prompt\": \"a\"}\r\n"
	              "\n  \t\r\n"
	              "{\"id\": 2, \"prompt\": \n"
	              "[1]\n"
	              "{\"id\": 5, \"prompt\": \"\xff\"}\n"
	              "{\"id\": 1, \"prompt\": \"b\"}";
	struct jsonl_reader reader = {.file = fmemopen(text, strlen(text), "r")};
	struct instance instance;
	struct error error;
	static const enum jsonl_status expected[] = {JSONL_INSTANCE, JSONL_BROKEN, JSONL_BROKEN, JSONL_BROKEN,
	                                             JSONL_INSTANCE};
	static const long line[] = {1, 4, 5, 6, 7};
	for (size_t i = 0; i < 5; i++) {
		assert_int_equal(jsonl_next(&reader, &instance, &error), expected[i]);
		assert_int_equal(instance.line, line[i]);
		instance_free(&instance);
	}
	assert_int_equal(jsonl_next(&reader, &instance, &error), JSONL_END);
	fclose(reader.file);
	jsonl_free(&reader);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(reads_a_line),
	    cmocka_unit_test(reads_messages),
	    cmocka_unit_test(reads_a_batch_line),
	    cmocka_unit_test(ids_come_back_as_given),
	    cmocka_unit_test(refuses_with_the_reason),
	    cmocka_unit_test(goes_on_after_a_broken_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
