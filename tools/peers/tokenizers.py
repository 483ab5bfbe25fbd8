#!/usr/bin/env python3
"""Tokenizers of GGUF vocabularies: swiftlet, Hugging Face tokenizers and llama.cpp on the same texts.

    tokenizers.py speed a.gguf b.gguf …     MB/s of processor time, medians of --times turns
    tokenizers.py ids a.gguf b.gguf …       ids of --megabytes of mixed text, and where they differ

llama.cpp comes as the wheel `xllamacpp`, whose library this script calls; with `ulimit -s unlimited` it gets through long words.
Hugging Face's tokenizers are made of the GGUF file's
pieces and merges as each family's own tokenizer.json has them. All programs use one thread and are given text without special
tokens. Needs the packages tokenizers, xllamacpp and gguf.
"""
import argparse
import ctypes
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import unicodedata

sys.path.pop(0)  # this folder has scripts that are named like the packages
os.environ["TOKENIZERS_PARALLELISM"] = "false"
ROOT = pathlib.Path(__file__).resolve().parents[2]
SWIFTLET = os.environ.get("SWIFTLET", str(ROOT / "build" / "swiftlet"))

# ---- texts ---------------------------------------------------------------------------------------------------------------


def documents():
    """Text of this repository, and code."""
    files = sorted(list(ROOT.glob("docs/*.md")) + list(ROOT.glob("core/**/*.c")) + list(ROOT.glob("tools/**/*.py")))
    return "".join(f.read_text() for f in files)


