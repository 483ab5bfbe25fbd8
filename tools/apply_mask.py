#!/usr/bin/env python3
"""Applies an exported mask to a transformers model: the masked sub-layers are left out of its forward pass.

    model = AutoModelForCausalLM.from_pretrained(...)
    with masked(model, "mask.json"):        # or a dict, or `--key` of a skip_layers file
        draft = model.generate(...)         # the draft model
    full = model.generate(...)              # the full model again

A skipped attention or MLP adds nothing to the residual stream, which is what swiftlet's draft model does
(SWIFT, section 4). Works on models whose blocks lie in model.model.layers with `self_attn` and `mlp`
(Llama, Mistral, Qwen, Gemma, Phi and their kin). As a program it prints how often the masked model's argmax agrees
with the full model's greedy text (matchness):

    apply_mask.py MODEL mask.json --prompt TEXT [--tokens 32] [--key KEY]
"""
import argparse
import contextlib
import json


def read_mask(source, key=None):
    """{"attention": [...], "mlp": [...]} from a file of either format, or what such a file holds."""
    if not isinstance(source, (dict, list)):
        with open(source, encoding="utf-8") as file:
            source = json.load(file)
    if isinstance(source, list):
        chosen = [m for m in source if key is None or m.get("task") == key]
        if len(chosen) != 1:
            raise ValueError("%d masks fit; choose one with key=, of: %s" % (len(chosen), [m.get("task") for m in source]))
        source = chosen[0]
    if "attention" not in source:  # the published code's: {"<model>_<task>": {...}}
        if key is None and len(source) != 1:
            raise ValueError("several masks; choose one with key=, of: %s" % list(source))
        source = source[key] if key is not None else next(iter(source.values()))
    return {"attention": list(source["attention"]), "mlp": list(source["mlp"])}


def _layers(model):
    inner = getattr(model, "model", None) or getattr(model, "transformer", None) or model
    inner = getattr(inner, "decoder", inner)
    layers = getattr(inner, "layers", None)
    if layers is None or not hasattr(layers[0], "self_attn") or not hasattr(layers[0], "mlp"):
        raise TypeError("%s has no layers with self_attn and mlp" % type(model).__name__)
    return layers


def _silence(module, args, output):
    """A forward hook: zeros of the output's shape; whatever else the module returns (caches) stays."""
    first = output[0] if isinstance(output, tuple) else output
    zero = first.new_zeros(first.shape)
    return (zero, *output[1:]) if isinstance(output, tuple) else zero


@contextlib.contextmanager
def masked(model, mask, key=None):
    mask = read_mask(mask, key)
    layers = _layers(model)
    for kind, blocks in mask.items():
        for b in blocks:
            if not 0 < b < len(layers) - 1:
                raise ValueError("%s of block %d: the model has blocks 0 to %d, of which the first and the last are "
                                 "never skipped" % (kind, b, len(layers) - 1))
    handles = []
    try:
        for kind, name in (("attention", "self_attn"), ("mlp", "mlp")):
            for b in mask[kind]:
                # where the sub-layer's output has a norm of its own (Gemma 2), zeros stay zeros behind it
                handles.append(getattr(layers[b], name).register_forward_hook(_silence))
        yield model
    finally:
        for handle in handles:
            handle.remove()


def matchness(model, ids, n_prompt, mask, key=None):
    """Share of ids[n_prompt:] that the masked model predicts, everything before given (SWIFT, Eq. 3 and 4, with the
    masked model's own keys and values throughout)."""
    import torch

    with torch.no_grad(), masked(model, mask, key):
        guess = model(ids[None], use_cache=False).logits[0].argmax(-1)
    return (guess[n_prompt - 1:-1] == ids[n_prompt:]).float().mean().item()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a Hugging Face folder or name")
    parser.add_argument("mask", help="a mask file in swiftlet's format, or in that of skip_layers")
    parser.add_argument("--prompt", required=True, help="text that the window is generated from")
    parser.add_argument("--tokens", type=int, default=32, help="length of the window in tokens (%(default)s)")
    parser.add_argument("--key", help="the key of the mask, if the file holds several")
    options = parser.parse_args()
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(options.model)
    model = AutoModelForCausalLM.from_pretrained(options.model).eval()
    ids = tokenizer(options.prompt, return_tensors="pt").input_ids
    with torch.no_grad():
        text = model.generate(ids, max_new_tokens=options.tokens, do_sample=False)[0]
    print("matchness %.3f over %d tokens" % (matchness(model, text, ids.shape[1], options.mask, options.key),
                                            len(text) - ids.shape[1]))


if __name__ == "__main__":
    main()
