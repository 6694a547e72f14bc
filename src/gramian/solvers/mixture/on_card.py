"""E-steps and densities of rows on a GPU, in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.solvers.mixture.covariances import Floats
from gramian.solvers.mixture.e_step import Statistics, is_expanded
from gramian.solvers.mixture.exponential_family import LOG_ZERO, Mixture
from gramian.solvers.mixture.row_tiles import Tiles, Workers


class CardExpectation:
    """Rows copied to a GPU once; calling it with the arguments of ``expect`` takes the E-step."""

    def __init__(self, rows: Tiles, device: Any) -> None:
        from gramian.gram.gpu.mixture import CardMixtureRows

        self.rows, self._moved = rows, CardMixtureRows(rows.X, rows.centre, rows.weights, device)

    def __call__(
        self, rows: Tiles, mixture: Mixture, workers: Workers, *, hard: bool = False, origin: Floats | None = None
    ) -> Statistics:
        """Take the E-step."""
        densities = self._densities(mixture)
        if origin is None and densities.natural is None:
            origin = mixture.means
        moments, figures = self._moved.sums(densities, hard, origin)
        return Statistics(mixture.family, np.zeros_like(mixture.means) if origin is None else origin, moments, *figures)

    def evaluate(self, mixture: Mixture, figure: str, out: NDArray[Any]) -> NDArray[Any]:
        """Write a figure of every row, as ``evaluate`` does: out (n,) or (n, K)."""
        return self._moved.write(self._densities(mixture), figure, out)

    def _densities(self, mixture: Mixture) -> Any:
        from gramian.gram.gpu.mixture import Densities

        natural = mixture.natural if is_expanded(self.rows, mixture) else None
        return Densities(mixture.means, mixture.stacked, mixture.constants, natural, LOG_ZERO)
