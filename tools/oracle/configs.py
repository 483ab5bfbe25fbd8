#!/usr/bin/env python3
"""Writes tests/core/golden/configs: config.json files of unusual but legal shapes, and what transformers makes of
them. Weights follow from the tensors' names (tests/core/test_configs.c makes the same), so that a file holds none.

  configs.py [NAME…]            the project's cases, all or some
  configs.py --folder FOLDER    every config.json named *.json there, as a case of its name
  configs.py --random N SEED    N random configs of every family into --out, for build/tests/test-core-configs FILE…
"""
import argparse
import json
import pathlib
import re
import tempfile
import warnings

import numpy
import torch
import transformers
from safetensors.torch import load_file, save_file

import config_cases
import golden

warnings.filterwarnings("ignore")
transformers.utils.logging.set_verbosity_error()
OUT = pathlib.Path(__file__).resolve().parents[2] / "tests" / "core" / "golden" / "configs"


# ---- weights ----------------------------------------------------------------------------------------------------


def uniform(name, n):
    """Uniform in [-1/2, 1/2): splitmix64 counted from the name's FNV-1a hash."""
    seed = 14695981039346656037
    for byte in name.encode():
        seed = (seed ^ byte) * 1099511628211 % 2**64
    with numpy.errstate(over="ignore"):
        z = numpy.uint64(seed) + numpy.arange(1, n + 1, dtype=numpy.uint64) * numpy.uint64(0x9e3779b97f4a7c15)
        z = (z ^ z >> numpy.uint64(30)) * numpy.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ z >> numpy.uint64(27)) * numpy.uint64(0x94d049bb133111eb)
        z ^= z >> numpy.uint64(31)
    return (z >> numpy.uint64(40)).astype(numpy.float64) / 16777216.0 - 0.5


def spread(name, shape, family):
    """(scale, offset) of a tensor's values: large enough that every part of the arithmetic shows."""
    fan = 1 if not shape else shape[-1] if not (family in ("gpt_oss", "llama4_text", "qwen3_vl_moe_text") and ".experts." in name) else shape[-2] if len(shape) > 1 else 1
    gemma = family.startswith(("gemma", "vaultgemma"))
    plus_one = family in ("gemma", "gemma2", "gemma3_text", "gemma3", "nemotron", "vaultgemma") or (
        family.startswith(("qwen3_5", "qwen3_next")) and "linear_attn" not in name)
    if family == "gemma4_assistant" and "q_norm" in name:
        return 0.4, 0.4
    if name.endswith("A_log"):
        return 4.0, -1.5
    if re.search(r"norm(\d?|_f)\.weight$|layernorm\.weight$", name):
        return 0.7, 0.0 if plus_one else 1.0
    if name.endswith(("router.scale", "per_expert_scale", "layer_scalar")):
        return 0.7, 1.0
    if name.endswith(("alpha_p", "alpha_n")):
        return 1.0, 0.5
    if name.endswith(("xielu.beta", "xielu.eps")):
        return 0.0, 0.5 if name.endswith("beta") else -1e-6
    if name.endswith(("e_score_correction_bias", "expert_bias")) or "moe_statics" in name:
        return 0.3, 0.0
    if name.endswith("bias"):
        return 1.0, 0.0
    if name.endswith(".D"):
        return 0.7, 1.0
    if name.endswith("sinks"):
        return 3.0, 0.0
    if "embed_tokens" in name or "embeddings" in name:
        deviation = 0.6 if gemma else 2.5
    elif "lm_head" in name:
        deviation = 3.0
    elif re.search(r"\.(q|k|qkv)_proj\.", name):
        deviation = 0.9
    elif re.search(r"(gate|router)\.(weight|wg\.weight)$", name):
        deviation = 2.0
    elif "experts.gate_up_proj" in name and family == "gpt_oss":
        deviation = 3.0
    else:
        deviation = 1.1
    return round(deviation * (12 / fan) ** 0.5, 4), 0.0


def describe(shapes, family):
    """The tensors in short: those whose names differ by numbers alone, counted from 0, are one entry."""
    groups, out = {}, []
    for name, shape in sorted(shapes.items()):
        star = re.sub(r"(?<=\.)\d+(?=\.)", "*", name)
        groups.setdefault((star, tuple(shape)), []).append(name)
    for (star, shape), names in groups.items():
        scale, offset = spread(star, shape, family)
        more = {"shape": list(shape), "scale": scale, "offset": offset}
        numbers = sorted(tuple(int(n) for n in re.findall(r"(?<=\.)\d+(?=\.)", name)) for name in names)
        of = [max(column) + 1 for column in zip(*numbers)]
        if len(names) == int(numpy.prod(of, dtype=int)):
            out.append({"name": star, "of": of, **more})
        else:
            out += [{"name": name, "of": [], **more} for name in names]
    return out


