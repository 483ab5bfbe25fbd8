"""The neighbouring methods, plain and slow, from their papers: what each drafts, where it stops, what is accepted.

Greedy, one sequence, float32, in torch. Every method is an object with propose(text, most), which returns the rows of a
draft at most `most` deep and why it went no further, and see(...), which hears what verification said. `decode` verifies
every draft with the full model and writes down the rounds. Nothing is reused and nothing is fast; a draft token's keys
and values are thrown away. If a paper leaves something open (the constants of Draft & Verify, Kangaroo's last draft
token, which is kept), it is as in its authors' published code.

LayerSkip: Elhoushi et al. 2024. Draft & Verify: Zhang et al. 2023. AdaSPEED: Liu et al. 2024. Kangaroo: Liu et al. 2024.
PPD: Yang et al. 2023. Lookahead: Fu et al. 2024. Jacobi: Santilli et al. 2023. Prompt lookup: Saxena 2023.
"""
import os
import sys

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "train"))
import llama  # noqa: E402
import losses  # noqa: E402


class Judge:
    """Makes the choices and remembers how close the closest was: another arithmetic may decide such a one otherwise."""

    def __init__(self):
        self.margin = float("inf")

    def best(self, logits, n=1):
        """The n highest ids, best first."""
        top = torch.topk(logits, n + 1)
        self.margin = min(self.margin, (top.values[:-1] - top.values[1:]).min().item())
        return top.indices[:n].tolist()

    def below(self, value, threshold):
        self.margin = min(self.margin, 10 * abs(value - threshold))
        return value < threshold


class Target:
    """The full model with its committed text."""

    def __init__(self, model, judge, exit_block=None):
        self.model, self.judge, self.cache = model, judge, llama.Cache(model.blocks)
        self.exit_block = exit_block  # whose output of the committed rows is handed on

    def verify(self, rows):
        """rows: [(token, parent)], root first, parent -1. Returns each row's next token; keeps nothing yet."""
        depth, n = [], len(rows)
        allowed = torch.zeros(n, n, dtype=torch.bool)
        for i, (_, parent) in enumerate(rows):
            depth.append(0 if parent < 0 else depth[parent] + 1)
            if parent >= 0:
                allowed[i] = allowed[parent]
            allowed[i, i] = True
        self.base = self.cache.length[0]
        position = self.base + torch.tensor(depth)
        x = self.model.embed(torch.tensor([[token for token, _ in rows]]))
        middle = self.exit_block or 0
        self.middle = self.model.rows(x, self.cache, 0, middle, allowed, position)
        x = self.model.rows(self.middle, self.cache, middle, None, allowed, position)
        return [self.judge.best(logits)[0] for logits in self.model.logits(x)[0]]

    def commit(self, path):
        """Keeps these rows of the last verification; returns their output of the exit block."""
        index = self.base + torch.tensor(path)
        for b in range(self.model.blocks):
            for store in (self.cache.keys, self.cache.values):
                store[b][:, :, self.base:self.base + len(path)] = store[b][:, :, index].clone()
        self.cache.truncate(self.base + len(path))
        return self.middle[:, path]


def children(rows, i):
    return [j for j, (_, parent) in enumerate(rows) if parent == i]


def decode(model, prompt, limit, method, judge):
    """(tokens, rounds): `limit` tokens, fewer where the text ends."""
    with torch.no_grad():
        target = Target(model, judge, method.exit_block)
        method.start(model, target, judge)
        chain = [(token, i - 1) for i, token in enumerate(prompt)]
        tokens = [target.verify(chain)[-1]]
        method.see_prompt(prompt, target.commit(list(range(len(prompt)))))
        rounds = []
        while len(tokens) < limit and tokens[-1] != model.eos:
            rows, stop = method.propose(prompt + tokens, limit - len(tokens) - 1)
            said = target.verify(rows)
            path = [0]
            while True:
                fitting = [j for j in children(rows, path[-1]) if rows[j][0] == said[path[-1]]]
                if not fitting or len(path) > limit - len(tokens) - 1:
                    break
                path.append(fitting[0])
            states = target.commit(path)
            new = [rows[j][0] for j in path[1:]] + [said[path[-1]]]
            if model.eos in new:
                new = new[:new.index(model.eos) + 1]
            rounds.append({"rows": rows, "stop": stop, "accepted": min(len(path) - 1, len(new)), "new": new})
            method.see(rows, said, path, states)
            tokens += new
        return tokens, rounds


class Method:
    exit_block = None

    def start(self, model, target, judge):
        self.model, self.target, self.judge = model, target, judge

    def see_prompt(self, prompt, states):
        pass

    def see(self, rows, said, path, states):
        pass


