"""Support vector machines: feasibility, primal and dual value, and the worst pair of multipliers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.kernels.resolve import is_precomputed
from gramian.verification.rows import EPS, INDEFINITE, Array, Data, Shown, check_same, dense, found

SUM = 1e-9
"""The tolerance of the equality constraint, relative to the sum of absolute multipliers."""
BOX = 1e-9
"""The tolerance of a bound, relative to the bound."""
TINIEST = float(np.finfo(np.float64).tiny)
PAIR, EXCESS = 4.0, 2.0
"""Rounding errors counted in a violation, and in a slope minus its multiplier: as ``solvers.svm.tasks`` explains."""
NOTHING = 1e-10
"""An objective below this share of its scale, or its rounding over ``tol``, counts as zero: its gap is absolute."""


@dataclass
class _Program:
    """Multipliers β within bounds, ``f = Kβ`` without the constant, of weighted rows: ½βᵀKβ + Σ(pβ + ε|β|)."""

    beta: Array
    f: Array
    norm2: float
    lower: Array
    upper: Array
    linear: Array  # p
    group: NDArray[np.bool_]  # rows with an equality constraint of their own
    sums: tuple[float, float]  # required sums of the multipliers outside and inside the group
    shift: tuple[float, float]  # Lagrange multipliers of these sums, from the model's constants
    kink: float = 0.0  # ε
    unit: float = 1.0
    copies: int = 1  # multipliers per row
    stretch: float = 1.0  # factor by which the model's values were multiplied
    hard: bool = False  # whether the bounds are not the model's, which has none

    def worth(self, scale: float) -> float:
        """The scale of the objective: the loss of the zero function, or else the norms of the rows."""
        most = np.maximum(np.abs(self.lower), np.abs(self.upper))
        if self.linear.any():
            return float(most @ (np.abs(self.linear) + self.kink))
        return scale * float(most.sum()) * (abs(self.sums[0]) + abs(self.sums[1]))

    def figures(self) -> tuple[float, float, float, float]:
        """Primal and dual value, their gap summed by rows, and the worst violation by two multipliers of one group."""
        dual = -0.5 * self.norm2 - float(np.sum(self.linear * self.beta)) - self.kink * float(np.abs(self.beta).sum())
        slope = self.f + self.linear
        d = slope - np.where(self.group, self.shift[1], self.shift[0])
        # -min over the box of β d + ε|β|: what the constraint on this row costs the primal.
        price = np.maximum(np.maximum(-self.upper * (d + self.kink), -self.lower * (d - self.kink)), 0.0)
        primal = 0.5 * self.norm2 - float(np.dot(self.sums, self.shift)) + float(price.sum())
        gap = float(np.sum(np.maximum(self.beta * d + self.kink * np.abs(self.beta) + price, 0.0)))
        near = BOX * np.maximum(np.abs(self.lower), np.abs(self.upper))
        up = np.where(self.beta < self.upper - near, slope + np.where(self.beta >= 0, self.kink, -self.kink), np.inf)
        down = np.where(self.beta > self.lower + near, slope + np.where(self.beta > 0, self.kink, -self.kink), -np.inf)
        worst = [float(down[g].max() - up[g].min()) for g in (self.group, ~self.group) if g.any()]
        return primal, dual, gap, max(worst) / self.unit

    def unclear(self, rounding: float) -> float:
        """How much an error in values may raise the gap: its size times the way to the best end of the box."""
        d = self.f + self.linear - np.where(self.group, self.shift[1], self.shift[0])
        ends = np.array([self.lower, np.clip(0.0, self.lower, self.upper), self.upper])
        terms = d * (self.beta - ends) + self.kink * (np.abs(self.beta) - np.abs(ends))
        return float(np.sum((terms + rounding * np.abs(self.beta - ends)).max(axis=0) - terms.max(axis=0)))

    def faults(self) -> list[str]:
        """Why the multipliers are infeasible, in words."""
        said, size = [], float(np.abs(self.beta).sum())
        for part, wanted in ((~self.group, self.sums[0]), (self.group, self.sums[1])):
            total = float(self.beta[part].sum())
            if not abs(total - wanted) <= SUM * size:
                said.append(f"infeasible: the multipliers sum to {total:.6g} where {wanted:.6g} is required")
        beyond = np.maximum(self.lower - self.beta, self.beta - self.upper)
        outside = np.count_nonzero(~(beyond <= BOX * np.maximum(np.abs(self.lower), np.abs(self.upper))))
        return [*said, f"infeasible: {outside} multipliers are outside their bounds"] if outside else said


# ---- the estimators ---------------------------------------------------------------------------------------------


def classification(model: Any, data: Data) -> Certificate:
    """``½‖w‖² + C Σ w_i max(0, 1 - y_i f(x_i))``, pair by pair."""
    hard, programs = math.isinf(model.C), []
    shown, faults = _shown(model, data, _pairs(model))
    for y, w, b, parts in _of_pairs(model, data, shown):
        if not getattr(model, "fit_intercept", True):
            C = np.full(y.size, 2.0 * np.abs(parts[0]).max(initial=0.5)) if hard else model.C * w
            programs.append(replace(_anchored(_boxed(y, C, b, *parts)), hard=hard))
        elif hard:
            programs.append(_scaled(y, np.full(y.size, 2.0), 1.0, b, *parts))
        else:
            programs.append(_boxed(y, model.C * w, b, *parts))
    return _worst(model, data, shown, faults, programs)


def _anchored(program: _Program) -> _Program:
    """The program without its equality: a further multiplier, of a row whose kernel values are zero, is free."""
    room, own = float((program.upper - program.lower).sum()), -float(program.beta.sum())
    ends = {"beta": own, "f": 0.0, "lower": -room, "upper": room, "linear": 0.0, "group": False}
    parts: Any = {name: np.append(getattr(program, name), value) for name, value in ends.items()}
    return replace(program, **parts)


def nu_classification(model: Any, data: Data) -> Certificate:
    """The same with ν for C: the model's multipliers are divided by ρ, which follows from their sum."""
    shown, faults = _shown(model, data, _pairs(model))
    programs, plain = [], np.all(np.asarray(model.class_weight_) == 1.0)
    for p, (y, w, b, parts) in enumerate(_of_pairs(model, data, shown)):
        if plain:
            # If nu leaves a pair no margin, the fit uses the smallest one that does.
            nu = min(max(model.nu, float(model.nu_[p])), 2.0 * min(w[y > 0].sum(), w[y < 0].sum()) / w.sum())
            programs.append(_scaled(y, w, 0.5 * nu * float(w.sum()), b, *parts))
        else:
            # ν determined C without class weights, which then multiply it.
            programs.append(_boxed(y, w * float(model.C_[p]), b, *parts))
    return _worst(model, data, shown, faults, programs)


