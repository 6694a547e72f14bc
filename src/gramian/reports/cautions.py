"""Warnings about a fitted model, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import eigvalsh
from scipy.stats import spearmanr

from gramian.gram import Gram
from gramian.inspection.fitted import sampled, training_rows
from gramian.kernels.resolve import is_precomputed
from gramian.numerals import written
from gramian.reports.facts import MEASURES, Score, baseline_of, by_parts, measured
from gramian.reports.held_out import Evaluation
from gramian.reports.subject import Subject
from gramian.resources import spans

ROWS = 400
"""Rows used at most to measure condition numbers and similarities."""
ILL = 1e12
"""Condition number above which a solution loses digits that matter."""
NEW_ROWS = 2000
"""New rows compared with the training rows at most."""
CORRELATED, SIGNIFICANT = 0.3, 1e-4
"""Least rank correlation between error size and prediction for a warning, and its largest p-value."""
LEAST_ROWS = 40
"""Least number of rows for that warning."""
UNBALANCED = 10
"""Ratio of the largest to the smallest class above which accuracy says little."""
EDGE = 0.01
"""A logarithm within this share of its range from an end counts as being there."""
BROKEN = 3.0
"""Scores on new rows may be worse than in the search by this many standard errors."""
FAR = 0.1
"""A row is far from the training data if its largest similarity is below this share of the usual one."""


def cautions(subject: Subject, found: Evaluation | None, score: Score | None) -> list[str]:
    """Return what users should know before they use the model."""
    own = (_edges, _condition, _balance, _far)
    judged = (_score(found, score), _search(subject, found), _residuals(subject, found))
    checks = (_certificate(subject), *judged, *(check(subject) for check in own))
    return list(dict.fromkeys(text for check in checks for text in check))


def _certificate(subject: Subject) -> Iterator[str]:
    certificate = subject.certificate
    if certificate is not None and not certificate.converged:
        yield f"The fit did not reach its tolerance: {certificate}."
    elif certificate is not None and certificate.kind == "stationary":
        yield "The kernel is not positive semi-definite on these data, so the fit may not be an optimum."


def _score(found: Evaluation | None, score: Score | None) -> Iterator[str]:
    if score is not None and not score.beats_baseline:
        beside = f"{written(score.value, score.spread)} against {written(score.baseline)} of “{score.baseline_name}”"
        yield f"The model does not clearly beat the baseline: {score.name} {beside}."
    if found is not None and not found.honest and score is not None and score.how == found.how:
        yield "The score was measured on rows that the model may have learned from, so it is too optimistic."


def _search(subject: Subject, found: Evaluation | None) -> Iterator[str]:
    """Whether time was short, whether new rows score worse than in the search, and whether a baseline did as well."""
    if not subject.automatic:
        return
    best, board = subject.model.best_trial_, subject.model.leaderboard_
    metric = board.metric
    base = baseline_of(subject.model)
    if any(f"time_limit {did}" in subject.model.refit_ for did in ("ended", "stopped", "left")):
        yield "The time limit cut the search or the last fit short, as said below; more time may give a better model."
    new = found if subject.seen is False and metric in MEASURES else None
    if new is not None and np.isfinite(now := measured(new, metric)):
        worse = best.score - now if board.greater_is_better else now - best.score
        if worse > BROKEN * np.hypot(best.spread, _chance(new, metric, now)):
            beside = f"{board.metric_name} {written(now)} against {written(best.score, best.spread)}"
            told = f"Scores on new rows are worse than in the search: {beside}."
            yield f"{told} The new rows may differ from the training rows."
    if base is not None and board.gain(base, best) >= 0.0:
        beside = f"{written(base.score, base.spread)} against {written(best.score, best.spread)}"
        yield f"In the search the baseline “{base.name}” did as well: {beside}."


def _chance(found: Evaluation, metric: str, now: float) -> float:
    """Standard error of a score on so many rows."""
    n = len(found.truth)
    if metric == "error":
        return float(np.sqrt(now * (1.0 - now) / n))
    if metric in ("rmse", "mae"):
        return now / float(np.sqrt(2.0 * n))
    return float(np.nanstd(by_parts(found, metric)) / np.sqrt(len(found.parts)))


def _residuals(subject: Subject, found: Evaluation | None) -> Iterator[str]:
    """Whether errors grow or shrink along the predictions, on the scale that was learned."""
    if found is None or found.classes.size or found.truth.ndim > 1 or len(found.truth) < LEAST_ROWS:
        return
    if getattr(subject.model, "target_scale_", "linear") == "log":
        return  # intervals then grow with the prediction
    error = np.abs(found.truth - found.predicted)
    if np.ptp(found.predicted) == 0.0 or np.ptp(error) == 0.0:
        return
    rank = spearmanr(found.predicted, error)
    if abs(rank.statistic) > CORRELATED and rank.pvalue < SIGNIFICANT:
        small, *_, large = (error[part].mean() for part in np.array_split(np.argsort(found.predicted), 3))
        yield (
            f"Errors depend on the prediction: {written(small)} on average in the lowest third of the predictions and "
            f"{written(large)} in the highest. Intervals of one width do not fit all rows; try a log scale."
        )


def _edges(subject: Subject) -> Iterator[str]:
    """Settings at the end of the range that was tried."""
    machine = subject.machine
    for name in ("alpha", "lam"):
        tried = getattr(machine, f"{name}s_", ())
        ends = len(tried) > 1 and np.any(np.isin(getattr(machine, f"{name}_"), [min(tried), max(tried)]))
        if ends and not subject.automatic:  # a search chooses the range itself
            yield f"{name} is at the edge of the {len(tried)} values tried; widen {name}s."
    yield from _kernel_edges(machine)
    if hasattr(subject.model, "cv_results_"):
        yield from _search_edges(subject.model.cv_results_["params"], subject.model.best_params_)


def _kernel_edges(machine: Any) -> Iterator[str]:
    kernels = getattr(machine, "kernel_", None)
    if kernels is None or getattr(machine, "optimizer", None) is None:
        return
    for kernel in kernels if isinstance(kernels, tuple | list) else (kernels,):
        theta, bounds = np.asarray(kernel.theta), np.asarray(kernel.bounds).reshape(-1, 2)
        for name, value, (low, high) in zip(kernel.theta_names, theta, bounds, strict=True):
            if min(value - low, high - value) <= EDGE * (high - low):
                side = "lower" if value - low < high - value else "upper"
                yield f"The learned {name} = {np.exp(value):.3g} is at the {side} end of its range."


def _search_edges(tried: list[Any], best: Any) -> Iterator[str]:
    for name, value in best.items():
        given = [settings[name] for settings in tried if name in settings]
        numbers = sorted({v for v in given if isinstance(v, int | float) and not isinstance(v, bool)})
        if len(numbers) > 2 and value in (numbers[0], numbers[-1]):
            yield f"{name} = {value:g} is at the edge of the {len(numbers)} values tried; widen its range."


def _sample(subject: Subject) -> tuple[Any, Any] | None:
    """The kernel and some training rows; None if one of them is missing."""
    rows, kernel = training_rows(subject.machine), subject.kernel
    if rows is None or kernel is None or is_precomputed(kernel):
        return None
    rows = rows.tocsr() if hasattr(rows, "tocsr") else np.asarray(rows)
    return kernel, rows[sampled(rows.shape[0], ROWS)]


def _condition(subject: Subject) -> Iterator[str]:
    """Condition of the matrix of a least-squares fit; other fits do not solve with K."""
    kept = _sample(subject)
    machine = subject.machine
    if kept is None or not (hasattr(machine, "alpha") and subject.task == "regression"):
        return
    kernel, rows = kept
    K = np.asarray(Gram(kernel, rows).dense(), dtype=np.float64)
    # In a Gaussian process alpha_ holds coefficients; its ridge is the parameter alpha.
    ridge = machine.alpha if hasattr(machine, "posterior_") else getattr(machine, "alpha_", machine.alpha)
    ridge = float(np.min(ridge)) if not isinstance(ridge, str) else 0.0
    values = eigvalsh(K)
    least = max(float(values[0]) + ridge, np.finfo(float).eps * float(values[-1]))
    condition = (float(values[-1]) + ridge) / least
    if condition > ILL:
        yield (
            f"The Gram matrix is ill-conditioned: about {condition:.0e} on {len(K)} of the rows, so up to "
            f"{np.log10(condition):.0f} of 16 digits can be lost. Regularise more, or remove rows that repeat."
        )


def _balance(subject: Subject) -> Iterator[str]:
    if subject.task != "classification" or subject.y is None:
        return
    names, counts = np.unique(np.asarray(subject.y), return_counts=True)
    if counts.max() >= UNBALANCED * counts.min():
        small, large = names[counts.argmin()], names[counts.argmax()]
        unset = subject.model.get_params(deep=False).get("class_weight", "") is None
        advice = ", and try class_weight='balanced'" if unset else ""
        yield (
            f"Classes are unbalanced: “{large}” has {counts.max():,} rows and “{small}” {counts.min():,}. Accuracy "
            f"says little about the small one; look at the confusion matrix{advice}."
        )


def _far(subject: Subject) -> Iterator[str]:
    """New rows that are similar to no training row, or far outside the range of an input."""
    kept = _sample(subject)
    if kept is None or subject.X is None or subject.numbers is None or subject.seen or hasattr(kept[1], "tocsr"):
        return
    kernel, rows = kept
    new, every = subject.numbers[sampled(len(subject.numbers), NEW_ROWS)], np.asarray(training_rows(subject.machine))
    own = _similarity(kernel, rows, rows)
    np.fill_diagonal(own, -np.inf)
    least = FAR * np.median(own.max(axis=1))
    alone = np.ones(len(new), dtype=bool)
    for some in spans(len(every), ROWS):
        alone &= _similarity(kernel, new, every[some]).max(axis=1) < least
    low, high = every.min(axis=0), every.max(axis=0)
    varies = high > low
    beyond = np.any(((new < 2 * low - high) | (new > 2 * high - low)) & varies, axis=1)
    far = int(np.count_nonzero(alone | beyond))
    if far:
        drawn = "" if len(new) == len(subject.numbers) else f" drawn from {len(subject.numbers):,}"
        yield (
            f"{far:,} of {len(new):,} rows{drawn} ({far / len(new):.0%}) are far from the training data: no training "
            "row is similar, or an input is far outside its range. Predictions there are guesses."
        )


def _similarity(kernel: Any, A: Any, B: Any) -> Any:
    """k(a, b) / √(k(a, a) k(b, b))."""
    K = np.asarray(Gram(kernel, A, B).dense(), dtype=np.float64)
    size = np.sqrt(np.outer(kernel.diag(A), kernel.diag(B)))
    return np.divide(K, size, out=np.zeros_like(K), where=size > 0)
