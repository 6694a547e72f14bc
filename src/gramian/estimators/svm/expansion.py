"""Evaluation of a fitted support vector machine: its kernel expansion, weights and multipliers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import _num_samples, check_is_fitted

from gramian.estimators.base import as_array, has_landmarks, validated
from gramian.estimators.duality import Duality
from gramian.gram import Gram
from gramian.gram.operator import wide
from gramian.gram.prepared import columns_of
from gramian.kernels import Dot, Kernel, Radial
from gramian.kernels.distances import SMALL_CELLS
from gramian.kernels.points import dense, is_sparse
from gramian.kernels.resolve import is_precomputed
from gramian.kernels.tunable import Nested
from gramian.resources import spans
from gramian.rkhs import Function
from gramian.solvers.svm.row_cache import Index

Vector = NDArray[np.float64]
FEW_CELLS = 2**20
"""Largest size of K(rows, support vectors) that is stored and used for all pairs of classes."""
PANEL = 256
"""Rows of a matrix in memory that are copied at a time."""


class SupportVectorExpansion(Duality, Nested, BaseEstimator):
    """Functions ``Σ_s dual_coef_s k(x, s)`` over support vectors, or through a map. Not for direct use."""

    # Parameters of the estimator itself, and attributes set by a fit.
    kernel: Any
    memory: int | str | None
    n_jobs: int | None
    device: str | None
    support_: NDArray[np.int32]
    support_vectors_: Any
    dual_coef_: Any
    shape_fit_: tuple[int, ...]
    approximation_: Any
    _kernel: Kernel
    _mapped_rows: Index
    _feature_weights: Vector
    _n_support: NDArray[np.int32]
    _known: Vector | None = None
    """Decision values without the bias of numbered rows, in a search that computed them beforehand."""

    def _validated_for_predict(self, X: Any) -> Any:
        check_is_fitted(self)
        return validated(self, X, reset=False)

    def _mapped_values(self, X: Any) -> Vector:
        """The decision values without the bias, computed from the features of the approximation: → (m, columns)."""
        rows = X[:, self._mapped_rows] if is_precomputed(self.kernel) else X
        return np.asarray(self.approximation_.evaluate(rows, self._feature_weights, self.memory), dtype=np.float64)

    @staticmethod
    def _evaluate_path(machines: Sequence[Any], K: Vector, train: Index, asked: Index) -> None:
        """Evaluate machines that were fitted to numbered rows of a matrix K at others, in one pass over K."""
        if any(len(machine._n_support) > 2 for machine in machines):
            return
        weights, known = np.zeros((len(K), len(machines))), np.full((len(K), len(machines)), np.nan)
        for column, machine in zip(weights.T, machines, strict=True):
            np.add.at(column, train[machine.support_], dense(machine.dual_coef_)[0])  # a fold may repeat rows
        for part in spans(asked.size, PANEL):
            known[asked[part]] = K[asked[part]] @ weights
        for column, machine in zip(known.T, machines, strict=True):
            machine._known = column

    def _single(self, X: Any) -> Vector:
        """The decision values without the bias of a machine with one function, for validated X: → (m,)."""
        if self._known is not None:
            return np.asarray(self._known[X[:, 0].astype(np.intp)])
        if hasattr(self, "approximation_"):
            return self._mapped_values(X)[:, 0]
        return self._expand(X, dense(self.dual_coef_)[0])

    def _expand(self, X: Any, coefficients: Vector, part: slice = slice(None)) -> Vector:
        """Σ_s coefficients_s k(x, s) over a part of the support vectors, for validated X."""
        if is_precomputed(self.kernel):
            return np.asarray(X[:, self.support_[part]] @ coefficients, dtype=np.float64)
        if not coefficients.shape[0]:
            return np.zeros((_num_samples(X), *coefficients.shape[1:]))
        vectors: Any = self.support_vectors_
        if (is_sparse(X) or is_sparse(vectors)) and all(small(rows, self._kernel) for rows in (X, vectors)):
            X, vectors = dense(X), dense(vectors)
        if is_sparse(X) == is_sparse(vectors) and part == slice(None):
            return columns_of(self, self._kernel, vectors).times(wide(X), coefficients)
        if is_sparse(X) != is_sparse(vectors):
            X, vectors = sp.csr_array(X), sp.csr_array(vectors)
        K = Gram(self._kernel, wide(X), wide(vectors[part]), self.memory, self.n_jobs, self.device)
        return np.asarray(K @ coefficients)

    def _times(self, X: Any, rows: Index) -> Callable[[Vector], Vector]:
        """Return the function V ↦ K V, with K the kernel matrix of some of the validated training rows."""
        if hasattr(self, "approximation_"):
            X = X[:, self._mapped_rows] if is_precomputed(self.kernel) else X
            F = dense(self.approximation_.transform(X[rows]), np.float64)
            return lambda V: np.asarray(F @ (F.T @ V))
        K = self._gram(self._kernel, X[np.ix_(rows, rows)] if is_precomputed(self.kernel) else wide(X[rows]))
        return lambda V: np.asarray(K @ V)

    def _few(self, X: Any) -> Vector | None:
        """K(X, support vectors) if it is small; None if large, empty, sparse, precomputed or not numeric."""
        if is_precomputed(self.kernel) or is_sparse(X) or is_sparse(self.support_vectors_) or not self.support_.size:
            return None
        vectors = self.support_vectors_
        K = columns_of(self, self._kernel, vectors).tile(wide(X))
        if K is not None or not isinstance(X, np.ndarray) or X.size == 0 or len(X) * len(vectors) > FEW_CELLS:
            return K
        gram = Gram(self._kernel, wide(X), wide(vectors), memory=self.memory, n_jobs=self.n_jobs)
        return np.asarray(gram.dense(), dtype=np.float64) if gram.fits else None

    @property
    def kernel_(self) -> Kernel:
        """The kernel used."""
        check_is_fitted(self)
        return self._kernel

    @property
    def coef_(self) -> Any:
        """Weights of the inputs, for ``kernel="linear"``, or of a map's features; one row per decision value."""
        if hasattr(self, "approximation_"):
            return self._feature_weights.T
        if self.kernel != "linear":
            raise AttributeError("coef_ is only available when using a linear kernel")
        rows: Any = self._expansions()
        coef = (sp.csr_array(rows) if is_sparse(self.support_vectors_) else rows) @ self.support_vectors_
        numbers: Any = coef.data if is_sparse(coef) else coef
        numbers.flags.writeable = False
        return coef

    @property
    def function_(self) -> Any:
        """The kernel expansion without the bias, as a function of the RKHS; one for every pair of classes."""
        check_is_fitted(self)
        if is_precomputed(self.kernel):
            raise AttributeError("function_ needs the support vectors, which a precomputed kernel does not hold.")
        points, rows = self.support_vectors_, self._expansions()
        if hasattr(self, "approximation_"):
            if not has_landmarks(self.approximation_):
                raise AttributeError("function_ needs landmarks, and this map has none; its weights are in coef_.")
            points, rows = self.approximation_.components_, self.approximation_.expansion(self._feature_weights).T
        found = [Function(self._kernel, points, row, memory=self.memory, n_jobs=self.n_jobs) for row in rows]
        return as_array(found, len(found) == 1)

    def _expansions(self) -> NDArray[Any]:
        """Coefficients of the support vectors, one row per decision value."""
        return np.asarray(dense(self.dual_coef_))

    @property
    def multipliers_(self) -> Vector:
        """The multipliers λ >= 0 of all training rows: (n,); for more than two classes, one column per pair."""
        check_is_fitted(self)
        found = np.zeros((self.shape_fit_[0], len(self._expansions())))
        found[self.support_] = np.abs(self._expansions()).T
        return found[:, 0] if found.shape[1] == 1 else found

    @property
    def n_support_(self) -> NDArray[np.int32]:
        """Number of support vectors; for classifiers, one number per class."""
        check_is_fitted(self)
        return self._n_support


def small(X: Any, kernel: Kernel) -> bool:
    """Tell whether X is small enough to be made dense."""
    return isinstance(kernel, Dot | Radial) and X.shape[0] * X.shape[1] <= SMALL_CELLS
