"""Support vector classification: SVC and its path over C, NuSVC, and the pairs of classes that they are made of."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import column_or_1d, compute_class_weight
from sklearn.utils._param_validation import Hidden, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets

from gramian.estimators.base import COMMON, NYSTROEM, restored_on_failure, row_weights, validated
from gramian.estimators.duality import FittedTo, HardMargin, Program
from gramian.estimators.svm.base import MEGABYTE, SupportVectorMachine, Training, Vector, kinds
from gramian.estimators.svm.one_vs_one import FOLDS, OneVsOne, fit_sigmoid, stratified_folds
from gramian.features.base import parameters_checked
from gramian.losses import Hinge
from gramian.progress import Clock, progress, silent
from gramian.resources import random_of, run
from gramian.solvers.machine.origin_row import AnchoredRows
from gramian.solvers.svm import tasks as svm_tasks
from gramian.solvers.svm.dense import Batch, solve_dense
from gramian.solvers.svm.row_cache import Index
from gramian.solvers.svm.smo import POLISHED, solve
from gramian.solvers.svm.tasks import Solution, Task, start_of

Classes = tuple[int, int]
Members = NDArray[np.intp] | slice
EVERYBODY = slice(None)
HARD = (1e2, 1e4, 1e7)
"""Bounds on multipliers that stand for ``C=inf`` without a bias, in the units of k."""
SHOWN = 10
"""Rows in conflict that an error names."""


@dataclass(frozen=True)
class Pair:
    """The machine that tells one class (positive) from another."""

    classes: Classes  # Positions in ``classes_``
    beta: Vector  # (m,): The dual variables
    scale: float  # What they have to be divided by
    bias: float  # The bias, already divided
    task: Task  # What was solved
    solution: Solution  # How it ended
    price: float = math.nan  # The C that ν stands for
    nu: float = math.nan  # The ν that was feasible and left a margin

    @property
    def coefficients(self) -> Vector:
        """The dual variables of the expansion."""
        return self.beta / self.scale

    @property
    def separates(self) -> bool:
        """Whether the machine has a direction: its w is not zero."""
        return self.scale > 0 and not self.solution.vanished

    @property
    def values(self) -> Vector:
        """The decision values of all rows of the pair, learned from or not."""
        return self.solution.values / self.scale + self.bias

    @property
    def margin(self) -> float:
        """1/‖w‖: the distance from the boundary to the margin, in feature space."""
        square = float(np.dot(self.beta, self.solution.values[self.task.objects])) / self.scale**2
        return float(1.0 / np.sqrt(square)) if square > 0 else np.inf


class Pairs:
    """The pairs of classes of one training set, and the kernel rows that they share.

    Row caches are kept by class: a row's kernel with its own class serves every pair of that class, and the rest of it
    is wanted by one pair only. Pairs without a class in common share nothing, and are solved side by side.
    """

    def __init__(self, training: Training, sizes: Any, budget: float, weight: Vector) -> None:
        # With fewer than four classes any two pairs share one: threads make kernel rows instead.
        self.workers = training.rows.workers if len(sizes) > 3 else 1
        self.kernel_rows = training.rows.on(1) if self.workers > 1 else training.rows
        self.training, self.weight = training, weight
        edges = np.cumsum([0, *sizes])
        self.blocks = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        self.budget = budget
        self.classes = list(combinations(range(len(sizes)), 2))

    @cached_property
    def caches(self) -> list[Any]:
        """A row cache of every class; two classes need no sharing, and one cache of all columns can shrink."""
        parts = [slice(0, self.blocks[-1].stop)] if len(self.blocks) == 2 else self.blocks
        return self.kernel_rows.caches(parts, self.budget)

    @cached_property
    def flat(self) -> tuple[list[slice], Index, Vector, Index]:
        """Of all pairs, one behind the other: where each stands; rows, signs, and lines of ``dual_coef_``."""
        rows = [np.arange(block.start, block.stop) for block in self.blocks]
        parts = [rows[c] for pair in self.classes for c in pair]
        sizes = [part.size for part in parts]
        ends = np.cumsum(sizes)[1::2].tolist()
        lines = np.repeat([line for i, j in self.classes for line in (j - 1, i)], sizes)
        signs = np.repeat(np.tile([1.0, -1.0], len(self.classes)), sizes)
        return [slice(*ends_) for ends_ in pairwise([0, *ends])], np.concatenate(parts), signs, lines

    def of(self, pair: Classes, values: NDArray[Any]) -> NDArray[Any]:
        """Return what belongs to the rows of a pair: values (n,)."""
        return np.concatenate([values[self.blocks[c]] for c in pair])

    def signs(self, pair: Classes) -> Vector:
        """Return 1 for the rows of the first class of a pair, -1 for those of the second."""
        first, second = (self.blocks[c] for c in pair)
        return np.repeat([1.0, -1.0], [first.stop - first.start, second.stop - second.start])

    def solve(
        self, pair: Classes, task: Task, members: Members = EVERYBODY, *, intercept: bool = True, **options: Any
    ) -> Pair:
        """Solve a task of some rows of a pair."""
        total = sum(self.blocks[c].stop - self.blocks[c].start for c in pair)
        task = replace(task, objects=np.arange(total)[members][task.objects])
        caches = self.caches if len(self.caches) == 1 else [self.caches[c] for c in pair]
        if not intercept:  # an object at the origin absorbs what the others sum to
            rows = AnchoredRows(self.kernel_rows.among(caches))
            found = solve(task.anchored(total), rows, **options)
            found = replace(found, beta=found.beta[:-1], values=found.values[:-1], multipliers=(0.0, 0.0))
            return Pair(pair, found.beta, 1.0, 0.0, task, found)
        return _machine(pair, task, solve(task, self.kernel_rows.among(caches), **options))

    def solve_together(
        self, make: Callable[[Pairs], Batch | None], *, tol: float, max_iter: int, shrinking: bool
    ) -> dict[Classes, Pair]:
        """Solve several pairs on one dense matrix where that is small; return those where it succeeded."""
        rows = self.training.rows
        batch = make(self) if len(self.classes) > 1 and rows.whole is not None else None
        if batch is None or rows.whole is None:
            return {}
        found = solve_dense(rows.whole, batch, tol, rows.rounding, POLISHED, max_iter, rows.workers)
        solved = zip(self.classes, batch.tasks(), found.solutions(), strict=True)
        return {pair: _machine(pair, task, solution) for pair, task, solution in solved if solution is not None}

    def map(self, work: Callable[[Classes, Clock], Any], clock: Clock) -> list[Any]:
        """Return what some work makes of every pair; those without a class in common are worked on side by side."""
        stop = threading.Event()
        clock = replace(clock, stop=stop)
        order = [pair for part in rounds(len(self.blocks)) for pair in part]
        done = {pair: threading.Event() for pair in order}

        def in_turn(pair: Classes) -> Any:
            # Every class goes through its pairs in order: what a cache holds does not depend on which is faster.
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


def _machine(pair: Classes, task: Task, solution: Solution) -> Pair:
    scale = solution.unit if task.scaled else 1.0
    bias = solution.bias / scale if scale > 0 else np.nan
    return Pair(pair, solution.beta, scale, bias, task, solution)


def rounds(k: int) -> list[list[Classes]]:
    """Return all pairs of k classes by rounds in which no class comes twice: the circle method of tournaments."""
    seats = [*range(k), *[-1] * (k % 2)]  # of an odd number, one rests
    found = []
    for _ in range(len(seats) - 1):
        facing = zip(seats[: len(seats) // 2], reversed(seats[len(seats) // 2 :]), strict=True)
        found.append(sorted((min(p), max(p)) for p in facing if -1 not in p))
        seats = [seats[0], seats[-1], *seats[1:-1]]
    return found


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(OneVsOne):
    """What SVC and NuSVC share: a machine for every pair of classes. Not for direct use."""

    probability: bool | str = False
    class_weight: Any = None
    decision_function_shape: str = "ovr"
    break_ties: bool = False
    random_state: Any = None

    _machine: ClassVar[Callable[..., Pair]]
    """Solve for one pair, from some of its rows."""
    _task: ClassVar[Callable[..., Task]]
    """The first program that it solves."""
    _one_class: ClassVar[str] = "Invalid input - all samples with positive weights belong to the same class: "
    """What scikit-learn says where weights leave one class."""
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
        """The first programs of all pairs; None where they are not to be solved together."""
        spans, rows, _, _ = pairs.flat
        tasks = [self._task(pairs, pair, start=starts.get(pair)) for pair in pairs.classes]
        return Batch.of([replace(task, objects=rows[span]) for task, span in zip(tasks, spans, strict=True)])

    def _check_feasible(self, pairs: Pairs) -> None:
        """Refuse a parameter that no feasible point meets."""

    def _no_margin(self, machine: Pair, pairs: Pairs, a: Any, b: Any) -> str:
        """What to say where the answer for classes a and b has norm zero."""
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
        labels = y.ndim == 1 and y.dtype.kind in "iubU"  # to look closer at what can be nothing else takes a while
        if not labels:
            check_classification_targets(y)
            y = column_or_1d(y, warn=True)
        self._fitted_to = FittedTo(X, y, sample_weight)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if labels and 2 * len(self.classes_) > y.size:
            check_classification_targets(y)  # it warns where there are so many that they may be numbers to predict
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
        """Fit machines that differ in ``_along`` only, on the same kernel rows, each from where the last one ended."""
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
            # By weight and not by count, so that a weight of two is the same as a row twice.
            totals = np.bincount(codes, weights=weight)
            return np.asarray(totals.sum() / (len(totals) * totals))
        return np.asarray(compute_class_weight(self.class_weight, classes=self.classes_, y=y))

    def _learn(self, X: Any, pairs: Pairs, starts: dict[Classes, Vector | None] | None = None) -> list[Pair]:
        """Solve every pair, then keep what there is to keep."""
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
            if tick is silent and self.max_time is None:  # who watches, or sets a limit, has one pair after the other
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
        """The sigmoid of each pair, fitted to decision values of rows that the machine has not seen.

        All folds use the pair's kernel rows, and the decision values of the rows left out fall out of the solver, which
        keeps Kβ for every row.
        """
        rng = random_of(self.random_state)
        # Drawn beforehand, so that it does not matter which pair comes first.
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


@dataclass(eq=False, repr=False, kw_only=True)
class SVC(Classifier):
    """Support vector classification: ``½‖w‖² + C Σ max(0, 1 - y_i f(x_i))``.

    scikit-learn's parameters and attributes, on a solver that uses every core, answers Ctrl-C and certifies what it
    found. More than two classes are told apart pair by pair. ``C=inf`` is the hard margin, and says so where the
    data cannot be separated.

    Parameters
    ----------
    C : float, default=1.0
        The price of slack; infinite for a hard margin.
    fit_intercept : bool, default=True
        Whether the machine has a bias. Without one the boundary is ``<w, ψ(x)> = 0``, the multipliers need not balance,
        and ``intercept_`` is zero.
    kernel : Kernel, str or callable, default="rbf"
        A gramian kernel, a name that scikit-learn knows, ``"precomputed"``, or a function of two matrices.
    degree : int, default=3
        Of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Of the named kernels: ``"scale"`` is 1 / (d var(X)), ``"auto"`` is 1 / d.
    coef0 : float, default=0.0
        Of the polynomial and sigmoid kernels.
    shrinking : bool, default=True
        Whether settled variables may rest for a while when the kernel rows do not fit the cache.
    probability : bool or "consistent", default=False
        Whether to learn probabilities, by Platt's sigmoid on stratified folds. With ``"consistent"``, ``predict`` is
        always the class of the largest probability; with ``True`` the two may differ, as in scikit-learn.
    tol : float, default=1e-3
        Bound on the worst KKT violation and on the relative duality gap.
    cache_size : float, default=200
        Megabytes for kernel rows, at most; kernels that are cheap to compute again take 256.
    class_weight : dict, "balanced" or None, default=None
        Factors on C by class; ``"balanced"`` gives every class the same total.
    verbose : bool, default=False
        Whether to show progress: steps, duality gap and violation.
    max_iter : int, default=-1
        Pair steps allowed for each pair of classes; -1 for no limit.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        One decision value per class, or per pair of classes.
    break_ties : bool, default=False
        Whether votes that tie are decided by the "ovr" decision values.
    random_state : int, RandomState, Generator or None, default=None
        Source of the folds for probabilities.
    approximation : map or None, default=None
        ``Nystroem``, ``FourierFeatures`` or another map ψ: the machine is then the exact one of the kernel
        ``<ψ(x), ψ(z)>``, and so is its certificate. The kernel is set here, not on the map.
    max_time : float or None, default=None
        Seconds allowed.
    n_jobs : int or None, default=None
        Threads; by default all cores.
    memory : int, str or None, default=None
        Bytes for tiles of the kernel at predict.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU on which kernel rows are made, through torch (``pip install '.[gpu]'``); ``"auto"`` takes one where
        there is one and the kernel can run there. Files of the model do not keep it.

    Attributes
    ----------
    classes_ : array of shape (k,)
        The labels.
    class_weight_ : array of shape (k,)
        Factors on C.
    support_ : array of shape (s,)
        Which training rows are support vectors, class by class.
    support_vectors_ : array or CSR of shape (s, d)
        Those rows; empty for a precomputed kernel and with a map, which predicts without them.
    dual_coef_ : array or CSR of shape (k - 1, s)
        Their coefficients, as scikit-learn lays them out.
    intercept_ : array of shape (k (k - 1) / 2,)
        The biases.
    certificate_ : Certificate
        Primal and dual value, relative gap, worst KKT violation; of the worst pair of classes.
    certificates_ : list of Certificate
        Of every pair.
    kinds_ : array of shape (n,)
        ``"peripheral"``, ``"margin"`` or ``"violator"`` for every training row; the gravest over the pairs.
    multipliers_ : array of shape (n,), or (n, k (k - 1) / 2) for more than two classes
        The multipliers λ >= 0 of every training row.
    margin_ : float or array of shape (k (k - 1) / 2,)
        1/‖w‖, the distance from boundary to margin in feature space.
    n_iter_ : array of shape (k (k - 1) / 2,)
        Pair steps taken.
    fit_status_ : int
        0 where the certificate says converged, else 1.
    shape_fit_ : tuple of int
        Shape of the training rows.
    approximation_ : estimator
        The fitted map, where there is one.
    coef_ : array of shape (k (k - 1) / 2, m)
        Weights of the inputs for ``kernel="linear"``; of the map's features where there is one.
    probA_, probB_ : array of shape (k (k - 1) / 2,)
        The sigmoids; empty without probabilities.

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
    _parameter_constraints = {  # noqa: RUF012
        **Classifier._parameter_constraints,
        "fit_intercept": ["boolean"],
        "C": [Interval(Real, 0.0, None, closed="right")],
    }

    def _task(self, pairs: Pairs, pair: Classes, members: Members = EVERYBODY, start: Vector | None = None) -> Task:
        y = pairs.signs(pair)[members]
        if math.isinf(self.C):
            return svm_tasks.hard_margin(y)
        return svm_tasks.classification(y, self.C * pairs.of(pair, pairs.weight)[members], start)

    def _machine(
        self,
        pairs: Pairs,
        pair: Classes,
        members: Members = EVERYBODY,
        start: Vector | None = None,
        first: Pair | None = None,
        **options: Any,
    ) -> Pair:
        if first is not None or self.fit_intercept:
            return first or pairs.solve(pair, self._task(pairs, pair, members, start), members, **options)

        def alone(task: Task) -> Pair:
            return pairs.solve(pair, task, members, intercept=False, **options)

        if math.isinf(self.C):
            return _hard(pairs.signs(pair)[members], alone, pairs)
        return alone(self._task(pairs, pair, members))

    def _batch(self, pairs: Pairs, starts: dict[Classes, Vector | None]) -> Batch | None:
        if not self.fit_intercept:
            return None  # one pair after the other
        if math.isinf(self.C) or starts:
            return super()._batch(pairs, starts)
        spans, rows, y, _ = pairs.flat
        task, edges = svm_tasks.classification(y, self.C * pairs.weight[rows]), np.array([0, *(s.stop for s in spans)])
        return Batch(replace(task, objects=rows), edges, np.diff(edges))

    def _price(self, pair: int) -> float:
        return self.C

    def _no_margin(self, machine: Pair, pairs: Pairs, a: Any, b: Any) -> str:
        # The rows that carry the common point of the two hulls, heaviest first.
        heavy = np.argsort(-np.abs(machine.beta), kind="stable")
        heavy = pairs.of(machine.classes, pairs.training.kept)[heavy[np.abs(machine.beta[heavy]) > 1e-6]]
        more = f" and {heavy.size - SHOWN} more" if heavy.size > SHOWN else ""
        bias = "" if self.fit_intercept else " without a bias"
        return (
            f"classes {a!r} and {b!r} cannot be separated by this kernel{bias}, so C=inf has no solution; the rows in "
            f"conflict are {heavy[:SHOWN].tolist()}{more}. Use a finite C, or a kernel that tells them apart."
        )


