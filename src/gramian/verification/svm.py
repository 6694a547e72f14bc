"""Support vector machines: feasibility, primal and dual value, and the worst pair of multipliers."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.kernels.resolve import is_precomputed
from gramian.verification.rows import EPS, Array, Data, check_same, dense, expanded, size_of_terms, unlike

__all__ = ["classification", "novelty", "nu_classification", "nu_regression", "regression"]

SUM = 1e-9
"""What a sum of multipliers may be off, relative to the sum of their sizes."""
BOX = 1e-9
"""What a multiplier may be beyond its bound, relative to the bound."""
TINIEST = float(np.finfo(np.float64).tiny)
NOTHING = 1e-10
"""An objective below this share of what it is made of is taken for zero: its gap is absolute."""
DENSE = 1000
"""Rows up to which the smallest eigenvalue of K is computed."""
INDEFINITE = 1e-6
"""An eigenvalue more negative than this share of the largest is no rounding."""


@dataclass
class _Machine:
    """One quadratic program: multipliers β with ``f = Kβ``, of the rows that count."""

    beta: Array
    f: Array
    """Kβ at those rows, without the constant."""
    norm2: float
    lower: Array
    upper: Array
    linear: Array
    group: NDArray[np.bool_]
    """Rows that have an equality of their own."""
    sums: tuple[float, float]
    """What multipliers outside and inside the group must sum to."""
    shift: tuple[float, float]
    """Multipliers of these sums, as the model's constants give them."""
    kink: float = 0.0
    unit: float = 1.0
    copies: int = 1
    """Multipliers of each row."""


def classification(model: Any, data: Data) -> Certificate:
    """``½‖w‖² + C Σ w_i max(0, 1 - y_i f(x_i))``, pair by pair."""
    shown = _Shown.of_pairs(model, data)
    if math.isinf(model.C):
        machines = [_scaled(pair, np.full(pair.y.size, 2.0), 1.0) for pair in shown.pairs()]
    else:
        machines = [_classified(pair, model.C * pair.w) for pair in shown.pairs()]
    return _worst(shown, machines)


def nu_classification(model: Any, data: Data) -> Certificate:
    """The same with ν for C: what the model shows is divided by ρ, which the sum of its multipliers tells."""
    shown = _Shown.of_pairs(model, data)
    machines = []
    for pair in shown.pairs():
        y, w = pair.y, pair.w
        if np.all(np.asarray(model.class_weight_) == 1.0):
            nu = min(model.nu, 2.0 * min(w[y > 0].sum(), w[y < 0].sum()) / w.sum())
            machines.append(_scaled(pair, w, 0.5 * nu * float(w.sum())))
        else:
            # ν has fixed C = 1/ρ without class weights; the multipliers at their bounds show it.
            machines.append(_classified(pair, w * float(np.max(np.abs(pair.beta) / w))))
    return _worst(shown, machines)


def regression(model: Any, data: Data) -> Certificate:
    """``½‖w‖² + C Σ w_i max(0, |y_i - f(x_i)| - ε)``."""
    shown = _Shown(model, data, dense(model.dual_coef_).T, model.intercept_)
    beta, f, norm2, w = shown.single()
    y, C, b = data.targets()[data.weights > 0, 0], model.C * w, float(model.intercept_[0])
    return _worst(shown, [_Machine(beta, f, norm2, -C, C, -y, y != y, (0.0, 0.0), (-b, -b), model.epsilon)])


def nu_regression(model: Any, data: Data) -> Certificate:
    """The same with ν for ε: two multipliers for each row, of which the model shows the difference."""
    shown = _Shown(model, data, dense(model.dual_coef_).T, model.intercept_)
    beta, f, norm2, w = shown.single()
    y, C, zero = data.targets()[data.weights > 0, 0], model.C * w, np.zeros(w.size)
    total, b, epsilon = 0.5 * model.nu * float(C.sum()), float(model.intercept_[0]), float(model.epsilon_)
    # Both may be raised by the same amount, which leaves the function alone, until the sums are what they must be.
    room = C - np.abs(beta)
    spare = room * np.clip((total - 0.5 * np.abs(beta).sum()) / max(float(room.sum()), 1e-300), 0.0, 1.0)
    machine = _Machine(
        np.concatenate([np.maximum(beta, 0.0) + spare, np.minimum(beta, 0.0) - spare]),
        np.tile(f, 2),
        norm2,
        np.concatenate([zero, -C]),
        np.concatenate([C, zero]),
        np.tile(-y, 2),
        np.arange(2 * y.size) >= y.size,
        (total, -total),
        (-b - epsilon, -b + epsilon),
        copies=2,
    )
    return _worst(shown, [machine])


def novelty(model: Any, data: Data) -> Certificate:
    """``½‖w‖² - ρ ν Σw + Σ w_i max(0, ρ - f(x_i))``."""
    shown = _Shown(model, data, dense(model.dual_coef_).T, 0.0)
    beta, f, norm2, w = shown.single()
    zero, rho = np.zeros(w.size), float(np.ravel(model.offset_)[0])
    total, unit = model.nu * float(w.sum()), shown.scale * float(w.max())
    machine = _Machine(beta, f, norm2, zero, w, zero, zero > 0, (total, 0.0), (rho, rho), unit=unit or 1.0)
    return _worst(shown, [machine])


