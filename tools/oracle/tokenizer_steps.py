#!/usr/bin/env python3
"""Ids that Hugging Face tokenizers give under each kind of normalizer, pre-tokenizer and post-processor.

Writes tests/core/golden/tokenizer_steps.json: two small models, made here, with and without an unknown piece, texts, and
cases: [model, sections of tokenizer.json, ids of each text with special tokens].
"""
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

OUT = pathlib.Path(__file__).resolve().parents[2] / "tests/core/golden/tokenizer_steps.json"
CORPUS = ["The quick brown fox jumps over the lazy dog.", "Hello, w\u00f6rld! \u65e5\u672c\u8a9e \u30ab\u30bf\u30ab\u30ca",
          "def f(x):\n    return x + 1  # comment\n", "don't can't we'll I'VE 123 4567 89,000.12",
          "a_b c-d e.f g/h", "   spaces\t\ttabs\n\nlines\r\n"]
TEXTS = CORPUS + [
    "  ", " a", "a ", " \u00a0x\u3000y\n", "a\u0301e\u0300 \u00e9\u0301", "\u0130I\u0131i \u1e9e\u00df",
    "\u4e2d\u65e5a\u8a9e \u4e2d", "x<s>y</s> <unk>", "x\x01a\x7fb\ufeffc\u200b", "\u2581a \u2581 b_ __", "\U0001f600 ok",
    "\uff46\uff55\uff4c\uff4c", "1\u00bd\u00b2\u0663\u2167 12345", "foo   bar\n \n  baz", "o\u2603ver qu\u2603ick"]
N, P = normalizers, pre_tokenizers
NORMALIZERS = [
    N.NFC(), N.NFD(), N.NFKC(), N.NFKD(), N.Lowercase(), N.Strip(), N.Strip(left=False), N.Strip(right=False),
    N.StripAccents(), N.Nmt(), N.ByteLevel(), N.BertNormalizer(), N.BertNormalizer(clean_text=False),
    N.BertNormalizer(handle_chinese_chars=False, lowercase=False), N.BertNormalizer(strip_accents=False),
    N.BertNormalizer(strip_accents=True, lowercase=False), N.Replace("``", "'"), N.Prepend("x"),
    N.Sequence([N.NFD(), N.StripAccents(), N.Lowercase(), N.Strip()]),
    *(N.Replace(Regex(e), c) for e, c in ((" {2,}", " "), ("^", "a"), ("$", "a"), ("(?=x)", "a"), ("o*", "e"), ("\\s+", "")))]
SPLITS = [(Regex(e), b, i) for e in ("\\s+", "(?=[a-z]o)", "\\b", "o*", "(?m:a.)")
          for b in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous") for i in (False, True)]
PRE_TOKENIZERS = [
    P.Whitespace(), P.WhitespaceSplit(), P.BertPreTokenizer(), P.CharDelimiterSplit("e"), P.FixedLength(3), P.FixedLength(),
    P.Digits(True), P.Digits(False), P.Punctuation("removed"), P.Punctuation("contiguous"), P.ByteLevel(False),
    P.Metaspace(), P.Metaspace("_", "first", False), P.Sequence([P.WhitespaceSplit(), P.Digits(True), P.FixedLength(2)]),
    *(P.Split(*split) for split in SPLITS)]


def model(unknown):
    made = Tokenizer(models.BPE(unk_token=unknown))
    made.train_from_iterator(CORPUS * 3, trainers.BpeTrainer(
        vocab_size=240, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False))
    made.add_tokens([AddedToken("I", normalized=True), AddedToken("fox", single_word=True)])
    return made


def main():
    made = [model("<unk>"), model(None)]
    ends = [(name, made[0].token_to_id(name)) for name in ("</s>", "<s>")]
    processors_ = [processors.RobertaProcessing(*ends), processors.BertProcessing(*ends), processors.Sequence(
        [processors.ByteLevel(), processors.TemplateProcessing(single="<s> $A", pair="$A $B", special_tokens=[ends[1]])])]
    settings = [{"normalizer": n} for n in NORMALIZERS] + [{"pre_tokenizer": p} for p in PRE_TOKENIZERS]
    settings += [{"post_processor": p} for p in processors_] + [{}]
    cases = []
    for i, tokenizer in enumerate(made):
        for setting in settings:
            for section in ("normalizer", "pre_tokenizer", "post_processor"):
                setattr(tokenizer, section, setting.get(section))
            written = json.loads(tokenizer.to_str())
            cases.append([i, {name: written[name] for name in setting},
                          [tokenizer.encode(text).ids for text in TEXTS]])
            for section in setting:
                setattr(tokenizer, section, None)
    parts = {"models": [{k: v for k, v in json.loads(t.to_str()).items() if k in ("model", "added_tokens")} for t in made],
             "texts": TEXTS}
    lines = [json.dumps(case, separators=(",", ":")) for case in cases]
    OUT.write_text(json.dumps(parts, separators=(",", ":"))[:-1] + ',\n"cases":[\n' + ",\n".join(lines) + "\n]}\n")
    print(len(cases), "cases")


main()
