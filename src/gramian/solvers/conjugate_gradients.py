"""Preconditioned conjugate gradients for several right-hand sides that share a matrix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Operator = Callable[[Array, NDArray[np.intp]], Array]


def conjugate_gradients(
    R: Array,
    times: Operator,
    precondition: Operator,
    goal: Any,
    *,
    proceed: Callable[[], bool],
    patience: float = np.inf,
    rounding: float = np.inf,
) -> Array:
    """Solve ``A_j d_j = r_j`` until ``‖r_j - A_j d_j‖ ≤ goal_j``: R (n, k), goal (k,) → (n, k).

    ``times`` and ``precondition`` take vectors and their column indices; iterations go on while ``proceed()`` is true.
    ``patience`` bounds the steps without progress; negative curvature beyond ``rounding`` is an error.
    """
    D, goal = np.zeros_like(R), np.broadcast_to(np.asarray(goal, dtype=np.float64), R.shape[1:])
    columns = np.flatnonzero(_norms(R) > goal)
    R, goal = R[:, columns], goal[columns]
    Z = precondition(R, columns)
    P, rho = Z, _dots(R, Z)
    best, since = np.inf, 0
    while columns.size and since < patience and proceed():
        Q = times(P, columns)
        curvature = _dots(P, Q)
        if np.any(curvature < 0) and (smallest := (curvature / _dots(P, P)).min()) < -rounding:
            raise np.linalg.LinAlgError(
                "the kernel is not positive semi-definite on these rows: with the ridge added, the smallest eigenvalue "
                f"of the matrix is still {smallest:.3g} or less; use another kernel, or a larger ridge."
            )
        sound = (curvature > 0) & (rho > 0)
        length = np.where(sound, rho, 0.0) / np.where(sound, curvature, 1.0)
        D[:, columns] += length * P
        R = R - length * Q
        keep = sound & (_norms(R) > goal)
        columns, R, P, rho, goal = columns[keep], R[:, keep], P[:, keep], rho[keep], goal[keep]
        Z = precondition(R, columns)
        rho, old = _dots(R, Z), rho
        P = Z + (rho / old) * P
        left = float((_norms(R) / goal).max(initial=0.0))
        since = 0 if left < best else since + 1
        best = min(left, best)
    return D


def _dots(A: Array, B: Array) -> Array:
    return np.asarray(np.einsum("ij,ij->j", A, B))


def _norms(A: Array) -> Array:
    return np.asarray(np.linalg.norm(A, axis=0))
