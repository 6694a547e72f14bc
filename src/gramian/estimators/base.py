"""What every estimator shares: constraints on common parameters, tags, and the warning behind a certificate."""

from __future__ import annotations

import warnings
from numbers import Integral, Real
from typing import Any

from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from gramian.certificates import Certificate
from gramian.kernels import Kernel
from gramian.kernels.resolve import holds_objects, is_precomputed

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
