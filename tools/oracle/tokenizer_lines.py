#!/usr/bin/env python3
"""Ids of lines of mixed scripts, emoji and code, as the reference libraries give them.

Writes into OUT (tests/core/golden): lines.json with the first 1,000 lines; lines_NAME.json with, for each
line, the number of ids and their FNV-1a hash, so that the files stay small; and the small tokenizers that
are trained here on the spot (unigram and byte-level BPE as tokenizer.json, unigram as tokenizer.model).
References: sentencepiece for its own models, Hugging Face tokenizers for the rest, whose byte-level
tokenizers are rebuilt from the vocabularies in SHARED/vocab with each published pre-tokenizer.
With --compare the library of this source tree is compiled and compared on all 10,000 lines and every
prompt of SHARED/streams.
"""
import argparse
import ctypes
import io
import json
import pathlib
import random
import subprocess
import tempfile

import gguf
import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

SOURCE = pathlib.Path(__file__).resolve().parents[2]
GOLDEN_LINES = 1000

RANGES = [(0x20, 0x7e)] * 3 + [
    (0xa0, 0x24f), (0x370, 0x3ff), (0x400, 0x4ff), (0x590, 0x5ff), (0x600, 0x61b), (0x620, 0x6ff), (0x900, 0x97f),
    (0xe00, 0xe7f), (0x1100, 0x11ff), (0x1780, 0x17ff), (0x2000, 0x206f), (0x2190, 0x21ff), (0x300, 0x36f),
    (0x2460, 0x24ff), (0x3040, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0x1f300, 0x1f64f), (0x1f900, 0x1f9ff),
    (0xff00, 0xffef), (0x1d400, 0x1d7ff), (0x10400, 0x1044f)]
WORDS = (
    "the a of and to in is that for it with as def return import class self print if else while for x y i n 0 1 2 "
    "3.14 42 1000 2026 'tis don't I'm we'll they've it's HELLO World camelCase snake_case __init__ foo() bar[] {} => "
    "!= == :: // /* */ # @ $ % & ~ `code` http://example.org/a?b=c&d=e na\u00efve caf\u00e9 \u00dcn\u00efc\u00f6d\u00e9 "
    "se\u00f1or Stra\u00dfe \u041f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440 \u03b3\u03b5\u03b9\u03ac "
    "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0928\u092e\u0938\u094d\u0924\u0947 "
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35 \u4f60\u597d\u4e16\u754c \u3053\u3093\u306b\u3061\u306f "
    "\uc548\ub155\ud558\uc138\uc694 \U0001f999 \U0001f469\u200d\U0001f469\u200d\U0001f467 "
    "\U0001f3f3\ufe0f\u200d\U0001f308 \u00bd \u00b2 \u2460 <s> </s> <unk> <|endoftext|> \u2581 \\t \\n").split(" ")
SPACES = [" ", "  ", "   ", "\t", "\n", "\n\n", "    ", "\n    ", "\u00a0", "\u3000", " \n ", "\r\n"]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
CJK = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
# DeepSeek-LLM lists the letters that have a case, range by range.
CASED = """41-5A 61-7A B5 C0-D6 D8-F6 F8-1BA 1BC-1BF 1C4-293 295-2AF 370-373 376 377 37B-37D 37F 386 388-38A 38C
38E-3A1 3A3-3F5 3F7-481 48A-52F 531-556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA 1CBD-1CBF 1D00-1D2B 1D6B-1D77
1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D 1F80-1FB4 1FB6-1FBC 1FBE
1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113 2115 2119-211D 2124 2126
2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4 2CEB-2CEE 2CF2 2CF3 A640-A66D
A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A FF41-FF5A 10400-1044F 104B0-104D3
104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943""".split()
CASED = "".join("-".join(chr(int(end, 16)) for end in item.split("-")) for item in CASED)


def mixed(n):
    draw, out = random.Random(7), []
    for _ in range(n):
        parts = []
        for _ in range(draw.randint(1, 12)):
            kind = draw.random()
            if kind < 0.6:
                parts.append(draw.choice(WORDS))
            elif kind < 0.85:
                low, high = draw.choice(RANGES)
                parts.append("".join(chr(draw.randint(low, high)) for _ in range(draw.randint(1, 8))))
            else:
                parts.append(draw.choice(SPACES))
            if draw.random() < 0.6:
                parts.append(" ")
        out.append("".join(parts))
    return out


