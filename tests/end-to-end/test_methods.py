#!/usr/bin/env python3
"""The methods from outside: what reports, traces and tables hold, that texts do not depend on the method, and the
sentence that names what is missing."""
import json

from support import DEMO, PROMPT, EndToEnd, main, read_lines, run, write_lines

RUNS = ["ngram", "jacobi", "lookahead", "uniform", "random", "clasp", "layerskip", "adaspeed", "ppd"]


class Methods(EndToEnd):
    def generate(self, *arguments):
        result = run("run", "-p", PROMPT, "-n", 40, "--raw", "--json", "--no-store", *arguments)
        self.status(0, result)
        return json.loads(result.stdout)

    def test_texts_and_traces(self):
        plain = self.generate("--method", "vanilla")
        for method in RUNS:
            with self.subTest(method):
                trace = self.path(method + ".jsonl")
                report = self.generate("--method", method, "--trace", trace)
                self.assertEqual(report["method"], method)
                self.assertEqual(report["tokens"], plain["tokens"])
                rounds = read_lines(trace)
                self.assertEqual(len(rounds), report["full_passes"])
                self.assertAlmostEqual(report["CR"], (len(report["tokens"]) - 1) / len(rounds))
                text, at = report["tokens"], 0
                for i, got in enumerate(rounds):
                    self.assertEqual(got["round"], i)
                    self.assertEqual(got["root"], text[at])
                    self.assertEqual(got["rows"][0], [got["root"], -1])
                    at += got["accepted"] + 1
                self.assertIn(at, (len(text) - 1, len(text)))  # an end token accepted has no bonus
                accepted = [got["accepted"] for got in rounds]
                self.assertAlmostEqual(report["CTAR"][0], sum(n > 0 for n in accepted) / len(rounds), delta=1.01 / len(rounds))

    def test_an_exit_is_reused_or_not(self):
        kept, dropped = (self.generate("--method", "layerskip", "--exit-block", 7, "--speculations", 3, "--reuse", reuse)
                         for reuse in ("on", "off"))
        for field in ("tokens", "draft_steps", "accepted", "full_passes", "exit_block"):
            self.assertEqual(kept[field], dropped[field])
        self.assertEqual(kept["exit_block"], 7)

    def test_table(self):
        lines = read_lines(DEMO)[:4]
        prompts = self.path("prompts.jsonl")
        write_lines(prompts, lines)
        with open(self.path("mask.json"), "w", encoding="utf-8") as file:
            json.dump({"format": "swiftlet-mask-1", "attention": [5, 9], "mlp": [9]}, file)
        result = run("bench", "methods", "-i", prompts, "--max-tokens", 12, "--methods", "auto,ngram,layerskip,self-spec,kangaroo",
                     "--mask", self.path("mask.json"), "--json")
        self.status(0, result)
        table = json.loads(result.stdout)
        self.assertEqual(table["prompts"], 4)
        self.assertEqual(set(table["methods"]), {"vanilla", "auto", "ngram", "layerskip", "self-spec", "kangaroo"})
        self.assertIn("tools/train/kangaroo.py", table["methods"].pop("kangaroo")["missing"])
        for name, row in table["methods"].items():
            self.assertEqual(row["differing"], 0, name)
            self.assertEqual(row["tokens"], table["methods"]["vanilla"]["tokens"])
            self.assertGreaterEqual(row["CR"], 1)
            self.assertEqual(set(row["tasks"]), {line["task"] for line in lines})
        self.assertAlmostEqual(table["methods"]["vanilla"]["speedup"], 1)

    def test_a_method_by_each_stop_rule(self):
        prompts = self.path("prompts.jsonl")
        write_lines(prompts, read_lines(DEMO)[:2])
        for rule in ("fixed", "product", "probe"):
            for reuse in ("on", "off"):
                result = run("bench", "methods", "-i", prompts, "--max-tokens", 24, "--methods", "adaspeed", "--stop-rule", rule,
                             "--reuse", reuse, "--exit-block", 8, "--temp", 1, "--top-p", 0.9, "--json")
                self.status(0, result)
                rows = json.loads(result.stdout)["methods"]
                self.assertEqual(set(rows), {"vanilla", "adaspeed"})
                for name, row in rows.items():
                    self.assertEqual(row["differing"], 0, name)
        result = run("bench", "methods", "--methods", "swifter")
        self.assertIn("kangaroo", self.status(2, result))

    def test_match_rate(self):
        prompts = self.path("prompts.jsonl")
        write_lines(prompts, [dict(line, max_tokens=12) for line in read_lines(DEMO)[:2]])
        result = run("bench", "match-rate", "-i", prompts, "--json")
        self.status(0, result)
        rates = json.loads(result.stdout)["rates"]
        self.assertEqual([rate["block"] for rate in rates], list(range(1, 20)))
        for rate in rates:
            self.assertEqual(rate["p_correct"], sorted(rate["p_correct"]))
            self.assertLessEqual(rate["p_correct"][-1], 1)

    def test_what_is_missing_is_said(self):
        for arguments, words in (
                (["--method", "kangaroo"], "tools/train/kangaroo.py"),
                (["--method", "self-spec"], "--save-mask"),
                (["--method", "layerskip", "--exit-block", 20], "expected 1 to 19"),
                (["--method", "ppd", "--children", 3, "--adapter", self.path("none")], "none"),
                (["--method", "auto", "--acceptance", "rejection"], "layerskip"),
        ):
            result = run("run", "-p", PROMPT, "--raw", "--no-store", *arguments)
            self.assertEqual(result.returncode, 1, arguments)
            self.assertIn(words, result.stderr.decode())
        for arguments, words in ((["--method", "skip"], "kangaroo"), (["--children", 11], "from 1 to 10"),
                                 (["--stop-rule", "never"], "product")):
            result = run("run", "-p", PROMPT, "--raw", *arguments)
            self.assertEqual(result.returncode, 2, arguments)
            self.assertIn(words, result.stderr.decode())
        broken = self.path("broken.safetensors")
        with open(broken, "wb") as file:
            file.write((2).to_bytes(8, "little") + b"{}")
        for option in ("--adapter", "--heads", "--probe"):
            result = run("run", "-p", PROMPT, "--no-store", option, broken)
            self.assertEqual(result.returncode, 1)
            self.assertIn("broken.safetensors", result.stderr.decode())
            self.assertIn("tools/train", result.stderr.decode())

    def test_inspect_lists_methods(self):
        result = run("inspect", "builtin")
        self.status(0, result)
        text = result.stdout.decode()
        for method in RUNS:
            self.assertIn(method, text)
        self.assertIn("--method kangaroo needs an adapter", text)


if __name__ == "__main__":
    main()
