#!/usr/bin/env python3
"""Writes training text: what the model itself writes, sampled from nothing but the start of a text.

A model samples what it was trained on, as far as it learned it: no text of anyone else's is needed, and no prompt that
the trained parts are judged on is ever seen. Half of the sequences are drawn at temperature 1, half at 0.7, which
is nearer to the greedy text that drafts are checked against. The same seed gives the same text.

    tools/train/text.py -m core/builtin -o build/train/text.json
"""
import argparse
import json
import os
import sys
import time

import torch

import llama


def sample(model, sequences, length, seed, batch=64, say=lambda done: None):
    """Sequences of `length` ids, BOS first: (sequences, length)."""
    generator = torch.Generator().manual_seed(seed)
    parts = []
    for first in range(0, sequences, batch):
        n = min(batch, sequences - first)
        start = torch.full((n, 1), model.bos)
        parts.append(llama.generate(model, start, length - 1, 1.0 if first // batch % 2 == 0 else 0.7, generator))
        say(first + n)
    return torch.cat(parts)


def read(path):
    with open(path, encoding="utf-8") as file:
        return torch.tensor(json.load(file)["sequences"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", required=True, help="a Llama folder")
    parser.add_argument("-o", "--out", required=True, help="where the ids go, as JSON")
    parser.add_argument("--sequences", type=int, default=512, help="how many (%(default)s)")
    parser.add_argument("--length", type=int, default=256, help="tokens each, the start included (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="(%(default)s)")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = llama.Llama.load(options.model)
    started = time.time()
    say = lambda done: print("text: %d of %d sequences, %.0f s" % (done, options.sequences, time.time() - started),
                             file=sys.stderr, flush=True)
    ids = sample(model, options.sequences, options.length, options.seed, say=say)
    os.makedirs(os.path.dirname(options.out) or ".", exist_ok=True)
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump({"model": os.path.basename(os.path.abspath(options.model)), "seed": options.seed,
                   "sequences": ids.tolist()}, file, separators=(",", ":"))


if __name__ == "__main__":
    main()
