"""Machines with any loss: the Fenchel-Young gap, from a dual point made of what the model shows.

With ``P = Σ w ℓ(f + b) + penalty(‖f‖)`` every u with ``Σ u = 0`` (where there is a constant) bounds the optimum from
below: by ``-Σ w ℓ*(u/w) - ‖u‖²_K / (2μ)`` for the squared penalty, ``-Σ w ℓ*(u/w) - R ‖u‖_K`` for the ball, and
``-Σ w ℓ*(u/w)`` with ``‖u‖_K <= λ`` for the norm. At the optimum u is a subgradient at f, and ``-u`` a multiple of the
coefficients.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import lsq_linear, minimize
from sklearn.utils.class_weight import compute_sample_weight

from gramian.certificates import Certificate
from gramian.losses import Hinge, offers
from gramian.verification.rows import (
    EPS,
    Array,
    Data,
    check_same,
    expanded,
    feature_weights,
    product,
    size_of_terms,
    unlike,
)

__all__ = ["classification", "hinges", "regression"]

LEAST = 1e-4
"""A gap is relative to this part of what the best constant loses, at least."""
ROUNDED = 1e-9
"""The same of what zero loses."""
FLOOR = 1e-12
"""A tolerance below this is not asked for."""
NEAR = (0.0, 1e-12, 1e-9, 1e-6, 1e-4, 1e-2)
"""Distances to a kink, in units of the largest value, within which a row may have any slope between its two."""
NEWTON = 5
"""Corrections of smooth slopes."""
ACTIVE = 150
"""Of these, up to which an active-set method is used, which ends at bounds."""
FREE = 2000
"""Rows near kinks, and features, up to which their slopes are found by least squares."""


class _Space:
    """K of the rows that count, by tiles; or F Fᵀ from the features of a map."""

    def __init__(self, model: Any, data: Data, kept: NDArray[np.bool_]) -> None:
        self.model, self.data, self.kept = model, data, kept
        self.F: Array | None = None
        if hasattr(model, "approximation_"):
            self.F = np.concatenate([F for _, F in data.features(model)])[kept]

    def times(self, V: Array) -> Array:
        """K V."""
        if self.F is not None:
            return np.asarray(self.F @ (self.F.T @ V))
        spread = np.zeros((self.data.n, V.shape[1]))
        spread[self.kept] = V
        return product(self.model.kernel_, self.data.X, None, spread, self.data.memory)[self.kept]

    def factor(self) -> Array | None:
        """F with ``K = F Fᵀ``, where that is small enough to compute."""
        if self.F is None and np.count_nonzero(self.kept) <= FREE:
            K = self.times(np.eye(int(np.count_nonzero(self.kept))))
            values, vectors = np.linalg.eigh(0.5 * (K + K.T))
            return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
        return self.F


@dataclass(frozen=True, eq=False)
class _Function:
    """One function, or the functions that a loss couples, on the rows that count: values f, constants b."""

    loss: Any
    y: Array
    w: Array
    f: Array
    b: Array
    alpha: Any
    theta: Any
    intercept: bool
    space: _Space
    size2: float
    """The size of the terms that ‖f‖² sums."""

    @property
    def norm2(self) -> float:
        """‖f‖²."""
        if self.theta is not None:
            return float(np.sum(self.theta**2))
        return max(float(np.sum(self.alpha * self.f)), 0.0)

    def value(self, f: Array) -> float:
        """Σ w ℓ(f, y)."""
        return float(np.sum(self.w * np.asarray(self.loss.value(f, self.y)).reshape(-1)))

    def gradient(self, f: Array) -> Array:
        """w ∂ℓ/∂f."""
        return np.asarray(self.w[:, None] * self.loss.gradient(f, self.y), dtype=np.float64)

    def conjugate(self, u: Array) -> float:
        """Σ w ℓ*(u / w), infinite outside the domain."""
        each = np.asarray(self.loss.conjugate(u / self.w[:, None], self.y))
        return float(np.sum(self.w * each.reshape(-1)))

    def rest(self, u: Array, mu: float) -> float:
        """``‖u + μ f‖²`` in the kernel's space: zero where the function is what u says."""
        if self.theta is not None:
            assert self.space.F is not None
            return float(np.sum((self.space.F.T @ u + mu * self.theta) ** 2))
        r = u + mu * self.alpha
        return max(float(np.sum(r * self.space.times(r))), 0.0)

    def candidates(self, mu: float) -> list[Array]:
        """Slopes at f, and those near the kinks as the coefficients want them; each as given and with sum zero."""
        found = self._slopes(mu)
        if not self.intercept or getattr(self.loss, "coupled", False):
            return found
        return [*found, *(self._with_sum_zero(u) for u in found)]

    def _with_sum_zero(self, u: Array) -> Array:
        """What Σu is off, spread over the rows that have room for it."""
        low, high = (self.w[:, None] * end for end in self._domain())
        u, off = np.clip(u, low, high), float(u.sum())
        room = u - low if off > 0 else high - u
        room = np.where(np.isinf(room), 1.0, room if not np.isinf(room).any() else 0.0)
        return np.clip(u - off * room / max(float(room.sum()), 1e-300), low, high)

    def _domain(self) -> tuple[Any, Any]:
        return self.loss.domain(self.y) if hasattr(self.loss, "domain") else (-np.inf, np.inf)

    def _slopes(self, mu: float) -> list[Array]:
        f = self.f + self.b
        found = [self.gradient(f), np.zeros_like(f)]
        if getattr(self.loss, "coupled", False):
            return found
        if self.alpha is not None:
            low, high = self._domain()
            found.append(np.clip(-mu * self.alpha, self.w[:, None] * low, self.w[:, None] * high))
        F: Any = self.space.factor()
        if offers(self.loss, "curvature"):
            return found if F is None else [*found, self._balanced(f, F, mu)]
        reach = max(float(np.abs(f).max()), float(np.abs(self.y).max()), 1e-300)
        for near in NEAR if F is not None else ():
            u = self._between(f, near * reach, F, mu)
            if u is not None:
                found.append(u)
        return found

    def _balanced(self, f: Array, F: Array, mu: float) -> Array:
        """Slopes near f, in their domain, that sum to what the coefficients say: Newton's method in the values."""
        G = np.column_stack([F, np.ones(len(F))]) if self.intercept else F
        theta = self.theta if self.theta is not None else F.T @ self.alpha
        wanted = np.append(-mu * theta[:, 0], 0.0) if self.intercept else -mu * theta[:, 0]
        best, least = self.gradient(f), np.inf
        for _ in range(NEWTON):
            u = self.gradient(f)
            rest = wanted - G.T @ u[:, 0]
            if not np.linalg.norm(rest) < least:
                break
            best, least = u, float(np.linalg.norm(rest))
            curvature = self.w[:, None] * self.loss.curvature(f, self.y)
            f = f + (G @ np.linalg.lstsq((G * curvature).T @ G, rest, rcond=EPS)[0])[:, None]
        return best

    def _between(self, f: Array, near: float, F: Array, mu: float) -> Array | None:
        """Slopes of the rows within a distance of their kinks, by least squares within what the kinks allow."""
        low, high, u = self.gradient(f - near)[:, 0], self.gradient(f + near)[:, 0], self.gradient(f)[:, 0]
        free = high > low
        if not 0 < np.count_nonzero(free) <= FREE:
            return None
        theta = self.theta if self.theta is not None else F.T @ self.alpha
        wanted = -mu * theta[:, 0] - F[~free].T @ u[~free]
        A = F[free].T
        if self.intercept:
            heavy = 1e3 * max(float(np.abs(F).max()), 1e-300)
            A = np.vstack([A, np.full(A.shape[1], heavy)])
            wanted = np.append(wanted, -heavy * u[~free].sum())
        unit = max(float(np.abs(wanted).max()) / max(float(np.abs(A).max()), 1e-300), 1e-300)
        method: Any = "bvls" if np.count_nonzero(free) <= ACTIVE else "trf"
        u[free] = unit * lsq_linear(A, wanted / unit, (low[free] / unit, high[free] / unit), method=method, tol=1e-15).x
        return u[:, None]

    def _at_constant(self, b: Array, zero: Array) -> float:
        return self.value(zero + b)

    def _slope_at_constant(self, b: Array, zero: Array) -> Array:
        return np.asarray(self.gradient(zero + b).sum(axis=0))

    def least_scale(self) -> float:
        """What a gap is relative to, at least: a small part of what the best constant loses, or zero, or a count."""
        least = max(LEAST * abs(self.best_constant()), ROUNDED * abs(self.value(np.zeros_like(self.f))))
        if getattr(self.loss, "positive", False):
            least = max(least, ROUNDED * float(np.sum(self.w[:, None] * (1.0 + self.y))))
        return max(least, 1e-300)

    def best_constant(self) -> float:
        """What the best constant loses."""
        zero = np.zeros_like(self.f)
        if not self.intercept:
            return self.value(zero)
        if zero.shape[1] > 1:
            start = np.zeros(zero.shape[1])
            found = minimize(self._at_constant, start, args=(zero,), jac=self._slope_at_constant)
            return float(found.fun)
        low, high = -1.0, 1.0
        while self.gradient(zero + low).sum() > 0 and low > -1e200:
            low *= 4.0
        while self.gradient(zero + high).sum() < 0 and high < 1e200:
            high *= 4.0
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if self.gradient(zero + middle).sum() > 0 else (middle, high)
        return min(self.value(zero + low), self.value(zero + high))


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
    """One function for each target, or for each part of a loss that has several."""
    Y = data.targets()
    parts = getattr(model.loss_, "parts", (model.loss_,))
    tasks = [(part, Y[:, [j]]) for j in range(Y.shape[1]) for part in parts]
    link = getattr(model.loss_, "inverse_link", lambda f: f)
    return _machines(model, data, tasks, data.weights, link, model.predict)


