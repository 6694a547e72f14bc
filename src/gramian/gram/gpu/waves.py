"""Cosines and sines of X @ W on a GPU, by blocks of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gramian.gram.gpu.cuda import KINDS, moved, panels, room
from gramian.kernels.points import to_numpy

Array = NDArray[np.float64]


def waves(
    X: NDArray[Any],
    W: Array,
    offset: Array,
    scale: float,
    size: int,
    center: Array,
    device: torch.device,
) -> NDArray[Any]:
    """Return the first ``size`` columns of ``scale · (cos P, sin P)``, ``P = (X - center) @ W + offset``."""
    out = np.empty((X.shape[0], size), X.dtype)
    kind = KINDS[out.dtype.name]
    with room(device, f"{size:,} features of {X.shape[0]:,} rows"):
        # Phases in float64, whatever the rows are: large ones would lose their digits in float32.
        turned, middle, ahead = (torch.as_tensor(part, device=device) for part in (W, center, offset))
        for rows in panels(X.shape[0], 8 * 4 * W.shape[1], device):
            phases = (moved(X[rows], device).to(torch.float64) - middle) @ turned + ahead
            both = torch.cat([phases.cos(), phases.sin()], dim=1)[:, :size]
            out[rows] = to_numpy((scale * both).to(kind))
    return out
