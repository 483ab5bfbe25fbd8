#!/usr/bin/env python3
"""Prompt and decode speed of transformers on the CPU and of swiftlet on one Hugging Face folder, in alternation.

A folder of TinyLlama's shape (1.1 B, BF16 safetensors) with random weights is made in --folder, once. Both read
it and the same prompt, on as many threads; transformers computes in BF16 and again in F32.

    transformers.py --folder /tmp/peers
    transformers.py --folder /tmp/peers --quick --json
"""
import argparse
import json
import sys
import time

import alternate  # first: it takes this folder, and so this file's name, off the module path

import gguf
import safetensors.torch
import torch
import transformers
from sentencepiece import SentencePieceProcessor, sentencepiece_model_pb2

DTYPE = {"bf16": torch.bfloat16, "f32": torch.float32}


# ---- the folder --------------------------------------------------------------------------------------


def configuration():
    return transformers.LlamaConfig(
        vocab_size=alternate.VOCAB, hidden_size=alternate.DIM, intermediate_size=alternate.FFN,
        num_hidden_layers=alternate.BLOCKS, num_attention_heads=alternate.HEADS,
        num_key_value_heads=alternate.KV_HEADS, max_position_embeddings=alternate.CONTEXT,
        rms_norm_eps=alternate.EPSILON, rope_theta=alternate.THETA, tie_word_embeddings=False,
        bos_token_id=1, eos_token_id=alternate.END, dtype="bfloat16", architectures=["LlamaForCausalLM"])


def tensors(config):
    """Weights of a scale that keeps a row's sum near one; the end token's logit is 0, so that no run ends early."""
    generator = torch.Generator().manual_seed(1)
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config)
    out = {}
    for name, p in model.state_dict().items():
        if p.ndim == 1:
            out[name] = torch.ones(p.shape, dtype=torch.bfloat16)
            continue
        out[name] = (torch.randn(p.shape, generator=generator) * p.shape[1]**-0.5).bfloat16()
    out["lm_head.weight"][alternate.END] = 0
    return out


def write_tokenizer(path):
    """The vocabulary of the GGUF file as sentencepiece's own file; its kinds of pieces are numbered alike."""
    fields = gguf.GGUFReader(str(alternate.VOCABULARY)).fields
    proto = sentencepiece_model_pb2.ModelProto()
    proto.trainer_spec.model_type = sentencepiece_model_pb2.TrainerSpec.BPE
    proto.trainer_spec.vocab_size = alternate.VOCAB
    proto.trainer_spec.byte_fallback = True
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = True
    proto.normalizer_spec.remove_extra_whitespaces = False
    for piece, score, kind in zip(*(fields[f"tokenizer.ggml.{key}"].contents()
                                    for key in ("tokens", "scores", "token_type"))):
        proto.pieces.add(piece=piece, score=score, type=kind)
    path.write_bytes(proto.SerializeToString())


def make(args):
    path = args.folder / "random-1.1b-BF16"
    if (path / "config.json").exists():
        return path
    print(f"making {path}", file=sys.stderr)
    path.mkdir(parents=True, exist_ok=True)
    config = configuration()
    safetensors.torch.save_file(tensors(config), path / "model.safetensors", metadata={"format": "pt"})
    write_tokenizer(path / "tokenizer.model")
    (path / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False,
         "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}))
    config.save_pretrained(path)  # last: it states that the folder is whole
    return path


# ---- the measurement ---------------------------------------------------------------------------------


class Peer:
    """Forward passes with the library's own cache; no generate(), no sampling."""

    def __init__(self, path, dtype):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(path, dtype=DTYPE[dtype])
        self.pieces = SentencePieceProcessor(model_file=str(path / "tokenizer.model"))
        self.measure("the of and to", 5, 2)  # warms up

    def tokens(self, text):
        return [1] + self.pieces.encode(text)

    def count(self, text):
        return len(self.tokens(text))

    def measure(self, text, n_prompt, n_tokens):
        tokens = torch.tensor([self.tokens(text)])
        start = time.perf_counter()
        out = self.model(input_ids=tokens, use_cache=True, logits_to_keep=1)
        prompt = time.perf_counter() - start
        start = time.perf_counter()
        for i in range(n_tokens):
            out = self.model(input_ids=torch.tensor([[100 + 37 * i]]), use_cache=True,
                             past_key_values=out.past_key_values)
        return n_prompt / prompt, n_tokens / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    alternate.add_options(parser)
    parser.add_argument("--dtypes", default="bf16,f32", help="types that transformers computes in (%(default)s)")
    parser.add_argument("--tokens", type=int, default=16, help="tokens to decode after the shortest prompt (16)")
    args = parser.parse_args()
    dtypes = args.dtypes.split(",")
    if not set(dtypes) <= set(DTYPE):
        sys.exit(f"transformers.py: --dtypes {args.dtypes}: expected some of {','.join(DTYPE)}")
    if args.quick:
        args.alternations, args.tokens, args.prompts = 1, 4, "32"
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    args.folder.mkdir(parents=True, exist_ok=True)
    path = make(args)
    if args.make:
        return
    rows = []
    for dtype in dtypes:
        peer = Peer(path, dtype)
        rows += alternate.alternate(args, f"BF16/{dtype}", path, args.tokens, peer.count, peer.measure)
        del peer
    alternate.report(args, f"transformers {transformers.__version__} (torch {torch.__version__})", rows)


main()
