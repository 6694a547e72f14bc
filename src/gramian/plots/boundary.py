"""Decision boundaries of classifiers and novelty detectors, with their support vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

from gramian.estimators.pca import KernelPCA
from gramian.inspection.fitted import (
    Array,
    decision_values,
    input_names,
    kernel_of,
    rows_of,
    sampled,
    two_inputs,
    unnamed,
)
from gramian.kernels import RBF
from gramian.kernels.points import dense
from gramian.plots.style import COLOURS, HATCHES, MUTED, Display, ink, look, paper, plain

DRAWN = 1000
"""Rows drawn at most."""
KINDS = {
    "peripheral": {"alpha": 0.55, "s": 16, "linewidths": 0.0},
    "margin": {"alpha": 1.0, "s": 46, "linewidths": 1.5},
    "violator": {"alpha": 1.0, "s": 52, "linewidths": 0.4},
}
"""Look of each kind of object: small and pale, ringed, or crossed out."""
FEW = 6
"""A legend with more entries than this is placed beside the axes, so that it hides no objects."""
CLOSE = 1e-6
"""Rows this close to a margin of one lie on it, if the fit does not say."""


@dataclass(eq=False, repr=False)
class DecisionBoundaryDisplay(Display):
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
        Their classes, as positions in ``classes``; ``None`` if they are not known.
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
    {figure}
    surface_, lines_ : contour sets
        The regions and the lines between them; one each for every class if there are more than two.
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
            Seed with which 1,000 rows are drawn if there are more.
        {ax}
        """
        rows = rows_of(estimator, X, what="a decision boundary")
        classes = [str(c) for c in estimator.classes_] if is_classifier(estimator) else []
        kinds = _kinds(estimator, rows, y)
        codes = _codes(estimator.classes_, y) if y is not None and classes else None
        keep = sampled(len(rows), DRAWN, random_state)
        kernel = _kernel(estimator, rows) if classes else None
        plane = plane_of(rows, features, kernel, input_names(estimator, X, rows.shape[1]), keep)
        xx0, xx1, inputs = plane.grid(grid_resolution, margin)
        response, method = _response(estimator, inputs, len(classes))
        codes, kinds = (None if of is None else of[keep] for of in (codes, kinds))
        levels, response = _levels(method, len(classes)), response.reshape(xx0.shape)
        display = cls(xx0, xx1, response, plane.points, codes, kinds, classes, levels, plane.labels, method)
        return display._drawn(ax)

    def _draw(self) -> None:
        (self._draw_sides if self.levels else self._draw_regions)()
        self._draw_objects()
        self.ax_.set_xlim(self.xx0.min(), self.xx0.max())
        self.ax_.set_ylim(self.xx1.min(), self.xx1.max())
        self._finish(*self.labels, grid=False, legend=None)
        self._draw_legend()

    def _draw_sides(self) -> None:
        """Tints for the sign of f, and the lines f = 0 and f = ±1."""
        middle = self.levels[len(self.levels) // 2]
        low, high = min(self.response.min(), middle - 1.0) - 1.0, max(self.response.max(), middle + 1.0) + 1.0
        tints = COLOURS[:2] if self.classes else (COLOURS[1], COLOURS[0])
        grid = (self.xx0, self.xx1, self.response)
        self.surface_ = self.ax_.contourf(*grid, levels=[low, middle, high], colors=tints, alpha=0.16)
        styles = ["solid" if level == middle else "dashed" for level in self.levels]
        widths = [1.8 if level == middle else 1.0 for level in self.levels]
        self.lines_ = self.ax_.contour(*grid, self.levels, colors=ink(), linestyles=styles, linewidths=widths)
        texts = {level: f"{level:+g}" if level else "0" for level in self.levels}
        self.ax_.clabel(self.lines_, fmt=texts, fontsize="small")

    def _draw_regions(self) -> None:
        """A tint and a hatch for every class, with outlines."""
        from matplotlib import rc_context
        from scipy.ndimage import gaussian_filter

        self.surface_, self.lines_ = [], []
        for c in np.unique(self.response).astype(int):
            # Smooths the steps of the grid.
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
                    name = "" if self.codes is None else self.classes[code]
                    self.scatters_[name, kind] = self._mark(of, int(code), kind)[0]

    def _mark(self, points: Array, code: int, kind: str, **options: Any) -> list[Any]:
        """Draw objects of a class and kind."""
        style: dict[str, Any] = dict(KINDS.get(kind, {"alpha": 0.9, "s": 24, "linewidths": 0.4}))
        colour, marker, _ = look(code).values()
        if marker in ("^", "v"):  # triangles look smaller than other markers
            style["s"] *= 1.5
        style |= {"c": colour, "marker": marker, "edgecolors": ink() if kind == "margin" else paper(), **options}
        drawn = [self.ax_.scatter(*points.T, zorder=3, **style)]
        if kind == "violator":
            drawn.append(self.ax_.scatter(*points.T, c=paper(), marker="x", s=12, linewidths=1.0, zorder=4))
        return drawn

    def _draw_legend(self) -> None:
        nowhere, entries = np.empty((0, 2)), {}
        if self.codes is not None:
            entries = {plain(self.classes[c]): self._mark(nowhere, c, "object", s=40)[0] for c in np.unique(self.codes)}
        if self.kinds is not None:
            grey = {kind: self._mark(nowhere, 0, kind, c=MUTED) for kind in KINDS if kind in self.kinds}
            entries |= {kind: tuple(drawn) for kind, drawn in grey.items()}
        if entries:
            beside: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0), "frameon": False}
            place = beside if len(entries) > FEW else {"framealpha": 0.85}
            self.legend_ = self.ax_.legend(list(entries.values()), list(entries), fontsize="small", **place)


