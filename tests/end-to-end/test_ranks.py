"""Several processes that share a model, started by mpirun: the tokens of one, and one sentence when one dies."""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

from support import SWIFTLET, EndToEnd, main, run

LAUNCH = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n"]
MODULE = os.path.join(os.path.dirname(SWIFTLET), "lib", "swiftlet-mpi.so")
SMALL = "synth:layers=8,dim=128,heads=4,kv-heads=2,ffn=256,vocab=512,plant=0.4,dtype="


def ranks(n, *arguments, **more):
    return subprocess.run([*LAUNCH, str(n), SWIFTLET, *map(str, arguments)], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=900, check=False, **more)


def rank_of(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            for entry in file.read().split(b"\0"):
                if entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                    return int(entry.split(b"=")[1])
    except OSError:
        pass
    return None


class Ranks(EndToEnd):
    def tokens(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        report = json.loads(result.stdout)
        self.assertGreater(len(report["tokens"]), 0)
        return report["tokens"]

    def test_the_tokens_of_one(self):
        for model in ("builtin", SMALL + "f16", SMALL + "q8_0"):
            for way in (["--temp", 0], ["--temp", 0.8, "--seed", 7]):
                call = ["run", "-m", model, "-p", "Once upon a time there was", "--raw", "-n", 48, "--json", "--no-store", *way]
                alone = self.tokens(run(*call, "--method", "vanilla"))
                for n in (2, 4) if model == "builtin" else (2,):
                    self.assertEqual(self.tokens(ranks(n, *call, "--threads", 1)), alone, (model, way, n))

    def second_rank(self, launcher):
        """The process id of rank 1, which is known once it has begun."""
        until = time.monotonic() + 900
        while time.monotonic() < until:
            found = subprocess.run(["pgrep", "-P", str(launcher)], stdout=subprocess.PIPE, check=False).stdout.split()
            for pid in map(int, found):
                if rank_of(pid) == 1:
                    return pid
            time.sleep(0.05)
        self.fail("no second rank was started")

    def test_a_rank_that_dies_ends_all_with_one_sentence(self):
        reading, writing = os.pipe()
        process = subprocess.Popen([*LAUNCH, "2", SWIFTLET, "stream", "-i", "-", "--no-store"], stdin=reading,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        os.close(reading)
        # an answer states that both are at work; what dies before it has joined is the launcher's own matter
        os.write(writing, b'{"id": 1, "prompt": "Once", "max_tokens": 4}\n')
        self.assertIn(b'"id"', process.stdout.readline())
        os.kill(self.second_rank(process.pid), signal.SIGKILL)
        _, words = process.communicate(timeout=900)
        os.close(writing)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(words.decode(), r"process rank 1 .*(exited|killed|signal)")

    def test_what_is_refused(self):
        result = ranks(2, "run", "-m", "/nowhere/model.gguf", "-p", "x", "--no-store")
        self.assertNotEqual(result.returncode, 0)
        self.assertIn(b"/nowhere/model.gguf", result.stderr)
        self.assertEqual(ranks(2, "--version").returncode, 0)


if __name__ == "__main__":
    if not shutil.which("mpirun") or not os.path.exists(MODULE):
        print("skipped: no MPI was found when swiftlet was built (Debian: libopenmpi-dev, openmpi-bin)")
        sys.exit(77)
    main()
