"""Pegasos: the duality gap of ``mean hinge + (lam/2) ‖f‖²`` without a constant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize

from gramian.certificates import Certificate
from gramian.verification.box_quadratic import MOST, near_minimum, root_of
from gramian.verification.rows import INDEFINITE, Array, Data, Shown, dense, feature_weights, found, product

LEAST = 1e-4
"""Gaps are relative to at least this share of the loss of the zero function, as for machines through a map."""
STEPS, FEW = 5000, 2000
"""Steps of the search for a better dual point, and rows up to which it is made."""
TINIEST = 1e-300


def pegasos(model: Any, data: Data) -> Certificate:
    """The gap of the averaged function, at its coefficients as a dual point; if that proves too little, at a better."""
    codes, k, mapped = data.codes(model.classes_), model.classes_.size, hasattr(model, "approximation_")
    shares = data.weights / data.weights.sum()
    signs = np.column_stack([np.where(codes == label, 1.0, -1.0) for label in ([1] if k == 2 else range(k))])
    shown = Shown.of(model, data, feature_weights(model) if mapped else _at_rows(model, data, signs, shares))
    F = shown.F

    def times(v: Array) -> Array:
        if F is not None:
            return np.asarray(F @ (F.T @ v))
        return product(model.kernel_, data.X, None, v.reshape(data.n, -1), data.memory).reshape(v.shape)

    faults, primals, duals, gaps = shown.unlike(model.decision_function(data.given)), [], [], []
    least, upper = LEAST if mapped else 1e-12, shares / model.lam
    for c, y in enumerate(signs.T):
        primal = float(shares @ np.maximum(1.0 - y * shown.f[:, c], 0.0) + 0.5 * model.lam * shown.norm2[c])
        share = y * shown.f[:, c] < 1.0 if mapped else y * shown.coefficients[:, c] / np.maximum(upper, TINIEST)
        at = Dual(times, y, upper)
        best = at.value(upper * np.clip(share, 0.0, 1.0))
        if primal + model.lam * best > model.tol * max(abs(primal), least) and data.n <= FEW:
            best = min(best, *(at.value(alpha) for alpha in at.better(F, share)))
        primals.append(primal)
        duals.append(-model.lam * best)
        gaps.append(max(primal - duals[c], 0.0) / max(abs(primal), least))
    gap = max(gaps)
    faults += [] if data.is_definite(model) else [INDEFINITE]
    if model.certificate_.kind == "stationary":
        faults = ["earlier batches are not kept, so these rows alone prove nothing", *faults]
    elif not gap <= model.tol:
        faults = [f"the relative duality gap {gap:.1e} is above tol={model.tol:.0e}", *faults]
    figures: Any = {"primal": sum(primals), "dual": sum(duals), "gap": gap, "bound": True}
    return found(model, "duality gap", faults, rounding=float(shown.lost.max()) / max(primals), **figures)


@dataclass(frozen=True, eq=False)
class Dual:
    """``½ αᵀ(yyᵀ∘K)α - Σα`` of ``0 <= α <= upper``; every such α proves a bound."""

    times: Callable[[Array], Array]  # the product with K
    y: Array
    upper: Array

    def value(self, alpha: Array) -> float:
        """The function at α."""
        return self.both(alpha)[0]

    def both(self, alpha: Array) -> tuple[float, Array]:
        """The function at α, and its gradient."""
        v = self.y * self.times(self.y * alpha)
        return 0.5 * float(alpha @ v) - float(alpha.sum()), v - 1.0

    def better(self, F: Array | None, start: Array) -> Iterator[Array]:
        """Points near the minimum, in shares of the upper bounds by L-BFGS, and by an active-set method."""

        def scaled(share: Array) -> tuple[float, Array]:
            value, slope = self.both(self.upper * share)
            return value, self.upper * slope

        options: Any = {"maxiter": STEPS, "maxfun": 2 * STEPS, "ftol": 0.0, "gtol": 0.0}
        bounds = [(0.0, 1.0)] * len(start)
        yield self.upper * minimize(scaled, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
        F = root_of(self.times, len(start)) if F is None and len(start) <= MOST else F
        if F is not None:
            yield from near_minimum(self.y[:, None] * F, -np.ones(len(F)), np.zeros(len(F)), self.upper, False)


def _at_rows(model: Any, data: Data, signs: Array, shares: Array) -> Array:
    """Coefficients of the distinct rows that the model keeps, shared by weight among the rows equal to each."""
    points, dual = dense(model.X_fit_), model.dual_coef_.reshape(model.dual_coef_.shape[0], -1)
    keys = np.unique(np.concatenate([points, dense(data.X)]), axis=0, return_inverse=True)[1].ravel()
    at, own = keys[: len(dual)], keys[len(dual) :]
    found = np.zeros(signs.shape)
    for c, y in enumerate(signs.T):
        held, masses = np.zeros((len(keys), 2)), np.zeros((len(keys), 2))  # of either sign
        np.add.at(held, at, np.column_stack([np.maximum(dual[:, c], 0.0), np.minimum(dual[:, c], 0.0)]))
        np.add.at(masses, own, shares[:, None] * np.column_stack([y > 0, y < 0]))
        side = (y < 0).astype(int)
        mine, other = masses[own, side], masses[own, 1 - side]
        # If all rows of a key have the same label, its whole coefficient belongs to them.
        held_here = np.where(other > 0, held[own, side], held[own].sum(axis=1))
        np.divide(held_here * shares, mine, out=found[:, c], where=mine > 0)
    return found
