"""Base class of SVC and NuSVC: one machine per pair of classes, and Platt's sigmoids for probabilities."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils._param_validation import Hidden, StrOptions
from sklearn.utils.multiclass import check_classification_targets

from gramian.estimators.base import COMMON, NYSTROEM, restored_on_failure, row_weights, validated
from gramian.estimators.duality import FittedTo, HardMargin, Program
from gramian.estimators.svm.base import MEGABYTE, SupportVectorMachine, kinds
from gramian.estimators.svm.one_vs_one import FOLDS, OneVsOne, fit_sigmoid, stratified_folds
from gramian.estimators.svm.pairs import Classes, Pair, Pairs
from gramian.estimators.svm.training import Vector
from gramian.features.base import parameters_checked
from gramian.losses import Hinge
from gramian.progress import Clock, progress, silent
from gramian.resources import random_of
from gramian.solvers.svm.dense import Batch
from gramian.solvers.svm.tasks import Task, start_of


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(OneVsOne):
    """Base class of SVC and NuSVC: one machine per pair of classes. Not for direct use."""

    probability: bool | str = False
    class_weight: Any = None
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    random_state: Any = None

    _machine: ClassVar[Callable[..., Pair]]
    """Fit the machine of one pair of classes, to all of its rows or some of them."""
    _task: ClassVar[Callable[..., Task]]
    """The first optimisation problem that ``_machine`` solves."""
    _one_class: ClassVar[str] = "Invalid input - all samples with positive weights belong to the same class: "
    """scikit-learn's message if only one class has rows of positive weight."""
    _over_blocks = f"KernelMachineClassifier('hinge', lam=1/(n C), {NYSTROEM})"
    _parameter_constraints = {  # noqa: RUF012
        **SupportVectorMachine._parameter_constraints,
        "probability": ["boolean", StrOptions({"consistent"}), Hidden(StrOptions({"deprecated"}))],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
        "random_state": COMMON["random_state"],
    }

    def _batch(self, pairs: Pairs, starts: dict[Classes, Vector | None]) -> Batch | None:
        """The first problems of all pairs; None if they cannot be solved together."""
        spans, rows, _, _ = pairs.flat
        tasks = [self._task(pairs, pair, start=starts.get(pair)) for pair in pairs.classes]
        return Batch.of([replace(task, objects=rows[span]) for task, span in zip(tasks, spans, strict=True)])

    def _check_feasible(self, pairs: Pairs) -> None:
        """Raise an error if no dual point is feasible with these parameters."""

    def _no_margin(self, machine: Pair, pairs: Pairs, a: Any, b: Any) -> str:
        """The error message if w = 0 for classes a and b."""
        raise NotImplementedError

    @parameters_checked
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), or (n, n) for ``kernel="precomputed"``
            Training rows.
        y : array-like of shape (n,)
            Class labels of any type.
        sample_weight : array-like of shape (n,) or None, default=None
            Multiplies C row by row; zero removes a row, a whole number repeats it. A negative one removes the row too,
            as in scikit-learn, with a warning.

        Returns
        -------
        self
            The fitted estimator.
        """
        with restored_on_failure(self):
            X, pairs = self._set_up(X, y, sample_weight)
            self._learn(X, pairs)
        return self

    def _set_up(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Pairs]:
        """Validate, order the rows by class, and make the row caches."""
        X, y = self._validated(X, y)
        labels = y.ndim == 1 and y.dtype.kind in "iubU"  # certainly class labels: skip the slow check
        if not labels:
            check_classification_targets(y)
            y = column_or_1d(y, warn=True)
        self._fitted_to = FittedTo(X, y, sample_weight)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if labels and 2 * len(self.classes_) > y.size:
            check_classification_targets(y)  # it warns if there are so many classes that y may be a regression target
        if len(self.classes_) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(self.classes_)} class "
                f"({self.classes_.tolist()[0]!r}); pass rows of at least two."
            )
        training = self._training(X, sample_weight, np.argsort(codes, kind="stable"))
        codes = codes[training.kept]
        sizes = np.bincount(codes, minlength=len(self.classes_))
        if not sizes.all():
            lost = self.classes_[np.flatnonzero(sizes == 0)].tolist()
            first = self._one_class if np.count_nonzero(sizes) == 1 else ""
            raise ValueError(
                f"{first}all samples of class {lost} have zero weight; give some a positive one or drop the class."
            )
        self._check_symmetric(training.kernel, X)
        self.class_weight_ = self._class_weights(y, codes, training.weight)
        weight = training.weight * self.class_weight_[codes]
        return X, Pairs(training, sizes, self.cache_size * MEGABYTE, weight)

    @classmethod
    def _fit_path(cls, machines: Sequence[Any], X: Any, y: Any = None, sample_weight: Any = None) -> None:
        """Fit machines that differ only in ``_along`` on shared kernel rows, each warm-started from the one before."""
        for machine in machines:
            machine._validate_params()
        strictest = cls._strictest(machines)
        X, pairs = strictest._set_up(X, y, sample_weight)
        learned = strictest._attributes()
        last: list[Pair] = []
        for machine, growth in cls._in_turn(machines):
            vars(machine).update(learned)
            starts = {pair.classes: start_of(pair.task, pair.solution, growth) for pair in last} if growth else {}
            last = machine._learn(X, pairs, starts)

    def _class_weights(self, y: Any, codes: NDArray[np.intp], weight: Vector) -> Vector:
        if self.class_weight is None:
            return np.ones(len(self.classes_))
        if self.class_weight == "balanced":
            # Total weights, not counts: a row of weight two counts as two rows.
            totals = np.bincount(codes, weights=weight)
            return np.asarray(totals.sum() / (len(totals) * totals))
        return np.asarray(compute_class_weight(self.class_weight, classes=self.classes_, y=y))

    def _learn(self, X: Any, pairs: Pairs, starts: dict[Classes, Vector | None] | None = None) -> list[Pair]:
        """Solve every pair, then set the fitted attributes."""
        self._check_feasible(pairs)
        options, limit, starts = self._solver_options(), Clock(self.max_time), starts or {}

        def learned(pair: Classes, clock: Clock) -> Pair:
            given: dict[str, Any] = {"start": starts.get(pair), "first": first.get(pair)}
            machine = self._machine(pairs, pair, **given, tick=tick, clock=clock, **options)
            if not machine.separates:
                raise ValueError(self._no_margin(machine, pairs, *(self.classes_.tolist()[c] for c in pair)))
            return machine

        with progress(self.verbose, type(self).__name__) as tick:
            first: dict[Classes, Pair] = {}
            if tick is silent and self.max_time is None:  # progress and time limits need pair-by-pair solves
                first = pairs.solve_together(lambda pairs: self._batch(pairs, starts), **options)
            together = len(first) == len(pairs.classes)
            machines: list[Pair] = (
                [learned(pair, limit) for pair in pairs.classes] if together else pairs.map(learned, limit)
            )
            sigmoids = self._sigmoids(pairs, limit, options) if self.probability not in (False, "deprecated") else []
        self._keep_machines(X, pairs, machines)
        self.probA_, self.probB_ = np.array(sigmoids, dtype=np.float64).reshape(-1, 2).T
        self._report([machine.solution for machine in machines])
        return machines

    def _sigmoids(self, pairs: Pairs, limit: Clock, options: dict[str, Any]) -> list[tuple[float, float]]:
        """The sigmoid (A, B) of each pair, fitted to cross-validated decision values.

        All folds use the pair's kernel rows. The solver keeps Kβ for every row, so the decision values of the rows left
        out need no extra work.
        """
        rng = random_of(self.random_state)
        # Drawn before the threads start, so that the folds do not depend on the order of the pairs.
        folds = {pair: stratified_folds(pairs.signs(pair), rng) for pair in pairs.classes}

        def calibrated(pair: Classes, clock: Clock) -> tuple[float, float]:
            y, fold = pairs.signs(pair), folds[pair]
            values = np.zeros(y.size)
            for k in range(FOLDS):
                (train,), (left_out,) = np.nonzero(fold != k), np.nonzero(fold == k)
                if np.unique(y[train]).size < 2:
                    values[left_out] = y[train][0] if train.size else 0.0
                elif left_out.size:
                    machine = self._machine(pairs, pair, train, clock=clock, **options)
                    values[left_out] = machine.values[left_out] if machine.separates else 0.0
            return fit_sigmoid(values, y, pairs.of(pair, pairs.weight))

        found: list[tuple[float, float]] = pairs.map(calibrated, limit)
        return found

    def _price(self, pair: int) -> float:
        """The C of a pair of classes."""
        raise NotImplementedError

    def _programs(self, X: Any, y: Any, sample_weight: Any) -> list[Program]:
        X, y = validated(self, X, y, reset=False)
        codes, weights = np.searchsorted(self.classes_, y), row_weights(sample_weight, X, negative=True)
        if np.any(np.take(self.classes_, codes, mode="clip") != y):
            raise ValueError(f"y has labels that are not among classes_, {self.classes_.tolist()}.")
        lam = self.multipliers_.reshape(len(codes), -1)
        programs = []
        for p, (i, j) in enumerate(combinations(range(len(self.classes_)), 2)):
            own = np.flatnonzero(((codes == i) | (codes == j)) & (weights > 0))
            positive = codes[own] == (i if len(self.classes_) > 2 else j)
            signs, C = np.where(positive, 1.0, -1.0)[:, None], self._price(p)
            w = np.ones(own.size) if math.isinf(C) else C * weights[own] * self.class_weight_[codes[own]]
            loss: Any = HardMargin() if math.isinf(C) else Hinge()
            beta, b = lam[own, p, None] * signs, self.intercept_[p : p + 1]
            free = getattr(self, "fit_intercept", True)
            times = self._times(X, own)
            programs.append(Program(own, times, loss, signs, w, beta, b, -beta, sign=-signs, intercept=free))
        return programs

    def _keep_machines(self, X: Any, pairs: Pairs, machines: list[Pair]) -> None:
        training, blocks, k = pairs.training, pairs.blocks, len(self.classes_)
        dual = np.zeros((k - 1, training.kept.size))
        kind = np.zeros(training.kept.size, dtype=np.intp)
        _, rows, _, lines = pairs.flat
        beta, lower, upper = (
            np.concatenate(parts)
            for parts in zip(*((m.beta, m.task.lower, m.task.upper) for m in machines), strict=True)
        )
        dual[lines, rows] = beta / np.repeat([m.scale for m in machines], [m.beta.size for m in machines])
        np.maximum.at(kind, rows, kinds(beta, lower, upper))
        used = np.flatnonzero(dual.any(axis=0))
        self._n_support = np.array([np.sum((used >= b.start) & (used < b.stop)) for b in blocks], dtype=np.int32)
        sign = -1.0 if k == 2 else 1.0
        self._keep(X, training, used, sign * dual[:, used], kind)
        self.intercept_ = np.array([sign * machine.bias for machine in machines])
        self.n_iter_ = np.array([m.solution.certificate.iterations for m in machines], dtype=np.int32)
        margins = np.array([machine.margin for machine in machines])
        self.margin_ = float(margins[0]) if k == 2 else margins
