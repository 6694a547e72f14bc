"""The winner of a search on a sample, fitted to all rows of blocks in the space of landmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.blocks import Blocks
from gramian.data.parts import Part
from gramian.estimators.auto.columns import Encoding
from gramian.estimators.auto.fitting import Means, unit
from gramian.estimators.auto.plans import LEAST_SQUARES, Sizes
from gramian.estimators.auto.refit import Refit, kernel_of, ridge_of
from gramian.estimators.auto.response import Classes, Response
from gramian.estimators.auto.search import Found
from gramian.estimators.auto.tables import array_columns
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.estimators.ridge import KernelRidge
from gramian.features.nystrom import Nystroem
from gramian.losses import EpsilonInsensitive
from gramian.solvers.gp.evidence import signal_and_noise

__all__ = ["Encoded", "refit_over_passes", "table_of"]

FLOOR = 1e-6
"""Least ridge: a map cannot interpolate."""


@dataclass(frozen=True, eq=False)
class Encoded:
    """Rows as the winner takes them: columns encoded and scaled, targets as least squares or a machine has them."""

    columns: Encoding
    scaling: Any
    centre: Any  # Of the targets of least squares
    scale: float
    classes: NDArray[Any] | None  # Labels; None where numbers are predicted
    least_squares: bool

    def __call__(self, X: Any, y: Any) -> tuple[Any, Any]:
        return None if X is None else self.rows(X), None if y is None else self._targets(np.asarray(y))

    def rows(self, X: NDArray[Any]) -> NDArray[np.float64]:
        """Return rows as the machine takes them: X (n, d)."""
        return np.asarray(self.scaling.transform(self.columns.transform(array_columns(X))))

    def _targets(self, y: NDArray[Any]) -> NDArray[Any]:
        if self.classes is None:
            return np.asarray((y - self.centre) / self.scale)
        codes = np.searchsorted(self.classes, y)
        known = np.take(self.classes, codes, mode="clip") == y
        if not np.all(known):
            raise ValueError(f"label {str(y[~known][0])!r} is too rare: no row of the sample that was searched has it.")
        if not self.least_squares:
            return codes
        count = self.classes.size
        hot = np.where(codes == 1, 1.0, -1.0)[:, None] if count == 2 else np.eye(count)[codes]
        return np.asarray((hot - self.centre) / self.scale)


def table_of(sample: Part, names: tuple[str, ...] | None) -> Any:
    """Return a sample as a table that knows the names of its columns, where there are any."""
    if names is None:
        return sample.X
    import pyarrow as pa

    return pa.table(dict(zip(names, sample.X.T, strict=True)))


def refit_over_passes(
    found: Found, sources: dict[str, Found], response: Response, encoded: Encoded, blocks: Blocks, sample: Part,
    means: Means, sizes: Sizes,
) -> Refit:  # fmt: skip
    """Fit the kernel of the winner to all rows, through landmarks of the sample."""
    n, some, classes = blocks.n_rows, sample.index.size, isinstance(response, Classes)
    learned, Z = kernel_of(found, sources).kernels[0], encoded.rows(sample.X[:100])
    approximation = Nystroem(n_components=min(sizes.other_landmarks, some // 2), selection="uniform")
    common: Any = {"approximation": approximation, "memory": means.memory, "n_jobs": means.n_jobs}
    if found.candidate.machine in LEAST_SQUARES:
        kernel = signal_and_noise(learned)[0]
        ridge = max(ridge_of(found, learned), FLOOR * float(np.mean(kernel.diag(Z))))
        final: Any = KernelRidge(ridge, kernel=kernel, random_state=means.seed, **common)
    else:
        loss: Any = "logistic" if classes else "huber"
        if found.candidate.machine == "svm":
            loss = "hinge" if classes else EpsilonInsensitive(found.settings["epsilon"])
        # C counts each row, lam the mean of all.
        lam = 1.0 / (n * found.settings["C"]) if "C" in found.settings else found.settings["lam"] * some / n
        machine = KernelMachineClassifier if classes else KernelMachineRegressor
        kernel = unit(learned, Z)[0] if found.candidate.source else learned
        final = machine(loss, kernel=kernel, lam=lam, random_state=means.seed, **common)
    final.fit(blocks.mapped(encoded))
    count = final.approximation_.components_.shape[0]
    note = f"Nyström with {count:,} landmarks over {n:,} rows in blocks; chosen on {some:,}"
    return Refit(final, "ridge" if encoded.least_squares else "machine", note)
