#!/usr/bin/env python3
"""Adds tiny GGUF models to tests/core/golden, judged by others on the same file.

Every file is read by llama.cpp (llama-cpp-python), which must give the same greedy tokens as transformers
does from the same file (from_pretrained(gguf_file=...)): our reader is held to both, so that a layout that
was wrong in this writer and in our reader alike would be found here. Quantized tensors come from llama.cpp's
own quantizer, several types mixed in one file, so that each family meets each type.
"""
import argparse
import ctypes
import itertools
import json
import math
import pathlib
import shutil
import tempfile

import gguf
try:
    import llama_cpp
except ImportError:
    llama_cpp = None
try:
    import xllamacpp  # a newer llama.cpp, which quantizes nothing for us
except ImportError:
    xllamacpp = None  # without both transformers judges alone
import numpy
import torch
from transformers import (AfmoeConfig, ApertusConfig, ExaoneMoeConfig, GemmaConfig, HunYuanMoEV1Config, Jais2Config, NemotronConfig, Starcoder2Config, Cohere2Config, CohereConfig, ArceeConfig, AutoModelForCausalLM, DeepseekV2Config, DeepseekV3Config, Dots1Config,
                          Gemma3nTextConfig, Gemma4TextConfig, Glm4MoeLiteConfig,
                          HunYuanDenseV1Config, Ernie4_5_MoeConfig, Ernie4_5Config, Glm4MoeConfig, MiniMaxM2Config,
                          OlmoeConfig, Qwen2MoeConfig, Exaone4Config, Gemma2Config, Gemma3TextConfig, Glm4Config,
                          GptOssConfig, GraniteConfig, LlamaConfig, Ministral3Config, MistralConfig, MixtralConfig, Olmo2Config,
                          Olmo3Config, Phi3Config, Qwen2Config, Qwen3Config, Qwen3MoeConfig, SeedOssConfig,
                          SmolLM3Config, StableLmConfig, Qwen3_5TextConfig, Qwen3_5MoeTextConfig, Qwen3NextConfig,
                          MellumConfig, HYV3Config, YoutuConfig, GraniteSWAConfig, GraniteMoeSWAConfig,
                          Lfm2Config, Lfm2MoeConfig, NemotronHConfig, PhimoeConfig, Llama4TextConfig, FalconH1Config, GraniteMoeConfig,
                          GraniteMoeHybridConfig, Mistral4Config, Mistral4ForCausalLM)

import golden
from models import OUT, rope

TYPE = gguf.GGMLQuantizationType
FLOATS = [TYPE.F32, TYPE.F16, TYPE.BF16]
LEGACY = {TYPE.Q8_0: 7, TYPE.Q4_0: 2, TYPE.Q4_1: 3, TYPE.Q5_0: 8, TYPE.Q5_1: 9, TYPE.IQ4_NL: 25}
# Drawn at random rather than quantized: the quantizer wants an importance matrix for most of these.
CODEBOOKS = ["IQ1_S", "IQ1_M", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "TQ1_0", "TQ2_0", "MXFP4"]
KQUANT = {TYPE.Q2_K: 10, TYPE.Q3_K: 12, TYPE.Q4_K: 15, TYPE.Q5_K: 17, TYPE.Q6_K: 18, TYPE.IQ4_XS: 30}

NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "model.final_layernorm": "output_norm", "model.embedding_norm": "token_embd_norm", "lm_head": "output",
         "model.embed_tokens_per_layer": "per_layer_token_embd",
         "model.per_layer_model_projection": "per_layer_model_proj",
         "model.per_layer_projection_norm": "per_layer_proj_norm"}
# Of Gemma 3n beside Gemma 4's; the first two are stacks.
GEMMA3N = {"altup_projections": "altup_proj", "altup_unembed_projections": "altup_unembd_proj"}
GEMMA3N_BLOCK = {"altup.correct_output_scale": "altup_correct_scale", "altup.correction_coefs": "altup_correct_coef",
                 "altup.prediction_coefs": "altup_predict_coef", "altup.modality_router": "altup_router",
                 "altup.router_norm": "altup_router_norm", "laurel.linear_left": "laurel_l", "laurel.linear_right": "laurel_r",
                 "laurel.post_laurel_norm": "laurel_post_norm", "per_layer_input_gate": "inp_gate", "per_layer_projection": "proj",
                 "post_per_layer_input_norm": "post_norm"}
# Gemma 4's, whose kinds differ: after "blk.N.".
GEMMA4 = {"layer_scalar": "layer_output_scale.weight", "router.proj.weight": "ffn_gate_inp.weight",
          "router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
          "experts.gate_up_proj": "ffn_gate_up_exps.weight", "experts.down_proj": "ffn_down_exps.weight"}
BLOCK = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.qkv_proj": "attn_qkv", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
         "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
         **{f"feed_forward.{part}_proj": f"ffn_{part}" for part in ("gate", "up", "down")}, "pre_ff_layernorm": "ffn_norm",
         **{f"feed_forward.shared_expert.{part}_proj": f"ffn_{part}_shexp" for part in ("gate", "up", "down")},
         "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down", "self_attn.gate_proj": "attn_gate",
         **{f"mlp.shared_mlp.{part}_proj": f"ffn_{part}_shexp" for part in ("gate", "up", "down")},
         "mlp.gate_up_proj": "ffn_up", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
         **{f"mlp.{stem}.{part}_proj": f"ffn_{part}_shexp" for part in ("gate", "up", "down")
            for stem in ("shared_expert", "shared_experts")}}
BLOCK.update({f"linear_attn.{name}": other for name, other in {
    "in_proj_qkv": "attn_qkv", "in_proj_z": "attn_gate", "in_proj_b": "ssm_beta", "in_proj_a": "ssm_alpha",
    "in_proj_ba": "ssm_ba", "out_proj": "ssm_out", "norm": "ssm_norm", "conv1d": "ssm_conv1d"}.items()})
LFM2 = {"operator_norm": "attn_norm", "ffn_norm": "ffn_norm", "self_attn.out_proj": "attn_output",
        "self_attn.q_layernorm": "attn_q_norm", "self_attn.k_layernorm": "attn_k_norm", "feed_forward.w1": "ffn_gate",
        "feed_forward.w3": "ffn_up", "feed_forward.w2": "ffn_down", "conv.in_proj": "shortconv.in_proj",
        "conv.conv": "shortconv.conv", "conv.out_proj": "shortconv.out_proj"}
RECURRENT = ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next")
SANDWICH = {**BLOCK, "post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
            "post_feedforward_layernorm": "post_ffw_norm"}
