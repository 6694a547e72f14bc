"""Cautions about a fitted model, in words."""

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
from gramian.reports.evaluation import Evaluation
from gramian.reports.facts import MEASURES, Score, baseline_of, by_parts, measured
from gramian.reports.subject import Subject
from gramian.resources import spans

ROWS = 400
"""Rows that conditions and similarities are measured on at most."""
ILL = 1e12
"""Condition number from which a solution loses digits that matter."""
NEW_ROWS = 2000
"""New rows that are compared with those of the fit, at most."""
RELATED, SURE = 0.3, 1e-4
"""Rank correlation of the size of errors with predictions, and its p-value, from which it is told."""
TELLING = 40
"""Rows that it takes to tell."""
UNBALANCED = 10
"""Times that the largest class is larger than the smallest, from which on accuracy says little."""
EDGE = 0.01
"""How near to an end of its range a logarithm counts as being there, relative to the range."""
BROKEN = 3.0
"""Standard errors by which new rows may be predicted worse than promised."""
FAR = 0.1
"""A row is far from the training data where its closest similarity is below this share of what is usual."""


def cautions(subject: Subject, found: Evaluation | None, score: Score | None) -> list[str]:
    """Return what should be known before the model is used."""
    own = (_edges, _condition, _balance, _far)
    judged = (_score(found, score), _search(subject, found), _residuals(subject, found))
    checks = (_certificate(subject), *judged, *(check(subject) for check in own))
    return list(dict.fromkeys(text for check in checks for text in check))


def _certificate(subject: Subject) -> Iterator[str]:
    certificate = subject.certificate
    if certificate is not None and not certificate.converged:
        yield f"The fit stopped short of its tolerance: {certificate}."
    elif certificate is not None and certificate.kind == "stationary":
        yield "The kernel is not positive semi-definite on these data, so the fit may not be an optimum."


def _score(found: Evaluation | None, score: Score | None) -> Iterator[str]:
    if score is not None and not score.beats_baseline:
        beside = f"{written(score.value, score.spread)} against {written(score.baseline)} of “{score.baseline_name}”"
        yield f"The model does not clearly beat the baseline: {score.name} {beside}."
    if found is not None and not found.honest and score is not None and score.how == found.how:
        yield "The score is of rows that the model may have learned from, so it flatters the model."


def _search(subject: Subject, found: Evaluation | None) -> Iterator[str]:
    """Whether a search keeps its promise on new rows, and whether it found anything that a baseline did not have."""
    if not subject.automatic:
        return
    best, board = subject.model.best_trial_, subject.model.leaderboard_
    metric = board.metric
    base = baseline_of(subject.model)
    if found is not None and found.honest and metric in MEASURES and np.isfinite(now := measured(found, metric)):
        worse = now - best.score if MEASURES[metric].less else best.score - now
        if worse > BROKEN * np.hypot(best.spread, _chance(found, metric, now)):
            beside = f"{MEASURES[metric].name} {written(now)} against {written(best.score, best.spread)}"
            told = f"New rows are predicted worse than the search promised: {beside}."
            yield f"{told} They may differ from those of the fit."
    if base is not None and board.gain(base, best) >= 0.0:
        beside = f"{written(base.score, base.spread)} against {written(best.score, best.spread)}"
        yield f"In the search the baseline “{base.name}” did as well: {beside}."


def _chance(found: Evaluation, metric: str, now: float) -> float:
    """What chance does to a score on so many rows."""
    n = len(found.truth)
    if metric == "error":
        return float(np.sqrt(now * (1.0 - now) / n))
    if metric in ("rmse", "mae"):
        return now / float(np.sqrt(2.0 * n))
    return float(np.nanstd(by_parts(found, metric)) / np.sqrt(len(found.parts)))


def _residuals(subject: Subject, found: Evaluation | None) -> Iterator[str]:
    """Whether errors grow or shrink along the predictions, on the scale that was learned."""
    if found is None or found.classes.size or found.truth.ndim > 1 or len(found.truth) < TELLING:
        return
    if getattr(subject.model, "target_scale_", "linear") == "log":
        return  # intervals then grow with the prediction
    error = np.abs(found.truth - found.predicted)
    if np.ptp(found.predicted) == 0.0 or np.ptp(error) == 0.0:
        return
    rank = spearmanr(found.predicted, error)
    if abs(rank.statistic) > RELATED and rank.pvalue < SURE:
        small, *_, large = (error[part].mean() for part in np.array_split(np.argsort(found.predicted), 3))
        yield (
            f"Errors depend on the prediction: {written(small)} on average in the lowest third of the predictions and "
            f"{written(large)} in the highest. One interval does not fit all; the target may want another scale."
        )


def _edges(subject: Subject) -> Iterator[str]:
    """Settings at the end of the range that they were chosen from."""
    machine = subject.machine
    for name in ("alpha", "lam"):
        tried = getattr(machine, f"{name}s_", ())
        ends = len(tried) > 1 and np.any(np.isin(getattr(machine, f"{name}_"), [min(tried), max(tried)]))
        if ends and not subject.automatic:  # a search sets the range itself
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
    """The kernel and some training rows, where there are both."""
    rows, kernel = training_rows(subject.machine), subject.kernel
    if rows is None or kernel is None or is_precomputed(kernel):
        return None
    rows = rows.tocsr() if hasattr(rows, "tocsr") else np.asarray(rows)
    return kernel, rows[sampled(rows.shape[0], ROWS)]


def _condition(subject: Subject) -> Iterator[str]:
    """Of the matrix that a least-squares fit solves; the other fits do not solve with K."""
    kept = _sample(subject)
    machine = subject.machine
    if kept is None or not (hasattr(machine, "alpha") and subject.task == "regression"):
        return
    kernel, rows = kept
    K = np.asarray(Gram(kernel, rows).dense(), dtype=np.float64)
    # GPs keep their coefficients as alpha_, so the ridge of theirs is the parameter.
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
        advice = ", and try class_weight='balanced'" if "class_weight" in subject.model.get_params(deep=False) else ""
        yield (
            f"Classes are unbalanced: “{large}” has {counts.max():,} rows and “{small}” {counts.min():,}. Accuracy "
            f"says little about the small one; look at the confusion matrix{advice}."
        )


def _far(subject: Subject) -> Iterator[str]:
    """Rows that no training row is similar to, or that lie well outside the range of the training rows."""
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
            f"{far:,} of {len(new):,} rows{drawn} ({far / len(new):.0%}) are far from the training data: none of it is "
            "similar to them, or an input is beyond its range by more than its width. Predictions there are guesses."
        )


def _similarity(kernel: Any, A: Any, B: Any) -> Any:
    """k(a, b) / √(k(a, a) k(b, b))."""
    K = np.asarray(Gram(kernel, A, B).dense(), dtype=np.float64)
    size = np.sqrt(np.outer(kernel.diag(A), kernel.diag(B)))
    return np.divide(K, size, out=np.zeros_like(K), where=size > 0)