def classification(model: Any, data: Data) -> Certificate:
    """One function for two classes, one for each, or all of them together where the loss couples them."""
    codes, loss = data.codes(model.classes_), model.loss_
    weights = data.weights
    if model.class_weight is not None:
        weights = weights * compute_sample_weight(model.class_weight, data.y)
    hot = np.eye(model.classes_.size)[codes]
    if getattr(loss, "coupled", False):
        tasks = [(loss, hot)]
    else:
        columns = [1] if model.classes_.size == 2 else range(model.classes_.size)
        tasks = [(loss, 2.0 * hot[:, [c]] - 1.0) for c in columns]
    two = model.classes_.size == 2

    def shown(f: Array) -> Array:
        return f[:, [1]] - f[:, [0]] if two and f.shape[1] == 2 else f

    return _machines(model, data, tasks, weights, shown, model.decision_function)


def hinges(model: Any, data: Data, signs: list[Array]) -> Certificate:
    """The hinge without a constant, of Pegasos through a map."""
    tasks = [(Hinge(), y[:, None]) for y in signs]
    plain = SimpleNamespace(**vars(model), penalty="squared", lam_=model.lam, multiplier_=model.lam)
    plain.intercept_, plain.fit_intercept = np.zeros(len(signs)), False
    return _machines(plain, data, tasks, data.weights, np.asarray, model.decision_function)


