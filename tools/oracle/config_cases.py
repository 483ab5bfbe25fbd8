"""config.json files that configs.py judges: small models of every family, each unusual in one thing or several."""
import numpy

import golden

PLAIN = dict(vocab_size=golden.VOCAB, hidden_size=32, intermediate_size=48, num_hidden_layers=4,
             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256, tie_word_embeddings=False,
             bos_token_id=None, eos_token_id=golden.END, pad_token_id=None)
SLIDES = ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]
FULL = ["full_attention"] * 4

LATENT = dict(kv_lora_rank=12, q_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=8,
              n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=16, n_shared_experts=1, n_group=1,
              topk_group=1)
# Fields that a small model of the family needs beside the plain sizes.
FAMILIES = {
    "llama": {}, "mistral": {}, "ministral": {"head_dim": 8}, "ministral3": {"head_dim": 8},
    "mixtral": {"head_dim": 8, "num_local_experts": 4}, "qwen2": {}, "qwen3": {"head_dim": 8},
    "qwen3_moe": {"head_dim": 8, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "gpt_oss": {"head_dim": 8, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 20},
    "phi3": {}, "phimoe": {"num_local_experts": 6}, "gemma2": {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 20},
    "gemma3_text": {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 20}, "granite": {},
    "granitemoehybrid": {"num_local_experts": 0, "shared_intermediate_size": 40, "layer_types": ["attention"] * 4,
                         "mamba_n_heads": 4},
    "granitemoe": {"num_local_experts": 5}, "granitemoeshared": {"num_local_experts": 5, "shared_intermediate_size": 20},
    "nemotron_h": {"head_dim": 8, "mamba_num_heads": 4, "mamba_head_dim": 12, "ssm_state_size": 10, "n_groups": 2,
                   "n_routed_experts": 6, "moe_intermediate_size": 20, "moe_shared_expert_intermediate_size": 28,
                   "time_step_min": 1e-9},
    "llama4_text": {"head_dim": 8, "num_local_experts": 6, "intermediate_size": 20, "intermediate_size_mlp": 40,
                    "attention_chunk_size": 24, "floor_scale": 16},
    "falcon_h1": {"mamba_d_ssm": 24, "mamba_n_heads": 4, "mamba_n_groups": 2, "mamba_d_state": 10},
    "smollm3": {}, "olmo2": {}, "olmo3": {"sliding_window": 20}, "exaone4": {"sliding_window": 20},
    "olmoe": {"num_experts": 6, "num_experts_per_tok": 2},
    "qwen2_moe": {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
                  "shared_expert_intermediate_size": 24},
    "glm4_moe": {"head_dim": 8, "n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 16},
    "glm": {"head_dim": 8},
    "solar_open": {"head_dim": 8, "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "flex_olmo": {"num_experts": 5, "num_experts_per_tok": 2},
    "ernie4_5": {"head_dim": 8},
    "ernie4_5_moe": {"moe_num_experts": 6, "moe_k": 2, "moe_intermediate_size": 16, "head_dim": 8},
    "minimax_m2": {"head_dim": 8, "num_local_experts": 6, "num_experts_per_tok": 2},
    "qwen3_5_text": {"head_dim": 16, "linear_key_head_dim": 8, "linear_value_head_dim": 12, "linear_num_key_heads": 2,
                     "linear_num_value_heads": 4},
    "qwen3_5_moe_text": {"head_dim": 16, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
                         "linear_num_key_heads": 2, "linear_num_value_heads": 4, "num_experts": 6,
                         "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24},
    "lfm2": {"layer_types": ["conv", "full_attention", "conv", "conv"], "block_multiple_of": 8},
    "lfm2_moe": {"layer_types": ["conv", "full_attention", "conv", "conv"], "num_experts": 6, "num_experts_per_tok": 2,
                 "moe_intermediate_size": 16},
    "qwen3_next": {"head_dim": 16, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_num_key_heads": 2,
                   "linear_num_value_heads": 6, "num_experts": 6, "num_experts_per_tok": 2,
                   "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24},
    "glm4": {"head_dim": 8}, "seed_oss": {"head_dim": 8}, "stablelm": {},
    "dots1": {"n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "n_shared_experts": 1},
    "hunyuan_v1_dense": {"head_dim": 8}, "arcee": {}, "apertus": {}, "cohere": {"logit_scale": 1.0}, "cohere2": {"sliding_window": 20, "logit_scale": 1.0},
    "iquestcoder": {"head_dim": 8}, "internlm3": {"head_dim": 8}, "cwm": {"head_dim": 8, "sliding_window": 20, "bos_token_id": ...}, "jais2": {},
    "nemotron": {}, "starcoder2": {}, "helium": {"head_dim": 8}, "gemma": {"head_dim": 8},
    "vaultgemma": {"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 20}, "hyperclovax": {},
    "granite_swa": {"sliding_window": 20}, "hunyuan_v1_moe": {"num_experts": 6, "moe_topk": 2, "head_dim": 8},
    "mellum": {"head_dim": 8, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "sliding_window": 20},
    "exaone_moe": {"sliding_window": 20, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "afmoe": {"head_dim": 8, "sliding_window": 20, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "granitemoe_swa": {"sliding_window": 20, "num_local_experts": 5},
    "hy_v3": {"head_dim": 8, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16},
    "gemma4_unified_text": {"head_dim": 8, "global_head_dim": 16, "sliding_window": 20},
    "youtu": {k: LATENT[k] for k in LATENT if k.endswith(("_rank", "_head_dim"))} | {"num_key_value_heads": 4},
    **{name: {**LATENT, "num_key_value_heads": 4} for name in ("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "mistral4")},
    "gemma4_text": {"head_dim": 8, "global_head_dim": 16, "sliding_window": 20, "hidden_size_per_layer_input": 4,
                    "vocab_size_per_layer_input": golden.VOCAB},
    "gemma3n_text": {"head_dim": 8, "sliding_window": 20, "hidden_size_per_layer_input": 4, "laurel_rank": 6,
                     "vocab_size_per_layer_input": golden.VOCAB, "num_kv_shared_layers": 0, "layer_types": SLIDES},
}


def case(family, **changes):
    """A config of the family; a change to ... takes the field out."""
    config = {**PLAIN, "model_type": family, **FAMILIES[family], **changes}
    return {name: value for name, value in config.items() if value is not ...}


def rope(kind, **more):
    return {"rope_type": kind, **more}


YARN = rope("yarn", factor=4.0, original_max_position_embeddings=64)
LLAMA3 = rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64)
LINEAR = rope("linear", factor=4.0)
DYNAMIC = rope("dynamic", factor=3.0)
LONG = rope("longrope", short_factor=[1.0, 1.1, 1.2, 1.3], long_factor=[1.0, 2.0, 4.0, 8.0])

# Families that came last, and families whose attention all turns by one flat set of parameters.
LATER = ("cohere", "iquestcoder", "internlm3", "cwm", "jais2", "nemotron", "starcoder2", "helium", "gemma", "vaultgemma",
         "hyperclovax", "granite_swa", "hunyuan_v1_moe", "mellum", "exaone_moe", "afmoe", "youtu", "granitemoe_swa", "hy_v3",
         "gemma4_unified_text")
FLAT = [f for f in FAMILIES if f not in ("gemma3_text", "olmo3", "phi3", "granitemoehybrid", "granitemoe",
                                         "granitemoeshared", "nemotron_h")]
FLAT = [f for f in FLAT if f not in LATER]
FLAT = [f for f in FLAT if f not in ("gemma3n_text", "gemma4_text", "mistral4", "phimoe", "falcon_h1")]
BY_KIND = ("gemma3_text", "olmo3")
TWICE = 24  # an original context beside the one among the parameters


def by_kind(full, sliding=None):
    return {"full_attention": full, "sliding_attention": sliding or rope("default")}


CASES = {}
for name in FLAT:
    CASES[f"{name}-scaling-beside-parameters"] = case(
        name, rope_parameters=rope("default", rope_theta=1e6), rope_scaling={**YARN, "truncate": True})
    CASES[f"{name}-original-context-twice"] = case(
        name, rope_parameters={**(LLAMA3 if name in ("llama", "qwen3", "olmo2") else YARN), "rope_theta": 5000.0,
                               **({"llama_4_scaling_beta": 0.2} if name == "ministral3" else {})},
        original_max_position_embeddings=TWICE)
del CASES["ministral3-scaling-beside-parameters"]  # transformers wants its growth there
for name in BY_KIND:
    CASES[f"{name}-flat-parameters"] = case(name, rope_parameters={**LINEAR, "rope_theta": 1e6})
    CASES[f"{name}-scaling-beside-parameters"] = case(
        name, rope_parameters=by_kind(rope("default", rope_theta=5000.0)), rope_scaling=LINEAR)
    CASES[f"{name}-scaling-alone"] = case(name, rope_scaling=LINEAR, rope_theta=2000.0, rope_local_base_freq=700.0)
    CASES[f"{name}-type-unread"] = case(name, rope_scaling={"type": "linear", "factor": 8.0})
    CASES[f"{name}-original-context-twice"] = case(
        name, rope_parameters=by_kind({**YARN, "truncate": False}), original_max_position_embeddings=TWICE)
CASES.update({
    "phi3-original-context-inside": case("phi3", rope_scaling={**LONG, "original_max_position_embeddings": 32}),
    "phi3-original-context-outside": case("phi3", rope_scaling=LONG, original_max_position_embeddings=TWICE),
    "phi3-yarn-is-longrope": case("phi3", rope_scaling={**LONG, "rope_type": "yarn"},
                                  original_max_position_embeddings=100),
    "gpt_oss-default-rope-theta": case("gpt_oss", rope_theta=3000.0, original_max_position_embeddings=TWICE),
    "gpt_oss-default-rope-kv-null": case("gpt_oss", num_key_value_heads=4, rope_parameters=None),
    "ministral3-default-rope-theta": case("ministral3", rope_theta=3000.0, max_position_embeddings=64),
    "ministral3-listed-kinds-unread": case("ministral3", sliding_window=20, layer_types=SLIDES),
    "mistral-listed-kinds": case("mistral", head_dim=8, sliding_window=20, layer_types=SLIDES),
    "mixtral-window": case("mixtral", sliding_window=20, layer_types=SLIDES),
    "phi3-listed-kinds-unread": case("phi3", sliding_window=20, layer_types=SLIDES),
    "ministral-window-null": case("ministral", sliding_window=None, layer_types=FULL),
    "qwen2-window-from-first": case("qwen2", use_sliding_window=True, sliding_window=20, max_window_layers=1),
    "qwen3-window-listed": case("qwen3", use_sliding_window=True, sliding_window=20, layer_types=SLIDES),
    "qwen3-window-unused": case("qwen3", use_sliding_window=False, sliding_window=20, max_window_layers=0),
    "qwen3_moe-window-all": case("qwen3_moe", use_sliding_window=True, sliding_window=20, max_window_layers=3),
    "qwen3_moe-window-unused": case("qwen3_moe", use_sliding_window=False, sliding_window=20),
    "smollm3-window-listed": case("smollm3", use_sliding_window=True, sliding_window=20, layer_types=SLIDES),
    "olmo3-all-full": case("olmo3", layer_types=FULL),
    "olmo3-pattern-unread": case("olmo3", sliding_window_pattern=2),
    "gemma2-pattern-unread": case("gemma2", sliding_window_pattern=4),
    "gemma2-all-full": case("gemma2", layer_types=FULL, attn_logit_softcapping=None),
    "gemma3_text-pattern": case("gemma3_text", sliding_window_pattern=2, attn_logit_softcapping=2.0,
                                final_logit_softcapping=3.0),
    "gemma3_text-all-full": case("gemma3_text", layer_types=FULL),
    "exaone4-all-full": case("exaone4", layer_types=FULL),
    "exaone4-all-full-no-window": case("exaone4", layer_types=FULL, sliding_window=None),
    "exaone4-pattern": case("exaone4", sliding_window_pattern=2),
    "gpt_oss-all-full": case("gpt_oss", layer_types=FULL),
    "granitemoehybrid-rope": case("granitemoehybrid", position_embedding_type="rope", rope_scaling=YARN,
                                  rope_parameters=rope("default"), original_max_position_embeddings=TWICE),
    "glm4-rotary-beside": case("glm4", partial_rotary_factor=0.75, rope_parameters=rope("default")),
    "stablelm-rotary-inside": case("stablelm", partial_rotary_factor=0.25,
                                   rope_parameters=rope("linear", factor=2.0, partial_rotary_factor=0.75)),
})
# Models of images and text: text alone is run. Old files have its fields beside the others.
MROPE = {"type": "mrope", "mrope_section": [1, 1, 2]}
TEXT = {k: v for k, v in PLAIN.items() if k not in ("tie_word_embeddings", "pad_token_id")}
VISION = {"qwen2_vl": dict(depth=1, embed_dim=16, hidden_size=32, num_heads=2),
          "qwen2_5_vl": dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32,
                             fullatt_block_indexes=[0]),
          "qwen3_vl": dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32,
                           num_position_embeddings=16, deepstack_visual_indexes=[0])}
TOKENS = dict(image_token_id=1, video_token_id=2, vision_start_token_id=3, vision_end_token_id=4)
CASES.update({
    "qwen2_vl-flat": {**TEXT, **TOKENS, "model_type": "qwen2_vl", "vision_config": VISION["qwen2_vl"],
                      "rope_scaling": MROPE, "rope_theta": 5000.0, "tie_word_embeddings": False},
    "qwen2_5_vl-flat": {**TEXT, **TOKENS, "model_type": "qwen2_5_vl", "vision_config": VISION["qwen2_5_vl"],
                        "rope_scaling": MROPE, "tie_word_embeddings": True, "max_window_layers": 2,
                        "use_sliding_window": False},
    "qwen2_5_vl-nested": {**TOKENS, "model_type": "qwen2_5_vl", "vision_config": VISION["qwen2_5_vl"],
                          "text_config": {**TEXT, "model_type": "qwen2_5_vl_text", "rope_parameters": {
                              "rope_type": "default", "mrope_section": [1, 1, 2]}, "use_sliding_window": True,
                              "sliding_window": 20, "max_window_layers": 1}, "tie_word_embeddings": False},
    "qwen3_vl": {**TOKENS, "model_type": "qwen3_vl", "vision_config": VISION["qwen3_vl"],
                 "text_config": {**TEXT, "model_type": "qwen3_vl_text", "head_dim": 8, "rope_scaling": {
                     "rope_type": "default", "mrope_section": [2, 1, 1], "mrope_interleaved": True}},
                 "tie_word_embeddings": False},
    "qwen3_vl-tied": {**TOKENS, "model_type": "qwen3_vl", "vision_config": VISION["qwen3_vl"],
                      "text_config": {**TEXT, "model_type": "qwen3_vl_text", "head_dim": 8, "rope_theta": 3000.0,
                                      "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
                                                       "original_max_position_embeddings": 64,
                                                       "mrope_section": [2, 1, 1]}},
                      "tie_word_embeddings": True},
    **{f"qwen3_vl_moe-{name}": {**TOKENS, "model_type": "qwen3_vl_moe", "vision_config": VISION["qwen3_vl"], "text_config": {
        **TEXT, "model_type": "qwen3_vl_moe_text", "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 20,
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1], "mrope_interleaved": True}, **changes},
        "tie_word_embeddings": tied} for name, tied, changes in (
            ("plain", False, {}), ("turned", False, {"num_experts": 7, "num_experts_per_tok": 3}), ("sparse-step", False, {"decoder_sparse_step": 2, "head_dim": 16, "attention_bias": True,
                                                          "norm_topk_prob": False, "num_key_value_heads": 1}),
            ("dense-blocks-tied", True, {"mlp_only_layers": [0, 3], "num_experts_per_tok": 5, "rope_theta": 3000.0}))},
    "exaone4_5": {"model_type": "exaone4_5", "image_token_id": 1, "video_token_id": 2,
                  "vision_config": {**VISION["qwen2_5_vl"], "num_key_value_heads": 1},
                  "text_config": {**TEXT, "model_type": "exaone4_5_text", "sliding_window": 20,
                                  "layer_types": SLIDES}, "tie_word_embeddings": False},
    "llava-mistral": {"model_type": "llava", "image_token_index": 1, "vision_config": {
        "model_type": "clip_vision_model", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "image_size": 28, "patch_size": 14}, "tie_word_embeddings": False,
        "text_config": {**TEXT, "model_type": "mistral", "sliding_window": 20}},
})
for name in ("glm", "solar_open", "flex_olmo", "olmoe", "qwen2_moe", "glm4_moe", "ernie4_5", "ernie4_5_moe", "minimax_m2"):
    CASES[f"{name}-plain"] = case(name)
CASES.update({
    "olmoe-normalised-biases": case("olmoe", norm_topk_prob=True, attention_bias=True, num_key_value_heads=None,
                                    tie_word_embeddings=True, num_experts=5, num_experts_per_tok=5),
    "glm-no-biases": case("glm", attention_bias=False, head_dim=16, partial_rotary_factor=0.75,
                          num_attention_heads=2, num_key_value_heads=1),
    "solar_open-no-size": case("solar_open", intermediate_size=..., n_group=2, topk_group=1, attention_bias=True,
                               routed_scaling_factor=2.0, n_shared_experts=2),
    "flex_olmo-normalised": case("flex_olmo", norm_topk_prob=True, num_key_value_heads=1),
    "qwen2_moe-sparse-step": case("qwen2_moe", norm_topk_prob=True, decoder_sparse_step=2, num_hidden_layers=5,
                                  qkv_bias=False),
    "qwen2_moe-dense-blocks-window": case("qwen2_moe", mlp_only_layers=[1, 2], use_sliding_window=True,
                                          sliding_window=20, max_window_layers=3),
    "glm4_moe-groups": case("glm4_moe", n_group=4, topk_group=2, routed_scaling_factor=2.5, first_k_dense_replace=2,
                            n_shared_experts=2, use_qk_norm=True, attention_bias=True),
    "glm4_moe-all-experts": case("glm4_moe", norm_topk_prob=False, first_k_dense_replace=0, n_group=2, topk_group=1,
                                 partial_rotary_factor=0.25, num_hidden_layers=3),
    "ernie4_5-biases-yarn": case("ernie4_5", use_bias=True, head_dim=None, rope_scaling=YARN,
                                 tie_word_embeddings=True),
    "ernie4_5_moe-interval": case("ernie4_5_moe", moe_layer_start_index=0, moe_layer_end_index=3,
                                  moe_layer_interval=2, moe_num_shared_experts=1, num_hidden_layers=6),
    "ernie4_5_moe-none-shared": case("ernie4_5_moe", moe_num_shared_experts=0, moe_layer_start_index=2),
    "minimax_m2-rotary": case("minimax_m2", rotary_dim=4, num_experts_per_tok=4),
    "minimax_m2-wide": case("minimax_m2", head_dim=16, partial_rotary_factor=0.5, num_key_value_heads=4,
                            rope_theta=777.0),
})
CASES.update({
    "dots1-plain": case("dots1"),
    "dots1-groups-window": case("dots1", n_group=3, topk_group=2, norm_topk_prob=True, routed_scaling_factor=2.5,
                                n_shared_experts=2, first_k_dense_replace=1, sliding_window=20, max_window_layers=2,
                                attention_bias=True),
    "dots1-listed": case("dots1", head_dim=16, layer_types=SLIDES, sliding_window=20, num_key_value_heads=4,
                         num_experts_per_tok=6),
    "hunyuan_v1_dense-plain": case("hunyuan_v1_dense"),
    "hunyuan_v1_dense-alpha": case("hunyuan_v1_dense", head_dim=16, attention_bias=True, tie_word_embeddings=True,
                                   rope_parameters=rope("dynamic", alpha=1000.0, factor=1.0, rope_theta=5000.0)),
    "hunyuan_v1_dense-dynamic": case("hunyuan_v1_dense", num_key_value_heads=1, max_position_embeddings=64,
                                     rope_parameters=rope("dynamic", factor=3.0)),
    "arcee-plain": case("arcee"),
    "arcee-biases": case("arcee", attention_bias=True, mlp_bias=True, head_dim=16, num_key_value_heads=None,
                         rope_parameters={**YARN, "rope_theta": 2000.0}),
    "arcee-tied": case("arcee", tie_word_embeddings=True, num_attention_heads=2, num_key_value_heads=1,
                       intermediate_size=20, num_hidden_layers=3),
    "apertus-plain": case("apertus"),
    "apertus-biases": case("apertus", attention_bias=True, tie_word_embeddings=True, num_key_value_heads=1,
                           rope_parameters=rope("default", rope_theta=3000.0)),
    "apertus-head-dim": case("apertus", head_dim=16, num_key_value_heads=None, num_hidden_layers=3,
                             intermediate_size=40),
    "cohere2-plain": case("cohere2", logit_scale=...),
    "cohere2-pattern": case("cohere2", sliding_window_pattern=2, logit_scale=0.5, attention_bias=True, num_key_value_heads=1,
                            tie_word_embeddings=True, layer_norm_eps=1e-3),
    "cohere2-listed": case("cohere2", layer_types=SLIDES, num_hidden_layers=4, num_key_value_heads=None,
                           rope_parameters={**LINEAR, "rope_theta": 3000.0}),
    "deepseek_v2-plain": case("deepseek_v2"),
    "deepseek_v2-groups": case("deepseek_v2", topk_method="group_limited_greedy", n_group=4, topk_group=2,
                               q_lora_rank=None, first_k_dense_replace=1, routed_scaling_factor=2.5,
                               norm_topk_prob=True, n_shared_experts=2),
    "deepseek_v2-yarn-biases": case("deepseek_v2", attention_bias=True, v_head_dim=4, rope_parameters={
        **YARN, "mscale": 0.7, "mscale_all_dim": 0.7, "rope_theta": 5000.0}),
    "deepseek_v3-plain": case("deepseek_v3"),
    "deepseek_v3-groups": case("deepseek_v3", n_group=4, topk_group=2, first_k_dense_replace=2, hidden_size=24,
                               num_attention_heads=4, rope_interleave=False, attention_bias=True),
    "deepseek_v3-yarn": case("deepseek_v3", q_lora_rank=None, qk_rope_head_dim=8, first_k_dense_replace=0,
                             norm_topk_prob=False, kv_lora_rank=20, rope_parameters={
                                 **YARN, "mscale": 1.0, "mscale_all_dim": 1.0}),
    "glm4_moe_lite-plain": case("glm4_moe_lite"),
    "glm4_moe_lite-types": case("glm4_moe_lite", mlp_layer_types=["sparse", "dense", "sparse", "dense"],
                                rope_interleave=False, n_group=2, topk_group=1, tie_word_embeddings=True),
    "glm4_moe_lite-wide": case("glm4_moe_lite", v_head_dim=16, qk_nope_head_dim=12, attention_bias=True,
                               num_experts_per_tok=8, rms_norm_eps=1e-3),
    "mistral4-plain": case("mistral4"),
    "mistral4-growth": case("mistral4", q_lora_rank=None, first_k_dense_replace=1, rope_parameters={
        **YARN, "original_max_position_embeddings": 32, "llama_4_scaling_beta": 0.3, "rope_theta": 2000.0,
        "mscale": 1.0, "mscale_all_dim": 1.0}),
    "mistral4-groups": case("mistral4", n_group=2, topk_group=1, norm_topk_prob=False, attention_bias=True,
                            qk_rope_head_dim=8, routed_scaling_factor=1.5),
    "gemma4_text-plain": case("gemma4_text", hidden_size_per_layer_input=0, num_hidden_layers=7),
    "gemma4_text-inputs": case("gemma4_text", num_hidden_layers=6, tie_word_embeddings=True),
    "gemma4_text-shared": case("gemma4_text", num_hidden_layers=8, num_kv_shared_layers=5, use_double_wide_mlp=True,
                               layer_types=SLIDES * 2, final_logit_softcapping=5.0, num_key_value_heads=1),
    "gemma4_text-keys-as-values": case("gemma4_text", hidden_size_per_layer_input=0, attention_k_eq_v=True,
                                       num_global_key_value_heads=1, layer_types=SLIDES, attention_bias=True),
    "gemma4_text-experts": case("gemma4_text", hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=6,
                                top_k_experts=2, moe_intermediate_size=12, attention_k_eq_v=True,
                                num_global_key_value_heads=2, num_key_value_heads=4, layer_types=SLIDES),
    "gemma4_text-all": case("gemma4_text", num_hidden_layers=9, layer_types=SLIDES * 2 + ["sliding_attention"],
                            num_kv_shared_layers=3, enable_moe_block=True, num_experts=5, top_k_experts=5,
                            moe_intermediate_size=8, attention_k_eq_v=True, num_global_key_value_heads=1,
                            hidden_size_per_layer_input=6, global_head_dim=32, use_bidirectional_attention="vision",
                            vocab_size_per_layer_input=golden.VOCAB + 9),
    "gemma4_text-own-sizes": case("gemma4_text", global_head_dim=..., layer_types=SLIDES, per_layer_config={
        "1": {"head_dim": 12, "num_key_value_heads": 4}, "3": {"head_dim": 12, "num_key_value_heads": 4}},
        rope_parameters=by_kind(rope("default", rope_theta=700.0), rope("linear", factor=2.0, rope_theta=3000.0))),
    "gemma4_text-all-full": case("gemma4_text", layer_types=FULL, hidden_activation="gelu_pytorch_tanh",
                                 num_kv_shared_layers=2, rope_parameters={"full_attention": rope(
                                     "proportional", partial_rotary_factor=0.5, factor=2.0, rope_theta=900.0)}),
    "gemma4_text-one-size": case("gemma4_text", num_hidden_layers=7, num_kv_shared_layers=1,
                                          num_attention_heads=8, global_head_dim=8, hidden_size=24),
})
# Targets with an assistant beside them, in a folder of its own.
ASSISTANTS = {}


def assisted(name, target, heads, centroids=None, used=None, outer=None, **changes):
    """Adds a target and its assistant of `heads` heads, whose head has groups of tokens if `centroids` is given."""
    kinds = {k: target[k] for k in ("head_dim", "global_head_dim", "num_key_value_heads", "attention_k_eq_v",
                                    "num_global_key_value_heads", "vocab_size", "sliding_window") if k in target}
    unified = "unified" in target["model_type"]
    text = {**PLAIN, **kinds, "model_type": target["model_type"], "hidden_size": 24, "intermediate_size": 40,
            "num_hidden_layers": 4, "num_attention_heads": heads, "hidden_size_per_layer_input": 0,
            "vocab_size_per_layer_input": 0, "num_kv_shared_layers": 4, "tie_word_embeddings": True, **changes}
    if unified:
        text = {k: v for k, v in text.items() if not k.endswith("per_layer_input")}
    groups = {"use_ordered_embeddings": True, "num_centroids": centroids, "centroid_intermediate_top_k": used}
    CASES[name] = target
    ASSISTANTS[name] = {"model_type": "gemma4_unified_assistant" if unified else "gemma4_assistant", "architectures": [
        "Gemma4UnifiedAssistantForCausalLM" if unified else "Gemma4AssistantForCausalLM"],
        "backbone_hidden_size": target["hidden_size"], "text_config": text, **(groups if centroids else {}), **(outer or {})}


assisted("gemma4_text-assistant", case("gemma4_text", layer_types=SLIDES, hidden_size=40), 4,
         layer_types=["sliding_attention"] * 3 + ["full_attention"])
assisted("gemma4_text-shared-assistant", case("gemma4_text", num_hidden_layers=6, num_kv_shared_layers=3, use_double_wide_mlp=True,
                                              layer_types=SLIDES + SLIDES[:2]), 6, 34, 5, layer_types=SLIDES, hidden_size=40)
assisted("gemma4_text-keys-as-values-assistant", case(
    "gemma4_text", hidden_size_per_layer_input=0, attention_k_eq_v=True, num_global_key_value_heads=1, layer_types=SLIDES), 2,
    8, 3, {"tie_word_embeddings": False}, layer_types=SLIDES, final_logit_softcapping=5.0)
assisted("gemma4_text-experts-assistant", case(
    "gemma4_text", hidden_size_per_layer_input=0, enable_moe_block=True, num_experts=6, top_k_experts=2,
    moe_intermediate_size=16, layer_types=SLIDES, sliding_window=7), 4, 17, 17, num_hidden_layers=2, num_kv_shared_layers=0,
    layer_types=SLIDES[:2], attention_bias=True)
assisted("gemma4_unified-assistant", case("gemma4_unified_text", num_hidden_layers=7, tie_word_embeddings=True), 4,
         num_hidden_layers=6, num_kv_shared_layers=6)
CASES.update({
    "gemma3n_text-plain": case("gemma3n_text"),
    "gemma3n_text-shared-sparse": case("gemma3n_text", num_hidden_layers=8, layer_types=SLIDES * 2, num_kv_shared_layers=5,
                                       activation_sparsity_pattern=[0.95, 0.5, 0.2, 0.0, 0.8, 0.0, 0.0, 0.7],
                                       intermediate_size=[48, 40, 56, 48, 48, 72, 48, 64], num_key_value_heads=1,
                                       attention_bias=True, tie_word_embeddings=True),
    "gemma3n_text-sparse-narrow": case("gemma3n_text", intermediate_size=7, activation_sparsity_pattern=[0.9, 0.5, 0.2, 0.0]),
    "gemma3n_text-sparse-wide": case("gemma3n_text", intermediate_size=1024, activation_sparsity_pattern=[0.95, 0.95, 0.5, 0.0]),
    "gemma3n_text-two-streams": case("gemma3n_text", altup_num_inputs=2, altup_correct_scale=False, laurel_rank=1,
                                     final_logit_softcapping=5.0, hidden_size_per_layer_input=6,
                                     vocab_size_per_layer_input=100, hidden_activation="gelu", num_attention_heads=2,
                                     rope_scaling=LINEAR, rope_theta=2000.0, rope_local_base_freq=700.0),
    "gemma3n_text-default-kinds": case("gemma3n_text", num_hidden_layers=11, layer_types=..., num_kv_shared_layers=4,
                                       num_key_value_heads=4, intermediate_size=200,
                                       final_logit_softcapping=4.0),
    "gemma3n_text-six-streams": case("gemma3n_text", altup_num_inputs=6, num_hidden_layers=3, layer_types=FULL[:3],
                                     num_kv_shared_layers=2, hidden_size=40, head_dim=12, rope_parameters=by_kind(
                                         {**YARN, "rope_theta": 3000.0}, rope("default", rope_theta=500.0))),
})
# Recurrent blocks: transformers' layer_types name them.
LINEAR_FIRST = ["linear_attention", "full_attention", "full_attention", "linear_attention", "linear_attention"]
for name in ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"):
    CASES[f"{name}-plain"] = case(name)
    CASES[f"{name}-listed-kinds"] = case(name, num_hidden_layers=5, layer_types=LINEAR_FIRST, tie_word_embeddings=True)
CASES["lfm2-plain"] = case("lfm2")
CASES["lfm2-listed-attention"] = case("lfm2", layer_types=..., full_attn_idxs=[0, 3], conv_L_cache=5, block_ff_dim=100,
                                      block_ffn_dim_multiplier=1.3, norm_eps=1e-3, num_hidden_layers=5, tie_embedding=True)
CASES["lfm2-not-adjusted"] = case("lfm2", block_auto_adjust_ff_dim=False, num_key_value_heads=4, hidden_size=48,
                                  conv_L_cache=2, rope_parameters=rope("default", rope_theta=300.0))
CASES.update({
    "lfm2_moe-plain": case("lfm2_moe"),
    "lfm2_moe-no-bias": case("lfm2_moe", use_expert_bias=False, num_dense_layers=1, norm_topk_prob=False, conv_L_cache=5,
                             tie_embedding=True, num_key_value_heads=4),
    "lfm2_moe-all-experts": case("lfm2_moe", num_dense_layers=0, num_experts=3, num_experts_per_tok=3, conv_L_cache=2,
                                 routed_scaling_factor=2.5, hidden_size=48, num_hidden_layers=5, norm_eps=1e-3,
                                 layer_types=["full_attention", "conv", "full_attention", "conv", "conv"]),
    "lfm2_moe-one-tap": case("lfm2_moe", conv_L_cache=1, num_key_value_heads=1, num_attention_heads=2,
                             tie_word_embeddings=True, rope_parameters=rope("default", rope_theta=300.0)),
})
CASES["lfm2-one-tap"] = case("lfm2", conv_L_cache=1, tie_word_embeddings=True)
CASES.update({
    "qwen3_5_text-one-head-wide-taps": case("qwen3_5_text", linear_num_key_heads=1, linear_num_value_heads=1,
                                            linear_key_head_dim=24, linear_value_head_dim=40, linear_conv_kernel_dim=7, num_key_value_heads=4,
                                            full_attention_interval=3, num_hidden_layers=7),
    "qwen3_5_text-two-taps-wide-heads": case("qwen3_5_text", linear_key_head_dim=20, linear_value_head_dim=68,
                                             linear_conv_kernel_dim=2, attention_bias=True, num_attention_heads=3,
                                             num_key_value_heads=1, rms_norm_eps=1e-4,
                                             rope_parameters=rope("default", rope_theta=5e3,
                                                                  partial_rotary_factor=0.5)),
    "qwen3_5_text-scaled-rope": case("qwen3_5_text", linear_num_value_heads=2, partial_rotary_factor=0.75,
                                     rope_parameters={**YARN, "rope_theta": 3e3, "mrope_section": [2, 1, 1]}),
    "qwen3_5_text-one-tap": case("qwen3_5_text", linear_conv_kernel_dim=1, hidden_size=48, num_hidden_layers=4),
    "qwen3_5_moe_text-all-experts": case("qwen3_5_moe_text", num_experts=3, num_experts_per_tok=3,
                                         linear_num_key_heads=3, linear_num_value_heads=3, head_dim=32,
                                         shared_expert_intermediate_size=8),
    "qwen3_5_moe_text-fused": case("qwen3_5_moe_text", linear_num_key_heads=1, linear_value_head_dim=20,
                                   full_attention_interval=2),
    "qwen3_5_text-mtp": case("qwen3_5_text", num_hidden_layers=4, hidden_size=40, num_key_value_heads=1),
    "qwen3_5_text-tied-mtp": case("qwen3_5_text", num_hidden_layers=4, tie_word_embeddings=True, attention_bias=True),
    "qwen3_5_moe_text-mtp": case("qwen3_5_moe_text", num_hidden_layers=4),
    "qwen3_next-mtp": case("qwen3_next", num_hidden_layers=4, norm_topk_prob=False),
    "glm4_moe-mtp": case("glm4_moe", first_k_dense_replace=1, num_nextn_predict_layers=1),
    "glm4_moe-norms-mtp": case("glm4_moe", first_k_dense_replace=2, use_qk_norm=True, attention_bias=True,
                               num_nextn_predict_layers=1),
    "deepseek_v3-mtp": case("deepseek_v3", first_k_dense_replace=1, num_nextn_predict_layers=1),
    "deepseek_v3-later-field-mtp": case("deepseek_v3", first_k_dense_replace=1, num_mtp_layers=1, hidden_size=24),
    "glm4_moe_lite-mtp": case("glm4_moe_lite", num_nextn_predict_layers=1, num_attention_heads=3, num_key_value_heads=3),
    "glm4_moe_lite-biases-mtp": case("glm4_moe_lite", num_nextn_predict_layers=1, attention_bias=True, qk_nope_head_dim=12,
                                     n_group=2, topk_group=1, n_shared_experts=2, num_hidden_layers=3),
    "deepseek_v3-no-query-map-mtp": case("deepseek_v3", q_lora_rank=None, v_head_dim=12, num_nextn_predict_layers=1),
    "qwen3_next-dense-blocks": case("qwen3_next", mlp_only_layers=[1], decoder_sparse_step=2, num_hidden_layers=6,
                                    norm_topk_prob=False, linear_value_head_dim=20, full_attention_interval=3),
    "qwen3_next-heads": case("qwen3_next", linear_num_key_heads=4, linear_num_value_heads=4, linear_conv_kernel_dim=3,
                             partial_rotary_factor=0.5, attention_bias=True, rope_theta=777.0),
    "qwen3_5": {**TOKENS, "model_type": "qwen3_5", "vision_config": {k: v for k, v in VISION["qwen3_vl"].items()
                                                                   if k != "deepstack_visual_indexes"},
                "text_config": {**TEXT, "model_type": "qwen3_5_text", **FAMILIES["qwen3_5_text"]},
                "tie_word_embeddings": True},
    "qwen3_5_moe": {**TOKENS, "model_type": "qwen3_5_moe", "vision_config": {
        k: v for k, v in VISION["qwen3_vl"].items() if k != "deepstack_visual_indexes"},
        "text_config": {**{k: v for k, v in TEXT.items() if k != "intermediate_size"}, "model_type":
                        "qwen3_5_moe_text", **FAMILIES["qwen3_5_moe_text"], "linear_key_head_dim": 12}, "tie_word_embeddings": False},
})
# Granite 4 with Mamba-2, with experts, with both; names of blocks new and old.
MAMBA = {"num_local_experts": 0, "shared_intermediate_size": 40, "mamba_n_heads": 4, "mamba_d_state": 12,
         "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"]}
GRANITES = {"embedding_multiplier": 3.0, "residual_multiplier": 0.6, "attention_multiplier": 0.3, "logits_scaling": 4.0}
CASES.update({
    "granitemoehybrid-mamba": case("granitemoehybrid", **MAMBA),
    "granitemoehybrid-mamba-groups": case("granitemoehybrid", **{
        **MAMBA, "mamba_n_heads": 8, "mamba_n_groups": 2, "mamba_d_conv": 2, "mamba_conv_bias": False,
        "mamba_d_state": 20, "mamba_expand": 3, "hidden_size": 48, "layer_types": ...,
        "layers_block_type": ["mamba", "mamba", "attention", "mamba"]}, **GRANITES),
    "granitemoehybrid-mamba-experts": case("granitemoehybrid", **{
        **MAMBA, "num_local_experts": 5, "num_experts_per_tok": 3, "mamba_d_head": 16, "mamba_n_groups": 4,
        "mamba_d_conv": 7}, position_embedding_type="rope", tie_word_embeddings=True, **GRANITES),
    "granitemoehybrid-mamba-one-head": case("granitemoehybrid", **{
        **MAMBA, "mamba_n_heads": 1, "mamba_expand": 1, "mamba_d_conv": 1, "mamba_d_state": 130}, num_key_value_heads=1,
        attention_bias=True, rms_norm_eps=1e-3),
    "granitemoehybrid-experts": case("granitemoehybrid", num_local_experts=6, num_experts_per_tok=6,
                                     position_embedding_type="rope", layer_types=["attention"] * 4),
    "granitemoe-plain": case("granitemoe"),
    "granitemoe-multipliers": case("granitemoe", num_experts_per_tok=1, attention_bias=True, num_key_value_heads=None,
                                   tie_word_embeddings=True, num_hidden_layers=3, **GRANITES),
    "granitemoeshared-plain": case("granitemoeshared"),
    "granitemoeshared-none-shared": case("granitemoeshared", shared_intermediate_size=0, num_experts_per_tok=5,
                                         intermediate_size=20, **GRANITES),
})
CASES.update({
    "nemotron_h-plain": case("nemotron_h"),
    "nemotron_h-pattern": case("nemotron_h", num_hidden_layers=9, hybrid_override_pattern="M-MM*-M-M", n_groups=4,
                               conv_kernel=3, use_conv_bias=False, mlp_bias=True, num_key_value_heads=1,
                               layer_norm_epsilon=1e-3),
    "nemotron_h-experts": case("nemotron_h", num_hidden_layers=..., layers_block_type=[
        "mamba", "moe", "attention", "moe", "mamba", "mamba", "mlp", "attention"], n_group=3, topk_group=2,
        num_experts_per_tok=3, routed_scaling_factor=2.5, norm_topk_prob=False, n_groups=1, mamba_head_dim=16),
    "nemotron_h-older-names": case("nemotron_h", num_hidden_layers=..., n_groups=..., mamba_n_groups=1, mamba_d_conv=2,
                                   mamba_conv_bias=False, tie_word_embeddings=True, layers_block_type=[
                                       "full_attention", "mlp", "linear_attention", "moe"]),
})
# transformers takes the short factors at every length; here, as in the model's own code, the long ones beyond the original
# context. So the cases go beyond it with equal factors alone.
SAME = rope("longrope", short_factor=LONG["long_factor"], long_factor=LONG["long_factor"])
CASES.update({
    "phimoe-plain": case("phimoe", lm_head_bias=True, attention_bias=True),
    "phimoe-longrope-within": case("phimoe", rope_scaling={**LONG, "short_mscale": 1.2, "long_mscale": 1.3,
                                                           "original_max_position_embeddings": 256},
                                   rope_theta=3000.0, num_local_experts=2, num_key_value_heads=1),
    "phimoe-longrope-beyond": case("phimoe", rope_scaling={**SAME, "short_mscale": 1.4, "long_mscale": 0.8,
                                                           "original_max_position_embeddings": 120},
                                   original_max_position_embeddings=TWICE, head_dim=8, num_experts_per_tok=5,
                                   router_jitter_noise=0.4, lm_head_bias=True, tie_word_embeddings=True),
    "phimoe-window": case("phimoe", sliding_window=20, router_jitter_noise=0.0, num_key_value_heads=2,
                          num_attention_heads=2, num_local_experts=9),
})
FALCONS = dict(lm_head_multiplier=0.3, embedding_multiplier=2.5, mlp_multipliers=[0.6, 1.7], key_multiplier=0.4,
               attention_out_multiplier=0.8, attention_in_multiplier=1.5, ssm_multipliers=[0.7, 1.3, 0.5, 1.6, 1.2],
               ssm_in_multiplier=1.25, ssm_out_multiplier=0.6)
CASES.update({
    "llama4_text-plain": case("llama4_text"),
    "llama4_text-listed": case("llama4_text", num_hidden_layers=5, no_rope_layers=[1, 0, 1, 1, 0], moe_layers=[1, 4],
                               num_experts_per_tok=3, attn_scale=0.4, attention_bias=True, num_key_value_heads=1,
                               rope_parameters={**LLAMA3, "rope_theta": 5000.0}),
    "llama4_text-no-chunks": case("llama4_text", attention_chunk_size=None, use_qk_norm=False, no_rope_layer_interval=2,
                                  interleave_moe_layer_step=2, attn_temperature_tuning=False, tie_word_embeddings=True),
    "llama4_text-layer-types": case("llama4_text", layer_types=["full_attention", "chunked_attention"] * 2,
                                    no_rope_layers=[], head_dim=16, num_experts_per_tok=6, rms_norm_eps=1e-3),
    "falcon_h1-plain": case("falcon_h1", **FALCONS),
    "falcon_h1-norm-first": case("falcon_h1", mamba_rms_norm=True, mamba_norm_before_gate=True, mamba_conv_bias=False,
                                 mamba_d_conv=2, mlp_bias=True, attention_bias=True, **{
                                     **FALCONS, "attention_in_multiplier": 1.0}),
    "falcon_h1-gate-first": case("falcon_h1", mamba_rms_norm=True, mamba_norm_before_gate=False, mamba_d_ssm=None,
                                 mamba_n_groups=1, mamba_n_heads=8, head_dim=16, num_key_value_heads=1,
                                 rope_theta=1e11, tie_word_embeddings=True, num_hidden_layers=3),
})
# More models of images or sound around a text model that is a family here. Where the outer config is silent, its class
# says whether the head is tied.
VISION.update({
    "small": dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14),
    "got_ocr2": dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, output_channels=8, image_size=64, patch_size=16,
                     mlp_dim=16, window_size=2, global_attn_indexes=[0])})
VISION["siglip"] = {**VISION["small"], "model_type": "siglip_vision_model"}
VISION["clip"] = {**VISION["small"], "model_type": "clip_vision_model", "num_hidden_layers": 2}
VISION["ovis2"] = {**VISION["small"], "num_visual_indicator_tokens": 2, "vocab_size": 20}
VISION["siglip2"] = {k: v for k, v in {**VISION["small"], "model_type": "siglip2_vision_model", "num_patches": 16}.items()
                     if k != "image_size"}
RESAMPLER = dict(resampler_n_latents=4, resampler_depth=1, resampler_n_heads=2, resampler_head_dim=8, num_key_value_heads=1)


def around(outer, family, vision, tied, more=None, **changes):
    """A model around the family's; tied None: its config is silent."""
    text = {**TEXT, "model_type": family, **FAMILIES[family], **changes}
    part = {"vision_config": VISION[vision]} if vision else {"audio_config": dict(
        d_model=16, encoder_layers=1, encoder_attention_heads=2, encoder_ffn_dim=16, num_mel_bins=8)}
    said = {} if tied is None else {"tie_word_embeddings": tied}
    CASES[f"{outer}-{family}" + ("-silent" if tied is None else "")] = {
        "model_type": outer, **part, "text_config": text, **(more or {}), **said}


around("aya_vision", "cohere2", "siglip", None, dict(adapter_layer_norm_eps=1e-6, image_token_index=1))
around("cohere2_vision", "cohere2", "siglip", False, dict(alignment_intermediate_size=16, image_token_id=1))
around("lfm2_vl", "lfm2", "siglip2", None, dict(image_token_id=1))
around("lfm2_vl", "lfm2", "siglip2", False, dict(image_token_id=1), conv_L_cache=2)
around("llava_onevision", "qwen2", "siglip", None, dict(image_token_index=1, video_token_index=2))
around("llava_next", "mistral", "clip", False, dict(image_token_index=1), sliding_window=None)
around("llava_next_video", "llama", "clip", None, dict(image_token_index=1, video_token_index=2))
around("vipllava", "llama", "clip", None, dict(image_token_index=1, vision_feature_layers=[0, 1]))
around("video_llava", "llama", "clip", False, dict(image_token_index=1, video_token_index=2))
around("video_llama_3", "qwen2", "small", None, dict(image_token_id=1, video_token_id=2))
around("ovis2", "qwen2", "ovis2", None, dict(image_token_id=1, hidden_size=32, vocab_size=272,
                                             visual_indicator_token_ids=[3, 4]))
around("got_ocr2", "qwen2", "got_ocr2", None, dict(image_token_index=1))
around("lighton_ocr", "qwen3", "small", None, dict(image_token_id=1))
CASES["lighton_ocr-qwen3-silent"]["vision_config"] = {**VISION["small"], "model_type": "pixtral"}
around("deepseek_vl", "llama", "siglip", None, dict(image_token_id=1))
around("idefics2", "mistral", "small", False, dict(image_token_id=1, perceiver_config=RESAMPLER))
around("idefics3", "llama", "small", None, dict(image_token_id=1, scale_factor=2))
around("smolvlm", "llama", "small", True, dict(image_token_id=1, scale_factor=2))
around("internvl", "qwen3", "small", None, dict(image_token_id=1))
CASES["internvl-qwen3-silent"]["vision_config"] = {**VISION["small"], "image_size": [28, 28], "patch_size": [14, 14]}
around("minicpmv4_6", "qwen3_5_text", "small", None, dict(image_token_id=1))
CASES["minicpmv4_6-qwen3_5_text-silent"]["vision_config"] = {**VISION["small"], "num_hidden_layers": 2}
around("kimi_k25", "deepseek_v3", "small", False, dict(image_token_id=golden.END, projection_hidden_size=16))
CASES["kimi_k25-deepseek_v3"]["vision_config"] = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                                                      pos_emb_height=4, pos_emb_width=4)
CASES["kimi_k25-kimi_k2"] = {**CASES["kimi_k25-deepseek_v3"], "text_config": {
    **CASES["kimi_k25-deepseek_v3"]["text_config"], "model_type": "kimi_k2"}}
SOUND = dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_mel_bins=8)
CASES["voxtral-llama"] = {"model_type": "voxtral", "audio_config": {**SOUND, "model_type": "voxtral_encoder"},
                          "text_config": {**TEXT, "model_type": "llama", "num_attention_heads": 8, "rms_norm_eps": 1e-3},
                          "audio_token_id": 1}
