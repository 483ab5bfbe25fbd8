#!/usr/bin/env python3
"""Answers that keep the JSON Schemas of real APIs: which schemas are accepted, whether every whole answer is valid by another
validator, the same text as plain decoding's with the same schema, and what drafting the forced tokens brings.

    schemas.py collect schemas.jsonl           200 schemas out of packages that are installed beside this Python:
                                               openai and anthropic (the models of requests and answers), kubernetes-validate
                                               (Kubernetes' objects), check-jsonschema (files of CI systems and the like)
    schemas.py measure schemas.jsonl -m MODEL  needs the package jsonschema; --accept-only asks for one token of each

The choice is by name, evenly spaced, so that it repeats."""
import argparse
import collections
import importlib.util
import inspect
import json
import os
import pkgutil
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

PROGRAM = os.environ.get("SWIFTLET", "build/swiftlet")
KUBERNETES = "v1.37.0-local"
MOST = 100_000  # bytes of a schema


# ---- collecting -----------------------------------------------------------------------------------------------------------

def models(package):
    """JSON Schemas of a client's models, as pydantic writes them."""
    import pydantic

    found = {}
    root = importlib.import_module(package)
    for module in pkgutil.walk_packages(root.__path__, package + "."):
        try:
            members = vars(importlib.import_module(module.name))
        except ImportError:
            continue
        for name, one in members.items():
            if inspect.isclass(one) and issubclass(one, pydantic.BaseModel) and one.__module__ == module.name:
                try:
                    found[f"{module.name}.{name}"] = one.model_json_schema()
                except pydantic.errors.PydanticUserError:
                    continue
    return found


def kubernetes():
    """Definitions with all that they refer to."""
    import kubernetes_validate

    folder = os.path.join(os.path.dirname(kubernetes_validate.__file__), "kubernetes-json-schema", KUBERNETES)
    definitions = json.load(open(os.path.join(folder, "_definitions.json")))["$defs"]

    def references(value):
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"].rsplit("/", 1)[1]
            for inner in value.values():
                yield from references(inner)
        elif isinstance(value, list):
            for inner in value:
                yield from references(inner)

    def bundle(name):
        wanted, left = {}, list(references(definitions[name]))
        while left:
            one = left.pop()
            if one not in wanted:
                wanted[one] = definitions[one]
                left += references(definitions[one])
        return {**definitions[name], **({"$defs": wanted} if wanted else {})}

    return {f"kubernetes.{name}": bundle(name) for name in definitions}


def files():
    package = importlib.util.find_spec("check_jsonschema").submodule_search_locations[0]  # found, not run: it needs more
    folder = os.path.join(package, "builtin_schemas", "vendor")
    return {f"file.{name[:-5]}": json.load(open(os.path.join(folder, name))) for name in sorted(os.listdir(folder)) if name.endswith(".json")}


