#!/usr/bin/env python3
"""Makes streams/demo.jsonl, the mixed stream that ships with swiftlet.

Reads the prompts in SWIFTLET_SHARED/streams and keeps what may ship: GSM8K (MIT), HumanEval (MIT), Spec-Bench
(Apache-2.0) and Tiny Shakespeare (public domain), in the prompt formats of the built-in model's five tasks.

    SWIFTLET_SHARED=../shared python tools/oracle/make_demo_stream.py > streams/demo.jsonl
"""
import argparse
import json
import os
import random
import re
import sys

EACH = 12
GRIM = re.compile(r"assault|abus|rape|kill|murder|dead|death|terror", re.I)  # no text for a first look
shared = os.path.join(os.environ.get("SWIFTLET_SHARED", "../shared"), "streams")


def read(name):
    with open(os.path.join(shared, name), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def spread(items):
    """EACH of them, evenly over the list."""
    return [items[i * len(items) // EACH] for i in range(EACH)]


def first_sentences(text, limit):
    out = ""
    for sentence in re.split(r"(?<=[.!?]) ", text):
        if out and len(out) + len(sentence) > limit:
            break
        out += (" " if out else "") + sentence
    return out


def tasks():
    tiny = read("tiny-tasks-by-task.jsonl")
    bench = read("spec-bench.jsonl")
    yield "math", 64, [p["prompt"] for p in tiny if p["task"] == "math"]
    yield "code", 96, [p["prompt"] for p in read("humaneval.jsonl") if len(p["prompt"]) < 500]
    german = [re.sub(r"^Translate German to English: ", "", p["prompt"]) for p in bench if p["task"] == "translation"]
    yield "translation", 32, ["German: %s\nEnglish:" % g.replace(" ,", ",").replace(" .", ".") for g in german]
    news = [re.sub(r"^Summarize: ", "", p["prompt"]) for p in bench if p["task"] == "summarization"]
    news = [n for n in news if not GRIM.search(n)]
    yield "summarization", 48, ["Dialogue:\n%s\nSummary:" % first_sentences(n, 500) for n in news]
    yield "story", 96, [p["prompt"] for p in tiny if p["task"] == "story" and re.match(r"[A-Z][A-Za-z ]*:\n", p["prompt"])]


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    lines = []
    for task, tokens, prompts in tasks():
        print("%s: %d to choose from" % (task, len(prompts)), file=sys.stderr)
        for i, prompt in enumerate(spread(prompts)):
            lines.append({"id": "%s-%d" % (task, i), "task": task, "prompt": prompt, "max_tokens": tokens})
    random.Random(1).shuffle(lines)
    for line in lines:
        print(json.dumps(line, ensure_ascii=False))


main()
