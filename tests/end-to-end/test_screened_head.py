#!/usr/bin/env python3
"""bench screened: both heads say the same on text, greedy and sampled, and few logits are computed for it."""
import json
import os
import subprocess
import tempfile

SWIFTLET = os.environ["SWIFTLET"]
PROMPTS = [{"prompt": "Question: Tom has %d apples and buys %d more. How many has he?\nAnswer:" % (3 + i, 4 + i % 5)} for i in range(12)]

with tempfile.TemporaryDirectory() as folder:
    stream = os.path.join(folder, "in.jsonl")
    with open(stream, "w") as file:
        file.writelines(json.dumps(p) + "\n" for p in PROMPTS)
    command = [SWIFTLET, "bench", "screened", "-i", stream, "--json"]
    for threads in ("1", "2"):
        done = subprocess.run([*command, "--threads", threads], capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done
        said = json.loads(done.stdout)
        for kind in ("greedy", "sampled"):
            assert said[kind]["positions"] > 100, said
            assert said[kind]["tokens_differing"] == said[kind]["logits_differing"] == 0, said
            assert 0 < said[kind]["share_exact"] < 0.2 and said[kind]["share_whole"] < 0.1, said
    for wrong in (["-i", os.path.join(folder, "absent")], ["-n", "0"], ["-m", "synth:layers=4,dim=64,heads=4,ffn=64,vocab=512,dtype=q4_0"]):
        done = subprocess.run([*command, *wrong], capture_output=True, text=True, timeout=900)
        assert done.returncode != 0 and done.stderr.startswith("swiftlet: "), done

# Passes of several rows are timed on text of the model's own, however few tokens a repetition has.
done = subprocess.run([SWIFTLET, "bench", "decode", "--rows", "-n", "2", "--context", "100", "--screened-head", "on", "--json"], capture_output=True, text=True, timeout=900)
assert done.returncode == 0, done
assert [row["rows"] for row in json.loads(done.stdout)["rows"] if row["seconds"] > 0] == [1, 2, 4, 8, 16, 32, 64], done

# The note on the head stays beside the one on draft weights; --certified-head is an earlier name of the option.
done = subprocess.run([SWIFTLET, "run", "-m", "synth:layers=4,dim=256,heads=4,ffn=512,vocab=512,dtype=q8_0", "-p", "a", "-n", "2", "--certified-head=on", "--draft-bits", "4"],
                      capture_output=True, text=True, timeout=900)
assert done.returncode == 0 and [line.split(":")[0] for line in done.stderr.splitlines()] == ["screened head", "draft weights"], done
