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
	    "\"look_up\"}</tool_call>\n",
	    "Let me see.\n|add({})|look_up({})");
	reads("<tool_call>{\"arguments\": \"{\\\"x\\\": 1}\", \"name\": \"add\"}",
	      "|add({\"x\": 1})"); /* EOS closed it */
}

static void fire_function(void** unused) {
	(void)unused;
	reads(" functools[{\"name\": \"add\", \"arguments\": {\"a\": [1]}}, {\"name\": \"look_up\", "
	      "\"arguments\": {}}]",
	      "|add({\"a\": [1]})|look_up({})");
	reads("import functools\nfunctools[0]", "import functools\nfunctools[0]");
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
	reads("\n<|python_tag|>{\"name\": \"look_up\", \"parameters\": {}}", "|look_up({})");
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

/* Calls that models write not quite as they should. */
static void calls_as_models_write_them(void** unused) {
	(void)unused;
#define CALL(arguments) "<tool_call>\n{\"name\": \"add\", \"arguments\": " arguments "}\n</tool_call>"
	reads(CALL("{\"a\": \"</tool_call> inside\"}"), "|add({\"a\": \"</tool_call> inside\"})");
	reads(CALL("{\"a\": \"l1\n\tl2\"}"), "|add({\"a\": \"l1\\n\\tl2\"})");
	reads(CALL("{\"a\": \"\\d+\"}"), "|add({\"a\": \"\\\\d+\"})");
	reads(CALL("{\"a\": \"x\\u0000\"}"), "|add({\"a\": \"x\\u0000\"})");
	reads(CALL("{\"a\": True, b: yes, }"), "|add({\"a\": true, \"b\": \"yes\"})");
	reads(CALL("null"), "|add({})");
	reads(CALL("\"\""), "|add({})");
	reads(CALL("\"{\\\"a\\\": 1}\""), "|add({\"a\": 1})");
	reads("A <tool_call> tag. " CALL("{}"), "A <tool_call> tag. |add({})");
	reads("<tool_call>{\"name\": \"add\", \"arguments\": {}} {\"name\": \"look_up\"}</tool_call>",
	      "|add({})|look_up({})");
	reads("<tool_call>[{\"name\": \"add\", \"arguments\": {}}, {\"name\": \"add\"}]</tool_call> ok",
	      " ok|add({})|add({})");
	reads("<tool_call>{\"type\": \"function\", \"function\": {\"name\": \"add\", \"arguments\": {\"x\": "
	      "2}}}</tool_call>",
	      "|add({\"x\": 2})");
	reads("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}\n</tool_call>", "|add({\"a\": 1})");
	reads("Sure:\n```json\n{\"name\": \"add\", \"arguments\": {\"a\": \"1\"}}\n```\n",
	      "Sure:\n|add({\"a\": \"1\"})");
	reads("<tools>\n{\"name\": \"add\", \"arguments\": {}}\n</tools>", "|add({})");
	/* nesting has no bound that a model would meet */
	char deep[1200] = "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": ",
	     expected[1200] = "|add({\"a\": ";
	for (int i = 0; i < 100; i++)
		strcat(deep, "["), strcat(expected, "[");
	for (int i = 0; i < 100; i++)
		strcat(deep, "]"), strcat(expected, "]");
	reads(strcat(deep, "}}</tool_call>"), strcat(expected, "})"));
}

static void other_functions_and_values_are_text(void** unused) {
	(void)unused;
	static const char* const texts[] = {"<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>",
	                                    CALL("[1, 2]"),
	                                    CALL("\"hello\""),
	                                    CALL("5"),
	                                    "```json\n{\"name\": \"other\", \"arguments\": {}}\n```",
	                                    "```json\n{\"name\": \"add\"}\n```",
	                                    "```json\n{\"a\": 1}\n```",
	                                    "```python\nprint(1)\n```\n",
	                                    "```\n{\"b\": 2}\n```"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reads(texts[i], texts[i]);
}

/* Arguments come as they are written, and a call that a limit cut off is reported. */
static void arguments_come_piece_by_piece(void** unused) {
	(void)unused;
	struct tool_reader r;
	tool_reader_open(&r, tools, false, 1);
	const char text[] = "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": \"one t";
	tool_reader_add(&r, text, sizeof text - 1);
	assert_int_equal(r.n, 1);
	assert_false(r.call[0].ended);
	assert_string_equal(r.call[0].arguments, "{\"a\": \"one t");
	tool_reader_add(&r, "wo", 2);
	assert_string_equal(r.call[0].arguments, "{\"a\": \"one two");
	r.cut = true;
	tool_reader_end(&r);
	assert_true(r.call[0].ended);
	assert_string_equal(r.call[0].arguments, "{\"a\": \"one two");
	assert_int_equal(r.content.size, 0);
	tool_reader_close(&r);
	tool_reader_open(&r, tools, false, 1);
	tool_reader_add(&r, text, sizeof text - 1);
	tool_reader_end(&r); /* ended by the model: what is open is closed */
	assert_string_equal(r.call[0].arguments, "{\"a\": \"one t\"}");
	tool_reader_close(&r);
}

/* A call is recognized at the beginning of an answer that keeps a schema. */
static void a_form_is_no_call(void** unused) {
	(void)unused;
	static const char form[] = "{\"name\": \"add\", \"arguments\": {}, \"b\": \"<tool_call>{}\"}";
	struct tool_reader r;
	tool_reader_open(&r, tools, false, 1);
	r.bound = r.tagged = true;
	tool_reader_add(&r, form, sizeof form - 1);
	tool_reader_end(&r);
	assert_int_equal(r.n, 0);
	assert_string_equal(r.content.data, form);
	tool_reader_close(&r);
	tool_reader_open(&r, tools, false, 1);
	r.bound = r.tagged = true;
	tool_reader_add(&r, CALL("{}"), strlen(CALL("{}")));
	tool_reader_end(&r);
	assert_int_equal(r.n, 1);
	tool_reader_close(&r);
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
	const char text[] =
	    "<tool_call>{\"name\": \"add\"}</tool_call><tool_call>{\"name\": \"look_up\"}</tool_call>";
	tool_reader_add(&r, text, sizeof text - 1);
	tool_reader_end(&r);
	assert_int_equal(r.n, 1);
	assert_string_equal(r.call[0].name, "add");
	tool_reader_close(&r);
}

static void begins(const char* chat_template, const char* name, const char* expected) {
	struct text out = {0};
	const struct tool_syntax* s = tool_syntax_of(chat_template);
	assert_int_equal(s != NULL, expected != NULL);
	if (!s)
		return;
	tool_syntax_begin(s, name, &out);
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
	    cmocka_unit_test(fire_function),
	    cmocka_unit_test(llama),
	    cmocka_unit_test(functions),
	    cmocka_unit_test(calls_as_models_write_them),
	    cmocka_unit_test(other_functions_and_values_are_text),
	    cmocka_unit_test(arguments_come_piece_by_piece),
	    cmocka_unit_test(a_form_is_no_call),
	    cmocka_unit_test(what_is_no_call_is_text),
	    cmocka_unit_test(one_call_where_no_more_are_wanted),
	    cmocka_unit_test(an_answer_can_be_made_to_call),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
