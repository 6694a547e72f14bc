"""Squared distances between scaled rows, by the fastest method that is accurate enough.

``‖x-z‖² = ‖x‖² + ‖z‖² - 2<x,z>`` is one GEMM, but its error is ``eps · ‖x‖²``: the rows are centred first, and if the
spread of the data would still cost digits, float32 tiles are computed in float64, and float64 tiles from the
differences themselves. The choice is made once, when the rows are prepared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from array_api_compat import is_torch_array
from scipy.spatial.distance import cdist

from gramian.kernels import points
from gramian.kernels.points import Array
from gramian.resources import spans

EPS = {name: float(np.finfo(name).eps) for name in ("float32", "float64")}

# Cancellation error of a squared distance, in units of lengthscale², above which a slower method is used. A kernel
# that is smooth at zero has an error of the same size; a rough one (Matérn with ν < 1) a larger one near zero.
LOSS = {"smooth": {"float32": 1e-4, "float64": 1e-11}, "rough": {"float32": 1e-9, "float64": 1e-11}}
SMALL_CELLS = 2**18
"""Sparse rows of up to this many entries are made dense: faster, and rounded as dense rows are."""
SPARSE_COLUMNS = 4096
"""Up to this many columns, the rows of a tile may be made dense, and their differences taken."""
SPARSE_LOSS = 1e-8
"""Cancellation error above which wider sparse rows are refused."""
NEAR = 1e-6
"""Squared distances below which kernels that are rough at zero take differences."""
CELLS = 2**18
"""Entries of the differences that are computed at once."""

FARTHEST = 1e280
"""Squared distances are capped here: kernels are at their limit, and nothing computed from them overflows."""


class DistanceRows:
    """Rows prepared for squared distances; weighted sums of their differences are one matrix product."""

    coordinates: Any
    loss: float  # Cancellation error of a squared distance

    def near_zero(self, other: Any, t: Array, weight: float) -> Array:
        """Return ``t = weight · ‖x-z‖²`` where squared distances below ``NEAR`` come from differences: (n, m)."""
        if self.loss == 0.0 or not (isinstance(t, np.ndarray) or is_torch_array(t)):
            return t
        i, j = points.namespace(t).nonzero(t < NEAR * weight if weight > 0 else t > NEAR * weight)
        if not i.shape[0]:
            return t
        x, z = self.coordinates, other.coordinates
        for some in spans(i.shape[0], max(CELLS // x.shape[1], 1)):
            D = x[i[some]] - z[j[some]]
            squares = np.asarray(D.multiply(D).sum(axis=1)) if points.is_sparse(D) else (D * D).sum(axis=1)
            t[i[some], j[some]] = points.asarray(weight * squares, t)
        return t

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of rows and of inputs."""
        return tuple(self.coordinates.shape)

    def pull(self, other: Any, M: Array) -> Array:
        """Return Σ_j M_ij (x_i - z_j): M (n, m) → (n, d)."""
        x, row_sums = self.coordinates, points.namespace(M).sum(M, axis=1)[:, None]
        return (x.multiply(row_sums).toarray() if points.is_sparse(x) else row_sums * x) - M @ other.coordinates

    def second_moments(self, other: Any, M: Array) -> np.ndarray[Any, Any]:
        """Return Σ_ij M_ij (x_ik - z_jk)² for every k: M (n, m) → (d,)."""
        x, z, xp = self.coordinates, other.coordinates, points.namespace(M)
        squares = _column_sums(xp.sum(M, axis=1)[:, None], x, x) + _column_sums(xp.sum(M, axis=0)[:, None], z, z)
        return squares - 2.0 * _column_sums(1.0, x, M @ z)


@dataclass(frozen=True, eq=False)
class Expanded(DistanceRows):
    """Rows whose squared distances come from one GEMM of ``[-2wz, w‖z‖², w] · [z, 1, ‖z‖²]``."""

    matrix: Array  # (n, d + 2): The augmented rows of the left or the right side
    factor: float  # Factor on the coordinates: -2w on the left, 1 on the right
    dtype: Any  # The dtype of the tiles, which may be narrower than that of the matrix
    loss: float  # Cancellation error of a squared distance
    centre: Array | None = None  # (d,): The mean that was subtracted from the rows of the right side, unscaled

    def __getitem__(self, rows: Any) -> Expanded:
        return Expanded(self.matrix[rows, ...], self.factor, self.dtype, self.loss, self.centre)

    @property
    def coordinates(self) -> Array:
        """The scaled, centred rows, shape (n, d)."""
        z = self.matrix[:, :-2]
        return z if self.factor == 1.0 else z / self.factor

    def times_squared(self, other: Expanded, weight: float, out: Array | None) -> Array:
        """Return ``weight · ‖x-z‖²`` for every pair; ``weight`` is already in the left matrix: → (n, m)."""
        usable = out is not None and out.dtype == self.matrix.dtype
        return points.matmul(self.matrix, other.matrix.T, out if usable else None)


