#!/usr/bin/env python3
"""bench replay: figures that repeat, follow the costs, and add up; what it is given wrong gets a message."""
import json
import os
import subprocess
import tempfile

SWIFTLET = os.environ["SWIFTLET"]
PROMPTS = [{"id": i, "prompt": "Question: Tom has %d apples and buys %d more. How many has he?\nAnswer:" % (3 + i % 2, 4),
            "max_tokens": 64} for i in range(6)]


def replay(*options, ok=True):
    done = subprocess.run([SWIFTLET, "bench", "replay", "--json", *options], capture_output=True, text=True, timeout=900)
    if not ok:
        assert done.returncode != 0 and done.stderr.startswith("swiftlet: "), done
        return None
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def without_time(figures):
    return {k: v for k, v in figures.items() if k != "load_seconds"}


with tempfile.TemporaryDirectory() as folder:
    stream = os.path.join(folder, "in.jsonl")
    costs = os.path.join(folder, "costs.json")
    with open(stream, "w") as file:
        file.writelines(json.dumps(p) + "\n" for p in PROMPTS)
        file.write("broken\n")
    with open(costs, "w") as file:
        json.dump({"rows": [{"rows": n, "v": 1 + 0.05 * (n - 1)} for n in (1, 2, 64)]}, file)
    free = replay("-i", stream, "--costs", "slope=0")
    cheap = replay("-i", stream, "--costs", "slope=0.05")
    dear = replay("-i", stream, "--costs", "slope=2")
    none = replay("-i", stream, "--costs", "slope=0.05", "--drafters", "none")
    assert without_time(cheap) == without_time(replay("-i", stream, "--costs", "slope=0.05", "--threads", "1")) | {
        "threads": cheap["threads"]}
    same = replay("-i", stream, "--costs", costs)
    assert same["speedup"] == cheap["speedup"], (same, cheap)
    for figures in (free, cheap, dear, none):  # whatever drafts, the text is the same
        assert figures["instances"] == 6 and figures["left_out"] == 1 and figures["tokens"] == cheap["tokens"]
    assert none["tokens_per_pass"] == none["rows_per_pass"] == none["speedup"] == 1
    assert free["tokens_per_pass"] > cheap["tokens_per_pass"] - 0.3 > 1
    assert free["rows_per_pass"] > cheap["rows_per_pass"] > dear["rows_per_pass"] >= 1
    assert cheap["speedup"] > 1.2 and dear["speedup"] > 0.98
    passes = cheap["tokens"] / cheap["tokens_per_pass"]
    accepted = sum(s["accepted"] for s in cheap["sources"].values())
    assert abs(accepted - (cheap["tokens"] - passes)) <= len(PROMPTS) + 1e-6, (accepted, cheap)
    drafted = replay("-i", stream, "--costs", "slope=0.05,c=0.1", "--drafters", "mask")
    assert drafted["draft_passes_per_pass"] > 1 and drafted["tokens_per_pass"] > 3  # nothing skipped: always right
    # along recorded answers the same is accepted as with the model
    answers = os.path.join(folder, "answers.jsonl")
    subprocess.run([SWIFTLET, "stream", "-i", stream, "-o", answers, "--method", "vanilla", "--no-store"],
                   capture_output=True, timeout=900, check=True)
    for cost in ("slope=0", "slope=0.05", "v2=1.35,v4=1.9,v8=3.2", "slope=2"):
        ran = replay("-i", stream, "--costs", cost, "--drafters", "retrieval")
        read = replay("-i", stream, "--costs", cost, "--drafters", "retrieval", "--answers", answers)
        assert all(read[k] == v for k, v in without_time(ran).items()), (ran, read)
    short = os.path.join(folder, "short.jsonl")
    with open(answers) as file, open(short, "w") as other:
        other.write(file.readline())
    for wrong in (["--answers", short], ["--answers", stream], ["--answers", answers, "--drafters", "mask"],
                  ["--answers", os.path.join(folder, "absent")]):
        replay("-i", stream, *wrong, ok=False)
    for wrong in (["--costs", "v2=0.5"], ["--costs", "v2=3,v4=2"], ["--costs", "slop=1"], ["--drafters", "all,some"],
                  ["--costs", stream], ["--mask", stream], ["--pool", "-1"]):
        replay("-i", stream, *wrong, ok=False)
    replay("-i", os.path.join(folder, "absent"), ok=False)