def regression(model: Any, data: Data) -> Certificate:
    """``½‖w‖² + C Σ w_i max(0, |y_i - f(x_i)| - ε)``."""
    shown, faults = _shown(model, data, dense(model.dual_coef_).T)
    w, parts = _single(model, data, shown)
    y, b = data.targets()[data.kept, 0], float(model.intercept_[0])
    # Without a bound, any bound that no multiplier reaches proves the same.
    hard = math.isinf(model.C)
    C = np.full(w.size, 2.0 * np.abs(parts[0]).max(initial=0.5)) if hard else model.C * w
    program = _Program(*parts, -C, C, -y, np.zeros(y.size, dtype=bool), (0.0, 0.0), (-b, -b), kink=model.epsilon)
    return _worst(model, data, shown, faults, [replace(program, hard=hard)])


def nu_regression(model: Any, data: Data) -> Certificate:
    """The same with ν for ε: two multipliers for each row, whose difference is the model's coefficient."""
    shown, faults = _shown(model, data, dense(model.dual_coef_).T)
    w, (beta, f, norm2) = _single(model, data, shown)
    y, C, zero = data.targets()[data.kept, 0], model.C * w, np.zeros(w.size)
    total, b, epsilon = 0.5 * model.nu * float(C.sum()), float(model.intercept_[0]), float(model.epsilon_)
    # Raising both by the same amount does not change the function, so they are raised until the sums are right, first
    # at the rows nearest to the middle of the tube, where both may be positive if it is closed.
    room, spare, order = C - np.abs(beta), np.zeros(y.size), np.argsort(np.abs(f + b - y))
    before = np.cumsum(room[order]) - room[order]
    short = total - 0.5 * float(np.abs(beta).sum())
    if short > SUM * total:
        spare[order] = np.clip(short - before, 0.0, room[order])
    both = np.concatenate([np.maximum(beta, 0.0) + spare, np.minimum(beta, 0.0) - spare])
    box, second = (np.concatenate([zero, -C]), np.concatenate([C, zero])), np.arange(2 * y.size) >= y.size
    ends = (total, -total), (-b - epsilon, -b + epsilon)
    program = _Program(both, np.tile(f, 2), norm2, *box, np.tile(-y, 2), second, *ends, copies=2)
    return _worst(model, data, shown, faults, [program])


