#!/usr/bin/env python3
"""Bridges end to end: fitted, judged and priced; drafted with, which changes no token."""
import json
import os
import subprocess
import tempfile

SWIFTLET = os.environ["SWIFTLET"]
PROMPTS = [{"id": i, "prompt": "Question: Tom has %d apples and buys %d more. How many has he?\nAnswer:" % (3 + i, 4 + i % 5),
            "max_tokens": 96} for i in range(24)]


def run(*arguments, ok=True):
    done = subprocess.run([SWIFTLET, *map(str, arguments)], capture_output=True, text=True, timeout=900)
    if not ok:
        assert done.returncode != 0 and done.stderr.startswith("swiftlet: "), done
        return done.stderr
    assert done.returncode == 0, done
    return json.loads(done.stdout)


with tempfile.TemporaryDirectory() as folder:
    stream = os.path.join(folder, "in.jsonl")
    with open(stream, "w") as file:
        file.writelines(json.dumps(p) + "\n" for p in PROMPTS)
    said = run("bench", "bridge", "-i", stream, "--spans", "6-9,3-14", "--tokens", 700, "--json")
    lines = {(b["first"], b["kind"]): b for b in said["bridges"]}
    assert len(said["bridges"]) == len(lines) == 4 and said["positions"] > 100
    for b in said["bridges"]:
        assert 0 <= b["alpha"] <= 1 and b["c"] > 0 and b["gain_flat"] >= 1 and b["error"] >= 0, b
        # what gains where nothing else drafts is what adds to a rate of 1; the first step alone is a bound from below
        for prices in ("", "_flat"):
            assert (b["gain" + prices] > 1) == (b["pays_beside" + prices] > 1), b
        assert b["pays_beside_flat"] > b["alpha"] / (b["c"] + 0.006) - 1e-6, b
    for first in (6, 3):  # what is fitted to such texts is better than nothing on others of their kind
        assert lines[first, "with final"]["alpha"] > lines[first, "bare"]["alpha"], said
        assert lines[first, "with final"]["tokens"] >= 700 and lines[first, "bare"]["tokens"] == 0
    # drafts with it: the same text, more of them right
    skip = os.path.join(folder, "mask.json")
    with open(skip, "w") as file:
        blocks = list(range(3, 15))
        json.dump({"format": "swiftlet-mask-1", "attention": blocks, "mlp": blocks}, file)
    replay = ["bench", "replay", "-i", stream, "-n", 6, "--json", "--drafters", "mask", "--prices", "slope=0.006,c=0.1"]
    bare, bridged = run(*replay, "--mask", skip), run(*replay, "--bridge", "3-14", "--learn", stream, "--tokens", 700)
    assert bare["tokens"] == bridged["tokens"]
    assert bridged["tokens_per_pass"] > bare["tokens_per_pass"], (bare, bridged)
    for wrong in ([], ["--spans", "0-4"], ["--spans", "4-19"], ["--spans", "x"], ["--tokens", "9,8"], ["--tokens", ""]):
        run("bench", "bridge", "-i", stream, *wrong, ok=False)
    for wrong in ("0-4", "4-19", "x", "3-5,7-8"):
        run(*replay, "--bridge", wrong, ok=False)
