/* Tool calls out of texts: each family's format, however the text is cut, and no text lost. */
#include "streams/service/tool_calls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"add\", \"parameters\": {}}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"look_up\"}}]";

/* "content|name(arguments)|name(arguments)" */
static void read_cut(const char* text, size_t piece, char out[2048]) {
	struct tool_reader r;
	tool_reader_open(&r, tools, false, 1);
	const size_t size = strlen(text);
	for (size_t at = 0; at < size; at += piece)
		tool_reader_add(&r, text + at, size - at < piece ? size - at : piece);
	tool_reader_end(&r);
	assert_false(r.failed);
	int n = snprintf(out, 2048, "%.*s", (int)r.content.size, r.content.data ? r.content.data : "");
	for (int i = 0; i < r.n; i++) {
		assert_int_equal(strlen(r.call[i].id), 9);
		for (int j = 0; j < i; j++)
			assert_string_not_equal(r.call[i].id, r.call[j].id);
		n += snprintf(out + n, 2048 - (size_t)n, "|%s(%s)", r.call[i].name, r.call[i].arguments);
	}
	tool_reader_close(&r);
}

static void reads(const char* text, const char* expected) {
	char out[2048];
	for (size_t piece = 1; piece <= strlen(text) + 1; piece++) {
		read_cut(text, piece, out);
		assert_string_equal(out, expected);
	}
}

static void hermes_and_qwen(void** unused) {
	(void)unused;
	reads("<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 1.50, \"b\": [2]}}\n</tool_call>",
	      "|add({\"a\": 1.50, \"b\": [2]})");
	reads(
	    "Let me see.\n<tool_call>{\"name\": \"add\", \"arguments\": {}}</tool_call>\n<tool_call>\n{\"name\": "
	    "\"any\"}</tool_call>\n",
	    "Let me see.\n|add({})|any({})");
	reads("<tool_call>{\"arguments\": \"{\\\"x\\\": 1}\", \"name\": \"add\"}",
	      "|add({\"x\": 1})"); /* EOS closed it */
}

static void mistral(void** unused) {
	(void)unused;
	reads("[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": \"]}\"}}, {\"name\": \"look_up\", "
	      "\"arguments\": "
	      "{}, \"id\": \"123456789\"}]",
	      "|add({\"a\": \"]}\"})|look_up({})");
	reads("[TOOL_CALLS]add[ARGS]{\"a\": 1}[TOOL_CALLS]look_up[CALL_ID]123456789[ARGS]{}",
	      "|add({\"a\": 1})|look_up({})");
	reads("[TOOL_CALLS]add{\"a\": 1}", "|add({\"a\": 1})");
	reads("[TOOL_CALLS] [{\"name\": \"add\"", "[TOOL_CALLS] [{\"name\": \"add\"");
	reads("[TOOL_CALLS][]", "[TOOL_CALLS][]");
}

static void llama(void** unused) {
	(void)unused;
	reads("{\"name\": \"add\", \"parameters\": {\"a\": 1}}", "|add({\"a\": 1})");
	reads("\n<|python_tag|>{\"name\": \"other\", \"parameters\": {}}", "|other({})");
	reads(" {\"name\": \"add\", \"parameters\": {}}; {\"name\": \"look_up\", \"parameters\": {\"q\": \"é\"}}",
	      "|add({})|look_up({\"q\": \"é\"})");
	/* JSON that was asked for is no call */
	reads("{\"name\": \"Ada\", \"born\": 1815}", "{\"name\": \"Ada\", \"born\": 1815}");
	reads("{\"name\": \"add\"}; and so on", "{\"name\": \"add\"}; and so on");
	reads("Here: {\"name\": \"add\", \"parameters\": {}}", "Here: {\"name\": \"add\", \"parameters\": {}}");
}

static void functions(void** unused) {
	(void)unused;
	reads("<function=add>{\"a\": 1}</function><function=look_up>{}</function>",
	      "|add({\"a\": 1})|look_up({})");
	reads("Well <function=add>none</function>.", "Well <function=add>none</function>.");
}

static void what_is_no_call_is_text(void** unused) {
	(void)unused;
	static const char* const texts[] = {"Plain text.",
	                                    "  two spaces",
	                                    "a < b and <tool",
	                                    "[TOOL",
	                                    "<tool_call>",
	                                    "<tool_call>{\"name\": 1}</tool_call> after",
	                                    "<tool_call>{\"name\": \"\"}</tool_call>",
	                                    "{",
	                                    "{}",
	                                    "[TOOL_CALLS]",
	                                    "<tool_call>no</tool_call>\n<tool_call>{broken</tool_call>",
	                                    "<|python_tag|>print(1)"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reads(texts[i], texts[i]);
	reads("", "");
}

static void one_call_where_no_more_are_wanted(void** unused) {
	(void)unused;
	struct tool_reader r;
	tool_reader_open(&r, tools, true, 1);
	const char text[] = "<tool_call>{\"name\": \"a\"}</tool_call><tool_call>{\"name\": \"b\"}</tool_call>";
	tool_reader_add(&r, text, sizeof text - 1);
	tool_reader_end(&r);
	assert_int_equal(r.n, 1);
	assert_string_equal(r.call[0].name, "a");
	tool_reader_close(&r);
}

static void begins(const char* chat_template, const char* name, const char* expected) {
	struct text out = {0};
	assert_int_equal(tool_call_begin(chat_template, name, &out), expected != NULL);
	if (expected)
		assert_string_equal(out.data, expected);
	text_free(&out);
}

static void an_answer_can_be_made_to_call(void** unused) {
	(void)unused;
	begins("… <tool_call></tool_call> …", "f", "<tool_call>\n{\"name\": \"f\", \"arguments\":");
	begins("… <tool_call></tool_call> …", NULL, "<tool_call>\n{\"name\":");
	begins("[TOOL_CALLS]", "f", "[TOOL_CALLS][{\"name\": \"f\", \"arguments\":");
	begins("[TOOL_CALLS] [ARGS]", "f", "[TOOL_CALLS]f[ARGS]");
	begins("<function=", "f", "<function=f>");
	begins("\"parameters\": ", "f", "{\"name\": \"f\", \"parameters\":");
	begins("{{ messages }}", "f", NULL);
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hermes_and_qwen),
	    cmocka_unit_test(mistral),
	    cmocka_unit_test(llama),
	    cmocka_unit_test(functions),
	    cmocka_unit_test(what_is_no_call_is_text),
	    cmocka_unit_test(one_call_where_no_more_are_wanted),
	    cmocka_unit_test(an_answer_can_be_made_to_call),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
