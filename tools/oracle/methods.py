#!/usr/bin/env python3
"""Writes tests/data/methods: what every neighbouring method drafts, where it stops and what is accepted, round by round.

For the built-in model and for the one that LayerSkip's recipe made of it: the references of references.py on
prompts of streams/demo.jsonl. A run with a choice closer than another arithmetic's rounding is left out. With them go
the match rates of PPD's Table 1 on the same texts: hits among the first 1 to 5, with the model's head and with trained ones.

    tools/oracle/methods.py            # about two minutes of one core
"""
import argparse
import json
import os
import sys

import torch
from tokenizers import Tokenizer

import references
from references import llama  # puts tools/train on the path
import match_rate

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
DATA = os.path.join(ROOT, "tests", "data")
MODELS = {"builtin": os.path.join(ROOT, "core", "builtin"), "layerskip": os.path.join(DATA, "tiny-tasks-20l-layerskip")}
MARGIN = 5e-4  # of logits, and a tenth of it of probabilities
MASK = {"attention": [3, 6, 9, 12, 14, 16], "mlp": [2, 5, 8, 11, 13, 15, 17]}
TASKS = ["math", "code", "translation", "summarization", "story"]


def parts(name):
    """A file of tests/data/parts: tensors, and the exit block its metadata names."""
    return match_rate.read_parts(os.path.join(DATA, "parts", name + ".safetensors"))


def methods(model):
    """Name of the case: (method, its options as the command line's, a new reference). @FILE lies in tests/data/parts;
    @mask is MASK as a file."""
    exit_block = {"builtin": 16, "layerskip": 8}[model]
    exits = ["--exit-block", str(exit_block)]
    cases = {
        "layerskip": ("layerskip", [*exits, "--speculations", "4"], lambda: references.LayerSkip(exit_block, 4)),
        "marginal": ("adaspeed", [*exits, "--stop-rule", "marginal", "--speculations", "10"],
                     lambda: references.AdaSpeed(exit_block, "marginal", 10)),
        "product": ("adaspeed", [*exits, "--speculations", "10"], lambda: references.AdaSpeed(exit_block, "product", 10)),
        "ppd": ("ppd", [*exits, "--children", "3"], lambda: references.Ppd(exit_block, 3)),
        "jacobi": ("jacobi", [], references.Jacobi),
        "lookahead": ("lookahead", [], references.Lookahead),
        "ngram": ("ngram", [], references.Ngram),
        "self-spec": ("self-spec", ["--mask", "@mask"], lambda: references.SelfSpec(MASK)),
    }
    if model == "builtin":
        adapter, adapter_exit = parts("kangaroo")
        heads, _ = parts("heads")
        cases["kangaroo"] = ("kangaroo", ["--adapter", "@kangaroo.safetensors"],
                             lambda: references.Kangaroo(adapter, adapter_exit))
        cases["heads"] = ("ppd", [*exits, "--children", "3", "--heads", "@heads.safetensors"],
                          lambda: references.Ppd(exit_block, 3, heads))
    else:
        cases["constant"] = ("adaspeed", [*exits, "--stop-rule", "fixed", "--speculations", "6"],
                             lambda: references.LayerSkip(exit_block, 6))
        probe, probe_exit = parts("probe")
        exits = ["--exit-block", str(probe_exit)]
        cases["probe"] = ("adaspeed", [*exits, "--stop-rule", "probe", "--speculations", "10", "--probe", "@probe.safetensors"],
                          lambda: references.AdaSpeed(probe_exit, "probe", 10, probe=probe))
    return cases


def round_of(round_):
    """A chain by its tokens, a tree by its rows (token, parent), without the root."""
    rows = round_["rows"]
    is_chain = all(parent == i - 1 for i, (_, parent) in enumerate(rows))
    drafted = {"draft": [token for token, _ in rows[1:]]} if is_chain else {"rows": [list(row) for row in rows[1:]]}
    stop = {"stop": round_["stop"]} if round_["stop"] else {}
    return {**drafted, **stop, "accepted": round_["accepted"]}


def prompts(each):
    """The first prompts of each task in the demo stream."""
    with open(os.path.join(ROOT, "streams", "demo.jsonl"), encoding="utf-8") as file:
        lines = [json.loads(line) for line in file]
    return [line for task in TASKS for line in [line for line in lines if line["task"] == task][:each]]


def golden(name, tokens, each, only):
    model = llama.Llama.load(MODELS[name])
    tokenizer = Tokenizer.from_file(os.path.join(MODELS["builtin"], "tokenizer.json"))
    cases, entries, counts = methods(name), [], {}
    assert set(only or cases) <= set(cases), "%s has the cases %s" % (name, " ".join(cases))
    for line in prompts(each):
        ids = [model.bos] + tokenizer.encode(line["prompt"], add_special_tokens=False).ids
        entry = {"id": line["id"], "prompt": line["prompt"], "prompt_ids": ids, "cases": {}}
        for case, (_, _, make) in cases.items():
            if only and case not in only:
                continue
            judge = references.Judge()
            text, rounds = references.decode(model, ids, tokens, make(), judge)
            assert entry.setdefault("tokens", text) == text, (name, line["id"], case)
            if judge.margin >= MARGIN:
                entry["cases"][case] = [round_of(r) for r in rounds]
                counts[case] = counts.get(case, 0) + 1
        print("%s %s: %s" % (name, line["id"], " ".join(entry["cases"])), file=sys.stderr, flush=True)
        entries.append(entry)
    texts = [(entry["prompt_ids"] + entry["tokens"], len(entry["prompt_ids"])) for entry in entries]
    hits, rows = match_rate.rates(model, texts, [5], parts("heads")[0] if name == "builtin" else None, None)
    few = [case for case in only or cases if counts.get(case, 0) < 3]
    assert not few, "fewer than three runs without a close choice: %s" % few
    return {"model": name, "max_tokens": tokens, "mask": MASK,
            "cases": {case: {"method": method, "options": options} for case, (method, options, _) in cases.items()},
            "match_rate": {"rows": rows, "hits": {"%d %s" % key: [int(n) for n in sums] for key, sums in hits.items()}},
            "prompts": entries}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="MODEL", help="builtin or layerskip (both)")
    parser.add_argument("--tokens", type=int, default=40, help="a prompt (%(default)s)")
    parser.add_argument("--each", type=int, default=1, help="prompts a task (%(default)s)")
    parser.add_argument("--case", action="append", help="only these cases, to standard output")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.names or MODELS:
        text = json.dumps(golden(name, options.tokens, options.each, options.case), separators=(",", ":"))
        text = text.replace('{"id"', '\n{"id"').replace('"cases":{', '\n"cases":{').replace(']}],"', ']}],\n"') + "\n"
        if options.case:
            sys.stdout.write(text)
            continue
        os.makedirs(os.path.join(DATA, "methods"), exist_ok=True)
        with open(os.path.join(DATA, "methods", name + ".json"), "w", encoding="utf-8") as file:
            file.write(text)


if __name__ == "__main__":
    main()
