"""Covariances of a Gaussian mixture: full, tied, diagonal or spherical.

Each family has its *quadratics*: the products ``x_i x_j``, ``i ≤ j``, if covariances are matrices, and the squares
``x_i²`` if they are diagonal. The quadratic form of a precision is linear in them, and the second moments of rows are
their sums. Tied covariances are full ones averaged over the components, and spherical ones are diagonal ones averaged
over the features.

Rows of data are columns here, ``(..., d, b)``. Covariances, precisions and factors P, ``Σ⁻¹ = P Pᵀ``, have the shape of
scikit-learn's ``covariances_``; *stacked* ones have an entry for each component, even if all components share one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

Floats = NDArray[np.float64]
EPS = float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class _Shaped:
    """The sizes that all families have."""

    n_components: int
    n_features: int

    def stack(self, values: Floats) -> Floats:
        """Return one entry for each component."""
        return values


@dataclass(frozen=True)
class _Full(_Shaped):
    """A covariance matrix for each component."""

    name: ClassVar[str] = "full"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_components, self.n_features, self.n_features)

    @property
    def size(self) -> int:
        """Number Q of quadratics of a row."""
        return self.n_features * (self.n_features + 1) // 2

    @property
    def n_parameters(self) -> int:
        return math.prod(self.shape[:-2]) * self.size

    @cached_property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The features i and j of each quadratic ``x_i x_j``: (Q,), (Q,)."""
        return np.triu_indices(self.n_features)

    @cached_property
    def _diagonal(self) -> NDArray[np.bool_]:
        return np.equal(*self.pairs)

    def quadratics(self, x: Floats, out: Floats) -> Floats:
        """Write the quadratics of rows: x (..., d, b), out (..., Q, b)."""
        at, d = 0, self.n_features
        for i in range(d):
            np.multiply(x[..., i:, :], x[..., i : i + 1, :], out=out[..., at : at + d - i, :])
            at += d - i
        return out

    def scatter(self, x: Floats, r: Floats) -> Floats:
        """Return the weighted sum of quadratics, without forming them: x (t, d, b), r (t, b) → (Q,)."""
        return np.asarray(np.sum((x * r[:, None, :]) @ x.transpose(0, 2, 1), axis=0)[self.pairs])

    def covariances(self, second: Floats, weights: Floats, ridge: float) -> Floats:
        """Return the maximum-likelihood covariances from second moments: second (K, Q), weights (K,)."""
        i, j = self.pairs
        matrices = np.empty((len(second), self.n_features, self.n_features))
        matrices[:, i, j] = matrices[:, j, i] = second + ridge * self._diagonal
        return matrices

    def factor(self, covariances: Floats) -> Floats:
        return _inverse_roots(covariances)

    def factor_precisions(self, precisions: Floats) -> Floats:
        try:
            # With rows and columns reversed, the lower Cholesky factor becomes an upper one.
            reversed_factors = np.linalg.cholesky(precisions[..., ::-1, ::-1])
        except np.linalg.LinAlgError:
            reversed_factors = None
        if reversed_factors is None or not np.allclose(precisions, precisions.swapaxes(-1, -2)):
            raise ValueError(f"'{self.name} precision' should be symmetric, positive-definite")
        return reversed_factors[..., ::-1, ::-1].astype(np.float64)

    def precisions(self, factors: Floats) -> Floats:
        return factors @ factors.swapaxes(-1, -2)

    def invert(self, factors: Floats) -> Floats:
        roots = np.linalg.inv(factors).astype(np.float64)
        return roots.swapaxes(-1, -2) @ roots

    def coefficients(self, stacked: Floats) -> Floats:
        """Return c with ``xᵀ Λ_k x = c_k · quadratics(x)``: → (K, Q)."""
        i, j = self.pairs
        # Off-diagonal entries of Λ count twice.
        return (2.0 - self._diagonal) * (stacked @ stacked.transpose(0, 2, 1))[:, i, j]

    def log_det(self, stacked: Floats) -> Floats:
        """Return ``log det P_k``: → (K,)."""
        return np.asarray(np.log(np.diagonal(stacked, axis1=1, axis2=2)).sum(axis=1))

    def whiten(self, factor: Floats, x: Floats) -> Floats:
        """Return ``Pᵀ x`` for one component, or for each: factor (..., d, d) or (..., d), x (..., d, b)."""
        return factor.swapaxes(-1, -2) @ x

    def unwhiten(self, factor: Floats, y: Floats) -> Floats:
        """Return ``P y``: factor (..., d, d) or (..., d), y (..., d)."""
        return np.asarray((factor @ y[..., None])[..., 0])

    def departure(self, stacked: Floats, covariances: Floats) -> Floats:
        """Return ``‖Pᵀ Σ P - I‖``, which is zero if ``Σ⁻¹ = P Pᵀ``: → (K,)."""
        residual = stacked.transpose(0, 2, 1) @ covariances @ stacked - np.eye(self.n_features)
        return np.asarray(np.sqrt(np.einsum("kij,kij->k", residual, residual)))

    def variances(self, covariances: Floats, columns: NDArray[np.bool_]) -> Floats:
        """Return the variances of each component along its principal axes: columns (d,) → (K, m)."""
        return np.linalg.eigvalsh(self.stack(covariances)[:, columns][:, :, columns]).astype(np.float64)


