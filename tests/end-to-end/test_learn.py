"""Learned masks are kept and used: by `learn`, by serving, in idle time; and the accounts report the cost."""
import json
import os
import sqlite3
import time
import unittest

from service import Server, wait_for
from support import DEMO, EndToEnd, main, run

MODEL = "synth:layers=8,dim=64,heads=2,kv-heads=1,ffn=128,vocab=512,dtype=f32,plant=0.45"


def tokens_stored(store):
    db = sqlite3.connect(store)
    tokens = db.execute("SELECT coalesce(sum(tokens), 0) FROM mask").fetchone()[0]
    db.close()
    return tokens


class Learn(EndToEnd):
    def learn(self, store):
        """Its output; a slow machine is given longer, until a proposal has been scored."""
        for seconds in (3, 30, 300):
            result = run("learn", "--seconds", seconds, "--store", store, "--json", "-i", DEMO)
            self.status(0, result)
            said = json.loads(result.stdout) | {"asked": seconds}
            if said["proposals"] > 0:
                break
        self.assertGreater(said["proposals"], 0)
        return said

    def test_learns_before_one_serves(self):
        store = self.path("masks.db")
        said = self.learn(store)
        self.assertGreaterEqual(said["seconds"], 2)
        self.assertTrue(all(0 <= point["unseen_matchness"] <= 1 and point["rows"] > 0 for point in said["curve"]))
        self.assertGreater(tokens_stored(store), 0)
        listed = run("masks", "list", "--store", store)
        self.status(0, listed)
        self.assertGreater(len(listed.stdout.splitlines()), 1)
        table = run("learn", "--seconds", said["asked"], "--store", store)
        self.status(0, table)
        self.assertIn(b"expected speedup", table.stdout)
        self.assertRegex(table.stdout, rb"times as fast: an answer|nothing changes")
        self.assertIn(store.encode(), table.stdout)

    def test_an_answer_that_ends_at_once_is_asked_for_again_and_again(self):
        with open(self.path("short"), "w", encoding="utf-8") as file:
            json.dump({"messages": [{"role": "user", "content": "What is 2 + 3?"}]}, file)
        self.status(0, run("learn", "--seconds", 3, "--no-store", "-i", self.path("short")))

    def test_the_usual_store_is_everybodys(self):
        store = os.path.join(self.folder, "swiftlet", "masks.db")
        here = {"env": {**os.environ, "XDG_STATE_HOME": self.folder}}
        self.status(0, run("run", "-p", "Once upon a time there was a dog.", "-n", 16, "--no-store", **here))
        self.assertFalse(os.path.exists(store))
        self.status(0, run("run", "-p", "Once upon a time there was a dog.", "-n", 16, **here))
        before = tokens_stored(store)
        self.assertGreater(before, 0)
        self.status(0, run("stream", "-i", DEMO, "-o", self.path("out"), **here))
        self.assertGreater(tokens_stored(store), before)

    def test_a_store_that_cannot_be_is_no_reason_not_to_run(self):
        result = run("run", "-p", "Once", "-n", 4, env={**os.environ, "XDG_STATE_HOME": "/dev/null"})
        self.assertEqual(result.returncode, 0)
        self.assertIn(b"nothing that is learned will be kept", result.stderr)
        self.status(1, run("run", "-p", "Once", "-n", 4, "--store", "/dev/null/masks.db"))

    def test_refusals(self):
        self.status(1, run("learn", "--method", "vanilla", "--seconds", 1))
        self.status(1, run("learn", "-i", "/nowhere/prompts.jsonl", "--seconds", 1))
        self.assertIn("line 1", self.status(1, run("learn", "-i", "-", "--seconds", 1, data=b"{broken\n")))

    def test_the_first_mask_is_a_span_that_the_first_tokens_tell(self):
        prompt = " ".join("word%d" % i for i in range(40))
        fixed = ["-m", MODEL, "--max-steps", 0, "--skip-ratio", 0.45, "--no-store", "-p", prompt, "--draft", "always"]
        first = self.json(*fixed, "-n", 48)
        skipped = sorted([2 * b for b in first["mask"]["attention"]] + [2 * b + 1 for b in first["mask"]["mlp"]])
        self.assertEqual(first["optimize_steps"], 0)
        self.assertEqual(skipped, list(range(skipped[0], skipped[0] + 5)))  # floor(0.45 * 12)
        again = self.json(*fixed, "-n", 48, "--threads", 1)
        self.assertEqual(first["mask"], again["mask"])

    def test_idle_time_is_used_and_given_back_at_once(self):
        with Server("--idle-learning", "inf") as server:
            server.complete("Once upon a time", max_tokens=200, temperature=0)  # a sampled text may end before it fills a window
            wait_for("twenty steps", lambda: server.metric("swiftlet_idle_optimize_steps_total") >= 20)
            server.complete("Another day", max_tokens=8)
        with Server("--idle-learning", "off") as server:
            server.complete("Once upon a time", max_tokens=200, temperature=0)
            time.sleep(1)
            text = server.call("GET", "/metrics")[2]
            self.assertIn("swiftlet_idle_optimize_steps_total 0", text)


if __name__ == "__main__":
    main()
