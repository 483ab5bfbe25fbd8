#!/usr/bin/env python3
"""Writes what llama.cpp makes of GGUF vocabularies: tests/core/golden/gguf-ends/, a vocabulary with every piece
that may end a text, and tests/core/golden/pretokenizers.json, ids of random texts under each name of
tokenizer.ggml.pre, all with the pieces and merges of tests/core/vocab/gpt-2.gguf.
"""
import argparse
import json
import pathlib
import random
import subprocess
import tempfile

import gguf
import llama_cpp
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parents[2]
OUT = ROOT / "tests" / "core" / "golden"
ENDS = ["<|eot_id|>", "<|eom_id|>", "<|im_end|>", "<|im_start|>", "<end_of_turn>", "<|endoftext|>", "<EOT>", "_<EOT>",
        "[EOT]", "[EOS]", "<|end_of_text|>", "<end_of_utterance>", "<eos>", "<bos>", "</s>", "<s>", "<|file_sep|>",
        "<|fim_pad|>", "<|repo_name|>", "<|fim_prefix|>", "<|tool|>", "<|user|>"]
SETS = {"plain": ENDS + ["<|end|>"], "harmony": ENDS + ["<|end|>", "<|return|>", "<|call|>"],
        "solar": ["<|end|>", "<|calls|>", "<|flush|>", "<|user|>"], "turns": ["<eos>", "<turn|>", "<|tool_response>", "</s>"]}
NAMES = ["falcon3", "falcon-h1", "pixtral", "glm4", "chatglm-bpe", "exaone4", "exaone", "mellum", "megrez", "hunyuan",
         "hunyuan-dense", "grok-2", "gpt-4o", "llama4", "minimax-m2", "seed-coder", "qwen35", "minicpm5", "bailingmoe",
         "minerva-7b", "trillion", "solar-open", "kanana2", "gigachat", "lfm2", "midm-2.0", "a.x-4.0", "exaone-moe",
         "granite-docling", "kormo", "bailingmoe2", "jais", "mellum2"]
PIECES = ["Hello", "don't", "I'LL", "we'Re", "HTTPServer", "camelCase", "ABC", "x", "12345", "3.14", "½", " ", "  ", "   ",
          "\n", "\n\n", "\r\n", "\t", "!", "?!", "...", "/", "//", "(", ")", "привет", "ПРИВЕТ", "日本語", "한국어", "é", "e\u0301",
          "ĳ", "ǅ", "ʰ", "हिन्दी", "🙂", "_", "'", "\"", "don’t", "\u00a0", "\u2028", "a\u0300b", "٣٤"]


def write_vocabulary(path, pieces, types, merges, pre, model="gpt2"):
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(pieces)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(0)
    writer.add_add_bos_token(False)
    for add, value in ((writer.add_context_length, 8), (writer.add_embedding_length, 8), (writer.add_block_count, 1),
                       (writer.add_feed_forward_length, 8), (writer.add_head_count, 1)):
        add(value)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ends():
    for name, extra in SETS.items():
        folder = OUT / f"gguf-ends-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        pieces = ["!", "a", "b", "ab"] + extra
        # Some are control pieces, some user-defined ones, as converters have it.
        types = [1] * 4 + [3 if i % 3 else 4 for i in range(len(extra))]
        write_vocabulary(folder / "vocabulary.gguf", pieces, types, ["a b"], "gpt-2")
        llm = llama_cpp.Llama(model_path=str(folder / "vocabulary.gguf"), vocab_only=True, verbose=False)
        vocab = llama_cpp.llama_model_get_vocab(llm.model)
        found = [i for i in range(len(pieces)) if llama_cpp.llama_vocab_is_eog(vocab, i)]
        (folder / "ends.json").write_text(json.dumps(found) + "\n")
        print(name, [pieces[i] for i in found])


def texts(generator, n):
    return ["".join(generator.choice(PIECES) for _ in range(generator.randint(1, 12))) for _ in range(n)]