CASES["voxtral-llama-silent"] = {**CASES["voxtral-llama"], "text_config": {
    k: v for k, v in TEXT.items() if k not in ("num_key_value_heads", "max_position_embeddings")} | {
        "model_type": "llama", "num_attention_heads": 16}}
around("qwen2_audio", "qwen2", None, False, dict(audio_token_index=1))
around("mistral3", "ministral3", "small", None, dict(image_token_index=1))
CASES["mistral3-ministral3-silent"]["vision_config"] = {**VISION["small"], "model_type": "pixtral", "head_dim": 8}
TURNS = {**LONG, "original_max_position_embeddings": 64}
CASES.update({
    "smollm3-listed-kinds-unopted": case("smollm3", sliding_window=13, layer_types=SLIDES, no_rope_layers=[0, 1, 0, 1]),
    "cohere2-head-dim": case("cohere2", head_dim=10, hidden_size=64, num_key_value_heads=1),
    "stablelm-parallel": case("stablelm", use_parallel_residual=True, use_qkv_bias=True, num_key_value_heads=1),
    "stablelm-head-norms": case("stablelm", qk_layernorm=True, num_attention_heads=6, num_key_value_heads=3, hidden_size=48),
    "stablelm-head-norms-parallel": case("stablelm", qk_layernorm=True, use_parallel_residual=True, use_qkv_bias=True,
                                         num_key_value_heads=1, partial_rotary_factor=0.5, tie_word_embeddings=True),
    "stablelm-head-norms-one-head": case("stablelm", qk_layernorm=True, num_attention_heads=1, num_key_value_heads=1,
                                         hidden_size=24, layer_norm_eps=1e-3),
    "cohere-plain": case("cohere", logit_scale=..., tie_word_embeddings=...),
    "cohere-head-norms": case("cohere", use_qk_norm=True, logit_scale=0.5, attention_bias=True, num_attention_heads=6,
                              num_key_value_heads=2, hidden_size=48, rope_theta=5000.0),
    "cohere-head-norms-scaled": case("cohere", use_qk_norm=True, num_key_value_heads=1, layer_norm_eps=1e-3,
                                     rope_parameters={**YARN, "rope_theta": 2000.0}, tie_word_embeddings=True),
    "llama-gelu-by-other-name": case("llama", hidden_act="gelu_fast"),
    "olmo2-gelu-by-other-name": case("olmo2", hidden_act="gelu_accurate"),
    "llama-gelu-exact": case("llama", hidden_act="gelu", mlp_bias=True),
    "mixtral-gelu-exact": case("mixtral", hidden_act="gelu_python"),
    "gemma2-gelu-exact": case("gemma2", hidden_activation="gelu"),
    "phi3-gelu-quick": case("phi3", hidden_act="quick_gelu"),
    "mistral-relu": case("mistral", hidden_act="relu"),
    "glm4_moe-relu2": case("glm4_moe", hidden_act="relu2"),
    "arcee-gelu-exact": case("arcee", hidden_act="gelu", mlp_bias=True),
    "lfm2-activation-unread": case("lfm2", hidden_act="gelu"),
    "gpt_oss-activation-unread": case("gpt_oss", hidden_act="gelu"),
    "nemotron_h-silu": case("nemotron_h", mlp_hidden_act="silu"),
    "glm4_moe_lite-head-dim": case("glm4_moe_lite", qk_rope_head_dim=4, head_dim=8),
    "olmo3-two-longropes": case("olmo3", rope_parameters=by_kind(TURNS, {**TURNS, "long_factor": [1.0, 1.5, 3.0, 5.0]})),
    "gemma3_text-two-longropes": case("gemma3_text", rope_parameters=by_kind(TURNS, {**TURNS, "rope_theta": 500.0})),
})
for name in LATER[1:-1]:
    CASES[f"{name}-plain"] = case(name, num_hidden_layers=5)
