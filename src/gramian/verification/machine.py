"""Machines with any loss: the Fenchel-Young gap, at a dual point found from public attributes.

With ``P = Σ w ℓ(f + b) + penalty(‖f‖)`` every u with ``Σ u = 0`` (where there is a constant) bounds the optimum from
below: by ``-Σ w ℓ*(u/w) - ‖u‖²_K / (2μ)`` for the squared penalty, ``-Σ w ℓ*(u/w) - R ‖u‖_K`` for the ball, and
``-Σ w ℓ*(u/w)`` with ``‖u‖_K <= λ`` for the norm. At the optimum u is a subgradient at f, and ``-u`` a multiple of the
coefficients.
"""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import brentq, nnls
from sklearn.utils.class_weight import compute_sample_weight

from gramian.certificates import Certificate
from gramian.losses import offers
from gramian.verification.dual_points import TINIEST, LearnedFunction
from gramian.verification.rows import EPS, INDEFINITE, Array, Data, Shown, check_same, expanded, feature_weights, found

FLOOR = 1e-12
"""The smallest tolerance that is checked."""
KINK = 1e-9
"""Margins this close to a kink of a concave part, relative to the largest, are at the kink."""
SEARCHED = 300
"""Up to this many unknowns a better dual point is sought by descending from f."""
SECANTS = 8
"""Strengths of the squared penalty that are tried where another penalty has to be met."""
ENOUGH = 1e-10
"""Below this gap no better dual point is sought."""
FAR, TINY = 1e8, 1e-9
"""The range of norms in which the slope of a penalty is inverted."""
CUTS = 500
"""Cutting planes of a joint loss, at most."""


class _Tilted:
    """A convex loss plus the tangent of a concave one."""

    def __init__(self, loss: Any, tilt: Array) -> None:
        self.loss, self.tilt = loss, tilt

    def value(self, f: Array, y: Array) -> Array:
        return np.asarray(self.loss.value(f, y) + self.tilt * f)

    def gradient(self, f: Array, y: Array) -> Array:
        return np.asarray(self.loss.gradient(f, y) + self.tilt)

    def conjugate(self, u: Array, y: Array) -> Array:
        return np.asarray(self.loss.conjugate(u - self.tilt, y))

    def domain(self, y: Array) -> tuple[Array, Array]:
        low, high = self.loss.domain(y)
        return low + self.tilt, high + self.tilt


# ---- the estimators ---------------------------------------------------------------------------------------------


def regression(model: Any, data: Data) -> Certificate:
    """One function for each target, or for each part of a loss that has several parts."""
    Y = data.targets()
    parts = getattr(model.loss_, "parts", (model.loss_,))
    tasks = [(part, Y[:, [j]]) for j in range(Y.shape[1]) for part in parts]
    link = getattr(model.loss_, "inverse_link", np.asarray)
    return _machines(model, data, tasks, data.weights, link, model.predict)


def classification(model: Any, data: Data) -> Certificate:
    """One function for two classes, else one for each class; all of them together if the loss couples them."""
    codes, loss, weights = data.codes(model.classes_), model.loss_, data.weights
    if model.class_weight is not None:
        weights = weights * compute_sample_weight(model.class_weight, data.y, indices=np.flatnonzero(weights))
    hot, two = np.eye(model.classes_.size)[codes], model.classes_.size == 2
    if getattr(loss, "coupled", False):
        tasks = [(loss, hot)]
    else:
        tasks = [(loss, 2.0 * hot[:, [c]] - 1.0) for c in ([1] if two else range(model.classes_.size))]

    def shown(f: Array) -> Array:
        return f[:, [1]] - f[:, [0]] if two and f.shape[1] == 2 else f

    return _machines(model, data, tasks, weights, shown, model.decision_function)


