#!/usr/bin/env python3
"""Compares swiftlet with llama.cpp (the xllamacpp wheel) and with transformers on GGUF files of random weights and shapes.

  gguf_texts.py SWIFTLET [--shapes N] [--seed SEED] [--tokens N] [FAMILY…]    families of gguf_models.py (all)

A file's values are F32. swiftlet's log-probabilities of the 20 likeliest tokens lie within 2e-4 of transformers' at every
position. Its greedy tokens are llama.cpp's, unless llama.cpp's two best are closer than 2e-4, or than twice its own distance from
transformers; what follows is not compared. llama.cpp computes GELU from a table of half precision. Its distance from
transformers with such a GELU is printed where a model has one. Shapes that llama.cpp refuses are named, with its message.
"""
import argparse
import copy
import json
import multiprocessing
import os
import pathlib
import random
import re
import subprocess
import tempfile
import urllib.request

import numpy
import torch
import transformers
from transformers.convert_slow_tokenizer import bytes_to_unicode

import golden
import gguf_models

CLOSE = 2e-4
PROMPT = 12
TOP = 20  # as many as the service names
# Whose heads, blocks or sizes llama.cpp or gguf_models.py fix in other ways than by the plain fields.
FIXED = ("gemma3n_text", "gemma4_text", "nemotron_h", "lfm2", "lfm2_moe", "granitemoehybrid", "granite_swa", "granitemoe_swa",
         "falcon_h1")
# llama.cpp asks for a head of its own, transformers ties none of Nemotron-H, and a tied one of Falcon-H1 would have the
# embedding's factor in the file in place of the head's.
UNTIED = ("apertus", "olmoe", "minimax_m2", "qwen2_moe", "nemotron_h", "falcon_h1")
LINEAR = ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next")


def draw_blocks(r, others, n):
    """Kinds of n blocks: others of that name, and at least one with attention that is not the first."""
    kinds = [others] + [r.choice([others, "full_attention"]) for _ in range(n - 1)]
    kinds[r.randrange(1, n)] = "full_attention"
    return kinds


def draw_own(family, r):
    """Fields that one family has, or that llama.cpp asks of it."""
    heads, kv = r.choice([(4, 2), (4, 1), (2, 2), (6, 3), (3, 1)])
    out = {"num_attention_heads": heads, "num_key_value_heads": kv}
    if family in LINEAR:
        keys = r.choice([1, 2, 3])
        size = r.choice([8, 16, 32])  # llama.cpp has one for keys and values
        return {"linear_num_key_heads": keys, "linear_num_value_heads": keys * r.choice([1, 2, 3]),
                "linear_key_head_dim": size, "linear_value_head_dim": size, "linear_conv_kernel_dim": r.choice([2, 3, 4]),
                "full_attention_interval": r.choice([2, 3])}
    if family == "falcon_h1":
        states, size, groups = r.choice([2, 4, 6]), r.choice([4, 8, 12]), r.choice([1, 2])
        norm = r.random() < 0.4
        return {**out, "head_dim": r.choice([8, 12]), "hidden_size": r.choice([16, 24, 40]),
                "num_hidden_layers": r.choice([3, 5]), "mamba_n_heads": states, "mamba_d_ssm": states * size,
                "mamba_n_groups": groups, "mamba_d_state": r.choice([6, 8, 16]), "mamba_d_conv": r.choice([2, 3, 4]),
                "mamba_rms_norm": norm, "mamba_norm_before_gate": not norm}
    if family == "nemotron_h":
        return {"ssm_state_size": r.choice([8, 16]), "n_groups": r.choice([1, 2, 4]), "conv_kernel": r.choice([2, 4])}
    if family == "granitemoehybrid":
        states, blocks = r.choice([2, 4, 8]), r.choice([3, 4, 6])
        return {**out, "hidden_size": 8 * heads, "num_hidden_layers": blocks,
                "layer_types": draw_blocks(r, "linear_attention", blocks), "mamba_n_heads": states,
                "mamba_n_groups": r.choice([1, 2]), "mamba_d_state": r.choice([6, 8, 16]), "mamba_d_conv": r.choice([2, 3, 4]),
                "shared_intermediate_size": r.choice([12, 20, 40])}
    if family in ("lfm2", "lfm2_moe"):
        blocks = r.choice([3, 4, 6])
        return {**out, "hidden_size": 8 * heads, "num_hidden_layers": blocks, "layer_types": draw_blocks(r, "conv", blocks),
                "conv_L_cache": r.choice([2, 3, 4]),
                **({"num_dense_layers": r.choice([0, 1, 2])} if family == "lfm2_moe" else {})}
    if family == "llama4_text":  # every fourth block has no rotation, and llama.cpp aborts where none has
        return {"num_hidden_layers": r.choice([4, 5, 8]), "head_dim": r.choice([8, 16]),
                "intermediate_size_mlp": r.choice([24, 40]), "interleave_moe_layer_step": r.choice([1, 2]),
                "hidden_size": r.choice([16, 24, 40])}
    if family == "gemma4_text":
        blocks = r.choice([4, 5, 7])
        out.update(hidden_size=r.choice([16, 24, 40]), head_dim=r.choice([8, 16]), global_head_dim=r.choice([8, 16, 24]),
                   num_hidden_layers=blocks, layer_types=draw_blocks(r, "sliding_attention", blocks - 1) + ["full_attention"])
        if r.random() < 0.5:  # as in E2B and E4B
            kept = out["layer_types"].index("full_attention") + 1
            return {**out, "num_kv_shared_layers": blocks - kept, "use_double_wide_mlp": r.random() < 0.5,
                    "hidden_size_per_layer_input": r.choice([4, 6]), "final_logit_softcapping": r.choice([4.0, 8.0, None])}
        return {**out, "num_kv_shared_layers": 0, "use_double_wide_mlp": False, "hidden_size_per_layer_input": 0,  # as in 26B-A4B
                "enable_moe_block": True, "num_experts": r.choice([4, 6]), "top_k_experts": r.choice([1, 2, 3]),
                "moe_intermediate_size": r.choice([12, 32]), "attention_k_eq_v": True,
                "num_global_key_value_heads": r.choice([1, kv])}
    return {}


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
    if "kv_lora_rank" in changes:  # the norms of both have an epsilon of 1e-6 in transformers, and the model's in llama.cpp
        out.update(kv_lora_rank=r.choice([8, 16, 24]), q_lora_rank=r.choice([10, 12, 20]), rms_norm_eps=1e-6,
                   qk_nope_head_dim=r.choice([4, 6, 10]), qk_rope_head_dim=r.choice([4, 8]), v_head_dim=r.choice([4, 8, 12]))
    if family in LINEAR:  # so have lengths of queries and keys
        out["rms_norm_eps"] = 1e-6
    out.update(draw_own(family, r))
    return {name: value for name, value in out.items() if name not in ("rms_norm_eps",) or family not in gguf_models.LAYER_NORMS}


