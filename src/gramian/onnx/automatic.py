"""Automatic models as ONNX operators: columns, scaling, forests, machines, averaging, calibration."""

from __future__ import annotations

import math
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.polynomial import Chebyshev
from numpy.typing import NDArray
from scipy.special import ndtri
from sklearn.base import is_classifier

from gramian.estimators.auto.forest import Forest
from gramian.estimators.auto.response import MOST_LOG
from gramian.estimators.auto.scaling import NEAR, TAIL, Robust, Standard
from gramian.estimators.svm import SVC
from gramian.onnx.columns import encoded
from gramian.onnx.forest import predictions
from gramian.onnx.machines import Output, flat, labelled, regressor, values

if TYPE_CHECKING:
    from gramian.onnx.graph import Graph

Array = NDArray[np.float64]
TERMS = 48
"""Degree of the polynomial for normal quantiles, accurate to 1e-13."""
DOUBLE, WHOLE = 11, 7
"""ONNX element types."""


def outputs(g: Graph, model: Any) -> dict[str, Output]:
    """Return the outputs of the graph."""
    z, width = encoded(g, model.columns_.columns), model.columns_.width
    scaled = [_transformed(g, scaling, z, width) for *_, scaling in model._parts]
    members = [(weight, inside, own) for (weight, _, inside, _), own in zip(model._parts, scaled, strict=True)]
    return (_classes if is_classifier(model) else _numbers)(g, model, members)


# ---- scales -------------------------------------------------------------------------------------------------------


def _transformed(g: Graph, scaling: Any, z: str, width: int) -> str:
    """The columns, those of numbers scaled, and the predictions of a forest; or these alone: z (n, width)."""
    if isinstance(scaling, Forest):
        predicted = predictions(g, scaling, z)
        if scaling.scaling is None:
            return predicted
        return g("Concat", _transformed(g, scaling.scaling, z, width), predicted, axis=1)
    if not scaling.places.size:
        return z
    others = np.setdiff1d(np.arange(width), scaling.places)
    scaled = _scaled(g, scaling, g("Gather", z, scaling.places, axis=1))
    both = g("Concat", scaled, g("Gather", z, others, axis=1), axis=1) if others.size else scaled
    return g("Gather", both, np.argsort(np.concatenate([scaling.places, others])), axis=1)


def _scaled(g: Graph, scaling: Any, z: str) -> str:
    """Scaled numbers: z (n, k)."""
    if isinstance(scaling, Standard):
        # With one column, onnxruntime would fuse the quotient, in single precision.
        return g("MatMul", g("Sub", z, scaling.mean), np.diag(1.0 / scaling.deviation))
    if isinstance(scaling, Robust):
        u = g("Clip", g("Div", g("Sub", z, scaling.median), scaling.spread), np.array(-1e150), np.array(1e150))
        third = g("Div", u, np.full(scaling.median.size, NEAR))
        return g("Div", u, g("Sqrt", g("Add", g("Mul", third, third), 1.0)))
    known = np.ascontiguousarray(scaling.quantiles.T)
    upward = _rank(g, z, known)
    downward = _rank(g, g("Neg", z), -known[:, ::-1])
    rank = g("Mul", g("Add", g("Sub", upward, downward), 1.0), 0.5)
    return _normal_quantile(g, g("Clip", rank, np.array(TAIL), np.array(1.0 - TAIL)))


def _rank(g: Graph, z: str, known: Array) -> str:
    """Ranks between 0 and 1 by interpolation, as ``np.interp`` does it: z (n, k), known (k, q) ascending."""
    k, q = known.shape
    below = g("Cast", g("GreaterOrEqual", g("Unsqueeze", z, np.array([2])), known[None]), to=WHOLE)
    count = g("ReduceSum", below, np.array([2]), keepdims=0)
    at = g("Min", g("Max", g("Sub", count, np.array(1)), np.array(0)), np.array(q - 2))
    places = g("Add", at, q * np.arange(k))
    low, high = g("Gather", known.ravel(), places), g("Gather", known.ravel(), g("Add", places, np.array(1)))
    width = g("Sub", high, low)
    # Equal values have no width: z there counts as above all of them, or below if none is smaller.
    beyond = g("Cast", g("Greater", count, np.array(0)), to=DOUBLE)
    share = g("Where", g("Greater", width, 0.0), g("Div", g("Sub", z, low), width), beyond)
    share = g("Clip", share, np.array(0.0), np.array(1.0))
    return g("Div", g("Add", g("Cast", at, to=DOUBLE), share), float(q - 1))


def _normal_quantile(g: Graph, p: str) -> str:
    """Normal quantiles, by a polynomial in the logarithm of the smaller tail."""
    ends = [math.log(0.5 * TAIL), math.log(0.5)]
    series = Chebyshev.interpolate(lambda t: -ndtri(np.exp(t)), TERMS, ends)
    other = g("Sub", 1.0, p)
    t = g("Log", g("Min", p, other))
    u = g("Div", g("Sub", t, sum(ends) / 2.0), (ends[1] - ends[0]) / 2.0)
    twice = g("Add", u, u)
    first = second = g("Mul", u, 0.0)
    for c in series.coef[:0:-1]:  # Clenshaw's recurrence
        first, second = g("Add", g("Sub", g("Mul", twice, first), second), float(c)), first
    value = g("Add", g("Sub", g("Mul", u, first), second), float(series.coef[0]))
    return g("Mul", value, g("Sign", g("Sub", p, other)))


