#!/usr/bin/env python3
"""Ctrl-C ends a generation cleanly: what was accepted is printed, and the figures still come."""
import json
import signal
import subprocess
import time

from support import PROMPT, SWIFTLET, EndToEnd, main

STORY = "VIRGILIA:\nAy, and mine,\nThat brought you forth this boy, to keep your name\nLiving to time.\n"
# slow enough to be interrupted
SLOW = ["-n", "1900", "--isa", "reference", "--threads", "1", "--temp", "1.2"]


class Signal(EndToEnd):
    def start(self, *arguments, **more):
        return subprocess.Popen([SWIFTLET, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **more)

    def test_text_and_figures(self):
        for number in [signal.SIGINT, signal.SIGTERM]:
            process = self.start("run", "-p", STORY, *SLOW)
            first = process.stdout.read(1)
            self.assertTrue(first)
            process.send_signal(number)
            out, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 0, error)
            self.assertIn(b"(cancelled)", error)
            self.assertIn(b"tokens/s", error)

    def test_json(self):
        process = self.start("run", "--json", "-p", STORY, *SLOW)
        time.sleep(0.6)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, error)
        report = json.loads(out)
        self.assertEqual(report["stop"], "cancelled")
        self.assertGreater(len(report["tokens"]), 0)
        self.assertLess(len(report["tokens"]), 1900)

    def test_a_stream_leaves_whole_lines(self):
        with open(self.path("in"), "w", encoding="utf-8") as file:
            for i in range(50):
                file.write(json.dumps({"id": i, "prompt": STORY, "max_tokens": 1900}) + "\n")
        process = self.start("stream", "-i", self.path("in"), "--isa", "reference", "--summary", self.path("sums"))
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 1, error)
        self.assertIn(b"interrupted", error)
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(lines[-1]["stop"], "cancelled")
        with open(self.path("sums"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["total"]["instances"], len(lines))


main()