THREE_HEADS = dict(num_attention_heads=3, num_key_value_heads=1, num_hidden_layers=3, hidden_size=24)
CASES.update({
    "iquestcoder-scaled": case("iquestcoder", **THREE_HEADS, attention_bias=True, mlp_bias=True, rope_scaling=YARN),
    "iquestcoder-defaults": case("iquestcoder", head_dim=..., num_key_value_heads=..., num_attention_heads=8, rms_norm_eps=1e-3),
    "internlm3-scaled": case("internlm3", **THREE_HEADS, attention_bias=True, mlp_bias=True, rope_scaling=DYNAMIC),
    "internlm3-tied": case("internlm3", num_key_value_heads=..., head_dim=16, tie_word_embeddings=True, rope_theta=700.0),
    "cwm-listed": case("cwm", **THREE_HEADS, layer_types=SLIDES[:3], rope_parameters=rope("default", rope_theta=3000.0)),
    "cwm-defaults": case("cwm", sliding_window=9, num_hidden_layers=9, mlp_bias=True, num_key_value_heads=4, head_dim=16),
    "jais2-no-biases": case("jais2", attention_bias=False, mlp_bias=False, layer_norm_eps=1e-3, tie_word_embeddings=True),
    "jais2-wide": case("jais2", head_dim=20, **THREE_HEADS, rope_parameters={**LLAMA3, "rope_theta": 900.0}, mlp_bias=False),
    "nemotron-wide": case("nemotron", head_dim=12, **THREE_HEADS, attention_bias=True, mlp_bias=True, norm_eps=1e-3),
    "nemotron-whole": case("nemotron", partial_rotary_factor=1.0, tie_word_embeddings=True, num_key_value_heads=4,
                           hidden_act="gelu"),
    "starcoder2-window": case("starcoder2", sliding_window=13, use_bias=False, num_key_value_heads=1, norm_epsilon=1e-3),
    "starcoder2-tied": case("starcoder2", tie_word_embeddings=..., hidden_act="gelu", rope_theta=500.0, intermediate_size=20),
    "helium-tied": case("helium", tie_word_embeddings=True, num_key_value_heads=1, rope_scaling=LINEAR, rms_norm_eps=1e-3),
    "helium-biases": case("helium", attention_bias=True, mlp_bias=True, num_key_value_heads=4, rope_theta=500.0),
    "gemma-old-name": case("gemma", hidden_act="gelu", head_dim=12, num_key_value_heads=1, tie_word_embeddings=True),
    "gemma-biases": case("gemma", attention_bias=True, **THREE_HEADS, rope_scaling=YARN, hidden_activation=None),
    "vaultgemma-caps": case("vaultgemma", attn_logit_softcapping=1.5, final_logit_softcapping=4.0, **THREE_HEADS,
                            tie_word_embeddings=True, query_pre_attn_scalar=20),
    "vaultgemma-all-full": case("vaultgemma", layer_types=FULL, attn_logit_softcapping=None, attention_bias=True),
    "hyperclovax-multipliers": case("hyperclovax", **{**GRANITES, "logits_scaling": 0.4}, num_key_value_heads=1),
    "hyperclovax-wide": case("hyperclovax", head_dim=12, attention_bias=True, mlp_bias=True, embedding_multiplier=2.0,
                             tie_word_embeddings=True, rope_scaling=LINEAR),
    "granite_swa-bases": case("granite_swa", **GRANITES, num_hidden_layers=6, layer_rope_theta=[0, 700.0, 700.0, 700, 0, 700]),
    "granite_swa-two-bases": case("granite_swa", layer_types=SLIDES, layer_rope_theta=[300.0, 5000.0, 300.0, 5000.0],
                                  attention_multiplier=0.3, rope_scaling=YARN, num_key_value_heads=1, attention_bias=True,
                                  mlp_bias=True, tie_word_embeddings=True),
    "granite_swa-unlisted": case("granite_swa", rope_theta=300.0, sliding_window=9, attention_multiplier=0.3),
    "hunyuan_v1_moe-lists": case("hunyuan_v1_moe", num_experts=5, moe_topk=[3] * 4, attention_bias=True,
                                 rope_parameters=rope("dynamic", alpha=1000.0, factor=1.0, rope_theta=5000.0)),
    "hunyuan_v1_moe-one": case("hunyuan_v1_moe", num_experts=3, moe_topk=1, **THREE_HEADS, tie_word_embeddings=True),
    "mellum-kinds": case("mellum", layer_types=SLIDES, mlp_layer_types=["dense", "sparse", "sparse", "dense"],
                         norm_topk_prob=False, num_key_value_heads=1, attention_bias=True),
    "mellum-scaling-beside-parameters": case("mellum", layer_types=SLIDES, rope_parameters=by_kind(
        rope("default", rope_theta=500.0), rope("default", rope_theta=9000.0)), rope_scaling=by_kind(
        rope("linear", factor=3.0, rope_theta=700.0), rope("default", rope_theta=300.0))),
    "mellum-scaling-alone": case("mellum", layer_types=SLIDES, rope_scaling=by_kind(
        rope("linear", factor=3.0, rope_theta=700.0), rope("default", rope_theta=300.0))),
    "gemma4_text-scaling-beside-parameters": case("gemma4_text", layer_types=SLIDES, rope_parameters=by_kind(
        rope("default", rope_theta=500.0), rope("default", rope_theta=9000.0)), rope_scaling=by_kind(
        rope("default", rope_theta=700.0), rope("default", rope_theta=300.0))),
    "mellum-scaled": case("mellum", layer_types=SLIDES, head_dim=16, num_experts_per_tok=5, rope_parameters=by_kind(
        {**YARN, "rope_theta": 3000.0}, rope("default", rope_theta=300.0)), tie_word_embeddings=True),
    "exaone_moe-listed": case("exaone_moe", layer_types=SLIDES, mlp_layer_types=["sparse", "dense", "sparse", "sparse"],
                              n_group=2, topk_group=1, num_shared_experts=2, routed_scaling_factor=1.5, num_key_value_heads=1),
    "exaone_moe-all-full": case("exaone_moe", layer_types=FULL, first_k_dense_replace=2,
                                norm_topk_prob=False, head_dim=12, rope_scaling=YARN, tie_word_embeddings=True),
    "afmoe-scaled": case("afmoe", mup_enabled=True, route_scale=1.7, num_shared_experts=1, num_dense_layers=2, **THREE_HEADS),
    "afmoe-listed": case("afmoe", layer_types=SLIDES, num_dense_layers=0, head_dim=12, num_experts_per_tok=5,
                         num_key_value_heads=..., rope_scaling=LINEAR, tie_word_embeddings=True),
    "granitemoe_swa-shared": case("granitemoe_swa", **GRANITES, shared_intermediate_size=20, num_experts_per_tok=3,
                                  layer_types=SLIDES, layer_rope_theta=[300.0, 0, 300.0, 0], attention_bias=True),
    "granitemoe_swa-bases": case("granitemoe_swa", num_experts_per_tok=1, attention_multiplier=0.3, num_key_value_heads=1,
                                 num_hidden_layers=5, layer_rope_theta=[0, 700.0, 700.0, 700.0, 0], tie_word_embeddings=True),
    "hy_v3-listed": case("hy_v3", mlp_layer_types=["sparse", "dense", "dense", "sparse"], num_shared_experts=2,
                         router_scaling_factor=1.4, num_key_value_heads=1, rope_theta=500.0, tie_word_embeddings=True),
    "hy_v3-scaled": case("hy_v3", **THREE_HEADS, attention_bias=True, num_experts_per_tok=5, rope_parameters={
        **YARN, "rope_theta": 3000.0}),
    "gemma4_unified-text": case("gemma4_unified_text", num_hidden_layers=7, tie_word_embeddings=True),
    "gemma4_unified-keys-as-values": case("gemma4_unified_text", attention_k_eq_v=True, num_global_key_value_heads=1,
                                          layer_types=SLIDES, attention_bias=True, final_logit_softcapping=5.0),
    "gemma4_unified-shared": case("gemma4_unified_text", num_hidden_layers=8, num_kv_shared_layers=5, use_double_wide_mlp=True,
                                  layer_types=SLIDES * 2, num_key_value_heads=1, global_head_dim=32),
    "youtu-no-query-map": case("youtu", q_lora_rank=None, rope_interleave=False, attention_bias=True, v_head_dim=12,
                               tie_word_embeddings=...),
    "youtu-scaled": case("youtu", num_attention_heads=3, num_key_value_heads=3, qk_rope_head_dim=6, rope_parameters={
        **YARN, "mscale": 1.0, "mscale_all_dim": 1.0}),
})
GLM4V = dict(depth=1, hidden_size=16, intermediate_size=16, num_heads=2, out_hidden_size=32, image_size=28, patch_size=14)
for name, text, more in (
        ("plain", "glm4v_text", {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1]}}), ("rotary", "glm4v_text", {"rms_norm_eps": 1e-3, "num_key_value_heads": 1, "rope_parameters": {
            "rope_type": "default", "partial_rotary_factor": 0.5, "mrope_section": [1, 1, 0]}}),
        ("old-rotary", "glm4v_text", {"partial_rotary_factor": 0.5, "rope_scaling": {"type": "default", "mrope_section": [1, 1, 0]}}),
        ("plain", "glm_ocr_text", {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1]}}),
        ("wide", "glm_ocr_text", {"head_dim": 16, "num_attention_heads": 3, "num_key_value_heads": 1, "hidden_size": 36, "rope_theta": 700.0,
                                  "rope_scaling": {"type": "default", "mrope_section": [2, 3, 3]}}),
        ("plain", "glm4v_moe_text", {"rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 0]}, "n_routed_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 16}),
        ("groups", "glm4v_moe_text", {"rope_parameters": {"rope_type": "default", "partial_rotary_factor": 0.25, "mrope_section": [1, 0, 0]}, "n_routed_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 12, "n_group": 2,
                                      "topk_group": 1, "attention_bias": False, "n_shared_experts": 2, "routed_scaling_factor": 2.0})):
    outer = text.removesuffix("_text")
    CASES[f"{outer}-{name}"] = {"model_type": outer, **TOKENS, "vision_config": GLM4V, "tie_word_embeddings": name == "wide",
                               "text_config": {**TEXT, "model_type": text, **more}}
