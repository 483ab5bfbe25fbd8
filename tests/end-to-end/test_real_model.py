#!/usr/bin/env python3
"""An off-the-shelf model, SmolLM2-135M-Instruct (tools/models): every command on it, every method plain decoding's text.

Skipped where the file is not at hand (tools/test --ci fetches it)."""
import json
import os
import sys

CACHE = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
MODEL = os.path.join(CACHE, "swiftlet", "models", "smollm2-135m.gguf")
os.environ["SWIFTLET_TEST_MODEL"] = MODEL  # the server's

from service import Server  # noqa: E402
from support import SOURCE, EndToEnd, main, read_lines, run, write_lines  # noqa: E402

QUESTION = "Name three colours."
# what drafts without trained parts
METHODS = ["auto", "swift", "ngram", "jacobi", "lookahead", "uniform", "clasp"]


def prompts(n, max_tokens):
    """Prompts of different tasks."""
    lines = read_lines(os.path.join(SOURCE, "tools", "chat.jsonl"))
    return [{**lines[i * 5 % len(lines)], "max_tokens": max_tokens} for i in range(n)]


class RealModel(EndToEnd):
    def texts(self, *options):
        lines = self.stream("-m", MODEL, "-i", self.path("in.jsonl"), "--no-store", *options)
        return [(r["id"], r["tokens"], r["text"], r["stop"]) for r in lines]

    def test_every_method_gives_plain_decodings_text(self):
        write_lines(self.path("in.jsonl"), prompts(2, 32))
        for sampling, methods in ((), METHODS), (("--temp", "0.7", "--seed", "5"), ["auto"]):
            plain = self.texts("--method", "vanilla", *sampling)
            for options in [("--method", method) for method in methods] + [("--preset", "paper")]:
                with self.subTest(options=options, sampling=sampling):
                    self.assertEqual(self.texts(*options, *sampling), plain)

    def test_run_and_chat(self):
        answer = self.json(MODEL, "--chat", "-p", QUESTION, "-n", "24", "--no-store")
        self.assertTrue(answer["text"].strip())
        chat = run("chat", MODEL, "--no-store", "-n", "24", data=QUESTION.encode() + b"\n")
        self.status(0, chat)
        self.assertIn(answer["text"].strip()[:20], chat.stdout.decode())

    def test_serve(self):
        want = self.json(MODEL, "--chat", "-p", QUESTION, "-n", "24", "--no-store", "--method", "vanilla")
        body = {"messages": [{"role": "user", "content": QUESTION}], "max_tokens": 24, "temperature": 0}
        with Server() as server:
            status, reply = server.call("POST", "/v1/chat/completions", body)[::2]
        self.assertEqual(status, 200, reply)
        self.assertEqual(reply["choices"][0]["message"]["content"], want["text"])

    def test_learn_and_bench(self):
        self.status(0, run("learn", MODEL, "--seconds", "3", "--store", self.path("store.db")))
        write_lines(self.path("small.jsonl"), prompts(2, 16))
        out = run("bench", "real", MODEL, "-i", self.path("small.jsonl"), "--json", "--only", "greedy")
        self.status(0, out)
        (figures,) = json.loads(out.stdout)
        names = [v["name"] for v in figures["variants"]]
        self.assertEqual(names[:2], ["plain", "defaults"])
        self.assertIn("without retrieval", names)
        self.assertGreater(figures["tokens_compared"], 0)
        self.assertEqual(figures["tokens_differing"], 0)
        self.assertEqual((figures["by"][-1]["prompts_of"], figures["by"][-1]["prompts"]), ("all", 2))


if not os.path.exists(MODEL):
    print(f"skipped: {MODEL} is not there; tools/models smollm2-135m brings it")
    sys.exit(77)
main()
