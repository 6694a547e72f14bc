"""Outputs to honest probabilities and intervals: a temperature and constants for classes, quantiles of residuals."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax

__all__ = ["calibration_error", "conformal_reach", "fit_softmax", "fit_temperature", "log_loss"]

Array = NDArray[np.float64]

RANGE = (1e-3, 1e3)
"""Where the inverse temperature is sought, in units of one over the deviation of the outputs."""
PRIOR = 1.0
"""Rows by which the fit is drawn to even odds: where no held-out row is wrong, sureness must still end somewhere."""
BINS = 15
SPREAD = 0.1
"""Deviation of the constants' prior. Held-out rows may come from a fit to fewer rows, which knows rare classes less."""
SLACK = 0.5
"""Errors more that constants may make, in deviations of their number."""


def fit_temperature(outputs: Array, codes: NDArray[np.intp]) -> float:
    """Return the factor that makes ``softmax(factor * outputs)`` most likely on held-out rows."""
    size = float(outputs.std()) or 1.0
    low, high = (math.log(bound / size) for bound in RANGE)
    found = minimize_scalar(lambda t: _penalised(math.exp(t) * outputs, codes), bounds=(low, high), method="bounded")
    return math.exp(float(found.x))


def fit_softmax(outputs: Array, codes: NDArray[np.intp]) -> tuple[float, Array]:
    """Return what makes ``softmax(factor * outputs + constants)`` most likely on held-out rows."""
    if codes.size > 1 and _constants_help(outputs, codes):
        return _with_constants(outputs, codes)
    return fit_temperature(outputs, codes), np.zeros(outputs.shape[1])


def _constants_help(outputs: Array, codes: NDArray[np.intp]) -> bool:
    """Whether those of one half of the rows make the other half more likely, and hardly more errors there."""
    halves = [np.arange(part, codes.size, 2) for part in (0, 1)]
    before = after = np.zeros(2)
    for learn, judge in (halves, halves[::-1]):
        factor, constants = _with_constants(outputs[learn], codes[learn])
        before = before + _judged(fit_temperature(outputs[learn], codes[learn]) * outputs[judge], codes[judge])
        after = after + _judged(factor * outputs[judge] + constants, codes[judge])
    return bool(after[0] < before[0] and after[1] <= before[1] + SLACK * math.sqrt(before[1]))


def _judged(scores: Array, codes: NDArray[np.intp]) -> Array:
    """The sum of log-losses, and the errors."""
    wrong = np.count_nonzero(np.argmax(scores, axis=1) != codes)
    return np.array([codes.size * log_loss(log_softmax(scores, axis=1), codes), wrong])


def _with_constants(outputs: Array, codes: NDArray[np.intp]) -> tuple[float, Array]:
    """The factor and constants, which a normal prior draws to zero: few rows move them little."""
    (m, c), hot = outputs.shape, np.arange(outputs.shape[1]) == codes[:, None]

    def objective(x: Array) -> tuple[float, Array]:
        factor, constants = math.exp(x[0]), x[1:]
        logs = log_softmax(factor * outputs + constants, axis=1)
        # Of the log-likelihood, and of the prior rows, which are of every class in equal parts.
        slope = (1.0 + PRIOR / m) * np.exp(logs) - hot - PRIOR / (m * c)
        pull = constants / SPREAD**2
        value = log_loss(logs, codes) - PRIOR * float(logs.mean()) / m + 0.5 * float(constants @ pull) / m
        by_factor = factor * float(np.sum(slope * outputs)) / m
        return value, np.append(by_factor, slope.sum(axis=0) / m + pull / m)

    start = np.append(math.log(fit_temperature(outputs, codes)), np.zeros(c))
    found = minimize(objective, start, jac=True, method="L-BFGS-B").x
    return math.exp(float(found[0])), np.asarray(found[1:] - found[1:].mean())


def _penalised(scores: Array, codes: NDArray[np.intp]) -> float:
    logs = log_softmax(scores, axis=1)
    return log_loss(logs, codes) - PRIOR * float(logs.mean()) / codes.size


def log_loss(logs: Array, codes: NDArray[np.intp]) -> float:
    """Return the mean of minus the log-probability of the true class: logs (m, c), codes (m,)."""
    return -float(np.mean(logs[np.arange(codes.size), codes]))


def calibration_error(logs: Array, codes: NDArray[np.intp]) -> float:
    """Return how far confidence and accuracy are apart, over bins of confidence: logs (m, c), codes (m,)."""
    confidence, right = np.exp(logs.max(axis=1)), np.argmax(logs, axis=1) == codes
    bins = np.minimum((confidence * BINS).astype(np.intp), BINS - 1)
    gaps = [abs(confidence[bins == b].sum() - right[bins == b].sum()) for b in range(BINS)]
    return float(sum(gaps) / codes.size)


def conformal_reach(residuals: Array, level: float) -> float:
    """Return how far from a prediction the target is, with some probability: split conformal prediction."""
    ordered = np.sort(np.abs(residuals))
    place = math.ceil((ordered.size + 1) * level) - 1
    return float(ordered[min(place, ordered.size - 1)])
