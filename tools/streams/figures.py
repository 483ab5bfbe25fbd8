#!/usr/bin/env python3
"""Mixed-task streams four ways: a fixed mask learned on the first task (Self-SD's way), SWIFT as published, swiftlet with
its bank, and swiftlet's second pass over the same stream; a table per task of M, alpha, matchness and optimization steps.
And drift: tokens from a change of text to the new search, false alarms per 10,000 tokens of an unchanged one.

    figures.py --program build/swiftlet tables STREAM.jsonl… [-m MODEL] [--budget inf]
    figures.py --program build/swiftlet two-tasks            the same on made-up weights whose right masks are known
    figures.py --program build/swiftlet drift [STREAM.jsonl]
"""
import argparse, itertools, json, os, random, re, subprocess, sys, tempfile, urllib.request

TWO = "synth:layers=12,dim=128,heads=4,ffn=256,vocab=512,tasks=2,plant=0.45,seed=1"
FIXED = ["--draft", "always", "--max-tree", "paper", "--skip-ratio", "0.45"]  # M and alpha compare at one size


def stream(o, path, *options):
    with tempfile.TemporaryDirectory() as folder:
        summary = os.path.join(folder, "summary.json")
        command = [o.program, "stream", "-m", o.model, "-i", path, "-o", os.path.join(folder, "out.jsonl"), "--summary", summary,
                   *FIXED, *options]
        r = subprocess.run(command, capture_output=True, text=True)
        if r.returncode:
            sys.exit(" ".join(command) + "\n" + r.stderr)
        with open(summary) as f:
            return json.load(f)


def first_task(path, folder):
    """The lines of the stream's first task, as a file."""
    with open(path) as f:
        lines = [l for l in f if l.strip()]
    task = json.loads(lines[0]).get("task")
    out = os.path.join(folder, "first.jsonl")
    with open(out, "w") as f:
        f.writelines(l for l in lines if json.loads(l).get("task") == task)
    return out, task


def four_ways(o, path):
    budget = ["--opt-budget", o.budget]
    with tempfile.TemporaryDirectory() as folder:
        first, task = first_task(path, folder)
        mask, store = os.path.join(folder, "mask.json"), os.path.join(folder, "masks.db")
        stream(o, first, "--preset", "paper", "--save-mask", mask)
        return [("fixed (learned on %s)" % task, stream(o, path, "--mask", mask, "--search", "off")),
                ("--preset paper", stream(o, path, "--preset", "paper")),
                ("swiftlet, its bank", stream(o, path, *budget, "--store", store)),
                ("swiftlet, second pass", stream(o, path, *budget, "--store", store))]


def show(v, digits=2):
    return "-" if v is None else "%.*f" % (digits, v)


def print_table(path, ways):
    print("\n%s\n" % os.path.basename(path))
    print("| task | way | tokens | M | alpha | matchness | optimization steps |\n|---|---|---:|---:|---:|---:|---:|")
    names = list(ways[0][1]["tasks"]) + ["total"]
    for name in names:
        for way, s in ways:
            t = s["total"] if name == "total" else s["tasks"][name]
            print("| %s | %s | %d | %s | %s | %s | %d |" % (name, way, t["tokens"], show(t["M"]), show(t["alpha"]), show(t["matchness"]),
                                                         t["optimize_steps"]))
    first, second = ways[2][1], ways[3][1]
    steps = first["total"]["optimize_steps"]
    print("\nsecond pass: %d of %d steps (%s)" % (second["total"]["optimize_steps"], steps,
                                                 "%.1f %%" % (100 * second["total"]["optimize_steps"] / steps) if steps else "-"))


def unlabelled(o, path, folder):
    """Two passes of swiftlet over the stream with its labels taken off: ([total, total], the store)."""
    store, bare = os.path.join(folder, "unlabelled.db"), os.path.join(folder, "unlabelled.jsonl")
    with open(path) as f, open(bare, "w") as out:
        for line in filter(str.strip, f):
            instance = json.loads(line)
            instance.pop("task", None)
            out.write(json.dumps(instance, ensure_ascii=False) + "\n")
    return [stream(o, bare, "--opt-budget", o.budget, "--store", store)["total"] for _ in range(2)], store


