"""How an estimator takes a map ψ with ``<ψ(x), ψ(z)> ≈ k(x, z)`` as its ``approximation=``.

See :class:`~gramian.features.base.ExplicitMap` for what a map is. One with a parameter ``kernel`` approximates whatever
kernel the estimator has; if it has none (``PolynomialMap``), its own kernel is the estimator's. From landmarks, the
fitted function is a kernel expansion like that of an exact fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils._param_validation import HasMethods

from gramian.data.blocks import as_blocks
from gramian.data.parts import Part
from gramian.data.passes import Held, Passes
from gramian.estimators.base import NAMED, NYSTROEM, changed, is_precomputed
from gramian.features.fitting import draw
from gramian.kernels import Kernel
from gramian.resources import memory_budget, readable

__all__ = ["APPROXIMATION", "adapted", "features_of", "has_landmarks", "opened", "refuse", "sampled"]

APPROXIMATION: list[Any] = [HasMethods(["fit_transform", "transform", "evaluate", "error"]), None]
"""The constraint on ``approximation=``."""

KERNEL_PARAMETERS = ("kernel", *NAMED)
SHARED = ("memory", "n_jobs", "random_state")


def adapted(owner: BaseEstimator, kernel: Kernel) -> Any:
    """Return the owner's map, unfitted, made to approximate the owner's kernel with the owner's means."""
    features = clone(owner.approximation)
    given, name = features.get_params(deep=False), type(features).__name__
    if "kernel" not in given:
        if own := changed(owner, KERNEL_PARAMETERS):
            raise ValueError(
                f"{name} has a kernel of its own; leave {', '.join(own)} of {type(owner).__name__} at the default."
            )
        return features
    if own := changed(features, KERNEL_PARAMETERS):
        raise ValueError(
            f"the kernel is set on {type(owner).__name__}; leave {', '.join(own)} of {name} at the default."
        )
    theirs = owner.get_params(deep=False)
    shared = {p: theirs[p] for p in SHARED if p in theirs and p in given and given[p] is None}
    return features.set_params(kernel=kernel, **shared)


def has_landmarks(features: Any) -> bool:
    """Tell whether a fitted map is an expansion at some of the rows it was fitted to."""
    return hasattr(features, "expansion")


def features_of(features: Any, X: Any, memory: int | str | None = None) -> NDArray[np.float64]:
    """Fit a map to some rows and return their features: X (n, d) → (n, m)."""
    numbers = getattr(X, "dtype", None) is not None and X.dtype != object
    X = X.astype(np.float64, copy=False) if numbers else X
    if has_landmarks(features):
        # It looks at its memory by itself, and has the features of these rows when it is fitted.
        return np.asarray(features.fit_transform(X))
    F = features.fit(X).transform(X[:1])
    needed, budget = 8 * X.shape[0] * F.shape[1], memory_budget(memory)
    if needed > budget:
        raise MemoryError(
            f"{F.shape[1]:,} features of {X.shape[0]:,} rows take {readable(needed)} and memory is "
            f"{readable(budget)}; use fewer features or raise memory=."
        )
    F = features.transform(X)
    return np.asarray(F if isinstance(F, np.ndarray) else F.toarray(), dtype=np.float64)


@contextmanager
def opened(model: Any, X: Any, y: Any = None, sample_weight: Any = None, *, targets: bool = True) -> Iterator[Passes]:
    """Open the rows of a fit for its length; note the columns of those that come by blocks."""
    source, name = X if isinstance(X, Held) else as_blocks(X, y, sample_weight), type(model).__name__
    if targets and not source.has_targets:
        raise ValueError(
            f"This {name} estimator requires y to be passed, but the target y is None: name it, as "
            "Blocks(..., target='y')."
        )
    if not isinstance(X, Held) and is_precomputed(getattr(model, "kernel", None)):
        raise ValueError("kernel='precomputed' needs the Gram matrix, and blocks hold rows; give the kernel itself.")
    options: Any = {"n_jobs": getattr(model, "n_jobs", None), "verbose": getattr(model, "verbose", False)}
    with source.passes(**options, label=name) as passes:
        if not isinstance(X, Held):
            model.n_features_in_ = source.n_columns
            vars(model).pop("feature_names_in_", None)
            if source.names is not None:
                model.feature_names_in_ = np.array(source.names, dtype=object)
        yield passes


def sampled(model: Any, passes: Passes) -> Part:
    """Draw the rows that a model's map is fitted to."""
    if model.approximation is None:
        refuse(model)
    held = getattr(passes.blocks, "all", None)
    # A Gram matrix is not a sample of itself, objects are few, and ``tol`` is a promise about all rows.
    if held is not None and (
        held.X.dtype == object or is_precomputed(model.kernel) or getattr(model.approximation, "tol", None) is not None
    ):
        return held
    seed = getattr(model.approximation, "random_state", None)
    seed = getattr(model, "random_state", None) if seed is None else seed
    return draw(passes, getattr(model.approximation, "n_components", 1), getattr(model, "memory", None), seed)


def refuse(model: Any) -> NoReturn:
    """Say which map makes a model fit for blocks."""
    raise ValueError(
        f"{type(model).__name__} without a map needs all rows in memory at once; over blocks give "
        f"{NYSTROEM}, or FourierFeatures(n_components=1000)."
    )
