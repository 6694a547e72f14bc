"""Decision boundaries of classifiers and novelty detectors, with their support vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from gramian.kernels import RBF
from gramian.kernels.points import is_sparse
from gramian.plots.fitted import Array, decision_values, input_names, kernel_of, rows_of, sampled, unnamed
from gramian.plots.plane import plane_of
from gramian.plots.style import COLOURS, HATCHES, MARKERS, MUTED, axes, ink, paper, plain

__all__ = ["DecisionBoundaryDisplay"]

DRAWN = 1000
"""Rows drawn at most."""
KINDS = {
    "peripheral": {"alpha": 0.55, "s": 16, "linewidths": 0.0},
    "margin": {"alpha": 1.0, "s": 46, "linewidths": 1.5},
    "violator": {"alpha": 1.0, "s": 52, "linewidths": 0.4},
}
"""How objects of each kind look: small and pale, ringed, or crossed out."""
CLOSE = 1e-6
"""How near to a margin of one a row must be to lie on it, where the fit did not say."""


@dataclass(eq=False)
class DecisionBoundaryDisplay:
    """The regions of a classifier or a novelty detector in the plane, with objects drawn by kind.

    Two classes, or inside and outside, are told apart by the sign of f: the line f = 0 is drawn with the margins
    f = ±1. More classes are told apart by what ``predict`` says. Objects well inside their region are small, those on
    the margin have a ring, and violators a cross. Rows of more than two inputs are drawn on the plane of their first
    two kernel principal components, and f is taken at the pre-images of its points: exact there, and a projection of
    what happens elsewhere. Pre-images lie among the rows, where nothing is novel, so a novelty detector is drawn on
    the plane of the first two principal directions instead.

    Parameters
    ----------
    xx0, xx1 : array of shape (g, g)
        Coordinates of a grid.
    response : array of shape (g, g)
        f there, or with more than two classes the position of the class predicted.
    points : array of shape (n, 2)
        The rows in the plane.
    codes : array of shape (n,) or None
        Their classes, as positions in ``classes``; ``None`` where they are not known.
    kinds : array of str of shape (n,) or None
        ``"peripheral"``, ``"margin"`` or ``"violator"``; ``None`` for models without margins.
    classes : list of str
        Names of the classes; empty for a novelty detector.
    levels : tuple of float
        Where lines are drawn; empty for more than two classes.
    labels : tuple of str
        Names of the axes.
    method : str
        What ``response`` is: ``"decision_function"``, ``"predict_proba"`` or ``"predict"``.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it was drawn.
    surface_, lines_ : contour sets
        The regions and the lines between them; one each for every class where there are more than two.
    scatters_ : dict
        The objects drawn, by (class, kind).

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from gramian import SVC
    >>> from gramian.plots import DecisionBoundaryDisplay
    >>> X, y = make_blobs(60, centers=2, random_state=0)
    >>> display = DecisionBoundaryDisplay.from_estimator(SVC().fit(X, y), X, y)
    >>> display.levels, display.response.shape
    ((-1.0, 0.0, 1.0), (160, 160))
    >>> display.plot().ax_.get_xlabel()
    'x1'
    """

    xx0: Array
    xx1: Array
    response: Array
    points: Array
    codes: NDArray[np.intp] | None
    kinds: NDArray[Any] | None
    classes: list[str]
    levels: tuple[float, ...]
    labels: tuple[str, str]
    method: str = "decision_function"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any = None,
        y: Any = None,
        *,
        features: tuple[int, int] | None = None,
        grid_resolution: int = 160,
        margin: float = 0.12,
        random_state: int = 0,
        ax: Any = None,
    ) -> Self:
        """Evaluate a fitted model on a grid.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier or novelty detector.
        X : array-like of shape (n, d) or None, default=None
            Rows to draw, of two inputs or more; ``None`` for those that the fit keeps.
        y : array-like of shape (n,) or None, default=None
            Their classes.
        features : tuple of int or None, default=None
            Two inputs to draw, with the others held at their medians; by default both of two inputs, and the
            kernel-PCA plane of more.
        grid_resolution : int, default=160
            Points of the grid on each axis.
        margin : float, default=0.12
            How far the grid reaches beyond the rows, relative to their range.
        random_state : int, default=0
            Draws the rows that are shown where there are more than 1,000.
        ax : matplotlib axes or None, default=None
            Where to draw; ``None`` not to draw yet.

        Returns
        -------
        DecisionBoundaryDisplay
            Drawn on ``ax`` where that was given; ``plot`` draws it again.
        """
        rows = rows_of(estimator, X, what="a decision boundary")
        kinds, codes, classes = _kinds(estimator, rows, y), None, _classes(estimator)
        if y is not None and is_classifier(estimator):
            codes = _codes(estimator.classes_, y)
        keep = sampled(len(rows), DRAWN, random_state)
        kernel = _kernel(estimator, rows) if classes else None
        plane = plane_of(rows, features, kernel, input_names(estimator, X, rows.shape[1]), keep)
        xx0, xx1, inputs = plane.grid(grid_resolution, margin)
        response, method = _response(estimator, inputs, len(classes))
        display = cls(
            xx0,
            xx1,
            response.reshape(xx0.shape),
            plane.points,
            None if codes is None else codes[keep],
            None if kinds is None else kinds[keep],
            classes,
            _levels(method, len(classes)),
            plane.labels,
            method,
        )
        return display if ax is None else display.plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw regions, lines and objects.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Where; ``None`` for a figure of its own.

        Returns
        -------
        DecisionBoundaryDisplay
            Itself.
        """
        self.figure_, self.ax_ = axes(ax)
        if self.levels:
            self._draw_sides()
        else:
            self._draw_regions()
        self._draw_objects()
        self.ax_.set(xlabel=plain(self.labels[0]), ylabel=plain(self.labels[1]))
        self.ax_.set_xlim(self.xx0.min(), self.xx0.max())
        self.ax_.set_ylim(self.xx1.min(), self.xx1.max())
        self._draw_legend()
        return self

    def _draw_sides(self) -> None:
        """Two tints by the sign of f, and the lines f = 0 and f = ±1."""
        middle = self.levels[len(self.levels) // 2]
        low, high = min(self.response.min(), middle - 1.0) - 1.0, max(self.response.max(), middle + 1.0) + 1.0
        tints = COLOURS[:2] if self.classes else (COLOURS[1], COLOURS[0])
        grid = (self.xx0, self.xx1, self.response)
        self.surface_ = self.ax_.contourf(*grid, levels=[low, middle, high], colors=tints, alpha=0.16)
        styles = ["solid" if level == middle else "dashed" for level in self.levels]
        widths = [1.8 if level == middle else 1.0 for level in self.levels]
        self.lines_ = self.ax_.contour(
            *grid, levels=list(self.levels), colors=ink(), linestyles=styles, linewidths=widths
        )
        texts = {level: f"{level:+g}" if level else "0" for level in self.levels}
        self.ax_.clabel(self.lines_, fmt=texts, fontsize="small")

    def _draw_regions(self) -> None:
        """A tint and a hatch for every class, with a line around each."""
        from matplotlib import rc_context
        from scipy.ndimage import gaussian_filter

        self.surface_, self.lines_ = [], []
        for c in np.unique(self.response).astype(int):
            # Rounds off the stairs of the grid.
            inside = gaussian_filter((self.response == c).astype(float), 1.0, mode="nearest")
            colour, hatch = COLOURS[c % len(COLOURS)], HATCHES[c % len(HATCHES)]
            grid = (self.xx0, self.xx1, inside)
            with rc_context({"hatch.linewidth": 0.4, "hatch.color": colour}):
                fill = self.ax_.contourf(*grid, levels=[0.5, 1.5], colors=[colour], hatches=[hatch], alpha=0.18)
            self.surface_.append(fill)
            if inside.min() < 0.5:
                self.lines_.append(self.ax_.contour(*grid, levels=[0.5], colors=ink(), linewidths=1.2))

    def _draw_objects(self) -> None:
        n = len(self.points)
        codes = np.zeros(n, dtype=np.intp) if self.codes is None else self.codes
        kinds = np.full(n, "object") if self.kinds is None else self.kinds
        self.scatters_: dict[tuple[str, str], Any] = {}
        for code in np.unique(codes):
            for kind in ("peripheral", "object", "margin", "violator"):
                of = self.points[(codes == code) & (kinds == kind)]
                if len(of):
                    self._draw_kind(of, int(code), kind)

    def _draw_kind(self, points: Array, code: int, kind: str) -> None:
        look = dict(KINDS.get(kind, {"alpha": 0.9, "s": 24, "linewidths": 0.4}))
        marker = MARKERS[code % len(MARKERS)]
        if marker in ("^", "v"):  # which look smaller than others of their size
            look["s"] *= 1.5
        colour = COLOURS[code % len(COLOURS)]
        edge = ink() if kind == "margin" else paper()
        self.scatters_[self._name(code), kind] = self.ax_.scatter(
            *points.T, c=colour, marker=marker, edgecolors=edge, zorder=3, **look
        )
        if kind == "violator":
            self.ax_.scatter(*points.T, c=paper(), marker="x", s=12, linewidths=1.0, zorder=4)

    def _name(self, code: int) -> str:
        return self.classes[code] if self.codes is not None else ""

    def _draw_legend(self) -> None:
        from matplotlib.lines import Line2D

        def mark(**look: Any) -> Any:
            return Line2D([], [], linestyle="none", **look)

        entries: list[Any] = []
        names: list[str] = []
        if self.codes is not None:
            seen = np.unique(self.codes)
            entries = [mark(marker=MARKERS[c % len(MARKERS)], color=COLOURS[c % len(COLOURS)]) for c in seen]
            names = [plain(self.classes[c]) for c in seen]
        if self.kinds is not None:
            grey = {"color": MUTED, "marker": "o"}
            cross = mark(marker="x", color=paper(), markersize=4, markeredgewidth=1.2)
            looks: dict[str, Any] = {
                "peripheral": mark(**grey, markersize=4, alpha=0.7),
                "margin": mark(**grey, markersize=7, markeredgecolor=ink(), markeredgewidth=1.5),
                "violator": (mark(**grey, markersize=7), cross),
            }
            entries += [looks[kind] for kind in KINDS if kind in self.kinds]
            names += [kind for kind in KINDS if kind in self.kinds]
        if entries:
            self.legend_ = self.ax_.legend(entries, names, fontsize="small", framealpha=0.85, loc="best")


def _classes(estimator: Any) -> list[str]:
    return [str(c) for c in estimator.classes_] if is_classifier(estimator) else []


def _codes(classes: Any, y: Any) -> NDArray[np.intp]:
    positions = {label: code for code, label in enumerate(np.asarray(classes).tolist())}
    labels = np.asarray(y).tolist()
    strange = sorted({str(label) for label in labels if label not in positions})
    if strange:
        raise ValueError(f"y holds classes that the model does not know: {', '.join(strange[:5])}.")
    return np.array([positions[label] for label in labels], dtype=np.intp)


def _kernel(estimator: Any, rows: Array) -> Any:
    """The model's kernel for its plane, or one as wide as the rows where it has none."""
    try:
        return kernel_of(estimator)
    except TypeError:
        return RBF(float(np.sqrt(2.0 * rows.shape[1] * max(rows.var(), 1e-12))))


def _levels(method: str, classes: int) -> tuple[float, ...]:
    if classes > 2:
        return ()
    if method == "predict_proba":
        return (0.1, 0.5, 0.9)
    return (-1.0, 0.0, 1.0) if classes else (0.0,)


def _response(estimator: Any, inputs: Array, classes: int) -> tuple[Array, str]:
    if classes <= 2:
        return decision_values(estimator, inputs)
    with unnamed():
        predicted = estimator.predict(inputs)
    return _codes(estimator.classes_, predicted).astype(np.float64), "predict"


def _kinds(estimator: Any, rows: Array, y: Any) -> NDArray[Any] | None:
    """What the fit said of its own rows; of other rows, what their margins say."""
    known = getattr(estimator, "kinds_", None)
    if known is None:
        return None
    if len(known) == len(rows) and _are_own(estimator, rows):
        return np.asarray(known)
    if y is None or len(getattr(estimator, "classes_", ())) != 2:
        return None
    signed = np.where(_codes(estimator.classes_, y) == 1, 1.0, -1.0) * decision_values(estimator, rows)[0]
    return np.select([signed > 1 + CLOSE, signed >= 1 - CLOSE], ["peripheral", "margin"], "violator")


def _are_own(estimator: Any, rows: Array) -> bool:
    """Whether these are the rows of the fit, as far as its support vectors tell; a fit through a map keeps none."""
    vectors = getattr(estimator, "support_vectors_", None)
    if vectors is None or not vectors.shape[0]:
        return True
    return np.array_equal(rows[estimator.support_], vectors.toarray() if is_sparse(vectors) else vectors)
