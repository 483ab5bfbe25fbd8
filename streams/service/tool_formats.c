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
                  deepseek_end[] = "<｜tool▁call▁end｜>";

const char* const tool_openers[] = {
    fence_open,  bare_fence,   tools_open,     tag_open,  list_open,     python_open, function_open, bar_open,
    action_open, minimax_open, functools_open, kimi_open, deepseek_open, lfm_open,    seed_open,     NULL};
const char* const tool_marks[] = {tag_open, tag_close, list_open, python_open, function_open, function_close,
                                  arguments_open, id_open, bar_open, bar_close, minimax_open, minimax_close,
                                  seed_open, seed_close, action_open, action_close, kimi_open, kimi_close,
                                  kimi_call, kimi_arguments, kimi_end, lfm_open, deepseek_open, deepseek_sep,
                                  deepseek_call, deepseek_close, deepseek_end,
                                  /* GLM's; its other marks are above */
                                  "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", NULL};

/* ---- how calls are forced ---------------------------------------------------------------------- */

static const char hermes_call[] = "<tool_call>\n{\"name\":", hermes_begin[] = "<tool_call>\n{\"name\": \"",
                  object_begin[] = "{\"name\": \"", object_middle[] = "\", \"arguments\": ";
static const char channel_open[] = "<|channel|>", channel_call[] = "<|channel|>commentary to=functions.";

/* trigger, some, all, begin, middle, end, close, between, finish, at_beginning, forced_only */
#define GENERIC tag_open, hermes_call, "", hermes_begin, object_middle, "}", "\n</tool_call>", "\n", "", false
const struct tool_syntax tool_syntax_generic = {GENERIC, false};
static const struct tool_syntax
    forced_generic = {GENERIC, true},
    mistral_list = {list_open, list_open, "[TOOL_CALLS][", object_begin, object_middle, "}", "",
                    ", ",      "]",       false,           false},
    functools =
        {functools_open, functools_open, functools_open, object_begin, object_middle, "}", "", ", ", "]",
         false,          false},
    mistral_named = {list_open, list_open, "", list_open, arguments_open, "", "", "", "", false, false},
    functionary = {function_open, function_open, "", function_open, ">", "", function_close, "", "",
                   false,         false},
    llama = {"{", "{\"name\":", "", "{\"name\": \"", "\", \"parameters\": ", "}", "", "; ", "", true, false},
    granite = {bar_open,
               "<|tool_call|>[{\"name\":",
               "<|tool_call|>[",
               object_begin,
               object_middle,
               "}",
               "",
               ", ",
               "]",
               false,
               false},
    command = {action_open,
               "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\":",
               "<|START_ACTION|>[\n    ",
               "{\"tool_call_id\": \"0\", \"tool_name\": \"",
               "\", \"parameters\": ",
               "}",
               "",
               ",\n    ",
               "\n]<|END_ACTION|>",
               false,
               false},
    kimi = {kimi_open,
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.",
            kimi_open,
            "<|tool_call_begin|>functions.",
            ":0<|tool_call_argument_begin|>",
            kimi_end,
            "",
            "",
            kimi_close,
            false,
            false},
    deepseek_v3 = {deepseek_open,
                   "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                   deepseek_open,
                   "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                   "\n```json\n",
                   "\n```<｜tool▁call▁end｜>",
                   "",
                   "\n",
                   deepseek_close,
                   false,
                   false},
    deepseek_v31 = {deepseek_open,
                    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
                    deepseek_open,
                    deepseek_call,
                    deepseek_sep,
                    deepseek_end,
                    "",
                    "",
                    deepseek_close,
                    false,
                    false},
    channels = {channel_open, channel_call, "", channel_call, " <|constrain|>json<|message|>",
                "",           "<|call|>",   "", "",           false,
                false};

/* ---- the table --------------------------------------------------------------------------------- */

