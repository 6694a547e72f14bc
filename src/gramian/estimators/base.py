"""What every estimator shares: constraints on common parameters, tags, and the warning behind a certificate."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval

from gramian.certificates import Certificate
from gramian.kernels import Kernel
from gramian.kernels.resolve import holds_objects, is_precomputed, resolve

__all__ = [
    "COMMON",
    "NAMED",
    "changed",
    "check_named",
    "holds_objects",
    "is_precomputed",
    "kernel_tags",
    "resolved",
    "warn_unless_converged",
]

COMMON: dict[str, list[Any]] = {
    "memory": [None, str, Interval(Real, 1, None, closed="left")],
    "max_time": [None, Interval(Real, 0, None, closed="neither")],
    "n_jobs": [None, Integral],
    "verbose": ["verbose"],
    "random_state": ["random_state"],
    "warm_start": ["boolean"],
}
"""Constraints on the parameters that mean the same everywhere; an estimator takes those that it has."""


NAMED = ("gamma", "degree", "coef0", "kernel_params")
"""Parameters of kernels given by name, or of callables."""
DENSE_NAMES = ("laplacian", "chi2", "additive_chi2")
"""scikit-learn's names of kernels that have no sparse form here."""


def changed(estimator: BaseEstimator, names: Iterable[str]) -> list[str]:
    """Return which parameters are not at their default."""
    given, known = estimator.get_params(deep=False), inspect.signature(type(estimator)).parameters
    both = {p: (given[p], known[p].default) for p in names if p in given}
    return [p for p, (value, default) in both.items() if value is not default and value != default]


def check_named(estimator: BaseEstimator) -> None:
    """Refuse parameters of kernels given by name beside a kernel that has its own."""
    kernel = estimator.get_params(deep=False)["kernel"]
    if isinstance(kernel, Kernel) and (own := changed(estimator, NAMED)):
        raise ValueError(
            f"{' and '.join(own)} of {type(estimator).__name__} {'belongs' if len(own) == 1 else 'belong'} to a kernel "
            f"given by name, and kernel={kernel!r}; set parameters on the kernel itself."
        )


def resolved(estimator: Any, X: Any) -> Kernel:
    """Return the kernel that an estimator was given, by its object or by a name with parameters."""
    check_named(estimator)
    named = {"gamma": estimator.gamma, "degree": estimator.degree, "coef0": estimator.coef0}
    return resolve(estimator.kernel, X, **named, params=estimator.kernel_params)


def kernel_tags(tags: Any, kernel: Any) -> Any:
    """Complete scikit-learn's tags for an estimator with a kernel."""
    tags.input_tags.sparse = kernel.takes_sparse if isinstance(kernel, Kernel) else kernel not in DENSE_NAMES
    tags.input_tags.pairwise = is_precomputed(kernel)
    return tags


def warn_unless_converged(certificate: Certificate, who: object) -> None:
    """Warn where a fit stopped short of its tolerance."""
    if not certificate.converged:
        warnings.warn(f"{type(who).__name__}: {certificate}", ConvergenceWarning, stacklevel=3)
