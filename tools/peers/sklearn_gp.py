#!/usr/bin/env python3
"""scikit-learn's times for what `swiftlet bench gp` times, on the same sizes, beside ours.

    swiftlet bench gp --json | python tools/peers/sklearn_gp.py
    python tools/peers/sklearn_gp.py --ours figures.json
    python tools/peers/sklearn_gp.py --alone

1,000 observations in 156 dimensions, Matérn 5/2, one core. Adding an observation: scikit-learn has no way but to
factor anew (fit without an optimiser). A proposal: UCB over 1,000 random masks of 70 bits by predict, as a user of
scikit-learn would do it (ours climbs the relaxed cube from 3 starts and swaps). A fit: fmin_l_bfgs_b on the log
marginal likelihood, once, with gradients; one length for all dimensions, the least there is to fit.
"""
import argparse
import json
import os
import sys
import time

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[name] = "1"

OBSERVATIONS, DIMS, SIZE, TRIALS = 1000, 156, 70, 32


def read_ours(args):
    """swiftlet's figures, or none."""
    if args.alone:
        return {}
    text = open(args.ours).read() if args.ours else sys.stdin.read()
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise SystemExit(f"{args.ours or 'standard input'}: not the one JSON object that swiftlet bench gp --json prints "
                         "(--alone does without)")


def masks(np, random, n):
    bits = np.zeros((n, DIMS))
    for row in bits:
        row[random.choice(DIMS, SIZE, replace=False)] = 1
    return bits


def seconds(function, times):
    taken = []
    for _ in range(times):
        began = time.perf_counter()
        function()
        taken.append(time.perf_counter() - began)
    return sorted(taken)[times // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", metavar="FILE", help="the output of swiftlet bench gp --json (standard input)")
    parser.add_argument("--alone", action="store_true", help="measure scikit-learn only, read nothing")
    args = parser.parse_args()
    ours = read_ours(args)

    import numpy as np
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern

    random = np.random.default_rng(1)
    X = masks(np, random, OBSERVATIONS)
    y = random.binomial(TRIALS, 0.97 - 0.012 * X[:, ::2].sum(1)) / TRIALS
    noise = 0.25 / TRIALS + 1e-6
    kernel = ConstantKernel(0.04, (1e-6, 1e6)) * Matern(length_scale=6.0, length_scale_bounds=(1e-3, 1e3), nu=2.5)
    fixed = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None, normalize_y=True)
    add = seconds(lambda: fixed.fit(X, y), 5)

    def propose():
        mean, sd = fixed.predict(masks(np, random, 1000), return_std=True)
        return np.argmax(mean + 2.5 * sd)

    proposal = seconds(propose, 5)
    fit = seconds(lambda: GaussianProcessRegressor(kernel, alpha=noise, normalize_y=True).fit(X, y), 1)
    theirs = {"add_ms": 1e3 * add, "propose_ms": 1e3 * proposal, "fit_s": fit}
    print(f"{OBSERVATIONS} observations, {DIMS} dimensions{'':8} swiftlet   scikit-learn")
    for name, what in (("add_ms", "adding one observation, ms"), ("propose_ms", "one Bayesian proposal, ms"),
                       ("fit_s", "fitting the hyper-parameters, s")):
        mine = f"{ours[name]:10.3f}" if name in ours else " " * 10
        print(f"  {what:36} {mine} {theirs[name]:14.3f}")
    print(json.dumps({"swiftlet": {k: ours.get(k) for k in theirs}, "scikit-learn": theirs}))


if __name__ == "__main__":
    main()
