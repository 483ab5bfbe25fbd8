#!/usr/bin/env python3
"""Drafting with a low-bit copy from outside: the text stays, the copy is kept, and what is wrong is said."""
import json
import os
import resource
import subprocess

from support import PROMPT, SWIFTLET, EndToEnd, main, run

MODEL = "synth:layers=4,dim=256,heads=4,kv-heads=2,ffn=512,vocab=1024,dtype=f16"


class LowBit(EndToEnd):
    def generate(self, *options, model=MODEL, **more):
        result = run("run", model, "-p", PROMPT, "-n", "48", "--json", "--seed", "3", *options, **more)
        self.status(0, result)
        return json.loads(result.stdout)["tokens"], result.stderr.decode()

    def files(self):
        return sorted(os.listdir(self.path("cache")))

    def test_text_stays_and_the_copy_is_kept(self):
        cache = ["--draft-cache", self.path("cache")]
        for model in [MODEL, "builtin"]:
            for options in [[], ["--temp", "0.8"]]:
                plain, message = self.generate("--method", "vanilla", *options, model=model)
                self.assertNotIn("copy for drafting", message)
                for more in [["--draft-bits", "4"], ["--draft-bits", "3", "--draft", "always"], ["--draft-bits", "8"]]:
                    tokens, message = self.generate(*options, *more, *cache, model=model)
                    self.assertEqual(tokens, plain)
                    self.assertIn("copy for drafting", message)
                    self.assertIn("MiB", message)
        # builtin has no rows of whole super-blocks: 3 bits become 4
        self.assertEqual(sorted(name.split("-", 1)[1] for name in self.files()),
                         ["q3_k.low", "q4_0-woven.low", "q4_k-woven.low", "q8_0.low", "q8_0.low"])
        _, message = self.generate("--draft-bits", "4", *cache)
        self.assertIn("found in", message)

    def test_the_users_cache(self):
        environment = dict(os.environ, XDG_CACHE_HOME=self.path("xdg"))
        _, message = self.generate("--draft-bits", "4", env=environment)
        self.assertIn("made in", message)
        self.assertEqual(len(os.listdir(self.path("xdg/swiftlet"))), 1)
        _, message = self.generate("--draft-bits", "4", "--draft-cache", "off", env=environment)
        self.assertIn("made in", message)

    def test_a_damaged_file_is_made_anew(self):
        cache = ["--draft-bits", "4", "--draft-cache", self.path("cache")]
        plain, _ = self.generate(*cache)
        [name] = self.files()
        path = os.path.join(self.path("cache"), name)
        with open(path, "rb") as file:
            good = file.read()
        for bad in [b"", b"x" * 1000, good[:-1], good[:5000] + bytes([good[5000] ^ 1]) + good[5001:]]:
            with open(path, "wb") as file:
                file.write(bad)
            tokens, message = self.generate(*cache)
            self.assertEqual(tokens, plain)
            self.assertIn("made anew: " + path, message)
            with open(path, "rb") as file:
                self.assertEqual(file.read(), good)

    def test_a_full_disk(self):
        result = subprocess.run(
            [SWIFTLET, "run", MODEL, "-p", PROMPT, "-n", "8", "--draft-bits", "4", "--draft-cache", self.path("cache")],
            capture_output=True, timeout=600,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100000, 100000)))
        message = result.stderr.decode()
        self.assertEqual(result.returncode, 0, message)
        self.assertIn("not kept for the next start", message)
        self.assertIn("File too large", message)
        self.assertEqual(self.files(), [])

    def test_refusals(self):
        message = self.status(1, run("run", MODEL, "-p", PROMPT, "--draft-bits", "4", "--draft-memory", "100K"))
        self.assertIn("more than the 0.1 MiB allowed", message)
        for options, word in [(["--draft-bits", "5"], "auto off 3 4 8"), (["--draft-memory", "lots"], "800M"),
                              (["--draft-cache", ""], "a folder")]:
            self.assertIn(word, self.status(2, run("run", MODEL, "-p", PROMPT, *options)))

    def test_bench(self):
        result = run("bench", "swift", "-m", MODEL + ",plant=0.45", "--parts", "d", "--slices", "2", "--json")
        self.status(0, result)
        told = json.loads(result.stdout)
        self.assertEqual([way["name"] for way in told["ways"]], ["skip", "low-bit", "both"])
        self.assertEqual([way["skipped"] > 0 for way in told["ways"]], [True, False, True])
        self.assertEqual(told["copy"]["type"], "q4_k")
        self.assertGreater(told["copy"]["bytes"], 0)
        self.assertEqual(told["tokens_differing"], 0)
        self.assertGreater(told["ways"][1]["predicted"], 0.6)
        small = run("bench", "swift", "-m", MODEL.replace("f16", "q4_k"), "--parts", "d", "--slices", "2")
        self.status(0, small)
        self.assertIn("as small already", small.stdout.decode())

    def test_the_default(self):
        """Made in the background where the weights are large: the text stays, whatever becomes of the copy."""
        large = "synth:layers=4,dim=1024,heads=8,kv-heads=4,ffn=2816,vocab=4096,dtype=f16"
        cache = self.path("cache")
        plain, _ = self.generate("--method", "vanilla", model=large)
        for options in [["--draft-cache", cache], ["--draft-cache", "/proc/nowhere"], ["--draft-memory", "1M"],
                        ["--draft-bits", "off"], ["--draft-cache", cache]]:
            tokens, _ = self.generate(*options, model=large)
            self.assertEqual(tokens, plain)
        tokens, message = self.generate("--draft-bits", "4", "--draft-cache", cache, model=large)
        self.assertEqual(tokens, plain)
        tokens, _ = self.generate("--draft-cache", cache, model=large)
        self.assertEqual(tokens, plain)


main()
