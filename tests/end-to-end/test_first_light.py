"""tools/cuda-first-light: its plan, and its steps rehearsed without a GPU."""
import importlib.machinery
import importlib.util
import json
import os
import re
import subprocess
import sys
import unittest

from support import SOURCE, EndToEnd, main

TOOL = os.path.join(SOURCE, "tools", "cuda-first-light")


class FirstLight(EndToEnd):
    def tool(self, *arguments):
        result = subprocess.run([TOOL, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        return result.stdout

    def test_the_plan_has_every_line_of_the_table(self):
        plan = self.tool("--dry-run")
        with open(os.path.join(SOURCE, "docs", "gpu.md"), encoding="utf-8") as file:
            commands = set(re.findall(r"`swiftlet (bench [a-z]+ -m [^ ]+)", file.read()))
        self.assertGreater(len(commands), 4)
        for command in commands:
            self.assertIn(command, plan)
        self.assertIn("test_cuda_lossless", plan)
        self.assertTrue(all(int(seconds) <= 600 for seconds in re.findall(r"(\d+) s  ", plan)))

    def test_what_needs_two_devices_is_skipped_without_them(self):
        nowhere = {**os.environ, "PATH": self.path("no-such-folder")}  # no nvidia-smi
        result = subprocess.run([sys.executable, TOOL, "--only", "over two GPUs"], stdout=subprocess.PIPE, text=True, check=False,
                                env=nowhere)
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        self.assertEqual(len(lines), 4)
        for line in lines:
            self.assertEqual((line["status"], line["words"]), ("skipped", "2 GPUs are needed, 0 at hand"))
        self.assertEqual(result.returncode, 0)

    def test_what_passed_is_not_run_again(self):
        results = self.path("light.jsonl")
        call = ["--rehearse", "--only", "7B Q8_0, context 128", "--results", results]
        with open(results, "w", encoding="utf-8") as file:
            file.write('{"step": "decode 7B Q8_0, con')  # a line that was cut off in writing
            file.write("\n")
        line = json.loads(self.tool(*call))
        self.assertEqual(line["status"], "passed")
        self.assertGreater(line["figures"]["share of bandwidth"], 0)
        self.assertEqual(self.tool(*call), "")
        self.assertIn("share of bandwidth", self.tool("--results", results, "--table"))

    def test_what_fails_is_logged_and_the_next_step_runs(self):
        broken = self.path("broken")
        with open(broken, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\necho half a line\necho the device has fallen off the bus >&2\nexit 3\n")
        os.chmod(broken, 0o755)
        results, log = self.path("failing.jsonl"), self.path("failing.log")
        call = [sys.executable, TOOL, "--rehearse", "--only", "13B Q8_0", "--results", results, "--log", log]
        ended = subprocess.run(call, stdout=subprocess.PIPE, text=True, check=False, env={**os.environ, "SWIFTLET": broken})
        lines = [json.loads(line) for line in ended.stdout.splitlines()]
        self.assertEqual(ended.returncode, 1)
        self.assertEqual([line["status"] for line in lines], ["failed"] * 2)
        with open(log, encoding="utf-8") as file:
            logged = file.read()
        for line in lines:
            self.assertIn("==== %s: failed" % line["step"], logged)
            self.assertIn("$ " + line["command"], logged)
        self.assertEqual(logged.count("the device has fallen off the bus\n\n---- its output\nhalf a line"), 2)
        self.assertEqual(logged.count("---- the device\n"), 2)
        self.assertIn("| failed |", self.tool("--results", results, "--table"))
        # what passes later counts, whatever comes after
        self.assertIn('"passed"', self.tool(*call[2:]))
        self.assertNotIn("| failed |", self.tool("--results", results, "--table"))

    def test_models_are_where_one_asks(self):
        line = json.loads(self.tool("--only", "gemma-3-270m, plain", "--models", self.path("nowhere")))
        self.assertEqual(line["status"], "skipped")
        self.assertIn("gemma-3-270m.gguf is not there: tools/models gemma-3-270m brings it", line["words"])
        plan = self.tool("--dry-run", "--models", "/models")
        for name in ("smollm2-135m", "gemma-3-270m", "qwen2.5-coder-0.5b", "qwen2.5-coder-1.5b"):
            self.assertIn("bench real MODELS/%s.gguf" % name, plan)
            self.assertIn("cuda-compare MODELS/%s.gguf" % name, plan)
        for tool in ("memcheck", "racecheck", "synccheck"):
            self.assertIn("test_cuda_sanitizer.sh %s 'first tokens'" % tool, plan)

    def test_tokens_are_compared_up_to_near_ties(self):
        sys.path.insert(0, os.path.dirname(TOOL))
        path = os.path.join(os.path.dirname(TOOL), "cuda-compare")
        loader = importlib.machinery.SourceFileLoader("cuda_compare", path)
        tool = importlib.util.module_from_spec(importlib.util.spec_from_loader("cuda_compare", loader))
        loader.exec_module(tool)
        same, other = (["a", "b", "c"], [3, 2, 1]), (["a", "x", "y"], [3, 0.2, 4])
        far, short = (["a", "x", "y"], [3, 1.5, 4]), (["a", "b"], [3, 2])
        self.assertEqual(tool.compare([same], [same], 0.25), (3, 0, []))
        self.assertEqual(tool.compare([same], [other], 0.25), (2, 1, []))
        compared, ties, mistakes = tool.compare([same, same], [far, short], 0.25)
        self.assertEqual((compared, ties), (4, 0))
        self.assertEqual([(m[1], m[2], m[3]) for m in mistakes], [(1, ["b"], ["x"]), (2, ["c"], [])])

    def test_the_page_has_the_plan_and_what_is_predicted(self):
        with open(os.path.join(SOURCE, "docs", "gpu.md"), encoding="utf-8") as file:
            page = file.read()
        table = self.tool("--table")
        self.assertEqual(table.count("\n| not yet run |"), self.tool("--dry-run").count("\n") - 1)
        if "| not yet run |  | first token |" in page:  # until a device has spoken the page's table is this one
            self.assertTrue("begin -->\n" + table + "<!-- end -->" in page, "tools/cuda-first-light --write docs/gpu.md")
        reported = subprocess.run([sys.executable, os.path.join(SOURCE, "tools", "cuda_predictions.py")], stdout=subprocess.PIPE,
                              text=True, check=True)
        self.assertTrue(reported.stdout in page, "what tools/cuda_predictions.py prints is not on the page")
        copy = self.path("page.md")
        with open(copy, "w", encoding="utf-8") as file:
            file.write(page)
        results = self.path("one.jsonl")
        with open(results, "w", encoding="utf-8") as file:
            file.write(json.dumps({"step": "decode 7B F16, context 128", "status": "passed", "date": "2026-01-02", "command": "it",
                                   "figures": {"share of bandwidth": 0.91}}) + "\n")
        self.tool("--results", results, "--write", copy)
        with open(copy, encoding="utf-8") as file:
            written = file.read()
        line = next(line for line in written.splitlines() if line.startswith("| 2026"))
        self.assertRegex(line, r"\| 2026-01-02 \| [^|]+ \| decode 7B F16, context 128 \| `it` \| share of bandwidth 0.91 \| H100 0\.\d\d, H200")
        self.assertTrue(written.split("<!--")[0] == page.split("<!--")[0])
        self.assertTrue(written.split("<!-- end -->")[1] == page.split("<!-- end -->")[1])

    def test_every_kind_of_figure_is_read(self):
        for steps in ("first token", "cost by rows, 13B Q8_0", "70B", "the method", "skipping, a copy", "smollm2-135m"):
            for line in self.tool("--rehearse", "--only", steps).splitlines():
                self.assertTrue(json.loads(line)["figures"])


if __name__ == "__main__":
    main()