def novelty(model: Any, data: Data) -> Certificate:
    """``½‖w‖² - ρ ν Σw + Σ w_i max(0, ρ - f(x_i))``."""
    shown, faults = _shown(model, data, dense(model.dual_coef_).T, constants=0.0)
    w, parts = _single(model, data, shown)
    zero, rho = np.zeros(w.size), float(np.ravel(model.offset_)[0])
    total, unit = model.nu * float(w.sum()), shown.scale * float(w.max()) or 1.0
    program = _Program(*parts, zero, w, zero, zero > 0, (total, 0.0), (rho, rho), unit=unit)
    return _worst(model, data, shown, faults, [program])


def _shown(model: Any, data: Data, coefficients: Array, constants: Any = None) -> tuple[Shown, list[str]]:
    """The functions of a model, and whether it predicts them."""
    support = np.asarray(model.support_)
    if support.max(initial=-1) >= data.n:
        raise ValueError(f"the model was fitted to {model.shape_fit_[0]} rows, got {data.n}; pass the same rows.")
    if hasattr(model, "approximation_"):
        coefficients = np.asarray(model.coef_).T
    elif not is_precomputed(model.kernel):
        check_same(model.support_vectors_, data.rows[support])
    shown, plain = Shown.of(model, data, coefficients, support), copy(model)
    plain.decision_function_shape = "ovo"  # of classifiers: one value for each function
    names = ("score_samples", "decision_function", "predict")
    predict = next(getattr(plain, name) for name in names if hasattr(plain, name))
    constants = model.intercept_ if constants is None else constants
    return shown, shown.unlike(predict(data.given), shown.predicted + np.asarray(constants))


def _single(model: Any, data: Data, shown: Shown) -> tuple[Array, tuple[Array, Array, float]]:
    """For a model with one function: weights, and β, Kβ, βᵀKβ, of the rows of positive weight."""
    beta = np.zeros(data.n)
    beta[model.support_] = dense(model.dual_coef_)[0]
    return data.weights[data.kept], (beta[data.kept], shown.f[data.kept, 0], float(shown.norm2[0]))


def _pairs(model: Any) -> Array:
    """Coefficients of the support vectors, a column for every pair of classes."""
    dual, both = dense(model.dual_coef_), list(combinations(range(len(model.classes_)), 2))
    parts = [slice(int(a), int(b)) for a, b in pairwise(np.cumsum([0, *model.n_support_]))]
    coefficients = np.zeros((dual.shape[1], len(both)))
    for p, (i, j) in enumerate(both):
        coefficients[parts[i], p], coefficients[parts[j], p] = dual[j - 1, parts[i]], dual[i, parts[j]]
    return coefficients


