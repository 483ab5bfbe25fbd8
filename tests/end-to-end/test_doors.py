"""Lets in clients that were made for another server: names, fields, origins, paths, Ollama's API, editors' infilling."""
import gzip, json, os, re, tempfile, urllib.request, zlib

from service import MODEL, Server, tools_template

CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
CODER = os.path.join(CACHE, "swiftlet", "models", "qwen2.5-coder-0.5b.gguf")
ASK = [{"role": "user", "content": "Say hello."}]


def names(s):
    """Any name is this model's; the answer names the real one."""
    for path, body in (("/v1/chat/completions", {"messages": ASK}), ("/v1/completions", {"prompt": "x"}), ("/v1/messages", {"messages": ASK}),
                       ("/v1/responses", {"input": "x", "max_output_tokens": 2})):
        status, _, answer = s.call("POST", path, {"model": "gpt-5", **({} if "input" in body else {"max_tokens": 2}), **body})
        assert status == 200 and answer["model"] == "first", answer
    assert [m["id"] for m in s.call("GET", "/v1/models")[2]["data"]] == ["first", "second"]
    assert s.call("GET", "/v1/models/second")[0] == 200 and s.call("GET", "/v1/models/third")[0] == 404
    assert s.call("GET", "/v1/models")[2]["data"][0]["created"] > 1e9
    built = "b%s-%.12s" % (s.call("GET", "/version")[2]["version"], s.call("GET", "/v1/models")[2]["data"][0]["swiftlet"]["fingerprint"])
    assert all(a["system_fingerprint"] == built for a in (s.complete("x", max_tokens=2), *s.stream("x", max_tokens=2))), built


def fields(s):
    """An unknown field is ignored, and named in the answer and once in the log."""
    for _ in range(2):
        status, headers, _ = s.call("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1, "frobnicate": 1, "options": {"a": 1}, "audio": None})
        assert status == 200 and headers["Swiftlet-Ignored-Fields"] == "frobnicate, options" and headers["X-Request-Id"], headers
    status, headers, _ = s.call("POST", "/v1/messages", {"messages": ASK, "max_tokens": 1, "context_management": {"edits": []}, "mcp_servers": [], "thread": {}})
    assert status == 200 and headers["Swiftlet-Ignored-Fields"] == "mcp_servers, thread", headers
    s.errors.flush()
    with open(s.errors.name) as log:
        assert log.read().count("'frobnicate'") == 1


def limits(s):
    """A limit above the context is the context's; -1 is none; 0 looks at the prompt."""
    for limit in (1 << 20, -1):
        answer = s.call("POST", "/v1/completions", {"prompt": "Once", "max_tokens": limit, "temperature": 0})[2]
        assert answer["choices"][0]["finish_reason"] in ("length", "stop"), answer
    ids = s.call("POST", "/tokenize", {"prompt": "A B C d e f"})[2]["tokens"]
    whole = s.call("POST", "/v1/completions", {"prompt": ids, "max_tokens": 1, "echo": True, "logprobs": 3, "temperature": 0})[2]["choices"][0]["logprobs"]
    nothing = s.call("POST", "/v1/completions", {"prompt": ids, "max_tokens": 0, "echo": True, "logprobs": 3, "return_token_ids": True})[2]
    reported = nothing["choices"][0]["logprobs"]
    assert nothing["usage"]["completion_tokens"] == 0 and nothing["choices"][0]["finish_reason"] == "length" and nothing["choices"][0]["prompt_token_ids"] == ids
    assert reported["token_logprobs"] == whole["token_logprobs"][:-1] and len(reported["tokens"]) == len(ids), (reported, whole)
    context = s.call("GET", "/v1/models")[2]["data"][0]["max_model_len"]
    assert s.call("POST", "/v1/embeddings", {"input": [ids[:1] * context]})[0] == 200
    assert s.call("POST", "/v1/completions", {"prompt": ids[:1] * context, "max_tokens": 0})[0] == 200
    status, _, answer = s.call("POST", "/v1/completions", {"prompt": ids[:1] * context, "max_tokens": 1})
    assert status == 400 and answer["error"]["code"] == "context_length_exceeded", answer
    assert answer["error"]["message"].startswith(f"This model's maximum context length is {context} tokens"), answer  # clients look for OpenAI's words
    ended = s.call("POST", "/v1/completions", {"prompt": "1 2 3 4 5 6 7", "max_tokens": 40, "stop": " ", "include_stop_str_in_output": True, "temperature": 0})[2]
    assert ended["choices"][0]["finish_reason"] != "stop" or ended["choices"][0]["text"].endswith(" "), ended


# As Codex and Claude Code send them, texts shortened.
CODEX = {"model": "gpt-5.1-codex", "instructions": "You are Codex, a coding agent.", "tool_choice": "auto", "parallel_tool_calls": True, "store": False, "stream": True,
         "reasoning": {"effort": "medium", "summary": "auto"}, "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0000", "text": {"verbosity": "medium"},
         "service_tier": None, "client_metadata": {"x-codex-installation-id": "0000"}, "max_output_tokens": 8,
         "tools": [{"type": "function", "name": "shell", "description": "Runs a shell command", "strict": False, "parameters": {"type": "object", "properties": {
                        "command": {"type": "array", "items": {"type": "string"}}, "timeout_ms": {"type": "number"}}, "required": ["command"], "additionalProperties": False}},
                   {"type": "custom", "name": "apply_patch", "description": "Edits files", "format": {"type": "grammar", "syntax": "lark", "definition": "start: \"*** Begin Patch\""}},
                   {"type": "web_search", "external_web_access": False}, {"type": "local_shell"}, {"type": "namespace", "name": "mcp", "tools": []},
                   {"type": "image_generation", "output_format": "png"}, {"type": "mcp", "server_label": "x", "server_url": "http://x"}],
         "input": [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "<permissions>"}]},
                   {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Fix it."}]},
                   {"type": "reasoning", "id": "rs_0", "summary": [{"type": "summary_text", "text": "Look."}], "content": None, "encrypted_content": "gAAA"},
                   {"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "call_id": "call_1"},
                   {"type": "function_call_output", "call_id": "call_1", "output": "{\"output\":\"a.c\"}"},
                   {"type": "custom_tool_call", "status": "completed", "call_id": "call_2", "name": "apply_patch", "input": "*** Begin Patch"},
                   {"type": "custom_tool_call_output", "call_id": "call_2", "output": "Done!"},
                   {"type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "q"}},
                   {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}, {"type": "refusal", "refusal": "no"}]},
                   {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Go on."}]}]}
CLAUDE = {"model": "claude-opus-4-6", "max_tokens": 32000, "stream": True, "temperature": 1, "thinking": {"type": "disabled"}, "metadata": {"user_id": "user_0"},
          "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}, "output_config": {"effort": "high"}, "mcp_servers": [], "container": None, "speed": None,
          "system": [{"type": "text", "text": "You are Claude Code.", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "More.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
          "tools": [{"name": "Bash", "description": "Runs", "input_schema": {"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": {
                        "command": {"type": "string"}, "timeout": {"type": "number"}}, "required": ["command"], "additionalProperties": False}, "cache_control": {"type": "ephemeral"}},
                    {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}],
          "messages": [{"role": "user", "content": [{"type": "text", "text": "<system-reminder>"}, {"type": "text", "text": "Fix it.", "cache_control": {"type": "ephemeral"}}]},
                       {"role": "assistant", "content": [{"type": "thinking", "thinking": "Look.", "signature": "x"}, {"type": "text", "text": "I look."},
                                                         {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}]},
                       {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "a.c"}], "is_error": False}]}]}


