"""Corners over blocks: the rows near a kink come to the client, of all others only their straight lines, summed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.parts import Part
from gramian.data.passes import Passes, joined
from gramian.data.sums import Sums, Tree, plus
from gramian.solvers.in_features.objective import Point, fits_of, reach_of, values_of
from gramian.solvers.machine.corners import Memo, corner_of, near
from gramian.solvers.machine.data_term import DataFit

__all__ = ["corners"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class _Near:
    """A point, and for each function how far around its values kinks are looked for."""

    point: Point
    scales: tuple[float, ...]


def _gather(shared: _Near, parts: Iterator[Part]) -> tuple[Sums | None, list[list[Part]]]:
    """Lines of the rows away from kinks, summed, and the other rows."""
    point = shared.point
    sums: Sums | None = None
    kept: list[list[Part]] = [[] for _ in point.which]
    for F, part in point.lift.strips(parts):
        lines: dict[str, Any] = {}
        for i, (fit, _) in enumerate(fits_of(point, part)):
            f = values_of(F, point.theta[i])
            bent = near(fit, f, reach_of(shared.scales[i], fit, point.functions.typical))
            u = np.where(bent[:, None], 0.0, fit.gradient(f))
            straight = DataFit(fit.loss, fit.y[~bent], fit.w[~bent, 0])
            lines[f"slope{i}"] = np.append(F.T @ u[:, 0], u.sum())
            lines[f"level{i}"] = straight.value(f[~bent]) - np.sum(u * f)
            kept[i] += [part.take(bent)] if bent.any() else []
        sums = plus(sums, Sums.of(**lines))
    return sums, kept


def corners(
    passes: Passes, point: Point, scales: Sequence[float], mus: Sequence[float], memos: Sequence[Memo | None]
) -> list[tuple[Array, float, Memo] | None]:
    """Solve the corners next to a point, in one pass for all functions."""
    tree = Tree()
    kept: list[list[Part]] = [[] for _ in point.which]
    for sums, rows in passes.map(_gather, _Near(point, tuple(scales))):
        tree.push(sums)
        kept = [mine + more for mine, more in zip(kept, rows, strict=True)]
    lines = tree.root()
    assert lines is not None
    return [
        _solved(point, i, lines, kept[i], scale, mu, memo)
        for i, (scale, mu, memo) in enumerate(zip(scales, mus, memos, strict=True))
    ]


def _solved(
    point: Point, i: int, lines: Sums, kept: list[Part], scale: float, mu: float, memo: Memo | None
) -> tuple[Array, float, Memo] | None:
    if not kept:
        return None
    part = joined(kept)
    fit, smooth = fits_of(point, part)[i]
    F, theta = point.lift(part.X), point.theta[i]
    f = values_of(F, theta)
    reach = reach_of(scale, fit, point.functions.typical)
    slope = lines[f"slope{i}"][: theta.shape[0]]
    corner = corner_of(F, fit, f, reach, smooth.gradient(f), part.index, slope, float(lines[f"level{i}"]), memo)
    found = None if corner is None else corner.solve(mu)
    return None if found is None else (found[0][:, None], found[1], found[2])