NORMS = {"gemma2": SANDWICH, "gemma3_text": SANDWICH, "olmo2": SANDWICH, "olmo3": SANDWICH, "exaone4": SANDWICH,
         "glm4": {**BLOCK, "post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"},
         "seed_oss": {**BLOCK, "post_attention_layernorm": "post_attention_norm"},
         "glm4_moe": {**BLOCK, "post_attention_layernorm": "post_attention_norm"},
         "gemma4_text": {**SANDWICH, "post_feedforward_layernorm_1": "post_ffw_norm_1",
                         "post_feedforward_layernorm_2": "post_ffw_norm_2",
                         "pre_feedforward_layernorm_2": "pre_ffw_norm_2", "per_layer_input_gate": "inp_gate",
                         "per_layer_projection": "proj", "post_per_layer_input_norm": "post_norm"},
         "gemma3n_text": {**SANDWICH, **GEMMA3N_BLOCK},
         "hunyuan_v1_dense": {**BLOCK, "self_attn.query_layernorm": "attn_q_norm",
                              "self_attn.key_layernorm": "attn_k_norm"},
         "hunyuan_v1_moe": {**BLOCK, "self_attn.query_layernorm": "attn_q_norm",
                            "self_attn.key_layernorm": "attn_k_norm"},
         "afmoe": {**SANDWICH, "pre_mlp_layernorm": "ffn_norm", "post_mlp_layernorm": "post_ffw_norm"},
         "apertus": {**BLOCK, "attention_layernorm": "attn_norm", "feedforward_layernorm": "ffn_norm"},
         **{name: {**BLOCK, "self_attn.q_a_proj": "attn_q_a", "self_attn.q_b_proj": "attn_q_b",
                   "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.q_a_layernorm": "attn_q_a_norm",
                   "self_attn.kv_a_layernorm": "attn_kv_a_norm"}
            for name in ("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "mistral4", "youtu")},
         "granitemoe_swa": {**BLOCK, "shared_mlp.input_linear": "ffn_up_shexp", "shared_mlp.output_linear": "ffn_down_shexp"},
         "gpt_oss": {**BLOCK, "post_attention_layernorm": "post_attention_norm"},
         "lfm2": {**BLOCK, **LFM2}, "lfm2_moe": {**BLOCK, **LFM2},
         **{family: {**BLOCK, "post_attention_layernorm": "post_attention_norm"} for family in RECURRENT}}
LFM2S = ("lfm2", "lfm2_moe")
ALREADY_HALVES = ("gemma3n_text", *RECURRENT, *LFM2S, "granitemoe", "granitemoehybrid", "nemotron_h", "phimoe", "llama4_text",
                  "falcon_h1", "mellum", "hy_v3", "youtu", "granite_swa", "granitemoe_swa")  # the file's values are the model's own
COHERES = ("cohere", "cohere2")
LAYER_NORMS = {"stablelm": "layer_norm_eps", "cohere": "layer_norm_eps", "cohere2": "layer_norm_eps", "jais2": "layer_norm_eps",
               "starcoder2": "norm_epsilon", "nemotron": "norm_eps"}
ARCHITECTURES = {"hunyuan_v1_moe": "hunyuan-moe", "exaone_moe": "exaone-moe", "cohere": "command-r", "llama4_text": "llama4", "falcon_h1": "falcon-h1", "granitemoehybrid": "granitehybrid", "lfm2_moe": "lfm2moe", "mistral": "llama", "mixtral": "llama", "ministral3": "mistral3", "gemma3_text": "gemma3",
                 "olmo3": "olmo2", "qwen3_moe": "qwen3moe", "gpt_oss": "gpt-oss", "qwen2_moe": "qwen2moe",
                 "glm4_moe": "glm4moe", "ernie4_5_moe": "ernie4_5-moe", "minimax_m2": "minimax-m2",
                 "qwen3_5_text": "qwen35", "qwen3_5_moe_text": "qwen35moe", "qwen3_next": "qwen3next",
                 "hunyuan_v1_dense": "hunyuan-dense", "gemma4_text": "gemma4", "gemma3n_text": "gemma3n", **{
                     name: "deepseek2" for name in ("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "youtu")},
                 "granitemoe_swa": "granite_swa"}
PERMUTED = ("arcee", "llama", "mistral", "mixtral", "ministral3", "granite", "granitemoe", "granitemoehybrid", "smollm3", "granite_swa", "granitemoe_swa")
GRANITES_SWA = ("granite_swa", "granitemoe_swa")
READ_BY_TRANSFORMERS = ("llama", "mistral", "qwen2", "qwen3", "phi3", "gemma2")


def gguf_name(name, family):
    if name.endswith(("e_score_correction_bias", "expert_bias")):
        return f"blk.{name.split('.')[2]}.exp_probs_b{'' if family == 'hy_v3' else '.bias'}"
    if name.endswith(".sinks"):
        return f"blk.{name.split('.')[2]}.attn_sinks.weight"
    parts = name.split(".", 3)
    if family == "gemma4_text" and len(parts) == 4 and parts[3] in GEMMA4:
        return f"blk.{parts[2]}.{GEMMA4[parts[3]]}"
    stem, kind = name.rsplit(".", 1)
    if stem in NAMES:
        return f"{NAMES[stem]}.{kind}"
    _, _, block, rest = stem.split(".", 3)
    if rest in ("mlp.gate.wg", "mlp.router.gate", "mlp.gate", "mlp.router", "block_sparse_moe.gate", "block_sparse_moe.router", "feed_forward.gate", "feed_forward.router"):
        return f"blk.{block}.ffn_gate_inp.{kind}"
    return f"blk.{block}.{NORMS.get(family, BLOCK)[rest]}.{kind}"


def permute(weights, heads):
    """Halves to pairs: row i of a head's first half comes before row i of its second."""
    return weights.reshape(heads, 2, weights.shape[0] // heads // 2, *weights.shape[1:]).swapaxes(1, 2) \
        .reshape(weights.shape)


def unpermute(weights, heads):
    return weights.reshape(heads, weights.shape[0] // heads // 2, 2, *weights.shape[1:]).swapaxes(1, 2) \
        .reshape(weights.shape)


GRANITES = ("granitemoe", "granitemoehybrid")


def granite_parts(name, array, config):
    """A tensor of Granite's Mamba-2 blocks or of its MLP beside experts, as llama.cpp's converter has it; None: another."""
    block, part = (name.split(".", 3) + ["", ""])[2:4]
    if part.startswith("shared_mlp."):
        suffix, half = "_shexp" if config.num_local_experts else "", array.shape[0] // 2
        if "input" not in part:
            return [(f"blk.{block}.ffn_down{suffix}.weight", array)]
        return [(f"blk.{block}.ffn_gate{suffix}.weight", array[:half]), (f"blk.{block}.ffn_up{suffix}.weight", array[half:])]
    part = part.removeprefix("mamba.")
    if part == "conv1d.weight":
        return [(f"blk.{block}.ssm_conv1d.weight", array.reshape(array.shape[0], -1))]
    if part == "norm.weight":
        return [(f"blk.{block}.ssm_norm.weight", array.reshape(config.mamba_n_groups, -1))]
    if part in ("A_log", "D"):
        return [(f"blk.{block}.ssm_{part[0].lower()}", (-numpy.exp(array) if part == "A_log" else array).reshape(-1, 1))]
    names = {"in_proj.weight": "ssm_in.weight", "out_proj.weight": "ssm_out.weight", "conv1d.bias": "ssm_conv1d.bias",
             "dt_bias": "ssm_dt.bias"}
    return [(f"blk.{block}.{names[part]}", array)] if part in names else None


def nemotron_parts(name, array, config):
    """A tensor of Nemotron-H as llama.cpp's converter has it."""
    if not name.startswith("model.layers."):
        names = {"model.embeddings": "token_embd", "model.norm_f": "output_norm", "lm_head": "output"}
        return [(f"{names[name.removesuffix('.weight')]}.weight", array)]
    _, _, block, part = name.split(".", 3)
    part = part.removeprefix("mixer.")
    if part == "norm.weight" and ".mixer." in name:
        return [(f"blk.{block}.ssm_norm.weight", array.reshape(config.n_groups, -1))]
    if part in ("A_log", "D"):
        return [(f"blk.{block}.ssm_{part[0].lower()}", (-numpy.exp(array) if part == "A_log" else array).reshape(-1, 1))]
    names = {"norm.weight": "attn_norm.weight", "in_proj.weight": "ssm_in.weight", "out_proj.weight": "ssm_out.weight",
             "conv1d.weight": "ssm_conv1d.weight", "conv1d.bias": "ssm_conv1d.bias", "dt_bias": "ssm_dt.bias",
             "up_proj.weight": "ffn_up.weight", "down_proj.weight": "ffn_down.weight", "gate.weight": "ffn_gate_inp.weight",
             "gate.e_score_correction_bias": "exp_probs_b.bias", "experts.up_proj": "ffn_up_exps.weight",
             "experts.down_proj": "ffn_down_exps.weight", "shared_experts.up_proj.weight": "ffn_up_shexp.weight",
             "shared_experts.down_proj.weight": "ffn_down_shexp.weight", "q_proj.weight": "attn_q.weight",
             "k_proj.weight": "attn_k.weight", "v_proj.weight": "attn_v.weight", "o_proj.weight": "attn_output.weight"}
    return [(f"blk.{block}.{names[part]}", array.reshape(array.shape[0], -1) if part == "conv1d.weight" else array)]


def write_nemotron(writer, config):
    kinds = config.layer_types
    moe = "moe" in kinds
    writer.add_feed_forward_length([(config.moe_intermediate_size if kind == "moe" else config.intermediate_size)
                                    if kind in ("mlp", "moe") else 0 for kind in kinds])
    writer.add_head_count_kv([config.num_key_value_heads if kind == "full_attention" else 0 for kind in kinds])
    writer.add_layer_norm_eps(config.layer_norm_epsilon)
    writer.add_ssm_conv_kernel(config.conv_kernel)
    writer.add_ssm_state_size(config.ssm_state_size)
    writer.add_ssm_group_count(config.n_groups)
    writer.add_ssm_time_step_rank(config.mamba_num_heads)
    writer.add_ssm_inner_size(config.mamba_num_heads * config.mamba_head_dim)
    if moe:
        writer.add_expert_count(config.n_routed_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        writer.add_expert_shared_feed_forward_length(config.moe_shared_expert_intermediate_size)
        writer.add_expert_shared_count(1)
        writer.add_expert_weights_norm(config.norm_topk_prob)
        writer.add_expert_weights_scale(config.routed_scaling_factor)
        writer.add_expert_group_count(config.n_group)
        writer.add_expert_group_used_count(config.topk_group)


def falcon_parts(name, array, config):
    """A tensor of Falcon-H1 as llama.cpp's converter has it, with the multipliers that belong to it."""
    inner, state, attention = config.mamba_d_ssm, config.mamba_n_groups * config.mamba_d_state, config.attention_in_multiplier
    factors = {"embed_tokens": config.embedding_multiplier, "lm_head": config.lm_head_multiplier, "q_proj": attention,
               "k_proj": attention * config.key_multiplier, "v_proj": attention, "o_proj": config.attention_out_multiplier,
               "gate_proj": config.mlp_multipliers[0], "down_proj": config.mlp_multipliers[1],
               "out_proj": config.ssm_out_multiplier, "in_proj": config.ssm_in_multiplier}
    stem = name.split(".")[-2]
    array = array * numpy.float32(factors.get(stem, 1.0))
    if stem == "in_proj":
        array = array * numpy.repeat(numpy.array(config.ssm_multipliers, "<f4"),
                                     [inner, inner, state, state, config.mamba_n_heads])[:, None]
    if stem == "pre_ff_layernorm":  # without an ending
        return [(f"blk.{name.split('.')[2]}.ffn_norm", array)]
    if ".mamba." not in name:
        return [(gguf_name(name, config.model_type), array)]
    block, part = name.split(".")[2], name.split(".mamba.")[1]
    if part in ("A_log", "D"):
        return [(f"blk.{block}.ssm_{part[0].lower()}", (-numpy.exp(array) if part == "A_log" else array).reshape(-1, 1))]
    names = {"in_proj.weight": "ssm_in.weight", "out_proj.weight": "ssm_out.weight", "conv1d.weight": "ssm_conv1d.weight",
             "conv1d.bias": "ssm_conv1d.bias", "dt_bias": "ssm_dt.bias", "norm.weight": "ssm_norm.weight"}
    if part in ("conv1d.weight", "norm.weight"):
        array = array.reshape(array.shape[0] if part == "conv1d.weight" else config.mamba_n_groups, -1)
    return [(f"blk.{block}.{names[part]}", array)]


def heads_of(name, config):
    """How many heads' rows a tensor has that converters permute, or 0."""
    if config.model_type not in PERMUTED:
        return 0
    return config.num_attention_heads if ".q_proj." in name else \
        config.num_key_value_heads if ".k_proj." in name else 0


def is_of_images(config, family):
    """Whether it stands for the text model of a model of images, whose positions have parts: Qwen3-VL-MoE's is
    Qwen3-MoE, GLM-4.1V's is GLM-4."""
    return config.model_type == family and getattr(config, "of_images", False)


def keeps_values(config):
    """Whether the file's values are the model's own, of which nothing has to be read back."""
    return config.model_type in ALREADY_HALVES or is_of_images(config, "glm4")


def part_halves(array, config):
    """Rows of queries or keys of which neighbours are rotated, so that halves are: those of each head that are rotated."""
    dim = config.head_dim
    turned = int(dim * rope_of(config).get("partial_rotary_factor", 0.5))
    heads = array.reshape(-1, dim, *array.shape[1:])
    return numpy.concatenate([heads[:, :turned:2], heads[:, 1:turned:2], heads[:, turned:]], 1).reshape(array.shape)


def architecture(config):
    if config.model_type == "nemotron_h" and "moe" in config.layer_types:
        return "nemotron_h_moe"
    if is_of_images(config, "qwen3_moe"):
        return "qwen3vlmoe"
    return ARCHITECTURES.get(config.model_type, config.model_type)


def split_experts(name, array, inverted):
    """transformers' stacks as GGUF has them: [(name, array)]."""
    block = name.split(".")[2]
    if inverted:  # gpt-oss: inputs first, rows of gate and up in turn
        kind = "bias" if name.endswith("_bias") else "weight"
        rows = array if kind == "bias" else array.swapaxes(1, 2)
        if "gate_up" not in name:
            return [(f"blk.{block}.ffn_down_exps.{kind}", rows)]
        return [(f"blk.{block}.ffn_gate_exps.{kind}", rows[:, 0::2]), (f"blk.{block}.ffn_up_exps.{kind}", rows[:, 1::2])]
    if name.endswith("gate_up_proj"):
        half = array.shape[1] // 2
        return [(f"blk.{block}.ffn_gate_exps.weight", array[:, :half]),
                (f"blk.{block}.ffn_up_exps.weight", array[:, half:])]
    return [(f"blk.{block}.ffn_down_exps.weight", array)]


def recurrent_parts(name, array, config):
    """A recurrent block's tensor as llama.cpp's converter has it: [(name, array)]. Value heads of Qwen 3.5 go round the
    key heads, where a folder has those of a key head side by side; Qwen3-Next's stay, but its one map is two."""
    keys, values = config.linear_num_key_heads, config.linear_num_value_heads
    each, key, value = values // keys, config.linear_key_head_dim, config.linear_value_head_dim
    block, part = name.split(".")[2], name.split("linear_attn.")[1]

    def tile(rows, width):
        if config.model_type == "qwen3_next":
            return rows
        return rows.reshape(keys, each, width, *rows.shape[1:]).swapaxes(0, 1).reshape(rows.shape)

    if part == "A_log":
        return [(f"blk.{block}.ssm_a", -numpy.exp(tile(array, 1)))]
    if part == "dt_bias":
        return [(f"blk.{block}.ssm_dt.bias", tile(array, 1))]
    if part == "in_proj_qkvz.weight":
        rows = array.reshape(keys, -1, array.shape[1])
        parts = numpy.split(rows, [key, 2 * key, 2 * key + each * value], 1)
        q, k, v, z = (p.reshape(-1, array.shape[1]) for p in parts)
        return [(f"blk.{block}.attn_qkv.weight", numpy.concatenate([q, k, v])), (f"blk.{block}.attn_gate.weight", z)]
    if part in ("conv1d.weight", "in_proj_qkv.weight"):
        array = array.reshape(array.shape[0], -1)
        array = numpy.concatenate([array[:2 * keys * key], tile(array[2 * keys * key:], value)])
    elif part in ("in_proj_b.weight", "in_proj_a.weight"):
        array = tile(array, 1)
    elif part == "in_proj_z.weight":
        array = tile(array, value)
    elif part == "out_proj.weight":
        array = tile(array.T, value).T.copy()
    return [(gguf_name(name, config.model_type), array)]


def tensors_of(model, config):
    """(name, float32 array) as GGUF stores them."""
    out = {}
    for name, p in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        array = p.detach().numpy().astype("<f4")
        if name.endswith("kv_b_proj.weight"):
            block, heads, nope = name.split(".")[2], config.num_attention_heads, config.qk_nope_head_dim
            both = array.reshape(heads, nope + config.v_head_dim, config.kv_lora_rank)
            out[f"blk.{block}.attn_k_b.weight"] = numpy.ascontiguousarray(both[:, :nope].swapaxes(1, 2))
            out[f"blk.{block}.attn_v_b.weight"] = numpy.ascontiguousarray(both[:, nope:])
            continue
        if config.model_type == "falcon_h1":
            out.update(falcon_parts(name, array, config))
            continue
        if config.model_type == "llama4_text" and ".experts." in name:  # inputs come first
            out.update(split_experts(name, numpy.ascontiguousarray(array.swapaxes(1, 2)), False))
            continue
        if "_layernorm.norms." in name:  # StableLM's norms by head are a stack
            stack = f"blk.{name.split('.')[2]}.attn_{name.split('.')[4][0]}_norm.weight"
            out[stack] = numpy.concatenate([out[stack], array[None]]) if stack in out else array[None]
            continue
        if name.split(".")[1] in GEMMA3N:
            stack = f"{GEMMA3N[name.split('.')[1]]}.weight"
            out[stack] = numpy.concatenate([out[stack], array[None]]) if stack in out else array[None]
            continue
        if name.endswith("correct_output_scale"):
            name += ".weight"
        if "act_fn" in name or name.endswith("rotary_emb.inv_freq"):  # metadata has them
            continue
        if ".experts." in name and config.model_type not in ("gemma4_text", "nemotron_h"):
            out.update(split_experts(name, array, config.model_type == "gpt_oss"))
            continue
        if config.model_type == "nemotron_h":
            out.update(nemotron_parts(name, array, config))
            continue
        if config.model_type in GRANITES and granite_parts(name, array, config):
            out.update(granite_parts(name, array, config))
            continue
        if name.endswith("conv.conv.weight"):
            array = array.reshape(array.shape[0], -1)
        if ".linear_attn." in name:
            out.update(recurrent_parts(name, array, config))
            continue
        if name.endswith(("e_score_correction_bias", "shared_expert_gate.weight")):
            array = array.reshape(-1)
        if heads_of(name, config):
            array = permute(array, heads_of(name, config))
        if is_of_images(config, "glm4") and (".q_proj." in name or ".k_proj." in name):
            array = part_halves(array, config)
        if (golden.adds_one(config) or config.model_type in RECURRENT) and "norm" in name and name.endswith("weight"):
            array = array + 1
        out[gguf_name(name, config.model_type)] = array
    if config.model_type == "nemotron_h":
        return out
    parameters = rope_of(config)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    if parameters["rope_type"] == "llama3":
        out["rope_freqs.weight"] = llama3_factors(parameters, head_dim)
    if config.model_type == "gemma4_text":
        pairs, turned = config.per_layer_config["full_attention"].head_dim // 2, parameters["partial_rotary_factor"]
        out["rope_freqs.weight"] = numpy.array([1.0 if i < int(pairs * turned) else 1e30 for i in range(pairs)], "<f4")
    for i in range((getattr(config, "num_nextn_predict_layers", 0) or 0)):
        block = f"blk.{config.num_hidden_layers + i}"
        for name in [n for n in out if n.startswith("blk.0.")]:
            out[name.replace("blk.0", block)] = out[name] + 1
        out[f"{block}.nextn.eh_proj.weight"] = numpy.ones((config.hidden_size, 2 * config.hidden_size), "<f4")
        for name in ("enorm", "hnorm", "shared_head_norm"):
            out[f"{block}.nextn.{name}.weight"] = numpy.ones(config.hidden_size, "<f4")
    if parameters["rope_type"] == "longrope":
        out["rope_factors_short.weight"] = numpy.array(parameters["short_factor"], "<f4")
        out["rope_factors_long.weight"] = numpy.array(parameters["long_factor"], "<f4")
    return out


def rope_of(config):
    """RoPE of the blocks that see everything."""
    return config.rope_parameters.get("full_attention", config.rope_parameters)


def llama3_factors(p, dim):
    """The divisor of each frequency, as llama.cpp's converter stores it."""
    original = p["original_max_position_embeddings"]
    low, high = original / p["low_freq_factor"], original / p["high_freq_factor"]
    out = []
    for i in range(0, dim, 2):
        wave = 2 * math.pi * p["rope_theta"] ** (i / dim)
        if wave < high:
            out.append(1.0)
        elif wave > low:
            out.append(p["factor"])
        else:
            smooth = (original / wave - p["low_freq_factor"]) / (p["high_freq_factor"] - p["low_freq_factor"])
            out.append(1 / ((1 - smooth) / p["factor"] + smooth))
    return numpy.array(out, "<f4")


def write_gemma4(writer, config):
    kinds = config.layer_types
    own = [config.per_layer_config[i] for i in range(len(kinds))]
    first_shared = len(kinds) - config.num_kv_shared_layers
    wide = 2 if config.use_double_wide_mlp else 1
    full = config.per_layer_config["full_attention"].head_dim
    writer.add_feed_forward_length([config.intermediate_size * (wide if i >= first_shared else 1)
                                    for i in range(len(kinds))])
    writer.add_head_count_kv([layer.num_key_value_heads for layer in own])
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in kinds])
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_key_length(full)
    writer.add_value_length(full)
    writer.add_key_length_swa(config.head_dim)
    writer.add_value_length_swa(config.head_dim)
    writer.add_rope_dimension_count(full)
    writer.add_rope_dimension_count_swa(config.head_dim)
    writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    if config.final_logit_softcapping:
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if config.enable_moe_block:
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.top_k_experts)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)


def write_gemma3n(writer, config):
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_altup_active_idx(config.altup_active_idx)
    writer.add_altup_num_inputs(config.altup_num_inputs)
    writer.add_embedding_length_per_layer_input(config.hidden_size_per_layer_input)
    writer.add_shared_kv_layers(config.num_kv_shared_layers)
    normal = torch.distributions.normal.Normal(0, 1)
    writer.add_activation_sparsity_scale([normal.icdf(torch.tensor(s, dtype=torch.float32)).item()
                                          for s in config.activation_sparsity_pattern])
    writer.add_sliding_window(config.sliding_window)
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])


def write_metadata(writer, config):
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    p = rope_of(config) if config.model_type != "nemotron_h" else rope("default", rope_theta=10000.0)
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    further = getattr(config, "num_nextn_predict_layers", 0) or 0
    writer.add_block_count(config.num_hidden_layers + further)
    if further:
        writer.add_nextn_predict_layers(further)
    if config.model_type == "gemma4_text":
        write_gemma4(writer, config)
    elif config.model_type == "gemma3n_text":
        write_gemma3n(writer, config)
    elif config.model_type == "nemotron_h":
        write_nemotron(writer, config)
    elif config.model_type == "llama4_text":
        writer.add_feed_forward_length(config.intermediate_size_mlp)
        writer.add_expert_feed_forward_length(config.intermediate_size)
        writer.add_interleave_moe_layer_step(config.interleave_moe_layer_step)
    elif config.model_type in LFM2S:
        writer.add_feed_forward_length(config.intermediate_size)  # it is not adjusted
        writer.add_shortconv_l_cache(config.conv_L_cache)
    elif hasattr(config, "intermediate_size"):
        writer.add_feed_forward_length(config.intermediate_size)
    if config.model_type in RECURRENT:
        writer.add_ssm_conv_kernel(config.linear_conv_kernel_dim)
        writer.add_ssm_state_size(config.linear_key_head_dim)
        writer.add_ssm_group_count(config.linear_num_key_heads)
        writer.add_ssm_time_step_rank(config.linear_num_value_heads)
        writer.add_ssm_inner_size(config.linear_num_value_heads * config.linear_value_head_dim)
        writer.add_uint32(f"{architecture(config)}.full_attention_interval", config.layer_types.index("full_attention") + 1)
        writer.add_rope_dimension_sections([1, 1, 0, 0])
    writer.add_head_count(config.num_attention_heads)
    kinds = getattr(config, "layer_types", None) or []
    if config.model_type not in ("gemma4_text", "nemotron_h"):
        writer.add_head_count_kv([0 if kind in ("conv", "linear_attention") else config.num_key_value_heads for kind in kinds]
                                 if config.model_type in (*LFM2S, "granitemoehybrid") else 1 if hasattr(config, "kv_lora_rank") else
                                 config.num_key_value_heads)
    if config.model_type in LAYER_NORMS:
        writer.add_layer_norm_eps(getattr(config, LAYER_NORMS[config.model_type]))
    if config.model_type == "stablelm":
        writer.add_parallel_residual(config.use_parallel_residual)
    elif config.model_type in COHERES:
        writer.add_logit_scale(config.logit_scale)
    elif config.model_type not in LAYER_NORMS:
        writer.add_layer_norm_rms_eps(config.norm_eps if config.model_type in LFM2S else config.layer_norm_epsilon
                                      if config.model_type == "nemotron_h" else config.rms_norm_eps)
    alpha = p.get("alpha")
    writer.add_rope_freq_base(p["rope_theta"] * (alpha ** (head_dim / (head_dim - 2)) if alpha else 1))
    if hasattr(config, "kv_lora_rank"):
        writer.add_kv_lora_rank(config.kv_lora_rank)
        if config.q_lora_rank:
            writer.add_q_lora_rank(config.q_lora_rank)
        writer.add_key_length(config.kv_lora_rank + config.qk_rope_head_dim)
        writer.add_value_length(config.kv_lora_rank)
        writer.add_key_length_mla(config.qk_nope_head_dim + config.qk_rope_head_dim)
        writer.add_value_length_mla(config.v_head_dim)
        writer.add_rope_dimension_count(config.qk_rope_head_dim)
        if p.get("mscale_all_dim"):
            writer.add_rope_scaling_yarn_log_mul(0.1 * p["mscale_all_dim"])
    elif config.model_type != "gemma4_text":
        writer.add_rope_dimension_count(int(head_dim * p.get("partial_rotary_factor", 1.0)))
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if getattr(config, "sliding_window", None) and config.model_type in ("phi3", "gemma2", "gemma3_text",
                                                                                   "olmo3", "exaone4", "gpt_oss", "cohere2", "exaone_moe", "afmoe", "mellum",
                                                     *GRANITES_SWA):
        writer.add_sliding_window(config.sliding_window)
    if getattr(config, "sliding_window", None) and config.model_type in ("olmo3", "exaone4", "exaone_moe", "mellum", *GRANITES_SWA):
        writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in config.layer_types])
    if config.model_type == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if config.model_type == "falcon_h1":
        writer.add_ssm_conv_kernel(config.mamba_d_conv)
        writer.add_ssm_state_size(config.mamba_d_state)
        writer.add_ssm_group_count(config.mamba_n_groups)
        writer.add_ssm_time_step_rank(config.mamba_n_heads)
        writer.add_ssm_inner_size(config.mamba_d_ssm)
    if config.model_type == "granitemoehybrid":
        writer.add_ssm_conv_kernel(config.mamba_d_conv)
        writer.add_ssm_state_size(config.mamba_d_state)
        writer.add_ssm_group_count(config.mamba_n_groups)
        writer.add_ssm_time_step_rank(config.mamba_n_heads)
        writer.add_ssm_inner_size(config.mamba_expand * config.hidden_size)
        writer.add_rope_scaling_finetuned(False)
    if config.model_type in GRANITES and config.num_local_experts:
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        if getattr(config, "shared_intermediate_size", 0):
            writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)
    if config.model_type in GRANITES_SWA:
        turned = [bool(theta) for theta in config.layer_rope_theta or [1] * config.num_hidden_layers]
        writer.add_array(f"{architecture(config)}.attention.rope_pattern", turned)
    if config.model_type == "granitemoe_swa":
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        if config.shared_intermediate_size:
            writer.add_expert_shared_feed_forward_length(config.shared_intermediate_size)
    if config.model_type in ("granite", *GRANITES, *GRANITES_SWA):
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    if config.model_type in ("mixtral", "qwen3_moe", "gpt_oss", "phimoe", "llama4_text"):
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    if getattr(config, "of_images", False):
        writer.add_rope_dimension_sections([2, 1, 1, 0])
        if config.model_type == "qwen3_moe":
            writer.add_num_deepstack_layers(0)
    if config.model_type == "gpt_oss":
        writer.add_expert_feed_forward_length(config.intermediate_size)
    if config.model_type == "qwen3_moe":
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if config.model_type in ("olmoe", "qwen2_moe", "qwen3_5_moe_text", "qwen3_next", "minimax_m2", "glm4_moe", "ernie4_5_moe", "lfm2_moe"):
        writer.add_expert_count(getattr(config, "num_local_experts", None) or config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(getattr(config, "moe_intermediate_size", None) or config.intermediate_size)
    if config.model_type in ("qwen2_moe", "qwen3_5_moe_text", "qwen3_next"):
        writer.add_expert_shared_feed_forward_length(config.shared_expert_intermediate_size)
    if config.model_type == "lfm2_moe":
        writer.add_leading_dense_block_count(config.num_dense_layers)
    if config.model_type in ("minimax_m2", "lfm2_moe"):
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    if config.model_type == "glm4_moe":
        writer.add_expert_shared_count(config.n_shared_experts)
        writer.add_leading_dense_block_count(config.first_k_dense_replace)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_scale(config.routed_scaling_factor)
        writer.add_expert_weights_norm(config.norm_topk_prob)
    if config.model_type in ("mellum", "hy_v3"):
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
    if config.model_type == "mellum":
        writer.add_rope_freq_base_swa(config.rope_parameters["sliding_attention"]["rope_theta"])
    if config.model_type == "hy_v3":
        writer.add_leading_dense_block_count(config.mlp_layer_types.count("dense"))
        writer.add_expert_shared_count(config.num_shared_experts)
        writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.num_shared_experts)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_scale(config.router_scaling_factor)
        writer.add_expert_weights_norm(True)
    if config.model_type == "youtu":
        writer.add_leading_dense_block_count(config.num_hidden_layers)
        writer.add_expert_feed_forward_length(config.intermediate_size)
        writer.add_expert_shared_count(0)
    if config.model_type == "hunyuan_v1_moe":
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.moe_topk)
        writer.add_expert_feed_forward_length(config.intermediate_size)
        writer.add_expert_shared_feed_forward_length(config.intermediate_size)
    if config.model_type in ("exaone_moe", "afmoe"):
        writer.add_expert_count(config.num_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        writer.add_expert_shared_count(config.num_shared_experts)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_norm(True)
        exaone = config.model_type == "exaone_moe"
        writer.add_expert_weights_scale(config.routed_scaling_factor if exaone else config.route_scale)
        writer.add_leading_dense_block_count(config.first_k_dense_replace if exaone else config.num_dense_layers)
    if config.model_type == "exaone_moe":
        writer.add_expert_group_count(1)
        writer.add_expert_group_used_count(1)
        writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.num_shared_experts)
    if config.model_type == "ernie4_5_moe":
        writer.add_expert_shared_count(config.moe_num_shared_experts)
        writer.add_leading_dense_block_count(config.moe_layer_start_index)
        writer.add_interleave_moe_layer_step(config.moe_layer_interval)
        writer.add_expert_shared_feed_forward_length(config.moe_intermediate_size * config.moe_num_shared_experts)
    if config.model_type in ("dots1", "deepseek_v2", "deepseek_v3", "glm4_moe_lite", "mistral4"):
        writer.add_expert_count(config.n_routed_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
        writer.add_expert_feed_forward_length(config.moe_intermediate_size)
        writer.add_expert_shared_count(config.n_shared_experts)
        kinds = getattr(config, "mlp_layer_types", None)
        writer.add_leading_dense_block_count(kinds.count("dense") if kinds else config.first_k_dense_replace)
        writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SOFTMAX if config.model_type in ("deepseek_v2", "mistral4") else
                                      gguf.ExpertGatingFuncType.SIGMOID)
        writer.add_expert_weights_scale(config.routed_scaling_factor)
        writer.add_expert_weights_norm(bool(config.norm_topk_prob) and config.model_type != "deepseek_v2")
        if (getattr(config, "n_group", None) or 1) > 1:
            writer.add_expert_group_count(config.n_group)
            writer.add_expert_group_used_count(config.topk_group)
    if config.model_type == "apertus":
        blocks = [layer.mlp.act_fn for layer in write_metadata.model.model.layers]
        writer.add_xielu_alpha_p([float(b.alpha_p.detach()) for b in blocks])
        writer.add_xielu_alpha_n([float(b.alpha_n.detach()) for b in blocks])
        writer.add_xielu_beta([float(b.beta) for b in blocks])
        writer.add_xielu_eps([float(b.eps) for b in blocks])
    if "llama_4_scaling_beta" in p:
        writer.add_attn_temperature_scale(p["llama_4_scaling_beta"])
        if hasattr(config, "kv_lora_rank"):
            writer.add_attn_temperature_length(p["original_max_position_embeddings"])
        else:
            writer.add_rope_scaling_yarn_log_mul(p["mscale_all_dim"])
    if p["rope_type"] in ("linear", "yarn"):
        kinds = {"linear": gguf.RopeScalingType.LINEAR, "yarn": gguf.RopeScalingType.YARN}
        writer.add_rope_scaling_type(kinds[p["rope_type"]])
        writer.add_rope_scaling_factor(p["factor"])
    if p["rope_type"] in ("yarn", "longrope"):
        writer.add_rope_scaling_orig_ctx_len(p["original_max_position_embeddings"])
    if p["rope_type"] == "longrope":
        original = p["original_max_position_embeddings"]
        factor = config.max_position_embeddings / original
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(factor) / math.log(original)))
    vocabulary = json.loads((OUT / "tokenizer" / "tokenizer.json").read_text())
    pieces = sorted(vocabulary["model"]["vocab"], key=vocabulary["model"]["vocab"].get) + ["<|end|>"]
    assert len(pieces) == config.vocab_size
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(pieces)
    writer.add_token_types([1] * (len(pieces) - 1) + [3])
    writer.add_token_merges([" ".join(pair) for pair in vocabulary["model"]["merges"]])
    writer.add_eos_token_id(golden.END)
    writer.add_add_bos_token(False)


