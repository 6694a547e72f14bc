"""Minimum-norm interpolation: the limit of ridge regression, and the mean of a Gaussian process without noise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgWarning
from sklearn.utils._param_validation import Interval, StrOptions

from gramian.docstrings import documented
from gramian.estimators.base import COMMON, NYSTROEM, KernelExpansion, as_array, fitting, refuse_blocks, resolved
from gramian.estimators.trend import TREND, fitted_trend
from gramian.features.base import parameters_checked
from gramian.gram import Gram
from gramian.gram.operator import as_predicted, wide
from gramian.progress import Clock, Tick, progress
from gramian.solvers.linear.ridge import RidgeProblem
from gramian.solvers.linear.trend import columns
from gramian.solvers.solution import Solution
from gramian.warning import warn

NUGGET = float(np.sqrt(np.finfo(np.float64).eps))
"""Nugget added to a singular K, relative to its diagonal: √eps balances the misfit against rounding in the solve."""


@documented
@dataclass(eq=False, repr=False)
class KernelInterpolator(KernelExpansion):
    """The function of least norm through the data: ``f(x_i) = y_i`` with coefficients ``K⁻¹ y``.

    With a trend, functions that are not penalised are added, and the sum goes through the data: thin-plate splines,
    or universal kriging without noise.

    K is singular if rows coincide, or if the kernel is too smooth for so many rows; this is detected and reported,
    with the rows. A nugget on the diagonal then helps: f no longer goes exactly through the data, and lies between
    contradictory values of coinciding rows.

    Parameters
    ----------
    kernel : str, Kernel or callable, default="rbf"
        The kernel; ``"precomputed"`` if X is the Gram matrix.
    nugget : float or "auto", default="auto"
        What is added to the diagonal of K, >= 0. ``"auto"`` adds nothing if K is invertible, and otherwise warns and
        adds 1.5e-8 times the mean of the diagonal; with zero, a singular K is an error.
    trend : {"constant", "linear"}, map, callable or None, default=None
        Functions added to f without penalty: a constant; a constant and the inputs; the columns of a map such as
        ``PolynomialMap(2)``, or of a function of X. With ``None`` there are only the polynomials that a conditionally
        positive definite kernel (``ThinPlate``, ``Multiquadric``) needs.
    memory : int, str or None, default=None
        The most bytes to hold; the n x n float64 matrix must fit.
    tol : float, default=1e-6
        The largest ``|f(x_i) - y_i|``, relative to the largest target, that is certified as converged.
    max_time : float or None, default=None
        Seconds after which the factorisation raises ``TimeoutError``.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        Where K is computed and multiplied: by default on the CPU; on a GPU, through torch
        (``pip install '.[gpu]'``); or, with ``"auto"``, on a GPU if there is one and the kernel can run there.
        It is not saved with the model.
    {those of KernelParameters}

    Attributes
    ----------
    dual_coef_ : array of shape (n,) or (n, k)
        Coefficients, float64.
    X_fit_ : array, CSR or array of object of shape (n, d)
        The rows that the coefficients belong to.
    function_ : Function or array of Function
        The interpolant, or one per target; ``function_.power`` is its worst-case error. With a trend, it is f alone,
        without ``power``; ``GaussianProcessRegressor`` with the same trend has the deviation.
    trend_ : str, map, callable or None
        The trend used, fitted.
    trend_coef_ : array of shape (q,) or (q, k)
        Coefficients of the trend, if there is one.
    nugget_ : float
        What was added to the diagonal.
    certificate_ : Certificate
        The largest ``|f(x_i) - y_i|``, relative to the largest target. If a nugget was given, the residual of
        ``(K + nugget I) α = y`` instead, and the message says how far f is from its targets.
    {those of KernelParameters}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.interpolator import KernelInterpolator
    >>> X = np.arange(5.0)[:, None]
    >>> model = KernelInterpolator().fit(X, X[:, 0] ** 2)
    >>> model.predict(X).round(6)
    array([ 0.,  1.,  4.,  9., 16.])
    >>> model.function_.power([[2.0], [2.5]]).round(3)
    array([0.   , 0.286])
    """

    kernel: Any = "rbf"
    _: KW_ONLY
    nugget: float | str = "auto"
    trend: Any = None
    tol: float = 1e-6
    device: str | None = None

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **COMMON,
        "nugget": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "trend": TREND,
    }

    @parameters_checked
    def fit(self, X: Any, y: Any = None) -> Self:
        """Find the function of least norm through the data.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows, no two equal unless there is a nugget; objects if the kernel compares objects.
        y : array-like of shape (n,) or (n, k)
            Values to interpolate.
        """
        refuse_blocks(self, X, f"KernelRidge(1e-6, {NYSTROEM})")
        with fitting(self) as clock:
            X, y = self._validated(X, y)
            kernel = resolved(self, X, conditional=True)
            self.trend_ = fitted_trend(self.trend, kernel, X)
            T = None if self.trend_ is None else columns(self.trend_, X)
            with progress(self.verbose, "KernelInterpolator", 1.0) as tick:
                gram = self._gram(kernel, X)
                found = self._through(gram, wide(X), y.reshape(y.shape[0], -1), T, clock, tick)
            self.kernel_, self.X_fit_, self.certificate_ = kernel, X, found.certificate
            self.dual_coef_, self.nugget_ = found.x.reshape(y.shape), (nugget := float(found.ridge[0]))
            known = (nugget, nugget) if T is None else ()
            functions = [self._function(kernel, X, alpha, *known) for alpha in found.x.T]
            self.__dict__.pop("trend_coef_", None)
            if found.trend is not None:
                self.trend_coef_ = found.trend.reshape(-1, *y.shape[1:])
            self.function_ = as_array(functions, y.ndim == 1)
        return self

    @classmethod
    def _fit_path(cls, machines: Sequence[Any], X: Any, y: Any = None) -> None:
        """Fit machines one by one; they share only the kernel."""
        for machine in machines:
            machine.fit(X, y)

    def _beside(self, X: Any) -> Any:
        return 0.0 if getattr(self, "trend_", None) is None else columns(self.trend_, X) @ self.trend_coef_

    def _through(
        self, gram: Gram, rows: Any, Y: NDArray[np.float64], T: NDArray[np.float64] | None, clock: Clock, tick: Tick
    ) -> Solution:
        asked = nugget = 0.0 if self.nugget == "auto" else float(self.nugget)

        def attempt(nugget: float) -> Solution:
            ridge = np.full(Y.shape[1], nugget)
            problem = RidgeProblem(gram, Y, np.ones(Y.shape[0]), ridge, trend=T, tol=self.tol, clock=clock)
            return problem.with_trend(problem.by_cholesky(tick))

        try:
            found = attempt(nugget)
        except np.linalg.LinAlgError as error:
            if self.nugget != "auto":
                raise
            nugget = NUGGET * (float(np.abs(gram.diagonal()).mean()) or 1.0)
            found = attempt(nugget)
            warn(f"{error} nugget='auto' added {nugget:.1e}.", LinAlgWarning)
        largest, missed = np.abs(Y).max(axis=0), Y - as_predicted(gram, rows, found.x)
        if T is not None and found.trend is not None:
            missed = missed - T @ found.trend
        # The distance of f from its targets, without the part due to a nugget given by the user.
        worst = float((np.abs(missed - asked * found.x) / np.where(largest > 0, largest, 1.0)).max())
        by = f"f misses its targets by up to {np.abs(missed).max():.2g}"
        message = f"with nugget={asked:.1e} {by}" if asked else ""
        if not (met := worst <= self.tol):
            message = f"{by}, above tol={self.tol:.0e} of the largest; use another kernel or KernelRidge, or raise tol."
        certificate = replace(found.certificate, violation=worst, converged=met, message=message)
        return replace(found, certificate=certificate)
