/* Expressions as tokenizers write them: our pieces against Hugging Face tokenizers'
 * (tools/oracle/expressions.py). */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "core/text/expression.h"
#include "support_tokens.h"

/* Whether the next piece is text[start, end). An empty one stands for nothing. */
static bool take(const cJSON** piece, const char* text, size_t start, size_t end) {
	if (start == end)
		return true;
	const cJSON* const one = *piece;
	if (!one || strlen(one->valuestring) != end - start ||
	    memcmp(one->valuestring, text + start, end - start) != 0)
		return false;
	*piece = one->next;
	return true;
}

static bool same_pieces(const struct expression* e, struct matcher* m, const char* text, const cJSON* piece) {
	const size_t size = strlen(text);
	size_t at = 0, start = NOWHERE, end = NOWHERE;
	while (expression_next(e, m, text, size, &start, &end)) {
		if (!take(&piece, text, at, start) || !take(&piece, text, start, end))
			return false;
		at = end;
	}
	return take(&piece, text, at, size) && !piece;
}

static void pieces_are_the_reference_s(void** state) {
	(void)state;
	struct file_bytes file = read_source("tests/core/golden/expressions.json");
	cJSON* const golden = cJSON_ParseWithLength(file.data, file.size);
	struct matcher m;
	assert_true(matcher_start(&m));
	int n = 0, wrong = 0;
	const cJSON* entry;
	cJSON_ArrayForEach (entry, golden) {
		const char* const pattern = cJSON_GetArrayItem(entry, 0)->valuestring;
		const char* const text = cJSON_GetArrayItem(entry, 1)->valuestring;
		struct error error = {""};
		struct expression* const e = expression_compile(pattern, true, &error);
		if (!e || !same_pieces(e, &m, text, cJSON_GetArrayItem(entry, 2)->child)) {
			print_message("%s on \"%s\" %s\n", pattern, text, error.message);
			wrong++;
		}
		expression_free(e);
		n++;
	}
	print_message("%d / %d expressions\n", n - wrong, n);
	assert_true(n > 400);
	assert_int_equal(wrong, 0);
	matcher_end(&m);
	cJSON_Delete(golden);
	free(file.data);
}

static void what_is_not_supported_is_named(void** state) {
	(void)state;
	static const struct {
		const char *pattern, *why;
	} cases[] = {{"[[:vowel:]]", "this class of characters is not supported"},
	             {"[a", "not closed"},
	             {"[a&&[b]", "not closed"},
	             {"\\u12", "four hexadecimal digits"},
	             {"a\\", "escapes nothing"},
	             {"[[[[[[[[[[[[[[[[[a]]]]]]]]]]]]]]]]]", "nested too deep"},
	             {"a{2}(", "parenthes"}};
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct error error = {""};
		assert_null(expression_compile(cases[i].pattern, true, &error));
		if (!strstr(error.message, cases[i].why))
			fail_msg("%s: %s", cases[i].pattern, error.message);
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(pieces_are_the_reference_s),
	                                   cmocka_unit_test(what_is_not_supported_is_named)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
