"""The E-step over blocks: statistics of each block, seen from the centre of all rows, added up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gramian.data.parts import Need, Part, Sums, total
from gramian.data.passes import Passes
from gramian.solvers.mixture.covariances import Floats
from gramian.solvers.mixture.e_step import Statistics, expect, natural_origin
from gramian.solvers.mixture.gaussians import Mixture
from gramian.solvers.mixture.row_tiles import Rows, Workers

__all__ = ["expectation", "frame"]


def _extent(shared: None, parts: Iterator[Part]) -> list[tuple[Any, ...]]:
    return [(p.X.min(axis=0), p.X.max(axis=0), p.X.sum(axis=0, dtype=np.float64), len(p.X), p.X.dtype) for p in parts]


def frame(passes: Passes) -> tuple[Rows, int]:
    """Find where all rows are seen from, as no rows that are, and how many have weight; in one pass."""
    found = [extent for extents in passes.map(_extent, None, need=Need(y=False)) for extent in extents]
    if not found:
        raise ValueError("weights must be positive for at least one row; all weights are zero.")
    low, high, sums, counts, dtypes = zip(*found, strict=True)
    bottom, top, n = np.min(low, axis=0), np.max(high, axis=0), sum(counts)
    centre = np.clip(np.sum(sums, axis=0) / n, bottom, top)
    return Rows(np.empty((0, len(centre)), dtypes[0]), centre, np.maximum(top - centre, centre - bottom)), n


Step = tuple[Rows, Mixture, bool, Floats | None]
"""What the E-step of a block needs: frame, mixture, whether assignment is hard, origin."""


def _expected(step: Step, parts: Iterator[Part]) -> Sums | None:
    alone = Workers(1)
    return total(_expected_of(*step, part, alone) for part in parts)


def _expected_of(seen: Rows, mixture: Mixture, hard: bool, origin: Floats | None, part: Part, alone: Workers) -> Sums:
    found = expect(replace(seen, X=part.X, weights=part.weight), mixture, alone, hard=hard, origin=origin)
    return Sums.of(moments=found.moments, figures=[found.log_likelihood, found.entropy, found.divergence])


def expectation(passes: Passes, seen: Rows) -> Any:
    """Return the E-step over blocks, with the arguments of ``expect``."""

    def expected(
        rows: Rows, mixture: Mixture, workers: Workers, *, hard: bool = False, origin: Floats | None = None
    ) -> Statistics:
        sums = passes.sum(_expected, (seen, mixture, hard, origin), need=Need(y=False))
        about = natural_origin(rows, mixture) if origin is None else origin
        return Statistics(mixture.family, about, sums["moments"], *map(float, sums["figures"]))

    return expected