def write_file(path, config, tensors, split=0):
    """tensors: name -> (raw array, type)"""
    writer = gguf.GGUFWriter(str(path), architecture(config), split_max_tensors=split)
    write_metadata(writer, config)
    for name, (array, kind) in tensors.items():
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def drawn(array, name, seed):
    """A matrix of this shape of random blocks, as large as the array's elements are."""
    kind = TYPE[name]
    if name in ("TQ1_0", "TQ2_0", "MXFP4"):
        return gguf.quantize(array, kind), kind
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = numpy.random.default_rng(seed).integers(0, 256, (array.size // elements, size), dtype=numpy.uint8)

    def scale(value):
        half = numpy.frombuffer(numpy.float16(value).tobytes(), numpy.uint16)[0]
        for i in range(4 if name == "IQ1_M" else 0):
            blocks[:, 49 + 2 * i] = (blocks[:, 49 + 2 * i] & 15) | (half >> 4 * i & 15) << 4
        if name != "IQ1_M":
            blocks[:, :2] = numpy.frombuffer(half.tobytes(), numpy.uint8)

    scale(1)
    scale(array.std() / gguf.quants.dequantize(blocks, kind).std())
    return blocks.reshape(array.shape[0], -1), kind


def singly(tensors):
    """Each expert's tensors by themselves, as Mixtral's first files had them."""
    out = {}
    for name, (array, kind) in tensors.items():
        if "_exps." not in name:
            out[name] = (array, kind)
        for e in range(len(array) if "_exps." in name else 0):
            out[name.replace("_exps.", f".{e}.")] = (array[e], kind)
    return out


def as_type(array, kind):
    if array.ndim == 1 or array.shape[1] <= 4:  # convolutions stay floats
        return array, TYPE.F32
    if kind == TYPE.F16:
        return array.astype("<f2"), kind
    return (array if kind == TYPE.F32 else gguf.quantize(array, kind)), kind


def quantize(source, target, ftype):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread, params.pure, params.quantize_output_tensor = ftype, 2, True, True
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)):
        raise SystemExit(f"llama.cpp could not quantize to {ftype}")