def _machines(model: Any, data: Data, tasks: Any, weights: Array, link: Any, predict: Any) -> Certificate:
    """One certificate for several functions: the worst figures, sums of objectives."""
    kept, mapped = weights > 0, hasattr(model, "approximation_")
    if not mapped:
        if model.dual_coef_.shape[0] != data.n:
            raise ValueError(
                f"the model was fitted to {model.dual_coef_.shape[0]} rows, got {data.n}; pass the same rows."
            )
        check_same(model.X_fit_, data.rows)
    shown = Shown.of(model, data, feature_weights(model) if mapped else model.dual_coef_)
    F = None if shown.F is None else shown.F[kept]

    def times(V: Array, balanced: bool = False) -> Array:
        if F is not None:
            return np.asarray(F @ (F.T @ V))
        spread = np.zeros((data.n, V.shape[1]))
        spread[kept] = V
        return expanded(model.kernel_, data, spread, np.arange(data.n), balanced=balanced)[1][kept]

    b = np.atleast_1d(model.intercept_).astype(np.float64)
    with np.errstate(over="ignore"):
        faults = shown.unlike(predict(data.given), np.asarray(link(shown.predicted + b)))
    faults += [] if data.is_definite(model) else [INDEFINITE]
    each, done, multipliers = [], 0, np.atleast_1d(model.multiplier_)
    for t, (loss, y) in enumerate(tasks):
        own = slice(done, done + y.shape[1])
        done = own.stop
        c = shown.coefficients[:, own] if mapped else shown.coefficients[kept, own]
        lost, norm2 = float(shown.lost[own].max()), float(shown.norm2[own].sum())
        lost2 = 0.0 if mapped else 16.0 * lost * float(np.abs(c).sum())
        numbers = (y[kept], weights[kept], shown.f[kept, own], b[own], c)
        u = None if mapped or not hasattr(model, "dual_point_") else model.dual_point_.reshape(data.n, -1)[kept, own]
        g = LearnedFunction(loss, *numbers, F, times, norm2, lost, lost2, bool(model.fit_intercept), u)
        each.append(_judged(model, g, float(multipliers[min(t, multipliers.size - 1)]), faults))
    worst = max(each, key=lambda c: (not c.converged, c.violation))
    sums: Any = {name: sum(getattr(c, name) for c in each) for name in ("primal", "dual")}
    return replace(worst, **sums | {"rounding": max(getattr(c, "rounding", 0.0) for c in each)})


def _judged(model: Any, g: LearnedFunction, multiplier: float, faults: list[str]) -> Certificate:
    """Primal and dual value of one function."""
    if getattr(g.loss, "joint", False):
        return _joint(model, g, faults)
    if offers(g.loss, "concave_gradient"):
        return _stationary(model, g, multiplier, faults)
    total, faults, tol = float(g.w.sum()), list(faults), max(model.tol, FLOOR)
    if not isinstance(model.penalty, str) and model.certificate_.kind == "stationary" and g.norm2 > 0:
        return _by_multiplier(model, g, faults)
    if model.penalty == "squared" and model.lam_ == 0:
        return _without_penalty(model, g, multiplier, faults)
    if isinstance(model.penalty, str):
        size = {"ball": 0.0, "norm": math.sqrt(g.norm2), "squared": 0.5 * g.norm2}[model.penalty]
    else:
        size = float(model.penalty.value(math.sqrt(g.norm2)))
    primal = g.value(g.at) + (model.lam_ * total * size if size else 0.0)
    scale, known = max(abs(primal), g.least_scale()), offers(g.loss, "conjugate")
    strengths = _strengths(model, g, multiplier, total)
    dual = primal - g.rest(g.gradient(g.at), strengths[0]) / (2.0 * strengths[0])
    if known:
        dual = _best_bound(model, g, primal, scale, strengths, total)
    gap = abs(primal - dual) / scale
    if model.penalty == "ball" and g.norm2 > (model.radius * (1.0 + 1e-9)) ** 2 + g.lost2:
        faults.append(f"infeasible: ‖f‖ = {math.sqrt(g.norm2):.6g} is outside the ball of radius {model.radius:g}")
    if not gap <= tol:
        faults.append(f"the relative duality gap {gap:.1e} is above tol={model.tol:.0e}")
    values = {"primal": primal / total, "violation": gap} | ({"dual": dual / total, "gap": gap} if known else {})
    # An error in a value counts by the slope of the loss there, and once more in ‖f‖².
    slopes = float(np.abs(g.gradient(g.at)).sum())
    terms = np.abs(g.gradient(g.at) * g.y)
    if getattr(g.loss, "positive", False):  # the terms of the loss, exp f and y f, cancel
        terms = terms + g.w[:, None] * g.y * (1.0 + np.abs(g.at))
    values["rounding"] = (2.0 * g.lost * slopes + EPS * float(terms.sum())) / scale
    if model.penalty == "ball" and g.F is None and g.norm2 > 0:
        # ‖u‖_K is the root of a sum of cancelling terms if f is inside the ball.
        lost = slopes**2 * g.lost / float(np.abs(g.coefficients).sum())
        norm = multiplier * total * math.sqrt(g.norm2)
        values["rounding"] += model.radius * lost / (norm + math.sqrt(lost)) / scale
    return found(model, "duality gap" if known else "stationary", faults, bound=known, **values)