def _machines(model: Any, data: Data, tasks: Any, weights: Array, link: Any, predict: Any) -> Certificate:
    kept = weights > 0
    space = _Space(model, data, kept)
    b = np.atleast_1d(model.intercept_).astype(np.float64)
    alpha = theta = None
    if space.F is not None:
        theta = feature_weights(model)
        predicted = f = np.concatenate([F @ theta for _, F in data.features(model)])
        size = size_of_terms(model, space.F, theta)
    else:
        alpha = np.asarray(model.dual_coef_, dtype=np.float64).reshape(model.dual_coef_.shape[0], -1)
        if alpha.shape[0] != data.n:
            raise ValueError(f"the model was fitted to {alpha.shape[0]} rows, got {data.n}; pass the same rows.")
        check_same(model.X_fit_, data.rows)
        predicted, f = expanded(model.kernel_, data.X, alpha, data.memory)
        size = np.abs(model.kernel_.diag(data.X)).max() * np.abs(alpha).sum(axis=0)
    with np.errstate(over="ignore"):
        faults = unlike(predict(data.given), np.asarray(link(predicted + b)), size.max())
    found, done = [], 0
    multipliers = np.atleast_1d(model.multiplier_)
    for t, (loss, y) in enumerate(tasks):
        own = slice(done, done + y.shape[1])
        done = own.stop
        function = _Function(
            loss,
            y[kept],
            weights[kept],
            f[kept, own],
            b[own],
            None if alpha is None else alpha[kept, own],
            None if theta is None else theta[:, own],
            bool(model.fit_intercept),
            space,
            float(size[own].sum() * (0.0 if alpha is None else np.abs(alpha[:, own]).sum())),
        )
        found.append(_judged(model, function, float(multipliers[min(t, multipliers.size - 1)]), faults))
    return _together(found)


