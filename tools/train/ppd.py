#!/usr/bin/env python3
"""Trains a head of its own for each of some blocks, so that a block predicts better what the last one will predict.

The model stays as it is (Yang et al. 2023, appendix B). Where the paper trains a whole classifier (vocab, dim) a block, a
head here is a (dim, dim) matrix between the final norm and the model's own output matrix: 32 KB at width 128.
Used as `swiftlet run MODEL --method ppd --heads FILE` and by `swiftlet bench match-rate`.

    tools/train/ppd.py -m core/builtin -t build/train/text.json -o build/train/heads.safetensors
"""
import torch

import losses
import safetensors_file
import training


def train(model, tokens, options):
    """(heads by name, losses by step)."""
    states = training.states(model, tokens, options.blocks)
    heads = {"ppd.head.%d.weight" % b: torch.eye(model.dim) for b in options.blocks}

    def loss(t, batch):
        with torch.no_grad():
            target = model.logits(states[model.blocks][batch])
        total = 0
        for b in options.blocks:
            total = total + losses.ppd(model, heads["ppd.head.%d.weight" % b], states[b][batch], target)
        return total / len(options.blocks)

    order = training.batches(len(tokens), options.batch, options.steps, options.seed)
    return heads, training.run("ppd", list(heads.values()), loss, order, options.steps, options.rate)


def main():
    p = training.parser(__doc__, "the heads to write, safetensors", steps=100, batch=4, rate=2e-3)
    p.add_argument("--blocks", type=lambda s: [int(b) for b in s.split(",")], default=[5, 8, 10, 12, 15, 16, 18, 19],
                   help="which blocks get a head, as blocks that have run (5,8,10,12,15,16,18,19)")
    options = p.parse_args()
    model, tokens = training.start(options)
    for b in options.blocks:
        training.check_exit(model, b, "--blocks")
    heads, history = train(model, tokens, options)
    safetensors_file.write(options.out, heads, {
        "format": "swiftlet-heads-1", "loss": "%.4f" % history[-1],
        "recipe": "%d steps of %d, rate %g, seed %d" % (options.steps, options.batch, options.rate, options.seed)})


if __name__ == "__main__":
    main()
