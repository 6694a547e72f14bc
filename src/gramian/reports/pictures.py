"""Pictures that suit a model, each with a title, a caption and an alternative text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import _num_samples

import gramian.plots as plots
from gramian.plots.fitted import unnamed
from gramian.plots.style import axes, pyplot
from gramian.reports import drawings
from gramian.reports.board import Board
from gramian.reports.evaluation import Evaluation
from gramian.reports.subject import Subject
from gramian.reports.svg import SETTINGS, inline

__all__ = ["Picture", "pictures"]

LABELS = ("component 1", "component 2")


@dataclass(frozen=True)
class Picture:
    """One picture of the page."""

    title: str  # Above and below it
    caption: str  # Above and below it
    svg: str  # The picture; empty where it could not be drawn, and then the caption says why


@dataclass(frozen=True)
class _Plan:
    title: str
    draw: Callable[[], Any]
    caption: str


def pictures(subject: Subject, found: Evaluation | None, board: Board | None) -> list[Picture]:
    """Draw what there is to see."""
    made = []
    with pyplot().rc_context(SETTINGS):
        for number, plan in enumerate(_plans(subject, found, board)):
            before = set(pyplot().get_fignums())
            try:
                drawn = plan.draw()
                figure = getattr(drawn, "figure_", drawn)
                svg = inline(figure, f"p{number}-", f"{plan.title}. {plan.caption}")
                made.append(Picture(plan.title, plan.caption, svg))
            except (TypeError, ValueError, MemoryError) as refusal:
                made.append(Picture(plan.title, f"Left out: {refusal}", ""))
            finally:
                for opened in set(pyplot().get_fignums()) - before:
                    pyplot().close(opened)
    return made


def _plans(subject: Subject, found: Evaluation | None, board: Board | None) -> Iterator[_Plan]:
    if board is not None and board.scores:
        caption = (
            f"{board.metric}; {'less' if board.less_is_better else 'more'} is better. Lines are spreads over folds."
        )
        yield _Plan("The search", lambda: board.draw(), caption)
    yield from {
        "classification": _of_classifier,
        "regression": _of_regressor,
        "novelty": _of_novelty,
        "density": _of_density,
        "projection": _of_projection,
        "map": lambda *_: iter(()),
    }[subject.task](subject, found)
    yield from _of_settings(subject)
    yield from _of_kernel(subject)


def _of_classifier(subject: Subject, found: Evaluation | None) -> Iterator[_Plan]:
    yield from _boundary(subject)
    if found is not None:
        caption = f"Rows are the true class; {found.how}."
        classes = list(subject.model.classes_)
        yield _Plan(
            "Which classes are confused", lambda: drawings.confusion(found.truth, found.predicted, classes), caption
        )
    yield from _sensitivity(subject)


def _boundary(subject: Subject) -> Iterator[_Plan]:
    table = subject.numbers
    # Inside an automatic classifier, the machine may be a regression on codes.
    drawable = subject.task == "novelty" or is_classifier(subject.machine)
    if table is None or table.shape[1] < 2 or not drawable:
        return
    what = "kernel principal components" if subject.task == "classification" else "principal directions"
    where = "" if table.shape[1] == 2 else f" Shown on the plane of the first two {what}."
    lines = "The solid line is where the decision turns, the dashed ones are the margins."
    if subject.task == "novelty":
        lines = "Inside the line is what is usual."
    elif len(subject.model.classes_) > 2:
        lines = "Each region is what is predicted there."
    kinds = " Ringed objects lie on the margin, crossed ones violate it." if hasattr(subject.machine, "kinds_") else ""
    y = subject.targets if subject.task == "classification" else None

    def draw() -> Any:
        return plots.DecisionBoundaryDisplay.from_estimator(subject.machine, _named(subject), y).plot()

    yield _Plan("Decision boundary", draw, lines + kinds + where)


def _of_regressor(subject: Subject, found: Evaluation | None) -> Iterator[_Plan]:
    table = subject.numbers
    # Inside an automatic regressor, the machine has units of its own.
    process = hasattr(subject.machine, "posterior_") and not subject.automatic
    one = table is not None and table.shape[1] == 1 and not subject.automatic
    if process and table is not None and subject.machine.y_train_.ndim == 1:
        along = "" if one else " Along the input that matters most; the others are held at their medians."

        def draw() -> Any:
            matters = 0 if one else int(np.argmax(plots.SensitivityDisplay.from_estimator(subject.machine).importance))
            data = (_named(subject), subject.targets) if subject.X is not None else ()
            display = plots.GaussianProcessDisplay.from_estimator(subject.machine, *data, feature=matters)
            return display.plot(axes(size=(5.0, 3.6))[1])

        yield _Plan("The process", draw, "Mean, bands that hold 50% and 90%, and functions drawn from it." + along)
    elif one and table is not None:
        title, caption = "The fitted function", "What is predicted along the only input."
        yield _Plan(title, lambda: drawings.curve(subject.machine, table, subject.targets, subject.names[0]), caption)
    if found is not None:
        caption = f"On the diagonal, the prediction is right; {found.how}."
        yield _Plan(
            "Predicted against true",
            lambda: drawings.against_truth(found.truth, found.predicted, found.deviation),
            caption,
        )
        deviation = found.deviation
        if deviation is not None:
            caption = f"Below the diagonal the model is too sure; {found.how}."
            yield _Plan(
                "Do the intervals hold?",
                lambda: plots.CoverageDisplay.from_predictions(found.truth, found.predicted, deviation).plot(),
                caption,
            )
    yield from _sensitivity(subject)


def _sensitivity(subject: Subject) -> Iterator[_Plan]:
    table = subject.numbers
    if table is None or table.shape[1] < 2:
        return
    caption = (
        "How far the prediction moves with one deviation of the input, on average over rows; the line spans the middle "
        "half of the rows. It says what the model uses, not what causes what."
    )
    yield _Plan(
        "Which inputs matter",
        lambda: plots.SensitivityDisplay.from_estimator(subject.machine, _named(subject)).plot(),
        caption,
    )


def _of_novelty(subject: Subject, found: Evaluation | None) -> Iterator[_Plan]:
    yield from _boundary(subject)
    if subject.X is not None:
        values = np.asarray(subject.model.decision_function(subject.X), dtype=np.float64)
        caption = f"Decision values of {values.size:,} rows; those below zero are outside."
        yield _Plan(
            "Inside and outside",
            lambda: drawings.histogram(values, 0.0, "decision value", ("outside", "inside")),
            caption,
        )
    yield from _sensitivity(subject)


def _of_density(subject: Subject, found: Evaluation | None) -> Iterator[_Plan]:
    table = subject.numbers if subject.X is not None else None
    display = plots.MixtureDisplay.from_estimator(subject.machine, None if table is None else _named(subject))
    caption = "Shares of the components; the ellipses hold 50% and 90% of each."
    if display.means.shape[1] == 1:
        caption = "The mixture and its parts."
    yield _Plan("Components", display.plot, caption)
    if len(display.evidence) > 2:
        caption = "Log-likelihood per row and its bound, by iteration of EM; neither ever falls."
        yield _Plan("Evidence", lambda: display.plot(kind="evidence"), caption)


def _of_projection(subject: Subject, found: Evaluation | None) -> Iterator[_Plan]:
    if len(subject.machine.eigenvalues_) > 1 and subject.rows is not None:
        with unnamed():
            points = np.asarray(subject.machine.transform(subject.rows), dtype=np.float64)[:, :2]
        ratio = np.asarray(subject.machine.explained_variance_ratio_)[:2]
        caption = f"The first two explain {ratio[0]:.1%} and {ratio[1]:.1%} of the variance in feature space."
        yield _Plan("Rows on the main components", lambda: drawings.plane(points, subject.targets, LABELS), caption)


def _of_settings(subject: Subject) -> Iterator[_Plan]:
    for holder in (subject.model, subject.machine):
        if any(hasattr(holder, name) for name in ("cv_results_", "loo_path_", "cv_path_")):
            caption = "How the score depends on what was tried, and what was chosen."
            yield _Plan("How settings were chosen", partial(_tuning, holder), caption)
            return


def _tuning(holder: Any) -> Any:
    return plots.TuningDisplay.from_estimator(holder).plot()


def _of_kernel(subject: Subject) -> Iterator[_Plan]:
    if subject.task == "density" or subject.rows is None or _num_samples(subject.rows) < 3:
        return
    if subject.pairwise and subject.rows.shape[0] != subject.rows.shape[1]:
        return  # k(new, train) says nothing of new rows among themselves
    caption = "Eigenvalues of K/n: how many directions of feature space the data use."
    yield _Plan(
        "Spectrum of the kernel",
        lambda: plots.SpectrumDisplay.from_estimator(subject.machine, subject.rows).plot(),
        caption,
    )
    y = subject.targets if subject.task in ("classification", "projection", "map") else None
    y = None if y is None or len(np.unique(np.asarray(y))) > 30 else y
    by = "cluster" if y is None else "class"
    caption = f"Similarities between rows, ordered by {by}; bright blocks are what the kernel holds to be alike."
    yield _Plan(
        "Gram matrix", lambda: plots.GramMatrixDisplay.from_estimator(subject.machine, subject.rows, y).plot(), caption
    )


def _named(subject: Subject) -> Any:
    """The rows as the machine sees them, with the names of their columns."""
    return _Table(subject.numbers, subject.names)


class _Table:
    """An array whose columns have names, for estimators that were fitted without them."""

    def __init__(self, values: Any, columns: list[str]) -> None:
        self.values, self.columns = values, columns

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self.values, dtype=dtype)

    def __len__(self) -> int:
        return len(self.values)
