#!/usr/bin/env python3
"""Writes tests/core/golden: the built-in model's and random tiny Llama models' greedy tokens and logits.
"""
import argparse
import json
import pathlib

import numpy
import torch
from transformers import LlamaConfig

import golden

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "core" / "golden"
F32, F16, BF16 = torch.float32, torch.float16, torch.bfloat16


def llama(**changes):
    base = dict(vocab_size=golden.VOCAB, hidden_size=24, intermediate_size=32, num_hidden_layers=4,
                num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                rms_norm_eps=1e-5, eos_token_id=golden.END, bos_token_id=None, pad_token_id=None,
                tie_word_embeddings=False)
    return LlamaConfig(**{**base, **changes})


def rope(kind, **parameters):
    return {"rope_type": kind, "rope_theta": 10000.0, **parameters}


# name: (config, type, prompt length, more). Prompts of 40 with 64 tokens go past original contexts of 64.
MODELS = {
    "llama-mha-f32": (llama(num_key_value_heads=4), F32, 20, {}),
    "llama-gqa-f16": (llama(), F16, 20, {}),
    "llama-mqa-bf16": (llama(num_key_value_heads=1), BF16, 20, {}),
    "llama-tied-f16": (llama(tie_word_embeddings=True), F16, 20, {}),
    "llama-tied-mqa-f16": (llama(tie_word_embeddings=True, num_key_value_heads=1), F16, 20, {}),
    "llama-wide-heads-f16": (llama(head_dim=16, rms_norm_eps=1e-6), F16, 20, {}),
    "llama-biases-f16": (llama(attention_bias=True, mlp_bias=True), F16, 20, {}),
    "llama-theta-bf16": (llama(rope_parameters=rope("default", rope_theta=500000.0)), BF16, 20,
                         {"edit": golden.old_style_rope}),
    "llama-linear-f16": (llama(rope_parameters=rope("linear", factor=4.0)), F16, 40, {}),
    "llama-linear-old-bf16": (llama(rope_parameters=rope("linear", factor=2.5)), BF16, 40,
                             {"edit": golden.old_style_rope}),
    "llama-dynamic-f16": (llama(max_position_embeddings=64, rope_parameters=rope("dynamic", factor=2.0)), F16, 40,
                          {}),
    "llama-dynamic-long-prompt-f16": (llama(max_position_embeddings=64,
                                            rope_parameters=rope("dynamic", factor=4.0)), F16, 90,
                                      {"edit": golden.old_style_rope}),
    "llama-llama3-f16": (llama(rope_parameters=rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                                    original_max_position_embeddings=64)), F16, 40, {}),
    "llama-llama3-bf16": (llama(head_dim=16, rope_parameters=rope(
        "llama3", factor=32.0, low_freq_factor=1.0, high_freq_factor=4.0, rope_theta=500000.0,
        original_max_position_embeddings=32)), BF16, 40, {"edit": golden.old_style_rope}),
    "llama-yarn-f16": (llama(rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=64)), F16, 40,
                       {}),
    "llama-yarn-mscale-f16": (llama(head_dim=16, rope_parameters=rope(
        "yarn", factor=8.0, beta_fast=16.0, beta_slow=2.0, mscale=0.7, mscale_all_dim=0.4,
        original_max_position_embeddings=32)), F16, 40, {"edit": golden.old_style_rope}),
    "llama-sharded-f16": (llama(), F16, 20, {"shard": "30KB"}),
}


def builtin():
    folder = ROOT / "core" / "builtin"
    spec = json.loads((ROOT / "core" / "builtin" / "tokenizer.json").read_text())["model"]["vocab"]
    assert len(spec) == 4096
    from tokenizers import Tokenizer
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    prompts = ["Question: A farmer has 12 cows and buys 5 more. How many cows does he have now?\nAnswer:",
               "German: Ein Mann in einem blauen Hemd steht auf einer Leiter.\nEnglish:",
               "Dialogue:\nAnna: Are you coming tonight?\nBen: No, I have to work late.\nSummary:"]
    for i, text in enumerate(prompts):
        out = OUT / f"builtin-{i}"
        out.mkdir(parents=True, exist_ok=True)
        ids = [1] + tokenizer.encode(text, add_special_tokens=False).ids
        for seed in range(50):
            masks = golden.random_masks(20, numpy.random.default_rng(1000 * i + seed))
            result = golden.judge(folder, ids, masks, keep=(0, 63), keep_masked=(31,))
            if result:
                break
        assert result, "a choice is too close; take another prompt"
        golden.write(out, *result)
        print(f"builtin-{i}: matched {[m['matched'] for m in result[0]['masks']]} of 32")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="folders of tests/core/golden to make again (all)")
    chosen = parser.parse_args().names
    golden.write_tokenizer_once(OUT)
    for name, (config, dtype, length, more) in MODELS.items():
        if not chosen or name in chosen:
            golden.make(OUT / name, config, dtype, length, **more)
    if not chosen or "builtin" in chosen:
        builtin()


if __name__ == "__main__":
    main()
