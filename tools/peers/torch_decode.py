#!/usr/bin/env python3
"""Decodes a Llama-shaped model with random weights by PyTorch: compiled, CUDA graphs, static cache.

The peer of `swiftlet bench decode`: the same shape, one token a step, keys and values written in place, so
that both can be measured in one run on one machine. Prints tokens a second, the bytes a token reads, and
their share of a device-to-device copy's bandwidth (of a read's on a CPU) measured in the same run.

    torch_decode.py --shape llama-2-7b --context 128 --json
    torch_decode.py --shape tiny --device cpu --no-compile
"""
import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F

# blocks, dim, heads, key/value heads, head size, feed-forward, vocabulary
SHAPES = {
    "tiny": (2, 128, 4, 2, 32, 352, 300),
    "llama-2-7b": (32, 4096, 32, 32, 128, 11008, 32000),
    "llama-2-13b": (40, 5120, 40, 40, 128, 13824, 32000),
    "llama-2-70b": (80, 8192, 64, 8, 128, 28672, 32000),
    "llama-3-8b": (32, 4096, 32, 8, 128, 14336, 128256),
}


class Block(torch.nn.Module):
    def __init__(self, shape, context, make):
        super().__init__()
        _, dim, self.heads, self.kv_heads, self.head_dim, ffn, _ = shape
        kv = self.kv_heads * self.head_dim
        self.qkv = make(self.heads * self.head_dim + 2 * kv, dim)
        self.out = make(dim, self.heads * self.head_dim)
        self.gate_up = make(2 * ffn, dim)
        self.down = make(dim, ffn)
        self.norms = torch.nn.Parameter(torch.ones(2, dim, dtype=self.out.dtype, device=self.out.device), requires_grad=False)
        for name in ("keys", "values"):
            self.register_buffer(name, torch.zeros(1, self.kv_heads, context, self.head_dim, dtype=self.out.dtype, device=self.out.device))

    def forward(self, x, position, cosine, sine, seen):
        n, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        q, k, v = F.linear(norm(x, self.norms[0]), self.qkv).split((n, kv, kv), dim=-1)
        q = rotate(q.view(1, 1, self.heads, self.head_dim).transpose(1, 2), cosine, sine)
        k = rotate(k.view(1, 1, self.kv_heads, self.head_dim).transpose(1, 2), cosine, sine)
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v.view(1, 1, self.kv_heads, self.head_dim).transpose(1, 2))
        keys, values = self.keys, self.values
        if self.kv_heads != self.heads:
            keys = keys.repeat_interleave(self.heads // self.kv_heads, 1)
            values = values.repeat_interleave(self.heads // self.kv_heads, 1)
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
        x = x + F.linear(y.transpose(1, 2).reshape(1, 1, n), self.out)
        gate, up = F.linear(norm(x, self.norms[1]), self.gate_up).chunk(2, dim=-1)
        return x + F.linear(F.silu(gate) * up, self.down)


def norm(x, weight):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight


def rotate(x, cosine, sine):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1)


class Model(torch.nn.Module):
    def __init__(self, shape, context, dtype, device):
        super().__init__()
        blocks, dim, _, _, head_dim, _, vocab = shape
        generator = torch.Generator(device=device).manual_seed(1)

        def make(rows, cols):
            weight = torch.empty(rows, cols, dtype=dtype, device=device)
            weight.normal_(0, cols**-0.5, generator=generator)
            return torch.nn.Parameter(weight, requires_grad=False)

        self.embedding, self.head = make(vocab, dim), make(vocab, dim)
        self.last = torch.nn.Parameter(torch.ones(dim, dtype=dtype, device=device), requires_grad=False)
        self.blocks = torch.nn.ModuleList(Block(shape, context, make) for _ in range(blocks))
        angles = torch.arange(context, device=device)[:, None] * 10000.0 ** (-torch.arange(0, head_dim, 2, device=device) / head_dim)
        self.register_buffer("cosine", angles.cos().to(dtype))
        self.register_buffer("sine", angles.sin().to(dtype))
        self.register_buffer("positions", torch.arange(context, device=device))

    def forward(self, token, position):
        x = self.embedding[token].view(1, 1, -1)
        seen = (self.positions <= position)[None, None, None, :]
        for block in self.blocks:
            x = block(x, position, self.cosine[position], self.sine[position], seen)
        return F.linear(norm(x, self.last), self.head).view(-1).argmax().view(1)

    def bytes_read(self, context, kv_bytes):
        """Weights once (of the embedding one row), keys and values of the context."""
        weights = sum(p.numel() * p.element_size() for p in self.parameters()) - self.embedding.numel() * self.embedding.element_size()
        return weights + context * kv_bytes


def wait(device):
    if device == "cuda":
        torch.cuda.synchronize()


def bandwidth(device):
    """Bytes a second, read and written, of copies far larger than the caches; the best of ten."""
    size = (1 << 30) if device == "cuda" else (1 << 28)
    a, b = torch.ones(size, dtype=torch.uint8, device=device), torch.empty(size, dtype=torch.uint8, device=device)
    best = 0.0
    for _ in range(10):
        wait(device)
        start = time.perf_counter()
        b.copy_(a)
        wait(device)
        best = max(best, 2 * size / (time.perf_counter() - start))
    return best


def decode(step, device, first, n):
    token = torch.zeros(1, dtype=torch.long, device=device)
    times = []
    for i in range(n):
        position = torch.tensor([first + i], device=device)
        wait(device)
        start = time.perf_counter()
        token = step(token, position).clone()
        wait(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="llama-2-7b")
    parser.add_argument("--dtype", choices=("float16", "bfloat16", "float32"), default="float16")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--context", type=int, default=128, help="tokens before the first step measured")
    parser.add_argument("--tokens", type=int, default=128, help="steps to measure; the median is reported")
    parser.add_argument("--no-compile", action="store_true", help="run without compiling, to check the script")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch_decode: PyTorch finds no CUDA device; --device cpu decodes on the processor")
    shape, dtype = SHAPES[args.shape], getattr(torch, args.dtype)
    torch.set_grad_enabled(False)
    room = args.context + args.tokens + 8
    model = Model(shape, room, dtype, args.device)
    step = model if args.no_compile else torch.compile(model, mode="max-autotune-no-cudagraphs" if args.device == "cpu" else "reduce-overhead", fullgraph=True)
    decode(step, args.device, args.context, 8)  # compiles, warms up, captures
    seconds = decode(step, args.device, args.context, args.tokens)
    copied = bandwidth(args.device)
    kv_bytes = 2 * shape[0] * shape[3] * shape[4] * model.last.element_size()
    read = model.bytes_read(args.context, kv_bytes)
    figures = {
        "peer": "torch %s" % torch.__version__,
        "device": torch.cuda.get_device_name() if args.device == "cuda" else "cpu",
        "shape": args.shape,
        "dtype": args.dtype,
        "compiled": not args.no_compile,
        "context": args.context,
        "seconds_per_token": seconds,
        "tokens_per_second": 1 / seconds,
        "bytes_per_token": read,
        "copy_bytes_per_second": copied,
        "share_of_bandwidth": read / seconds / copied,
    }
    if args.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print("%-22s %s" % (name, value))


main()
