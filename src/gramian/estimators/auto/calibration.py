"""Outputs to honest probabilities and intervals: one temperature for classes, quantiles of residuals for numbers."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

__all__ = ["calibration_error", "conformal_reach", "fit_temperature", "log_loss"]

Array = NDArray[np.float64]

RANGE = (1e-3, 1e3)
"""Where the inverse temperature is sought, in units of one over the deviation of the outputs."""
PRIOR = 1.0
"""Rows by which the fit is drawn to even odds: where no held-out row is wrong, sureness must still end somewhere."""
BINS = 15


def fit_temperature(outputs: Array, codes: NDArray[np.intp]) -> float:
    """Return the factor that makes ``softmax(factor * outputs)`` most likely on held-out rows.

    Parameters
    ----------
    outputs : array of shape (m, c)
        One value for each class.
    codes : array of int of shape (m,)
        The true classes.

    Returns
    -------
    float
        Positive.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.auto.calibration import fit_temperature
    >>> sure, wrong_half_the_time = np.array([[5.0, 0.0]] * 100), np.arange(100) % 2
    >>> fit_temperature(sure, wrong_half_the_time) < 0.01
    True
    """
    size = float(outputs.std()) or 1.0
    low, high = (math.log(bound / size) for bound in RANGE)
    found = minimize_scalar(lambda t: _penalised(math.exp(t) * outputs, codes), bounds=(low, high), method="bounded")
    return math.exp(float(found.x))


def _penalised(scores: Array, codes: NDArray[np.intp]) -> float:
    logs = log_softmax(scores, axis=1)
    return log_loss(logs, codes) - PRIOR * float(logs.mean()) / codes.size


def log_loss(logs: Array, codes: NDArray[np.intp]) -> float:
    """Return the mean of minus the log-probability of the true class.

    Parameters
    ----------
    logs : array of shape (m, c)
        Log-probabilities.
    codes : array of int of shape (m,)
        The true classes.

    Returns
    -------
    float
        In nats.
    """
    return -float(np.mean(logs[np.arange(codes.size), codes]))


def calibration_error(logs: Array, codes: NDArray[np.intp]) -> float:
    """Return how far confidence and accuracy are apart, over bins of confidence.

    Parameters
    ----------
    logs : array of shape (m, c)
        Log-probabilities.
    codes : array of int of shape (m,)
        The true classes.

    Returns
    -------
    float
        The expected calibration error, with 15 bins of equal width.
    """
    confidence, right = np.exp(logs.max(axis=1)), np.argmax(logs, axis=1) == codes
    bins = np.minimum((confidence * BINS).astype(np.intp), BINS - 1)
    gaps = [abs(confidence[bins == b].sum() - right[bins == b].sum()) for b in range(BINS)]
    return float(sum(gaps) / codes.size)


def conformal_reach(residuals: Array, level: float) -> float:
    """Return how far from a prediction the target is, with some probability: split conformal prediction.

    Parameters
    ----------
    residuals : array of shape (m,)
        Of rows that the fit had not seen.
    level : float
        The probability.

    Returns
    -------
    float
        The ``⌈(m + 1) level⌉``-th smallest of the absolute residuals; the largest where there are too few of them.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.auto.calibration import conformal_reach
    >>> conformal_reach(np.arange(99.0), 0.9)
    89.0
    """
    ordered = np.sort(np.abs(residuals))
    place = math.ceil((ordered.size + 1) * level) - 1
    return float(ordered[min(place, ordered.size - 1)])
