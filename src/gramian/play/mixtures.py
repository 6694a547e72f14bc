"""Gaussian mixtures in the plane, fitted by EM step by step."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.play.asked import Asked
from gramian.play.script import play

COVARIANCES = {
    "full": ("np.tile(np.eye(2), (K, 1, 1))", "model.covariances_"),
    "tied": ("np.eye(2)", "np.broadcast_to(model.covariances_, (K, 2, 2))"),
    "diag": ("np.ones((K, 2))", "[np.diag(row) for row in model.covariances_]"),
    "spherical": ("np.ones(K)", "[variance * np.eye(2) for variance in model.covariances_]"),
}
"""Precisions of one, and the fitted covariances as matrices, for each type."""
ASSIGNMENTS = ("soft", "hard")
REG = 1e-4
"""Added to variances, so that a component on a few points stays visible."""


def answer(asked: Asked) -> dict[str, Any]:
    """Take some steps of EM from a random start, and show L(q, Θ) and the divergence after each half-step."""
    X, K = asked.points, asked.whole("components", 3, 1, 9)
    if len(X) < max(K, 2):
        raise ValueError(f"{K} components need at least {max(K, 2)} points, but there are {len(X)}.")
    kind, assignment = asked.choice("covariance", tuple(COVARIANCES)), asked.choice("assignment", ASSIGNMENTS)
    options = {"n_components": K, "covariance_type": kind, "assignment": assignment, "reg_covar": REG, "tol": 0.0}
    taken, seed = asked.whole("steps", 0, 0, 500), asked.whole("seed", 0, 0, 2**31)
    ones, covariances = COVARIANCES[kind]
    steps = [
        f"K, options = {K}, {options!r}",
        "begin = {",
        '    "weights_init": np.full(K, 1 / K),',
        f'    "means_init": X[np.random.default_rng({seed}).choice(len(X), K, replace=False)],',
        f'    "precisions_init": {ones} / (X.var() + {REG!r}),',
        "}",
        "start = GaussianMixture(max_iter=0, **options, **begin).fit(X)",
        f"model = GaussianMixture(max_iter={taken}, **options, **begin).fit(X)",
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
    played = play(asked, {"X": X}, steps, numbers)
    model, likelihood = played.names["model"], played.numbers["log_likelihood"]
    falls = int(np.sum(np.diff(likelihood) < -1e-9))
    how = f"{assignment.capitalize()} EM with {K} components on {len(X)} points"
    course = "it never fell" if not falls else f"it fell in {falls} steps, as hard assignment may make it"
    text = f"{how}, {taken} steps: log-likelihood per point {likelihood[-1]:.6g}; {course}."
    return played.answer(model.certificate_, picture={"labels": model.predict(X)}, text=text)
