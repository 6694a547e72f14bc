"""A learned metric: its eigenvalues, its directions, and which inputs matter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from gramian.inspection.fitted import Array, input_names
from gramian.plots.style import COLOURS, HATCHES, Display, plain


@dataclass(eq=False, repr=False)
class MetricDisplay(Display):
    """The metric that a ``MetricMap`` has learned, with inputs in units of their standard deviations.

    Parameters
    ----------
    eigenvalues : array of shape (r,)
        Eigenvalues of LLᵀ in descending order.
    directions : array of shape (d, r)
        Its eigenvectors; in each, the entry largest in size is positive.
    inputs : array of shape (d,)
        The diagonal of LLᵀ: how fast the kernel falls along each input.
    names : list of str
        Names of the inputs.

    Attributes
    ----------
    {figure}
    bars_ : matplotlib container, or image
        What was drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import MetricMap
    >>> from gramian.plots import MetricDisplay
    >>> X = np.random.default_rng(0).standard_normal((60, 3))
    >>> display = MetricDisplay.from_estimator(MetricMap("agop").fit(X, np.sin(2 * X[:, 0])), ax=False)
    >>> int(np.argmax(display.inputs))
    0
    """

    size = (5.2, 3.6)

    eigenvalues: Array
    directions: Array
    inputs: Array
    names: list[str]

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Any = None) -> Self:
        """Decompose the metric of a fitted map.

        Parameters
        ----------
        estimator : MetricMap
            Fitted.
        {ax}
        """
        check_is_fitted(estimator, "metric_")
        free = estimator.metric_ * np.outer(estimator.scale_, estimator.scale_)
        values, axes = np.linalg.eigh(0.5 * (free + free.T))
        rank = estimator.L_.shape[1]
        values, axes = np.maximum(values[::-1][:rank], 0.0), axes[:, ::-1][:, :rank]
        axes = axes * np.where(axes[np.abs(axes).argmax(axis=0), np.arange(rank)] < 0, -1.0, 1.0)
        return cls(values, axes, np.diagonal(free).copy(), input_names(estimator, None, len(free)))._drawn(ax)

    def plot(self, ax: Any = None, *, kind: str = "inputs") -> Self:
        """Draw one of the three pictures.

        Parameters
        ----------
        {where}
        kind : {"inputs", "eigenvalues", "directions"}, default="inputs"
            How much each input matters; the eigenvalues of LLᵀ; or what each direction is made of.

        {itself}
        """
        kinds = {"inputs": self._inputs, "eigenvalues": self._eigenvalues, "directions": self._directions}
        return self._draw_one(ax, kind, kinds)

    def _inputs(self) -> None:
        order = np.argsort(self.inputs)
        self.bars_ = self.ax_.barh([plain(self.names[i]) for i in order], self.inputs[order], color=COLOURS[0])
        self._finish("diagonal of LLᵀ, inputs in deviations", "", legend=None)

    def _eigenvalues(self) -> None:
        rank = np.arange(1, self.eigenvalues.size + 1)
        self.bars_ = self.ax_.bar(rank, self.eigenvalues, color=COLOURS[1], hatch=HATCHES[1])
        self._finish("direction", "eigenvalue of LLᵀ", legend=None)

    def _directions(self) -> None:
        limits: dict[str, Any] = {"vmin": -1.0, "vmax": 1.0, "cmap": "PuOr"}
        self.bars_ = self.ax_.imshow(self.directions, aspect="auto", **limits)
        self.ax_.set_yticks(range(len(self.names)), [plain(name) for name in self.names])
        self.ax_.set_xticks(range(self.eigenvalues.size), [str(i + 1) for i in range(self.eigenvalues.size)])
        self._colorbar(self.bars_, "entry of the eigenvector")
        self._finish("direction", "", grid=False, legend=None)
