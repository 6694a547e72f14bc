"""Starting parameters of EM, given by the user or drawn from the data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array

from gramian.data.passes import sample_rows
from gramian.features.base import sample_seed
from gramian.resources import openmp_threads
from gramian.solvers.mixture.covariances import CovarianceFamily, Floats
from gramian.solvers.mixture.e_step import tally
from gramian.solvers.mixture.em import maximise, refine
from gramian.solvers.mixture.exponential_family import Mixture
from gramian.solvers.mixture.row_tiles import Block, Tiles, Workers

SAMPLE, EACH = 20_000, 200
"""Rows that a start uses, in all and per component, at least; k-means on more takes longer than EM on all rows."""


def start_size(n_components: int) -> int:
    """Return the number of rows that a start uses."""
    return max(SAMPLE, EACH * n_components)


def start_rows(rows: Tiles, n_components: int, random_state: Any) -> Tiles:
    """Return the rows that a start uses: a sample if there are many, the same as for blocks."""
    size = start_size(n_components)
    if len(rows.X) <= size:
        return rows
    chosen = sample_rows(len(rows.X), size, sample_seed(random_state))
    return replace(rows, X=rows.X[chosen], weights=None if rows.weights is None else rows.weights[chosen])


def given_parameters(
    family: CovarianceFamily,
    centre: Floats,
    weights: ArrayLike | None,
    means: ArrayLike | None,
    precisions: ArrayLike | None,
) -> dict[str, Any]:
    """Check the starting parameters that the user gave: centre (d,), weights (K,), means (K, d)."""
    given: dict[str, Any] = {}
    if weights is not None:
        shares = _checked(weights, (family.n_components,), "weights")
        if np.any(shares < 0) or np.any(shares > 1):
            raise ValueError(
                "The parameter 'weights' should be in the range [0, 1], but got max value "
                f"{shares.max():.5f}, min value {shares.min():.5f}"
            )
        # Allow for rounding, as the weights may have been float32.
        if abs(shares.sum() - 1) > 1e-6:
            raise ValueError(f"The parameter 'weights' should be normalized, but got sum(weights) = {shares.sum():.5f}")
        given["weights"] = shares / shares.sum()
    if means is not None:
        given["means"] = _checked(means, (family.n_components, family.n_features), "means") - centre
    if precisions is not None:
        given["factors"] = family.factor_precisions(_checked(precisions, family.shape, f"{family.name} precision"))
        given["covariances"] = family.invert(given["factors"])
    return given


def complete(given: dict[str, Any]) -> bool:
    """Whether the user gave all parameters, so that nothing has to be drawn from the data."""
    return {"weights", "means", "factors"} <= given.keys()


def start(
    rows: Tiles,
    family: CovarianceFamily,
    init_params: str | NDArray[Any],
    given: dict[str, Any],
    reg_covar: float,
    rng: RandomState,
    workers: Workers,
) -> Mixture:
    """Return the mixture to start from: init_params (m, d)."""
    if complete(given):
        return Mixture(family, **given)
    if isinstance(init_params, str):
        return replace(INIT_PARAMS[init_params](rows, family, reg_covar, rng, workers), **given)
    K, d = family.n_components, family.n_features
    if len(init_params) < K or init_params.shape[1] != d:
        raise ValueError(
            f"init_params as an array must have at least n_components = {K} rows and n_features = {d} columns, "
            f"got shape {init_params.shape}."
        )
    return replace(_by_k_means(rows, family, reg_covar, rng, workers, init=init_params[:K]), **given)


Draw = Callable[[Tiles, CovarianceFamily, float, RandomState, Workers], Mixture]


def k_means(
    X: NDArray[Any], K: int, weights: Floats | None, rng: RandomState, n_jobs: int | None, init: Any = "k-means++"
) -> NDArray[np.int32]:
    """Return the cluster of each row by k-means: X (n, d), weights (n,) → (n,)."""
    from sklearn.cluster import KMeans  # slow to import, and not needed by every fit

    with openmp_threads(len(X) * K, n_jobs):
        fitted = KMeans(K, init=init, n_init=1, random_state=rng).fit(X, sample_weight=weights)
    return np.asarray(fitted.labels_)


def _by_k_means(
    rows: Tiles, family: CovarianceFamily, reg_covar: float, rng: RandomState, workers: Workers, init: Any = "k-means++"
) -> Mixture:
    """One component for each cluster of k-means."""
    labels = k_means(rows.X, family.n_components, rows.weights, rng, workers.n_jobs, init)
    components = np.arange(family.n_components)[:, None]

    def assignment(block: Block) -> Floats:
        return (labels[block.rows].reshape(block.tiles, 1, block.size) == components).astype(np.float64)

    again = partial(tally, rows, family, assignment, workers)
    return refine(again(), reg_covar, again)[0]


def _at_random(rows: Tiles, family: CovarianceFamily, reg_covar: float, rng: RandomState, workers: Workers) -> Mixture:
    """Start from random responsibilities."""

    def assignment(block: Block) -> Floats:
        q: Floats = rng.uniform(size=(block.tiles, block.size, family.n_components))
        q /= q.sum(axis=2, keepdims=True)
        return q.transpose(0, 2, 1)

    # One thread, so that blocks draw in order. Every component is about as wide as the data, so nothing cancels.
    return maximise(tally(rows, family, assignment, Workers(1)), reg_covar)


def _at_rows(
    rows: Tiles, family: CovarianceFamily, reg_covar: float, rng: RandomState, workers: Workers, spread: bool = False
) -> Mixture:
    """Components of variance ``reg_covar`` at distinct rows, drawn uniformly or, with ``spread``, by k-means++."""
    from sklearn.cluster import kmeans_plusplus  # slow to import, and not needed by every fit

    K = family.n_components
    if spread:
        _, chosen = kmeans_plusplus(rows.X, K, sample_weight=rows.weights, random_state=rng)
    else:
        shares = None if rows.weights is None else rows.weights / rows.weights.sum()
        chosen = rng.choice(len(rows.X), size=K, replace=False, p=shares)
    weights = np.full(K, 1 / K)
    covariances = family.covariances(np.zeros((K, family.size)), weights, reg_covar)
    return Mixture.of(family, weights, rows.X[chosen].astype(np.float64) - rows.centre, covariances)


INIT_PARAMS: dict[str, Draw] = {
    "kmeans": _by_k_means,
    "k-means++": partial(_at_rows, spread=True),
    "random": _at_random,
    "random_from_data": _at_rows,
}


def _checked(values: ArrayLike, shape: tuple[int, ...], name: str) -> Floats:
    array: Floats = check_array(values, dtype=np.float64, ensure_2d=False, allow_nd=len(shape) > 2)
    if array.shape != shape:
        raise ValueError(f"The parameter '{name}' should have the shape of {shape}, but got {array.shape}")
    return array