def print_unlabelled(totals):
    print("without labels: " + "; second pass: ".join("M %s, alpha %s, %d steps" % (show(t["M"]), show(t["alpha"]), t["optimize_steps"])
                                                      for t in totals))


def tables(o):
    for path in o.streams:
        print_table(path, four_ways(o, path))
        with tempfile.TemporaryDirectory() as folder:
            print_unlabelled(unlabelled(o, path, folder)[0])


def two_kinds(folder, n=160):
    """Prompts of the two halves of a tasks=2 vocabulary: ASCII bytes are the one's, Cyrillic ones the other's."""
    random.seed(3)
    path = os.path.join(folder, "two-tasks.jsonl")
    with open(path, "w") as f:
        for i in range(n):
            kind = random.choice(["latin", "cyrillic"])
            letters = "abcdefghijklmnopqrstuvwxyz" if kind == "latin" else "абвгдежзийклмнопрстуфхцчшщ"
            line = {"id": i, "task": kind, "prompt": "".join(random.choice(letters) for _ in range(24)), "max_tokens": 64}
            f.write(json.dumps(line, ensure_ascii=False) + "\n")
    return path


def planted(o):
    """The planted masks: [set, set] of (kind, block)."""
    text = subprocess.run([o.program, "inspect", o.model, "--json"], capture_output=True, text=True).stdout
    return [{("attention", b) for b in mask["attention"]} | {("MLP", b) for b in mask["mlp"]} for mask in json.loads(text)["planted"]]


def two_tasks(o):
    o.model = TWO
    with tempfile.TemporaryDirectory() as folder:
        path = two_kinds(folder)
        print_table(path, four_ways(o, path))
        totals, store = unlabelled(o, path, folder)
        print_unlabelled(totals)
        listed = json.loads(subprocess.run([o.program, "masks", "export", "--store", store], capture_output=True, text=True).stdout or "[]")
        listed = listed if isinstance(listed, list) else [listed]
        sets = planted(o)
        for m in sorted(listed, key=lambda m: -(m.get("tokens_served") or 0))[:4]:
            mine = set(("attention", b) for b in m["attention"]) | set(("MLP", b) for b in m["mlp"])
            print("a stored mask of %d served %d tokens: %s of the planted sub-layers of either kind" %
                  (len(mine), m.get("tokens_served") or 0, " and ".join("%d/%d" % (len(mine & s), len(s)) for s in sets)))


def accepted(usages):
    steps = sum(u["draft_steps"] for u in usages)
    return sum(u["accepted"] for u in usages) / steps if steps else float("nan")


def turn(s, first, second, served_least=1500, served_most=6000, chunk=8):
    """Serves `first()` until the search rests, then `second()` until drift is noticed or 2,000 tokens: (tokens after the turn or
    None, alpha before, alpha after)."""
    served = after = 0
    before, since = [], []
    while served < served_most and s.search() == "running" or served < served_least:
        u = s.complete(first(), 64, "one")
        before.append(u["swiftlet"])
        served += u["completion_tokens"]
    drifts = s.drifts()
    while s.drifts() == drifts and after < 2000:
        u = s.complete(second(), chunk, "one")
        since.append(u["swiftlet"])
        after += u["completion_tokens"]
    return (after if s.drifts() > drifts else None), accepted(before[-8:]), accepted(since)


