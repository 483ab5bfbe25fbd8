"""An agent's loop on an off-the-shelf model, SmolLM2-135M-Instruct, through the official clients: the model calls a strict tool,
gets the result and answers; OpenAI's chat, its Responses and Anthropic's Messages, on one server. Skipped where the model
or the clients are not at hand (tools/test --ci fetches both)."""
import json, os, sys, tempfile

CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
MODEL = os.environ.setdefault("SWIFTLET_TEST_MODEL", os.path.join(CACHE, "swiftlet", "models", "smollm2-135m.gguf"))

from service import client_url, skip

if not os.path.exists(MODEL):
    skip(f"{MODEL} is not there; tools/models smollm2-135m brings it")
URL = client_url("anthropic, openai", __file__, tools=True)

import anthropic, openai

NAME = os.path.basename(MODEL)

QUESTION = "What is the weather in Paris?"
WEATHER = {"type": "object", "properties": {"city": {"type": "string", "pattern": "^[A-Z][a-z]{2,12}$"}, "unit": {"enum": ["celsius", "fahrenheit"]}},
           "required": ["city", "unit"], "additionalProperties": False}
RESULT = "It is 21 degrees and sunny."


def tool_result(arguments):
    """The tool's arguments keep its schema."""
    assert set(arguments) == {"city", "unit"} and arguments["unit"] in ("celsius", "fahrenheit") and arguments["city"].isalpha(), arguments
    return RESULT


def chat():
    client = openai.OpenAI(base_url=URL, api_key="none", max_retries=0, timeout=600)
    tools = [{"type": "function", "function": {"name": "weather", "description": "The weather of a city.", "parameters": WEATHER, "strict": True}}]
    messages, choice = [{"role": "user", "content": QUESTION}], "required"
    for turn in range(4):
        message = client.chat.completions.create(model=NAME, messages=messages, tools=tools, tool_choice=choice, parallel_tool_calls=False,
                                                 temperature=0, max_tokens=60).choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            break
        assert turn == 0, "called again though it may not"
        for call in message.tool_calls:
            messages.append({"role": "tool", "tool_call_id": call.id, "content": tool_result(json.loads(call.function.arguments))})
        choice = "none"
    assert message.content and [m["role"] for m in messages] == ["user", "assistant", "tool", "assistant"], messages


def responses():
    client = openai.OpenAI(base_url=URL, api_key="none", max_retries=0, timeout=600)
    tools = [{"type": "function", "name": "weather", "description": "The weather of a city.", "parameters": WEATHER, "strict": True}]
    ask = lambda items, choice: client.responses.create(model=NAME, input=items, tools=tools, tool_choice=choice, parallel_tool_calls=False,
                                                        temperature=0, max_output_tokens=60)
    items = [{"role": "user", "content": QUESTION}]
    items += [item.model_dump() for item in ask(items, "required").output]
    items += [{"type": "function_call_output", "call_id": i["call_id"], "output": tool_result(json.loads(i["arguments"]))} for i in items if i.get("type") == "function_call"]
    assert len(items) == 3 and ask(items, "none").output_text, items


def messages():
    client = anthropic.Anthropic(base_url=URL[: -len("/v1")], api_key="none", max_retries=0, timeout=600)
    tools = [{"name": "weather", "description": "The weather of a city.", "input_schema": WEATHER, "strict": True}]
    ask = lambda turns, choice: client.messages.create(model=NAME, messages=turns, tools=tools, max_tokens=60, extra_body={"temperature": 0},
                                                       tool_choice={"type": choice})
    turns = [{"role": "user", "content": QUESTION}]
    first = ask(turns, "any")
    assert first.stop_reason == "tool_use", first
    uses = [block for block in first.content if block.type == "tool_use"]
    turns += [{"role": "assistant", "content": first.content},
              {"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id, "content": tool_result(use.input)} for use in uses]}]
    last = ask(turns, "none")
    assert "".join(block.text for block in last.content if block.type == "text"), last


for check in (chat, responses, messages):
    check()
    print(check.__name__, "ok")
