#!/usr/bin/env python3
"""Predicts the speed of the CUDA backend on an H100 and an H200 by arithmetic, and prints it.

A plain step is its launches, one after another. A launch takes the time of its bytes at the speed of a copy, and what is left
of its start once the one before drains (0.5 us where kernels start early); none takes less than FLOOR, what loading an
instruction, a first cache line and an answer to it take. Between two steps the host sends a block of memory, starts a graph,
and reads results. A product takes what memory takes for its weights or what the schedulers take for its instructions, whichever
is longer: eight rows are a tile, and each tile after the first adds instructions. `tools/cuda-first-light` puts these figures beside what it measures: a device proves or
refutes them.
"""

# of a copy, bytes read and written: 0.9 of what is printed (3.35 and 4.8 TB/s), which is what copies on them come to
BANDWIDTH = {"H100": 3.0e12, "H200": 4.3e12}
EARLY, FLOOR, HOST = 0.5e-6, 2.0e-6, 30e-6
MULTIPROCESSORS, SCHEDULERS, CLOCK = 132, 528, 1.75e9
BESIDE = 7  # launches beside the blocks: embedding, kept states, norm, head, and three for the results

BITS = {"f16": 16, "bf16": 16, "q8_0": 8.5, "q4_1": 5, "q4_k": 4.5, "q6_k": 6.5625}
NIBBLES = ("q4_1", "q4_k", "q6_k")  # their norms are launches of their own

# instructions of a warp for 16 rows of 32 columns (docs/gpu.md): with one tile of rows, and for every further one
INSTRUCTIONS = {"f16": (14, 8), "bf16": (14, 8), "q8_0": (40, 16), "q4_1": (50, 26), "q4_k": (50, 26), "q6_k": (56, 22)}


class Model:
    """qkv, out, gate_up, down: of a block, each a list of (columns, rows, type on the device); head likewise. On the device
    Q5_0 becomes halves, BF16 where the gate is a GELU; all other types here keep their bits."""

    def __init__(self, name, blocks, qkv, out, gate_up, down, head, post_norms=False):
        self.name, self.blocks, self.post_norms, self.head = name, blocks, post_norms, head
        self.products = [qkv, out, gate_up, down]

    def launches_a_block(self):
        apart = sum(any(kind in NIBBLES for _, _, kind in product) for product in (self.products[0], self.products[2]))
        return 5 + apart + 2 * self.post_norms

    def launches(self):
        return self.blocks * self.launches_a_block() + BESIDE


def bytes_of(product):
    return sum(columns * rows * BITS[kind] / 8 for columns, rows, kind in product)


def shape(name, blocks, dim, kv, ffn, vocab, kind, head=None):
    return Model(name, blocks, [(dim, dim, kind), (dim, kv, kind), (dim, kv, kind)], [(dim, dim, kind)],
                 [(dim, ffn, kind), (dim, ffn, kind)], [(ffn, dim, kind)], [(dim, vocab, head or kind)])


def shapes(kind):
    return {"7b": shape("7B " + kind, 32, 4096, 4096, 11008, 32000, kind), "8b": shape("8B " + kind, 32, 4096, 1024, 14336, 128256, kind),
            "13b": shape("13B " + kind, 40, 5120, 5120, 13824, 32000, kind)}


def half_each(first, second, columns, rows):
    """A matrix that every second block has in another type: half of each."""
    return [(columns, rows / 2, first), (columns, rows / 2, second)]


REAL = {
    "smollm2-135m": Model("SmolLM2-135M", 30, [(576, 576, "q4_1"), (576, 192, "q4_1"), (576, 192, "q4_1")], [(576, 576, "q4_1")],
                          [(576, 1536, "q4_1")] * 2, [(1536, 576, "q4_1")], [(576, 49152, "q8_0")]),
    "gemma-3-270m": Model("Gemma-3-270M", 18, [(640, 1024, "bf16"), (640, 256, "bf16"), *half_each("bf16", "q8_0", 640, 256)],
                          [(1024, 640, "q4_k")], [(640, 2048, "bf16")] * 2, half_each("q4_k", "q6_k", 2048, 640),
                          [(640, 262144, "q8_0")], post_norms=True),
    "qwen2.5-coder-0.5b": Model("Qwen2.5-Coder-0.5B", 24, [(896, 896, "f16"), (896, 128, "f16"), *half_each("f16", "q8_0", 896, 128)],
                                [(896, 896, "f16")], [(896, 4864, "f16")] * 2, half_each("q4_k", "q6_k", 4864, 896),
                                [(896, 151936, "q8_0")]),
    "qwen2.5-coder-1.5b": Model("Qwen2.5-Coder-1.5B", 28, [(1536, 1536, "q4_k"), (1536, 256, "q4_k"), *half_each("q4_k", "q6_k", 1536, 256)],
                                [(1536, 1536, "q4_k")], [(1536, 8960, "q4_k")] * 2, half_each("q4_k", "q6_k", 8960, 1536),
                                [(1536, 151936, "q6_k")]),
}

