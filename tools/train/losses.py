"""The losses of the trainers, formula by formula. Block numbers count from 0; an exit at block E means that blocks
[0, E) have run. LayerSkip: Elhoushi et al. 2024; Kangaroo: Liu et al. 2024; PPD: Yang et al. 2023; AdaSPEED: Liu et
al. 2024."""
import math

import torch
import torch.nn.functional as F

import llama


# ---- LayerSkip ------------------------------------------------------------------------------------------------------

def layer_scale(l, blocks):
    """D(l) = exp(l ln2 / (L - 1)) - 1: 0 for the first block, 1 for the last (Eq. 3)."""
    return math.exp(l * math.log(2) / (blocks - 1)) - 1


def time_scale(t, steps, curriculum):
    """S(t): 1, for a model that is trained already, or exponential over the T steps, from scratch (Eq. 4)."""
    return 1.0 if curriculum == "none" or steps < 2 else math.exp(t * math.log(2) / (steps - 1)) - 1


def dropout_rate(l, t, blocks, steps, p_max, curriculum="none"):
    """p(l, t) = S(t) D(l) p_max (Eq. 2)."""
    return time_scale(t, steps, curriculum) * layer_scale(l, blocks) * p_max


def exit_scale(l, blocks, e_scale):
    """e(l): e_scale times the sum of 0..l; the last block's is L - 1 plus e_scale times the sum of 0..L-2 (below Eq. 6)."""
    if l < blocks - 1:
        return e_scale * l * (l + 1) / 2
    return blocks - 1 + e_scale * (blocks - 2) * (blocks - 1) / 2


def exits_enabled(t, blocks, steps, schedule, dilation):
    """C(t, l), as the set of blocks whose exit loss counts at step t (section 4.1.2).

    rotational: every dilation-th block, turned by one a step. gradual: from the last block down, one more every T / 2L
    steps. The last block's loss always counts: the paper's sum would leave most rotational steps without it, and what
    verification asks is what must not drift."""
    last = blocks - 1
    if schedule == "rotational":
        return {l for l in range(blocks) if (l - t) % dilation == 0} | {last}
    if schedule == "gradual":
        return set(range(max(0, last - int(t * 2 * blocks / steps)), blocks))
    return set(range(blocks))


def exit_weights(t, blocks, steps, schedule, dilation, e_scale):
    """The normalised e(t, l) of Eq. 6, by block; blocks of weight 0 are left out."""
    raw = {l: exit_scale(l, blocks, e_scale) for l in exits_enabled(t, blocks, steps, schedule, dilation)}
    total = sum(raw.values())
    return {l: w / total for l, w in raw.items() if w > 0}


def layerskip(model, tokens, t, steps, options, generator=None):
    """J(X, Y, t) of Eq. 5 on tokens (sequences, length): every enabled block's output through the model's own head
    against the next token, with layer dropout by sequence (Eq. 1). `options`: p_max, dropout_curriculum, e_scale,
    schedule, dilation."""
    weights = exit_weights(t, model.blocks, steps, options.schedule, options.dilation, options.e_scale)
    x, loss = model.embed(tokens[:, :-1]), 0
    target = tokens[:, 1:].reshape(-1)
    for b in range(model.blocks):
        rate = dropout_rate(b, t, model.blocks, steps, options.p_max, options.dropout_curriculum)
        kept = torch.rand(len(tokens), generator=generator) >= rate
        if kept.all():
            x = model.rows(x, first=b, last=b + 1)
        elif kept.any():  # the dropped sequences pass the block by
            x = x.index_copy(0, kept.nonzero()[:, 0], model.rows(x[kept], first=b, last=b + 1))
        if b in weights:
            loss = loss + weights[b] * F.cross_entropy(model.logits(x).flatten(0, 1), target)
    return loss


# ---- heads on a frozen model ----------------------------------------------------------------------------------------

def distillation(logits, target):
    """Cross-entropy against the target's distribution: the mean over rows of -sum_n p_n log q_n (Kangaroo, Eq. 3).

    On text that the model sampled itself it is what cross-entropy with the next token (PPD, Table 2) comes to in the
    mean, with less noise."""
    return -(target.softmax(-1) * logits.log_softmax(-1)).sum(-1).mean()


def kangaroo_hidden(model, adapter, x, cache=None):
    """The adapter: RMSNorm, one attention with a residual, RMSNorm, on the output x of the exit block; the target's
    output matrix follows (Kangaroo, section 3.1). adapter: tensors by name."""
    part = lambda name: adapter["kangaroo." + name + ".weight"]
    normed = llama.rms_norm(x, part("norm_in"), model.epsilon)
    x = x + model.attention(normed, *(part("attention." + p) for p in "qkvo"), cache=cache)
    return llama.rms_norm(x, part("norm_out"), model.epsilon)


def kangaroo(model, adapter, x, target):
    """Eq. 3 for the adapter on exit states x (sequences, rows, dim) and the target's logits."""
    return distillation(F.linear(kangaroo_hidden(model, adapter, x), model.head()), target)


def ppd_logits(model, weight, x):
    """A block's own head on its output: `weight` (dim, dim) on the final norm's output, then the target's output matrix."""
    return F.linear(F.linear(model.normed(x), weight), model.head())


def ppd(model, weight, x, target):
    return distillation(ppd_logits(model, weight, x), target)


def probe(v, b, h, accepted):
    """AdaSPEED's probe loss (section II.B): binary cross-entropy of sigma(v h + b) against what the target accepted
    (0 or 1), h (rows, dim)."""
    return F.binary_cross_entropy_with_logits(h @ v + b, accepted)
