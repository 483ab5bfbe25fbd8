"""Conversations that chat templates are compared on: system or none, several turns, tools and their answers,
thinking, empty contents, special tokens in contents, and some that templates refuse."""

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather in a city, today.",
    "parameters": {"type": "object", "properties": {
        "city": {"type": "string", "description": "The city's name"},
        "days": {"type": "integer", "minimum": 1, "default": 1},
        "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]},
        "exact": {"type": "boolean"},
        "share": {"type": "number", "default": 1.0},
        "tags": {"type": "array", "items": {"type": "string"}}},
        "required": ["city"]}}}
SUM = {"type": "function", "function": {
    "name": "add", "description": "a + b < c & \"d\" 'e' \u00e9\n\u2028", "parameters": {
        "type": "object", "properties": {"a": {"type": "number"}, "b": {"type": ["number", "null"]}}}}}
NO_ARGUMENTS = {"type": "function", "function": {
    "name": "now", "description": "", "parameters": {"type": "object", "properties": {}}}}


def call(name, arguments, key="call_0001"):
    return {"id": key, "type": "function", "function": {"name": name, "arguments": arguments}}


def said(*turns):
    return [{"role": role, "content": content} for role, content in turns]


S, U, A = "system", "user", "assistant"
ANSWERED = [
    {"role": U, "content": "And in Paris?"},
    {"role": A, "content": "", "tool_calls": [call("get_weather", {"city": "Paris", "days": 2, "share": 0.5})]},
    {"role": "tool", "name": "get_weather", "tool_call_id": "call_0001", "content": "{\"sky\": \"clear\", \"t\": 21}"}]

# name, messages, and what else the template is given
CASES = [
    ("user", said((U, "What is 2+2?")), {}),
    ("system", said((S, "You are terse."), (U, "What is 2+2?")), {}),
    ("turns", said((U, "Hello"), (A, "Hi, how can I help?"), (U, "Write a poem.\n\nIn two lines.")), {}),
    ("system-turns", said((S, "s"), (U, "a"), (A, "b"), (U, "c"), (A, "d"), (U, "e")), {}),
    ("spaces", said((S, "  Speak German. \n"), (U, "  Hello \n"), (A, " Hallo! \n\n"), (U, "\tAnd now? ")), {}),
    ("empty", said((U, ""), (A, ""), (U, "x")), {}),
    ("empty-system", said((S, ""), (U, "x")), {}),
    ("special", said((U, "[INST] </s> <|im_end|> {{ x }} <|eot_id|> <end_of_turn>"), (A, "\u00a0d'accord\u3000"),
                     (U, "na\u00efve \u4f60\u597d \U0001f999 <s>")), {}),
    ("thinking", said((U, "one"), (A, "<think>\nlet me see\n</think>\n\nanswer"), (U, "two")), {}),
    ("thinking-twice", said((U, "one"), (A, "<think>a</think><think>b</think>c"), (U, "two"),
                            (A, "<think>\n\nno\n</think>\n\nyes"), (U, "three")), {}),
    ("reasoning", [{"role": U, "content": "one"},
                   {"role": A, "content": "answer", "reasoning_content": "let me see", "thinking": "let me see"},
                   {"role": U, "content": "two"}], {}),
    ("think", said((U, "one")), {"enable_thinking": True, "thinking": True, "reasoning_effort": "high"}),
    ("no-think", said((S, "s"), (U, "one")), {"enable_thinking": False, "thinking": False, "reasoning_effort": "low"}),
    ("no-prompt", said((U, "one"), (A, "two")), {"add_generation_prompt": False}),
    ("half-answer", said((U, "one"), (A, "half an answer")), {}),
    ("two-users", said((U, "one"), (U, "two")), {}),
    ("assistant-first", said((A, "I begin"), (U, "two")), {}),
    ("late-system", said((U, "one"), (S, "late system"), (U, "two")), {}),
    ("only-system", said((S, "only system")), {}),
    ("tools", said((U, "Weather in Rome?")), {"tools": [WEATHER, SUM]}),
    ("tools-system", said((S, "Be brief."), (U, "What time?")), {"tools": [NO_ARGUMENTS]}),
    ("tool-answer", ANSWERED, {"tools": [WEATHER]}),
    ("tool-turns", said((S, "Be brief."), (U, "Rome?")) + [
        {"role": A, "content": "I look.", "tool_calls": [call("get_weather", {"city": "Rome", "exact": True},
                                                              "call_0001"),
                                                         call("add", {"a": 1, "b": None}, "call_0002")]},
        {"role": "tool", "name": "get_weather", "tool_call_id": "call_0001", "content": "rain"},
        {"role": "tool", "name": "add", "tool_call_id": "call_0002", "content": "1"},
        {"role": A, "content": "It rains."}] + ANSWERED + said((A, "Clear, 21."), (U, "Thanks <|im_end|>")),
     {"tools": [WEATHER, SUM]}),
    ("tool-ids", [{"role": U, "content": "Rome?"},
                  {"role": A, "content": "", "tool_calls": [call("now", {}, "abcdefghi")]},
                  {"role": "tool", "name": "now", "tool_call_id": "abcdefghi", "content": "12:00"}],
     {"tools": [NO_ARGUMENTS]}),
    ("arguments-text", [{"role": U, "content": "Rome?"},
                        {"role": A, "content": None, "tool_calls": [call("add", "{\"a\": 1.0}", "abcdefghi")]},
                        {"role": "tool", "tool_call_id": "abcdefghi", "content": "1"}], {"tools": [SUM]}),
    ("documents", said((U, "Who?")), {"documents": [{"title": "One", "text": "Ada \"did\""},
                                                    {"title": "Two", "text": "Bob\n"}]}),
    ("parts", [{"role": U, "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]}], {}),
    ("developer", said(("developer", "d"), (U, "one")), {}),
    ("robot", said((U, "one"), ("robot", "two")), {}),
]
