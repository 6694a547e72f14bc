"""Support vector machines with a single function: SVR, NuSVR and OneClassSVM."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import OutlierMixin, RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _num_samples, check_is_fitted

from gramian.data.blocks import by_blocks
from gramian.docstrings import documented
from gramian.estimators.base import NYSTROEM, row_weights, validated
from gramian.estimators.duality import Array, Below, FittedTo, HardTube, Program
from gramian.estimators.svm.base import MEGABYTE, SupportVectorMachine, TrainingRows, kinds
from gramian.estimators.svm.expansion import Vector
from gramian.kernels.points import dense
from gramian.losses import EpsilonInsensitive
from gramian.progress import Clock, progress
from gramian.solvers.svm import tasks as svm_tasks
from gramian.solvers.svm.smo import solve
from gramian.solvers.svm.tasks import Solution, Start, Task, start_of

EDGE = 1e-12
SLACK = 1e-9
"""By how much a multiplier may exceed its bound, relative to the bound."""
HARD = 1e7
"""The finite bound on multipliers used for ``C=inf`` in regression, in units of y / k."""


@dataclass(frozen=True)
class Prepared:
    """Validated rows, their targets and their kernel rows, for one machine or a path of them."""

    X: Any
    y: Any  # (n,): Targets of all rows; zeros without targets
    training: TrainingRows
    caches: Any


@documented
class _Single(SupportVectorMachine):
    """Base class of the machines with one function. Not for direct use.

    Attributes
    ----------
    support_ : array of shape (s,)
        Indices of the support vectors among the training rows.
    dual_coef_ : array or CSR of shape (1, s)
        Their coefficients.
    intercept_ : array of shape (1,)
        The bias.
    certificate_ : Certificate
        Primal and dual value, relative gap, worst KKT violation.
    n_iter_ : int
        Pair steps taken.
    coef_ : array of shape (1, m)
        Weights of the inputs for ``kernel="linear"``; with ``approximation``, of the map's features.
    {those of SupportVectorMachine}
    """

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Return validated rows and targets."""
        raise NotImplementedError

    def _task(self, y: Any, training: TrainingRows, start: Start | None) -> Task:
        """Return the optimisation problem, with a starting point if the task accepts one."""
        raise NotImplementedError

    def _learned(self, solution: Solution) -> None:
        """Set the attributes that only this task has."""

    def _set_up(self, X: Any, y: Any, sample_weight: Any) -> Prepared:
        X, y = self._checked(X, y)
        self._fitted_to = FittedTo(X, y, sample_weight)
        training = self._training(X, sample_weight)
        self._check_symmetric(training.kernel, X)
        caches = training.rows.caches([slice(0, training.kept.size)], self.cache_size * MEGABYTE)
        return Prepared(X, y, training, caches)

    def _learn(self, prepared: Prepared, start: Start | None = None) -> Callable[[float], Start]:
        """Solve the task on all rows and set the fitted attributes; return where to start if C grows by a factor."""
        X, training = prepared.X, prepared.training
        task = self._task(prepared.y[training.kept], training, start)
        with progress(self.verbose, type(self).__name__) as tick:
            rows, clock = training.rows.reader(prepared.caches), Clock(self.max_time)
            solution = solve(task, rows, tick=tick, clock=clock, **self._solver_options())
        beta: Vector = np.bincount(task.objects, solution.beta, training.kept.size).astype(np.float64)
        (used,) = np.nonzero(beta)
        found = np.zeros(training.kept.size, dtype=np.intp)
        np.maximum.at(found, task.objects, kinds(solution.beta, task.lower, task.upper))
        self._n_support = np.array([used.size], dtype=np.int32)
        self._keep(X, training, used, beta[None, used], found)
        self.intercept_ = np.array([solution.bias])
        self.n_iter_ = solution.certificate.iterations
        self._learned(solution)
        self._report([solution.certificate], solution.convex)
        return partial(start_of, task, solution.beta, solution.values)

    def _signed_multipliers(self) -> Vector:
        """The coefficients of all training rows, zero for rows that are not support vectors: → (n,)."""
        check_is_fitted(self)
        beta = np.zeros(self.shape_fit_[0])
        beta[self.support_] = dense(self.dual_coef_)[0]
        return beta


