"""Shared by the end-to-end tests: the program, its inputs, and ways to run it."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

SWIFTLET = os.environ["SWIFTLET"]
SOURCE = os.environ["SWIFTLET_SOURCE"]
SHARED = os.environ.get("SWIFTLET_SHARED", os.path.join(SOURCE, "..", "shared"))
FULL = os.environ.get("SWIFTLET_FULL") == "1"
DEMO = os.path.join(SOURCE, "streams", "demo.jsonl")
with open(SWIFTLET, "rb") as program:
    SANITIZED = b"__sanitizer" in program.read()

# A test must not begin with the store that another left.
STATE = tempfile.TemporaryDirectory(prefix="swiftlet-state-")
os.environ["XDG_STATE_HOME"] = STATE.name

PROMPT = "Question: Tom has 3 apples and buys 4 more. How many apples has Tom?\nAnswer:"
FIELDS = [
    "id", "task", "model", "backend", "method", "prompt_tokens", "cached_tokens", "tokens", "text", "stop", "seconds",
    "tokens_per_second", "full_passes", "verify_passes", "plain_steps", "draft_steps", "accepted", "M", "alpha", "CR", "CTAR",
    "exit_block", "matchness", "chosen_by", "optimize_steps", "skip_ratio", "read", "c", "expected_speedup", "speedup", "sources", "mask",
]
SECONDS = ["load", "prefill", "decode", "draft", "verify", "plain", "optimize", "other"]


def run(*arguments, data=None, timeout=900, **more):
    """Runs the program; data is given to standard input."""
    return subprocess.run([SWIFTLET, *map(str, arguments)], input=data, stdout=more.pop("stdout", subprocess.PIPE),
                          stderr=subprocess.PIPE, timeout=timeout, stdin=None if data is not None else subprocess.DEVNULL,
                          **more)


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def write_lines(path, lines):
    """Objects as JSON, bytes as they are."""
    with open(path, "wb") as file:
        for line in lines:
            file.write(line if isinstance(line, bytes) else json.dumps(line).encode())
            file.write(b"\n")


class EndToEnd(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="swiftlet-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name):
        return os.path.join(self.folder, name)

    def status(self, expected, result):
        """The exit status; no crash, whatever it is, and a message of ours when it is not 0."""
        message = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, expected, message)
        if expected != 0:
            self.assertTrue(message.startswith("swiftlet: "), message)
            self.assertNotIn("runtime error", message)
        return message

    def json(self, *arguments, **more):
        """run --json's object."""
        result = run("run", "--json", *arguments, **more)
        self.status(0, result)
        return json.loads(result.stdout)

    def stream(self, *arguments, expected=0):
        """The lines that stream wrote with -o."""
        out = self.path("out.jsonl")
        self.status(expected, run("stream", "-o", out, *arguments, timeout=3600))
        return read_lines(out)


def main():
    unittest.main(argv=[sys.argv[0], "-v"] if FULL else [sys.argv[0]])
