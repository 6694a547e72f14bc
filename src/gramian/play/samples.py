"""Initial samples: points of two or three classes in the plane, and points on a curve."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import make_circles, make_moons

from gramian.play.asked import Asked

SAMPLES = ("moons", "rings", "chessboard", "blobs", "line", "wave")


def answer(asked: Asked) -> dict[str, Any]:
    """Draw a sample, reproducible by its seed."""
    name, n = asked.choice("sample", SAMPLES), asked.whole("size", 60, 6, 500)
    seed = asked.whole("seed", 0, 0, 2**31)
    rng = np.random.default_rng(seed)
    if name == "moons":
        X, y = make_moons(n, noise=0.15, random_state=seed)
        X = 1.6 * (X - [0.5, 0.25])
    elif name == "rings":
        X, y = make_circles(n, noise=0.08, factor=0.45, random_state=seed)
        X = 2.2 * X
    elif name == "chessboard":
        X = rng.uniform(-2.7, 2.7, (n, 2))
        y = (np.floor(X[:, 0] / 1.8) + np.floor(X[:, 1] / 1.8)).astype(int) % 2
    elif name == "blobs":
        y = np.arange(n) % 3
        X = np.array([[-1.4, -0.8], [1.5, -0.6], [0.0, 1.6]])[y] + 0.55 * rng.standard_normal((n, 2))
    elif name == "line":  # not separable by a threshold, but by (x, x²)
        x = np.linspace(-2.5, 2.5, min(n, 21))
        X, y = np.column_stack([x, np.zeros_like(x)]), (np.abs(x) > 1.2).astype(int)
    else:
        x = np.sort(rng.uniform(-2.8, 2.8, n))
        X, y = np.column_stack([x, np.sin(2 * x) + 0.15 * rng.standard_normal(n)]), np.zeros(n, int)
    X = np.clip(X, -2.95, 2.95).round(3)
    return {"points": [[*row, c] for row, c in zip(X.tolist(), y.tolist(), strict=True)]}
