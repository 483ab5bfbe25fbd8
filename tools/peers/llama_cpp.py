#!/usr/bin/env python3
"""Prompt and decode speed of llama.cpp (llama-cpp-python) and of swiftlet on one file, in alternation.

A model of TinyLlama's shape (1.1 B) with random weights is made in --folder, once; llama.cpp's own quantizer
makes the Q8_0 and Q4_K_M files of it. Both programs read the same file and the same prompt, on as many threads.
The last row is swiftlet's drafting on a made-up model of that shape with nearly redundant sub-layers planted,
over llama.cpp's plain decoding of the F16 file: random weights alone leave nothing to skip.

    llama_cpp.py --folder /tmp/peers
    llama_cpp.py --folder /tmp/peers --types Q8_0,draft --json
    llama_cpp.py --folder /tmp/peers --quick
"""
import argparse
import ctypes
import sys
import time

import alternate  # first: it takes this folder, and so this file's name, off the module path

import gguf
import llama_cpp
import numpy

# llama.cpp's LLAMA_FTYPE_MOSTLY_*
FTYPE = {"Q8_0": 7, "Q4_K_M": 15}
TYPES = ["F16", "Q8_0", "Q4_K_M", "draft"]
PLANTED = "synth:tinyllama-1.1b,dtype=f16,plant=0.45"


# ---- the files ---------------------------------------------------------------------------------------


def matrices():
    kv = alternate.DIM // alternate.HEADS * alternate.KV_HEADS
    yield "token_embd.weight", alternate.VOCAB, alternate.DIM
    for i in range(alternate.BLOCKS):
        yield f"blk.{i}.attn_q.weight", alternate.DIM, alternate.DIM
        yield f"blk.{i}.attn_k.weight", kv, alternate.DIM
        yield f"blk.{i}.attn_v.weight", kv, alternate.DIM
        yield f"blk.{i}.attn_output.weight", alternate.DIM, alternate.DIM
        yield f"blk.{i}.ffn_gate.weight", alternate.FFN, alternate.DIM
        yield f"blk.{i}.ffn_up.weight", alternate.FFN, alternate.DIM
        yield f"blk.{i}.ffn_down.weight", alternate.DIM, alternate.FFN
    yield "output.weight", alternate.VOCAB, alternate.DIM


def norms():
    for i in range(alternate.BLOCKS):
        yield f"blk.{i}.attn_norm.weight"
        yield f"blk.{i}.ffn_norm.weight"
    yield "output_norm.weight"


def weights(generator, name, rows, cols):
    """Of a scale that keeps a row's sum near one; the end token's logit is 0, so that no run ends early."""
    array = generator.standard_normal((rows, cols), dtype=numpy.float32) * numpy.float32(cols**-0.5)
    if name == "output.weight":
        array[alternate.END] = 0
    return array.astype(numpy.float16)


def write_metadata(writer):
    writer.add_name("random 1.1B")
    writer.add_vocab_size(alternate.VOCAB)
    writer.add_context_length(alternate.CONTEXT)
    writer.add_embedding_length(alternate.DIM)
    writer.add_block_count(alternate.BLOCKS)
    writer.add_feed_forward_length(alternate.FFN)
    writer.add_head_count(alternate.HEADS)
    writer.add_head_count_kv(alternate.KV_HEADS)
    writer.add_layer_norm_rms_eps(alternate.EPSILON)
    writer.add_rope_freq_base(alternate.THETA)
    writer.add_rope_dimension_count(alternate.DIM // alternate.HEADS)
    writer.add_file_type(1)
    fields = gguf.GGUFReader(str(alternate.VOCABULARY)).fields
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list(fields["tokenizer.ggml.tokens"].contents())
    writer.add_token_scores(fields["tokenizer.ggml.scores"].contents())
    writer.add_token_types(fields["tokenizer.ggml.token_type"].contents())
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(alternate.END)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)


