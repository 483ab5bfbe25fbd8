"""The service from outside: OpenAI's fields and errors, streams equal to `run`, keys, limits, SIGTERM."""
import base64, concurrent.futures, http.client, json, os, re, shutil, socket, subprocess, tempfile, threading, time, urllib.parse, urllib.request

from service import MODEL, PROGRAM, Server, run_text, wait_for

# a generation that goes on to its limit: without an end token (the built-in model's)
LONG = {"prompt": "Once upon a time", "max_tokens": 1900, "temperature": 1, "logit_bias": {"2": -100}}
PROMPTS = ["Question: Tom has 3 apples and buys 4 more. How many apples has he now?\nAnswer:",
           "German: Ein Mann steht auf der Straße.\nEnglish:", "def add(a, b):\n", "Once upon a time"]


def texts_equal_run(s):
    for seed, temperature in ((0, 0), (7, 0.8)):
        for prompt in PROMPTS:
            want = run_text(prompt, "-n", "48", "--temp", str(temperature), "--seed", str(seed))
            fields = dict(max_tokens=48, temperature=temperature, seed=seed)
            whole = s.complete(prompt, **fields)
            assert whole["choices"][0]["text"] == want["text"], (prompt, whole, want["text"])
            assert whole["usage"]["completion_tokens"] == len(want["tokens"])
            assert whole["usage"]["prompt_tokens"] == want["prompt_tokens"]
            assert s.stream_text(prompt, **fields) == want["text"], prompt
            assert whole["choices"][0]["finish_reason"] == ("length" if want["stop"] == "length" else "stop")