class Service:
    def __init__(self, o, *options):
        self.o = o
        self.process = subprocess.Popen([o.program, "serve", "-m", o.model, "--port", "0", "--no-store", "--sessions", "1", *options],
                                        stdout=subprocess.PIPE, text=True)
        self.url = re.search(r"http://\S+", self.process.stdout.readline()).group(0).rstrip("/")
        self.name = json.load(urllib.request.urlopen(self.url + "/v1/models"))["data"][0]["id"]

    def complete(self, prompt, n, task):
        body = {"model": self.name, "prompt": prompt, "max_tokens": n, "temperature": 0, "metadata": {"task": task}}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        answer = json.load(urllib.request.urlopen(request))
        return {**answer["usage"], "swiftlet": answer["swiftlet"]}

    def drifts(self):
        text = urllib.request.urlopen(self.url + "/metrics").read().decode()
        return int(float(re.search(r"^swiftlet_drift_events_total (\S+)", text, re.M).group(1)))

    def search(self):
        return json.load(urllib.request.urlopen(self.url + "/v1/swiftlet/state"))["sessions"][0]["search"]

    def close(self):
        self.process.terminate()
        self.process.wait()


def word(kind):
    return "".join(random.choice("abcdefghijklmnopqrstuvwxyz" if kind == "latin" else "абвгдежзийклмнопрстуфхцчшщ") for _ in range(24))


def false_alarms(o, options, prompt, name):
    s, served = Service(o, *options), 0
    while served < o.tokens:
        served += s.complete(prompt(), 128, "one")["completion_tokens"]
    print("%s: %d false alarms in %d tokens of unchanged text (%.2f per 10,000)" % (name, s.drifts(), served, 1e4 * s.drifts() / served))
    s.close()


def drift(o):
    """One label for two kinds of text, so that only acceptance separates them."""
    options = ["--draft", "always", "--max-tree", "paper", "--opt-budget", o.budget]
    for path in o.streams:
        drift_on_stream(o, options, path)
    if o.streams:
        return
    o.model = TWO
    delays = []
    for seed in range(o.turns):
        random.seed(seed)
        s = Service(o, *options)
        delays.append(turn(s, lambda: word("latin"), lambda: word("cyrillic"))[0])
        s.close()
    delays.sort(key=lambda d: 1e9 if d is None else d)
    print("tokens from the change of text to the new search: median %s, all %s (None: not within 2,000)" %
          (delays[len(delays) // 2], delays))
    false_alarms(o, options, lambda: word("latin"), "made-up weights")


def drift_on_stream(o, options, path):
    """Every task of a stream turns into every other."""
    prompts = {}
    with open(path) as f:
        for line in f:
            d = json.loads(line)
            if "prompt" in d:
                prompts.setdefault(d.get("task"), []).append(d["prompt"])
    for a in prompts:
        for b in prompts:
            if a != b:
                s = Service(o, *options)
                first, second = itertools.cycle(prompts[a]), itertools.cycle(prompts[b])
                after, was, now = turn(s, lambda: next(first), lambda: next(second), chunk=32)
                print("%s -> %s: alpha %.2f, then %.2f: %s" % (a, b, was, now, "noticed after %d tokens" % after if after else
                                                              "not noticed in 2,000 tokens"), flush=True)
                s.close()
        only = itertools.cycle(prompts[a])
        false_alarms(o, options, lambda: next(only), a)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default="build/swiftlet", help="the program (%(default)s)")
    p.add_argument("--budget", default="inf", help="--opt-budget of the runs (%(default)s)")
    p.add_argument("--turns", type=int, default=7, help="drift: how often the made-up text changes (%(default)s)")
    p.add_argument("--tokens", type=int, default=20000, help="drift: tokens of unchanged text (%(default)s)")
    p.add_argument("-m", "--model", default="builtin", help="the model (%(default)s)")
    p.add_argument("what", choices=["tables", "two-tasks", "drift"], help="what to measure")
    p.add_argument("streams", nargs="*", help="tables: files of JSON lines; drift: such files, instead of made-up weights")
    o = p.parse_intermixed_args()
    {"tables": tables, "two-tasks": two_tasks, "drift": drift}[o.what](o)


if __name__ == "__main__":
    main()