def make_f16(path):
    generator = numpy.random.default_rng(1)
    writer = gguf.GGUFWriter(str(path), "llama")
    write_metadata(writer)
    for name, rows, cols in matrices():
        writer.add_tensor(name, weights(generator, name, rows, cols))
    for name in norms():
        writer.add_tensor(name, numpy.ones(alternate.DIM, numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def quantize(source, target, ftype, threads):
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread = ftype, threads
    if llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)):
        raise SystemExit(f"llama.cpp could not quantize {source} to {target}")


def file_of(args, kind):
    """Its path; made where it is missing, under another name until it is whole."""
    path = args.folder / f"random-1.1b-{kind}.gguf"
    if path.exists():
        return path
    source = None if kind == "F16" else file_of(args, "F16")
    print(f"making {path}", file=sys.stderr)
    part = path.with_suffix(".part")
    if source:
        quantize(source, part, FTYPE[kind], args.threads)
    else:
        make_f16(part)
    return part.rename(path)


# ---- the measurement ---------------------------------------------------------------------------------


class Peer:
    """llama.cpp's own evaluation calls, without sampling; the token after each is the one read next."""

    def __init__(self, path, threads):
        self.llama = llama_cpp.Llama(str(path), n_ctx=512, n_threads=threads, n_threads_batch=threads,
                                     logits_all=False, n_gpu_layers=0, verbose=False)
        self.measure("the of and to", 5, 2)  # reads the file, warms up

    def count(self, text):
        return len(self.llama.tokenize(text.encode(), add_bos=True))

    def measure(self, text, n_prompt, n_tokens):
        tokens = self.llama.tokenize(text.encode(), add_bos=True)
        self.llama.reset()
        start = time.perf_counter()
        self.llama.eval(tokens)
        self.wait()
        prompt = time.perf_counter() - start
        start = time.perf_counter()
        for i in range(n_tokens):
            self.llama.eval([100 + 37 * i])
            self.wait()
        return n_prompt / prompt, n_tokens / (time.perf_counter() - start)

    def wait(self):
        """The logits are there: the evaluation has ended."""
        self.llama._ctx.get_logits()

    def close(self):
        self.llama.close()


def plain(args, kind, n_tokens):
    peer = Peer(file_of(args, kind), args.threads)
    rows = alternate.alternate(args, kind, file_of(args, kind), n_tokens, peer.count, peer.measure)
    peer.close()
    return rows


def drafting(args, n_tokens):
    """The planted mask is given: what is measured is decoding, not the search."""
    peer = Peer(file_of(args, "F16"), args.threads)
    pairs = []
    for turn in range(args.alternations):
        out = alternate.swiftlet(args, "bench", "swift", "-m", PLANTED, "--parts", "b", "--slices", args.slices,
                                 "--threads", args.threads, "--backend", "cpu", "--json")
        text = alternate.prompt_text(32, turn, peer.count)
        pairs.append((out["tokens_per_second"], peer.measure(text, 32, n_tokens)[1]))
    peer.close()
    return [alternate.row("F16", "drafting", pairs)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    alternate.add_options(parser)
    parser.add_argument("--types", default=",".join(TYPES), help="which (%(default)s)")
    parser.add_argument("--tokens", type=int, default=32, help="decoded after the shortest prompt (32)")
    parser.add_argument("--slices", type=int, default=2, help="of 32 tokens, a drafting run (2)")
    args = parser.parse_args()
    kinds = args.types.split(",")
    if not set(kinds) <= set(TYPES):
        sys.exit(f"llama_cpp.py: --types {args.types}: expected some of {','.join(TYPES)}")
    if args.quick:
        args.alternations, args.tokens, args.slices, args.prompts = 1, 8, 1, "32"
    args.folder.mkdir(parents=True, exist_ok=True)
    for kind in kinds:
        file_of(args, "F16" if kind == "draft" else kind)
    if args.make:
        return
    rows = []
    for kind in kinds:
        rows += drafting(args, args.tokens) if kind == "draft" else plain(args, kind, args.tokens)
    alternate.report(args, f"llama.cpp (llama-cpp-python {llama_cpp.__version__})", rows)


main()
