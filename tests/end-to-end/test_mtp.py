#!/usr/bin/env python3
"""MTP layers of folders and GGUF files: `inspect` names them, and drafts of theirs change no token, greedy and sampled,
beside other drafters, and of many sequences at once."""
import json
import os
import pathlib
import random
import re
import struct
import subprocess
import threading

from service import Server
from support import SOURCE, SWIFTLET, EndToEnd, main, write_lines
from test_recurrent import make_folder

GOLDEN = pathlib.Path(SOURCE, "tests", "core", "golden")
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
EMBEDDING, F32 = "token_embd.weight", 0


# ---- a GGUF file with one more block -------------------------------------------------------------------------------


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, kind):
        (value,) = struct.unpack_from("<" + kind, self.data, self.at)
        self.at += struct.calcsize(kind)
        return value

    def text(self):
        n = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at]

    def skip(self, kind):
        if kind == 8:
            self.text()
        elif kind == 9:
            inner, n = self.take("I"), self.take("Q")
            for _ in range(n):
                self.skip(inner)
        else:
            self.at += SIZES[kind]


def put(text):
    return struct.pack("<Q", len(text)) + text


def with_mtp(path, out, silent=False):
    """The file with a copy of its last block with attention as its MTP layer, which reads the embedding alone. silent: no
    block adds anything, so that a token follows from the one before it alone, and the layer is always right."""
    r = Reader(path.read_bytes())
    r.at = 8
    n_tensors, n_keys = r.take("Q"), r.take("Q")
    keys, blocks, architecture = [], 0, b""
    for _ in range(n_keys):
        name, kind, at = r.text(), r.take("I"), r.at
        r.skip(kind)
        value = r.data[at:r.at]
        if name == b"general.architecture":
            architecture = value[8:]
        if name.endswith(b".block_count"):
            blocks = struct.unpack("<I", value)[0]
            value = struct.pack("<I", blocks + 1)
        keys.append(put(name) + struct.pack("<I", kind) + value)
    keys.append(put(architecture + b".nextn_predict_layers") + struct.pack("<II", 4, 1))
    tensors = []
    for _ in range(n_tensors):
        name = r.text()
        dims = [r.take("Q") for _ in range(r.take("I"))]
        tensors.append([name, dims, r.take("I"), r.take("Q")])
    start = (r.at + 31) // 32 * 32
    ends = sorted(t[3] for t in tensors) + [len(r.data) - start]
    for t in tensors:
        t.append(r.data[start + t[3]:start + ends[ends.index(t[3]) + 1]])
    for t in tensors:
        if silent and re.search(rb"(attn_output|ssm_out|ffn_down\w*)\.weight$", t[0]):
            t[4] = bytes(len(t[4]))
    own = [b for b in range(blocks) if any(t[0] == b"blk.%d.attn_output.weight" % b for t in tensors)]
    last, more = b"blk.%d." % own[-1], b"blk.%d." % blocks
    tensors += [[more + t[0][len(last):], *t[1:]] for t in tensors if t[0].startswith(last)]
    dim = next(t[1][0] for t in tensors if t[0].decode() == EMBEDDING)
    join = b"".join(struct.pack("<%df" % (2 * dim), *(float(j == i) for j in range(2 * dim))) for i in range(dim))
    ones = struct.pack("<%df" % dim, *[1.0] * dim)
    tensors.append([more + b"nextn.eh_proj.weight", [2 * dim, dim], F32, 0, join])
    norms = (b"enorm", b"hnorm") if silent else (b"enorm", b"hnorm", b"shared_head_norm")  # without the last: the model's
    tensors += [[more + b"nextn." + n + b".weight", [dim], F32, 0, ones] for n in norms]
    head, data = b"", b""
    for name, dims, kind, _, body in tensors:
        head += put(name) + struct.pack("<I%dQ" % len(dims), len(dims), *dims) + struct.pack("<IQ", kind, len(data))
        data += body + bytes(-len(body) % 32)
    file = r.data[:8] + struct.pack("<QQ", len(tensors), len(keys)) + b"".join(keys) + head
    pathlib.Path(out).write_bytes(file + bytes(-len(file) % 32) + data)
    return out


# ---- the test ------------------------------------------------------------------------------------------------------


