/* JSON by a format, and lists of words. */
#include "streams/text.h"

#include <inttypes.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/files/json.h"
#include "streams/json_text.h"

static void every_kind(void** state) {
	(void)state;
	struct text t = {0};
	struct error e;
	text_json(&t, "{'a%s': %q, 'b': %q, 'c': %Q, 'd': %Q, ", "x", "it's \"so\"\n", (const char*)NULL,
	          "cut off", (size_t)3, (const char*)NULL, (size_t)0);
	text_json(&t, "'e': %d, 'f': %l, 'g': [%g, %g, %g], 'h': [%b, %b]}", -7, INT64_MIN, 0.5, (double)NAN,
	          (double)INFINITY, true, false);
	assert_string_equal(
	    t.data, "{\"ax\": \"it's \\\"so\\\"\\n\", \"b\": null, \"c\": \"cut\", \"d\": \"\", \"e\": -7, "
	            "\"f\": -9223372036854775808, \"g\": [0.5, null, null], \"h\": [true, false]}");
	assert_true(json_check(t.data, t.size, &e));
	text_free(&t);
}

/* Arguments are never read as a format, whatever they hold. */
static void what_is_given_is_no_format(void** state) {
	(void)state;
	struct text t = {0};
	text_json(&t, "%s", "100 % of '%q'");
	assert_string_equal(t.data, "100 % of '%q'");
	text_clear(&t);
	text_json(&t, "%q", "%s'\xff\x01");
	assert_string_equal(t.data, "\"%s'\xef\xbf\xbd\\u0001\"");
	text_clear(&t);
	text_json(&t, "");
	assert_int_equal(t.size, 0);
	text_free(&t);
}

static void a_beginning_is_dropped(void** state) {
	(void)state;
	struct text t = {0};
	text_drop(&t, 0);
	text_put(&t, "abc");
	text_drop(&t, 2);
	assert_int_equal(t.size, 1);
	assert_memory_equal(t.data, "c", 1);
	text_free(&t);
}

static void words_of_a_list(void** state) {
	(void)state;
	static const char list[] = "min minimum max_tokens x";
	assert_true(json_lists(list, "min") && json_lists(list, "minimum") && json_lists(list, "x"));
	assert_true(json_lists("x", "x"));
	assert_false(json_lists(list, "max") || json_lists(list, "tokens") || json_lists(list, "imum"));
	assert_false(json_lists(list, "") || json_lists(list, " ") || json_lists(list, "min minimum") ||
	             json_lists(list, " x") || json_lists("", "x"));
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_kind), cmocka_unit_test(what_is_given_is_no_format),
	    cmocka_unit_test(a_beginning_is_dropped), cmocka_unit_test(words_of_a_list)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
