"""The Gram matrix as a picture, with similar rows side by side."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.cluster.hierarchy as hierarchy
from numpy.typing import NDArray
from scipy.spatial.distance import squareform

from gramian.gram import Gram
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.plots.fitted import Array, kernel_of, sampled, training_rows
from gramian.plots.style import axes, plain

__all__ = ["GramMatrixDisplay"]

ROWS = 500
"""Rows of the picture at most."""
CLUSTERS = 6
"""Clusters that rows without classes are put into at most."""


@dataclass(eq=False)
class GramMatrixDisplay:
    """K with its rows ordered by class, or by cluster where there are no classes.

    Within a class, rows stand next to those that the kernel calls similar.

    Parameters
    ----------
    matrix : array of shape (n, n)
        K in that order.
    order : array of shape (n,)
        Which rows of X they are.
    groups : list of str
        Names of the classes or clusters, in that order.
    sizes : list of int
        How many rows each has.
    by : {"class", "cluster"}, default="class"
        What the groups are.

    Attributes
    ----------
    figure_, ax_ : matplotlib figure and axes
        Where it was drawn.
    image_, colorbar_ : image and its scale
        The matrix.
    lines_ : list of lines
        Between the groups.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from gramian.kernels import RBF
    >>> from gramian.plots import GramMatrixDisplay
    >>> X, y = load_iris(return_X_y=True)
    >>> display = GramMatrixDisplay.from_kernel(RBF(1.0), X, y)
    >>> display.groups, display.sizes
    (['0', '1', '2'], [50, 50, 50])
    """

    matrix: Array
    order: NDArray[np.intp]
    groups: list[str]
    sizes: list[int]
    by: str = "class"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: Any = None, y: Any = None, *, random_state: int = 0, ax: Any = None
    ) -> Self:
        """Compute K with a fitted model's kernel.

        Parameters
        ----------
        estimator : estimator
            Fitted, with a kernel.
        X : array-like of shape (n, d) or None, default=None
            Rows; ``None`` for those that the fit keeps.
        y : array-like of shape (n,) or None, default=None
            Their classes; ``None`` for clusters.
        random_state : int, default=0
            Draws at most 500 of the rows.
        ax : matplotlib axes or None, default=None
            Where to draw; ``None`` not to draw yet.

        Returns
        -------
        GramMatrixDisplay
            Drawn on ``ax`` where that was given.
        """
        rows = training_rows(estimator) if X is None else X
        if rows is None:
            raise ValueError(f"a Gram matrix needs rows, but {type(estimator).__name__} keeps none; pass X.")
        return cls.from_kernel(kernel_of(estimator), rows, y, random_state=random_state, ax=ax)

    @classmethod
    def from_kernel(cls, kernel: Kernel, X: Any, y: Any = None, *, random_state: int = 0, ax: Any = None) -> Self:
        """Compute K with a kernel.

        Parameters
        ----------
        kernel : Kernel
            The kernel.
        X : array-like of shape (n, d)
            Rows; the Gram matrix itself of ``Precomputed``.
        y : array-like of shape (n,) or None, default=None
            Their classes; ``None`` for clusters.
        random_state : int, default=0
            Draws at most 500 of the rows.
        ax : matplotlib axes or None, default=None
            Where to draw; ``None`` not to draw yet.

        Returns
        -------
        GramMatrixDisplay
            Drawn on ``ax`` where that was given.
        """
        X = X.tocsr() if hasattr(X, "tocsr") else np.asarray(X)
        index = sampled(X.shape[0], ROWS, random_state)
        rows = X[index][:, index] if is_precomputed(kernel) else X[index]
        K = np.asarray(Gram(kernel, rows).dense(), dtype=np.float64)
        leaves, tree = _similar_together(K)
        if y is None:
            labels = hierarchy.fcluster(tree, CLUSTERS, "maxclust") if len(K) > 1 else np.ones(len(K))
            by, named = "cluster", labels[leaves].astype(int)
            names = {label: str(i + 1) for i, label in enumerate(dict.fromkeys(named.tolist()))}
            order, groups = leaves, [names[label] for label in named.tolist()]
        else:
            by, codes = "class", np.unique(np.asarray(y)[index], return_inverse=True)
            order = leaves[np.argsort(codes[1][leaves], kind="stable")]
            groups = [str(codes[0][c]) for c in codes[1][order]]
        names_in_order = list(dict.fromkeys(groups))
        sizes = [groups.count(name) for name in names_in_order]
        display = cls(K[np.ix_(order, order)], index[order], names_in_order, sizes, by)
        return display if ax is None else display.plot(ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the matrix.

        Parameters
        ----------
        ax : matplotlib axes or None, default=None
            Where; ``None`` for a figure of its own.

        Returns
        -------
        GramMatrixDisplay
            Itself.
        """
        self.figure_, self.ax_ = axes(ax, size=(5.2, 4.4))
        signed = self.matrix.min() < 0 < self.matrix.max()
        top = float(np.abs(self.matrix).max()) or 1.0
        scale: dict[str, Any] = {"cmap": "cividis"}
        if signed:
            scale = {"cmap": "RdBu", "vmin": -top, "vmax": top}
        self.image_ = self.ax_.imshow(self.matrix, interpolation="nearest", **scale)
        edges = np.cumsum([0, *self.sizes])
        self.lines_ = []
        for edge in edges[1:-1]:
            colour = "black" if signed else "white"
            self.lines_ += [draw(edge - 0.5, color=colour, lw=1.0) for draw in (self.ax_.axhline, self.ax_.axvline)]
        middles = 0.5 * (edges[:-1] + edges[1:]) - 0.5
        shown = [i for i, size in enumerate(self.sizes) if size >= 0.03 * len(self.matrix)]
        names = [plain(self.groups[i]) for i in shown]
        self.ax_.set_xticks(middles[shown], names, rotation=45 if max(map(len, names), default=0) > 6 else 0)
        self.ax_.set_yticks(middles[shown], names)
        self.ax_.tick_params(length=0)
        self.ax_.spines[:].set_visible(False)
        self.ax_.set_xlabel(f"{len(self.matrix)} rows by {self.by}")
        self.colorbar_ = self.figure_.colorbar(self.image_, ax=self.ax_, label="k(x, z)")
        self.colorbar_.outline.set_visible(False)
        return self


def _similar_together(K: Array) -> tuple[NDArray[np.intp], Any]:
    """An order of rows by Ward's linkage of their distances in feature space, and the tree behind it."""
    if len(K) < 2:
        return np.arange(len(K)), None
    diagonal = np.diagonal(K)
    squared = np.maximum(diagonal[:, None] + diagonal[None, :] - 2.0 * K, 0.0)
    distance = np.sqrt(0.5 * (squared + squared.T))
    np.fill_diagonal(distance, 0.0)
    tree = hierarchy.linkage(squareform(distance, checks=False), "ward")
    return hierarchy.leaves_list(tree).astype(np.intp), tree
