#!/usr/bin/env python3
"""Adds to tests/core/golden a tiny random model of every family in every stored type.
"""
import argparse
import json

import golden
from models import BF16, F16, F32, OUT, rope
from transformers import Gemma2Config, MistralConfig, Phi3Config, Qwen2Config, Qwen3Config

BASE = dict(vocab_size=golden.VOCAB, hidden_size=24, intermediate_size=32, num_hidden_layers=4,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
            eos_token_id=golden.END, bos_token_id=None, pad_token_id=None)


def phi3(**changes):
    return Phi3Config(**{**BASE, "original_max_position_embeddings": 256, **changes})


def longrope(dim):
    return {"rope_type": "longrope", "rope_theta": 10000.0,
            "short_factor": [1.0 + 0.05 * i for i in range(dim)],
            "long_factor": [1.0 + 1.5 * i for i in range(dim)]}


def drop(*fields):
    """Removes fields from config.json, as files written by hand or long ago lack them."""
    def edit(folder):
        path = folder / "config.json"
        config = json.loads(path.read_text())
        for field in fields:
            config.pop(field, None)
        path.write_text(json.dumps(config, indent=1) + "\n")
    return edit


# Caps so low that tanh bends what tiny models give. Tied and with its norms, Gemma repeats itself more.
GEMMA = dict(head_dim=8, query_pre_attn_scalar=16, sliding_window=24, tie_word_embeddings=True,
             attn_logit_softcapping=1.5, final_logit_softcapping=2.0)
QWEN3 = dict(head_dim=16, tie_word_embeddings=False)
MODELS = {
    # A window of 24: the text of 84 tokens runs far out of it.
    "mistral-window-f32": (MistralConfig(**BASE, sliding_window=24), F32, 20, {}),
    "mistral-window-f16": (MistralConfig(**BASE, sliding_window=17), F16, 20, {}),
    "mistral-no-window-bf16": (MistralConfig(**BASE, sliding_window=None, head_dim=16), BF16, 20, {}),
    "qwen2-f32": (Qwen2Config(**BASE), F32, 20, {}),
    "qwen2-tied-f16": (Qwen2Config(**BASE, tie_word_embeddings=True), F16, 20, {"edit": drop("layer_types")}),
    "qwen2-window-bf16": (Qwen2Config(**BASE, use_sliding_window=True, sliding_window=24, max_window_layers=0), BF16,
                          20, {}),
    "qwen2-window-unused-f16": (Qwen2Config(**BASE, use_sliding_window=False, sliding_window=8), F16, 20,
                                {"edit": drop("layer_types")}),
    "qwen3-f32": (Qwen3Config(**BASE, **QWEN3), F32, 20, {}),
    "qwen3-f16": (Qwen3Config(**BASE, **QWEN3), F16, 20, {}),
    "qwen3-biases-bf16": (Qwen3Config(**BASE, head_dim=16, attention_bias=True), BF16, 20,
                          {}),
    "phi3-f32": (phi3(), F32, 20, {}),
    "phi3-window-f16": (phi3(sliding_window=24), F16, 20, {}),
    "phi3-partial-bf16": (phi3(hidden_size=32, rope_parameters=rope("default", partial_rotary_factor=0.75)), BF16,
                          20, {}),
    # LongRoPE within its original context, beyond it, and across the border.
    "phi3-longrope-short-f16": (phi3(max_position_embeddings=512, original_max_position_embeddings=128,
                                     rope_parameters=longrope(3)), F16, 20, {}),
    "phi3-longrope-long-bf16": (phi3(max_position_embeddings=512, original_max_position_embeddings=32,
                                     rope_parameters=longrope(3)), BF16, 40, {}),
    "phi3-longrope-across-f16": (phi3(max_position_embeddings=512, original_max_position_embeddings=48,
                                      rope_parameters=longrope(3)), F16, 20, {}),
    "gemma2-f32": (Gemma2Config(**BASE, **GEMMA), F32, 20, {"different": 6}),
    "gemma2-f16": (Gemma2Config(**BASE, **GEMMA), F16, 20, {"different": 6}),
    "gemma2-no-caps-bf16": (Gemma2Config(**BASE, **{**GEMMA, "attn_logit_softcapping": None,
                                                    "final_logit_softcapping": None}), BF16, 20,
                            {"edit": drop("layer_types"), "different": 6}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="folders of tests/core/golden to make again (all)")
    chosen = parser.parse_args().names
    OUT.mkdir(parents=True, exist_ok=True)
    golden.write_tokenizer_once(OUT)
    for name, (config, dtype, length, more) in MODELS.items():
        if not chosen or name in chosen:
            golden.make(OUT / name, config, dtype, length, **more)


if __name__ == "__main__":
    main()