def recorded(s):
    """The first requests of a turn by Codex and Claude Code."""
    events = s.call("POST", "/v1/responses", CODEX)[2]
    events = [json.loads(line[6:]) for line in events.split("\n") if line.startswith("data: ")]
    assert events[0]["type"] == "response.created" and events[-1]["type"] in ("response.completed", "response.incomplete"), events
    status, headers, events = s.call("POST", "/v1/messages?beta=true", {**CLAUDE, "stop_sequences": ["e"]}, {"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"})
    assert status == 200 and events.startswith("event: message_start") and "event: message_stop" in events, events
    counted = s.call("POST", "/v1/messages/count_tokens?beta=true", {k: v for k, v in CLAUDE.items() if k not in ("max_tokens", "stream", "metadata")})
    assert counted[0] == 200 and counted[2]["input_tokens"] > 50, counted


def usage(s):
    chunks = s.stream("Once", max_tokens=4, stream_options={"include_usage": True})
    assert all(c["usage"] is None for c in chunks[:-1]) and chunks[-1]["usage"]["completion_tokens"] == 4, chunks
    chunks = s.stream("Once", max_tokens=4, ignore_eos=True, draft=1, stream_options={"include_usage": True, "continuous_usage_stats": True})
    counts = [c["usage"]["completion_tokens"] for c in chunks]
    assert counts == sorted(counts) and counts[-1] == 4, counts
    answer = s.complete("Once", max_tokens=4)
    assert answer["timings"]["predicted_n"] == 4 and "draft_n_accepted" in answer["timings"] and "swiftlet" not in answer["usage"] and answer["swiftlet"], answer
    assert abs(answer["timings"]["predicted_per_second"] * answer["timings"]["predicted_ms"] - 3000) < 1, answer  # the first comes with the prompt
    for limit in (0, 1):
        timings = s.complete("Once", max_tokens=limit, echo=True)["timings"]
        assert timings["predicted_n"] == limit and timings["predicted_per_second"] == 0 and timings["predicted_per_token_ms"] == 0, timings