@documented
class _Regressor(RegressorMixin, _Single):
    """Base class of SVR and NuSVR. Not for direct use.

    Attributes
    ----------
    kinds_ : array of shape (n,)
        ``"peripheral"``, ``"margin"`` or ``"violator"`` for every training row: inside the tube, on it, outside.
    multipliers_ : array of shape (n, 2)
        The multipliers λ >= 0 of every training row: of ``y - f <= ε + ξ`` and of ``f - y <= ε + ξ``.
    {those of _Single}
    """

    _over_blocks = f"KernelMachineRegressor('epsilon_insensitive', lam=1/(n C), {NYSTROEM})"

    def _checked(self, X: Any, y: Any) -> tuple[Any, Vector]:
        X, y = self._validated(X, y, y_numeric=True)
        return X, column_or_1d(y, warn=True).astype(np.float64)

    def _tube(self) -> float:
        """Half the width of the tube."""
        raise NotImplementedError

    @property
    def multipliers_(self) -> Array:
        """The multipliers λ >= 0 of all training rows, (n, 2): of ``y - f <= ε + ξ`` and of ``f - y <= ε + ξ``."""
        beta = self._signed_multipliers()
        return np.column_stack([np.maximum(beta, 0.0), np.maximum(-beta, 0.0)])

    def _programs(self, X: Any, y: Any, sample_weight: Any) -> list[Program]:
        X, y = validated(self, X, y, reset=False, y_numeric=True)
        weights = row_weights(sample_weight, X, negative=True)
        rows = np.flatnonzero(weights)
        hard, beta = math.isinf(self.C), self._signed_multipliers()[rows, None]
        w = np.ones(rows.size) if hard else self.C * weights[rows]
        loss: Any = HardTube(self._tube()) if hard else EpsilonInsensitive(self._tube())
        targets = np.asarray(y, dtype=np.float64)[rows, None]
        return [Program(rows, self._times(X, rows), loss, targets, w, beta, self.intercept_, -beta, sign=-1.0)]

    def _slopes(self, programs: list[Program], lam: Any, n: int, what: str = "lam") -> tuple[list[Array], float]:
        """The difference of each row's two multipliers; the smaller of the two cancels, at a cost of 2 ε each."""
        given = np.asarray(lam, dtype=np.float64)
        if what != "lam" or given.shape != (n, 2):
            return super()._slopes(programs, lam, n, what)
        found, cost = super()._slopes(programs, given[:, 0] - given[:, 1], n)
        room = np.zeros((n, 1))
        room[programs[0].rows, 0] = np.inf if math.isinf(self.C) else programs[0].w
        if np.any((given < 0) | (given > room * (1.0 + SLACK))):
            return found, np.inf
        return found, cost + 2.0 * self._tube() * float(given.min(axis=1).sum())

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Return f(x) for every row, in float64: X (m, d), or (m, n) for a precomputed kernel → (m,)."""
        X = self._validated_for_predict(X)
        return self._single(X) + self.intercept_[0]


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SVR(_Regressor):
    """Support vector regression: ``½‖w‖² + C Σ max(0, |y_i - f(x_i)| - ε)``.

    It has scikit-learn's parameters and attributes; its solver uses every core, can be stopped by Ctrl-C and returns a
    certificate of optimality.

    Parameters
    ----------
    C : float, default=1.0
        The price of slack; with ``inf`` every target has to lie in the tube.
    epsilon : float, default=0.1
        Half the width of the tube that costs nothing.
    {those of SupportVectorMachine}

    Attributes
    ----------
    {those of _Regressor}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.svm import SVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> machine = SVR(C=10, epsilon=0.01).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(machine.predict([[1.0]])[0] - np.sin(1.0)) < 0.02)
    True
    """

    C: float = 1.0
    epsilon: float = 0.1

    _along = ("C", "epsilon")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SupportVectorMachine._parameter_constraints,
        "C": [Interval(Real, 0.0, None, closed="right")],
        "epsilon": [Interval(Real, 0.0, None, closed="left")],
    }

    def _task(self, y: Any, training: TrainingRows, start: Start | None) -> Task:
        C = self.C * training.weight
        if math.isinf(self.C):
            # So large that a multiplier reaches it only if the hard problem is infeasible.
            unit = float(np.abs(training.rows.diagonal()).mean()) or 1.0
            C = np.full(y.size, HARD * (float(np.ptp(y)) or 1.0) / unit)
        return svm_tasks.regression(y, C, self.epsilon, start)

    def _learned(self, solution: Solution) -> None:
        if math.isinf(self.C) and "violator" in self.kinds_:
            raise ValueError(
                f"no function of this kernel comes within epsilon={self.epsilon:g} of all targets, so C=inf has no "
                f"solution; rows in conflict are {np.flatnonzero(self.kinds_ == 'violator')[:10].tolist()}. Use a "
                "finite C, a larger epsilon, or a kernel that tells the rows apart."
            )

    def _tube(self) -> float:
        return self.epsilon


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class NuSVR(_Regressor):
    """Support vector regression that fits the width of its tube: at most a fraction ν of the rows lies outside it.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound on the share of rows outside the tube, lower bound on the share of support vectors.
    C : float, default=1.0
        The price of slack.
    {those of SupportVectorMachine}

    Attributes
    ----------
    epsilon_ : float
        Half the width of the tube found.
    {those of _Regressor}

    Examples
    --------
    >>> import numpy as np
    >>> from gramian.estimators.svm import NuSVR
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> machine = NuSVR(C=10, nu=0.2).fit(X, np.sin(X[:, 0]))
    >>> bool(abs(machine.predict([[1.0]])[0] - np.sin(1.0)) < 0.1)
    True
    """

    nu: float = 0.5
    C: float = 1.0

    _along = ("C", "nu")
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SupportVectorMachine._parameter_constraints,
        "C": [Interval(Real, 0.0, None, closed="neither")],
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def _task(self, y: Any, training: TrainingRows, start: Start | None) -> Task:
        return svm_tasks.nu_regression(y, self.C * training.weight, self.nu)

    def _learned(self, solution: Solution) -> None:
        self.epsilon_ = 0.0 - solution.unit

    def _tube(self) -> float:
        return float(self.epsilon_)


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class OneClassSVM(OutlierMixin, _Single):
    """Novelty detection: the half-space of feature space farthest from the origin that holds a share 1 - ν of the rows.

    Parameters
    ----------
    nu : float, default=0.5
        Upper bound on the share of outliers, lower bound on the share of support vectors.
    {those of SupportVectorMachine}

    Attributes
    ----------
    intercept_ : array of shape (1,)
        Minus the offset.
    offset_ : array of shape (1,)
        ``decision_function = score_samples - offset_``.
    kinds_ : array of shape (n,)
        ``"peripheral"``, ``"margin"`` or ``"violator"`` for every training row: inside, on the edge, outside.
    multipliers_ : array of shape (n,)
        The multipliers λ >= 0 of every training row.
    {those of _Single}

    Examples
    --------
    >>> from gramian.estimators.svm import OneClassSVM
    >>> OneClassSVM(gamma="auto").fit([[0.0], [0.44], [0.45], [0.46], [1.0]]).predict([[0.45], [5.0]])
    array([ 1, -1])
    """

    nu: float = 0.5

    _along = ("nu",)
    _over_blocks = "GaussianMixture and its score_samples, or fit to blocks.sample(size).X"
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **SupportVectorMachine._parameter_constraints,
        "nu": [Interval(Real, 0.0, 1.0, closed="right")],
    }

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:
        X = self._validated(X)
        return X, np.zeros(_num_samples(X))

    def _task(self, y: Any, training: TrainingRows, start: Start | None) -> Task:
        return svm_tasks.novelty(training.weight, self.nu)

    def _learned(self, solution: Solution) -> None:
        self.offset_ = -self.intercept_

    def _programs(self, X: Any, y: Any, sample_weight: Any) -> list[Program]:
        X = validated(self, X, reset=False)
        weights = row_weights(sample_weight, X, negative=True)
        rows = np.flatnonzero(weights)
        beta, w, b = self._signed_multipliers()[rows, None], weights[rows], -self.offset_
        sums = -self.nu * float(w.sum())
        times = self._times(X, rows)
        return [Program(rows, times, Below(), np.zeros_like(beta), w, beta, b, -beta, sign=-1.0, sums=sums)]

    @by_blocks
    def score_samples(self, X: Any) -> NDArray[Any]:
        """Return Σ_s α_s k(x, s), the decision function plus the offset; higher is more normal: X (m, d) → (m,)."""
        X = self._validated_for_predict(X)
        return self._scores(X)

    def _scores(self, X: Any) -> NDArray[np.float64]:
        scores = self._single(X)
        # Snap rows on the edge: rounding, which depends on the other rows of X, must not decide their side.
        return np.where(np.abs(scores - self.offset_) <= EDGE * np.abs(self.offset_), self.offset_, scores)

    @by_blocks
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return ‖w‖ times the signed distance to the edge of the region, positive inside: X (m, d) → (m,)."""
        X = self._validated_for_predict(X)
        return self._scores(X) - self.offset_

    @by_blocks
    def predict(self, X: Any) -> NDArray[np.intp]:
        """Return 1 for rows inside the region and -1 for rows outside: X (m, d) → (m,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1).astype(np.intp)
