"""One fit for each of many C, each starting from the last, all from the same kernel rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.estimators.svm.svc import SVC, Pair

__all__ = ["svm_path"]


def svm_path(X: Any, y: Any, Cs: Sequence[float], *, sample_weight: Any = None, **parameters: Any) -> list[SVC]:
    """Fit ``SVC(C=C, **parameters)`` for every C, reusing kernel rows and starting each fit from the one before.

    Parameters
    ----------
    X : array-like or CSR of shape (n, d), or (n, n) for ``kernel="precomputed"``
        Training rows.
    y : array-like of shape (n,)
        Class labels.
    Cs : sequence of float
        The values of C, in any order.
    sample_weight : array-like of shape (n,) or None, default=None
        Weights, as in ``SVC.fit``.
    **parameters : Any
        Further parameters of ``SVC``.

    Returns
    -------
    list of SVC
        Fitted, in the order of ``Cs``.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.svm import svm_path
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> [round(m.margin_, 2) for m in svm_path(X, [0, 0, 1, 1], [0.1, 10.0], kernel="linear")]
    [2.0, 1.0]
    """
    if len(Cs) == 0:
        raise ValueError("Cs is empty; pass at least one value of C.")
    if "C" in parameters:
        raise TypeError("svm_path takes the values of C as Cs; leave out C.")
    machines = [SVC(C=float(C), **parameters) for C in Cs]
    for machine in machines:
        machine._validate_params()
    ascending = np.argsort(np.asarray(Cs, dtype=np.float64), kind="stable")
    # The largest C makes the strictest demand on the precision of the rows.
    strictest = machines[ascending[-1]]
    rows, pairs = strictest._set_up(X, y, sample_weight)
    learned = {name: value for name, value in vars(strictest).items() if name.endswith("_")}
    last: list[Pair] = []
    C = 1.0
    for position in ascending:
        machine = machines[position]
        vars(machine).update(learned)
        starts = {pair.classes: _start(pair, machine.C / C) for pair in last}
        last, C = machine._learn(rows, pairs, starts), machine.C
    return machines


def _start(pair: Pair, growth: float) -> NDArray[np.float64] | None:
    """The best feasible multiple of the last solution: β scales with C where everybody is at a bound."""
    if not np.isfinite(growth):
        return None
    quadratic = float(np.dot(pair.beta, pair.solution.values[pair.task.objects]))
    best = -float(np.dot(pair.task.linear, pair.beta)) / quadratic if quadratic > 0 else growth
    return np.asarray(np.clip(min(best, growth) * pair.beta, growth * pair.task.lower, growth * pair.task.upper))
