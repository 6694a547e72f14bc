"""A table of the user: two number columns and a target of classes or numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gramian import SVC, GaussianProcessRegressor, KernelMachineClassifier, KernelRidge
from gramian.play.asked import FARTHEST, Array, Asked, sliders
from gramian.play.plane import GRID
from gramian.play.script import script
from gramian.progress import recorded

TASKS = ("classes", "numbers")
MACHINES = {"classes": ("svc", "logistic"), "numbers": ("ridge", "process")}


def answer(asked: Asked) -> dict[str, Any]:
    """Fit a machine to the standardised columns, and draw it over them."""
    X, task, kernel = asked.points, asked.choice("task", TASKS), asked.kernel
    machine = asked.choice("machine", MACHINES[task])
    y: Any = asked.classes if task == "classes" else _targets(asked, len(X))
    if len(X) < 2 or np.unique(y).size < 2:
        raise ValueError("the table needs at least two rows and two different targets.")
    C, noise = asked.number("C", 1.0, 1e-6, 1e6), asked.number("noise", 0.1, 1e-8, 1e6)
    estimators: dict[str, Any] = {
        "svc": (SVC, {"C": C, "kernel": kernel}),
        "logistic": (KernelMachineClassifier, {"loss": "logistic", "lam": 1.0 / (len(X) * C), "kernel": kernel}),
        "ridge": (KernelRidge, {"alpha": noise, "kernel": kernel}),
        "process": (GaussianProcessRegressor, {"kernel": kernel, "alpha": noise, "optimizer": None}),
    }
    estimator, options = estimators[machine]
    if machine == "process":
        options["normalize_y"] = True
    model = make_pipeline(StandardScaler(), estimator(**options))
    with recorded(asked.tell):
        model.fit(X, y)
    certificate = model[-1].certificate_
    binary = task == "classes" and np.unique(y).size == 2
    field = model.decision_function(asked.grid(GRID)) if binary else model.predict(asked.grid(GRID))
    fitted = model.predict(X)
    numbers = {"rows": len(X), "predictions": fitted, **_figures(task, fitted, y)}
    return {
        "kernel": sliders(kernel),
        "numbers": numbers,
        "certificate": str(certificate),
        "converged": certificate.converged,
        "picture": {
            "field": field,
            "size": GRID,
            "levels": [-1.0, 0.0, 1.0] if binary else [],
            "classes": np.unique(y) if task == "classes" else None,
        },
        "text": _text(task, numbers, len(X)),
        "python": _script(asked, task, y, estimator.__name__, options),
    }


def _targets(asked: Asked, n: int) -> Array:
    given = asked.state.get("targets")
    if not isinstance(given, list) or len(given) != n:
        raise ValueError("targets must be a list of numbers, one for each point.")
    rows = Asked({str(i): value for i, value in enumerate(given)})
    return np.array([rows.number(str(i), 0.0, -FARTHEST, FARTHEST) for i in range(n)])


def _figures(task: str, fitted: Any, y: Any) -> dict[str, float]:
    if task == "classes":
        return {"errors": int(np.sum(fitted != y))}
    return {"error": float(np.sqrt(np.mean((fitted - y) ** 2))), "deviation": float(y.std())}


def _text(task: str, numbers: dict[str, Any], n: int) -> str:
    if task == "classes":
        return f"{n} rows, of which the machine puts {numbers['errors']} into another class than the table."
    return (
        f"{n} rows; the function misses their targets by {numbers['error']:.4g} (root mean square), and their mean "
        f"would miss them by {numbers['deviation']:.4g}."
    )


def _script(asked: Asked, task: str, y: Any, name: str, options: dict[str, Any]) -> str:
    given = [f"kernel=parse({repr(asked.kernel)!r})"]
    given += [f"{key}={value!r}" for key, value in options.items() if key != "kernel"]
    steps = [f"model = make_pipeline(StandardScaler(), {name}({', '.join(given)})).fit(X, y)"]
    numbers = {"rows": "len(X)", "predictions": "model.predict(X)"}
    if task == "classes":
        numbers["errors"] = "np.sum(model.predict(X) != y)"
    else:
        numbers |= {"error": "np.sqrt(np.mean((model.predict(X) - y) ** 2))", "deviation": "y.std()"}
    return script({"X": asked.points, "y": y}, steps, numbers)