def some(all_of, n):
    """n of them, evenly spaced by name, none that is empty or is as long as a book."""
    names = [k for k in sorted(all_of) if 300 <= len(json.dumps(all_of[k])) <= MOST]
    n = min(n, len(names))
    return [names[i * len(names) // n] for i in range(n)]


def collect(path):
    sources = [(models("openai.types"), 60), (models("anthropic.types"), 60), (kubernetes(), 60), (files(), 40)]
    chosen = [{"name": name, "schema": found[name]} for found, n in sources for name in some(found, n)][:200]
    with open(path, "w") as out:
        for one in chosen:
            out.write(json.dumps(one) + "\n")
    print(len(chosen), "schemas,", sum(len(json.dumps(c["schema"])) for c in chosen) // len(chosen), "bytes on average")


# ---- measuring ------------------------------------------------------------------------------------------------------------

class Server:
    def __init__(self, model, *options):
        self.process = subprocess.Popen([PROGRAM, "serve", "-m", model, "--port", "0", "--no-store", *options], stdout=subprocess.PIPE, text=True)
        self.url = re.search(r"http://\S+?:\d+", self.process.stdout.readline()).group(0)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(60)

    def ask(self, one, tokens):
        """(status, body, seconds)"""
        body = {"messages": [{"role": "user", "content": f"Write an example of {one['name'].rsplit('.', 1)[-1]} as JSON."}],
                "max_tokens": tokens, "temperature": 0,
                "response_format": {"type": "json_schema", "json_schema": {"name": "example", "schema": one["schema"]}}}
        request = urllib.request.Request(self.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        began = time.monotonic()
        try:
            with urllib.request.urlopen(request, timeout=600) as answer:
                return answer.status, json.load(answer), time.monotonic() - began
        except urllib.error.HTTPError as error:
            return error.code, json.load(error), time.monotonic() - began


def validates(schema, text):
    import jsonschema

    kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
    return next(kind(schema).iter_errors(json.loads(text)), None)


def show(refused):
    for reason, names in sorted(refused.items(), key=lambda r: -len(r[1])):
        print(f"  {len(names):3} refused: {reason} ({names[0]})")


def reason_of(body):
    return re.sub(r"the schema at \S*: ", "", body["error"]["message"])[:150]


def run_all(server, schemas, tokens):
    """By name: text, why it ended, its tokens and seconds of decoding; and the refused by their reasons."""
    answers, refused = {}, collections.defaultdict(list)
    for one in schemas:
        status, body, seconds = server.ask(one, tokens)
        if status != 200:
            refused[reason_of(body)].append(one["name"])
            continue
        choice, usage = body["choices"][0], body["usage"]
        answers[one["name"]] = (choice["message"]["content"], choice["finish_reason"], usage["completion_tokens"], body["swiftlet"]["seconds"]["decode"], seconds)
    return answers, refused


def measure(args):
    schemas = [json.loads(line) for line in open(args.schemas)]
    part, parts = (int(x) for x in args.part.split("/"))
    schemas = schemas[part::parts]
    n = min(args.most or len(schemas), len(schemas))
    schemas = [schemas[i * len(schemas) // n] for i in range(n)]
    by_name = {one["name"]: one["schema"] for one in schemas}
    tokens = 1 if args.accept_only else args.tokens
    kinds = [("plain", ["--method", "vanilla"])]
    if not args.accept_only:
        kinds += [("all drafters", [])] if args.without_grammar_alone else [("grammar alone", ["--drafters", "form"]), ("all drafters", [])]
    reported = {}
    for kind, options in kinds:
        with Server(args.model, *options, *args.options) as server:
            reported[kind], refused = run_all(server, schemas, tokens)
    answers = reported["plain"]
    print(f"{len(answers)} of {len(schemas)} accepted ({100 * len(answers) / len(schemas):.1f} %)")
    show(refused)
    slow = sorted(answers, key=lambda name: -answers[name][4])[:3]
    print("longest:", ", ".join(f"{name} {answers[name][4]:.2f} s" for name in slow))
    if args.accept_only:
        return 0
    whole = [name for name, a in answers.items() if a[1] == "stop"]
    wrong = [(name, error) for name in whole for error in [validates(by_name[name], answers[name][0])] if error]
    print(f"{len(whole)} whole answers, {len(whole) - len(wrong)} of them valid")
    for name, error in wrong:
        print("  not valid:", name, error.message[:200])
    for kind in reported:
        differ = [name for name in answers if reported[kind].get(name, ("",))[:3] != answers[name][:3]]
        n, seconds = sum(a[2] for a in reported[kind].values()), sum(a[3] for a in reported[kind].values())
        plain = sum(a[2] for a in answers.values()) / sum(a[3] for a in answers.values())
        print(f"{kind:13} {n / seconds:8.1f} tokens/s, {n / seconds / plain:.2f} of plain; {len(differ)} texts differ from plain decoding's {differ[:3] or ''}")
        wrong += differ
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("collect", "measure"))
    parser.add_argument("schemas")
    parser.add_argument("-m", "--model")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of an answer, at most (default: %(default)s)")
    parser.add_argument("--most", type=int, default=None, help="measure only this many schemas, evenly spaced")
    parser.add_argument("--part", default="0/1", help="K/N: measure every N-th schema from the K-th on (default: %(default)s)")
    parser.add_argument("--without-grammar-alone", action="store_true", help="measure two kinds of drafting instead of three")
    parser.add_argument("--accept-only", action="store_true")
    parser.add_argument("options", nargs="*", help="options of the server, behind --")
    args = parser.parse_intermixed_args()  # the server's options stand behind -- and the others
    sys.exit(collect(args.schemas) if args.what == "collect" else measure(args))


if __name__ == "__main__":
    main()
