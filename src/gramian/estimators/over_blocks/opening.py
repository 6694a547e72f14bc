"""What every fit over blocks begins with: the rows, a sample of them, a map fitted to both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from gramian.data.blocks import as_blocks
from gramian.data.parts import Part
from gramian.data.passes import Passes
from gramian.estimators.approximation import adapted, sample_options
from gramian.estimators.base import NYSTROEM, is_precomputed
from gramian.features.over_blocks import draw, fit_map
from gramian.kernels import Kernel
from gramian.solvers.in_features.worker_map import Lift

__all__ = ["NYSTROEM", "lifted", "opened", "refuse", "sampled"]


@contextmanager
def opened(model: Any, X: Any, y: Any = None, sample_weight: Any = None, *, targets: bool = True) -> Iterator[Passes]:
    """Open the rows of a fit for its length, and note their columns."""
    blocks = as_blocks(X, y, sample_weight)
    name = type(model).__name__
    if targets and not blocks.has_targets:
        raise ValueError(
            f"This {name} estimator requires y to be passed, but the target y is None: name it, as "
            "Blocks(..., target='y')."
        )
    if is_precomputed(getattr(model, "kernel", None)):
        raise ValueError("kernel='precomputed' needs the Gram matrix, and blocks hold rows; give the kernel itself.")
    options: Any = {"n_jobs": getattr(model, "n_jobs", None), "verbose": getattr(model, "verbose", False)}
    with blocks.passes(**options, label=name) as passes:
        model.n_features_in_ = blocks.n_columns
        vars(model).pop("feature_names_in_", None)
        if blocks.names is not None:
            model.feature_names_in_ = np.array(blocks.names, dtype=object)
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
    return draw(passes, *sample_options(model))


def lifted(model: Any, kernel: Kernel, passes: Passes, sample: Part) -> tuple[Any, Lift]:
    """Fit a model's map to all rows."""
    features = fit_map(adapted(model, kernel), passes, sample)
    return features, Lift.of(features, sample.X[:1])


def refuse(model: Any) -> NoReturn:
    """Say which map makes a model fit for blocks."""
    raise ValueError(
        f"{type(model).__name__} without a map needs all rows in memory at once; over blocks give "
        f"{NYSTROEM}, or FourierFeatures(n_components=1000)."
    )
