"""Shared by the peers' scripts: our side of an alternation, the prompt, medians, the table.

It is imported before the peer's own package, and takes this folder off the module path: the scripts beside it
are called as the packages that they measure.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:] = [p for p in sys.path if pathlib.Path(p or ".").resolve() != HERE]

# TinyLlama 1.1 B: blocks, dim, heads, key/value heads, feed-forward, vocabulary
BLOCKS, DIM, HEADS, KV_HEADS, FFN, VOCAB = 22, 2048, 32, 4, 5632, 32000
CONTEXT, EPSILON, THETA = 2048, 1e-5, 10000.0
END = 2
VOCABULARY = ROOT / "tests" / "core" / "vocab" / "llama-spm.gguf"

WORDS = ("the of and to in is was for on that with as by at from his it an were are which this also be has had "
         "first one their its new after but who not they have her she two been other when there all").split()


def add_options(parser):
    parser.add_argument("--folder", type=pathlib.Path, required=True, help="folder in which the model is made and kept")
    parser.add_argument("--swiftlet", default=os.environ.get("SWIFTLET", str(ROOT / "build" / "swiftlet")),
                        help="the program ($SWIFTLET, else build/swiftlet)")
    parser.add_argument("--threads", type=int, default=2, help="threads of each program (2)")
    parser.add_argument("--alternations", type=int, default=5, help="number of alternations, whose median is reported (5)")
    parser.add_argument("--prompts", default="32,256", help="prompt lengths in tokens (32,256)")
    parser.add_argument("--cold", action="store_true", help="run swiftlet in a fresh process each time, without warming up")
    parser.add_argument("--make", action="store_true", help="make the files and stop")
    parser.add_argument("--quick", action="store_true", help="one alternation, few tokens: checks the script")
    parser.add_argument("--json", action="store_true")


def lengths(args):
    return [int(n) for n in args.prompts.split(",")]


def prompt_text(n, seed, count):
    """A text of n tokens by count(text), another for each seed."""
    words = [WORDS[(i * 7 + seed * 11 + i // 5) % len(WORDS)] for i in range(2 * n)]
    for used in range(n, 0, -1):
        text = " ".join(words[:used])
        if count(text) == n:
            return text
    raise SystemExit(f"no text of {n} tokens was found")


def swiftlet(args, *rest):
    """The object that the program prints."""
    return json.loads(execute(args, *rest))


def execute(args, *rest):
    done = subprocess.run([args.swiftlet, *map(str, rest)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{args.swiftlet} {' '.join(map(str, rest))[:200]}: {done.stderr.strip()}")
    return done.stdout


def ours(args, model, text, n_prompt, n_tokens):
    """(prompt, decode) in tokens a second. The first token comes with the prompt."""
    out = cold(args, model, text, n_tokens) if args.cold else warm(args, model, text, n_tokens)
    known = out["cached_tokens"]  # the beginning token, and a first word that the warming text begins with, too
    if out["prompt_tokens"] != n_prompt or known > 2 or len(out["tokens"]) != n_tokens + 1:
        raise SystemExit(f"swiftlet read {out['prompt_tokens']} tokens of {n_prompt}, {known} of them "
                         f"known, and gave {len(out['tokens'])} of {n_tokens + 1}")
    return (n_prompt - known) / out["seconds"]["prefill"], n_tokens / out["seconds"]["decode"]


def plainly(args):
    return "--method", "vanilla", "--threads", args.threads, "--backend", "cpu"


def cold(args, model, text, n_tokens):
    """A fresh process, whose prompt pays for the pages of the file that it is the first to touch."""
    return swiftlet(args, "run", "-m", model, "-p", text, "-n", n_tokens + 1, *plainly(args), "--json")


def warm(args, model, text, n_tokens):
    """The second of two requests of one process, as the peer too has warmed up."""
    with tempfile.TemporaryDirectory() as folder:
        requests, answers = pathlib.Path(folder, "in.jsonl"), pathlib.Path(folder, "out.jsonl")
        lines = [{"prompt": "all there when other", "max_tokens": 2}, {"prompt": text, "max_tokens": n_tokens + 1}]
        requests.write_text("".join(json.dumps({"task": "peer", **line}) + "\n" for line in lines))
        execute(args, "stream", "-m", model, "-i", requests, "-o", answers, *plainly(args))
        return json.loads(answers.read_text().splitlines()[1])


def alternate(args, label, model, n_tokens, count, theirs):
    """Rows of the table; theirs(text, n_prompt, n_tokens) gives what ours() gives."""
    prompts = {n: [] for n in lengths(args)}
    decode = []
    for turn in range(args.alternations):
        for n in prompts:
            last = n == min(prompts)
            text, n_decode = prompt_text(n, turn, count), n_tokens if last else 1
            sides = [ours(args, model, text, n, n_decode), theirs(text, n, n_decode)]
            prompts[n].append((sides[0][0], sides[1][0]))
            if last:
                decode.append((sides[0][1], sides[1][1]))
    rows = [row(label, f"prompt of {n}", pairs) for n, pairs in prompts.items()]
    return rows + [row(label, "decode", decode)]


def row(label, what, pairs):
    """The median of the alternations' ratios, beside each side's own median."""
    ratios = [a / b for a, b in pairs]
    return {"file": label, "what": what, "swiftlet_tokens_per_second": statistics.median(a for a, _ in pairs),
            "peer_tokens_per_second": statistics.median(b for _, b in pairs), "ratio": statistics.median(ratios),
            "least": min(ratios), "most": max(ratios), "alternations": len(pairs)}


def report(args, peer, rows):
    if args.json:
        print(json.dumps({"peer": peer, "threads": args.threads, "rows": rows}))
        return
    print(f"swiftlet against {peer}, {args.threads} threads\n")
    print(f"{'file':<10} {'':<14} {'swiftlet':>9} {'peer':>9} {'ratio':>6}  least to most")
    for r in rows:
        print(f"{r['file']:<10} {r['what']:<14} {r['swiftlet_tokens_per_second']:9.2f} "
              f"{r['peer_tokens_per_second']:9.2f} {r['ratio']:6.2f}  {r['least']:.2f} to {r['most']:.2f}")
