"""Gaussian mixtures in the plane, fitted by EM step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian import GaussianMixture
from gramian.play.asked import Array, Asked
from gramian.play.script import script
from gramian.plots.mixture import covariance_matrices
from gramian.progress import recorded

COVARIANCES = ("full", "tied", "diag", "spherical")
ASSIGNMENTS = ("soft", "hard")
REG = 1e-4
"""Added to variances, so that a component on a few points stays visible."""


def answer(asked: Asked) -> dict[str, Any]:
    """Take some steps of EM from a random start, and show L(q, Θ) and the divergence after each half-step."""
    X, K = asked.points, asked.whole("components", 3, 1, 9)
    if len(X) < max(K, 2):
        raise ValueError(f"{K} components need at least {max(K, 2)} points, but there are {len(X)}.")
    options: dict[str, Any] = {
        "n_components": K,
        "covariance_type": asked.choice("covariance", COVARIANCES),
        "assignment": asked.choice("assignment", ASSIGNMENTS),
        "reg_covar": REG,
        "tol": 0.0,
    }
    steps, seed = asked.whole("steps", 0, 0, 500), asked.whole("seed", 0, 0, 2**31)
    means = X[np.random.default_rng(seed).choice(len(X), K, replace=False)]
    shape = {"full": np.tile(np.eye(2), (K, 1, 1)), "tied": np.eye(2), "diag": np.ones((K, 2)), "spherical": np.ones(K)}
    begin: dict[str, Any] = {"weights_init": np.full(K, 1.0 / K), "means_init": means}
    begin["precisions_init"] = shape[options["covariance_type"]] / (X.var() + REG)
    with recorded(asked.tell):
        start = GaussianMixture(max_iter=0, **options, **begin).fit(X)
        model = GaussianMixture(max_iter=steps, **options, **begin).fit(X) if steps else start
    numbers: dict[str, Any] = {
        "weights": model.weights_,
        "means": model.means_,
        "covariances": covariance_matrices(model),
        "responsibilities": model.predict_proba(X),
        "log_likelihood": [start.score(X), *(split.log_likelihood for split in model.evidence_)],
        "bound_e": model.lower_bounds_,
        "bound_m": [split.bound for split in model.evidence_],
        "kl_m": [split.kl for split in model.evidence_],
    }
    likelihood = np.array(numbers["log_likelihood"])
    numbers["kl_e"] = likelihood[:-1] - np.array(numbers["bound_e"])
    return {
        "numbers": numbers,
        "certificate": str(model.certificate_),
        "converged": model.converged_,
        "picture": {"labels": model.predict(X)},
        "text": _text(options, steps, likelihood, len(X)),
        "python": _script(asked, options, steps, seed),
    }


def _text(options: dict[str, Any], steps: int, likelihood: Array, n: int) -> str:
    falls = int(np.sum(np.diff(likelihood) < -1e-9))
    how = f"{options['assignment'].capitalize()} EM with {options['n_components']} components on {n} points"
    course = "it never fell" if not falls else f"it fell in {falls} steps, as hard assignment may make it"
    return f"{how}, {steps} steps: log-likelihood per point {likelihood[-1]:.6g}; {course}."


def _script(asked: Asked, options: dict[str, Any], steps: int, seed: int) -> str:
    ones, covariances = {
        "full": ("np.tile(np.eye(2), (K, 1, 1))", "model.covariances_"),
        "tied": ("np.eye(2)", "np.broadcast_to(model.covariances_, (K, 2, 2))"),
        "diag": ("np.ones((K, 2))", "[np.diag(row) for row in model.covariances_]"),
        "spherical": ("np.ones(K)", "[variance * np.eye(2) for variance in model.covariances_]"),
    }[options["covariance_type"]]
    lines = [
        f"K, options = {options['n_components']}, {options!r}",
        "begin = {",
        '    "weights_init": np.full(K, 1 / K),',
        f'    "means_init": X[np.random.default_rng({seed}).choice(len(X), K, replace=False)],',
        f'    "precisions_init": {ones} / (X.var() + {REG!r}),',
        "}",
        "start = GaussianMixture(max_iter=0, **options, **begin).fit(X)",
        f"model = GaussianMixture(max_iter={steps}, **options, **begin).fit(X)",
        "likelihood = [start.score(X), *(split.log_likelihood for split in model.evidence_)]",
    ]
    numbers = {
        "weights": "model.weights_",
        "means": "model.means_",
        "covariances": covariances,
        "responsibilities": "model.predict_proba(X)",
        "log_likelihood": "likelihood",
        "bound_e": "model.lower_bounds_",
        "bound_m": "[split.bound for split in model.evidence_]",
        "kl_m": "[split.kl for split in model.evidence_]",
        "kl_e": "np.array(likelihood[:-1]) - np.array(model.lower_bounds_)",
    }
    return script({"X": asked.points}, lines, numbers)
