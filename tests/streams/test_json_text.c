/* json_check against the letter of RFC 8259, spans of members, quoting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "streams/json_text.h"
#include "streams/text.h"

static bool good(const char* text) { return json_check(text, strlen(text), NULL); }

static void accepts_every_kind_of_value(void** state) {
	(void)state;
	static const char* const text[] = {"0",
	                                   "-0",
	                                   "-1.5e+10",
	                                   "123456789012345678901234567890",
	                                   "true",
	                                   "false",
	                                   "null",
	                                   "\"\"",
	                                   "[]",
	                                   " \t\r\n{ } ",
	                                   "[1,2]",
	                                   "{\"a\":{\"b\":[null]}}",
	                                   "\"\\u00e9\\ud83d\\ude00\\\"\\\\\\/\\b\\f\\n\\r\\t\"",
	                                   "\"\xc3\xa9\xf0\x9f\x98\x80\""};
	for (size_t i = 0; i < sizeof text / sizeof *text; i++)
		if (!good(text[i]))
			fail_msg("refused: %s", text[i]);
}

static void refuses_what_is_not_json(void** state) {
	(void)state;
	static const char* const text[] = {"",
	                                   " ",
	                                   "01",
	                                   "+1",
	                                   "1.",
	                                   ".5",
	                                   "1e",
	                                   "-",
	                                   "nul",
	                                   "tru",
	                                   "[1,]",
	                                   "[,1]",
	                                   "[1 2]",
	                                   "{\"a\"}",
	                                   "{\"a\":}",
	                                   "{a:1}",
	                                   "{\"a\":1,}",
	                                   "{} {}",
	                                   "\"",
	                                   "\"\\x\"",
	                                   "\"\\u12\"",
	                                   "\"\n\"",
	                                   "\"\\ud800\"",
	                                   "\"\\udc00\"",
	                                   "\"\\ud800\\u0041\"",
	                                   "\"\\u0000\"",
	                                   "\"\xff\"",
	                                   "\"\xc0\xaf\"",
	                                   "\"\xed\xa0\x80\"",
	                                   "\"\xf4\x90\x80\x80\"",
	                                   "NaN",
	                                   "'a'",
	                                   "[",
	                                   "{"};
	for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
		if (good(text[i]))
			fail_msg("accepted: %s", text[i]);
	}
	assert_false(json_check("1\0", 2, NULL));
	assert_false(json_check("\"\\\0\"", 4, NULL)); /* an escaped NUL byte */
}

static void names_the_place(void** state) {
	(void)state;
	struct error error;
	assert_false(json_check("{\"a\": 01}", 9, &error));
	assert_string_equal(error.message, "not JSON, at byte 8: ',' or '}' was expected");
}

static void bounds_the_nesting(void** state) {
	(void)state;
	enum { DEEP = 1000000 };
	char* const text = malloc(2 * DEEP);
	assert_non_null(text);
	memset(text, '[', DEEP);
	memset(text + DEEP, ']', DEEP);
	struct error error;
	assert_false(json_check(text, 2 * DEEP, &error));
	assert_non_null(strstr(error.message, "nested too deep"));
	assert_true(json_check(text + DEEP - JSON_DEPTH, 2 * JSON_DEPTH, NULL));
	assert_false(json_check(text + DEEP - JSON_DEPTH - 1, 2 * JSON_DEPTH + 2, NULL));
	free(text);
}

static void finds_members_as_text(void** state) {
	(void)state;
	static const char text[] = " {\"x\": {\"id\": 1}, \"id\" : [1.50, {\"a\": \"}\"}] , \"id\": 2}";
	size_t size = 0;
	const char* const id = json_member(text, strlen(text), "id", &size);
	assert_non_null(id);
	assert_int_equal(size, strlen("[1.50, {\"a\": \"}\"}]"));
	assert_memory_equal(id, "[1.50, {\"a\": \"}\"}]", size);
	assert_null(json_member(text, strlen(text), "i", &size));
	assert_null(json_member("[1]", 3, "id", &size));
	assert_null(json_member("{}", 2, "id", &size));
}

static char* quote(const char* text, size_t size) {
	struct text t = {0};
	text_quote(&t, text, size);
	return text_take(&t);
}

/* Any bytes quoted are JSON, and cJSON reads back what was valid. */
static void quotes_any_bytes(void** state) {
	(void)state;
	uint32_t seed = 1;
	for (int round = 0; round < 2000; round++) {
		char bytes[40];
		for (size_t i = 0; i < sizeof bytes; i++) {
			seed = seed * 1664525u + 1013904223u;
			bytes[i] = (char)(seed >> 24);
		}
		char* const quoted = quote(bytes, sizeof bytes);
		assert_non_null(quoted);
		/* NUL is written as an escape that the check refuses in input */
		if (!memchr(bytes, 0, sizeof bytes))
			assert_true(json_check(quoted, strlen(quoted), NULL));
		free(quoted);
	}
	static const char text[] = "a \"quote\", a \\, a\ttab, é, 😀, \x01";
	char* const quoted = quote(text, strlen(text));
	cJSON* const read = cJSON_Parse(quoted);
	assert_true(cJSON_IsString(read));
	assert_string_equal(read->valuestring, text);
	cJSON_Delete(read);
	free(quoted);
	char* const broken = quote("a\xff\xe2\x82", 4);
	assert_string_equal(broken, "\"a\xef\xbf\xbd\xef\xbf\xbd\"");
	free(broken);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(accepts_every_kind_of_value),
	    cmocka_unit_test(refuses_what_is_not_json),
	    cmocka_unit_test(names_the_place),
	    cmocka_unit_test(bounds_the_nesting),
	    cmocka_unit_test(finds_members_as_text),
	    cmocka_unit_test(quotes_any_bytes),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
