#!/usr/bin/env python3
"""Ctrl-C ends a generation cleanly: what was accepted is printed, and the figures still come."""
import fcntl
import json
import os
import signal
import subprocess
import threading
import time

from support import SWIFTLET, EndToEnd, main

STORY = "Once upon a time"  # which goes on: 1,900 tokens, without an end
SLOW = ["-n", "1900", "--isa", "reference", "--threads", "1"]


class Signal(EndToEnd):
    def start(self, *arguments, **more):
        """Its output goes through a pipe of a page, which holds less than it has to say: it cannot have ended before it
        was interrupted, however long that takes."""
        process = subprocess.Popen([SWIFTLET, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, bufsize=0, **more)
        fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)
        return process

    def test_text_and_figures(self):
        for number in [signal.SIGINT, signal.SIGTERM]:
            process = self.start("run", "-p", STORY, *SLOW)
            first = process.stdout.read(1)
            self.assertTrue(first)
            process.send_signal(number)
            out, error = process.communicate(timeout=600)
            self.assertEqual(process.returncode, 0, error)
            self.assertIn(b"(cancelled)", error)
            self.assertIn(b"tokens/s", error)

    def test_json(self):
        os.mkfifo(self.path("trace"))
        process = self.start("run", "--json", "-p", STORY, "--trace", self.path("trace"), *SLOW)
        with open(self.path("trace"), "rb", buffering=0) as trace:
            self.assertTrue(trace.read(1))  # it has generated, and cannot go on: the trace is longer than a pipe
            process.send_signal(signal.SIGINT)
            threading.Thread(target=trace.readall).start()
            out, error = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, error)
        report = json.loads(out)
        self.assertEqual(report["stop"], "cancelled")
        self.assertGreater(len(report["tokens"]), 0)
        self.assertLess(len(report["tokens"]), 1900)

    def test_a_stream_leaves_whole_lines(self):
        with open(self.path("in"), "w", encoding="utf-8") as file:
            for i in range(50):
                file.write(json.dumps({"id": i, "prompt": STORY, "max_tokens": 1900 if i else 4}) + "\n")
        process = self.start("stream", "-i", self.path("in"), "--isa", "reference", "--summary", self.path("sums"))
        out = b""
        while not out.endswith(b"\n"):
            out += process.stdout.read(1)
        time.sleep(0.3)  # well into the second, as a rule
        process.send_signal(signal.SIGINT)
        rest, error = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 1, error)
        self.assertIn(b"interrupted", error)
        lines = [json.loads(line) for line in (out + rest).splitlines()]
        self.assertLess(len(lines), 50)
        self.assertIn([line["stop"] for line in lines[1:]], (["cancelled"], []))
        with open(self.path("sums"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["total"]["instances"], len(lines))


main()