const struct tool_format tool_format_bare = {.open = "", .loose = true};
const struct tool_format tool_formats[] = {
    {.open = fence_open, .close = fence, .loose = true},
    {.open = bare_fence, .close = fence, .loose = true},
    {.open = tools_open, .close = tools_close, .loose = true},
    {.open = python_open},
    {.open = functools_open, .listed = true, .shown = functools_open, .syntax = &functools},
    {.open = kimi_open,
     .close = kimi_close,
     .writing = WRITTEN_NAMED,
     .before = kimi_call,
     .name_end = kimi_arguments,
     .name_ends = "",
     .numbered = true,
     .end = {kimi_end},
     .shown = kimi_open,
     .syntax = &kimi},
    {.open = deepseek_open,
     .close = deepseek_close,
     .writing = WRITTEN_NAMED,
     .before = "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
     .name_end = fence_open,
     .name_ends = "{",
     .end = {fence, deepseek_end},
     .shown = deepseek_sep,
     .also = fence_open,
     .syntax = &deepseek_v3},
    {.open = deepseek_open,
     .close = deepseek_close,
     .writing = WRITTEN_NAMED,
     .before = deepseek_call,
     .name_end = deepseek_sep,
     .name_ends = "",
     .end = {deepseek_end},
     .shown = deepseek_sep,
     .syntax = &deepseek_v31},
    {.open = action_open, .close = action_close, .shown = action_open, .syntax = &command},
    {.open = minimax_open,
     .close = minimax_close,
     .writing = WRITTEN_NAMED,
     .before = "<invoke name=\"",
     .name_end = "\">",
     .name_ends = "",
     .end = {"</invoke>"},
     .key = "<parameter name=\"",
     .key_end = "\">",
     .value_end = "</parameter>",
     .shown = minimax_open,
     .syntax = &forced_generic},
    {.open = seed_open,
     .close = seed_close,
     .writing = WRITTEN_NAMED,
     .before = function_open,
     .name_end = ">",
     .name_ends = "",
     .end = {function_close},
     .key = "<parameter=",
     .key_end = ">",
     .value_end = "</parameter>",
     .shown = seed_open,
     .syntax = &forced_generic},
    {.open = lfm_open,
     .close = "<|tool_call_end|>",
     .writing = WRITTEN_PYTHON,
     .before = "",
     .name_end = "(",
     .name_ends = "",
     .shown = lfm_open,
     .syntax = &forced_generic},
    {.open = bar_open, .close = bar_close, .shown = bar_open, .syntax = &granite},
    {.open = tag_open, .close = tag_close},
    {.open = tag_open,
     .close = tag_close,
     .writing = WRITTEN_NAMED,
     .before = function_open,
     .name_end = ">",
     .name_ends = "",
     .end = {function_close},
     .key = "<parameter=",
     .key_end = ">",
     .value_end = "</parameter>",
     .lines = true,
     .shown = "<parameter="},
    {.open = tag_open,
     .close = tag_close,
     .writing = WRITTEN_NAMED,
     .before = "",
     .name_ends = "\n{<",
     .key = "<arg_key>",
     .key_end = "</arg_key>",
     .value = "<arg_value>",
     .value_end = "</arg_value>",
     .shown = tag_open},
    {.open = list_open,
     .writing = WRITTEN_NAMED,
     .before = "",
     .name_end = arguments_open,
     .name_ends = "{",
     .shown = list_open,
     .also = arguments_open,
     .syntax = &mistral_named},
    {.open = list_open, .shown = list_open, .syntax = &mistral_list},
    {.open = function_open,
     .writing = WRITTEN_NAMED,
     .before = "",
     .name_end = ">",
     .name_ends = "",
     .end = {function_close, tag_close},
     .key = "<parameter=",
     .key_end = ">",
     .value_end = "</parameter>",
     .lines = true,
     .shown = function_open,
     .syntax = &functionary},
    {.open = NULL}};

/* ---- what a template uses ---------------------------------------------------------------------- */

const struct tool_syntax* tool_syntax_of(const char* chat_template) {
	if (strstr(chat_template, channel_open))
		return &channels;
	for (const struct tool_format* f = tool_formats; f->open; f++)
		if (f->shown && strstr(chat_template, f->shown) && (!f->also || strstr(chat_template, f->also)))
			return f->syntax ? f->syntax : &tool_syntax_generic;
	return strstr(chat_template, "parameters") ? &llama : NULL;
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
