#!/usr/bin/env python3
"""Schemas that others wrote through swiftlet, llguidance and XGrammar: which compile, which texts are taken, and how long a
mask takes on one vocabulary.

    masks.py collect FOLDER cases.jsonl [--most N]     FOLDER: maskbench/data of guidance-ai/jsonschemabench, or tests/draft7 or
                                                       tests/draft2020-12 of json-schema-org/JSON-Schema-Test-Suite, whose
                                                       folder remotes goes to --remotes
    masks.py measure cases.jsonl -m MODEL.gguf         runs all three; needs the packages llguidance, xgrammar, gguf, numpy

The libraries take schemas literally: members may come that a schema does not name. swiftlet is measured so and as it is by default.
That suite asks for its remote documents to be at hand. None of the three fetches documents, so those that a schema refers to are
written into its $defs, each with its $id, as the specification bundles documents (2020-12, core, 9.3). With --remotes the
metaschemas come from the package jsonschema-specifications.
All are given the same tokens, which swiftlet makes of the texts, and one thread. A text is taken if every token is in its mask
(swiftlet: if its bytes may come, since it allows only the longest of several spellings) and the text may end.
"""
import argparse
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.pop(0)  # this folder has a transformers.py of its own
ROOT = pathlib.Path(__file__).resolve().parents[2]
SWIFTLET = os.environ.get("SWIFTLET", str(ROOT / "build" / "swiftlet"))

WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")  # Qwen's


def load_remotes(folder):
    """The documents of the suite and the metaschemas, by URI."""
    import jsonschema_specifications
    root = pathlib.Path(folder)
    uri_of = lambda path: "http://localhost:1234/" + path.relative_to(root).as_posix()
    remotes = {uri_of(path): json.loads(path.read_text()) for path in root.rglob("*.json")}
    return remotes | {uri: jsonschema_specifications.REGISTRY.contents(uri) for uri in jsonschema_specifications.REGISTRY}


def references(value, base=""):
    """The documents that a schema refers to, and those that it holds."""
    to, held = set(), set()
    if isinstance(value, dict):
        if isinstance(value.get("$id"), str):
            base = urllib.parse.urljoin(base, value["$id"])
            held.add(urllib.parse.urldefrag(base)[0])
        written = [value[keyword] for keyword in ("$ref", "$dynamicRef") if isinstance(value.get(keyword), str)]
        to |= {urllib.parse.urldefrag(urllib.parse.urljoin(base, one))[0] for one in written}
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else []:
        more, here = references(one, base)
        to, held = to | more, held | here
    return to, held


def bundle(schema, remotes):
    """The schema with the remote documents that it needs."""
    to, held = references(schema)
    more = {}
    while needed := [uri for uri in sorted(to) if uri not in held and (uri in remotes or uri + "#" in remotes)]:
        document = remotes.get(needed[0], remotes.get(needed[0] + "#"))
        named = urllib.parse.urldefrag(document.get("$id", ""))[0] if isinstance(document, dict) else ""
        if named and urllib.parse.urljoin(needed[0], named) != needed[0]:  # it is known by another URI too
            more[needed[0]] = {"$id": needed[0], "allOf": [{"$ref": named}]}
            remotes = {named: document} | remotes
        else:
            more[needed[0]] = {**document, "$id": needed[0]}
        further, here = references(more[needed[0]])
        to, held = to | further, held | here
    if not more:
        return schema
    return {**schema, "$defs": {**schema.get("$defs", {}), **more}}


