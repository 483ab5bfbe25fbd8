#!/usr/bin/env python3
"""Adds to tests/core/golden a tiny random model of every family in every stored type.
"""
import argparse
import json

import golden
import torch
from models import BF16, F16, F32, OUT, rope
from safetensors.torch import load_file, save_file
from transformers import (ApertusConfig, ArceeConfig, DeepseekV2Config, DeepseekV3Config, Dots1Config, Gemma3nTextConfig, Gemma4TextConfig, HunYuanDenseV1Config, Exaone4Config, Gemma2Config, Gemma3TextConfig, Glm4Config, GptOssConfig, GraniteConfig,
                          GraniteMoeHybridConfig, LlamaConfig,
                          Ministral3Config,
                          MinistralConfig, MistralConfig, MixtralConfig, Olmo2Config, Olmo3Config, Phi3Config,
                          Qwen2Config, Qwen3Config, Qwen3MoeConfig, SeedOssConfig, SmolLM3Config, StableLmConfig)

BASE = dict(vocab_size=golden.VOCAB, hidden_size=24, intermediate_size=32, num_hidden_layers=4,
            num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
            eos_token_id=golden.END, bos_token_id=None, pad_token_id=None)


# Narrower, for the families that came later: their arithmetic shows as well.
SMALL = {**BASE, "hidden_size": 16, "intermediate_size": 24}


WIDER = {**BASE, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 3}


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
GRANITE = dict(embedding_multiplier=3.0, residual_multiplier=0.6, attention_multiplier=0.3, logits_scaling=4.0)
GRANITE4 = dict(**GRANITE, num_local_experts=0, shared_intermediate_size=20, layer_types=["attention"] * 4,
                mamba_n_heads=4)
# Windows of 24 in three blocks of four, as many models have them now.
WINDOWS = dict(sliding_window=24, layer_types=["sliding_attention"] * 3 + ["full_attention"])
GEMMA3 = dict(head_dim=8, query_pre_attn_scalar=16, tie_word_embeddings=True, **WINDOWS)
# Gemma 4: heads of two sizes; the last blocks read the keys of earlier ones; inputs by token and block.
GEMMA4 = dict(head_dim=4, global_head_dim=8, sliding_window=24, tie_word_embeddings=True, vocab_size_per_layer_input=golden.VOCAB)
GEMMA3N = dict(head_dim=8, sliding_window=24, hidden_size_per_layer_input=4, vocab_size_per_layer_input=250, laurel_rank=6)
ALTERNATE = ["sliding_attention", "full_attention"]
YARN = rope("yarn", factor=4.0, original_max_position_embeddings=64, beta_fast=32.0, beta_slow=1.0)


def by_kind(sliding, full):
    return {"sliding_attention": sliding, "full_attention": full}