def tokens_of(text):
    command = [PROGRAM, "tokenize", "-m", MODEL, "-p", text, "--add-special", "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["tokens"]


CHANGES = [{"presence_penalty": 1.5}, {"frequency_penalty": 2}, {"repetition_penalty": 1.4}, {"logit_bias": {str(i): 5 for i in range(280, 360, 3)}},
           {"presence_penalty": -0.5, "frequency_penalty": 1, "repetition_penalty": 1.1, "logit_bias": {"200": 2}}]


def penalties(s):
    """Options that change logits give the same text alone, side by side and plainly decoded, and another than without."""
    asked = [{"prompt": PROMPTS[i % len(PROMPTS)], "max_tokens": 60, "seed": 3, "temperature": t, **change}
             for i, change in enumerate(CHANGES) for t in (0, 0.9)]
    ask = lambda server, fields: server.complete(**fields)["choices"][0]["text"]
    alone = [ask(s, fields) for fields in asked]
    with concurrent.futures.ThreadPoolExecutor(len(asked)) as pool:
        assert list(pool.map(lambda fields: ask(s, fields), asked)) == alone, "in a batch"
    with Server("--method", "vanilla") as plain:
        assert [ask(plain, fields) for fields in asked] == alone, "decoded plainly"
    with Server("--draft", "always", "--max-tree", "64", "--threshold", "0", "--tree-top-k", "10,10,10,10") as drafting:
        assert [ask(drafting, fields) for fields in asked] == alone, "from wide trees"
    keep = ("prompt", "max_tokens", "seed", "temperature")
    other = [text != ask(s, {k: fields[k] for k in keep}) for text, fields in zip(alone, asked)]
    assert sum(other) >= 8, other
    token = tokens_of(" the")[-1]
    text = ask(s, {"prompt": "Once", "max_tokens": 5, "temperature": 0, "logit_bias": {str(token): 100}})
    assert text.replace(" ", "") == "the" * 5, text


def fields_and_shapes(s):
    a = s.complete(PROMPTS[0], max_tokens=8, n=3, temperature=1, seed=5, logprobs=2)
    assert [c["index"] for c in a["choices"]] == [0, 1, 2]
    assert len({c["text"] for c in a["choices"]}) > 1, "choices differ"
    lp = a["choices"][0]["logprobs"]
    assert len(lp["tokens"]) == len(lp["token_logprobs"]) == len(lp["top_logprobs"]) == len(lp["text_offset"]) == 8
    assert all(v <= 0 for v in lp["token_logprobs"]) and all(token in t and len(t) <= 3 for token, t in zip(lp["tokens"], lp["top_logprobs"]))
    assert a["usage"]["completion_tokens"] == 24
    again = s.complete(PROMPTS[0], max_tokens=8, n=3, temperature=1, seed=5, logprobs=2)
    assert [c["text"] for c in a["choices"]] == [c["text"] for c in again["choices"]], "a seed repeats"
    free = {s.complete("Once", max_tokens=12, seed=None)["choices"][0]["text"] for _ in range(16)}
    assert len(free) > 1, "an omitted temperature is 1, an omitted seed is random"
    batch = s.complete([PROMPTS[0], PROMPTS[3]], max_tokens=5, temperature=0)
    assert len(batch["choices"]) == 2
    text = s.complete(PROMPTS[3], max_tokens=60, temperature=0)["choices"][0]["text"]
    stop = text[10:13]
    cut = s.complete(PROMPTS[3], max_tokens=60, temperature=0, stop=[stop, "\x01never"])["choices"][0]
    assert cut["text"] == text[:text.index(stop)] and cut["finish_reason"] == "stop"
    assert s.stream_text(PROMPTS[3], max_tokens=60, temperature=0, stop=stop) == cut["text"]
    status, _, unnamed = s.call("POST", "/v1/completions", {"prompt": PROMPTS[3], "max_tokens": 60, "temperature": 0})
    assert status == 200 and unnamed["choices"][0]["text"] == text, "a request without a model is the one model's"
    echo = s.complete("Once", max_tokens=4, temperature=0, echo=True)["choices"][0]["text"]
    assert echo.startswith("Once")
    ids = tokens_of("Once upon a time")
    status, _, a = s.call("POST", "/v1/completions", {"prompt": ids, "max_tokens": 4, "temperature": 0, "echo": True})
    assert status == 200 and a["choices"][0]["text"].lstrip().startswith("Once upon a time"), a
    echoed_logprobs(s)
    chunks = s.stream(PROMPTS[0], max_tokens=6, temperature=0, n=2, stream_options={"include_usage": True})
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"]["completion_tokens"] == 12
    assert all("text" in c["choices"][0] for c in chunks[:-1])
    assert {c["choices"][0]["index"] for c in chunks[:-1]} == {0, 1}
    detail = s.stream(PROMPTS[0], max_tokens=20, temperature=0, headers={"Swiftlet-Detail": "tokens"})
    tokens = [t for c in detail for t in c.get("swiftlet", {}).get("tokens", [])]
    assert len(tokens) == 20 and all(t[1] in (None, "mask", "retrieval", "recycle", "prediction") for t in tokens)


def echoed_logprobs(s):
    """A text's log probabilities are the same as a prompt's and as an answer's, streamed or not."""
    asked = {"model": MODEL, "temperature": 0, "logprobs": 2}
    ids = tokens_of(" ".join(PROMPTS) * 2)  # the rows of several passes
    s.call("POST", "/v1/completions", {**asked, "prompt": ids, "max_tokens": 1})  # what is kept has no logits
    given = s.call("POST", "/v1/completions", {**asked, "prompt": ids, "max_tokens": 12, "echo": True})[2]
    whole, n = given["choices"][0], len(ids) + given["usage"]["completion_tokens"]
    reported = whole["logprobs"]
    assert n == len(reported["tokens"]) == len(reported["top_logprobs"]) == len(reported["text_offset"])
    assert reported["token_logprobs"][0] is None and reported["top_logprobs"][0] is None and None not in reported["token_logprobs"][1:]
    assert all(token in t and 2 <= len(t) <= 3 for token, t in zip(reported["tokens"][1:], reported["top_logprobs"][1:]))
    for k, token in enumerate(reported["tokens"][1:], 1):
        at = reported["text_offset"][k]  # a text's first space is not its own, and texts leave special tokens out
        shown = "" if token == "</s>" else token if at else token.lstrip()
        assert whole["text"][at:].startswith(shown), (k, token)
    run = [PROGRAM, "run", "-m", MODEL, "-p", PROMPTS[0], "-n", "12", "--no-store", "--json"]
    generated = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)["tokens"]
    answer = s.complete(PROMPTS[0], max_tokens=12, temperature=0, logprobs=2)["choices"][0]["logprobs"]["token_logprobs"]
    again = {**asked, "prompt": tokens_of(PROMPTS[0]) + generated, "max_tokens": 1, "echo": True}
    prompts = s.call("POST", "/v1/completions", again)[2]["choices"][0]["logprobs"]["token_logprobs"]
    assert prompts[-1 - len(generated):-1] == answer, (prompts, answer)
    text = s.complete("Once", max_tokens=3, temperature=0, echo=True, logprobs=0)["choices"][0]
    assert text["text"].startswith("Once") and text["logprobs"]["token_logprobs"][0] is None
    assert text["text"].encode()[text["logprobs"]["text_offset"][-1]:].decode() == text["logprobs"]["tokens"][-1]
    parts = s.stream("Once", max_tokens=3, temperature=0, echo=True, logprobs=0)
    lists = [p["choices"][0]["logprobs"] for p in parts if p["choices"][0]["logprobs"]]
    for field in ("tokens", "token_logprobs", "text_offset"):
        assert [v for part in lists for v in part[field]] == text["logprobs"][field], field


def chat(s):
    messages = [{"role": "user", "content": "Tom has 3 apples and buys 4 more. How many apples has he now?"}]
    body = {"model": MODEL, "messages": messages, "max_tokens": 12, "temperature": 0}
    status, _, a = s.call("POST", "/v1/chat/completions", body)
    assert status == 200, a
    assert a["object"] == "chat.completion" and a["choices"][0]["message"]["role"] == "assistant"
    status, _, unnamed = s.call("POST", "/v1/chat/completions", {k: v for k, v in body.items() if k != "model"})
    assert status == 200 and unnamed["model"] == a["model"] and unnamed["choices"] == a["choices"], "the one model answers"
    body["stream"] = True
    request = urllib.request.Request(s.url + "/v1/chat/completions", data=json.dumps(body).encode(),
                                     headers={"Content-Type": "application/json"})
    lines = urllib.request.urlopen(request, timeout=900).read().decode().split("\n\n")
    parts = [json.loads(l[6:]) for l in lines if l.startswith("data: {")]
    assert parts[0]["choices"][0]["delta"]["role"] == "assistant"
    assert "".join(p["choices"][0]["delta"].get("content", "") for p in parts) == a["choices"][0]["message"]["content"]
    assert lines[-2] == "data: [DONE]"


