"""Regression on a line: ridge, interpolation, Gaussian processes, and another loss to compare."""

from __future__ import annotations

from typing import Any

from gramian import GaussianProcessRegressor
from gramian.kernels import White
from gramian.play.asked import Asked, falling, sliders
from gramian.play.script import play
from gramian.progress import recorded

GRID = 161
"""Grid points along the line."""
MAP = 21
"""Grid points along each side of the evidence map."""
NOISES, OTHERS = (-4.0, 1.0), (-2.0, 2.0)
"""Range of the evidence map in powers of ten, for the noise and for other hyperparameters."""
MODELS = ("process", "ridge", "interpolation")
LOSSES = ("none", "absolute", "huber", "quantile", "epsilon_insensitive")


def answer(asked: Asked) -> dict[str, Any]:
    """Fit a function to the points, and draw it with its error bounds."""
    kind, noise = asked.choice("model", MODELS), asked.number("noise", 0.1, 1e-8, 1e4)
    made = {
        "process": f"GaussianProcessRegressor(kernel, alpha={noise!r}, optimizer=None)",
        "ridge": f"KernelRidge(alpha={noise!r}, kernel=kernel)",
        "interpolation": "KernelInterpolator(kernel)",
    }[kind]
    steps = [
        f"kernel = parse({repr(asked.kernel)!r})",
        f"model = {made}.fit(X, y)",
        f"grid = np.linspace({asked.view[0]!r}, {asked.view[1]!r}, {GRID})[:, None]",
    ]
    numbers = {"mean": "model.predict(grid)", "norm": "model.function_.norm()"}
    numbers |= {name: f"model.function_.{name}(grid)" for name in ("power", "worst_error")}
    numbers["error"] = "np.sqrt(np.mean((model.predict(X) - y) ** 2))"
    if kind == "process":
        steps += ["mean, lower, upper = model.predict(grid, return_interval=0.95)"]
        numbers |= {"lower": "lower", "upper": "upper", "evidence": "model.log_marginal_likelihood_value_"}
        if paths := asked.whole("paths", 0, 0, 10):
            numbers["paths"] = f"model.sample_y(grid, {paths}, random_state={asked.whole('seed', 0, 0, 2**31)}).T"
    if loss := _loss(asked):
        # The same penalty as the ridge.
        given = f"{loss}, lam={noise / len(asked.points)!r}, kernel=kernel, fit_intercept=False"
        steps += [f"beside = KernelMachineRegressor({given}).fit(X, y)"]
        numbers["beside"] = "beside.predict(grid)"
    played = play(asked, _data(asked), steps, numbers)
    model, beside = played.names["model"], played.names.get("beside")
    picture = {"x": played.names["grid"][:, 0], "loss": None, "steps": None}
    if beside is not None:
        picture |= {"loss": str(beside.certificate_), "steps": falling(played.traces)}
    text = _text(kind, played.numbers, len(asked.points))
    return played.answer(model.certificate_, kernel=sliders(asked.kernel), picture=picture, text=text)


def _data(asked: Asked) -> dict[str, Any]:
    return {"X": asked.points[:, :1], "y": asked.points[:, 1]}


def learn(asked: Asked) -> dict[str, Any]:
    """Maximise the evidence over the hyperparameters and the noise."""
    X, y, kernel = asked.points[:, :1], asked.points[:, 1], asked.kernel
    with recorded(asked.tell):
        model = GaussianProcessRegressor(kernel, noise="learn", random_state=0).fit(X, y)
    learned: Any = model.kernel_.children[0]  # the other child is the noise
    rounded = learned.with_fields({p.name: _digits(p.value) for p in learned.all_parameters() if p.free})
    return {
        "kernel": sliders(rounded),
        "noise": float(f"{max(model.noise_, 1e-8):.4g}"),
        "numbers": {"evidence": float(model.log_marginal_likelihood_value_)},
        "certificate": str(model.certificate_),
        "converged": model.certificate_.converged,
    }


def _digits(value: Any) -> Any:
    """Numbers rounded to four digits."""
    return tuple(map(_digits, value)) if isinstance(value, tuple) else float(f"{value:.4g}")


def evidence(asked: Asked) -> dict[str, Any]:
    """One row of the evidence map over two hyperparameters; the last hyperparameter is the noise."""
    kernel = asked.kernel + White(asked.number("noise", 0.1, 1e-8, 1e4))
    names = [*asked.kernel.theta_names, "noise"]
    last = len(names) - 1
    across, up = asked.whole("across", 0, 0, last), asked.whole("up", last, 0, last)
    if across == up:
        raise ValueError("the axes of the map must be different hyperparameters.")
    row = asked.whole("row", 0, 0, MAP - 1)
    limits = [NOISES if i == last else OTHERS for i in (across, up)]
    columns, rows = (f"np.log(np.logspace({low!r}, {high!r}, {MAP}))" for low, high in limits)
    steps = [
        f"model = GaussianProcessRegressor(parse({repr(kernel)!r}), optimizer=None).fit(X, y)",
        f"theta, row = model.kernel_.theta, {row}",
        "values = []",
        f"for place in {columns}:",
        f"    theta[{[across, up]}] = place, {rows}[row]",
        "    values.append(model.log_marginal_likelihood(theta))",
    ]
    picture = {"names": names, "limits": limits, "row": row, "size": MAP}
    return play(asked, _data(asked), steps, {"evidence": "values"}).answer(picture=picture)


def _loss(asked: Asked) -> str | None:
    """Another loss than the square, as Python."""
    return {
        "none": None,
        "absolute": "Absolute()",
        "huber": f"Huber(delta={asked.number('delta', 0.3, 1e-3, 1e3)!r})",
        "quantile": f"Quantile(q={asked.number('q', 0.9, 0.01, 0.99)!r})",
        "epsilon_insensitive": f"EpsilonInsensitive(epsilon={asked.number('epsilon', 0.2, 0.0, 1e3)!r})",
    }[asked.choice("loss", LOSSES)]


def _text(kind: str, numbers: dict[str, Any], n: int) -> str:
    name = {"process": "Gaussian process", "ridge": "Kernel ridge", "interpolation": "Interpolation"}[kind]
    said = f"{name} through {n} points; it misses them by {numbers['error']:.3g} (root mean square)"
    said += f", and its norm is {numbers['norm']:.3g}."
    if kind == "process":
        said += f" log evidence {numbers['evidence']:.6g}; the band holds 95 % of the posterior of the function."
    return said
