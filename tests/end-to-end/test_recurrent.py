#!/usr/bin/env python3
"""Promise 1 for models with recurrent blocks: every method, trees, sampled and greedy, several sequences at once, a
prefix that is reused at odd lengths and a request that is cancelled give the tokens of plain decoding.

The models are of tests/core/golden/configs, their weights made by the rule of tools/oracle/configs.py: a few of them, and
all in a full run. SWIFTLET_CASES names others, of any family, by the beginnings of their names.
"""
import json
import os
import pathlib
import random
import struct
import threading
import urllib.request

from service import Server
from support import FULL, SOURCE, EndToEnd, main, run, write_lines

GOLDEN = pathlib.Path(SOURCE, "tests", "core", "golden")
RECURRENT = ("qwen3_5", "qwen3_next", "lfm2", "granitemoehybrid-mamba", "nemotron_h", "falcon_h1")
FEW = ("qwen3_5_text-plain", "qwen3_5_text-one-head-wide-taps", "qwen3_5_moe_text-fused", "qwen3_next-plain", "lfm2-plain",
       "lfm2_moe-plain", "granitemoehybrid-mamba-experts",
       "nemotron_h-experts", "falcon_h1-plain")
CASES = tuple(os.environ.get("SWIFTLET_CASES", "").split())
ON_TOKENS = ("falcon_h1", "gemma3n", "gemma4", "cohere2")  # their blocks read more than the stream, so CLaSp is refused
SKIPPING = ("mask", "uniform", "random", "clasp")  # not for two blocks, since the first and the last are never skipped
MASK = 2**64 - 1
METHODS = ("swift", "ngram", "jacobi", "lookahead", "uniform", "random", "clasp", "layerskip", "adaspeed")


def values(name, n, scale, offset):
    """splitmix64 counted from the name's FNV-1a hash, as tests/core/test_configs.c makes them."""
    seed = 14695981039346656037
    for byte in name.encode():
        seed = (seed ^ byte) * 1099511628211 & MASK
    for i in range(1, n + 1):
        z = seed + i * 0x9e3779b97f4a7c15 & MASK
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9 & MASK
        z = (z ^ z >> 27) * 0x94d049bb133111eb & MASK
        z ^= z >> 31
        yield offset + scale * ((z >> 40) / 16777216.0 - 0.5)


def names(entry):
    out = [entry["name"]]
    for n in entry["of"]:
        out = [name.replace("*", str(i), 1) for name in out for i in range(n)]
    return out


