#!/usr/bin/env python3
"""On a GPU: every way to draft gives the token sequences of plain decoding, greedy and sampled.

The built-in model's demo stream, and planted shapes of 7B and 13B, at least 100,000 tokens in all; the counts
compared are printed. Skipped, with the reason, where there is no GPU.
"""
import os
import sys

from support import DEMO, FULL, EndToEnd, main, read_lines, run, write_lines

WANTED = 100_000
SAMPLED = ["--temp", "0.8", "--top-p", "0.95", "--seed", "11"]
WAYS = [
    ("defaults", []),
    ("paper", ["--preset", "paper"]),
    ("adversarial tree", ["--draft", "always", "--threshold", "0", "--max-tree", "251", "--tree-top-k", "10,10,10,10"]),
    ("chains", ["--draft", "always", "--tree-top-k", "1,1,1,1", "--max-tree", "16"]),
]


def gpu():
    result = run("run", "--backend", "cuda", "-n", "1", "-p", "x")
    return None if result.returncode == 0 else result.stderr.decode(errors="replace").strip()


class Lossless(EndToEnd):
    def try_model(self, model, prompts, ways, tokens_each):
        """Compared tokens and instances that differ."""
        compared = mismatches = 0
        source = self.path("in.jsonl")
        write_lines(source, prompts)
        common = ["--backend", "cuda", "-i", source, "-m", model, "-n", str(tokens_each)]
        for sampling in ([], SAMPLED):
            plain = self.stream(*common, "--method", "vanilla", *sampling)
            for name, options in ways:
                lines = self.stream(*common, *options, *sampling)
                self.assertEqual(len(lines), len(plain))
                bad = [a["id"] for a, b in zip(plain, lines) if (a["text"], a["tokens"]) != (b["text"], b["tokens"])]
                compared += sum(line["tokens"] for line in plain)
                mismatches += len(bad)
                print("%s, %s, %s: %d instances, %d differ" % (model, name, "sampled" if sampling else "greedy", len(lines), len(bad)))
        return compared, mismatches

    def test_lossless(self):
        demo = read_lines(DEMO)
        compared, mismatches = self.try_model("builtin", demo if FULL else demo[::3], WAYS, 256)
        for model in ("synth:llama-2-7b,dtype=f16,plant=0.45", "synth:llama-2-13b,dtype=f16,plant=0.45"):
            c, m = self.try_model(model, demo[:8], WAYS[:2], 512)
            compared, mismatches = compared + c, mismatches + m
        rounds = 0
        while compared < WANTED and rounds < 20:  # other prompts of the stream, until enough was compared
            rounds += 1
            c, m = self.try_model("builtin", demo[rounds % 3 :: 3], WAYS, 512)
            compared, mismatches = compared + c, mismatches + m
        print("%d tokens compared, %d instances differ" % (compared, mismatches))
        self.assertEqual(mismatches, 0)
        self.assertGreaterEqual(compared, WANTED)


if __name__ == "__main__":
    reason = gpu()
    if reason:
        print("skipped: " + reason)
        sys.exit(77)
    main()