def in_full(entry):
    names = [entry["name"]]
    for n in entry["of"]:
        names = [name.replace("*", str(i), 1) for name in names for i in range(n)]
    return names


def make(tensors):
    out = {}
    for entry in tensors:
        for name in in_full(entry):
            if entry.get("integers"):
                n = entry["shape"][0]
                out[name] = (torch.arange(n) * entry["scale"] + entry["offset"]) % n
                continue
            values = entry["offset"] + entry["scale"] * uniform(name, int(numpy.prod(entry["shape"], dtype=int)))
            out[name] = torch.from_numpy(values.astype(numpy.float32).reshape(entry["shape"]))
    return out


# ---- the judge ---------------------------------------------------------------------------------------------------


def model_class(config):
    if config["model_type"] == "mistral4":  # which the automatic classes know inside a model of images alone
        return transformers.Mistral4ForCausalLM
    if config.get("audio_config"):
        return transformers.AutoModelForMultimodalLM
    return transformers.AutoModelForImageTextToText if "vision_config" in config else transformers.AutoModelForCausalLM


APART = {"enorm": "mtp.pre_fc_norm_embedding", "hnorm": "mtp.pre_fc_norm_hidden", "eh_proj": "mtp.fc", "post_norm": "mtp.norm"}


def mtp_name(name, text):
    """A tensor of transformers' MTP layer as checkpoints name it."""
    part, _, rest = name.partition(".")
    if text.model_type.startswith("qwen3"):
        return f"mtp.layers.0.{rest}" if part == "mtp_block" else f"{APART[part]}.{rest}"
    block = f"model.layers.{text.num_hidden_layers}."
    return block + (rest if part == "mtp_block" else name.replace("post_norm", "shared_head.norm"))


def judge_mtp(model, family, tokens, chosen):
    """The tensors of an MTP layer, and its log-probabilities: after pairs of a token and the state before it, and
    after one more token with the layer's own last state."""
    text = model.config.get_text_config()
    text.num_mtp_layers, text.mtp_layer_types, text.mtp_mlp_layer_types = 1, ["full_attention"], ["sparse"]
    mtp = transformers.modeling_layers.MtpModel(model, 1).float().eval()
    mtp.config._attn_implementation = "eager"
    layer = mtp.layers[0]
    stored = {name: mtp_name(name, text) for name in layer.state_dict()}
    tensors = describe({stored[name]: list(t.shape) for name, t in layer.state_dict().items()}, family)
    made = make(tensors)
    layer.load_state_dict({name: made[stored[name]] for name in stored})
    ids = torch.tensor([tokens])
    with torch.no_grad():
        states = model.get_decoder()(ids).last_hidden_state[:, :-1]
        given = ids[:, 1:]
        for _ in range(2):
            out = mtp.forward_layer(0, states, torch.arange(given.shape[1])[None], None, input_ids=given)
            states, given = torch.cat([states, out[:, -1:]], 1), torch.cat([given, ids[:, :1]], 1)
        of = torch.log_softmax(model.lm_head(out)[0].double(), -1)
    rows = [0, 1, 7, 30, 120, len(tokens) - 2, len(tokens) - 1]
    return tensors, {"mtp_rows": rows,
                     "mtp_log_probabilities": [[round(float(of[row, i]), 6) for i in chosen] for row in rows]}


def assistant_tensors(loaded):
    """As describe, with an order of tokens that has each once."""
    shapes = {n: list(t.shape) for n, t in loaded.items() if not n.endswith("token_ordering")}
    out = describe(shapes, "gemma4_assistant")
    for name, t in loaded.items():
        if name.endswith("token_ordering"):
            out.append({"name": name, "of": [], "shape": list(t.shape), "scale": 61, "offset": 7, "integers": True})
    return out


def judge_assistant(model, config, tokens, chosen):
    """A case's assistant: its config and tensors, and what transformers' own generator of candidates drafts with it after
    some lengths of the text, 3 tokens each with their log-probabilities."""
    from transformers.generation.candidate_generator import SinglePositionMultiTokenCandidateGenerator as Generator
    steps, rows, drafts, of = 3, [1, 2, 21, 22, 23, 24, 60, 150], [], []
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "config.json").write_text(json.dumps(config))
        loaded = transformers.AutoConfig.from_pretrained(folder)
        maker = getattr(transformers, config["architectures"][0])
        maker(loaded).float().save_pretrained(folder)
        tensors = assistant_tensors(load_file(folder / "model.safetensors"))
        save_file(make(tensors), folder / "model.safetensors", {"format": "pt"})
        (folder / "config.json").write_text(json.dumps(config))
        assistant = maker.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids = torch.tensor([tokens])
    assistant.generation_config.num_assistant_tokens = steps
    ends = transformers.GenerationConfig(max_length=4096)
    for row in rows:
        generator = Generator(assistant, model.get_input_embeddings(), ends)
        with torch.no_grad():
            seen = model(ids[:, :row], output_hidden_states=True, return_shared_kv_states=True, use_cache=True)
            text, logits = generator.get_candidates(ids[:, :row + 1], {}, seen, False, 0)
        drafts.append(text[0, row + 1:].tolist())
        of.append(torch.log_softmax(logits[0].double(), -1))
    return {"config": config, "tensors": tensors, "rows": rows, "drafts": drafts, "log_probabilities": [
        [[round(float(step[i]), 6) for i in chosen] for step in steps] for steps in of]}