def mixed(config, arrays, kinds, folder):
    """Each matrix in turn as the quantizer makes it for the next type, legacy types where K types do not fit."""
    plain = folder / "f32.gguf"
    write_file(plain, config, {n: as_type(a, TYPE.F32) for n, a in arrays.items()})
    made = {}
    for kind, ftype in kinds.items():
        quantize(plain, folder / f"{ftype}.gguf", ftype)
        reader = gguf.GGUFReader(str(folder / f"{ftype}.gguf"))
        made[kind] = {t.name: (numpy.array(t.data), t.tensor_type) for t in reader.tensors}
    out, turn, order = {}, 0, list(kinds)
    for name, array in arrays.items():
        if array.ndim == 1:
            out[name] = (array, TYPE.F32)
        else:
            kind = order[turn % len(order)]
            if made[kind][name][1] == kind:
                turn += 1
            out[name] = made[kind][name]
    return out


def by_llama_cpp(path, prompt, n):
    llm = llama_cpp.Llama(model_path=str(path), n_ctx=256, n_batch=256, verbose=False, n_threads=2, type_k=0, type_v=0,
                          flash_attn=False)
    size = llm.n_vocab()
    llm.reset()
    llm.eval(prompt)
    tokens, rows = [], []
    for _ in range(n):
        rows.append(numpy.ctypeslib.as_array(llm._ctx.get_logits(), (size,)).copy())
        tokens.append(int(rows[-1].argmax()))
        llm.eval([tokens[-1]])
    llm.close()
    return tokens, rows


