#!/usr/bin/env python3
"""Writes kernels/dtype_codebooks.c: the points that GGUF's IQ1, IQ2 and IQ3 types choose among.

They are part of the format, as the `gguf` package publishes it: eight or four coordinates a point, each an
index into a short list of values. A point is stored as 16 bits, two or four a coordinate.

Usage: tools/oracle/codebooks.py (in an environment with gguf and numpy)
"""
import argparse
import pathlib

import gguf.quants
import numpy as np

BOOKS = {"iq1": "IQ1_S", "iq2_xxs": "IQ2_XXS", "iq2_xs": "IQ2_XS", "iq2_s": "IQ2_S", "iq3_xxs": "IQ3_XXS",
         "iq3_s": "IQ3_S"}


def points(name):
    """The 16-bit points of a type, coordinate 0 in the lowest bits."""
    kind = getattr(gguf.quants, name)
    kind.init_grid()
    grid = kind.grid.reshape(kind.grid_shape)
    index = np.searchsorted(np.array(kind.grid_map, dtype=np.float32), grid)
    bits = 16 // kind.grid_shape[1]
    return (index.astype(np.uint32) << (bits * np.arange(kind.grid_shape[1], dtype=np.uint32))).sum(1)


def main():
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    text = ("/* The points that GGUF's IQ1, IQ2 and IQ3 types choose among, as the format defines them (ggml's\n"
            " * iq1s_grid, iq2xxs_grid…). Written by tools/oracle/codebooks.py. */\n"
            '#include "kernels/dtype_blocks.h"\n\n// clang-format off\n')
    for book, name in BOOKS.items():
        values = points(name)
        text += f"const uint16_t codebook_{book}[{len(values)}] = {{\n"
        for i in range(0, len(values), 16):
            text += "\t" + ",".join(str(v) for v in values[i:i + 16]) + ",\n"
        text += "};\n\n"
    path = pathlib.Path(__file__).resolve().parents[2] / "kernels/dtype_codebooks.c"
    path.write_text(text.rstrip("\n") + "\n")
    print(f"{path.name}: {len(text)} bytes")


if __name__ == "__main__":
    main()
