"""Requests from public bug reports, which other servers and this one once answered wrongly: each is sent, and what comes back
is held against what is right. They lie in shared/cases/requests*; what has no rule of its own has to be answered with 200.
With --table a line for each is printed, whatever comes back."""
import glob, gzip, json, os, re, sys, tempfile

from service import SOURCE, Server, skip

SHARED = os.environ.get("SWIFTLET_SHARED", os.path.join(SOURCE, "..", "shared"))
FOLDERS = [os.path.join(SHARED, "cases", name) for name in ("requests", "requests-2")]
if not any(os.path.isdir(folder) for folder in FOLDERS):
    skip("no cases/requests in %s; SWIFTLET_SHARED names another folder" % SHARED)
TAGS = """{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + (m.content if m.content is string else '') + '<|im_end|>\\n' }}{%- endfor %}
{%- if tools %}<tool_call>{"name": "x", "arguments": {}}</tool_call>{%- endif %}{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}"""


# ---- what is right: each gets (status, headers, answer) and returns what is wrong, or nothing ----------------

def answered(status, headers, answer):
    return None if status == 200 else "status %s: %s" % (status, answer)


def json_of(answer):
    choice = answer["choices"][0]
    return json.loads(choice["message"]["content"] if "message" in choice else choice["text"])


def holds(condition):
    """A whole JSON answer of which the condition holds; one cut by its limit is a beginning."""
    def check(status, headers, answer):
        if status != 200:
            return answered(status, headers, answer)
        if answer["choices"][0]["finish_reason"] == "length":
            return None
        value = json_of(answer)
        return None if condition(value) else "the answer is %s" % json.dumps(value)
    return check