def prompts(shared):
    return [json.loads(line)["prompt"] for name in ("humaneval", "spec-bench", "tiny-tasks-shuffled")
            for line in open(shared / "streams" / f"{name}.jsonl")]


def isolated(pattern):
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def pre_tokenizer(name):
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    gpt2 = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    digits = pre_tokenizers.Digits(True)
    marks = "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+"
    return pre_tokenizers.Sequence({
        "gpt-2": [gpt2],
        "llama-bpe": [isolated(LLAMA3), letters],
        "qwen2": [isolated(QWEN2), letters],
        "deepseek-coder": [isolated("[\r\n]"), isolated(r"\s?\p{L}+"), isolated(r"\s?\p{P}+"), isolated(CJK), digits,
                           letters],
        "deepseek-llm": [isolated("[\r\n]"), isolated(f"\\s?[{CASED}]+"), isolated(marks), isolated(r"\s+$"),
                         isolated(CJK), digits, letters],
        "falcon": [pre_tokenizers.Punctuation("contiguous"), gpt2, pre_tokenizers.Digits(False),
                   isolated("[0-9][0-9][0-9]")],
        "starcoder": [digits, gpt2],
    }[name])


def byte_level(file, pre):
    reader = gguf.GGUFReader(str(file))
    tokens, merges, types = (reader.fields["tokenizer.ggml." + key].contents()
                             for key in ("tokens", "merges", "token_type"))
    vocab = {token: i for i, (token, kind) in enumerate(zip(tokens, types)) if kind == 1}
    made = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(m.split(" ")) for m in merges],
                                ignore_merges=pre == "llama-bpe"))
    made.pre_tokenizer = pre_tokenizer(pre)
    made.decoder = decoders.ByteLevel()
    for i, (token, kind) in enumerate(zip(tokens, types)):
        if kind != 1:
            entry = AddedToken(token, special=kind == 3, normalized=False)
            (made.add_special_tokens if kind == 3 else made.add_tokens)([entry])
            assert made.token_to_id(token) == i
    return made


def train_unigram(texts):
    made = Tokenizer(models.Unigram())
    made.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.decoder = decoders.Metaspace()
    made.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=1500, unk_token="<unk>",
                                                            special_tokens=["<unk>", "<s>", "</s>"]))
    return made


def train_byte_level(texts):
    made = Tokenizer(models.BPE())
    made.normalizer = normalizers.NFC()
    made.pre_tokenizer = pre_tokenizer("llama-bpe")
    made.decoder = decoders.ByteLevel()
    made.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=600, special_tokens=["<|begin_of_text|>", "<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    made.add_tokens([AddedToken("foo()", single_word=False, normalized=True),
                     AddedToken("import", single_word=True, normalized=False, lstrip=True),
                     AddedToken("::", normalized=False, rstrip=True)])
    made.post_processor = processors.TemplateProcessing(
        single="<|begin_of_text|> $A", special_tokens=[("<|begin_of_text|>", made.token_to_id("<|begin_of_text|>"))])
    return made


def train_sentencepiece(texts):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=out, model_type="unigram", vocab_size=1500, byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, hard_vocab_limit=False,
        user_defined_symbols=["foo()", "=="], minloglevel=2)
    return out.getvalue()


def fnv(ids):
    h = 0xcbf29ce484222325
    for i in ids:
        for byte in i.to_bytes(4, "little"):
            h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return f"{h:016x}"


class TokenList(ctypes.Structure):
    _fields_ = [("id", ctypes.POINTER(ctypes.c_int32)), ("n", ctypes.c_int), ("capacity", ctypes.c_int)]