def _judged(model: Any, g: _Function, multiplier: float, faults: list[str]) -> Certificate:
    """Primal and dual value of one function."""
    if offers(g.loss, "concave_gradient"):
        return _stationary(model, g, multiplier, faults)
    total = float(g.w.sum())
    f = g.f + g.b
    strengths = _strengths(model, g, multiplier, total)
    primal = g.value(f) + _penalty(model, g, total)
    known = offers(g.loss, "conjugate")
    if known:
        bounds = [_dual(model, g, u, mu, total) for mu in strengths for u in g.candidates(mu)]
        # A dual value above the primal one is rounding, and proves as little as one below it.
        dual = min(bounds, key=lambda bound: abs(primal - bound))
    else:
        dual = primal - g.rest(g.gradient(f), strengths[0]) / (2.0 * strengths[0])
    gap = abs(primal - dual) / max(abs(primal), g.least_scale())
    faults = list(faults)
    if model.penalty == "ball" and g.norm2 > (model.radius * (1.0 + 1e-9)) ** 2 + 64.0 * EPS * g.size2:
        faults.append(f"infeasible: ‖f‖ = {math.sqrt(g.norm2):.6g} is outside the ball of radius {model.radius:g}")
    if not gap <= max(model.tol, FLOOR):
        faults.append(f"the relative duality gap {gap:.1e} is above tol={model.tol:.0e}")
    return Certificate(
        kind="duality gap" if known else "stationary",
        primal=primal / total,
        dual=dual / total if known else math.nan,
        gap=gap if known else math.nan,
        violation=gap,
        converged=not faults,
        iterations=model.certificate_.iterations,
        seconds=model.certificate_.seconds,
        message="; ".join(faults),
    )


def _strengths(model: Any, g: _Function, multiplier: float, total: float) -> list[float]:
    """The μ of the squared penalty with the same solution, as the model says; of the others, also as f itself says."""
    found = [multiplier * total if math.isfinite(multiplier) else total]
    if model.penalty == "norm" and g.norm2 > 0:
        found.append(model.lam_ * total / math.sqrt(g.norm2))
    if model.penalty == "ball" and g.norm2 > 0:
        against = -float(np.sum(g.gradient(g.f + g.b) * g.f)) / g.norm2
        found += [against] if against > 0 else []
    return found


def _penalty(model: Any, g: _Function, total: float) -> float:
    if model.penalty == "ball":
        return 0.0
    size = math.sqrt(g.norm2) if model.penalty == "norm" else 0.5 * g.norm2
    return model.lam_ * total * size


def _dual(model: Any, g: _Function, u: Array, mu: float, total: float) -> float:
    """What u proves: the objective of every function is at least this."""
    norm2 = max(float(np.sum(u * g.space.times(u))), 0.0)
    shrink, own = 1.0, 0.0
    if model.penalty == "norm":
        shrink = min(1.0, model.lam_ * total / math.sqrt(norm2)) if norm2 > 0 else 1.0
    elif model.penalty == "ball":
        own = model.radius * math.sqrt(norm2)
    else:
        own = norm2 / (2.0 * mu)
    # A constant that u does not balance is taken to be no further off than values are.
    off = shrink * u.sum(axis=0) if g.intercept else np.zeros(1)
    reach = float(np.abs(g.f).max() + np.abs(g.f + g.b - g.y).max())
    return -g.conjugate(shrink * u) - own + float(off @ g.b if g.intercept else 0.0) - float(np.abs(off).sum()) * reach


def _stationary(model: Any, g: _Function, multiplier: float, faults: list[str]) -> Certificate:
    """Of a difference of convex losses: the gap of the convex problem that the tangents at f make."""
    f = g.f + g.b
    convex = replace(g, loss=_Tilted(g.loss.convex_part(), g.loss.concave_gradient(f, g.y)))
    found = _judged(model, convex, multiplier, faults)
    total = float(g.w.sum())
    wrong = float(np.sum(g.w * (g.y * f <= 0)[:, 0])) / total
    message = f"a stationary point, not an optimum; training 0-1 loss {wrong:.4g}"
    return replace(
        found,
        kind="stationary",
        primal=found.primal + (g.value(f) - convex.value(f)) / total,
        dual=math.nan,
        gap=math.nan,
        violation=found.gap,
        message="; ".join(filter(None, [message, found.message])),
    )


def _together(found: list[Certificate]) -> Certificate:
    """One certificate for several functions: the worst figures, sums of objectives."""
    worst = max(found, key=lambda c: (not c.converged, c.violation))
    return replace(worst, primal=sum(c.primal for c in found), dual=sum(c.dual for c in found))
