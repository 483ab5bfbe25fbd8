"""The official openai Python client against the running server. Skipped where no Python with it is found
(SWIFTLET_PYTHON names one)."""
import json, subprocess, tempfile

from service import MODEL, PROGRAM, Server, client_url, run_text

URL = client_url("openai", __file__)

import openai

client = openai.OpenAI(base_url=URL, api_key="none", max_retries=0, timeout=600)
PROMPT = "Question: Tom has 3 apples and buys 4 more. How many apples has he now?\nAnswer:"
MESSAGES = [{"role": "user", "content": "Tom has 3 apples and buys 4 more. How many?"}]


def completions():
    a = client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=32, temperature=0)
    want = run_text(PROMPT, "-n", "32", "--temp", "0")
    assert a.choices[0].text == want["text"]
    assert a.usage.prompt_tokens_details.cached_tokens >= 0 and a.usage.total_tokens == a.usage.prompt_tokens + 32
    assert a.swiftlet["mask"]["attention"] is not None
    parts = list(client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=32, temperature=0, stream=True,
                                           stream_options={"include_usage": True}))
    assert "".join(p.choices[0].text for p in parts if p.choices) == want["text"]
    assert all(p.choices[0].text is not None for p in parts if p.choices)
    assert parts[-1].usage.completion_tokens == 32


def chat():
    a = client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=16, temperature=0, logprobs=True, top_logprobs=3)
    text = a.choices[0].message.content
    assert len(a.choices[0].logprobs.content) == a.usage.completion_tokens
    assert len(a.choices[0].logprobs.content[0].top_logprobs) == 3
    parts = list(client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=16, temperature=0, stream=True))
    assert parts[0].choices[0].delta.role == "assistant"
    assert "".join(p.choices[0].delta.content or "" for p in parts) == text
    assert parts[-1].choices[0].finish_reason in ("stop", "length")
    # the answer handed back as the client gives it, for a second turn
    more = MESSAGES + [a.choices[0].message.model_dump(), {"role": "user", "content": "And one more?"}]
    assert client.chat.completions.create(model=MODEL, messages=more, max_tokens=4).choices[0].message.role == "assistant"


def seeds_and_stops():
    ask = lambda **k: client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=24, **k).choices[0].text
    assert ask(seed=4) == ask(seed=4) and len({ask(seed=i) for i in range(4)}) > 1
    text = ask(temperature=0)
    a = client.completions.create(model=MODEL, prompt="Once upon a time", max_tokens=24, temperature=0, stop=[text[8:11]])
    assert a.choices[0].text == text[:text.index(text[8:11])] and a.choices[0].finish_reason == "stop"
    assert len(client.completions.create(model=MODEL, prompt="Once", max_tokens=3, n=4).choices) == 4


def penalties():
    ask = lambda **k: client.completions.create(model=MODEL, prompt=PROMPT, max_tokens=40, temperature=0, **k).choices[0].text
    assert len({ask(), ask(frequency_penalty=1.5), ask(presence_penalty=2), ask(extra_body={"repetition_penalty": 1.5})}) >= 3
    assert ask(logit_bias={"300": 100}) != ask()


def tools():
    """Tools go to the model's template. An answer that is no call is content, whole and as a stream."""
    tool = {"type": "function", "function": {"name": "f", "parameters": {}}}
    ask = lambda **k: client.chat.completions.create(model=MODEL, messages=MESSAGES, max_tokens=12, temperature=0, tools=[tool], **k)
    answer = ask()
    assert answer.choices[0].message.content and not answer.choices[0].message.tool_calls, answer
    streamed = "".join(c.choices[0].delta.content or "" for c in ask(stream=True) if c.choices)
    assert streamed == answer.choices[0].message.content, (streamed, answer)
    none = ask(tool_choice="none")
    assert none.choices[0].message.content == client.chat.completions.create(
        model=MODEL, messages=MESSAGES, max_tokens=12, temperature=0).choices[0].message.content
    for choice in ({"type": "function", "function": {"name": "g"}}, {"type": "function"}, "perhaps"):
        try:
            ask(tool_choice=choice)
        except openai.BadRequestError as e:
            assert e.body["param"] == "tool_choice", e.body
        else:
            raise AssertionError("not refused")