# ---- what the model shows ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Pair:
    """Two classes: labels, β, Kβ, βᵀKβ, the constant, and weights by row and class."""

    y: Array
    beta: Array
    f: Array
    norm2: float
    b: float
    w: Array


class _Shown:
    """What a model shows of its functions, one column each: β of all rows, Kβ, βᵀKβ; and whether it predicts that."""

    def __init__(self, model: Any, data: Data, coefficients: Array, constants: Any) -> None:
        self.model, self.data = model, data
        support = np.asarray(model.support_)
        if support.max(initial=-1) >= data.n:
            raise ValueError(f"the model was fitted to {model.shape_fit_[0]} rows, got {data.n}; pass the same rows.")
        if not is_precomputed(model.kernel) and not hasattr(model, "approximation_"):
            check_same(model.support_vectors_, data.rows[support])
        self.beta = np.zeros((data.n, coefficients.shape[1]))
        self.beta[support] = coefficients
        if hasattr(model, "approximation_"):
            weights = np.asarray(model.coef_, dtype=np.float64).T
            F = np.concatenate([part for _, part in data.features(model)])
            predicted = self.f = F @ weights
            self.norm2 = np.sum(weights**2, axis=0)
            self.scale = float(np.sum(F**2, axis=1).max())
            size = size_of_terms(model, F, weights)
        else:
            predicted, self.f = expanded(model.kernel_, data.X, coefficients, data.memory, support)
            self.norm2 = np.sum(coefficients * self.f[support], axis=0)
            self.scale = float(np.abs(model.kernel_.diag(data.X)).max())
            size = self.scale * np.abs(coefficients).sum(axis=0)
        self.faults = unlike(self._predict()(data.given), predicted + np.asarray(constants), size)

    @classmethod
    def of_pairs(cls, model: Any, data: Data) -> _Shown:
        """Every pair of classes is a function; of two classes the second is the positive one."""
        dual, both = dense(model.dual_coef_), list(combinations(range(len(model.classes_)), 2))
        ends = np.cumsum([0, *model.n_support_])
        parts = [slice(int(a), int(b)) for a, b in pairwise(ends)]
        coefficients = np.zeros((dual.shape[1], len(both)))
        for p, (i, j) in enumerate(both):
            coefficients[parts[i], p], coefficients[parts[j], p] = dual[j - 1, parts[i]], dual[i, parts[j]]
        return cls(model, data, coefficients, model.intercept_)

    def _predict(self) -> Any:
        """The method that gives the values of all functions."""
        plain = copy(self.model)
        plain.decision_function_shape = "ovo"  # of classifiers: one value for each function
        for name in ("score_samples", "decision_function"):
            if hasattr(plain, name):
                return getattr(plain, name)
        return plain.predict

    def single(self) -> tuple[Array, Array, float, Array]:
        """Of a model with one function: β, Kβ, βᵀKβ and weights of the rows that count."""
        kept = self.data.weights > 0
        return self.beta[kept, 0], self.f[kept, 0], float(self.norm2[0]), self.data.weights[kept]

    def pairs(self) -> list[_Pair]:
        """Of a classifier: what belongs to every pair."""
        model, data = self.model, self.data
        codes = data.codes(model.classes_)
        weights = data.weights * np.asarray(model.class_weight_)[codes]
        sign, found = -1.0 if len(model.classes_) == 2 else 1.0, []
        for p, (i, j) in enumerate(combinations(range(len(model.classes_)), 2)):
            own = ((codes == i) | (codes == j)) & (data.weights > 0)
            y, b = sign * np.where(codes[own] == i, 1.0, -1.0), float(model.intercept_[p])
            found.append(_Pair(y, self.beta[own, p], self.f[own, p], float(self.norm2[p]), b, weights[own]))
        return found


def _classified(pair: _Pair, C: Array) -> _Machine:
    lower, upper = np.minimum(C * pair.y, 0.0), np.maximum(C * pair.y, 0.0)
    none = np.zeros(pair.y.size, dtype=bool)
    return _Machine(pair.beta, pair.f, pair.norm2, lower, upper, -pair.y, none, (0.0, 0.0), (-pair.b, -pair.b))


def _scaled(pair: _Pair, C: Array, total: float) -> _Machine:
    """The program whose answer was divided by ρ: multiplied by it again."""
    shown = float(pair.beta[pair.y > 0].sum())
    rho = total / shown if shown > 0 else math.inf
    lower, upper = np.minimum(C * pair.y, 0.0), np.maximum(C * pair.y, 0.0)
    shift = (rho * (1.0 - pair.b), -rho * (1.0 + pair.b))
    parts = rho * pair.beta, rho * pair.f, rho**2 * pair.norm2
    return _Machine(*parts, lower, upper, np.zeros(C.size), pair.y < 0, (total, -total), shift, unit=rho)


# ---- what it proves ---------------------------------------------------------------------------------------------


