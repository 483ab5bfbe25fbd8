#!/usr/bin/env python3
"""How `swiftlet serve` fares with many clients. Starts the servers it needs; prints a table, or --json for programs.

    batch.py scaling -m MODEL[,MODEL...] [-i PROMPTS.jsonl] [--clients 1,4,8,16] [--methods vanilla,auto]
        tokens a second by number of clients, and drafting over --method vanilla: the median of the --rounds' ratios, and
        the least and the greatest of them. Each measurement has a server of its own, fresh and alone, which answers every
        prompt once; the methods take turns, and who begins changes. A line is printed as soon as it is measured.
    batch.py latency -m MODEL [--long 1500] [--limit 110]
        time to the first token of short prompts while long ones arrive, in chunks of the prefill
    batch.py prefix -m MODEL [--chats 16] [--system 1000]
        chats with one system prompt: what is computed, and how much memory they hold
    batch.py restart -m MODEL [--system 1000]
        the first token after a restart where a system prompt was kept on disk (--prompt-cache), and where it was not
    batch.py idle -m MODEL [--seconds 60]
        proposals while no request runs, and how much later a first token comes for them, in tokens

Options behind -- go to the server: batch.py scaling -m model.gguf -- --threads 2 --context 1024
"""
import argparse, http.client, json, os, re, statistics, subprocess, sys, tempfile, threading, time
import urllib.error, urllib.parse, urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from load import complete, resident

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("SWIFTLET", os.path.join(ROOT, "build", "swiftlet"))


