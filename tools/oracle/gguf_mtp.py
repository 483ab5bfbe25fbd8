#!/usr/bin/env python3
"""Adds tiny GGUF models with an MTP layer to tests/core/golden/mtp, judged by llama.cpp (the xllamacpp wheel) on the same file.

llama.cpp drafts one token with the layer after a text's first tokens, and says whether the model accepts it. So at each
of some positions it is known whether the layer's first choice is the model's. Blocks add little in these models, and the
layer looks at the token more than at the state, so that it is right at about half of the positions.
"""
import json

import numpy
import torch
import xllamacpp
from transformers import AutoModelForCausalLM

import gguf_models
import golden

OUT = gguf_models.OUT / "mtp"
FAMILIES = ("qwen3_5_text", "qwen3_5_moe_text", "qwen3_next", "glm4_moe_lite", "deepseek_v3", "glm4_moe")
PROMPT, ASKED = 12, 40


def open_server(path, drafts):
    parameters = xllamacpp.CommonParams()
    parameters.model.path, parameters.n_ctx, parameters.cpuparams.n_threads = str(path), 256, 2
    parameters.cache_type_k = parameters.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    parameters.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
    if drafts:
        parameters.load_mtp = True
        parameters.speculative.types = [xllamacpp.common_speculative_type.COMMON_SPECULATIVE_TYPE_DRAFT_MTP]
        draft = parameters.speculative.draft
        draft.n_max, draft.n_min, draft.p_min = 1, 1, 0.0
        draft.cache_type_k = draft.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
    return xllamacpp.Server(parameters)


def tensors_with_layer(model, config, seed):
    """The model's tensors, its blocks quieter, and those of a layer behind them."""
    generator = numpy.random.default_rng(seed)
    out = gguf_models.tensors_of(model, config)
    for name in out:
        if name.endswith(("attn_output.weight", "ssm_out.weight", "ffn_down.weight", "ffn_down_exps.weight", "ffn_down_shexp.weight")):
            out[name] = (out[name] * 0.25).astype("<f2").astype("<f4")
    blocks = [int(n.split(".")[1]) for n in out if n.endswith(("attn_k.weight", "attn_kv_a_mqa.weight"))]
    own = blocks[-1] if hasattr(config, "n_routed_experts") else blocks[0]  # the first blocks of those may have no experts
    block, dim = f"blk.{config.num_hidden_layers}", config.hidden_size

    def drawn(shape, scale, mean=0.0):
        return (mean + scale * generator.standard_normal(shape)).astype("<f2").astype("<f4")

    for name in [n for n in out if n.startswith(f"blk.{own}.")]:
        array = out[name]
        out[name.replace(f"blk.{own}", block)] = drawn(array.shape, 0.1, 1.0) if "norm" in name else drawn(array.shape, array.std())
    join = numpy.concatenate([numpy.eye(dim) + 0.08 * generator.standard_normal((dim, dim)),
                              0.08 * generator.standard_normal((dim, dim))], 1)
    out[f"{block}.nextn.eh_proj.weight"] = join.astype("<f2").astype("<f4")
    for name in ("enorm", "hnorm", "shared_head_norm"):
        out[f"{block}.nextn.{name}.weight"] = drawn((dim,), 0.2, 1.0)
    return out


def as_stored(name, array):
    half = name.endswith("weight") and "ssm_norm" not in name
    return gguf_models.as_type(array, gguf_models.TYPE.F16 if half else gguf_models.TYPE.F32)


def judge(path, prompt):
    """The text, and for each of its tokens after the prompt's whether llama.cpp's layer says the next one."""
    plain, tokens = open_server(path, False), list(prompt)
    for _ in range(ASKED + 2):
        answer = plain.handle_completions({"prompt": tokens, "n_predict": 1, "temperature": 0, "n_probs": golden.VOCAB,
                                           "logit_bias": [[64, 1000.0]]})
        best = max(answer["choices"][0]["logprobs"]["content"][0]["top_logprobs"], key=lambda entry: entry["logprob"])
        tokens.append(int(best["id"]))
    del plain
    server, right = open_server(path, True), []
    for i in range(PROMPT, PROMPT + ASKED):
        answer = server.handle_completions({"prompt": tokens[:i], "n_predict": 3, "temperature": 0, "cache_prompt": False,
                                            "ignore_eos": True})
        timings = answer["timings"]
        assert timings["draft_n"] == 1
        right.append(timings["draft_n_accepted"])
    return tokens, right


def main():
    golden.write_tokenizer_once(gguf_models.OUT)
    for family in FAMILIES:
        maker, changes = gguf_models.LATER_FAMILIES[family]
        config = maker(**{**gguf_models.LATER, **changes})
        model = AutoModelForCausalLM.from_config(config).float().eval()
        golden.randomise(model, 7, True)
        gguf_models.write_metadata.model = model
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(p.half().float())
        arrays = tensors_with_layer(model, config, 5)
        config.num_nextn_predict_layers = 1
        folder = OUT / family.replace("_text", "").replace("_", "-")
        folder.mkdir(parents=True, exist_ok=True)
        gguf_models.write_file(folder / "model.gguf", config, {name: as_stored(name, array) for name, array in arrays.items()})
        prompt = [int(t) for t in numpy.random.default_rng(3).integers(0, golden.VOCAB - 1, PROMPT)]
        tokens, right = judge(folder / "model.gguf", prompt)
        (folder / "golden.json").write_text(json.dumps({"tokens": tokens, "prompt": PROMPT, "right": right}) + "\n")
        print(f"{folder.name}: the layer is right at {sum(right)} of {ASKED} positions", flush=True)


if __name__ == "__main__":
    main()