CASES["gemma4_unified-images"] = {
    "model_type": "gemma4_unified", "vision_config": dict(patch_size=2, pooling_kernel_size=2, mm_embed_dim=16, mm_posemb_size=16),
    "image_token_id": golden.END, "video_token_id": golden.END, "audio_token_id": golden.END, "audio_config": None, "tie_word_embeddings": True,
    "text_config": {**TEXT, **FAMILIES["gemma4_unified_text"], "model_type": "gemma4_unified_text", "num_hidden_layers": 6}}
CASES["glm46v-plain"] = {**CASES["glm4v-plain"], "model_type": "glm46v", "vision_config": {**GLM4V, "model_type": "glm4v_vision"}}
for name in ("llama", "mistral", "seed_oss"):
    CASES[f"{name}-head-dim-null"] = case(name, head_dim=None)
for name in ("phi3", "granite", "smollm3", "olmo2", "olmo3", "qwen2", "qwen3", "seed_oss"):
    CASES[f"{name}-kv-heads-null"] = case(name, num_key_value_heads=None)


# ---- random ones --------------------------------------------------------------------------------------------------


def drawn(n, seed, families=None, sizes=False):
    """n random configs of each family: {name: config}. With sizes, those of its own parts are drawn, too."""
    out = {}
    for family in families or FAMILIES:
        for i in range(n):
            place = [seed, i, sum(family.encode())]
            config = random_case(family, numpy.random.default_rng(place))
            if sizes:
                draw_sizes(config, numpy.random.default_rng([*place, 1]))
            out[f"{family}-{seed}-{i}"] = config
    return out


