/* Thoughts, texts and calls are separated, however the text is cut, whether what begins them is text or a
 * special token, and no text lost. */
#include "streams/service/answer_reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char tools[] = "[{\"type\": \"function\", \"function\": {\"name\": \"add\"}}]";

/* Special tokens, where they are none of the text. */
static const char* const special[] = {"<seed:think>",
                                      "</seed:think>",
                                      "[THINK]",
                                      "[/THINK]",
                                      "<think>",
                                      "</think>",
                                      "<|channel|>",
                                      "<|message|>",
                                      "<|end|>",
                                      "<|start|>",
                                      "<|constrain|>",
                                      "[TOOL_CALLS]",
                                      "<unused>",
                                      "<tool_call>",
                                      "</tool_call>",
                                      "<|tool_calls_section_begin|>",
                                      "<|tool_call_begin|>",
                                      "<|tool_call_argument_begin|>",
                                      "<|tool_call_end|>",
                                      "<|tool_calls_section_end|>",
                                      "<｜tool▁calls▁begin｜>",
                                      "<｜tool▁call▁begin｜>",
                                      "<｜tool▁sep｜>",
                                      "<｜tool▁call▁end｜>",
                                      "<｜tool▁calls▁end｜>",
                                      "<|START_ACTION|>",
                                      "<|END_ACTION|>",
                                      "<|tool_call|>",
                                      "<|tool_call_start|>",
                                      "<minimax:tool_call>",
                                      "</minimax:tool_call>",
                                      "<arg_key>",
                                      "</arg_key>",
                                      "<arg_value>",
                                      "</arg_value>"};

static size_t special_at(const char* text) {
	for (size_t i = 0; i < sizeof special / sizeof *special; i++)
		if (strncmp(text, special[i], strlen(special[i])) == 0)
			return strlen(special[i]);
	return 0;
}

struct reading_case {
	enum reasoning_style style;
	bool begun;
	const char *text, *expected; /* "thought|content|name(arguments)…" */
};

static void take_out(struct answer_reader* r, const char* text, size_t piece) {
	char shown[1024];
	size_t n = 0, reported = 0;
	while (*text) {
		const size_t mark = special_at(text);
		if (mark) {
			char name[32];
			snprintf(name, sizeof name, "%.*s", (int)mark, text);
			answer_reader_mark(r, n, name);
			text += mark;
		} else
			shown[n++] = *text++;
		for (; n - reported >= piece; reported += piece)
			answer_reader_add(r, shown + reported, piece);
	}
	answer_reader_add(r, shown + reported, n - reported);
}

static void read_cut(const struct reading_case* c, size_t piece, bool marks, char out[2048]) {
	struct answer_reader r;
	answer_reader_open(&r, c->style, c->begun);
	tool_reader_open(&r.tools, tools, false, 1);
	const size_t size = strlen(c->text);
	if (marks)
		take_out(&r, c->text, piece);
	else
		for (size_t at = 0; at < size; at += piece)
			answer_reader_add(&r, c->text + at, size - at < piece ? size - at : piece);
	answer_reader_end(&r);
	assert_false(r.failed);
	int n = snprintf(out, 2048, "%.*s|%.*s", (int)r.reasoning.size, r.reasoning.data ? r.reasoning.data : "",
	                 (int)r.content.size, r.content.data ? r.content.data : "");
	for (int i = 0; i < r.tools.n; i++)
		n += snprintf(out + n, 2048 - (size_t)n, "|%s(%s)", r.tools.call[i].name, r.tools.call[i].arguments);
	answer_reader_close(&r);
}

static void read_all(const struct reading_case* list, size_t n) {
	for (size_t i = 0; i < n; i++)
		for (size_t piece = 1; piece <= strlen(list[i].text) + 1; piece++)
			for (int marks = 0; marks < 2; marks++) {
				char out[2048];
				read_cut(&list[i], piece, marks, out);
				if (strcmp(out, list[i].expected) != 0)
					fail_msg("%s\n  in pieces of %zu%s gave %s", list[i].text, piece, marks ? ", marked" : "",
					         out);
			}
}

static void thoughts_between_tags(void** unused) {
	(void)unused;
	static const struct reading_case list[] = {
	    {REASONING_THINK, false, "<think>\nhm, 2 < 3\n</think>\n\nYes.", "hm, 2 < 3|Yes."},
	    {REASONING_THINK, true, "hm\n\nso\n</think>\n\nYes. <b", "hm\n\nso|Yes. <b"},
	    {REASONING_THINK, false, "\n<think>\n\n</think>\n\nYes.", "|Yes."},
	    {REASONING_THINK, false, "No thought </th at all", "|No thought </th at all"},
	    {REASONING_THINK, false, "<thin air", "|<thin air"},
	    {REASONING_THINK, false, "<think>never done ", "never done|"},
	    {REASONING_THINK, true, "", "|"},
	    {REASONING_SEED, false, "<seed:think>hm </thin so</seed:think>Yes.", "hm </thin so|Yes."},
	    {REASONING_MINIMAX, true, "hm</mm:think>\nYes.", "hm|Yes."},
	    {REASONING_MISTRAL, false, "[THINK]hm[/THINK]Yes. [TOOL_CALLS]add[ARGS]{}", "hm|Yes. |add({})"},
	    {REASONING_THINK, false,
	     "<think>a</think><tool_call>{\"name\": \"add\", \"arguments\": {\"x\": 1}}</tool_call>",
	     "a||add({\"x\": 1})"},
	    {REASONING_NONE, false, "Well. [TOOL_CALLS][{\"name\": \"add\", \"arguments\": {}}]",
	     "|Well. |add({})"},
	    {REASONING_THINK, false,
	     "<think>a</think>So <|tool_calls_section_begin|><|tool_call_begin|>functions.add:0"
	     "<|tool_call_argument_begin|>{\"x\": 1}<|tool_call_end|><|tool_calls_section_end|>",
	     "a|So |add({\"x\": 1})"},
	    {REASONING_THINK, true,
	     "a</think><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{\"x\": "
	     "1}\n```"
	     "<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n{}\n```"
	     "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
	     "a||add({\"x\": 1})|add({})"},
	    {REASONING_NONE, false,
	     "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"add\", \"parameters\": {}}\n]"
	     "<|END_ACTION|>",
	     "||add({})"},
	    {REASONING_NONE, false, "<|tool_call|>[{\"name\": \"add\", \"arguments\": {}}]", "||add({})"},
	    {REASONING_NONE, false, "<|tool_call_start|>[add(x='a')]<|tool_call_end|>.",
	     "|.|add({\"x\": \"a\"})"},
	    {REASONING_NONE, false,
	     "<minimax:tool_call>\n<invoke name=\"add\">\n<parameter name=\"x\">1</parameter>\n</invoke>\n"
	     "</minimax:tool_call>",
	     "||add({\"x\": 1})"},
	    {REASONING_THINK, false,
	     "<think>a</think>\n<tool_call>add\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
	     "a||add({\"x\": 1})"},
	};
	read_all(list, sizeof list / sizeof *list);
}