def origins(s):
    asks = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-stainless-os,anthropic-beta"}
    for origin, allowed in (("http://localhost:3000", True), ("http://127.0.0.1:8000", True), ("https://app.example", True), ("https://evil.example", False),
                            ("http://localhost.evil.example", False)):
        status, headers, _ = s.call("OPTIONS", "/v1/chat/completions", headers={"Origin": origin, **asks})
        assert (status == 204) == allowed and (headers.get("Access-Control-Allow-Origin") == (origin if allowed else None)), (origin, status, headers)
        assert not allowed or (headers["Access-Control-Allow-Headers"] == asks["Access-Control-Request-Headers"] and headers["Vary"] == "Origin")
        assert (s.call("POST", "/v1/completions", {"prompt": "x", "max_tokens": 1}, {"Origin": origin})[0] == 200) == allowed
    status, _, answer = s.call("GET", "/v1/models", headers={"Host": "llm.example.com"})
    assert status == 403 and "Host" in answer["error"]["message"]


def paths(s):
    assert s.call("POST", "/chat/completions", {"messages": ASK, "max_tokens": 1})[0] == 200
    assert s.call("GET", "/models")[0] == s.call("GET", "/models/first")[0] == 200
    props, info = s.call("GET", "/props")[2], s.call("GET", "/tokenizer_info")[2]
    assert props["default_generation_settings"]["n_ctx"] > 0 and "eos_token" in info, (props, info)
    chat = s.call("POST", "/v1/chat/completions/input_tokens", {"messages": ASK})[2]
    assert chat["input_tokens"] == s.call("POST", "/v1/chat/completions", {"messages": ASK, "max_tokens": 1})[2]["usage"]["prompt_tokens"], chat
    counted = s.call("POST", "/v1/responses/input_tokens", {"input": "Say hello."})[2]
    asked = s.call("POST", "/v1/responses", {"input": "Say hello.", "max_output_tokens": 1})[2]
    assert counted["input_tokens"] == asked["usage"]["input_tokens"], (counted, asked)
    assert s.call("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": "a\0b"}], "max_tokens": 1})[0] == 200


def joined_paths(s):
    """A base address that ends in a slash, or in /v1 where the client adds it, too."""
    for path in ("/v1//chat/completions", "//v1/chat/completions", "/v1/chat/completions/", "/v1/v1/chat/completions"):
        assert s.call("POST", path, {"messages": ASK, "max_tokens": 1})[0] == 200, path
    assert s.call("GET", "/v1/models/")[0] == 200 and s.call("GET", "/v1/v1x")[0] == 404


def bodies(s):
    """A body's type does not matter but from a page; half an emoji and a byte order mark do not end a conversation."""
    ask = json.dumps({"messages": ASK, "max_tokens": 1}).encode()
    for kind in ("application/x-www-form-urlencoded", "text/plain", "application/vnd.api+json"):
        assert s.call("POST", "/v1/chat/completions", raw=ask, headers={"Content-Type": kind})[0] == 200, kind
        from_page = {"Content-Type": kind, "Origin": s.url}
        assert s.call("POST", "/v1/chat/completions", raw=ask, headers=from_page)[0] == 415, kind
    assert s.call("POST", "/v1/chat/completions", raw=b"\xef\xbb\xbf" + ask)[0] == 200
    for cut in ("a\\ud83d", "\\ude00 b", "\\ud83d\\ud83d\\ude00", "\\u0000", "\\\\ud83d"):
        body = ('{"messages": [{"role": "user", "content": "%s"}]}' % cut).encode()
        status, _, answer = s.call("POST", "/apply-template", raw=body)
        whole = json.loads('"%s"' % cut).replace("\0", "\ufffd").encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        assert status == 200 and whole in answer["prompt"], (cut, answer)


def forms(s):
    """Each way to name a form binds the answer; a null is none."""
    schema = {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}
    ask = {"max_tokens": 40, "temperature": 0, "n": None}
    for form in ({"json_schema": schema}, {"response_format": {"type": "json_schema", "json_schema": {"schema": schema}}}):
        text = s.call("POST", "/v1/completions", {"prompt": "x", **ask, **form})[2]["choices"][0]["text"]
        said = s.call("POST", "/v1/chat/completions", {"messages": ASK, **ask, **form})[2]["choices"][0]["message"]["content"]
        assert json.loads(text)["n"] in (1, 2) and json.loads(said)["n"] in (1, 2), (form, text, said)
    assert s.call("POST", "/v1/chat/completions", {"messages": ASK, **ask, "response_format": {"type": "text", "json_schema": None}})[0] == 200


def digits(s):
    """A number keeps its digits where a request is rewritten."""
    turns = [*ASK, {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {"id": 1234567890123456789}}]},
             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c"}]}]
    others = json.loads(json.dumps(turns).replace("1234567890123456789", "1234567890123456768"))
    ids = [s.call("POST", "/v1/messages", {"messages": t, "max_tokens": 2, "temperature": 0})[2]["usage"] for t in (turns, others)]
    assert ids[0]["cache_read_input_tokens"] == 0 or ids[1] != ids[0], ids


