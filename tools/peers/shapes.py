#!/usr/bin/env python3
"""A GGUF file of a published model's shape with random weights: shapes.py SHAPE DESTINATION --vocabulary MODEL.gguf

For timing models whose weights are not at hand, beside llama.cpp on the same file. Matrices are Q4_K, the embedding is Q6_K and small
tensors are F32, so a step reads what it reads of a real file. The text is noise. Tokens come from another model's file, filled up to the
shape's vocabulary. `SHAPE,layers=N` takes fewer blocks. Needs the packages gguf and numpy.
"""
import argparse

import gguf
import numpy as np

KIND = gguf.GGMLQuantizationType
# Qwen 3.5 after its published configs, Gemma 4 E4B after its own.
SHAPES = {
    "qwen3.5-0.8b": dict(arch="qwen35", layers=24, dim=1024, heads=8, kv=2, ffn=3584, keys=16, values=16, vocab=248320),
    "qwen3.5-4b": dict(arch="qwen35", layers=32, dim=2560, heads=16, kv=4, ffn=9216, keys=16, values=32, vocab=248320),
    "qwen3.5-35b-a3b": dict(arch="qwen35moe", layers=40, dim=2048, heads=16, kv=2, ffn=512, keys=16, values=32, vocab=248320, experts=256,
                            used=8),
    "gemma-4-e4b": dict(arch="gemma4", layers=42, dim=2560, heads=8, kv=2, ffn=10240, vocab=262144, shared=18, token_input=256, window=512),
}


