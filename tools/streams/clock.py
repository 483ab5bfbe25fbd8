#!/usr/bin/env python3
"""Streams of several kinds of text on a made-up clock, so that figures repeat: what the bank, drift and the search are worth.

Each seed draws four tasks of the prompts that are given and makes of them
    mixed       all four shuffled, with labels; and a second pass in another order, with the store that the first left
    unlabelled  the same without labels
    abrupt      the first task's prompts, then the second's, under one label
    among       the same turn, while every other text is a third task's, with its label
    gradual     from the first to the second, little by little, under one label
and serves them by `swiftlet bench learn -m MODEL -i STREAM --slope X`. With --made-up the tasks are those of a made-up model
whose right masks are known. A row each stream, means over seeds and standard deviation of one: speed over plain decoding,
that of the second half, unseen matchness (the mean over tasks), proposals, least speed; of abrupt turns the tokens until drift was noticed, and
on all streams the alarms before any turn.

    clock.py --program build/swiftlet --seeds 3 STREAM.jsonl…
    clock.py --program build/swiftlet --against OTHER/swiftlet --seeds 3 STREAM.jsonl…    differences, seed by seed
"""
import argparse, json, os, random, statistics, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

MADE_UP = "synth:layers=16,dim=64,heads=2,ffn=128,vocab=512,dtype=f32,tasks=2,plant=0.45,seed=%d"
LETTERS = {"latin": "abcdefghijklmnopqrstuvwxyz", "cyrillic": "абвгдежзийклмнопрстуфхцчшщ"}
FIGURES = ["speed", "late", "matchness", "least", "proposals", "delay", "alarms"]


def read_prompts(paths):
    """Prompts by task and file: one name may stand for two kinds of text."""
    prompts = {}
    for path in paths:
        with open(path) as f:
            for d in map(json.loads, filter(str.strip, f)):
                if "prompt" in d and len(d["prompt"]) < 1200:
                    prompts.setdefault("%s of %s" % (d.get("task"), os.path.basename(path)), []).append(d["prompt"])
    return {task: p for task, p in prompts.items() if len(p) >= 8}


def made_up_prompts(rng):
    return {task: ["".join(rng.choice(letters) for _ in range(24)) for _ in range(64)] for task, letters in LETTERS.items()}


def make_streams(prompts, rng, o):
    """{name: [(task, label, prompt)]}; of abrupt turns the second task begins in the middle."""
    tasks = sorted(prompts)
    rng.shuffle(tasks)
    four = tasks[:4]
    some = {t: [rng.choice(prompts[t]) for _ in range(o.each)] if len(prompts[t]) < o.each else rng.sample(prompts[t], o.each) for t in four}
    mixed = [(t, t, p) for t in four for p in some[t]]
    orders = [rng.sample(mixed, len(mixed)) for _ in range(2)]
    a, b = four[:2]
    n = 2 * o.each
    abrupt = [(t, "one", rng.choice(prompts[t])) for t in [a] * n + [b] * n]
    gradual = [(t, "one", rng.choice(prompts[t])) for t in (b if rng.random() < i / (2 * n - 1) else a for i in range(2 * n))]
    bare = [[(t, None, p) for t, _, p in order] for order in orders]
    third = four[2 % len(four)]
    among = [x for turning in abrupt for x in (turning, (third, "other", rng.choice(prompts[third])))]
    return {"mixed": orders, "unlabelled": bare, "abrupt": [abrupt], "gradual": [gradual], "among": [among]}


def serve(program, model, stream, store, o):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as f:
        for i, (_, label, prompt) in enumerate(stream):
            line = {"id": i, "prompt": prompt, "max_tokens": o.tokens}
            f.write(json.dumps({**line, "task": label} if label else line) + "\n")
        f.flush()
        command = [program, "bench", "learn", "-m", model, "-i", f.name, "--slope", str(o.slope), "--json", *o.options]
        r = subprocess.run(command + (["--store", store] if store else []), capture_output=True, text=True)
        if r.returncode:
            sys.exit(" ".join(command) + "\n" + r.stderr)
        return json.loads(r.stdout)["rows"][0]


