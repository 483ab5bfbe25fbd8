#!/usr/bin/env python3
"""Whether two versions of swiftlet say the same, to the bit: tokens, log probabilities and untimed figures of a stream of
prompts, by every method, greedy, greedy with log probabilities, and sampled with them.

    same_bits.py --before ../before/build/swiftlet --after build/swiftlet -m builtin -i prompts.jsonl -n 200

Each program stands in a build folder with libswiftlet.so beside it (ninja does that): same_bits.c is built against both.
One session a row takes all prompts, so that what it carries from text to text is compared too. Its clock counts calls, so
that decisions by price repeat: where only figures differ, a version that asks the clock more or less often is one reason;
the rows with --draft always decide nothing by the clock. Log probabilities are floats in hexadecimal; to ask for them makes
trees small, which is why half of the greedy runs do not. `replay` is `bench replay` at stated costs. Exit 1: something
differs."""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HOW = {"greedy": (0, []), "greedy, logits": (5, []), "sampled, logits": (5, ["temp", "0.8", "top-p", "0.95", "seed", "11"])}
ALWAYS = ["draft", "always", "opt-budget", "inf", "draft-bits", "off"]


def ways(parts):
    """Name, mask or not, options. Draft weights that is made between passes would join by the clock."""
    yield "auto", False, ["draft-bits", "off"]
    yield "auto, 4 bits", False, ["draft-bits", "4"]
    yield "auto, always", False, ALWAYS + ["max-tree", "16"]
    yield "vanilla", False, ["method", "vanilla"]
    yield "swift", False, ["method", "swift", "draft-bits", "off"]
    yield "swift, always", False, ALWAYS + ["method", "swift", "max-tree", "24"]
    yield "swift, paper", False, ["method", "swift", "preset", "paper"]
    for method in ("ngram", "jacobi", "lookahead", "uniform", "random", "clasp", "layerskip"):
        yield method, False, ["method", method]
    yield "self-spec", True, ["method", "self-spec"]
    yield "layerskip, rejection", False, ["method", "layerskip", "acceptance", "rejection"]
    yield "uniform, gain", False, ["method", "uniform", "stop-rule", "gain", "acceptance", "rejection"]
    yield "adaspeed", False, ["method", "adaspeed"]
    yield "adaspeed, learning", False, ["method", "adaspeed", "stop-rule", "probe"]
    yield "ngram, product", False, ["method", "ngram", "stop-rule", "product"]
    yield "adaspeed, probe", False, ["method", "adaspeed", "stop-rule", "probe", "probe", parts / "probe.safetensors"]
    yield "kangaroo", False, ["method", "kangaroo", "adapter", parts / "adapter.safetensors"]
    yield "ppd", False, ["method", "ppd", "heads", parts / "heads.safetensors"]


def make_parts(swiftlet, model, folder):
    """Untrained ones of the model's shape; the mask's blocks."""
    shape = json.loads(subprocess.run([swiftlet, "inspect", model, "--json"], capture_output=True, text=True, check=True).stdout)
    heads, kv_heads, head_dim = (shape["attention"][name] for name in ("query_heads", "key_value_heads", "head_size"))
    blocks, dim = shape["blocks"], shape["width"]
    script = ROOT / "tests" / "end-to-end" / "parts.py"
    subprocess.run([sys.executable, script, folder, *map(str, (blocks, dim, heads, kv_heads, head_dim))], check=True)
    mask = json.loads((folder / "mask.json").read_text())["untrained"]
    return [",".join(map(str, mask[kind])) for kind in ("attention", "mlp")]


def build_probe(swiftlet, folder):
    """same_bits.c with the header of the source that the program was built from."""
    build = swiftlet.resolve().parent
    source = re.search(r"^CMAKE_HOME_DIRECTORY:INTERNAL=(.*)$", (build / "CMakeCache.txt").read_text(), re.M).group(1)
    library = next(build.rglob("libswiftlet.so")).parent
    probe = folder / "same_bits"
    folder.mkdir()
    subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", f"-I{source}", ROOT / "tools" / "peers" / "same_bits.c", "-o", probe,
                    f"-L{library}", f"-Wl,-rpath,{library}", "-lswiftlet"], check=True)
    return [probe], dict(os.environ, SWIFTLET_DATA=str(build))


def prompt_of(line):
    return line["prompt"] if "prompt" in line else line["messages"][-1]["content"]


