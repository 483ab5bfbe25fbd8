#!/usr/bin/env python3
"""Peak memory is at most the weights, the cache and 64 MiB, with the cache filled, drafting and searching."""
import json
import os
import subprocess
import unittest

from support import FULL, SANITIZED, SWIFTLET, EndToEnd, main, run

MIB = 1 << 20
CONTEXT = 2048
MADE_UP = "synth:layers=12,dim=512,heads=8,kv-heads=4,ffn=1408,vocab=8192,dtype=f16,plant=0.45"
BILLION = "synth:tinyllama-1.1b,dtype=f16,plant=0.45"


def figures(model):
    """MiB of the weights and of a cache of CONTEXT tokens, from inspect."""
    memory = json.loads(run("inspect", model, "--json").stdout)["memory"]
    return memory["weight_bytes"] / MIB, memory["cache_bytes"] / MIB * CONTEXT / memory["cache_tokens"]


@unittest.skipIf(SANITIZED, "a sanitizer's own memory is not ours")
class Memory(EndToEnd):
    def peak(self, *arguments):
        """MiB; the largest resident set of one run."""
        with open(self.path("out"), "wb") as out, open(self.path("error"), "w+b") as error:
            process = subprocess.Popen([SWIFTLET, "run", *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=error)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            error.seek(0)
            self.assertEqual(process.returncode, 0, error.read().decode(errors="replace"))
        return usage.ru_maxrss * 1024 / MIB

    def holds(self, model, words, *arguments):
        with open(self.path("prompt"), "w", encoding="utf-8") as file:
            file.write(" ".join(["swift and true"] * words))
        weights, cache = figures(model)
        peak = self.peak("-m", model, "-f", self.path("prompt"), "--context", str(CONTEXT), "--backend", "cpu", *arguments)
        print(f"{model} {' '.join(arguments)}: {peak:.1f} MiB, weights {weights}, cache {cache}: "
              f"{peak - weights - cache:.1f} beyond them")
        self.assertLessEqual(peak, weights + cache + 64)
        return peak - weights

    def test_made_up(self):
        for preset in (["--preset", "paper"], ["--method", "vanilla"]):
            # The prompt alone fills nine tenths of the cache: what is held is really there.
            self.assertGreater(self.holds(MADE_UP, 125, "-n", "128", *preset), 0)

    def test_builtin(self):
        self.holds("builtin", 330, "-n", "128", "--preset", "paper")

    @unittest.skipUnless(FULL, "a long run: tools/test --full")
    def test_billion(self):
        self.holds(BILLION, 1, "-n", "16")


if __name__ == "__main__":
    main()