def old_style_kinds(folder):
    """config.json as the first Gemma 3 had it: rope_theta, rope_local_base_freq, and a scaling for full blocks."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    kinds = config.pop("rope_parameters")
    config["rope_theta"] = kinds["full_attention"].pop("rope_theta")
    config["rope_local_base_freq"] = kinds["sliding_attention"].pop("rope_theta")
    config["rope_scaling"] = kinds["full_attention"]
    config.pop("layer_types")
    config["sliding_window_pattern"] = 4
    path.write_text(json.dumps(config, indent=1) + "\n")


def nest(outer):
    """The folder as models of images and text have it: a text_config, and names under language_model."""
    def edit(folder):
        config_path, path = folder / "config.json", folder / "model.safetensors"
        config = json.loads(config_path.read_text())
        config_path.write_text(json.dumps({"model_type": outer, "text_config": config, "tie_word_embeddings": False},
                                          indent=1) + "\n")
        tensors = load_file(path)
        save_file({"language_model." + name: tensor for name, tensor in tensors.items()}, path)
    return edit


def without_prefix(folder):
    """Names as a checkpoint of the inner model has them."""
    path = folder / "model.safetensors"
    save_file({name.removeprefix("model."): tensor for name, tensor in load_file(path).items()}, path)


def quantized(convert, config, matrices="proj.weight"):
    """Converts the matrices whose names end so; the others stay. convert(name, matrix) gives the values, on which the model is
    judged, and the tensors that are stored in place of the matrix. config: what config.json holds about them."""
    stored = {}

    def save(tensors, folder):
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")

    def edit(folder):
        plain = {}
        stored.clear()
        for name, tensor in load_file(folder / "model.safetensors").items():
            if name.endswith(matrices):
                plain[name], parts = convert(name, tensor)
                stored.update(parts)
            else:
                plain[name] = stored[name] = tensor
        save(plain, folder)

    def after(folder):
        save(stored, folder)
        path = folder / "config.json"
        whole = json.loads(path.read_text())
        whole["quantization_config"] = config
        path.write_text(json.dumps(whole, indent=1) + "\n")
    return {"edit": edit, "after": after}


def fp8(block, quantization):
    """Matrices of the blocks as E4M3 with scales by block, by row ((1, 0)) or one a tensor ((0, 0)). The model
    is judged on their values in float32."""
    def convert(name, tensor):
        rows, cols = tensor.shape
        down, across = block[0] or rows, block[1] or cols
        scale = torch.stack([torch.stack([part.abs().max() / 400 for part in strip.split(across, 1)])
                             for strip in tensor.split(down, 0)])
        whole = scale.repeat_interleave(down, 0).repeat_interleave(across, 1)[:rows, :cols]
        codes = (tensor / whole).to(torch.float8_e4m3fn)
        return codes.float() * whole, {
            name: codes, name.replace("weight", quantization["name"]): scale if block != (0, 0) else scale[0, 0]}
    return quantized(convert, quantization["config"])


# OCP Microscaling Formats 1.0: sign, two exponent bits, one mantissa bit.
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


def mxfp4():
    """gpt-oss' experts in MXFP4: groups of 32 inputs, two to a byte, with an exponent each."""
    def convert(name, tensor):
        stored = {}
        rows = tensor.float().transpose(1, 2)  # (experts, outputs, inputs)
        groups = rows.reshape(*rows.shape[:2], -1, 32)
        exponent = torch.floor(torch.log2(groups.abs().amax(-1))) - 2
        codes = (groups[..., None] / torch.exp2(exponent)[..., None, None] - E2M1).abs().argmin(-1)
        values = (E2M1[codes] * torch.exp2(exponent)[..., None]).reshape(rows.shape).transpose(1, 2)
        stored[name + "_blocks"] = (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8)
        stored[name + "_scales"] = (exponent + 127).to(torch.uint8)
        return values, stored
    return quantized(convert, {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]},
                     ("experts.gate_up_proj", "experts.down_proj"))