def as_chain(root, draft):
    return [(token, i - 1) for i, token in enumerate([root] + draft)]


class Steps(Method):
    """Drafts step by step: a pass of the draft model a token, until `stops` returns true."""

    most = 25

    def begin_round(self):
        pass

    def propose(self, text, most):
        cache, base = self.target.cache, self.target.cache.length[0]
        self.begin_round()
        draft, stop, token = [], "limit", text[-1]
        while len(draft) < min(most, self.most):
            logits, hidden = self.draft_step(token)
            token = self.judge.best(logits)[0]
            draft.append(token)
            unsure = self.stops(logits.softmax(-1)[token].item(), hidden)
            if unsure or token == self.model.eos:
                stop = "end" if token == self.model.eos else "threshold"
                break
        else:
            stop = "steps" if len(draft) == self.most else "limit"
        cache.truncate(base)  # the draft's own keys and values
        self.drafted = len(draft)
        return as_chain(text[-1], draft), stop

    def draft_step(self, token):
        """The exit at self.exit_block: the head on what blocks [0, E) make of the token (LayerSkip, section 4.2)."""
        x = self.model.embed(torch.tensor([[token]]))
        x = self.model.rows(x, self.target.cache, 0, self.exit_block)
        return self.model.logits(x)[0, 0], x[0, 0]

    def stops(self, probability, hidden):
        return False


class LayerSkip(Steps):
    """d draft tokens from blocks [0, E) and the model's own head (section 4.3.1)."""

    def __init__(self, exit_block, speculations):
        self.exit_block, self.most = exit_block, speculations


class AdaptiveThreshold:
    """Draft & Verify's gamma by two moving averages (AdaSPEED, appendix A)."""

    beta1, beta2, epsilon, alpha = 0.5, 0.9, 0.01, 0.9

    def __init__(self, gamma):
        self.gamma, self.rate = gamma, 0.0

    def see(self, accepted, drafted, judge):
        self.rate = self.beta1 * self.rate + (1 - self.beta1) * accepted / drafted
        up = judge.below(self.rate, self.alpha + 1e-9)
        self.gamma = self.beta2 * self.gamma + (1 - self.beta2) * (self.gamma + (self.epsilon if up else -self.epsilon))


class AdaSpeed(Steps):
    """Exit drafts until the chance that all of them hold is below gamma (Algorithm 2): `product` of the top-1
    probabilities, `probe`: of sigma(v h + b); `marginal`: the last one's probability alone (Algorithm 1)."""

    def __init__(self, exit_block, rule, most=25, gamma=0.8, probe=None):
        self.exit_block, self.rule, self.most, self.first_gamma, self.probe = exit_block, rule, most, gamma, probe

    def start(self, *parts):
        super().start(*parts)
        self.threshold = AdaptiveThreshold(self.first_gamma)

    def begin_round(self):
        self.chance = 1.0

    def stops(self, probability, hidden):
        if self.rule == "probe":
            probability = torch.sigmoid(hidden @ self.probe["probe.weight"] + self.probe["probe.bias"]).item()
        self.chance = probability if self.rule == "marginal" else self.chance * probability
        return self.judge.below(self.chance, self.threshold.gamma)

    def see(self, rows, said, path, states):
        if self.drafted > 0:
            self.threshold.see(len(path) - 1, self.drafted, self.judge)


class SelfSpec(AdaSpeed):
    """Draft & Verify: the model with a fixed mask drafts, on the full model's keys and values of the text so far; the
    marginal rule with its adaptive threshold."""

    exit_block = None

    def __init__(self, mask, most=12, gamma=0.8):
        super().__init__(None, "marginal", most, gamma)
        self.mask = mask

    def draft_step(self, token):
        cache, position = self.target.cache, torch.tensor([max(self.target.cache.length)])
        x = self.model.embed(torch.tensor([[token]]))
        x = self.model.rows(x, cache, position=position, skip=self.mask)
        return self.model.logits(x)[0, 0], x[0, 0]


