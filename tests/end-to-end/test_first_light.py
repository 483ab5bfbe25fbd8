"""tools/cuda-first-light: its plan, and its steps rehearsed without a GPU."""
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
        with open(os.path.join(SOURCE, "tools", "cuda-bench.md"), encoding="utf-8") as file:
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

    def test_every_kind_of_figure_is_read(self):
        for steps in ("first token", "cost by rows, 13B Q8_0", "70B", "the method", "skipping, a copy"):
            for line in self.tool("--rehearse", "--only", steps).splitlines():
                self.assertTrue(json.loads(line)["figures"])


if __name__ == "__main__":
    main()