def chat_with_tools(s):
    """Tools, their answers and template variables are taken; a template that reads no variables is the same prompt, and one
    without tools gets them in a system message."""
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": json.dumps({"a": 1})}}
    body = {"model": MODEL, "max_tokens": 4, "temperature": 0, "tools": [{"type": "function", "function": {"name": "f"}}],
            "documents": [{"title": "t", "text": "x"}], "chat_template_kwargs": {"enable_thinking": False},
            "messages": [{"role": "user", "content": "What is 2 + 3?"}]}
    status, _, a = s.call("POST", "/v1/chat/completions", {**body, "tools": []})
    assert status == 200, a
    plain = s.call("POST", "/v1/chat/completions", {k: body[k] for k in ("model", "max_tokens", "temperature", "messages")})[2]
    assert a["choices"][0]["message"] == plain["choices"][0]["message"]
    assert a["usage"]["prompt_tokens"] == plain["usage"]["prompt_tokens"]
    reported = s.call("POST", "/v1/chat/completions", body)[2]
    assert reported["usage"]["prompt_tokens"] > plain["usage"]["prompt_tokens"] + 20, reported["usage"]
    body["messages"] += [{"role": "assistant", "content": None, "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": "1", "content": "5"}]
    status, _, a = s.call("POST", "/v1/chat/completions", body)
    assert status == 200, a


def template_variables():
    """The server's variables of the chat template reach every interface, and a request's own go before them."""
    template = ("{% for m in messages %}{{ m.content }} {% endfor %}{% if enable_thinking is defined %}[{{ enable_thinking }}]{% endif %}"
                "{% if mood is defined %}[{{ mood }}]{% endif %}")
    ask = {"messages": [{"role": "user", "content": "Hi."}]}
    with tempfile.NamedTemporaryFile("w", suffix=".jinja") as f:
        f.write(template)
        f.flush()
        with Server("--chat-template", f.name, "--chat-template-kwargs", '{"enable_thinking": false, "mood": "calm"}') as s:
            prompt = lambda **fields: s.call("POST", "/apply-template", {**ask, **fields})[2]["prompt"]
            assert prompt() == "Hi. [False][calm]", prompt()
            assert prompt(enable_thinking=True) == "Hi. [True][calm]"
            assert prompt(chat_template_kwargs={"mood": "a much longer mood"}) == "Hi. [False][a much longer mood]"
            count = lambda path, **fields: s.call("POST", path, fields)[2]
            n = count("/tokenize", **ask)["count"]
            assert n == count("/v1/chat/completions", max_tokens=1, **ask)["usage"]["prompt_tokens"]
            assert n == count("/v1/messages/count_tokens", **ask)["input_tokens"] == count("/v1/responses/input_tokens", input="Hi.")["input_tokens"]
            assert n == count("/api/chat", stream=False, options={"num_predict": 1}, **ask)["prompt_eval_count"]
    for wrong, words in (("[1]", "expected a JSON object"), ("{mood}", "--chat-template-kwargs"), ('{"messages": []}', "chat_template_kwargs.messages")):
        r = subprocess.run([PROGRAM, "serve", "-m", MODEL, "--port", "0", "--no-store", "--chat-template-kwargs", wrong], capture_output=True, text=True, timeout=600)
        assert r.returncode == 1 and words in r.stderr, r


def kept_cache(s):
    """Turn two of a conversation finds the first turn's whole chunks in the cache, and answers the same."""
    prompt = "\n".join("Question: What is %d and %d?\nAnswer: %d" % (i, i, 2 * i) for i in range(60))
    fields = dict(max_tokens=8, temperature=0)
    s.complete(prompt, **fields)
    second = s.complete(prompt + "\nQuestion: What is 7 and 7?\nAnswer:", **fields)
    cached = second["usage"]["prompt_tokens_details"]["cached_tokens"]
    assert cached > 0, cached
    want = run_text(prompt + "\nQuestion: What is 7 and 7?\nAnswer:", "-n", "8", "--temp", "0")
    assert second["choices"][0]["text"] == want["text"]
    print("turn two: %d of %d prompt tokens from the cache" % (cached, second["usage"]["prompt_tokens"]))


