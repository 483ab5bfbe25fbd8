#!/usr/bin/env python3
"""Writes tests/core/golden/tekken: a small tekken.json, trained on this project's own text, and random lines with
the ids that tiktoken, whose format it is at heart, gives them.

    tekken.py                   writes the golden files
    tekken.py --compare N       compares the program's `tokenize` with tiktoken on N random strings
"""
import argparse
import base64
import json
import pathlib
import random
import subprocess
import tempfile

import tiktoken
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "core" / "golden" / "tekken"
PATTERN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
           r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
           r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
SPECIALS, SIZE = 20, 700
NAMED = ["<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[TOOL_CALLS]"]
PIECES = ["Hello", "don't", "we'Re", "HTTPServer", "ABC", "x", "12345", "½", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t",
          "!", "?!", "/", "//", "(", "привет", "日本語", "한국어", "é", "e\u0301", "ĳ", "ǅ", "हिन्दी", "🙂", "_", "'", "don’t",
          "\u00a0", "\u2028", "the ", "matchness", " of a model", "aaaa", "aaa", "ababab", "[INST]", "</s>", "tokens"]


def train():
    """Pieces by rank: all bytes, then what merging them makes."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(PATTERN), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    texts = [p.read_text() for p in sorted((ROOT / "core").rglob("*.c"))] + [" ".join(PIECES)] * 50
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=SIZE - SPECIALS + 30, show_progress=False,
                                                             initial_alphabet=sorted(alphabet)))
    plain = [b for b in range(256) if chr(b) in alphabet]
    letters = {chr(b): b for b in plain}
    letters.update({chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in plain)})
    vocabulary = tokenizer.get_vocab()
    pieces = [bytes([b]) for b in range(256)]
    pieces += [bytes(letters[c] for c in p) for p in sorted(vocabulary, key=vocabulary.get) if len(p) > 1]
    return pieces


def encoding(data):
    ranks = {base64.b64decode(e["token_bytes"]): e["rank"] + SPECIALS for e in data["vocab"]
             if e["rank"] < SIZE - SPECIALS}
    return tiktoken.Encoding("tekken", pat_str=PATTERN, mergeable_ranks=ranks,
                             special_tokens={e["token_str"]: e["rank"] for e in data["special_tokens"]})


def lines(n):
    generator = random.Random(7)
    return ["".join(generator.choice(PIECES) for _ in range(generator.randint(1, 12))) for _ in range(n)]


def compare(n, program):
    judge = encoding(json.loads((OUT / "tekken.json").read_text()))
    wrong = 0
    with tempfile.TemporaryDirectory() as scratch:
        for name in ("tekken.json",):
            (pathlib.Path(scratch) / name).write_bytes((OUT / name).read_bytes())
        config = {"model_type": "llama", "num_hidden_layers": 1, "hidden_size": 8, "num_attention_heads": 1,
                  "intermediate_size": 8, "vocab_size": SIZE}
        (pathlib.Path(scratch) / "config.json").write_text(json.dumps(config))
        for line in lines(n):
            text = pathlib.Path(scratch) / "text"
            text.write_bytes(line.encode())
            said = subprocess.run([program, "tokenize", "-m", scratch, "-f", str(text), "--json"], check=True,
                                  capture_output=True).stdout
            wrong += json.loads(said)["tokens"] != judge.encode(line, allowed_special="all")
    print(f"tekken: {n} strings, {wrong} differ")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--compare", type=int, metavar="N")
    parser.add_argument("--program", default=str(ROOT / "build" / "swiftlet"))
    options = parser.parse_args()
    if options.compare:
        return compare(options.compare, options.program)
    OUT.mkdir(parents=True, exist_ok=True)
    data = {"config": {"pattern": PATTERN, "default_vocab_size": SIZE, "default_num_special_tokens": SPECIALS,
                       "version": "v3"},
            "vocab": [{"rank": i, "token_bytes": base64.b64encode(p).decode()} for i, p in enumerate(train())],
            "special_tokens": [{"rank": i, "token_str": t, "is_control": True} for i, t in enumerate(NAMED)]}
    (OUT / "tekken.json").write_text(json.dumps(data, ensure_ascii=False).replace('{"rank"', '\n{"rank"') + "\n")
    judge = encoding(data)
    golden = [[t, judge.encode(t, allowed_special="all")] for t in lines(300)]
    (OUT / "lines.json").write_text(json.dumps(golden, ensure_ascii=False).replace("], [\"", "],\n[\"") + "\n")
    print(len(data["vocab"]), "pieces,", len(golden), "lines")


if __name__ == "__main__":
    main()
