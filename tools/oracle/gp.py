#!/usr/bin/env python3
"""Golden values for the Gaussian process, from scikit-learn and scipy.

Writes tests/gp/golden.json: for both kernels a set of scored bit vectors in windows, and what scikit-learn's
GaussianProcessRegressor makes of them: posterior mean and variance at other points, the log marginal likelihood
and its gradient at given hyper-parameters, and the hyper-parameters where scipy's L-BFGS-B finds the maximum.
Run: python tools/oracle/gp.py > tests/gp/golden.json
"""
import argparse
import json

import numpy as np
from scipy.linalg import cho_solve, cholesky
from scipy.optimize import minimize
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import ConstantKernel, Hyperparameter, Kernel, Matern
from sklearn.gaussian_process.kernels import StationaryKernelMixin

DIMS, OBSERVATIONS, POINTS, SIZE, WINDOW, TRIALS = 44, 90, 12, 19, 9, 128


class OnBits(Matern):
    """Matérn 5/2 on all columns but the last, which is the window."""

    def __call__(self, X, Y=None, eval_gradient=False):
        return super().__call__(X[:, :-1], None if Y is None else Y[:, :-1], eval_gradient)


class Hamming(StationaryKernelMixin, Kernel):
    """exp(-sum of |x - z| / length), one length a column."""

    def __init__(self, length_scale):
        self.length_scale = length_scale

    @property
    def hyperparameter_length_scale(self):
        return Hyperparameter("length_scale", "numeric", (1e-5, 1e5), len(self.length_scale))

    def __call__(self, X, Y=None, eval_gradient=False):
        differs = np.abs(X[:, None, :-1] - (X if Y is None else Y)[None, :, :-1]) / self.length_scale
        K = np.exp(-differs.sum(-1))
        return (K, K[:, :, None] * differs) if eval_gradient else K

    def diag(self, X):
        return np.ones(len(X))


class Window(StationaryKernelMixin, Kernel):
    """1 where two rows share a window; a window of 0 is a row's own."""

    def __init__(self):
        pass

    def __call__(self, X, Y=None, eval_gradient=False):
        a, b = X[:, -1], (X if Y is None else Y)[:, -1]
        K = ((a[:, None] == b[None, :]) & (a[:, None] != 0)).astype(float)
        if Y is None:
            np.fill_diagonal(K, 1.0)
        return (K, np.empty((len(X), len(X), 0))) if eval_gradient else K

    def diag(self, X):
        return np.ones(len(X))


def made_up(random):
    """Bit vectors of SIZE bits, scores of an additive truth as k of 128, windows of WINDOW rows."""
    bits = np.zeros((OBSERVATIONS, DIMS))
    for row in bits:
        row[random.choice(DIMS, SIZE, replace=False)] = 1
    bits[40] = bits[3]  # the same point scored again, on another window
    cost = np.where(np.arange(DIMS) % 2, 0.025, 0.016) * random.uniform(0, 2, DIMS)
    window = 1 + np.arange(OBSERVATIONS) // WINDOW
    window[-4:] = 0
    offset = random.normal(0, 0.04, window.max() + 1)
    chance = np.clip(0.98 - bits @ cost + offset[window], 0.02, 0.98)
    matches = random.binomial(TRIALS, chance)
    share = (matches + 1) / (TRIALS + 2)
    return bits, window, matches / TRIALS, share * (1 - share) / TRIALS


def kernel_of(kind, amplitude, length, window):
    lengths = np.where(np.arange(DIMS) % 2, length[1], length[0])
    shape = OnBits(length_scale=lengths, nu=2.5) if kind == "matern52" else Hamming(lengths)
    return ConstantKernel(amplitude**2) * shape + ConstantKernel(window**2) * Window()


def likelihood(kind, X, y, noise, log_hyper):
    """Value and gradient in the logarithms of amplitude, the two lengths, window; the mean is profiled."""
    amplitude, *length, window = np.exp(log_hyper)
    kernel = kernel_of(kind, amplitude, length, window)
    L = cholesky(kernel(X) + np.diag(noise), lower=True)
    one = np.ones(len(y))
    mean = one @ cho_solve((L, True), y) / (one @ cho_solve((L, True), one))
    model = GaussianProcessRegressor(kernel, alpha=noise, optimizer=None).fit(X, y - mean)
    value, slope = model.log_marginal_likelihood(kernel.theta, eval_gradient=True)
    # theta: log amplitude^2, log lengths by column, log window^2
    by_column = slope[1:-1]
    gradient = [2 * slope[0], by_column[0::2].sum(), by_column[1::2].sum(), 2 * slope[-1]]
    return value, gradient, mean, model


def maximum(kind, X, y, noise, start):
    def negative(log_hyper):
        value, gradient = likelihood(kind, X, y, noise, log_hyper)[:2]
        return -value, -np.array(gradient)

    return minimize(negative, start, jac=True, method="L-BFGS-B", bounds=[(np.log(1e-3), np.log(1e3))] * 4,
                    options={"ftol": 1e-15, "gtol": 1e-9, "maxiter": 500})


def case(kind, seed):
    random = np.random.default_rng(seed)
    bits, window, y, variance = made_up(random)
    jitter = 1e-6
    noise = variance + jitter
    X = np.column_stack([bits, window])
    hyper = [0.15, 4.0, 7.0, 0.05] if kind == "matern52" else [0.2, 15.0, 40.0, 0.06]
    value, gradient, mean, model = likelihood(kind, X, y, noise, np.log(hyper))
    at = bits[:POINTS].copy()
    for row in at[2:]:
        row[random.choice(DIMS, 10, replace=False)] = random.integers(0, 2, 10)
    predicted, sd = model.predict(np.column_stack([at, np.full(POINTS, -1)]), return_std=True)

    best = min((maximum(kind, X, y, noise, np.log(hyper) + random.normal(0, spread, 4))
                for spread in (0, 0.5, 0.5, 1, 1)), key=lambda found: found.fun)
    return {"kernel": kind, "jitter": jitter, "hyper": hyper,
            "bits": ["".join(str(int(b)) for b in row) for row in bits],
            "window": window.tolist(), "y": y.tolist(), "variance": variance.tolist(),
            "mean": mean, "likelihood": value, "gradient": gradient,
            "at": ["".join(str(int(b)) for b in row) for row in at],
            "posterior_mean": (predicted + mean).tolist(),
            "posterior_variance": (sd**2 - hyper[3]**2).tolist(),
            "best_hyper": np.exp(best.x).tolist(), "best_likelihood": -best.fun}


argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
print(json.dumps({"source": "scikit-learn and scipy, by tools/oracle/gp.py",
                  "cases": [case("matern52", 1), case("hamming", 2)]}, indent=1))
