#!/usr/bin/env python3
"""Writes core/builtin/tokenizer.json and tokenizer_config.json from its tokenizer.model.

The pieces and their order are sentencepiece's; merges are recovered from the pieces' scores, the way
transformers converts any sentencepiece BPE. The result is checked against sentencepiece itself on the
texts given.
"""
import argparse
import json
import pathlib
import sys

import sentencepiece
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers

CHAT_TEMPLATE = (
    "{{- bos_token }}"
    "{%- for message in messages %}"
    "{%- if message['role'] == 'system' %}{{- message['content'] + '\\n' }}"
    "{%- elif message['role'] == 'user' %}{{- 'Question: ' + message['content'] + '\\n' }}"
    "{%- elif message['role'] == 'assistant' %}{{- 'Answer: ' + message['content'] + '\\n' }}"
    "{%- endif %}"
    "{%- endfor %}"
    "{%- if add_generation_prompt %}{{- 'Answer:' }}{%- endif %}"
)


def convert(model_file):
    spm = sentencepiece.SentencePieceProcessor(model_file=str(model_file))
    size = spm.get_piece_size()
    vocab = {spm.id_to_piece(i): i for i in range(size)}
    rank = {spm.id_to_piece(i): i for i in range(size)
            if not (spm.is_control(i) or spm.is_unknown(i) or spm.is_byte(i))}
    # Every split of a piece into two pieces is a merge; the merge that gives the earliest piece comes first.
    merges = []
    for piece, i in rank.items():
        splits = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))
                  if piece[:cut] in rank and piece[cut:] in rank]
        splits.sort(key=lambda pair: (rank[pair[0]], rank[pair[1]]))
        merges += [(-spm.get_score(i), i, pair) for pair in splits]
    merges.sort(key=lambda entry: entry[:2])
    tokenizer = Tokenizer(models.BPE(vocab, [pair for _, _, pair in merges], unk_token="<unk>",
                                     fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"),
                                                 normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(),
                                           decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    tokenizer.add_special_tokens([AddedToken(t, normalized=False, special=True)
                                  for t in ("<unk>", "<s>", "</s>")])
    return tokenizer, spm


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, help="where tokenizer.model is and the results go: core/builtin")
    parser.add_argument("texts", nargs="*", metavar="TEXT.jsonl", help="lines with a prompt, a reference or both")
    args = parser.parse_args()
    folder = args.folder
    tokenizer, spm = convert(folder / "tokenizer.model")
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False,
        "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "legacy": True,
        "clean_up_tokenization_spaces": False, "model_max_length": 2048,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config, indent=2) + "\n")
    lines = differing = 0
    for name in args.texts:
        for line in open(name, encoding="utf-8"):
            record = json.loads(line)
            texts = [record[k] for k in ("prompt", "reference") if isinstance(record.get(k), str)]
            for text in texts:
                lines += 1
                differing += tokenizer.encode(text, add_special_tokens=False).ids != spm.encode(text)
    print(f"{lines} texts, {differing} encoded otherwise than by sentencepiece")
    sys.exit(differing != 0)


if __name__ == "__main__":
    main()
