"""Turns a .cu file into C++ for the emulation: launches become calls, shared memory becomes static.

usage: translate.py IN.cu OUT.cpp
"""
import re
import sys


def closing(text, at):
    """Index of the parenthesis that closes the one at `at`."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0:
            return i
    raise ValueError("unbalanced parentheses")


def launches(text):
    launch = re.compile(r"(\w+(?:<[^<>;]*>)?)\s*<<<")
    while match := launch.search(text):
        end = text.index(">>>", match.end())
        start = text.index("(", end)
        stop = closing(text, start)
        call = "emulated_launch(emulated_config(%s), \"%s\", [](auto... a) { %s(a...); }%s)" % (
            text[match.end() : end],
            match[1],
            match[1],
            ", " + text[start + 1 : stop] if text[start + 1 : stop].strip() else "",
        )
        text = text[: match.start()] + call + text[stop + 1 :]
    return text


def shared(text):
    return re.sub(r"extern __shared__ (\w+) (\w+)\[\];", r"\1* const \2 = (\1*)emulated_dynamic_shared();", text)


def main():
    source, out = sys.argv[1:]
    text = open(source).read()
    with open(out, "w") as file:
        file.write('#line 1 "%s"\n%s' % (source, shared(launches(text))))


main()
