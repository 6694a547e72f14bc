"""The frontier of accuracy and cost: exact, Nyström and Fourier fits by score, seconds and bytes."""

from __future__ import annotations

import time
import tracemalloc
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split

from gramian.features.fourier import FourierFeatures
from gramian.features.nystrom import Nystroem
from gramian.plots.style import MUTED, Display, ink, log_axis, look, plain

METHODS = {"Nyström": Nystroem, "Fourier": FourierFeatures}
KINDS = {"time": "seconds to fit", "memory": "peak memory of the fit, MB"}


@dataclass(frozen=True)
class Run:
    """One fit and its cost.

    Parameters
    ----------
    method : str
        ``"exact"``, ``"Nyström"``, ``"Fourier"``, or any other name.
    size : int
        Components of the map; zero if there is none.
    score : float
        Score on rows that were held out.
    seconds : float
        Duration of the fit.
    memory : float
        Bytes allocated at the peak of the fit; nan if they were not counted.

    Examples
    --------
    >>> from gramian.plots import Run
    >>> Run("exact", 0, score=0.97, seconds=3.0, memory=2e8).method
    'exact'
    """

    method: str
    size: int
    score: float
    seconds: float
    memory: float = float("nan")


@dataclass(eq=False, repr=False)
class FrontierDisplay(Display):
    """Score against time or memory, with the frontier: the fits that no other beats in both.

    Parameters
    ----------
    runs : sequence of Run
        The fits.
    score_name : str, default="score"
        What the score is.

    Attributes
    ----------
    {figure}
    series_ : dict
        The points of each method.
    frontier_ : line
        The frontier.

    Examples
    --------
    >>> from gramian.plots import FrontierDisplay, Run
    >>> runs = [Run("exact", 0, 0.95, 9.0, 8e8), Run("Nyström", 50, 0.9, 0.2, 1e7), Run("Nyström", 9, 0.6, 0.3, 9e6)]
    >>> [run.score for run in FrontierDisplay(runs).best("time")]
    [0.9, 0.95]
    """

    runs: Sequence[Run]
    score_name: str = "score"

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sizes: Iterable[int] = (10, 30, 100, 300),
        methods: Iterable[str] = ("Nyström", "Fourier"),
        test_size: float = 0.25,
        random_state: int = 0,
        ax: Any = None,
    ) -> Self:
        """Fit an estimator exactly and with maps of several sizes, twice each: once with memory counted, once timed.

        Parameters
        ----------
        estimator : estimator
            With a parameter ``approximation``; it is cloned, and the clone is fitted.
        X : array-like of shape (n, d)
            Rows.
        y : array-like of shape (n,)
            Targets.
        sizes : iterable of int, default=(10, 30, 100, 300)
            Components of the maps; those above the number of training rows are left out.
        methods : iterable of str, default=("Nyström", "Fourier")
            Which maps.
        test_size : float, default=0.25
            Share of rows that are held out for the score.
        random_state : int, default=0
            Seed of the split and of the maps.
        {ax}
        """
        if "approximation" not in estimator.get_params(deep=False):
            raise TypeError(f"{type(estimator).__name__} takes no approximation=, so there is no frontier to draw.")
        if strange := sorted(set(methods) - set(METHODS)):
            raise ValueError(f"methods must be among {tuple(METHODS)}, got {strange}.")
        strata = y if is_classifier(estimator) else None
        data = train_test_split(X, y, test_size=test_size, random_state=random_state, stratify=strata)
        sizes = [int(m) for m in sizes if m <= len(data[2])]
        runs = [_run("exact", 0, clone(estimator).set_params(approximation=None), data)]
        for method in methods:
            for size in sizes:
                features = METHODS[method](n_components=size, random_state=random_state)
                runs.append(_run(method, size, clone(estimator).set_params(approximation=features), data))
        return cls(runs, "accuracy" if is_classifier(estimator) else "R²")._drawn(ax)

    def best(self, kind: str) -> list[Run]:
        """Return the fits that no other beats in score and "time" or "memory", the cheapest first: kind → list."""
        found: list[Run] = []
        for run in sorted(self.runs, key=lambda run: (_cost(run, kind), -run.score)):
            if not found or run.score > found[-1].score:
                found.append(run)
        return found

    def plot(self, ax: Any = None, *, kind: str = "time") -> Self:
        """Draw score against cost.

        Parameters
        ----------
        {where}
        kind : {"time", "memory"}, default="time"
            Which cost.

        {itself}
        """
        if kind not in KINDS:
            raise ValueError(f"kind must be one of {tuple(KINDS)}, got {kind!r}.")
        self._begin(ax)
        behind: dict[str, Any] = {"color": MUTED, "lw": 5, "alpha": 0.35, "solid_capstyle": "round"}
        self.frontier_ = self._line(*_places(self.best(kind), kind), ds="steps-post", label="frontier", **behind)
        self.series_ = {}
        for i, method in enumerate(dict.fromkeys(run.method for run in self.runs)):
            of = sorted((run for run in self.runs if run.method == method), key=lambda run: run.size)
            style = look(i) | ({"color": ink(), "marker": "*", "ms": 13} if method == "exact" else {"ms": 6})
            self.series_[method] = self._line(*_places(of, kind), lw=1.0, label=plain(method), **style)
            for run in of:
                if run.size:
                    self._note(f"{run.size}", (_cost(run, kind), run.score), (5, -10), fontsize="x-small")
        log_axis(self.ax_, "x")
        self.ax_.margins(x=0.12, y=0.08)
        self._finish(KINDS[kind], f"{self.score_name} on rows held out", legend="lower right")
        return self


def _cost(run: Run, kind: str) -> float:
    return run.seconds if kind == "time" else run.memory / 1e6


def _places(runs: Sequence[Run], kind: str) -> tuple[list[float], list[float]]:
    return [_cost(run, kind) for run in runs], [run.score for run in runs]


def _run(method: str, size: int, estimator: Any, data: Sequence[Any]) -> Run:
    X, X_test, y, y_test = data
    # A fit that stops early has a worse score, which the picture shows.
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        # Memory first, so that compilation and imports are not timed.
        peak = _peak(clone(estimator), X, y)
        start = time.perf_counter()
        fitted = clone(estimator).fit(X, y)
        seconds = time.perf_counter() - start
    return Run(method, size, float(fitted.score(X_test, y_test)), seconds, peak)


def _peak(estimator: Any, X: Any, y: Any) -> float:
    """Peak bytes of Python and NumPy during a fit; nan if tracemalloc is already in use."""
    if tracemalloc.is_tracing():
        return float("nan")
    tracemalloc.start()
    try:
        estimator.fit(X, y)
        return float(np.asarray(tracemalloc.get_traced_memory()[1]))
    finally:
        tracemalloc.stop()