def words(numbers, order=range(8)):
    """Numbers in words of 32 bits, along the last dimension: eight of four bits, or as many as the order has."""
    n = len(order)
    parts = numbers.reshape(*numbers.shape[:-1], -1, n).to(torch.int64)
    packed = sum(parts[..., k] << 32 // n * place for place, k in enumerate(order))
    return (packed - (packed >> 31 << 32)).to(torch.int32)


def four_bits(group, config, reorder=False):
    """Matrices of the blocks in 4 or 8 bits around a zero of each group, as GPTQ or AWQ lays them. With 8 bits and "sym" the
    zero is 128."""
    gptq, most = config["quant_method"] == "gptq", 2 ** config["bits"] - 1
    deal = range(32 // config["bits"]) if gptq else (0, 2, 4, 6, 1, 3, 5, 7)

    def convert(name, tensor):
        stored = {}
        stem, inputs = name.removesuffix("weight"), tensor.shape[1]
        of = torch.arange(inputs) // group
        if reorder:
            of = of[torch.randperm(inputs, generator=torch.Generator().manual_seed(len(name)))]
        w = tensor.float().t()  # (inputs, outputs)
        low = torch.stack([w[of == g].amin(0) for g in range(of.max() + 1)]).clamp(max=0)
        high = torch.stack([w[of == g].amax(0) for g in range(of.max() + 1)]).clamp(min=0)
        scale = (torch.maximum(high, -low) / 127 if config.get("sym") else (high - low) / most).half()
        zero = torch.full_like(low, 128) if config.get("sym") else torch.round(-low / scale.float()).clamp(1, most)
        q = torch.round(w / scale.float()[of] + zero[of]).clamp(0, most)
        values = ((q - zero[of]) * scale.float()[of]).t()
        stored[stem + "scales"] = scale
        stored[stem + "qzeros"] = words(zero - (1 if gptq and config.get("checkpoint_format") != "gptq_v2" else 0), deal)
        stored[stem + "qweight"] = words(q.t(), deal).t() if gptq else words(q, deal)
        if gptq:
            stored[stem + "g_idx"] = of.to(torch.int32)
        return values, stored
    return quantized(convert, config)


def whole_numbers(kind, zeros=False):
    """Matrices of the blocks in 8 bits with a scale for each row, of a float type, as compressed-tensors stores them."""
    def convert(name, tensor):
        stored = {}
        w = tensor.float()
        scale = ((w.amax(1, keepdim=True) - w.amin(1, keepdim=True)) / 255 if zeros
                 else w.abs().amax(1, keepdim=True) / 127).to(kind)
        zero = torch.round(-128 - w.amin(1, keepdim=True) / scale.float()).clamp(-128, 127) if zeros else 0
        q = torch.round(w / scale.float() + zero).clamp(-128, 127)
        values = (q - zero) * scale.float()
        stored[name], stored[name + "_scale"] = q.to(torch.int8), scale
        if zeros:
            stored[name + "_zero_point"] = zero.to(torch.int8)
        return values, stored
    return quantized(convert, {"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"group_0": {
        "targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "symmetric": not zeros, "strategy": "channel"},
        "input_activations": {"num_bits": 8, "type": "int", "dynamic": True, "strategy": "token"}}}})


def with_key_scales(more):
    """Scales for a quantized KV cache beside the weights, which are not for this one."""
    def after(folder):
        more["after"](folder)
        path = folder / "model.safetensors"
        tensors = load_file(path)
        for block in {name.split("self_attn.")[0] for name in tensors if "self_attn." in name}:
            tensors.update({f"{block}self_attn.{part}_scale": torch.full((1,), 0.37) for part in "kv"})
        save_file(tensors, path, {"format": "pt"})
    return {**more, "after": after}


def nvfp4(modelopt=False):
    """Matrices of the blocks in NVFP4: packed and widened by compressed-tensors itself; modelopt's have other names, and the
    inverse of the scale of the whole."""
    from compressed_tensors.compressors.nvfp4.base import NVFP4PackedCompressor
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    args = QuantizationArgs(num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16)
    scheme = QuantizationScheme(targets=["Linear"], weights=args)

    def convert(name, w):
        stored = {}
        w = w.float()
        whole = (448 * 6 / w.abs().max()).reshape(1)
        if modelopt:
            whole = 2.0 ** torch.floor(torch.log2(whole))  # so that both ways round alike
        scale = (whole * w.reshape(w.shape[0], -1, 16).abs().amax(-1) / 6).to(torch.float8_e4m3fn)
        packed = NVFP4PackedCompressor.compress({"weight": w, "weight_scale": scale.float(),
                                                 "weight_global_scale": whole}, scheme)
        values = NVFP4PackedCompressor.decompress(packed, scheme)["weight"].float()
        if modelopt:
            stored.update({name: packed["weight_packed"], name + "_scale": scale, name + "_scale_2": 1 / whole[0],
                           name.replace("weight", "input_scale"): torch.tensor(1.0)})
        else:
            stored.update({name.replace("weight", part): tensor for part, tensor in packed.items()})
            stored[name.replace("weight", "input_global_scale")] = torch.ones(1)
        return values, stored
    return quantized(convert, {"quant_method": "modelopt", "quant_algo": "NVFP4"} if modelopt else {
        "quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "config_groups": {"group_0": {
            "targets": ["Linear"], "weights": {"num_bits": 4, "type": "float", "strategy": "tensor_group", "group_size": 16}}}})