def tool_calls():
    """A call that the answer is made to begin with, its arguments {} by a bias: the client reads it, whole and streamed."""
    tokens = subprocess.run([PROGRAM, "tokenize", "-p", "<function=f>{}", "--json"], capture_output=True, text=True, check=True)
    empty = json.loads(tokens.stdout)["tokens"][-1]
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as template:
        template.write("{% for m in messages %}{{ m.content }}\n{% endfor %}Call <function=NAME>ARGUMENTS</function>: {{ tools }}\n")
        template.flush()
        with Server("--chat-template", template.name) as server:
            own = openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
            ask = lambda **k: own.chat.completions.create(
                model=MODEL, messages=MESSAGES, max_tokens=1, temperature=0, logit_bias={str(empty): 100},
                tools=[{"type": "function", "function": {"name": "f", "parameters": {}}}],
                tool_choice={"type": "function", "function": {"name": "f"}}, **k)
            message = ask().choices[0].message
            assert message.content is None and message.tool_calls[0].function.name == "f", message
            assert message.tool_calls[0].function.arguments == "{}" and message.tool_calls[0].type == "function", message
            deltas = [d for c in ask(stream=True) for d in c.choices[0].delta.tool_calls or []]
            assert [(d.index, d.function.name, d.function.arguments) for d in deltas] == [(0, "f", "{}")], deltas


def embeddings():
    """Embeddings have length 1; numbers and bytes agree, alone and among others; similar texts are near."""
    ask = lambda texts, **k: [d.embedding for d in client.embeddings.create(model=MODEL, input=texts, **k).data]
    texts = ["The cat sat on the mat.", "A cat sat on a mat.", "def f(x): return x + 1"]
    all_of, alone = ask(texts), ask(texts[0])
    dot = lambda a, b: sum(x * y for x, y in zip(a, b))
    assert all(abs(dot(v, v) - 1) < 1e-5 for v in all_of) and alone[0] == all_of[0]
    assert max(abs(x - y) for x, y in zip(ask(texts, encoding_format="float")[2], all_of[2])) < 1e-6
    assert dot(all_of[0], all_of[1]) > dot(all_of[0], all_of[2])
    usage = client.embeddings.create(model=MODEL, input=texts[0]).usage
    assert usage.prompt_tokens == usage.total_tokens == client.completions.create(model=MODEL, prompt=texts[0], max_tokens=1).usage.prompt_tokens


def errors():
    def refused(kind, param, call):
        try:
            call()
        except kind as e:
            assert e.body["param"] == param, e.body
            return
        raise AssertionError("not refused")

    raw = client.completions.with_raw_response.create(model="gpt-5", prompt="x", max_tokens=1, extra_body={"no_such_field": 1, "nor_this": None})
    assert raw.parse().model == MODEL and raw.headers["swiftlet-ignored-fields"] == "no_such_field" and raw.parse()._request_id
    refused(openai.BadRequestError, "logit_bias", lambda: client.completions.create(model=MODEL, prompt="x", logit_bias={"5": 101}))
    refused(openai.BadRequestError, "response_format", lambda: client.chat.completions.create(
        model=MODEL, messages=MESSAGES, response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": {"not": {}}}}))
    refused(openai.BadRequestError, "dimensions", lambda: client.embeddings.create(model=MODEL, input="x", dimensions=0))
    cut = client.embeddings.create(model=MODEL, input="x", dimensions=8).data[0].embedding
    assert len(cut) == 8 and abs(sum(v * v for v in cut) - 1) < 1e-5
    refused(openai.BadRequestError, "input", lambda: client.embeddings.create(model=MODEL, input=[]))
    refused(openai.BadRequestError, "temperature", lambda: client.completions.create(model=MODEL, prompt="x", temperature=9))
    refused(openai.BadRequestError, "prompt", lambda: client.completions.create(model=MODEL, prompt="word " * 20000))


def models():
    assert [m.id for m in client.models.list()] == [MODEL] and client.models.retrieve(MODEL).id == MODEL


for check in (completions, chat, seeds_and_stops, penalties, tools, tool_calls, embeddings, errors, models):
    check()
    print(check.__name__, "ok")
