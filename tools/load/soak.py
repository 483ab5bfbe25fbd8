#!/usr/bin/env python3
"""Two keys' clients on one server for long, which is killed now and then: nothing lost, memory level, keys apart.

    soak.py -m MODEL [--seconds 1800] [--kill 120] [--clients 3] [--attackers 0] [--longest 0] [-- OPTIONS OF THE SERVER]

Each key's clients ask for greedy texts, whole, streamed, and some that they hang up on; every text is compared with the
first that any life of the server gave. Every --kill seconds the server gets SIGKILL, in the middle of answers, or (each
third time) SIGTERM, and is started again on the same store. A key's masks must be there again,
no answer may be wrong, a key may see no mask of the other's, and after SIGTERM every answer that was begun must come,
whole or with finish_reason length. With --attackers a third key's clients take turns of
half a minute in which they send prompts of 7 MB, ambiguous expressions, a new schema each, broken requests, and connections that
they leave; honest seconds for 64 tokens are reported apart, beside them and without. With --longest the prompts have from 100 to
about so many tokens of licences that every Debian machine has, and a third of them begin alike, so that contexts come, are found
again, and go. Prints one JSON object; the exit status is 1 where something of that failed."""
import argparse, collections, http.client, json, os, random, re, signal, socket, subprocess, sys, tempfile, threading, time, urllib.error, urllib.request
from pathlib import Path

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = os.environ.get("SWIFTLET", os.path.join(ROOT, "build", "swiftlet"))
KEYS = {"admin": "soak-key-admin", "anna": "soak-key-anna-1", "ben": "soak-key-ben-22", "eve": "soak-key-eve-333"}
TURN = 30  # seconds in which attackers are silent, or are not
PROMPTS = ["Question: Tom has 3 apples and buys 4 more. How many apples has he now?\nAnswer:", "Once upon a time there was a",
           "def add(a, b):\n", "The capital of France is", "List the days of the week: Monday,"]
LICENCES = [Path("/usr/share/common-licenses") / name for name in ("GPL-3", "MPL-1.1", "LGPL-2.1", "GFDL-1.3", "GPL-2", "MPL-2.0")]


def long_prompts(longest, n=12, shortest=100):
    """Prompts of lengths in a row of equal ratios, at four characters a token."""
    text = "\n".join(path.read_text(encoding="utf-8", errors="replace") for path in LICENCES)
    sizes = [round(4 * shortest * (longest / shortest) ** (i / (n - 1))) for i in range(n)]
    begin = lambda i: 0 if i % 3 == 0 else 7919 * i % max(1, len(text) - sizes[i])
    return [text[begin(i):begin(i) + size] for i, size in enumerate(sizes)]


