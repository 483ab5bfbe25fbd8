#!/usr/bin/env python3
"""Promise 1 for every family: drafting with masks gives the tokens of plain decoding, greedy and sampled.

Every golden model of tests/core/golden, of all but the first families, which other tests run at length.
"""
import os
import random

from support import SOURCE, EndToEnd, main, write_lines

GOLDEN = os.path.join(SOURCE, "tests", "core", "golden")
FAMILIES = ("afmoe", "apertus", "arcee", "cohere", "deepseek", "dots1", "exaone", "falcon-h1", "gemma-", "gemma3", "gemma3n", "gemma4", "glm4", "gpt-oss", "granite", "lfm2-moe",
            "hunyuan", "hy-v3", "jais2", "llama-codebooks", "llama4", "mellum", "ministral", "mistral3", "mistral4", "mixtral", "nemotron", "olmo",
            "phi4", "phimoe", "qwen3-moe", "qwen3-vl-moe", "seed-oss", "smollm3", "stablelm", "starcoder2", "youtu")

# Models with experts draft with 4-bit weights too.
EXPERTS = ("moe", "mixtral", "gpt-oss", "experts", "dots1", "deepseek", "nemotron-h-floats", "llama4", "mellum", "hy-v3")


def models():
    for name in sorted(os.listdir(GOLDEN)):
        folder = os.path.join(GOLDEN, name)
        file = os.path.join(folder, "model.gguf")
        vocabulary_alone = os.path.exists(os.path.join(folder, "vocabulary.gguf"))
        if name.removeprefix("gguf-").startswith(FAMILIES) and not vocabulary_alone:
            yield name, file if os.path.exists(file) else folder


class Families(EndToEnd):
    def test_drafting_changes_nothing(self):
        rng = random.Random(13)
        prompts = [{"id": str(i), "prompt": "".join(rng.choice("abcdefgh the and ") for _ in range(40 + 30 * i)),
                    "max_tokens": 48} for i in range(3)]
        write_lines(self.path("in"), prompts)
        tokens = drafted = 0
        for name, model in models():
            # Blocks in the middle: every golden model has four or more, but for two of two.
            write_lines(self.path("mask"), [{"m": {"attention": [1, 2], "mlp": [1]}}])
            ways = [("mask", ["--draft", "always", "--search", "off", "--mask", self.path("mask"), "--threshold", "0",
                              "--max-tree", "paper"]),
                    ("tree", ["--draft", "always", "--threshold", "0", "--max-tree", "64", "--tree-top-k", "6,6,6,6"])]
            if "legacy" in name or "codebooks" in name:
                ways = ways[1:]
            if any(part in name for part in EXPERTS):
                ways.append(("quantized", ["--draft", "always", "--draft-bits", "4", "--threshold", "0"]))
            for sampling in [], ["--temp", "0.8", "--seed", "3"]:
                base = ["-m", model, "-i", self.path("in"), *sampling]
                plain = self.stream(*base, "--method", "vanilla")
                for way, options in ways:
                    with self.subTest(model=name, way=way, sampling=sampling):
                        lines = self.stream(*base, *options)
                        self.assertEqual([line["tokens"] for line in lines], [line["tokens"] for line in plain])
                        drafted += sum(line["draft_steps"] for line in lines)
                        tokens += sum(len(line["tokens"]) for line in lines)
        self.assertGreater(drafted, 0)
        print("%d tokens compared, %d draft steps" % (tokens, drafted), flush=True)


main()
