#!/usr/bin/env python3
"""How `swiftlet serve` fares with many clients. Starts the servers it needs; prints a table, or --json for programs.

    batch.py scaling -m MODEL [--clients 1,4,8,16] [--methods vanilla,auto] [--seconds 20]
        tokens a second by number of clients: over one client's, and drafting over --method vanilla. The servers
        of both methods are open at once and measured in turn, so that a slow minute of the machine hits both.
    batch.py latency -m MODEL [--long 1500] [--requests 100]
        time to the first token of short prompts while long ones arrive, in chunks of the prefill
    batch.py prefix -m MODEL [--chats 16] [--system 1000]
        chats with one system prompt: what is computed, and how much memory they hold

Options behind -- go to the server: batch.py scaling -m model.gguf -- --threads 2 --context 1024
"""
import argparse, http.client, json, os, re, statistics, subprocess, sys, threading, time, urllib.parse, urllib.request

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from load import complete, resident

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("SWIFTLET", os.path.join(ROOT, "build", "swiftlet"))


class Server:
    """One `swiftlet serve` without a store and without searches while nobody asks, which would take the others' time."""

    def __init__(self, model, *options):
        command = [PROGRAM, "serve", "-m", model, "--port", "0", "--no-store", "--idle-search", "off", *options]
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

    def close(self):
        self.process.terminate()
        self.process.wait(60)


def text(words, seed):
    """Words that do not repeat another text's."""
    return " ".join("%d" % ((seed * 7919 + k * k * 31 + k * 17) % 9973) for k in range(words))


def of_tokens(server, n, seed):
    """A text of about n tokens."""
    per_word = complete(server.where, {"model": server.model, "prompt": text(32, seed), "max_tokens": 1})["usage"]["prompt_tokens"] / 32
    return text(max(1, int(n / per_word)), seed)


# ---- scaling ---------------------------------------------------------------------------------------------


