"""A Llama in torch, as plain as can be: what the trainers differentiate and the references step through.

Weights are a dictionary of float32 tensors under the names that Hugging Face's folders use. `rows` runs blocks
[first, last) on rows of one or more sequences of equal length, after what a Cache already holds."""
import json
import os

import torch
import torch.nn.functional as F

import safetensors_file

HEAD, EMBEDDING, NORM = "lm_head.weight", "model.embed_tokens.weight", "model.norm.weight"


class Cache:
    """Keys and values by block, (sequences, kv heads, positions, head dim), of which the first `length[block]` count.
    For inference: it writes in place."""

    def __init__(self, blocks):
        self.keys, self.values, self.length = [None] * blocks, [None] * blocks, [0] * blocks

    def append(self, block, key, value):
        """Keeps these after those there; returns all."""
        sequences, heads, rows, head_dim = key.shape
        before, after = self.length[block], self.length[block] + rows
        for store, new in ((self.keys, key), (self.values, value)):
            if store[block] is None or store[block].shape[2] < after:
                grown = new.new_empty(sequences, heads, 2 * after + 64, head_dim)
                if before:
                    grown[:, :, :before] = store[block][:, :, :before]
                store[block] = grown
            store[block][:, :, before:after] = new
        self.length[block] = after
        return self.keys[block][:, :, :after], self.values[block][:, :, :after]

    def truncate(self, length):
        """Forgets what lies at position `length` and beyond."""
        self.length = [min(have, length) for have in self.length]


def rms_norm(x, weight, epsilon):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon) * weight


def rotate(x, position, theta):
    """Rotary position embedding; x: (sequences, heads, rows, head dim), halves rotated against each other."""
    half = x.shape[-1] // 2
    angle = position[:, None].float() * theta ** (-torch.arange(half, dtype=torch.float32) / half)
    cos, sin = angle.cos(), angle.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1)


class Llama:
    def __init__(self, config, weights):
        if config.get("rope_scaling") or config["model_type"] != "llama" or config.get("attention_bias"):
            raise ValueError("tools/train knows plain Llama folders: no RoPE scaling, no biases")
        self.config, self.weights = config, weights
        self.blocks, self.dim = config["num_hidden_layers"], config["hidden_size"]
        self.heads, self.kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        self.head_dim = config.get("head_dim") or self.dim // self.heads
        self.epsilon, self.theta = config["rms_norm_eps"], config["rope_theta"]
        self.bos, self.eos = config["bos_token_id"], config["eos_token_id"]

    @classmethod
    def load(cls, folder):
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        tensors, _ = safetensors_file.read(os.path.join(folder, "model.safetensors"))
        return cls(config, {name: tensor.float() for name, tensor in tensors.items()})

    def attention(self, x, q, k, v, o, cache=None, slot=0, allowed=None, position=None):
        """Attention of rows x (sequences, rows, dim), already normed, with projections of these weights, after what
        `cache` holds at `slot`. `allowed` (rows, rows): which of these rows see which; causal without it.
        `position` (rows): consecutive after the cached ones without it."""
        sequences, rows, _ = x.shape
        before = cache.length[slot] if cache else 0
        if position is None:
            position = before + torch.arange(rows)
        split = lambda y, heads: y.view(sequences, rows, heads, self.head_dim).transpose(1, 2)
        query = rotate(split(F.linear(x, q), self.heads), position, self.theta)
        key = rotate(split(F.linear(x, k), self.kv_heads), position, self.theta)
        value = split(F.linear(x, v), self.kv_heads)
        if cache:
            key, value = cache.append(slot, key, value)
        # query heads that share a key head are rows of one product
        query = query.reshape(sequences, self.kv_heads, -1, self.head_dim)
        score = (query @ key.transpose(2, 3) / self.head_dim ** 0.5).view(sequences, self.kv_heads, -1, rows, key.shape[2])
        if allowed is None:
            allowed = torch.ones(rows, rows, dtype=torch.bool).tril()
        hidden = torch.cat([torch.zeros(rows, before, dtype=torch.bool), ~allowed], 1)
        share = score.masked_fill(hidden, float("-inf")).softmax(-1)
        mixed = share.view(sequences, self.kv_heads, -1, key.shape[2]) @ value
        mixed = mixed.view(sequences, self.heads, rows, self.head_dim).transpose(1, 2)
        return F.linear(mixed.reshape(sequences, rows, -1), o)

    def block_weights(self, b, *names):
        return [self.weights["model.layers.%d.%s.weight" % (b, name)] for name in names]

    def attention_update(self, b, x, cache=None, allowed=None, position=None):
        """The term that block b's attention adds to the residual stream."""
        norm, *qkvo = self.block_weights(b, "input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                         "self_attn.o_proj")
        return self.attention(rms_norm(x, norm, self.epsilon), *qkvo, cache, b, allowed, position)

    def mlp_update(self, b, x):
        norm, gate, up, down = self.block_weights(b, "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj",
                                                  "mlp.down_proj")
        h = rms_norm(x, norm, self.epsilon)
        return F.linear(F.silu(F.linear(h, gate)) * F.linear(h, up), down)

    def embed(self, tokens):
        return F.embedding(tokens, self.weights[EMBEDDING])

    def rows(self, x, cache=None, first=0, last=None, allowed=None, position=None, skip=None):
        """Rows x (sequences, rows, dim) through blocks [first, last), without the sub-layers of mask `skip`
        ({"attention": [...], "mlp": [...]})."""
        for b in range(first, self.blocks if last is None else last):
            if not skip or b not in skip["attention"]:
                x = x + self.attention_update(b, x, cache, allowed, position)
            if not skip or b not in skip["mlp"]:
                x = x + self.mlp_update(b, x)
        return x

    def normed(self, x):
        return rms_norm(x, self.weights[NORM], self.epsilon)

    def head(self):
        return self.weights[EMBEDDING if self.config["tie_word_embeddings"] else HEAD]

    def logits(self, x):
        """The head on a block's output: the final norm, then the output matrix (LayerSkip's g)."""
        return F.linear(self.normed(x), self.head())


def generate(model, prompts, tokens, temperature, generator):
    """Continues prompts of equal length (sequences, length) by `tokens`; greedily where temperature is 0. Sampled
    by argmax of logits / temperature + Gumbel noise, so that a seed determines the text."""
    with torch.no_grad():
        cache = Cache(model.blocks)
        text, new = prompts, prompts
        for _ in range(tokens):
            logits = model.logits(model.rows(model.embed(new), cache)[:, -1])
            if temperature > 0:
                noise = torch.rand(logits.shape, generator=generator).clamp_(1e-9, 1 - 1e-7)
                logits = logits / temperature - torch.log(-torch.log(noise))
            new = logits.argmax(-1, keepdim=True)
            text = torch.cat([text, new], 1)
    return text