def pretokenizers(n, keep):
    reader = gguf.GGUFReader(str(ROOT / "tests" / "core" / "vocab" / "gpt-2.gguf"))

    def strings(key):
        field = reader.fields[key]
        return [bytes(field.parts[i]).decode() for i in field.data]
    pieces, merges = strings("tokenizer.ggml.tokens"), strings("tokenizer.ggml.merges")
    types = [int(reader.fields["tokenizer.ggml.token_type"].parts[i][0])
             for i in reader.fields["tokenizer.ggml.token_type"].data]
    out = {}
    with tempfile.TemporaryDirectory() as scratch:
        for name in NAMES:
            path = pathlib.Path(scratch) / "v.gguf"
            write_vocabulary(path, pieces, types, merges, name)
            try:
                llm = llama_cpp.Llama(model_path=str(path), vocab_only=True, verbose=False)
            except ValueError:
                print(f"{name}: not known to this llama.cpp")
                continue
            lines = texts(random.Random(name), n)
            out[name] = [[t, llm.tokenize(t.encode(), add_bos=False, special=True)] for t in lines]
    return {name: lines[:keep] for name, lines in out.items()} if keep else out


def gemma4(n):
    """Gemma 4's kind: merges over characters, spaces as U+2581, bytes where there is no character."""
    control, user = ["<pad>", "<eos>", "<bos>", "<unk>", "<turn|>"], ["\n\n", "\u2581\u2581", "<b>"]
    tokenizer = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("\n+"), "isolated")
    words = [p.read_text()[:3000] for p in sorted((ROOT / "core").rglob("*.h"))]
    tokenizer.train_from_iterator(words + [" ".join(PIECES[:20])], trainers.BpeTrainer(vocab_size=700, show_progress=False))
    data = json.loads(tokenizer.to_str())["model"]
    merges = [" ".join(m) if isinstance(m, list) else m for m in data["merges"]]
    pieces = control + user + [f"<0x{b:02X}>" for b in range(256)]
    types = [3, 3, 3, 2, 3] + [4] * len(user) + [6] * 256
    learned = [p for p in sorted(data["vocab"], key=data["vocab"].get) if p not in pieces]
    folder = OUT / "gguf-gemma4"
    folder.mkdir(parents=True, exist_ok=True)
    merges = [m for m in merges if all(p in learned for p in (*m.split(" "), m.replace(" ", "")))]
    write_vocabulary(folder / "vocabulary.gguf", pieces + learned, types + [1] * len(learned), merges, "gemma4", "gemma4")
    llm = llama_cpp.Llama(model_path=str(folder / "vocabulary.gguf"), vocab_only=True, verbose=False)
    lines = texts(random.Random("gemma4"), n)
    golden = [[t, llm.tokenize(t.encode(), add_bos=False, special=True)] for t in lines]
    (folder / "lines.json").write_text(json.dumps(golden, ensure_ascii=False).replace('], ["', '],\n["') + "\n")
    print("gemma4:", len(pieces) + len(learned), "pieces")


def compare(n, program):
    """The program's `tokenize` beside llama.cpp on n random texts, each with special pieces in it now and then, for
    every vocabulary at hand."""
    for path in sorted((ROOT / "tests" / "core" / "vocab").glob("*.gguf")) + sorted(OUT.glob("gguf-*/vocabulary.gguf")):
        llm = llama_cpp.Llama(model_path=str(path), vocab_only=True, verbose=False)
        generator, wrong = random.Random(path.name), 0
        with tempfile.NamedTemporaryFile() as file:
            for _ in range(n):
                text = "".join(generator.choice(PIECES + ["</s>", "<s>", "<|endoftext|>", "<|end|>"])
                               for _ in range(generator.randint(1, 16)))
                file.seek(0)
                file.truncate()
                file.write(text.encode())
                file.flush()
                said = subprocess.run([program, "tokenize", "-m", str(path), "-f", file.name, "--json"], check=True,
                                      capture_output=True).stdout
                wrong += json.loads(said)["tokens"] != llm.tokenize(text.encode(), add_bos=False, special=True)
        print(f"{path.relative_to(ROOT)}: {n} texts, {wrong} differ from llama.cpp's", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=12, help="texts a name (12)")
    parser.add_argument("--compare", type=int, metavar="N", help="instead: compare the program on N texts a vocabulary")
    parser.add_argument("--program", default=str(ROOT / "build" / "swiftlet"))
    parser.add_argument("--out", help="another file than the golden one")
    options = parser.parse_args()
    if options.compare:
        return compare(options.compare, options.program)
    if not options.out:
        ends()
        gemma4(150)
    found = pretokenizers(options.lines, 0)
    text = ",\n".join(f"{json.dumps(name)}: {json.dumps(lines, ensure_ascii=False)}" for name, lines in found.items())
    pathlib.Path(options.out or OUT / "pretokenizers.json").write_text("{" + text + "}\n")


if __name__ == "__main__":
    main()