class Ours:
    """The library of this source tree through ctypes."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory()
        made = pathlib.Path(self.folder.name) / "tokenizer.so"
        files = [file for room in ("text", "files") for file in sorted((SOURCE / "core" / room).glob("*.c"))
                 if file.stem != "chat_template"]
        files += [SOURCE / "kernels" / "error.c", *sorted((SOURCE / "kernels").glob("dtype*.c"))]
        subprocess.check_call(["cc", "-O2", "-std=c11", "-D_GNU_SOURCE", "-fPIC", "-shared", f"-I{SOURCE}", "-I/usr/include/cjson",
                               "-o", made, *files, "-lcjson", "-lpcre2-8", "-lutf8proc", "-lm"])
        self.library = ctypes.CDLL(str(made))
        for reader in ("json", "sentencepiece"):
            getattr(self.library, f"tokenizer_from_{reader}").restype = ctypes.c_void_p
        self.library.tokenizer_encode.restype = ctypes.c_bool

    def open(self, kind, data):
        problem = ctypes.create_string_buffer(512)
        made = getattr(self.library, f"tokenizer_from_{kind}")(data, ctypes.c_size_t(len(data)), None, problem)
        assert made, problem.value
        return ctypes.c_void_p(made)

    def encode(self, tokenizer, text, flags):
        data, out = text.encode(), TokenList()
        assert self.library.tokenizer_encode(tokenizer, data, ctypes.c_size_t(len(data)), flags, ctypes.byref(out))
        ids = out.id[:out.n]
        self.library.token_list_free(ctypes.byref(out))
        return ids


def references(shared, out, lines):
    """(name, kind, bytes our readers take, flags, reference) of each tokenizer."""
    def spm(file):
        return sentencepiece.SentencePieceProcessor(model_proto=file)

    def of_json(made, special=False):
        return lambda text: made.encode(text, add_special_tokens=special).ids

    found = []
    for name, file in (("tiny-tasks-spm", shared / "models/tiny-tasks-20l/tokenizer.model"),
                       ("llama-2-spm", shared / "vocab/llama-2-tokenizer.model")):
        found.append((name, "sentencepiece", file.read_bytes(), 2, spm(file.read_bytes()).encode))
    builtin = (SOURCE / "core/builtin/tokenizer.json").read_text()
    found.append(("builtin-json", "json", builtin.encode(), 0, of_json(Tokenizer.from_str(builtin))))
    for vocab in ("gpt-2", "deepseek-coder"):
        for pre in "gpt-2 llama-bpe qwen2 deepseek-coder deepseek-llm falcon starcoder".split():
            made = byte_level(shared / "vocab" / f"{vocab}.gguf", pre)
            found.append((f"{vocab}-as-{pre}", "json", made.to_str().encode(), 0, of_json(made)))
    texts = [t for t in prompts(shared) if max(map(ord, t)) < 0x250]
    for name, train in (("small-unigram", train_unigram), ("small-byte-level", train_byte_level)):
        file = out / f"{name}.json"
        if not file.exists():
            file.write_text(train(texts).to_str())
        made = Tokenizer.from_str(file.read_text())
        found.append((name, "json", file.read_bytes(), 1, of_json(made, True)))
    file = out / "small-unigram.model"
    if not file.exists():
        file.write_bytes(train_sentencepiece(texts))
    found.append(("small-unigram-spm", "sentencepiece", file.read_bytes(), 2, spm(file.read_bytes()).encode))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shared", type=pathlib.Path, help="holds vocab and streams")
    parser.add_argument("out", type=pathlib.Path, help="tests/core/golden")
    parser.add_argument("--compare", action="store_true", help="compile this source tree's library and compare it")
    args = parser.parse_args()
    shared, out = args.shared, args.out
    lines = mixed(10000)
    ours = Ours() if args.compare else None
    golden = {"lines": lines[:GOLDEN_LINES], "ids": {}}
    for name, kind, data, flags, encode in references(shared, out, lines):
        golden["ids"][name] = [[len(ids), fnv(ids)] for ids in map(encode, lines[:GOLDEN_LINES])]
        if ours:
            tokenizer, texts = ours.open(kind, data), lines + prompts(shared)
            wrong = [t for t in texts if ours.encode(tokenizer, t, flags) != list(encode(t))]
            print(f"{name}: {len(texts) - len(wrong)} of {len(texts)} equal", *map(repr, wrong[:3]), flush=True)
    with open(out / "tokenizer_lines.json", "w") as file:
        json.dump(golden, file, separators=(",", ":"))


main()
