/* The table of formats (see tool_formats.h). */
#include "streams/service/tool_formats.h"

#include <string.h>

static const char tag_open[] = "<tool_call>", tag_close[] = "</tool_call>", list_open[] = "[TOOL_CALLS]",
                  functools_open[] = "functools[", python_open[] = "<|python_tag|>",
                  function_open[] = "<function=", function_close[] = "</function>",
                  arguments_open[] = "[ARGS]", id_open[] = "[CALL_ID]", fence_open[] = "```json",
                  bare_fence[] = "```\n", fence[] = "```", tools_open[] = "<tools>",
                  tools_close[] = "</tools>", bar_open[] = "<|tool_call|>", bar_close[] = "<|/tool_call|>",
                  minimax_open[] = "<minimax:tool_call>", minimax_close[] = "</minimax:tool_call>",
                  action_open[] = "<|START_ACTION|>", action_close[] = "<|END_ACTION|>",
                  kimi_open[] = "<|tool_calls_section_begin|>", kimi_close[] = "<|tool_calls_section_end|>",
                  kimi_call[] = "<|tool_call_begin|>", kimi_arguments[] = "<|tool_call_argument_begin|>",
                  kimi_end[] = "<|tool_call_end|>", lfm_open[] = "<|tool_call_start|>",
                  deepseek_open[] = "<｜tool▁calls▁begin｜>", deepseek_close[] = "<｜tool▁calls▁end｜>",
                  deepseek_call[] = "<｜tool▁call▁begin｜>", deepseek_sep[] = "<｜tool▁sep｜>",
                  seed_open[] = "<seed:tool_call>", seed_close[] = "</seed:tool_call>",
                  deepseek_end[] = "<｜tool▁call▁end｜>",
                  parameter_open[] = "<parameter=", parameter_close[] = "</parameter>",
                  dsml_sign[] = "｜DSML｜", m3_mark[] = "]<]minimax[>[",
                  m3_open[] = "]<]minimax[>[<tool_call>", m3_close[] = "]<]minimax[>[</tool_call>",
                  m3_invoke[] = "]<]minimax[>[<invoke name=\"", m3_end[] = "]<]minimax[>[</invoke>",
                  dsml_open[] = "<｜DSML｜function_calls>", dsml_close[] = "</｜DSML｜function_calls>",
                  dsml_v4_open[] = "<｜DSML｜tool_calls>", dsml_v4_close[] = "</｜DSML｜tool_calls>",
                  dsml_invoke[] = "<｜DSML｜invoke name=\"";

const char* const tool_openers[] = {fence_open,     bare_fence,    tools_open,    tag_open,    list_open,
                                    python_open,    function_open, bar_open,      action_open, minimax_open,
                                    functools_open, kimi_open,     deepseek_open, lfm_open,    seed_open,
                                    dsml_open,      dsml_v4_open,  m3_open,       NULL};
const char* const tool_marks[] = {
    tag_open, tag_close, list_open, python_open, function_open, function_close, arguments_open, id_open,
    bar_open, bar_close, minimax_open, minimax_close, seed_open, seed_close, action_open, action_close,
    kimi_open, kimi_close, kimi_call, kimi_arguments, kimi_end, lfm_open, deepseek_open, deepseek_sep,
    deepseek_call, deepseek_close, deepseek_end,
    /* GLM's; its other marks are above */
    "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", dsml_sign, m3_mark, NULL};

/* ---- how calls are forced ---------------------------------------------------------------------- */

static const char hermes_call[] = "<tool_call>\n{\"name\":", hermes_begin[] = "<tool_call>\n{\"name\": \"",
                  object_begin[] = "{\"name\": \"", object_middle[] = "\", \"arguments\": ";
static const char channel_open[] = "<|channel|>", channel_call[] = "<|channel|>commentary to=functions.";

/* All values alike, whatever their type. */
#define ALIKE(text)                                                                                          \
	{ text, text, text, text, text, text }
#define TAGS(name, value, after, closer)                                                                     \
	{ .before_name = name, .before_value = value, .end = after, .mark = closer }
