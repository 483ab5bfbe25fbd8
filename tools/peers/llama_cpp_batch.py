#!/usr/bin/env python3
"""Many sequences at once: `swiftlet serve` beside llama.cpp's batched decoding, on the same file, in alternation.

llama.cpp: one llama_decode a step with one token of each sequence (llama-cpp-python's low-level calls, no sampling but
the arguments' own tokens), which is its best case: no HTTP, no text. Ours: as many streaming clients of `swiftlet serve`,
plain (--method vanilla) and with drafting. The model is llama_cpp.py's of random weights, in which drafting finds little.

    llama_cpp_batch.py --folder /tmp/peers --types F16,Q8_0,Q4_K_M --clients 1,2,4,8,16,32
    llama_cpp_batch.py --folder /tmp/peers --types Q4_K_M --clients 1,8 --alternations 1
    llama_cpp_batch.py --folder /tmp/peers --make        makes the files and ends
"""
import argparse
import json
import statistics
import subprocess
import sys
import time

import alternate  # first: it takes this folder off the module path

import llama_cpp

sys.path.insert(0, str(alternate.ROOT / "tools" / "load"))
import batch


class Peer:
    """llama.cpp with room for the most sequences, each of `room` tokens."""

    def __init__(self, path, threads, sequences, room):
        llama_cpp.llama_backend_init()
        params = llama_cpp.llama_model_default_params()
        params.n_gpu_layers = 0
        self.model = llama_cpp.llama_model_load_from_file(str(path).encode(), params)
        how = llama_cpp.llama_context_default_params()
        how.n_ctx, how.n_batch, how.n_ubatch = sequences * room, 512, 512
        how.n_seq_max, how.n_threads, how.n_threads_batch = sequences, threads, threads
        self.context = llama_cpp.llama_init_from_model(self.model, how)
        if not self.model or not self.context:
            sys.exit(f"llama.cpp could not open {path}")
        self.batch = llama_cpp.llama_batch_init(max(512, sequences), 0, 1)

    def decode(self, rows):
        """rows: (token, position, sequence, wanted)."""
        b = self.batch
        b.n_tokens = len(rows)
        for i, (token, position, sequence, wanted) in enumerate(rows):
            b.token[i], b.pos[i], b.n_seq_id[i], b.logits[i] = token, position, 1, wanted
            b.seq_id[i][0] = sequence
        if llama_cpp.llama_decode(self.context, b):
            sys.exit("llama_decode failed")
        llama_cpp.llama_synchronize(self.context)

    def rate(self, sequences, prompt, seconds, room):
        """Tokens a second of so many sequences in lockstep, after prompts of `prompt` tokens each."""
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(self.context), True)
        for s in range(sequences):
            self.decode([(100 + (37 * i + s) % 1000, i, s, i == prompt - 1) for i in range(prompt)])
        steps, began = 0, time.perf_counter()
        while time.perf_counter() - began < seconds and prompt + steps < room:
            self.decode([(100 + (53 * steps + s) % 1000, prompt + steps, s, True) for s in range(sequences)])
            steps += 1
        return sequences * steps / (time.perf_counter() - began)

    def close(self):
        llama_cpp.llama_batch_free(self.batch)
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_model_free(self.model)


def file_of(args, kind):
    """Made by llama_cpp.py where it is missing."""
    path = args.folder / f"random-1.1b-{kind}.gguf"
    if not path.exists():
        subprocess.run([sys.executable, str(alternate.HERE / "llama_cpp.py"), "--folder", str(args.folder), "--types", kind, "--make"],
                       check=True)
    return path


def measure(args, label, path):
    most = max(args.clients)
    batch.PROGRAM = args.swiftlet
    peer = Peer(path, args.threads, most, args.room)
    options = ["--threads", str(args.threads), "--context", str(args.room)]
    ours = batch.open_methods(str(path), ["vanilla", "auto"], most, 5, args.room - 64, options)
    rows = []
    for clients in args.clients:
        pairs = []
        for _ in range(args.alternations):
            got = {m: batch.rate(server, clients, args.seconds, args.room - 64) for m, server in ours.items()}
            got["llama"] = peer.rate(clients, 4, args.seconds, args.room)
            pairs.append(got)
        median = {m: statistics.median(p[m] for p in pairs) for m in pairs[0]}
        rows.append({"file": label, "sequences": clients, **{m: round(x, 2) for m, x in median.items()},
                     "vanilla_over_llama": round(statistics.median(p["vanilla"] / p["llama"] for p in pairs), 2),
                     "auto_over_llama": round(statistics.median(p["auto"] / p["llama"] for p in pairs), 2)})
        print(f"{label}: {clients} sequences measured", file=sys.stderr, flush=True)
    for server in ours.values():
        server.close()
    peer.close()
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    alternate.add_options(parser)
    parser.set_defaults(alternations=2)
    parser.add_argument("--types", default="F16,Q8_0,Q4_K_M", help="which (%(default)s)")
    parser.add_argument("--file", help="a GGUF file, in place of those in the folder")
    parser.add_argument("--clients", default="1,2,4,8,16,32", help="sequences at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=4, help="of a measurement (%(default)s)")
    parser.add_argument("--room", type=int, default=512, help="tokens of a sequence, at most (%(default)s)")
    args = parser.parse_args()
    args.clients = [int(n) for n in args.clients.split(",")]
    args.folder.mkdir(parents=True, exist_ok=True)
    files = [(kind, file_of(args, kind)) for kind in args.types.split(",")] if not args.file else [("file", args.file)]
    if args.make:
        return
    rows = []
    for label, path in files:
        rows += measure(args, label, path)
    result = {"peer": f"llama.cpp (llama-cpp-python {llama_cpp.__version__})", "threads": args.threads, "rows": rows}
    if args.json:
        print(json.dumps(result))
    else:
        batch.show(result)


main()