def calls(*expected):
    def check(status, headers, answer):
        if status != 200:
            return answered(status, headers, answer)
        message = answer["choices"][0]["message"]
        got = [(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in message.get("tool_calls") or []]
        return None if got == list(expected) else "calls %s, content %r" % (got, message["content"])
    return check


def one_declared_call(status, headers, answer):
    if status != 200:
        return answered(status, headers, answer)
    got = answer["choices"][0]["message"].get("tool_calls") or []
    if answer["choices"][0]["finish_reason"] == "length":
        return None
    for call in got:
        json.loads(call["function"]["arguments"])
    return None if len(got) == 1 and got[0]["function"]["name"] in ("get_weather", "get_time", "t") else "calls %s" % got


def echoed(status, headers, answer):
    if status != 200:
        return answered(status, headers, answer)
    choice, usage = answer["choices"][0], answer["usage"]
    l = choice["logprobs"]
    n = len(l["tokens"])
    if usage["completion_tokens"] != 0 or n != usage["prompt_tokens"] or len(l["token_logprobs"]) != n or l["token_logprobs"][0] is not None:
        return "tokens %s, usage %s" % (l, usage)
    return None if all(t is None or token in t for t, token in zip(l["top_logprobs"], l["tokens"])) else "a token is missing from top_logprobs"


def characters(status, headers, answer):
    if status != 200:
        return answered(status, headers, answer)
    l = answer["choices"][0]["logprobs"]
    return None if all(o <= len(answer["choices"][0]["text"]) for o in l["text_offset"]) and l["text_offset"][-1] == 4 else "offsets %s" % l["text_offset"]


def headers_echoed(status, headers, answer):
    allowed = (headers.get("Access-Control-Allow-Headers") or "").lower()
    return None if status in (200, 204) and "x-stainless-os" in allowed and "Origin" in (headers.get("Vary") or "") else "status %s, allowed %s" % (status, allowed)


def usage_null(status, headers, answer):
    chunks = [json.loads(line[6:]) for line in answer.split("\n") if line.startswith("data: {")]
    return None if status == 200 and all("usage" in c for c in chunks) and all(c["usage"] is None for c in chunks[:-1]) and chunks[-1]["usage"] else "chunks without usage"


def alive(status, headers, answer):
    return None if status == 200 else "status %s" % status


def names_host(status, headers, answer):
    return None if status == 403 and "Host" in answer["error"]["message"] else "status %s: %s" % (status, answer)


def decoded_or_refused(status, headers, answer):
    return None if status == 200 or (status == 415 and headers.get("Accept-Encoding")) else "status %s: %s" % (status, answer)


UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
DATE = re.compile(r"\d{4}-\d\d-\d\d")
RULES = {  # by the beginning of the file's name, in its folder
    "requests/04-tool_choice": one_declared_call,
    "requests/05-": holds(lambda v: all(len(v["p%d" % i]) <= 255 for i in range(5))),
    "requests/05b": holds(lambda v: len(v) <= 2000),
    "requests/06-": holds(UUID.fullmatch),
    "requests/06b": holds(DATE.fullmatch),
    "requests/06c": holds(lambda v: DATE.fullmatch(v) and v.startswith("2")),
    "requests/12-": holds(lambda v: v == 1),
    "requests/14-": echoed,
    "requests-2/01-": holds(lambda v: set(v) == set("abcde")),
    "requests-2/02-": holds(lambda v: isinstance(v["a"], int)),
    "requests-2/02c": one_declared_call,
    "requests-2/03-": holds(lambda v: 0 <= v["a"] <= 0.95),
    "requests-2/04-": holds(lambda v: DATE.fullmatch(v["a"])),
    "requests-2/05-": holds(lambda v: v == {"a": 1}),
    "requests-2/11-toolcall-close": calls(("f", {"a": "</tool_call> inside"})),
    "requests-2/11c": calls(("f", {"a": "l1\n\tl2"})),
    "requests-2/11e": calls(("f", {})),
    "requests-2/11h": calls(("f", {"a": "1"})),
    "requests-2/12-": headers_echoed,
    "requests-2/14-": alive,
    "requests-2/15-": echoed,
    "requests-2/16-": characters,
    "requests-2/17-": holds(lambda v: v == {"a": 7}),
    "requests-2/21-": decoded_or_refused,
    "requests-2/22-": usage_null,
    "requests-2/23-": names_host,
}


def read_case(path):
    """(method, path, headers, body)"""
    case = json.load(open(path))
    if "request" in case:
        request = case["request"]
        return request["method"], request["path"], dict(request["headers"]), request["body"]
    return "POST", case.pop("POST"), {}, case


def rule_of(name):
    found = [prefix for prefix in RULES if name.startswith(prefix)]
    return RULES[max(found, key=len)] if found else answered


def send(server, method, path, headers, body):
    if headers.get("Content-Encoding") == "gzip":
        body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4}
        return server.call(method, path, headers=headers, raw=gzip.compress(json.dumps(body).encode()))
    context = server.call("GET", "/v1/models")[2]["data"][0]["max_model_len"] if isinstance(body, dict) else 0
    for name, value in body.items() if isinstance(body, dict) else ():  # as long as this model's context allows
        if isinstance(value, str) and len(value) > 2 * context:
            body[name] = value[:2 * context]
        if name == "input" and isinstance(value[0], list) and len(value[0]) > 1000:
            body[name] = [value[0][:1] * context]
    if isinstance(body, dict) and "input" not in body:
        body.setdefault("max_tokens", 48)
        body.setdefault("seed", 1)
    return server.call(method, path, body, headers)


def main():
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        template = os.path.join(folder, "tags.jinja")
        open(template, "w").write(TAGS)
        with Server("--chat-template", template, "--cors", "localhost", "--alias", "the-model") as server:
            for path in sorted(p for f in FOLDERS for p in glob.glob(os.path.join(f, "*.json"))):
                name = "/".join(path.split(os.sep)[-2:])
                try:
                    said = rule_of(name)(*send(server, *read_case(path)))
                except Exception as error:
                    said = "%s: %s" % (type(error).__name__, error)
                failed += said is not None
                print("%-58s %s" % (name, "ok" if said is None else "FAILS " + str(said)[:300]))
    print("%d fail" % failed)
    return failed


sys.exit(0 if main() == 0 or "--table" in sys.argv else 1)
