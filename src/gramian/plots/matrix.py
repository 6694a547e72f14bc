"""The Gram matrix as a picture, with similar rows side by side."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.cluster.hierarchy as hierarchy
from numpy.typing import NDArray
from scipy.spatial.distance import squareform

from gramian.inspection.fitted import Array, kernel_of, sampled_gram, some_rows
from gramian.kernels import Kernel
from gramian.plots.style import Display, plain

ROWS = 500
"""Rows drawn at most."""
CLUSTERS = 6
"""Clusters at most, for rows without classes."""


@dataclass(eq=False, repr=False)
class GramMatrixDisplay(Display):
    """K with its rows ordered by class, or by cluster if there are no classes.

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
    {figure}
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

    size = (5.2, 4.4)

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
            Seed with which at most 500 of the rows are drawn.
        {ax}
        """
        rows = some_rows(estimator, X, what="a Gram matrix")
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
            Seed with which at most 500 of the rows are drawn.
        {ax}
        """
        gram, index = sampled_gram(kernel, X, ROWS, random_state)
        K = np.asarray(gram.dense(), dtype=np.float64)
        leaves, tree = _similar_together(K)
        if y is None:
            labels = hierarchy.fcluster(tree, CLUSTERS, "maxclust") if len(K) > 1 else np.ones(len(K))
            named = labels[leaves].astype(int).tolist()
            names = {label: str(i + 1) for i, label in enumerate(dict.fromkeys(named))}
            by, order, groups = "cluster", leaves, [names[label] for label in named]
        else:
            by, codes = "class", np.unique(np.asarray(y)[index], return_inverse=True)
            order = leaves[np.argsort(codes[1][leaves], kind="stable")]
            groups = [str(codes[0][c]) for c in codes[1][order]]
        sizes = Counter(groups)
        return cls(K[np.ix_(order, order)], index[order], list(sizes), list(sizes.values()), by)._drawn(ax)

    def _draw(self) -> None:
        signed = self.matrix.min() < 0 < self.matrix.max()
        top = float(np.abs(self.matrix).max()) or 1.0
        scale: dict[str, Any] = {"cmap": "RdBu", "vmin": -top, "vmax": top} if signed else {"cmap": "cividis"}
        self.image_ = self.ax_.imshow(self.matrix, interpolation="nearest", **scale)
        edges = np.cumsum([0, *self.sizes])
        draws, colour = (self.ax_.axhline, self.ax_.axvline), "black" if signed else "white"
        self.lines_ = [draw(edge - 0.5, color=colour, lw=1.0) for edge in edges[1:-1] for draw in draws]
        middles = 0.5 * (edges[:-1] + edges[1:]) - 0.5
        shown = [i for i, size in enumerate(self.sizes) if size >= 0.03 * len(self.matrix)]
        names = [plain(self.groups[i]) for i in shown]
        self.ax_.set_xticks(middles[shown], names, rotation=45 if max(map(len, names), default=0) > 6 else 0)
        self.ax_.set_yticks(middles[shown], names)
        self.ax_.tick_params(length=0)
        self.ax_.spines[:].set_visible(False)
        self.ax_.set_xlabel(f"{len(self.matrix)} rows by {self.by}")
        self._colorbar(self.image_, "k(x, z)")


def _similar_together(K: Array) -> tuple[NDArray[np.intp], Any]:
    """The order of rows by Ward's linkage of distances in feature space, and its tree."""
    if len(K) < 2:
        return np.arange(len(K)), None
    diagonal = np.diagonal(K)
    squared = np.maximum(diagonal[:, None] + diagonal[None, :] - 2.0 * K, 0.0)
    distance = np.sqrt(0.5 * (squared + squared.T))
    np.fill_diagonal(distance, 0.0)
    tree = hierarchy.linkage(squareform(distance, checks=False), "ward")
    return hierarchy.leaves_list(tree).astype(np.intp), tree
