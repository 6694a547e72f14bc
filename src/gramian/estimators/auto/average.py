"""An average of the best machines, weighted by held-out predictions; used only where cross-validation favours it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize, nnls
from scipy.special import log_softmax

from gramian.estimators.auto.response import Classes, Judgement, Response, fit_temperature
from gramian.estimators.auto.scoring import log_loss
from gramian.estimators.auto.search import Found, order

Array = NDArray[np.float64]
Rows = NDArray[np.intp]

FOLDS = 5
"""Parts of the held-out rows, each of which is averaged with weights that the others gave."""
PRIOR = 10.0
"""Weight of the prior, in rows, that draws to equal weights."""
LEAST = 0.05
"""The share of an average below which a member is left out."""
SUM_PENALTY = 100.0
"""Strength, relative to the rows, of the penalty that makes weights sum to one."""


@dataclass(frozen=True, eq=False)
class Member:
    """One of the machines of an average, beside the first."""

    name: str  # As on the leaderboard
    machine: str  # What it is
    scaling: Any  # How numbers are scaled for it
    model: Any  # Fitted to all rows


@dataclass(frozen=True, eq=False)
class Average:
    """Machines and how much each counts."""

    members: tuple[int, ...]  # Places among those that were offered
    weights: Array  # (k,): Of their outputs; of numbers they sum to one
    judged: Judgement  # Of rows that the weights were not learned from
    helps: bool  # Whether it is better than the best of them alone


def averaged(offered: Sequence[Found], response: Response) -> Average | None:
    """Average what machines said of the same held-out rows; None where there is nothing to average."""
    if len(offered) < 2 or any(found.held is None for found in offered):
        return None
    rung, outputs = offered[0].rung, np.stack([np.asarray(found.held) for found in offered])
    rows = rung.held_out
    if rows.size < 2:
        return None
    together, alone = np.empty_like(outputs[0]), np.empty_like(outputs[0])
    fold = np.arange(rows.size) % FOLDS
    for part in np.unique(fold):
        learn, judge = fold != part, fold == part
        weights = pruned(outputs[:, learn], rows[learn], response)
        together[judge] = np.tensordot(weights, outputs[:, judge], axes=1)
        alone[judge] = outputs[_best(outputs[:, learn], rows[learn], response), judge]
    judged = response.judge(together, rows, rung.parts)
    weights = pruned(outputs, rows, response)
    members = np.flatnonzero(weights)
    members = members[np.argsort(-weights[members], kind="stable")]
    # The best alone is chosen by cross-validation too: the best of several on the same rows is so partly by chance.
    helps = members.size > 1 and order(judged) < order(response.judge(alone, rows, rung.parts))
    return Average(tuple(members.tolist()), weights[members], judged, helps)


def _best(outputs: Array, rows: Rows, response: Response) -> int:
    """The best of some outputs for the same rows."""
    whole = [np.arange(rows.size)]
    return min(range(len(outputs)), key=lambda i: order(response.judge(outputs[i], rows, whole)))


def pruned(outputs: Array, rows: Rows, response: Response) -> Array:
    """Return weights that are zero for members that hardly count: outputs (k, m, c) → (k,)."""
    learn = _of_classes if isinstance(response, Classes) else _of_numbers
    weights = learn(outputs, rows, response)
    share = weights * outputs.std(axis=(1, 2))
    kept = share >= LEAST * share.sum()
    if not kept.all() and kept.any():
        weights = np.zeros(kept.size)
        weights[kept] = learn(outputs[kept], rows, response)
    return weights


def _of_numbers(outputs: Array, rows: Rows, response: Any) -> Array:
    """The convex combination of the least squared error."""
    F, target, weights = outputs[:, :, 0].T, response.targets[rows, 0], response.weights_of(rows)
    if weights is not None:
        F, target = np.sqrt(weights)[:, None] * F, np.sqrt(weights) * target
    k, unit = F.shape[1], float(np.linalg.norm(F)) or 1.0
    least = float(np.mean((F - target[:, None]) ** 2, axis=0).min())
    even, pull = np.sqrt(PRIOR * least) * np.eye(k), np.full((1, k), SUM_PENALTY * unit)
    right = np.concatenate([target, np.full(k, even[0, 0] / k), pull[0, :1]])
    weights = nnls(np.vstack([F, even, pull]), right)[0]
    return np.asarray(weights / weights.sum()) if weights.any() else np.full(k, 1.0 / k)


def _of_classes(outputs: Array, rows: Rows, response: Any) -> Array:
    """The combination whose softmax makes the classes most likely."""
    codes, w = response.codes[rows], response.weights_of(rows)
    each = np.ones(codes.size) / codes.size if w is None else w / w.sum()
    hot = np.arange(outputs.shape[2]) == codes[:, None]
    start = np.array([fit_temperature(f, codes, w) for f in outputs]) / outputs.shape[0]

    def objective(x: Array) -> tuple[float, Array]:
        logs = log_softmax(np.tensordot(x * start, outputs, axes=1), axis=1)
        slope = np.tensordot(outputs, each[:, None] * (np.exp(logs) - hot), axes=2)
        drawn = PRIOR / codes.size * (x - 1.0)
        return log_loss(codes, logs, w) + 0.5 * float(drawn @ (x - 1.0)), start * slope + drawn

    found = minimize(objective, np.ones(start.size), jac=True, bounds=[(0.0, None)] * start.size, method="L-BFGS-B")
    return np.asarray(found.x * start)