def by_newer_llama_cpp(path, prompt, n):
    """Its tokens, and the logarithms of its probabilities."""
    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.n_ctx = str(path), 256
    parameters.cpuparams.n_threads = parameters.cpuparams_batch.n_threads = 1  # more wait for each other, on a busy machine long
    parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    server = xllamacpp.Server(parameters)
    rows, text = [], list(prompt)
    for _ in range(n):
        # The answer leaves out tokens that are no whole character: a bias chooses one that is. Probabilities are
        # those before it.
        answer = server.handle_completions({"prompt": text, "n_predict": 1, "temperature": 0, "n_probs": golden.VOCAB,
                                            "logit_bias": [[64, 1000.0]]})
        rows.append(numpy.full(golden.VOCAB, -numpy.inf))
        for entry in answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"]:
            rows[-1][entry["id"]] = entry["logprob"]
        text.append(int(rows[-1].argmax()))
    return text[len(prompt):], rows


def compare(ours, theirs):
    """How far llama.cpp's are from transformers' logits, as a share of the largest."""
    if not llama_cpp:
        known = numpy.isfinite(theirs)
        return numpy.abs((torch.log_softmax(ours.double(), 0).numpy() - theirs)[known]).max() / ours.abs().max()
    return numpy.abs(ours.numpy() - theirs).max() / ours.abs().max()


