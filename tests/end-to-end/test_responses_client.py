"""OpenAI's Responses through the official client: texts, events, forms, tools, and what is refused by name. Skipped where no
Python with it is found (SWIFTLET_PYTHON names one)."""
import json

from service import MODEL, client_url

URL = client_url("openai", __file__, tools=True)

import openai

client = openai.OpenAI(base_url=URL, api_key="none", max_retries=0, timeout=600)
ASK = "Tom has 3 apples and buys 4 more. How many?"
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 1, "maximum": 99}},
          "required": ["name", "age"], "additionalProperties": False}
given = {"model": MODEL, "temperature": 0}


def texts():
    """The same text as the chat's, whole and in events that open and close their items."""
    want = client.chat.completions.create(messages=[{"role": "system", "content": "Be brief."}, {"role": "user", "content": ASK}], max_tokens=12, **given)
    answer = client.responses.create(input=ASK, instructions="Be brief.", max_output_tokens=12, metadata={"a": "b"}, **given)
    assert answer.output_text == want.choices[0].message.content and answer.object == "response", answer
    assert answer.usage.output_tokens == want.usage.completion_tokens and answer.usage.input_tokens == want.usage.prompt_tokens
    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens", answer
    assert answer.instructions == "Be brief." and answer.metadata == {"a": "b"} and answer.max_output_tokens == 12
    events = list(client.responses.create(input=[{"role": "user", "content": [{"type": "input_text", "text": ASK}]}], instructions="Be brief.",
                                          max_output_tokens=12, stream=True, **given))
    assert [e.sequence_number for e in events] == list(range(len(events)))
    kinds = [e.type for e in events]
    assert kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added", "response.content_part.added"], kinds
    assert kinds[-4:] == ["response.output_text.done", "response.content_part.done", "response.output_item.done", "response.incomplete"], kinds
    deltas = [e for e in events if e.type == "response.output_text.delta"]
    assert "".join(e.delta for e in deltas) == answer.output_text == events[-1].response.output_text and len(deltas) > 1
    assert {e.item_id for e in deltas} == {events[-1].response.output[0].id} and events[-1].response.usage.output_tokens == 12
    # the answer handed back, for a second turn
    items = [{"role": "user", "content": ASK}] + [i.model_dump() for i in answer.output] + [{"role": "user", "content": "And one more?"}]
    assert client.responses.create(input=items, max_output_tokens=4, **given).usage.input_tokens > answer.usage.input_tokens


def forms():
    ask = dict(input=ASK, max_output_tokens=80, text={"format": {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}}, **given)
    answer = client.responses.create(**ask)
    assert answer.status == "completed" and set(json.loads(answer.output_text)) == {"name", "age"}, answer
    with client.responses.stream(**ask) as stream:
        assert stream.get_final_response().output_text == answer.output_text


def tools():
    """Arguments are bound to their schema, whatever the model would have written; the result goes back."""
    tool = {"type": "function", "name": "add_person", "description": "Adds one.", "parameters": PERSON, "strict": True}
    ask = lambda **k: client.responses.create(input=ASK, tools=[tool], tool_choice={"type": "function", "name": "add_person"},
                                              max_output_tokens=80, parallel_tool_calls=False, **given, **k)
    call = ask().output[-1]
    assert call.type == "function_call" and call.name == "add_person" and set(json.loads(call.arguments)) == {"name", "age"}, call
    assert ask(stream=False).output[-1].arguments == call.arguments
    events = list(ask(stream=True))
    done = [e for e in events if e.type == "response.function_call_arguments.done"]
    assert [e.arguments for e in done] == [call.arguments] and events[-1].type == "response.completed", [e.type for e in events]
    assert events[-1].response.output[-1].arguments == call.arguments and events[-1].response.output[-1].call_id
    back = client.responses.create(model=MODEL, temperature=0, max_output_tokens=8, tools=[tool], tool_choice="none", input=[
        {"role": "user", "content": ASK}, call.model_dump(), {"type": "function_call_output", "call_id": call.call_id, "output": "done"}])
    assert back.output[0].type == "message"


def errors():
    def refused(param, **fields):
        try:
            client.responses.create(**{"input": "x", **given, **fields})
        except openai.BadRequestError as e:
            assert e.body["param"] == param, (param, e.body)
            return
        raise AssertionError("not refused: " + param)

    refused("previous_response_id", previous_response_id="resp_1")
    refused("background", background=True)
    refused("input", input=[{"type": "item_reference", "id": "x"}])
    refused("input", input=[{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}])
    refused("input", input=[])
    refused("tools", tools=[{"type": "function"}])
    refused("max_output_tokens", max_output_tokens=0)
    refused("text", text={"format": {"type": "json_schema", "name": "x", "schema": {"not": {}}}})
    refused("temperature", temperature=9)
    # what Codex sends: tools that the vendor hosts are left out, and what they did before
    kept = client.responses.create(**{"input": [{"type": "web_search_call", "id": "ws_1", "status": "completed"},
                                                {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}]},
                                                {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": "*** Begin"},
                                                {"type": "custom_tool_call_output", "call_id": "c1", "output": "Done!"},
                                                {"role": "user", "content": [{"type": "input_text", "text": "go on"}]}],
                                      **given, "max_output_tokens": 4, "tools": [{"type": "web_search"}, {"type": "local_shell"}],
                                      "extra_body": {"client_metadata": {"a": "b"}, "color": "red"}})
    assert kept.output, kept


for check in (texts, forms, tools, errors):
    check()
    print(check.__name__, "ok")
