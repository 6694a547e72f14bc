"""Pegasos: the duality gap of ``mean hinge + (lam/2) ‖f‖²`` without a constant."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.kernels.resolve import is_precomputed
from gramian.verification.box_quadratic import WORK, towards_minimum
from gramian.verification.rows import INDEFINITE, Array, Data, Shown, dense, feature_weights, found, product

LEAST = 1e-4
"""Gaps are relative to at least this share of the loss of the zero function, as for machines through a map."""
ALONE = "the rows of earlier batches are not known, so these rows alone prove nothing"


def pegasos(model: Any, data: Data) -> Certificate:
    """The gap of the averaged function: at its coefficients as a dual point, or at the best point through a map."""
    codes, k, mapped = data.codes(model.classes_), model.classes_.size, hasattr(model, "approximation_")
    if not mapped and not hasattr(model, "support_"):
        return found(model, "stationary", [ALONE])
    shares = data.weights / data.weights.sum()
    signs = np.column_stack([np.where(codes == label, 1.0, -1.0) for label in ([1] if k == 2 else range(k))])
    shown = Shown.of(model, data, feature_weights(model) if mapped else _at_rows(model, data, codes, shares))
    upper = (shares / model.lam)[:, None]
    if shown.F is not None:
        alpha = np.column_stack(
            [_dual_point(shown.F, *each, upper[:, 0]) for each in zip(signs.T, shown.f.T, strict=True)]
        )
        squares = np.sum((shown.F.T @ (signs * alpha)) ** 2, axis=0)
    else:
        alpha = np.clip(signs * shown.coefficients, 0.0, upper)
        squares = np.sum(signs * alpha * product(model.kernel_, data.X, None, signs * alpha, data.memory), axis=0)
    primals = shares @ np.maximum(1.0 - signs * shown.f, 0.0) + 0.5 * model.lam * shown.norm2
    duals = model.lam * (alpha.sum(axis=0) - 0.5 * squares)
    scales = np.maximum(primals, LEAST if mapped else 1e-12)
    gap = float(np.max(np.maximum(primals - duals, 0.0) / scales))
    faults = [*shown.unlike(model.decision_function(data.given)), *([] if data.is_definite(model) else [INDEFINITE])]
    if not gap <= model.tol:
        faults = [f"the relative duality gap {gap:.1e} is above tol={model.tol:.0e}", *faults]
    figures: Any = {"primal": float(primals.sum()), "dual": float(duals.sum()), "gap": gap, "bound": mapped}
    return found(model, "duality gap", faults, rounding=float(np.max(shown.lost / scales)), **figures)


def _dual_point(F: Array, y: Array, f: Array, upper: Array) -> Array:
    """A point that proves a bound: the best, or the subgradients at f if that would take too long."""
    G, one = y[:, None] * F, np.ones(len(F))
    points = [np.where(y * f < 1.0, upper, 0.0)]
    if F.size * F.shape[1] <= WORK:
        points += towards_minimum(G, -one, 0.0 * one, upper, False)
    return min(points, key=lambda alpha: 0.5 * float(np.sum((G.T @ alpha) ** 2)) - float(alpha.sum()))


def _at_rows(model: Any, data: Data, codes: NDArray[np.intp], shares: Array) -> Array:
    """Coefficients at the rows; of equal rows with the same label, each has the part that its weight is."""
    c = np.zeros((data.n, model.dual_coef_[:1].size))
    c[model.support_] = model.dual_coef_.reshape(-1, c.shape[1])
    if is_precomputed(model.kernel_) or model.kernel_.tells_copies:
        return c
    known: dict[Any, int] = {}
    same = np.array([known.setdefault(key, len(known)) for key in zip(codes, _keys(data.X), strict=True)])
    mass, total = np.bincount(same, shares), np.zeros((len(known), c.shape[1]))
    np.add.at(total, same, c)
    return total[same] * np.divide(shares, mass[same], out=np.zeros(data.n), where=mass[same] > 0)[:, None]


def _keys(X: Any) -> list[Any]:
    """Keys of rows, the same for equal ones; objects are compared as they are."""
    if hasattr(X, "indptr"):
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
        rows = [slice(a, b) for a, b in zip(X.indptr, X.indptr[1:], strict=False)]
        return [(X.indices[row].tobytes(), X.data[row].tobytes()) for row in rows]
    if X.dtype == object:
        return [x if isinstance(x, str) else i for i, x in enumerate(X)]
    return [row.tobytes() for row in dense(X) + 0.0]
