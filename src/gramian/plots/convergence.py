"""Convergence of a solver: gap, residual or evidence against time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from gramian.plots.style import Display, ink, log_axis, look, plain
from gramian.progress import Clock, Trace, recorded

FALLING = ("gap", "violation", "residual")
"""Figures that converge to zero, drawn on a logarithmic scale."""


@dataclass(eq=False, repr=False)
class ConvergenceDisplay(Display):
    """The progress that a solver reported.

    Parameters
    ----------
    traces : sequence of Trace
        What was recorded, one for each piece of work; of these, those with figures are drawn.
    tol : float or None, default=None
        The tolerance that was asked for, drawn as a line.

    Attributes
    ----------
    {figure}
    lines_ : dict
        The curves, by figure.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from gramian import SVC
    >>> from gramian.plots import ConvergenceDisplay
    >>> display = ConvergenceDisplay.from_estimator(SVC(), *make_moons(200, noise=0.3, random_state=0))
    >>> display.names
    ['gap', 'violation']
    """

    traces: Sequence[Trace]
    tol: float | None = None

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any = None, *, ax: Any = None) -> Self:
        """Fit a clone of an estimator, and record the progress of its solver.

        Parameters
        ----------
        estimator : estimator
            Need not be fitted, and is left as it is.
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,) or None, default=None
            Targets, if the estimator needs them.
        {ax}
        """
        clock = Clock()
        with recorded() as traces:
            fitted = clone(estimator)
            fitted.fit(X) if y is None else fitted.fit(X, y)
        traces.append(_proof(getattr(fitted, "certificate_", None), clock.seconds, traces))
        tol = estimator.get_params(deep=False).get("tol")
        display = cls(traces, tol if isinstance(tol, float) and tol > 0 else None)
        if not display.names:
            raise ValueError(
                f"{type(estimator).__name__} was solved directly, without iterations to draw; its certificate says "
                f"{getattr(fitted, 'certificate_', 'nothing')}."
            )
        return display._drawn(ax)

    @property
    def names(self) -> list[str]:
        """Names of the reported figures, in order of appearance."""
        return list(dict.fromkeys(name for trace in self.traces for _, _, told in trace.ticks for name in told))

    def curve(self, name: str) -> tuple[list[float], list[float]]:
        """Return one of the figures ``names`` against time: name → seconds, values."""
        points = [(s, told[name]) for trace in self.traces for s, _, told in trace.ticks if name in told]
        return [s for s, _ in points], [v for _, v in points]

    def plot(self, ax: Any = None, *, names: Sequence[str] | None = None) -> Self:
        """Draw figures against seconds.

        Parameters
        ----------
        {where}
        names : sequence of str or None, default=None
            Which figures; by default those that fall to zero or, if there are none, the first.

        {itself}
        """
        known = self.names
        shown = list(names) if names is not None else [n for n in known if n in FALLING] or known[:1]
        if not shown or not set(shown) <= set(known):
            raise ValueError(f"names must be among {known}, got {shown}.")
        self._begin(ax)
        self.lines_ = {}
        falling = all(name in FALLING for name in shown)
        for i, name in enumerate(shown):
            seconds, values = self.curve(name)
            drawn = np.asarray(values, dtype=np.float64)
            drawn = np.where(drawn > 0, drawn, np.nan) if falling else drawn
            every, label = max(len(values) // 25, 1), plain(name.replace("_", "-"))
            self.lines_[name] = self._line(seconds, drawn, ms=4, markevery=every, label=label, **look(i))
        if falling:
            log_axis(self.ax_, "y")
            if self.tol is not None:
                self.ax_.axhline(self.tol, color=ink(), ls=":", lw=1.2, label=f"tol = {self.tol:g}")
        self.ax_.set_xlim(left=0.0)
        self._finish("seconds", "relative" if falling else shown[0].replace("_", "-"))
        return self


def _proof(certificate: Any, seconds: float, traces: Sequence[Trace]) -> Trace:
    """The certificate's values of the figures that the solver reported."""
    told = {name for trace in traces for _, _, figures in trace.ticks for name in figures}
    kind = getattr(certificate, "kind", "")
    known = {"gap": "gap", "violation": "violation"} if kind == "duality gap" else {"residual": "violation"}
    known = known if kind in ("duality gap", "residual", "eigen-residual") else {}
    last = {name: float(getattr(certificate, field)) for name, field in known.items() if name in told}
    return Trace("certificate", [(seconds, math.nan, last)] if last else [])
