"""What every estimator shares: constraints on common parameters, tags, and the warning behind a certificate."""

from __future__ import annotations

import warnings
from numbers import Integral, Number, Real
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from gramian.certificates import Certificate
from gramian.kernels import Kernel, Precomputed
from gramian.kernels.arrays import is_sparse

__all__ = ["COMMON", "holds_objects", "is_precomputed", "kernel_tags", "warn_unless_converged"]

COMMON: dict[str, list[Any]] = {
    "memory": [None, str, Interval(Real, 1, None, closed="left")],
    "max_time": [None, Interval(Real, 0, None, closed="neither")],
    "n_jobs": [None, Integral],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
    "warm_start": ["boolean"],
}
"""Constraints on the parameters that mean the same everywhere; an estimator takes those that it has."""


DENSE_NAMES = ("laplacian", "chi2", "additive_chi2")
"""scikit-learn's names of kernels that have no sparse form here."""


def is_precomputed(kernel: Any) -> bool:
    """Tell whether X will be a Gram matrix: of ``Precomputed``, or of an expression that holds it.

    Parameters
    ----------
    kernel : object
        What the user passed as ``kernel=``.

    Returns
    -------
    bool
        The answer.
    """
    if isinstance(kernel, Kernel):
        return isinstance(kernel, Precomputed) or any(map(is_precomputed, kernel.children))
    return isinstance(kernel, str) and kernel == "precomputed"


def holds_objects(kernel: Any, X: Any) -> bool:
    """Tell whether X is a sequence of objects, not rows of numbers, and the kernel one that may compare them.

    Parameters
    ----------
    kernel : object
        What the user passed as ``kernel=``; names compare numbers only.
    X : object
        What the user passed as X.

    Returns
    -------
    bool
        The answer.

    Examples
    --------
    >>> from gramian.estimators.base import holds_objects
    >>> from gramian.kernels import Spectrum
    >>> holds_objects(Spectrum(2), ["abc", "abd"]), holds_objects(Spectrum(2), [1.0, 2.0])
    (True, False)
    """
    if isinstance(kernel, str) or is_sparse(X) or hasattr(X, "columns") or getattr(X, "ndim", 1) != 1:
        return False
    if not isinstance(X, list | tuple | np.ndarray):
        X = getattr(X, "iloc", ())
    try:
        first = X[0]
    except IndexError:
        return False
    return not isinstance(first, Number | list | tuple | np.ndarray)


def kernel_tags(tags: Any, kernel: Any) -> Any:
    """Complete scikit-learn's tags for an estimator with a kernel.

    Parameters
    ----------
    tags : sklearn.utils.Tags
        Tags of the mixins.
    kernel : object
        What the user passed as ``kernel=``.

    Returns
    -------
    sklearn.utils.Tags
        The same object.
    """
    tags.input_tags.sparse = kernel.takes_sparse if isinstance(kernel, Kernel) else kernel not in DENSE_NAMES
    tags.input_tags.pairwise = is_precomputed(kernel)
    return tags


def warn_unless_converged(certificate: Certificate, who: object) -> None:
    """Warn where a fit stopped short of its tolerance.

    Parameters
    ----------
    certificate : Certificate
        What the solver proved.
    who : estimator
        Whose fit it was.
    """
    if not certificate.converged:
        warnings.warn(f"{type(who).__name__}: {certificate}", ConvergenceWarning, stacklevel=3)
