"""One-vs-one: decision values of pairs of classes, the votes they cast and the probabilities they agree on."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import _ovr_decision_function

from gramian.data.results import by_blocks
from gramian.estimators.svm.base import SupportVectorMachine, Vector, dense
from gramian.estimators.svm.probability import couple, sigmoid
from gramian.gram.operator import narrow
from gramian.kernels.points import is_sparse

__all__ = ["OneVsOne"]


def _has_probabilities(self: Any) -> bool:
    if self.probability in (False, "deprecated"):
        raise AttributeError("predict_proba is not available when probability=False")
    return True


class OneVsOne(ClassifierMixin, SupportVectorMachine):
    """A fitted machine for every pair of classes: positive for the first of a pair. Not for direct use."""

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
        sums = [self.dual_coef_[:, p] @ self.support_vectors_[p] for p in self._parts()]
        rows: list[Any] = [sums[i][[j - 1]] + sums[j][[i]] for i, j in combinations(range(len(sums)), 2)]
        return sp.vstack(rows).tocsr() if is_sparse(rows[0]) else np.vstack(rows)
