"""The fit of an explicit map over passes: landmarks from a sample, means and errors from all rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state

from gramian.data.blocks import as_blocks
from gramian.data.parts import Need, Part, Sums, total
from gramian.data.passes import Passes, sample_rows
from gramian.gram.operator import wide
from gramian.kernels.resolve import is_precomputed
from gramian.resources import memory_budget
from gramian.solvers.in_features.worker_map import WorkerMap

__all__ = ["draw", "fit_map", "fit_over_blocks", "sample_seed", "sampled_rows", "trace_error"]

LEAST = 10_000
"""Rows that landmarks are chosen among, at least."""
TIMES = 10
"""And at least so many for each landmark."""
COPIES = 3
"""Arrays of the shape (sample, landmarks) alive while landmarks are chosen."""


def sample_size(n_components: int, memory: int | str | None) -> int:
    """Return how many rows landmarks are chosen among."""
    affordable = memory_budget(memory) // (COPIES * 8 * max(n_components, 1))
    return int(max(min(max(LEAST, TIMES * n_components), affordable), n_components, 2))


def sample_seed(random_state: Any) -> int:
    """Return a seed for a sample."""
    return int(check_random_state(random_state).randint(2**31 - 1))


def sampled_rows(n: int, n_components: int, memory: int | str | None, random_state: Any) -> NDArray[np.intp] | None:
    """Return the numbers of the rows that landmarks are chosen among."""
    size = sample_size(n_components, memory)
    return None if size >= n else sample_rows(n, size, sample_seed(random_state))


def draw(passes: Passes, n_components: int, memory: int | str | None, random_state: Any) -> Part:
    """Draw the rows that landmarks are chosen among."""
    size, n = sample_size(n_components, memory), passes.blocks.n_rows
    seed = 0 if size >= n else sample_seed(random_state)
    return passes.sample(size, seed)


def fit_map(features: Any, passes: Passes, sample: Part, *, error: bool = True) -> Any:
    """Fit a map to all rows: what it chooses comes from the sample, what it averages from everywhere.

    Without ``error`` the caller sets the trace error, which then costs nothing here.
    """
    rows, square = wide(sample.X), is_precomputed(getattr(features, "kernel", None))
    partial = sample.index.size < passes.blocks.n_rows
    fit = features.fit if error else getattr(features, "_fit_landmarks", features.fit)
    if partial and isinstance(getattr(features, "gamma", None), str):
        asked = features.gamma
        features.set_params(gamma=_scale(passes, _dense(rows))).fit(rows).set_params(gamma=asked)
    else:
        fit(rows[:, sample.index] if square else rows)
    if partial and hasattr(features, "center_") and isinstance(rows, np.ndarray):
        features.center_ = _mean(passes, rows)
    if hasattr(features, "component_indices_"):
        chosen = features.component_indices_
        features.component_indices_ = sample.index[chosen]
        if square:  # columns of rows without weight are there too
            features.components_, features.n_features_in_ = rows[chosen], rows.shape[1]
    return features


def _columns(middle: NDArray[np.float64], parts: Iterator[Part]) -> Sums | None:
    return total(_columns_of(_dense(part.X) - middle) for part in parts)


def _columns_of(X: NDArray[np.float64]) -> Sums:
    return Sums.of(count=X.shape[0], first=X.sum(axis=0), second=np.sum(X**2))


def _dense(X: Any) -> NDArray[np.float64]:
    return np.asarray(X if isinstance(X, np.ndarray) else X.toarray(), dtype=np.float64)


def _mean(passes: Passes, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean of all rows, summed about that of a few so that nothing cancels."""
    middle = rows.mean(axis=0)
    sums = passes.sum(_columns, middle, need=Need(y=False))
    return np.asarray(middle + sums["first"] / sums["count"])


def _scale(passes: Passes, rows: NDArray[np.float64]) -> float:
    """The gamma of ``gamma="scale"``, 1 / (d · the variance of all entries)."""
    middle = np.full(rows.shape[1], rows.mean())
    sums = passes.sum(_columns, middle, need=Need(y=False))
    cells = float(sums["count"]) * middle.size
    variance = float(sums["second"]) / cells - (float(np.sum(sums["first"])) / cells) ** 2
    return 1.0 / (middle.size * variance) if variance > 0 else 1.0


def trace_error(features: Any, passes: Passes, sample: Part) -> float:
    """Return what a map with landmarks leaves of the trace over all rows, in a pass."""
    sums = passes.sum(_errors, WorkerMap.of(features, sample.X[:1]), need=Need(y=False))
    return float(sums["missed"] / sums["trace"]) if sums["trace"] > 0 else 0.0


def _errors(lift: WorkerMap, parts: Iterator[Part]) -> Sums | None:
    return total(lift.error_sums(F, part) for F, part in lift.strips(parts))


def fit_over_blocks(features: Any, X: Any) -> Any:
    """Fit a map by itself."""
    features._validate_params()
    if is_precomputed(getattr(features, "kernel", None)):
        raise ValueError("blocks hold rows, not a Gram matrix; give the kernel itself.")
    blocks = as_blocks(X)
    memory = getattr(features, "memory", None)
    with blocks.passes(n_jobs=getattr(features, "n_jobs", None), label=type(features).__name__) as passes:
        sample = draw(passes, getattr(features, "n_components", 1), memory, getattr(features, "random_state", None))
        fit_map(features, passes, sample)
        if hasattr(features, "trace_error_") and sample.index.size < blocks.n_rows:
            features.trace_error_ = trace_error(features, passes, sample)
    vars(features).pop("feature_names_in_", None)
    if blocks.names is not None:
        features.feature_names_in_ = np.array(blocks.names, dtype=object)
    return features
