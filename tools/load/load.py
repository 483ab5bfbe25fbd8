#!/usr/bin/env python3
"""Load on a running `swiftlet serve`: N clients stream for some seconds; every text is checked against the one the
server gave alone. Prints one JSON object: requests done, lost and wrong, time to first token, the server's memory.

    load.py --url http://127.0.0.1:8080 [--clients 64] [--seconds 60] [--prompts FILE.jsonl] [--pid PID]
    load.py --url http://127.0.0.1:8080 --turn-two      what a chat's second turn saves by the kept cache
"""
import argparse, http.client, json, threading, time, urllib.parse, urllib.request


def resident(pid):
    """MiB, 0 when unknown."""
    try:
        with open("/proc/%s/status" % pid) as f:
            return int(next(l for l in f if l.startswith("VmRSS")).split()[1]) // 1024
    except (OSError, StopIteration):
        return 0


def stream(where, body, marks=None):
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=300)
    began = time.monotonic()
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError("status %d" % answer.status)
    text, done = "", False
    for line in answer:
        if line == b"data: [DONE]\n":
            done = True
        elif line.startswith(b"data: "):
            choice = json.loads(line[6:])["choices"][0]
            if choice["text"] and marks is not None:
                marks.append(time.monotonic() - began)
                marks = None
            text += choice["text"]
    connection.close()
    if not done:
        raise RuntimeError("the stream ended without [DONE]")
    return text


def complete(where, body):
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=300)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    if answer.status != 200:
        raise RuntimeError("status %d: %s" % (answer.status, answer.read()))
    return json.load(answer)


def turn_two(where, model, words):
    """Prefill seconds of a second turn with and without the first turn's cache, each the median of five; the texts must
    agree. Without: another text has gone before, so that nothing of this one is kept (use --sessions 1)."""
    seconds, texts = {True: [], False: []}, set()
    for i in range(5):
        for kept in (True, False):
            talk = " ".join("%d" % (1 + k % 9) for k in range(words))
            second = talk + "\nAnd then? "
            first = talk if kept else "Another text. " + talk
            body = {"model": model, "max_tokens": 8, "temperature": 0}
            complete(where, {**body, "prompt": first})
            answer = complete(where, {**body, "prompt": second})
            usage = answer["usage"]
            seconds[kept].append(answer["swiftlet"]["seconds"]["prefill"])
            texts.add(answer["choices"][0]["text"])
            cached = usage["prompt_tokens_details"]["cached_tokens"]
            if (cached > 0) != kept:
                raise RuntimeError("%d tokens were cached" % cached)
            if kept:
                held, prompt = cached, usage["prompt_tokens"]
    print(json.dumps({"model": model, "prompt_tokens": prompt, "cached_tokens": held, "prefill_with": sorted(seconds[True])[2],
                      "prefill_without": sorted(seconds[False])[2], "same_text": len(texts) == 1}))
    return 0 if len(texts) == 1 else 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--url", required=True, help="the server's address, without /v1")
    p.add_argument("--clients", type=int, default=64, help="clients at a time (%(default)s)")
    p.add_argument("--seconds", type=float, default=60, help="seconds of load (%(default)s)")
    p.add_argument("--prompts", help="a file of JSON lines with a prompt each (some short prompts)")
    p.add_argument("--pid", help="the server's process id, to report its memory")
    p.add_argument("--tokens", type=int, default=48, help="tokens that each request asks for (%(default)s)")
    p.add_argument("--turn-two", action="store_true")
    p.add_argument("--words", type=int, default=700, help="length of the first turn, for --turn-two")
    o = p.parse_args()
    where = urllib.parse.urlparse(o.url)
    model = json.load(urllib.request.urlopen(o.url + "/v1/models"))["data"][0]["id"]
    if o.turn_two:
        return turn_two(where, model, o.words)
    prompts = ["Once upon a time", "Question: Tom has 3 apples and buys 4. How many?\nAnswer:"]
    if o.prompts:
        with open(o.prompts) as f:
            prompts = [json.loads(l)["prompt"] for l in f if l.strip() and "prompt" in json.loads(l)][:24]
    bodies = [{"model": model, "prompt": q, "max_tokens": o.tokens, "stream": True, "temperature": 0.7 * (i % 2), "seed": i}
              for i, q in enumerate(prompts)]
    want = [stream(where, b) for b in bodies]
    first, counts, lock = [], {"done": 0, "lost": 0, "wrong": 0}, threading.Lock()
    memory = [resident(o.pid)]
    until = time.monotonic() + o.seconds

    def client(i):
        k = i
        while time.monotonic() < until:
            k += 1
            try:
                text = stream(where, bodies[k % len(bodies)], first)
                what = "done" if text == want[k % len(want)] else "wrong"
            except Exception:
                what = "lost"
            with lock:
                counts[what] += 1

    threads = [threading.Thread(target=client, args=(i,)) for i in range(o.clients)]
    for t in threads:
        t.start()
    while any(t.is_alive() for t in threads):
        time.sleep(min(5, max(0.1, o.seconds / 12)))
        memory.append(resident(o.pid))
    first.sort()
    at = lambda q: round(first[min(len(first) - 1, int(q * len(first)))], 3) if first else None
    print(json.dumps({"clients": o.clients, "seconds": o.seconds, **counts, "first_token_p50": at(0.5), "first_token_p99": at(0.99),
                      "memory_start_mib": memory[0], "memory_warm_mib": memory[len(memory) // 4], "memory_end_mib": memory[-1]}))
    return 1 if counts["lost"] or counts["wrong"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
