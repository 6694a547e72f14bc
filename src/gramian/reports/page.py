"""``report``: the HTML page, rendered from its template."""

from __future__ import annotations

import math
import os
import platform
import time
from dataclasses import replace
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import sklearn
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples

from gramian import __version__
from gramian.estimators.auto.explain import explained
from gramian.inspection.fitted import sampled, unnamed
from gramian.numerals import written
from gramian.plots.style import pyplot
from gramian.reports.board import board_of
from gramian.reports.cautions import cautions
from gramian.reports.facts import Score, baseline_of, bytes_held, question, score_of, seconds_of, settings_of
from gramian.reports.held_out import evaluate, importance
from gramian.reports.pictures import INPUTS, KERNEL, QUALITY, SEARCH, pictures
from gramian.reports.subject import Subject, subject_of
from gramian.reports.worst import worst_rows
from gramian.resources import readable
from gramian.verification import agree

SECTIONS = {
    QUALITY: "How good it is",
    INPUTS: "Which inputs matter",
    SEARCH: "The search",
    KERNEL: "The kernel",
}
"""Sections of pictures and their headings, in the order of the page."""


def report(
    model: Any,
    X: Any = None,
    y: Any = None,
    path: str | os.PathLike[str] = "report.html",
    *,
    title: str | None = None,
    source: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    target: str | None = None,
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
    folder : str, path or None, default=None
        Where the model is saved, for the lines that tell how to load it; ``None`` if it is not saved yet.
    target : str or None, default=None
        What y is called; by default its name, where it has one.

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
        raise ImportError('a report needs jinja2 and matplotlib: pip install ".[report]" in the clone') from error
    file = Path(path)
    if not file.parent.is_dir():
        raise FileNotFoundError(f"{path}: there is no folder {file.parent}; create it first.")
    if file.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file, such as {file / 'report.html'}.")
    subject = replace(subject_of(model, X, y), target=target or getattr(y, "name", None))
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["written"] = lambda value, spread=math.nan: written(value, spread).replace("-", "−")
    content = {"source": source, "folder": folder and str(folder), "css": _part("page.css"), "js": _part("page.js")}
    with pyplot().ioff():
        page = environment.from_string(_part("page.html")).render(**content, **_content(subject, title))
    file.write_text(page, encoding="utf-8")
    return file


def _part(name: str) -> str:
    return resources.files("gramian.reports").joinpath(name).read_text(encoding="utf-8")


def _content(subject: Subject, title: str | None) -> dict[str, Any]:
    """Values for the template."""
    found = evaluate(subject)
    score = score_of(subject, found)
    board = board_of(subject.model)
    inputs = importance(subject, found)
    shown = pictures(subject, found, board, inputs)
    certificate, verified = subject.certificate, subject.verified
    return {
        "title": title or type(subject.model if board is not None else subject.machine).__name__,
        "question": question(subject),
        "machine": type(subject.machine).__name__,
        "settings": settings_of(subject),
        "score": score,
        "cards": _cards(subject, score),
        "certificate": None if certificate is None else str(certificate),
        "converged": certificate is None or certificate.converged,
        "verified": None if verified is None else str(verified),
        "confirmed": verified is None or agree(certificate, verified, getattr(subject.machine, "tol", None)),
        "cautions": cautions(subject, found, score),
        "words": explained(subject.model) if subject.automatic else [],
        "sections": [(head, [p for p in shown if p.svg and p.section == s]) for s, head in SECTIONS.items()],
        "left_out": [p for p in shown if not p.svg],
        "board": board,
        "worst": worst_rows(subject, found, inputs),
        "data": _data(subject),
        "method": "transform" if subject.task in ("projection", "map") else "predict",
        "version": __version__,
        "versions": f"Python {platform.python_version()}, NumPy {np.__version__}, scikit-learn {sklearn.__version__}",
        "date": _today(),
    }


def _cards(subject: Subject, score: Score | None) -> list[tuple[str, str, str]]:
    """Name, number and note of each card on the first screen, except the score."""
    cards = []
    if subject.automatic:
        cards += _promised(subject.model, score)
    elif score is not None and not math.isnan(score.baseline):
        cards.append(("Baseline", written(score.baseline), score.baseline_name))
    if (seconds := seconds_of(subject)) is not None:
        name, note = ("Search", "all trials") if subject.automatic else ("Fit", "to solve")
        cards.append((name, _time(seconds), note))
    if (pace := _pace(subject)) is not None:
        cards.append(("Predict", _time(pace), "per row"))
    n, budget = subject.n_train, getattr(subject.machine, "memory", None)
    note = f"K would take {readable(8 * n * n)}" if n else "held by the model"
    if budget is not None:
        note = f"a fit may use up to {budget if isinstance(budget, str) else readable(budget)}"
    return [*cards, ("Memory", bytes_held(subject.model), note)]


def _promised(model: Any, score: Score | None) -> list[tuple[str, str, str]]:
    """Cards for the score in the search, if it differs from the one shown, and for the best baseline."""
    best, base, name = model.best_trial_, baseline_of(model), model.leaderboard_.metric_name
    cards = []
    if score is None or score.value != best.score:
        cards.append(("In the search", written(best.score, best.spread), f"{name}, on {best.rows:,} rows"))
    if base is not None:
        cards.append((f"Baseline: {base.name}", written(base.score, base.spread), f"{name}, in the search"))
    return cards


def _pace(subject: Subject) -> float | None:
    """Seconds to predict a row; None without rows."""
    act = getattr(subject.model, "predict", None) or getattr(subject.model, "transform", None)
    if subject.X is None or act is None:
        return None
    some = sampled(_num_samples(subject.X), 500)
    rows = _safe_indexing(subject.X, some)
    start = time.perf_counter()
    with unnamed():
        act(rows)
    return (time.perf_counter() - start) / len(some)


def _time(seconds: float) -> str:
    unit, size = next(((u, s) for u, s in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)) if seconds >= s), ("ns", 1e-9))
    return f"{written(seconds / size)} {unit}"


def _data(subject: Subject) -> list[tuple[str, str]]:
    """Name and range of each input, or how an automatic model reads it."""
    if subject.automatic:
        return [(str(column.name), str(column)) for column in subject.model.columns_.columns]
    table = subject.numbers
    if table is None or subject.X is None:
        return []
    ends = zip(subject.names[:60], table.min(axis=0), table.max(axis=0), strict=False)
    return [(name, f"{written(low, digits=4)} … {written(high, digits=4)}") for name, low, high in ends]


def _today() -> str:
    """Today, or the day of SOURCE_DATE_EPOCH for reproducible builds."""
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
    return datetime.fromtimestamp(seconds, UTC).date().isoformat()