def random_blocks(kind, rows, cols, rng):
    """Blocks whose weights have about the variance 1 / cols."""
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.frombuffer(rng.bytes(rows * cols // elements * size), np.uint8).reshape(-1, size).copy()
    deviation = 1 / np.sqrt(cols)
    if kind == KIND.Q4_K:
        # scale · (code - 7.5): the minimum is 7.5 scales, and its six bits equal the scale's
        blocks[:, 0:2] = np.frombuffer(np.float16(deviation / 221).tobytes(), np.uint8)
        blocks[:, 2:4] = np.frombuffer(np.float16(7.5 * deviation / 221).tobytes(), np.uint8)
        blocks[:, 4:8] |= 0x20
        blocks[:, 8:12] = blocks[:, 4:8]
        blocks[:, 12:16] = (blocks[:, 12:16] & 15) * 17
    elif kind == KIND.Q6_K:
        blocks[:, 192:208] = blocks[:, 192:208] % 32 + 32
        blocks[:, 208:210] = np.frombuffer(np.float16(deviation / 888).tobytes(), np.uint8)
    return blocks.reshape(rows, -1)


class File:
    def __init__(self, path, shape, vocabulary):
        self.shape, self.rng = shape, np.random.default_rng(1)
        self.writer = gguf.GGUFWriter(path, shape["arch"])
        self.copy_tokens(vocabulary)

    def copy_tokens(self, path):
        for name, field in gguf.GGUFReader(path).fields.items():
            if not name.startswith("tokenizer.ggml.") or name.endswith("scores"):
                continue
            value = field.contents()
            if name.endswith(".tokens"):
                value = (value + [f"[unused {i}]" for i in range(len(value), self.shape["vocab"])])[:self.shape["vocab"]]
            if name.endswith(".token_type"):
                value = ([int(kind) for kind in value] + [5] * self.shape["vocab"])[:self.shape["vocab"]]
            kind = field.types[0]
            more = {"sub_type": field.types[-1]} if kind == gguf.GGUFValueType.ARRAY else {}
            self.writer.add_key_value(name, value, kind, **more)

    def matrix(self, name, rows, cols, kind=KIND.Q4_K, experts=1):
        blocks = random_blocks(kind, experts * rows, cols, self.rng)
        self.writer.add_tensor(name + ".weight", blocks.reshape(experts, rows, -1) if experts > 1 else blocks, raw_dtype=kind)

    def vector(self, name, *shape, value=1.0, spread=0.0):
        self.writer.add_tensor(name, (value + spread * self.rng.standard_normal(shape)).astype(np.float32))

    def close(self):
        self.writer.write_header_to_file()
        self.writer.write_kv_data_to_file()
        self.writer.write_tensors_to_file()
        self.writer.close()


def add_sizes(file, s):
    w = file.writer
    w.add_block_count(s["layers"])
    w.add_context_length(131072)
    w.add_embedding_length(s["dim"])
    w.add_head_count(s["heads"])
    w.add_layer_norm_rms_eps(1e-6)
    w.add_rope_freq_base(1e7 if "keys" in s else 1e6)
    w.add_vocab_size(s["vocab"])
    file.matrix("token_embd", s["vocab"], s["dim"], KIND.Q6_K)
    file.vector("output_norm.weight", s["dim"])


def add_mlp(file, block, s):
    for part, rows, cols in (("gate", s["ffn"], s["dim"]), ("up", s["ffn"], s["dim"]), ("down", s["dim"], s["ffn"])):
        if s.get("experts"):
            file.matrix(f"{block}.ffn_{part}_exps", rows, cols, experts=s["experts"])
            file.matrix(f"{block}.ffn_{part}_shexp", rows, cols)
        else:
            file.matrix(f"{block}.ffn_{part}", rows, cols)
    if s.get("experts"):
        file.vector(f"{block}.ffn_gate_inp.weight", s["experts"], s["dim"], value=0, spread=s["dim"] ** -0.5)
        file.vector(f"{block}.ffn_gate_inp_shexp.weight", s["dim"], value=0, spread=s["dim"] ** -0.5)


def add_qwen35(file, s):
    w, dim, head, part = file.writer, s["dim"], 256, 128
    w.add_head_count_kv(s["kv"])
    w.add_key_length(head)
    w.add_value_length(head)
    w.add_rope_dimension_count(head // 4)
    w.add_rope_dimension_sections([11, 11, 10, 0])
    w.add_feed_forward_length(s["ffn"])
    w.add_ssm_conv_kernel(4)
    w.add_ssm_state_size(part)
    w.add_ssm_group_count(s["keys"])
    w.add_ssm_time_step_rank(s["values"])
    w.add_ssm_inner_size(s["values"] * part)
    w.add_uint32(f"{s['arch']}.full_attention_interval", 4)
    if s.get("experts"):
        w.add_expert_count(s["experts"])
        w.add_expert_used_count(s["used"])
        w.add_expert_feed_forward_length(s["ffn"])
        w.add_expert_shared_feed_forward_length(s["ffn"])
    for b in range(s["layers"]):
        block = f"blk.{b}"
        file.vector(f"{block}.attn_norm.weight", dim)
        file.vector(f"{block}.post_attention_norm.weight", dim)
        if b % 4 == 3:
            file.matrix(f"{block}.attn_q", 2 * s["heads"] * head, dim)
            file.matrix(f"{block}.attn_k", s["kv"] * head, dim)
            file.matrix(f"{block}.attn_v", s["kv"] * head, dim)
            file.matrix(f"{block}.attn_output", dim, s["heads"] * head)
            file.vector(f"{block}.attn_q_norm.weight", head)
            file.vector(f"{block}.attn_k_norm.weight", head)
        else:
            channels = (2 * s["keys"] + s["values"]) * part
            file.matrix(f"{block}.attn_qkv", channels, dim)
            file.matrix(f"{block}.attn_gate", s["values"] * part, dim)
            file.matrix(f"{block}.ssm_out", dim, s["values"] * part)
            file.matrix(f"{block}.ssm_alpha", s["values"], dim)
            file.matrix(f"{block}.ssm_beta", s["values"], dim)
            file.vector(f"{block}.ssm_conv1d.weight", channels, 4, value=0, spread=0.5)
            file.vector(f"{block}.ssm_dt.bias", s["values"], value=-3, spread=1)
            file.vector(f"{block}.ssm_a", s["values"], value=-2, spread=0.3)
            file.vector(f"{block}.ssm_norm.weight", part)
        add_mlp(file, block, s)


def add_gemma4(file, s):
    w, dim, layers = file.writer, s["dim"], s["layers"]
    sliding = [b % 6 != 5 for b in range(layers)]
    w.add_feed_forward_length([s["ffn"]] * layers)
    w.add_head_count_kv([s["kv"]] * layers)
    w.add_sliding_window(s["window"])
    w.add_sliding_window_pattern(sliding)
    w.add_shared_kv_layers(s["shared"])
    w.add_embedding_length_per_layer_input(s["token_input"])
    for add, size in ((w.add_key_length, 512), (w.add_value_length, 512), (w.add_rope_dimension_count, 512), (w.add_key_length_swa, 256),
                      (w.add_value_length_swa, 256), (w.add_rope_dimension_count_swa, 256)):
        add(size)
    w.add_rope_freq_base_swa(1e4)
    w.add_final_logit_softcapping(30.0)
    file.matrix("per_layer_token_embd", s["vocab"], layers * s["token_input"])
    file.matrix("per_layer_model_proj", layers * s["token_input"], dim)
    file.vector("per_layer_proj_norm.weight", s["token_input"])
    factors = np.where(np.arange(256) < 64, 1, 1e30).astype(np.float32)
    w.add_tensor("rope_freqs.weight", factors)
    for b in range(layers):
        block, head = f"blk.{b}", 256 if sliding[b] else 512
        for norm in ("attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm", "post_norm"):
            file.vector(f"{block}.{norm}.weight", dim)
        file.vector(f"{block}.attn_q_norm.weight", head)
        file.matrix(f"{block}.attn_q", s["heads"] * head, dim)
        file.matrix(f"{block}.attn_output", dim, s["heads"] * head)
        file.vector(f"{block}.attn_k_norm.weight", head)
        file.matrix(f"{block}.attn_k", s["kv"] * head, dim)
        file.matrix(f"{block}.attn_v", s["kv"] * head, dim)
        file.matrix(f"{block}.inp_gate", s["token_input"], dim)
        file.matrix(f"{block}.proj", dim, s["token_input"])
        file.vector(f"{block}.layer_output_scale.weight", 1)
        add_mlp(file, block, s)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", help=", ".join(SHAPES))
    parser.add_argument("destination")
    parser.add_argument("--vocabulary", required=True, help="a GGUF file with a byte-level BPE vocabulary")
    args = parser.parse_args()
    name, _, layers = args.shape.partition(",layers=")
    shape = {**SHAPES[name], **({"layers": int(layers)} if layers else {})}
    file = File(args.destination, shape, args.vocabulary)
    add_sizes(file, shape)
    (add_gemma4 if shape["arch"] == "gemma4" else add_qwen35)(file, shape)
    file.close()


if __name__ == "__main__":
    main()
