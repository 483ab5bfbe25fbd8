#!/usr/bin/env python3
"""Pieces that Hugging Face tokenizers' Split gives for expressions, one by one beside texts.

Writes tests/core/golden/expressions.json: a list of [expression, text, pieces], of the expressions and texts below and
of CASES (lines "EXPRESSION 'TEXT' HF [PIECES]…"), where the expression matches somewhere in the text. Characters
whose properties Unicode changed lately are left out of the texts.
"""
import ast
import json
import pathlib
import re
import sys

from tokenizers import Regex, pre_tokenizers

SOURCE = pathlib.Path(__file__).resolve().parents[2]

TEXTS = ["a\nb  \n c\n", "foo_bar baz-1 \u00e9\u0301 x", "ab12\tcd\u3000e", "[]^-&&ab",
         "\u00e9\u00c9\u00df\u65e5\u672c\u30fb\u30fc", "!$+<=>^`|~", "a\x0bb\x0cc\x08d", "\n\n", "a \n \n",
         "DEADbeefg", "aaa aab ABa{x pLEi", "\u2028x\u0085y", "1\u00bd\u00b2\u0663\u2167", "\U0001f600\U0001f44d\U0001f3fd ok"]
EXPRESSIONS = r"""
\h+ \H+ [\h]+ [^\h]+ [\H]+ ^a a$ ^. .$ \s+$ \n$ \bfoo o\b \b. \B. [\w&&[^a]]+ [a-z&&[aeiou]]+ [^a-z&&[aeiou]]+
[a-z&&[^aeiou]&&[^x]]+ [[a-c][x-z]]+ [^[a-c]x]+ [a[^b]]+ [[:alpha:]]+ [[:^alpha:]]+ [^[:alpha:]]+ [[:punct:]]+
[[:space:]]+ [[:upper:]]+ [[:lower:]]+ [[:alnum:]]+ [[:digit:]]+ [[:word:]]+ [[:xdigit:]]+ [[:blank:]]+ [[:cntrl:]]+
[[:ascii:]]+ [[:graph:]]+ [[:print:]]+ \u65e5 [\u0061-\u0063]+ [\S]+ [\W]+ [\W\d]+ [^\S]+ [^\W_]+ \v [\v] [\b] \P{Han}+
\p{^Han}+ [\p{Han}\p{Katakana}]+ [\p{L}&&\p{Latin}]+ []a]+ [^]a]+ [&&a] [a&&] [a^]+ [\^a]+ [a\-z]+ [a&b]+ \d+ \w+ \W+
(?m:b.+) (?m).+ (?m)a(?-m)b.+ (?im-x:A.B) a(?i)B|c (?:a(?i)b|c)d (?x:b\x20c|o\x20b) (?#x)a a(?#b)b a{,2}b a{1,2}+ a{2}? a{2}+ a+* a{x
a{ } (?=a) (?<=a)(?=b) a* \n? ^ $ \b a| (?<![a-z&&[^b]])a \O+ \E \i \pL \p{Letter}+ \p{Nonspacing_Mark} \p{Other_Symbol}
\p{Punct}+ \p{^Punct}+ \p{Alnum}+ [^\p{Alnum}]+ \p{Digit}+ \p{Word}+ [\p{Word}]+ \p{Graph}+ [\P{Graph}]+ \p{Assigned}+
\s+ \S+ (?i:FOO) [\p{P}\p{S}]+ [^\p{Han}&&\p{L}]+ \p{Common}+ \p{Lu} a{2,3} \x{61} [\x{61}-\x{63}]+
""".split()


def pieces(expression, text):
    return [piece for piece, _ in pre_tokenizers.Split(Regex(expression), "isolated").pre_tokenize_str(text)]


def read_cases(path):
    for line in open(path, encoding="utf-8"):
        case = re.match(r"(.*?) ('.*?') HF \[", line)
        if case:
            yield case.group(1), ast.literal_eval(case.group(2))


def main():
    cases = list(read_cases(sys.argv[1])) if len(sys.argv) > 1 else []
    cases += [(expression, text) for expression in EXPRESSIONS for text in TEXTS]
    golden = [[expression, text, pieces(expression, text)] for expression, text in cases]
    golden = [case for case in golden if len(case[2]) > 1]
    path = SOURCE / "tests/core/golden/expressions.json"
    path.write_text("[\n" + ",\n".join(json.dumps(case) for case in golden) + "\n]\n")
    print(len(golden), "cases")


main()
