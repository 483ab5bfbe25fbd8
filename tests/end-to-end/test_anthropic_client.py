"""Anthropic's Messages through the official client: texts, events, stop sequences, tools, counted tokens, errors in its shape.
Skipped where no Python with it is found (SWIFTLET_PYTHON names one)."""
import json, os, tempfile

from service import MODEL, Server, client_url

URL = client_url("anthropic", __file__, tools=True)

import anthropic

client = anthropic.Anthropic(base_url=URL[: -len("/v1")], api_key="none", max_retries=0, timeout=600)
ASK = [{"role": "user", "content": "Tom has 3 apples and buys 4 more. How many?"}]
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"type": "integer", "minimum": 1, "maximum": 99}},
          "required": ["name", "age"], "additionalProperties": False}
given = {"model": MODEL, "extra_body": {"temperature": 0}}


def texts():
    _, _, chat = Server_call("POST", "/v1/chat/completions", {"messages": [{"role": "system", "content": "Be brief."}, *ASK], "max_tokens": 12, "temperature": 0})
    answer = client.messages.create(messages=ASK, system="Be brief.", max_tokens=12, **given)
    assert answer.content[0].text == chat["choices"][0]["message"]["content"] and answer.type == "message", answer
    assert answer.stop_reason == "max_tokens" and answer.usage.output_tokens == 12
    assert answer.usage.input_tokens + answer.usage.cache_read_input_tokens == chat["usage"]["prompt_tokens"]
    counted = client.messages.count_tokens(model=MODEL, messages=ASK, system=[{"type": "text", "text": "Be brief."}])
    assert counted.input_tokens == chat["usage"]["prompt_tokens"]
    events = list(client.messages.create(messages=ASK, system="Be brief.", max_tokens=12, stream=True, **given))
    kinds = [e.type for e in events]
    assert kinds[:2] == ["message_start", "content_block_start"] and kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"], kinds
    deltas = [e.delta.text for e in events if e.type == "content_block_delta"]
    assert "".join(deltas) == answer.content[0].text and len(deltas) > 1
    assert events[0].message.usage.input_tokens == chat["usage"]["prompt_tokens"] and events[-2].usage.output_tokens == 12
    with client.messages.stream(messages=ASK, system="Be brief.", max_tokens=12, **given) as stream:
        assert stream.get_final_message().content[0].text == answer.content[0].text
    cut = answer.content[0].text[4:7]
    stopped = client.messages.create(messages=ASK, system="Be brief.", max_tokens=12, stop_sequences=["@@@", cut], **given)
    assert stopped.stop_reason == "stop_sequence" and stopped.stop_sequence == cut, stopped
    assert "".join(b.text for b in stopped.content) == answer.content[0].text[: answer.content[0].text.index(cut)]
    # the answer handed back, for a second turn
    more = ASK + [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [{"type": "text", "text": "And one more?"}]}]
    assert client.messages.create(messages=more, max_tokens=4, **given).role == "assistant"


def tools():
    tool = {"name": "add_person", "description": "Adds one.", "input_schema": PERSON, "strict": True}
    ask = dict(messages=ASK, tools=[tool], tool_choice={"type": "tool", "name": "add_person", "disable_parallel_tool_use": True}, max_tokens=80, **given)
    answer = client.messages.create(**ask)
    call = answer.content[-1]
    assert answer.stop_reason == "tool_use" and call.type == "tool_use" and set(call.input) == {"name", "age"}, answer
    with client.messages.stream(**ask) as stream:
        last = stream.get_final_message()
    assert last.content[-1].input == call.input and last.stop_reason == "tool_use", last
    back = ASK + [{"role": "assistant", "content": answer.content},
                  {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "done"}, {"type": "text", "text": "Well?"}]}]
    assert client.messages.create(messages=back, tools=[tool], tool_choice={"type": "none"}, max_tokens=4, **given).content[0].type == "text"
    form = client.messages.create(messages=ASK, max_tokens=80, **given, output_config={"format": {"type": "json_schema", "schema": PERSON}})
    assert set(json.loads(form.content[0].text)) == {"name", "age"}, form


def errors():
    def refused(kind, name, **fields):
        try:
            client.messages.create(**{"messages": ASK, "max_tokens": 4, **given, **fields})
        except kind as e:
            assert e.body["type"] == "error" and e.body["error"]["type"] == name and e.body["error"]["message"], e.body
            return
        raise AssertionError("not refused")

    refused(anthropic.BadRequestError, "invalid_request_error", max_tokens=0)
    refused(anthropic.BadRequestError, "invalid_request_error", messages=[{"role": "user", "content": [{"type": "image", "source": {}}]}])
    refused(anthropic.BadRequestError, "invalid_request_error", messages=[])
    # what Claude Code sends: a tool that the vendor hosts is left out, any name is this model's, and a limit is bounded
    kept = client.messages.create(messages=ASK, max_tokens=8, model="claude-sonnet", tools=[{"type": "web_search_20250305", "name": "web_search"}],
                                  extra_body={"context_management": {"edits": []}, "mcp_servers": []})
    assert kept.model == MODEL and kept.content, kept
    status, _, answer = Server_call("POST", "/v1/messages", {"messages": ASK})
    assert status == 400 and "max_tokens" in answer["error"]["message"], answer
    with tempfile.NamedTemporaryFile("w") as keys:
        keys.write("a-key-of-ours\n")
        keys.flush()
        with Server("--api-key-file", keys.name) as locked:
            ours = anthropic.Anthropic(base_url=locked.url, api_key="a-key-of-ours", max_retries=0)
            assert ours.messages.count_tokens(model=MODEL, messages=ASK).input_tokens > 0
            try:
                anthropic.Anthropic(base_url=locked.url, api_key="another", max_retries=0).messages.count_tokens(model=MODEL, messages=ASK)
            except anthropic.AuthenticationError as e:
                assert e.body["error"]["type"] == "authentication_error", e.body
            else:
                raise AssertionError("let in")


def Server_call(*request):
    server = Server.__new__(Server)
    server.url = URL[: -len("/v1")]
    return server.call(*request)


for check in (texts, tools, errors):
    check()
    print(check.__name__, "ok")