def ask(probe, args, mask, logprobs, options):
    """Three texts a prompt."""
    blocks = args.mask if mask else ["-", "-"]
    given = b"".join(b"%d %d\n%s" % (args.tokens, len(text), text) for text in args.texts)
    command = [*probe[0], args.model, str(logprobs), *blocks, "threads", str(args.threads), *map(str, options)]
    done = subprocess.run(command, input=given, capture_output=True, env=probe[1])
    if done.returncode != 0:
        return done.stderr.decode()
    lines = done.stdout.decode().split("\n")[:-1]
    return [lines[i:i + 3] for i in range(0, len(lines), 3)]


def replay(swiftlet, args, stream):
    command = [swiftlet, "bench", "replay", "-m", args.model, "-i", stream, "--json", "--threads", str(args.threads),
               "--drafters", "mask,retrieval,recycle", "--draft-bits", "4", "--costs",
               "v2=1.02,v4=1.14,v8=1.65,v16=2.95,c=0.3"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return done.stderr
    figures = {k: v for k, v in json.loads(done.stdout).items() if k not in ("load_seconds", "costs")}
    return [["", "", json.dumps(figures, sort_keys=True)]]


def compare(name, how, before, after):
    """A row of the table; prints the first difference of each kind. True: all the same."""
    if isinstance(before, str) or isinstance(after, str):
        print(f"{name:<22} {how:<18} " + ("refused by both: " if before == after else "FAILED: ") + str(after)[:200].strip())
        return before == after
    kinds = ("tokens", "logits", "figures")
    differing = [[i for i, (a, b) in enumerate(zip(before, after)) if a[k] != b[k]] for k in range(3)]
    same = len(before) == len(after) and not any(differing)
    tokens = sum(len(a[0].split()) for a in before)
    print(f"{name:<22} {how:<18} {len(before):>7} {tokens:>8}  " + ("same" if same else
          "DIFFERENT: " + ", ".join(f"{kind} of {len(d)}" for kind, d in zip(kinds, differing) if d)), flush=True)
    for k, d in enumerate(differing):
        if d:
            a, b = before[d[0]][k].split(" "), after[d[0]][k].split(" ")
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            at = slice(max(0, at - 3), at + 5)
            print(f"    prompt {d[0]}, {kinds[k]}: before …{' '.join(a[at])}…, after …{' '.join(b[at])}…")
    return same


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path, required=True, help="a swiftlet in its build folder")
    parser.add_argument("--after", type=pathlib.Path, default=ROOT / "build" / "swiftlet", help="the swiftlet to compare with it (build/swiftlet)")
    parser.add_argument("-m", "--model", default="builtin")
    parser.add_argument("-i", "--input", type=pathlib.Path, default=ROOT / "streams" / "demo.jsonl", help="prompts as JSON lines")
    parser.add_argument("-n", "--instances", type=int, default=200, help="prompts, evenly from all of the input (200)")
    parser.add_argument("--tokens", type=int, default=48, help="tokens that follow each prompt (48)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each of the two programs, which run at once (1)")
    parser.add_argument("--only", default="", help="run only rows whose name contains this text")
    parser.add_argument("--how", default="", choices=["", *HOW], help="one way to choose tokens (all)")
    args = parser.parse_args()
    lines = [line for line in args.input.read_text().splitlines() if line.strip()]
    n = min(args.instances, len(lines))
    lines = [json.loads(lines[i * len(lines) // n]) for i in range(n)]
    args.texts = [prompt_of(line).encode() for line in lines]
    same = True
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as both:
        folder = pathlib.Path(folder)
        args.mask = make_parts(args.after, args.model, folder)
        stream = folder / "prompts.jsonl"
        stream.write_text("".join(json.dumps(dict(line, max_tokens=args.tokens)) + "\n" for line in lines))
        probes = [build_probe(swiftlet, folder / which) for swiftlet, which in ((args.before, "before"), (args.after, "after"))]
        print(f"{'method':<22} {'':<18} {'prompts':>7} {'tokens':>8}")
        for name, mask, options in ways(folder):
            for how, (logprobs, sampling) in HOW.items():
                if args.only in name and args.how in ("", how):
                    found = both.map(lambda probe: ask(probe, args, mask, logprobs, options + sampling), probes)
                    same &= compare(name, how, *found)
        if args.only in "replay" and args.how == "":
            same &= compare("replay", "stated costs", *both.map(lambda s: replay(s, args, stream), (args.before, args.after)))
    print("all the same" if same else "NOT the same")
    sys.exit(not same)


main()