class Server:
    """One `swiftlet serve` without a store, as a rule without learning while nobody asks, which would take time that is measured.
    idle="default" leaves it on: then draft weights are made before the first request."""

    def __init__(self, model, *options, idle="off"):
        learning = [] if idle == "default" else ["--idle-learning", idle]
        command = [PROGRAM, "serve", "-m", model, "--port", "0", "--no-store", *learning, *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        found = re.search(r"http://[^/]*:\d+", self.process.stdout.readline())
        if not found:
            sys.exit("batch.py: the server did not start: " + " ".join(command))
        self.url = found.group(0)
        self.where = urllib.parse.urlparse(self.url)
        self.model = self.get("/v1/models")["data"][0]["id"]

    def get(self, path):
        return json.load(urllib.request.urlopen(self.url + path))

    def state(self):
        return self.get("/v1/swiftlet/state")

    def stream(self, body, on_tokens):
        """on_tokens(n, seconds since the request) as they come; one that returns True hangs up."""
        connection = http.client.HTTPConnection(self.where.hostname, self.where.port, timeout=600)
        began = time.monotonic()
        connection.request("POST", "/v1/completions", json.dumps({"model": self.model, "stream": True, **body}),
                           {"Content-Type": "application/json", "Swiftlet-Detail": "tokens"})
        answer = connection.getresponse()
        if answer.status != 200:
            raise RuntimeError("status %d: %s" % (answer.status, answer.read()[:200]))
        for line in answer:
            if line.startswith(b"data: {"):
                tokens = (json.loads(line[6:]).get("swiftlet") or {}).get("tokens")
                if tokens and on_tokens(len(tokens), time.monotonic() - began):
                    break
        connection.close()

    def metric(self, name):
        text = urllib.request.urlopen(self.url + "/metrics").read().decode()
        return float(re.search(r"^swiftlet_%s (\S+)$" % name, text, re.M).group(1))

    def busy(self):
        return self.metric("sessions_busy")

    def processor(self):
        """Seconds of processor time so far."""
        with open("/proc/%d/stat" % self.process.pid) as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def settle(self, limit=180):
        """Until it does nothing: the draft weights is made while no request runs."""
        until, before = time.monotonic() + limit, -1.0
        while time.monotonic() < until and (self.busy() or self.processor() > before + 0.1):
            before = self.processor()
            time.sleep(1)

    def close(self):
        self.process.kill()
        self.process.wait()


def text(words, seed):
    """Words that do not repeat another text's."""
    return " ".join("%d" % ((seed * 7919 + k * k * 31 + k * 17) % 9973) for k in range(words))


def of_tokens(server, n, seed):
    """A text of about n tokens."""
    per_word = complete(server.where, {"model": server.model, "prompt": text(32, seed), "max_tokens": 1})["usage"]["prompt_tokens"] / 32
    return text(max(1, int(n / per_word)), seed)


# ---- scaling ---------------------------------------------------------------------------------------------

continued = set()  # models without a chat template


def few(client, turn):
    """A prompt of four tokens, no other's."""
    return [3 + (client * 131 + turn * 977 + k * 37 + client * k) % 250 for k in range(4)]


def read_bodies(path, tokens):
    """Requests as (endpoint, body)."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            item = json.loads(line)
            body = {"max_tokens": tokens or item.get("max_tokens", 128), "temperature": 0}
            if "messages" in item:
                yield "/v1/chat/completions", {**body, "messages": item["messages"]}
            else:
                yield "/v1/completions", {**body, "prompt": item["prompt"]}


def answer(server, path, body):
    """Tokens of an answer. A model without a chat template continues the last message's text, as in `bench real`."""
    request = urllib.request.Request(server.url + path, json.dumps({"model": server.model, **body}).encode(),
                                     {"Content-Type": "application/json"})
    try:
        return json.load(urllib.request.urlopen(request, timeout=600))["usage"]["completion_tokens"]
    except urllib.error.HTTPError as e:
        error = json.load(e)["error"]
        if error["code"] != "no_chat_template":
            raise RuntimeError("status %d: %s" % (e.code, error["message"]))
    continued.add(server.model)
    prompt = body.pop("messages")[-1]["content"]
    return answer(server, "/v1/completions", {**body, "prompt": prompt})


def rate(model, method, clients, bodies, options):
    """Tokens a second of a fresh server that so many clients ask all of it, each prompt once."""
    how = [] if method == "auto" else ["--method", method]
    server = Server(model, "--sessions", str(clients), *how, *options, idle="default")
    server.settle()
    left, lock, tokens, failed = list(bodies), threading.Lock(), [], []

    def client():
        while True:
            with lock:
                if not left or failed:
                    return
                path, body = left.pop(0)
            try:
                tokens.append(answer(server, path, dict(body)))
            except Exception as e:
                failed.append(e)

    began = time.monotonic()
    threads = [threading.Thread(target=client) for _ in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    seconds = time.monotonic() - began
    server.close()
    if failed:
        sys.exit("batch.py: a client failed: %s" % failed[0])
    return sum(tokens) / seconds


def compare(model, clients, methods, bodies, o):
    """A row: the median of each method's rates, and of auto's over vanilla's round by round."""
    got = {m: [] for m in methods}
    for turn in range(o.rounds):
        for m in methods if turn % 2 == 0 else reversed(methods):
            got[m].append(rate(model, m, clients, bodies, o.rest))
    row = {"model": os.path.basename(model), "clients": clients, **{m: round(statistics.median(got[m]), 2) for m in methods}}
    if set(methods) == {"vanilla", "auto"}:
        ratios = [a / b for a, b in zip(got["auto"], got["vanilla"])]
        row.update(auto_over_vanilla=round(statistics.median(ratios), 3), least=round(min(ratios), 3), most=round(max(ratios), 3))
    return row


def scaling(o):
    rows, bodies = [], list(read_bodies(o.input, o.tokens))
    for model in o.model.split(","):
        for clients in o.clients:
            rows.append(compare(model, clients, o.methods.split(","), bodies, o))
            first = next(r for r in rows if r["model"] == rows[-1]["model"])
            rows[-1].update({m + "_over_first": round(rows[-1][m] / first[m], 2) for m in o.methods.split(",")})
            print(", ".join("%s %s" % pair for pair in rows[-1].items()), file=sys.stderr, flush=True)
    without = {"no chat template": "%s: the last message's text is continued" % ", ".join(sorted(continued))} if continued else {}
    return {"prompts": len(bodies), "rounds": o.rounds, **without, "rows": rows}


# ---- latency ---------------------------------------------------------------------------------------------


def at(sorted_list, share):
    return sorted_list[min(len(sorted_list) - 1, int(share * len(sorted_list)))]


def mark_first(marks):
    return lambda n, seconds: marks.append(seconds)


def latency(o):
    server = Server(o.model, *o.rest)
    server.settle()
    longs = [of_tokens(server, o.long, 50 + i) for i in range(2)]
    alone = []  # a long prompt's rows a second, with nothing beside
    for i in range(2):
        prompt = of_tokens(server, min(o.long, 512), 70 + i)
        answer = complete(server.where, {"model": server.model, "prompt": prompt, "max_tokens": 1})
        usage = answer["usage"]
        rows = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
        alone.append(rows / answer["swiftlet"]["seconds"]["prefill"])
    rows_a_second = max(alone)  # the first pays for memory that is touched for the first time
    stop, first, decode, arrived = threading.Event(), [], [], []

    def endlessly(send):
        turn = 0
        while not stop.is_set():
            turn += 1
            try:
                send(turn)
            except (OSError, http.client.HTTPException):
                if not stop.is_set():
                    raise

    def arrivals(i):
        def send(turn):
            server.stream({"prompt": "%d %d " % (i, turn) + longs[i % 2], "max_tokens": 8, "temperature": 0}, lambda n, s: stop.is_set())
            arrived.append(i)

        return lambda: endlessly(send)

    def decoder():
        """One that generates all the while, whose tokens the prompts delay."""
        def send(turn):
            last = []

            def seen(n, s):
                if last:
                    decode.append(s - last[0])
                last[:] = [s]
                return stop.is_set()

            server.stream({"prompt": few(200, turn), "max_tokens": 256, "temperature": 0}, seen)

        endlessly(send)

    for work in [arrivals(i) for i in range(o.arrivals)] + [decoder]:
        threading.Thread(target=work, daemon=True).start()
    time.sleep(2)
    chunks, until = [], time.monotonic() + o.limit
    while len(first) < o.requests and time.monotonic() < until:
        mark = []
        chunks.append(server.state()["prefill_chunk"])
        server.stream({"prompt": few(100, len(first)) * 3, "max_tokens": 2, "temperature": 0}, mark_first(mark))
        first.append(mark[0])
        time.sleep(0.05 * (len(first) % 7))
    stop.set()
    server.close()
    first.sort()
    decode.sort()
    chunk = statistics.median(chunks)
    seconds = chunk / rows_a_second
    return {"model": o.model, "long": o.long, "long_prompts_done": len(arrived), "requests": len(first), "chunk": chunk,
            "chunk_seconds": round(seconds, 4), "first_token_p50": round(at(first, 0.5), 4), "first_token_p99": round(at(first, 0.99), 4),
            "p50_in_chunks": round(at(first, 0.5) / seconds, 2), "p99_in_chunks": round(at(first, 0.99) / seconds, 2),
            "between_tokens_p50": round(at(decode, 0.5), 4), "between_tokens_p99": round(at(decode, 0.99), 4)}


# ---- prefix ----------------------------------------------------------------------------------------------


def prefix(o):
    server = Server(o.model, "--sessions", str(o.chats), *o.rest)
    server.settle()
    system = of_tokens(server, o.system, 5)
    before, free = resident(server.process.pid), server.state()["cache_free_tokens"]
    usages, least = [], [free]

    def chat(i):
        body = {"model": server.model, "prompt": system + "\nUser %d: hello\n" % i, "max_tokens": o.tokens or 32, "temperature": 0}
        usages.append(complete(server.where, body)["usage"])

    threads = [threading.Thread(target=chat, args=(i,)) for i in range(o.chats)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        least.append(server.state()["cache_free_tokens"])
        time.sleep(0.2)
    after = resident(server.process.pid)
    server.close()
    if len(usages) < o.chats:
        sys.exit("batch.py: %d of %d chats were answered" % (len(usages), o.chats))
    prompts = [u["prompt_tokens"] for u in usages]
    cached = [u["prompt_tokens_details"]["cached_tokens"] for u in usages]
    return {"model": o.model, "chats": o.chats, "prompt_tokens_each": max(prompts), "prompt_tokens_all": sum(prompts),
            "prompt_tokens_computed": sum(prompts) - sum(cached), "tokens_generated": sum(u["completion_tokens"] for u in usages),
            "cache_tokens_held_most": free - min(least), "cache_tokens_unshared": sum(u["total_tokens"] for u in usages),
            "memory_before_mib": before, "memory_after_mib": after}


# ---- restart ---------------------------------------------------------------------------------------------


def first_token(o, system, question, *options):
    """(seconds, cached tokens, text) of a question behind the system prompt, asked of a server that has just begun."""
    server = Server(o.model, *options, *o.rest)
    try:
        body = {"model": server.model, "prompt": "%s\nQuestion: %s\nAnswer:" % (system, question), "max_tokens": 1, "temperature": 0}
        began = time.monotonic()
        answer = complete(server.where, body)
        seconds = time.monotonic() - began
        if options:
            complete(server.where, {**body, "prompt": body["prompt"] + " yes"})  # what comes twice is kept
            server.process.terminate()  # and written before it ends
            server.process.wait()
        return seconds, answer["usage"]["prompt_tokens_details"]["cached_tokens"], answer["choices"][0]["text"]
    finally:
        server.close()


def restart(o):
    server = Server(o.model)
    system = of_tokens(server, o.system, 5)
    server.close()
    kept, computed, found = [], [], set()
    with tempfile.TemporaryDirectory() as folder:
        first_token(o, system, "Who?", "--prompt-cache", folder)
        size = sum(os.path.getsize(os.path.join(folder, name)) for name in os.listdir(folder))
        for question in ("What?", "Where?", "When?"):
            seconds, cached, text = first_token(o, system, question, "--prompt-cache", folder)
            plain, _, same = first_token(o, system, question)
            if text != same:
                sys.exit("batch.py: another text after a restart: %r, %r" % (text, same))
            kept.append(seconds)
            computed.append(plain)
            found.add(cached)
    return {"model": o.model, "system_tokens": o.system, "tokens_from_disk": max(found), "files_mib": size >> 20,
            "first_token_kept": statistics.median(kept), "first_token_computed": statistics.median(computed)}


# ---- idle ------------------------------------------------------------------------------------------------


def idle(o):
    """A server that does not search while no request runs, then one that does."""
    out = {"model": o.model, "seconds": o.seconds}
    median = {}
    for which in ("off", "inf"):
        server, first = Server(o.model, *o.rest, idle=which), []
        complete(server.where, {"model": server.model, "prompt": text(20, 1), "max_tokens": 200, "temperature": 0})
        if which == "inf":
            before = server.metric("idle_optimize_steps_total")
            time.sleep(o.seconds)
            out["proposals"] = int(server.metric("idle_optimize_steps_total") - before)
        else:
            server.settle()
        for turn in range(o.requests):
            mark = []
            time.sleep(1 + 0.1 * (turn % 7))
            server.stream({"prompt": few(turn % 60, turn), "max_tokens": 2, "temperature": 0}, mark_first(mark))
            first.append(mark[0])
        median[which] = statistics.median(first)
        if which == "off":
            answers = [complete(server.where, {"model": server.model, "prompt": few(70, turn), "max_tokens": 9,
                                               "temperature": 1}) for turn in range(5)]
            token = statistics.median(a["swiftlet"]["seconds"]["decode"] / 8 for a in answers)
        server.close()
    out.update(requests=o.requests, first_token_searching=round(median["inf"], 4), first_token_otherwise=round(median["off"], 4),
               seconds_a_token=round(token, 4), later_in_tokens=round((median["inf"] - median["off"]) / token, 2))
    return out


# ---- the command line ------------------------------------------------------------------------------------


def table(rows):
    """Prints objects with the same members, a line each."""
    cells = [list(rows[0])] + [[str(v) for v in row.values()] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(cells[0]))]
    for line in cells:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths)))