def bad_requests(s):
    """Each malformed request, and what it is answered: the table is printed."""
    ok = {"model": MODEL, "prompt": "x", "max_tokens": 2}
    C, H = "/v1/completions", "/v1/chat/completions"
    raw = lambda b: dict(raw=b)
    cases = [
        (400, "POST", C, raw(b"")), (400, "POST", C, raw(b"{")), (400, "POST", C, raw(b"[]")), (400, "POST", C, raw(b"nul")),
        (400, "POST", C, raw(b'{"model": "\xff"}')), (400, "POST", C, raw(b'{"model": "\\ud800"}')),
        (400, "POST", C, raw(b'{"a": 1, "a": 2}')), (400, "POST", C, raw(b"[" * 1000000)),
        (400, "POST", C, raw(b'{"a":' * 1000000)), (400, "POST", C, raw(b'{"prompt": [' + b"1," * 3000000 + b"1]}")),
        (413, "POST", C, raw(b'{"prompt": "' + b"x" * (9 << 20) + b'"}')),
        (400, "POST", C, dict(body={**ok, "max_tokens": -2})), (400, "POST", C, dict(body={**ok, "max_tokens": 10**30})),
        (400, "POST", C, dict(body={**ok, "max_tokens": "2"})), (400, "POST", C, dict(body={**ok, "max_tokens": 10**9})),
        (400, "POST", C, dict(body={**ok, "temperature": 3})), (400, "POST", C, dict(body={**ok, "temperature": None, "top_p": 2})),
        (400, "POST", C, dict(body={**ok, "n": 0})), (400, "POST", C, dict(body={**ok, "stop": [1]})),
        (400, "POST", C, dict(body={**ok, "logit_bias": {"1e1": 2}})),
        (400, "POST", C, dict(body={**ok, "prompt": [99999999]})), (400, "POST", C, dict(body={**ok, "prompt": "word " * 30000})),
        (400, "POST", H, dict(body={"model": MODEL, "messages": []})),
        (400, "POST", H, dict(body={"model": MODEL, "messages": [{"role": "robot", "content": "x"}]})),
        (400, "POST", H, dict(body={"model": MODEL, "messages": "x"})),
        (400, "POST", H, dict(body={"model": MODEL, "messages": [{"role": "user", "content": "x"}], "tools": 5})),
        (400, "POST", H, dict(body={"model": MODEL, "messages": [{"role": "user", "content": "x"}],
                                    "chat_template_kwargs": {"messages": []}})),
        (400, "POST", C, dict(raw=b"a=b", headers={"Content-Type": "application/x-www-form-urlencoded"})),
        (415, "POST", C, dict(raw=b"a=b", headers={"Content-Type": "application/x-www-form-urlencoded", "Origin": s.url})),
        (404, "GET", "/nothing", {}), (404, "POST", "/v1/audio/speech", dict(body={"input": "x"})), (404, "GET", "/v1/models/other", {}), (404, "GET", "/v1/swiftlet/masks/abc", {}),
        (404, "GET", "/../../etc/passwd", {}), (405, "GET", C, {}), (405, "DELETE", "/health", {}), (405, "PATCH", "/v1/models", {}),
        (404, "GET", "/v1/swiftlet/optimizer/opt-0/best", {}), (400, "POST", "/v1/swiftlet/optimizer", dict(body={})),
        (400, "POST", "/v1/swiftlet/optimizer", dict(body={"blocks": 1e9})),
        (400, "PUT", "/v1/swiftlet/masks", dict(body={"attention": [0], "mlp": []})),
        (400, "PUT", "/v1/swiftlet/masks", dict(body={"attention": [99], "mlp": []})),
        (400, "PUT", "/v1/swiftlet/masks", dict(body={"attention": [3], "mlp": [], "levels": 4})),
        (400, "PUT", "/v1/swiftlet/masks", dict(body={"attention": [3], "mlp": [], "stored": 4})),
        (403, "POST", C, dict(body=ok, headers={"Origin": "http://evil.example"})),
        (403, "GET", "/v1/models", dict(headers={"Host": "evil.example"})),
    ]
    for want, method, path, how in cases:
        status, headers, answer = s.call(method, path, **how)
        shown = json.dumps(how.get("body")) if "body" in how else repr(how.get("raw", b""))[:40]
        print("%d  %-6s %-28s %.60s" % (status, method, path, shown))
        assert status == want, (status, want, method, path, shown, answer)
        assert set(answer["error"]) == {"message", "type", "param", "code"}, answer
        assert "/work" not in json.dumps(answer) and "/home" not in json.dumps(answer)
    assert s.complete("x", max_tokens=2)["choices"], "the server goes on"


TOOLS_TEMPLATE = """{% for m in messages %}{{ m.content }}
{% endfor %}{% if tools %}Call <function=NAME>ARGUMENTS</function>: {{ tools | tojson }}
{% endif %}"""


