"""Pegasos: the duality gap of ``mean hinge + (lam/2) ‖f‖²`` without a constant."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize

from gramian.certificates import Certificate
from gramian.verification.rows import SUMS, Array, Data, Shown, dense, feature_weights, found, product

LEAST = 1e-4
"""Gaps are relative to at least this share of the loss of the zero function, as for machines through a map."""


def pegasos(model: Any, data: Data) -> Certificate:
    """The gap of the averaged function, at its coefficients as a dual point; in features, at the best dual point."""
    codes, k, mapped = data.codes(model.classes_), model.classes_.size, hasattr(model, "approximation_")
    shares = data.weights / data.weights.sum()
    if mapped:
        shown = Shown.of(model, data, feature_weights(model))
    else:
        points, dual = model.X_fit_.astype(np.float64), model.dual_coef_.reshape(model.dual_coef_.shape[0], -1)
        f = product(model.kernel_, data.X, points, dual, data.memory)
        norm2 = np.sum(dual * product(model.kernel_, points, None, dual, data.memory), axis=0)
        scale = float(np.abs(model.kernel_.diag(data.X)).max())
        shown = Shown(dual, f, f, norm2, SUMS * scale * np.abs(dual).sum(axis=0), scale)
    faults, primals, duals = shown.unlike(model.decision_function(data.given)), [], []
    for c, y in enumerate(np.where(codes == label, 1.0, -1.0) for label in ([1] if k == 2 else range(k))):
        primals.append(float(shares @ np.maximum(1.0 - y * shown.f[:, c], 0.0)) + 0.5 * model.lam * shown.norm2[c])
        if shown.F is not None:
            start = (y * shown.f[:, c] < 1.0).astype(np.float64)
            duals.append(_best_dual(y[:, None] * shown.F, shares / model.lam, model.lam, start))
            continue
        alpha = y * np.clip(y * _at_rows(data, points, dual[:, c], y, shares), 0.0, shares / model.lam)
        energy = float(alpha @ product(model.kernel_, data.X, None, alpha[:, None], data.memory)[:, 0])
        duals.append(model.lam * float(np.abs(alpha).sum()) - 0.5 * model.lam * energy)
    least = LEAST if mapped else 1e-12
    gap = max(max(p - d, 0.0) / max(abs(p), least) for p, d in zip(primals, duals, strict=True))
    if model.certificate_.kind == "stationary":
        faults = ["earlier batches are not kept, so these rows alone prove nothing", *faults]
    elif not gap <= model.tol:
        faults = [f"the relative duality gap {gap:.1e} is above tol={model.tol:.0e}", *faults]
    figures: Any = {"primal": sum(primals), "dual": sum(duals), "gap": gap, "bound": True}
    return found(model, "duality gap", faults, rounding=float(shown.lost.max()) / max(primals), **figures)


def _best_dual(F: Array, upper: Array, lam: float, start: Array) -> float:
    """The largest ``λ Σα - ½ λ ‖Fᵀα‖²`` of α between zero and ``upper``; any value that L-BFGS finds is a bound too."""

    def negative(share: Array) -> tuple[float, Array]:
        theta = F.T @ (upper * share)
        return 0.5 * float(theta @ theta) - float(upper @ share), upper * (F @ theta - 1.0)

    options: Any = {"maxiter": 5000, "maxfun": 10_000, "ftol": 0.0, "gtol": 0.0}
    result = minimize(negative, start, jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(F), options=options)
    return -lam * float(result.fun)


def _at_rows(data: Data, points: Any, dual: Array, y: Array, shares: Array) -> Array:
    """Coefficients of the distinct rows that the model keeps, shared by weight among the rows equal to each."""
    both = np.concatenate([dense(points), dense(data.X)])
    keys = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    at, own = keys[: len(dual)], keys[len(dual) :]
    held, masses = np.zeros((len(both), 2)), np.zeros((len(both), 2))  # of either sign
    np.add.at(held, at, np.column_stack([np.maximum(dual, 0.0), np.minimum(dual, 0.0)]))
    np.add.at(masses, own, shares[:, None] * np.column_stack([y > 0, y < 0]))
    side = (y < 0).astype(int)
    mine, other = masses[own, side], masses[own, 1 - side]
    # If all rows of a key have the same label, its whole coefficient belongs to them.
    held_here = np.where(other > 0, held[own, side], held[own].sum(axis=1))
    return np.divide(held_here * shares, mine, out=np.zeros(data.n), where=mine > 0)
