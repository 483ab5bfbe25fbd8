#!/usr/bin/env python3
"""Attacks `swiftlet serve` as a hostile client would, and prints the answers. Starts the servers it needs; standard library alone.

    attacks.py requests [-m MODEL]    raw requests that are none, or that two readers see differently: a line each
    attacks.py keys [-m MODEL]        a key guesses a word of another key's letter by cached_tokens: a table, kept apart and shared
    attacks.py slow [-m MODEL]        1,000 connections that send a header now and then, while honest requests go on
    attacks.py end [-m MODEL]         SIGTERM under load: what becomes of the answers that had begun, by --grace
    attacks.py long [-m MODEL]        prompts of 7 MB, a line each: the longest gap in a neighbour's stream and the slowest /health
    attacks.py gone [-m MODEL]        clients that ask and leave, 700 and fewer, a line each: how long their connections are held
    attacks.py heavy [-m MODEL]       requests that are as heavy as a request may be, three at a time, a line each: the same
    attacks.py grammars [-m MODEL]    four clients with ambiguous grammars: a neighbour's stream beside four without and beside them
    attacks.py forms [-m MODEL]       1,000 requests with a schema of their own each: the server's memory as they go on

end-to-end/tenants and end-to-end/attacks assert the same."""
import argparse, collections, http.client, itertools, json, os, random, re, resource, signal, socket, subprocess, tempfile, threading, time, urllib.error, urllib.request

PROGRAM = os.environ.get("SWIFTLET", "build/swiftlet")

# ---- raw requests --------------------------------------------------------------------------------------------------------

END = b"Host: localhost\r\nConnection: close\r\n\r\n"
POST = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"


def get(path=b"/v1/models", host=b"localhost"):
    return b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"


