#!/usr/bin/env python3
"""Compares swiftlet with llama.cpp (the xllamacpp wheel) on GGUF files of random weights and random shapes.

  gguf_texts.py SWIFTLET [--shapes N] [--seed SEED] [--tokens N] [FAMILY…]    families of gguf_models.py (all)

A file's values are F32. Greedy tokens have to be equal unless llama.cpp's two best are closer than 2e-4; what follows is not
compared. Until then the log-probabilities of the chosen tokens lie within 2e-4. Shapes that llama.cpp refuses are named.
"""
import argparse
import json
import pathlib
import random
import re
import subprocess
import tempfile
import urllib.request

import numpy
import torch
import transformers

import golden
import gguf_models

CLOSE = 2e-4
PROMPT = 12
# Whose heads, blocks or sizes llama.cpp or gguf_models.py fix in other ways than by the plain fields.
FIXED = ("gemma3n_text", "gemma4_text", "nemotron_h", "lfm2", "lfm2_moe", "granitemoehybrid", "granite_swa", "granitemoe_swa", "falcon_h1")
UNTIED = ("olmoe", "minimax_m2")  # llama.cpp asks for a head of its own
LINEAR = ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next")


def draw_shape(family, changes, r):
    """Fields of a shape: another number of heads, of blocks, other sizes."""
    out = {"tie_word_embeddings": changes.get("tie_word_embeddings", r.random() < 0.3 and family not in UNTIED),
           "rms_norm_eps": r.choice([1e-6, 1e-5, 1e-3])}
    heads, kv = r.choice([(4, 2), (4, 1), (2, 2), (6, 3), (4, 4), (3, 1)])
    if family not in FIXED:
        out["num_attention_heads"] = heads
        out["num_key_value_heads"] = heads if "kv_lora_rank" in changes or family in ("olmoe", "dots1") else kv
        out["hidden_size"] = 16 * heads
        if "layer_types" not in changes:
            out["num_hidden_layers"] = r.choice([3, 4, 6])
    out["intermediate_size"] = r.choice([24, 40, 64]) if "intermediate_size" not in changes else changes["intermediate_size"]
    for field in ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts"):
        if changes.get(field) and "n_group" not in changes:
            out[field] = r.choice([4, 6, 7])
    for field in ("num_experts_per_tok", "moe_k"):
        if field in changes and "n_group" not in changes:
            out[field] = r.choice([1, 2, 3])
    if "sliding_window" in changes and changes["sliding_window"]:
        out["sliding_window"] = r.choice([5, 12, 30])
    if family in LINEAR:
        keys = r.choice([1, 2, 3])
        out.update(linear_num_key_heads=keys, linear_num_value_heads=keys * r.choice([1, 2, 3]),
                   linear_conv_kernel_dim=r.choice([2, 3, 4]))
    if "kv_lora_rank" in changes:  # the norms of both have an epsilon of 1e-6 in transformers, and the model's in llama.cpp
        out.update(kv_lora_rank=r.choice([8, 16, 24]), q_lora_rank=r.choice([10, 12, 20]), rms_norm_eps=1e-6)
    if family == "falcon_h1":
        out.update(mamba_d_state=r.choice([8, 16]), mamba_n_groups=r.choice([1, 2]), mamba_d_conv=r.choice([2, 3, 4]))
    if family == "nemotron_h":
        out.update(ssm_state_size=r.choice([8, 16]), n_groups=r.choice([1, 2, 4]), conv_kernel=r.choice([2, 4]))
    if family == "granitemoehybrid":
        out.update(mamba_d_state=r.choice([8, 16]), mamba_n_groups=r.choice([1, 2, 4]))
    if family in ("lfm2", "lfm2_moe"):
        out["conv_L_cache"] = r.choice([2, 3, 4])
    return {name: value for name, value in out.items() if name not in ("rms_norm_eps",) or family not in gguf_models.LAYER_NORMS}