def _best_bound(
    model: Any, g: LearnedFunction, primal: float, scale: float, strengths: list[float], total: float
) -> float:
    """The bound nearest to the primal value: one above it is rounding, and proves no more than one as far below it."""
    dual, tol = -math.inf, max(model.tol, FLOOR)
    for mu, u in ((strength, u) for strength in strengths for u in g.points(strength)):
        bounds = [_bound(model, g, v, mu, total) for v in (u, g.feasible(u))]
        dual = min(dual, *bounds, key=lambda d: abs(primal - d))
        if abs(primal - dual) <= ENOUGH * scale:
            return dual
    unknowns = (len(g.f) if g.F is None else g.F.shape[1]) * g.f.shape[1]
    smooth = offers(g.loss, "curvature") and g.norm2 > 0 and unknowns <= SEARCHED
    if smooth and not abs(primal - dual) <= tol * scale:
        u = g.descended(partial(_slope, model, strengths[0], total))
        bounds = [_bound(model, g, v, strengths[0], total) for v in (u, g.feasible(u))]
        dual = min(dual, *bounds, key=lambda d: abs(primal - d))
    mu = strengths[0]
    for _ in range(SECANTS):
        if abs(primal - dual) <= tol * scale or not (points := list(g.in_box(mu))):
            break
        bounds = [_bound(model, g, g.feasible(u), mu, total) for u in points]
        dual = min(dual, *bounds, key=lambda d: abs(primal - d))
        if model.penalty != "norm":
            break
        # At the minimum for μ, ‖u‖_K = μ ‖f‖ must be λ, and ‖f‖ hardly changes.
        squares = [g.square(u) for u in points]
        least = min(range(len(points)), key=lambda i: g.conjugate(points[i]) + 0.5 * squares[i] / mu)
        mu *= model.lam_ * total / max(math.sqrt(squares[least]), TINIEST)
    return dual


def _joint(model: Any, g: LearnedFunction, faults: list[str]) -> Certificate:
    """The certificate of a joint loss: its cutting planes at f and nearby bound the objective from below."""
    lam, faults = float(model.lam_), list(faults)

    def value(f: Array) -> float:
        return float(np.asarray(g.loss.value(f, g.y[:, 0])).item())

    here, size, cuts, dual, tol = g.f[:, 0], lam * g.norm2, [], -math.inf, max(model.tol, FLOOR)
    primal = least = value(here) + 0.5 * size
    scale = max(abs(primal), TINIEST)
    for _ in range(CUTS):
        least = min(least, value(here) + 0.5 * size)
        if least - dual <= tol * scale:  # no plane can raise the bound much
            break
        u = np.asarray(g.loss.gradient(here, g.y[:, 0]), dtype=np.float64)
        cuts.append((value(here) - float(u @ here), u, g.K(u[:, None])[:, 0]))
        offsets, U, KU = (np.stack(part, axis=-1) for part in zip(*cuts, strict=True))
        G = U.T @ KU / lam
        # Minimised over the simplex as least squares, with a heavily weighted row for the sum.
        values, vectors = np.linalg.eigh(0.5 * (G + G.T))
        root = np.sqrt(np.maximum(values, EPS * max(float(values[-1]), TINIEST)))
        heavy = 1e4 * max(float(root[-1]), TINIEST)
        A = np.vstack([root[:, None] * vectors.T, np.full(len(cuts), heavy)])
        a = nnls(A, np.append(vectors.T @ offsets / root, heavy), maxiter=100 * len(cuts))[0]
        a = a / max(float(a.sum()), TINIEST)
        here, size = -KU @ a / lam, float(a @ G @ a)
        dual = max(dual, float(offsets @ a) - 0.5 * size)
    gap = abs(primal - dual) / scale
    if not gap <= tol:
        faults.append(f"the relative duality gap {gap:.1e} is above tol={model.tol:.0e}")
    figures = {"primal": primal, "dual": dual, "gap": gap, "violation": gap}
    return found(model, "duality gap", faults, bound=True, **figures)


def _strengths(model: Any, g: LearnedFunction, multiplier: float, total: float) -> list[float]:
    """The μ of the squared penalty with the same solution, from ``multiplier_``; for other penalties also from f."""
    strengths = [multiplier * total if math.isfinite(multiplier) else total]
    if not isinstance(model.penalty, str) and g.norm2 > 0:
        norm = math.sqrt(g.norm2)
        strengths.append(max(model.lam_ * total * float(model.penalty.derivative(norm)) / norm, TINIEST))
    if model.penalty == "norm" and g.norm2 > 0:
        strengths.append(model.lam_ * total / math.sqrt(g.norm2))
    if model.penalty == "ball" and g.norm2 > 0:
        against = -float(np.sum(g.gradient(g.at) * g.f)) / g.norm2
        strengths += [against, TINIEST] if against > 0 else [TINIEST]  # inside the ball the constraint is inactive
    return strengths