# tokens and rows of a verify pass by `swiftlet bench replay -i PROMPTS --costs slope=0.006,c=0.9`, PROMPTS the first eight of
# tools/chat.jsonl with 64 tokens each; Gemma, whose file has no chat template, continues their text, and loops
REPLAYED = {"smollm2-135m": (1.949, 19.96), "gemma-3-270m": (4.345, 22.61), "qwen2.5-coder-0.5b": (2.409, 21.78),
            "qwen2.5-coder-1.5b": (2.019, 21.34)}
SURVIVORS = 0.034  # share of the head's rows that can win, by a copy in 4 bits (Qwen2.5-Coder-0.5B, 400 positions)
SCREENED = ("f16", "bf16", "q8_0")  # types of heads that kernels/cuda/screened_head.cu makes a copy of
LEAST_SAVED = 24 << 20  # bytes, as there
LEAST_SHARE = 0.1  # of a step's bytes, from which a head is screened unasked (core/model/draft_weights_memory.c)
SLOPE = 0.006  # what each row more adds to a pass, in plain steps
# A draft step with weights by input channel (kernels/cuda/columns.cu). Before a block multiplies it chooses channels: a norm, a
# threshold by some fifteen counts of a block, a list. Afterwards a stripe's last block adds up what the others left. A warp
# takes 600 instructions (cuobjdump -sass, sm_90) for 4 KiB of codes. A weight takes 4 bits and a share of its scale, since runs
# are filled up to whole lines.
CHOOSE, COMBINE = 2e-6, 1e-6
COLUMN_INSTRUCTIONS = 600 / 4096  # a byte
COLUMN_BYTES = 0.5 * 1.075        # a weight
READ = 0.43                       # of the draft weights
ALPHA = 0.90                      # of a draft step at that share, as Qwen2.5-Coder-1.5B has it on a CPU
LISTED = 17 * 64 + 64             # positions that a draft with page lists sees
PLAN = 270e-6  # of the host between two verify passes with all drafters, on the busy machine of the tests


def product_seconds(product, tiles, bandwidth):
    """The time of memory or of the schedulers, whichever is longer. A tile is of eight rows."""
    work = sum(columns / 32 * rows / 16 * (INSTRUCTIONS[kind][0] + (tiles - 1) * INSTRUCTIONS[kind][1])
               for columns, rows, kind in product)
    return max(FLOOR, EARLY + max(bytes_of(product) / bandwidth, work / (SCHEDULERS * CLOCK)))


def step_seconds(model, device, rows=1):
    """A pass of so many rows, at a short context, and the host's share of it."""
    tiles = 1 if rows <= 8 else 2 if rows <= 16 else 4 if rows <= 32 else 8
    bandwidth = BANDWIDTH[device]
    block = sum(product_seconds(p, tiles, bandwidth) for p in model.products)
    others = model.launches_a_block() - len(model.products) + 2 * (tiles > 2 and model.launches_a_block() == 5)
    return (model.blocks * (block + others * FLOOR) + product_seconds(model.head, tiles, bandwidth) + (BESIDE - 1) * FLOOR
            + HOST)


def share(model, device):
    """The share of a copy's speed, as `bench decode` gives it: the weights' bytes over the step."""
    return weights_of(model) / BANDWIDTH[device] / step_seconds(model, device)


def v(model, device, rows):
    return step_seconds(model, device, rows) / step_seconds(model, device)


def tokens_per_second(model, device):
    return 1 / step_seconds(model, device)


def default_over_plain(name, device):
    """Tokens a verify pass brings, over its time in plain steps, the host's planning among it."""
    tokens, rows = REPLAYED[name]
    plain = usual_step_seconds(REAL[name], device)
    return tokens * plain / (plain * (1 + SLOPE * (rows - 1)) + PLAN)


