#!/usr/bin/env python3
"""The papers' tables from the references, where time is counted in blocks: what a method can bring before any machine.

For each method: compression ratio CR and consistent token acceptance rate CTAR(w) (Kangaroo, Eq. 1 and 2; its figure
1a), accepted over drafted (alpha), and speed-up over plain decoding when a block costs one and everything else
nothing, verification going on from the exit (LayerSkip, section 4.3.3): AdaSPEED's Table I and LayerSkip's Table 11 in form.

    tools/oracle/method_tables.py -m tests/data/tiny-tasks-20l-layerskip -i streams/demo.jsonl --exit-block 8
"""
import argparse
import json
import os
import sys

import torch
from tokenizers import Tokenizer

import references
from match_rate import read_parts
from methods import MASK, ROOT

llama = references.llama


def cost(model, method, round_):
    """Blocks run in a round, rows beside each other counted once: draft steps, then what verification adds to them."""
    rows, exit_block = round_["rows"], method.exit_block
    if exit_block is None:
        per_step = model.blocks - (len(MASK["attention"]) + len(MASK["mlp"])) / 2
        steps = len(rows) - 1 if isinstance(method, references.SelfSpec) else 0
        return steps * per_step + model.blocks
    if isinstance(method, references.Ppd):
        return model.blocks + (exit_block if len(rows) > 1 else 0)
    # the last draft token's row has not run the early blocks yet; a step makes a token from the row before it
    return (len(rows) - 1) * exit_block + exit_block + model.blocks - exit_block


def judged(model, texts, make, tokens):
    """(tokens by round, drafted, accepted, cost in blocks, tokens)."""
    emitted, drafted, accepted, spent, total = [], 0, 0, 0, 0
    for ids in texts:
        method = make()
        text, rounds = references.decode(model, ids, tokens, method, references.Judge())
        for r in rounds:
            emitted.append(len(r["new"]))
            drafted += len(r["rows"]) - 1
            accepted += r["accepted"]
            spent += cost(model, method, r)
        total += len(text) - 1  # the first comes with the prompt
    return emitted, drafted, accepted, spent, total


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", default=os.path.join(ROOT, "core", "builtin"), help="a Llama folder")
    parser.add_argument("-i", "--stream", required=True, help="prompts, JSON lines with `prompt`")
    parser.add_argument("--exit-block", type=int, required=True, help="of layerskip, adaspeed and ppd")
    parser.add_argument("--prompts", type=int, default=15, help="evenly over the stream (%(default)s)")
    parser.add_argument("--tokens", type=int, default=64, help="a prompt (%(default)s)")
    parser.add_argument("--speculations", type=int, default=4, help="layerskip's and constant's d (%(default)s)")
    parser.add_argument("--max-draft", type=int, default=10, help="adaspeed's most (%(default)s)")
    parser.add_argument("--probe", help="of tools/train/probe.py")
    parser.add_argument("--adapter", help="of tools/train/kangaroo.py")
    parser.add_argument("--heads", help="of tools/train/ppd.py")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model = llama.Llama.load(options.model)
    tokenizer = Tokenizer.from_file(os.path.join(options.model, "tokenizer.json"))
    with open(options.stream, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    lines = [lines[i * len(lines) // options.prompts] for i in range(options.prompts)]
    texts = [[model.bos] + tokenizer.encode(line["prompt"], add_special_tokens=False).ids for line in lines]
    e, most = options.exit_block, options.max_draft
    methods = {"layerskip, constant d": lambda: references.LayerSkip(e, options.speculations),
               "marginal (Draft & Verify)": lambda: references.AdaSpeed(e, "marginal", most),
               "product (AdaSPEED)": lambda: references.AdaSpeed(e, "product", most)}
    if options.probe:
        probe, at = read_parts(options.probe)
        methods["probe (AdaSPEED)"] = lambda: references.AdaSpeed(at, "probe", most, probe=probe)
    if options.adapter:
        adapter, at = read_parts(options.adapter)
        methods["kangaroo"] = lambda: references.Kangaroo(adapter, at)
    for k in (1, 3, 5):
        methods["ppd k=%d" % k] = lambda k=k: references.Ppd(e, k)
        if options.heads:
            heads = read_parts(options.heads)[0]
            methods["ppd k=%d, own head" % k] = lambda k=k, heads=heads: references.Ppd(e, k, heads)
    methods.update({"self-spec": lambda: references.SelfSpec(MASK), "ngram": references.Ngram,
                    "jacobi": references.Jacobi, "lookahead": references.Lookahead})
    print("| method | tokens | CR | alpha | " + " | ".join("CTAR(%d)" % w for w in range(1, 7)) + " | speed-up in blocks |")
    print("| --- |" + " --- |" * 10)
    for name, make in methods.items():
        emitted, drafted, accepted, spent, total = judged(model, texts, make, options.tokens)
        ctar = [sum(n > w for n in emitted) / len(emitted) for w in range(1, 7)]
        print("| %s | %d | %.2f | %.2f | %s | %.2f |" % (
            name, total, sum(emitted) / len(emitted), accepted / max(1, drafted), " | ".join("%.2f" % c for c in ctar),
            total * model.blocks / spent), flush=True)
        print("%s done" % name, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
