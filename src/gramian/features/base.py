"""What explicit maps share: rows in, features out, and how far their inner products are from the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian.features.accuracy import Accuracy, observed
from gramian.kernels import Kernel, Precomputed

__all__ = ["ExplicitMap"]


class ExplicitMap(TransformerMixin, BaseEstimator):
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

    def _validated(self, X: Any, *, reset: bool) -> Any:
        return validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=reset)

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
        if isinstance(self.kernel_, Precomputed):
            raise ValueError("error(X) needs the kernel of pairs of rows, which a precomputed matrix does not hold.")
        return observed(self.kernel_, X, self.transform, n_pairs, check_random_state(random_state))
