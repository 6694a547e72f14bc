"""The pictures of a report, chosen by the kind of model, with titles, captions and alternative texts."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import _num_samples

import gramian.plots as plots
from gramian.inspection import Sensitivity, sensitivity
from gramian.inspection.fitted import unnamed
from gramian.plots.style import COLOURS, axes, pyplot
from gramian.reports import drawings
from gramian.reports.board import Board
from gramian.reports.held_out import Evaluation
from gramian.reports.subject import Subject

QUALITY, INPUTS, SEARCH, KERNEL = "quality", "inputs", "search", "kernel"
"""Sections of the page, in this order."""
USES = "It says what the model uses, not what causes what. Inputs with the same information share their importance."
SLOPED = ("classification", "regression", "novelty")
"""Tasks whose fitted functions have slopes to show."""
WIDTH, ZOOM = 3.9, 1.45
"""Width in inches, so that text is readable on a phone; largest scale on a desktop screen."""
INK, PAPER = "#1a1b1c", "#fefdfc"
"""Placeholders for the page's colours of text and background."""
SETTINGS: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gramian",
    "font.family": "sans-serif",
    "font.size": 11,
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


class Plan(NamedTuple):
    """A picture still to be drawn."""

    section: str
    title: str
    caption: str
    draw: Callable[[], Any]


@dataclass(frozen=True)
class Picture:
    """One picture of the page."""

    title: str  # Above the picture
    caption: str  # Below it
    svg: str  # Empty if it could not be drawn; the caption then says why
    section: str  # Section of the page


def pictures(
    subject: Subject, found: Evaluation | None, board: Board | None, inputs: Sensitivity | None = None
) -> list[Picture]:
    """Draw all pictures that suit the model."""
    made = []
    with pyplot().rc_context(SETTINGS):
        for number, (section, title, caption, draw) in enumerate(_plans(subject, found, board, inputs)):
            before = set(pyplot().get_fignums())
            try:
                drawn = draw()
                svg = inline(getattr(drawn, "figure_", drawn), f"p{number}-", f"{title}. {caption}")
                made.append(Picture(title, caption, svg, section))
            except (TypeError, ValueError, MemoryError) as refusal:
                made.append(Picture(title, f"Left out: {refusal}", "", section))
            finally:
                for opened in set(pyplot().get_fignums()) - before:
                    pyplot().close(opened)
    return made


def _plans(
    subject: Subject, found: Evaluation | None, board: Board | None, inputs: Sensitivity | None
) -> Iterator[Plan]:
    yield from OF_TASK.get(subject.task, lambda *_: ())(subject, found)
    yield from _inputs(subject, found, inputs)
    if board is not None and board.drawn:
        caption = f"{board.metric}; {board.better} is better. Lines are spreads over folds."
        yield Plan(SEARCH, "What was tried", caption, lambda: drawings.bars(board))
    paths = ("cv_results_", "loo_path_", "cv_path_")
    if tuned := [each for each in (subject.model, subject.machine) if any(hasattr(each, path) for path in paths)]:
        caption = "The score of each setting that was tried, and the one chosen."
        draw = partial(plots.TuningDisplay.from_estimator, tuned[0])
        yield Plan(SEARCH, "How settings were chosen", caption, draw)
    yield from _of_kernel(subject)


