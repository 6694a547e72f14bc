"""A table of the user: two number columns and a target of classes or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.play.asked import FARTHEST, Array, Asked, sliders
from gramian.play.plane import GRID
from gramian.play.script import play

TASKS = ("classes", "numbers")
MACHINES = {"classes": ("svc", "logistic"), "numbers": ("ridge", "process")}


def answer(asked: Asked) -> dict[str, Any]:
    """Fit a machine to the standardised columns, and draw it over them."""
    X, task = asked.points, asked.choice("task", TASKS)
    machine = asked.choice("machine", MACHINES[task])
    y: Any = asked.classes if task == "classes" else _targets(asked, len(X))
    if len(X) < 2 or np.unique(y).size < 2:
        raise ValueError("the table needs at least two rows and two different targets.")
    C, noise = asked.number("C", 1.0, 1e-6, 1e6), asked.number("noise", 0.1, 1e-8, 1e6)
    made = {
        "svc": f"SVC(kernel=kernel, C={C!r})",
        "logistic": f"KernelMachineClassifier(kernel=kernel, loss='logistic', lam={1.0 / (len(X) * C)!r})",
        "ridge": f"KernelRidge(kernel=kernel, alpha={noise!r})",
        "process": f"GaussianProcessRegressor(kernel=kernel, alpha={noise!r}, optimizer=None, normalize_y=True)",
    }[machine]
    steps = [
        f"kernel = parse({repr(asked.kernel)!r})",
        f"model = make_pipeline(StandardScaler(), {made}).fit(X, y)",
    ]
    numbers = {"rows": "len(X)", "predictions": "model.predict(X)"}
    if task == "classes":
        numbers["errors"] = "np.sum(model.predict(X) != y)"
    else:
        numbers |= {"error": "np.sqrt(np.mean((model.predict(X) - y) ** 2))", "deviation": "y.std()"}
    played = play(asked, {"X": X, "y": y}, steps, numbers)
    model, binary = played.names["model"], task == "classes" and np.unique(y).size == 2
    picture = {
        "field": model.decision_function(asked.grid(GRID)) if binary else model.predict(asked.grid(GRID)),
        "size": GRID,
        "levels": [-1.0, 0.0, 1.0] if binary else [],
        "classes": np.unique(y) if task == "classes" else None,
    }
    text = _text(task, played.numbers)
    return played.answer(model[-1].certificate_, kernel=sliders(asked.kernel), picture=picture, text=text)


def _targets(asked: Asked, n: int) -> Array:
    given = asked.state.get("targets")
    if not isinstance(given, list) or len(given) != n:
        raise ValueError("targets must be a list of numbers, one for each point.")
    rows = Asked({str(i): value for i, value in enumerate(given)})
    return np.array([rows.number(str(i), 0.0, -FARTHEST, FARTHEST) for i in range(n)])


def _text(task: str, numbers: dict[str, Any]) -> str:
    if task == "classes":
        return (
            f"{numbers['rows']} rows, of which the machine puts {numbers['errors']} into another class than the table."
        )
    return (
        f"{numbers['rows']} rows; the function misses their targets by {numbers['error']:.4g} (root mean square), and "
        f"their mean would miss them by {numbers['deviation']:.4g}."
    )