def load_by_hand(path, model, config):
    """The model with the file's values, for families that transformers' own reader does not know."""
    values = {t.name: gguf.quants.dequantize(t.data, t.tensor_type).astype("<f4").reshape(t.shape[::-1])
              for t in gguf.GGUFReader(str(path)).tensors}
    with torch.no_grad():
        named = [p for p in model.named_parameters() if "act_fn" not in p[0]]
        named += [b for b in model.named_buffers() if "e_score" in b[0] or "layer_scalar" in b[0]]
        for name, p in named:
            if name == "lm_head.weight" and config.tie_word_embeddings:
                continue
            if name.endswith("kv_b_proj.weight"):
                block = f"blk.{name.split('.')[2]}"
                both = numpy.concatenate([values[f"{block}.attn_k_b.weight"].swapaxes(1, 2),
                                          values[f"{block}.attn_v_b.weight"]], 1)
                p.copy_(torch.from_numpy(both.copy()).reshape(p.shape))
                continue
            if "_layernorm.norms." in name:
                _, _, block, _, part, _, head, _ = name.split(".")
                p.copy_(torch.from_numpy(values[f"blk.{block}.attn_{part[0]}_norm.weight"][int(head)].copy()))
                continue
            if ".experts." in name and config.model_type != "gemma4_text":
                inverted = config.model_type == "gpt_oss"
                parts = [values[n] for n, _ in split_experts(name, numpy.zeros(p.shape, "<f4"), inverted)]
                array = numpy.concatenate(parts, 1)
                if inverted:  # rows in turn, then inputs first
                    array = numpy.stack(parts, 2).reshape(array.shape)
                    array = array if p.ndim == 2 else array.swapaxes(1, 2)
            else:
                array = values[gguf_name(name, config.model_type)]
            if heads_of(name, config):
                array = unpermute(array, heads_of(name, config))
            if golden.adds_one(config) and "norm" in name and name.endswith("weight"):
                array = array - 1
            p.copy_(torch.from_numpy(array.copy()).reshape(p.shape))
    return model


def load(path, model, config):
    if keeps_values(config):
        return model
    if config.model_type not in READ_BY_TRANSFORMERS or "codebooks" in path.parent.name:
        return load_by_hand(path, model, config)
    if config.model_type == "mistral":  # in GGUF it is a Llama, and transformers' reader knows it as one
        config = LlamaConfig(**{k: v for k, v in config.to_dict().items() if k not in ("model_type", "sliding_window")})
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, config=config, dtype=torch.float32,
                                                 attn_implementation="eager").eval()
    return model


