"""Conditionally positive definite kernels: ThinPlate and Multiquadric."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gramian.kernels import points
from gramian.kernels.base import Kernel, kernel
from gramian.kernels.distances import cast
from gramian.kernels.points import Array, Points
from gramian.kernels.radial import Radial
from gramian.kernels.tunable import FREE, Bounds


@kernel
class ThinPlate(Radial):
    """The thin-plate spline: ± r^(2m-d) log r for an even number d of inputs, ± r^(2m-d) for an odd one.

    Its space has the squared seminorm ``∫ Σ (m-th derivatives)²``, zero for polynomials of degree below m. It is
    **not** positive semi-definite, but is so for coefficients orthogonal to these polynomials, which are fitted as an
    unpenalised trend by ``KernelInterpolator`` and ``GaussianProcessRegressor`` (``trend=``); other estimators refuse
    this kernel.

    Parameters
    ----------
    order : int, default=2
        The order m of the penalised derivatives; 2m > d.

    Examples
    --------
    >>> from gramian.kernels import ThinPlate
    >>> ThinPlate()([[0.0, 0.0]], [[2.0, 0.0]]).round(4)  # r² log r
    array([[2.7726]])
    """

    order: int = 2
    lengthscale: ClassVar[float] = 1.0  # type: ignore[misc]
    per_input: ClassVar[tuple[str, ...]] = ()
    level: ClassVar[float] = 0.0
    smooth: ClassVar[bool] = False  # whatever the number of inputs

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.order, int | np.integer) or self.order < 1:
            raise ValueError(f"ThinPlate: order must be a whole number >= 1, got {self.order!r}.")

    @property
    def conditional_order(self) -> int:
        """Polynomials of degree below this are not penalised."""
        return int(self.order)

    def prepare(self, X: Any, Y: Any = None) -> tuple[Points, Points]:
        A, B = super().prepare(X, Y)
        self._power(A)
        return A, B

    def _power(self, A: Points) -> int:
        d = A.parts[0].shape[1]
        if 2 * self.order <= d:
            most = 2 * self.order
            raise ValueError(
                f"ThinPlate({self.order}) needs fewer than {most} inputs, got {d}; use order={d // 2 + 1}."
            )
        return int(2 * self.order - d)

    def _tile(self, A: Points, B: Points, out: Array | None) -> Array:
        p = self._power(A)
        values = points.through_numpy(lambda s: _plate(s, p), self.arguments(A, B))
        return cast(values, A.parts[0].dtype, out)

    def tile_gradient(self, A: Points, B: Points, W: Array) -> Array:
        p = self._power(A)
        slope = points.through_numpy(lambda s: _plate_slope(s, p), self._settled(A, B))
        G = A.parts[0].pull(B.parts[0], slope * W)
        return points.namespace(G).astype(G * 2.0, A.parts[0].dtype)


def _plate(s: NDArray[Any], p: int) -> NDArray[Any]:
    """± r^p log r or ± r^p as a function of s = r²."""
    s = np.maximum(s, 0.0)
    if p % 2:
        return (-1.0) ** math.ceil(p / 2) * s ** (0.5 * p)
    return (-1.0) ** (1 + p // 2) * 0.5 * s ** (p // 2) * np.log(np.where(s > 0, s, 1.0))


def _plate_slope(s: NDArray[Any], p: int) -> NDArray[Any]:
    """The derivative of ``_plate`` with respect to s; zero at s = 0."""
    h, safe = 0.5 * p, np.where(s > 0, s, 1.0)
    if p % 2:
        slope = (-1.0) ** math.ceil(h) * h * safe ** (h - 1.0)
    else:
        slope = (-1.0) ** (1 + p // 2) * 0.5 * safe ** (h - 1.0) * (h * np.log(safe) + 1.0)
    return np.where(s > 0, slope, 0.0)


@kernel
class Multiquadric(Radial):
    """Hardy's multiquadric -√(1 + s), s = Σ_k ((x_k - z_k) / ℓ_k)².

    It is **not** positive semi-definite, but is so for coefficients that sum to zero, so fits need an unpenalised
    constant. ``KernelInterpolator`` and ``GaussianProcessRegressor`` add it (``trend=``), as does ``KernelRidge`` with
    ``fit_intercept=True``; other estimators refuse this kernel.

    Parameters
    ----------
    lengthscale : float or sequence of float, default=1.0
        One for all inputs, or one each.
    lengthscale_bounds : pair of float or "fixed", default=(1e-5, 1e5)
        Range in which it may be learned.

    Examples
    --------
    >>> from gramian.kernels import Multiquadric
    >>> Multiquadric(2.0)([[0.0]], [[2.0]]).round(4)
    array([[-1.4142]])
    """

    lengthscale: Any = 1.0
    lengthscale_bounds: Bounds = FREE
    level: ClassVar[float] = -1.0
    conditional_order: ClassVar[int] = 1

    def profile(self, t: Array) -> Array:
        return points.multiply(points.sqrt(points.add(points.maximum(t, 0.0), 1.0)), -1.0)

    def slope(self, t: Array) -> Array:
        return -0.5 / points.sqrt(points.add(points.maximum(t, 0.0), 1.0))


def refuse_conditional(k: Kernel) -> None:
    """Raise an error if a kernel needs an unpenalised polynomial trend."""
    if order := k.conditional_order:
        need = "a constant" if order == 1 else f"polynomials of degree {order - 1}"
        raise ValueError(
            f"{k!r} is conditionally positive definite and needs {need} beside it, unpenalised; use it in "
            "KernelInterpolator or GaussianProcessRegressor, which add them (trend=), or take another kernel."
        )