# Sizes of one family's parts, or of those of a few, and switches of their routers and recurrences.
SIZES = {"linear_key_head_dim": (4, 8, 20), "linear_value_head_dim": (4, 12, 16), "linear_conv_kernel_dim": (2, 3, 4),
         "full_attention_interval": (2, 3), "mamba_d_state": (6, 10, 16), "mamba_d_conv": (2, 3, 4), "mamba_n_groups": (1, 2),
         "ssm_state_size": (6, 10, 16), "n_groups": (1, 2), "conv_kernel": (2, 3, 4), "conv_L_cache": (2, 3, 4),
         "mamba_head_dim": (8, 12), "kv_lora_rank": (8, 12, 20), "q_lora_rank": (6, 10, None), "qk_nope_head_dim": (4, 6, 10),
         "qk_rope_head_dim": (2, 4, 8), "v_head_dim": (4, 8, 12), "moe_intermediate_size": (12, 16, 24),
         "shared_expert_intermediate_size": (12, 24, 40), "moe_shared_expert_intermediate_size": (12, 28),
         "shared_intermediate_size": (12, 20, 40), "n_shared_experts": (1, 2, 3), "num_experts": (4, 6, 7),
         "num_local_experts": (4, 5, 6), "n_routed_experts": (6, 8), "moe_num_experts": (4, 6), "num_experts_per_tok": (1, 2, 3),
         "moe_k": (1, 2, 3), "moe_topk": (1, 2), "hidden_size_per_layer_input": (4, 6, 12), "laurel_rank": (2, 6, 10),
         "global_head_dim": (8, 16, 24), "attention_chunk_size": (7, 24, 50), "floor_scale": (8, 16), "intermediate_size_mlp": (24, 40),
         "block_multiple_of": (4, 8)}
