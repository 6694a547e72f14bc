"""Support vector classification: SVC and its path over C, and NuSVC."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from gramian.docstrings import documented
from gramian.estimators.svm.classifier import EVERYBODY, Classes, Classifier, Machines, Members, Pairs, PairSVM
from gramian.estimators.svm.expansion import Vector
from gramian.numerals import listed
from gramian.solvers.svm import tasks as svm_tasks
from gramian.solvers.svm.dense import Batch
from gramian.solvers.svm.tasks import Start, Task
from gramian.warning import warn

HARD = (1e2, 1e4, 1e7)
"""Bounds on multipliers tried in turn for ``C=inf`` without a bias, in units of 1 / k."""
SHOWN = 10
"""Number of conflicting rows listed in an error message."""


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SVC(Classifier):
    """Support vector classification: ``½‖w‖² + C Σ max(0, 1 - y_i f(x_i))``.

    It has scikit-learn's parameters and attributes; its solver uses every core, can be stopped by Ctrl-C and returns a
    certificate of optimality. More than two classes are handled one-vs-one. ``C=inf`` is the hard margin, and raises an
    error if the data cannot be separated.

    Parameters
    ----------
    C : float, default=1.0
        The price of slack; ``inf`` for a hard margin. A C beyond 1e8 or so, which no multiplier reaches, multiplies the
        rounding of predictions until the gap is lost in it; ``inf`` has the same solution, and no such rounding.
    {those of Classifier}
    fit_intercept : bool, default=True
        Whether the machine has a bias. Without one the boundary is ``<w, ψ(x)> = 0``, the multipliers need not balance,
        and ``intercept_`` is zero.

    Attributes
    ----------
    {those of Classifier}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.svm import SVC
    >>> X = np.array([[-1.0, -1], [-2, -1], [1, 1], [2, 1]])
    >>> machine = SVC().fit(X, ["low", "low", "high", "high"])
    >>> machine.predict([[-0.8, -1]])
    array(['low'], dtype='<U4')
    >>> machine.certificate_.converged
    True
    """

    C: float = 1.0
    fit_intercept: bool = True

    _along = ("C",)
    _immediate = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Classifier._parameter_constraints,
        "fit_intercept": ["boolean"],
        "C": [Interval(Real, 0.0, None, closed="right")],
    }

    def _task(self, pairs: Pairs, pair: Classes, members: Members = EVERYBODY, start: Start | None = None) -> Task:
        y = pairs.signs(pair)[members]
        if math.isinf(self.C):
            return svm_tasks.hard_margin(y)
        return svm_tasks.classification(y, self.C * pairs.of(pair, pairs.weight)[members], start)

    def _machine(
        self,
        pairs: Pairs,
        pair: Classes,
        members: Members = EVERYBODY,
        start: Start | None = None,
        first: PairSVM | None = None,
        **options: Any,
    ) -> PairSVM:
        if first is not None or self.fit_intercept:
            return first or pairs.solve(pair, self._task(pairs, pair, members, start), members, **options)

        def alone(task: Task) -> PairSVM:
            return pairs.solve(pair, task, members, intercept=False, **options)

        if math.isinf(self.C):
            return _hard(pairs.signs(pair)[members], alone, pairs)
        return alone(self._task(pairs, pair, members))

    def _batch(self, pairs: Pairs, start: Start | None) -> Batch | None:
        if not self.fit_intercept:
            return None  # solved pair by pair
        if math.isinf(self.C):
            return super()._batch(pairs, start)
        edges, rows, y, _ = pairs.flat
        task = svm_tasks.classification(y, self.C * pairs.weight[rows], start)
        return Batch(replace(task, objects=rows), edges, np.diff(edges))

    def _price(self, pair: int) -> float:
        return self.C

    def _no_margin(self, machine: PairSVM, pairs: Pairs, a: Any, b: Any) -> str:
        # The rows whose convex combinations are the common point of the two hulls, by descending weight.
        heavy = np.argsort(-np.abs(machine.beta), kind="stable")
        heavy = pairs.of(machine.classes, pairs.training.kept)[heavy[np.abs(machine.beta[heavy]) > 1e-6]]
        bias = "" if self.fit_intercept else " without a bias"
        return (
            f"classes {a!r} and {b!r} cannot be separated by this kernel{bias}, so C=inf has no solution; the rows in "
            f"conflict are {listed(heavy, SHOWN)}. Use a finite C, or a kernel that tells them apart."
        )


def _hard(y: Vector, solve: Callable[[Task], PairSVM], pairs: Pairs) -> PairSVM:
    """Hard margin without a bias: soft margins of growing C until no multiplier is at C; else ``vanished``."""
    unit = float(np.mean(pairs.kernel_rows.diagonal())) or 1.0
    for bound in (C / unit for C in HARD):
        found = solve(svm_tasks.classification(y, np.full(y.size, bound)))
        if (largest := float(np.abs(found.beta).max())) < bound:
            # The solution is the same for any larger C; the smallest gives the tightest duality gap.
            return solve(svm_tasks.classification(y, np.full(y.size, 2.0 * largest), Start(found.beta)))
    return replace(found, solution=replace(found.solution, vanished=True))


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class NuSVC(Classifier):
    """Support vector classification with ν instead of C: at most a fraction ν of the rows are margin errors.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound on the share of margin errors, lower bound on the share of support vectors.
    class_weight : dict, "balanced" or None, default=None
        Factors, by class, on the C equivalent to ν; ``"balanced"`` gives every class the same total.
    {those of Classifier}

    Attributes
    ----------
    class_weight_ : array of shape (k,)
        Factors on the C equivalent to ν.
    nu_ : array of shape (k (k - 1) / 2,)
        ν of each pair, with a warning if it is not ``nu``: lower if a class has too few rows, higher if ``nu`` leaves
        no margin (only with more than two classes).
    C_ : array of shape (k (k - 1) / 2,)
        The C equivalent to ν: the coefficient of a row is at most C times its weight and that of its class.
    {those of Classifier}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.svm import NuSVC
    >>> X = np.array([[-1.0, -1], [-2, -1], [1, 1], [2, 1]])
    >>> NuSVC().fit(X, [1, 1, 2, 2]).predict([[-0.8, -1]])
    array([1])
    """

    nu: float = 0.5

    _one_class = "specified nu is infeasible: "
    _along = ("nu",)
    _immediate = False  # class weights, or another ν, may need a second one
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Classifier._parameter_constraints,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def _largest_nu(self, pairs: Pairs, pair: Classes) -> float:
        return svm_tasks.largest_nu(pairs.signs(pair), pairs.of(pair, pairs.training.weight))

    def _check_feasible(self, pairs: Pairs) -> None:
        limits = {pair: self._largest_nu(pairs, pair) for pair in pairs.classes}
        tight = {pair: limit for pair, limit in limits.items() if self.nu > limit * (1 + 1e-12)}
        if not tight:
            return
        (a, b), limit = min(tight.items(), key=lambda item: item[1])
        labels = self.classes_.tolist()
        what = f"with the sizes of classes {labels[a]!r} and {labels[b]!r} nu must be at most {_below(limit)}"
        if len(tight) == len(limits):
            raise ValueError(f"specified nu is infeasible: {what}, got {self.nu:.4g}; lower it.")
        warn(
            f"nu={self.nu:.4g} is infeasible for some pairs of classes ({what}), and was lowered for them.",
        )

    def _task(
        self,
        pairs: Pairs,
        pair: Classes,
        members: Members = EVERYBODY,
        start: Start | None = None,
        nu: float | None = None,
    ) -> Task:
        weight = pairs.of(pair, pairs.training.weight)[members]
        return svm_tasks.nu_classification(pairs.signs(pair)[members], weight, self.nu if nu is None else nu)

    def _machine(
        self,
        pairs: Pairs,
        pair: Classes,
        members: Members = EVERYBODY,
        start: Start | None = None,
        first: PairSVM | None = None,
        **options: Any,
    ) -> PairSVM:
        """Find the C equivalent to ν; class weights, if any, then multiply that C."""
        nu = min(self.nu, self._largest_nu(pairs, pair))
        found = first or pairs.solve(pair, self._task(pairs, pair, members), members, **options)
        several = len(self.classes_) > 2 and members is EVERYBODY
        if several and not found.separates and (more := self._enough(pairs, pair)):
            nu = float(more)
            found = pairs.solve(pair, self._task(pairs, pair, nu=nu), **options)
        if not found.separates:
            return found
        price = 1.0 / found.scale
        if not np.array_equal(pairs.weight, pairs.training.weight):
            C = pairs.of(pair, pairs.weight)[members] * price
            task = svm_tasks.classification(pairs.signs(pair)[members], C, start)
            found = pairs.solve(pair, task, members, **options)
        return replace(found, price=price, nu=nu)

    def _keep_machines(self, pairs: Pairs, machines: Machines) -> None:
        super()._keep_machines(pairs, machines)
        self.C_ = np.array([machine.price for machine in machines.each])
        self.nu_ = np.array([machine.nu for machine in machines.each])
        if raised := [machine for machine in machines.each if machine.nu > self.nu]:
            a, b = (self.classes_.tolist()[c] for c in raised[0].classes)
            warn(
                f"nu={self.nu:.4g} leaves {len(raised)} pairs of classes no margin with this kernel, and was raised "
                f"for them (to {raised[0].nu:.4g} for {a!r} and {b!r}).",
            )

    def _price(self, pair: int) -> float:
        return float(self.C_[pair])

    def _no_margin(self, machine: PairSVM, pairs: Pairs, a: Any, b: Any) -> str:
        enough = self._enough(pairs, machine.classes)
        return (
            f"nu={self.nu:.4g} leaves classes {a!r} and {b!r} no margin with this kernel: their reduced hulls overlap; "
            + (f"raise nu, which makes them smaller ({enough} is enough), or " if enough else "no larger nu helps; ")
            + "use a kernel that tells the classes apart."
        )

    def _enough(self, pairs: Pairs, pair: Classes) -> str | None:
        """A larger nu that leaves a margin, or None if none was found."""
        limit = self._largest_nu(pairs, pair)
        for share in (0.25, 0.5, 0.75, 1.0):
            nu = _below(share * limit)
            if float(nu) <= self.nu:
                continue
            if pairs.solve(pair, self._task(pairs, pair, nu=float(nu)), **self._solver_options()).separates:
                return nu
        return None


def _below(limit: float) -> str:
    """The limit to four digits, rounded so that it is not above the limit."""
    return f"{limit if float(f'{limit:.4g}') <= limit else 0.999 * limit:.4g}"


def svm_path(X: Any, y: Any, Cs: Sequence[float], *, sample_weight: Any = None, **parameters: Any) -> list[SVC]:
    """Fit ``SVC(C=C, **parameters)`` for every C, reusing kernel rows and warm-starting each fit from the one before.

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
    SVC._fit_path(machines, X, y, sample_weight)
    return machines
