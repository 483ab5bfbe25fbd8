#!/usr/bin/env python3
"""Promise 1 and 2 from outside: every way to draft gives the token sequences of plain decoding.

By default every eleventh prompt of the demo stream, sampled in every second way; with SWIFTLET_FULL=1 the whole of tiny-tasks-by-task.jsonl.
"""
import os
import random

from support import DEMO, FULL, SHARED, EndToEnd, main, read_lines, write_lines

BLOCKS = 20
SAMPLED = ["--temp", "0.8", "--top-p", "0.95", "--seed", "11"]


def masks():
    """Real ones are learned by the presets; these are random, uniform and as bad as can be."""
    inner = list(range(1, BLOCKS - 1))
    yield "all", inner, inner
    yield "none", [], []
    yield "attention", inner, []
    yield "deep", inner[9:], inner[9:]
    rng = random.Random(5)
    for i in range(12 if FULL else 2):
        yield "random-%d" % i, sorted(rng.sample(inner, rng.randrange(1, 19))), sorted(rng.sample(inner, rng.randrange(1, 19)))


def ways():
    always = ["--draft", "always"]
    yield "defaults", []
    yield "everything at once", [*always, "--drafters", "prediction,mask,retrieval,recycle", "--draft-bits", "4",
                                 "--screened-head", "on"]
    for drafters in ("mask", "retrieval", "recycle", "retrieval,recycle", "mask,retrieval", "none"):
        yield "drafters " + drafters, ["--drafters", drafters]
    yield "small trees", ["--max-tree", "3", "--pool", "0"]
    yield "paper", ["--preset", "paper"]
    yield "paper, auto tree", ["--preset", "paper", "--max-tree", "auto"]
    yield "every step drafts to its end", [*always, "--threshold", "0", "--max-draft", "25", "--max-tree", "paper"]
    yield "every step is the last", [*always, "--threshold", "1", "--max-tree", "paper"]
    yield "adversarial tree", [*always, "--threshold", "0", "--max-tree", "251", "--tree-top-k", "10,10,10,10"]
    yield "chains alone", [*always, "--tree-top-k", "1,1,1,1", "--max-tree", "4"]
    yield "one draft row", [*always, "--max-tree", "2"]
    yield "never", ["--draft", "never"]
    yield "one thread", ["--preset", "paper", "--threads", "1"]
    if FULL:
        yield "three threads", ["--preset", "paper", "--threads", "3"]
        yield "ei and hamming", ["--preset", "paper", "--acquisition", "ei", "--kernel", "hamming", "--bayes-interval", "4"]
        yield "wide trees", [*always, "--threshold", "0.3", "--max-tree", "64", "--tree-top-k", "10,10,10,10"]
        yield "short windows", ["--preset", "paper", "--window", "9", "--window-min", "8", "--bayes-interval", "2"]


class Lossless(EndToEnd):
    def compare(self, sampling):
        tokens = 0
        plain = self.stream("-i", self.input, "--method", "vanilla", *sampling)
        self.assertTrue(all("tokens" in line for line in plain))
        every = [(name, options) for name, options in ways()]
        for name, attention, mlp in masks():
            write_lines(self.path(name), [{name: {"attention": attention, "mlp": mlp}}])
            every.append(("mask " + name, ["--draft", "always", "--search", "off", "--mask", self.path(name),
                                           "--threshold", "0.5", "--max-tree", "paper"]))
        for name, options in every if FULL or not sampling else every[::2]:
            with self.subTest(way=name):
                lines = self.stream("-i", self.input, *options, *sampling)
                self.assertEqual(len(lines), len(plain))
                differing = [a["id"] for a, b in zip(plain, lines)
                             if (a["tokens"], a["text"], a["stop"]) != (b["tokens"], b["text"], b["stop"])]
                self.assertEqual(differing, [], "%d of %d outputs differ" % (len(differing), len(plain)))
                # elsewhere the clock decides, and may decide for nothing
                if ("always" in options or "paper" in options) and name != "mask none":
                    self.assertGreater(sum(line["draft_steps"] for line in lines), 0)
                tokens += sum(len(line["tokens"]) for line in lines)
        print("%d tokens compared" % tokens, flush=True)

    def setUp(self):
        super().setUp()
        whole = os.path.join(SHARED, "streams", "tiny-tasks-by-task.jsonl")
        self.input = whole
        if not FULL or not os.path.exists(whole):
            self.input = self.path("in")
            write_lines(self.input, read_lines(DEMO)[:: 1 if FULL else 11])

    def test_greedy(self):
        self.compare([])

    def test_sampled(self):
        self.compare(SAMPLED)

    def test_interleaved(self):
        """Weights in another order give the same tokens. The built-in model's 16-bit ones have none, so others are made up."""
        for dtype in ("q8_0", "q4_0", "q4_1", "q4_k", "q6_k"):
            model = ["-m", "synth:layers=4,dim=256,heads=4,ffn=512,vocab=512,dtype=" + dtype, "-i", self.path("few")]
            write_lines(self.path("few"), [{"prompt": "a%d" % i, "max_tokens": 16} for i in range(6)])
            stored, other = ([line["tokens"] for line in self.stream(*model, "--draft", "always", "--interleave", way)] for way in ("off", "on"))
            self.assertEqual(stored, other, dtype)
            self.assertGreater(sum(map(len, stored)), 50)

    def test_made_up_gemma(self):
        """Blocks with a window that is shorter than the text, shared keys and token inputs: 12 blocks, of which 5 share."""
        model = ["-m", "synth:gemma-4-e4b,layers=12,dim=256,ffn=512,vocab=512,window=16,dtype=q4_k", "-i", self.path("few")]
        write_lines(self.path("few"), [{"prompt": "a%d" % i * 20, "max_tokens": 32} for i in range(3)])
        for sampling in [], SAMPLED:
            plain = [line["tokens"] for line in self.stream(*model, "--method", "vanilla", *sampling)]
            self.assertGreater(sum(map(len, plain)), 90)
            for options in ([], ["--draft", "always", "--threshold", "0", "--max-tree", "64", "--tree-top-k", "6,6,6,6"],
                            ["--draft", "always", "--draft-bits", "4", "--threshold", "0"], ["--method", "swift"]):
                lines = self.stream(*model, *options, *sampling)
                self.assertEqual([line["tokens"] for line in lines], plain, options)
                if "always" in options:
                    self.assertGreater(sum(line["accepted"] for line in lines), 0)


main()
