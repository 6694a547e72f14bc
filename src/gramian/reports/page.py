"""``report``: the HTML page, made from its template."""

from __future__ import annotations

import math
import os
import platform
import time
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

from gramian import __version__
from gramian.plots.fitted import sampled, unnamed
from gramian.plots.style import pyplot
from gramian.reports.board import board_of
from gramian.reports.cautions import cautions
from gramian.reports.evaluation import Evaluation, evaluate
from gramian.reports.facts import (
    Score,
    bytes_held,
    certificate_of,
    question,
    score_of,
    seconds_of,
    settings_of,
    verified_of,
)
from gramian.reports.pictures import pictures
from gramian.reports.subject import Subject, subject_of
from gramian.resources import readable
from gramian.verification import agree

__all__ = ["report"]

LIGHT = {
    "ink": "#1b1d21",
    "soft": "#5c6370",
    "page": "#f5f6f8",
    "card": "#ffffff",
    "line": "#dfe2e8",
    "accent": "#0072b2",
    "good": "#00734f",
    "bad": "#a33b00",
    "warn": "#fff4e5",
    "c": ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a5195", "#8c8c8c"),
}
DARK = {
    "ink": "#e8eaee",
    "soft": "#a3abb8",
    "page": "#14161a",
    "card": "#1c1f25",
    "line": "#343943",
    "accent": "#5fb7ea",
    "good": "#4fd3a4",
    "bad": "#ff9d5c",
    "warn": "#33271a",
    "c": ("#4aa8e0", "#f58233", "#2fc79a", "#e59ac4", "#7cc8f2", "#f2b233", "#b48ad0", "#9a9a9a"),
}


def report(
    model: Any,
    X: Any = None,
    y: Any = None,
    path: str | os.PathLike[str] = "report.html",
    *,
    title: str | None = None,
    source: str | None = None,
    folder: str | os.PathLike[str] = "model",
) -> Path:
    """Write a page about a fitted model that can be sent on: one HTML file, without a link to anything outside.

    With data, the page says how good the model is. Rows that are new to it are predicted by it; where it learned from
    them, or that cannot be known, clones of it are fitted to parts of at most 1,000 rows and predict the rest.

    Parameters
    ----------
    model : estimator
        Fitted: any estimator of this library, a pipeline that ends in one, or a search over either.
    X : array-like of shape (n, d) or None, default=None
        Rows to show it on; without them the page shows what the fit keeps.
    y : array-like of shape (n,) or None, default=None
        Their targets.
    path : str or path, default="report.html"
        Where to write the page.
    title : str or None, default=None
        Its heading; by default the model's name.
    source : str or None, default=None
        Where the data come from, as the page shall say it.
    folder : str or path, default="model"
        Where the model is saved, for the lines that tell how to load it.

    Returns
    -------
    pathlib.Path
        Where the page is.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import gramian
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = gramian.report(gramian.SVC().fit(X, y), X, y, Path(folder) / "iris.html")
    ...     written.read_text()[:15]
    '<!doctype html>'
    """
    try:
        from jinja2 import Environment
    except ImportError as error:
        raise ImportError('a report needs jinja2 and matplotlib: pip install "gramian[report]"') from error
    written = Path(path)
    if not written.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {written.parent}; create it first.")
    subject = subject_of(model, X, y)
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_part("page.html"))
    with pyplot().ioff():
        page = template.render(**_content(subject, title, source, str(folder)))
    written.write_text(page, encoding="utf-8")
    return written


def _part(name: str) -> str:
    return resources.files("gramian.reports").joinpath(name).read_text(encoding="utf-8")


def _content(subject: Subject, title: str | None, source: str | None, folder: str) -> dict[str, Any]:
    """Everything the template asks for."""
    found = evaluate(subject)
    score = score_of(subject, found)
    board = board_of(subject.model)
    shown = pictures(subject, found, board)
    certificate, verified = certificate_of(subject), verified_of(subject)
    return {
        "title": title or type(subject.model if board is not None else subject.machine).__name__,
        "question": question(subject),
        "machine": type(subject.machine).__name__,
        "settings": settings_of(subject),
        "score": score,
        "cards": _cards(subject, found, score),
        "certificate": None if certificate is None else str(certificate),
        "converged": certificate is None or certificate.converged,
        "verified": None if verified is None else str(verified),
        "confirmed": verified is None or agree(certificate, verified, getattr(subject.machine, "tol", None)),
        "cautions": cautions(subject, found, score),
        "pictures": [p for p in shown if p.svg],
        "left_out": [p for p in shown if not p.svg],
        "board": board,
        "data": _data(subject),
        "source": source,
        "folder": folder,
        "method": "transform" if subject.task in ("projection", "map") else "predict",
        "version": __version__,
        "versions": f"Python {platform.python_version()}, NumPy {np.__version__}, scikit-learn {sklearn.__version__}",
        "date": _today(),
        "light": LIGHT,
        "dark": DARK,
        "css": _part("page.css"),
        "js": _part("page.js"),
    }


def _cards(subject: Subject, found: Evaluation | None, score: Score | None) -> list[tuple[str, str, str]]:
    """Name, number and explanation of each fact of the first screen, the score apart."""
    cards = []
    if score is not None and not math.isnan(score.baseline):
        cards.append(("Baseline", f"{score.baseline:.3g}", score.baseline_name))
    seconds = seconds_of(subject)
    if seconds is not None:
        searched = subject.automatic
        cards.append(
            ("Search" if searched else "Fit", _time(seconds), "all trials together" if searched else "to solve")
        )
    pace = found.seconds_per_row if found is not None else _pace(subject)
    if pace is not None:
        cards.append(("Predict", _time(pace), "per row"))
    held = bytes_held(subject.model)
    budget = getattr(subject.machine, "memory", None)
    n = subject.n_train
    matrix = f"K would take {readable(8 * n * n)}" if n else "held by the model"
    cards.append(("Memory", held, f"a fit may take {_size(budget)}" if budget is not None else matrix))
    return cards


def _pace(subject: Subject) -> float | None:
    """Seconds per row of a prediction, where there is a table to predict."""
    if subject.X is None or subject.numbers is None:
        return None
    rows = subject.numbers[sampled(len(subject.numbers), 500)]
    act = getattr(subject.machine, "predict", None) or getattr(subject.machine, "transform", None)
    if act is None:
        return None
    start = time.perf_counter()
    with unnamed():
        act(rows)
    return (time.perf_counter() - start) / len(rows)


def _time(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def _size(budget: Any) -> str:
    return budget if isinstance(budget, str) else readable(budget)


def _data(subject: Subject) -> list[tuple[str, str]]:
    """Name and range of each input, where there is a table; how it was read, where that was decided."""
    if subject.automatic:
        return [(str(column.name), str(column)) for column in subject.model.columns_.columns]
    table = subject.numbers
    if table is None or subject.X is None:
        return []
    low, high = table.min(axis=0), table.max(axis=0)
    return [(name, f"{a:.4g} … {b:.4g}") for name, a, b in zip(subject.names[:60], low, high, strict=False)]


def _today() -> str:
    """The day, or that of SOURCE_DATE_EPOCH where a build has to be repeatable."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    moment = datetime.now(UTC) if epoch is None else datetime.fromtimestamp(int(epoch), UTC)
    return moment.date().isoformat()
