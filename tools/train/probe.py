#!/usr/bin/env python3
"""Trains AdaSPEED's probe: from the hidden state at the exit, the chance that the exit's token is what the model predicts.

sigma(v h + b), logistic loss over whether the exit's first choice is the last block's (Liu et al. 2024, section
II.B). Used as `swiftlet run MODEL --method adaspeed --stop probe --probe FILE`; without a file the probe is learned
while decoding.

    tools/train/probe.py -m build/train/layerskip -t build/train/text.json -o build/train/probe.safetensors --exit-block 8
"""
import sys

import torch

import losses
import safetensors_file
import training


def examples(model, tokens, exit_block):
    """(hidden states (rows, dim), 1 where the exit's argmax is the model's)."""
    states = training.states(model, tokens, [exit_block])
    rows, agreed = states[exit_block].flatten(0, 1), []
    with torch.no_grad():
        for exits, ends in zip(states[exit_block], states[model.blocks]):
            agreed.append(model.logits(exits).argmax(-1) == model.logits(ends).argmax(-1))
    return rows, torch.cat(agreed).float()


def train(model, tokens, options):
    """(v, b, losses by step, share of held-out rows predicted right, share that agrees)."""
    rows, accepted = examples(model, tokens, options.exit_block)
    length = tokens.shape[1]
    kept = max(1, len(tokens) // 10) * length  # judged on sequences that it does not learn from
    scale = rows.pow(2).mean().sqrt()  # learned on states of size 1, then v is scaled back
    v, b = torch.zeros(model.dim), torch.zeros(1)
    learn_rows, learn_accepted = rows[:-kept].view(-1, length, model.dim) / scale, accepted[:-kept].view(-1, length)
    loss = lambda t, batch: losses.probe(v, b, learn_rows[batch].flatten(0, 1), learn_accepted[batch].flatten())
    order = training.batches(len(learn_rows), options.batch, options.steps, options.seed)
    history = training.run("probe", [v, b], loss, order, options.steps, options.rate)
    v = v / scale
    right = ((rows[-kept:] @ v + b > 0).float() == accepted[-kept:]).float().mean().item()
    return v, b, history, right, accepted.mean().item()


def main():
    p = training.parser(__doc__, "the probe to write, safetensors", steps=500, batch=4, rate=1e-2)
    p.add_argument("--exit-block", type=int, default=8, help="blocks that have run (%(default)s)")
    options = p.parse_args()
    model, tokens = training.start(options)
    training.check_exit(model, options.exit_block, "--exit-block")
    v, b, history, right, share = train(model, tokens, options)
    print("probe: predicts %.3f of held-out rows right; the exit agrees on %.3f" % (right, share), file=sys.stderr)
    safetensors_file.write(options.out, {"probe.weight": v, "probe.bias": b}, {
        "format": "swiftlet-probe-1", "exit_block": str(options.exit_block), "loss": "%.4f" % history[-1],
        "right": "%.3f" % right,
        "recipe": "%d steps of %d, rate %g, seed %d" % (options.steps, options.batch, options.rate, options.seed)},
        dtype=torch.float32)


if __name__ == "__main__":
    main()
