"""Primal and dual of a small support vector machine, step by step and at multipliers set by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian import SVC
from gramian.play.asked import Array, Asked, sliders
from gramian.play.plane import GRID
from gramian.play.script import script
from gramian.progress import recorded

MOST = 12
"""Points at most, since each has a slider."""
SHOWN = 16
"""Steps shown at most."""


def answer(asked: Asked) -> dict[str, Any]:
    """Solve the machine step by step, and evaluate primal and dual at the given multipliers."""
    X, y, kernel = asked.points, asked.classes, asked.kernel
    if len(X) > MOST:
        raise ValueError(f"this page takes at most {MOST} points, but there are {len(X)}.")
    if np.unique(y).size != 2:
        raise ValueError("this page needs points of exactly two classes.")
    C = asked.number("C", 1.0, 1e-3, 1e3)
    with recorded(asked.tell):
        model = SVC(C=C, kernel=kernel).fit(X, y)
        taken = np.unique(np.linspace(0, model.n_iter_[0], SHOWN + 1).astype(int)).tolist()
        course = [SVC(C=C, kernel=kernel, tol=1e-9, max_iter=t).fit(X, y).certificate_ for t in taken]
    signs = np.where(y == y.max(), 1.0, -1.0)
    lam = _multipliers(asked, len(X), C)
    if asked.state.get("balance", True) is True:
        lam = _balanced(lam, signs)
    K = kernel(X)
    values = K @ (lam * signs)
    hinges = np.maximum(1 - signs * (values + (signs - values)[:, None]), 0.0)  # b so that one point is on its margin
    constant = int(np.argmin(hinges.sum(axis=1)))
    b = float((signs - values)[constant])
    grid = asked.grid(GRID)
    numbers = {
        "optimum": model.certificate_.primal,
        "bound": float(model.dual(lam)),
        "value": float(0.5 * lam * signs @ values + C * hinges[constant].sum()),
        "balance": float(lam @ signs),
        "multipliers": model.multipliers_,
        "primal": [certificate.primal for certificate in course],
        "dual": [certificate.dual for certificate in course],
    }
    return {
        "kernel": sliders(kernel),
        "numbers": numbers,
        "certificate": str(model.certificate_),
        "converged": model.certificate_.converged,
        "picture": {
            "steps": taken,
            "used": lam,
            "by_hand": kernel(grid, X) @ (lam * signs) + b,
            "best": model.decision_function(grid),
            "size": GRID,
        },
        "text": _text(numbers),
        "python": _script(asked, C, lam, taken),
    }


def _multipliers(asked: Asked, n: int, C: float) -> Array:
    given = asked.state.get("lam")
    given = given if isinstance(given, list) else []
    own = Asked({str(i): value for i, value in enumerate(given[:n])})
    return np.array([min(own.number(str(i), 0.0, 0.0, 1e3), C) for i in range(n)])


def _balanced(lam: Array, signs: Array) -> Array:
    """Multipliers with the heavier class scaled down so that Σ λ_i y_i = 0."""
    sums = np.array([lam[signs == side].sum() for side in (-1.0, 1.0)])
    if not sums.min() > 0:
        return np.zeros_like(lam)
    scaled = lam * np.where(signs > 0, sums.min() / sums[1], sums.min() / sums[0])
    return np.asarray(scaled)


def _text(numbers: dict[str, Any]) -> str:
    bound, best, value = numbers["bound"], numbers["optimum"], numbers["value"]
    if not np.isfinite(bound):
        return (
            f"Σ λᵢyᵢ = {numbers['balance']:.3g} is not zero, so the dual function is minus infinity there: no bound. "
            f"The optimum is {best:.6g}."
        )
    return (
        f"Your multipliers prove that the objective is at least {bound:.6g}; the function they make has {value:.6g}. "
        f"The optimum, {best:.6g}, lies between."
    )


def _script(asked: Asked, C: float, lam: Array, taken: list[int]) -> str:
    steps = [
        f"kernel, C = parse({repr(asked.kernel)!r}), {C!r}",
        "model = SVC(C=C, kernel=kernel).fit(X, y)",
        f"course = [SVC(C=C, kernel=kernel, tol=1e-9, max_iter=t).fit(X, y).certificate_ for t in {taken!r}]",
        "signs = np.where(y == y.max(), 1.0, -1.0)",
        "values = kernel(X) @ (lam * signs)",
        "hinges = np.maximum(1 - signs * (values + (signs - values)[:, None]), 0)  # a constant for each row",
    ]
    numbers = {
        "optimum": "model.certificate_.primal",
        "bound": "model.dual(lam)",
        "value": "0.5 * lam * signs @ values + C * hinges.sum(axis=1).min()",
        "balance": "lam @ signs",
        "multipliers": "model.multipliers_",
        "primal": "[certificate.primal for certificate in course]",
        "dual": "[certificate.dual for certificate in course]",
    }
    return script({"X": asked.points, "y": asked.classes, "lam": lam}, steps, numbers)