static const struct grammar_tags
    qwen_members = TAGS(parameter_open, ALIKE(">\n"), "\n</parameter>\n", parameter_close),
    seed_members = TAGS(parameter_open, ALIKE(">"), "</parameter>\n", parameter_close),
    minimax_members = TAGS("<parameter name=\"", ALIKE("\">"), "</parameter>\n", parameter_close),
    glm_members = TAGS("<arg_key>", ALIKE("</arg_key>\n<arg_value>"), "</arg_value>\n", "</arg_value>"),
    glm_joined_members = TAGS("<arg_key>", ALIKE("</arg_key><arg_value>"), "</arg_value>", "</arg_value>");
static const struct grammar_tags m3_members = {.before_name = "]<]minimax[>[<",
                                               .before_value = ALIKE(">"),
                                               .end = "]<]minimax[>[</",
                                               .end_name = ">",
                                               .mark = m3_mark};
static const struct grammar_tags python_members = {
    .before_name = "", .before_value = ALIKE("="), .end = "", .between = ", ", .whole = "**"};
#define NO_STRING "\" string=\"false\">"
static const struct grammar_tags dsml_members = {
    .before_name = "<｜DSML｜parameter name=\"",
    .before_value = {"\" string=\"true\">", NO_STRING, NO_STRING, NO_STRING, NO_STRING, NO_STRING},
    .end = "</｜DSML｜parameter>\n",
    .mark = "</｜DSML｜parameter>"};

/* Fields in the order of the text: the trigger, what any call begins with, then all, begin, middle, end,
 * close, between and finish (struct tool_syntax). */
#define CALLS(mark, any, first, before_name, after_name, after_call, closer, separator, last)                \
	.trigger = mark, .some = any, .all = first, .begin = before_name, .middle = after_name,                  \
	.end = after_call, .close = closer, .between = separator, .finish = last
const struct tool_syntax tool_syntax_generic = {
    CALLS(tag_open, hermes_call, "", hermes_begin, object_middle, "}", "\n</tool_call>", "\n", "")};
/* true and null are written as in JSON, and calls of the model's own as in Python */
static const struct tool_syntax python = {CALLS(lfm_open, "<|tool_call_start|>[", "<|tool_call_start|>[", "",
                                                "(", ")", "", ", ", "]<|tool_call_end|>"),
                                          .forced_only = true, .tags = &python_members};
static const struct tool_syntax mistral_list = {
    CALLS(list_open, list_open, "[TOOL_CALLS][", object_begin, object_middle, "}", "", ", ", "]")};
static const struct tool_syntax functools = {
    CALLS(functools_open, functools_open, functools_open, object_begin, object_middle, "}", "", ", ", "]")};
static const struct tool_syntax mistral_named = {
    CALLS(list_open, list_open, "", list_open, arguments_open, "", "", "", "")};
static const struct tool_syntax functionary = {
    CALLS(function_open, function_open, "", function_open, ">", "", function_close, "", "")};
static const struct tool_syntax llama = {
    CALLS("{", "{\"name\":", "", object_begin, "\", \"parameters\": ", "}", "", "; ", ""),
    .at_beginning = true};
static const struct tool_syntax granite = {CALLS(bar_open, "<|tool_call|>[{\"name\":", "<|tool_call|>[",
                                                 object_begin, object_middle, "}", "", ", ", "]")};
static const struct tool_syntax command = {CALLS(
    action_open, "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\":", "<|START_ACTION|>[\n    ",
    "{\"tool_call_id\": \"0\", \"tool_name\": \"", "\", \"parameters\": ", "}", "", ",\n    ",
    "\n]<|END_ACTION|>")};
static const struct tool_syntax kimi = {
    CALLS(kimi_open, "<|tool_calls_section_begin|><|tool_call_begin|>functions.", kimi_open,
          "<|tool_call_begin|>functions.", ":0<|tool_call_argument_begin|>", kimi_end, "", "", kimi_close),
    .later_middle = ":" GRAMMAR_NUMBER "<|tool_call_argument_begin|>"};
static const struct tool_syntax deepseek_v3 = {
    CALLS(deepseek_open, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>", deepseek_open,
          "<｜tool▁call▁begin｜>function<｜tool▁sep｜>", "\n```json\n", "\n```<｜tool▁call▁end｜>", "", "\n",
          deepseek_close)};
