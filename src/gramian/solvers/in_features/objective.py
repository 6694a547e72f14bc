"""The objective of a machine on the features of a map: value, gradient and Hessian at a point, in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gramian.data.passes import Part, Sums
from gramian.features.base import WorkerMap
from gramian.losses import offers
from gramian.solvers.machine.data_term import DataFit, Envelope, Tilted

Array = NDArray[np.float64]

LENGTHS: Array = np.power(0.5, np.concatenate([np.arange(0.0, 15.5, 0.5), np.arange(16.0, 61.0, 2.0)]))
"""Step lengths that a line search tries."""
SINGLE_LOSS, SINGLE_SHARE = 1e-7, 1e-3
"""Rounding error of a Hessian in single precision, relative to its trace; the share of the penalty it may reach."""


class Targets(Protocol):
    """The targets of each function, made from the rows of a part."""

    @property
    def losses(self) -> tuple[Any, ...]:
        """The loss of each function, or of each group of functions that it couples."""

    def of(self, part: Part) -> tuple[list[Array], Array]:
        """Return the targets of each function, and weights."""


@dataclass(frozen=True, eq=False)
class Functions:
    """The functions to fit, or groups of functions coupled by a loss."""

    targets: Targets  # Their losses and targets
    intercept: bool  # Whether each has a constant
    lam: float  # Strength, of mean loss + (lam/2) ‖f‖²
    kinks: bool  # Whether losses are replaced by envelopes
    diagonal: bool = False  # Whether Hessians of coupled functions keep only one block for each function
    # (m, k) or (m + 1, k): Where the concave part of each loss is linearised; empty if losses are convex
    tangents: tuple[Array, ...] = ()


@dataclass(frozen=True, eq=False)
class Ask:
    """A request to evaluate one function at a point."""

    which: int  # The function
    theta: Array  # (m, k) or (m + 1, k): Weights, then a row of intercepts
    width: float  # Of the envelope
    hessian: bool = True  # Whether the Hessian is wanted
    step: Array | None = None  # A direction along which only values are wanted


@dataclass(frozen=True, eq=False)
class Point:
    """The requests that one pass evaluates."""

    lift: WorkerMap  # The map
    functions: Functions  # Losses and targets
    asked: tuple[Ask, ...]  # The requests

    def fits(self, F: Array, part: Part) -> Iterator[tuple[Ask, DataFit, Any]]:
        """Yield each request with the data term of some rows and its smooth replacement."""
        targets, weights = self.functions.targets.of(part)
        for ask in self.asked:
            fit = self._fit(ask.which, F, targets[ask.which], weights)
            # Width / weight: a row of weight two then has the envelope of two rows of weight one.
            smooth = Envelope(fit, ask.width / fit.w, np.zeros_like(fit.y)) if self.functions.kinks else fit
            yield ask, fit, smooth

    def _fit(self, which: int, F: Array, y: Array, weights: Array) -> DataFit:
        loss = self.functions.targets.losses[which]
        if not self.functions.tangents:
            return DataFit(loss, y, weights)
        tangent = self.functions.tangents[which]
        tilt = np.zeros_like(y) if not tangent.size else loss.concave_gradient(values_of(F, tangent), y)
        return Tilted(loss.convex_part(), y, weights, tilt)


def values_of(F: Array, theta: Array) -> Array:
    """Return the values of functions: F (r, m), theta (m, k) or (m + 1, k) → (r, k)."""
    return F @ theta[: F.shape[1]] + (theta[F.shape[1] :] if theta.shape[0] > F.shape[1] else 0.0)


def local(part: Part, point: Point) -> Sums:
    """Return value, gradient and Hessian at points: a statistic of ``Passes.sum``."""
    F = part.made(point.lift)
    sums: dict[str, Any] = dict(point.lift.error_sums(F, part).arrays)
    functions = point.functions
    for i, (ask, fit, smooth) in enumerate(point.fits(F, part)):
        f = values_of(F, ask.theta)
        u = smooth.gradient(f)
        # ℓ*(u) by Fenchel's equality at the z with slope u, so that rounding cannot leave the conjugate's domain.
        z = smooth.point(f) if functions.kinks else f
        sums[f"objective{i}"] = smooth.value(f)
        sums[f"value{i}"] = fit.value(f)
        sums[f"weight{i}"] = fit.w.sum()
        sums[f"steep{i}"] = np.abs(u).sum()
        sums[f"conjugate{i}"] = np.sum(u * z) - fit.value(z)
        sums[f"gradient{i}"] = _extended(F.T @ u, u, functions.intercept)
        S = smooth.half_curvature(f)
        if not fit.coupled:
            sums |= {f"{name}{i}": value for name, value in _signed(F, fit, u, z, S).items()}
        if ask.hessian:
            sums[f"hessian{i}"] = _hessian(F, S, functions, float(fit.w.sum()))
            if functions.kinks:
                turned = smooth.gamma * S**2 * u
                sums[f"turns{i}"] = _extended(F.T @ turned, turned, functions.intercept)
    return Sums.of(**sums)


def _extended(below: Array, u: Array, intercept: bool) -> Array:
    return np.vstack([below, u.sum(axis=0)]) if intercept else below


def _signed(F: Array, fit: DataFit, u: Array, z: Array, S: Array) -> dict[str, Any]:
    """Sums over four groups of rows, by the sign of u and whether the loss is curved: |u|, ℓ*(u), ℓ*(0), gradients."""
    up, bent = u >= 0.0, S != 0.0
    signs = np.hstack([up & bent, ~up & bent, up & ~bent, ~up & ~bent])
    zero = fit.each_conjugate(np.zeros_like(u)) if offers(fit.loss, "conjugate") else np.zeros_like(u)
    return {
        "signs": np.abs(u * signs).sum(axis=0),
        "parts": ((u * z - fit.each(z)) * signs).sum(axis=0),
        "zeros": (zero * signs).sum(axis=0),
        "rises": F.T @ (u * signs),
    }


def _hessian(F: Array, S: Array, functions: Functions, weight: float) -> Array:
    """``Σ_i (S_i S_iᵀ) ⊗ (ψ_i, 1)(ψ_i, 1)ᵀ``, grouped by function; with ``diagonal`` only the diagonal blocks."""
    bent = np.any(S.reshape(S.shape[0], -1) != 0.0, axis=1)
    if not bent.all():
        F, S = F[bent], S[bent]
    G = np.hstack([F, np.ones((F.shape[0], 1))]) if functions.intercept else F
    if S.ndim == 2:
        return _square(G, S, functions.lam * weight)
    C = np.einsum("icd,ied->ice", S, S)
    k, m = C.shape[1], G.shape[1]
    if functions.diagonal:
        return np.stack([_square(G, np.sqrt(C[:, a, a, None]), functions.lam * weight) for a in range(k)])
    H = np.empty((k, m, k, m))
    for a in range(k):
        for b in range(a + 1):
            H[a, :, b] = G.T @ (C[:, a, b, None] * G)
            H[b, :, a] = H[a, :, b]
    return H.reshape(k * m, k * m)


def _square(G: Array, s: Array, mu: float) -> Array:
    """Gᵀ diag(s)² G, in single precision if its error is small relative to the penalty."""
    scaled = s * G
    if SINGLE_LOSS * float(np.sum(scaled**2)) <= SINGLE_SHARE * mu:
        scaled = scaled.astype(np.float32)
    return np.asarray(scaled.T @ scaled, dtype=np.float64)


def along(part: Part, point: Point) -> Sums:
    """Return objectives at all step lengths along directions: a statistic of ``Passes.sum``."""
    F = part.made(point.lift)
    sums = {}
    for i, (ask, _, smooth) in enumerate(point.fits(F, part)):
        assert ask.step is not None
        f, df = values_of(F, ask.theta), values_of(F, ask.step)
        with np.errstate(over="ignore", invalid="ignore"):
            sums[f"objective{i}"] = [smooth.value(f + length * df) for length in LENGTHS]
    return Sums.of(**sums)


def concave(part: Part, point: Point) -> Sums:
    """Return how much the tangents of concave parts change at new points: a statistic of ``Passes.sum``."""
    F = part.made(point.lift)
    sums: dict[str, Any] = {}
    for i, (ask, fit, _) in enumerate(point.fits(F, part)):
        loss, f, w = point.functions.targets.losses[ask.which], values_of(F, ask.theta), fit.w
        assert isinstance(fit, Tilted)
        sums[f"turned{i}"] = np.sum(np.abs(w * loss.concave_gradient(f, fit.y) - fit.tilt))
        sums[f"excess{i}"] = DataFit(loss, fit.y, w[:, 0]).value(f) - fit.value(f)
        sums[f"wrong{i}"] = np.sum(w * (fit.y * f <= 0))
        sums[f"weight{i}"] = w.sum()
    return Sums.of(**sums)