def show(result):
    rows = result.pop("rows", None)
    for name, value in result.items():
        print("%-24s %s" % (name, value))
    if rows:
        table(rows)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["scaling", "latency", "prefix", "restart", "idle"])
    p.add_argument("-m", "--model", required=True, help="the model; for scaling several, with commas between")
    p.add_argument("-i", "--input", default=os.path.join(ROOT, "tools", "chat.jsonl"), help="prompts of scaling (tools/chat.jsonl)")
    p.add_argument("--clients", default="1,4,8,16", help="numbers of clients; the others are compared with the first (%(default)s)")
    p.add_argument("--methods", default="vanilla,auto", help="vanilla, auto or both (%(default)s)")
    p.add_argument("--rounds", type=int, default=3, help="turns of each method at each number of clients; medians are reported (%(default)s)")
    p.add_argument("--seconds", type=float, default=60, help="seconds of searching while idle (60)")
    p.add_argument("--tokens", type=int, help="tokens of an answer, at most (scaling: each prompt's own limit; prefix: 32)")
    p.add_argument("--long", type=int, default=1500, help="tokens of a long prompt (%(default)s)")
    p.add_argument("--arrivals", type=int, default=2, help="clients that send long prompts one after another (%(default)s)")
    p.add_argument("--requests", type=int, help="short requests, at most (100; idle: 20)")
    p.add_argument("--limit", type=float, default=110, help="seconds in which the requests are sent (%(default)s)")
    p.add_argument("--chats", type=int, default=16, help="chats at once (%(default)s)")
    p.add_argument("--system", type=int, default=1000, help="tokens of the system prompt (%(default)s)")
    p.add_argument("--json", action="store_true")
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    o = p.parse_args(arguments[:cut])
    o.rest = arguments[cut + 1:]
    o.requests = o.requests or (20 if o.what == "idle" else 100)
    o.clients = [int(n) for n in o.clients.split(",")]
    result = {"scaling": scaling, "latency": latency, "prefix": prefix, "restart": restart, "idle": idle}[o.what](o)
    if o.json:
        print(json.dumps(result))
    else:
        show(result)


if __name__ == "__main__":
    main()