class Mtp(EndToEnd):
    def models(self):
        for path in sorted((GOLDEN / "configs").glob("*-mtp.json")):
            yield path.stem, make_folder(json.loads(path.read_text()), self.path(path.stem))
        for name in ("gguf-qwen3-5-text-floats", "gguf-qwen3-5-moe-text-floats", "gguf-glm4-moe-floats",
                     "gguf-deepseek-v3-floats", "gguf-glm4-moe-lite-floats"):
            yield name, with_mtp(GOLDEN / name / "model.gguf", self.path(name + ".gguf"))

    def test_texts(self):
        rng = random.Random(3)
        lines = [{"id": str(i), "prompt": "".join(rng.choice(["the ", "and ", "x", "in the "]) for _ in range(9 + 40 * i)),
                  "max_tokens": 120} for i in range(3)]
        write_lines(self.path("in"), lines)
        tokens = drafted = 0
        for name, model in self.models():
            said = subprocess.run([SWIFTLET, "inspect", model, "--check", "--json"], capture_output=True, text=True, check=True).stdout
            self.assertIn("predicts the token after the next one", json.loads(said)["MTP_layer"], name)
            for sampling in [], ["--temp", "0.9", "--seed", "5"]:
                base = ["-m", model, "-i", self.path("in"), *sampling]
                plain = self.stream(*base, "--method", "vanilla")
                for options in ["--drafters", "mtp"], []:
                    with self.subTest(model=name, options=options, sampling=sampling):
                        out = self.stream(*base, *options)
                        self.assertEqual([line["tokens"] for line in out], [line["tokens"] for line in plain])
                        tokens += sum(len(line["tokens"]) for line in out)
                        drafted += sum(line["sources"].get("mtp", {"rows": 0})["rows"] for line in out)
        print("%d tokens compared, %d rows drafted" % (tokens, drafted), flush=True)

    def test_a_layer_that_is_always_right(self):
        """Its drafts are accepted. Measured times decide how many alternatives a round tries beside its first choices, many
        on a busy machine; optimizer/mtp counts the first choices alone, by a clock of its own."""
        for name in "gguf-deepseek-v3-floats", "gguf-glm4-moe-lite-floats", "gguf-qwen3-5-text-floats":
            model = with_mtp(GOLDEN / name / "model.gguf", self.path("silent-" + name + ".gguf"), silent=True)
            write_lines(self.path("in"), [{"id": str(i), "prompt": "the and x in the " * i, "max_tokens": 120} for i in (1, 2, 3)])
            base = ["-m", model, "-i", self.path("in")]
            plain = self.stream(*base, "--method", "vanilla")
            out = self.stream(*base, "--drafters", "mtp")
            self.assertEqual([line["tokens"] for line in out], [line["tokens"] for line in plain])
            of = [line["sources"]["mtp"] for line in out if "mtp" in line["sources"]]
            rows, accepted = (sum(source[k] for source in of) for k in ("rows", "accepted"))
            print("%s: %d rows, %d accepted" % (name, rows, accepted), flush=True)
            if rows >= 16:  # measured times decide how many are drafted, too
                self.assertGreater(accepted, 0, name)

    def test_many_at_once(self):
        for model in (make_folder(json.loads((GOLDEN / "configs" / "qwen3_5_text-mtp.json").read_text()), self.path("served")),
                      with_mtp(GOLDEN / "gguf-deepseek-v3-floats" / "model.gguf", self.path("right.gguf"), silent=True)):
            self.serve_many(model)

    def serve_many(self, model):
        prompts = [("the and x in the " * n, {"max_tokens": 60, "temperature": n % 2 * 0.8, "seed": n}) for n in range(1, 9)]

        def ask(s, out, i):
            out[i] = s.complete(prompts[i][0], **prompts[i][1])["choices"][0]["text"]

        texts = []
        for options in (["--method", "vanilla", "--sessions", "1"], ["--sessions", "4"],
                        ["--sessions", "4", "--drafters", "mtp"]):
            said = [None] * len(prompts)
            with Server("-m", model, *options) as s:
                threads = [threading.Thread(target=ask, args=(s, said, i)) for i in range(len(prompts))]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
            texts.append(said)
        self.assertEqual(texts[0], texts[1])
        self.assertEqual(texts[0], texts[2])


if __name__ == "__main__":
    main()