static void thoughts_in_channels(void** unused) {
	(void)unused;
	static const struct reading_case list[] = {
	    /* headers that are longer than all that follows them */
	    {REASONING_CHANNELS, false,
	     "<|channel|>analysis and a long header, as none writes it, of which all but the name is left out"
	     "<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|end|>",
	     "a|b"},
	    {REASONING_CHANNELS, false,
	     "<|channel|>analysis<|message|>Think it over. "
	     "<|end|><|start|>assistant<|channel|>final<|message|>Yes!",
	     "Think it over.|Yes!"},
	    {REASONING_CHANNELS, false, "<|channel|>final<|message|>Yes <|x", "|Yes <|x"},
	    {REASONING_CHANNELS, false,
	     " to=functions.add<|channel|>commentary json<|message|>{\"x\": \"</function>\"}",
	     "||add({\"x\": \"</function>\"})"},
	    {REASONING_CHANNELS, false, "to be or not", "|to be or not"},
	    {REASONING_CHANNELS, false, "<|channel|>analysis<|message|>cut o", "cut o|"},
	    {REASONING_CHANNELS, false,
	     "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary to=functions.add "
	     "<|constrain|>json<|message|>{\"x\": 2}",
	     "a||add({\"x\": 2})"},
	    {REASONING_CHANNELS, false, "Plain text.", "|Plain text."},
	};
	read_all(list, sizeof list / sizeof *list);
}

/* A template shows how its models think, and a prompt's end whether they have begun. */
static void styles(void** unused) {
	(void)unused;
	assert_int_equal(reasoning_style_of("… content.split('</think>')[-1] …"), REASONING_THINK);
	assert_int_equal(reasoning_style_of("<|start|>assistant<|channel|>final</think>"), REASONING_CHANNELS);
	assert_int_equal(reasoning_style_of("{{ messages }}"), REASONING_NONE);
	assert_int_equal(reasoning_style_of("{% set end = '</seed:think>' %}"), REASONING_SEED);
	assert_int_equal(reasoning_style_of("[THINK] … [/THINK] </think>"), REASONING_MISTRAL);
	assert_true(reasoning_begun(REASONING_SEED, "assistant\n<seed:think>", 22));
	assert_int_equal(reasoning_style_of(NULL), REASONING_NONE);
	assert_true(reasoning_begun(REASONING_THINK, "assistant\n<think>\n", 18));
	assert_false(reasoning_begun(REASONING_THINK, "<think>\n\n</think>\n\n", 19));
	assert_false(reasoning_begun(REASONING_NONE, "<think>", 7));
}

/* Special tokens that mean nothing here are left out, as they are of the text. */
static void other_marks_are_ignored(void** unused) {
	(void)unused;
	static const struct reading_case c = {REASONING_NONE, false, "a<think>b<unused>c", "|abc"};
	char out[2048];
	read_cut(&c, 2, true, out);
	assert_string_equal(out, c.expected);
}

/* The end of a thought in bytes of text, in pieces of any size. */
static void the_end_of_a_thought_is_known(void** unused) {
	(void)unused;
	static const char text[] = "<think>a b</think>\nYes.";
	for (int marks = 0; marks < 2; marks++)
		for (size_t piece = 1; piece <= strlen(text); piece++) {
			struct answer_reader r;
			answer_reader_open(&r, REASONING_THINK, false);
			if (marks)
				take_out(&r, text, piece);
			else
				for (size_t at = 0; at < strlen(text); at += piece)
					answer_reader_add(&r, text + at, strlen(text) - at < piece ? strlen(text) - at : piece);
			answer_reader_end(&r);
			assert_int_equal(r.thought_until, marks ? 3 : strlen("<think>a b"));
			answer_reader_close(&r);
		}
	struct answer_reader r;
	answer_reader_open(&r, REASONING_THINK, true);
	answer_reader_add(&r, "hm", 2);
	answer_reader_end(&r);
	assert_true(r.thought_until == SIZE_MAX);
	answer_reader_close(&r);
}

int main(void) {
	const struct CMUnitTest tests[] = {cmocka_unit_test(thoughts_between_tags),
	                                   cmocka_unit_test(thoughts_in_channels), cmocka_unit_test(styles),
	                                   cmocka_unit_test(other_marks_are_ignored),
	                                   cmocka_unit_test(the_end_of_a_thought_is_known)};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