def draft_step(model, device, blocks_left_out):
    """c: a draft step without so many blocks over a plain step. Left-out blocks are in the graph all the same, as launches
    that look at the mask and end."""
    plain = usual_step_seconds(model, device)
    block = sum(product_seconds(p, 1, BANDWIDTH[device]) for p in model.products) - len(model.products) * FLOOR
    return (plain - blocks_left_out * block) / plain


def head_of(model, rows, kind=None):
    (state, _, stored), *_ = model.head
    return [(state, rows, kind or stored)]


def head_seconds(model, device):
    return product_seconds(model.head, 1, BANDWIDTH[device])


def screened_seconds(model, device, read=1.0):
    """A screened head: `read` of a coarse copy in 4 bits with their minima, two launches' time for a launch that looks for the best
    and computes it, the rows that can win as stored."""
    _, vocab, _ = model.head[0]
    coarse = product_seconds(head_of(model, read * vocab, "q4_1"), 1, BANDWIDTH[device])
    return coarse + 2 * FLOOR + product_seconds(head_of(model, SURVIVORS * vocab), 1, BANDWIDTH[device])


def screened_over_stored(model, device):
    """A plain step's time over that with a screened head."""
    plain = step_seconds(model, device)
    if model.head[0][2] not in SCREENED:
        return 1.0
    return plain / (plain - head_seconds(model, device) + screened_seconds(model, device))


def weights_of(model):
    return model.blocks * sum(map(bytes_of, model.products)) + bytes_of(model.head)


def usual_step_seconds(model, device):
    """With a screened head where it is screened unasked."""
    head, vocab = bytes_of(model.head), sum(rows for _, rows, _ in model.head)
    saved = head - bytes_of(head_of(model, vocab, "q4_1"))
    screened = head >= LEAST_SHARE * weights_of(model) and saved >= LEAST_SAVED
    return step_seconds(model, device) / (screened_over_stored(model, device) if screened else 1)


def shortlist_saves(model, device):
    """The share of a plain step that a draft step would save beyond a screened head if it read an eighth of the coarse copy."""
    if model.head[0][2] not in SCREENED:
        return 0.0
    return (screened_seconds(model, device) - screened_seconds(model, device, 1 / 8)) / step_seconds(model, device)


def attention_seconds(model, device, positions):
    """Reading keys and values in halves."""
    kv = model.products[0][1][1]
    return model.blocks * positions * 2 * kv * 2 / BANDWIDTH[device]


def column_step_seconds(model, device, positions):
    """A step of the draft loop: the host does nothing between two of them."""
    block = (2 + 2 * model.post_norms) * FLOOR  # rotation and attention
    for product in model.products:
        weights = READ * COLUMN_BYTES * sum(columns * rows for columns, rows, _ in product)
        work = weights * COLUMN_INSTRUCTIONS / (SCHEDULERS * CLOCK)
        block += max(FLOOR, EARLY + max(weights / BANDWIDTH[device], work)) + CHOOSE + COMBINE
    head = min(product_seconds(model.head, 1, BANDWIDTH[device]), screened_seconds(model, device))
    return model.blocks * block + head + (BESIDE - 1) * FLOOR + attention_seconds(model, device, positions)


def column_drafts(model, device, context):
    """c, and the speed over plain of the best length of a chain."""
    plain = step_seconds(model, device) + attention_seconds(model, device, context)
    c = column_step_seconds(model, device, min(context, LISTED)) / plain
    best = max((1 - ALPHA ** (k + 1)) / (1 - ALPHA) / (k * c + 1 + SLOPE * k) for k in range(25))
    return c, best


def both(figure, form):
    return ", ".join("%s %s" % (device, form % figure(device)) for device in BANDWIDTH)


def of_step(name):
    """The expected finding of a step of tools/cuda-first-light; "" without a prediction."""
    words = name.replace(",", "").split()
    if words[0] == "decode" and name.endswith("screened head"):
        model = shapes(words[2].lower())[words[1].lower()]
        return both(lambda device: screened_over_stored(model, device) / step_seconds(model, device), "%.0f tokens/s")
    if len(words) > 2 and words[0] == "decode" and name.endswith("context 128") and "two" not in words:
        model = shapes(words[2].lower())[words[1].lower()]
        return both(lambda device: share(model, device), "%.2f")
    if name.startswith("cost by rows"):
        model = shapes(words[-1].lower())[words[-2].lower()]
        return "; ".join("v(%d) %s" % (n, both(lambda device: v(model, device, n), "%.2f")) for n in (16, 32))
    if name.endswith("drafts by input channel"):
        return "c " + both(lambda device: column_drafts(REAL[words[0]], device, 1024)[0], "%.2f")
    if words[-1] == "plain" and words[0] in REAL:
        plain = both(lambda device: 1 / usual_step_seconds(REAL[words[0]], device), "%.0f tokens/s")
        if words[0] not in REPLAYED:
            return plain
        return plain + "; default over plain " + both(lambda device: default_over_plain(words[0], device), "%.2f")
    return ""


