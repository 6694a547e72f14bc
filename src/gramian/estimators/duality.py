"""The dual function and the Lagrangian at any multipliers, and the KKT conditions of a fit.

Every machine here minimises ``Σ w_i ℓ(f(x_i) + b, y_i) + g(‖f‖)``. With constraints ``z_i = f(x_i) + b`` and their
multipliers u, the Lagrangian minimised over z is ``g(‖f‖) + Σ u_i (f(x_i) + b) - Σ w_i ℓ*(u_i / w_i)``; minimised over
f and b too, it is the dual function. The multipliers λ of a support vector machine are u up to a sign.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from gramian.certificates import KKT
from gramian.losses import offers
from gramian.solvers.machine.penalties import is_convex, penalty_conjugate

Array = NDArray[np.float64]
BALANCE = 1e-9
"""Tolerance of equality and norm constraints on multipliers; for sums, relative to the sum of absolute values."""


@dataclass(frozen=True, eq=False)
class Program:
    """One convex problem on some rows, with a primal point (alpha, b) and a dual point u."""

    rows: NDArray[np.intp]  # (m,): Indices of its training rows
    times: Callable[[Array], Array]  # K @ V on these rows
    loss: Any
    y: Array  # (m, k): Targets
    w: Array  # (m,): Weights of the losses
    alpha: Array  # (m, k): Coefficients of the function
    b: Array  # (k,): Constants
    u: Array  # (m, k): Slopes
    sign: Array | float = 1.0  # Slopes are sign times the user's multipliers
    penalty: Any = "squared"
    strength: float = 1.0  # The factor on ‖f‖²/2 or on ‖f‖, or the radius
    multiplier: float = 1.0  # The factor on ‖f‖²/2 with the same solution
    intercept: bool = True
    sums: float = 0.0  # The sum that slopes must have if there is an intercept
    total: float = 1.0  # The number by which all values are divided

    def _conjugate(self, u: Array) -> Array:
        w = self.w[:, None]
        return np.asarray(w * np.asarray(self.loss.conjugate(u / w, self.y)).reshape(len(w), -1)).sum(axis=1)

    def _size(self, V: Array) -> float:
        """``vᵀKv``."""
        return max(float(np.sum(V * self.times(V))), 0.0)

    def dual(self, u: Array) -> float:
        """The minimum of the Lagrangian over f and b; minus infinity if u is not feasible."""
        off = np.abs(u.sum(axis=0) - self.sums)
        if self.intercept and np.any(off > BALANCE * np.abs(u).sum(axis=0)):
            return -np.inf
        size, lost = self._size(u), float(self._conjugate(u).sum())
        if not isinstance(self.penalty, str):
            share, own = penalty_conjugate(self.penalty, float(np.sqrt(size)) / self.strength)
            return -(lost + self.strength * own) / self.total if share >= 1.0 - BALANCE else -np.inf
        if self.penalty == "norm":
            return -lost / self.total if size <= (self.strength * (1.0 + BALANCE)) ** 2 else -np.inf
        own = self.strength * np.sqrt(size) if self.penalty == "ball" else size / (2.0 * self.strength)
        return float(-lost - own) / self.total

    def lagrangian(self, u: Array, alpha: Array, b: Array) -> float:
        """The Lagrangian at a function and a constant, minimised over the values z or the slack variables."""
        f = self.times(alpha)
        size = np.sqrt(max(float(np.sum(alpha * f)), 0.0))
        named = {"squared": 0.5 * size**2, "norm": size, "ball": 0.0}
        shape = named[self.penalty] if isinstance(self.penalty, str) else float(self.penalty.value(float(size)))
        own = self.strength * shape
        if self.penalty == "ball" and size > self.strength * (1.0 + BALANCE):
            return np.inf
        inner = float(np.sum(u * (f + b))) - self.sums * float(np.sum(b))
        return (float(own) + inner - float(self._conjugate(u).sum())) / self.total

    def conditions(self) -> dict[str, Any]:
        """The residuals of the KKT conditions for each row."""
        both = self.times(np.hstack([self.alpha, self.u]))
        f, Ku = np.hsplit(both, 2)
        z, w = f + self.b, self.w[:, None]
        mu = self.multiplier if np.isfinite(self.multiplier) else 0.0
        broken = np.asarray(self.loss.excess(z, self.y)) if offers(self.loss, "excess") else np.zeros_like(z)
        # A hard constraint broken by rounding counts in ``broken``, not as an infinite loss.
        lost = np.where(broken.any(axis=1), 0.0, np.asarray(self.loss.value(z, self.y)).reshape(-1))
        if self.penalty == "ball":
            broken = broken + max(float(np.sqrt(max(float(np.sum(self.alpha * f)), 0.0))) - self.strength, 0.0)
        if getattr(self.loss, "coupled", False):  # a loss of classes: y + u/w are probabilities
            p = self.y + self.u / w
            outside = np.maximum(-p, 0.0) + np.abs(p.sum(axis=1, keepdims=True) - 1.0)
            inside = self.u
        else:
            low, high = (w * end for end in self.loss.domain(self.y))
            inside = np.clip(self.u, low, high)
            outside = np.abs(self.u - inside)
        slack = self.w * lost + self._conjugate(inside) - np.sum(inside * z, axis=1)
        # If the norm penalty made f zero, there is no multiplier, and u lies inside the dual norm's ball.
        gradient = np.abs(mu * f + Ku) if mu else np.abs(f)
        return {
            "stationarity": gradient.max(axis=1) / self.total,
            "primal_feasibility": broken.max(axis=1),
            "dual_feasibility": outside.max(axis=1) / self.total,
            "complementary_slackness": slack / self.total,
            "balance": float(np.abs(self.u.sum(axis=0) - self.sums).max()) / self.total if self.intercept else 0.0,
        }


@dataclass(frozen=True)
class HardMargin:
    """The loss of the constraint ``y f >= 1``: zero if it holds, else infinite."""

    def value(self, f: Array, y: Array) -> Array:
        """Zero or infinity."""
        return np.where(y * f >= 1.0, 0.0, np.inf)

    def domain(self, y: Array) -> tuple[Array, Array]:
        """Slopes u with ``u y <= 0``."""
        return np.where(y > 0, -np.inf, 0.0), np.where(y > 0, 0.0, np.inf)

    def conjugate(self, u: Array, y: Array) -> Array:
        """``u y`` if ``u y <= 0``, else infinity."""
        return np.where(u * y <= 0.0, u * y, np.inf)

    def excess(self, f: Array, y: Array) -> Array:
        """By how much the constraint is violated."""
        return np.maximum(1.0 - y * f, 0.0)


@dataclass(frozen=True)
class HardTube:
    """The loss of the constraint ``|f - y| <= ε``: zero if it holds, else infinite."""

    epsilon: float

    def value(self, f: Array, y: Array) -> Array:
        """Zero or infinity."""
        return np.where(self.excess(f, y) > 0, np.inf, 0.0)

    def domain(self, y: Array) -> tuple[Array, Array]:
        """All slopes."""
        return np.full(y.shape, -np.inf), np.full(y.shape, np.inf)

    def conjugate(self, u: Array, y: Array) -> Array:
        """``u y + ε |u|``."""
        return np.asarray(u * y + self.epsilon * np.abs(u))

    def excess(self, f: Array, y: Array) -> Array:
        """By how much the constraint is violated."""
        return np.maximum(np.abs(f - y) - self.epsilon, 0.0)


@dataclass(frozen=True)
class Below:
    """``max(0, -f)``: the loss of a one-class machine for a row below its offset."""

    def value(self, f: Array, y: Array) -> Array:
        """The loss."""
        return np.maximum(-f, 0.0)

    def domain(self, y: Array) -> tuple[Array, Array]:
        """Slopes from -1 to 0."""
        return -np.ones(y.shape), np.zeros(y.shape)

    def conjugate(self, u: Array, y: Array) -> Array:
        """Zero on the domain."""
        return np.where((u >= -1.0 - BALANCE) & (u <= BALANCE), 0.0, np.inf)


@dataclass(frozen=True)
class FittedTo:
    """The rows of the last fit, by reference; copies, pickles and model files do not hold them."""

    X: Any
    y: Any = field(default=None)
    sample_weight: Any = field(default=None)


class Duality:
    """The dual function, the Lagrangian and the KKT conditions of a fitted machine. Not for direct use."""

    _fitted_to: FittedTo | None

    def __getstate__(self) -> Any:
        state: Any = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_fitted_to"}

    def _programs(self, X: Any, y: Any, sample_weight: Any) -> list[Program]:
        """Return the convex problems that the machine solved."""
        raise NotImplementedError

    def _check_rows_kept(self) -> None:
        """Refuse a fit that keeps no coefficients for single rows."""

    def _together(self, values: list[float]) -> Any:
        """Combine the values of several programs."""
        return values[0] if len(values) == 1 else np.array(values)

    def _opened_programs(self, X: Any, y: Any, sample_weight: Any) -> tuple[list[Program], int]:
        check_is_fitted(self)
        self._check_rows_kept()
        if X is None:
            if getattr(self, "_fitted_to", None) is None:
                raise ValueError(
                    "a copied or loaded model no longer has the rows that it was fitted to; pass them as X=, y= and "
                    "sample_weight=."
                )
            kept: Any = self._fitted_to
            X, y, sample_weight = kept.X, kept.y, kept.sample_weight
        programs = self._programs(X, y, sample_weight)
        for program in programs:
            convex = (
                is_convex(program.penalty)
                and getattr(program.loss, "convex", True)
                and not getattr(program.loss, "joint", False)
            )
            if not convex or not offers(program.loss, "conjugate"):
                name = type(program.loss).__name__
                raise ValueError(
                    f"duality needs a convex penalty and a convex loss of single rows with conjugate(u, y); got {name}."
                )
        return programs, len(X) if isinstance(X, list) else int(X.shape[0])

    def _slopes(self, programs: list[Program], lam: Any, n: int, what: str = "lam") -> tuple[list[Array], float]:
        """Split a user's numbers (n, k) by program; infinite cost if one is nonzero on a row without constraint."""
        given = np.asarray(lam, dtype=np.float64)
        wide = sum(program.y.shape[1] for program in programs)
        columns, cost = given.reshape(n, -1) if given.ndim in (1, 2) and len(given) == n else given, 0.0
        if columns.shape != (n, wide):
            shape = f"({n},)" if wide == 1 else f"({n}, {wide})"
            raise ValueError(f"{what} must have shape {shape}, a number for each training row; got {given.shape}.")
        if not np.all(np.isfinite(columns)):
            raise ValueError(f"{what} must be finite, got {np.count_nonzero(~np.isfinite(columns))} that are not.")
        found, done = [], 0
        for program in programs:
            own = columns[:, done : done + program.y.shape[1]]
            done += program.y.shape[1]
            left = np.delete(own, program.rows, axis=0)
            cost = np.inf if np.any(left) else cost  # rows of weight zero, or of other classes, have no constraint
            found.append((program.sign if what == "lam" else 1.0) * own[program.rows])
        return found, cost

    def dual(self, lam: Any, *, X: Any = None, y: Any = None, sample_weight: Any = None) -> Any:
        """Return the dual function at any multipliers: a lower bound on the objective.

        Parameters
        ----------
        lam : array-like of shape (n,), or (n, k) for several functions
            Multipliers: for a support vector machine λ >= 0 as in ``multipliers_`` (for regression also (n,) with
            signs, upper minus lower); for a machine with any loss the slopes u as in ``dual_point_``.
        X, y, sample_weight : array-like or None, default=None
            The rows of the fit, in the same order; needed only for a copied or loaded model.

        Returns
        -------
        float, or array of shape (k,) for a classifier's pairs
            ``-inf`` if the multipliers are not feasible: outside their box or, with an intercept, not balanced.
        """
        programs, n = self._opened_programs(X, y, sample_weight)
        slopes, cost = self._slopes(programs, lam, n)
        return self._together([p.dual(u) - cost / p.total for p, u in zip(programs, slopes, strict=True)])

    def lagrangian(
        self,
        lam: Any,
        alpha: Any = None,
        intercept: Any = None,
        *,
        X: Any = None,
        y: Any = None,
        sample_weight: Any = None,
    ) -> Any:
        """Return the Lagrangian at multipliers, a function and a constant, minimised over slack variables.

        For every feasible λ and every f: ``dual(lam) <= lagrangian(lam, f, b) <= objective(f, b)``, with equality at
        the solution, which is a saddle point.

        Parameters
        ----------
        lam : array-like of shape (n,) or (n, k)
            Multipliers, as in ``dual``.
        alpha : array-like of shape (n,) or (n, k), or None, default=None
            Coefficients of ``f = Σ alpha_i k(x_i, ·)``; by default those of the fit.
        intercept : float, array-like of shape (k,) or None, default=None
            The constant; by default that of the fit.
        X, y, sample_weight : array-like or None, default=None
            The rows of the fit, in the same order; needed only for a copied or loaded model.

        Returns
        -------
        float, or array of shape (k,) for a classifier's pairs
            ``-inf`` if a multiplier is outside its box.
        """
        programs, n = self._opened_programs(X, y, sample_weight)
        slopes, cost = self._slopes(programs, lam, n)
        functions = [p.alpha for p in programs]
        if alpha is not None:
            functions = self._slopes(programs, alpha, n, "alpha")[0]
        ends = np.cumsum([p.b.size for p in programs])[:-1]
        constants = np.split(self._constants(programs, intercept), ends)
        each = zip(programs, slopes, functions, constants, strict=True)
        return self._together([p.lagrangian(u, a, b) - cost / p.total for p, u, a, b in each])

    @staticmethod
    def _constants(programs: list[Program], intercept: Any) -> Array:
        own = np.concatenate([p.b for p in programs])
        return own if intercept is None else np.broadcast_to(np.asarray(intercept, dtype=np.float64), own.shape)

    def kkt(self, *, X: Any = None, y: Any = None, sample_weight: Any = None) -> KKT:
        """Return the KKT conditions at the solution, each with its residual for every training row.

        Parameters
        ----------
        X, y, sample_weight : array-like or None, default=None
            The rows of the fit, in the same order; needed only for a copied or loaded model.

        Returns
        -------
        KKT
            Arrays of shape (n,), or (n, k) for several functions; ``print`` shows the worst of each.
        """
        programs, n = self._opened_programs(X, y, sample_weight)
        found = [program.conditions() for program in programs]
        whole: dict[str, Any] = {}
        for name in found[0]:
            if name == "balance":
                whole[name] = found[0][name] if len(found) == 1 else np.array([each[name] for each in found])
                continue
            rows = np.zeros((n, len(programs)))
            for j, (program, each) in enumerate(zip(programs, found, strict=True)):
                rows[program.rows, j] = each[name]
            whole[name] = rows[:, 0] if len(programs) == 1 else rows
        return KKT(**whole)
