#!/usr/bin/env python3
"""llama.cpp of today and swiftlet on the same GGUF files and prompts, in turns.

llama.cpp comes as the wheel `xllamacpp` (prebuilt; nothing is compiled): `pip install xllamacpp` into an environment
of your own. Each prompt is answered greedily by llama.cpp plainly and with its own drafting from text (ngram-simple,
ngram-mod, ngram-map-k), and by swiftlet plainly and with its defaults, one after another, in an order that moves on.
Each has a process of its own, holds the file open and begins with nothing learned; one works at a time. Decoding and
prompts are timed by each program's own clock. With --native llama.cpp comes as the source package `llama-cpp-python`, which
pip compiles for this machine (CMAKE_ARGS=-DGGML_NATIVE=ON); it then decodes plainly alone.

    llama_cpp.py -i tools/chat.jsonl $(tools/models smollm2-135m)
    llama_cpp.py --native $(tools/models smollm2-135m)
    llama_cpp.py -i prompts.jsonl --tokens 128 --json a.gguf b.gguf
"""
import argparse
import json
import multiprocessing
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# this script's name must not stand for a package
sys.path[:] = [p for p in sys.path if pathlib.Path(p or ".").resolve() != pathlib.Path(__file__).resolve().parent]

KINDS = {"none": "NONE", "ngram-simple": "NGRAM_SIMPLE", "ngram-mod": "NGRAM_MOD", "ngram-map-k": "NGRAM_MAP_K"}


def serve_theirs(pipe, path, kind, context, threads):
    """A process of its own: OpenMP lets threads sleep at every barrier where a process has more of them than processors."""
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx, params.n_parallel, params.n_gpu_layers = context, 1, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    if kind != "none":
        params.speculative.types = [getattr(xllamacpp.common_speculative_type, f"COMMON_SPECULATIVE_TYPE_{KINDS[kind]}")]
    server = xllamacpp.Server(params)
    while request := pipe.recv():
        out = server.handle_completions({"prompt": request[0], "n_predict": request[1], "temperature": 0, "cache_prompt": False})
        pipe.send(out["timings"])


def serve_native(pipe, path, _, context, threads):
    import llama_cpp
    import numpy

    def likeliest():
        logits = llama_cpp.llama_get_logits_ith(model.ctx, -1)
        return int(numpy.ctypeslib.as_array(logits, shape=(model.n_vocab(),)).argmax())

    model = llama_cpp.Llama(str(path), n_ctx=context, n_threads=threads, n_threads_batch=threads, verbose=False)
    while request := pipe.recv():
        prompt = model.tokenize(request[0].encode(), special=True)
        model.reset()
        begin = time.perf_counter()
        model.eval(prompt)
        middle = time.perf_counter()
        for _ in range(request[1]):
            model.eval([likeliest()])
        end = time.perf_counter()
        pipe.send({"prompt_per_second": len(prompt) / (middle - begin), "predicted_per_second": request[1] / (end - middle),
                   "predicted_n": request[1]})


class Theirs:
    def __init__(self, path, kind, args):
        self.pipe, theirs = multiprocessing.Pipe()
        multiprocessing.Process(target=serve_native if args.native else serve_theirs,
                                args=(theirs, path, kind, args.context, args.threads), daemon=True).start()

    def answer(self, prompt, n):
        """(prompt tokens a second, decoded tokens a second, decoded tokens)"""
        self.pipe.send((prompt, n))
        t = self.pipe.recv()
        return t["prompt_per_second"], t["predicted_per_second"], t["predicted_n"]

    def close(self):
        self.pipe.send(None)


