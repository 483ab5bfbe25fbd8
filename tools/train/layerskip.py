#!/usr/bin/env python3
"""Continues a model's training by LayerSkip's recipe, so that its early blocks can draft for it.

Layer dropout grows with depth (Elhoushi et al. 2024, Eq. 1 to 4); the loss is taken at early exits too, all through
the model's own head (Eq. 5, 6), some blocks at a time (rotational or gradual schedule). The result is a Llama
folder like the one it came from: `swiftlet run OUT --method layerskip --exit-block E`.

    tools/train/text.py -m core/builtin -o build/train/text.json
    tools/train/layerskip.py -m core/builtin -t build/train/text.json -o build/train/layerskip
"""
import os

import torch

import losses
import safetensors_file
import training


def options_parser():
    p = training.parser(__doc__, "the folder to write", steps=120, batch=6, rate=1e-3)
    p.add_argument("--p-max", type=float, default=0.1, help="dropout rate of the last block (%(default)s)")
    p.add_argument("--dropout-curriculum", choices=["none", "exponential"], default="none",
                   help="S(t): none for a trained model, exponential from scratch (%(default)s)")
    p.add_argument("--e-scale", type=float, default=1.0, help="weight of the early exits, 0 to 1 (%(default)s)")
    p.add_argument("--schedule", choices=["rotational", "gradual", "all"], default="rotational",
                   help="which exits count at a step (%(default)s)")
    p.add_argument("--dilation", type=int, default=8, help="R of the rotational schedule (%(default)s)")
    return p


def train(model, tokens, options):
    """Trains the model's weights in place; returns the losses by step."""
    generator = torch.Generator().manual_seed(options.seed)
    order = training.batches(len(tokens), options.batch, options.steps, options.seed)
    loss = lambda t, batch: losses.layerskip(model, tokens[batch], t, options.steps, options, generator)
    return training.run("layerskip", list(model.weights.values()), loss, order, options.steps, options.rate)


def main():
    options = options_parser().parse_args()
    model, tokens = training.start(options)
    history = train(model, tokens, options)
    training.copy_folder(options.model, options.out)
    recipe = "p_max %g, e_scale %g, %s %d, %d steps of %d, rate %g, seed %d" % (
        options.p_max, options.e_scale, options.schedule, options.dilation, options.steps, options.batch, options.rate,
        options.seed)
    safetensors_file.write(os.path.join(options.out, "model.safetensors"), model.weights,
                           {"format": "pt", "layerskip": recipe, "loss": "%.4f" % history[-1]})


if __name__ == "__main__":
    main()