def packed_bytes(group, symmetric=True):
    """Matrices of the blocks in 8 bits as compressed-tensors packs them itself."""
    from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32

    def convert(name, tensor):
        stored = {}
        w = tensor.float().reshape(tensor.shape[0], -1, group or tensor.shape[1])
        low, high = w.amin(-1, keepdim=True).clamp(max=0), w.amax(-1, keepdim=True).clamp(min=0)
        scale = (torch.maximum(-low, high) / 127 if symmetric else (high - low) / 255).bfloat16().float()
        zero = torch.zeros_like(low) if symmetric else torch.round(-128 - low / scale).clamp(-128, 127)
        q = torch.round(w / scale + zero).clamp(-128, 127)
        values = ((q - zero) * scale).reshape(tensor.shape)
        stored[name + "_packed"] = pack_to_int32(q.reshape(tensor.shape).to(torch.int8), 8)
        stored[name + "_scale"] = scale[..., 0].bfloat16()
        stored[name + "_shape"] = torch.tensor(tensor.shape)
        if not symmetric:
            stored[name + "_zero_point"] = pack_to_int32(zero[..., 0].to(torch.int8), 8, packed_dim=0)
        return values, stored
    return quantized(convert, {"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups": {"group_0": {
        "targets": ["Linear"], "weights": {"num_bits": 8, "type": "int", "symmetric": symmetric, **(
            {"strategy": "group", "group_size": group} if group else {"strategy": "channel"})}}}})