def prompts_of(model, length, margin, n, seed):
    """Prompts after which no choice is close and the text is not too dull."""
    generator = numpy.random.default_rng(seed)
    for _ in range(20):
        prompts = torch.tensor(generator.integers(0, golden.VOCAB - 1, (64, length)))
        tokens, alive, cache, step = [], torch.ones(64, dtype=bool), golden.new_cache(model), prompts
        with torch.no_grad():
            for _ in range(n):
                logits = model(input_ids=step, past_key_values=cache, use_cache=True).logits[:, -1]
                best = torch.topk(logits, 2).values
                alive &= (best[:, 0] - best[:, 1]) / logits.abs().amax(1) > margin
                step = logits.argmax(1, keepdim=True)
                tokens.append(step)
        tokens = torch.cat(tokens, 1)
        for i in torch.nonzero(alive).flatten().tolist():
            if len(set(tokens[i].tolist())) >= (2 if model.config.model_type.startswith("gemma") else n // 3):
                yield prompts[i].tolist()


BASE = dict(vocab_size=golden.VOCAB, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=256, eos_token_id=golden.END, bos_token_id=None,
            pad_token_id=None, tie_word_embeddings=True)
WIDE = dict(BASE, hidden_size=256, intermediate_size=256, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1)
FAMILIES = {
    "llama": (LlamaConfig, {}, {"head_dim": 32}),
    "mistral": (MistralConfig, {"sliding_window": None}, {"head_dim": 32}),
    "qwen2": (Qwen2Config, {}, {"num_attention_heads": 8}),
    "qwen3": (Qwen3Config, {"head_dim": 16}, {"head_dim": 32}),
    "phi3": (Phi3Config, {"original_max_position_embeddings": 256},
             {"original_max_position_embeddings": 256, "num_attention_heads": 8, "tie_word_embeddings": False}),
    "gemma2": (Gemma2Config, {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 16},
               {"head_dim": 32, "query_pre_attn_scalar": 32}),
}


LATENT = dict(num_key_value_heads=4, kv_lora_rank=16, q_lora_rank=12, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8,
              n_routed_experts=6, moe_intermediate_size=16, n_shared_experts=1)


# Families that came later, each in a file of mixed floats and one of quantized blocks where it has experts.
LATER = dict(BASE, hidden_size=16, intermediate_size=32, num_hidden_layers=4, tie_word_embeddings=False)
MROPE = {**rope("default"), "partial_rotary_factor": 0.25, "mrope_section": [1, 1, 0]}
GRANITE = dict(embedding_multiplier=3.0, residual_multiplier=0.6, attention_multiplier=0.3, logits_scaling=0.7)
FALCON = dict(head_dim=8, mamba_d_ssm=32, mamba_n_heads=4, mamba_d_state=16, lm_head_multiplier=0.7, embedding_multiplier=2.5,
              mlp_multipliers=[0.6, 1.7], key_multiplier=0.4, attention_out_multiplier=0.8, attention_in_multiplier=1.5,
              ssm_multipliers=[0.7, 1.3, 0.5, 1.6, 1.2], ssm_in_multiplier=1.25, ssm_out_multiplier=0.6)
MAMBA = {**GRANITE, "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"],
         "mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 16}
LATER_FAMILIES = {
    "granite": (GraniteConfig, dict(embedding_multiplier=3.0, residual_multiplier=0.6, attention_multiplier=0.3,
                                    logits_scaling=4.0)),
    "smollm3": (SmolLM3Config, {}),
    "olmo2": (Olmo2Config, {}),
    "olmo3": (Olmo3Config, {"sliding_window": 16}),
    "exaone4": (Exaone4Config, {"sliding_window": None, "layer_types": ["full_attention"] * 4}),
    "glm4": (Glm4Config, {"head_dim": 8}),
    "seed_oss": (SeedOssConfig, {"head_dim": 8}),
    "stablelm": (StableLmConfig, {"hidden_size": 32}),
    "gemma": (GemmaConfig, {"head_dim": 8, "tie_word_embeddings": True}),
    "starcoder2": (Starcoder2Config, {}),
    "nemotron": (NemotronConfig, {"hidden_size": 32}),
    "jais2": (Jais2Config, {}),
    "hunyuan_v1_moe": (HunYuanMoEV1Config, {"head_dim": 8, "num_experts": 5, "moe_topk": 2, "rope_parameters": rope(
        "dynamic", alpha=50.0, factor=1.0)}),
    "exaone_moe": (ExaoneMoeConfig, {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "sliding_window": 12,
                                     "first_k_dense_replace": 1, "routed_scaling_factor": 1.5}),
    "afmoe": (AfmoeConfig, {"head_dim": 8, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                            "sliding_window": 12, "mup_enabled": True, "route_scale": 1.5, "num_shared_experts": 1}),
    "cohere": (CohereConfig, {"logit_scale": 0.7, "tie_word_embeddings": True}),
    "cohere2": (Cohere2Config, {"logit_scale": 0.7, "tie_word_embeddings": True, "sliding_window": 12}),
    "gemma3": (Gemma3TextConfig, {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 16,
                                  "num_hidden_layers": 6, "tie_word_embeddings": True}),
    "ministral3": (Ministral3Config, {"head_dim": 8, "rope_parameters": {
        **rope("yarn", factor=4.0, original_max_position_embeddings=16), "mscale": 1.0, "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": 0.3}}),
    "mixtral": (MixtralConfig, {"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None}),
    "gpt_oss": (GptOssConfig, {"hidden_size": 32, "head_dim": 8, "sliding_window": 16, "num_local_experts": 4,
                               "num_experts_per_tok": 2, "rope_parameters": rope(
                                   "yarn", factor=4.0, original_max_position_embeddings=64)}),
    "olmoe": (OlmoeConfig, {"num_key_value_heads": 4, "num_experts": 6, "num_experts_per_tok": 2, "intermediate_size": 16}),
    "qwen2_moe": (Qwen2MoeConfig, {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                                   "shared_expert_intermediate_size": 24}),
    "glm4_moe": (Glm4MoeConfig, {"head_dim": 8, "n_routed_experts": 6, "num_experts_per_tok": 2, "num_mtp_layers": 0,
                                 "moe_intermediate_size": 16, "routed_scaling_factor": 1.5, "use_qk_norm": True}),
    "ernie4_5": (Ernie4_5Config, {"head_dim": 8}),
    "ernie4_5_moe": (Ernie4_5_MoeConfig, {"moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 16}),
    "minimax_m2": (MiniMaxM2Config, {"head_dim": 8, "num_local_experts": 6, "num_experts_per_tok": 2,
                                     "intermediate_size": 16}),
    "deepseek_v2": (DeepseekV2Config, {**LATENT, "num_experts_per_tok": 2}),
    "deepseek_v3": (DeepseekV3Config, {**LATENT, "first_k_dense_replace": 1, "num_mtp_layers": 0, "n_group": 2,
                                       "topk_group": 1, "num_experts_per_tok": 2, "rope_parameters": {
                                           **rope("yarn", factor=4.0, original_max_position_embeddings=64),
                                           "mscale": 1.0, "mscale_all_dim": 1.0}}),
    "glm4_moe_lite": (Glm4MoeLiteConfig, {**LATENT, "num_experts_per_tok": 2, "rms_norm_eps": 1e-6}),
    "mistral4": (Mistral4Config, {**LATENT, "num_experts_per_tok": 2, "rope_parameters": {
        **rope("yarn", factor=4.0, original_max_position_embeddings=64), "mscale": 1.0, "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": 0.3}}),
    "dots1": (Dots1Config, {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                            "n_shared_experts": 1, "first_k_dense_replace": 1, "sliding_window": None,
                            "num_key_value_heads": 4}),
    "hunyuan_v1_dense": (HunYuanDenseV1Config, {"head_dim": 8, "rope_parameters": rope(
        "dynamic", alpha=50.0, factor=1.0)}),
    "arcee": (ArceeConfig, {}),
    "apertus": (ApertusConfig, {"rope_parameters": rope("default")}),
    "gemma3n_text": (Gemma3nTextConfig, {"num_hidden_layers": 6, "num_kv_shared_layers": 2, "head_dim": 8,
                                         "layer_types": ["sliding_attention", "full_attention"] * 3,
                                         "activation_sparsity_pattern": [0.9, 0.5, 0.0, 0.0, 0.2, 0.0],
                                         "sliding_window": 12, "hidden_size_per_layer_input": 4, "laurel_rank": 4,
                                         "vocab_size_per_layer_input": golden.VOCAB, "tie_word_embeddings": True}),
    "gemma4_text": (Gemma4TextConfig, {
        "head_dim": 8, "global_head_dim": 16, "sliding_window": 16, "tie_word_embeddings": True,
        "num_hidden_layers": 6, "layer_types": ["sliding_attention", "full_attention"] * 3, "num_kv_shared_layers": 2,
        "use_double_wide_mlp": True, "hidden_size_per_layer_input": 4, "vocab_size_per_layer_input": golden.VOCAB,
        "final_logit_softcapping": 8.0}),
    "qwen3_5_text": (Qwen3_5TextConfig, {"head_dim": 16, "linear_key_head_dim": 16, "linear_value_head_dim": 16,
                                         "linear_num_key_heads": 2, "linear_num_value_heads": 6,
                                         "full_attention_interval": 3, "rope_parameters": MROPE}),
    "qwen3_5_moe_text": (Qwen3_5MoeTextConfig, {
        "head_dim": 16, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "full_attention_interval": 3, "num_experts": 6, "num_experts_per_tok": 2,
        "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24, "rope_parameters": MROPE}),
    # The wheel rotates blocks of both kinds by one base
    "mellum": (MellumConfig, {"head_dim": 8, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                              "sliding_window": 12, "layer_types": ["sliding_attention"] * 3 + ["full_attention"],
                              "rope_parameters": {
                                  "full_attention": rope("yarn", rope_theta=5e4, factor=4.0, original_max_position_embeddings=64),
                                  "sliding_attention": rope("default", rope_theta=5e4)}}),
    "hy_v3": (HYV3Config, {"head_dim": 8, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16}),
    "youtu": (YoutuConfig, {k: v for k, v in LATENT.items() if "expert" not in k and not k.startswith("moe")}),
    "granite_swa": (GraniteSWAConfig, {**GRANITE, "sliding_window": 12, "layer_rope_theta": [0, 1e4, 1e4, 1e4]}),
    "granitemoe_swa": (GraniteMoeSWAConfig, {**GRANITE, "sliding_window": 12, "num_local_experts": 5, "num_experts_per_tok": 2,
                                             "shared_intermediate_size": 20, "layer_rope_theta": [1e4, 1e4, 1e4, 0],
                                             "layer_types": ["sliding_attention", "full_attention"] * 2}),
    "lfm2": (Lfm2Config, {"layer_types": ["conv", "full_attention", "conv", "conv"], "block_auto_adjust_ff_dim": False,
                          "tie_word_embeddings": True}),
    "nemotron_h": (NemotronHConfig, {
        "head_dim": 8, "mamba_num_heads": 4, "mamba_head_dim": 8, "ssm_state_size": 16, "n_groups": 2,
        "n_routed_experts": 6, "moe_intermediate_size": 32, "moe_shared_expert_intermediate_size": 32,
        "time_step_min": 1e-9, "num_hidden_layers": None, "layers_block_type": [
            "linear_attention", "moe", "full_attention", "moe", "linear_attention", "linear_attention", "moe"]}),
    "phimoe": (PhimoeConfig, {"num_local_experts": 5, "attention_bias": True, "lm_head_bias": True,
                              "rope_parameters": {**rope("longrope", original_max_position_embeddings=256),
                                                  "short_factor": [1.0, 1.5], "long_factor": [1.0, 1.5],
                                                  "short_mscale": 1.0, "long_mscale": 1.0}}),
    "llama4_text": (Llama4TextConfig, {"head_dim": 8, "num_local_experts": 5, "num_experts_per_tok": 2,
                                       "intermediate_size": 16, "intermediate_size_mlp": 32,
                                       "interleave_moe_layer_step": 2}),
    "falcon_h1": (FalconH1Config, {**FALCON, "mamba_n_groups": 1}),
    "granitemoe": (GraniteMoeConfig, {**GRANITE, "num_local_experts": 5, "intermediate_size": 32}),
    "granitemoehybrid": (GraniteMoeHybridConfig, {**MAMBA, "shared_intermediate_size": 32, "num_local_experts": 5,
                                                  "intermediate_size": 32}),
    "lfm2_moe": (Lfm2MoeConfig, {"layer_types": ["conv", "full_attention", "conv", "conv"], "num_dense_layers": 1,
                                 "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                                 "tie_word_embeddings": True}),
    "qwen3_next": (Qwen3NextConfig, {
        "head_dim": 16, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2,
        "linear_num_value_heads": 4, "full_attention_interval": 3, "num_experts": 6, "num_experts_per_tok": 2,
        "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24}),
    "qwen3_moe": (Qwen3MoeConfig, {"head_dim": 8, "num_experts": 6, "num_experts_per_tok": 2,
                                   "moe_intermediate_size": 16, "norm_topk_prob": True}),
}


def configs():
    """name: (config, kinds, margin, split)"""
    out = {}
    for family, (make, small, wide) in FAMILIES.items():
        out[f"gguf-{family}-floats"] = (make(**{**BASE, **small}), FLOATS, 0.004, 0)
        out[f"gguf-{family}-legacy"] = (make(**{**BASE, **small}), LEGACY, 0.03, 0)
        out[f"gguf-{family}-k"] = (make(**{**WIDE, **wide}), KQUANT, 0.02 if family == "gemma2" else 0.03, 0)
    for family, (make, changes) in LATER_FAMILIES.items():
        kinds = [TYPE.F32] if family in ("falcon_h1", "hy_v3") else [TYPE.F16] if family in ALREADY_HALVES else FLOATS
        short = family.replace("_text", "") if family in ("gemma4_text", "gemma3n_text", "llama4_text") else family
        out[f"gguf-{short.replace('_', '-')}-floats"] = (make(**{**LATER, **changes}), kinds, 0.004, 0)
    out["gguf-stablelm-head-norms"] = (StableLmConfig(**{**LATER, "hidden_size": 32}, qk_layernorm=True,
                                                      use_parallel_residual=True, use_qkv_bias=True), FLOATS, 0.004, 0)
    out["gguf-falcon-h1-norm"] = (FalconH1Config(**{**LATER, **FALCON, "mamba_n_groups": 2, "mamba_rms_norm": True,
                                                    "mamba_norm_before_gate": False}), [TYPE.F32], 0.004, 0)
    out["gguf-granitemoehybrid-dense"] = (GraniteMoeHybridConfig(**{
        **LATER, **MAMBA, "num_local_experts": 0, "intermediate_size": 32, "shared_intermediate_size": 32,
        "mamba_n_groups": 1}), [TYPE.F16], 0.004, 0)
    out["gguf-nemotron-h-dense"] = (NemotronHConfig(**{
        **LATER, **LATER_FAMILIES["nemotron_h"][1], "n_groups": 1, "layers_block_type": [
            "linear_attention", "mlp", "full_attention", "linear_attention", "mlp", "full_attention", "mlp"]}),
        [TYPE.F16], 0.004, 0)
    out["gguf-gemma4-experts"] = (Gemma4TextConfig(**{
        **LATER, **LATER_FAMILIES["gemma4_text"][1], "num_kv_shared_layers": 0, "use_double_wide_mlp": False,
        "num_hidden_layers": 4, "layer_types": ["sliding_attention", "full_attention"] * 2,
        "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 6, "top_k_experts": 2,
        "moe_intermediate_size": 32, "attention_k_eq_v": True, "num_global_key_value_heads": 1}), FLOATS, 0.004, 0)
    out["gguf-qwen3-moe-legacy"] = (Qwen3MoeConfig(**{
        **BASE, "num_hidden_layers": 2, "head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2,
        "moe_intermediate_size": 32, "norm_topk_prob": True}), LEGACY, 0.03, 0)
    out["gguf-qwen3-vl-moe"] = (Qwen3MoeConfig(**{**LATER, **LATER_FAMILIES["qwen3_moe"][1], "of_images": True}), FLOATS, 0.004, 0)
    out["gguf-glm4-images"] = (Glm4Config(**{**LATER, "head_dim": 16, "attention_bias": True, "of_images": True}), [TYPE.F16], 0.004, 0)
    out["gguf-gpt-oss-mxfp4"] = (LATER_FAMILIES["gpt_oss"][0](**{**LATER, **LATER_FAMILIES["gpt_oss"][1]}),
                                 "MXFP4", 0.01, 0)
    out["gguf-llama-codebooks"] = (LlamaConfig(**{**WIDE, "num_hidden_layers": 2}, head_dim=128), CODEBOOKS, 0.05, 0)
    out["gguf-mixtral-single-experts"] = (out["gguf-mixtral-floats"][0], FLOATS, 0.004, 0)
    # Blocks with a window as the converter lists them, and one beyond the last, which predicts further.
    kinds = ["full_attention"] + ["sliding_attention"] * 2 + ["full_attention"]
    out["gguf-olmo3-listed"] = (Olmo3Config(**{**LATER, "sliding_window": 12, "layer_types": kinds}), FLOATS, 0.004, 0)
    out["gguf-exaone4-listed"] = (Exaone4Config(**{**LATER, "sliding_window": 12, "layer_types": kinds},
                                                num_nextn_predict_layers=1), FLOATS, 0.004, 0)
    small = FAMILIES["llama"][1]
    out["gguf-llama-split"] = (LlamaConfig(**BASE, **small), [TYPE.F16], 0.004, 12)
    out["gguf-llama-untied"] = (LlamaConfig(**{**BASE, "tie_word_embeddings": False, "head_dim": 16}), [TYPE.F16],
                                0.004, 0)
    out["gguf-llama-biases"] = (LlamaConfig(**BASE, attention_bias=True), [TYPE.F16], 0.004, 0)
    out["gguf-llama-llama3"] = (LlamaConfig(**{**BASE, "head_dim": 16}, rope_parameters=rope(
        "llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)),
        [TYPE.F16], 0.004, 0)
    out["gguf-llama-linear-x4"] = (LlamaConfig(**BASE, rope_parameters=rope("linear", factor=4.0)), [TYPE.F16], 0.004, 0)
    out["gguf-llama-yarn"] = (LlamaConfig(**{**BASE, "head_dim": 16}, rope_parameters=rope(
        "yarn", factor=4.0, original_max_position_embeddings=64)), [TYPE.F16], 0.004, 0)
    # llama.cpp takes the long factors for every position once its context is longer than the original.
    out["gguf-phi3-longrope"] = (Phi3Config(**{**BASE, "max_position_embeddings": 512},
                                            original_max_position_embeddings=256, rope_parameters={
        "rope_type": "longrope", "rope_theta": 10000.0, "short_factor": [1.0, 1.2, 1.5, 2.0],
        "long_factor": [1.0, 3.0, 9.0, 20.0]}), [TYPE.F16], 0.004, 0)
    return out


def new_model(config):
    if config.model_type == "mistral4":  # which the automatic class knows inside a model of images alone
        return Mistral4ForCausalLM(config).float().eval()
    return AutoModelForCausalLM.from_config(config).float().eval()


def is_judged_alone(config):
    """llama.cpp computes another model than transformers of Phi-MoE's files: RMS norms for layer norms, and weights of the
    two experts that are scaled to a sum of 1. Gemma 3n's sizes are fixed there: token inputs of 256, 20 blocks with keys,
    gates of the first 10 sparse. With 25 such blocks and MLPs of 4096 both choose the same 20 tokens, and log-probabilities
    differ by 0.03: llama.cpp divides the variance of a sparse gate by one less."""
    return config.model_type == "phimoe" or getattr(config, "hidden_size_per_layer_input", 256) not in (0, 256) and \
        config.model_type == "gemma3n_text"


def settle(judge, path, margin, seed, n):
    """A prompt that both judges continue alike: (prompt, tokens, transformers' logits, how far llama.cpp's
    are from them as a share of the largest)."""
    for attempt, prompt in enumerate(prompts_of(judge, 24, margin, n, seed)):
        tokens, rows, _ = golden.greedy(judge, prompt, n)
        if is_judged_alone(judge.config) or not llama_cpp and not xllamacpp:
            return prompt, tokens, rows, 0
        theirs, other = (by_llama_cpp if llama_cpp else by_newer_llama_cpp)(path, prompt, n)
        if theirs == tokens:
            error = max(compare(a, b) for a, b in zip(rows, other))
            return prompt, tokens, rows, error
        print(f"  llama.cpp gives {theirs}, transformers {tokens}", flush=True)
        if attempt == 5:
            break
    return None


def make(name, config, kinds, margin, split):
    folder = OUT / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    first = sum(name.encode())  # so that no two families share their weights
    for seed in range(first, first + 20):
        model = new_model(config)
        golden.randomise(model, seed, golden.adds_one(config) or config.model_type in RECURRENT)
        write_metadata.model = model
        config.allow_global_per_layer_attribute_access = True  # Gemma 4's head_dim is the sliding blocks'
        with torch.no_grad():
            for p in model.parameters() if keeps_values(config) else ():
                p.copy_(p.half().float())  # RoPE's frequencies, which are buffers, stay as they are
            for i, (_, buffer) in enumerate(b for b in model.named_buffers() if "e_score" in b[0] or "expert_bias" in b[0]):
                buffer.copy_(torch.randn(buffer.shape, generator=torch.Generator().manual_seed(i)) * 0.2)
        arrays = tensors_of(model, config)
        path = folder / "model.gguf"
        with tempfile.TemporaryDirectory() as scratch:
            if isinstance(kinds, dict):
                tensors = mixed(config, arrays, kinds, pathlib.Path(scratch))
            elif kinds == "MXFP4":  # the experts, as gpt-oss is published
                tensors = {n: (gguf.quantize(a, TYPE.MXFP4), TYPE.MXFP4) if a.ndim == 3 else as_type(a, TYPE.BF16 if n.endswith("weight") else TYPE.F32)
                           for n, a in arrays.items()}
            elif kinds == CODEBOOKS:
                turn = itertools.cycle(CODEBOOKS)
                tensors = {n: as_type(a, TYPE.F32) if a.ndim == 1 else drawn(a, next(turn), seed + i)
                           for i, (n, a) in enumerate(arrays.items())}
            else:
                tensors = {n: as_type(a, kinds[i % len(kinds)] if n.endswith("weight") and "_norm." not in n else TYPE.F32)
                           for i, (n, a) in enumerate(arrays.items())}
            write_file(path, config, tensors)
        judge = load(path, model, config)
        found = settle(judge, path, margin, seed, 10 if isinstance(kinds, dict) else 16)
        if found:
            break
    else:
        raise SystemExit(f"{name}: no prompt gave clear choices")
    prompt, tokens, rows, error = found
    if "single" in name:  # llama.cpp reads it no more: judged as stacks
        write_file(path, config, singly(tensors))
    if split:
        path.unlink()
        write_file(path, config, tensors, split)
        first = sorted(folder.glob("model-00001-of-*.gguf"))[0]
        assert by_llama_cpp(first, prompt, len(tokens))[0] == tokens
    keep = [0, 1, len(tokens) - 1]
    golden.write(folder, {"prompt": prompt, "tokens": tokens, "rows": keep, "llama_cpp_error": float(error),
                          "masks": []}, torch.stack([rows[i] for i in keep]).numpy().astype("<f4"))
    used = sorted({t[1].name for n, t in tensors.items()})
    print(f"{name}: seed {seed}, llama.cpp within {error:.4f}, {len(set(tokens))} different tokens of {len(tokens)}, "
          f"{sum(f.stat().st_size for f in folder.iterdir()) // 1024} KiB, {' '.join(used)}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="folders of tests/core/golden to make again (all)")
    chosen = parser.parse_args().names
    golden.write_tokenizer_once(OUT)
    for name, entry in configs().items():
        if not chosen or name in chosen:
            make(name, *entry)


if __name__ == "__main__":
    main()
