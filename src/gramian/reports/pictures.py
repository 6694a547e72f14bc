"""Pictures that suit a model, each with a title, a caption and an alternative text."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.metrics import confusion_matrix
from sklearn.utils.validation import _num_samples

import gramian.plots as plots
from gramian.plots.fitted import sampled, unnamed
from gramian.plots.style import COLOURS, HATCHES, MARKERS, MUTED, axes, ink, plain, pyplot
from gramian.reports.facts import Board, Evaluation
from gramian.reports.subject import Subject

SENSITIVITY = (
    "How far the prediction moves with one deviation of the input, on average over rows; the line spans the middle "
    "half of the rows. It says what the model uses, not what causes what."
)
Plan = tuple[str, str, Callable[[], Any]]
"""Title, caption, and what draws it."""
DRAWN = 1000
CLASSES = 12
"""Classes up to which a confusion matrix has its numbers written in."""
INK, PAPER = "#1a1b1c", "#fefdfc"
"""Stand for the page's own colours of text and background."""
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gramian",
    "font.family": "sans-serif",
    "font.size": 10.5,
    **dict.fromkeys(("text.color", "axes.labelcolor", "axes.edgecolor", "axes.titlecolor"), INK),
    **dict.fromkeys(("xtick.color", "ytick.color", "hatch.color"), INK),
    **dict.fromkeys(("axes.facecolor", "legend.facecolor"), PAPER),
    **dict.fromkeys(("figure.facecolor", "savefig.facecolor", "legend.edgecolor"), "none"),
    "axes.linewidth": 0.8,
    "path.simplify_threshold": 0.4,
}
"""matplotlib's settings for a picture in a report."""
VARIABLES = {INK: "var(--ink)", PAPER: "var(--card)"} | {
    colour.lower(): f"var(--c{i})" for i, colour in enumerate(COLOURS)
}


@dataclass(frozen=True)
class Picture:
    """One picture of the page."""

    title: str  # Above and below it
    caption: str  # Above and below it
    svg: str  # The picture; empty where it could not be drawn, and then the caption says why


def pictures(subject: Subject, found: Evaluation | None, board: Board | None) -> list[Picture]:
    """Draw what there is to see."""
    made = []
    with pyplot().rc_context(SETTINGS):
        for number, (title, caption, draw) in enumerate(_plans(subject, found, board)):
            before = set(pyplot().get_fignums())
            try:
                drawn = draw()
                svg = inline(getattr(drawn, "figure_", drawn), f"p{number}-", f"{title}. {caption}")
                made.append(Picture(title, caption, svg))
            except (TypeError, ValueError, MemoryError) as refusal:
                made.append(Picture(title, f"Left out: {refusal}", ""))
            finally:
                for opened in set(pyplot().get_fignums()) - before:
                    pyplot().close(opened)
    return made


def _plans(subject: Subject, found: Evaluation | None, board: Board | None) -> Iterator[Plan]:
    if board is not None and board.drawn:
        better = "less" if board.less_is_better else "more"
        caption = f"{board.metric}; {better} is better. Lines are spreads over folds."
        yield "The search", caption, lambda: bars(board)
    yield from OF_TASK.get(subject.task, lambda *_: ())(subject, found)
    paths = ("cv_results_", "loo_path_", "cv_path_")
    if tuned := [each for each in (subject.model, subject.machine) if any(hasattr(each, path) for path in paths)]:
        caption = "How the score depends on what was tried, and what was chosen."
        yield "How settings were chosen", caption, lambda: plots.TuningDisplay.from_estimator(tuned[0])
    yield from _of_kernel(subject)