def _hard(y: Vector, solve: Callable[[Task], Pair], pairs: Pairs) -> Pair:
    """The hard margin without a bias: a soft one with a bound that no multiplier reaches, unless all are reached."""
    unit = float(np.mean(pairs.kernel_rows.diagonal())) or 1.0
    for bound in (C / unit for C in HARD):
        found = solve(svm_tasks.classification(y, np.full(y.size, bound)))
        if (largest := float(np.abs(found.beta).max())) < bound:
            # Any such bound has the same solution; the smallest makes the best certificate.
            return solve(svm_tasks.classification(y, np.full(y.size, 2.0 * largest), found.beta))
    return replace(found, solution=replace(found.solution, vanished=True))


@dataclass(eq=False, repr=False, kw_only=True)
class NuSVC(Classifier):
    """Support vector classification with ν in the place of C: at most a share ν of the rows are margin errors.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound on the share of margin errors, lower bound on the share of support vectors.
    kernel : Kernel, str or callable, default="rbf"
        A gramian kernel, a name that scikit-learn knows, ``"precomputed"``, or a function of two matrices.
    degree : int, default=3
        Of the polynomial kernel.
    gamma : {"scale", "auto"} or float, default="scale"
        Of the named kernels: ``"scale"`` is 1 / (d var(X)), ``"auto"`` is 1 / d.
    coef0 : float, default=0.0
        Of the polynomial and sigmoid kernels.
    shrinking : bool, default=True
        Whether settled variables may rest for a while when the kernel rows do not fit the cache.
    probability : bool or "consistent", default=False
        Whether to learn probabilities, by Platt's sigmoid on stratified folds. With ``"consistent"``, ``predict`` is
        always the class of the largest probability; with ``True`` the two may differ, as in scikit-learn.
    tol : float, default=1e-3
        Bound on the worst KKT violation and on the relative duality gap.
    cache_size : float, default=200
        Megabytes for kernel rows, at most; kernels that are cheap to compute again take 256.
    class_weight : dict, "balanced" or None, default=None
        Factors, by class, on the C that ν stands for; ``"balanced"`` gives every class the same total.
    verbose : bool, default=False
        Whether to show progress: steps, duality gap and violation.
    max_iter : int, default=-1
        Pair steps allowed for each pair of classes; -1 for no limit.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        One decision value per class, or per pair of classes.
    break_ties : bool, default=False
        Whether votes that tie are decided by the "ovr" decision values.
    random_state : int, RandomState, Generator or None, default=None
        Source of the folds for probabilities.
    approximation : map or None, default=None
        ``Nystroem``, ``FourierFeatures`` or another map ψ: the machine is then the exact one of the kernel
        ``<ψ(x), ψ(z)>``, and so is its certificate. The kernel is set here, not on the map.
    max_time : float or None, default=None
        Seconds allowed.
    n_jobs : int or None, default=None
        Threads; by default all cores.
    memory : int, str or None, default=None
        Bytes for tiles of the kernel at predict.
    device : {"cuda", "cuda:0", ..., "auto"} or None, default=None
        A GPU on which kernel rows are made, through torch (``pip install '.[gpu]'``); ``"auto"`` takes one where
        there is one and the kernel can run there. Files of the model do not keep it.

    Attributes
    ----------
    classes_ : array of shape (k,)
        The labels.
    class_weight_ : array of shape (k,)
        Factors on the C that ν stands for.
    support_ : array of shape (s,)
        Which training rows are support vectors, class by class.
    support_vectors_ : array or CSR of shape (s, d)
        Those rows; empty for a precomputed kernel and with a map, which predicts without them.
    dual_coef_ : array or CSR of shape (k - 1, s)
        Their coefficients, as scikit-learn lays them out.
    intercept_ : array of shape (k (k - 1) / 2,)
        The biases.
    nu_ : array of shape (k (k - 1) / 2,)
        ν of each pair: lower than ``nu`` where a class has too few rows for it, higher where it would leave no margin
        (of more than two classes only; both with a warning).
    C_ : array of shape (k (k - 1) / 2,)
        The C that ν stands for: the coefficient of a row is at most C times its weight and that of its class.
    certificate_ : Certificate
        Primal and dual value, relative gap, worst KKT violation; of the worst pair of classes.
    certificates_ : list of Certificate
        Of every pair.
    kinds_ : array of shape (n,)
        ``"peripheral"``, ``"margin"`` or ``"violator"`` for every training row; the gravest over the pairs.
    multipliers_ : array of shape (n,), or (n, k (k - 1) / 2) for more than two classes
        The multipliers λ >= 0 of every training row.
    margin_ : float or array of shape (k (k - 1) / 2,)
        1/‖w‖, the distance from boundary to margin in feature space.
    n_iter_ : array of shape (k (k - 1) / 2,)
        Pair steps taken.
    fit_status_ : int
        0 where the certificate says converged, else 1.
    shape_fit_ : tuple of int
        Shape of the training rows.
    approximation_ : estimator
        The fitted map, where there is one.
    coef_ : array of shape (k (k - 1) / 2, m)
        Weights of the inputs for ``kernel="linear"``; of the map's features where there is one.
    probA_, probB_ : array of shape (k (k - 1) / 2,)
        The sigmoids; empty without probabilities.

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
    _parameter_constraints = {  # noqa: RUF012
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
        warnings.warn(
            f"nu={self.nu:.4g} is infeasible for some pairs of classes ({what}), and was lowered for them.",
            stacklevel=4,
        )

    def _task(
        self,
        pairs: Pairs,
        pair: Classes,
        members: Members = EVERYBODY,
        start: Vector | None = None,
        nu: float | None = None,
    ) -> Task:
        weight = pairs.of(pair, pairs.training.weight)[members]
        return svm_tasks.nu_classification(pairs.signs(pair)[members], weight, self.nu if nu is None else nu)

    def _machine(
        self,
        pairs: Pairs,
        pair: Classes,
        members: Members = EVERYBODY,
        start: Vector | None = None,
        first: Pair | None = None,
        **options: Any,
    ) -> Pair:
        """Find the C that ν stands for; class weights, where there are any, then multiply that C."""
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

    def _keep_machines(self, X: Any, pairs: Pairs, machines: list[Pair]) -> None:
        super()._keep_machines(X, pairs, machines)
        self.C_ = np.array([machine.price for machine in machines])
        self.nu_ = np.array([machine.nu for machine in machines])
        if raised := [machine for machine in machines if machine.nu > self.nu]:
            a, b = (self.classes_.tolist()[c] for c in raised[0].classes)
            warnings.warn(
                f"nu={self.nu:.4g} leaves {len(raised)} pairs of classes no margin with this kernel, and was raised "
                f"for them (to {raised[0].nu:.4g} for {a!r} and {b!r}).",
                stacklevel=5,
            )

    def _price(self, pair: int) -> float:
        return float(self.C_[pair])

    def _no_margin(self, machine: Pair, pairs: Pairs, a: Any, b: Any) -> str:
        enough = self._enough(pairs, machine.classes)
        return (
            f"nu={self.nu:.4g} leaves classes {a!r} and {b!r} no margin with this kernel: their reduced hulls overlap; "
            + (f"raise nu, which makes them smaller ({enough} is enough), or " if enough else "no larger nu helps; ")
            + "use a kernel that tells the classes apart."
        )

    def _enough(self, pairs: Pairs, pair: Classes) -> str | None:
        """A larger nu that leaves a margin, where one is found."""
        limit = self._largest_nu(pairs, pair)
        for share in (0.25, 0.5, 0.75, 1.0):
            nu = _below(share * limit)
            if float(nu) <= self.nu:
                continue
            if pairs.solve(pair, self._task(pairs, pair, nu=float(nu)), **self._solver_options()).separates:
                return nu
        return None


def _below(limit: float) -> str:
    """Four digits of a number that is not above the limit."""
    return f"{limit if float(f'{limit:.4g}') <= limit else 0.999 * limit:.4g}"


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
    SVC._fit_path(machines, X, y, sample_weight)
    return machines