# Switches and factors that only these families read.
SWITCHES = {"routed_scaling_factor": ((1.0, 1.7), ("deepseek_v2", "deepseek_v3", "glm4_moe", "glm4_moe_lite", "mistral4", "dots1",
                                                   "nemotron_h", "exaone_moe", "solar_open")),
            "first_k_dense_replace": ((0, 1, 2), ("deepseek_v2", "deepseek_v3", "glm4_moe", "dots1", "exaone_moe")),
            "num_dense_layers": ((0, 1, 2), ("lfm2_moe", "afmoe")),
            "use_expert_bias": ((True, False), ("lfm2_moe",)),
            "moe_layer_start_index": ((0, 1), ("ernie4_5_moe",)),
            "moe_num_shared_experts": ((0, 1, 2), ("ernie4_5_moe",)),
            "interleave_moe_layer_step": ((1, 2), ("llama4_text",)),
            "use_qk_norm": ((True, False), ("llama4_text", "glm4_moe")),
            "attn_temperature_tuning": ((True, False), ("llama4_text",)),
            "conv_bias": ((True, False), ("lfm2", "lfm2_moe")),
            "mamba_rms_norm": ((True, False), ("falcon_h1",)),
            "mamba_norm_before_gate": ((True, False), ("falcon_h1",)),
            "mamba_conv_bias": ((True, False), ("falcon_h1", "granitemoehybrid")),
            "mamba_proj_bias": ((True, False), ("falcon_h1",)),
            "projectors_bias": ((True, False), ("falcon_h1",)),
            "use_conv_bias": ((True, False), ("nemotron_h",)),
            "attention_k_eq_v": ((True, False), ("gemma4_text", "gemma4_unified_text")),
            "num_kv_shared_layers": ((0, 1, 2), ("gemma4_text",)),
            "use_double_wide_mlp": ((True, False), ("gemma4_text",)),
            "num_global_key_value_heads": ((1, 2, None), ("gemma4_text", "gemma4_unified_text"))}


