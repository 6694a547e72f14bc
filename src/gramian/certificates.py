"""Certificates: how far a fit is from its optimum, and its KKT conditions."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.gram.operator import Gram, as_predicted, units
from gramian.progress import Clock

__all__ = ["KINDS", "KKT", "Certificate"]

UNSEEN = 1e-10
"""Relative effect of rounding in K below which the residual of predictions is bounded instead of computed."""
KINDS = ("duality gap", "residual", "eigen-residual", "evidence", "stationary")


@dataclass(frozen=True, kw_only=True)
class Certificate:
    """How close a fit is to its optimum, as measured by the solver.

    Parameters
    ----------
    kind : str
        The quantity measured: one of ``KINDS``.
    primal, dual : float
        Objective values; ``nan`` if the problem has none.
    gap : float
        Relative duality gap; ``nan`` if the problem has none.
    violation : float
        Worst KKT violation, or the relative residual.
    converged : bool
        Whether the tolerance was reached.
    iterations : int
        Steps taken by the solver.
    seconds : float
        Wall-clock time of the solve.
    message : str
        Why the fit did not converge and what to try, or a note; else empty.

    Examples
    --------
    >>> from gramian.certificates import Certificate
    >>> print(Certificate(kind="residual", violation=3e-9, converged=True, iterations=12, seconds=0.5))
    converged: residual 3.0e-09 after 12 iterations (0.5 s)
    """

    kind: str
    primal: float = math.nan
    dual: float = math.nan
    gap: float = math.nan
    violation: float = math.nan
    converged: bool
    iterations: int
    seconds: float
    message: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"kind must be one of {KINDS}, got {self.kind!r}.")

    @property
    def figure(self) -> float:
        """The gap, or the violation if there is no gap."""
        return self.violation if math.isnan(self.gap) else self.gap

    def __str__(self) -> str:
        steps = "iteration" if self.iterations == 1 else "iterations"
        line = (
            f"{'converged' if self.converged else 'NOT converged'}: {self.kind} {self.figure:.1e} "
            f"after {self.iterations} {steps} ({self.seconds:.2g} s)"
        )
        return f"{line}; {self.message}" if self.message else line

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as a plain dictionary, ready for JSON."""
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class KKT:
    """The Karush-Kuhn-Tucker conditions of a fit, each with its residual for every training row.

    If all residuals are zero, the fit is optimal. If stationarity and balance are zero, the sum of
    ``complementary_slackness`` is the duality gap.

    Parameters
    ----------
    stationarity : array of shape (n,) or (n, k)
        The gradient of the Lagrangian in f, a function in the RKHS, evaluated at the training rows.
    primal_feasibility : array of shape (n,) or (n, k)
        By how much a constraint is violated; zero for constraints with slack variables.
    dual_feasibility : array of shape (n,) or (n, k)
        How far a multiplier is from its box.
    complementary_slackness : array of shape (n,) or (n, k)
        Multipliers times the slack of their constraints; for a loss, ``ℓ(f) + ℓ*(u) - u f``, which is never negative.
    balance : float or array of shape (k,)
        The gradient of the Lagrangian in the constant b: the sum of the signed multipliers. Zero without a constant.

    Examples
    --------
    >>> from gramian import SVC
    >>> model = SVC(kernel="linear", C=1.0, tol=1e-8).fit([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1])
    >>> model.kkt().worst < 1e-8
    True
    """

    stationarity: NDArray[np.float64]
    primal_feasibility: NDArray[np.float64]
    dual_feasibility: NDArray[np.float64]
    complementary_slackness: NDArray[np.float64]
    balance: Any

    @property
    def worst(self) -> float:
        """The largest residual of all conditions."""
        return max(float(np.max(np.abs(value))) for value in vars(self).values())

    def __str__(self) -> str:
        figures = {name.replace("_", " "): np.max(np.abs(value)) for name, value in vars(self).items()}
        return "\n".join(f"{name:24} {figure:.1e}" for name, figure in figures.items())