# (what it is, its bytes, the status it is answered with)
REQUESTS = [
    *[("Host: " + host, get(host=host.encode()), status) for host, status in (
        ("127.0.0.1", 200), ("127.0.0.2:80", 200), ("localhost:1", 200), ("[::1]", 200), ("LOCALHOST", 200), ("127.evil.com", 403),
        ("127.0.0.1.evil.com", 403), ("127.0.0.1x", 403), ("evil.com", 403), ("[::2]", 403), ("[::1", 403), ("127.1", 403))],
    ("no Host", b"GET /health HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
    ("two Hosts", b"GET /health HTTP/1.1\r\nHost: evil.com\r\n" + END, 400),
    *[("path " + path, get(path.encode()), status) for path, status in (
        ("/health", 200), ("/health%00x", 404), ("/v1%2fmodels", 404), ("/%76%31/models", 200), ("/health%0", 404), ("/" + "x" * 600, 414))],
    ("a line without version", b"GET /health\r\n\r\n", 400),
    ("two blanks in the line", b"GET  /health HTTP/1.1\r\n" + END, 400),
    ("HTTP/2's preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ("HTTP/0.9", b"GET /health HTTP/0.9\r\n" + END, 505),
    ("TLS", bytes.fromhex("16030100c8010000c403"), 400),
    ("a header without colon", b"GET /health HTTP/1.1\r\nfoo\r\n" + END, 400),
    ("a blank before the colon", POST + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400),
    ("a folded header", b"GET /health HTTP/1.1\r\na: b\r\n c\r\n" + END, 400),
    ("a NUL in a header", b"GET /health HTTP/1.1\r\na: b\0c\r\n" + END, 400),
    ("a header of 40,000 bytes", b"GET /health HTTP/1.1\r\na: " + b"x" * 40000 + b"\r\n" + END, 431),
    ("1,000 headers", b"GET /health HTTP/1.1\r\n" + b"a: b\r\n" * 1000 + END, 431),
    ("a path of 40,000 bytes", get(b"/" + b"x" * 40000), 414),
    ("two Content-Lengths", POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
    ("a list of lengths", POST + b"Content-Length: 2, 2\r\n\r\n{}", 400),
    ("a length below zero", POST + b"Content-Length: -1\r\n\r\n{}", 400),
    ("a length of 23 digits", POST + b"Content-Length: " + b"9" * 23 + b"\r\n\r\n{}", 413),
    ("a length of 4 GiB", POST + b"Content-Length: 4294967298\r\n\r\n{}", 413),
    ("a length beside chunks", POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", 400),
    ("Transfer-Encoding: gzip", POST + b"Transfer-Encoding: gzip\r\n\r\n{}", 400),
    ("no JSON", POST + b"Content-Length: 2\r\n\r\n{]", 400),
    ("a key given twice", POST + b"Content-Length: 29\r\n\r\n" + b'{"prompt": "a", "prompt": 22}', 400),
    ("JSON 100,000 deep", POST + b"Content-Length: 100000\r\n\r\n" + b"[" * 100000, 400),
    ("no type of its body", b"POST /v1/completions HTTP/1.1\r\nContent-Length: 2\r\n" + END + b"{}", 400),
    ("a form of this server's own page", b"POST /v1/completions HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n"
     b"Origin: http://localhost\r\n" + END + b"{}", 415),
    ("a form of another page", b"POST /v1/completions HTTP/1.1\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n"
     b"Origin: http://evil.com\r\n" + END + b"{}", 403),
    ("a method of its own", b"BREW /v1/models HTTP/1.1\r\n" + END, 405),
    # further requests of a connection: their fields are looked at too
    ("then two Hosts", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health HTTP/1.1\r\nHost: evil.com\r\n" + END, 400),
    ("then two lengths", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" + POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}", 400),
]
# libmicrohttpd itself refuses these inside an accepted connection, with HTML.
OTHERS = [
    ("a chunk without size", POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n", 400),
    ("then no request", b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\nGET /health\r\n\r\n", 400),
]


def response_to(port, data, wait=60):
    """(status, body) of the last answer to bytes that are sent as they are."""
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as s:
        said = b""
        try:
            s.sendall(data)
            while True:
                more = s.recv(65536)
                if not more:
                    break
                said += more
        except (ConnectionResetError, BrokenPipeError):
            pass  # what was still on its way
    answers = list(re.finditer(rb"HTTP/1\.1 (\d{3}) ", said))
    return int(answers[-1][1]) if answers else None, said[answers[-1].start():].partition(b"\r\n\r\n")[2] if answers else said


def is_error(body):
    try:
        return set(json.loads(body)["error"]) == {"message", "type", "param", "code"}
    except (ValueError, KeyError, TypeError):
        return False


# ---- another key's letter ------------------------------------------------------------------------------------------------

WORDS = ["bicycle", "gallery", "kitchen", "lantern", "mailbox", "station"]


def letter(word, to="Agnes"):
    return "Dear %s, the safe behind the clock opens with the word %s, and nobody but you may ever know of it. Burn this letter." % (to, word)


def guesses(ask, key, to="Agnes"):
    """The cached_tokens that a key gets for each word that it supposes. One that is none of them is asked first, so that what
    guesses have in common with one another is found alike."""
    ask(key, letter("village", to))
    return [ask(key, letter(word, to)) for word in WORDS]


def attack(ask, first, second):
    """A row for each word: what the second key gets for each that it supposes in the first key's letter."""
    rows = []
    for word, to in zip(WORDS, ("Agnes", "Bruno", "Clara", "David", "Elena", "Frank")):
        ask(first, letter(word, to))
        rows.append((word, guesses(ask, second, to)))
    return rows


def found(rows):
    """Rows in which one guess gets more than all others, and is right."""
    return sum(reported.count(max(reported)) == 1 and WORDS[reported.index(max(reported))] == word for word, reported in rows)


# ---- slow headers --------------------------------------------------------------------------------------------------------

def slow_headers(port, honest, n=1000, seconds=8):
    """(how many there were, the longest that an honest request took, how many were answered): each of n connections sends a
    header line now and then."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = 4096 if most == resource.RLIM_INFINITY else min(4096, most)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    slow = []
    for _ in range(min(n, files - 100)):
        c = socket.socket()
        c.setblocking(False)
        c.connect_ex(("127.0.0.1", port))
        slow.append(c)
    began, longest, answered, begun = time.monotonic(), 0.0, 0, set()
    while time.monotonic() - began < seconds:
        for c in slow:
            try:
                c.send(b"X: y\r\n" if c in begun else b"GET / HTTP/1.1\r\n")
                begun.add(c)
            except OSError:
                pass
        asked = time.monotonic()
        honest()
        longest, answered = max(longest, time.monotonic() - asked), answered + 1
    for c in slow:
        c.close()
    return len(slow), longest, answered


# ---- long prompts --------------------------------------------------------------------------------------------------------

LONG = 7 << 20
LONG_PROMPTS = [("text", "It was the best of times, it was the worst of times. "), ("white space", " "), ("lines", "\n"), ("ideographs", "\u4e2d\u6587\u8f93"),
                ("digits", "1234567890"), ("emoji", "\U0001f600\U0001f44d"), ("one word", "antidisestablishmentarianism"), ("one letter", "a")]


def post(port, path, body, key=None, wait=300):
    """(status, answer's text); body: an object, or its bytes"""
    headers = {"Content-Type": "application/json", **({"Authorization": "Bearer " + key} if key else {})}
    request = urllib.request.Request("http://127.0.0.1:%d%s" % (port, path), body if isinstance(body, bytes) else json.dumps(body).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=wait) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()


class Neighbours:
    """While it is entered, one client streams and one asks for /health, on new connections and on ten that it keeps; `gap` and
    `health` are the longest that they waited."""

    def __init__(self, port, key=None):
        self.port, self.key, self.stop, self.gap, self.health = port, key, False, 0.0, 0.0
        self.threads = [threading.Thread(target=t) for t in (self.stream, self.look)]

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.stop = True
        for t in self.threads:
            t.join()

    def stream(self):
        headers = {"Content-Type": "application/json", **({"Authorization": "Bearer " + self.key} if self.key else {})}
        body = json.dumps({"prompt": "Once upon a time", "max_tokens": 400, "temperature": 0, "stream": True, "ignore_eos": True}).encode()
        while not self.stop:
            with urllib.request.urlopen(urllib.request.Request("http://127.0.0.1:%d/v1/completions" % self.port, body, headers), timeout=300) as answer:
                last = None
                for line in answer:
                    now = time.monotonic()
                    self.gap, last = max(self.gap, now - last if last else 0), now
                    if self.stop:
                        return

    def look(self):
        kept = [http.client.HTTPConnection("127.0.0.1", self.port, timeout=300) for _ in range(10)]
        for turn in itertools.count():
            c = kept[turn // 2 % len(kept)] if turn % 2 else http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
            began = time.monotonic()  # one whose first request is /health is answered by a thread of its own, and closed
            c.request("GET", "/version" if turn % 2 and turn < 2 * len(kept) else "/health")
            c.getresponse().read()
            self.health = max(self.health, time.monotonic() - began)
            if self.stop:
                break
            time.sleep(0.02)
        for c in kept:
            c.close()


def long_prompt(port, unit, size=LONG, chat=False, key=None):
    """(status, seconds, longest gap of a stream, slowest /health) of one prompt of so many bytes."""
    text = unit * (size // len(json.dumps(unit, ensure_ascii=False).encode()[1:-1]))
    body = {"messages": [{"role": "user", "content": text}]} if chat else {"prompt": text}
    data = json.dumps({**body, "max_tokens": 4}, ensure_ascii=False).encode()  # before the clock runs
    with Neighbours(port, key) as n:
        time.sleep(1)
        n.gap = n.health = 0
        began = time.monotonic()
        status, _ = post(port, "/v1/chat/completions" if chat else "/v1/completions", data, key)
        seconds = time.monotonic() - began
    return status, seconds, n.gap, n.health


# ---- heavy requests ------------------------------------------------------------------------------------------------------

def words(size):
    return (LONG_PROMPTS[0][1] * (size // len(LONG_PROMPTS[0][1]) + 1))[:size]


def turns(n):
    return [{"role": "user", "content": "a"}] * n


def schema_of(depth):
    return {"type": "object", "properties": {"a": schema_of(depth - 1)}, "required": ["a"]} if depth else {"type": "string"}


def picture(size):
    return "data:image/png;base64," + "iVBO" * (size // 4)


NESTED = r"((\w+\s?){1,40}\.){1,40}"
# (what it is, the path, a function that makes its body)
HEAVY = [
    ("2,048 long embeddings", "/v1/embeddings", lambda: {"input": [words(3000)] * 2048}),
    ("7 MB with its pieces", "/tokenize", lambda: {"prompt": words(LONG), "return_token_strs": True, "with_pieces": True}),
    ("500,000 tokens", "/detokenize", lambda: {"tokens": [300] * 500000}),
    ("a prompt of 500,000 tokens", "/v1/completions", lambda: {"prompt": [300] * 500000}),
    ("7 MB to fill in", "/infill", lambda: {"input_prefix": words(LONG // 2), "input_suffix": words(LONG // 2)}),
    ("7 MB, Ollama", "/api/generate", lambda: {"prompt": words(LONG)}),
    ("7 MB, Responses", "/v1/responses", lambda: {"input": words(LONG)}),
    ("100,000 turns", "/v1/chat/completions", lambda: {"messages": turns(100000)}),
    ("4,000 turns", "/v1/chat/completions", lambda: {"messages": turns(4000)}),
    ("100,000 turns, Messages", "/v1/messages/count_tokens", lambda: {"max_tokens": 1, "messages": turns(100000)}),
    ("100 nested tools", "/v1/chat/completions", lambda: {"messages": turns(1), "max_tokens": 50, "tool_choice": "required", "tools": [
        {"type": "function", "function": {"name": "f%d" % i, "parameters": schema_of(24)}} for i in range(100)]}),
    ("128 choices with logprobs", "/v1/completions", lambda: {"prompt": "a", "n": 128, "max_tokens": 100, "logprobs": 20}),
    ("5,000 stops", "/v1/completions", lambda: {"prompt": "a", "stop": ["x%d" % i for i in range(5000)]}),
    ("100,000 biases", "/v1/completions", lambda: {"prompt": "a", "logit_bias": {str(i): 1 for i in range(100000)}}),
    ("500,000 fields", "/v1/completions", lambda: {"prompt": "a", **{"k%d" % i: 1 for i in range(500000)}}),
    ("a picture of 5 MB", "/v1/chat/completions", lambda: {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": picture(5 << 20)}}]}]}),
    ("nested repetitions", "/v1/completions", lambda: {"prompt": "x", "max_tokens": 200, "guided_regex": NESTED}),
    ("many alternatives", "/v1/completions", lambda: {"prompt": "x", "max_tokens": 200, "guided_regex": r"(?:(?:\w|\d|[a-z])+ )*x{400}"}),
]


def beside(port, path, body, seconds=4):
    """(statuses, longest gap of a stream, slowest /health) while three clients send the request for so long. A client that waits
    longer leaves."""
    statuses, until = collections.Counter(), time.monotonic() + 1 + seconds
    data = json.dumps(body).encode()

    def send():
        while time.monotonic() < until:
            try:
                statuses[post(port, path, data, wait=2 * seconds)[0]] += 1
            except OSError:
                statuses["left"] += 1

    with Neighbours(port) as n:
        time.sleep(1)
        n.gap = n.health = 0
        clients = [threading.Thread(target=send) for _ in range(3)]
        for c in clients:
            c.start()
        for c in clients:
            c.join()
    return dict(statuses), n.gap, n.health  # once the neighbours have what they wait for


# ---- clients that leave --------------------------------------------------------------------------------------------------

def ask_and_leave(port, n, data=b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"):
    for _ in range(n):
        c = socket.create_connection(("127.0.0.1", port))
        c.sendall(data)
        c.close()


def whole(path, fields):
    """A whole request on a connection that would be kept."""
    body = json.dumps(fields).encode()
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(body)) + body


def held(port):
    """Connections of the port that a process has open."""
    fields = [line.split() for line in list(open("/proc/net/tcp"))[1:]]
    return sum(int(f[1].split(":")[1], 16) == port and f[3] != "0A" and f[9] != "0" for f in fields)


def leave(port, n=700, within=60, data=None):
    """Seconds until none of the connections is held any more; None: they still are after so long."""
    ask_and_leave(port, n, *([data] if data else []))
    began = time.monotonic()
    while time.monotonic() - began < within:
        if held(port) == 0:
            return time.monotonic() - began
        time.sleep(0.02)
    return None


# ---- ambiguous grammars -----------------------------------------------------------------------------------------------------

AMBIGUOUS = ".*e.{500}!"  # each e may be the one that the end is counted from


def beside_four(port, grammar):
    """(seconds of a stream of 200 tokens, its longest gap) while four clients generate."""
    stop = threading.Event()

    def generate():
        while not stop.is_set():
            status, said = post(port, "/v1/completions", {"prompt": "x", "max_tokens": 300, **(grammar or {"ignore_eos": True})})
            assert status == 200, said

    clients = [threading.Thread(target=generate) for _ in range(4)]
    for c in clients:
        c.start()
    time.sleep(2)
    body = json.dumps({"prompt": "Once upon a time", "max_tokens": 200, "temperature": 0, "stream": True, "ignore_eos": True}).encode()
    request = urllib.request.Request("http://127.0.0.1:%d/v1/completions" % port, body, {"Content-Type": "application/json"})
    began, last, gap = time.monotonic(), None, 0
    with urllib.request.urlopen(request, timeout=300) as answer:
        for _ in answer:
            now = time.monotonic()
            gap, last = max(gap, now - last if last else 0), now
    seconds = time.monotonic() - began
    stop.set()
    for c in clients:
        c.join()
    return seconds, gap


# ---- the command line ----------------------------------------------------------------------------------------------------

class Server:
    def __init__(self, model, *options, stderr=None):
        command = [PROGRAM, "serve", "-m", model, "--port", "0", "--no-store", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, text=True)
        self.port = int(re.search(r":(\d+)/", self.process.stdout.readline()).group(1))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def ask(self, key, prompt):
        request = urllib.request.Request("http://127.0.0.1:%d/v1/completions" % self.port,
                                         json.dumps({"prompt": prompt, "max_tokens": 4, "temperature": 0}).encode(),
                                         {"Content-Type": "application/json", "Authorization": "Bearer " + key})
        return json.load(urllib.request.urlopen(request))["usage"]["prompt_tokens_details"]["cached_tokens"]


def requests(model):
    with Server(model) as s:
        for what, data, status in REQUESTS + OTHERS:
            got, body = response_to(s.port, data)
            message = json.loads(body)["error"]["message"] if is_error(body) else body.decode(errors="replace").strip()[:60]
            print("%-28s %s %s  %s" % (what[:28], got, "   " if got == status else "(!)", message))


def keys(model):
    with tempfile.NamedTemporaryFile("w", suffix=".keys") as file:
        file.write("first-key-0001\nsecond-key-0002\n")
        file.flush()
        for name, options in (("keys share prefixes (--share-prefixes; all keys did before they were kept apart)", ["--share-prefixes"]),
                              ("kept apart (the default)", [])):
            with Server(model, "--api-key-file", file.name, *options) as s:
                rows = attack(s.ask, "first-key-0001", "second-key-0002")
            print("%s: %d of %d words found" % (name, found(rows), len(rows)))
            print("  %-10s" % "letter" + "".join("%9s" % w for w in WORDS) + "   <- supposed; cached_tokens")
            for word, counts in rows:
                print("  %-10s" % word + "".join("%9d" % n for n in counts))


def slow(model):
    with Server(model) as s:
        health = lambda: urllib.request.urlopen("http://127.0.0.1:%d/health" % s.port, timeout=60).read()
        print("%d slow connections: the longest of the honest answers took %.3f s, of %d" % slow_headers(s.port, health))


def end(model):
    """Eight clients on four sessions ask for whole and streamed answers of 20 to 160 tokens, one after another."""
    for grace in (0, 1, 5, 30):
        with Server(model, "--grace", str(grace), "--sessions", "4") as s:
            ended, said, lock = [False], collections.Counter(), threading.Lock()

            def client(i):
                r = random.Random(i)
                while True:
                    stream, tokens, after = r.random() < 0.5, r.randrange(20, 160), False
                    body = {"prompt": "Once upon a time there was a fox who", "max_tokens": tokens, "temperature": 0, "ignore_eos": True, "stream": stream,
                            **({"stream_options": {"include_usage": True}} if stream else {})}
                    begun_before = not ended[0]
                    try:
                        request = urllib.request.Request("http://127.0.0.1:%d/v1/completions" % s.port, json.dumps(body).encode(), {"Content-Type": "application/json"})
                        text = urllib.request.urlopen(request, timeout=120).read().decode()
                        parts = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")] if stream else [json.loads(text)]
                        if "error" in parts[-1]:
                            what = "refused as the server stops"
                        elif parts[-1]["usage"]["completion_tokens"] == tokens:
                            what = "finished"
                        else:
                            reasons = [c["finish_reason"] for p in parts for c in p["choices"] if c["finish_reason"]]
                            what = "the text so far, with finish_reason" if reasons == ["length"] else "lost"
                    except urllib.error.HTTPError as e:
                        what = "refused as the server stops" if e.code == 503 else "status %d" % e.code
                    except OSError as e:
                        what = "lost" if begun_before else "not begun"
                    after = ended[0]
                    with lock:
                        if after and begun_before:
                            said[what] += 1
                    if after:
                        return

            clients = [threading.Thread(target=client, args=(i,)) for i in range(8)]
            for c in clients:
                c.start()
            time.sleep(4)
            ended[0] = True
            began = time.monotonic()
            s.process.send_signal(signal.SIGTERM)
            status = s.process.wait(120)
            seconds = time.monotonic() - began
            for c in clients:
                c.join()
        print("--grace %2d: ended with %d after %4.1f s; of %d that had begun: %s" % (grace, status, seconds, sum(said.values()), dict(said)), flush=True)


def long(model):
    with Server(model) as s:
        post(s.port, "/v1/completions", {"prompt": "a", "max_tokens": 64})
        for chat in (False, True):
            for name, unit in LONG_PROMPTS:
                print("%-10s %-12s status %d in %6.3f s; longest gap of a stream %.3f s, slowest /health %.3f s"
                      % ("chat" if chat else "completion", name, *long_prompt(s.port, unit, chat=chat)), flush=True)


def heavy(model):
    with Server(model) as s:
        post(s.port, "/v1/completions", {"prompt": "a", "max_tokens": 64})
        for name, path, body in [("none", "/v1/none", dict)] + HEAVY:
            statuses, gap, health = beside(s.port, path, body())
            print("%-26s longest gap of a stream %.3f s, slowest /health %.3f s, answers %s" % (name, gap, health, statuses), flush=True)


def gone(model):
    ask = {"prompt": "a", "max_tokens": 400}
    with Server(model) as s:
        for name, n, data in (("GET", 700, None), ("POST without its body", 700, POST + b"Content-Length: 100\r\n\r\n"),
                              ("POST", 700, whole("/v1/completions", ask)), ("a stream", 700, whole("/v1/completions", {**ask, "stream": True})),
                              ("100 grammars", 100, whole("/v1/completions", {**ask, "guided_regex": NESTED})),
                              ("12 of 7 MB", 12, whole("/tokenize", {"prompt": words(LONG), "with_pieces": True})),
                              ("20 watchers", 20, b"GET /v1/swiftlet/state HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")):
            seconds = leave(s.port, n, data=data)
            print("%-24s %s" % (name, "held after 60 s: %d" % held(s.port) if seconds is None else "all given back after %.2f s" % seconds), flush=True)


def grammars(model):
    with Server(model) as s:
        post(s.port, "/v1/completions", {"prompt": "a", "max_tokens": 64})
        for name, grammar in (("without a grammar", None), ("with " + AMBIGUOUS, {"guided_regex": AMBIGUOUS})):
            print("beside four %-18s a stream of 200 tokens took %.2f s, its longest gap %.3f s" % (name, *beside_four(s.port, grammar)), flush=True)


def forms(model):
    with Server(model) as s:
        for n in range(1, 1001):
            schema = {"type": "object", "properties": {"m%d_%d" % (n, i): {"type": "string", "pattern": "^[a-z]{1,%d}$" % (1 + n % 97)} for i in range(20)}}
            status, said = post(s.port, "/v1/completions", {"prompt": "x", "max_tokens": 8, "guided_json": schema})
            assert status == 200, said
            if n in (1, 10, 100, 250, 500, 750, 1000):
                with open("/proc/%d/statm" % s.process.pid) as f:
                    print("%4d forms: %d MiB resident" % (n, int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20), flush=True)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("requests", "keys", "slow", "end", "long", "heavy", "gone", "grammars", "forms"))
    p.add_argument("-m", "--model", default="builtin")
    o = p.parse_args()
    {"requests": requests, "keys": keys, "slow": slow, "end": end, "long": long, "heavy": heavy, "gone": gone, "grammars": grammars, "forms": forms}[o.what](o.model)
