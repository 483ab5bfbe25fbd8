"""Shared by the trainers: their options, the order of the batches, the loop with its progress lines, and the
hidden states that parts on a frozen model are trained on."""
import argparse
import os
import shutil
import sys
import time

import torch

import llama
import text


def parser(doc, out, steps, batch, rate):
    """A command line with what every trainer has."""
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True, help="the Llama folder that is trained, or trained for")
    p.add_argument("-t", "--text", required=True, help="training text, as tools/train/text.py writes it")
    p.add_argument("-o", "--out", required=True, help=out)
    p.add_argument("--steps", type=int, default=steps, help="batches (%(default)s)")
    p.add_argument("--batch", type=int, default=batch, help="sequences a batch (%(default)s)")
    p.add_argument("--rate", type=float, default=rate, help="AdamW's highest learning rate; it rises over the first "
                                                            "tenth of the steps and falls to 0 (%(default)s)")
    p.add_argument("--seed", type=int, default=1, help="of batches and dropout (%(default)s)")
    p.add_argument("--threads", type=int, default=1, help="(%(default)s)")
    return p


def start(options):
    """(model, text) as the options name them."""
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    os.makedirs(os.path.dirname(os.path.abspath(options.out)), exist_ok=True)
    return llama.Llama.load(options.model), text.read(options.text)


def batches(n, size, steps, seed):
    """`steps` index tensors of `size`, all n items once before any comes again."""
    generator, left = torch.Generator().manual_seed(seed), torch.empty(0, dtype=torch.long)
    for _ in range(steps):
        while len(left) < size:
            left = torch.cat([left, torch.randperm(n, generator=generator)])
        yield left[:size]
        left = left[size:]


def run(name, parameters, loss_of, order, steps, rate, clip=1.0):
    """AdamW on `parameters`: loss_of(step, batch) for each batch of `order`. Returns the losses."""
    for p in parameters:
        p.requires_grad_(True)
    optimizer = torch.optim.AdamW(parameters, lr=rate, betas=(0.9, 0.95), weight_decay=0.0)
    warm = max(1, steps // 10)
    scale = lambda t: (t + 1) / warm if t < warm else max(0.0, (steps - t) / max(1, steps - warm))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, scale)
    losses, started = [], time.time()
    for t, batch in enumerate(order):
        optimizer.zero_grad()
        loss = loss_of(t, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, clip)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if (t + 1) % max(1, steps // 20) == 0 or t + 1 == steps:
            recent = losses[-max(1, steps // 20):]
            print("%s: step %d of %d, loss %.4f, %.0f s" % (name, t + 1, steps, sum(recent) / len(recent),
                                                           time.time() - started), file=sys.stderr, flush=True)
    for p in parameters:
        p.requires_grad_(False)
    return losses


def states(model, tokens, exits, batch=16):
    """The outputs of a frozen model's blocks: {E: (sequences, length, dim)} for each exit and for the last block."""
    wanted = sorted(set(exits) | {model.blocks})
    kept = {e: [] for e in wanted}
    with torch.no_grad():
        for first in range(0, len(tokens), batch):
            x, at = model.embed(tokens[first:first + batch]), 0
            for e in wanted:
                x, at = model.rows(x, first=at, last=e), e
                kept[e].append(x)
            done = min(first + batch, len(tokens))
            if done % (8 * batch) == 0 or done == len(tokens):
                print("states: %d of %d sequences" % (done, len(tokens)), file=sys.stderr, flush=True)
    return {e: torch.cat(parts) for e, parts in kept.items()}


def check_exit(model, block, option):
    if not 0 < block < model.blocks:
        sys.exit("%s %d: the model has %d blocks, so an exit lies between 1 and %d" % (option, block, model.blocks,
                                                                                     model.blocks - 1))


def copy_folder(source, out):
    """Everything of a model's folder but its weights."""
    os.makedirs(out, exist_ok=True)
    for name in os.listdir(source):
        if not name.endswith(".safetensors"):
            shutil.copy(os.path.join(source, name), os.path.join(out, name))
