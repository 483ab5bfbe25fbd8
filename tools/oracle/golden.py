"""Shared by the oracle scripts: tiny random models, and what transformers computes for them.

Everything is computed by transformers in float32 on the stored values, token by token with its own cache,
so that RoPE scalings that depend on the length see the lengths that a running generation has.

A golden folder holds the model as transformers saved it and two files of ours:
  golden.json  prompt, greedy tokens, which rows' logits are kept, masks with their base and matchness
  logits.bin   the kept rows as little-endian float32, in the order golden.json lists them
"""
import json
import pathlib
import re
import shutil

import numpy
import torch
import transformers
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

torch.set_num_threads(1)
transformers.utils.logging.disable_progress_bar()
VOCAB = 272
END = 271
MARGIN = 1e-3  # of the row's largest logit: nearer pairs of first and second are not used


def write_tokenizer_once(out):
    """The tokenizer that all tiny models link to."""
    if not (out / "tokenizer").exists():
        (out / "tokenizer").mkdir(parents=True)
        write_tokenizer(out / "tokenizer")


def write_tokenizer(folder):
    """A byte-level tokenizer with a few merges and one special token: 256 + 15 + 1 = VOCAB ids."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {piece: i for i, piece in enumerate(alphabet)}
    merges = []
    for left, right in ["th", "in", "er", "an", "re", "on", "at", "en", "nd", "or", "es", "is", "it", "al", "ar"]:
        vocab[left + right] = len(vocab)
        merges.append((left, right))
    tokenizer = Tokenizer(models.BPE(vocab, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken("<|end|>", normalized=False, special=True)])
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|end|>", "add_bos_token": False,
              "clean_up_tokenization_spaces": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


def adds_one(config):
    """Whether the family's norms multiply by 1 + weight."""
    return config.model_type in ("gemma", "gemma2", "gemma3_text", "nemotron")


def randomise(model, seed, plus_one):
    """Weights large enough that every part of the arithmetic shows in the logits."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            noise = torch.randn(p.shape, generator=generator)
            if re.search(r"norm(_\d|_f|s\.\d+)?\.weight$", name):
                p.copy_(0.2 * noise + (0 if plus_one and "linear_attn" not in name else 1))
            elif name.endswith(("router.scale", "per_expert_scale", "correct_output_scale")):
                p.copy_(0.2 * noise + 1)
            elif name.endswith((".bias", "mlp.expert_bias")) or "act_fn.alpha" in name:
                p.copy_(0.3 * noise)
            elif name.endswith((".sinks", ".dt_bias", "mamba.D", "mixer.D")):
                p.copy_(noise)
            elif name.endswith(".A_log"):
                p.copy_(noise - 1)
            elif name.endswith("experts.gate_up_proj") and model.config.model_type == "gpt_oss":
                p.copy_(noise * (3 / p.shape[1] ** 0.5))  # so large that some are clamped
            elif "embed_tokens" in name or "embeddings" in name:
                p.copy_(noise * ((0.6 if model.config.model_type.startswith("gemma") else 2.5) / p.shape[1] ** 0.5))
            elif "lm_head" in name:
                p.copy_(noise * (3 / p.shape[1] ** 0.5))
            elif ".q_proj." in name or ".k_proj." in name or ".qkv_proj." in name:
                p.copy_(noise * (0.9 / p.shape[1] ** 0.5))
            else:
                p.copy_(noise * (1.1 / p.shape[1] ** 0.5))
        for name, buffer in sorted(model.named_buffers()):
            if name.endswith("layer_scalar"):
                buffer.copy_(1 + 0.2 * torch.randn(buffer.shape, generator=generator))


class Nothing(torch.nn.Module):
    """In a sub-layer's place: adds nothing to the residual stream."""

    def __init__(self, gives_two):
        super().__init__()
        self.gives_two = gives_two

    def forward(self, hidden_states=None, *args, **kwargs):
        zero = torch.zeros_like(hidden_states)
        return (zero, None) if self.gives_two else zero


class Removed:
    """with Removed(model, attention, mlp): the model without those blocks' sub-layers."""

    def __init__(self, model, attention, mlp):
        self.layers, self.attention, self.mlp = model.model.layers, attention, mlp
        self.gives_two = model.config.model_type == "gpt_oss"
        self.attention_name = "self_attn"
        self.name = "shared_mlp" if hasattr(self.layers[0], "shared_mlp") else "mlp"
        self.attention_gives_two = True
        if model.config.model_type in ("gemma4_text", "gemma3n_text"):  # other blocks read an attention's keys; experts stand beside an MLP
            self.attention_name, self.name = "post_attention_layernorm", "post_feedforward_layernorm"
            self.attention_gives_two = False

    def __enter__(self):
        self.kept = [(getattr(layer, self.attention_name), getattr(layer, self.name)) for layer in self.layers]
        for b in self.attention:
            setattr(self.layers[b], self.attention_name, Nothing(self.attention_gives_two))
        for b in self.mlp:
            setattr(self.layers[b], self.name, Nothing(self.gives_two))

    def __exit__(self, *_):
        for layer, (attention, mlp) in zip(self.layers, self.kept):
            setattr(layer, self.attention_name, attention)
            setattr(layer, self.name, mlp)


def load(folder):
    from transformers import AutoModelForCausalLM
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def forward(model, tokens, cache):
    with torch.no_grad():
        return model(input_ids=torch.tensor([tokens]), past_key_values=cache, use_cache=True).logits[0]