def collect(args):
    found, remotes = [], load_remotes(args.remotes) if args.remotes else {}
    for path in sorted(pathlib.Path(args.folder).rglob("*.json")):
        whole = json.loads(path.read_text())
        groups = whole if isinstance(whole, list) else [whole]
        found += [(f"{path.stem} {i}", one["schema"], one["tests"]) for i, one in enumerate(groups) if "tests" in one]
    most = min(args.most or len(found), len(found))
    with open(args.cases, "w") as out:
        for name, schema, tests in (found[i * len(found) // most] for i in range(most)):
            texts = [{"text": json.dumps(t["data"], ensure_ascii=False), "valid": t["valid"]} for t in tests]
            # A text with half of a surrogate pair is no UTF-8.
            texts = [t for t in texts if "\ud800" > max(t["text"]) or "\udfff" < max(t["text"])]
            out.write(json.dumps({"name": name, "schema": bundle(schema, remotes), "texts": texts}) + "\n")
    print(most, "schemas")


def pieces_of(model):
    """The vocabulary of a GGUF as bytes, its special tokens, the token that ends a text, and a function that makes tokens of a
    text (llguidance spells what has to come by it)."""
    import gguf
    import tokenizers
    reader = gguf.GGUFReader(model)
    field = lambda name: reader.fields[name]
    printable = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or b >= 174]
    byte = {chr(b): b for b in printable}
    byte |= {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in printable)}
    tokens = field("tokenizer.ggml.tokens")
    types = field("tokenizer.ggml.token_type")
    pieces, special = [], []
    for i in range(len(tokens.data)):
        text = bytes(tokens.parts[tokens.data[i]]).decode()
        if int(types.parts[types.data[i]][0]) != 1:
            special.append(i)
            pieces.append(text.encode())
        else:
            pieces.append(bytes(byte[c] for c in text))
    end = int(field("tokenizer.ggml.eos_token_id").parts[-1][0])
    strings = lambda name: [bytes(field(name).parts[i]).decode() for i in field(name).data]
    words = strings("tokenizer.ggml.tokens")
    model = tokenizers.models.BPE({word: i for i, word in enumerate(words)},
                                  [tuple(m.split(" ")) for m in strings("tokenizer.ggml.merges")])
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence([
        tokenizers.pre_tokenizers.Split(tokenizers.Regex(WORDS), "isolated"),
        tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return pieces, special, end, lambda text: tokenizer.encode(text, add_special_tokens=False).ids


class Llguidance:
    def __init__(self, pieces, special, end, encode):
        import llguidance
        import llguidance.numpy
        self.module, self.numpy = llguidance, llguidance.numpy

        class Wrapper:
            eos_token_id, bos_token_id, tokens, special_token_ids = end, None, pieces, special

            def __call__(self, text):
                return encode(text)
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Wrapper()))
        self.mask = self.numpy.allocate_token_bitmask(1, len(pieces))

    def compile(self, schema):
        self.first = self.module.LLMatcher(self.tokenizer, json.dumps({"grammars": [{"json_schema": schema}]}))
        if self.first.is_error():
            raise ValueError(self.first.get_error())

    def start(self):
        self.matcher = self.first.deep_copy()

    def fill(self):
        self.numpy.fill_next_token_bitmask(self.matcher, self.mask, 0)

    def take(self, token):
        return bool(self.mask[0, token // 32] >> (token % 32) & 1) and self.matcher.consume_token(token)

    def ends(self):
        return self.matcher.is_accepting()


class Xgrammar:
    def __init__(self, pieces, special, end, encode):
        import numpy
        import xgrammar
        self.module, self.end = xgrammar, end
        info = xgrammar.TokenizerInfo(pieces, stop_token_ids=[end])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        self.mask = numpy.full((1, (len(pieces) + 31) // 32), -1, dtype=numpy.int32)

    def compile(self, schema):
        # MaskBench's "compliant" mode: any white space, unnamed members unless the schema forbids them
        self.grammar = self.compiler.compile_json_schema(json.dumps(schema), any_whitespace=True, strict_mode=False)

    def start(self):
        self.matcher = self.module.GrammarMatcher(self.grammar)

    def fill(self):
        self.matcher.fill_next_token_bitmask(self.mask, 0)

    def take(self, token):
        return self.matcher.accept_token(token)

    def ends(self):
        return self.matcher.accept_token(self.end)


def run_one(engine, schema, texts, tokens_of):
    """Outcome of one schema with an engine: figures as swiftlet's --answers has them."""
    one = {"masks": [], "texts": []}
    began = time.perf_counter()
    try:
        engine.compile(schema)
    except Exception as error:  # each library raises its own
        return {"error": str(error)[:200]}
    one["compile"] = time.perf_counter() - began
    for text, tokens in zip(texts, tokens_of):
        engine.start()
        good = True
        for token in tokens:
            began = time.perf_counter()
            engine.fill()
            good = engine.take(token)
            one["masks"].append(time.perf_counter() - began)
            if not good:
                break
        one["texts"].append(bool(good and engine.ends()))
    return one


def give_up(*_):
    raise TimeoutError("out of time")


def print_row(name, rows, cases, masks, compiles):
    compiled = [i for i, row in enumerate(rows) if "error" not in row]
    right = invalid = with_invalid = refused_valid = 0
    for i in compiled:
        wrong = [(t["valid"], taken) for t, taken in zip(cases[i]["texts"], rows[i]["texts"]) if t["valid"] != taken]
        right += not wrong
        invalid += sum(not valid for valid, _ in wrong)
        with_invalid += any(not valid for valid, _ in wrong)
        refused_valid += sum(valid for valid, _ in wrong)
    us = sorted(1e6 * m for m in masks)
    at = lambda share: us[int(share * (len(us) - 1))] if us else float("nan")
    print(f"| {name} | {len(compiled)} | {right} ({100 * right / len(rows):.1f} %) | {invalid} in {with_invalid} | {refused_valid} | "
          f"{statistics.fmean(us):.1f} | {at(.5):.1f} | {at(.99):.0f} | {at(1):.0f} | "
          f"{1e3 * statistics.fmean(compiles):.2f} |")


def measure_ours(args, cases, folder, name, *options):
    answers = os.path.join(folder, "answers")
    out = subprocess.run([SWIFTLET, "bench", "masks", "-m", args.model, "-i", args.cases, "--answers", answers, "--json", *options],
                         capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(out.stderr)
    total = json.loads(out.stdout)
    rows = [json.loads(line) for line in open(answers)]
    tokens = [[text["tokens"] for text in row["texts"]] for row in rows]
    for row in rows:
        row["texts"] = [text["taken"] for text in row["texts"]]
    if not options:
        print("| | compiled | all right | invalid taken | valid not taken | us a mask | median | p99 | greatest | ms to compile |\n"
              "|---|---|---|---|---|---|---|---|---|---|")
    compiled = [row for row in rows if "error" not in row]
    right = sum(row["texts"] == [t["valid"] for t in case["texts"]] for row, case in zip(rows, cases) if "error" not in row)
    with_invalid = sum(any(taken and not t["valid"] for taken, t in zip(row["texts"], case["texts"]))
                       for row, case in zip(rows, cases) if "error" not in row)
    print(f"| {name} | {len(compiled)} | {right} ({100 * right / len(rows):.1f} %) | {total['invalid_taken']} in {with_invalid} | "
          f"{total['valid_not_taken']} | {total['mask_us']:.1f} | {total['mask_us_median']:.1f} | {total['mask_us_p99']:.0f} | "
          f"{total['mask_us_greatest']:.0f} | {1e-3 * (total['compile_us'] + total['open_us']):.2f} |", flush=True)
    return tokens


def measure(args):
    cases = [json.loads(line) for line in open(args.cases)]
    with tempfile.TemporaryDirectory() as folder:
        tokens = measure_ours(args, cases, folder, "swiftlet")
        measure_ours(args, cases, folder, "swiftlet, literally", "--literal-schemas")
    if args.only_ours:
        return
    vocabulary = pieces_of(args.model)
    signal.signal(signal.SIGALRM, give_up)
    for name, kind in (("llguidance", Llguidance), ("xgrammar", Xgrammar)):
        engine, rows, masks, compiles = kind(*vocabulary), [], [], []
        for case, tokens_of in zip(cases, tokens):
            signal.alarm(args.limit)
            try:
                row = run_one(engine, case["schema"], case["texts"], tokens_of)
            except Exception as error:
                row = {"error": str(error)[:200]}
            signal.alarm(0)
            masks += row.pop("masks", [])
            compiles += [row["compile"]] if "compile" in row else []
            rows.append(row)
        print_row(name, rows, cases, masks, compiles)
        sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("collect")
    one.add_argument("folder")
    one.add_argument("cases")
    one.add_argument("--remotes", help="a folder of documents that schemas refer to")
    one.add_argument("--most", type=int, help="take only this many schemas, evenly spaced")
    one.set_defaults(run=collect)
    two = commands.add_parser("measure")
    two.add_argument("cases")
    two.add_argument("-m", "--model", required=True, help="a GGUF whose vocabulary is byte-level BPE")
    two.add_argument("--limit", type=int, default=20, help="seconds that a library may take for a schema")
    two.add_argument("--only-ours", action="store_true")
    two.set_defaults(run=measure)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
