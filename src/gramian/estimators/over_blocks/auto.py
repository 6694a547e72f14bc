"""The automatic estimators over blocks: a search on a sample, then the winner's kernel fitted to all rows."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.blocks import Blocks, as_blocks
from gramian.data.parts import Part
from gramian.estimators.base import restored_on_failure, warn_unless_converged
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.estimators.ridge import KernelRidge
from gramian.features.nystrom import Nystroem
from gramian.features.sample import sample_seed
from gramian.losses import EpsilonInsensitive
from gramian.solvers.gp.evidence import signal_and_noise

__all__ = ["fit_auto"]

SAMPLE = 20_000
"""Rows that the search looks at."""
LANDMARKS = 1000
"""In whose space the winner is fitted to all rows."""
FLOOR = 1e-6
"""Least ridge: a map cannot interpolate."""


@dataclass(frozen=True, eq=False)
class _Encoded:
    """Rows as the winner takes them: columns encoded and scaled, targets as least squares or a machine has them."""

    model: Any
    least_squares: bool

    def __call__(self, X: Any, y: Any) -> tuple[Any, Any]:
        return None if X is None else self.model._rows(X), None if y is None else self._targets(np.asarray(y))

    def _targets(self, y: NDArray[Any]) -> NDArray[Any]:
        centre, scale = self.model._centre, self.model._scale
        if not hasattr(self.model, "classes_"):
            return np.asarray((y - centre) / scale)
        codes = np.searchsorted(self.model.classes_, y)
        known = np.take(self.model.classes_, codes, mode="clip") == y
        if not np.all(known):
            raise ValueError(f"label {y[~known][0]!r} is so rare that the sample of {SAMPLE:,} rows does not hold it.")
        if not self.least_squares:
            return codes
        count = self.model.classes_.size
        hot = np.where(codes == 1, 1.0, -1.0)[:, None] if count == 2 else np.eye(count)[codes]
        return np.asarray((hot - centre) / scale)


def fit_auto(model: Any, X: Any, y: Any) -> Any:
    """Search on a sample, and fit the winner's kernel to all rows in one pass or a few."""
    blocks = as_blocks(X, y)
    if not blocks.has_targets:
        raise ValueError(f"{type(model).__name__} requires y to be passed: name it, as Blocks(..., target='y').")
    if blocks.weight is not None:
        raise ValueError(f"{type(model).__name__} takes no weights; leave weight= out of Blocks.")
    with restored_on_failure(model):
        seed = sample_seed(model.random_state)
        sample = blocks.sample(SAMPLE, seed)
        model._fit(_table(sample, blocks.names), sample.y)
        if sample.index.size < blocks.n_rows:
            _refit(model, blocks, sample, seed)
            warn_unless_converged(model.certificate_, model)
    return model


def _table(sample: Part, names: tuple[str, ...] | None) -> Any:
    """The sample as a table that knows the names of its columns, where there are any."""
    if names is None:
        return sample.X
    import pyarrow as pa

    return pa.table(dict(zip(names, sample.X.T, strict=True)))


def _refit(model: Any, blocks: Blocks, sample: Part, seed: int) -> None:
    n, least_squares = blocks.n_rows, model.machine_ in ("gp", "ridge")
    best, classes = model.best_, hasattr(model, "classes_")
    # What travels to the workers encodes rows, and knows nothing else.
    bare = copy.copy(model)
    for name in ("feature_names_in_", "leaderboard_", "best_trial_", "best_"):
        vars(bare).pop(name, None)
    approximation = Nystroem(n_components=min(LANDMARKS, sample.index.size // 2), selection="uniform")
    common: Any = {"approximation": approximation, "memory": model.memory, "n_jobs": model.n_jobs, "random_state": seed}
    if least_squares:
        kernel, noise = signal_and_noise(best.kernel_)
        ridge = noise + float(best.alpha) if model.machine_ == "gp" else float(np.max(best.alpha_))
        size = float(np.mean(kernel.diag(bare._rows(sample.X[:100]))))
        final: Any = KernelRidge(max(ridge, FLOOR * size), kernel=kernel, **common)
    else:
        # C counts each row, lam the mean of all.
        lam = 1.0 / (n * best.C) if hasattr(best, "C") else float(best.lam_) * sample.index.size / n
        loss = EpsilonInsensitive(best.epsilon) if hasattr(best, "epsilon") else "hinge"
        loss = best.loss if hasattr(best, "loss") else loss
        machine = KernelMachineClassifier if classes else KernelMachineRegressor
        final = machine(loss, kernel=getattr(best, "kernel_", best.kernel), lam=lam, **common)
    model.best_ = final.fit(blocks.mapped(_Encoded(bare, least_squares)))
    model.machine_, model.certificate_ = "ridge" if least_squares else "machine", final.certificate_
    if classes and not least_squares:
        # One function for each class, where there may have been one for each pair: what they mean is learned anew, from
        # rows that are few among those of the fit.
        model._calibrate_on(_table(sample, blocks.names), sample.y)
    landmarks = final.approximation_.components_.shape[0]
    model.refit_ = f"Nyström with {landmarks:,} landmarks over {n:,} rows in blocks; chosen on {sample.index.size:,}"
