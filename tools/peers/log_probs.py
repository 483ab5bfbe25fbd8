#!/usr/bin/env python3
"""How far next-token log probabilities are from those of the same weights in F32: swiftlet's, and llama.cpp's.

Each prompt is cut at several places; at each, the five likeliest tokens by transformers (which reads the GGUF file, in F32), by
`swiftlet serve` and by llama.cpp are compared: a place's mean of |difference| over tokens that are among the five of both, and the
mean of places with its standard error (places of one prompt are not quite independent). All three are given the same token ids. In an environment of your own:

    pip install torch transformers accelerate gguf sentencepiece protobuf xllamacpp
    log_probs.py $(tools/models smollm2-135m)
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# this folder's names must not stand for packages
sys.path[:] = [p for p in sys.path if pathlib.Path(p or ".").resolve() != pathlib.Path(__file__).resolve().parent]

TOP = 5


def exact(path, sequences):
    import torch
    from transformers import AutoModelForCausalLM
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    out = []
    with torch.no_grad():
        for ids in sequences:
            logp = torch.log_softmax(model(torch.tensor([ids])).logits[0, -1].double(), -1)
            out.append({int(i): float(logp[i]) for i in logp.topk(TOP).indices})
    return out


def ours(path, sequences, args):
    server = subprocess.Popen([args.swiftlet, "serve", "-m", str(path), "--port", "0", "--no-store", "--method", "vanilla", "--isa", args.isa],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    address = None
    for line in server.stdout:
        found = re.search(r"http://\S+?:\d+", line)
        if found:
            address = found.group(0)
            break
    out = []
    for ids in sequences:
        body = {"prompt": ids, "max_tokens": 1, "temperature": 0, "logprobs": TOP}
        request = urllib.request.Request(address + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            out.append(json.load(answer)["choices"][0]["logprobs"]["top_logprobs"][0])
    server.terminate()
    server.wait()
    return out


def theirs(path, sequences, args):
    import xllamacpp
    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.n_gpu_layers = 2048, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = args.threads
    server = xllamacpp.Server(params)
    out = []
    for ids in sequences:
        answer = server.handle_completions({"prompt": ids, "n_predict": 1, "temperature": 0, "n_probs": TOP, "cache_prompt": False})
        out.append({t["id"]: t["logprob"] for t in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]})
    return out


def errors(want, got):
    """The mean error of each place; None where the two have no token in common."""
    return [statistics.fmean(each) if (each := [abs(w[i] - g[i]) for i in w if i in g]) else None for w, g in zip(want, got)]


def mean_and_error(values):
    """Mean and its standard error"""
    return f"{statistics.fmean(values):.4f} +- {statistics.stdev(values) / len(values)**.5:.4f}"


def sequences_of(path, args):
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    sequences = []
    for line in pathlib.Path(args.input).read_text().splitlines():
        entry = json.loads(line)
        ids = tokenizer(entry["prompt"] if "prompt" in entry else entry["messages"][-1]["content"])["input_ids"][:512]
        sequences += [ids[:len(ids) * k // args.cuts] for k in range(1, args.cuts + 1) if len(ids) * k // args.cuts > 3]
    return tokenizer, sequences


def by_id(tokenizer, tops):
    """swiftlet names tokens by their text; those whose text is one token's are distinguished by it."""
    named = {}
    for i in range(len(tokenizer)):
        named.setdefault(tokenizer.decode([i]), []).append(i)
    return [{named[text][0]: p for text, p in top.items() if len(named.get(text, [])) == 1} for top in tops]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="+", type=pathlib.Path, help="GGUF files")
    parser.add_argument("-i", "--input", default=str(ROOT / "tools" / "chat.jsonl"), help="prompts as JSON lines")
    parser.add_argument("--cuts", type=int, default=4, help="places in each prompt (4)")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--isa", default="auto")
    parser.add_argument("--swiftlet", default=os.environ.get("SWIFTLET", str(ROOT / "build" / "swiftlet")))
    args = parser.parse_args()
    for path in args.model:
        tokenizer, sequences = sequences_of(path, args)
        want = exact(path, sequences)
        mine = errors(want, by_id(tokenizer, ours(path, sequences, args)))
        peer = errors(want, theirs(path, sequences, args))
        both = [(a, b) for a, b in zip(mine, peer) if a is not None and b is not None]
        mine, peer = zip(*both)
        print(f"{path.name}: {len(both)} of {len(sequences)} places; mean error swiftlet {mean_and_error(mine)}, llama.cpp {mean_and_error(peer)}, "
              f"difference {mean_and_error([a - b for a, b in both])}")


if __name__ == "__main__":
    main()