def compressed(group, config, symmetric=True, reorder=False):
    """Matrices of the blocks in 4 bits as compressed-tensors packs them."""
    def convert(name, tensor):
        stored = {}
        outputs, inputs = tensor.shape
        of = torch.arange(inputs) // group
        if reorder:
            of = of[torch.randperm(inputs, generator=torch.Generator().manual_seed(len(name)))]
            stored[name + "_g_idx"] = of.to(torch.int32)
        w = tensor.float()
        low = torch.stack([w[:, of == g].amin(1) for g in range(of.max() + 1)], 1).clamp(max=0)
        high = torch.stack([w[:, of == g].amax(1) for g in range(of.max() + 1)], 1).clamp(min=0)
        scale = (torch.maximum(-low / 8, high / 7) if symmetric else (high - low) / 15).bfloat16()
        zero = torch.full_like(low, 8) if symmetric else torch.round(-low / scale.float()).clamp(0, 15)
        q = torch.round(w / scale.float()[:, of] + zero[:, of]).clamp(0, 15)
        values = (q - zero[:, of]) * scale.float()[:, of]
        stored[name + "_packed"] = words(q)
        stored[name + "_scale"] = scale
        stored[name + "_shape"] = torch.tensor([outputs, inputs])
        if not symmetric:
            stored[name + "_zero_point"] = words(zero.t()).t()
        return values, stored
    weights = {"num_bits": 4, "type": "int", "symmetric": symmetric, "strategy": "group", "group_size": group,
               "actorder": "group" if reorder else None, **config}
    return quantized(convert, {"quant_method": "compressed-tensors", "format": "pack-quantized",
                               "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}})


def nf4(kind, double, dtype):
    """Matrices of the blocks as bitsandbytes itself quantizes them. Its CPU code widens rows shorter than a block
    otherwise than its GPU code: rows are whole blocks here."""
    from bitsandbytes import functional

    def convert(name, tensor):
        stored = {}
        codes, state = functional.quantize_4bit(tensor.to(dtype), blocksize=64, compress_statistics=double,
                                                quant_type=kind)
        values = functional.dequantize_4bit(codes, state).float()
        stored[name] = codes
        stored.update({f"{name}.{part}": value for part, value in state.as_dict(packed=True).items()})
        return values, stored
    return quantized(convert, {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": kind,
                               "bnb_4bit_use_double_quant": double})


def in_f64(folder):
    """Norms in double precision."""
    path = folder / "model.safetensors"
    save_file({n: t.double() if t.ndim == 1 else t for n, t in load_file(path).items()}, path)


def tie_in_words(folder):
    """Declares that the head is the embedding, where a head of its own is stored."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config["tie_word_embeddings"] = True
    path.write_text(json.dumps(config, indent=1) + "\n")


def with_bitsandbytes():
    return {
        "llama-nf4": (LlamaConfig(**WIDER), F32, 20, nf4("nf4", False, F32)),
        "qwen2-nf4-double": (Qwen2Config(**WIDER), F32, 20, nf4("nf4", True, BF16)),
        "llama-fp4": (LlamaConfig(**WIDER), F32, 20, nf4("fp4", False, F16)),
    }


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
    # Phi-4-mini: tied, three quarters of a head turned, LongRoPE.
    "phi4-mini-f16": (phi3(hidden_size=32, intermediate_size=24, tie_word_embeddings=True,
                           max_position_embeddings=512, original_max_position_embeddings=48,
                           rope_parameters={**longrope(3), "partial_rotary_factor": 0.75}), F16, 20, {}),
    "seed-oss-f32": (SeedOssConfig(**SMALL, head_dim=8), F32, 20, {}),
    "seed-oss-biases-bf16": (SeedOssConfig(**SMALL, head_dim=8, attention_bias=False, attention_out_bias=True,
                                           mlp_bias=True), BF16, 20, {}),
    "ministral-f16": (MinistralConfig(**SMALL, head_dim=8, sliding_window=24, layer_types=[
        "full_attention", "sliding_attention", "full_attention", "sliding_attention"]), F16, 20, {}),
    # Scores grow at positions 32, 64…
    "ministral3-f32": (Ministral3Config(**SMALL, head_dim=8, rope_parameters={
        **YARN, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 32,
        "llama_4_scaling_beta": 0.3}), F32, 20, {}),
    "ministral3-bf16": (Ministral3Config(**SMALL, head_dim=8, rope_parameters={
        **YARN, "original_max_position_embeddings": 16, "llama_4_scaling_beta": 0.1}), BF16, 20, {}),
    "mistral3-nested-f16": (MistralConfig(**SMALL, sliding_window=None, head_dim=8), F16, 20,
                            {"after": nest("mistral3")}),
    "smollm3-f32": (SmolLM3Config(**SMALL, tie_word_embeddings=True), F32, 20, {}),
    "smollm3-window-bf16": (SmolLM3Config(**{**SMALL, "hidden_size": 24}, no_rope_layers=[0, 1, 1, 0], use_sliding_window=True,
                                          sliding_window=24, tie_word_embeddings=False), BF16, 20,
                            {"edit": drop("layer_types")}),
    "granite-f32": (GraniteConfig(**SMALL, **GRANITE), F32, 20, {}),
    "granite-biases-f16": (GraniteConfig(**SMALL, **GRANITE, attention_bias=True, mlp_bias=True), F16, 20,
                           {"different": 10}),
    "granite4-f32": (GraniteMoeHybridConfig(**SMALL, **GRANITE4, position_embedding_type="rope"), F32, 20, {}),
    "granite4-no-positions-bf16": (GraniteMoeHybridConfig(**SMALL, **GRANITE4), BF16, 20, {"different": 10}),
    "olmo2-f32": (Olmo2Config(**SMALL), F32, 20, {}),
    "olmo2-mha-f16": (Olmo2Config(**{**SMALL, "num_key_value_heads": 4}, attention_bias=True), F16, 20, {}),
    "olmo3-f32": (Olmo3Config(**SMALL, sliding_window=24), F32, 20, {"edit": drop("layer_types")}),
    "olmo3-yarn-f16": (Olmo3Config(**SMALL, **WINDOWS, rope_parameters=by_kind(rope("default"), YARN)), F16, 40, {}),
    "glm4-f32": (Glm4Config(**SMALL, head_dim=8), F32, 20, {}),
    "glm4-bf16": (Glm4Config(**SMALL, head_dim=8, attention_bias=False,
                             rope_parameters=rope("default", partial_rotary_factor=0.75)), BF16, 20, {}),
    "exaone4-f32": (Exaone4Config(**SMALL, sliding_window=24), F32, 20, {"edit": drop("layer_types")}),
    "exaone4-full-f16": (Exaone4Config(**SMALL, sliding_window=None, layer_types=["full_attention"] * 4), F16, 20,
                         {}),
    "stablelm-f32": (StableLmConfig(**{**SMALL, "hidden_size": 32}), F32, 20, {"different": 10}),
    "stablelm-biases-f16": (StableLmConfig(**{**SMALL, "num_key_value_heads": 4}, use_qkv_bias=True,
                                           rope_parameters=rope("default", partial_rotary_factor=0.5)), F16, 20, {}),
    "gemma3-f32": (Gemma3TextConfig(**SMALL, **GEMMA3, rope_parameters=by_kind(
        rope("default", rope_theta=100.0), rope("linear", rope_theta=5000.0, factor=4.0))), F32, 20,
                   {"different": 6}),
    "gemma3-old-bf16": (Gemma3TextConfig(**SMALL, **GEMMA3, final_logit_softcapping=2.0, rope_parameters=by_kind(
        rope("default", rope_theta=100.0), rope("linear", rope_theta=5000.0, factor=2.0))), BF16, 20,
                        {"edit": old_style_kinds, "different": 6}),
    "mixtral-f32": (MixtralConfig(**SMALL, num_local_experts=4, num_experts_per_tok=2), F32, 20, {}),
    "mixtral-f16": (MixtralConfig(**SMALL, num_local_experts=5, num_experts_per_tok=3, sliding_window=24), F16, 20,
                    {}),
    "qwen3-moe-f32": (Qwen3MoeConfig(**SMALL, head_dim=8, num_experts=6, num_experts_per_tok=2,
                                     moe_intermediate_size=8, norm_topk_prob=True), F32, 20, {}),
    "qwen3-moe-mixed-bf16": (Qwen3MoeConfig(**SMALL, head_dim=8, num_experts=4, num_experts_per_tok=2,
                                            moe_intermediate_size=8, mlp_only_layers=[2]), BF16, 20, {}),
    # Sinks, alternating windows, experts with biases and a clamped activation.
    "gpt-oss-bf16": (GptOssConfig(**SMALL, head_dim=8, sliding_window=24, num_local_experts=4, num_experts_per_tok=2,
                                  rope_parameters={**YARN, "truncate": False}), BF16, 20, {}),
    "gpt-oss-mxfp4": (GptOssConfig(**{**SMALL, "hidden_size": 32, "intermediate_size": 32}, head_dim=8,
                                   sliding_window=24, num_local_experts=4, num_experts_per_tok=2), BF16, 20, mxfp4()),
    "gemma4-shared-f32": (Gemma4TextConfig(**{**SMALL, "num_hidden_layers": 6}, **GEMMA4, layer_types=ALTERNATE * 3,
                                           num_kv_shared_layers=3, use_double_wide_mlp=True,
                                           hidden_size_per_layer_input=4, final_logit_softcapping=8.0), F32, 20,
                          {"different": 6}),
    "gemma4-experts-f32": (Gemma4TextConfig(**SMALL, **GEMMA4, layer_types=ALTERNATE * 2, enable_moe_block=True,
                                             num_experts=5, top_k_experts=2, moe_intermediate_size=8,
                                             attention_k_eq_v=True, num_global_key_value_heads=1,
                                             hidden_size_per_layer_input=0), F32, 20, {"different": 6}),
    "gemma4-inputs-f32": (Gemma4TextConfig(**SMALL, **{**GEMMA4, "tie_word_embeddings": False},
                                           hidden_size_per_layer_input=6, layer_types=ALTERNATE * 2), F32, 20,
                          {"different": 6}),
    # Four states of a row; two of the last blocks' keys are the others'; sparse gates; a table shorter than the vocabulary.
    "gemma3n-f32": (Gemma3nTextConfig(**{**SMALL, "num_hidden_layers": 6}, **GEMMA3N, layer_types=ALTERNATE * 3,
                                      num_kv_shared_layers=2, tie_word_embeddings=True,
                                      activation_sparsity_pattern=[0.9, 0.5, 0.0, 0.0, 0.2, 0.0]), F32, 20, {"different": 6}),
    "gemma3n-nested-f16": (Gemma3nTextConfig(**SMALL, **GEMMA3N, layer_types=ALTERNATE * 2, num_kv_shared_layers=0,
                                             altup_num_inputs=3, altup_correct_scale=False,
                                             tie_word_embeddings=False), F16, 20,
                           {"after": nest("gemma3n"), "different": 6}),
    "deepseek-v3-f32": (DeepseekV3Config(**{**SMALL, "num_key_value_heads": 4}, kv_lora_rank=12, q_lora_rank=8, qk_nope_head_dim=6, qk_rope_head_dim=4,
                                         v_head_dim=4, n_routed_experts=6, num_experts_per_tok=2, n_group=2, topk_group=1,
                                         moe_intermediate_size=8, first_k_dense_replace=1, rope_parameters={
                                             **YARN, "mscale": 1.0, "mscale_all_dim": 1.0}), F32, 20, {}),
    "deepseek-v2-f16": (DeepseekV2Config(**{**SMALL, "num_key_value_heads": 4}, kv_lora_rank=8, q_lora_rank=None, qk_nope_head_dim=4,
                                         qk_rope_head_dim=4, v_head_dim=6, n_routed_experts=4, num_experts_per_tok=2,
                                         moe_intermediate_size=8, n_shared_experts=1), F16, 20, {}),
    "dots1-f32": (Dots1Config(**SMALL, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=8,
                              n_shared_experts=1, first_k_dense_replace=1, sliding_window=24, max_window_layers=2),
                  F32, 20, {}),
    "hunyuan-f32": (HunYuanDenseV1Config(**SMALL, head_dim=8, rope_parameters=rope(
        "dynamic", alpha=50.0, factor=1.0)), F32, 20, {}),
    "arcee-f16": (ArceeConfig(**SMALL), F16, 20, {}),
    "apertus-f32": (ApertusConfig(**SMALL), F32, 20, {}),
    # How folders are written.
    "llama-bare-names-bf16": (LlamaConfig(**SMALL), BF16, 20, {"after": without_prefix}),
    "llama-untied-in-words-f16": (LlamaConfig(**SMALL), F16, 20, {"edit": tie_in_words}),
    "llama-f64-norms-f32": (LlamaConfig(**SMALL), F32, 20, {"after": in_f64}),
    "qwen2-fp8-blocks": (Qwen2Config(**SMALL), F32, 20, fp8((16, 8), {"name": "weight_scale_inv", "config": {
        "quant_method": "fp8", "weight_block_size": [16, 8]}})),
    "llama-fp8-rows": (LlamaConfig(**SMALL), F32, 20, fp8((1, 0), {"name": "weight_scale", "config": {
        "quant_method": "compressed-tensors", "format": "float-quantized"}})),
    "qwen2-fp8-groups": (Qwen2Config(**{**SMALL, "hidden_size": 32, "intermediate_size": 64}), F32, 20,
                         fp8((16, 32), {"name": "weight_scale_inv", "config": {
                             "quant_method": "fp8", "weight_block_size": [16, 32]}})),
    "llama-gptq": (LlamaConfig(**WIDER), F16, 20, four_bits(32, {
        "quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False})),
    "qwen2-gptq-v2": (Qwen2Config(**WIDER), F16, 20, four_bits(64, {
        "quant_method": "gptq", "bits": 4, "group_size": 64, "desc_act": False, "checkpoint_format": "gptq_v2"})),
    "llama-gptq-reordered": (LlamaConfig(**WIDER), F16, 20, four_bits(32, {
        "quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True}, reorder=True)),
    "llama-gptq-8bits": (LlamaConfig(**WIDER), F16, 20, four_bits(32, {
        "quant_method": "gptq", "bits": 8, "group_size": 32, "desc_act": False, "sym": True})),
    "qwen2-gptq-8bits-zeros": (Qwen2Config(**WIDER), F16, 20, four_bits(64, {
        "quant_method": "gptq", "bits": 8, "group_size": 64, "desc_act": False, "sym": False})),
    "llama-nvfp4": (LlamaConfig(**WIDER), BF16, 20, nvfp4()),
    "qwen3-nvfp4-modelopt": (Qwen3Config(**WIDER, head_dim=16), BF16, 20, nvfp4(modelopt=True)),
    "llama-compressed-packed8": (LlamaConfig(**WIDER), F32, 20, packed_bytes(0)),
    "qwen3-compressed-packed8-zeros": (Qwen3Config(**WIDER, head_dim=16), F32, 20, packed_bytes(32, symmetric=False)),
    "llama-awq": (LlamaConfig(**WIDER), F16, 20, four_bits(32, {
        "quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"})),
    "llama-compressed-int4": (LlamaConfig(**WIDER), F32, 20, compressed(32, {})),
    "qwen3-compressed-int4-zeros": (Qwen3Config(**WIDER, head_dim=16), F32, 20, compressed(64, {}, symmetric=False)),
    "llama-compressed-int8": (LlamaConfig(**WIDER), F32, 20, whole_numbers(BF16)),
    "qwen3-compressed-int8-zeros": (Qwen3Config(**WIDER, head_dim=16), F32, 20, whole_numbers(F32, zeros=True)),
    "llama-compressed-int4-reordered": (LlamaConfig(**WIDER), F32, 20, compressed(32, {}, reorder=True)),
    "llama-fp8-compressed-blocks": (LlamaConfig(**SMALL), F32, 20, fp8((16, 8), {"name": "weight_scale", "config": {
        "quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0": {
            "targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "strategy": "block",
                                               "block_structure": [16, 8]}}}}})),
    "llama-fp8-key-scales": (LlamaConfig(**SMALL), F32, 20, with_key_scales(fp8((1, 0), {"name": "weight_scale", "config": {
        "quant_method": "compressed-tensors", "format": "float-quantized"}}))),
    "llama-fp8-whole": (LlamaConfig(**SMALL), F32, 20, fp8((0, 0), {"name": "weight_scale_inv", "config": {
        "quant_method": "fp8"}})),
    "llama-fp8-modelopt": (LlamaConfig(**SMALL), F32, 20, fp8((0, 0), {"name": "weight_scale", "config": {
        "quant_method": "modelopt", "quant_algo": "FP8"}})),
    "llama-yarn-exact-f16": (LlamaConfig(**SMALL, rope_parameters={**YARN, "truncate": False}), F16, 40, {}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="folders of tests/core/golden to make again (all)")
    chosen = parser.parse_args().names
    OUT.mkdir(parents=True, exist_ok=True)
    golden.write_tokenizer_once(OUT)
    models = {**MODELS, **(with_bitsandbytes() if not chosen or any("4" in name.replace("nvfp4", "") for name in chosen) else {})}
    for name, (config, dtype, length, more) in models.items():
        if not chosen or name in chosen:
            golden.make(OUT / name, config, dtype, length, **more)


if __name__ == "__main__":
    main()