def make_folder(case, folder, given=None):
    """given: values of some tensors by name."""
    os.makedirs(folder, exist_ok=True)
    header, parts, at = {}, [], 0
    for entry in case["tensors"]:
        n = 1
        for size in entry["shape"]:
            n *= size
        for name in names(entry):
            if entry.get("integers"):
                parts.append(struct.pack("<%dq" % n, *((i * entry["scale"] + entry["offset"]) % n for i in range(n))))
            else:
                parts.append(struct.pack("<%df" % n, *((given or {}).get(name) or
                                                       values(name, n, entry["scale"], entry["offset"]))))
            header[name] = {"dtype": "I64" if entry.get("integers") else "F32", "shape": entry["shape"],
                            "data_offsets": [at, at + len(parts[-1])]}
            at += len(parts[-1])
    text = json.dumps(header).encode()
    pathlib.Path(folder, "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))
    pathlib.Path(folder, "config.json").write_text(json.dumps(case["config"]))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        pathlib.Path(folder, name).write_bytes((GOLDEN / "tokenizer" / name).read_bytes())
    return folder


class Recurrent(EndToEnd):
    def models(self):
        for path in sorted((GOLDEN / "configs").glob("*.json")):
            if path.stem.startswith(CASES) if CASES else path.stem.startswith(RECURRENT) and (FULL or path.stem in FEW):
                yield path.stem, make_folder(json.loads(path.read_text()), self.path(path.stem))

    def prompts(self, seed, n, tokens):
        rng = random.Random(seed)
        said = "the and or in it is on at "
        lines = [{"id": str(i), "prompt": "".join(rng.choice(["the ", "and ", "x", "in the ", "q"])
                                                  for _ in range(rng.choice([9, 30, 70]))),
                  "max_tokens": tokens} for i in range(n)]
        for line in lines[1::2]:  # every second one goes on where the one before began
            line["prompt"] = lines[int(line["id"]) - 1]["prompt"][:rng.randrange(3, 60)] + said[:rng.randrange(25)]
        return lines

    def test_every_method(self):
        tokens = drafted = accepted = 0
        ways = [(method, ["--method", method]) for method in METHODS]
        ways += [("mask", ["--draft", "always", "--mask", self.path("mask"), "--threshold", "0", "--max-tree", "paper"]),
                 ("tree", ["--draft", "always", "--threshold", "0", "--max-tree", "64", "--tree-top-k", "6,6,6,6"]),
                 ("low", ["--draft", "always", "--draft-bits", "4", "--threshold", "0"]),
                 ("default", [])]
        for name, model in self.models():
            write_lines(self.path("in"), self.prompts(len(name), 4, 90))
            skips = json.loads(run("inspect", model, "--json").stdout)["skippable_layers"] // 2
            write_lines(self.path("mask"), [{"m": {"attention": [1, 2][:skips], "mlp": [1]}}])
            for sampling in [], ["--temp", "0.9", "--seed", "5"]:
                base = ["-m", model, "-i", self.path("in"), *sampling]
                plain = self.stream(*base, "--method", "vanilla")
                for way, options in ways:
                    if way == "clasp" and name.startswith(ON_TOKENS) or way in SKIPPING and not skips:
                        continue
                    with self.subTest(model=name, way=way, sampling=sampling):
                        lines = self.stream(*base, *options)
                        self.assertEqual([line["tokens"] for line in lines], [line["tokens"] for line in plain])
                        drafted += sum(line["draft_steps"] for line in lines)
                        accepted += sum(line["accepted"] for line in lines)
                        tokens += sum(len(line["tokens"]) for line in lines)
        self.assertGreater(accepted, 0)
        print("%d tokens compared, %d draft steps, %d accepted" % (tokens, drafted, accepted), flush=True)

    def serve(self, model, *options):
        return Server("-m", model, *options)

    def expected(self, model, prompts):
        """Plain decoding's texts, each of a sequence of its own."""
        with self.serve(model, "--method", "vanilla", "--sessions", "1") as s:
            return [s.complete(p, **more)["choices"][0]["text"] for p, more in prompts]

    def test_service(self):
        """Many at once, prompts that go on at odd lengths where others, and their answers, began, and clients that leave."""
        self.served = 0
        for name, model in self.models():
            if CASES or name == "qwen3_5_text-plain":
                with self.subTest(model=name):
                    self.serve_all(model)
        print("%d tokens served and compared" % self.served, flush=True)

    def serve_all(self, model):
        rng = random.Random(7)
        base = "".join(rng.choice(["the ", "and ", "in it ", "x", "q "]) for _ in range(120))
        prompts = [(base[:n] + "is on the"[:n % 9], {"max_tokens": 24 + n % 17, "temperature": n % 2 * 0.8, "seed": n})
                   for n in (3, 31, 64, 65, 97, 130, 131, 180, 64, 31, 180, 99)]
        texts = self.expected(model, prompts)
        prompts += [(p + t, more) for (p, more), t in zip(prompts, texts)]  # a conversation goes on behind its answer
        texts = self.expected(model, prompts)
        for options in ["--sessions", "1"], ["--sessions", "4"], ["--sessions", "3", "--draft", "always"]:
            with self.serve(model, *options) as s:
                self.all_at_once(s, prompts, texts)
                self.leave(s, base)
                for (prompt, more), text in zip(prompts, texts):
                    self.assertEqual(self.ask(s, prompt, more), text, (options, len(prompt)))

    def ask(self, s, prompt, more):
        answer = s.complete(prompt, **more)
        self.served += answer["usage"]["completion_tokens"]
        return answer["choices"][0]["text"]

    def all_at_once(self, s, prompts, texts):
        said = [None] * len(prompts)

        def ask(i):
            said[i] = self.ask(s, *prompts[i])
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(said, texts)

    def leave(self, s, base):
        """Requests whose clients go after a part or two."""
        for i in range(4):
            body = {"prompt": base[:70 + i], "max_tokens": 100, "temperature": 0, "stream": True}
            request = urllib.request.Request(s.url + "/v1/completions", json.dumps(body).encode(),
                                             {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=900) as answer:
                for _ in range(i):
                    answer.readline()
        s.wait_until_idle()


if __name__ == "__main__":
    main()
