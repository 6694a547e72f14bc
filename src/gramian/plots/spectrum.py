"""The spectrum of a Gram matrix: eigenvalues, effective dimension, and the rank that is enough."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy.linalg import eigvalsh
from sklearn.base import is_regressor

from gramian.gram import Gram, rpcholesky
from gramian.inspection.fitted import Array, kernel_of, sampled_gram, some_rows
from gramian.kernels import Kernel
from gramian.plots.style import Display, ink, log_axis
from gramian.solvers.gp.evidence import signal_and_noise

ROWS = 1000
"""Rows of the decomposed Gram matrix at most."""
NEGLIGIBLE = 1e-15
"""Eigenvalues below this, relative to the largest, are rounding errors."""


@dataclass(eq=False, repr=False)
class SpectrumDisplay(Display):
    """The spectrum of K/n, the effective dimension ``d(λ) = Σ_i σ_i / (σ_i + λ)``, and what landmarks miss of it.

    The eigenvalues σ of K/n estimate those of the kernel's integral operator, whatever n. A ridge of λ keeps d(λ) of
    its directions, and about as many landmarks are enough for Nyström.

    Parameters
    ----------
    eigenvalues : array of shape (n,)
        Of K/n, from the largest down; what is rounding is zero.
    lambdas, dimension : array of shape (g,)
        d(λ) on a grid of λ.
    ranks, missed : array of shape (r,)
        Share of the trace that so many landmarks, drawn by RPCholesky, miss.
    lam : float or None, default=None
        The model's λ, that is alpha / n; ``None`` if it has none.
    n_rows : int, default=0
        Rows that were decomposed.

    Attributes
    ----------
    {figure}
    lines_ : list of lines
        The curves.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.kernels import RBF
    >>> from gramian.plots import SpectrumDisplay
    >>> X = np.random.default_rng(0).uniform(size=(200, 1))
    >>> display = SpectrumDisplay.from_kernel(RBF(0.2), X)
    >>> round(display.effective_dimension(1e-3), 1)
    6.8
    """

    size = (5.2, 3.8)

    eigenvalues: Array
    lambdas: Array
    dimension: Array
    ranks: Array
    missed: Array
    lam: float | None = None
    n_rows: int = 0

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any = None, *, random_state: int = 0, ax: Any = None) -> Self:
        """Decompose the Gram matrix of a fitted model's kernel.

        Parameters
        ----------
        estimator : estimator
            Fitted, with a kernel.
        X : array-like of shape (n, d) or None, default=None
            Rows; ``None`` for those that the fit keeps.
        random_state : int, default=0
            Seed of the rows drawn, at most 1,000, and of the landmarks.
        {ax}
        """
        rows = some_rows(estimator, X, what="a spectrum")
        lam = _regularisation(estimator, int(np.shape(rows)[0]))
        kernel = kernel_of(estimator)
        if getattr(estimator, "noise_", 0.0) > 0:
            kernel = signal_and_noise(kernel)[0]  # the noise is λ, not part of K
        return cls.from_kernel(kernel, rows, lam=lam, random_state=random_state, ax=ax)

    @classmethod
    def from_kernel(
        cls, kernel: Kernel, X: Any, *, lam: float | None = None, random_state: int = 0, ax: Any = None
    ) -> Self:
        """Decompose the Gram matrix of a kernel.

        Parameters
        ----------
        kernel : Kernel
            The kernel.
        X : array-like of shape (n, d)
            Rows; the Gram matrix itself of ``Precomputed``.
        lam : float or None, default=None
            A λ to mark.
        random_state : int, default=0
            Seed of the rows drawn, at most 1,000, and of the landmarks.
        {ax}
        """
        gram, _ = sampled_gram(kernel, X, ROWS, random_state)
        n = gram.shape[0]
        K = np.asarray(gram.dense(), dtype=np.float64)
        values = np.asarray(eigvalsh(0.5 * (K + K.T) / n)[::-1], dtype=np.float64)
        top = max(float(values[0]), np.finfo(float).tiny)
        values = np.where(values > NEGLIGIBLE * top, values, 0.0)
        lambdas = top * np.logspace(0.5, -10, 64)
        dimension = np.array([np.sum(values / (values + lam_)) for lam_ in lambdas])
        return cls(values, lambdas, dimension, *_missed(gram, random_state), lam, n)._drawn(ax)

    def effective_dimension(self, lam: float) -> float:
        """Return ``d(λ) = Σ_i σ_i / (σ_i + λ)``: λ > 0, on the scale of K/n → number."""
        return float(np.sum(self.eigenvalues / (self.eigenvalues + lam)))

    def plot(self, ax: Any = None, *, kind: str = "eigenvalues") -> Self:
        """Draw one of the three curves.

        Parameters
        ----------
        {where}
        kind : {"eigenvalues", "dimension", "rank"}, default="eigenvalues"
            Their decay; the effective dimension against λ; or what landmarks miss of the trace against their number,
            beside the least that any matrix of that rank must miss.

        {itself}
        """
        kinds = {"eigenvalues": self._decay, "dimension": self._dimension, "rank": self._rank}
        return self._draw_one(ax, kind, kinds)

    def _begin(self, ax: Any) -> None:
        super()._begin(ax)
        log_axis(self.ax_, "x")
        log_axis(self.ax_, "y")

    def _decay(self) -> None:
        shown = self.eigenvalues[self.eigenvalues > 0]
        rank = np.arange(1, shown.size + 1)
        every = np.unique(np.round(np.logspace(0, np.log10(max(shown.size, 2)), 12)).astype(int)) - 1
        marked = [int(i) for i in every if i < shown.size]
        self.lines_ = [self._line(rank, shown, marker="o", ms=4, markevery=marked)]
        if self.lam and shown.size and shown[-1] <= 10 * self.lam:
            self.ax_.axhline(self.lam, color=ink(), ls="--", lw=1.0)
            text = f"λ = {self.lam:.2g}, d(λ) = {self.effective_dimension(self.lam):.0f}"
            self._note(text, (1, self.lam), (2, 4))
        self._finish("rank", f"eigenvalue of K/n ({self.n_rows:,} rows)", legend=None)

    def _dimension(self) -> None:
        self.lines_ = [self._line(self.lambdas, self.dimension, lw=1.8)]
        if self.lam:
            here = self.effective_dimension(self.lam)
            self._chosen(self.lam, here, size=7)
            self._note(f"λ = {self.lam:.2g}\nd(λ) = {here:.1f}", (self.lam, here), (8, 4))
        self._finish("λ", f"effective dimension d(λ) of {self.n_rows:,} rows", legend=None)

    def _rank(self) -> None:
        total = float(self.eigenvalues.sum()) or 1.0
        left = np.maximum(1.0 - np.cumsum(self.eigenvalues) / total, 0.0)
        ranks = np.arange(1, left.size + 1)
        shown, seen = left > 1e-12, self.missed > 1e-12
        least: dict[str, Any] = {"color": ink(), "ls": "--", "label": "least that any matrix misses"}
        drawn: dict[str, Any] = {"marker": "s", "ms": 4, "label": "Nyström, RPCholesky"}
        self.lines_ = [
            self._line(ranks[shown], left[shown], lw=1.2, **least),
            self._line(self.ranks[seen], self.missed[seen], 1, **drawn),
        ]
        self._finish("rank", "share of the trace of K that is missed")


def _missed(gram: Gram, random_state: int) -> tuple[Array, Array]:
    """Trace errors for the first landmarks of one draw, for each rank."""
    n = gram.shape[0]
    pivots = rpcholesky(gram, min(n, 500), random_state=random_state, tol=1e-12)
    trace = float(gram.diagonal().astype(np.float64).sum()) or 1.0
    left = 1.0 - np.cumsum(np.sum(pivots.factor**2, axis=0)) / trace
    chosen = np.unique(np.round(np.logspace(0, np.log10(max(pivots.rank, 1)), 20)).astype(int))
    chosen = chosen[chosen <= pivots.rank]
    return chosen.astype(np.float64), np.maximum(left[chosen - 1], 0.0)


def _regularisation(estimator: Any, n: int) -> float | None:
    """λ of mean loss + λ‖f‖², if the model has a single one."""
    lam = getattr(estimator, "lam_", None)
    if isinstance(lam, float) and lam > 0:
        return lam
    if not is_regressor(estimator):
        return None
    alpha = getattr(estimator, "alpha_", None) if hasattr(estimator, "dual_coef_") else None
    alpha = getattr(estimator, "alpha", None) if alpha is None else alpha
    total = float(getattr(estimator, "noise_", 0.0))
    total += float(alpha) if isinstance(alpha, int | float) else 0.0
    return total / n if total > 0 else None