static const struct tool_syntax deepseek_v31 = {
    CALLS(deepseek_open, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>", deepseek_open, deepseek_call,
          deepseek_sep, deepseek_end, "", "", deepseek_close)};
static const struct tool_syntax channels = {CALLS(channel_open, channel_call, "", channel_call,
                                                  " <|constrain|>json<|message|>", "", "<|call|>", "", "")};
static const struct tool_syntax qwen_tags = {CALLS(tag_open, "<tool_call>\n<function=", "",
                                                   "<tool_call>\n<function=", ">\n", function_close,
                                                   "\n</tool_call>", "\n", ""),
                                             .tags = &qwen_members};
static const struct tool_syntax bare_tags = {
    CALLS(function_open, function_open, "", function_open, ">\n", function_close, "", "\n", ""),
    .tags = &qwen_members};
static const struct tool_syntax seed_tags = {CALLS(seed_open, "<seed:tool_call>\n<function=", "",
                                                   "<seed:tool_call>\n<function=", ">\n",
                                                   "</function>\n</seed:tool_call>", "", "\n", ""),
                                             .tags = &seed_members};
static const struct tool_syntax minimax_tags = {CALLS(minimax_open, "<minimax:tool_call>\n<invoke name=\"",
                                                      "<minimax:tool_call>\n", "<invoke name=\"", "\">\n",
                                                      "</invoke>\n", "", "", minimax_close),
                                                .tags = &minimax_members};
static const struct tool_syntax glm_tags = {
    CALLS(tag_open, tag_open, "", tag_open, "\n", tag_close, "", "\n", ""), .tags = &glm_members};
static const struct tool_syntax glm_joined = {
    CALLS(tag_open, tag_open, "", tag_open, "", tag_close, "", "", ""), .tags = &glm_joined_members};
static const struct tool_syntax m3_tags = {
    CALLS(m3_open, "]<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name=\"", "]<]minimax[>[<tool_call>\n",
          m3_invoke, "\">", m3_end, "", "\n", "\n]<]minimax[>[</tool_call>"),
    .tags = &m3_members};
static const struct tool_syntax dsml = {CALLS(dsml_open, "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"",
                                              "<｜DSML｜function_calls>\n", dsml_invoke, "\">\n",
                                              "</｜DSML｜invoke>\n", "", "", dsml_close),
                                        .forced_only = true, .tags = &dsml_members};
static const struct tool_syntax dsml_v4 = {
    CALLS(dsml_v4_open, "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"", "<｜DSML｜tool_calls>\n",
          dsml_invoke, "\">\n", "</｜DSML｜invoke>\n", "", "", dsml_v4_close),
    .forced_only = true, .tags = &dsml_members};

/* ---- the table --------------------------------------------------------------------------------- */

const struct tool_format tool_format_bare = {.open = "", .loose = true};
#define NAMED(mark, after, ends)                                                                             \
	.writing = WRITTEN_NAMED, .before = mark, .name_end = after, .name_ends = ends
#define KEYS(mark, after, closer) .key = mark, .key_end = after, .value_end = closer
/* A template may put these marks together from parts. */
#define DSML(opener, closer)                                                                                 \
	{                                                                                                        \
		.open = opener, .close = closer, NAMED(dsml_invoke, "\">", ""), .end = {"</｜DSML｜invoke>"},        \
		KEYS("<｜DSML｜parameter name=\"", "\" string=\"", "</｜DSML｜parameter>"), .typed_end = "\">",      \
		.string_word = "true"                                                                                \
	}