def write_model(path, config, seed):
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    golden.randomise(model, seed, golden.adds_one(config) or config.model_type in gguf_models.RECURRENT)
    gguf_models.write_metadata.model = model
    config.allow_global_per_layer_attribute_access = True
    with torch.no_grad():
        for i, (_, buffer) in enumerate(b for b in model.named_buffers() if "e_score" in b[0] or "expert_bias" in b[0]):
            buffer.copy_(torch.randn(buffer.shape, generator=torch.Generator().manual_seed(i)) * 0.2)
    arrays = gguf_models.tensors_of(model, config)
    gguf_models.write_file(path, config, {n: gguf_models.as_type(a, gguf_models.TYPE.F32) for n, a in arrays.items()})


def by_swiftlet(program, path, text, n):
    """Its tokens, and the logarithms of their probabilities."""
    lines, out = path.with_name("in"), path.with_name("out")
    lines.write_text(json.dumps({"id": "0", "prompt": text, "max_tokens": n}) + "\n")
    subprocess.run([program, "stream", "-m", path, "-i", lines, "-o", out], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    tokens = json.loads(out.read_text().splitlines()[0])["tokens"]
    server = subprocess.Popen([program, "serve", "-m", path, "--port", "0", "--no-store"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    try:
        address = next(found.group(0) for line in server.stdout if (found := re.search(r"http://\S+?:\d+", line)))
        body = {"prompt": text, "max_tokens": n, "temperature": 0, "logprobs": 1}
        request = urllib.request.Request(address + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return tokens, json.load(answer)["choices"][0]["logprobs"]["token_logprobs"]
    finally:
        server.terminate()
        server.wait()


def compare(program, config, seed, tokenizer, n):
    """(tokens equal, whether another one follows where no choice is close, how far log-probabilities are apart)"""
    r = random.Random(seed)
    text = "".join(r.choice(["the ", "and ", "x", "in the ", "q", "is "]) for _ in range(PROMPT))
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "model.gguf"
        write_model(path, config, seed)
        theirs, rows = gguf_models.by_newer_llama_cpp(path, tokenizer.encode(text, add_special_tokens=False), n)
        ours, said = by_swiftlet(program, path, text, n)
    equal = 0
    while equal < min(len(ours), n) and ours[equal] == theirs[equal]:
        equal += 1
    apart = max([abs(said[i] - rows[i].max()) for i in range(min(equal, len(said)))], default=0)
    ended = equal >= n or golden.END in ours[:equal] or (theirs[equal] == golden.END and len(ours) == equal)
    best = numpy.sort(rows[min(equal, n - 1)])[-2:]
    return equal, not ended and best[1] - best[0] > CLOSE, apart


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("families", nargs="*")
    parser.add_argument("--shapes", type=int, default=3, help="of each family (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of a family's first shape and weights (%(default)s)")
    parser.add_argument("--tokens", type=int, default=200)
    asked = parser.parse_intermixed_args()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(gguf_models.OUT / "tokenizer" / "tokenizer.json"))
    total = wrong = files = refused = 0
    for family, (maker, changes) in gguf_models.LATER_FAMILIES.items():
        if asked.families and family not in asked.families:
            continue
        for seed in range(asked.seed, asked.seed + asked.shapes):
            shape = draw_shape(family, changes, random.Random(f"{family} {seed}"))
            try:
                config = maker(**{**gguf_models.LATER, **changes, **shape})
                if gguf_models.is_judged_alone(config):
                    continue
                equal, differs, apart = compare(asked.program, config, seed, tokenizer, asked.tokens)
            except Exception as error:
                print(f"{family} {seed}: {type(error).__name__}: {str(error)[:120]} {shape}", flush=True)
                refused += 1
                continue
            bad = differs or apart > CLOSE
            total, wrong, files = total + equal, wrong + bad, files + 1
            print(f"{family} {seed}: {equal} tokens equal, log-probabilities within {apart:.1e}{' WRONG ' + str(shape) if bad else ''}",
                  flush=True)
    print(f"{files} files: {total} tokens equal, {wrong} files differ, {refused} refused")


if __name__ == "__main__":
    main()