def new_cache(model):
    """A cache that keeps every position: the model's own masks hide those beyond a sliding window. For models with
    recurrent blocks it has to know which those are."""
    from transformers import DynamicCache
    config = model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config
    recurrent = {"linear_attention", "conv", "hybrid"} & set(getattr(config, "layer_types", None) or [])
    return DynamicCache(config=config) if recurrent else DynamicCache()


def greedy(model, prompt, n):
    """n greedy tokens, the logits behind each, and the narrowest relative margin."""
    cache = new_cache(model)
    rows, tokens, margin = [], [], 1.0
    logits = forward(model, prompt, cache)[-1]
    for _ in range(n):
        rows.append(logits)
        best = torch.topk(logits, 2).values
        margin = min(margin, float((best[0] - best[1]) / logits.abs().max()))
        tokens.append(int(logits.argmax()))
        logits = forward(model, [tokens[-1]], cache)[-1]
    return tokens, rows, margin


def random_masks(blocks, generator, n=3):
    """Masks over the blocks between the first and the last, about half of the sub-layers each."""
    masks = []
    for _ in range(n):
        pick = generator.random((2, blocks)) < 0.5
        pick[:, 0] = pick[:, -1] = False
        if not pick.any():
            pick[generator.integers(2), 1] = True
        masks.append({"attention": [int(b) for b in numpy.flatnonzero(pick[0])],
                      "mlp": [int(b) for b in numpy.flatnonzero(pick[1])]})
    return masks


def judge(folder, prompt, masks, n=64, window=32, keep=(0, 1, 31, 63), keep_masked=(0, 31), different=16):
    """Everything a golden folder holds about its model; None when a choice was too close to call, or when
    the text has fewer than so many different tokens."""
    model = load(folder)
    tokens, rows, margin = greedy(model, prompt, n)
    if margin < MARGIN or len(set(tokens)) < different:
        return None
    kept = [rows[i] for i in keep if i < n]
    text = prompt + tokens
    judged = []
    for mask in masks:
        base = len(prompt) - 1
        # Target keys and values before the window, draft ones inside it. A fresh model each time, as
        # dynamic RoPE remembers the lengths that it has seen.
        model = load(folder)
        cache = new_cache(model)
        forward(model, prompt, cache)
        cache.crop(base - len(prompt))
        # Row by row, so that each sees its own length where RoPE depends on it.
        with Removed(model, mask["attention"], mask["mlp"]):
            logits = torch.cat([forward(model, [token], cache) for token in text[base:base + window]])
        best = torch.topk(logits, 2, dim=1).values
        if float(((best[:, 0] - best[:, 1]) / logits.abs().amax(1)).min()) < MARGIN:
            return None
        matched = int((logits.argmax(1) == torch.tensor(text[base + 1:base + 1 + window])).sum())
        judged.append({**mask, "base": base, "window": window, "matched": matched,
                       "rows": list(keep_masked)})
        kept += [logits[i] for i in keep_masked]
    golden = {"prompt": prompt, "tokens": tokens, "rows": [i for i in keep if i < n], "masks": judged}
    return golden, torch.stack(kept).numpy().astype("<f4")


def write(folder, golden, logits):
    text = json.dumps(golden, separators=(", ", ": "))
    (folder / "golden.json").write_text(text.replace('"masks"', '\n"masks"').replace('"tokens"', '\n"tokens"') + "\n")
    (folder / "logits.bin").write_bytes(logits.tobytes())


def old_style_rope(folder):
    """Rewrites config.json as transformers 4 wrote it: rope_theta beside rope_scaling with `type`."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    rope = config.pop("rope_parameters")
    config["rope_theta"] = rope.pop("rope_theta")
    kind = rope.pop("rope_type")
    config["rope_scaling"] = None if kind == "default" else {"type": kind, **rope}
    path.write_text(json.dumps(config, indent=1) + "\n")


def make(folder, config, dtype, prompt_length, edit=None, after=None, shard=None, masks=3, tries=400, different=16):
    """A golden folder of a random model of this config; seeds are tried until no choice is close.

    `edit` changes the folder before it is judged, `after` in ways that transformers reads as another class.
    The tokenizer is a link to the one that all tiny models share."""
    from transformers import AutoModelForCausalLM
    folder = pathlib.Path(folder)
    for seed in range(tries):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        model = AutoModelForCausalLM.from_config(config)
        randomise(model, seed, adds_one(config))
        model.generation_config.eos_token_id = END
        model = model.to(dtype)
        model.save_pretrained(folder, **({"max_shard_size": shard} if shard else {}))
        if edit:
            edit(folder)
        generator = numpy.random.default_rng(seed)
        prompt = [int(t) for t in generator.integers(0, VOCAB - 1, prompt_length)]
        result = judge(folder, prompt, random_masks(config.num_hidden_layers, generator, masks),
                       different=different)
        if result is None:
            continue
        if after:
            after(folder)
        write(folder, *result)
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (folder / name).symlink_to(pathlib.Path("..") / "tokenizer" / name)
        print(f"{folder.name}: seed {seed}, {len(set(result[0]['tokens']))} different tokens of 64, matched "
              f"{[m['matched'] for m in result[0]['masks']]} of 32, "
              f"{sum(f.stat().st_size for f in folder.iterdir() if not f.is_symlink()) // 1024} KiB", flush=True)
        return
    raise SystemExit(f"{folder.name}: no seed of {tries} gave clear choices")
