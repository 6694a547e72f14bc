"""Base class of SVC and NuSVC: one machine for each pair of classes, on shared kernel rows."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import Hidden, StrOptions
from sklearn.utils.multiclass import check_classification_targets

from gramian.certificates import Certificate
from gramian.docstrings import documented
from gramian.estimators.base import NYSTROEM, class_weights, row_weights, validated
from gramian.estimators.duality import FittedTo, HardMargin, Program
from gramian.estimators.svm.base import MEGABYTE, SupportVectorMachine, TrainingRows, kinds
from gramian.estimators.svm.expansion import Vector
from gramian.estimators.svm.one_vs_one import FOLDS, OneVsOne, fit_sigmoid, stratified_folds
from gramian.losses import Hinge
from gramian.progress import Clock, progress, silent
from gramian.resources import random_of, run
from gramian.solvers.machine.origin_row import AnchoredRows
from gramian.solvers.svm.dense import Answers, Batch, solve_dense
from gramian.solvers.svm.row_cache import Index
from gramian.solvers.svm.smo import POLISHED, solve
from gramian.solvers.svm.tasks import Solution, Start, Task, start_of

Classes = tuple[int, int]
Members = NDArray[np.intp] | slice
EVERYBODY = slice(None)


@dataclass(slots=True)
class PairSVM:
    """The machine that separates one class (positive) from another."""

    classes: Classes  # Indices into ``classes_``
    task: Task  # The problem solved
    solution: Solution  # Its solution and certificate
    price: float = math.nan  # The C equivalent to ν
    nu: float = math.nan  # The ν used: feasible, and with a margin

    @property
    def beta(self) -> Vector:
        """(m,): The dual variables."""
        return self.solution.beta

    @property
    def scale(self) -> float:
        """Divisor that turns them into coefficients."""
        return self.solution.unit if self.task.scaled else 1.0

    @property
    def bias(self) -> float:
        """The bias, divided by the scale."""
        return self.solution.bias / self.scale if self.scale > 0 else np.nan

    @property
    def separates(self) -> bool:
        """Whether w is not zero."""
        return self.scale > 0 and not self.solution.vanished

    @property
    def values(self) -> Vector:
        """The decision values of all rows of the pair, including those left out of the fit."""
        return self.solution.values / self.scale + self.bias


@dataclass(frozen=True, eq=False)
class Machines:
    """The machines of all pairs of classes, concatenated as in ``Pairs.flat``."""

    batch: Batch  # The problems solved
    beta: Vector  # (m,): The dual variables
    values: Vector  # (m,): Kβ
    scales: Vector  # (p,): Divisors that turn β into coefficients
    biases: Vector  # (p,): The biases, already divided by the scales
    certificates: list[Certificate]
    convex: bool = True
    each: Sequence[PairSVM] = ()  # The machines one by one, if that is how they were found

    @classmethod
    def of(cls, each: list[PairSVM]) -> Machines:
        """Concatenate machines."""
        solutions, batch = [m.solution for m in each], Batch.of([m.task for m in each])
        beta, values = np.concatenate([m.beta for m in each]), np.concatenate([s.values for s in solutions])
        scales, biases = np.array([(m.scale, m.bias) for m in each]).T
        certificates, convex = [s.certificate for s in solutions], all(s.convex for s in solutions)
        return cls(batch, beta, values, scales, biases, certificates, convex, each)

    def start(self, growth: float) -> Start:
        """Return where to start if C grows by a factor."""
        return start_of(self.batch.task, self.beta, self.values, growth, self.batch.edges[:-1])


class Pairs:
    """The pairs of classes of one training set, and the kernel rows that they share.

    There is one row cache per class: kernel values of a row with its own class serve every pair of that class, those
    with another class serve one pair only. Pairs without a common class share nothing and are solved in parallel.
    """

    def __init__(self, X: Any, training: TrainingRows, sizes: Any, budget: float, weight: Vector) -> None:
        # With fewer than four classes any two pairs have a common class, so threads compute kernel rows instead.
        self.workers = training.rows.workers if len(sizes) > 3 else 1
        self.kernel_rows = training.rows.on(1) if self.workers > 1 else training.rows
        self.X, self.training, self.weight = X, training, weight
        edges = np.cumsum([0, *sizes])
        self.blocks = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        self.budget = budget
        self.classes = list(combinations(range(len(sizes)), 2))
        self.dense_failed = False
        """Whether ``dense`` has failed on the only pair and need not try again."""

    @cached_property
    def caches(self) -> list[Any]:
        """One row cache per class; for two classes, a single cache of all columns, which allows shrinking."""
        parts = [slice(0, self.blocks[-1].stop)] if len(self.blocks) == 2 else self.blocks
        return self.kernel_rows.caches(parts, self.budget)

    @cached_property
    def flat(self) -> tuple[Index, Index, Vector, Index]:
        """All pairs concatenated: where each begins and the last ends, row numbers, signs, rows of ``dual_coef_``."""
        pairs, starts = np.array(self.classes), np.array([block.start for block in self.blocks])
        sizes = np.diff([*starts, self.blocks[-1].stop])[pairs].ravel()
        ends = np.cumsum(sizes)
        rows = np.arange(ends[-1]) + np.repeat(starts[pairs].ravel() - ends + sizes, sizes)
        lines, signs = pairs[:, ::-1] - (1, 0), np.array([1.0, -1.0] * len(pairs))
        return np.array([0, *ends[1::2]]), rows, np.repeat(signs, sizes), np.repeat(lines.ravel(), sizes)

    def of(self, pair: Classes, values: NDArray[Any]) -> NDArray[Any]:
        """Return the entries of values (n,) that belong to the rows of a pair."""
        return np.concatenate([values[self.blocks[c]] for c in pair])

    def signs(self, pair: Classes) -> Vector:
        """Return 1 for the rows of the first class of a pair, -1 for those of the second."""
        first, second = (self.blocks[c] for c in pair)
        return np.repeat([1.0, -1.0], [first.stop - first.start, second.stop - second.start])

    def solve(
        self, pair: Classes, task: Task, members: Members = EVERYBODY, *, intercept: bool = True, **options: Any
    ) -> PairSVM:
        """Solve a task on all rows of a pair, or on the ``members``."""
        total = sum(self.blocks[c].stop - self.blocks[c].start for c in pair)
        task = replace(task, objects=np.arange(total)[members][task.objects])
        caches = self.caches if len(self.caches) == 1 else [self.caches[c] for c in pair]
        rows = self.kernel_rows.reader(caches)
        if not intercept:  # an extra object at the origin takes up the sum constraint
            found = solve(task.anchored(total), AnchoredRows(rows), **options)
            found = replace(found, beta=found.beta[:-1], values=found.values[:-1], multipliers=(0.0, 0.0))
            return PairSVM(pair, task, found)
        if self.dense_failed and members is EVERYBODY:
            rows.whole = None
        return PairSVM(pair, task, solve(task, rows, **options))

    @property
    def dense(self) -> Vector | None:
        """The whole kernel matrix, if it is small enough to solve all pairs on it together."""
        rows = self.training.rows
        return rows.whole if len(self.classes) > 1 else rows.alone

    def solve_together(self, K: Vector, batch: Batch, tol: float, max_iter: int) -> Answers:
        """Solve all pairs together on the whole kernel matrix."""
        rows = self.training.rows
        found = solve_dense(K, batch, tol, rows.rounding, POLISHED, max_iter, rows.workers)
        self.dense_failed = len(self.classes) == 1 and not found.met[0]
        return found

    def solved(self, found: Answers | None) -> dict[Classes, PairSVM]:
        """Return the pairs whose certificate holds, one by one."""
        every = () if found is None else zip(self.classes, found.batch.tasks(), found.solutions(), strict=True)
        return {pair: PairSVM(pair, task, solution) for pair, task, solution in every if solution is not None}

    def map(self, work: Callable[[Classes, Clock], Any], clock: Clock) -> list[Any]:
        """Return ``work(pair, clock)`` for every pair; pairs without a common class run in parallel."""
        stop = threading.Event()
        clock = replace(clock, stop=stop)
        order = [pair for part in rounds(len(self.blocks)) for pair in part]
        done = {pair: threading.Event() for pair in order}

        def in_turn(pair: Classes) -> Any:
            # The pairs of a class run in a fixed order, so that the contents of its cache do not depend on timing.
            try:
                for earlier in order[: order.index(pair)]:
                    if not set(pair).isdisjoint(earlier):
                        done[earlier].wait()
                return work(pair, clock)
            except BaseException:
                stop.set()
                raise
            finally:
                done[pair].set()

        found = dict(zip(order, run(in_turn, order, self.workers, stop), strict=True))
        return [found[pair] for pair in self.classes]


def rounds(k: int) -> list[list[Classes]]:
    """Return all pairs of k classes in rounds of disjoint pairs: the round-robin (circle) method."""
    seats = [*range(k), *[-1] * (k % 2)]  # for odd k, one class sits out each round
    found = []
    for _ in range(len(seats) - 1):
        facing = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        found.append(sorted((min(p), max(p)) for p in facing if -1 not in p))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return found


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(OneVsOne):
    """Base class of SVC and NuSVC: one machine per pair of classes. Not for direct use.

    Parameters
    ----------
    {those of SupportVectorMachine}
    probability : bool or "consistent", default=False
        Whether to learn probabilities, by Platt's sigmoid on stratified folds. With ``"consistent"``, ``predict`` is
        always the class of the largest probability; with ``True`` the two may differ, as in scikit-learn.
    class_weight : dict, "balanced" or None, default=None
        Factors on C by class; ``"balanced"`` gives every class the same total.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        One decision value per class, or per pair of classes.
    break_ties : bool, default=False
        Whether votes that tie are decided by the "ovr" decision values.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the folds for probabilities.
    max_iter : int, default=-1
        Limit on pair steps for each pair of classes; -1 for no limit.

    Attributes
    ----------
    classes_ : array of shape (k,)
        The labels.
    class_weight_ : array of shape (k,)
        Factors on C.
    support_ : array of shape (s,)
        Indices of the support vectors among the training rows, class by class.
    dual_coef_ : array or CSR of shape (k - 1, s)
        Their coefficients, as scikit-learn lays them out.
    intercept_ : array of shape (k (k - 1) / 2,)
        The biases.
    certificate_ : Certificate
        Primal and dual value, relative gap, worst KKT violation, for the worst pair of classes.
    certificates_ : list of Certificate
        Certificates of all pairs.
    kinds_ : array of shape (n,)
        ``"peripheral"``, ``"margin"`` or ``"violator"`` for every training row; over several pairs, the most serious.
    multipliers_ : array of shape (n,), or (n, k (k - 1) / 2) for more than two classes
        The multipliers λ >= 0 of every training row.
    margin_ : float or array of shape (k (k - 1) / 2,)
        1/‖w‖, the distance from boundary to margin in feature space.
    n_iter_ : array of shape (k (k - 1) / 2,)
        Pair steps taken.
    coef_ : array of shape (k (k - 1) / 2, m)
        Weights of the inputs for ``kernel="linear"``; with ``approximation``, of the map's features.
    probA_, probB_ : array of shape (k (k - 1) / 2,)
        Parameters of Platt's sigmoids; empty without probabilities.
    {those of SupportVectorMachine}
    """

    probability: bool | str = False
    class_weight: Any = None
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    random_state: Any = None

    _immediate: ClassVar[bool]
    """Whether the solutions of the first problems are final."""
    _machine: ClassVar[Callable[..., PairSVM]]
    """Fit the machine of one pair of classes, to all of its rows or some of them."""
    _task: ClassVar[Callable[..., Task]]
    """The first optimisation problem that ``_machine`` solves."""
    _one_class: ClassVar[str] = "Invalid input - all samples with positive weights belong to the same class: "
    """scikit-learn's message if only one class has rows of positive weight."""
    _over_blocks = f"KernelMachineClassifier('hinge', lam=1/(n C), {NYSTROEM})"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SupportVectorMachine._parameter_constraints,
        "probability": ["boolean", StrOptions({"consistent"}), Hidden(StrOptions({"deprecated"}))],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
    }

    def _batch(self, pairs: Pairs, start: Start | None) -> Batch | None:
        """The first problems of all pairs; None if they cannot be solved together."""
        batch = Batch.of([self._task(pairs, pair) for pair in pairs.classes])
        return replace(batch, task=replace(batch.task, objects=pairs.flat[1]))

    def _check_feasible(self, pairs: Pairs) -> None:
        """Raise an error if no dual point is feasible with these parameters."""

    def _no_margin(self, machine: PairSVM, pairs: Pairs, a: Any, b: Any) -> str:
        """The error message if w = 0 for classes a and b."""
        raise NotImplementedError

    def _set_up(self, X: Any, y: Any, sample_weight: Any) -> Pairs:
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
        self.class_weight_ = class_weights(self.class_weight, self.classes_, np.bincount(codes, training.weight))
        weight = training.weight * self.class_weight_[codes]
        return Pairs(X, training, sizes, self.cache_size * MEGABYTE, weight)

    def _learn(self, pairs: Pairs, start: Start | None = None) -> Callable[[float], Start]:
        """Solve every pair and set the fitted attributes; return where to start if C grows by a factor."""
        self._check_feasible(pairs)
        options, limit = self._solver_options(), Clock(self.max_time)
        with progress(self.verbose, type(self).__name__) as tick:
            together = tick is silent and self.max_time is None  # progress and time limits need pair-by-pair solves
            K = pairs.dense if together else None
            batch = None if K is None else self._batch(pairs, start)
            found = None if K is None or batch is None else pairs.solve_together(K, batch, self.tol, self.max_iter)
            if found is not None and self._immediate and found.met.all() and np.all(found.scales > 0):
                figures = found.scales, found.biases, found.certificates()
                machines = Machines(found.batch, found.beta, found.values, *figures)
            else:
                machines = self._one_by_one(pairs, pairs.solved(found), start, limit, {"tick": tick, **options})
            sigmoids = self._sigmoids(pairs, limit, options) if self.probability not in (False, "deprecated") else []
        self._keep_machines(pairs, machines)
        self.probA_, self.probB_ = np.array(sigmoids, dtype=np.float64).reshape(-1, 2).T
        self._report(machines.certificates, machines.convex)
        return machines.start

    def _one_by_one(
        self, pairs: Pairs, first: dict[Classes, PairSVM], start: Start | None, limit: Clock, options: dict[str, Any]
    ) -> Machines:
        """Finish the pairs whose first problem is solved, and solve the others."""
        edges = dict(zip(pairs.classes, pairwise(pairs.flat[0].tolist()), strict=True))

        def learned(pair: Classes, clock: Clock) -> PairSVM:
            given: dict[str, Any] = {"start": start and start.part(*edges[pair]), "first": first.get(pair)}
            machine = self._machine(pairs, pair, **given, clock=clock, **options)
            if not machine.separates:
                raise ValueError(self._no_margin(machine, pairs, *(self.classes_.tolist()[c] for c in pair)))
            return machine

        solved = len(first) == len(pairs.classes)
        return Machines.of([learned(pair, limit) for pair in pairs.classes] if solved else pairs.map(learned, limit))

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

    def _keep_machines(self, pairs: Pairs, machines: Machines) -> None:
        training, blocks, k = pairs.training, pairs.blocks, len(self.classes_)
        dual = np.zeros((k - 1, training.kept.size))
        kind = np.zeros(training.kept.size, dtype=np.intp)
        _, rows, _, lines = pairs.flat
        batch, beta, scales = machines.batch, machines.beta, machines.scales
        dual[lines, rows] = beta / np.repeat(scales, batch.sizes)
        np.maximum.at(kind, rows, kinds(beta, batch.task.lower, batch.task.upper))
        used = np.flatnonzero(dual.any(axis=0))
        self._n_support = np.diff(np.searchsorted(used, [0, *(block.stop for block in blocks)])).astype(np.int32)
        sign = -1.0 if k == 2 else 1.0
        self._keep(pairs.X, training, used, sign * dual[:, used], kind)
        self.intercept_ = sign * machines.biases
        self.n_iter_ = np.array([c.iterations for c in machines.certificates], dtype=np.int32)
        # 1/‖w‖, the distance from the boundary to the margin in feature space.
        norm2 = batch.sums(beta * machines.values)
        margins = np.full(len(batch), np.inf)
        np.divide(scales, np.sqrt(np.maximum(norm2, 0.0)), out=margins, where=norm2 > 0)
        self.margin_ = float(margins[0]) if k == 2 else margins