const struct tool_format tool_formats[] = {
    {.open = fence_open, .close = fence, .loose = true},
    {.open = bare_fence, .close = fence, .loose = true},
    {.open = tools_open, .close = tools_close, .loose = true},
    {.open = python_open},
    {.open = functools_open, .listed = true},
    {.open = kimi_open,
     .close = kimi_close,
     NAMED(kimi_call, kimi_arguments, ""),
     .numbered = true,
     .end = {kimi_end}},
    {.open = deepseek_open,
     .close = deepseek_close,
     NAMED("<｜tool▁call▁begin｜>function<｜tool▁sep｜>", fence_open, "{"),
     .end = {fence, deepseek_end}},
    {.open = deepseek_open,
     .close = deepseek_close,
     NAMED(deepseek_call, deepseek_sep, ""),
     .end = {deepseek_end}},
    {.open = m3_open,
     .close = m3_close,
     NAMED(m3_invoke, "\">", ""),
     .end = {m3_end},
     .key = "]<]minimax[>[<",
     .key_end = ">",
     .element = m3_mark},
    DSML(dsml_open, dsml_close),
    DSML(dsml_v4_open, dsml_v4_close),
    {.open = action_open, .close = action_close},
    {.open = minimax_open,
     .close = minimax_close,
     NAMED("<invoke name=\"", "\">", ""),
     .end = {"</invoke>"},
     KEYS("<parameter name=\"", "\">", parameter_close)},
    {.open = seed_open,
     .close = seed_close,
     NAMED(function_open, ">", ""),
     .end = {function_close},
     KEYS(parameter_open, ">", parameter_close)},
    {.open = lfm_open,
     .close = "<|tool_call_end|>",
     .writing = WRITTEN_PYTHON,
     .before = "",
     .name_end = "(",
     .name_ends = ""},
    {.open = bar_open, .close = bar_close},
    {.open = tag_open, .close = tag_close},
    {.open = tag_open,
     .close = tag_close,
     NAMED(function_open, ">", ""),
     .end = {function_close},
     KEYS(parameter_open, ">", parameter_close),
     .lines = true},
    {.open = tag_open,
     .close = tag_close,
     .writing = WRITTEN_NAMED,
     .before = "",
     .name_ends = "\n{<",
     .key = "<arg_key>",
     .key_end = "</arg_key>",
     .value = "<arg_value>",
     .value_end = "</arg_value>"},
    {.open = list_open, NAMED("", arguments_open, "{")},
    {.open = list_open},
    {.open = function_open,
     NAMED("", ">", ""),
     .end = {function_close, tag_close},
     KEYS(parameter_open, ">", parameter_close),
     .lines = true},
    {.open = NULL}};

/* ---- what a template uses ---------------------------------------------------------------------- */

/* A chat template with these texts asks for the syntax. The first row that fits counts. */
static const struct {
	const char *shown, *also; /* also NULL: nothing */
	const struct tool_syntax* syntax;
} templates[] = {{channel_open, NULL, &channels},
                 {functools_open, NULL, &functools},
                 {kimi_open, NULL, &kimi},
                 {deepseek_sep, fence_open, &deepseek_v3},
                 {deepseek_sep, NULL, &deepseek_v31},
                 {dsml_sign, "function_calls", &dsml},
                 {dsml_sign, NULL, &dsml_v4},
                 {action_open, NULL, &command},
                 {m3_mark, NULL, &m3_tags},
                 {minimax_open, NULL, &minimax_tags},
                 {seed_open, NULL, &seed_tags},
                 {lfm_open, NULL, &python},
                 {bar_open, NULL, &granite},
                 {parameter_open, tag_open, &qwen_tags},
                 {parameter_open, NULL, &bare_tags},
                 {"</arg_key><arg_value>", NULL, &glm_joined},
                 {"<arg_key>", NULL, &glm_tags},
                 {tag_open, NULL, &tool_syntax_generic},
                 {list_open, arguments_open, &mistral_named},
                 {list_open, NULL, &mistral_list},
                 {function_open, NULL, &functionary},
                 {"parameters", NULL, &llama}};

const struct tool_syntax* tool_syntax_of(const char* chat_template) {
	for (size_t i = 0; i < sizeof templates / sizeof *templates; i++)
		if (strstr(chat_template, templates[i].shown) &&
		    (!templates[i].also || strstr(chat_template, templates[i].also)))
			return templates[i].syntax;
	return NULL;
}

/* The text up to the arguments, or without a name up to the name. Trailing white space is left to the model,
 * whose own tokens may begin with it. */
void tool_syntax_begin(const struct tool_syntax* s, const char* name, struct text* out) {
	if (name)
		text_print(out, "%s%s%s%s", s->all, s->begin, name, s->middle);
	else
		text_put(out, s->some);
	while (out->size && out->data[out->size - 1] == ' ')
		out->data[--out->size] = '\0';
}