def write_model(path, config, seed):
    model = gguf_models.new_model(config)
    golden.randomise(model, seed, golden.adds_one(config) or config.model_type in gguf_models.RECURRENT)
    gguf_models.write_metadata.model = model
    config.allow_global_per_layer_attribute_access = True
    with torch.no_grad():
        for i, (_, buffer) in enumerate(b for b in model.named_buffers() if "e_score" in b[0] or "expert_bias" in b[0]):
            buffer.copy_(torch.randn(buffer.shape, generator=torch.Generator().manual_seed(i)) * 0.2)
    arrays = gguf_models.tensors_of(model, config)
    gguf_models.write_file(path, config, {n: gguf_models.as_type(a, gguf_models.TYPE.F32) for n, a in arrays.items()})
    return model


def names_of(tokenizer):
    """A token's name in the service's answers: its text, or the bytes of a part of a character."""
    out = []
    for i in range(golden.VOCAB):
        text = tokenizer.decode([i])
        out.append(text if "\ufffd" not in text else None)
    byte = {c: b for b, c in bytes_to_unicode().items()}
    pieces = tokenizer.convert_ids_to_tokens(range(golden.VOCAB))
    return {name or "bytes:\\x%02x" % byte[pieces[i]]: i for i, name in enumerate(out)}


def by_swiftlet(program, path, text, n, names):
    """Its tokens, and of each position the logarithms of the likeliest tokens' probabilities: {token: logarithm}."""
    server = subprocess.Popen([program, "serve", "-m", path, "--port", "0", "--no-store", "--threads", "1"], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True)
    try:
        address = next(found.group(0) for line in server.stdout if (found := re.search(r"http://\S+?:\d+", line)))
        body = {"prompt": text, "max_tokens": n, "temperature": 0, "logprobs": TOP, "return_token_ids": True,
                "ignore_eos": True}
        request = urllib.request.Request(address + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            choice = json.load(answer)["choices"][0]
            return choice["token_ids"], [{names[k]: v for k, v in row.items()} for row in choice["logprobs"]["top_logprobs"]]
    finally:
        server.terminate()
        server.wait()


def ask_llama_cpp(pipe, log, *arguments):
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT), 2)
    pipe.send(gguf_models.by_newer_llama_cpp(*arguments))


