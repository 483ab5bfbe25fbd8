#!/usr/bin/env python3
"""How often an early block predicts what the last one predicts, on greedy text from prompts that nothing was trained on.

For each model: its own greedy continuation of the stream's prompts, then at every generated position whether the target's
token is among the first k of the exit at each block: the acceptance of a draft's first token (LayerSkip), and PPD's
p_correct (its Table 1), with the model's own head (N) and with trained ones (Y, --heads). --adapter adds Kangaroo's.

    tools/train/match_rate.py -m core/builtin -m tests/data/tiny-tasks-20l-layerskip -i streams/demo.jsonl
    tools/train/match_rate.py -m core/builtin -i streams/demo.jsonl -k 1,3,5 --heads tests/data/parts/heads.safetensors
"""
import argparse
import json
import os
import sys

import torch
import torch.nn.functional as F

import llama
import losses
import safetensors_file


def continuations(model, tokenizer, lines, tokens):
    """(ids, length of the prompt) of each line, greedily continued up to the end of the text."""
    out = []
    for line in lines:
        prompt = [model.bos] + tokenizer.encode(line["prompt"], add_special_tokens=False).ids
        ids = llama.generate(model, torch.tensor([prompt]), tokens, 0, None)[0].tolist()
        if model.eos in ids[len(prompt):]:
            ids = ids[:ids.index(model.eos, len(prompt)) + 1]
        out.append((ids, len(prompt)))
    return out


def among(logits, target, most):
    """Whether `target` is among the first 1, …, most: (most, rows) of 0 and 1."""
    hit = torch.topk(logits, most).indices == target[:, None]
    return hit.cumsum(-1).T.float()


def rates(model, texts, ks, heads, adapter):
    """{(block, "N" | "Y" | "adapter"): [sum of hits for 1..max k]}, rows."""
    sums, rows, most = {}, 0, max(ks)
    with torch.no_grad():
        for ids, start in texts:
            x = model.embed(torch.tensor([ids]))
            states = []
            for b in range(model.blocks):
                x = model.rows(x, first=b, last=b + 1)
                states.append(x)
            target = model.logits(x)[0, start - 1:-1].argmax(-1)
            rows += len(target)

            def add(key, logits):
                sums[key] = sums.get(key, 0) + among(logits[0, start - 1:-1], target, most).sum(1)

            for b in range(1, model.blocks):
                add((b, "N"), model.logits(states[b - 1]))
                name = "ppd.head.%d.weight" % b
                if heads and name in heads:
                    add((b, "Y"), losses.ppd_logits(model, heads[name], states[b - 1]))
                if adapter and b == adapter[1]:
                    add((b, "adapter"), F.linear(losses.kangaroo_hidden(model, adapter[0], states[b - 1]), model.head()))
    return sums, rows


def read_parts(path):
    tensors, metadata = safetensors_file.read(path)
    return {name: tensor.float() for name, tensor in tensors.items()}, int(metadata.get("exit_block", 0))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-m", "--model", action="append", required=True, help="a Llama folder; several are compared")
    parser.add_argument("-i", "--stream", required=True, help="prompts, JSON lines with `prompt`")
    parser.add_argument("-k", default="1", help="count a token as predicted if it is among the first K; a list (%(default)s)")
    parser.add_argument("--tokens", type=int, default=64, help="tokens that follow each prompt (%(default)s)")
    parser.add_argument("--prompts", type=int, help="take only this many prompts, evenly over the stream")
    parser.add_argument("--heads", help="heads of tools/train/ppd.py")
    parser.add_argument("--adapter", help="an adapter of tools/train/kangaroo.py")
    options = parser.parse_args()
    from tokenizers import Tokenizer  # PyPI's

    torch.set_num_threads(1)
    ks = [int(k) for k in options.k.split(",")]
    with open(options.stream, encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    if options.prompts:
        lines = [lines[i * len(lines) // options.prompts] for i in range(options.prompts)]
    columns, blocks = [], 0
    for folder in options.model:
        model = llama.Llama.load(folder)
        tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
        texts = continuations(model, tokenizer, lines, options.tokens)
        sums, rows = rates(model, texts, ks, read_parts(options.heads)[0] if options.heads else None,
                           read_parts(options.adapter) if options.adapter else None)
        print("%s: %d prompts, %d tokens" % (folder, len(lines), rows), file=sys.stderr, flush=True)
        for kind in ("N", "Y", "adapter"):
            for k in ks:
                column = {b: (sums[b, kind][k - 1] / rows).item() for b in range(1, model.blocks) if (b, kind) in sums}
                if column:
                    columns.append(("%s %s k=%d" % (os.path.basename(os.path.abspath(folder)), kind, k), column))
        blocks = max(blocks, model.blocks)
    print("| block | " + " | ".join(name for name, _ in columns) + " |")
    print("| --- |" + " --- |" * len(columns))
    for b in range(1, blocks):
        print("| %d | " % b + " | ".join("%.3f" % c[b] if b in c else "" for _, c in columns) + " |")


if __name__ == "__main__":
    main()
