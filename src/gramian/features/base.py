"""The base of explicit maps: features of rows, and their inner products against the kernel."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian.data.blocks import is_blocks
from gramian.data.results import by_blocks
from gramian.features.accuracy import Accuracy, observed
from gramian.features.fitting import fit_over_blocks
from gramian.gram.operator import wide
from gramian.kernels import Kernel
from gramian.kernels.resolve import holds_objects, is_precomputed
from gramian.kernels.tunable import Nested
from gramian.resources import memory_budget, spans

__all__ = ["ExplicitMap", "constraints"]

STRIP_BYTES = 32
"""What a feature of a row takes while it is made, with room for a map's own temporaries."""
STRIP_ROWS = 4096
"""Rows whose features are made at a time: more brings nothing."""

_CONSTRAINTS: dict[str, list[Any]] = {
    "kernel": [str, callable, Kernel],
    "gamma": [Interval(Real, 0, None, closed="left"), None],
    "n_components": [Interval(Integral, 1, None, closed="left")],
    "memory": [None, str, Interval(Real, 1, None, closed="left")],
    "random_state": ["random_state"],
    "n_jobs": [Integral, None],
}


def constraints(*names: str, **own: list[Any]) -> dict[str, list[Any]]:
    """Return scikit-learn's constraints on parameters: those that mean the same in every map, and a map's own."""
    return {name: _CONSTRAINTS[name] for name in names} | own


class ExplicitMap(Nested, TransformerMixin, BaseEstimator):
    """A map ψ with ``<ψ(x), ψ(z)> ≈ k(x, z)``, which any estimator takes as ``approximation=``.

    Once fitted it has ``kernel_``, the kernel k. A map with a parameter ``kernel`` approximates whatever kernel it is
    given; one without has a kernel of its own. A map from landmarks also has ``component_indices_`` and ``expansion``.
    """

    kernel_: Kernel

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the map to some rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows; the square Gram matrix where the kernel is precomputed; objects where the kernel compares objects.
        y : None
            Not used.

        Returns
        -------
        ExplicitMap
            The fitted map.
        """
        if is_blocks(X):
            return fit_over_blocks(self, X)
        self._fit(self._validated(X, reset=True))
        return self

    @by_blocks
    def transform(self, X: Any) -> Any:
        """Return the features of some rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows.

        Returns
        -------
        array or CSR of shape (n, m)
            The features, in the dtype of X; float64 of objects.
        """
        check_is_fitted(self)
        return self._features(self._validated(X, reset=False))

    def _fit(self, X: Any) -> Any:
        """Learn from validated rows."""
        raise NotImplementedError

    def _features(self, X: Any) -> Any:
        """The features of validated rows."""
        raise NotImplementedError

    def _validated(self, X: Any, *, reset: bool) -> Any:
        if holds_objects(None, X):
            raise ValueError(
                f"{type(self).__name__} needs rows of numbers, got objects such as {next(iter(X))!r:.40}; Nystroem "
                "takes objects, with a kernel that compares them."
            )
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)

    def evaluate(self, X: Any, w: NDArray[np.float64], memory: int | str | None = None) -> NDArray[np.float64]:
        """Return the values ``<w, ψ(x)>`` of functions known by their weights, without all features at once.

        Parameters
        ----------
        X : array or CSR of shape (m, d)
            Rows.
        w : array of shape (n_components,) or (n_components, k)
            The weights of one function or of several.
        memory : int, str or None, default=None
            Bytes of features to hold at most.

        Returns
        -------
        array of shape (m,) or (m, k)
            The values, computed in float64.
        """
        check_is_fitted(self)
        X = wide(X)
        height = max(memory_budget(memory) // (STRIP_BYTES * max(w.shape[0], 1)), 1)
        parts = [self.transform(X[rows]) @ w for rows in spans(X.shape[0], min(height, STRIP_ROWS))]
        return np.concatenate(parts) if parts else np.zeros((0, *w.shape[1:]))

    def error(self, X: Any, *, n_pairs: int = 2000, random_state: Any = 0) -> Accuracy:
        """Return how far the inner products of features are from the kernel, on random pairs of rows.

        Parameters
        ----------
        X : array-like or CSR of shape (n, d)
            Rows, at least two.
        n_pairs : int, default=2000
            How many pairs.
        random_state : int, RandomState or None, default=0
            Draws the pairs.

        Returns
        -------
        Accuracy
            Largest and root-mean-square error, with a confidence interval.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if is_precomputed(self.kernel_):
            raise ValueError("error(X) needs the kernel of pairs of rows, which a precomputed matrix does not hold.")
        return observed(self.kernel_, X, self.transform, n_pairs, check_random_state(random_state))
