"""Kernel Pegasos: stochastic subgradient steps on ``(lam/2) ‖f‖² + mean hinge``, without a constant.

After t steps ``f = Σ_j β_j k(x_j, ·) / (lam t)``, where β_j counts, with the sign of y_j, how often row j was met
within the margin (Shalev-Shwartz et al., 2011). What is returned is the average of the iterates with weights t, which
needs no logarithm in its rate (Lacoste-Julien, Schmidt and Bach, 2012), and for which t f = Σ β k / lam makes the
running sum one of counts. ``textbook`` is the method as it was published: rows drawn with replacement, and the plain
average of the iterates β/(lam t) before each step t, which a running sum of counts gives too, as row j enters it with
1/t + ... + 1/T from the step on at which it was counted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma

from gramian.certificates import Certificate, certify
from gramian.losses import Hinge
from gramian.progress import Clock
from gramian.solvers.machine.data_term import DataFit

Array = NDArray[np.float64]
MOST_COPIES = 100
"""Up to this many copies of each row, on average, integer weights are taken as repetitions."""


@dataclass(frozen=True, eq=False)
class Counts:
    """The state of the method."""

    beta: Array  # (n,): Signed counts of steps within the margin
    late: Array  # (n,): Signed sums, over the same steps, of the steps before; as published, of 1 + 1/2 + ... + 1/t
    steps: int = 0  # t
    textbook: bool = False  # Whether the average is that of the method as published

    def average(self, lam: float) -> Array:
        """Return the coefficients of the averaged function: → (n,)."""
        T = self.steps
        if self.textbook:
            return np.asarray((_harmonic(T) * self.beta - self.late) / (lam * T))
        return np.asarray(2.0 * (T * self.beta - self.late) / (lam * T * (T + 1.0)))


def _harmonic(t: int) -> float:
    """1 + 1/2 + ... + 1/t."""
    return float(digamma(t + 1.0) + np.euler_gamma)


@cache
def _compiled() -> Callable[..., int]:
    """The loop over a block of rows; numba is imported, and the loop compiled, on first use."""
    from gramian.compiled import compiled

    @compiled(nogil=True)
    def block(  # type: ignore[no-untyped-def]
        rows, order, y, values, beta, late, step, lam, textbook, harmonic
    ) -> int:
        for k in range(order.shape[0]):
            i = order[k]
            harmonic += 1.0 / (step + 1.0)
            # f is values / (lam t) after t steps, and zero before the first; as published, before step t.
            if step == 0 or y[i] * values[i] < lam * (step + textbook):
                beta[i] += y[i]
                late[i] += y[i] * (harmonic if textbook else step)
                for j in range(values.shape[0]):
                    values[j] += y[i] * rows[k, j]
            step += 1
        return step

    return block


def descend(
    rows: Callable[[NDArray[np.intp]], Array],
    y: Array,
    values: Array,
    counts: Counts,
    order: NDArray[np.intp],
    lam: float,
    *,
    max_support: int | None = None,
    diagonal: Array | None = None,
    block: int = 256,
    clock: Clock | None = None,
) -> Counts:
    """Take one step for every row of an order: y (n,), values (n,), order (s,), diagonal (n,)."""
    clock = clock or Clock()
    beta, late, step = counts.beta.copy(), counts.late.copy(), counts.steps
    walk = _compiled()
    for start in range(0, order.size, block):
        part = order[start : start + block]
        step = walk(rows(part), part, y, values, beta, late, step, lam, int(counts.textbook), _harmonic(step))
        if max_support is not None and diagonal is not None:
            _merge(rows, values, beta, late, diagonal, max_support)
        if clock.expired:
            break
    return Counts(beta, late, int(step), counts.textbook)


def _merge(rows: Any, values: Array, beta: Array, late: Array, diagonal: Array, max_support: int) -> None:
    """Replace the rows with the smallest counts by the nearest multiples of others."""
    size = np.abs(beta) * np.sqrt(diagonal)
    for _ in range(np.count_nonzero(beta) - max_support):
        support = np.flatnonzero(beta)
        least = support[np.argmin(size[support])]
        others = support[support != least]
        row = rows(np.array([least]))[0]
        if others.size:
            to = others[np.argmax(row[others] ** 2 / diagonal[others])]
            share = row[to] / diagonal[to]
            values += share * beta[least] * rows(np.array([to]))[0]
            beta[to] += share * beta[least]
            late[to] += share * late[least]
            size[to] = abs(beta[to]) * np.sqrt(diagonal[to])
        values -= beta[least] * row
        beta[least] = late[least] = 0.0


def walk_of(weights: Array, random: np.random.RandomState, size: int, *, textbook: bool = False) -> NDArray[np.intp]:
    """Return the rows of the next steps: integer weights as copies in random order, other weights by drawing.

    As published, every row is drawn anew from all, by its weight.
    """
    n, total = weights.size, float(weights.sum())
    if textbook:
        return np.asarray(random.choice(n, min(n, size), p=weights / total))
    if np.all(weights == np.rint(weights)) and total <= MOST_COPIES * n:
        copies = np.repeat(np.arange(n), weights.astype(np.intp))
        return copies[random.permutation(copies.size)[:size]]
    # Systematic sampling: a row occurs as often as its weight, rounded up or down at random.
    marks = (np.arange(n) + random.uniform()) * (total / n)
    drawn = np.minimum(np.searchsorted(np.cumsum(weights), marks, side="right"), n - 1)
    return np.asarray(random.permutation(drawn)[:size])


def duality_gap(
    alpha: Array,
    times: Callable[[Array], Array],
    y: Array,
    shares: Array,
    lam: float,
    tol: float,
    steps: int,
    clock: Clock,
) -> Certificate:
    """Certify the duality gap of a function of the SVM without a constant: alpha (n,), y (n,), shares (n,)."""
    feasible = y * np.clip(y * alpha, 0.0, shares / lam)
    values = times(np.column_stack([alpha, feasible]))
    fit = DataFit(Hinge(), y[:, None], shares)
    primal = fit.value(values[:, :1]) + 0.5 * lam * float(alpha @ values[:, 0])
    dual = -fit.conjugate(-lam * feasible[:, None]) - 0.5 * lam * float(feasible @ values[:, 1])
    gap = max(primal - dual, 0.0) / max(abs(primal), 1e-12)
    first = "max_time passed; raise it" if clock.expired else "take more steps (n_iter)"
    why = f"{first}, regularise more, or raise tol."
    return certify("duality gap", gap, tol, why, primal=primal, dual=dual, iterations=steps, seconds=clock.seconds)
