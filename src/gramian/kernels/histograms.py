"""Kernels on histograms (rows of counts or shares): Chi2 and AdditiveChi2."""

from __future__ import annotations

from typing import Any, ClassVar

from gramian.kernels.base import ConstantDiagonal, kernel
from gramian.kernels.points import Array, Points, exp, multiply, namespace, pair_of_vectors, paired, store
from gramian.kernels.tunable import FREE, Bounds


class Histograms(ConstantDiagonal):
    """A function of the chi-squared distance between two rows of counts or shares."""

    buffers: ClassVar[int] = 4

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        rows, columns = pair_of_vectors(X, Y, kernel=self.name)
        for name, Z in (("X", rows), ("Y", columns)):
            if bool(namespace(Z).any(Z < 0)):
                raise ValueError(f"{self.name} takes counts or shares >= 0, but {name} has negative entries.")
        return paired((rows,), (columns,), Y is None)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return _chi_squares(A.parts[0], B.parts[0], out)

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        x, z = A.parts[0], B.parts[0]
        xp = namespace(x)
        columns = [-xp.sum(W * _term(x[:, None, k], z[None, :, k], 1), axis=1) for k in range(x.shape[1])]
        return xp.astype(xp.stack(columns, axis=1), x.dtype)


def _chi_squares(x: Array, z: Array, out: Array | None) -> Array:
    """-Σ_k (x_k - z_k)² / (x_k + z_k), column by column."""
    xp = namespace(x)
    total = xp.zeros((x.shape[0], z.shape[0]), dtype=x.dtype)
    for k in range(x.shape[1]):
        total -= _term(x[:, None, k], z[None, :, k], 2)
    return store(total, out)


def _term(x: Array, z: Array, order: int) -> Array:
    """(x - z)² / (x + z), or with ``order=1`` its derivative with respect to x; zero where x = z = 0."""
    xp = namespace(x)
    total = x + z
    ratio = (x - z) / xp.where(total > 0, total, xp.ones_like(total))
    return ratio * (x - z) if order == 2 else ratio * (2.0 - ratio)


@kernel
class AdditiveChi2(Histograms):
    """The similarity -Σ_k (x_k - z_k)² / (x_k + z_k) of scikit-learn, which is **not** positive semi-definite.

    It is so only for coefficients that sum to zero. ``Chi2``, its exponential, is positive semi-definite.

    Examples
    --------
    >>> from gramian.kernels import AdditiveChi2
    >>> AdditiveChi2()([[1.0]], [[3.0]])
    array([[-1.]])
    """

    level: ClassVar[float] = 0.0
    definite: ClassVar[bool] = False


@kernel
class Chi2(Histograms):
    """The exponential chi-squared kernel exp(-gamma Σ_k (x_k - z_k)² / (x_k + z_k)), for rows >= 0.

    Parameters
    ----------
    gamma : float, default=1.0
        Inverse scale.
    gamma_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which it may be learned.

    Examples
    --------
    >>> from gramian.kernels import Chi2
    >>> Chi2(1.0)([[1.0]], [[3.0]]).round(4)
    array([[0.3679]])
    """

    gamma: float = 1.0
    gamma_bounds: Bounds = FREE

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        return exp(multiply(super()._tile(A, B, out), self.gamma))

    def _derivatives(self, A: Points, B: Points, W: Array) -> dict[str, Any]:
        t = super()._tile(A, B, None) * self.gamma
        xp = namespace(t)
        return {"gamma": float(xp.sum(xp.exp(t) * t * W))}

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        return super().tile_gradient(A, B, self._tile(A, B, None) * W * self.gamma)