def _of_pairs(model: Any, data: Data, shown: Shown) -> Iterator[tuple[Array, Array, float, tuple[Array, Array, float]]]:
    """For every pair of classes: labels, weights, the constant, and β, Kβ, βᵀKβ; of two classes the second is +1."""
    codes, beta = data.codes(model.classes_), np.zeros((data.n, shown.f.shape[1]))
    beta[model.support_] = _pairs(model)
    weights, sign = data.weights * np.asarray(model.class_weight_)[codes], -1.0 if len(model.classes_) == 2 else 1.0
    for p, (i, j) in enumerate(combinations(range(len(model.classes_)), 2)):
        own = ((codes == i) | (codes == j)) & data.kept
        y = sign * np.where(codes[own] == i, 1.0, -1.0)
        yield y, weights[own], float(model.intercept_[p]), (beta[own, p], shown.f[own, p], float(shown.norm2[p]))


def _boxed(y: Array, C: Array, b: float, beta: Array, f: Array, norm2: float) -> _Program:
    box = np.minimum(C * y, 0.0), np.maximum(C * y, 0.0)
    return _Program(beta, f, norm2, *box, -y, np.zeros(y.size, dtype=bool), (0.0, 0.0), (-b, -b))


def _scaled(y: Array, C: Array, total: float, b: float, beta: Array, f: Array, norm2: float) -> _Program:
    """The program before its solution was divided by ρ."""
    shown = float(beta[y > 0].sum())
    rho = total / shown if shown > 0 else 1.0  # then the sums are wrong
    box = np.minimum(C * y, 0.0), np.maximum(C * y, 0.0)
    ends = (total, -total), (rho * (1.0 - b), -rho * (1.0 + b))
    return _Program(rho * beta, rho * f, rho**2 * norm2, *box, np.zeros(C.size), y < 0, *ends, unit=rho, stretch=rho)


# ---- certificates -----------------------------------------------------------------------------------------------


def _worst(model: Any, data: Data, shown: Shown, unlike: list[str], programs: list[_Program]) -> Certificate:
    """The certificate of the worst program, of the same kind as the model's own."""
    said, definite, each = model.certificates_, data.is_definite(model), []
    for claim, program in zip(said, programs, strict=True):
        primal, dual, gap, violation = program.figures()
        faults = [*program.faults(), *unlike]
        gap = max(primal - dual, 0.0) if faults else gap
        zero = max(NOTHING, PAIR * EPS / model.tol) * program.worth(shown.scale)
        scale = max(abs(primal), abs(dual), zero, TINIEST)
        gap /= scale
        # Values depend on the sum of the multipliers of a row.
        beta = program.beta.reshape(program.copies, -1).sum(axis=0)
        rounding = shown.error * float(np.linalg.norm(beta))
        doubts = violation + PAIR * rounding / program.unit, gap + program.unclear(EXCESS * rounding) / scale
        if violation > model.tol:
            faults.append(f"a pair of multipliers violates the optimality conditions by {violation:.1e}")
        elif doubts[0] > model.tol or (claim.kind != "stationary" and doubts[1] > model.tol >= gap):
            faults.append("the optimum is lost in the rounding of sums of kernel values")
        # An error in a value counts once in the violation of a pair, and times the cost of its row in the gap.
        price = float(np.maximum(np.abs(program.lower), np.abs(program.upper)).sum())
        lost = max(program.stretch * float(shown.lost.max()), rounding)
        lost += EPS * float(np.abs(program.linear).max())  # of y in a residual f + b - y
        lost *= 2.0 * max(1.0 / program.unit, price / scale)
        values = {"primal": primal, "dual": dual, "violation": max(violation, 0.0), "rounding": lost}
        values["bound"] = program.hard
        values["doubt"] = doubts[0] if claim.kind == "stationary" else max(doubts)
        if claim.kind != "stationary":
            values["gap"] = gap
            if not definite:
                faults.append(INDEFINITE)
            if gap > model.tol:
                faults.append(f"the relative duality gap {gap:.1e} is above tol={model.tol:.1e}")
        each.append(found(model, claim.kind, faults, **values))
    if all(c.converged for c in each):
        # All pairs are exact to rounding: report the one that the model reports.
        if model.certificate_ in said:
            return each[said.index(model.certificate_)]
        return found(model, each[0].kind, ["certificate_ is not the certificate of any of its problems"])
    return max(each, key=lambda c: (not c.converged, c.figure))