def _of_classifier(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    if found is not None and found.binary:
        yield from _of_two_classes(found.of_rarer)
    if found is not None:
        caption, classes = f"Rows are true classes, columns are predictions; {found.how}.", list(subject.model.classes_)
        draw = partial(drawings.confusion, found.truth, found.predicted, classes)
        yield Plan(QUALITY, "Which classes are confused", caption, draw)
    yield from _boundary(subject)


def _of_two_classes(found: Evaluation) -> Iterator[Plan]:
    """Curves for the rarer of two classes; the diamond marks the threshold."""
    wanted = f"“{found.classes[1]}”"
    caption = f"True positive rate of {wanted} against the false positive rate; {found.how}."
    yield Plan(QUALITY, "ROC curve", caption, partial(drawings.roc, found))
    caption = f"Share of correct predictions among those of {wanted}, against the share of {wanted} found; {found.how}."
    yield Plan(QUALITY, "Precision and recall", caption, partial(drawings.precision_recall, found))
    if found.probability:
        caption = f"How often {wanted} occurred, against its predicted probability; below the diagonal it is too high."
        yield Plan(QUALITY, "Are probabilities right?", caption, partial(drawings.calibration, found))
    caption = f"Share of {wanted} found if you check only the rows that the model ranks first."
    yield Plan(QUALITY, "Gain", caption, partial(drawings.gain, found))


def _boundary(subject: Subject) -> Iterator[Plan]:
    table, novelty = subject.numbers, subject.task == "novelty"
    # The machine inside an automatic classifier may be a regression on class codes.
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

    section = KERNEL if where else QUALITY
    yield Plan(section, "Decision boundary", lines + kinds + where, draw)


def _of_regressor(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    table = subject.numbers
    # The machine inside an automatic regressor predicts standardised targets.
    if table is not None and not subject.automatic:
        yield from _function(subject, table)
    if found is None:
        return
    truth, predicted, deviation = found.truth, found.predicted, found.deviation
    caption = f"On the diagonal the prediction is right; {found.how}."
    draw = partial(drawings.against_truth, truth, predicted, deviation)
    yield Plan(QUALITY, "Predicted against true", caption, draw)
    if truth.ndim == 1:
        caption = (
            "If errors scatter evenly around zero, little is left to learn, and intervals of one width fit all rows."
        )
        yield Plan(QUALITY, "Errors against predictions", caption, partial(drawings.residuals, truth, predicted))
    if deviation is not None:
        coverage = partial(plots.CoverageDisplay.from_predictions, truth, predicted, deviation)
        caption = f"Below the diagonal, intervals are too narrow; {found.how}."
        yield Plan(QUALITY, "Do the intervals hold?", caption, coverage)


def _function(subject: Subject, table: Any) -> Iterator[Plan]:
    """Predictions along one input, with bands for a Gaussian process."""
    machine, one = subject.machine, table.shape[1] == 1

    def draw() -> Any:
        matters = 0 if one else int(np.argmax(sensitivity(machine, method="gradient").importance))
        data = (subject.named, subject.y) if subject.X is not None else ()
        _, ax = axes(size=(5.0, 3.6))
        return plots.GaussianProcessDisplay.from_estimator(machine, *data, feature=matters, ax=ax)

    if hasattr(machine, "posterior_") and machine.y_train_.ndim == 1:
        along = "" if one else " Along the input that matters most; the others are held at their medians."
        caption = "Mean, 50% and 90% bands, and functions drawn from the posterior." + along
        yield Plan(QUALITY, "The process", caption, draw)
    elif one:
        caption, name = "Predictions along the only input.", subject.names[0]
        yield Plan(QUALITY, "The fitted function", caption, lambda: drawings.curve(machine, table, subject.y, name))


def _inputs(subject: Subject, found: Evaluation | None, inputs: Sensitivity | None) -> Iterator[Plan]:
    """Permutation importance of each column, and slopes of the fitted function."""
    if inputs is not None and found is not None:
        learned = subject.automatic and subject.seen is not False
        seen = " The model may have learned from them." if learned or not found.honest else ""
        caption = f"How much worse {inputs.n_rows:,} rows are predicted when a column is shuffled.{seen} {USES}"
        yield Plan(INPUTS, "Which inputs matter", caption, lambda: plots.SensitivityDisplay.from_sensitivity(inputs))
    if subject.automatic and len(getattr(subject.X, "shape", ())) == 2:
        model, rows, some = subject.model, subject.inputs, " For columns of numbers only."
    elif subject.numbers is not None and subject.numbers.shape[1] > 1 and subject.task in SLOPED:
        model, rows, some = subject.machine, subject.named, ""
    else:
        return
    caption = (
        "The mean slope of the prediction, for one standard deviation of the input; the line spans the middle half of "
        f"the rows.{some}"
    )
    draw = partial(plots.SensitivityDisplay.from_estimator, model, rows, method="gradient")
    yield Plan(INPUTS, "Slopes of the fitted function", caption, draw)


def _of_novelty(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    yield from _boundary(subject)
    if subject.X is not None:
        values = np.asarray(subject.model.decision_function(subject.X), dtype=np.float64)
        caption = f"Decision values of {values.size:,} rows; those below zero are outside."
        sides = ("outside", "inside")
        draw = partial(drawings.histogram, values, 0.0, "decision value", sides)
        yield Plan(QUALITY, "Inside and outside", caption, draw)


def _of_density(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    rows = subject.named if subject.X is not None and subject.numbers is not None else None
    display = plots.MixtureDisplay.from_estimator(subject.machine, rows, ax=False)
    caption = "Weights of the components; the ellipses hold 50% and 90% of each."
    caption = "The density of the mixture and of its components." if display.means.shape[1] == 1 else caption
    yield Plan(QUALITY, "Components", caption, display.plot)
    if len(display.evidence) > 2:
        caption = "Log-likelihood per row and its bound, by iteration of EM; neither ever falls."
        yield Plan(QUALITY, "Evidence", caption, partial(display.plot, kind="evidence"))


def _of_projection(subject: Subject, found: Evaluation | None) -> Iterator[Plan]:
    if len(subject.machine.eigenvalues_) > 1 and subject.rows is not None:
        with unnamed():
            points = np.asarray(subject.machine.transform(subject.rows), dtype=np.float64)[:, :2]
        first, second = np.asarray(subject.machine.explained_variance_ratio_)[:2]
        caption = f"The first two explain {first:.1%} and {second:.1%} of the variance in feature space."
        yield Plan(QUALITY, "Rows on the main components", caption, partial(drawings.plane, points, subject.y))


def _of_kernel(subject: Subject) -> Iterator[Plan]:
    machine, rows = subject.machine, subject.rows
    if subject.task == "density" or rows is None or _num_samples(rows) < 3:
        return
    if subject.pairwise and rows.shape[0] != rows.shape[1]:
        return  # k(new, train) does not compare new rows with each other
    caption = "Eigenvalues of K/n: how many directions of feature space the data use."
    draw = partial(plots.SpectrumDisplay.from_estimator, machine, rows)
    yield Plan(KERNEL, "Spectrum of the kernel", caption, draw)
    y = subject.y if subject.task in ("classification", "projection", "map") else None
    y = None if y is None or len(np.unique(np.asarray(y))) > 30 else y
    by = "cluster" if y is None else "class"
    caption = (
        f"Similarities between rows, ordered by {by}. Bright blocks are groups of rows that are similar to each other."
    )
    yield Plan(KERNEL, "Gram matrix", caption, partial(plots.GramMatrixDisplay.from_estimator, machine, rows, y))


OF_TASK: dict[str, Callable[[Subject, Evaluation | None], Iterator[Plan]]] = {
    "classification": _of_classifier,
    "regression": _of_regressor,
    "novelty": _of_novelty,
    "density": _of_density,
    "projection": _of_projection,
}
"""Pictures for each kind of model, beside those of its search and its kernel."""


# ---- figures as inline SVG: text stays text, colours follow the page, and nothing points outside ----------------


def inline(figure: Any, prefix: str, alt: str) -> str:
    """Return a figure as an SVG element."""
    width, height = figure.get_size_inches()
    figure.set_size_inches(WIDTH, height * max(WIDTH / width, 0.85))
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    # Safe to parse: matplotlib has just written it.
    source = ET.fromstring(buffer.getvalue())
    for element in source.iter():
        for child in list(element):
            if child.tag.rpartition("}")[2] in ("metadata", "style"):
                element.remove(child)
        element.tag = element.tag.rpartition("}")[2]
        element.attrib = {name.rpartition("}")[2]: _own(name, text, prefix) for name, text in element.attrib.items()}
    box = source.attrib["viewBox"]
    width = round(ZOOM * float(box.split()[2]))  # points as pixels
    source.attrib = {"aria-label": alt, "role": "img", "viewBox": box, "style": f"max-width:{width}px"}
    return ET.tostring(source, encoding="unicode", short_empty_elements=False)


def _own(name: str, text: str, prefix: str) -> str:
    """An attribute with ids made unique on the page and colours replaced by the page's."""
    name = name.rpartition("}")[2]
    if name == "id":
        return prefix + text
    if name == "href" and text.startswith("#"):
        return f"#{prefix}{text[1:]}"
    text = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}\1)", text)
    if name in ("style", "fill", "stroke", "stop-color"):
        text = re.sub(r"#[0-9a-f]{6}", lambda found: VARIABLES.get(found[0], found[0]), text)
    return text