class Kangaroo(Steps):
    """An adapter behind block E drafts; it stops behind a token whose probability is at most eta (Eq. 4), or at
    `most` tokens."""

    def __init__(self, adapter, exit_block, eta=0.6, most=6):
        self.adapter, self.exit_block, self.eta, self.most = adapter, exit_block, eta, most

    def start(self, *parts):
        super().start(*parts)
        self.cache = llama.Cache(1)

    def see_prompt(self, prompt, states):
        losses.kangaroo_hidden(self.model, self.adapter, states, self.cache)

    def see(self, rows, said, path, states):
        self.cache.truncate(self.base)
        losses.kangaroo_hidden(self.model, self.adapter, states, self.cache)

    def begin_round(self):
        self.base = self.cache.length[0]

    def draft_step(self, token):
        x = self.model.embed(torch.tensor([[token]]))
        x = self.model.rows(x, self.target.cache, 0, self.exit_block)
        hidden = losses.kangaroo_hidden(self.model, self.adapter, x, self.cache)
        return F.linear(hidden, self.model.head())[0, 0], hidden

    def stops(self, probability, hidden):
        return self.judge.below(probability, self.eta + 1e-9)


class Ppd(Method):
    """The k likeliest tokens at block d become the next position's rows; all go on to the last block together (section
    3). `heads`: the block's own head, or None for the model's."""

    def __init__(self, block, k, heads=None):
        self.exit_block, self.k, self.heads = block, k, heads

    def propose(self, text, most):
        rows = [(text[-1], -1)]
        if most < 1:
            return rows, None
        base = self.target.cache.length[0]
        x = self.model.rows(self.model.embed(torch.tensor([[text[-1]]])), self.target.cache, 0, self.exit_block)
        self.target.cache.truncate(base)
        if self.heads:
            logits = losses.ppd_logits(self.model, self.heads["ppd.head.%d.weight" % self.exit_block], x)
        else:
            logits = self.model.logits(x)
        return rows + [(token, 0) for token in self.judge.best(logits[0, 0], self.k)], None


class Jacobi(Method):
    """Guesses for the next W tokens, made better in parallel: the model's answer to each row is its next guess. The
    answers behind the last accepted one move up; the rest starts as the newest token, at first the prompt's last."""

    def __init__(self, width=8):
        self.width = width

    def see_prompt(self, prompt, states):
        self.guess = [prompt[-1]] * self.width

    def propose(self, text, most):
        return as_chain(text[-1], self.guess[:most]), None

    def see(self, rows, said, path, states):
        accepted = len(path) - 1
        self.guess = said[accepted + 1:]
        self.guess += [said[accepted]] * (self.width - len(self.guess))


class Ngram(Method):
    """Prompt lookup: where the last n tokens (n = 3, 2, 1) first occurred before, what followed there is drafted."""

    def __init__(self, longest=3, most=10):
        self.longest, self.most = longest, most

    def propose(self, text, most):
        for n in range(min(self.longest, len(text) - 1), 0, -1):
            for at in range(len(text) - n):
                if text[at:at + n] == text[-n:]:
                    draft = text[at + n:at + n + min(self.most, most)]
                    return as_chain(text[-1], draft), None
        return as_chain(text[-1], []), None


class Lookahead(Method):
    """A window of W columns by N - 1 levels of guesses, whose columns with what the model predicts after them are n-grams; a
    pool of the newest G by first token proposes (section 3). Level 0 is a chain below the newest token, level i of a
    column hangs below its level i - 1. It starts as the prompt's last tokens."""

    def __init__(self, columns=5, gram=3, kept=5):
        self.columns, self.levels, self.kept, self.pool = columns, gram - 1, kept, {}

    def see_prompt(self, prompt, states):
        back = prompt[::-1]
        start = [back[i % len(back)] for i in range(self.levels * self.columns)]
        self.level = [start[i * self.columns:(i + 1) * self.columns] for i in range(self.levels)]

    def propose(self, text, most):
        rows, depth = [(text[-1], -1)], [0]

        def add(parent, token):
            """The row of this token below its parent, made where it is not there; none below the greatest depth."""
            if parent is None or depth[parent] >= most:
                return None
            for j in children(rows, parent):
                if rows[j][0] == token:
                    return j
            rows.append((token, parent))
            depth.append(depth[parent] + 1)
            return len(rows) - 1

        for gram in self.pool.get(text[-1], []):
            row = 0
            for token in gram:
                row = add(row, token)
        self.last, above = [], 0
        for j in range(self.columns):
            row = above
            for i in range(self.levels):
                row = add(row, self.level[i][j])
                if i == 0:
                    above = row
            self.last.append(row)
        return rows, None

    def see(self, rows, said, path, states):
        for j, row in enumerate(self.last):
            if row is None:
                continue
            column = [level[j] for level in self.level] + [said[row]]
            kept = self.pool.setdefault(column[0], [])
            if column[1:] in kept:
                kept.remove(column[1:])
            kept.insert(0, column[1:])
            del kept[self.kept:]
            for i in range(self.levels):
                self.level[i][j] = column[i + 1]
