"""Kernel principal components over blocks: those of the features of a map."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from gramian.estimators.base import resolved, restored_on_failure, warn_unless_converged
from gramian.estimators.components import NEGLIGIBLE, Request, Spectrum, _leading
from gramian.estimators.over_blocks.opening import lifted, opened, sampled
from gramian.kernels.points import dtype_of
from gramian.progress import Clock
from gramian.solvers.in_features.covariance import covariance
from gramian.solvers.spectral.eigen import Rounding

__all__ = ["fit_pca"]


def fit_pca(model: Any, X: Any) -> Any:
    """Find components over blocks."""
    clock = Clock(model.max_time)
    with restored_on_failure(model), opened(model, X, targets=False) as passes:
        _check(model, passes.blocks.weight)
        sample = sampled(model, passes)
        rows = sample.X.astype(np.float64, copy=False)
        features, lift = lifted(model, resolved(model, rows), passes, sample)
        found = covariance(passes, lift, sample, center=model.center)
        if hasattr(features, "trace_error_"):
            features.trace_error_ = found.error
        size = found.scatter.shape[0]
        rank = size if model.n_components is None else min(model.n_components, size)
        ask = Request(rank, "auto", model.center, model.tol, model.max_iter)
        rounding = Rounding(found.count * float(found.mean @ found.mean), NEGLIGIBLE[dtype_of(sample.X)])
        pairs = _leading(found.scatter, ask, check_random_state(model.random_state), clock, rounding)
        # The signs are such as the sample has them: its largest projection on each component is positive.
        projections = np.vstack([F @ pairs.vectors for F, _ in lift.strips(iter([sample]))])
        projections -= found.mean @ pairs.vectors
        trace = float(np.trace(found.scatter))
        zero = rounding.zero(pairs.values, size)
        spectrum = Spectrum(
            pairs.values, projections, pairs.smallest, trace, found.mean, pairs.certificate, pairs.vectors, zero
        )
        for name in ("dual_coef_", "X_transformed_fit_", "_inverse"):
            vars(model).pop(name, None)
        model.gamma_ = 1.0 / rows.shape[1] if model.gamma is None else model.gamma
        model.approximation_, model.kernel_, model.X_fit_ = features, features.kernel_, sample.X
        model._keep(spectrum)
        del model.X_fit_, model.eigenvectors_
    warn_unless_converged(model.certificate_, model)
    return model


def _check(model: Any, weight: Any) -> None:
    if weight is not None:
        raise ValueError("KernelPCA takes no weights; leave weight= out of Blocks.")
    if model.fit_inverse_transform:
        raise ValueError("fit_inverse_transform keeps the projections of all rows; over blocks leave it at False.")
    if model.eigen_solver != "auto":
        raise ValueError(f"eigen_solver={model.eigen_solver!r} has no part over blocks; leave 'auto'.")
