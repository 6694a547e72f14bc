"""Gaussian mixtures: one more step of EM may not lower the likelihood, nor raise it by more than the tolerance."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import stats
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from gramian.certificates import Certificate
from gramian.inspection.fitted import covariance_matrices
from gramian.verification.rows import EPS, SAME, Array, Data, found

MORE = 3.0
"""A further step may gain up to this many tolerances: when EM leaves a plateau, its gains grow again."""
ROUNDING = 1e-9
"""The likelihood may fall by this, relative to its size."""


def mixture(model: Any, data: Data) -> Certificate:
    """The log-likelihood per row, and the gain of another EM step."""
    centre = np.asarray(data.X).mean(axis=0)
    X, w, hard = np.asarray(data.X[data.kept] - centre), data.weights[data.kept], model.assignment == "hard"
    w = w / w.sum()
    weights, means = np.asarray(model.weights_, dtype=np.float64), np.asarray(model.means_, dtype=np.float64) - centre
    covariances = covariance_matrices(model)
    log_joint = _log_joint(X, weights, means, covariances)
    value, responsibilities = _expected(log_joint, w, hard)
    following = _maximised(model, X, w, responsibilities)
    gain = _expected(_log_joint(X, *following), w, hard)[0] - value
    # A step maximises the objective minus (ε/2) Σ π tr Σ⁻¹, so it may lower the objective by the gain in that term.
    precisions = np.linalg.inv(covariances) - np.linalg.inv(following[2])
    rounding = ROUNDING * (1.0 + abs(value))
    regularised = 0.5 * model.reg_covar * max(float(following[0] @ np.trace(precisions, axis1=1, axis2=2)), 0.0)
    faults = _of_step(model, gain, rounding + regularised, rounding)
    violation = _slope(weights, means, covariances, following)
    likelihood = float(w @ logsumexp(log_joint, axis=1))
    # Second moments are known to the rounding of |x|², which counts by the inverse of a covariance.
    sharpest = float(np.trace(np.linalg.inv(covariances), axis1=1, axis2=2).max())
    lost = EPS * float((np.asarray(data.X[data.kept]) ** 2).sum(axis=1).max()) * sharpest
    density = logsumexp(log_joint, axis=1)
    off = np.abs(np.asarray(model.score_samples(data.given), dtype=np.float64)[data.kept] - density)
    if not np.all(off <= (SAME + 100.0 * lost) * (1.0 + np.abs(density))):
        faults.append(f"score_samples differs by up to {off.max():.1e} from the density of the parameters")
    return found(model, "evidence", faults, primal=likelihood, dual=value, violation=violation, rounding=lost)


def of_family(model: Any, data: Data) -> Certificate:
    """The same for components of another family, with SciPy's densities if it has them."""
    X, w = np.asarray(data.X)[data.kept], data.weights[data.kept]
    w = w / w.sum()

    def joint(weights: Array, theta: Any) -> Array:
        with np.errstate(divide="ignore"):
            return np.asarray(np.column_stack([_log_density(model.family_, X, t) for t in theta]) + np.log(weights))

    here = joint(np.asarray(model.weights_), model.parameters_)
    value, q = _expected(here, w, False)
    mass = w[:, None] * q
    following = [model.family_.fit(X, m) if m.any() else t for m, t in zip(mass.T, model.parameters_, strict=True)]
    gain = _expected(joint(mass.sum(axis=0), following), w, False)[0] - value
    rounding = ROUNDING * (1.0 + abs(value))
    faults = _of_step(model, gain, rounding, rounding)
    if not abs(value - model.certificate_.primal) <= rounding:
        faults.append(f"the log-likelihood per row is {value:.6g}, not {model.certificate_.primal:.6g}")
    return found(model, "evidence", faults, primal=value, dual=value, violation=max(gain, 0.0))


def _of_step(model: Any, gain: float, fall: float, rounding: float) -> list[str]:
    """Say whether another step of EM lowers the objective by more than a permitted fall, or still raises it."""
    if not gain >= -fall:
        return [f"another step of EM lowers the objective by {-gain:.1e} per row"]
    if not gain < max(MORE * model.tol, rounding):
        return [f"another step of EM raises the objective by {gain:.1e} per row, above tol={model.tol:.0e}"]
    if model.certificate_.iterations < 2 and not getattr(model, "warm_start", False):
        return ["EM was stopped before its second iteration, and one small gain may be that of a plateau"]
    return []


def _log_density(family: Any, X: Array, theta: Any) -> Array:
    known: Any = {
        "Bernoulli": lambda: stats.bernoulli.logpmf(X, theta),
        "Gaussian": lambda: stats.norm.logpdf(X, theta[0], np.sqrt(theta[1])),
        "Poisson": lambda: stats.poisson.logpmf(X, theta),
    }
    name = type(family).__name__
    if name in known and type(family).__module__.startswith("gramian."):
        return np.asarray(known[name]().sum(axis=1))
    return np.asarray(family.log_density(X, theta))


def _log_joint(X: Array, weights: Array, means: Array, covariances: Array) -> Array:
    """log π_k N(x | μ_k, Σ_k)."""
    out = np.empty((X.shape[0], weights.size))
    for k, (mean, C) in enumerate(zip(means, covariances, strict=True)):
        L = np.linalg.cholesky(C)
        z = solve_triangular(L, (X - mean).T, lower=True)
        out[:, k] = (
            -0.5 * np.sum(z**2, axis=0) - np.log(np.diagonal(L)).sum() - 0.5 * X.shape[1] * math.log(2 * math.pi)
        )
    with np.errstate(divide="ignore"):
        return np.asarray(out + np.log(weights))


def _expected(log_joint: Array, w: Array, hard: bool) -> tuple[float, Array]:
    """The objective per row, and responsibilities."""
    if hard:
        best = log_joint.argmax(axis=1)
        return float(w @ log_joint.max(axis=1)), np.eye(log_joint.shape[1])[best]
    total = logsumexp(log_joint, axis=1)
    return float(w @ total), np.exp(log_joint - total[:, None])


def _maximised(model: Any, X: Array, w: Array, responsibilities: Array) -> tuple[Array, Array, Array]:
    """Weights, means and covariances of the M-step."""
    mass = w[:, None] * responsibilities
    weights = mass.sum(axis=0)
    live = np.where(weights > 0, weights, 1.0)
    means = (mass.T @ X) / live[:, None]
    d = X.shape[1]
    own = np.array([((X - m).T * mass[:, k]) @ (X - m) / live[k] for k, m in enumerate(means)])
    if model.covariance_type == "tied":
        own = np.broadcast_to(np.einsum("k,kij->ij", weights, own), own.shape)
    elif model.covariance_type == "diag":
        own = own * np.eye(d)
    elif model.covariance_type == "spherical":
        own = np.array([np.trace(C) / d * np.eye(d) for C in own])
    return weights, means, own + model.reg_covar * np.eye(d)


def _slope(weights: Array, means: Array, covariances: Array, following: tuple[Array, Array, Array]) -> float:
    """How far the next EM step would move the parameters, in units of the components' standard deviations."""
    total = float(np.abs(following[0] - weights).sum())
    for k, C in enumerate(covariances):
        L = np.linalg.cholesky(C)
        shift = following[1][k] - means[k]
        moved = following[2][k] + np.outer(shift, shift)
        inside = solve_triangular(L, solve_triangular(L, moved, lower=True).T, lower=True)
        total += following[0][k] * float(np.linalg.norm(solve_triangular(L, shift, lower=True)))
        total += 0.5 * following[0][k] * float(np.linalg.norm(inside - np.eye(len(C))))
    return total
