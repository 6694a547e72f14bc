"""Drawings of a report that have no display of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import confusion_matrix

from gramian.plots.fitted import sampled, unnamed
from gramian.plots.style import COLOURS, HATCHES, MARKERS, MUTED, axes, ink, plain
from gramian.reports.facts import Board

__all__ = ["against_truth", "bars", "confusion", "curve", "histogram", "plane"]

DRAWN = 1000
CLASSES = 12
"""Classes up to which a confusion matrix has its numbers written in."""


def confusion(truth: NDArray[Any], predicted: NDArray[Any], classes: Sequence[Any]) -> Any:
    """Draw how often each class was taken for each other: truth, predicted (n,)."""
    counts = confusion_matrix(truth, predicted, labels=classes)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = 2.4 + 0.3 * min(len(classes), 12)
    figure, ax = axes(size=(size + 0.8, size))
    image = ax.imshow(share, cmap="cividis", vmin=0.0, vmax=1.0)
    if len(classes) <= CLASSES:
        for (i, j), count in np.ndenumerate(counts):
            colour = "white" if share[i, j] < 0.55 else "black"
            ax.text(j, i, f"{count}", ha="center", va="center", fontsize="small", color=colour)
    names = [plain(_short(c)) for c in classes]
    every = max(len(names) // 20, 1)
    ticks = np.arange(len(names))[::every]
    long = max(map(len, names)) > 4
    ax.set_xticks(ticks, names[::every], rotation=45 if long else 0, ha="right" if long else "center")
    ax.set_yticks(ticks, names[::every])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="predicted", ylabel="true")
    figure.colorbar(image, ax=ax, label="share of the true class").outline.set_visible(False)
    return figure


def against_truth(truth: NDArray[Any], predicted: NDArray[Any], deviation: NDArray[np.float64] | None = None) -> Any:
    """Draw predictions against the truth: truth, predicted (n,) or (n, t), deviation (n,)."""
    keep = sampled(len(truth), DRAWN if deviation is None else 300)
    truth, predicted = truth[keep].reshape(len(keep), -1), predicted[keep].reshape(len(keep), -1)
    figure, ax = axes(size=(4.6, 4.2))
    for t in range(truth.shape[1]):
        look: dict[str, Any] = {"color": COLOURS[t % len(COLOURS)], "marker": MARKERS[t % len(MARKERS)]}
        if deviation is not None:
            reach = 1.645 * deviation[keep]
            ax.errorbar(truth[:, t], predicted[:, t], yerr=reach, fmt="none", ecolor=COLOURS[4], elinewidth=0.6)
        ax.scatter(truth[:, t], predicted[:, t], s=13, alpha=0.6, linewidths=0, zorder=3, **look)
    ends = [min(truth.min(), predicted.min()), max(truth.max(), predicted.max())]
    ax.plot(ends, ends, color=ink(), lw=1.0, ls="--", zorder=4)
    ax.set(xlabel="true", ylabel="predicted" if deviation is None else "predicted, with 90% intervals")
    return figure


def curve(model: Any, x: NDArray[np.float64], y: NDArray[Any] | None, name: str) -> Any:
    """Draw what a model predicts along its only input: x (n, 1), y (n,)."""
    figure, ax = axes(size=(5.0, 3.6))
    keep = sampled(len(x), DRAWN)
    if y is not None:
        ax.plot(x[keep, 0], np.asarray(y)[keep], "o", ms=3, mew=0, color=ink(), alpha=0.6, label="data")
    reach = 0.05 * (np.ptp(x) or 1.0)
    grid = np.linspace(x.min() - reach, x.max() + reach, 300)
    with unnamed():
        values = model.predict(grid[:, None])
    ax.plot(grid, values, color=COLOURS[0], lw=1.8, label="prediction")
    ax.set(xlabel=plain(name), ylabel="target")
    ax.legend(fontsize="small")
    return figure


def histogram(values: NDArray[np.float64], edge: float, label: str, sides: tuple[str, str]) -> Any:
    """Draw how values are spread on both sides of an edge: values (n,)."""
    figure, ax = axes(size=(4.8, 3.6))
    bins = np.linspace(min(values.min(), edge), max(values.max(), edge), 41)
    parts = (values[values < edge], values[values >= edge])
    for i, (part, side) in enumerate(zip(parts, sides, strict=True)):
        look: dict[str, Any] = {"color": COLOURS[1 - i], "hatch": HATCHES[1 - i], "alpha": 0.7}
        ax.hist(part, bins=bins, label=f"{side}: {len(part):,}", **look)
    ax.axvline(edge, color=ink(), lw=1.2)
    ax.set(xlabel=label, ylabel="rows")
    ax.legend(fontsize="small")
    return figure


def plane(points: NDArray[np.float64], y: Any) -> Any:
    """Draw rows in a plane, by class where there are few classes: points (n, 2), y (n,)."""
    figure, ax = axes(size=(4.8, 4.2))
    keep = sampled(len(points), DRAWN)
    points, y = points[keep], np.zeros((len(keep), 0)) if y is None else np.asarray(y)[keep]
    classes: Any = np.unique(y) if y.ndim == 1 else ()
    if len(classes) > len(COLOURS) and y.dtype.kind in "fiu":
        shades = ax.scatter(*points.T, c=y, s=14, cmap="cividis", linewidths=0)
        figure.colorbar(shades, ax=ax, label="target").outline.set_visible(False)
    elif 0 < len(classes) <= len(COLOURS):
        for i, name in enumerate(classes):
            look: dict[str, Any] = {"c": COLOURS[i], "marker": MARKERS[i], "label": plain(_short(name))}
            ax.scatter(*points[y == name].T, s=15, alpha=0.7, **look)
        ax.legend(fontsize="small")
    else:
        ax.scatter(*points.T, c=COLOURS[0], s=14, alpha=0.6, linewidths=0)
    ax.set(xlabel="component 1", ylabel="component 2")
    return figure


def bars(board: Board) -> Any:
    """Draw the scores of the best trials of a leaderboard, with the name of the metric."""
    names, scores, spreads = (np.asarray(each) for each in zip(*board.drawn, strict=True))
    figure, ax = axes(size=(5.0, 1.0 + 0.27 * len(names)))
    places, chosen = np.arange(len(names))[::-1], board.chosen
    ax.hlines(places, scores - spreads, scores + spreads, color=MUTED, lw=2.0)
    ax.plot(np.delete(scores, chosen), np.delete(places, chosen), "o", color=COLOURS[0], ms=6)
    ax.plot([scores[chosen]], [places[chosen]], "D", color=COLOURS[1], ms=8, mec=ink(), label="chosen")
    if board.baseline is not None:
        ax.axvline(board.baseline, color=ink(), ls="--", lw=1.0, label="baseline")
    ax.set_xlabel(board.metric)
    ax.set_yticks(places, [plain(_short(name, 34)) for name in names])
    ax.tick_params(axis="y", length=0)
    # Above the axes: among the dots, the legend's own would read as one more trial.
    ax.legend(fontsize="small", loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False)
    return figure


def _short(name: Any, most: int = 16) -> str:
    text = str(name)
    return text if len(text) <= most else text[: most - 1] + "…"
