"""A kernel and its approximation: random Fourier features, or Nyström's landmarks."""

from __future__ import annotations

from typing import Any

from gramian.play.asked import Asked, sliders
from gramian.play.script import play

FARTHEST = 4.0
"""The kernel is drawn up to this distance."""
PLACES = 81
MOST = 300
"""Points used at most."""
METHODS = ("fourier", "nystrom")
DRAWS = ("orthogonal", "iid", "qmc")
RULES = ("rpcholesky", "uniform", "greedy", "leverage", "kmeans")


def answer(asked: Asked) -> dict[str, Any]:
    """Approximate the kernel, and compare along a line and for every pair of points."""
    X, method = asked.points, asked.choice("method", METHODS)
    if not 2 <= len(X) <= MOST:
        raise ValueError(f"this page needs 2 to {MOST} points, but there are {len(X)}.")
    if method == "fourier":
        name, size, how = (
            "FourierFeatures",
            asked.whole("features", 100, 2, 10_000),
            {"method": asked.choice("draw", DRAWS)},
        )
        sizes = [s for s in (4, 10, 30, 100, 300, 1000) if s != size]
    else:
        name, size = "Nystroem", min(asked.whole("landmarks", 10, 1, MOST), len(X))
        how = {"selection": asked.choice("rule", RULES)}
        sizes = [s for s in (2, 5, 10, 20, 40, 80) if s != size and s <= len(X)]
    options = {"n_components": size, "random_state": asked.whole("seed", 0, 0, 2**31), **how}
    steps = [
        f"kernel, options = parse({repr(asked.kernel)!r}), {options!r}",
        f"features = {name}(kernel, **options).fit(X)",
        "",
        "def errors(features):",
        "    F = features.transform(X)",
        "    return np.abs(F @ F.T - kernel(X))",
        "",
        f"line = X.mean(axis=0) + np.column_stack([np.linspace(0, {FARTHEST!r}, {PLACES}), np.zeros({PLACES})])",
        f"others = [{name}(kernel, **{{**options, 'n_components': size}}).fit(X) for size in {sizes!r}]",
    ]
    numbers = {
        "kernel": "kernel(line[:1], line)[0]",
        "approximation": "(features.transform(line[:1]) @ features.transform(line).T)[0]",
        "largest_error": "errors(features).max()",
        "mean_error": "errors(features).mean()",
        "errors": "[errors(other).mean() for other in others]",
    }
    if method == "nystrom":
        numbers["trace_error"] = "features.trace_error_"
    played = play(asked, {"X": X}, steps, numbers)
    line, landmarks = played.names["line"][:, 0], getattr(played.names["features"], "component_indices_", None)
    picture = {"r": line - X[:, 0].mean(), "sizes": [*sizes, size], "landmarks": landmarks}
    text = _text(method, played.numbers, size, len(X))
    return played.answer(kernel=sliders(asked.kernel), picture=picture, text=text)


def _text(method: str, numbers: dict[str, Any], size: int, n: int) -> str:
    what = f"{size} random features" if method == "fourier" else f"{size} landmarks of {n} points"
    said = f"With {what}, entries of the Gram matrix are off by {numbers['mean_error']:.3g} on average and by "
    said += f"{numbers['largest_error']:.3g} at most."
    if "trace_error" in numbers:
        said += f" The trace error, tr(K - K̂) / tr K, is {numbers['trace_error']:.3g}."
    return said