def _codes(classes: Any, y: Any) -> NDArray[np.intp]:
    positions = {label: code for code, label in enumerate(np.asarray(classes).tolist())}
    labels = np.asarray(y).tolist()
    if strange := sorted({str(label) for label in labels if label not in positions}):
        raise ValueError(f"y holds classes that the model was not fitted to: {', '.join(strange[:5])}; leave them out.")
    return np.array([positions[label] for label in labels], dtype=np.intp)


def _kernel(estimator: Any, rows: Array) -> Any:
    """The model's kernel, or an RBF as wide as the data if it has none."""
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
    """Kinds of the training rows as the fit gives them; of other rows, by their margins."""
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
    """Whether these are the training rows, judged by the support vectors; a fit through a map has none."""
    vectors = getattr(estimator, "support_vectors_", None)
    if vectors is None or not vectors.shape[0]:
        return True
    return np.array_equal(rows[estimator.support_], dense(vectors))


@dataclass(frozen=True, eq=False)
class Plane:
    """Rows as points of a plane."""

    points: Array  # (n, 2): The rows in the plane
    labels: tuple[str, str]  # Names of the two axes
    inputs: Callable[[Array], Array]  # From points of the plane to rows of inputs

    def grid(self, resolution: int, margin: float) -> tuple[Array, Array, Array]:
        """Return a grid over the points, and the inputs behind it: → (g, g)."""
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        reach = margin * np.where(high > low, high - low, 1.0)
        sides = [np.linspace(a, b, resolution) for a, b in zip(low - reach, high + reach, strict=True)]
        xx0, xx1 = np.meshgrid(*sides)
        return xx0, xx1, self.inputs(np.column_stack([xx0.ravel(), xx1.ravel()]))


def plane_of(
    rows: Array, features: Sequence[int] | None, kernel: Any, names: Sequence[str], drawn: NDArray[np.intp]
) -> Plane:
    """Choose a plane for rows: two inputs with the others at their medians, or two principal components."""
    d = rows.shape[1]
    if features is not None or d == 2:
        first, second = two_inputs(features or (0, 1), d)
        origin = np.median(rows, axis=0)
        origin[[first, second]] = 0.0
        return _flat(rows[drawn], origin, np.eye(d)[[first, second]], (names[first], names[second]))
    if d < 2:
        raise ValueError("a plane needs two inputs, but these rows have one; GaussianProcessDisplay draws curves.")
    if kernel is not None:
        return _principal(rows[drawn], kernel)
    centre = rows.mean(axis=0)
    basis = np.linalg.svd(rows[drawn] - centre, full_matrices=False)[2][:2]
    return _flat(rows[drawn], centre, basis, ("principal direction 1", "principal direction 2"))


def _flat(rows: Array, origin: Array, basis: Array, labels: tuple[str, str]) -> Plane:
    """The plane through an origin along two directions of the inputs."""

    def inputs(points: Array) -> Array:
        return np.asarray(origin + points @ basis)

    return Plane((rows - origin) @ basis.T, labels, inputs)


def _principal(rows: Array, kernel: Any) -> Plane:
    """The first two kernel principal components; mapped back by the mean of nearby rows.

    Nearness is Gaussian in the plane. It is a ridge without the ridge's overshoot where there are no rows.
    """
    points = KernelPCA(2, kernel=kernel).fit(rows).transform(rows)
    spread = np.maximum(points.std(axis=0), 1e-12)
    width = 0.5 * len(rows) ** (-1.0 / 6.0)  # half of Scott's rule for two dimensions: edges matter more than noise

    def inputs(z: Array) -> Array:
        out = np.empty((len(z), rows.shape[1]))
        for part in np.array_split(np.arange(len(z)), max(len(z) * len(rows) // 2_000_000, 1)):
            gap = (z[part, None, :] - points[None, :, :]) / spread
            log_weight = -0.5 * np.sum(gap**2, axis=2) / width**2
            weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
            out[part] = (weight / weight.sum(axis=1, keepdims=True)) @ rows
        return out

    return Plane(points, ("kernel principal component 1", "kernel principal component 2"), inputs)
