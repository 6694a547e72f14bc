"""Kernel Pegasos: stochastic subgradient steps on ``(lam/2) ‖f‖² + mean hinge``, without a constant.

After t steps ``f = Σ_j β_j k(x_j, ·) / (lam t)``, where β_j counts, with the sign of y_j, how often row j was met
within the margin (Shalev-Shwartz et al., 2011). What is returned is the average of the iterates with weights t, which
needs no logarithm in its rate (Lacoste-Julien, Schmidt and Bach, 2012), and for which t f = Σ β k / lam makes the
running sum one of counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.losses import Hinge
from gramian.progress import Clock
from gramian.solvers.machine.data_term import DataFit

__all__ = ["Counts", "certify", "descend", "walk_of"]

Array = NDArray[np.float64]
MOST_COPIES = 100
"""Copies of each row, on average, up to which whole weights are walked through as such."""


@dataclass(frozen=True, eq=False)
class Counts:
    """The state of the method.

    Parameters
    ----------
    beta : array of shape (n,)
        Signed counts of steps within the margin.
    late : array of shape (n,)
        Signed sums, over the same steps, of the steps before them.
    steps : int
        t.
    """

    beta: Array
    late: Array
    steps: int = 0

    def average(self, lam: float) -> Array:
        """Return the coefficients of the averaged function.

        Parameters
        ----------
        lam : float
            The strength of the penalty.

        Returns
        -------
        array of shape (n,)
            ``2 Σ_t β⁽ᵗ⁾ / (lam T (T + 1))``.
        """
        T = self.steps
        return np.asarray(2.0 * (T * self.beta - self.late) / (lam * T * (T + 1.0)))


@cache
def _compiled() -> Callable[..., int]:
    """The loop over a block of rows; numba is imported, and the loop compiled, on first use."""
    from gramian.gram.compiled import compiled

    @compiled(nogil=True)
    def block(  # type: ignore[no-untyped-def]
        rows, order, y, values, beta, late, step, lam
    ) -> int:
        for k in range(order.shape[0]):
            i = order[k]
            # f is values / (lam t) after t steps, and zero before the first.
            if step == 0 or y[i] * values[i] < lam * step:
                beta[i] += y[i]
                late[i] += y[i] * step
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
    """Take one step for every row of an order.

    Parameters
    ----------
    rows : callable
        Returns rows of K, in float64.
    y : array of shape (n,)
        Labels -1 and +1.
    values : array of shape (n,)
        K @ beta; updated in place.
    counts : Counts
        The state so far.
    order : array of shape (s,)
        Which rows, in turn.
    lam : float
        The strength of the penalty.
    max_support : int or None, default=None
        Rows that may have a count at the end of every block; those with the smallest counts are merged into the
        rows nearest to them in the kernel's space.
    diagonal : array of shape (n,) or None, default=None
        k(x, x), which ``max_support`` needs.
    block : int, default=256
        Rows of K made at a time; Ctrl-C is answered between blocks.
    clock : Clock or None, default=None
        Stops it once expired.

    Returns
    -------
    Counts
        The state after.
    """
    clock = clock or Clock()
    beta, late, step = counts.beta.copy(), counts.late.copy(), counts.steps
    walk = _compiled()
    for start in range(0, order.size, block):
        part = order[start : start + block]
        step = walk(rows(part), part, y, values, beta, late, step, lam)
        if max_support is not None and diagonal is not None:
            _merge(rows, values, beta, late, diagonal, max_support)
        if clock.expired:
            break
    return Counts(beta, late, int(step))


def _merge(rows: Any, values: Array, beta: Array, late: Array, diagonal: Array, max_support: int) -> None:
    """Replace the rows with the smallest counts by the multiples of others that are nearest to them."""
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


def walk_of(weights: Array, random: np.random.RandomState, size: int) -> NDArray[np.intp]:
    """Return the rows of the next steps: whole numbers as so many copies of a row, in random order; else drawn.

    Parameters
    ----------
    weights : array of shape (n,)
        How often each row counts, > 0.
    random : RandomState
        Draws them.
    size : int
        Steps at most.

    Returns
    -------
    array of int
        Every copy once where there are not too many; else n draws by weight.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.solvers.machine.pegasos import walk_of
    >>> np.bincount(walk_of(np.array([1.0, 3.0]), np.random.RandomState(0), 100))
    array([1, 3])
    """
    n, total = weights.size, float(weights.sum())
    if np.all(weights == np.rint(weights)) and total <= MOST_COPIES * n:
        copies = np.repeat(np.arange(n), weights.astype(np.intp))
        return copies[random.permutation(copies.size)[:size]]
    # Systematic draws: a row comes as often as its weight says, rounded up or down at random.
    marks = (np.arange(n) + random.uniform()) * (total / n)
    drawn = np.minimum(np.searchsorted(np.cumsum(weights), marks, side="right"), n - 1)
    return np.asarray(random.permutation(drawn)[:size])


def certify(
    alpha: Array,
    times: Callable[[Array], Array],
    y: Array,
    shares: Array,
    lam: float,
    tol: float,
    steps: int,
    clock: Clock,
) -> Certificate:
    """Return the duality gap of a function of the SVM without a constant.

    Parameters
    ----------
    alpha : array of shape (n,)
        Coefficients; those of the dual point are clipped to ``0 <= y alpha <= shares / lam``.
    times : callable
        Multiplies by K.
    y : array of shape (n,)
        Labels -1 and +1.
    shares : array of shape (n,)
        Weights of the rows, which sum to one.
    lam : float
        The strength of the penalty.
    tol : float
        The relative gap asked for.
    steps : int
        Steps taken.
    clock : Clock
        Times the fit.

    Returns
    -------
    Certificate
        Of kind "duality gap".
    """
    feasible = y * np.clip(y * alpha, 0.0, shares / lam)
    values = times(np.column_stack([alpha, feasible]))
    fit = DataFit(Hinge(), y[:, None], shares)
    primal = fit.value(values[:, :1]) + 0.5 * lam * float(alpha @ values[:, 0])
    dual = -fit.conjugate(-lam * feasible[:, None]) - 0.5 * lam * float(feasible @ values[:, 1])
    gap = max(primal - dual, 0.0) / max(abs(primal), 1e-12)
    met = gap <= tol
    return Certificate(
        kind="duality gap",
        primal=primal,
        dual=dual,
        gap=gap,
        converged=met,
        iterations=steps,
        seconds=clock.seconds,
        message="" if met else f"tol={tol:.0e} not met: take more steps (n_iter), regularise more, or raise tol.",
    )
