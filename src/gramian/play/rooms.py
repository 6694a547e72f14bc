"""The topics of the page, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gramian.play import approximation, duality, feature_space, mixtures, own_data, plane, regression, samples
from gramian.play.asked import Asked

ROOMS: dict[str, Callable[[Asked], dict[str, Any]]] = {
    "plane": plane.answer,
    "regression": regression.answer,
    "learn": regression.learn,
    "evidence": regression.evidence,
    "features": feature_space.answer,
    "duality": duality.answer,
    "approximation": approximation.answer,
    "mixtures": mixtures.answer,
    "own": own_data.answer,
    "sample": samples.answer,
}


def warm_up() -> None:
    """Run a small request on every topic, so that compilation is done before somebody waits."""
    points = [[-1.0, 0.1, 0], [-0.6, 0.9, 0], [1.0, 0.2, 1], [0.7, -0.8, 1], [0.2, 0.4, 0]]
    for room in ROOMS.values():
        room(Asked({"points": points, "steps": 1}))
