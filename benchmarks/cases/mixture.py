"""Gaussian mixtures: the same steps of EM from the same start, a whole fit, and predictions."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn import mixture as peer
from sklearn.exceptions import ConvergenceWarning

from benchmarks.harness import Comparison, case, max_difference
from gramian.estimators.mixture import gaussian as ours

ROWS, FEATURES, COMPONENTS, STEPS = 300_000, 10, 10, 30


@case("mixture")
def mixtures() -> Iterator[Comparison]:
    """Thirty steps of EM for each covariance type and in float32; from k-means to convergence; posteriors."""
    for covariance_type in ("full", "tied", "diag", "spherical"):
        yield steps(covariance_type, np.float64)
    yield steps("full", np.float32)
    yield whole_fit()
    yield posteriors()


def steps(covariance_type: str, dtype: type) -> Comparison:
    """EM from given parameters, without a stopping rule."""
    X = clusters(dtype)
    sides = [lambda module=module: quick_fit(module, X, covariance_type) for module in (ours, peer)]
    source = f"from benchmarks.cases.mixture import *; X = clusters(np.{dtype.__name__}); "
    return Comparison(
        name=f"{STEPS} steps, {covariance_type}, n={ROWS} d={FEATURES} K={COMPONENTS}, {dtype.__name__}",
        ours=sides[0],
        peer=sides[1],
        against="GaussianMixture",
        quality=lambda a, b: f"log-likelihood {max_difference(a.lower_bound_, b.lower_bound_)}",
        repeats=2,
        snippets=(
            f"{source}quick_fit(ours, X, {covariance_type!r})",
            f"{source}quick_fit(peer, X, {covariance_type!r})",
        ),
    )


def whole_fit() -> Comparison:
    """The default fit: k-means, then EM until it changes little."""
    X = clusters(np.float64)
    return Comparison(
        name=f"default fit, n={ROWS} d={FEATURES} K={COMPONENTS}",
        ours=lambda: ours.GaussianMixture(COMPONENTS, random_state=0).fit(X),
        peer=lambda: peer.GaussianMixture(COMPONENTS, random_state=0).fit(X),
        against="GaussianMixture",
        quality=lambda a, b: f"log-likelihood {max_difference(a.lower_bound_, b.lower_bound_)}",
        repeats=2,
    )


def posteriors() -> Comparison:
    """Posterior probabilities of all rows."""
    X = clusters(np.float64)
    fits = [quick_fit(module, X, "full", max_iter=2) for module in (ours, peer)]
    return Comparison(
        name=f"predict_proba, full, n={ROWS} d={FEATURES} K={COMPONENTS}",
        ours=lambda: fits[0].predict_proba(X),
        peer=lambda: fits[1].predict_proba(X),
        against="GaussianMixture",
        repeats=3,
    )


def quick_fit(module: Any, X: np.ndarray, covariance_type: str, max_iter: int = STEPS) -> Any:
    """So many steps from parameters that need no random numbers."""
    precisions = {
        "full": np.tile(np.eye(FEATURES), (COMPONENTS, 1, 1)),
        "tied": np.eye(FEATURES),
        "diag": np.ones((COMPONENTS, FEATURES)),
        "spherical": np.ones(COMPONENTS),
    }[covariance_type]
    estimator = module.GaussianMixture(
        COMPONENTS,
        covariance_type=covariance_type,
        tol=0.0,
        max_iter=max_iter,
        weights_init=np.full(COMPONENTS, 1 / COMPONENTS),
        means_init=X[:COMPONENTS],
        precisions_init=precisions.astype(X.dtype),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return estimator.fit(X)


def clusters(dtype: type) -> np.ndarray:
    """Rows around centres that overlap."""
    rng = np.random.default_rng(0)
    centres = 2 * rng.standard_normal((COMPONENTS, FEATURES))
    rows = rng.standard_normal((ROWS, FEATURES)) + centres[rng.integers(COMPONENTS, size=ROWS)]
    return rows.astype(dtype)