@dataclass(frozen=True, eq=False)
class Differences(DistanceRows):
    """Rows whose squared distances come from their differences: slower, but accurate for any spread."""

    coordinates: Array  # (n, d): The scaled rows, but for the factor
    dtype: Any  # The dtype of the tiles
    factor: Any = 1.0  # (d,): What differences are still to be multiplied by
    loss: float = 0.0

    def __getitem__(self, rows: Any) -> Differences:
        return replace(self, coordinates=self.coordinates[rows, ...])

    def times_squared(self, other: Differences, weight: float, out: Array | None) -> Array:
        """Return ``weight · ‖x-z‖²`` for every pair: → (n, m)."""
        if isinstance(self.coordinates, np.ndarray):
            return _by_differences(self.coordinates, other.coordinates, weight, self.factor)
        return sum(D**2 for D in self.columns(other)) * weight

    def columns(self, other: Differences) -> Iterator[Array]:
        """Yield the differences x_ik - z_jk, one input k at a time: (n, m) each."""
        a, b, d = self.coordinates, other.coordinates, self.coordinates.shape[1]
        xp, far, factor = points.namespace(a), FARTHEST**0.5, np.broadcast_to(self.factor, (d,)).tolist()
        return (xp.clip((a[:, None, k] - b[None, :, k]) * factor[k], -far, far) for k in range(d))

    def pull(self, other: Any, M: Array) -> Array:
        xp = points.namespace(M)
        return xp.stack([xp.sum(M * D, axis=1) for D in self.columns(other)], axis=1)

    def second_moments(self, other: Any, M: Array) -> np.ndarray[Any, Any]:
        return np.array([float(points.namespace(M).sum(M * D**2)) for D in self.columns(other)])


@dataclass(frozen=True, eq=False)
class SparseRows(DistanceRows):
    """CSR rows with their squared norms, always in float64; they are not centred, which would make them dense.

    If the spread of the data would cost digits, the rows of a tile are made dense and their differences taken.
    """

    coordinates: Any  # (n, d): The scaled rows
    norms: Array  # (n,): Their squared norms
    dtype: Any  # The dtype of the tiles
    loss: float = 0.0  # Cancellation error of a squared distance
    apart: bool = False  # Whether differences are taken

    def __getitem__(self, rows: Any) -> SparseRows:
        return replace(self, coordinates=self.coordinates[rows], norms=self.norms[rows])

    def times_squared(self, other: SparseRows, weight: float, out: Array | None) -> Array:
        """Return ``weight · ‖x-z‖²`` for every pair: → (n, m)."""
        if self.apart:
            return _by_differences(self.coordinates.toarray(), other.coordinates.toarray(), weight)
        t = points.multiply(points.matmul(self.coordinates, other.coordinates.T), -2.0)
        t = points.add(points.add(t, self.norms[:, None]), other.norms[None, :])
        return points.multiply(np.maximum(t, 0.0, out=t), weight)


def _by_differences(x: Array, z: Array, weight: float, factor: Any = 1.0) -> Array:
    squares = cdist(x, z, "sqeuclidean", w=np.broadcast_to(np.square(factor), (x.shape[1],)))
    return points.multiply(points.minimum(squares, FARTHEST), weight)


def lengthscales(owner: Any, d: int) -> np.ndarray[Any, Any]:
    """Return the lengthscales of a kernel, one for all inputs or one each: → (1,) or (d,)."""
    scale = np.atleast_1d(np.asarray(owner.lengthscale, dtype=np.float64))
    if isinstance(owner.lengthscale, tuple) and scale.size != d:
        raise ValueError(f"{owner.name} has {scale.size} lengthscales but X has {d} columns; pass one number or {d}.")
    return scale


def centred(X: Array, Y: Array, scale: np.ndarray[Any, Any], robust: bool = False) -> tuple[Array, Array]:
    """Return both sets of rows in float64, minus the mean of Y (or the median), divided by the lengthscales."""
    xp = points.namespace(X)
    scale = points.asarray(scale, X, xp.float64)
    right = xp.astype(Y, xp.float64)  # a copy, which may be overwritten below
    centre = np.median(right, axis=0) if robust and isinstance(right, np.ndarray) else xp.mean(right, axis=0)
    right = points.divide(points.subtract(right, centre), scale)
    return (right if X is Y else points.divide(points.subtract(xp.astype(X, xp.float64), centre), scale)), right


