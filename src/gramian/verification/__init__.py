"""Certificates recomputed from the public attributes of a fitted model and its data, without the solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.utils.validation import check_is_fitted

from gramian.certificates import Certificate
from gramian.verification import (
    automatic,
    gaussian_process,
    least_squares,
    machine,
    metric,
    mixture,
    spectrum,
    stochastic,
    svm,
)
from gramian.verification.rows import Data

__all__ = ["agree", "verify"]

CHECKS: dict[str, Callable[[Any, Data], Certificate]] = {
    "SVC": svm.classification,
    "NuSVC": svm.nu_classification,
    "SVR": svm.regression,
    "NuSVR": svm.nu_regression,
    "OneClassSVM": svm.novelty,
    "KernelRidge": least_squares.ridge,
    "KernelInterpolator": least_squares.interpolation,
    "KernelMachineRegressor": machine.regression,
    "KernelMachineClassifier": machine.classification,
    "PegasosClassifier": stochastic.pegasos,
    "GaussianProcessRegressor": gaussian_process.regression,
    "GaussianProcessClassifier": gaussian_process.classification,
    "KernelPCA": spectrum.components,
    "GaussianMixture": mixture.mixture,
    "FamilyMixture": mixture.of_family,
    "MetricMap": metric.metric,
}
AUTOMATIC = {"AutoKernelRegressor": automatic.numbers, "AutoKernelClassifier": automatic.labels}
FACTOR, ROUNDING = 3.0, 1e-9
"""Two figures of one fit may differ by this factor, or by this amount."""


def verify(model: Any, X: Any, y: Any = None, sample_weight: Any = None) -> Certificate:
    """Recompute the certificate of a fitted model from its public attributes and the data it was fitted to.

    In float64, by formulas that share no code with the solvers: feasibility, primal and dual value, residuals, the
    slope of the evidence; and whether the model predicts what its coefficients say. K is computed by tiles that fit the
    model's ``memory``.

    Parameters
    ----------
    model : estimator
        A fitted estimator of gramian.
    X : array-like or CSR of shape (n, d)
        The rows that it was fitted to, in the same order; those of a fit over blocks, in memory.
    y : array-like of shape (n,) or (n, k), or None, default=None
        Their targets.
    sample_weight : array-like of shape (n,) or None, default=None
        Their weights, if the fit had any.

    Returns
    -------
    Certificate
        Of the same kind as the model's own; if it has not converged, ``message`` says what is wrong. Iterations and
        seconds are those of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import SVC, verify
    >>> X = np.array([[-2.0], [-1.0], [1.0], [2.0]])
    >>> model = SVC(kernel="linear").fit(X, [0, 0, 1, 1])
    >>> verify(model, X, [0, 0, 1, 1]).converged
    True
    >>> model.dual_coef_ = 2.0 * model.dual_coef_
    >>> verify(model, X, [0, 0, 1, 1]).converged
    False
    """
    ours = [kind.__name__ for kind in type(model).__mro__ if kind.__module__.startswith("gramian.")]
    name = next((name for name in ours if name in CHECKS or name in AUTOMATIC), None)
    if name is None:
        known = ", ".join(sorted([*CHECKS, *AUTOMATIC]))
        raise TypeError(f"verify takes a fitted estimator that has a certificate_: {known}; got {model!r:.80}.")
    check_is_fitted(model)
    if name in AUTOMATIC:
        found = [verify(*part) for part in AUTOMATIC[name](model, X, y, sample_weight)]
        return next((certificate for certificate in found if not certificate.converged), found[0])
    return CHECKS[name](model, Data.of(model, X, y, sample_weight))


def agree(said: Certificate, found: Certificate, tol: float | None = None) -> bool:
    """Tell whether two certificates of one fit agree: the same verdict, and figures within a factor of 3 or rounding.

    Verdicts may differ if rounding puts the two figures on either side of ``tol``, or itself exceeds ``tol``. If
    ``verify`` had to find a dual point of its own, its bound may be another one: then primal values are compared, the
    bound of the fit may be the weaker one, and bounds within a factor of 3 may be on either side of ``tol``.
    """
    a, b, bound = said.figure, found.figure, getattr(found, "bound", False)
    tol = getattr(found, "limit", None) or tol or 0.0
    slack = max(ROUNDING, getattr(found, "rounding", 0.0))
    if said.converged == found.converged:
        if said.converged and said.kind == "stationary":
            return True  # there is no gap, and both violations are within the tolerance
        same = b <= FACTOR * a + slack and a <= FACTOR * b + slack
        if not said.converged and any(why in said.message for why in ("rounding", "not a bound")):
            return True  # neither claims convergence, and the figures are rounding or mean nothing
        # A gap is relative to the objective, or to a larger scale if that is nearly zero.
        scale = max(abs(found.primal), abs(found.primal - found.dual) / b if bound and b > 0 else 0.0)
        return bool(same or (bound and (b <= a or abs(said.primal - found.primal) <= slack * scale)))
    near = tol < b <= FACTOR * tol
    # Where both count rounding, the true one is another one in their two sums.
    doubt, sure = getattr(found, "doubt", 0.0), max(b, found.violation)
    if sure <= tol < doubt <= FACTOR * tol or doubt <= tol < doubt + 2.0 * (doubt - sure):
        return True
    if slack > max(tol, ROUNDING):  # rounding alone exceeds the tolerance, and the fit should say so
        return found.converged or near
    if found.converged and "rounding" in said.message and b + slack > tol:
        return True  # the fit counted rounding that may exceed the tolerance here too
    pairs = ((a, b), (said.violation, found.violation))
    across = any(min(pair) <= tol <= max(pair) <= min(pair) + slack for pair in pairs)
    return across or bool(bound and (b <= a if found.converged else near))