class Ours:
    def __init__(self, path, method, args):
        self.process = subprocess.Popen(
            [args.swiftlet, "stream", "-m", str(path), "-i", "-", "--no-store", "--threads", str(args.threads), "--isa", args.isa,
             "--context", str(args.context), *method],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self, prompt, n):
        self.process.stdin.write(json.dumps({"id": 1, "prompt": prompt, "max_tokens": n}) + "\n")
        self.process.stdin.flush()
        out = json.loads(self.process.stdout.readline())
        if "error" in out:
            raise SystemExit(f"swiftlet: {out['error']['message']}")
        decoded = len(out["tokens"]) - 1  # the first comes with the prompt
        computed = out["prompt_tokens"] - (out["cached_tokens"] or 0)
        return computed / out["seconds"]["prefill"], decoded / out["seconds"]["decode"] if decoded else None, decoded

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def templated(args, path, messages):
    """The prompt's text as swiftlet's template makes it; of a model without one, the last message."""
    done = subprocess.run([args.swiftlet, "tokenize", "-m", str(path), "--text", "--messages", json.dumps(messages)],
                          capture_output=True, text=True)
    return done.stdout.removesuffix("\n") if done.returncode == 0 else messages[-1]["content"]


def read_prompts(args, path):
    for line in pathlib.Path(args.input).read_text().splitlines():
        item = json.loads(line)
        text = item["prompt"] if "prompt" in item else templated(args, path, item["messages"])
        yield text, args.tokens or item.get("max_tokens", 128)


def measure(args, path):
    # the beginning token stands in a template's text where it has one, and would be added once more
    programs = {f"llama.cpp {kind}": Theirs(path, kind, args) for kind in (["none"] if args.native else KINDS)}
    programs["swiftlet vanilla"] = Ours(path, ["--method", "vanilla"], args)
    programs["swiftlet defaults"] = Ours(path, [], args)
    names = list(programs)
    seen = {name: {"prompt": [], "decode": [], "tokens": 0, "seconds": 0.0} for name in names}
    for name in names:
        programs[name].answer("the", 4)  # the file is read, and its pages are there
    prompts = list(read_prompts(args, path))
    for i, (text, n) in enumerate(prompts):
        if sys.stderr.isatty():
            print(f"\r{path.name} {i}/{len(prompts)} ", end="", file=sys.stderr)
        for k in range(len(names)):
            name = names[(i + k) % len(names)]
            prompt, decode, tokens = programs[name].answer(text, n)
            if decode:
                seen[name]["prompt"].append(prompt)
                seen[name]["decode"].append(decode)
                seen[name]["tokens"] += tokens
                seen[name]["seconds"] += tokens / decode
    for program in programs.values():
        program.close()
    return {name: {"prompt": statistics.median(s["prompt"]), "decode": s["tokens"] / s["seconds"],
                   "decode_median": statistics.median(s["decode"])} for name, s in seen.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="+", type=pathlib.Path, help="GGUF files")
    parser.add_argument("-i", "--input", default=str(ROOT / "tools" / "chat.jsonl"), help="prompts as JSON lines")
    parser.add_argument("--tokens", type=int, help="tokens at most (each line's max_tokens)")
    parser.add_argument("--context", type=int, default=2048)
    parser.add_argument("--threads", type=int, default=2, help="threads of each program (2)")
    parser.add_argument("--native", action="store_true", help="use a llama.cpp compiled for this machine, and compare plain decoding only")
    parser.add_argument("--isa", default="auto", help="instruction set of swiftlet; that of llama.cpp's wheel is avx2 (auto)")
    parser.add_argument("--swiftlet", default=os.environ.get("SWIFTLET", str(ROOT / "build" / "swiftlet")))
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rows = {path.name: measure(args, path) for path in args.model}
    if args.json:
        print(json.dumps(rows))
        return
    for file, programs in rows.items():
        best = max(p["decode"] for name, p in programs.items() if name.startswith("llama"))
        plain = programs["llama.cpp none"]
        print(f"{file}\n{'':20} {'prompt':>9} {'over':>6} {'decode':>9} {'over none':>10} {'over best':>10}")
        for name, p in programs.items():
            print(f"{name:20} {p['prompt']:9.1f} {p['prompt'] / plain['prompt']:6.2f} {p['decode']:9.1f} "
                  f"{p['decode'] / plain['decode']:10.2f} {p['decode'] / best:10.2f}")


if __name__ == "__main__":
    multiprocessing.set_start_method("spawn")
    main()
