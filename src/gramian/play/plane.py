"""Kernel classifiers in the plane."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian import SVC, GaussianProcessClassifier, KernelMachineClassifier, PegasosClassifier
from gramian.play.asked import Array, Asked, falling, sliders
from gramian.play.script import script
from gramian.progress import recorded

GRID = 48
"""Grid points along each side."""
LOSSES = ("logistic", "hinge", "squared_hinge", "ramp")
VARIANTS = ("textbook", "passes")
MACHINES = ("svc", *LOSSES, "pegasos", "gp")


def answer(asked: Asked) -> dict[str, Any]:
    """Fit a machine to the points, and draw it."""
    X, y, kernel = asked.points, asked.classes, asked.kernel
    if np.unique(y).size < 2:
        raise ValueError("a classifier needs points of two classes or more; add some of another class.")
    machine = asked.choice("machine", MACHINES)
    estimator, options = _machine(asked, machine)
    with recorded(asked.tell) as traces:
        model = estimator(kernel=kernel, **options).fit(X, y)
    grid, binary = asked.grid(GRID), model.classes_.size == 2
    certificate = model.certificate_
    found = {
        **_objective(machine, model),
        "gap": certificate.gap,
        "errors": int(np.sum(model.predict(X) != y)),
        "values": _values(machine, model, X),
        **_weights(machine, model, X),
    }
    kinds = model.kinds_.tolist() if machine == "svc" else None
    return {
        "kernel": sliders(kernel),
        "numbers": found,
        "certificate": str(certificate),
        "converged": certificate.converged,
        "picture": {
            "field": _values(machine, model, grid) if binary else model.predict(grid),
            "size": GRID,
            "levels": ([0.5] if machine == "gp" else [-1.0, 0.0, 1.0]) if binary else [],
            "classes": model.classes_,
            "kinds": kinds,
            "steps": falling(traces),
        },
        "text": _text(machine, model, found, kinds, len(X)),
        "python": _script(asked, estimator.__name__, options, machine, binary),
    }


def _machine(asked: Asked, machine: str) -> tuple[Any, dict[str, Any]]:
    """The estimator, and its parameters except the kernel."""
    C = asked.number("C", 1.0, 1e-6, 1e6)
    lam = 1.0 / (len(asked.points) * C)
    if machine == "svc":
        return SVC, {"C": C}
    if machine == "gp":
        return GaussianProcessClassifier, {"optimizer": None}
    if machine != "pegasos":
        return KernelMachineClassifier, {"loss": machine, "lam": lam}
    return PegasosClassifier, {
        "lam": lam,
        "n_iter": asked.whole("steps", 200, 1, 100_000),
        "tol": 1e-9,
        "variant": asked.choice("variant", VARIANTS),
        "random_state": asked.whole("seed", 0, 0, 2**31),
    }


def _values(machine: str, model: Any, X: Array) -> Array:
    """The decision function, or probabilities of a Gaussian process; for two classes, of the second."""
    if machine != "gp":
        return model.decision_function(X)
    shares = model.predict_proba(X)
    return shares[:, 1] if model.classes_.size == 2 else shares


def _objective(machine: str, model: Any) -> dict[str, float]:
    """Primal and dual value; for an SVM with several classes, sums over pairs.

    Other machines with a function for each class certify the worst of them, and which one that is may be a matter of
    rounding: their values are not shown.
    """
    if machine == "svc":
        return {name: sum(getattr(pair, name) for pair in model.certificates_) for name in ("primal", "dual")}
    if model.classes_.size > 2 and machine != "logistic":
        return {}
    return {"primal": model.certificate_.primal, "dual": model.certificate_.dual}


def _weights(machine: str, model: Any, X: Array) -> dict[str, Array]:
    """The weight of each point in f: (n,), or (n, functions) for several classes; λ in an SVM."""
    if machine == "gp":
        return {}
    if machine == "svc":
        return {"lambda": model.multipliers_}
    if machine == "pegasos":  # keeps its support vectors only
        return {"lambda": (X[:, None] == model.X_fit_).all(axis=2) @ np.abs(model.dual_coef_)}
    return {"lambda": np.abs(model.dual_coef_)}


def _text(machine: str, model: Any, found: dict[str, Any], kinds: list[str] | None, n: int) -> str:
    name = {"svc": "Support vector machine", "gp": "Gaussian process classifier", "pegasos": "Pegasos"}.get(
        machine, f"Kernel machine with {machine.replace('_', ' ')} loss"
    )
    classes = f"{model.classes_.size} classes"
    said = f"{name} on {n} points of {classes}; {found['errors']} on the wrong side."
    if kinds is not None:
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("peripheral", "margin", "violator"))
        said += f" Objects by kind: {counts}."
    return said


def _script(asked: Asked, name: str, options: dict[str, Any], machine: str, binary: bool) -> str:
    given = "".join(f", {k}={v!r}" for k, v in options.items())
    left, right, bottom, top = asked.view
    column = "[:, 1]" if machine == "gp" and binary else ""
    values = "predict_proba" if machine == "gp" else "decision_function"
    steps = [
        f"model = {name}(kernel=parse({repr(asked.kernel)!r}){given}).fit(X, y)",
        f"across, up = np.meshgrid(np.linspace({left!r}, {right!r}, {GRID}), np.linspace({bottom!r}, {top!r}, {GRID}))",
        "grid = np.column_stack([across.ravel(), up.ravel()])",
        f"field = model.{values}(grid){column}" if binary else "field = model.predict(grid)",
    ]
    weights = {
        "svc": {"lambda": "model.multipliers_"},
        "pegasos": {"lambda": "(X[:, None] == model.X_fit_).all(axis=2) @ np.abs(model.dual_coef_)"},
        "gp": {},
    }.get(machine, {"lambda": "np.abs(model.dual_coef_)"})
    objective = "sum(pair.{} for pair in model.certificates_)" if machine == "svc" else "model.certificate_.{}"
    single = binary or machine in ("svc", "logistic")
    numbers = {
        **({name: objective.format(name) for name in ("primal", "dual")} if single else {}),
        "gap": "model.certificate_.gap",
        "errors": "int(np.sum(model.predict(X) != y))",
        "values": f"model.{values}(X){column}",
        **weights,
    }
    return script({"X": asked.points, "y": asked.classes}, steps, numbers)