def by_llama_cpp(path, prompt, n):
    """In a process of its own, since it aborts on some files."""
    log = path.with_name("log")
    os.environ["GGML_NO_BACKTRACE"] = "1"
    mine, its = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=ask_llama_cpp, args=(its, log, path, prompt, n))
    child.start()
    its.close()
    try:
        return mine.recv()
    except EOFError:
        said = [line for line in log.read_text(errors="replace").splitlines() if re.search("ASSERT|error|failed", line)]
        raise RuntimeError(f"llama.cpp: {said[0] if said else 'it ended without a message'}") from None
    finally:
        child.join()


class HalfGelu(torch.nn.Module):
    """llama.cpp's: from a table of half precision by an argument of half precision."""

    def __init__(self, exact):
        super().__init__()
        self.exact = exact

    def forward(self, x):
        rough = self.exact(x.half().float()).half().float()
        return torch.where(x >= 10, x, torch.where(x <= -10, torch.zeros_like(x), rough))


def by_transformers(model, tokens, n):
    """Logarithms of the probabilities at the n positions that the last n tokens were chosen at."""
    with torch.no_grad():
        return torch.log_softmax(model(input_ids=torch.tensor([tokens])).logits[0].double(), 1)[-n - 1:-1].numpy()


def with_rough_gelu(model):
    """The model with llama.cpp's GELU, or None if it has no GELU."""
    found = [(module, name, child) for module in list(model.modules()) for name, child in module.named_children()
             if "gelu" in type(child).__name__.lower()]
    for module, name, child in found:
        setattr(module, name, HalfGelu(child))
    return model if found else None


def distance(rows, others):
    """The largest difference of the tokens that each of rows names."""
    return max([abs(value - other[token]) for row, other in zip(rows, others) for token, value in row.items()], default=0)


def likeliest(rows):
    return [{int(i): row[i] for i in numpy.argsort(row)[-TOP:]} for row in rows]


def compare(program, config, seed, tokenizer, n):
    """(tokens equal, whether another one follows where no choice is close, how far log-probabilities are from llama.cpp's, and
    from transformers', llama.cpp's from transformers', and from transformers' with its GELU, or None)"""
    r = random.Random(seed)
    text = "".join(r.choice(["the ", "and ", "x", "in the ", "q", "is "]) for _ in range(PROMPT))
    prompt = tokenizer.encode(text, add_special_tokens=False)
    with tempfile.TemporaryDirectory() as scratch:
        path = pathlib.Path(scratch) / "model.gguf"
        model = write_model(path, config, seed)
        theirs, rows = by_llama_cpp(path, prompt, n)
        ours, said = by_swiftlet(program, path, text, n, names_of(tokenizer))
    equal = 0
    while equal < min(len(ours), n) and ours[equal] == theirs[equal]:
        equal += 1
    rows, said = rows[:len(said)], said[:equal + 1]
    exact = by_transformers(model, prompt + ours, len(ours))
    rough = with_rough_gelu(model)
    told = likeliest(rows[:equal])
    apart = [distance(said[:equal], rows), distance(said, exact), distance(told, exact),
             distance(told, by_transformers(rough, prompt + ours, len(ours))) if rough else None]
    best = numpy.sort(rows[min(equal, n - 1)])[-2:]
    return equal, equal < n and best[1] - best[0] > max(CLOSE, 2 * apart[2]), apart


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
                own = copy.deepcopy(changes)  # classes write in rope_parameters
                config = maker(**{**gguf_models.LATER, **own, **shape})
                if gguf_models.is_judged_alone(config):
                    continue
                equal, differs, apart = compare(asked.program, config, seed, tokenizer, asked.tokens)
            except Exception as error:
                print(f"{family} {seed}: {type(error).__name__}: {str(error)[:200]} {shape}", flush=True)
                refused += 1
                continue
            bad = differs or apart[1] > CLOSE or apart[0] > max(CLOSE, 2 * apart[2])
            total, wrong, files = total + equal, wrong + bad, files + 1
            gelu = f", with its GELU {apart[3]:.1e}" if apart[3] is not None else ""
            print(f"{family} {seed}: {equal} tokens equal, log-probabilities within {apart[0]:.1e} of llama.cpp's, "
                  f"{apart[1]:.1e} of transformers'; llama.cpp's within {apart[2]:.1e} of transformers'{gelu}"
                  f"{' WRONG ' + str(shape) if bad else ''}", flush=True)
    print(f"{files} files: {total} tokens equal, {wrong} files differ, {refused} refused")


if __name__ == "__main__":
    main()