def tool_calls():
    """An answer that must call a tool, with a bias that makes its arguments {}: parsed, whole and as a stream."""
    with tempfile.TemporaryDirectory() as folder:
        template = os.path.join(folder, "template.jinja")
        with open(template, "w") as f:
            f.write(TOOLS_TEMPLATE)
        with Server("--chat-template", template) as s:
            empty = tokens_of("<function=f>{}")[-1]
            tools = [{"type": "function", "function": {"name": n, "parameters": {}}} for n in "fg"]
            body = {"model": MODEL, "max_tokens": 1, "temperature": 0, "logit_bias": {str(empty): 100}, "tools": tools,
                    "tool_choice": {"type": "function", "function": {"name": "g"}},
                    "messages": [{"role": "user", "content": "What is the time?"}]}
            status, _, a = s.call("POST", "/v1/chat/completions", body)
            assert status == 200, a
            message, call = a["choices"][0]["message"], a["choices"][0]["message"]["tool_calls"][0]
            assert message["content"] is None and call["type"] == "function" and len(call["id"]) == 9, a
            assert call["function"] == {"name": "g", "arguments": "{}"}, a
            assert a["choices"][0]["finish_reason"] == "length", a  # OpenAI's: cut by max_tokens
            chunks = s.stream(None, path="/v1/chat/completions", **{k: v for k, v in body.items() if k != "model"})
            deltas = [d for c in chunks for d in c["choices"][0]["delta"].get("tool_calls", [])]
            assert [d["function"] for d in deltas] == [{"name": "g", "arguments": "{}"}] and deltas[0]["index"] == 0, chunks
            assert not any(c["choices"][0]["delta"].get("content") for c in chunks), chunks
            # whatever the model would write, the call is one of the tool that was named, and ends
            body.update(logit_bias={}, max_tokens=60, temperature=1)
            for seed in range(8):
                choice = s.call("POST", "/v1/chat/completions", {**body, "seed": seed})[2]["choices"][0]
                assert [c["function"] for c in choice["message"]["tool_calls"]] == [{"name": "g", "arguments": "{}"}], choice
                assert choice["message"]["content"] is None and choice["finish_reason"] == "tool_calls", choice


def speculation():
    """vLLM's metrics.speculative_decoding, when asked for."""
    with Server("--per-request-spec-decode-metrics", "summary", "--draft", "always") as s:
        a = s.complete(PROMPTS[0], max_tokens=100, temperature=0)
        reported, steps = a["metrics"]["speculative_decoding"], a["swiftlet"]
        assert sum(reported["acceptance_histogram"]) == reported["num_spec_steps"] > 0, reported
        assert sum(i * n for i, n in enumerate(reported["acceptance_histogram"])) == reported["num_accepted_draft_tokens"], reported
        assert 0 < reported["num_accepted_draft_tokens"] <= reported["num_draft_tokens"] and reported["num_spec_tokens"] == 25, reported
        assert abs(reported["draft_acceptance_rate"] - reported["num_accepted_draft_tokens"] / reported["num_draft_tokens"]) < 1e-5
        assert abs(reported["mean_acceptance_length"] - 1 - reported["num_accepted_draft_tokens"] / reported["num_spec_steps"]) < 1e-5
        assert s.complete("x", max_tokens=2, n=2)["metrics"]["speculative_decoding"] is None
        chunks = s.stream(PROMPTS[0], max_tokens=100, temperature=0, stream_options={"include_usage": True})
        assert chunks[-1]["metrics"]["speculative_decoding"]["num_draft_tokens"] > 0
        metrics = s.call("GET", "/metrics")[2]
        kept = re.findall(r'swiftlet_candidates_accepted_total{source="(\w+)"} (\d+)', metrics)
        assert len(kept) >= 4 and sum(int(n) for _, n in kept) > 0, kept
    for wrong in ("detailed", ""):
        r = subprocess.run([PROGRAM, "serve", "--per-request-spec-decode-metrics", wrong], capture_output=True, text=True)
        assert r.returncode == 2 and "none or summary" in r.stderr, r


def talk(s, data, seconds=300):
    """Bytes over a socket; what came back."""
    with socket.create_connection(("127.0.0.1", s.port), timeout=seconds) as c:
        try:
            for part in data:
                c.sendall(part)
            out = b""
            while True:
                got = c.recv(65536)
                if not got:
                    return out
                out += got
        except (ConnectionResetError, BrokenPipeError, socket.timeout):
            return out if "out" in dir() else b""


def raw_requests(s):
    body = json.dumps({"model": MODEL, "prompt": "x", "max_tokens": 2}).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    chunked = head + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(b"1\r\n" + bytes([c]) + b"\r\n" for c in body) + b"0\r\n\r\n"
    assert talk(s, [chunked]).startswith(b"HTTP/1.1 200"), "a chunked body"
    slow = [head + b"Content-Length: %d\r\n\r\n" % len(body)] + [bytes([c]) for c in body]
    assert talk(s, slow).startswith(b"HTTP/1.1 200"), "a body byte by byte"
    flood = head + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 1000) for i in range(200)) + b"\r\n"
    answer = talk(s, [flood])
    assert answer == b"" or answer.split(b" ")[1] in (b"431", b"400", b"413"), answer[:60]
    for junk in (b"\x00" * 100 + b"\r\n\r\n", b"GET\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"):
        answer = talk(s, [junk], seconds=3)
        assert answer == b"" or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4", b"HTTP/1.1 5")), (junk, answer[:60])
    endless = [head + b"Transfer-Encoding: chunked\r\n\r\n"] + [b"100000\r\n" + b"a" * 0x100000 + b"\r\n"] * 40
    answer = talk(s, endless)
    assert answer == b"" or b" 413 " in answer.split(b"\r\n")[0]
    assert s.complete("x", max_tokens=2)["choices"], "the server goes on"


