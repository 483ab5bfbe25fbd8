#!/usr/bin/env python3
"""Trains Kangaroo's adapter: RMSNorm, one attention, RMSNorm between an early block and the model's own output matrix.

The model stays as it is; the adapter learns the model's distribution (cross-entropy, AdamW; Liu et al. 2024, Eq. 3).
Used as `swiftlet run MODEL --method kangaroo --adapter FILE`.

    tools/train/kangaroo.py -m core/builtin -t build/train/text.json -o build/train/kangaroo.safetensors --exit-block 4
"""
import torch

import losses
import safetensors_file
import training


def new_adapter(model, exit_block):
    """Starts as the model's own attention of the block that would come next: near to what it has to do."""
    b = "model.layers.%d." % exit_block
    parts = {"attention." + p: model.weights[b + "self_attn.%s_proj.weight" % p] for p in "qkvo"}
    parts["norm_in"] = model.weights[b + "input_layernorm.weight"]
    parts["norm_out"] = model.weights["model.norm.weight"]
    return {"kangaroo.%s.weight" % name: tensor.clone() for name, tensor in parts.items()}


def train(model, tokens, options):
    """(adapter, losses by step)."""
    adapter = new_adapter(model, options.exit_block)
    states = training.states(model, tokens, [options.exit_block])

    def loss(t, batch):
        with torch.no_grad():
            target = model.logits(states[model.blocks][batch])
        return losses.kangaroo(model, adapter, states[options.exit_block][batch], target)

    order = training.batches(len(tokens), options.batch, options.steps, options.seed)
    history = training.run("kangaroo", list(adapter.values()), loss, order, options.steps, options.rate)
    return adapter, history


def main():
    p = training.parser(__doc__, "the adapter to write, safetensors", steps=300, batch=8, rate=3e-3)
    p.add_argument("--exit-block", type=int, default=4, help="blocks that run before the adapter (%(default)s)")
    options = p.parse_args()
    model, tokens = training.start(options)
    training.check_exit(model, options.exit_block, "--exit-block")
    adapter, history = train(model, tokens, options)
    safetensors_file.write(options.out, adapter, {
        "format": "swiftlet-adapter-1", "exit_block": str(options.exit_block), "loss": "%.4f" % history[-1],
        "recipe": "%d steps of %d, rate %g, seed %d" % (options.steps, options.batch, options.rate, options.seed)})


if __name__ == "__main__":
    main()