def texts(size):
    """(name, text) of about so many bytes each, as `bench tokenize` makes them."""
    r = random.Random(1)
    drawn = lambda first, n, width: "".join(chr(first + r.randrange(n)) for _ in range(size // width))
    repeated = lambda unit: unit * (size // len(unit.encode()) or 1)
    return [("text", repeated(documents())[:size]), ("spaces", repeated(" ")), ("line_feeds", repeated("\n")),
            ("white_space", repeated(" \n  \t\n\n   \r\n\t\t    \n")), ("one_letter", repeated("a")),
            ("one_word", repeated("antidisestablishmentarianism")), ("letters", drawn(ord("a"), 26, 1)), ("digits", drawn(ord("0"), 10, 1)),
            ("ideographs", drawn(0x4E00, 0x51A5, 3)), ("emoji", drawn(0x1F600, 0x50, 4))]


SCRIPTS = {"Latin": (0x41, 0x24F), "Greek": (0x370, 0x3FF), "Cyrillic": (0x400, 0x4FF), "Hebrew": (0x590, 0x5FF), "Arabic": (0x600, 0x6FF),
           "Devanagari": (0x900, 0x97F), "Thai": (0xE00, 0xE7F), "Georgian": (0x10A0, 0x10FF), "Kana": (0x3040, 0x30FF),
           "Han": (0x4E00, 0x9FA5), "Hangul": (0xAC00, 0xD7A3), "symbols": (0x2000, 0x2BFF), "emoji": (0x1F300, 0x1FAFF)}


def mixed(size, seed=1):
    """Documents and code, words of many scripts, emoji, white space, digits and any assigned characters, in pieces of some
    hundred bytes."""
    r = random.Random(seed)
    source = documents()
    assigned = [chr(c) for c in range(0x20, 0x30000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]

    def words(first, last):
        return " ".join("".join(chr(r.randint(first, last)) for _ in range(r.randint(1, 9))) for _ in range(r.randint(5, 60)))

    def piece():
        kind = r.randrange(8)
        if kind < 3:
            at = r.randrange(len(source) - 600)
            return source[at:at + r.randint(50, 600)]
        if kind < 5:
            return words(*r.choice(list(SCRIPTS.values())))
        if kind == 5:
            return "".join(r.choice(" \n\t\r\u00a0\u3000\u2028") * r.choice((1, 1, 2, 3, 8, 40)) for _ in range(r.randint(1, 12)))
        if kind == 6:
            return "".join(r.choice("0123456789.,:;-+'\"!?()[]{}<>/\\_`~@#$%^&*|=") for _ in range(r.randint(5, 80)))
        return "".join(r.choice(assigned) for _ in range(r.randint(5, 100)))

    pieces, n = [], 0
    while n < size:
        pieces.append(piece())
        n += len(pieces[-1].encode())
    return pieces


# ---- the programs --------------------------------------------------------------------------------------------------------


def field(reader, name, otherwise=None):
    return reader.fields[name].contents() if name in reader.fields else otherwise


ENDS = {"<|EOT|>"}  # these end a text, so a text does not make one

QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_level_steps(name):
    """(normalizer, steps) of the tokenizer.json that the family publishes."""
    from tokenizers import Regex, normalizers, pre_tokenizers as p
    digits, words, letters = p.Digits(individual_digits=True), p.ByteLevel(add_prefix_space=False), p.ByteLevel(add_prefix_space=False, use_regex=False)
    split = lambda pattern: p.Split(Regex(pattern), "isolated")
    return {"gpt-2": (None, [words]), "smollm": (None, [digits, words]), "qwen2": (normalizers.NFC(), [split(QWEN), letters]),
            "deepseek-coder": (None, [split(r"[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split("[一-龥ࠀ-一가-퟿]+"), digits, letters])}[name]


def merges_of(pieces, score, types):
    """Every way to make a piece of two others, by the score of the piece, as the families' converters write them."""
    plain = {p for p, t in zip(pieces, types) if t == 1}
    found = [(-s, i, p[:cut], p[cut:]) for i, (p, s, t) in enumerate(zip(pieces, score, types)) if t == 1
             for cut in range(1, len(p)) if p[:cut] in plain and p[cut:] in plain]
    place = {p: i for i, p in enumerate(pieces)}
    return [(a, b) for _, _, a, b in sorted(found, key=lambda f: (f[0], f[1], place[f[2]], place[f[3]]))]


class HuggingFace:
    name = "Hugging Face"

    def __init__(self, path):
        import gguf
        from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
        reader = gguf.GGUFReader(path)
        pieces, types = field(reader, "tokenizer.ggml.tokens"), field(reader, "tokenizer.ggml.token_type")
        ids = {p: i for i, p in enumerate(pieces)}
        if field(reader, "tokenizer.ggml.model") == "gpt2":
            merges = [tuple(m.split(" ", 1)) for m in field(reader, "tokenizer.ggml.merges")]
            self.it = Tokenizer(models.BPE(ids, merges))
            normalizer, steps = byte_level_steps(field(reader, "tokenizer.ggml.pre"))
            self.it.pre_tokenizer = pre_tokenizers.Sequence(steps)
        else:
            merges = merges_of(pieces, field(reader, "tokenizer.ggml.scores"), types)
            self.it = Tokenizer(models.BPE(ids, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
            steps = [normalizers.Replace(" ", "▁")]
            if field(reader, "tokenizer.ggml.add_space_prefix", True):
                steps.insert(0, normalizers.Prepend("▁"))
            normalizer = normalizers.Sequence(steps)
        if normalizer:
            self.it.normalizer = normalizer
        self.it.add_tokens([AddedToken(p, normalized=False, special=False) for p, t in zip(pieces, types) if t == 4 and p not in ENDS])

    def encode(self, text):
        return self.it.encode_batch_fast([text], add_special_tokens=False)[0].ids

    def seconds(self, texts):
        return timed(lambda text: self.it.encode_batch_fast([text], add_special_tokens=False), texts)


def timed(call, texts):
    seconds = []
    for _, text in texts:
        began = time.process_time()
        call(text)
        seconds.append(time.process_time() - began)
    return seconds


def apart(call):
    """What the call returns, from a child process; infinity if that crashes."""
    theirs, mine = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(mine, repr(call()).encode())
        os._exit(0)
    os.close(mine)
    with os.fdopen(theirs) as said:
        text = said.read()
    os.waitpid(child, 0)
    return float(text or "inf")


class LlamaCpp:
    name = "llama.cpp"

    class Parameters(ctypes.Structure):  # llama_model_params, and some more
        _fields_ = [("byte", ctypes.c_uint8 * 256)]

    VOCABULARY_ONLY = 72  # the place of that flag in llama.cpp 2026-10

    def __init__(self, path):
        import xllamacpp
        here = pathlib.Path(xllamacpp.__file__).parent
        self.library = library = ctypes.CDLL(str(next(here.glob("xllamacpp*.so"))))
        self.quiet = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)(lambda *_: None)
        library.llama_log_set(self.quiet, None)
        library.llama_model_default_params.restype = self.Parameters
        for function in (library.llama_model_load_from_file, library.llama_model_get_vocab):
            function.restype = ctypes.c_void_p
        library.ggml_backend_load_all()
        parameters = library.llama_model_default_params()
        parameters.byte[self.VOCABULARY_ONLY] = 1
        library.llama_model_load_from_file.argtypes = [ctypes.c_char_p, self.Parameters]
        library.llama_model_get_vocab.argtypes = [ctypes.c_void_p]
        self.vocabulary = library.llama_model_get_vocab(library.llama_model_load_from_file(os.fsencode(path), parameters))
        library.llama_tokenize.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.POINTER(ctypes.c_int32), ctypes.c_int32,
                                           ctypes.c_bool, ctypes.c_bool]

    def call(self, data, out):
        return self.library.llama_tokenize(self.vocabulary, data, len(data), out, len(out), False, False)

    def encode(self, text):
        data = text.encode()
        out = (ctypes.c_int32 * (2 * len(data) + 16))()
        return out[:self.call(data, out)]

    def seconds(self, texts):
        """Each text has a process of its own: std::regex runs out of stack on long words of some vocabularies."""
        out = (ctypes.c_int32 * (2 * max(len(t.encode()) for _, t in texts) + 16))()
        return [apart(lambda: timed(lambda data: self.call(data, out), [(name, text.encode())])[0]) for name, text in texts]


class Ours:
    name = "swiftlet"

    def __init__(self, path):
        self.path = path

    def encode(self, text):
        with tempfile.NamedTemporaryFile("w", newline="") as file:
            file.write(text)
            file.flush()
            said = subprocess.run([SWIFTLET, "tokenize", "-m", self.path, "-f", file.name, "--no-special", "--json"], capture_output=True, check=True)
        return json.loads(said.stdout)["tokens"]

    def seconds(self, texts):
        with tempfile.TemporaryDirectory() as folder:
            command = [SWIFTLET, "bench", "tokenize", "-m", self.path, "--json"]
            for name, text in texts:
                (pathlib.Path(folder) / name).write_text(text, newline="")
                command += ["-f", f"{folder}/{name}"]
            speed = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        return [1e-6 * len(text.encode()) / speed[f"{name}_mb_per_second"] for name, text in texts]


# ---- what is measured ----------------------------------------------------------------------------------------------------


def speed(args):
    given = texts(int(1e6 * args.megabytes))
    for path in args.vocabulary:
        programs = [program(path) for program in (Ours, HuggingFace, LlamaCpp)]
        seconds = {p.name: [] for p in programs}
        for _ in range(args.times):
            for p in programs:
                seconds[p.name].append(p.seconds(given))
        print(f"\n| {pathlib.Path(path).stem} |", " | ".join(name for name, _ in given), "|")
        print("|---" * (len(given) + 1) + "|")
        for p in programs:
            middle = [statistics.median(turn[i] for turn in seconds[p.name]) for i in range(len(given))]
            print(f"| {p.name} |", " | ".join(f"{1e-6 * len(text.encode()) / s:.1f}" for (_, text), s in zip(given, middle)), "|", flush=True)


def ids(args):
    pieces = mixed(int(1e6 * args.megabytes))
    whole = "".join(pieces)
    for path in args.vocabulary:
        ours = Ours(path).encode(whole)
        print(f"{pathlib.Path(path).stem}: {len(whole.encode())} bytes, {len(ours)} ids", flush=True)
        for program in (HuggingFace, LlamaCpp):
            theirs = program(path).encode(whole)
            print(f"  {program.name}: {len(theirs)} ids,", different(ours, theirs), flush=True)


def different(a, b):
    """How many ids of a list lie in stretches that the other does not have, and the first of those."""
    if a == b:
        return "none different"
    import difflib
    n, first, i, j = 0, None, 0, 0
    while i < len(a) and j < len(b):
        if a[i] == b[j]:
            i, j = i + 1, j + 1
            continue
        first = first if first is not None else (i, a[i:i + 12], b[j:j + 12])
        for length in (64, 512, 4096):
            match = difflib.SequenceMatcher(None, a[i:i + length], b[j:j + length], autojunk=False)
            block = next((m for m in match.get_matching_blocks() if m.size >= 8), None)
            if block:
                break
        if not block:
            return f"different from id {i} on, first {first}"
        n, i, j = n + block.a, i + block.a, j + block.b
    return f"{n} different, first {first}"


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("speed", "ids"))
    p.add_argument("vocabulary", nargs="+")
    p.add_argument("--megabytes", type=float, help="size of each text in megabytes (speed: 3, ids: 10)")
    p.add_argument("--times", type=int, default=5)
    o = p.parse_args()
    o.megabytes = o.megabytes or (3 if o.what == "speed" else 10)
    {"speed": speed, "ids": ids}[o.what](o)
