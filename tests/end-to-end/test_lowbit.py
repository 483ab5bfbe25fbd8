#!/usr/bin/env python3
"""Drafting with quantized draft weights from outside: the text stays, and what is wrong is said."""
import json

from support import PROMPT, EndToEnd, main, run

MODEL = "synth:layers=4,dim=256,heads=4,kv-heads=2,ffn=512,vocab=1024,dtype=f16"


class LowBit(EndToEnd):
    def generate(self, *options, model=MODEL, **more):
        result = run("run", model, "-p", PROMPT, "-n", "48", "--json", "--seed", "3", *options, **more)
        self.status(0, result)
        return json.loads(result.stdout)["tokens"], result.stderr.decode()

    def test_text_stays(self):
        for model in [MODEL, "builtin"]:
            for options in [[], ["--temp", "0.8"]]:
                plain, message = self.generate("--method", "vanilla", *options, model=model)
                self.assertNotIn("draft weights", message)
                for more in [["--draft-bits", "4"], ["--draft-bits", "8", "--draft", "always"], ["--draft-bits", "8"]]:
                    tokens, message = self.generate(*options, *more, model=model)
                    self.assertEqual(tokens, plain)
                    self.assertIn("draft weights", message)
                    self.assertIn("MiB", message)
        channels = "4 bits by input channel"
        for bits, model, kind in [("4", MODEL, channels), ("8", MODEL, "q8_0"), ("4", "builtin", channels), ("8", "builtin", "q8_0")]:
            _, message = self.generate("--draft-bits", bits, model=model)
            self.assertIn("draft weights: " + kind, message)
            self.assertIn("made in", message)

    def test_drafts_take_the_coarse_head(self):
        for options in [[], ["--temp", "0.8"], ["--temp", "0.8", "--top-p", "0.9"]]:
            plain, _ = self.generate("--method", "vanilla", "--screened-head", "off", *options, model="builtin")
            for more in [[], ["--draft", "always"]]:
                tokens, _ = self.generate("--draft-bits", "4", "--screened-head", "on", *options, *more, model="builtin")
                self.assertEqual(tokens, plain)

    def test_refusals(self):
        message = self.status(1, run("run", MODEL, "-p", PROMPT, "--draft-bits", "4", "--draft-memory", "100K"))
        self.assertIn("more than the 0.1 MiB allowed", message)
        for options, word in [(["--draft-bits", "5"], "auto off 4 8"), (["--draft-memory", "lots"], "800M")]:
            self.assertIn(word, self.status(2, run("run", MODEL, "-p", PROMPT, *options)))

    def test_bench(self):
        result = run("bench", "swift", "-m", MODEL + ",plant=0.45", "--parts", "d", "--slices", "2", "--json")
        self.status(0, result)
        reported = json.loads(result.stdout)
        self.assertEqual([way["name"] for way in reported["ways"]], ["skip", "low-bit", "both"])
        self.assertEqual([way["skipped"] > 0 for way in reported["ways"]], [True, False, True])
        self.assertEqual(reported["copy"]["type"], "4 bits by input channel")
        self.assertGreater(reported["copy"]["bytes"], 0)
        self.assertEqual(reported["tokens_differing"], 0)
        self.assertGreater(reported["ways"][1]["predicted"], 0.6)
        small = run("bench", "swift", "-m", MODEL.replace("f16", "q4_k"), "--draft-bits", "8", "--parts", "d", "--slices", "2")
        self.status(0, small)
        self.assertIn("as small already", small.stdout.decode())

    def test_the_default(self):
        """Made between the first tokens where the weights are large: the text stays, however much of it is made."""
        large = "synth:layers=4,dim=1024,heads=8,kv-heads=4,ffn=2816,vocab=4096,dtype=f16"
        plain, _ = self.generate("--method", "vanilla", model=large)
        for options in [[], ["--draft-memory", "1M"], ["--draft-bits", "off"], ["--draft-bits", "4"]]:
            tokens, _ = self.generate(*options, model=large)
            self.assertEqual(tokens, plain)


main()