def draw_sizes(config, r):
    for field, values in SIZES.items():
        if config.get(field) is not None and r.random() < 0.5:
            config[field] = pick(r, *values)
    for field, (values, families) in SWITCHES.items():
        if config["model_type"] in families and r.random() < 0.4:
            config[field] = pick(r, *values)
    if config.get("linear_num_key_heads"):
        keys = pick(r, 1, 2, 3)
        config.update(linear_num_key_heads=keys, linear_num_value_heads=keys * pick(r, 1, 2, 3))
    if config["model_type"] == "gemma4_text" and r.random() < 0.3:
        config.update(enable_moe_block=True, num_experts=pick(r, 4, 6), top_k_experts=pick(r, 1, 2, 3), moe_intermediate_size=16)
    if config["model_type"] == "granitemoehybrid" and r.random() < 0.7:
        kinds = [pick(r, "mamba", "attention") for _ in range(config["num_hidden_layers"])]
        heads = pick(r, 2, 4)
        config.update(layer_types=["mamba", *kinds[1:-1], "attention"], num_local_experts=pick(r, 0, 4), num_experts_per_tok=2,
                      mamba_n_heads=heads, mamba_d_head=2 * config["hidden_size"] // heads, mamba_d_state=pick(r, 6, 16),
                      mamba_n_groups=pick(r, 1, 2), mamba_d_conv=pick(r, 2, 4))


