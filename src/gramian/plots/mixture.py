"""Gaussian mixtures: components, evidence by iteration, and the number of components by BIC or AIC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from gramian.inspection.fitted import Array, covariance_matrices, input_names, rows_of, sampled, two_inputs, unnamed
from gramian.plots.style import LINES, MUTED, Display, ink, look, paper

DRAWN = 1500
"""Rows drawn at most."""


@dataclass(eq=False, repr=False)
class MixtureDisplay(Display):
    """The components of a mixture in the plane, the evidence by iteration, and a curve of BIC or AIC.

    An ellipse holds half of its component's mass, the one around it nine tenths. Mixtures of more than two inputs are
    projected on the two principal directions of their own covariance, which is exact: the projection of a Gaussian
    mixture is one. A mixture of one input is drawn as densities. Of a ``FamilyMixture`` the ellipses show the
    moments of its components, as if they were Gaussian, and the densities are its own.

    Parameters
    ----------
    weights : array of shape (k,)
        Proportions.
    means : array of shape (k, p)
        Means in the plane, or on the line.
    covariances : array of shape (k, p, p)
        Covariances there.
    points : array of shape (n, p)
        Rows there; empty if there are none.
    codes : array of shape (n,)
        The component of each.
    labels : tuple of str
        Names of the axes.
    evidence, bounds : array of shape (t,)
        Log-likelihood per row, and the bound that the last E-step gave, by iteration.
    n_components : tuple of int, default=()
        The numbers tried.
    curve : tuple of float, default=()
        The criterion of each.
    criterion : str, default="bic"
        Which criterion.
    family : tuple of array or None, default=None
        Of a mixture of one input and another family than the Gaussian: places (m,), and the densities of its
        components there, times their proportions, (m, k).

    Attributes
    ----------
    {figure}
    ellipses_ : list of patches
        Two for each component, the smaller first.
    scatters_ : list of collections
        The rows of each component.
    lines_ : list of lines
        The curves.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import GaussianMixture
    >>> from gramian.plots import MixtureDisplay
    >>> X = np.random.default_rng(0).standard_normal((60, 2)) + np.repeat([[0, 0], [8, 8]], 30, axis=0)
    >>> display = MixtureDisplay.from_estimator(GaussianMixture(2, random_state=0).fit(X), X)
    >>> len(display.plot().ellipses_), display.ax_.get_xlabel()
    (4, 'x1')
    """

    size = (5.2, 4.2)

    weights: Array
    means: Array
    covariances: Array
    points: Array
    codes: NDArray[np.int64]
    labels: tuple[str, ...]
    evidence: Array
    bounds: Array
    n_components: tuple[int, ...] = ()
    curve: tuple[float, ...] = ()
    criterion: str = "bic"
    family: Any = None

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        *,
        features: tuple[int, int] | None = None,
        random_state: int = 0,
        ax: Any = None,
    ) -> Self:
        """Take the components and the evidence of a fitted mixture.

        Parameters
        ----------
        estimator : GaussianMixture or FamilyMixture
            Fitted.
        X : array-like of shape (n, d) or None, default=None
            Rows to draw.
        features : tuple of int or None, default=None
            Two inputs to draw; by default both of two, and principal directions of more.
        random_state : int, default=0
            Seed with which 1,500 rows are drawn if there are more.
        {ax}
        """
        check_is_fitted(estimator)
        means = np.asarray(estimator.means_, dtype=np.float64)
        stack = covariance_matrices(estimator)
        names = input_names(estimator, X, means.shape[1])
        basis, labels = _basis(estimator.weights_, means, stack, features, names)
        rows = np.empty((0, means.shape[1])) if X is None else rows_of(estimator, X, what="a mixture")
        rows = rows[sampled(len(rows), DRAWN, random_state)]
        with unnamed():
            codes = estimator.predict(rows) if len(rows) else np.empty(0, dtype=np.int64)
        weights, covariances = np.asarray(estimator.weights_), np.einsum("dp,kde,eq->kpq", basis, stack, basis)
        evidence, bounds = np.array([(e.log_likelihood, e.bound) for e in estimator.evidence_]).reshape(-1, 2).T
        drawn = cls(weights, means @ basis, covariances, rows @ basis, codes, labels, evidence, bounds)
        if hasattr(estimator, "family_") and means.shape[1] == 1:
            drawn.family = _densities(estimator)
        return drawn._drawn(ax)

    @classmethod
    def from_selection(cls, selection: Any, X: Any = None, *, ax: Any = None, **options: Any) -> Self:
        """Take the best mixture of ``gramian.select_components``, and its curve.

        Parameters
        ----------
        selection : Selection
            What ``select_components`` returned.
        X : array-like of shape (n, d) or None, default=None
            Rows to draw.
        **options : dict
            Further arguments of ``from_estimator``.
        {ax}
        """
        display = cls.from_estimator(selection.best, X, ax=False, **options)
        display.n_components, display.curve = tuple(selection.n_components), tuple(selection.curve)
        display.criterion = selection.criterion
        return display if ax is False else display.plot(ax, kind="criterion")

    def plot(self, ax: Any = None, *, kind: str = "components") -> Self:
        """Draw one of the three pictures.

        Parameters
        ----------
        {where}
        kind : {"components", "evidence", "criterion"}, default="components"
            Ellipses or densities; log-likelihood by iteration; or the criterion by number of components.

        {itself}
        """
        components = self._draw_densities if self.means.shape[1] == 1 else self._draw_ellipses
        kinds = {"components": components, "evidence": self._draw_evidence, "criterion": self._draw_criterion}
        if kind == "criterion" and not self.n_components:
            raise ValueError("a curve of BIC or AIC needs several mixtures; use from_selection.")
        return self._draw_one(ax, kind, kinds)

    def _draw_ellipses(self) -> None:
        from matplotlib.patches import Ellipse

        self.scatters_, self.ellipses_ = [], []
        for c in range(len(self.weights)):
            colour, marker, dashes = look(c).values()
            of = self.points[self.codes == c]
            self.scatters_.append(self.ax_.scatter(*of.T, s=14, c=colour, marker=marker, alpha=0.45, linewidths=0))
            if self.weights[c] == 0:
                continue
            values, vectors = np.linalg.eigh(self.covariances[c])
            angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
            for mass, filled in ((0.5, True), (0.9, False)):
                # χ² of two degrees of freedom: P(r² <= t) = 1 - exp(-t/2).
                axes_ = 2.0 * np.sqrt(np.maximum(values, 0.0) * -2.0 * np.log(1.0 - mass))
                patch = Ellipse(self.means[c], axes_[1], axes_[0], angle=angle, lw=1.8, ls=dashes)
                patch.set(edgecolor=colour, facecolor=colour if filled else "none", alpha=0.28 if filled else 1.0)
                self.ellipses_.append(self.ax_.add_patch(patch))
        shown = self.weights > 0
        self.ax_.scatter(*self.means[shown].T, marker="P", s=70, c=ink(), edgecolors=paper(), zorder=4)
        for (x, y), share in zip(self.means[shown], self.weights[shown], strict=True):
            self._note(f"{share:.0%}", (x, y), (7, 5), fontsize=9, weight="bold", zorder=5)
        self.ax_.autoscale_view()
        self._finish(*self.labels, grid=False, legend=None)

    def _draw_densities(self) -> None:
        spread = np.sqrt(self.covariances[:, 0, 0])
        low, high = (self.means[:, 0] - 4 * spread).min(), (self.means[:, 0] + 4 * spread).max()
        if self.family is None:
            x = np.linspace(low, high, 400)
            parts = self.weights * norm.pdf(x[:, None], self.means[:, 0], spread)
        else:
            x, parts = self.family
        self.ellipses_ = []
        if len(self.points):
            self.ax_.hist(self.points[:, 0], bins=40, density=True, color=MUTED, alpha=0.35, label="rows")
        self.lines_ = [self._line(x, part, c % 8, ls=LINES[1 + c % 7]) for c, part in enumerate(parts.T)]
        self.lines_ += [self._line(x, parts.sum(axis=1), color=ink(), lw=1.8, label="mixture")]
        self._finish(self.labels[0], "density", grid=False)

    def _draw_evidence(self) -> None:
        steps = np.arange(1, len(self.evidence) + 1)
        self.lines_ = [
            self._line(steps, self.evidence, marker="o", ms=4, label="log-likelihood"),
            self._line(steps, self.bounds, 1, marker="s", ms=3.5, lw=1.0, ls="--", label="bound L(q, Θ)"),
        ]
        self.gap_ = self._band(steps, self.bounds, self.evidence, "KL, what the next E-step gains", MUTED)
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        self._finish("iteration of EM", "per row", legend="lower right")

    def _draw_criterion(self) -> None:
        best = int(np.argmin(self.curve))
        self.lines_ = [self._line(self.n_components, self.curve, marker="o", ms=5)]
        self._chosen(self.n_components[best], self.curve[best], f"chosen: {self.n_components[best]} components")
        self.ax_.xaxis.get_major_locator().set_params(integer=True)
        self._finish("components", f"{self.criterion.upper()}, lower is better")


def _basis(
    weights: Array, means: Array, stack: Array, features: tuple[int, int] | None, names: list[str]
) -> tuple[Array, tuple[str, ...]]:
    """The directions of the axes, as columns, and their names."""
    d = means.shape[1]
    if features is None and d <= 2:
        return np.eye(d), tuple(names)
    if features is not None:
        chosen = list(two_inputs(features, d))
        return np.eye(d)[:, chosen], tuple(names[f] for f in chosen)
    centred = means - weights @ means
    total = np.einsum("k,kde->de", weights, stack) + np.einsum("k,kd,ke->de", weights, centred, centred)
    vectors = np.linalg.eigh(total)[1][:, :-3:-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), [0, 1]])
    return vectors * signs, ("principal direction 1", "principal direction 2")


def _densities(estimator: Any) -> tuple[Array, Array]:
    """Points along one input, whole numbers for counts, and each component's density there."""
    spread = np.sqrt(estimator.covariances_[:, 0, 0])
    low, high = float((estimator.means_[:, 0] - 4 * spread).min()), float((estimator.means_[:, 0] + 4 * spread).max())
    whole = np.arange(max(np.floor(low), 0.0), np.ceil(high) + 1.0)
    discrete = hasattr(estimator.family_, "support")
    x = estimator.family_.support(whole) if discrete else np.linspace(low, high, 400)
    with np.errstate(divide="ignore"):
        logs = [estimator.family_.log_density(x[:, None], theta) for theta in estimator.parameters_]
    return x, np.exp(np.column_stack(logs)) * estimator.weights_