def rows_for_distances(
    X: Array, Y: Array, scale: np.ndarray[Any, Any], weight: float, smooth: bool
) -> tuple[DistanceRows, DistanceRows]:
    """Prepare two sets of rows for the fastest accurate method: X (n, d), Y (m, d), scale (1,) or (d,)."""
    if points.is_sparse(X) or points.is_sparse(Y):
        if max(X.shape[0], Y.shape[0]) * X.shape[1] > SMALL_CELLS:
            return _sparse_pair(X, Y, scale)
        same, X = X is Y, points.dense(X)
        Y = X if same else points.dense(Y)
    xp = points.namespace(X)
    with np.errstate(over="ignore", invalid="ignore"):
        left, right = centred(X, Y, scale)
        spread = max(float(xp.max(points.squared_norms(z))) for z in ((right,) if left is right else (left, right)))
    if not spread < np.inf and not (xp.all(xp.isfinite(left)) and xp.all(xp.isfinite(right))):
        raise ValueError("the rows are so many lengthscales apart that their distances overflow; rescale X.")
    for work in (xp.float32, xp.float64) if X.dtype == xp.float32 else (xp.float64,):
        name = "float32" if work == xp.float32 else "float64"
        loss = EPS[name] * spread
        if loss <= LOSS["smooth" if smooth else "rough"][name]:
            centre = np.mean(Y, axis=0) if isinstance(Y, np.ndarray) and Y.dtype == np.float64 else None
            return _expanded(left, right, weight, work, X.dtype, loss, centre)
    # Neither a centre that a few far rows have moved nor a division may round rows that are close to each other.
    mantissa, exponent = np.frexp(scale)
    unit = points.asarray(np.ldexp(1.0, -exponent), X, xp.float64)
    left, right = (xp.astype(side, xp.float64, copy=False) * unit for side in (X, Y))
    return Differences(left, X.dtype, 1.0 / mantissa), Differences(right, X.dtype, 1.0 / mantissa)


def rows_beside(X: Array, columns: Any, scale: np.ndarray[Any, Any], weight: float, smooth: bool) -> Expanded | None:
    """Prepare rows for columns that are already prepared; None if both sides must be prepared together."""
    centre = getattr(columns, "centre", None)
    if centre is None or not isinstance(X, np.ndarray) or not X.dtype == centre.dtype == columns.matrix.dtype:
        return None
    z = X - centre
    z /= scale
    norms = points.squared_norms(z)
    loss = max(columns.loss, EPS["float64"] * float(norms.max()))
    if not loss <= LOSS["smooth" if smooth else "rough"]["float64"]:
        return None
    return Expanded(_beside(z, -2.0 * weight, (weight * norms)[:, None], weight), -2.0 * weight, columns.dtype, loss)


def _sparse_pair(X: Any, Y: Any, scale: np.ndarray[Any, Any]) -> tuple[SparseRows, SparseRows]:
    left = _sparse_rows(X, scale)
    right = left if X is Y else _sparse_rows(Y, scale)
    spread = max(float(rows.norms.max(initial=0.0)) for rows in (left, right))
    loss = EPS["float64"] * spread
    if not loss <= LOSS["smooth"]["float64"] and X.shape[1] <= SPARSE_COLUMNS:
        return replace(left, apart=True), replace(right, apart=True)
    if not loss <= SPARSE_LOSS:
        raise ValueError(
            f"sparse rows are up to {spread**0.5:.2g} lengthscales from the origin, where their distances lose "
            f"digits, and with {X.shape[1]} columns they are too wide to be made dense; scale the columns."
        )
    return replace(left, loss=loss), replace(right, loss=loss)


def _expanded(
    left: Array, right: Array, weight: float, work: Any, dtype: Any, loss: float, centre: Array | None
) -> tuple[Expanded, Expanded]:
    xp = points.namespace(left)
    same = left is right
    right = xp.astype(right, work, copy=False)
    left = right if same else xp.astype(left, work, copy=False)
    q_right = xp.astype(points.squared_norms(right), work)[:, None]
    q_left = q_right if same else xp.astype(points.squared_norms(left), work)[:, None]
    w = weight * xp.ones_like(q_left)
    return (
        Expanded(_beside(left, -2.0 * weight, q_left * weight, w), -2.0 * weight, dtype, loss),
        Expanded(_beside(right, 1.0, xp.ones_like(q_right), q_right), 1.0, dtype, loss, centre),
    )


def _beside(z: Array, factor: float, first: Array, second: Any) -> Array:
    """``[factor · z, first, second]``."""
    if not isinstance(z, np.ndarray):
        return points.namespace(z).concat([z * factor, first, second], axis=1)
    matrix = np.empty((z.shape[0], z.shape[1] + 2), z.dtype)
    np.multiply(z, factor, out=matrix[:, :-2])
    matrix[:, -2:-1], matrix[:, -1:] = first, second
    return matrix


def _sparse_rows(X: Any, scale: np.ndarray[Any, Any]) -> SparseRows:
    Z = sp.csr_array(X, dtype=np.float64, copy=True)
    Z.sum_duplicates()
    Z.data /= scale[0] if scale.size == 1 else scale[Z.indices]
    return SparseRows(Z, np.asarray(Z.multiply(Z).sum(axis=1)).ravel(), X.dtype)


def cast(t: Array, dtype: Any, out: Array | None) -> Array:
    """Return ``t`` in another dtype, written to ``out`` if given."""
    if out is not None:
        return points.store(t, out)
    return t if t.dtype == dtype else points.namespace(t).astype(t, dtype)


def _column_sums(w: Any, x: Any, y: Any) -> np.ndarray[Any, Any]:
    if points.is_sparse(x):
        return np.asarray(x.multiply(y).multiply(w).sum(axis=0), dtype=np.float64).ravel()
    return points.to_numpy(points.namespace(x).sum(w * x * y, axis=0)).astype(np.float64, copy=False)
