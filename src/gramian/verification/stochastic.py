"""Pegasos: the duality gap of ``mean hinge + (lam/2) ‖f‖²`` without a constant."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.certificates import Certificate
from gramian.verification.machine import hinges
from gramian.verification.rows import Array, Data, product, unlike

__all__ = ["pegasos"]


def pegasos(model: Any, data: Data) -> Certificate:
    """The gap between the averaged function and its coefficients, clipped to what the dual allows."""
    codes, k = data.codes(model.classes_), model.classes_.size
    signs = [np.where(codes == c, 1.0, -1.0) for c in ([1] if k == 2 else range(k))]
    if hasattr(model, "approximation_"):
        return hinges(model, data, signs)
    dual = np.asarray(model.dual_coef_, dtype=np.float64).reshape(model.dual_coef_.shape[0], -1)
    memory, shares = data.memory, data.weights / data.weights.sum()
    points = np.asarray(model.X_fit_.astype(np.float64)) if isinstance(model.X_fit_, np.ndarray) else model.X_fit_
    f = product(model.kernel_, data.X, points, dual, memory)
    norm2 = np.sum(dual * product(model.kernel_, points, None, dual, memory), axis=0)
    size = np.abs(model.kernel_.diag(data.X)).max() * np.abs(dual).sum(axis=0)
    faults = unlike(model.decision_function(data.given), f, size)
    primals, duals = [], []
    for c, y in enumerate(signs):
        alpha = y * np.clip(y * _at_rows(data, points, dual[:, c], y, shares), 0.0, shares / model.lam)
        energy = float(alpha @ product(model.kernel_, data.X, None, alpha[:, None], memory)[:, 0])
        primals.append(float(shares @ np.maximum(1.0 - y * f[:, c], 0.0)) + 0.5 * model.lam * float(norm2[c]))
        duals.append(model.lam * float(np.abs(alpha).sum()) - 0.5 * model.lam * energy)
    gaps = [max(p - d, 0.0) / max(abs(p), 1e-12) for p, d in zip(primals, duals, strict=True)]
    return _certificate(model, primals, duals, max(gaps), faults)


def _at_rows(data: Data, points: Any, dual: Array, y: Array, shares: Array) -> Array:
    """Coefficients of the distinct rows that the model keeps, shared by weight among the rows equal to each."""
    keys = _keys(data.X)
    held: dict[bytes, Array] = {}
    for key, value in zip(_keys(points), dual, strict=True):
        held[key] = held.get(key, np.zeros(2)) + np.array([max(value, 0.0), min(value, 0.0)])
    masses: dict[bytes, Array] = {}
    for key, sign, share in zip(keys, y, shares, strict=True):
        masses[key] = masses.get(key, np.zeros(2)) + (np.array([share, 0.0]) if sign > 0 else np.array([0.0, share]))
    out = np.zeros(data.n)
    for i, key in enumerate(keys):
        side = 0 if y[i] > 0 else 1
        if key in held and masses[key][side] > 0:
            # Where all rows of a key have one label, all of its coefficient is theirs.
            mine = held[key][side] if masses[key][1 - side] > 0 else held[key].sum()
            out[i] = mine * shares[i] / masses[key][side]
    return out


def _keys(X: Any) -> list[bytes]:
    """Rows as bytes, to find equal ones by."""
    if isinstance(X, np.ndarray):
        return [row.tobytes() for row in np.ascontiguousarray(X + 0.0)]
    return [row.tobytes() for part in range(X.shape[0]) for row in (X[[part]].toarray() + 0.0,)]


def _certificate(model: Any, primals: list[float], duals: list[float], gap: float, faults: list[str]) -> Certificate:
    said = model.certificate_
    if said.kind == "stationary":
        faults = ["earlier batches are gone: these rows alone prove nothing of them", *faults]
    elif not gap <= model.tol:
        faults = [f"the relative duality gap {gap:.1e} is above tol={model.tol:.0e}", *faults]
    return Certificate(
        kind="duality gap",
        primal=sum(primals),
        dual=sum(duals),
        gap=gap,
        converged=not faults,
        iterations=said.iterations,
        seconds=said.seconds,
        message="; ".join(faults),
    )
