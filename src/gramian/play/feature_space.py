"""Points in feature space: Gram matrix and distances, kernel PCA, and the map (x, x²)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.play.asked import Asked, sliders
from gramian.play.script import play

MOST = 300
"""Points at most."""
PRICE = 1e3
"""C of the SVM on the lifted line: almost a hard margin."""


def answer(asked: Asked) -> dict[str, Any]:
    """Compute the Gram matrix of the points, sorted by class, and project them."""
    X, y = asked.points, asked.classes
    if not 3 <= len(X) <= MOST:
        raise ValueError(f"this page needs 3 to {MOST} points, but there are {len(X)}.")
    first, second = ((asked.whole(name, 1, 1, MOST) - 1) % len(X) for name in ("first", "second"))
    steps = [
        f"kernel = parse({repr(asked.kernel)!r})",
        "K, distances, order = kernel(X), kernel.distance(X), np.argsort(y, kind='stable')",
        "pca = KernelPCA(2, kernel=kernel).fit(X)",
        "lifted = np.column_stack([X[:, 0], X[:, 0] ** 2])",
    ]
    numbers = {
        "k": f"K[{first}, {second}]",
        "distance": f"distances[{first}, {second}]",
        "gram": "K[order][:, order]",
        "distances": "distances[order][:, order]",
        "projections": "pca.transform(X)",
        "eigenvalues": "pca.eigenvalues_",
    }
    if np.unique(y).size == 2:
        steps += [
            f"machine = SVC(C={PRICE!r}, kernel=Linear()).fit(lifted, y)",
            "above = X[:, :1] > np.concatenate([[-np.inf], X[:, 0]])",
            "errors = np.sum(above != (y == y.max())[:, None], axis=0)",
        ]
        numbers |= {
            "errors_on_the_line": "min(errors.min(), (len(X) - errors).min())",
            "errors_lifted": "np.sum(machine.predict(lifted) != y)",
            "w": "np.ravel(machine.dual_coef_ @ machine.support_vectors_)",
            "b": "machine.intercept_[0]",
        }
    numbers["lifted"] = "lifted"
    played = play(asked, {"X": X, "y": y}, steps, numbers)
    picture = {"order": played.names["order"], "pair": [first, second]}
    text = _text(played.numbers, first, second, len(X))
    return played.answer(played.names["pca"].certificate_, kernel=sliders(asked.kernel), picture=picture, text=text)


def _text(numbers: dict[str, Any], first: int, second: int, n: int) -> str:
    said = f"{n} points; k between points {first + 1} and {second + 1} is {numbers['k']:.4g}, their distance in "
    said += f"feature space {numbers['distance']:.4g}."
    if "errors_lifted" in numbers:
        said += f" By x alone, a threshold errs {numbers['errors_on_the_line']} times at least; "
        said += f"a line in the plane of (x, x²) errs {numbers['errors_lifted']} times."
    return said
