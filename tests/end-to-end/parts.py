#!/usr/bin/env python3
"""Parts that some methods need, untrained: what they draft is rarely right, which is nothing that the output may show.

    parts.py FOLDER BLOCKS DIM HEADS KV_HEADS HEAD_DIM

writes adapter.safetensors, heads.safetensors, probe.safetensors and mask.json."""
import json
import pathlib
import random
import struct
import sys


def write(path, tensors, metadata):
    """safetensors: the header's length, the header, each tensor as F16. tensors: name: (shape, values)."""
    header, blob = {"__metadata__": metadata}, b""
    for name, (shape, values) in tensors.items():
        data = struct.pack("<%de" % len(values), *values)
        header[name] = {"dtype": "F16", "shape": shape, "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + blob)


def main():
    folder = pathlib.Path(sys.argv[1])
    blocks, dim, heads, kv_heads, head_dim = map(int, sys.argv[2:])
    noise, late = random.Random(1), blocks * 4 // 5
    matrix = lambda rows, columns: ([rows, columns], [noise.gauss(0, .02) for _ in range(rows * columns)])
    ones = ([dim], [1.0] * dim)
    write(folder / "adapter.safetensors", {
        "kangaroo.norm_in.weight": ones, "kangaroo.attention.q.weight": matrix(heads * head_dim, dim),
        "kangaroo.attention.k.weight": matrix(kv_heads * head_dim, dim),
        "kangaroo.attention.v.weight": matrix(kv_heads * head_dim, dim),
        "kangaroo.attention.o.weight": matrix(dim, heads * head_dim), "kangaroo.norm_out.weight": ones,
    }, {"format": "swiftlet-adapter-1", "exit_block": str(late)})
    same = ([dim, dim], [float(i == j) for i in range(dim) for j in range(dim)])
    write(folder / "heads.safetensors", {"ppd.head.%d.weight" % late: same}, {"format": "swiftlet-heads-1"})
    write(folder / "probe.safetensors", {"probe.weight": ([dim], matrix(1, dim)[1]), "probe.bias": ([1], [1.0])},
          {"format": "swiftlet-probe-1", "exit_block": str(late)})
    mask = {"attention": [blocks // 2], "mlp": [blocks // 2, blocks // 2 + 1]}
    (folder / "mask.json").write_text(json.dumps({"untrained": mask}))


main()
