"""A plane to draw rows of many inputs on, and the map from its points back to inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.estimators.pca import KernelPCA
from gramian.plots.fitted import Array

__all__ = ["Plane", "plane_of"]


@dataclass(frozen=True, eq=False)
class Plane:
    """Rows as points of a plane."""

    points: Array  # (n, 2): The rows, drawn
    labels: tuple[str, str]  # Names of the two axes
    inputs: Callable[[Array], Array]  # From points of the plane to rows of inputs

    def grid(self, resolution: int, margin: float) -> tuple[Array, Array, Array]:
        """Return a grid over the points, and the inputs behind it: → (g, g)."""
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        reach = margin * np.where(high > low, high - low, 1.0)
        sides = [np.linspace(a, b, resolution) for a, b in zip(low - reach, high + reach, strict=True)]
        xx0, xx1 = np.meshgrid(*sides)
        return xx0, xx1, self.inputs(np.column_stack([xx0.ravel(), xx1.ravel()]))


def plane_of(
    rows: Array,
    features: Sequence[int] | None,
    kernel: Any,
    names: Sequence[str],
    drawn: NDArray[np.intp],
) -> Plane:
    """Choose a plane for rows: rows (n, d)."""
    d = rows.shape[1]
    if features is None and d == 2:
        features = (0, 1)
    if features is not None:
        return _slice(rows, _checked(features, d), names, drawn)
    if d < 2:
        raise ValueError("a plane needs two inputs, but these rows have one; GaussianProcessDisplay draws curves.")
    return _directions(rows, drawn) if kernel is None else _principal(rows[drawn], kernel)


def _checked(features: Sequence[int], d: int) -> tuple[int, int]:
    if len(features) != 2 or not all(0 <= f < d for f in features) or features[0] == features[1]:
        raise ValueError(f"features must be two different inputs out of 0 … {d - 1}, got {features!r}.")
    return int(features[0]), int(features[1])


def _slice(rows: Array, features: tuple[int, int], names: Sequence[str], drawn: NDArray[np.intp]) -> Plane:
    middle = np.median(rows, axis=0)

    def inputs(points: Array) -> Array:
        out = np.tile(middle, (len(points), 1))
        out[:, features] = points
        return out

    return Plane(rows[drawn][:, features], (names[features[0]], names[features[1]]), inputs)


def _directions(rows: Array, drawn: NDArray[np.intp]) -> Plane:
    """The plane through the mean along which rows differ most; its points are inputs as they stand."""
    centre = rows.mean(axis=0)
    _, _, basis = np.linalg.svd(rows[drawn] - centre, full_matrices=False)
    basis = basis[:2]

    def inputs(points: Array) -> Array:
        return np.asarray(centre + points @ basis)

    return Plane((rows[drawn] - centre) @ basis.T, ("principal direction 1", "principal direction 2"), inputs)


def _principal(rows: Array, kernel: Any) -> Plane:
    """The kernel's first two principal components; back by the mean of the rows near by.

    Nearness is Gaussian in the plane. It is a ridge without the ridge's overshoot where there are no rows.
    """
    points = KernelPCA(2, kernel=kernel).fit(rows).transform(rows)
    spread = np.maximum(points.std(axis=0), 1e-12)
    width = 0.5 * len(rows) ** (-1.0 / 6.0)  # half of Scott's rule for two dimensions: edges matter more than noise

    def inputs(z: Array) -> Array:
        out = np.empty((len(z), rows.shape[1]))
        for part in np.array_split(np.arange(len(z)), max(len(z) * len(rows) // 2_000_000, 1)):
            gap = (z[part, None, :] - points[None, :, :]) / spread
            log_weight = -0.5 * np.sum(gap**2, axis=2) / width**2
            weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
            out[part] = (weight / weight.sum(axis=1, keepdims=True)) @ rows
        return out

    return Plane(points, ("kernel principal component 1", "kernel principal component 2"), inputs)