# Fields that change the arithmetic where they are read, and that are refused elsewhere.
OWN = {"embedding_multiplier": ("granite", "granitemoehybrid"), "residual_multiplier": ("granite", "granitemoehybrid"),
       "logits_scaling": ("granite", "granitemoehybrid"), "attention_multiplier": ("granite", "granitemoehybrid"),
       "logit_scale": (), "partial_rotary_factor": ("phi3", "glm4", "stablelm"), "hidden_act": ("llama", "qwen2"),
       "no_rope_layer_interval": ("smollm3",)}
# Families of blocks of other kinds than those of attention, and families that always have two rotations.
OTHER_KINDS = ("lfm2", "lfm2_moe", "qwen3_5_text", "qwen3_5_moe_text", "qwen3_next", "nemotron_h", "falcon_h1", "llama4_text")
KINDS_APART = ("mellum", "gemma4_text", "gemma4_unified_text", "gemma3n_text")
NULL_HEAD_DIM = ("llama", "mistral", "seed_oss")
NULL_KV_HEADS = ("llama", "phi3", "granite", "granitemoehybrid", "smollm3", "olmo2", "olmo3", "qwen2", "qwen3", "seed_oss")


def pick(r, *choices):
    return choices[r.integers(len(choices))]


def random_rope(r, dim):
    kind = pick(r, "default", "linear", "dynamic", "llama3", "yarn", "longrope")
    out = {pick(r, "rope_type", "rope_type", "type"): kind}
    if kind != "default":
        out["factor"] = pick(r, 2.0, 4.0, 8)
    if kind in ("yarn", "llama3", "longrope") and r.random() < 0.7:
        out["original_max_position_embeddings"] = pick(r, 32, 64, 100)
    if kind == "llama3":
        out.update(low_freq_factor=1.0, high_freq_factor=pick(r, 4.0, 2.0))
    if kind == "yarn":
        for field, values in {"beta_fast": (32.0, 16, None), "beta_slow": (1.0, 2), "mscale": (1.0, 0.7),
                              "mscale_all_dim": (1.0, 0.4, 0), "attention_factor": (1.3, None),
                              "truncate": (True, False)}.items():
            if r.random() < 0.3:
                out[field] = pick(r, *values)
    if kind == "longrope":
        out.update(short_factor=[round(1 + 0.1 * i, 2) for i in range(dim // 2)],
                   long_factor=[round(1 + 1.3 * i, 2) for i in range(dim // 2)])
        if r.random() < 0.5:
            del out["factor"]
    if r.random() < 0.6:
        out["rope_theta"] = pick(r, 500.0, 10000.0, 1000000)
    return out


def random_case(family, r):
    heads, kv = pick(r, (4, 2), (4, 1), (2, 2), (6, 3), (4, 4), (3, 1))
    dim = pick(r, 8, 8, 16, 12)
    blocks = pick(r, 3, 4, 5, 8)
    c = case(family)
    c.update(num_attention_heads=heads, num_key_value_heads=kv, num_hidden_layers=blocks, hidden_size=heads * dim,
             max_position_embeddings=pick(r, 100, 256, 1024), tie_word_embeddings=bool(r.random() < 0.4))
    if "head_dim" in c or r.random() < 0.3:
        c["head_dim"] = pick(r, 8, 16, *([None] if family in NULL_HEAD_DIM else []))
    if "kv_lora_rank" in c:  # each head has keys and values of its own
        c["num_key_value_heads"] = heads
        c.pop("head_dim", None)
    head = c.get("head_dim") or dim
    if kv == heads and family in NULL_KV_HEADS and r.random() < 0.5:
        c["num_key_value_heads"] = None
    if family == "granitemoehybrid":
        c["layer_types"] = ["attention"] * blocks
        c["position_embedding_type"] = pick(r, "rope", None, "nope")
    # fields that most families know and some do not read
    for field, values in {
            "attention_bias": (True, False), "mlp_bias": (True, False), "attention_out_bias": (True, False),
            "use_qkv_bias": (True, False), "qkv_bias": (True,), "rms_norm_eps": (1e-5, 1e-3), "layer_norm_eps": (1e-3,),
            "norm_topk_prob": (True, False), "decoder_sparse_step": (1, 2), "mlp_only_layers": ([], [1]),
            "embedding_multiplier": (3.0,), "residual_multiplier": (0.6,), "logits_scaling": (4.0,),
            "attention_multiplier": (0.3,), "query_pre_attn_scalar": (8, 20), "attn_logit_softcapping": (None, 2.0),
            "final_logit_softcapping": (None, 3.0), "no_rope_layer_interval": (3,), "max_window_layers": (0, 2, 99),
            "use_sliding_window": (True, False), "sliding_window": (None, 13, 40), "swiglu_limit": (7.0,),
            "sliding_window_pattern": (2, 3), "hidden_act": ("silu", "gelu_pytorch_tanh", "gelu"),
            "hidden_activation": ("gelu_pytorch_tanh", "silu", None), "logit_scale": (0.5,), "qk_layernorm": (False,),
            "use_bidirectional_attention": (False,), "cache_implementation": ("hybrid",),
            "original_max_position_embeddings": (24, 80), "partial_rotary_factor": (0.5, 0.75, 1.0),
            "rope_theta": (2000.0, 1e6), "rope_local_base_freq": (777.0,)}.items():
        if r.random() < 0.25 and (field not in OWN or family in OWN[field]):
            c[field] = pick(r, *values)
    if family in OTHER_KINDS and "layer_types" in c:
        c["layer_types"] = [*c["layer_types"], *c["layer_types"]][:blocks]
    if r.random() < 0.35 and family not in OTHER_KINDS:
        c["layer_types"] = [pick(r, "sliding_attention", "full_attention") for _ in range(blocks)]
        if r.random() < 0.2:
            c["layer_types"] = ["full_attention"] * blocks
    if family == "granitemoehybrid":
        c["layer_types"] = ["attention"] * blocks
    if family == "smollm3" and r.random() < 0.5:
        c["no_rope_layers"] = [int(r.random() < 0.6) for _ in range(blocks)]
    if "kv_lora_rank" in c:
        head = c["qk_rope_head_dim"]
    rotary = int(head * c.get("partial_rotary_factor", {"glm4": 0.5, "stablelm": 0.25}.get(family, 1.0)))
    for field in ("rope_parameters", "rope_scaling"):
        draw = r.random()
        if draw < 0.35 and family not in KINDS_APART:
            c[field] = random_rope(r, rotary)
        elif draw < 0.5 and family in ("gemma3_text", "olmo3", *KINDS_APART):
            c[field] = {"full_attention": random_rope(r, rotary), "sliding_attention": random_rope(r, rotary)}
        elif draw < 0.55:
            c[field] = pick(r, None, {})
    return c