# ---- numbers ------------------------------------------------------------------------------------------------------


def _numbers(g: Graph, model: Any, members: Any) -> dict[str, Output]:
    """The prediction in units of the targets and, for Gaussian processes, its standard deviation."""
    found = [(weight, regressor(g, inside, z)) for weight, inside, z in members]
    means = [(weight, _column(g, out["prediction"])) for weight, out in found]
    total = g.total("Add", [_times(g, mean, weight) for weight, mean in means])
    f = _times(g, total, float(model._scale))
    named = {"prediction": _natural(g, model, f)}
    if all("deviation" in out for _, out in found):
        variances = []
        for (weight, mean), (_, out) in zip(means, found, strict=True):
            own, apart = _column(g, out["deviation"]), g("Sub", mean, total)
            variances.append(_times(g, g("Add", g("Mul", own, own), g("Mul", apart, apart)), weight))
        std = _times(g, g("Sqrt", g.total("Add", variances)), float(model._scale))
        if model._is_log:  # log-normal
            most = g("Min", g("Mul", std, std), MOST_LOG)
            std = g("Mul", named["prediction"], g("Sqrt", g("Sub", g("Exp", most), 1.0)))
        named["deviation"] = std
    return {name: Output(flat(g, value), 1) for name, value in named.items()}


def _times(g: Graph, value: str, factor: float, width: int = 1) -> str:
    """Columns times a number, as a matrix product: onnxruntime would fuse a scalar product in single precision."""
    return g("MatMul", value, factor * np.eye(width))


def _column(g: Graph, out: Output) -> str:
    return out.value if out.rank == 2 else g("Unsqueeze", out.value, np.array([1]))


def _natural(g: Graph, model: Any, f: str) -> str:
    f = g("Add", f, float(model._centre + getattr(model, "shift_", 0.0)))
    return g("Exp", g("Min", f, MOST_LOG)) if model._is_log else f


# ---- classes ------------------------------------------------------------------------------------------------------


def _classes(g: Graph, model: Any, members: Any) -> dict[str, Output]:
    """Labels, decision values and probabilities."""
    count, T = model.classes_.size, float(model.temperature_)
    parts = [_times(g, _scores(g, model, inside, z), weight, count) for weight, inside, z in members]
    scores = g("Add", g.total("Add", parts), np.asarray(model.offsets_, dtype=np.float64))
    probabilities = g("Softmax", g("Div", scores, np.full(count, T)), axis=1)
    if count == 2:
        level = T * math.log(model.threshold_ / (1.0 - model.threshold_))
        decision = flat(g, g("Sub", g("MatMul", scores, np.array([[-1.0], [1.0]])), np.array([level])))
        best = g("Cast", g("Greater", decision, 0.0), to=WHOLE)
    else:
        decision = g("Add", scores, T * np.log(model.class_weight_))
        best = g("ArgMax", decision, axis=1, keepdims=0)
    made = {"label": labelled(g, model.classes_, best), "decision": Output(decision, 1 if count == 2 else 2)}
    return {**made, "probabilities": Output(probabilities, 2)}


def _scores(g: Graph, model: Any, inside: Any, z: str) -> str:
    """One number for each class from a machine: (n, c)."""
    count = model.classes_.size
    if not hasattr(inside, "classes_"):
        f = _column(g, regressor(g, inside, z)["prediction"])
        f = _times(g, f, float(model._scale), np.size(model._centre))
        return _each_way(g, g("Add", f, np.atleast_1d(np.asarray(model._centre, dtype=np.float64))), count)
    if inside.classes_.size < count:
        raise ValueError("the machine inside was fitted to some of the classes only, which cannot be written as ONNX.")
    f = g("Add", values(g, inside, z), np.atleast_1d(np.asarray(inside.intercept_, dtype=np.float64)))
    if count == 2:
        return _each_way(g, f if np.size(inside.intercept_) == 1 else g("MatMul", f, np.array([[-1.0], [1.0]])), 2)
    if not isinstance(inside, SVC):
        return f
    lost, won = np.zeros((2, count * (count - 1) // 2, count))
    for p, (i, j) in enumerate(combinations(range(count), 2)):
        lost[p, i], won[p, j] = 1.0, -1.0
    return g("Add", g("MatMul", g("Min", f, 0.0), lost), g("MatMul", g("Max", f, 0.0), won))


def _each_way(g: Graph, f: str, count: int) -> str:
    """Two scores (-f/2, f/2) from one decision value f of two classes."""
    return g("MatMul", f, np.array([[-0.5, 0.5]])) if count == 2 else f
