"""An interpolant along one input, with its power function as a band."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gramian.inspection.fitted import Array, input_names, line_through, rows_of
from gramian.plots.style import Display, ink


@dataclass(eq=False, repr=False)
class InterpolantDisplay(Display):
    """The function of least norm through the data along one input, and how far others through them can be.

    A function g through the same data with ``‖g‖² <= ‖f‖² + radius²`` has ``|g(x) - f(x)| <= radius · power(x)``, and
    the band is what this leaves open.

    Parameters
    ----------
    x : array of shape (m,)
        Where the function is drawn.
    values, power : array of shape (m,)
        The function and its power function.
    X, y : array of shape (n,)
        The data on the line, which it passes through; empty if there are none.
    radius : float, default=1.0
        Half the width of the band, in power functions.
    label : str, default="x1"
        Name of the input.

    Attributes
    ----------
    {figure}
    line_ : line
        The function.
    band_ : area
        The band.
    data_ : line
        The data.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import KernelInterpolator
    >>> from gramian.kernels import Matern
    >>> from gramian.plots import InterpolantDisplay
    >>> X = np.linspace(0, 6, 7)[:, None]
    >>> f = KernelInterpolator(kernel=Matern(1.0)).fit(X, np.sin(X[:, 0]))
    >>> display = InterpolantDisplay.from_estimator(f, n_points=50)
    >>> display.values.shape, round(display.radius, 2)
    ((50,), 1.55)
    """

    size = (6.4, 3.8)

    x: Array
    values: Array
    power: Array
    X: Array
    y: Array
    radius: float = 1.0
    label: str = "x1"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        feature: int = 0,
        radius: float | None = None,
        n_points: int = 300,
        margin: float = 0.08,
        ax: Any = None,
    ) -> Self:
        """Evaluate a fitted interpolant along one input, with the others held at their medians.

        Parameters
        ----------
        estimator : KernelInterpolator
            Fitted to one target.
        feature : int, default=0
            The input.
        radius : float or None, default=None
            Half the width of the band, in power functions; ``None`` for the norm of the interpolant.
        n_points : int, default=300
            Points of the curve.
        margin : float, default=0.08
            How far the curve reaches beyond the rows, relative to their range.
        {ax}
        """
        check_is_fitted(estimator)
        f = estimator.function_
        if isinstance(f, np.ndarray):
            raise ValueError(f"the display draws one target, but this interpolant has {len(f)}; fit one to each.")
        rows = rows_of(estimator, estimator.X_fit_, what="an interpolant")
        x, inputs = line_through(rows, feature, n_points, margin)
        if radius is None:
            radius = f.norm()
        on_line = np.delete(rows == np.median(rows, axis=0), feature, axis=1).all(axis=1)
        seen = rows[on_line]
        values = f(seen) if len(seen) else np.zeros(0)
        name = input_names(estimator, None, rows.shape[1])[feature]
        shown = (x, f(inputs), f.power(inputs), seen[:, feature], values, float(radius), name)
        return cls(*shown)._drawn(ax)

    def _draw(self) -> None:
        reach = self.radius * self.power
        low, high = self.values - reach, self.values + reach
        self.band_ = self._band(self.x, low, high, f"±{self.radius:.3g} power functions")
        self.line_ = self._line(self.x, self.values, lw=2.0, label="least norm")
        if self.X.size:
            (self.data_,) = self.ax_.plot(self.X, self.y, "o", ms=4, color=ink(), mew=0, label="data")
        self.ax_.set_xlim(self.x[0], self.x[-1])
        self._finish(self.label, "function value", grid=False)
