#!/usr/bin/env python3
"""Writes tests/checkkernels/golden/blocks.bin: random blocks of every quantized GGUF type, and what the
`gguf` package dequantizes them to.

Per type: 16 bytes of name (zero-padded), u32 blocks, u32 bytes a block, u32 elements a block, the blocks,
the floats; all little-endian. The blocks' bytes are random, but for the 16-bit scales, which are random
finite halves, subnormals among them.

Usage: tools/oracle/blocks.py (in an environment with gguf and numpy)
"""
import argparse
import pathlib
import struct

import gguf
import numpy as np

TYPES = {  # name: offsets of the halves in a block
    "Q8_0": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208],
    "IQ4_NL": [0], "IQ4_XS": [0],
    "MXFP4": [], "IQ1_S": [0], "IQ1_M": [], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0],
    "IQ3_S": [0], "TQ1_0": [52], "TQ2_0": [64],
}


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    random = np.random.default_rng(20261121)
    out = bytearray()
    for name, halves in TYPES.items():
        kind = getattr(gguf.GGMLQuantizationType, name)
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        count = 16 if elements == 32 else 5
        blocks = random.integers(0, 256, (count, size), dtype=np.uint8)
        for offset in halves:
            values = (random.standard_normal(count) * 0.02).astype(np.float16)
            values[0] = np.float16(3e-6)
            blocks[:, offset:offset + 2] = values.view(np.uint8).reshape(count, 2)
        blocks[1, :] = 0
        blocks[2, [i for i in range(size) if not any(h <= i < h + 2 for h in halves)]] = 255
        if name == "IQ1_M":  # its half lies on top of four words: one that is finite
            blocks[:, 55] &= 0xbf
        if name == "MXFP4":  # no power of two that makes the largest element overflow
            blocks[:, 0] = np.minimum(blocks[:, 0], 250)
        floats = gguf.quants.dequantize(blocks, kind).astype("<f4")
        assert floats.size == count * elements and np.isfinite(floats).all()
        out += name.lower().encode().ljust(16, b"\0") + struct.pack("<III", count, size, elements)
        out += blocks.tobytes() + floats.tobytes()
    path = pathlib.Path(__file__).resolve().parents[2] / "tests/checkkernels/golden/blocks.bin"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(out)
    print(f"{path.name}: {len(out)} bytes")


if __name__ == "__main__":
    main()
