"""Kernel ridge regression on many subsets (parts) of the same rows, for many ridges, with predictions at all rows.

A row that is left out has weight zero. With S = √W the solution of ``(S K S + μI) a = S y`` is then zero there, and
``K S a`` at that row is its prediction. So all parts and ridges are columns of one block, and share K and each product
with it. Landmarks precondition large ridges; small ones, for which they would leave many iterations, are preconditioned
by a factorisation of each part in single precision, which ridges near each other share.

If rows are few and parts are many, all parts follow from one inverse G instead: leaving out the rows v changes a by
``-G_:v G_vv⁻¹ a_v``; with a single row v this is leave-one-out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from gramian.certificates import relative_residuals
from gramian.gram import Gram, rpcholesky
from gramian.gram.lowrank import weighted_square
from gramian.gram.operator import narrowed, units
from gramian.progress import Clock, silent
from gramian.resources import repeatable, run, spans
from gramian.solvers.choice import DIRECT_RIDGE, DIRECT_ROWS, DIRECT_TOL
from gramian.solvers.conjugate_gradients import Operator
from gramian.solvers.linear.cholesky import solve
from gramian.solvers.linear.pcg import Refinement, default_rank
from gramian.solvers.linear.preconditioner import narrow_enough

MANY = 6
"""Number of parts from which one inverse of all rows is cheaper than a factorisation for each part."""
EXACT = 1e-10
"""Relative residual of the inverse above which the parts are solved one by one."""
ROWS_PER_ITERATION = 12
"""A factorisation (n³/3 operations) takes about as long as n / 12 iterations for one column of a large block."""
ROWS_PER_SINGLE = 85
"""The same in single precision: from so many iterations of the smallest ridge, factorisations pay."""
ROWS_PER_JOINED = 120
"""The same for another ridge, once there are factorisations to share."""
SPAN = 60.0
"""Ridges within this factor share a factorisation at their geometric mean; the condition number is then below √60."""
SHARED = 60
"""Most iterations with a shared factorisation; more are due to rounding."""
LEFT = 200.0
"""Landmarks end once what they leave of the trace is the smallest ridge times this; its norm is far below."""
TRIAL = 12
"""Iterations on a random vector that show the condition number."""
LAPACK_ROWS = 8000
"""Rows up to which LAPACK factorises a part in single precision within a second, so that Ctrl-C can wait for it."""

Array = NDArray[np.float64]
Predicted = Iterator[Array]
"""For each ridge in turn, the predictions of every part at all rows: (f, n, k)."""


@dataclass(frozen=True, eq=False)
class Folds:
    """Targets of all rows, their weights in every part, and the ridges."""

    gram: Gram  # K of all rows
    K: Array  # (n, n): the same as an array
    Y: Array  # (n, k)
    weights: Array  # (n, f): weight of each row in each part; zero if left out
    ridges: Array  # (g,)
    tol: float = 1e-6
    random_state: Any = None

    def predictions(self) -> Predicted | None:
        """Return the predictions of every part with every ridge; None if fitting the parts one by one is better."""
        (n, f), least = self.weights.shape, float(self.ridges.min())
        one_by_one = least <= DIRECT_RIDGE * float(self.K.diagonal().mean())
        if n <= DIRECT_ROWS:
            room = (3 + self.Y.shape[1] * f / n) * self.K.nbytes <= self.gram.memory
            many = f >= MANY and bool(np.all(self.weights.max(axis=1) > 0)) and self._only_left_out
            return self._by_inverse() if many and not one_by_one and room else None
        if one_by_one or self.tol < DIRECT_TOL or self._bytes > self.gram.memory:
            return None
        return iter(self._by_pcg())

    @property
    def _only_left_out(self) -> bool:
        """Whether each row has the same weight in all parts that contain it."""
        own = self.weights.max(axis=1, keepdims=True)
        return bool(np.all((self.weights == own) | (self.weights == 0)))

    # ---- by conjugate gradients ---------------------------------------------------------------------------------

    @property
    def _rank(self) -> int:
        return default_rank(self.K.shape[0], self.gram.memory)

    @property
    def _bytes(self) -> int:
        """Bytes of K in single precision, landmarks with their spectra, and the vectors of conjugate gradients."""
        (n, f), rank, columns = self.weights.shape, self._rank, self.weights.shape[1] * self.ridges.size
        return 4 * n * n + 8 * rank * (n + f * rank) + 12 * 8 * n * columns * self.Y.shape[1]

    def _by_pcg(self) -> list[Array]:
        """Solve all parts, ridges and targets as columns of one block; columns that do not converge are factorised."""
        (n, k), f, g = self.Y.shape, self.weights.shape[1], self.ridges.size
        part, ridge, target = (index.ravel() for index in np.indices((f, g, k)))
        scale, unit = np.sqrt(self.weights)[:, part], units(self.Y)[target]
        exact, single = _Stored(self.K, self.gram.workers), _Stored(self.K.astype(np.float32), self.gram.workers)
        B, values, residuals = scale * (self.Y[:, target] / unit), np.zeros((n, part.size)), np.full(part.size, np.inf)
        for parts, ridges, means, most in self._shares(single):
            (own,) = np.nonzero(np.isin(part, parts) & np.isin(ridge, ridges))
            precondition = means(part[own], ridge[own])
            system = self.ridges[ridge[own]], scale[:, own], precondition, B[:, own], np.zeros((n, own.size))
            found = Refinement(exact, *system, self.tol, most, Clock(), silent)
            found.refine(single)
            values[:, own], residuals[own] = unit[own] * found.products, found.residuals
        values = values.reshape(n, f, g, k).transpose(2, 1, 0, 3)
        for p, r in np.argwhere((residuals > self.tol).reshape(f, g, k).any(axis=2)):
            values[r, p] = self._factorised(p, float(self.ridges[r]))
        return list(values)

    def _shares(self, single: _Stored) -> Iterator[tuple[Any, Any, Callable[..., Operator], int]]:
        """Parts and ridges that share a preconditioner, the preconditioner, and the most iterations with it."""
        n, f = self.weights.shape
        landmarks = _Landmarks.of(self)
        at_once = min(int((self.gram.memory - self._bytes) // (4 * n * n)), f) if n <= LAPACK_ROWS else 0
        rounds = self._rounds(single, landmarks)
        hard = (rounds > n / ROWS_PER_JOINED) & (rounds.max() > n / ROWS_PER_SINGLE) & (at_once > 0)
        if not hard.all():
            yield range(f), np.flatnonzero(~hard), landmarks.on, max(n // ROWS_PER_ITERATION, 1)
        del landmarks
        left = np.flatnonzero(hard)[np.argsort(self.ridges[hard])]
        while left.size:
            near = self.ridges[left] <= SPAN * self.ridges[left[0]]
            for first in range(0, f, at_once):
                yield range(first, min(first + at_once, f)), left[near], partial(_factors, single.matrix, self), SHARED
            left = left[~near]

    def _rounds(self, single: _Stored, landmarks: _Landmarks) -> Array:
        """Iterations that each ridge needs with landmarks, by its condition number: → (g,).

        The extreme eigenvalues are those of the tridiagonal matrix that conjugate gradients make on the first part,
        with the smallest ridge and a random right-hand side.
        """
        scale, column, least = np.sqrt(self.weights[:, :1]), np.zeros(1, np.intp), int(np.argmin(self.ridges))
        more, precondition = self.ridges - self.ridges[least], landmarks.on(column, np.array([least]))
        R = scale * np.random.default_rng(0).standard_normal(scale.shape)
        P = Z = precondition(R, column)
        rho = float(np.vdot(R, Z))
        lengths: list[float] = []
        ratios: list[float] = []
        while len(lengths) < TRIAL and rho > 0:
            Q = scale * (single @ (scale * P)) + self.ridges[least] * P
            lengths.append(rho / float(np.vdot(P, Q)))
            R = R - lengths[-1] * Q
            Z = precondition(R, column)
            rho, old = float(np.vdot(R, Z)), rho
            ratios.append(rho / old)
            P = Z + ratios[-1] * P
        steps, beyond = np.array(lengths), np.array(ratios)[:-1]
        diagonal = 1.0 / steps + np.append(0.0, beyond / steps[:-1])
        found = scipy.linalg.eigvalsh_tridiagonal(diagonal, np.sqrt(beyond) / steps[:-1])
        smallest, largest = found[[0, -1]] * (landmarks.left + self.ridges[least])
        return np.asarray(np.sqrt((largest + more) / (smallest + more)) * np.log(2 / self.tol) / 2)

    def _factorised(self, p: int, ridge: float) -> Array:
        """Predictions of one part, by Cholesky."""
        (rows,) = np.nonzero(self.weights[:, p])
        scale = np.sqrt(self.weights[rows, p])[:, None]
        A = scale * self.K[np.ix_(rows, rows)] * scale.T
        A[np.diag_indices_from(A)] += ridge
        found, _ = solve(A, scale * self.Y[rows], tol=self.tol)
        return np.asarray(self.K[:, rows] @ (scale * found.x))

    # ---- by the inverse -----------------------------------------------------------------------------------------

    def _by_inverse(self) -> Predicted:
        """Solve all parts of a ridge with one inverse; by factorisations if the inverse is not accurate."""
        scale = np.sqrt(self.weights.max(axis=1))[:, None]
        B, left_out = scale * self.Y, [np.flatnonzero(column == 0) for column in self.weights.T]
        for ridge in self.ridges.tolist():
            A = scale * self.K * scale.T
            A[np.diag_indices_from(A)] += ridge
            G = _inverse(A)
            a = G @ B
            if relative_residuals(B - A @ a, B).max(initial=0.0) > EXACT:
                yield np.array([self._factorised(p, ridge) for p in range(len(left_out))])
            else:
                yield self.Y - np.array([_residuals(G, a, rows, ridge) for rows in left_out]) / scale


def _residuals(G: Array, a: Array, rows: NDArray[np.intp], ridge: float) -> Array:
    """``S (y - f)`` of the fit without some rows v: G_vv⁻¹ a_v at these, and μ times the new a at the others."""
    own = np.linalg.solve(G[np.ix_(rows, rows)], a[rows])
    found = ridge * (a - G[:, rows] @ own)
    found[rows] = own
    return found


def _inverse(A: Array) -> Array:
    """The inverse of a positive definite matrix."""
    lower = scipy.linalg.cholesky(A, lower=True, check_finite=False)
    G, info = scipy.linalg.lapack.dpotri(lower, lower=1, overwrite_c=1)
    if info:
        raise np.linalg.LinAlgError("the matrix is singular; raise alpha.")
    return np.asarray(np.tril(G) + np.tril(G, -1).T)


@dataclass(frozen=True, eq=False)
class _Stored:
    """A stored matrix, multiplied by strips on threads."""

    matrix: NDArray[Any]
    workers: int

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.matrix.dtype

    def __matmul__(self, V: Array) -> Array:
        out, (narrow, scale) = np.empty(V.shape), narrowed(V, self.dtype)
        lines = np.ascontiguousarray(narrow.T)

        def strip(rows: slice) -> None:
            out[rows] = (lines @ self.matrix[rows].T).T  # with few columns, a quarter faster than matrix @ columns

        n = len(out)
        run(strip, spans(n, -(-n // self.workers)), self.workers)
        return out if scale is None else out * scale


@dataclass(frozen=True, eq=False)
class _Landmarks:
    """The preconditioner ``(S F Fᵀ S + (δ + μ)I)⁻¹`` of each column, by Woodbury; all parts share F.

    δ stands for what the landmarks leave, its mean on the diagonal. Without δ, a μ far below the smallest eigenvalue of
    K would set the span of the landmarks and all other directions apart.
    """

    factor: NDArray[Any]
    left: float  # δ
    folds: Folds

    @classmethod
    def of(cls, folds: Folds) -> _Landmarks:
        """Choose landmarks, in single precision if its rounding is below the smallest ridge."""
        most, least = float(folds.weights.max()), float(folds.ridges.min())
        dtype = np.float32 if narrow_enough(folds.gram, np.full((1, 1), np.sqrt(most)), least) else np.float64
        enough, seed = LEFT * least / (float(folds.K.trace()) * most), repeatable(folds.random_state)
        found = rpcholesky(folds.gram, folds._rank, seed, tol=min(enough, 1.0), dtype=dtype)
        return cls(found.factor, most * float(found.residual.mean()), folds)

    def on(self, part: NDArray[np.intp], ridge: NDArray[np.intp]) -> Operator:
        """The preconditioner of columns with these parts and ridges."""
        return lambda R, columns: self.solve(R, part[columns], self.folds.ridges[ridge[columns]])

    @cached_property
    def scale(self) -> Array:
        """(n, f): The diagonal of S of each part."""
        return np.sqrt(self.folds.weights)

    @cached_property
    def spectra(self) -> list[tuple[Array, NDArray[Any]]]:
        """For each part, the eigenvalues and eigenvectors of ``Fᵀ W F``, which all ridges share."""
        F, weights = self.factor, self.folds.weights
        most = weights.max(axis=1)
        total, found = _square(F, most), []
        for own in weights.T:
            (less,) = np.nonzero(own < most)
            core = (total - _square(F[less], (most - own)[less])).astype(F.dtype, copy=False)
            values, vectors = scipy.linalg.eigh(core, driver="evd", overwrite_a=True, check_finite=False)
            found.append((np.maximum(values, 0.0), vectors))
        return found

    def solve(self, R: Array, part: NDArray[np.intp], ridge: Array) -> Array:
        """Apply the preconditioner to residuals, each with its part and ridge: R (n, k)."""
        F, ridges = self.factor, self.left + ridge
        if not F.shape[1]:
            return R / ridges
        scale, workers = self.scale[:, part], self.folds.gram.workers
        narrow, strips = (scale * R).astype(F.dtype, copy=False), spans(len(R), -(-len(R) // workers))
        inner = np.sum(run(lambda rows: F[rows].T @ narrow[rows], strips, workers), axis=0)
        for p in np.unique(part).tolist():
            (own,), (values, vectors) = np.nonzero(part == p), self.spectra[p]
            damped = (vectors.T @ inner[:, own]) / (values[:, None] + ridges[own])
            inner[:, own] = vectors @ damped.astype(F.dtype, copy=False)
        Z = np.empty_like(R)

        def strip(rows: slice) -> None:
            Z[rows] = (R[rows] - scale[rows] * (F[rows] @ inner)) / ridges

        run(strip, strips, workers)
        return Z


@dataclass(frozen=True, eq=False)
class _Factors:
    """The preconditioner ``(S K S + νI)⁻¹`` in single precision, for ridges near ν, by one factor for each part."""

    K: NDArray[np.float32]
    folds: Folds
    part: NDArray[np.intp]
    ridge: NDArray[np.intp]

    @cached_property
    def lower(self) -> dict[int, tuple[NDArray[np.intp], NDArray[np.float32] | None]]:
        """By part: its rows, and its lower Cholesky factor; None if rounding has left a negative pivot."""
        near = self.folds.ridges[self.ridge]
        parts, ridge = np.unique(self.part).tolist(), np.sqrt(near.min() * near.max())

        def factorise(p: int) -> tuple[NDArray[np.intp], NDArray[np.float32] | None]:
            (rows,) = np.nonzero(self.folds.weights[:, p])
            scale, A = np.sqrt(self.folds.weights[rows, p]).astype(np.float32), np.empty((len(rows),) * 2, np.float32)
            for strip in spans(len(rows), 256):
                A[strip] = self.K[rows[strip]].take(rows, axis=1)
                if np.any(scale != 1.0):
                    A[strip] *= scale * scale[strip, None]
            A[np.diag_indices_from(A)] += np.float32(ridge)
            factor, failed = scipy.linalg.lapack.spotrf(A.T, lower=1, clean=0, overwrite_a=1)
            return rows, None if failed else factor

        return dict(zip(parts, run(factorise, parts, self.folds.gram.workers), strict=True))

    def solve(self, R: Array, columns: NDArray[np.intp]) -> Array:
        """Apply the preconditioner to the residuals of some columns: R (n, k)."""
        Z = R / self.folds.ridges[self.ridge[columns]]

        def each(p: int) -> None:
            (own,), (rows, factor) = np.nonzero(self.part[columns] == p), self.lower[p]
            if factor is not None:
                narrow, scale = narrowed(R[np.ix_(rows, own)], factor.dtype)
                Z[np.ix_(rows, own)] = scipy.linalg.lapack.spotrs(factor, narrow, lower=1)[0] * scale

        run(each, np.unique(self.part[columns]).tolist(), self.folds.gram.workers)
        return Z


def _factors(K: NDArray[np.float32], folds: Folds, part: NDArray[np.intp], ridge: NDArray[np.intp]) -> Operator:
    return _Factors(K, folds, part, ridge).solve


def _square(F: NDArray[Any], weights: Array) -> Array:
    """Fᵀ W F."""
    return weighted_square(F, None if np.all(weights == 1.0) else np.sqrt(weights)[:, None])