@dataclass(frozen=True)
class _Tied(_Full):
    """One covariance matrix for all components."""

    name: ClassVar[str] = "tied"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_features, self.n_features)

    def covariances(self, second: Floats, weights: Floats, ridge: float) -> Floats:
        return super().covariances((weights @ second)[None], weights, ridge)[0]

    def factor(self, covariances: Floats) -> Floats:
        return _inverse_roots(covariances[None], "the shared covariance")[0]

    def stack(self, values: Floats) -> Floats:
        return np.broadcast_to(values, (self.n_components, *self.shape))


@dataclass(frozen=True)
class _Diagonal(_Shaped):
    """A variance for each component and feature."""

    name: ClassVar[str] = "diag"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_components, self.n_features)

    @property
    def size(self) -> int:
        return self.n_features

    @property
    def n_parameters(self) -> int:
        return math.prod(self.shape)

    @cached_property
    def pairs(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        return (np.arange(self.n_features),) * 2

    def quadratics(self, x: Floats, out: Floats) -> Floats:
        return np.multiply(x, x, out=out)

    def scatter(self, x: Floats, r: Floats) -> Floats:
        return np.asarray(np.sum((x * x) @ r[:, :, None], axis=0)[:, 0])

    def covariances(self, second: Floats, weights: Floats, ridge: float) -> Floats:
        return np.maximum(second, 0.0) + ridge

    def factor(self, covariances: Floats) -> Floats:
        for k, variances in enumerate(self.stack(covariances)):
            if np.any(variances <= 0):
                raise ValueError(_ill_defined(f"component {k}", variances))
        return 1.0 / np.sqrt(covariances)

    def factor_precisions(self, precisions: Floats) -> Floats:
        if np.any(precisions <= 0):
            raise ValueError(f"'{self.name} precision' should be positive")
        return np.sqrt(precisions)

    def precisions(self, factors: Floats) -> Floats:
        return factors**2

    def invert(self, factors: Floats) -> Floats:
        return 1.0 / factors**2

    def coefficients(self, stacked: Floats) -> Floats:
        return stacked**2

    def log_det(self, stacked: Floats) -> Floats:
        return np.asarray(np.log(stacked).sum(axis=1))

    def whiten(self, factor: Floats, x: Floats) -> Floats:
        return factor[..., None] * x

    def unwhiten(self, factor: Floats, y: Floats) -> Floats:
        return factor * y

    def departure(self, stacked: Floats, covariances: Floats) -> Floats:
        residual = stacked**2 * self.stack(covariances) - 1.0
        return np.asarray(np.linalg.norm(residual, axis=1))

    def variances(self, covariances: Floats, columns: NDArray[np.bool_]) -> Floats:
        return self.stack(covariances)[:, columns]


@dataclass(frozen=True)
class _Spherical(_Diagonal):
    """A variance for each component."""

    name: ClassVar[str] = "spherical"

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.n_components,)

    def covariances(self, second: Floats, weights: Floats, ridge: float) -> Floats:
        return super().covariances(second.mean(axis=1), weights, ridge)

    def stack(self, values: Floats) -> Floats:
        return np.broadcast_to(values[:, None], (self.n_components, self.n_features))


CovarianceFamily = _Full | _Diagonal
COVARIANCE_TYPES: dict[str, type[CovarianceFamily]] = {
    kind.name: kind for kind in (_Full, _Tied, _Diagonal, _Spherical)
}


def family(covariance_type: str, n_components: int, n_features: int) -> CovarianceFamily:
    """Return the family of covariances with scikit-learn's name for it."""
    return COVARIANCE_TYPES[covariance_type](n_components, n_features)


def quadratics(family: CovarianceFamily, vectors: Floats) -> Floats:
    """Return the quadratics of a few vectors: vectors (m, d) → (m, Q)."""
    i, j = family.pairs
    return vectors[:, i] * vectors[:, j]


def _inverse_roots(covariances: Floats, who: str = "component {}") -> Floats:
    """P with ``Σ⁻¹ = P Pᵀ`` for every matrix; pivots at the level of rounding count as zero: (m, d, d) → (m, d, d)."""
    factors = []
    for k, covariance in enumerate(covariances):
        root, failed = lapack.dpotrf(covariance, lower=1)
        variances = covariance.diagonal()
        if failed or not np.all(root.diagonal() ** 2 > EPS * variances):
            raise ValueError(_ill_defined(who.format(k), variances))
        factors.append(lapack.dtrtri(root, lower=1, overwrite_c=1)[0].T)
    return np.array(factors)


def _ill_defined(who: str, variances: Floats) -> str:
    columns = ", ".join(map(str, np.flatnonzero(variances <= 0)))
    return (
        "Fitting the mixture model failed because some components have ill-defined empirical covariance (for instance "
        "caused by singleton or collapsed samples). Try to decrease the number of components, increase reg_covar, or "
        f"scale the input data. (Here: {who}{f', without variance in columns {columns}' if columns else ''}.)"
    )