def _of_classifier(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    yield from _boundary(subject)
    if found is not None:
        caption, classes = f"Rows are the true class; {found.how}.", list(subject.model.classes_)
        yield "Which classes are confused", caption, lambda: confusion(found.truth, found.predicted, classes)
    yield from _sensitivity(subject)


def _boundary(subject: Subject) -> Iterator[Plan]:
    table, novelty = subject.numbers, subject.task == "novelty"
    # Inside an automatic classifier, the machine may be a regression on codes.
    if table is None or table.shape[1] < 2 or not (novelty or is_classifier(subject.machine)):
        return
    lines = "The solid line is where the decision turns, the dashed ones are the margins."
    if novelty:
        lines = "Inside the line is what is usual."
    elif len(subject.model.classes_) > 2:
        lines = "Each region is what is predicted there."
    kinds = " Ringed objects lie on the margin, crossed ones violate it." if hasattr(subject.machine, "kinds_") else ""
    what = "principal directions" if novelty else "kernel principal components"
    where = "" if table.shape[1] == 2 else f" Shown on the plane of the first two {what}."

    def draw() -> Any:
        y = None if novelty else subject.y
        return plots.DecisionBoundaryDisplay.from_estimator(subject.machine, subject.named, y)

    yield "Decision boundary", lines + kinds + where, draw


def _of_regressor(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    table = subject.numbers
    # Inside an automatic regressor, the machine has units of its own.
    if table is not None and not subject.automatic:
        yield from _function(subject, table)
    if found is not None:
        truth, predicted, deviation = found.truth, found.predicted, found.deviation
        caption = f"On the diagonal, the prediction is right; {found.how}."
        yield "Predicted against true", caption, lambda: against_truth(truth, predicted, deviation)
        if deviation is not None:
            coverage = partial(plots.CoverageDisplay.from_predictions, truth, predicted, deviation)
            caption = f"Below the diagonal the model is too sure; {found.how}."
            yield "Do the intervals hold?", caption, coverage
    yield from _sensitivity(subject)


def _function(subject: Subject, table: Any) -> Iterator[Plan]:
    """What is predicted along one input: of a process, with its bands."""
    machine, one = subject.machine, table.shape[1] == 1

    def draw() -> Any:
        matters = 0 if one else int(np.argmax(plots.SensitivityDisplay.from_estimator(machine, ax=False).importance))
        data = (subject.named, subject.y) if subject.X is not None else ()
        _, ax = axes(size=(5.0, 3.6))
        return plots.GaussianProcessDisplay.from_estimator(machine, *data, feature=matters, ax=ax)

    if hasattr(machine, "posterior_") and machine.y_train_.ndim == 1:
        along = "" if one else " Along the input that matters most; the others are held at their medians."
        yield "The process", "Mean, bands that hold 50% and 90%, and functions drawn from it." + along, draw
    elif one:
        caption, name = "What is predicted along the only input.", subject.names[0]
        yield "The fitted function", caption, lambda: curve(machine, table, subject.y, name)


def _sensitivity(subject: Subject) -> Iterator[Plan]:
    if subject.numbers is not None and subject.numbers.shape[1] > 1:
        machine, rows = subject.machine, subject.named
        yield "Which inputs matter", SENSITIVITY, lambda: plots.SensitivityDisplay.from_estimator(machine, rows)


def _of_novelty(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    yield from _boundary(subject)
    if subject.X is not None:
        values = np.asarray(subject.model.decision_function(subject.X), dtype=np.float64)
        caption = f"Decision values of {values.size:,} rows; those below zero are outside."
        sides = ("outside", "inside")
        yield "Inside and outside", caption, lambda: histogram(values, 0.0, "decision value", sides)
    yield from _sensitivity(subject)


def _of_density(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    rows = subject.named if subject.X is not None and subject.numbers is not None else None
    display = plots.MixtureDisplay.from_estimator(subject.machine, rows, ax=False)
    caption = "Shares of the components; the ellipses hold 50% and 90% of each."
    yield "Components", "The mixture and its parts." if display.means.shape[1] == 1 else caption, display.plot
    if len(display.evidence) > 2:
        caption = "Log-likelihood per row and its bound, by iteration of EM; neither ever falls."
        yield "Evidence", caption, lambda: display.plot(kind="evidence")


def _of_projection(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    if len(subject.machine.eigenvalues_) > 1 and subject.rows is not None:
        with unnamed():
            points = np.asarray(subject.machine.transform(subject.rows), dtype=np.float64)[:, :2]
        first, second = np.asarray(subject.machine.explained_variance_ratio_)[:2]
        caption = f"The first two explain {first:.1%} and {second:.1%} of the variance in feature space."
        yield "Rows on the main components", caption, lambda: plane(points, subject.y)


def _of_kernel(subject: Subject) -> Iterator[Plan]:
    machine, rows = subject.machine, subject.rows
    if subject.task == "density" or rows is None or _num_samples(rows) < 3:
        return
    if subject.pairwise and rows.shape[0] != rows.shape[1]:
        return  # k(new, train) says nothing of new rows among themselves
    caption = "Eigenvalues of K/n: how many directions of feature space the data use."
    yield "Spectrum of the kernel", caption, lambda: plots.SpectrumDisplay.from_estimator(machine, rows)
    y = subject.y if subject.task in ("classification", "projection", "map") else None
    y = None if y is None or len(np.unique(np.asarray(y))) > 30 else y
    by = "cluster" if y is None else "class"
    caption = f"Similarities between rows, ordered by {by}; bright blocks are what the kernel holds to be alike."
    yield "Gram matrix", caption, lambda: plots.GramMatrixDisplay.from_estimator(machine, rows, y)


OF_TASK: dict[str, Callable[[Subject, Evaluation | None], Iterator[Plan]]] = {
    "classification": _of_classifier,
    "regression": _of_regressor,
    "novelty": _of_novelty,
    "density": _of_density,
    "projection": _of_projection,
}
"""What there is to see of a kind of model, beside its search, its settings and its kernel."""


# ---- drawings that have no display of their own -------------------------------------------------------------------


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
    places, chosen = np.arange(len(names))[::-1], names == board.chosen
    ax.hlines(places, scores - spreads, scores + spreads, color=MUTED, lw=2.0)
    ax.plot(scores[~chosen], places[~chosen], "o", color=COLOURS[0], ms=6)
    ax.plot(scores[chosen], places[chosen], "D", color=COLOURS[1], ms=8, mec=ink(), label="chosen")
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


# ---- figures as inline SVG: text stays text, colours follow the page, and nothing points outside ----------------


def inline(figure: Any, prefix: str, alt: str) -> str:
    """Return a figure as an SVG element."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    # What matplotlib has just written, and nobody else.
    source = ET.fromstring(buffer.getvalue())
    for element in source.iter():
        for child in list(element):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                element.remove(child)
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {name.rpartition("}")[2]: _own(name, text, prefix) for name, text in element.attrib.items()}
    box = source.attrib["viewBox"]
    width = round(1.34 * float(box.split()[2]))  # points as pixels, a third larger than on paper
    source.attrib = {"aria-label": alt, "role": "img", "viewBox": box, "style": f"max-width:{width}px"}
    return ET.tostring(source, encoding="unicode", short_empty_elements=False)


def _own(name: str, text: str, prefix: str) -> str:
    """An attribute with ids made the picture's own and colours made the page's."""
    name = name.rpartition("}")[2]
    if name == "id":
        return prefix + text
    if name == "href" and text.startswith("#"):
        return f"#{prefix}{text[1:]}"
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", text)
    if name in ("style", "fill", "stroke", "stop-color"):
        text = re.sub(r"#[0-9a-f]{6}", lambda found: VARIABLES.get(found[0], found[0]), text)
    return text
