#!/usr/bin/env python3
"""Ctrl-C ends a generation cleanly: what was accepted is printed, and the figures still come."""
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
import threading
import time

from service import wait_for
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
            self.assertIn(b"; stopped", error)
            self.assertIn(b"tokens/s", error)

    def fifo(self, name):
        """A pipe of a page with a name, open for reading: who writes into it more than that waits."""
        os.mkfifo(self.path(name))
        reading = os.open(self.path(name), os.O_RDONLY | os.O_NONBLOCK)
        fcntl.fcntl(reading, fcntl.F_SETPIPE_SZ, 4096)
        os.set_blocking(reading, True)
        return open(reading, "rb", buffering=0)

    def test_json(self):
        with self.fifo("trace") as trace:
            process = self.start("run", "--json", "-p", STORY, "--trace", self.path("trace"), *SLOW)
            waiting = select.poll()
            waiting.register(trace, select.POLLIN)
            self.assertTrue(waiting.poll(600000))  # it has generated, and cannot go on to its end
            process.send_signal(signal.SIGINT)
            reader = threading.Thread(target=trace.readall)
            reader.start()
            out, error = process.communicate(timeout=600)
            reader.join()
        self.assertEqual(process.returncode, 0, error)
        report = json.loads(out)
        self.assertEqual(report["stop"], "cancelled")
        self.assertGreater(len(report["tokens"]), 0)
        self.assertLess(len(report["tokens"]), 1900)

    def test_output_that_waits_is_written_all_the_same(self):
        """Interrupted while nobody reads, it is neither cut off nor a failure."""
        process = self.start("run", "-p", STORY, "-n", "1900", "--threads", "1")
        wait_for("the pipe to be full", lambda: self.unread(process) > 4000)
        time.sleep(0.2)  # by now it waits, as a rule
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        out, error = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, error)
        self.assertGreater(len(out), 4000)
        self.assertIn(b"; stopped", error)

    def unread(self, process):
        """Bytes in its pipe."""
        return int.from_bytes(fcntl.ioctl(process.stdout, termios.FIONREAD, bytes(4)), sys.byteorder)

    def interrupted_stream(self, seconds):
        """Interrupted so long after its first line; what became of those after it."""
        process = self.start("stream", "-i", self.path("in"), "--isa", "reference", "--summary", self.path("sums"))
        out = b""
        while not out.endswith(b"\n"):
            out += process.stdout.read(1)
        time.sleep(seconds)
        process.send_signal(signal.SIGINT)
        rest, error = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 1, error)
        self.assertIn(b"interrupted", error)
        lines = [json.loads(line) for line in (out + rest).splitlines()]
        self.assertLess(len(lines), 50)
        with open(self.path("sums"), encoding="utf-8") as file:
            self.assertEqual(json.load(file)["total"]["instances"], len(lines))
        return [line["stop"] for line in lines[1:]]

    def test_a_stream_leaves_whole_lines(self):
        with open(self.path("in"), "w", encoding="utf-8") as file:
            for i in range(50):
                file.write(json.dumps({"id": i, "prompt": STORY, "max_tokens": 1900 if i else 4}) + "\n")
        seconds, seen = 0.3, set()
        for _ in range(20):  # well into the second, when that is depends on the machine
            stops = self.interrupted_stream(seconds)
            self.assertEqual([stop for stop in stops[:-1] if stop != "length"], [])
            seen.update(stops)
            if "cancelled" in seen:
                return
            seconds *= 0.5 if stops else 2
        self.fail("never interrupted in the midst of one: %s" % seen)


main()
