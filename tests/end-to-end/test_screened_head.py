#!/usr/bin/env python3
"""The screened head and the whole one give the same tokens on text, greedy and sampled."""
import json
import os
import subprocess
import tempfile

SWIFTLET = os.environ["SWIFTLET"]
PROMPTS = [{"max_tokens": 24, "prompt": "Question: Tom has %d apples and buys %d more. How many has he?\nAnswer:" % (3 + i, 4 + i % 5)} for i in range(12)]

with tempfile.TemporaryDirectory() as folder:
    stream = os.path.join(folder, "in.jsonl")
    with open(stream, "w") as file:
        file.writelines(json.dumps(p) + "\n" for p in PROMPTS)
    for sampling in (["--temp", "0"], ["--temp", "0.8", "--seed", "3"]):
        said = {}
        for threads in ("1", "2"):
            for head in ("on", "off"):
                done = subprocess.run([SWIFTLET, "stream", "-i", stream, "--threads", threads, "--screened-head", head, *sampling],
                                      capture_output=True, text=True, timeout=900)
                assert done.returncode == 0, done
                said[threads, head] = [json.loads(line)["tokens"] for line in done.stdout.splitlines()]
        assert all(tokens == said["1", "off"] for tokens in said.values()), said
        assert sum(map(len, said["1", "off"])) > 100, said

# Passes of several rows are timed on text of the model's own, however few tokens a repetition has.
done = subprocess.run([SWIFTLET, "bench", "decode", "--rows", "-n", "2", "--context", "100", "--screened-head", "on", "--json"], capture_output=True, text=True, timeout=900)
assert done.returncode == 0, done
assert [row["rows"] for row in json.loads(done.stdout)["rows"] if row["seconds"] > 0] == [1, 2, 4, 8, 16, 32, 64], done

# The note on the head stays beside the one on draft weights; --certified-head is an earlier name of the option.
done = subprocess.run([SWIFTLET, "run", "-m", "synth:layers=4,dim=256,heads=4,ffn=512,vocab=512,dtype=q8_0", "-p", "a", "-n", "2", "--certified-head=on", "--draft-bits", "4"],
                      capture_output=True, text=True, timeout=900)
assert done.returncode == 0 and [line.split(":")[0] for line in done.stderr.splitlines()] == ["screened head", "draft weights"], done
