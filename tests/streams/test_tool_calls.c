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

static const char typed_tools[] =
    "[{\"type\": \"function\", \"function\": {\"name\": \"now\"}},"
    " {\"type\": \"function\", \"function\": {\"name\": \"put\", \"parameters\": {\"type\": \"object\", "
    "\"properties\": {\"s\": {\"type\": \"string\"}, \"n\": {\"type\": \"integer\"}, \"o\": {\"type\": "
    "\"object\"}, \"b\": {\"type\": \"boolean\"}, \"e\": {\"enum\": [\"1\", \"2\"]}, \"u\": {\"anyOf\": "
    "[{\"type\": \"string\"}, {\"type\": \"null\"}]}, \"any\": {}, \"r\": {\"$ref\": \"#/$defs/r\"}, "
    "\"all\": "
    "{\"allOf\": [{\"minLength\": 1}, {\"$ref\": \"#/$defs/r\"}]}}, \"$defs\": {\"r\": {\"enum\": "
    "[\"1\"]}}}}}]";

static const char* given = tools;
static const struct tool_checks* checks;
static const char* enforced;

/* "content|name(arguments)|name(arguments)" */
static void read_cut(const char* text, size_t piece, char out[2048]) {
	struct tool_reader r;
	tool_reader_open(&r, given, false, 1);
	r.checks = checks;
	r.enforced = enforced;
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

/* ---- tags ---------------------------------------------------------------------------------------- */

static void qwen_coder(void** unused) {
	(void)unused;
	given = typed_tools;
#define PARAMETER(key, value) "<parameter=" key ">\n" value "\n</parameter>\n"
#define QWEN(name, parameters) "<tool_call>\n<function=" name ">\n" parameters "</function>\n</tool_call>"
	reads(QWEN("put", PARAMETER("s", "12") PARAMETER("n", "-3") PARAMETER("b", "True")),
	      "|put({\"s\": \"12\", \"n\": -3, \"b\": true})");
	reads("I write.\n\n" QWEN("put", PARAMETER("s", "a \"b\" \\ <c>\n\n\té")) "\n" QWEN("now", "") "\nafter",
	      "I write.\n\n\nafter|put({\"s\": \"a \\\"b\\\" \\\\ <c>\\n\\n\\u0009é\"})|now({})");
	reads(QWEN("put", PARAMETER("o", "{\"a\": [1.50]}") PARAMETER("e", "1") PARAMETER("u", "null")
	                      PARAMETER("any", "[]")),
	      "|put({\"o\": {\"a\": [1.50]}, \"e\": \"1\", \"u\": null, \"any\": []})");
	reads(QWEN("put", PARAMETER("u", "5") PARAMETER("n", "many") PARAMETER("any", "None, so far")
	                      PARAMETER("other", "7")),
	      "|put({\"u\": \"5\", \"n\": \"many\", \"any\": \"None, so far\", \"other\": 7})");
	/* a value may hold the marks of the format */
	reads(QWEN("put", PARAMETER("s", "</parameter> and <tool_call> </function>")),
	      "|put({\"s\": \"</parameter> and <tool_call> </function>\"})");
	/* without lines, without the outer tag, without the last tags, two in one tag */
	reads(
	    "<tool_call><function=put><parameter=s></parameter><parameter=n>1</parameter></function></tool_call>",
	    "|put({\"s\": \"\", \"n\": 1})");
	reads("<function=put>\n" PARAMETER("s", "x") "</function>\n</tool_call> ok", " ok|put({\"s\": \"x\"})");
	reads("<tool_call>\n<function=put>\n" PARAMETER("s", "x"), "|put({\"s\": \"x\"})");
	reads("<tool_call>\n<function=put>\n<parameter=s>\nx y", "|put({\"s\": \"x y\"})");
	reads("<tool_call>\n<function=now>\n</function>\n<function=put>\n" PARAMETER(
	          "n", "2") "</function></tool_call>",
	      "|now({})|put({\"n\": 2})");
	static const char* const texts[] = {QWEN("other", PARAMETER("s", "1")), "<tool_call>\n<function=put",
	                                    "<tool_call>\n<function=put>\n<parameter=s",
	                                    "<tool_call>\n<function=put>\nno tags</function></tool_call>",
	                                    "<function=put>\n<param"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reads(texts[i], texts[i]);
	given = tools;
}

static void glm(void** unused) {
	(void)unused;
	given = typed_tools;
#define PAIR(key, value) "<arg_key>" key "</arg_key>\n<arg_value>" value "</arg_value>\n"
	reads("<tool_call>put\n" PAIR("s", "12") PAIR("n", "3") PAIR("o", "{\"a\": 1}") "</tool_call>",
	      "|put({\"s\": \"12\", \"n\": 3, \"o\": {\"a\": 1}})");
	reads("So:\n<tool_call>now\n</tool_call>\n<tool_call>put<arg_key>s</arg_key><arg_value>\n\"q\"\\\n</"
	      "arg_value>"
	      "</tool_call>",
	      "So:\n|now({})|put({\"s\": \"\\n\\\"q\\\"\\\\\\n\"})");
	reads("<tool_call>put\n" PAIR("s", "</arg_value> x </tool_call>") "</tool_call>.",
	      ".|put({\"s\": \"</arg_value> x </tool_call>\"})");
	reads("<tool_call>put\n" PAIR("s", "x"), "|put({\"s\": \"x\"})");
	static const char* const texts[] = {"<tool_call>other\n" PAIR("s", "1") "</tool_call>",
	                                    "<tool_call>put and more</tool_call>", "<tool_call>put",
	                                    "<tool_call>put\n<arg_key>s</arg_key>1</tool_call>"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reads(texts[i], texts[i]);
	given = tools;
}

static void minimax_and_seed(void** unused) {
	(void)unused;
	given = typed_tools;
#define NAMED(key, value) "<parameter name=\"" key "\">" value "</parameter>\n"
	reads("Well.\n<minimax:tool_call>\n<invoke name=\"put\">\n" NAMED("s", "a\n\"b\"\n")
	          NAMED("n", "4") "</invoke>\n<invoke name=\"now\">\n</invoke>\n</minimax:tool_call>\nDone.",
	      "Well.\n\nDone.|put({\"s\": \"a\\n\\\"b\\\"\\n\", \"n\": 4})|now({})");
	reads("Well.\n<seed:tool_call>\n<function=put>\n<parameter=s>\na\n</parameter>\n<parameter=n>4</"
	      "parameter>\n"
	      "</function>\n</seed:tool_call>\n<seed:tool_call>\n<function=now>\n</function>\n</seed:tool_call>.",
	      "Well.\n.|put({\"s\": \"\\na\\n\", \"n\": 4})|now({})");
	static const char* const texts[] = {
	    "<minimax:tool_call>\n<invoke name=\"other\">\n</invoke>\n</minimax:tool_call>",
	    "<minimax:tool_call>\nno</minimax:tool_call>", "<minimax:tool", "<seed:tool_call>\n<functions>"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reads(texts[i], texts[i]);
	given = tools;
}

/* DeepSeek V3.2 and V4 say of each value whether it is a string. */
static void dsml(void** unused) {
	(void)unused;
	given = typed_tools;
#define DSML_VALUE(key, string, value)                                                                       \
	"<｜DSML｜parameter name=\"" key "\" string=\"" string "\">" value "</｜DSML｜parameter>\n"
#define DSML(name, parameters) "<｜DSML｜invoke name=\"" name "\">\n" parameters "</｜DSML｜invoke>\n"
	reads("So.\n\n<｜DSML｜function_calls>\n" DSML(
	          "put", DSML_VALUE("s", "true", "12") DSML_VALUE("n", "false", "4")
	                     DSML_VALUE("any", "true", "4") DSML_VALUE("u", "false", "null"))
	          DSML("now", "") "</｜DSML｜function_calls>.",
	      "So.\n\n.|put({\"s\": \"12\", \"n\": 4, \"any\": \"4\", \"u\": null})|now({})");
	reads("<｜DSML｜tool_calls>\n" DSML(
	          "put", DSML_VALUE("o", "false", "{\"a\": \"</｜DSML\"}")) "</｜DSML｜tool_calls>",
	      "|put({\"o\": {\"a\": \"</｜DSML\"}})");
	reads("<｜DSML｜tool_calls>" DSML("put", "{\"s\": \"x\"}"), "|put({\"s\": \"x\"})");
	static const char* const texts[] = {"<｜DSML｜function_calls>" DSML("other", ""),
	                                    "<｜DSML｜function_calls>no", "<｜DSML｜function", "<｜DSML｜"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reads(texts[i], texts[i]);
	given = tools;
}

/* MiniMax M3's values end with their names, and may consist of elements. */
static void minimax_m3(void** unused) {
	(void)unused;
	given = typed_tools;
#define M "]<]minimax[>["
#define ELEMENT(name, value) M "<" name ">" value M "</" name ">"
#define M3(name, inside) M "<invoke name=\"" name "\">" inside M "</invoke>"
	reads("So.\n" M "<tool_call>\n" M3("put", ELEMENT("s", "a <b> </s>\n") ELEMENT("n", "4")) "\n" M3(
	          "now", "") "\n" M "</tool_call>.",
	      "So.\n.|put({\"s\": \"a <b> </s>\\n\", \"n\": 4})|now({})");
	reads(M "<tool_call>" M3(
	          "put", "\n" ELEMENT("o", ELEMENT("a", "x") "\n" ELEMENT(
	                                       "l", ELEMENT("item", "1") ELEMENT("item", ELEMENT("a", ""))))
	                     ELEMENT("b", "True")) M "</tool_call>",
	      "|put({\"o\": {\"a\": \"x\", \"l\": [1, {\"a\": \"\"}]}, \"b\": true})");
	reads(M "<tool_call>" M3("put", ELEMENT("o", "{\"a\": [1]}") ELEMENT("u", "null")
	                                    ELEMENT("any", ELEMENT("item", "</item>"))) M "</tool_call>",
	      "|put({\"o\": {\"a\": [1]}, \"u\": null, \"any\": [\"</item>\"]})");
	reads(M "<tool_call>" M3("put", "{\"s\": \"x\"}") M "</tool_call>", "|put({\"s\": \"x\"})");
	reads(M "<tool_call>" M3("put", ELEMENT("any", ELEMENT("a", ELEMENT("a", "1")) ELEMENT("a", "2") M "<b>"))
	          M "</tool_call>",
	      "|put({\"any\": \"" M "<a>" M "<a>1" M "</a>" M "</a>" M "<a>2" M "</a>" M "<b>\"})");
	static const char* const texts[] = {M "<tool_call>" M3("other", ""), M "<tool_call>no", M "<tool", M,
	                                    M "<tool_call>\n" M "<invoke name=\"put"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reads(texts[i], texts[i]);
	given = tools;
}

/* The type of a value is found through references; JSON that a grammar has bound may contain closing marks.
 */
static void types_of_tags(void** unused) {
	(void)unused;
	given = typed_tools;
	reads(QWEN("put", PARAMETER("r", "1") PARAMETER("all", "1")), "|put({\"r\": \"1\", \"all\": \"1\"})");
	enforced = "<tool_call>";
	reads(QWEN("put", PARAMETER("o", "{\"a\": \"</parameter>\\n<parameter=s> </parameter></function>\"}")
	                      PARAMETER("s", "x")),
	      "|put({\"o\": {\"a\": \"</parameter>\\n<parameter=s> </parameter></function>\"}, \"s\": \"x\"})");
	reads(QWEN("put", PARAMETER("u", "\"</parameter></function>\"")),
	      "|put({\"u\": \"</parameter></function>\"})");
	reads(QWEN("put", PARAMETER("u", "[</parameter") PARAMETER("any", "x")),
	      "|put({\"u\": \"[</parameter\", \"any\": \"x\"})");
	enforced = NULL;
	given = tools;
}

/* ---- other marks ---------------------------------------------------------------------------------- */

static void kimi(void** unused) {
	(void)unused;
#define KIMI(name, arguments)                                                                                \
	"<|tool_call_begin|>" name "<|tool_call_argument_begin|>" arguments "<|tool_call_end|>"
	reads("Hm. <|tool_calls_section_begin|>" KIMI("functions.add:0", "{\"a\": \"<|tool_call_end|>\"}")
	          KIMI("functions.look_up:1", "{}") "<|tool_calls_section_end|>.",
	      "Hm. .|add({\"a\": \"<|tool_call_end|>\"})|look_up({})");
	reads("<|tool_calls_section_begin|>" KIMI(" add ", " {\"a\": 1} "), "|add({\"a\": 1})");
	static const char* const texts[] = {
	    "<|tool_calls_section_begin|>" KIMI("functions.other:0", "{}") "<|tool_calls_section_end|>",
	    "<|tool_calls_section_begin|>" KIMI("functions.add:0", "5") "<|tool_calls_section_end|>",
	    "<|tool_calls_section_begin|><|tool_call_begin|>functions.add:0"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reads(texts[i], texts[i]);
}

static void deepseek(void** unused) {
	(void)unused;
#define DEEPSEEK(inside) "<｜tool▁calls▁begin｜>" inside "<｜tool▁calls▁end｜>"
#define DEEPSEEK_CALL(inside) "<｜tool▁call▁begin｜>" inside "<｜tool▁call▁end｜>"
	reads("Yes." DEEPSEEK(
	          DEEPSEEK_CALL("function<｜tool▁sep｜>add\n```json\n{\"a\": \"```\"}\n```") "\n" DEEPSEEK_CALL(
	              "function<｜tool▁sep｜>look_up\n```json\n{}\n```")) "!",
	      "Yes.!|add({\"a\": \"```\"})|look_up({})");
	reads("Yes." DEEPSEEK(DEEPSEEK_CALL("add<｜tool▁sep｜>{\"a\": 1}")
	                          DEEPSEEK_CALL("look_up<｜tool▁sep｜>{}")) "!",
	      "Yes.!|add({\"a\": 1})|look_up({})");
	static const char* const texts[] = {
	    DEEPSEEK(DEEPSEEK_CALL("other<｜tool▁sep｜>{}")), DEEPSEEK(DEEPSEEK_CALL("add<｜tool▁sep｜>no")),
	    DEEPSEEK(DEEPSEEK_CALL("function<｜tool▁sep｜>other\n```json\n{}\n```")), DEEPSEEK(""),
	    "<｜tool▁calls"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reads(texts[i], texts[i]);
}

static void command_and_granite(void** unused) {
	(void)unused;
	reads(
	    "So <|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"add\", \"parameters\": {\"a\": "
	    "\"]\"}},\n"
	    "    {\"tool_call_id\": \"1\", \"tool_name\": \"look_up\", \"parameters\": {}}\n]<|END_ACTION|> then",
	    "So  then|add({\"a\": \"]\"})|look_up({})");
	reads("<|tool_call|>[{\"name\": \"add\", \"arguments\": {\"a\": 1}}, {\"name\": \"look_up\", "
	      "\"arguments\": {}}]",
	      "|add({\"a\": 1})|look_up({})");
	reads("<|tool_call|>[{\"name\": \"add\", \"arguments\": {}}]<|/tool_call|>.", ".|add({})");
	static const char* const texts[] = {"<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": "
	                                    "\"other\", \"parameters\": {}}]<|END_ACTION|>",
	                                    "<|START_ACTION|>none<|END_ACTION|>", "<|tool_call|>none",
	                                    "<|tool_call|>[{\"name\": \"other\"}]"};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reads(texts[i], texts[i]);
}

static void lfm(void** unused) {
	(void)unused;
#define LFM(inside) "<|tool_call_start|>" inside "<|tool_call_end|>"
	reads("See: " LFM("[add(a=1, b=\"x, (y)\")]") " ok", "See:  ok|add({\"a\": 1, \"b\": \"x, (y)\"})");
	reads(LFM("[add(s='it\\'s \"q\"', t=True, f = False, n=None), look_up()]"),
	      "|add({\"s\": \"it's \\\"q\\\"\", \"t\": true, \"f\": false, \"n\": null})|look_up({})");
	reads(
	    LFM("[add(l=[1, 2.5, 'a'], d={'k': {'m': -1}}, t=(1, 2), x='\\x41\\n')]"),
	    "|add({\"l\": [1, 2.5, \"a\"], \"d\": {\"k\": {\"m\": -1}}, \"t\": [1, 2], \"x\": \"\\u0041\\n\"})");
	reads(LFM("add(a=1)"), "|add({\"a\": 1})");
	reads("<|tool_call_start|>[add(a='x", "|add({\"a\": \"x\"})");
	reads(LFM("[add(**{'a': True, \"b\": [1]}), look_up(**{})]"),
	      "|add({\"a\": true, \"b\": [1]})|look_up({})");
	reads("<|tool_call_start|>[add(**{\"a\": {", "|add({\"a\": {}})");
	static const char* const texts[] = {LFM("[other(a=1)]"), LFM("[add(1)]"),  LFM("[add"),      LFM("[]"),
	                                    LFM("[add(a b)]"),   LFM("[add(*a)]"), LFM("[add(**a)]")};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reads(texts[i], texts[i]);
}

/* Texts put together from the formats' parts by chance: whatever they mean, it does not depend on how they
 * are cut, and without calls all of it is content. */
static void any_text_is_read_alike_however_it_is_cut(void** unused) {
	(void)unused;
	static const char* const parts[] = {"<tool_call>",
	                                    "</tool_call>",
	                                    "<function=",
	                                    "put",
	                                    "now",
	                                    ">",
	                                    "\n",
	                                    " ",
	                                    "</function>",
	                                    "<parameter=",
	                                    "s",
	                                    "n",
	                                    "</parameter>",
	                                    "<arg_key>",
	                                    "</arg_key>",
	                                    "<arg_value>",
	                                    "</arg_value>",
	                                    "<minimax:tool_call>",
	                                    "<invoke name=\"",
	                                    "\">",
	                                    "</invoke>",
	                                    "<parameter name=\"",
	                                    "</minimax:tool_call>",
	                                    "[TOOL_CALLS]",
	                                    "[ARGS]",
	                                    "functools[",
	                                    "```json",
	                                    "```",
	                                    "```\n",
	                                    "<tools>",
	                                    "</tools>",
	                                    "<|tool_call|>",
	                                    "<|START_ACTION|>",
	                                    "<|END_ACTION|>",
	                                    "<|tool_calls_section_begin|>",
	                                    "<|tool_call_begin|>",
	                                    "functions.put:0",
	                                    "<|tool_call_argument_begin|>",
	                                    "<|tool_call_end|>",
	                                    "<|tool_calls_section_end|>",
	                                    "<｜tool▁calls▁begin｜>",
	                                    "<｜tool▁call▁begin｜>",
	                                    "function",
	                                    "<｜tool▁sep｜>",
	                                    "<｜tool▁call▁end｜>",
	                                    "<｜tool▁calls▁end｜>",
	                                    "]<]minimax[>[<tool_call>",
	                                    "]<]minimax[>[<invoke name=\"put\">",
	                                    "]<]minimax[>[<o>",
	                                    "]<]minimax[>[<s>",
	                                    "]<]minimax[>[</s>",
	                                    "]<]minimax[>[</o>",
	                                    "]<]minimax[>[</invoke>",
	                                    "<｜DSML｜function_calls>",
	                                    "<｜DSML｜invoke name=\"put\">",
	                                    "<｜DSML｜parameter name=\"s\" string=\"",
	                                    "true\">",
	                                    "</｜DSML｜parameter>",
	                                    "</｜DSML｜invoke>",
	                                    "<|tool_call_start|>",
	                                    "[put(",
	                                    "s='",
	                                    "'",
	                                    "n=1",
	                                    ",",
	                                    ")",
	                                    "]",
	                                    "{\"name\": \"put\", \"arguments\": ",
	                                    "{\"s\": \"x\"}",
	                                    "{",
	                                    "}",
	                                    "{}",
	                                    "\"",
	                                    "\\",
	                                    "true",
	                                    "é",
	                                    "<"};
	enum { TEXTS = 20000, LONGEST = 24, N_PARTS = sizeof parts / sizeof *parts };
	uint64_t seed = 1;
	given = typed_tools;
	for (int i = 0; i < TEXTS; i++) {
		char text[2048] = "", whole[2048], cut[2048];
		const int n = 1 + i % LONGEST;
		uint64_t at = 0;
		for (int k = 0; k < n; k++) { /* often a part follows that stands after it in the table */
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			at = seed >> 63 ? (at + (seed >> 40) % 4) % N_PARTS : (seed >> 33) % N_PARTS;
			strcat(text, parts[at]);
		}
		read_cut(text, sizeof text, whole);
		for (size_t piece = 1; piece < 4; piece++) {
			read_cut(text, piece, cut);
			assert_string_equal(cut, whole);
		}
		if (!strchr(whole, '|') || strchr(text, '|'))
			continue;
		assert_non_null(strchr(whole, '('));
	}
	given = tools;
}

/* ---- strict tools ----------------------------------------------------------------------------------- */

static void strict_calls_keep_their_schema(void** unused) {
	(void)unused;
	static const char schema[] = "{\"type\": \"object\", \"properties\": {\"s\": {\"type\": \"string\", "
	                             "\"maxLength\": 3}, \"o\": {\"$ref\": "
	                             "\"#/$defs/o\"}}, \"required\": [\"s\"], \"additionalProperties\": false, "
	                             "\"$defs\": {\"o\": {\"type\": "
	                             "\"object\", \"properties\": {\"x\": {\"type\": \"integer\"}, \"y\": "
	                             "{\"type\": \"integer\"}}, \"required\": "
	                             "[\"x\", \"y\"], \"additionalProperties\": false}}}";
	struct error error;
	struct tool_checks strict = {0};
	assert_true(tool_checks_add(&strict, "put", schema,
	                            grammar_from_json_schema(schema, strlen(schema), false, &error)));
	given = typed_tools;
	checks = &strict;
#define FENCED(arguments) "```json\n{\"name\": \"put\", \"arguments\": " arguments "}\n```"
#define BARE(arguments) "{\"name\": \"put\", \"arguments\": " arguments "}"
#define MARKED(arguments) "<tool_call>{\"name\": \"put\", \"arguments\": " arguments "}</tool_call>"
#define GOOD "{\"o\": {\"y\": 1, \"x\": 2}, \"s\": \"abc\"}"
	reads(FENCED(GOOD), "|put(" GOOD ")");
	reads(BARE(GOOD), "|put(" GOOD ")");
	reads("{\"arguments\": " GOOD ", \"name\": \"put\"}", "|put(" GOOD ")");
	reads("a " MARKED(GOOD) MARKED(GOOD) " b", "a  b|put(" GOOD ")|put(" GOOD ")");
	reads(QWEN("put", PARAMETER("s", "abc")), "|put({\"s\": \"abc\"})");
	reads("<tool_call>put\n" PAIR("s", "abc") "</tool_call>", "|put({\"s\": \"abc\"})");
	reads("<tool_call>put\n" PAIR("s", "abc"), "|put({\"s\": \"abc\"})");
	reads(LFM("[put(s='a'), now()]"), "|put({\"s\": \"a\"})|now({})");
	reads("<|tool_calls_section_begin|>" KIMI("functions.put:0", GOOD), "|put(" GOOD ")");
	static const char* const texts[] = {FENCED("{\"s\": \"abcd\"}"),
	                                    FENCED("{}"),
	                                    BARE("{\"s\": \"a\", \"t\": 1}"),
	                                    BARE("{\"s\": \"a\", \"o\": {\"x\": 1}}"),
	                                    MARKED("{\"s\": 5}"),
	                                    QWEN("put", PARAMETER("s", "abcd")),
	                                    QWEN("put", ""),
	                                    LFM("[put(s='abcd')]"),
	                                    "<tool_call>put\n" PAIR("s", "abcd"),
	                                    "<|tool_calls_section_begin|>" KIMI("functions.put:0", "{}"),
	                                    DEEPSEEK(DEEPSEEK_CALL("put<｜tool▁sep｜>{\"s\": 1}"))};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		reads(texts[i], texts[i]);
	reads("<tool_call>" BARE(GOOD) BARE("{}") "</tool_call>", BARE("{}") "</tool_call>|put(" GOOD ")");
	/* other tools are free; a bound call is what the grammar made it */
	reads(QWEN("now", PARAMETER("s", "abcd")), "|now({\"s\": \"abcd\"})");
	enforced = "<tool_call>";
	reads(MARKED("{\"s\": 5}"), "|put({\"s\": 5})");
	reads(FENCED("{\"s\": 5}"), FENCED("{\"s\": 5}"));
	enforced = NULL;
	/* nothing is announced before the call is known to fit */
	struct tool_reader r;
	tool_reader_open(&r, given, false, 1);
	r.checks = &strict;
	const char* const text = FENCED(GOOD);
	for (size_t i = 0; i < strlen(text); i++) {
		assert_int_equal(r.n, i < strlen(text) - strlen("\n```") ? 0 : 1);
		tool_reader_add(&r, text + i, 1);
	}
	tool_reader_end(&r);
	assert_int_equal(r.n, 1);
	assert_int_equal(r.content.size, 0);
	tool_reader_close(&r);
	/* a limit leaves no part of such a call */
	tool_reader_open(&r, given, false, 1);
	r.checks = &strict;
	r.cut = true;
	tool_reader_add(&r, BARE(GOOD), strlen(BARE(GOOD)) - 2);
	tool_reader_end(&r);
	assert_int_equal(r.n, 0);
	assert_int_equal(r.content.size, strlen(BARE(GOOD)) - 2);
	tool_reader_close(&r);
	checks = NULL;
	given = tools;
	tool_checks_free(&strict);
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
	reads(CALL("{\"a\": 1, ] \"b\": [2]}"), "|add({\"a\": 1,  \"b\": [2]})");
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
	/* the object is broken after its arguments */
	reads("<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": 1}, 2} " CALL("{\"b\": 2}"),
	      ", 2} |add({\"a\": 1})|add({\"b\": 2})");
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

/* A text of n bytes, whole and byte by byte; its first call's arguments. */
static void reads_bytes(const char* text, size_t n, const char* expected) {
	for (size_t piece = 1; piece <= n; piece += n - 1) {
		struct tool_reader r;
		tool_reader_open(&r, given, false, 1);
		for (size_t at = 0; at < n; at += piece)
			tool_reader_add(&r, text + at, piece);
		tool_reader_end(&r);
		assert_false(r.failed);
		assert_int_equal(r.n, 1);
		assert_string_equal(r.call[0].arguments, expected);
		tool_reader_close(&r);
	}
}

/* A byte that no text has, where a value or a name may begin, once kept the reader from ever going on. */
static void a_nul_byte_is_a_character_like_others(void** unused) {
	(void)unused;
	static const char value[] = "<tool_call>{\"name\": \"add\", \"arguments\": {\"a\": \0}}</tool_call>",
	                  key[] = "<tool_call>{\"name\": \"add\", \"arguments\": {\0: 1}}</tool_call>",
	                  python[] = "<|tool_call_start|>[add(a=\0)]<|tool_call_end|>";
	reads_bytes(value, sizeof value - 1, "{\"a\": \"\\u0000\"}");
	reads_bytes(key, sizeof key - 1, "{\"\\u0000\": 1}");
	reads_bytes(python, sizeof python - 1, "{\"a\": \"\\u0000\"}");
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

/* A tag's value comes as it is written where it is a string, and when it is complete where it is not. */
static void values_of_tags_come_piece_by_piece(void** unused) {
	(void)unused;
	struct tool_reader r;
	tool_reader_open(&r, typed_tools, false, 1);
	const char* const pieces[][2] = {{"<tool_call>\n<function=put>\n<parameter=s>", ""},
	                                 {"\none \"t", "{\"s\": \"one \\\"t"},
	                                 {"wo\"\n", "{\"s\": \"one \\\"two\\\""},
	                                 {"</parame", "{\"s\": \"one \\\"two\\\""},
	                                 {"ters>", "{\"s\": \"one \\\"two\\\"\\n</parameters>"}};
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		tool_reader_add(&r, pieces[i][0], strlen(pieces[i][0]));
		assert_int_equal(r.n, i > 0);
		assert_string_equal(r.n ? r.call[0].arguments : "", pieces[i][1]);
	}
	const char rest[] = "\n</parameter>\n<parameter=n>\n12";
	tool_reader_add(&r, rest, sizeof rest - 1);
	assert_string_equal(r.call[0].arguments, "{\"s\": \"one \\\"two\\\"\\n</parameters>\", \"n\": ");
	tool_reader_end(&r);
	assert_string_equal(r.call[0].arguments, "{\"s\": \"one \\\"two\\\"\\n</parameters>\", \"n\": 12}");
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
	for (int i = 0; tool_marks[i]; i++) /* as a grammar's trigger, and as a special token's piece */
		assert_in_range(strlen(tool_marks[i]), 1, 30);
	begins("<|tool_calls_section_begin|>", "f",
	       "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>");
	begins("<｜tool▁sep｜> ```json", "f",
	       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n");
	begins("<｜tool▁sep｜>", "f", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>");
	begins("<|START_ACTION|>", "f",
	       "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"f\", \"parameters\":");
	begins("<|tool_call|>", "f", "<|tool_call|>[{\"name\": \"f\", \"arguments\":");
	assert_true(tool_syntax_of("<|tool_call_start|>")->forced_only);
	begins("<|tool_call_start|>", "f", "<|tool_call_start|>[f(");
	begins("<|tool_call_start|>", NULL, "<|tool_call_start|>[");
	assert_false(tool_syntax_of("<tool_call> <parameter=")->forced_only);
	begins("<tool_call> <function= <parameter=", "f", "<tool_call>\n<function=f>\n");
	begins("<tool_call> <function= <parameter=", NULL, "<tool_call>\n<function=");
	begins("<function= <parameter=", "f", "<function=f>\n");
	begins("<seed:tool_call> <function= <parameter=", "f", "<seed:tool_call>\n<function=f>\n");
	begins("<minimax:tool_call> parameters", "f", "<minimax:tool_call>\n<invoke name=\"f\">\n");
	begins("<tool_call> <arg_key>K</arg_key>\n<arg_value>", "f", "<tool_call>f\n");
	begins("<tool_call> <arg_key>K</arg_key><arg_value>", "f", "<tool_call>f");
	begins("<tool_call> <arg_key>K</arg_key><arg_value>", NULL, "<tool_call>");
	begins("｜DSML｜ function_calls", "f", "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"f\">\n");
	begins("]<]minimax[>[", "f", "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"f\">");
	begins("｜DSML｜ tool_calls", "f", "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"f\">\n");
}

int main(void) {
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(hermes_and_qwen),
	    cmocka_unit_test(mistral),
	    cmocka_unit_test(fire_function),
	    cmocka_unit_test(llama),
	    cmocka_unit_test(functions),
	    cmocka_unit_test(qwen_coder),
	    cmocka_unit_test(glm),
	    cmocka_unit_test(minimax_and_seed),
	    cmocka_unit_test(dsml),
	    cmocka_unit_test(types_of_tags),
	    cmocka_unit_test(minimax_m3),
	    cmocka_unit_test(kimi),
	    cmocka_unit_test(deepseek),
	    cmocka_unit_test(command_and_granite),
	    cmocka_unit_test(lfm),
	    cmocka_unit_test(any_text_is_read_alike_however_it_is_cut),
	    cmocka_unit_test(strict_calls_keep_their_schema),
	    cmocka_unit_test(calls_as_models_write_them),
	    cmocka_unit_test(a_nul_byte_is_a_character_like_others),
	    cmocka_unit_test(other_functions_and_values_are_text),
	    cmocka_unit_test(arguments_come_piece_by_piece),
	    cmocka_unit_test(values_of_tags_come_piece_by_piece),
	    cmocka_unit_test(a_form_is_no_call),
	    cmocka_unit_test(what_is_no_call_is_text),
	    cmocka_unit_test(one_call_where_no_more_are_wanted),
	    cmocka_unit_test(an_answer_can_be_made_to_call),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
