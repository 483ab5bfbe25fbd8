#!/usr/bin/env python3
"""Compares greedy texts of swiftlet with those of transformers, on the checkpoints of tests/core/golden/configs, or of
another folder that configs.py --random wrote.

  greedy_texts.py SWIFTLET [--folder FOLDER] [--each N] [--tokens N] [CASE…]
                                          cases by the beginnings of their names (all), N of each family

A text may differ where transformers' two best logits are closer than 2e-4; what follows is not compared. It may also differ
behind a choice of experts as close, which is not looked for.
"""
import argparse
import json
import pathlib
import random
import subprocess
import tempfile

import torch
import transformers
from safetensors.torch import save_file

import configs
import golden

CLOSE = 2e-4
PROMPTS = 3


def family_of(case):
    return (case["config"].get("text_config") or case["config"]).get("model_type") or case["config"]["model_type"]


def chosen(folder, names, each):
    count = {}
    for path in sorted(folder.glob("*.json")):
        case = json.loads(path.read_text())
        family = family_of(case)
        if not path.stem.endswith(("-mtp", "-fused")) and "text_config" not in case["config"] and \
                (not names or path.stem.startswith(tuple(names))) and count.get(family, 0) < each:
            count[family] = count.get(family, 0) + 1
            yield path.stem, case


def write_folder(case, folder):
    save_file(configs.make(case["tensors"]), folder / "model.safetensors", {"format": "pt"})
    (folder / "config.json").write_text(json.dumps(case["config"]))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((configs.OUT.parent / "tokenizer" / name).read_bytes())


def by_transformers(folder, config, prompts, n):
    """Tokens of each prompt, and how far the best logit was before the second."""
    model = configs.model_class(config).from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
    out = []
    for prompt in prompts:
        cache, step, tokens, margins = golden.new_cache(model), prompt, [], []
        while len(tokens) < n:
            best = torch.topk(golden.forward(model, step, cache)[-1].double(), 2)
            margins.append(float(best.values[0] - best.values[1]))
            step = [int(best.indices[0])]
            if step[0] == golden.END:
                break
            tokens += step
        out.append((tokens, margins))
    return out


def by_swiftlet(program, folder, texts, n):
    lines = "".join(json.dumps({"id": str(i), "prompt": text, "max_tokens": n}) + "\n" for i, text in enumerate(texts))
    (folder / "in").write_text(lines)
    subprocess.run([program, "stream", "-m", folder, "-i", folder / "in", "-o", folder / "out"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    said = {entry["id"]: entry["tokens"] for entry in map(json.loads, (folder / "out").read_text().splitlines()) if "id" in entry}
    return [[t for t in said[str(i)] if t != golden.END] for i in range(len(texts))]


def compare(ours, theirs, margins):
    """(tokens that agree, whether the texts differ where no choice was close)"""
    for i, (a, b) in enumerate(zip(ours + [golden.END], theirs + [golden.END])):
        if a != b:
            return i, margins[i] > CLOSE
    return len(theirs), False


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--folder", type=pathlib.Path, default=configs.OUT)
    parser.add_argument("--each", type=int, default=1000)
    parser.add_argument("--tokens", type=int, default=200)
    asked = parser.parse_intermixed_args()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(configs.OUT.parent / "tokenizer" / "tokenizer.json"))
    total = wrong = close = cases = 0
    for name, case in chosen(asked.folder, asked.names, asked.each):
        generator = random.Random(name)
        texts = ["".join(generator.choice(["the ", "and ", "x", "in the ", "q", "is "]) for _ in range(9)) for _ in range(PROMPTS)]
        prompts = [tokenizer.encode(text, add_special_tokens=False) for text in texts]
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch)
            write_folder(case, folder)
            n = min(asked.tokens, case["config"]["max_position_embeddings"] - max(map(len, prompts)))
            theirs = by_transformers(folder, case["config"], prompts, n)
            ours = by_swiftlet(asked.program, folder, texts, n)
        results = [compare(a, b, margins) for a, (b, margins) in zip(ours, theirs)]
        agreed = sum(n for n, _ in results)
        total, wrong, cases = total + agreed, wrong + sum(bad for _, bad in results), cases + 1
        ended = sum(a != b for a, (b, _) in zip(ours, theirs)) - sum(bad for _, bad in results)
        close += ended
        print(f"{name}: {agreed} tokens agree, {sum(bad for _, bad in results)} of {PROMPTS} texts differ, {ended} at a close choice", flush=True)
    print(f"{cases} checkpoints: {total} tokens agree, {wrong} texts differ, {close} at a close choice")


if __name__ == "__main__":
    main()
