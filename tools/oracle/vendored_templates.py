#!/usr/bin/env python3
"""Compares swiftlet's chat templates with jinja2's on the templates that llama-cpp-python's source carries.

    pip download --no-deps --no-binary :all: llama-cpp-python
    tar xzf llama_cpp_python-*.tar.gz
    python3 tools/oracle/vendored_templates.py build/swiftlet llama_cpp_python-*/vendor/llama.cpp/models/templates

The templates are read where they lie. Every template × conversation (chat_conversations.py) is one of: exact (the
same text), refused (both refuse), too strict (jinja2 renders, swiftlet does not), wrong (another text, or a text
where jinja2 refuses).
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess

import chat_conversations
import chat_jinja

SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}  # the built-in model's


def expected(template, messages, given):
    try:
        return chat_jinja.render(template, messages, **{**SPECIAL, **given}), None
    except Exception as problem:
        return None, f"{type(problem).__name__}: {problem}"


def found(swiftlet, path, messages, given):
    given = dict(given)
    command = [swiftlet, "tokenize", "--text", "--chat-template", str(path), "--messages", json.dumps(messages)]
    if not given.pop("add_generation_prompt", True):
        command.append("--no-generation-prompt")
    for name in ("tools", "documents"):
        if name in given:
            command += [f"--{name}", json.dumps(given.pop(name))]
    if given:
        command += ["--chat-template-kwargs", json.dumps(given)]
    done = subprocess.run(command, capture_output=True, timeout=60,
                          env={**os.environ, "SOURCE_DATE_EPOCH": str(int(chat_jinja.NOW.timestamp()))})
    return (done.stdout.decode(), None) if done.returncode == 0 else (None, done.stderr.decode().strip())


def outcome(want, got):
    if want is None:
        return "refused" if got is None else "wrong"
    return "too strict" if got is None else "exact" if got == want else "wrong"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("swiftlet")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--verbose", "-v", action="store_true", help="print every difference")
    args = parser.parse_args()
    total, by_template = collections.Counter(), collections.Counter()
    for path in sorted(args.folder.glob("*.jinja")):
        template = path.read_text()
        counts = collections.Counter()
        for name, messages, given in chat_conversations.CASES:
            want, why = expected(template, messages, given)
            got, problem = found(args.swiftlet, path, messages, given)
            kind = outcome(want, got)
            counts[kind] += 1
            if args.verbose and kind in ("wrong", "too strict"):
                print(f"--- {path.name} {name}: {kind}\n    want {want!r} {why}\n    got  {got!r} {problem}")
        total += counts
        bad = counts["wrong"] + counts["too strict"]
        by_template["all exact" if not bad else "some not"] += 1
        if bad:
            print(f"{path.name}: {dict(counts)}")
    rendered = total["exact"] + total["too strict"] + total["wrong"]
    print(f"{sum(by_template.values())} templates, {by_template['all exact']} without a difference; "
          f"{sum(total.values())} pairs: {total['exact']} exact of {rendered} that jinja2 renders, "
          f"{total['refused']} refused by both, {total['too strict']} too strict, {total['wrong']} wrong")
    raise SystemExit(total["wrong"] > 0)


main()
