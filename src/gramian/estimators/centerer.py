"""Centring of Gram matrices about the mean of the training rows in feature space."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gramian.estimators.base import DTYPES, row_weights


class KernelCenterer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Centre a precomputed Gram matrix: ``<ψ(x) - μ, ψ(z) - μ>`` from ``<ψ(x), ψ(z)>``, as in scikit-learn.

    μ is the mean of the training rows in feature space, so the training matrix K becomes ``HKH`` with
    ``H = I - 11ᵀ/n``. For rows instead of a matrix, see ``kernel.centred(X)``.

    Attributes
    ----------
    K_fit_rows_ : array of shape (n,)
        <ψ(x), μ> of the training rows.
    K_fit_all_ : float
        ‖μ‖².
    weights_ : array of shape (n,)
        The weights of the training rows in μ, which sum to one.
    n_features_in_ : int
        Number of training rows.

    Examples
    --------
    >>> from gramian import KernelCenterer
    >>> from gramian.kernels import Linear
    >>> KernelCenterer().fit_transform(Linear()([[1.0], [2.0], [6.0]]))
    array([[ 4.,  2., -6.],
           [ 2.,  1., -3.],
           [-6., -3.,  9.]])
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = True
        return tags

    def fit(self, K: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Compute the mean in feature space.

        Parameters
        ----------
        K : array-like of shape (n, n)
            The Gram matrix of the training rows.
        y : ignored
            Not used; for pipelines.
        sample_weight : float, array-like of shape (n,) or None, default=None
            Weights >= 0 of the rows in the mean.
        """
        K = validate_data(self, K, dtype=DTYPES)
        if K.shape[0] != K.shape[1]:
            raise ValueError(
                f"Kernel matrix must be a square matrix. Input is a {K.shape[0]}x{K.shape[1]} matrix; pass k(X, X)."
            )
        weights = row_weights(sample_weight, K)
        self.weights_ = weights / weights.sum()
        self.K_fit_rows_ = self.weights_ @ K
        self.K_fit_all_ = float(self.K_fit_rows_ @ self.weights_)
        return self

    def transform(self, K: Any, copy: bool = True) -> NDArray[Any]:
        """Centre a matrix.

        Parameters
        ----------
        K : array-like of shape (m, n)
            Kernel values of some rows with the training rows.
        copy : bool, default=True
            Whether to centre a copy instead of K itself.

        Returns
        -------
        array of shape (m, n)
            The centred values.
        """
        check_is_fitted(self)
        K = validate_data(self, K, copy=copy, force_writeable=True, dtype=DTYPES, reset=False)
        own = K @ self.weights_.astype(K.dtype)
        K -= self.K_fit_rows_.astype(K.dtype)
        K -= own[:, None]
        K += np.asarray(self.K_fit_all_, dtype=K.dtype)
        return np.asarray(K)

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_in_)
