#!/usr/bin/env python3
"""Prints what the tests of core/oracle say, as a table: family, form, types, test, tokens that equal the judge's, the
largest difference of a logit (of the row's largest, with the cache in F32 and F16) and what is allowed.

Usage: tools/oracle/table.py [BUILD]   (needs nothing but the build; runs build/tests/test-core-oracle)
"""
import argparse
import collections
import json
import os
import pathlib
import re
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "core" / "golden"


# GGUF files by the end of their folder's name, as gguf_models.py makes them; the others hold F16.
GGUF = {"floats": "F32 F16 BF16", "single-experts": "F32 F16 BF16", "mxfp4": "MXFP4 BF16",
        "legacy": "Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 IQ4_NL", "-k": "Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_XS",
        "codebooks": "IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S TQ1_0 TQ2_0 MXFP4"}


def types_of(folder):
    """Element types of the matrices, as the files name them."""
    found = collections.Counter()
    for path in folder.glob("*.safetensors"):
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        found.update(t["dtype"] for n, t in header.items() if n != "__metadata__" and len(t["shape"]) > 1)
    return " ".join(sorted(found))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default=str(ROOT / "build"))
    build = pathlib.Path(parser.parse_args().build)
    said = subprocess.run([build / "tests" / "test-core-oracle"], env={**os.environ, "SWIFTLET_SOURCE": str(ROOT)},
                          capture_output=True, text=True)
    text = said.stdout + said.stderr
    worst = collections.defaultdict(dict)
    for name, cache, figure in re.findall(r"^(\S+), \S+, cache (\S+): logits within (\S+) of", text, re.M):
        worst[name][cache] = max(float(figure), worst[name].get(cache, 0))
    failed = set(re.findall(r"FAILED  \] (\S+)", text))
    print("| test | types | tokens equal | cache F32 | cache F16 |\n| --- | --- | --- | --- | --- |")
    for name in sorted(worst):
        folder = GOLDEN / name
        tokens = len(json.loads((folder / "golden.json").read_text())["tokens"])
        form = next((t for end, t in GGUF.items() if name.endswith(end)), "F16") if name.startswith("gguf") else \
            types_of(folder) or "F16"
        shown = [f"{worst[name][c]:.1e}" if c in worst[name] else "" for c in ("f32", "f16")]
        print(f"| {name} | {form} | {'differ' if name in failed else f'{tokens} of {tokens}'} | {' | '.join(shown)} |")
    print(f"\n{len(worst)} models, {len(failed)} failed")
    raise SystemExit(said.returncode)


if __name__ == "__main__":
    main()