def certify(
    kind: str, figure: float, tol: float, why: str, *, seconds: float, iterations: int = 1, **values: float
) -> Certificate:
    """Return the certificate of a figure that should be at most ``tol``; ``why`` explains a larger one."""
    met = bool(figure <= tol)
    values["gap" if kind == "duality gap" else "violation"] = float(figure)
    message = "" if met else f"above tol={tol:.0e}: {why}"
    return Certificate(kind=kind, converged=met, iterations=iterations, seconds=seconds, message=message, **values)


def together(certificates: list[Certificate]) -> Certificate:
    """Return one certificate for several fits: sums of objectives and iterations, the worst of the other figures."""
    failed = [each for each in certificates if not each.converged]
    worst = max(certificates, key=lambda each: (not each.converged, np.nan_to_num(each.gap)))
    sums = {name: sum(getattr(each, name) for each in certificates) for name in ("primal", "dual", "iterations")}
    most = {name: max(getattr(each, name) for each in certificates) for name in ("gap", "violation", "seconds")}
    return replace(worst, **sums, **most, converged=not failed, message=(failed or [worst])[0].message)


def relative_residuals(R: NDArray[Any], B: NDArray[Any]) -> NDArray[np.float64]:
    """Return ``‖r‖ / ‖b‖`` column by column: R (n, k), B (n, k) → (k,)."""
    unit = units(B)
    size = np.linalg.norm(B / unit, axis=0)
    return np.asarray(np.linalg.norm(R / unit, axis=0) / np.where(size > 0, size, 1.0))


def residual_certificate(R: NDArray[Any], B: NDArray[Any], tol: float, clock: Clock, advice: str) -> Certificate:
    """Return the certificate of residuals R relative to right-hand sides B: (m, k) both."""
    worst = relative_residuals(R, B).max(initial=0.0)
    why = f"too ill-conditioned for the rounding of float64; {advice}."
    return certify("residual", worst, tol, why, seconds=clock.seconds)


def measured(done: Certificate, R: NDArray[Any], B: NDArray[Any], tol: float, rounding: float = 0.0) -> Certificate:
    """Return a solver's certificate with the residual of the predicted function in place of its own: R, B (m, k)."""
    worst = float(relative_residuals(R, B).max(initial=0.0))
    met, message = worst + rounding <= tol, done.message
    if met != done.converged or worst <= tol:
        counted = f"with rounding of {rounding:.0e} in predictions " if worst <= tol else ""
        why = "the coefficients are so large that predictions lose digits; regularise more."
        message = "" if met else f"{counted}above tol={tol:.0e}: {why}"
    return replace(done, violation=worst, converged=met, message=message)


def predicted_residual(
    done: Certificate,
    alpha: NDArray[np.float64],
    gram: Gram,
    points: Any,
    Y: NDArray[np.float64],
    D: Any,
    tol: float,
    *,
    scale: Any = 1.0,
    beside: NDArray[np.float64] | None = None,
) -> Certificate:
    """Certify the residual ``S (y - f - t) - S D α`` of the predicted f: bounded if rounding is small, or computed.

    ``beside`` is the trend t, ``scale`` the diagonal S, D (n, 1) or (n, k) what is added to that of K.
    """
    B, largest = scale * Y, float(np.abs(gram.diagonal()).max())

    def relative(errors: NDArray[np.float64]) -> float:
        return float(relative_residuals(scale * np.broadcast_to(errors, Y.shape), B).max(initial=0.0))

    rounding = relative(gram.rounding * largest * np.abs(alpha).sum(axis=0))
    if beside is None and rounding <= max(done.violation, UNSEEN) and done.violation + rounding <= tol:
        return replace(done, violation=done.violation + rounding)
    values = as_predicted(gram, points, alpha)
    values = values if beside is None else values + beside
    sums = np.finfo(np.float64).eps * largest * np.linalg.norm(alpha, axis=0)
    return measured(done, scale * (Y - values - D * alpha), B, tol, relative(sums))
