"""Drawings of a report that are not among the displays of ``plots``."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from sklearn.metrics import average_precision_score, confusion_matrix, precision_recall_curve, roc_auc_score, roc_curve

from gramian.inspection.fitted import sampled, unnamed
from gramian.numerals import shortened
from gramian.plots.style import COLOURS, HATCHES, MARKERS, MUTED, axes, counted, ink, log_axis, plain
from gramian.reports.board import Board
from gramian.reports.held_out import Evaluation

DRAWN = 1000
"""Rows drawn at most."""
CLASSES = 12
"""A confusion matrix shows its numbers up to this many classes."""
BINS = 10
NAME, LINE = 16, 22
"""Longest name of a class, and longest line of the name of a trial, in characters."""
FAR_APART = 20
"""Ratio of the largest to the smallest score above which the axis is logarithmic."""


def confusion(truth: NDArray[Any], predicted: NDArray[Any], classes: Sequence[Any]) -> Any:
    """Draw the confusion matrix: truth, predicted (n,)."""
    counts = confusion_matrix(truth, predicted, labels=classes)
    share = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    size = 2.4 + 0.3 * min(len(classes), 12)
    figure, ax = axes(size=(size + 0.8 * (len(classes) > CLASSES), size))
    image = ax.imshow(share, cmap="cividis", vmin=0.0, vmax=1.0)
    if len(classes) <= CLASSES:
        for (i, j), count in np.ndenumerate(counts):
            colour = "white" if share[i, j] < 0.55 else "black"
            ax.text(j, i, f"{count}", ha="center", va="center", fontsize="small", color=colour)
    names = [plain(shortened(c, NAME)) for c in classes]
    every = max(len(names) // 20, 1)
    ticks = np.arange(len(names))[::every]
    long = max(map(len, names)) > 4
    ax.set_xticks(ticks, names[::every], rotation=45 if long else 0, ha="right" if long else "center")
    ax.set_yticks(ticks, names[::every])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set(xlabel="predicted", ylabel="true")
    if len(classes) > CLASSES:
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
    counted(ax.xaxis)
    counted(ax.yaxis)
    return figure


def curve(model: Any, x: NDArray[np.float64], y: NDArray[Any] | None, name: str) -> Any:
    """Draw predictions along the only input: x (n, 1), y (n,)."""
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
    """Draw histograms of values on both sides of a threshold: values (n,)."""
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
    """Draw rows in a plane, coloured by class if there are few: points (n, 2), y (n,)."""
    figure, ax = axes(size=(4.8, 4.2))
    keep = sampled(len(points), DRAWN)
    points, y = points[keep], np.zeros((len(keep), 0)) if y is None else np.asarray(y)[keep]
    classes: Any = np.unique(y) if y.ndim == 1 else ()
    if len(classes) > len(COLOURS) and y.dtype.kind in "fiu":
        shades = ax.scatter(*points.T, c=y, s=14, cmap="cividis", linewidths=0)
        figure.colorbar(shades, ax=ax, label="target").outline.set_visible(False)
    elif 0 < len(classes) <= len(COLOURS):
        for i, name in enumerate(classes):
            look: dict[str, Any] = {"c": COLOURS[i], "marker": MARKERS[i], "label": plain(shortened(name, NAME))}
            ax.scatter(*points[y == name].T, s=15, alpha=0.7, **look)
        ax.legend(fontsize="small")
    else:
        ax.scatter(*points.T, c=COLOURS[0], s=14, alpha=0.6, linewidths=0)
    ax.set(xlabel="component 1", ylabel="component 2")
    return figure


def bars(board: Board) -> Any:
    """Draw the scores of the best trials, and of a linear model."""
    names, scores, spreads, baseline = (np.asarray(each) for each in zip(*board.drawn, strict=True))
    figure, ax = axes(size=(5.0, 1.0 + 0.36 * len(names)))
    places, chosen = np.arange(len(names))[::-1], names == board.chosen
    if scores.min() > 0.0 and scores.max() > FAR_APART * scores.min():
        log_axis(ax, "x")
        spreads = np.minimum(spreads, 0.9 * scores)
    ax.hlines(places, scores - spreads, scores + spreads, color=MUTED, lw=2.0)
    others = ~chosen & ~baseline
    ax.plot(scores[others], places[others], "o", color=COLOURS[0], ms=6)
    ax.plot(scores[chosen], places[chosen], "D", color=COLOURS[1], ms=8, mec=ink(), label="chosen")
    if baseline.any():
        ax.plot(scores[baseline], places[baseline], "s", color=COLOURS[2], ms=7, label=plain(names[baseline][0]))
        ax.axvline(scores[baseline][0], color=COLOURS[2], ls="--", lw=1.0)
    if ax.get_xscale() == "linear":
        counted(ax.xaxis)
    ax.set_xlabel(board.metric)
    ax.set_yticks(places, [plain(_in_two(name)) for name in names])
    ax.tick_params(axis="y", length=0, labelsize="small")
    # Above the axes, since a marker of the legend could be mistaken for a trial.
    ax.legend(fontsize="small", loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=2, frameon=False)
    return figure


# ---- two classes ----------------------------------------------------------------------------------------------------


def roc(found: Evaluation) -> Any:
    """Draw the ROC curve."""
    false, true, _ = roc_curve(found.positive, found.sureness)
    _, ax = axes(size=(4.2, 3.9))
    ax.plot([0, 1], [0, 1], color=MUTED, lw=1.0, ls="--")
    area = roc_auc_score(found.positive, found.sureness)
    ax.plot(false, true, color=COLOURS[0], lw=1.8, label=f"area {area:.3f}")
    picked = np.asarray(found.sureness) >= found.threshold
    _mark(ax, float(picked[~found.positive].mean()), float(picked[found.positive].mean()), found)
    return _shares(ax, "false positive rate", "true positive rate", "lower right")


def precision_recall(found: Evaluation) -> Any:
    """Draw precision against recall."""
    precision, recall, _ = precision_recall_curve(found.positive, found.sureness)
    _, ax = axes(size=(4.2, 3.9))
    share = float(found.positive.mean())
    ax.axhline(share, color=MUTED, lw=1.0, ls="--", label=f"by chance {share:.2f}")
    area = average_precision_score(found.positive, found.sureness)
    ax.plot(recall, precision, color=COLOURS[0], lw=1.8, label=f"average {area:.3f}")
    picked = np.asarray(found.sureness) >= found.threshold
    if picked.any():
        _mark(ax, float(picked[found.positive].mean()), float(found.positive[picked].mean()), found)
    return _shares(ax, "recall", "precision", "best")


def _mark(ax: Any, x: float, y: float, found: Evaluation) -> None:
    """Mark the threshold that predictions use."""
    ax.plot([x], [y], "D", color=COLOURS[1], ms=8, mec=ink(), label=f"threshold {found.threshold:.3g}", zorder=4)


def _shares(ax: Any, x: str, y: str, legend: str) -> Any:
    """Name two axes of shares, and return their figure."""
    ax.set(xlabel=x, ylabel=y, xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    ax.legend(fontsize="small", loc=legend)
    return ax.figure


def calibration(found: Evaluation) -> Any:
    """Draw the observed frequency of the class against its predicted probability, in bins of equal counts."""
    P, came = np.asarray(found.sureness), found.positive
    order = np.argsort(P, kind="stable")
    bins = np.array_split(order, min(BINS, max(len(P) // 10, 2)))
    promised, kept = (np.array([values[b].mean() for b in bins]) for values in (P, came))
    counts = np.array([len(b) for b in bins])
    low, high = (binom.ppf(q, counts, promised) / counts for q in (0.05, 0.95))
    _, ax = axes(size=(4.2, 3.9))
    ax.fill_between(promised, low, high, color=MUTED, alpha=0.3, lw=0, label="chance, 90%")
    ax.plot([0, 1], [0, 1], color=ink(), lw=1.0, ls="--", label="as promised")
    ax.plot(promised, kept, "o-", color=COLOURS[0], ms=5, label=f"{len(P):,} rows")
    return _shares(ax, "probability promised", "share that came true", "upper left")


def gain(found: Evaluation) -> Any:
    """Draw the cumulative gain: the share of the class found among the rows ranked first."""
    hits = np.cumsum(found.positive[np.argsort(-np.asarray(found.sureness), kind="stable")])
    taken, share = np.arange(len(hits) + 1) / len(hits), np.concatenate([[0], hits]) / hits[-1]
    _, ax = axes(size=(4.2, 3.9))
    ax.plot([0, 1], [0, 1], color=MUTED, lw=1.0, ls="--", label="in any order")
    best = float(found.positive.mean())
    ax.plot([0, best, 1], [0, 1, 1], color=MUTED, lw=1.0, ls=":", label="at best")
    ax.plot(taken, share, color=COLOURS[0], lw=1.8, label="by the model")
    at = int(np.sum(np.asarray(found.sureness) >= found.threshold))
    _mark(ax, taken[at], share[at], found)
    return _shares(ax, "share of the rows", "share of the class", "lower right")


# ---- numbers ------------------------------------------------------------------------------------------------------


def residuals(truth: NDArray[Any], predicted: NDArray[Any]) -> Any:
    """Draw errors against predictions, with a curve of their typical size: truth, predicted (n,)."""
    error = truth - predicted
    figure, ax = axes(size=(4.6, 3.9))
    keep = sampled(len(truth), DRAWN)
    ax.scatter(predicted[keep], error[keep], s=13, alpha=0.6, linewidths=0, color=COLOURS[0])
    ax.axhline(0.0, color=ink(), lw=1.0, ls="--")
    groups = np.array_split(np.argsort(predicted, kind="stable"), max(min(BINS, len(truth) // 10), 1))
    if len(groups) > 2:
        middle = np.array([predicted[g].mean() for g in groups])
        size = np.array([np.sqrt(np.mean(error[g] ** 2)) for g in groups])
        for side in (size, -size):
            ax.plot(middle, side, color=COLOURS[1], lw=1.6, label="typical size" if side is size else None)
        ax.legend(fontsize="small", loc="best")
    ax.set(xlabel="predicted", ylabel="true − predicted")
    counted(ax.xaxis)
    counted(ax.yaxis)
    return figure


def _in_two(name: Any) -> str:
    """A name in at most two lines."""
    lines = wrap(str(name), LINE)
    return "\n".join(lines[:2]) + ("…" if len(lines) > 2 else "")