def _worst(shown: _Shown, machines: list[_Machine]) -> Certificate:
    """The certificate of the worst machine, of the kind that the model claims."""
    model, said = shown.model, shown.model.certificates_
    definite = _is_definite(model, shown.data)
    found = []
    for claim, machine in zip(said, machines, strict=True):
        primal, dual, gap, violation = _figures(machine)
        faults = [*_faults(machine), *shown.faults]
        gap = max(primal - dual, 0.0) if faults else gap
        gap /= max(abs(primal), abs(dual), NOTHING * _worth(machine, shown.scale), TINIEST)
        # Of several multipliers of one row, values see the sum.
        beta = machine.beta.reshape(machine.copies, -1).sum(axis=0)
        rounding = EPS * shown.scale * float(np.linalg.norm(beta)) / machine.unit
        if violation + rounding > model.tol >= violation:
            faults.append("the optimum is lost in the rounding of sums of kernel values")
        stationary = claim.kind == "stationary"
        if not stationary and not definite:
            faults.append("K is not positive semi-definite on these rows, so the dual value bounds nothing")
        if violation > model.tol:
            faults.append(f"a pair of multipliers violates the optimality conditions by {violation:.1e}")
        if not stationary and gap > model.tol:
            faults.append(f"the relative duality gap {gap:.1e} is above tol={model.tol:.1e}")
        found.append(
            Certificate(
                kind=claim.kind,
                primal=primal,
                dual=dual,
                gap=math.nan if stationary else gap,
                violation=max(violation, 0.0),
                converged=not faults,
                iterations=claim.iterations,
                seconds=claim.seconds,
                message="; ".join(faults),
            )
        )
    if all(c.converged for c in found):
        # All pairs are as good as exact: speak of the one that the model speaks of.
        return found[said.index(model.certificate_)]
    return max(found, key=lambda c: (not c.converged, c.figure))


def _worth(m: _Machine, scale: float) -> float:
    """The scale of the objective: the loss of a function that is zero, or else the norms of the objects."""
    most = np.maximum(np.abs(m.lower), np.abs(m.upper))
    if m.linear.any():
        return float(most @ (np.abs(m.linear) + m.kink))
    return scale * float(most.sum()) * (abs(m.sums[0]) + abs(m.sums[1]))


def _figures(m: _Machine) -> tuple[float, float, float, float]:
    """Primal and dual value, their gap term by term, and the worst violation by two multipliers of one group."""
    dual = -0.5 * m.norm2 - float(np.sum(m.linear * m.beta)) - m.kink * float(np.abs(m.beta).sum())
    slope = m.f + m.linear
    d = slope - np.where(m.group, m.shift[1], m.shift[0])
    # -min over the box of β d + ε|β|: what the constraint on this row costs the primal.
    price = np.maximum(-m.upper * (d + m.kink), -m.lower * (d - m.kink))
    price = np.maximum(price, 0.0)
    primal = 0.5 * m.norm2 - m.sums[0] * m.shift[0] - m.sums[1] * m.shift[1] + float(price.sum())
    gap = float(np.sum(np.maximum(m.beta * d + m.kink * np.abs(m.beta) + price, 0.0)))
    near = BOX * np.maximum(np.abs(m.lower), np.abs(m.upper))
    up = np.where(m.beta < m.upper - near, slope + np.where(m.beta >= 0, m.kink, -m.kink), np.inf)
    down = np.where(m.beta > m.lower + near, slope + np.where(m.beta > 0, m.kink, -m.kink), -np.inf)
    worst = [float(down[g].max() - up[g].min()) for g in (m.group, ~m.group) if g.any()]
    return primal, dual, gap, max(worst) / m.unit


def _faults(m: _Machine) -> list[str]:
    """What makes the multipliers infeasible, in words."""
    found = []
    size = float(np.abs(m.beta).sum())
    for part, wanted in ((~m.group, m.sums[0]), (m.group, m.sums[1])):
        total = float(m.beta[part].sum())
        if abs(total - wanted) > SUM * size:
            found.append(f"infeasible: the multipliers sum to {total:.6g} where {wanted:.6g} is required")
    beyond = np.maximum(m.lower - m.beta, m.beta - m.upper)
    room = np.maximum(np.abs(m.lower), np.abs(m.upper))
    if np.any(beyond > BOX * room):
        found.append(f"infeasible: {np.count_nonzero(beyond > BOX * room)} multipliers are outside their bounds")
    if not np.all(np.isfinite(m.beta)):
        found.append("infeasible: a multiplier is not finite")
    return found


def _is_definite(model: Any, data: Data) -> bool:
    """Whether K has no eigenvalue that is visibly negative; not looked at where there are many rows."""
    kept = np.flatnonzero(data.kept)
    if hasattr(model, "approximation_") or kept.size > DENSE:
        return True
    X = data.X[np.ix_(kept, kept)] if is_precomputed(model.kernel) else data.X[kept]
    K = np.asarray(model.kernel_(X), dtype=np.float64)
    values = np.linalg.eigvalsh(0.5 * (K + K.T))
    return bool(values[0] >= -INDEFINITE * max(float(values[-1]), 0.0))
