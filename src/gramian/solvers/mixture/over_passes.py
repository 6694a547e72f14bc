"""The E-step over blocks: statistics of each block, seen from the centre of all rows, added up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.parts import Need, Part, Sums, total
from gramian.data.passes import Passes
from gramian.solvers.mixture.covariances import Floats
from gramian.solvers.mixture.e_step import Statistics, expect, natural_origin
from gramian.solvers.mixture.gaussians import Mixture
from gramian.solvers.mixture.row_tiles import Rows, Workers

__all__ = ["Frame", "expectation", "frame"]


@dataclass(frozen=True, eq=False)
class Frame:
    """Where all rows are seen from."""

    centre: Floats  # (d,): Their mean
    reach: Floats  # (d,): The largest distance from it along each axis
    dtype: Any  # Of the rows
    count: int  # Rows of positive weight

    def of(self, X: NDArray[Any], weights: Floats | None) -> Rows:
        """Return some rows as seen from there: X (r, d), weights (r,)."""
        return Rows(X, self.centre, self.reach, weights)


def _extent(shared: None, parts: Iterator[Part]) -> list[tuple[Any, ...]]:
    return [(p.X.min(axis=0), p.X.max(axis=0), p.X.sum(axis=0, dtype=np.float64), len(p.X), p.X.dtype) for p in parts]


def frame(passes: Passes) -> Frame:
    """Find the centre and the reach of all rows, in one pass."""
    found = [extent for extents in passes.map(_extent, None, need=Need(y=False)) for extent in extents]
    if not found:
        raise ValueError("weights must be positive for at least one row; all weights are zero.")
    low, high, sums, counts, dtypes = zip(*found, strict=True)
    bottom, top, n = np.min(low, axis=0), np.max(high, axis=0), sum(counts)
    centre = np.clip(np.sum(sums, axis=0) / n, bottom, top)
    return Frame(centre, np.maximum(top - centre, centre - bottom), dtypes[0], n)


Step = tuple[Frame, Mixture, bool, Floats | None]
"""What the E-step of a block needs: frame, mixture, whether assignment is hard, origin."""


def _expected(step: Step, parts: Iterator[Part]) -> Sums | None:
    alone = Workers(1)
    return total(_expected_of(*step, part, alone) for part in parts)


def _expected_of(seen: Frame, mixture: Mixture, hard: bool, origin: Floats | None, part: Part, alone: Workers) -> Sums:
    found = expect(seen.of(part.X, part.weight), mixture, alone, hard=hard, origin=origin)
    return Sums.of(moments=found.moments, figures=[found.log_likelihood, found.entropy, found.divergence])


def expectation(passes: Passes, seen: Frame) -> Any:
    """Return the E-step over blocks, with the arguments of ``expect``."""

    def expected(
        rows: Rows, mixture: Mixture, workers: Workers, *, hard: bool = False, origin: Floats | None = None
    ) -> Statistics:
        sums = passes.sum(_expected, (seen, mixture, hard, origin), need=Need(y=False))
        about = natural_origin(rows, mixture) if origin is None else origin
        return Statistics(mixture.family, about, sums["moments"], *map(float, sums["figures"]))

    return expected
