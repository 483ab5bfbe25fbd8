#!/usr/bin/env python3
"""Mixed traffic for long: completions and chats, whole and streamed, greedy and sampled, with logprobs, tools, several
choices, predictions, clients that hang up, bad requests. Ten seconds, or with the long tests half an hour
(SWIFTLET_SOAK sets the seconds): texts with a seed stay what they were at first, nothing fails, threads stay as many as
there are sessions and kinds of text, and in a long one memory does not grow: a short one is all beginning."""
import collections, json, os, random, socket, threading, time
from service import FULL, MODEL, Server

SECONDS = float(os.environ.get("SWIFTLET_SOAK", "1800" if FULL else "10"))
PROMPTS = ["Question: Tom has 3 apples and buys 4 more. How many apples has he now?\nAnswer:", "Once upon a time",
           "German: Ein Mann steht auf der Straße.\nEnglish:", "def add(a, b):\n", "word " * 300]
LONG = 600  # seconds: by half time every session has served every task
SESSIONS = 32
SEARCHES = 8  # that are kept beside the sessions' own (streams/memory/memory_state.h)
known, lock, counts, problems = {}, threading.Lock(), collections.Counter(), []


def same(key, value):
    with lock:
        first = known.setdefault(key, value)
    assert first == value, (key, first, value)


def whole(s, r):
    i, n, seed = r.randrange(len(PROMPTS)), r.choice((1, 1, 2)), r.randrange(3)
    fields = {"max_tokens": r.choice((8, 40)), "temperature": r.choice((0, 0.8)), "seed": seed, "n": n}
    extra = r.choice(({}, {"logprobs": 3}, {"prediction": {"type": "content", "content": "4 apples and a story"}}))
    texts = [c["text"] for c in s.complete(PROMPTS[i], metadata={"task": "soak-%d" % i}, **fields, **extra)["choices"]]
    same(json.dumps([i, fields], sort_keys=True), texts)


def streamed(s, r):
    i = r.randrange(len(PROMPTS))
    same(json.dumps([i, "stream"]), s.stream_text(PROMPTS[i], max_tokens=30, temperature=0))


def chat(s, r):
    tools = r.choice(({}, {"tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}]}))
    status, _, a = s.call("POST", "/v1/chat/completions", {"model": MODEL, "max_tokens": 12, "temperature": 0, **tools,
                                                           "messages": [{"role": "user", "content": "What is 2 + 3?"}]})
    assert status == 200, a
    same("chat with tools" if tools else "chat", a["choices"][0]["message"]["content"])


def hang_up(s, r):
    body = json.dumps({"model": MODEL, "prompt": "Once", "max_tokens": 600, "stream": True, "temperature": 1}).encode()
    with socket.create_connection(("127.0.0.1", s.port)) as c:
        c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n" % len(body) + body)
        c.recv(r.choice((1, 400)))


def bad(s, r):
    assert s.call("POST", "/v1/completions", {"prompt": 7})[0] == 400
    assert s.call("POST", "/v1/audio/speech", {"input": "x"})[0] in (404, 501)


def client(s, number, until):
    r, done = random.Random(number), 0
    while time.monotonic() < until and not problems:
        what = r.choices((whole, streamed, chat, hang_up, bad), (6, 3, 2, 1, 1))[0]
        try:
            what(s, r)
        except Exception as e:
            problems.append((what.__name__, repr(e)[:600]))
        with lock:
            counts[what.__name__] += 1


def resident(pid):
    with open("/proc/%d/statm" % pid) as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


def threads_of(pid):
    return len(os.listdir("/proc/%d/task" % pid))


def main():
    with Server("--queue", "64", "--sessions", str(SESSIONS)) as s:
        others = threads_of(s.process.pid)
        half = time.monotonic() + SECONDS / 2
        middle = None
        threads = [threading.Thread(target=client, args=(s, i, half + SECONDS / 2)) for i in range(6)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            time.sleep(0.2)
            if middle is None and time.monotonic() > half:
                middle = resident(s.process.pid)
        s.wait_until_idle()  # those who hung up are let go
        end, more = resident(s.process.pid), threads_of(s.process.pid) - others
        assert not problems, problems[:3]
        idle = os.cpu_count()  # those that learn while no request runs: one that runs passes, and its pool
        assert more <= SEARCHES + idle, "%d threads more than at first" % more
        assert SECONDS < LONG or end < 1.25 * middle + 32, "memory grew from %d MiB to %d" % (middle, end)
        print("soak passed: %.0f s, %s; %d texts with a seed, each always the same; %d MiB half way, %d at the end"
              % (SECONDS, dict(counts), len(known), middle, end))


if __name__ == "__main__":
    main()