def judge(config, fused=False, mtp=False, turned=False, assistant=None, length=200, prompt=90, ids=12,
          seed=1):
    """A case out of a config, of tensors as they are stored or, fused, as the model has them, or, turned, with the inputs of
    stacked experts first, as Qwen3-VL-MoE is published: the text's log-probabilities by transformers in float32."""
    torch.manual_seed(0)
    family = (config.get("text_config") or config).get("model_type", config["model_type"])
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "config.json").write_text(json.dumps(config))
        maker = model_class(config)
        loaded = transformers.AutoConfig.from_pretrained(folder)
        model = getattr(maker, "from_config", maker._from_config if hasattr(maker, "_from_config") else None)(
            loaded, dtype=torch.float32)
        model.save_pretrained(folder)
        stored = model.state_dict() if fused else load_file(folder / "model.safetensors")
        # Kimi K2.5's class saves the text model's layers under the name that its blocks of images have
        shapes = {n.replace("language_model.model.blocks.", "language_model.model.layers."): list(t.shape)
                  for n, t in stored.items()}
        shapes = {n: [s[0], s[2], s[1]] if turned and ".experts." in n else s for n, s in shapes.items()}
        tensors = describe(shapes, family)
        save_file(make(tensors), folder / "model.safetensors", {"format": "pt"})
        (folder / "config.json").write_text(json.dumps(config))
        model = maker.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager").eval()
    vocab = (config.get("text_config") or config).get("vocab_size", 272)
    generator = numpy.random.default_rng(seed)
    tokens = [int(t) for t in generator.integers(0, min(vocab, golden.VOCAB) - 1, length)]
    cache = golden.new_cache(model)
    logits = [golden.forward(model, tokens[:prompt], cache)]
    logits += [golden.forward(model, [token], cache) for token in tokens[prompt:]]
    of = torch.log_softmax(torch.cat(logits).double(), -1)
    rows = [0, 1, 7, 30, prompt - 1, prompt, 120, 150, length - 1]
    chosen = sorted(int(t) for t in generator.choice(min(vocab, golden.VOCAB), ids, replace=False))
    further = {}
    if mtp:
        more, further = judge_mtp(model, family, tokens, chosen)
        tensors += more
    if assistant:
        further = {"assistant": judge_assistant(model, assistant, tokens, chosen)}
    return {**further, "config": config, "tensors": tensors, "tokens": tokens, "prompt": prompt, "rows": rows, "ids": chosen,
            "log_probabilities": [[round(float(of[row, i]), 6) for i in chosen] for row in rows]}


def write(path, case):
    parts = ",\n".join(f'"{k}": {json.dumps(v, separators=(",", ":"))}' for k, v in case.items())
    path.write_text("{" + parts + "}\n")


def try_case(out, name, config, ends=None):
    try:
        case = judge(config, name.endswith("-fused"), name.endswith("-mtp"), name.endswith("-turned"),
                     config_cases.ASSISTANTS.get(name))
    except Exception as error:  # transformers does not take it
        print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0][:150] if str(error) else ''}", flush=True)
        return
    spread_of = numpy.ptp(case["log_probabilities"])
    write(out / f"{name}.json", {**case, **({"ends": ends} if ends is not None else {})})
    print(f"{name}: log-probabilities over {spread_of:.1f}, {(out / (name + '.json')).stat().st_size} bytes", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("--random", nargs=2, type=int, metavar=("N", "SEED"))
    parser.add_argument("--family", action="append")
    parser.add_argument("--sizes", action="store_true", help="with --random: draw sizes of a family's own parts, too")
    parser.add_argument("--out", type=pathlib.Path, default=OUT)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    if asked.folder:
        for path in sorted(asked.folder.glob("*.json")):
            if not asked.names or path.stem in asked.names:
                try_case(asked.out, path.stem, json.loads(path.read_text()))
        return
    cases = config_cases.drawn(*asked.random, asked.family, asked.sizes) if asked.random else config_cases.CASES
    for name, config in cases.items():
        if not asked.names or any(name.startswith(prefix) for prefix in asked.names):
            try_case(asked.out, name, config)


if __name__ == "__main__":
    main()
