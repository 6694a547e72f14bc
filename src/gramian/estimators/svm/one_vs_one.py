"""One-vs-one classification: decision values of pairs of classes, their votes, and class probabilities.

Platt's sigmoid gives a probability for each pair; pairwise coupling turns these into class probabilities.

References
----------
Lin, Lin, Weng: A note on Platt's probabilistic outputs for support vector machines. Machine Learning, 2007.
Wu, Lin, Weng: Probability estimates for multi-class classification by pairwise coupling. JMLR 2004.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from gramian.data.blocks import by_blocks
from gramian.estimators.svm.base import SupportVectorMachine
from gramian.estimators.svm.expansion import Vector
from gramian.features.base import available_if
from gramian.kernels.points import dense

FOLDS = 5
CLIP = 1e-7
"""Pairwise probabilities are kept this far from 0 and 1, as in LIBSVM."""


def _has_probabilities(self: Any) -> bool:
    if self.probability in (False, "deprecated"):
        raise AttributeError("predict_proba is not available when probability=False")
    return True


class OneVsOne(ClassifierMixin, SupportVectorMachine):
    """One fitted machine per pair of classes, positive for the first class of the pair. Not for direct use."""

    @property
    def _dual_coef_(self) -> Any:
        """``dual_coef_`` with LIBSVM's sign (negated for two classes), for code that reads scikit-learn's attribute."""
        return -self.dual_coef_ if len(self.classes_) == 2 else self.dual_coef_

    @_dual_coef_.setter
    def _dual_coef_(self, value: Any) -> None:
        self.dual_coef_ = -value if len(self.classes_) == 2 else value

    def _pairwise(self, X: Any) -> Vector:
        """The decision values of all pairs for validated X, (m,) for two classes; positive for a pair's first class."""
        k = len(self.classes_)
        if self._n_support.sum() != self.dual_coef_.shape[1]:
            raise ValueError(f"The internal representation of {type(self).__name__} was altered")
        if k == 2:
            return self._single(X) + float(self.intercept_[0])
        if hasattr(self, "approximation_"):
            return self._mapped_values(X) + self.intercept_
        dual = dense(self.dual_coef_)
        K = self._few(X)
        parts = self._parts()
        if K is None:
            sums = [self._expand(X, dual[:, part].T, part) for part in parts]
        else:
            sums = [K[:, part] @ dual[:, part].T for part in parts]
        by_class, (first, second) = np.array(sums), _pairs(k)
        return np.asarray((by_class[first, :, second - 1] + by_class[second, :, first]).T + self.intercept_)

    def _parts(self) -> list[slice]:
        """The slice of the support vectors that belongs to each class."""
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
        return values

    @by_blocks
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class of every row: X (m, d), or (m, n) for a precomputed kernel → (m,)."""
        check_is_fitted(self)
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ValueError("break_ties must be False when decision_function_shape is 'ovo'")
        X = self._validated_for_predict(X)
        return self.classes_.take(self._winners(X))

    def _winners(self, X: Any) -> NDArray[np.intp]:
        if self.probability == "consistent":
            return np.argmax(self._probabilities(X), axis=1)
        values = self._pairwise(X)
        if len(self.classes_) == 2:
            return (values > 0).astype(np.intp)
        if self.break_ties:
            return np.argmax(_ovr_decision_function(values < 0, -values, len(self.classes_)), axis=1)
        k, (first, second) = len(self.classes_), _pairs(len(self.classes_))
        winners = np.where(values > 0, first, second) + k * np.arange(len(values))[:, None]
        return np.argmax(np.bincount(winners.ravel(), minlength=k * len(values)).reshape(-1, k), axis=1)

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
            In the order of ``classes_``. With ``probability=True``, as in scikit-learn, ``predict`` may return another
            class than the most probable one; with ``probability="consistent"`` they agree.
        """
        X = self._validated_for_predict(X)
        return self._probabilities(X)

    @available_if(_has_probabilities)
    @by_blocks
    def predict_log_proba(self, X: Any) -> NDArray[Any]:
        """Return the logarithms of ``predict_proba``: X (m, d) → (m, k)."""
        return np.log(self.predict_proba(X))


@cache
def _pairs(k: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The first and the second class of every pair of k classes."""
    return np.triu_indices(k, 1)


def stratified_folds(y: Vector, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Draw stratified folds of the rows of one pair: y (n,)."""
    folds = np.empty(y.size, dtype=np.intp)
    for label in (1, -1):
        (members,) = np.nonzero(y == label)
        folds[rng.permutation(members)] = np.arange(members.size) % FOLDS
    return folds


def fit_sigmoid(values: Vector, y: Vector, weight: Vector) -> tuple[float, float]:
    """Maximise the likelihood of the labels under ``1 / (1 + exp(A f + B))``: values, y, weight (n,)."""
    positive, negative = weight[y > 0].sum(), weight[y < 0].sum()
    # Platt's targets: slightly inside (0, 1), so that A stays finite for separable values.
    target = np.where(y > 0, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))
    share, unit = weight / weight.sum(), float(np.abs(values).max()) or 1.0
    design = np.column_stack([values / unit, np.ones(values.size)])

    def loss(x: Vector) -> tuple[float, Vector]:
        z = design @ x
        value = float(share @ (np.logaddexp(0.0, z) - (1.0 - target) * z))
        return value, (share * (expit(z) - 1.0 + target)) @ design

    start = np.array([0.0, np.log((negative + 1.0) / (positive + 1.0))])
    A, B = minimize(loss, start, jac=True, method="BFGS", options={"gtol": 1e-9}).x
    return float(A) / unit, float(B)


def sigmoid(values: Vector, A: Vector, B: Vector) -> Vector:
    """Return the probability of the first class of each pair: values (m, pairs), A, B (pairs,) → (m, pairs)."""
    return np.asarray(np.clip(expit(-(values * A + B)), CLIP, 1.0 - CLIP))


def couple(pairwise: Vector, k: int) -> Vector:
    """Couple pairwise probabilities into class probabilities: pairwise (m, k (k - 1) / 2) → (m, k).

    Minimises Σ_i Σ_{j≠i} (r_ji p_i - r_ij p_j)² over the simplex: one linear system per row, whose solution is never
    negative.
    """
    if k == 2:
        return np.column_stack([pairwise[:, 0], 1.0 - pairwise[:, 0]])
    i, j = np.triu_indices(k, 1)
    r = np.zeros((len(pairwise), k, k))
    r[:, i, j], r[:, j, i] = pairwise, 1.0 - pairwise
    system = np.zeros((len(pairwise), k + 1, k + 1))
    system[:, :k, :k] = -r * r.transpose(0, 2, 1)
    diagonal = np.arange(k)
    system[:, diagonal, diagonal] = np.sum(r**2, axis=1)
    system[:, :k, k] = system[:, k, :k] = 1.0
    target = np.zeros((len(pairwise), k + 1, 1))
    target[:, k] = 1.0
    p = np.maximum(np.linalg.solve(system, target)[:, :k, 0], 0.0)
    return np.asarray(p / p.sum(axis=1, keepdims=True))