def figures(row, stream, name):
    """What a run's row says; tasks are the stream's own, whatever the labels."""
    by_task, turn, served = {}, None, 0
    for (task, label, _), one in zip(stream, row["instances"]):
        if turn is None and name in ("abrupt", "among") and label == "one" and task != stream[0][0]:
            turn = served
        served += one["tokens"]
        sums = by_task.setdefault(task, [0, 0])
        sums[0] += one["matches"]
        sums[1] += one["rows"]
    after = [at - turn for at in row["drifts_at"] if turn is not None and at >= turn]
    alarms = sum(1 for at in row["drifts_at"] if turn is None or at < turn) if name != "gradual" else None
    return {"speed": row["speed"], "late": row["late_speed"], "least": row["worst_over_plain"], "proposals": row["proposals"],
            "matchness": statistics.mean(m / n for m, n in by_task.values() if n), "alarms": alarms,
            "delay": (after[0] if after else served - turn) if turn is not None else None}


def run_seed(program, seed, o):
    """{stream: figures}. The same seed gives every program the same streams."""
    rng = random.Random(seed)
    model = MADE_UP % seed if o.made_up else o.model
    out = {}
    for name, orders in make_streams(made_up_prompts(rng) if o.made_up else read_prompts(o.streams), rng, o).items():
        if o.only and name not in o.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            store = os.path.join(folder, "masks.db") if len(orders) > 1 else None
            for i, stream in enumerate(orders):
                row = serve(program, model, stream, store, o)
                out[name + ", second pass" if i else name] = figures(row, stream, name)
    return out


def show(values, name):
    values = [v for v in values if v is not None]
    if not values:
        return "-"
    digits = 0 if name in ("proposals", "delay") else 2 if name == "alarms" else 3
    spread = statistics.stdev(values) if len(values) > 1 else 0
    return "%.*f ± %.*f" % (digits, statistics.mean(values), digits, spread)


def less(a, b):
    return {f: None if a[f] is None or b[f] is None else a[f] - b[f] for f in FIGURES}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default="build/swiftlet", help="(%(default)s)")
    p.add_argument("--against", help="another build: its figures are taken off, seed by seed")
    p.add_argument("-m", "--model", default="builtin", help="(%(default)s)")
    p.add_argument("--made-up", action="store_true", help="two tasks of made-up models, one model each seed")
    p.add_argument("--seeds", type=int, default=3, help="(%(default)s)")
    p.add_argument("--first-seed", type=int, default=1, help="(%(default)s)")
    p.add_argument("--slope", type=float, default=0.05, help="what a row more costs, in plain steps (%(default)s)")
    p.add_argument("--each", type=int, default=20, help="prompts of each task (%(default)s)")
    p.add_argument("--tokens", type=int, default=64, help="tokens of each text (%(default)s)")
    p.add_argument("--only", action="append", help="this stream alone; may be repeated")
    p.add_argument("--jobs", type=int, default=1, help="runs at a time (%(default)s)")
    p.add_argument("streams", nargs="*", help="files of JSON lines")
    o, o.options = p.parse_known_args()
    seeds = range(o.first_seed, o.first_seed + o.seeds)
    with ThreadPoolExecutor(o.jobs) as pool:
        runs = list(pool.map(lambda seed: run_seed(o.program, seed, o), seeds))
        base = list(pool.map(lambda seed: run_seed(o.against, seed, o), seeds)) if o.against else None
    print("| stream | " + " | ".join(FIGURES) + " |\n|---|" + "---|" * len(FIGURES))
    for name in runs[0]:
        rows = [less(r[name], b[name]) for r, b in zip(runs, base)] if base else [r[name] for r in runs]
        print("| %s | %s |" % (name, " | ".join(show([r[f] for r in rows], f) for f in FIGURES)))


if __name__ == "__main__":
    main()