class Soak:
    def __init__(self, o, folder):
        self.o, self.folder = o, folder
        self.prompts = long_prompts(o.longest) if o.longest else PROMPTS
        self.lock, self.counts, self.wrong, self.known = threading.Lock(), collections.Counter(), [], {}
        self.resident, self.url, self.life, self.ending = [], None, 0, False
        self.began, self.seconds, self.attacks = time.monotonic(), {False: [], True: []}, collections.Counter()
        with open(os.path.join(folder, "keys"), "w") as f:
            f.write("%s admin\n%s\n%s\n%s\n" % tuple(KEYS.values()))

    def start(self):
        command = [PROGRAM, "serve", "-m", self.o.model, "--port", "0", "--store", os.path.join(self.folder, "masks.db"),
                   "--api-key-file", os.path.join(self.folder, "keys"), "--grace", "5", *self.o.rest]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        found = re.search(r"http://[^/]*:\d+", self.process.stdout.readline())
        if not found:
            sys.exit("soak.py: the server did not start: " + " ".join(command))
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.url, self.life, self.ending = found.group(0), self.life + 1, False

    def call(self, key, path, body=None):
        request = urllib.request.Request(self.url + path, data=json.dumps(body).encode() if body else None)
        request.add_header("Authorization", "Bearer " + KEYS[key])
        request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=1800) as answer:
            return answer.read().decode()

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def note_usage(self, usage):
        with self.lock:
            self.counts["prompt tokens"] += usage["prompt_tokens"]
            self.counts["cached tokens"] += usage["prompt_tokens_details"]["cached_tokens"]
            self.counts["tokens of the longest prompt"] = max(self.counts["tokens of the longest prompt"], usage["prompt_tokens"])

    def complain(self, *what):
        with self.lock:
            self.wrong.append([str(w)[:700] for w in what])

    def check(self, key, text, finished):
        """A text that was cut off by the server's end is the beginning of what it would have been."""
        with self.lock:
            first = self.known.setdefault(key, text) if finished else self.known.get(key, text)
        if first != text if finished else not (first.startswith(text) or text.startswith(first)):
            self.complain("another text", key, first, text)

    def ask(self, key, r):
        i, tokens = r.randrange(len(self.prompts)), r.choice((16, 64))
        body = {"prompt": self.prompts[i], "max_tokens": tokens, "temperature": 0, "metadata": {"task": "%s-%d" % (key, i)}}
        life, way, began, beside = self.life, r.randrange(5), time.monotonic(), self.attacked()
        try:
            if way == 0:
                self.hang_up(key, body)
                return self.count("hung up on")
            if way == 1:
                parts = [json.loads(l[6:]) for l in self.call(key, "/v1/completions", {**body, "stream": True}).splitlines()
                         if l.startswith("data: {")]
                if any("error" in p for p in parts):
                    return self.count("refused while ending")
                text = "".join(p["choices"][0]["text"] for p in parts if p["choices"])
                finished = parts and parts[-1]["choices"][0]["finish_reason"] is not None and not self.ending
            else:
                a = json.loads(self.call(key, "/v1/completions", body))
                self.note_usage(a["usage"])
                text, finished = a["choices"][0]["text"], not self.ending and a["usage"]["completion_tokens"] == tokens
            self.check("%d %d" % (i, tokens), text, finished)
            self.count("answered")
            if finished and tokens == 64 and beside == self.attacked():
                with self.lock:
                    self.seconds[beside].append(time.monotonic() - began)
        except urllib.error.HTTPError as e:
            self.count("refused") if e.code == 503 else self.complain(e.code, e.read())
        except (OSError, ValueError, KeyError, http.client.HTTPException) as e:
            if life == self.life and not self.ending and self.process.poll() is None:
                self.complain("an answer was lost while nobody was killed", repr(e))
            self.count("lost by a kill")

    def hang_up(self, key, body):
        data = json.dumps({**body, "stream": True, "max_tokens": 400}).encode()
        host, port = self.url[7:].split(":")
        with socket.create_connection((host, int(port)), timeout=60) as c:
            c.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAuthorization: Bearer "
                      + KEYS[key].encode() + b"\r\nContent-Length: %d\r\n\r\n" % len(data) + data)
            c.recv(200)

    def attacked(self):
        return self.o.attackers > 0 and int((time.monotonic() - self.began) / TURN) % 2 == 1

    def attack(self, kind, r):
        ask = {"prompt": "x", "max_tokens": 200}
        host, port = self.url[7:].split(":")
        if kind == "long":
            unit = r.choice((" ", "the cat ", "\u4e2d\u6587", "12345", "a", "\n"))
            self.call("eve", "/v1/completions", {"prompt": unit * (7000000 // len(json.dumps(unit)[1:-1]))})
        elif kind == "ambiguous":
            self.call("eve", "/v1/completions", {**ask, "guided_regex": ".*e.{500}!"})
        elif kind == "schema":
            self.call("eve", "/v1/completions", {**ask, "guided_json": {"type": "object", "properties": {
                "m%d" % r.randrange(10**9): {"type": "string", "pattern": "^[a-z]{1,%d}$" % r.randrange(1, 200)} for _ in range(20)}}})
        elif kind == "broken":
            with socket.create_connection((host, int(port)), timeout=60) as c:
                c.sendall(r.choice((b"GET /health HTTP/1.1\r\nfoo\r\n\r\n", b"\x16\x03\x01\x00\xc8", bytes(r.randrange(256) for _ in range(300)))))
                c.recv(200)
        else:
            for _ in range(50):
                with socket.create_connection((host, int(port)), timeout=60) as c:
                    c.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")

    def attacker(self, number, until):
        r = random.Random(number)
        while time.monotonic() < until:
            if not self.attacked() or self.ending or self.process.poll() is not None:
                time.sleep(0.1)
                continue
            kind = r.choice(("long", "ambiguous", "schema", "broken", "leave"))
            try:
                self.attack(kind, r)
            except (OSError, ValueError, http.client.HTTPException):
                pass  # refused, or killed
            with self.lock:
                self.attacks[kind] += 1

    def client(self, key, number, until):
        r = random.Random(number)
        while time.monotonic() < until:
            if self.process.poll() is None and not self.ending:
                self.ask(key, r)
            else:
                time.sleep(0.1)

    def masks(self):
        """{key: {task: tokens served}} as each key sees it."""
        seen = {}
        for key in ("anna", "ben"):
            masks = json.loads(self.call(key, "/v1/swiftlet/masks"))["data"]
            seen[key] = {m["task"]: m["tokens_served"] for m in masks}
            strange = [m for m in masks if not m["task"].startswith(key)]
            if strange:
                self.complain("a key sees another's", key, strange)
        return seen

    def look(self):
        with open("/proc/%d/statm" % self.process.pid) as f:
            self.resident.append((self.life, int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20))

    def end_life(self, number):
        """The next life must report what another process reads in the store."""
        self.ending = True
        ends = number % 3 == 2
        self.process.send_signal(signal.SIGTERM if ends else signal.SIGKILL)
        status = self.process.wait(120)
        if status != (0 if ends else -signal.SIGKILL):  # by itself, perhaps long before
            self.complain("the server ended with", status)
        listed = subprocess.run([PROGRAM, "masks", "list", "--store", os.path.join(self.folder, "masks.db")],
                                capture_output=True, text=True)
        stored = set(re.findall(r"\b(?:anna|ben)-\d+\b", listed.stdout))
        if listed.returncode != 0:
            self.complain("the store cannot be read after a kill", listed.stderr)
        self.start()
        there = set().union(*self.masks().values())
        if not stored <= there:
            self.complain("masks were lost", sorted(stored - there))

    def run(self):
        self.start()
        until = time.monotonic() + self.o.seconds
        clients = [threading.Thread(target=self.client, args=(key, 100 * k + n, until))
                   for k, key in enumerate(("anna", "ben")) for n in range(self.o.clients)]
        for c in clients:
            c.start()
        clients += [threading.Thread(target=self.attacker, args=(1000 + n, until)) for n in range(self.o.attackers)]
        for c in clients[len(clients) - self.o.attackers:]:
            c.start()
        number, killed = 0, time.monotonic()
        while time.monotonic() < until:
            time.sleep(1)
            self.look()
            if time.monotonic() - killed > self.o.kill and until - time.monotonic() > 5:
                self.end_life(number)
                number, killed = number + 1, time.monotonic()
        for c in clients:
            c.join()
        self.masks()
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(120):
            self.complain("the last life ended with", self.process.returncode)
        by_life = {}
        for life, mib in self.resident:
            by_life.setdefault(life, []).append(mib)
        spread = lambda x: {"n": len(x), **{name: round(sorted(x)[int(at * (len(x) - 1))], 3) for name, at in (("p50", .5), ("p99", .99), ("most", 1)) if x}}
        return {"seconds": self.o.seconds, "attacks": dict(self.attacks), "seconds_of_64_tokens": {
                    "without attackers": spread(self.seconds[False]), "beside them": spread(self.seconds[True])},
                 "lives": self.life, "kills": number, "requests": dict(self.counts),
                "resident_mib": {life: {"middle": x[len(x) // 2], "end": x[-1], "most": max(x)} for life, x in by_life.items()},
                "wrong": self.wrong}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", dest="model", default="builtin")
    p.add_argument("--seconds", type=float, default=1800)
    p.add_argument("--kill", type=float, default=120, help="seconds between two kills (120)")
    p.add_argument("--clients", type=int, default=3, help="clients of each key (3)")
    p.add_argument("--attackers", type=int, default=0, help="clients of a third key (0)")
    p.add_argument("--longest", type=int, default=0, help="approximate tokens of the longest prompt (0: only short prompts)")
    p.add_argument("rest", nargs="*")
    with tempfile.TemporaryDirectory() as folder:
        result = Soak(p.parse_args(), folder).run()
    print(json.dumps(result, indent=1))
    sys.exit(1 if result["wrong"] or not result["requests"].get("answered") else 0)


main()
