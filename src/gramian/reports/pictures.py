"""Pictures that suit a model, each with a title, a caption and an alternative text."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import _num_samples

import gramian.plots as plots
from gramian.plots.fitted import unnamed
from gramian.plots.style import COLOURS, axes, pyplot
from gramian.reports import drawings
from gramian.reports.evaluation import Evaluation
from gramian.reports.facts import Board
from gramian.reports.subject import Subject

__all__ = ["Picture", "pictures"]

SENSITIVITY = (
    "How far the prediction moves with one deviation of the input, on average over rows; the line spans the middle "
    "half of the rows. It says what the model uses, not what causes what."
)
Plan = tuple[str, str, Callable[[], Any]]
"""Title, caption, and what draws it."""
INK, PAPER = "#1a1b1c", "#fefdfc"
"""Stand for the page's own colours of text and background."""
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gramian",
    "font.family": "sans-serif",
    "font.size": 10.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.color": INK,
    "axes.facecolor": PAPER,
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.facecolor": PAPER,
    "legend.edgecolor": "none",
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
        yield "The search", caption, lambda: drawings.bars(board)
    yield from OF_TASK.get(subject.task, lambda *_: ())(subject, found)
    paths = ("cv_results_", "loo_path_", "cv_path_")
    if tuned := [each for each in (subject.model, subject.machine) if any(hasattr(each, path) for path in paths)]:
        caption = "How the score depends on what was tried, and what was chosen."
        yield "How settings were chosen", caption, lambda: plots.TuningDisplay.from_estimator(tuned[0]).plot()
    yield from _of_kernel(subject)


def _of_classifier(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    yield from _boundary(subject)
    if found is not None:
        caption, classes = f"Rows are the true class; {found.how}.", list(subject.model.classes_)
        yield "Which classes are confused", caption, lambda: drawings.confusion(found.truth, found.predicted, classes)
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
        y = None if novelty else subject.targets
        return plots.DecisionBoundaryDisplay.from_estimator(subject.machine, subject.named, y).plot()

    yield "Decision boundary", lines + kinds + where, draw


def _of_regressor(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    table = subject.numbers
    # Inside an automatic regressor, the machine has units of its own.
    if table is not None and not subject.automatic:
        yield from _function(subject, table)
    if found is not None:
        truth, predicted, deviation = found.truth, found.predicted, found.deviation
        caption = f"On the diagonal, the prediction is right; {found.how}."
        yield "Predicted against true", caption, lambda: drawings.against_truth(truth, predicted, deviation)
        if deviation is not None:
            coverage = partial(plots.CoverageDisplay.from_predictions, truth, predicted, deviation)
            caption = f"Below the diagonal the model is too sure; {found.how}."
            yield "Do the intervals hold?", caption, lambda: coverage().plot()
    yield from _sensitivity(subject)


def _function(subject: Subject, table: Any) -> Iterator[Plan]:
    """What is predicted along one input: of a process, with its bands."""
    machine, one = subject.machine, table.shape[1] == 1

    def draw() -> Any:
        matters = 0 if one else int(np.argmax(plots.SensitivityDisplay.from_estimator(machine).importance))
        data = (subject.named, subject.targets) if subject.X is not None else ()
        display = plots.GaussianProcessDisplay.from_estimator(machine, *data, feature=matters)
        return display.plot(axes(size=(5.0, 3.6))[1])

    if hasattr(machine, "posterior_") and machine.y_train_.ndim == 1:
        along = "" if one else " Along the input that matters most; the others are held at their medians."
        yield "The process", "Mean, bands that hold 50% and 90%, and functions drawn from it." + along, draw
    elif one:
        caption, name = "What is predicted along the only input.", subject.names[0]
        yield "The fitted function", caption, lambda: drawings.curve(machine, table, subject.targets, name)


def _sensitivity(subject: Subject) -> Iterator[Plan]:
    if subject.numbers is not None and subject.numbers.shape[1] > 1:
        machine, rows = subject.machine, subject.named
        yield "Which inputs matter", SENSITIVITY, lambda: plots.SensitivityDisplay.from_estimator(machine, rows).plot()


def _of_novelty(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    yield from _boundary(subject)
    if subject.X is not None:
        values = np.asarray(subject.model.decision_function(subject.X), dtype=np.float64)
        caption = f"Decision values of {values.size:,} rows; those below zero are outside."
        sides = ("outside", "inside")
        yield "Inside and outside", caption, lambda: drawings.histogram(values, 0.0, "decision value", sides)
    yield from _sensitivity(subject)


def _of_density(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    rows = subject.named if subject.X is not None and subject.numbers is not None else None
    display = plots.MixtureDisplay.from_estimator(subject.machine, rows)
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
        yield "Rows on the main components", caption, lambda: drawings.plane(points, subject.targets)


def _of_kernel(subject: Subject) -> Iterator[Plan]:
    machine, rows = subject.machine, subject.rows
    if subject.task == "density" or rows is None or _num_samples(rows) < 3:
        return
    if subject.pairwise and rows.shape[0] != rows.shape[1]:
        return  # k(new, train) says nothing of new rows among themselves
    caption = "Eigenvalues of K/n: how many directions of feature space the data use."
    yield "Spectrum of the kernel", caption, lambda: plots.SpectrumDisplay.from_estimator(machine, rows).plot()
    y = subject.targets if subject.task in ("classification", "projection", "map") else None
    y = None if y is None or len(np.unique(np.asarray(y))) > 30 else y
    by = "cluster" if y is None else "class"
    caption = f"Similarities between rows, ordered by {by}; bright blocks are what the kernel holds to be alike."
    yield "Gram matrix", caption, lambda: plots.GramMatrixDisplay.from_estimator(machine, rows, y).plot()


OF_TASK: dict[str, Callable[[Subject, Evaluation | None], Iterator[Plan]]] = {
    "classification": _of_classifier,
    "regression": _of_regressor,
    "novelty": _of_novelty,
    "density": _of_density,
    "projection": _of_projection,
}
"""What there is to see of a kind of model, beside its search, its settings and its kernel."""


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
