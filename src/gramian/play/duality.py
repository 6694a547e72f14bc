"""Primal and dual of a small support vector machine, step by step and at multipliers set by hand."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.play.asked import Array, Asked, sliders
from gramian.play.plane import GRID
from gramian.play.script import play

MOST = 12
"""Points at most, since each has a slider."""
SHOWN = 16
"""Steps shown at most."""
NUMBERS = {
    "optimum": "model.certificate_.primal",
    "bound": "model.dual(lam)",
    "value": "0.5 * lam * signs @ values + C * hinges.sum(axis=1).min()",
    "balance": "lam @ signs",
    "multipliers": "model.multipliers_",
    "primal": "[certificate.primal for certificate in course]",
    "dual": "[certificate.dual for certificate in course]",
}


def answer(asked: Asked) -> dict[str, Any]:
    """Solve the machine step by step, and evaluate primal and dual at the given multipliers."""
    X, y, kernel = asked.points, asked.classes, asked.kernel
    if len(X) > MOST:
        raise ValueError(f"this page takes at most {MOST} points, but there are {len(X)}.")
    if np.unique(y).size != 2:
        raise ValueError("this page needs points of exactly two classes.")
    C = asked.number("C", 1.0, 1e-3, 1e3)
    lam = _multipliers(asked, len(X), C)
    if asked.state.get("balance", True) is True:
        lam = _balanced(lam, np.where(y == y.max(), 1.0, -1.0))
    steps = [
        f"kernel, C = parse({repr(kernel)!r}), {C!r}",
        "model = SVC(C=C, kernel=kernel).fit(X, y)",
        f"taken = np.unique(np.linspace(0, model.n_iter_[0], {SHOWN + 1}).astype(int)).tolist()",
        "course = [SVC(C=C, kernel=kernel, tol=1e-9, max_iter=t).fit(X, y).certificate_ for t in taken]",
        "signs = np.where(y == y.max(), 1.0, -1.0)",
        "values = kernel(X) @ (lam * signs)",
        "constants = signs - values  # with one of them as b, a point is on its margin",
        "hinges = np.maximum(1 - signs * (values + constants[:, None]), 0)",
    ]
    played = play(asked, {"X": X, "y": y, "lam": lam}, steps, NUMBERS)
    model, grid, names = played.names["model"], asked.grid(GRID), played.names
    b = names["constants"][np.argmin(names["hinges"].sum(axis=1))]
    picture = {
        "steps": names["taken"],
        "used": lam,
        "by_hand": kernel(grid, X) @ (lam * names["signs"]) + b,
        "best": model.decision_function(grid),
        "size": GRID,
    }
    return played.answer(model.certificate_, kernel=sliders(kernel), picture=picture, text=_text(played.numbers))


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
