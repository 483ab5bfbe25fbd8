#!/usr/bin/env python3
"""bench cold: both texts are compared, its parts add up, and nothing of an earlier run is found or left."""
import json
import os
import subprocess
import sys
import xml.etree.ElementTree

from support import SOURCE, EndToEnd, main, run

MODEL = "synth:layers=6,dim=256,heads=4,kv-heads=2,ffn=512,vocab=1024,dtype=f16,plant=0.45"
# without Bayesian proposals: what their thread took is taken off plain decoding when it was that which ran
ALONE = ["--bayes-interval", "0"]


class BenchCold(EndToEnd):
    def measure(self, *options, **more):
        result = run("bench", "cold", *options, "--json", **more)
        self.status(0, result)
        return json.loads(result.stdout)

    def test_adds_up(self):
        told = self.measure("-m", MODEL, "-n", "100", "--slice", "8", *ALONE)
        self.assertEqual((told["tokens"], told["tokens_compared"], told["tokens_differing"]), (100, 100, 0))
        quarters = told["quarters"]
        # the first token comes with the prefill
        self.assertEqual(sum(quarter["tokens"] for quarter in quarters), 99)
        self.assertEqual(len(quarters), 4)
        for quarter in quarters:
            self.assertGreater(quarter["plain_seconds"], 0)
        for kind, name in [("plain", "plain"), ("draft", "draft"), ("verify", "verify"), ("search", "optimize")]:
            self.assertAlmostEqual(sum(quarter[kind] for quarter in quarters), told["seconds"][name], places=6)
        self.assertAlmostEqual(sum(quarter["seconds"] for quarter in quarters), told["seconds"]["decode"], places=6)
        self.assertEqual(told["plain_steps"] + told["verify_passes"], told["full_passes"])
        self.assertGreater(told["full_passes"], 0)
        for kind in ("tokens", "seconds", "plain_seconds"):
            self.assertAlmostEqual(sum(part[kind] for part in told["course"]), sum(quarter[kind] for quarter in quarters), places=6)
        self.draws(told)

    def draws(self, told):
        """plot_cold.py: a row and a line each run, and a word about a file that is something else."""
        for name, content in [("run.json", told), ("other.json", {"model": "x", "course": 1})]:
            with open(self.path(name), "w") as f:
                json.dump(content, f)
        plot = [sys.executable, os.path.join(SOURCE, "tools", "plot_cold.py")]
        result = subprocess.run(plot + [self.path("run.json")] * 2 + ["-o", self.path("cold.svg")], capture_output=True)
        self.status(0, result)
        self.assertEqual(result.stdout.decode().count("layers=6"), 2)
        lines = xml.etree.ElementTree.parse(self.path("cold.svg")).getroot().findall("{http://www.w3.org/2000/svg}polyline")
        self.assertEqual([len(line.get("points").split()) for line in lines], [sum(part["tokens"] > 0 for part in told["course"])] * 2)
        refused = subprocess.run(plot + [self.path("other.json")], capture_output=True)
        self.assertEqual(refused.returncode, 1)
        self.assertIn(b"other.json: not what", refused.stderr)

    def test_leaves_nothing(self):
        environment = dict(os.environ, XDG_CACHE_HOME=self.path("cache"), XDG_STATE_HOME=self.path("state"))
        self.measure("-m", MODEL, "-n", "40", env=environment)
        self.assertFalse(os.path.exists(self.path("cache")) or os.path.exists(self.path("state")))

    def test_a_prompt(self):
        table = run("bench", "cold", "builtin", "-p", "Question: Tom has 3 apples.", "-n", "40", *ALONE)
        self.status(0, table)
        self.assertRegex(table.stdout.decode(), r"over plain +\d")
        self.assertRegex(table.stdout.decode(), r"tokens compared with plain decoding's, 0 differ")

    def test_wrong_usage(self):
        for options, word in [(["--method", "vanilla"], "expected auto or swift"), (["-n", "3"], "16"), (["--slice", "0"], "1")]:
            self.assertIn(word, self.status(2, run("bench", "cold", "builtin", *options)))


main()