def optimizer(s):
    """A search for a model that runs elsewhere: a made-up matchness whose best mask is known."""
    L, best = 16, {"attention": {2, 5, 7, 9, 12, 14}, "mlp": {3, 4, 8, 10, 11, 13}}
    score = lambda m: round(32 * (0.4 + 0.6 * (len(best["attention"] & set(m["attention"])) + len(best["mlp"] & set(m["mlp"]))) / 12))
    status, _, a = s.call("POST", "/v1/swiftlet/optimizer", {"blocks": L, "model": "elsewhere", "seed": 3, "max_matchness": 1})
    assert status == 200, a
    path = "/v1/swiftlet/optimizer/" + a["id"]
    first = None
    for step in range(150):
        status, _, p = s.call("POST", path + "/propose", {"window": 1 + step // 40})
        assert status == 200, p
        if p["done"]:
            break
        assert not {0, L - 1} & set(p["attention"] + p["mlp"])
        report = {"attention": p["attention"], "mlp": p["mlp"], "matches": score(p), "rows": 32}
        status, _, o = s.call("POST", path + "/observe", report)
        assert status == 200, o
        first = first or score(p)
    status, _, b = s.call("GET", path + "/best")
    assert status == 200 and score(b) > first + 3, (first, score(b), b)
    print("the optimizer over HTTP: from %d to %d of 32 matches in %d steps" % (first, score(b), b["steps"]))
    assert s.call("DELETE", path)[0] == 200 and s.call("GET", path)[0] == 404


def masks():
    """On a server that has no text to search on: what is put there, no search crowds out."""
    with Server() as s:
        mask = {"task": "mine", "attention": [3, 5], "mlp": [4], "tokens_served": 10}
        status, _, a = s.call("PUT", "/v1/swiftlet/masks", mask)
        assert status == 200 and a["task"] == "mine" and a["attention"] == [3, 5], a
        assert any(m["id"] == a["id"] for m in s.call("GET", "/v1/swiftlet/masks")[2]["data"])
        status, _, again = s.call("PUT", "/v1/swiftlet/masks", a)
        assert status == 200 and again["id"] == a["id"], "what is given can be put back"
        assert s.call("DELETE", "/v1/swiftlet/masks/%d" % a["id"])[0] == 200
        assert s.call("GET", "/v1/swiftlet/masks/%d" % a["id"])[0] == 404
        thirds = [0.5, 0.25, 1]
        states = {"task": "mine", "attention": [3], "mlp": [],
                  "levels": {"attention": thirds, "attention_output": thirds, "mlp": thirds, "down": thirds}}
        status, _, b = s.call("PUT", "/v1/swiftlet/masks", states)
        assert status == 200 and b["format"] == "swiftlet-mask-2" and b["levels"] == states["levels"], b
        assert s.call("PUT", "/v1/swiftlet/masks", {**b, "format": "swiftlet-mask-1"})[0] == 400
        status, _, again = s.call("PUT", "/v1/swiftlet/masks", b)
        assert status == 200 and again["id"] == b["id"], again
        assert s.call("DELETE", "/v1/swiftlet/masks/%d" % b["id"])[0] == 200


def metrics_and_state(s):
    s.wait_until_idle()
    wait_for("the cache to be free", lambda: s.metric('vllm:kv_cache_usage_perc{model_name="%s"}' % MODEL) == 0)
    _, _, text = s.call("GET", "/metrics")
    for name in ("requests_total", "queue_length", "tokens_total", "seconds_total", "mean_generated", "alpha", "matchness",
                 "lost_rounds_total", "saved_seconds_total", "lost_seconds_total", "mask_changes_total", "drift_events_total", "speedup", "time_to_first_token_seconds_count"):
        assert "swiftlet_" + name in text, name
    figures = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            figures[line.rsplit(" ", 1)[0]] = float(line.rsplit(" ", 1)[1])
    standard = lambda name, more="": figures['vllm:%s{model_name="%s"%s}' % (name, MODEL, more)]
    assert standard("num_requests_waiting") == standard("num_requests_running") == standard("kv_cache_usage_perc") == 0
    assert standard("generation_tokens_total") == figures['swiftlet_tokens_total{kind="generated"}'] > 0
    assert standard("spec_decode_num_drafts_total") == figures["swiftlet_rounds_total"]
    assert standard("spec_decode_num_draft_tokens_total") >= standard("spec_decode_num_accepted_tokens_total")
    assert standard("prefix_cache_hits_total") > 0 and standard("request_success_total", ',finished_reason="length"') > 0
    assert standard("cache_config_info", ',block_size="256",num_gpu_blocks="40"') == 1, figures
    promtool = shutil.which("promtool")
    if promtool:  # its lint wants no colons: vLLM's names are not ours to choose
        ours = "".join(l + "\n" for l in text.splitlines() if "vllm:" not in l)
        lint = subprocess.run([promtool, "check", "metrics"], input=ours, capture_output=True, text=True)
        assert lint.returncode == 0 and not lint.stdout + lint.stderr, lint
    over = threading.Event()

    def generate():
        while not over.is_set():
            s.complete(**LONG)

    running = threading.Thread(target=generate)
    running.start()
    used = lambda: float(re.search(r"^vllm:kv_cache_usage_perc\S* (\S+)$", s.call("GET", "/metrics")[2], re.M).group(1))
    try:
        wait_for("a running generation to fill the cache", lambda: 0 < used() <= 1)
    finally:
        over.set()
        running.join()
    for line in text.splitlines():
        assert line.startswith("#") or len(line.rsplit(" ", 1)) == 2 and float(line.rsplit(" ", 1)[1]) is not None
    _, _, state = s.call("GET", "/v1/swiftlet/state")
    assert state["blocks"] > 2 and len(state["sessions"]) == 32 and state["history"] and state["summary"]["total"]["tokens"] > 0
    assert s.call("GET", "/health")[2] == {"status": "ok"} and s.call("GET", "/ready")[2] == {"status": "ready"}
    with socket.create_connection(("127.0.0.1", s.port), timeout=900) as c:
        c.sendall(b"GET /v1/swiftlet/state HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
        s.complete(PROMPTS[1], max_tokens=30, metadata={"task": "watched"})
        seen, until = b"", time.monotonic() + 900
        while b"watched" not in seen and time.monotonic() < until:
            seen += c.recv(65536)
        assert b"event: state" in seen and b"watched" in seen


def clients_that_go(s):
    """Clients that hang up free their places, before their tokens are there."""
    body = json.dumps({"model": MODEL, "stream": False, **LONG}).encode()
    generated = lambda: s.metric('swiftlet_tokens_total{kind="generated"}')
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)

    def hang_up():
        """False when the machine kept them waiting until much had been generated: that proves nothing."""
        before = generated()
        sockets = [socket.create_connection(("127.0.0.1", s.port)) for _ in range(10)]
        for c in sockets:
            c.sendall(head + body)
        wait_for("them to run", lambda: s.metric("swiftlet_sessions_busy") >= 1 or generated() > before)
        early = generated() - before < 5 * LONG["max_tokens"]
        for c in sockets:
            c.close()
        s.wait_until_idle()
        assert not early or generated() - before < 10 * LONG["max_tokens"], "they generated to the end"
        return early

    assert any(hang_up() for _ in range(10)), "never early enough"


def load(s):
    """Streams side by side, some cancelled: the others are complete and right."""
    want = {p: run_text(p, "-n", "40", "--temp", "0.7", "--seed", "9")["text"] for p in PROMPTS}
    problems, done = [], []

    def client(i):
        try:
            for k in range(3):
                p = PROMPTS[(i + k) % len(PROMPTS)]
                if (i + k) % 5 == 4:
                    body = json.dumps({"model": MODEL, "prompt": p, "max_tokens": 200, "stream": True}).encode()
                    with socket.create_connection(("127.0.0.1", s.port)) as c:
                        c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
                        c.recv(200)
                    continue
                text = s.stream_text(p, max_tokens=40, temperature=0.7, seed=9)
                (done if text == want[p] else problems).append((p, text))
        except Exception as e:
            problems.append(e)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(16)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not problems, problems[:2]
    print("load: %d streams complete and right beside cancelled ones" % len(done))


def full_queue():
    with Server("--sessions", "1", "--queue", "1") as s:
        body = {"model": MODEL, "prompt": PROMPTS[0], "max_tokens": 600, "temperature": 0}

        def twelve():
            with concurrent.futures.ThreadPoolExecutor(12) as pool:
                return list(pool.map(lambda _: s.call("POST", "/v1/completions", body), range(12)))

        # clients that come one after another, because the machine is busy, find it free: they come again
        answers = wait_for("a refusal", lambda: (lambda a: a if any(x[0] == 503 for x in a) else None)(twelve()))
        refused = [a for a in answers if a[0] == 503]
        assert refused and len(refused) < 12 and all(a[0] in (200, 503) for a in answers), [a[0] for a in answers]
        for _, headers, answer in refused:
            assert headers["Retry-After"] and answer["error"]["code"] == "queue_full", answer
        assert len({a[2]["choices"][0]["text"] for a in answers if a[0] == 200}) == 1


def keys():
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write("# keys\nfirst-key-0123 admin\nsecond-key-4567\tadmin\n")
        f.flush()
        with Server("--api-key-file", f.name) as s:
            assert s.call("GET", "/health")[0] == 200
            for path in ("/", "/v1/models", "/metrics", "/v1/swiftlet/state", "/nothing"):
                status, headers, answer = s.call("GET", path)
                assert status == 401 and answer["error"]["code"] == "invalid_api_key" and headers["WWW-Authenticate"]
                for wrong in ("Bearer first-key-012", "Bearer first-key-01234", "Bearer ", "first-key-0123", "Basic !!"):
                    assert s.call("GET", path, headers={"Authorization": wrong})[0] == 401
            for key in ("first-key-0123", "second-key-4567"):
                assert s.call("GET", "/v1/models", headers={"Authorization": "Bearer " + key})[0] == 200
                basic = base64.b64encode(("me:" + key).encode()).decode()
                assert s.call("GET", "/", headers={"Authorization": "Basic " + basic})[0] == 200
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as f:
        f.write("a-key-of-ours\n# " + "x" * 1021 + "the-end-of-a-comment\n")
        f.flush()
        r = subprocess.run([PROGRAM, "serve", "-m", MODEL, "--port", "0", "--no-store", "--api-key-file", f.name], capture_output=True, text=True, timeout=600)
        assert r.returncode == 1 and "line 2: longer than" in r.stderr, r
    for options, words in ((["--host", "0.0.0.0"], "--api-key-file"), (["--api-key-file", "/nonexistent"], "No such file"),
                           (["--api-key-file", "/"], "Is a directory"),
                           (["--api-key", "short"], "--api-key: a key of 5 bytes"), (["--api-key", ""], "--api-key: a key of 0 bytes"),
                           (["--api-key", "first-key-0123 admin"], "--api-key: a key has no blanks"),
                           (["--host", "not an address"], "--host")):
        r = subprocess.run([PROGRAM, "serve", "-m", MODEL, "--port", "0", "--no-store", *options], capture_output=True, text=True, timeout=600)
        assert r.returncode == 1 and words in r.stderr, r


def rates():
    with Server("--rate", "2") as s:  # a minute
        statuses = [s.call("GET", "/v1/models")[0] for _ in range(12)]
        assert statuses[:2] == [200] * 2 and 429 in statuses, statuses
        assert s.call("GET", "/health")[0] == 200


def forwarded():
    """Behind a proxy on this machine clients are distinguished by the address that it adds; what they write themselves counts
    for nothing."""
    def ask(s, forwarded, path="/v1/models"):
        return s.call("GET", path, headers={"X-Forwarded-For": forwarded})[0]

    with Server("--rate", "2", "--forwarded") as s:
        assert [ask(s, "192.0.2.1") for _ in range(8)].count(429) >= 4
        assert ask(s, "192.0.2.2") == 200 and ask(s, "192.0.2.1, 192.0.2.3") == 200 and ask(s, "[2001:db8::1]:443") == 200
        assert ask(s, "192.0.2.77, 192.0.2.1:8080") == 429
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(s.url).netloc, timeout=60)
        connection.putrequest("GET", "/v1/models")
        for line in "192.0.2.78", "192.0.2.1":  # a proxy may add a line of its own
            connection.putheader("X-Forwarded-For", line)
        connection.endheaders()
        assert connection.getresponse().status == 429
    with Server("--rate", "2") as s:  # nobody said that there is a proxy
        assert [ask(s, "192.0.2.%d" % i) for i in range(8)].count(429) >= 4
    with Server("--forwarded", "--address-connections", "2") as s:
        def stream(forwarded):
            body = json.dumps({"prompt": "Once", "max_tokens": 1500, "ignore_eos": True, "stream": True}).encode()
            return urllib.request.urlopen(urllib.request.Request(s.url + "/v1/completions", body, {
                "Content-Type": "application/json", "X-Forwarded-For": forwarded}), timeout=600)

        running = [stream("192.0.2.1") for _ in range(2)]
        assert ask(s, "192.0.2.1") == 429 and ask(s, "192.0.2.1", "/health") == 200 and ask(s, "192.0.2.2") == 200
        for answer in running:
            answer.close()
        wait_for("its requests to end", lambda: ask(s, "192.0.2.1") == 200)


def stop_beside(s, **fields):
    """Stops the server while it answers; the answer."""
    box = []
    t = threading.Thread(target=lambda: box.append(s.call("POST", "/v1/completions", {"model": MODEL, **fields})))
    t.start()
    wait_for("it to run", lambda: not t.is_alive() or s.metric("swiftlet_sessions_busy") == 1)
    assert s.stop() == 0
    t.join()
    return box[0]


def graceful_stop():
    """SIGTERM: what runs is finished, what comes is refused, what was learned is stored; without grace it is cut off,
    said so, and nothing hangs."""
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "masks.db")
        with Server("--grace", "600", store=store) as s:
            status, _, answer = stop_beside(s, prompt="Once upon a time", max_tokens=300, temperature=0, metadata={"task": "kept"})
        assert status == 200 and answer["choices"][0]["finish_reason"] in ("length", "stop"), answer
        listed = subprocess.run([PROGRAM, "masks", "list", "--all", "--store", store], capture_output=True, text=True)
        assert "kept" in listed.stdout, listed
    with Server("--grace", "0") as s:
        assert stop_beside(s, **LONG)[0] in (200, 503)


def bad_stores():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "notes.db")
        with open(path, "w") as f:
            f.write("dear diary\n")
        r = subprocess.run([PROGRAM, "serve", "-m", MODEL, "--port", "0", "--store", path], capture_output=True, text=True, timeout=600)
        assert r.returncode == 1 and "not an SQLite database" in r.stderr, r
        assert open(path).read() == "dear diary\n"


def main():
    with Server() as s:
        for check in (fields_and_shapes, penalties, texts_equal_run, chat, chat_with_tools, kept_cache, bad_requests, raw_requests, optimizer,
                      metrics_and_state, clients_that_go, load):
            began = time.time()
            check(s)
            print("%-20s ok, %.1f s" % (check.__name__, time.time() - began), flush=True)
    for check in (masks, tool_calls, template_variables, speculation, full_queue, keys, rates, forwarded, graceful_stop, bad_stores):
        began = time.time()
        check()
        print("%-20s ok, %.1f s" % (check.__name__, time.time() - began), flush=True)


main()
