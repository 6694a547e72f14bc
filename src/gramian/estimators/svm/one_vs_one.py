"""One-vs-one classification: what SVC and NuSVC share."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin, _fit_context
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state, column_or_1d, compute_class_weight
from sklearn.utils._param_validation import Hidden, StrOptions
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import check_consistent_length

from gramian.data.results import by_blocks
from gramian.estimators.base import COMMON, restored_on_failure
from gramian.estimators.over_blocks.opening import NYSTROEM, refuse_blocks
from gramian.estimators.svm.base import KINDS, MEGABYTE, SupportVectorMachine, Vector, dense, kinds, like
from gramian.estimators.svm.pairs import Pair, Pairs, fit_pair
from gramian.estimators.svm.probability import calibrate, couple, sigmoid, stratified_folds
from gramian.gram.operator import narrow
from gramian.kernels.points import is_sparse
from gramian.progress import Clock
from gramian.solvers.svm.smo import Task

__all__ = ["Classifier"]


def _has_probabilities(self: Any) -> bool:
    if self.probability in (False, "deprecated"):
        raise AttributeError("predict_proba is not available when probability=False")
    return True


class Classifier(ClassifierMixin, SupportVectorMachine):
    """What SVC and NuSVC share: one-vs-one machines, votes and probabilities. Not for direct use."""

    _parameter_constraints = {  # noqa: RUF012
        **SupportVectorMachine._parameter_constraints,
        "probability": ["boolean", StrOptions({"consistent"}), Hidden(StrOptions({"deprecated"}))],
        "class_weight": [StrOptions({"balanced"}), dict, None],
        "decision_function_shape": [StrOptions({"ovr", "ovo"})],
        "break_ties": ["boolean"],
        "random_state": COMMON["random_state"],
    }

    def _task(self, y: Vector, weight: Vector, start: Vector | None) -> Task:
        raise NotImplementedError

    def _fit_pair(self, pairs: Pairs, first: int, second: int, **options: Any) -> Pair:
        return fit_pair(pairs, first, second, self._task, **options)

    # ---- fit ------------------------------------------------------------------------------------------------------

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Fit the machine.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d), or (n, n) for ``kernel="precomputed"``
            Training rows.
        y : array-like of shape (n,)
            Class labels of any type.
        sample_weight : array-like of shape (n,) or None, default=None
            Multiplies C row by row; zero removes a row, a whole number repeats it.

        Returns
        -------
        self
            The fitted estimator.
        """
        refuse_blocks(self, X, f"KernelMachineClassifier('hinge', lam=1/(n C), {NYSTROEM})")
        with restored_on_failure(self):
            X, pairs = self._set_up(X, y, sample_weight)
            self._learn(X, pairs)
        return self

    def _set_up(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Pairs]:
        """Validate, order the rows by class, and make the row caches."""
        X, y = self._validated(X, y)
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        check_consistent_length(X, y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"The number of classes has to be greater than one; got {len(self.classes_)} class "
                f"({self.classes_.tolist()[0]!r}); pass rows of at least two."
            )
        trained = self._prepare(X, sample_weight, np.argsort(codes, kind="stable"))
        codes = codes[trained.kept]
        sizes = np.bincount(codes, minlength=len(self.classes_))
        if not sizes.all():
            lost = self.classes_[np.flatnonzero(sizes == 0)].tolist()
            raise ValueError(
                f"all samples of class {lost} have zero weight; give some a positive one or drop the class."
            )
        self._check_symmetric(trained.kernel, X)
        self.class_weight_ = self._class_weights(y, codes, trained.weight)
        weight = trained.weight * self.class_weight_[codes]
        return X, Pairs(trained, sizes, self.cache_size * MEGABYTE, weight)

    def _class_weights(self, y: Any, codes: NDArray[np.intp], weight: Vector) -> Vector:
        if self.class_weight == "balanced":
            # By weight and not by count, so that a weight of two is the same as a row twice.
            totals = np.bincount(codes, weights=weight)
            return np.asarray(totals.sum() / (len(totals) * totals))
        return np.asarray(compute_class_weight(self.class_weight, classes=self.classes_, y=y))

    def _learn(self, X: Any, pairs: Pairs, starts: list[Vector] | None = None) -> list[Pair]:
        """Solve every pair, then keep what there is to keep."""
        self._check_feasible(pairs)
        options, limit = self._solver_options(), Clock(self.max_time)

        def solve(p: int, first: int, second: int, clock: Clock) -> Pair:
            start = None if starts is None else starts[p]
            machine = self._fit_pair(pairs, first, second, start=start, tick=tick, clock=clock, **options)
            self._check_margin(machine, pairs)
            return machine

        with self._progress() as tick:
            machines: list[Pair] = pairs.each(solve, limit)
            platt = self._calibrated(pairs, limit, options)
        self._keep_machines(X, pairs, machines)
        self.probA_, self.probB_ = platt
        self._report([machine.solution for machine in machines])
        return machines

    def _check_feasible(self, pairs: Pairs) -> None:
        """Refuse a parameter that no feasible point meets."""

    def _check_margin(self, machine: Pair, pairs: Pairs) -> None:
        """Refuse an answer of norm zero."""

    def _calibrated(self, pairs: Pairs, limit: Clock, options: dict[str, Any]) -> tuple[Vector, Vector]:
        if self.probability in (False, "deprecated"):
            return np.empty(0), np.empty(0)
        rng = check_random_state(self.random_state)
        # Drawn beforehand, so that it does not matter which pair comes first.
        folds = [stratified_folds(pairs.labels(*pair)[0], rng) for pair in pairs.indices]

        def platt(p: int, first: int, second: int, clock: Clock) -> tuple[float, float]:
            return calibrate(self._fit_pair, pairs, first, second, folds[p], {**options, "clock": clock})

        slopes, offsets = np.array(pairs.each(platt, limit)).T
        return slopes, offsets

    def _keep_machines(self, X: Any, pairs: Pairs, machines: list[Pair]) -> None:
        trained, blocks, k = pairs.trained, pairs.blocks, len(self.classes_)
        dual = np.zeros((k - 1, len(trained.kept)))
        kind = np.zeros(len(trained.kept), dtype=np.intp)
        for machine in machines:
            i, j = machine.first, machine.second
            split = blocks[i].stop - blocks[i].start
            dual[j - 1, blocks[i]] = machine.coefficients[:split]
            dual[i, blocks[j]] = machine.coefficients[split:]
            found = kinds(machine.beta, machine.task.lower, machine.task.upper)
            kind[blocks[i]] = np.maximum(kind[blocks[i]], found[:split])
            kind[blocks[j]] = np.maximum(kind[blocks[j]], found[split:])
        used = np.flatnonzero(dual.any(axis=0))
        self._keep(X, trained, used)
        self._n_support = np.array([np.sum((used >= b.start) & (used < b.stop)) for b in blocks], dtype=np.int32)
        sign = -1.0 if k == 2 else 1.0
        self.dual_coef_ = like(sign * dual[:, used], X)
        self._keep_map(trained, used)
        self.intercept_ = np.array([sign * machine.bias for machine in machines])
        self.n_iter_ = np.array([m.solution.certificate.iterations for m in machines], dtype=np.int32)
        margins = np.array([machine.margin for machine in machines])
        self.margin_ = float(margins[0]) if k == 2 else margins
        self.kinds_ = np.full(self.shape_fit_[0], KINDS[0])
        self.kinds_[trained.kept] = KINDS[kind]

    # ---- predict ----------------------------------------------------------------------------------------------------

    def _pairwise(self, X: Any) -> Vector:
        """The decision values of all pairs for validated X, (m,) for two classes; positive for the first of a pair."""
        k = len(self.classes_)
        if k == 2:
            return self._single(X) + float(self.intercept_[0])
        if hasattr(self, "approximation_"):
            return self._mapped_values(X) + self.intercept_
        dual = dense(self.dual_coef_)
        parts = self._parts()
        sums = [self._expand(X, dual[:, part].T, part) for part in parts]
        pairs = combinations(range(k), 2)
        return np.column_stack([sums[i][:, j - 1] + sums[j][:, i] for i, j in pairs]) + self.intercept_

    def _parts(self) -> list[slice]:
        """Where the support vectors of each class stand."""
        return [slice(int(a), int(b)) for a, b in pairwise(np.cumsum([0, *self._n_support]))]

    def _expansions(self) -> NDArray[Any]:
        dual = super()._expansions()
        if len(self.classes_) == 2:
            return dual
        parts, rows = self._parts(), []
        for i, j in combinations(range(len(parts)), 2):
            row = np.zeros(dual.shape[1])
            row[parts[i]], row[parts[j]] = dual[j - 1, parts[i]], dual[i, parts[j]]
            rows.append(row)
        return np.array(rows)

    @by_blocks
    def decision_function(self, X: Any) -> NDArray[Any]:
        """Return the decision values.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d), or (m, n) for ``kernel="precomputed"``
            Rows.

        Returns
        -------
        array of shape (m,), (m, k) or (m, k (k - 1) / 2)
            For two classes one value, positive for ``classes_[1]``; for more, one per class (``"ovr"``) or one per
            pair (``"ovo"``).
        """
        X = self._validated_for_predict(X)
        values = self._pairwise(X)
        if self.decision_function_shape == "ovr" and len(self.classes_) > 2:
            values = _ovr_decision_function(values < 0, -values, len(self.classes_))
        return narrow(values, X)

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of every row.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d), or (m, n) for ``kernel="precomputed"``
            Rows.

        Returns
        -------
        array of shape (m,)
            Labels.
        """
        X = self._validated_for_predict(X)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        return self.classes_.take(self._winners(X))

    def _winners(self, X: Any) -> NDArray[np.intp]:
        if self.probability == "consistent":
            return np.argmax(self._probabilities(X), axis=1)
        values = self._pairwise(X)
        if len(self.classes_) == 2:
            return (values > 0).astype(np.intp)
        if self.break_ties:
            return np.argmax(_ovr_decision_function(values < 0, -values, len(self.classes_)), axis=1)
        votes = np.zeros((len(values), len(self.classes_)), dtype=np.intp)
        for p, (i, j) in enumerate(combinations(range(len(self.classes_)), 2)):
            votes[:, i] += values[:, p] > 0
            votes[:, j] += values[:, p] <= 0
        return np.argmax(votes, axis=1)

    def _probabilities(self, X: Any) -> Vector:
        if not self.probA_.size:
            raise NotFittedError("predict_proba is not available when fitted with probability=False")
        values = self._pairwise(X)
        if len(self.classes_) == 2:
            values = -values[:, None]
        return couple(sigmoid(values, self.probA_, self.probB_), len(self.classes_))

    @available_if(_has_probabilities)
    @by_blocks
    def predict_proba(self, X: Any) -> NDArray[Any]:
        """Return the probability of every class.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d), or (m, n) for ``kernel="precomputed"``
            Rows.

        Returns
        -------
        array of shape (m, k)
            In the order of ``classes_``. With ``probability=True`` the class of the largest need not be what
            ``predict`` says, as in scikit-learn; with ``probability="consistent"`` it is.
        """
        X = self._validated_for_predict(X)
        return narrow(self._probabilities(X), X)

    @available_if(_has_probabilities)
    @by_blocks
    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Return the logarithms of ``predict_proba``.

        Parameters
        ----------
        X : array-like or CSR of shape (m, d), or (m, n) for ``kernel="precomputed"``
            Rows.

        Returns
        -------
        array of shape (m, k)
            In the order of ``classes_``.
        """
        return np.log(self.predict_proba(X))

    def _linear_weights(self) -> Any:
        if len(self.classes_) == 2:
            return super()._linear_weights()
        k, edges = len(self.classes_), np.cumsum([0, *self._n_support])
        part = [slice(int(a), int(b)) for a, b in pairwise(edges)]
        sums = [self.dual_coef_[:, p] @ self.support_vectors_[p] for p in part]
        rows: list[Any] = [sums[i][[j - 1]] + sums[j][[i]] for i, j in combinations(range(k), 2)]
        return sp.vstack(rows).tocsr() if is_sparse(rows[0]) else np.vstack(rows)