def _bound(model: Any, g: LearnedFunction, u: Array, mu: float, total: float) -> float:
    """The lower bound of the objective that u proves."""
    # K times the coefficients is known, from predictions.
    told = g.F is None and np.abs(u + mu * g.coefficients).max() <= 1e-12 * np.abs(u).max()
    norm = math.sqrt(max(-mu * float(np.sum(u * g.f)), 0.0) if told else g.square(u))
    shrink = min(1.0, model.lam_ * total / norm) if model.penalty == "norm" and norm > 0 else 1.0
    if isinstance(model.penalty, str):
        ball = model.radius * norm if model.penalty == "ball" else 0.0
        own = {"norm": 0.0, "ball": ball, "squared": norm**2 / (2.0 * mu)}[model.penalty]
    else:
        strength = model.lam_ * total
        most = strength * float(model.penalty.derivative(FAR))
        shrink = min(1.0, most / norm) if norm > 0 else 1.0
        own = strength * _conjugate(model.penalty, shrink * norm / strength)
    # If u does not sum to zero, the constant is assumed to be no further from optimal than the values are.
    off = shrink * u.sum(axis=0) if g.intercept else np.zeros_like(g.b)
    reach = float(np.abs(g.f).max() + np.abs(g.at - g.y).max())
    return float(-g.conjugate(shrink * u) - own + off @ g.b - np.abs(off).sum() * reach)


def _without_penalty(model: Any, g: LearnedFunction, multiplier: float, faults: list[str]) -> Certificate:
    """The certificate for lam=0: that of the small lam which was used, whose penalty must be negligible."""
    plain = copy(model)
    plain.lam_ = multiplier
    of, total = _judged(plain, g, multiplier, faults), float(g.w.sum())
    loss, own = g.value(g.at) / total, 0.5 * multiplier * g.norm2
    gap = (loss - of.dual + own) / max(loss, g.least_scale() / total)
    said = [] if gap <= 2.0 * max(model.tol, FLOOR) else [f"the loss is {gap:.1e} above its proved lower bound"]
    message = "; ".join(filter(None, [of.message, *said]))
    return replace(of, primal=loss, dual=of.dual - own, gap=gap, converged=not message, message=message)


def _by_multiplier(model: Any, g: LearnedFunction, faults: list[str]) -> Certificate:
    """The certificate for a penalty that is not convex: the gap of the squared penalty with the same slope at f."""
    norm, plain = math.sqrt(g.norm2), copy(model)
    plain.penalty, plain.lam_ = "squared", model.lam_ * float(model.penalty.derivative(norm)) / norm
    of = _judged(plain, g, plain.lam_, faults)
    primal = g.value(g.at) / float(g.w.sum()) + model.lam_ * float(model.penalty.value(norm))
    return replace(of, kind="stationary", primal=primal, dual=math.nan, gap=math.nan, violation=of.gap)


def _slope(model: Any, mu: float, total: float, norm: float) -> float:
    """The slope of the penalty at a norm; of a ball, of the squared penalty with the same solution."""
    if model.penalty == "ball":
        return mu * norm
    if isinstance(model.penalty, str):
        return float(model.lam_ * total * (1.0 if model.penalty == "norm" else norm))
    return float(model.lam_ * total * model.penalty.derivative(norm))


def _conjugate(g: Any, t: float) -> float:
    """``sup_r t r - g(r)`` of a convex g, at the r whose slope is t."""
    if t <= float(g.derivative(TINY)):
        return -float(g.value(0.0))
    root = brentq(lambda s: float(g.derivative(math.exp(s))) - t, math.log(TINY), math.log(2.0 * FAR), xtol=1e-14)
    return t * math.exp(root) - float(g.value(math.exp(root)))


def _stationary(model: Any, g: LearnedFunction, multiplier: float, faults: list[str]) -> Certificate:
    """The certificate for a difference of convex losses: the gap of the problem linearised at f.

    At a kink of the concave part, to rounding, either slope will do.
    """
    reach, total = KINK * max(float(np.abs(g.at).max()), 1.0) + g.lost, float(g.w.sum())
    tried = []
    for side in (0.0, 1.0, -1.0):
        tilt = g.loss.concave_gradient(g.at + side * reach * g.y, g.y)
        convex = replace(g, loss=_Tilted(g.loss.convex_part(), tilt))
        tried.append((_judged(model, convex, multiplier, faults), convex))
        if tried[-1][0].converged:
            break
    of, convex = min(tried, key=lambda each: each[0].gap)
    wrong = float(np.sum(g.w * (g.y * g.at <= 0)[:, 0])) / total
    message = "; ".join(
        filter(None, [f"a stationary point, not an optimum; training 0-1 loss {wrong:.4g}", of.message])
    )
    primal = of.primal + (g.value(g.at) - convex.value(g.at)) / total
    return replace(of, kind="stationary", primal=primal, dual=math.nan, gap=math.nan, violation=of.gap, message=message)
