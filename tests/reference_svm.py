"""Support vector machines the slow way: primal and dual values by their definitions, and SMO one pair at a time."""

from __future__ import annotations

import numpy as np


def svc_gap(K, y, alpha, b, C):
    """Primal value, dual value and relative gap of soft-margin classification."""
    n = len(y)
    square = sum(alpha[i] * alpha[j] * y[i] * y[j] * K[i, j] for i in range(n) for j in range(n))
    slack = 0.0
    for i in range(n):
        f = sum(alpha[j] * y[j] * K[i, j] for j in range(n)) + b
        slack += C[i] * max(0.0, 1.0 - y[i] * f)
    primal, dual = 0.5 * square + slack, sum(alpha) - 0.5 * square
    return primal, dual, (primal - dual) / max(abs(primal), abs(dual), 1e-300)


def fast_svc_gap(K, y, alpha, b, C):
    """The same sums by matrix products, for problems where loops would take all day."""
    f = K @ (alpha * y)
    square = float((alpha * y) @ f)
    primal = 0.5 * square + float(np.sum(C * np.maximum(0.0, 1.0 - y * (f + b))))
    dual = float(alpha.sum()) - 0.5 * square
    return primal, dual, (primal - dual) / max(abs(primal), abs(dual), 1e-300)


def svr_gap(K, y, beta, b, C, epsilon):
    """Primal value, dual value and relative gap of ε regression."""
    f = K @ beta
    square = float(beta @ f)
    primal = 0.5 * square + float(np.sum(C * np.maximum(0.0, np.abs(y - f - b) - epsilon)))
    dual = float(y @ beta) - epsilon * float(np.abs(beta).sum()) - 0.5 * square
    return primal, dual, (primal - dual) / max(abs(primal), abs(dual), 1e-300)


def smo(K, p, lower, upper, beta, tol=1e-9, kink=0.0, group=None):
    """Minimise ½βᵀKβ + pᵀβ + kink Σ|β| by the steepest pair, again and again."""
    beta = np.array(beta, dtype=float)
    group = np.zeros(len(p), dtype=int) if group is None else group
    for _ in range(200_000):
        g = K @ beta + p
        best, pair = tol, None
        for label in set(group.tolist()):
            up = [
                (g[v] + (kink if beta[v] >= 0 else -kink), v)
                for v in range(len(p))
                if group[v] == label and beta[v] < upper[v]
            ]
            down = [
                (g[v] + (kink if beta[v] > 0 else -kink), v)
                for v in range(len(p))
                if group[v] == label and beta[v] > lower[v]
            ]
            if up and down and max(down)[0] - min(up)[0] > best:
                best, pair = max(down)[0] - min(up)[0], (min(up)[1], max(down)[1])
        if pair is None:
            return beta
        i, j = pair
        top = 0.0 if kink and beta[i] < 0 else upper[i]
        bottom = 0.0 if kink and beta[j] > 0 else lower[j]
        step = min(best / max(K[i, i] + K[j, j] - 2 * K[i, j], 1e-12), top - beta[i], beta[j] - bottom)
        beta[i] = top if step == top - beta[i] else beta[i] + step
        beta[j] = bottom if step == beta[j] - bottom else beta[j] - step
    raise AssertionError("the reference did not converge")


def objective(K, p, beta, kink=0.0):
    """The value that ``smo`` minimises."""
    return 0.5 * beta @ K @ beta + p @ beta + kink * np.abs(beta).sum()