def histories(s):
    """What agents send back: results of hosted tools, documents, notes of their own."""
    blocks = [{"type": "bash_code_execution_tool_result", "tool_use_id": "s", "content": {"stdout": "a"}}, {"type": "mcp_tool_use", "id": "m", "name": "x", "input": {}},
              {"type": "mcp_tool_result", "tool_use_id": "m", "content": []}, {"type": "text", "text": "done"}]
    document = {"type": "document", "title": "Notes", "source": {"type": "text", "media_type": "text/plain", "data": "The sky is green."}}
    found = {"type": "search_result", "source": "u", "title": "Page", "content": [{"type": "text", "text": "Grass is blue."}]}
    call = {"type": "tool_use", "id": "c", "name": "f", "input": {}}
    turns = [{"role": "user", "content": [document, found, {"type": "text", "text": "Say."}]}, {"role": "assistant", "content": [*blocks, call]},
             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": [found]}]}]
    longer = s.call("POST", "/v1/messages/count_tokens", {"messages": turns})
    shorter = s.call("POST", "/v1/messages/count_tokens", {"messages": [{"role": "user", "content": "Say."}, *turns[1:]]})
    assert longer[0] == shorter[0] == 200 and longer[2]["input_tokens"] > shorter[2]["input_tokens"] + 10, (longer, shorter)
    for image in ({"type": "image", "source": {}}, {"type": "document", "source": {"type": "base64", "data": ""}}):
        assert s.call("POST", "/v1/messages", {"max_tokens": 1, "messages": [{"role": "user", "content": [image]}]})[0] == 400
    items = [{"type": "shell_call", "call_id": "c", "action": {}}, {"type": "shell_call_output", "call_id": "c", "output": []}, {"type": "ghost_snapshot"},
             {"type": "apply_patch_call", "call_id": "d"}, {"type": "apply_patch_call_output", "call_id": "d"}, {"role": "user", "content": "x"}]
    assert s.call("POST", "/v1/responses", {"input": items, "max_output_tokens": 1})[0] == 200
    status, _, answer = s.call("POST", "/v1/responses", {"input": [{"type": "item_reference", "id": "x"}]})
    assert status == 400 and "item_reference" in answer["error"]["message"], answer


def prefill(s):
    """Messages go on with the assistant's last words; chats where that is asked for."""
    turns = [*ASK, {"role": "assistant", "content": "Hello, "}]
    begun = s.call("POST", "/tokenize", {"messages": turns, "continue_final_message": True})[2]["tokens"]
    closed = s.call("POST", "/tokenize", {"messages": turns})[2]["tokens"]
    open_ = s.call("POST", "/tokenize", {"messages": ASK})[2]["tokens"]
    assert begun[:len(open_)] == open_ and len(open_) < len(begun) < len(closed), (open_, begun, closed)
    assert s.call("POST", "/v1/messages/count_tokens", {"messages": turns})[2]["input_tokens"] == len(begun)
    one = s.call("POST", "/v1/chat/completions", {"messages": turns, "continue_final_message": True, "max_tokens": 6, "temperature": 0})[2]
    other = s.call("POST", "/v1/messages", {"messages": turns, "max_tokens": 6, "temperature": 0})[2]
    assert other["content"][0]["text"] == one["choices"][0]["message"]["content"], (one, other)
    status, _, refused = s.call("POST", "/v1/chat/completions", {"messages": turns, "continue_final_message": True, "add_generation_prompt": True})
    assert status == 400 and refused["error"]["param"] == "continue_final_message", refused


def lines(s, path, body):
    request = urllib.request.Request(s.url + path, data=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as answer:
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        return [json.loads(line) for line in answer.read().decode().splitlines()]


def ollama(s):
    options = {"temperature": 0, "num_predict": 8, "num_ctx": 512}
    reported = lines(s, "/api/chat", {"model": "x", "messages": ASK, "options": options})
    whole = s.call("POST", "/api/chat", {"model": "x", "messages": ASK, "options": options, "stream": False})[2]
    assert all(not t["done"] for t in reported[:-1]) and reported[-1]["done"] and reported[-1]["eval_count"] == 8 and whole["done_reason"] == "length", reported
    assert "".join(t["message"]["content"] for t in reported) == whole["message"]["content"] and whole["message"]["role"] == "assistant"
    reported = lines(s, "/api/generate", {"model": "x", "prompt": "Once", "raw": True, "options": options})
    assert "".join(t["response"] for t in reported) == s.complete("Once", max_tokens=8, temperature=0)["choices"][0]["text"]
    form = s.call("POST", "/api/chat", {"messages": ASK, "stream": False, "options": {"temperature": 0}, "format": {"type": "object", "properties": {"n": {"enum": [1, 2]}}, "required": ["n"]}})[2]
    assert json.loads(form["message"]["content"])["n"] in (1, 2), form
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}}
    answer = s.call("POST", "/api/chat", {"stream": False, "options": options, "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}],
                                           "messages": [*ASK, {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": "2", "tool_name": "f"}]})
    assert answer[0] == 200, answer
    vectors = s.call("POST", "/api/embed", {"input": ["a", "b"]})[2]["embeddings"]
    assert len(vectors) == 2 and len(s.call("POST", "/api/embeddings", {"prompt": "a"})[2]["embedding"]) == len(vectors[0])
    assert s.call("GET", "/api/tags")[2]["models"][0]["name"] == "first" and s.call("GET", "/api/version")[2]["version"]
    assert "completion" in s.call("POST", "/api/show", {"model": "first"})[2]["capabilities"]
    for path, body in (("/api/chat", {}), ("/api/chat", {"messages": []}), ("/api/generate", {"keep_alive": 0}), ("/api/generate", {"prompt": ""})):
        loaded = lines(s, path, body)
        assert len(loaded) == 1 and loaded[0]["done_reason"] == "load" and not (loaded[0].get("response") or loaded[0].get("message", {}).get("content")), loaded
    status, _, answer = s.call("POST", "/api/chat", {"messages": [{"role": "user", "content": "x", "images": ["AA"]}]})
    assert status == 400 and set(answer) == {"error"}, answer


def editor_fields(s):
    """What llama.vim and llama.vscode send: where an answer ends, which of its fields are sent, and requests that only prepare."""
    block = "if x:\n    a\n\n        b\n    c\n"
    ask = {"prompt": "Once", "n_predict": 64, "temperature": 0, "grammar": "root ::= " + json.dumps(block + "d = 1\n    e")}
    for indent, kept in ((4, block), (5, "if x:\n"), (0, block + "d = 1\n    e"), (1, block)):
        whole = s.call("POST", "/completion", {**ask, "n_indent": indent})[2]
        assert whole["content"] == kept and whole["has_new_line"], (indent, whole)
        assert indent == 0 or whole["stop_type"] == "limit", whole
        events = s.call("POST", "/completion", {**ask, "n_indent": indent, "stream": True})[2]
        parts = [json.loads(line[6:]) for line in events.split("\n") if line.startswith("data: {")]
        assert "".join(p["content"] for p in parts if not p["stop"]).rstrip(" ") == kept and parts[-1]["stop"], (indent, parts)
    long = {**ask, "n_predict": 1000, "grammar": 'root ::= "a\\n" [a-z ]{400}'}
    assert len(s.call("POST", "/completion", {**long, "t_max_predict_ms": 0})[2]["content"]) == 402
    quick = s.call("POST", "/completion", {**long, "t_max_predict_ms": 1})[2]
    assert 2 <= len(quick["content"]) < 402 and quick["stop_type"] == "limit", quick
    answer = s.call("POST", "/v1/chat/completions", {"messages": ASK, "max_tokens": 64})[2]
    assert abs(answer["timings"]["predicted_ms"] - 1000 * answer["swiftlet"]["seconds"]["decode"]) < 0.1, answer
    shown = s.call("POST", "/completion", {**ask, "response_fields": ["content", "timings/predicted_n", "truncated", "nothing", "timings/x"]})[2]
    assert set(shown) == {"content", "timings/predicted_n", "truncated"}, shown
    assert s.call("POST", "/completion", {**ask, "response_fields": [""], "n_predict": 0})[2] == {}
    assert s.call("POST", "/completion", {**ask, "response_fields": [], "n_predict": 1})[2]["timings"]
    for wrong in ({"response_fields": "content"}, {"response_fields": [1]}, {"response_fields": ["content"] * 65}, {"n_indent": "x"}, {"t_max_predict_ms": 1e12}):
        status, _, answer = s.call("POST", "/completion", {**ask, **wrong})
        assert status == 400 and answer["error"]["param"] == list(wrong)[0], answer
    prepared = s.call("POST", "/v1/chat/completions", {"messages": ASK, "n_predict": 0, "samplers": []})[2]
    assert prepared["usage"]["completion_tokens"] == 0 and prepared["choices"][0]["message"]["content"] == "", prepared
    assert s.call("POST", "/v1/chat/completions", {"messages": ASK, "n_predict": 3})[2]["usage"]["completion_tokens"] == 3
    assert s.call("POST", "/v1/chat/completions", {"messages": ASK, "max_tokens": 0})[0] == 400


def native(s):
    """llama.cpp's /completion: whole, as a stream, of ids, bound by a grammar or a schema."""
    ask = {"prompt": "Once", "n_predict": 8, "temperature": 0}
    whole = s.call("POST", "/completion", ask)[2]
    assert whole["content"] == s.complete("Once", max_tokens=8)["choices"][0]["text"] and whole["stop_type"] == "limit" and whole["tokens_predicted"] == 8, whole
    events = s.call("POST", "/completion", {**ask, "stream": True})[2]
    parts = [json.loads(line[6:]) for line in events.split("\n") if line.startswith("data: {")]
    assert "".join(p["content"] for p in parts if not p["stop"]) == whole["content"] and parts[-1]["stop"] and parts[-1]["timings"]["predicted_n"] == 8, parts
    probable = {**ask, "n_probs": 3}
    tokens = s.call("POST", "/completion", probable)[2]["completion_probabilities"]
    asked = s.complete("Once", max_tokens=8, logprobs=3, return_token_ids=True)["choices"][0]
    assert [t["id"] for t in tokens] == asked["token_ids"] and [t["logprob"] for t in tokens] == asked["logprobs"]["token_logprobs"], (tokens, asked)
    assert all(len(t["top_logprobs"]) == 3 and t["top_logprobs"][0]["id"] == t["id"] and bytes(t["bytes"]).decode() == t["token"] for t in tokens), tokens
    events = [json.loads(line[6:]) for line in s.call("POST", "/completion", {**probable, "stream": True})[2].split("\n") if line.startswith("data: {")]
    assert sum((e.get("completion_probabilities", []) for e in events), []) == tokens, events
    assert "completion_probabilities" not in whole and s.call("POST", "/completion", {**ask, "n_probs": 21})[2]["error"]["param"] == "n_probs"
    ids = s.call("POST", "/tokenize", {"content": "Once", "add_special": True})[2]["tokens"]
    assert s.call("POST", "/completion", {**ask, "prompt": ids})[2]["content"] == whole["content"]
    for limit, cut in ((8, False), (-1, True)):  # without a limit it is the context that ends the answer, told whole and streamed
        answer = s.call("POST", "/completion", {**ask, "n_predict": limit, "ignore_eos": True})[2]
        streamed = s.call("POST", "/completion", {**ask, "n_predict": limit, "ignore_eos": True, "stream": True})[2]
        last = json.loads(streamed.strip().split("\n")[-1][6:])
        for told in (answer, last):
            assert told["truncated"] == cut and told["stop_type"] == "limit" and told["has_new_line"] == ("\n" in answer["content"]), (limit, told)
    for text, line in (("a\\nb", True), ("ab", False)):
        bound = {**ask, "grammar": f'root ::= "{text}"'}
        streamed = json.loads(s.call("POST", "/completion", {**bound, "stream": True})[2].strip().split("\n")[-1][6:])
        assert s.call("POST", "/completion", bound)[2]["has_new_line"] == streamed["has_new_line"] == line, (text, streamed)
    bound = s.call("POST", "/completion", {**ask, "grammar": 'root ::= "ab"'})[2]
    assert bound["content"] == "ab" and s.call("POST", "/completion", {**ask, "json_schema": {"const": "42"}})[2]["content"] == '"42"', bound
    prompt = s.call("POST", "/apply-template", {"messages": ASK})[2]["prompt"]
    tokens = s.call("POST", "/tokenize", {"content": prompt, "add_special": True, "with_pieces": True})[2]["tokens"]
    assert [t["id"] for t in tokens] == s.call("POST", "/tokenize", {"messages": ASK})[2]["tokens"] and ASK[0]["content"] in prompt, (prompt, tokens)
    assert "".join(t["piece"] for t in tokens if t["piece"] not in ("<s>", "</s>")).strip() == prompt.strip(), (prompt, tokens)
    odd = s.call("POST", "/tokenize", {"content": "\U00013000", "with_pieces": True})[2]["tokens"]  # a character without a piece
    assert bytes(b for t in odd if isinstance(t["piece"], list) for b in t["piece"]) == "\U00013000".encode(), odd
    assert s.call("POST", "/apply-template", {"messages": 1})[0] == s.call("POST", "/apply-template", {})[0] == 400
    for wrong in ({"prompt": ["a", "b"]}, {"prompt": None}, {"n_predict": "x"}):
        status, _, answer = s.call("POST", "/completion", {**ask, **wrong})
        assert status == 400 and answer["error"]["param"] == list(wrong)[0], answer


def compressed(s):
    """Bodies by gzip and deflate; what is damaged, cut short or grows beyond a body's limit is refused."""
    ask = {"prompt": "Once", "max_tokens": 4, "temperature": 0}
    plain, text = s.call("POST", "/v1/completions", ask)[2], json.dumps(ask).encode()

    def send(raw, coding):
        status, _, answer = s.call("POST", "/v1/completions", headers={"Content-Encoding": coding}, raw=raw)
        return status, answer

    bare = zlib.compressobj(wbits=-15)
    for coding, raw in (("gzip", gzip.compress(text)), ("GZIP", gzip.compress(text)), ("gzip", gzip.compress(text[:9]) + gzip.compress(text[9:])),
                        ("deflate", zlib.compress(text)), ("deflate", bare.compress(text) + bare.flush()), ("identity", text)):
        status, answer = send(raw, coding)
        assert status == 200 and answer["choices"] == plain["choices"], (coding, answer)
    packed = gzip.compress(text)
    for raw in (packed[:-9], packed[:12], text, b"\x1f\x8b" + os.urandom(64)):
        status, answer = send(raw, "gzip")
        assert status == 400 and "Content-Encoding" in answer["error"]["message"], answer
    status, answer = send(gzip.compress(b" " * (40 << 20)), "gzip")
    assert status == 413 and answer["error"]["code"] == "too_large", answer
    assert send(text, "br")[0] == 415


FUNCTION = {"name": "add", "description": "adds", "parameters": {"type": "object", "properties": {"a": {"type": "integer", "maximum": 9}},
                                                                 "required": ["a"], "additionalProperties": False}}


def legacy_functions(s):
    """`functions` and `function_call`, as they were before tools: forced, in a stream, and in the history."""
    ask = {"messages": ASK, "functions": [FUNCTION], "function_call": {"name": "add"}, "max_tokens": 60, "temperature": 0}
    choice = s.call("POST", "/v1/chat/completions", ask)[2]["choices"][0]
    call = choice["message"]["function_call"]
    assert choice["finish_reason"] == "function_call" and "tool_calls" not in choice["message"], choice
    assert call["name"] == "add" and list(json.loads(call["arguments"])) == ["a"], call
    deltas = [json.loads(line[6:])["choices"][0] for line in s.call("POST", "/v1/chat/completions", {**ask, "stream": True})[2].split("\n")
              if line.startswith("data: {")]
    calls = [d["delta"]["function_call"] for d in deltas if "function_call" in d["delta"]]
    assert calls[0]["name"] == "add" and "".join(c["arguments"] for c in calls) == call["arguments"], calls
    assert deltas[-1]["finish_reason"] == "function_call", deltas[-1]
    history = [*ASK, {"role": "assistant", "content": None, "function_call": call}, {"role": "function", "name": "add", "content": "3"}]
    status, _, answer = s.call("POST", "/v1/chat/completions", {"messages": history, "functions": [FUNCTION], "function_call": "none", "max_tokens": 4})
    assert status == 200 and "function_call" not in answer["choices"][0]["message"], answer
    for wrong in ({"functions": [{}]}, {"functions": [FUNCTION], "function_call": {"name": "sub"}}, {"functions": [FUNCTION], "function_call": 1}):
        assert s.call("POST", "/v1/chat/completions", {"messages": ASK, "max_tokens": 4, **wrong})[0] == 400, wrong


def responses_logprobs(s):
    """Those of /v1/responses are those of a chat: whole, in the events of a stream, and in the item at its end."""
    want = s.call("POST", "/v1/chat/completions", {"messages": ASK, "max_tokens": 8, "temperature": 0, "logprobs": True, "top_logprobs": 2})[2]
    want = want["choices"][0]["logprobs"]["content"]
    ask = {"input": ASK[0]["content"], "max_output_tokens": 8, "temperature": 0, "top_logprobs": 2, "include": ["message.output_text.logprobs"]}
    part = s.call("POST", "/v1/responses", ask)[2]["output"][0]["content"][0]
    assert part["logprobs"] == want and len(want) > 1 and len(want[0]["top_logprobs"]) == 2, (part, want)
    events = [json.loads(line[6:]) for line in s.call("POST", "/v1/responses", {**ask, "stream": True})[2].split("\n") if line.startswith("data: {")]
    sent = [entry for e in events if e["type"] == "response.output_text.delta" for entry in e["logprobs"]]
    assert sent == want[:len(sent)] and len(sent) >= len(want) - 1, (sent, want)
    done = [e for e in events if e["type"] == "response.output_text.done"][0]
    assert done["logprobs"][:len(sent)] == sent and events[-1]["response"]["output"][0]["content"][0]["logprobs"] == done["logprobs"], done
    assert s.call("POST", "/v1/responses", {"input": "x", "max_output_tokens": 2, "temperature": 0})[2]["output"][0]["content"][0]["logprobs"] == []


def strict():
    with Server("--temp", "0") as s:  # that of requests which say none
        assert len({s.complete("Once upon", max_tokens=12, seed=seed)["choices"][0]["text"] for seed in range(4)}) == 1
        assert len({s.complete("Once upon", max_tokens=12, seed=seed, temperature=1)["choices"][0]["text"] for seed in range(4)}) > 1
    for options, texts in (("--seed", "5"), 1), ((), 2):  # likewise
        with Server(*options) as s:
            assert min(2, len({s.complete("Once upon", max_tokens=12, temperature=1)["choices"][0]["text"] for _ in range(4)})) == texts
    with Server("--strict-model", "--strict-fields", "--alias", "first", "--alias", "second") as s:
        ask = {"prompt": "x", "max_tokens": 1}
        assert s.call("POST", "/v1/completions", {**ask, "model": "second"})[0] == 200
        status, _, answer = s.call("POST", "/v1/completions", {**ask, "model": "gpt-5"})
        assert status == 404 and answer["error"]["param"] == "model", answer
        status, _, answer = s.call("POST", "/v1/completions", {**ask, "frobnicate": 1})
        assert status == 400 and answer["error"]["param"] == "frobnicate", answer
        assert s.call("POST", "/v1/completions", {**ask, "frobnicate": None})[0] == 200


def literal_schemas():
    """Members that a schema does not name, and unknown formats, come on request alone."""
    two = {"type": "object", "properties": {"a": {"type": "integer", "const": 1}}, "required": ["a"], "minProperties": 2}
    colour = {"type": "string", "format": "colour"}

    def answer(s, schema):
        form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
        return s.call("POST", "/v1/chat/completions",
                      {"messages": [{"role": "user", "content": "x"}], "max_tokens": 12, "temperature": 0, "response_format": form})
    with Server() as s:
        assert "colour" in answer(s, colour)[2]["error"]["message"] and answer(s, two)[0] == 400
    with Server("--literal-schemas") as s:
        text = answer(s, two)[2]["choices"][0]["message"]["content"]
        assert re.match(r'\{\s*"a": ?1,\s*"', text), text
        assert answer(s, colour)[0] == 200
        # the same in the interfaces that are translated to chats
        said = s.call("POST", "/v1/responses", {"input": "x", "max_output_tokens": 12, "temperature": 0,
                                                "text": {"format": {"type": "json_schema", "name": "n", "schema": two}}})[2]
        assert said["output"][-1]["content"][0]["text"] == text, said
        said = s.call("POST", "/v1/messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 12, "temperature": 0,
                                               "output_config": {"format": {"type": "json_schema", "schema": two}}})[2]
        assert said["content"][0]["text"] == text, said


def infill(model):
    """Text between a prefix and a suffix: by /v1/completions and by /infill, whole and as a stream."""
    os.environ["SWIFTLET_TEST_MODEL"] = model
    import importlib, service
    importlib.reload(service)
    with service.Server() as s:
        before, after = "def add(a, b):\n    return ", "\n\nprint(add(2, 3))\n"
        text = s.call("POST", "/v1/completions", {"prompt": before, "suffix": after, "max_tokens": 16, "temperature": 0})[2]["choices"][0]["text"]
        assert text.strip().startswith("a + b"), text
        body = {"input_prefix": before, "input_suffix": after, "prompt": "", "n_predict": 16, "temperature": 0, "cache_prompt": True, "samplers": [],
                "input_extra": [{"filename": "other.py", "text": "x = 1\n"}]}
        answer = s.call("POST", "/infill", body)[2]
        assert answer["content"].strip().startswith("a + b") and answer["stop"] and answer["timings"], answer
        vim = {**body, "input_extra": [], "n_predict": 64, "n_indent": 4, "top_k": 40, "top_p": 0.9, "samplers": ["top_k", "top_p", "infill"],
               "input_prefix": "def add(a, b):\n", "prompt": "    ", "t_max_predict_ms": 60000}
        del vim["temperature"]  # an editor's suggestion is the likeliest text
        lines = s.call("POST", "/infill", vim)[2]["content"].split("\n")
        assert lines == s.call("POST", "/infill", {**vim, "temperature": 0})[2]["content"].split("\n"), lines
        assert all(line.startswith("    ") or not line for line in lines[1:]), lines
        for wrong in ({}, [1], [{}], [{"filename": "a"}], [{"filename": 1, "text": "x"}], [{"text": 2}]):
            status, _, refused = s.call("POST", "/infill", {**body, "input_extra": wrong})
            assert status == 400 and refused["error"]["param"] == "input_extra", (wrong, refused)
        events = s.call("POST", "/infill", {**body, "stream": True})[2]
        reported = [json.loads(line[6:]) for line in events.split("\n") if line.startswith("data: ")]
        assert "".join(t["content"] for t in reported if not t["stop"]) == answer["content"] and reported[-1]["stop"], reported


with Server("--alias", "first", "--alias", "second", "--cors", "localhost", "--cors", "https://app.example") as server:
    for check in (names, fields, limits, recorded, usage, origins, paths, joined_paths, bodies, forms, digits, histories, prefill, ollama, native, editor_fields, compressed, responses_logprobs):
        check(server)
        print(check.__name__, "ok")
    if MODEL == "builtin":
        status, _, answer = server.call("POST", "/v1/completions", {"prompt": "a", "suffix": "b"})
        assert status == 400 and answer["error"]["param"] == "suffix", answer
with tempfile.TemporaryDirectory() as folder, Server("--chat-template", tools_template(folder)) as server:
    legacy_functions(server)
    print("legacy_functions ok")
strict()
print("strict ok")
literal_schemas()
print("literal_schemas ok")
if os.path.exists(CODER):
    infill(CODER)
    print("infill ok")