def lines():
    yield "| model | launches | MiB a step | " + " | ".join("%s: ms, tokens/s, share, v(8), v(16), v(32)" % d for d in BANDWIDTH) + " |"
    yield "| --- | --- | --- | " + " | ".join("---" for _ in BANDWIDTH) + " |"
    models = [m for kind in ("f16", "q8_0", "q4_k") for m in shapes(kind).values()] + list(REAL.values())
    for m in models:
        yield "| %s | %d | %.0f | %s |" % (m.name, m.launches(), weights_of(m) / 2**20, " | ".join(
            "%.2f, %.0f, %.2f, %.2f, %.2f, %.2f" % (1e3 * step_seconds(m, d), tokens_per_second(m, d), share(m, d), v(m, d, 8),
                                                    v(m, d, 16), v(m, d, 32)) for d in BANDWIDTH))


def of_drafts():
    yield "| model | tokens, rows a verify pass | no planning | " + " | ".join("%s: default over plain" % d for d in BANDWIDTH) + " |"
    yield "| --- | --- | --- | " + " | ".join("---" for _ in BANDWIDTH) + " |"
    for name, (tokens, rows) in REPLAYED.items():
        yield "| %s | %.2f, %.1f | %.2f | %s |" % (REAL[name].name, tokens, rows, tokens / (1 + SLOPE * (rows - 1)), " | ".join(
            "%.2f" % default_over_plain(name, d) for d in BANDWIDTH))


def of_spans():
    yield "| model | blocks left out | " + " | ".join("%s: c" % d for d in BANDWIDTH) + " |"
    yield "| --- | --- | " + " | ".join("---" for _ in BANDWIDTH) + " |"
    for m in REAL.values():
        for part in (0.25, 0.5):
            n = round(part * m.blocks)
            yield "| %s | %d of %d | %s |" % (m.name, n, m.blocks, " | ".join(
                "%.2f" % draft_step(m, d, n) for d in BANDWIDTH))


def of_heads():
    yield ("| model | head of a step, MiB | copy, MiB | "
           + " | ".join("%s: head's share, screened over stored, an eighth of the copy saves a draft step" % d for d in BANDWIDTH) + " |")
    yield "| --- | --- | --- | " + " | ".join("---" for _ in BANDWIDTH) + " |"
    for m in [*shapes("f16").values(), *shapes("q8_0").values(), *REAL.values()]:
        copy = bytes_of(head_of(m, m.head[0][1], "q4_1")) / 2**20 if m.head[0][2] in SCREENED else 0
        yield "| %s | %.0f of %.0f | %.0f | %s |" % (m.name, bytes_of(m.head) / 2**20, weights_of(m) / 2**20, copy, " | ".join(
            "%.2f, %.3f, %.3f" % (head_seconds(m, d) / step_seconds(m, d), screened_over_stored(m, d), shortlist_saves(m, d))
            for d in BANDWIDTH))


def of_columns():
    yield "| model | context | " + " | ".join("%s: c, over plain" % d for d in BANDWIDTH) + " |"
    yield "| --- | --- | " + " | ".join("---" for _ in BANDWIDTH) + " |"
    q = lambda name, kind: shape(name + " " + kind, 64, 5120, 1024, 27648, 152064, kind)
    for m in (REAL["qwen2.5-coder-0.5b"], shapes("bf16")["8b"], shapes("q4_k")["8b"], q("32B", "q4_k")):
        for context in (1024, 16384):
            yield "| %s | %d | %s |" % (m.name, context, " | ".join(
                "%.2f, %.2f" % column_drafts(m, d, context) for d in BANDWIDTH))


if __name__ == "__main__":
    print("\n".join([*lines(), "", *of_drafts(), "", *of_spans(), "", *of_columns(), "", *of_heads()]))