def rate(server, clients, seconds, settle, tokens):
    """Tokens a second of so many clients, each with one request after another, once all of them decode."""
    marks, lock, until = [], threading.Lock(), time.monotonic() + settle + seconds

    def client(i):
        turn = 0
        while time.monotonic() < until:
            body = {"prompt": text(8, 1 + i + 100 * turn), "max_tokens": tokens, "temperature": 0}
            turn += 1

            def seen(n, _):
                with lock:
                    marks.append((time.monotonic(), n))
                return time.monotonic() > until

            server.stream(body, seen)

    threads = [threading.Thread(target=client, args=(i,), daemon=True) for i in range(clients)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return sum(n for at, n in marks if until - seconds <= at < until) / seconds


def scaling(o):
    methods = o.methods.split(",")
    servers = {m: Server(o.model, "--sessions", str(max(o.clients)), *([] if m == "auto" else ["--method", m]), *o.rest)
               for m in methods}
    for m in methods:  # costs and masks are learned before anything counts
        rate(servers[m], 1, o.warm, 0, o.tokens)
    rows = []
    for clients in o.clients:
        got = {m: [] for m in methods}
        for _ in range(o.rounds):
            for m in methods:
                got[m].append(rate(servers[m], clients, o.seconds, o.settle, o.tokens))
        row = {"clients": clients}
        for m in methods:
            row[m] = round(statistics.median(got[m]), 2)
            first = rows[0][m] if rows else row[m]
            row[m + "_over_first"] = round(row[m] / first, 2)
        if "vanilla" in methods and len(methods) > 1:
            other = [m for m in methods if m != "vanilla"][0]
            row["drafting_over_vanilla"] = round(statistics.median(a / b for a, b in zip(got[other], got["vanilla"])), 3)
        rows.append(row)
        print("  ".join("%s %s" % item for item in row.items()), file=sys.stderr, flush=True)
    for s in servers.values():
        s.close()
    return {"model": o.model, "rows": rows}


# ---- latency ---------------------------------------------------------------------------------------------


def at(sorted_list, share):
    return sorted_list[min(len(sorted_list) - 1, int(share * len(sorted_list)))]


def mark_first(marks):
    return lambda n, seconds: marks.append(seconds)


def latency(o):
    server = Server(o.model, *o.rest)
    longs = [of_tokens(server, o.long, 50 + i) for i in range(2)]
    alone = []  # a long prompt's rows a second, with nothing beside
    for i in range(3):
        prompt = of_tokens(server, o.long, 70 + i)
        usage = complete(server.where, {"model": server.model, "prompt": prompt, "max_tokens": 1})["usage"]
        rows = usage["prompt_tokens"] - usage["prompt_tokens_details"]["cached_tokens"]
        alone.append(rows / usage["swiftlet"]["seconds"]["prefill"])
    rows_a_second = statistics.median(alone)
    stop, first, decode = threading.Event(), [], []

    def arrivals(i):
        turn = 0
        while not stop.is_set():
            turn += 1
            server.stream({"prompt": "%d %d " % (i, turn) + longs[i % 2], "max_tokens": 8, "temperature": 0}, lambda n, s: stop.is_set())

    def decoder():
        """One that generates all the while, whose tokens the prompts delay."""
        turn = 0
        while not stop.is_set():
            turn += 1
            last = []

            def seen(n, s):
                if last:
                    decode.append(s - last[0])
                last[:] = [s]
                return stop.is_set()

            server.stream({"prompt": text(8, 900 + turn), "max_tokens": 256, "temperature": 0}, seen)

    threads = [threading.Thread(target=arrivals, args=(i,), daemon=True) for i in range(o.arrivals)]
    threads.append(threading.Thread(target=decoder, daemon=True))
    for t in threads:
        t.start()
    time.sleep(2)
    chunks = []
    for i in range(o.requests):
        mark = []
        chunks.append(server.state()["prefill_chunk"])
        server.stream({"prompt": text(6, 3000 + i), "max_tokens": 2, "temperature": 0}, mark_first(mark))
        first.append(mark[0])
        time.sleep(0.05 * (i % 7))
    stop.set()
    for t in threads:
        t.join(120)
    server.close()
    first.sort()
    decode.sort()
    chunk = statistics.median(chunks)
    seconds = chunk / rows_a_second
    return {"model": o.model, "long": o.long, "requests": len(first), "chunk": chunk, "chunk_seconds": round(seconds, 4),
            "first_token_p50": round(at(first, 0.5), 4), "first_token_p99": round(at(first, 0.99), 4),
            "p50_in_chunks": round(at(first, 0.5) / seconds, 2), "p99_in_chunks": round(at(first, 0.99) / seconds, 2),
            "between_tokens_p50": round(at(decode, 0.5), 4), "between_tokens_p99": round(at(decode, 0.99), 4)}


# ---- prefix ----------------------------------------------------------------------------------------------


def prefix(o):
    server = Server(o.model, "--sessions", str(o.chats), *o.rest)
    system = of_tokens(server, o.system, 5)
    time.sleep(0.5)
    before, free = resident(server.process.pid), server.state()["cache_free_tokens"]
    usages, lock, least = [], threading.Lock(), [free]

    def chat(i):
        body = {"model": server.model, "prompt": system + "\nUser %d: hello\n" % i, "max_tokens": o.tokens, "temperature": 0}
        usage = complete(server.where, body)["usage"]
        with lock:
            usages.append(usage)

    threads = [threading.Thread(target=chat, args=(i,)) for i in range(o.chats)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        least.append(server.state()["cache_free_tokens"])
        time.sleep(0.2)
    after = resident(server.process.pid)
    server.close()
    prompts = [u["prompt_tokens"] for u in usages]
    cached = [u["prompt_tokens_details"]["cached_tokens"] for u in usages]
    return {"model": o.model, "chats": o.chats, "prompt_tokens_each": max(prompts), "prompt_tokens_all": sum(prompts),
            "prompt_tokens_computed": sum(prompts) - sum(cached), "tokens_generated": sum(u["completion_tokens"] for u in usages),
            "cache_tokens_held_most": free - min(least), "cache_tokens_unshared": sum(u["total_tokens"] for u in usages),
            "memory_before_mib": before, "memory_after_mib": after}


# ---- the command line ------------------------------------------------------------------------------------


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["scaling", "latency", "prefix"])
    p.add_argument("-m", "--model", required=True)
    p.add_argument("--clients", default="1,4,8,16", help="numbers of clients, the first is what others are compared with (%(default)s)")
    p.add_argument("--methods", default="vanilla,auto", help="vanilla, auto or both (%(default)s)")
    p.add_argument("--rounds", type=int, default=3, help="turns of each method at each number; medians are given (%(default)s)")
    p.add_argument("--seconds", type=float, default=15, help="of a measurement (%(default)s)")
    p.add_argument("--settle", type=float, default=3, help="before one, until all clients decode (%(default)s)")
    p.add_argument("--warm", type=float, default=15, help="for which each server runs before anything counts (%(default)s)")
    p.add_argument("--tokens", type=int, default=128, help="of an answer (%(default)s)")
    p.add_argument("--long", type=int, default=1500, help="tokens of a long prompt (%(default)s)")
    p.add_argument("--arrivals", type=int, default=2, help="clients that send long prompts one after another (%(default)s)")
    p.add_argument("--requests", type=int, default=100, help="short ones (%(default)s)")
    p.add_argument("--chats", type=int, default=16)
    p.add_argument("--system", type=int, default=1000, help="tokens of the system prompt (%(default)s)")
    p.add_argument("--json", action="store_true")
    arguments = sys.argv[1:]
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    o = p.parse_args(arguments[:cut])
    o.rest = arguments[cut + 1:]
    o.clients = [int(n) for n in o.clients.split(",")]
    result = {"scaling": scaling, "latency": latency, "prefix": prefix}[o.what](o)
    if o.json or o.what != "scaling":
        print(json.dumps(result))


if __name__ == "__main__":
    main()
