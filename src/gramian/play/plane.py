"""Kernel classifiers in the plane."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.play.asked import Asked, falling, sliders
from gramian.play.script import play

GRID = 48
"""Grid points along each side."""
LOSSES = ("logistic", "hinge", "squared_hinge", "ramp")
VARIANTS = ("textbook", "passes")
MACHINES = ("svc", *LOSSES, "pegasos", "gp")
TITLES = {"svc": "Support vector machine", "gp": "Gaussian process classifier", "pegasos": "Pegasos"}
WEIGHTS = {
    "svc": "model.multipliers_",
    "pegasos": "(X[:, None] == model.X_fit_).all(axis=2) @ np.abs(model.dual_coef_)",  # keeps support vectors only
    "gp": None,
}
"""The weight of each point in f: (n,), or (n, functions) for several classes; λ in an SVM."""


def answer(asked: Asked) -> dict[str, Any]:
    """Fit a machine to the points, and draw it."""
    X, y = asked.points, asked.classes
    count = np.unique(y).size
    if count < 2:
        raise ValueError("a classifier needs points of two classes or more; add some of another class.")
    machine, binary = asked.choice("machine", MACHINES), count == 2
    left, right, bottom, top = asked.view
    # The decision function, or probabilities of a Gaussian process; for two classes, of the second.
    values = "decision_function({})" if machine != "gp" else "predict_proba({})" + ("[:, 1]" if binary else "")
    steps = [
        f"model = {_machine(asked, machine)}.fit(X, y)",
        f"across, up = np.meshgrid(np.linspace({left!r}, {right!r}, {GRID}), np.linspace({bottom!r}, {top!r}, {GRID}))",
        "grid = np.column_stack([across.ravel(), up.ravel()])",
        f"field = model.{values.format('grid') if binary else 'predict(grid)'}",
    ]
    numbers = {
        **_objective(machine, binary),
        "gap": "model.certificate_.gap",
        "errors": "int(np.sum(model.predict(X) != y))",
        "values": f"model.{values.format('X')}",
    }
    if weights := WEIGHTS.get(machine, "np.abs(model.dual_coef_)"):
        numbers["lambda"] = weights
    played = play(asked, {"X": X, "y": y}, steps, numbers)
    model = played.names["model"]
    kinds = model.kinds_.tolist() if machine == "svc" else None
    picture = {
        "field": played.names["field"],
        "size": GRID,
        "levels": ([0.5] if machine == "gp" else [-1.0, 0.0, 1.0]) if binary else [],
        "classes": model.classes_,
        "kinds": kinds,
        "steps": falling(played.traces),
    }
    title = TITLES.get(machine, f"Kernel machine with {machine.replace('_', ' ')} loss")
    text = f"{title} on {len(X)} points of {count} classes; {played.numbers['errors']} on the wrong side."
    if kinds is not None:
        counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in ("peripheral", "margin", "violator"))
        text += f" Objects by kind: {counts}."
    return played.answer(model.certificate_, kernel=sliders(asked.kernel), picture=picture, text=text)


def _machine(asked: Asked, machine: str) -> str:
    """The estimator as Python."""
    C = asked.number("C", 1.0, 1e-6, 1e6)
    kernel, lam = f"kernel=parse({repr(asked.kernel)!r})", 1.0 / (len(asked.points) * C)
    if machine == "svc":
        return f"SVC({kernel}, C={C!r})"
    if machine == "gp":
        return f"GaussianProcessClassifier({kernel}, optimizer=None)"
    if machine != "pegasos":
        return f"KernelMachineClassifier({kernel}, loss={machine!r}, lam={lam!r})"
    taken, seed = asked.whole("steps", 200, 1, 100_000), asked.whole("seed", 0, 0, 2**31)
    how = f"n_iter={taken}, tol=1e-09, variant={asked.choice('variant', VARIANTS)!r}, random_state={seed}"
    return f"PegasosClassifier({kernel}, lam={lam!r}, {how})"


def _objective(machine: str, binary: bool) -> dict[str, str]:
    """Primal and dual value; for an SVM with several classes, sums over pairs.

    Other machines with a function for each class certify the worst of them, and which one that is may be a matter of
    rounding: their values are not shown.
    """
    if not binary and machine not in ("svc", "logistic"):
        return {}
    value = "sum(pair.{} for pair in model.certificates_)" if machine == "svc" else "model.certificate_.{}"
    return {name: value.format(name) for name in ("primal", "dual")}
