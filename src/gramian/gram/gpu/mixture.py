"""Rows of a Gaussian mixture on a GPU: joint densities, posteriors and expected moments, by blocks of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gramian.gram.gpu.cuda import moved, panels, room
from gramian.kernels.points import to_numpy

Array = NDArray[np.float64]

COPIES = 5
"""Arrays of a block that are alive at once, about: joint densities, posteriors and their intermediates."""


@dataclass(frozen=True, eq=False)
class Densities:
    """``log π_k N(x | μ_k, Σ_k)`` of all components, from natural parameters or from whitened residuals."""

    means: Array  # (K, d)
    factors: Array  # (K, d, d), or (K, d) where they are diagonal: P with ``Σ⁻¹ = P Pᵀ``
    constants: Array  # (K,): At the means
    natural: Array | None  # (K, 1 + d + Q): Of ``(1, x, quadratics)``, where that loses no digits
    least: float  # In place of log 0

    @property
    def full(self) -> bool:
        """Whether covariances are matrices."""
        return self.factors.ndim == 3


class CardMixtureRows:
    """Rows on the card, to be centred: X (n, d), centre (d,), weights (n,) or None."""

    def __init__(self, X: NDArray[Any], centre: Any, weights: Any, device: torch.device) -> None:
        self.device = device
        with room(device, f"X of {X.shape[0]:,} rows"):
            self.X = moved(X, device)  # in their own precision
            self.centre, self.weights = self._put(centre), None if weights is None else self._put(weights)

    def sums(self, of: Densities, hard: bool, origin: Array | None) -> tuple[Array, list[float]]:
        """Return the expected moments, about an origin (K, d), and log-likelihood, entropy and divergence: (K, ·)."""
        seen_from = None if origin is None else self._put(origin)
        moments: Any = 0.0
        figures = torch.zeros(3, dtype=torch.float64, device=self.device)
        with room(self.device, f"the E-step of {self.X.shape[0]:,} rows"):
            for rows, x, phi, joint in self._blocks(of):
                q, *each = _posterior(joint, hard)
                if self.weights is not None:
                    weights = self.weights[rows]
                    q, each = q * weights[:, None], [figure * weights for figure in each]
                figures += torch.stack([figure.sum() for figure in each])
                moments += q.T @ phi if seen_from is None else _about(seen_from, x, q, of.full)
        return to_numpy(moments), figures.tolist()

    def write(self, of: Densities, figure: str, out: NDArray[Any]) -> NDArray[Any]:
        """Write "labels", "log_density", "posterior" or "log_joint" of every row: out (n,) or (n, K)."""
        with room(self.device, f"the densities of {self.X.shape[0]:,} rows"):
            for rows, _, _, joint in self._blocks(of):
                if figure == "labels":
                    found = joint.argmax(dim=1)
                elif figure == "log_joint":
                    found = joint
                else:
                    found = _posterior(joint, False)[int(figure == "log_density")]
                out[rows] = to_numpy(found)
        return out

    def _put(self, values: Any) -> torch.Tensor:
        return moved(np.asarray(values, dtype=np.float64), self.device)

    def _blocks(self, of: Densities) -> Iterator[tuple[slice, torch.Tensor, torch.Tensor, torch.Tensor]]:
        """Slices of rows; the rows, centred; ``(1, x, quadratics)`` or the rows again; and joint densities."""
        d, K = self.X.shape[1], len(of.means)
        width = COPIES * K + 3 * d + (0 if of.natural is None else 2 * of.natural.shape[1])
        natural = None if of.natural is None else self._put(of.natural)
        means, factors, constants = map(self._put, (of.means, of.factors, of.constants))
        for rows in panels(self.X.shape[0], 8 * width, self.device):
            x = self.X[rows].to(torch.float64) - self.centre
            if natural is not None:
                phi = _features(x, of.full)
                yield rows, x, phi, phi @ natural.T
                continue
            joint = torch.empty((x.shape[0], K), dtype=x.dtype, device=x.device)
            for k in range(K):
                apart = x - means[k]
                white = apart @ factors[k] if of.full else apart * factors[k]
                joint[:, k] = constants[k] - 0.5 * (white**2).sum(dim=1)
            yield rows, x, x, joint.fmax(torch.full((), of.least, dtype=x.dtype, device=x.device))


def _features(x: torch.Tensor, full: bool) -> torch.Tensor:
    """``(1, x, quadratics)``: x (b, d)."""
    d, one = x.shape[1], torch.ones_like(x[:, :1])
    squares = [x[:, i:] * x[:, i : i + 1] for i in range(d)] if full else [x * x]
    return torch.cat([one, x, *squares], dim=1)


def _posterior(joint: torch.Tensor, hard: bool) -> tuple[torch.Tensor, ...]:
    """q (b, K), and of each row log-density, entropy and divergence."""
    top = joint.amax(dim=1, keepdim=True)
    below = joint - top
    q = below.exp()
    mass = q.sum(dim=1, keepdim=True)
    q /= mass
    density = (top + mass.log())[:, 0]
    if not hard:
        return q, density, mass.log()[:, 0] - (q * below).sum(dim=1), torch.zeros_like(density)
    best = joint.argmax(dim=1, keepdim=True)
    q = torch.zeros_like(joint).scatter_(1, best, 1.0)
    return q, density, torch.zeros_like(density), density - joint.gather(1, best)[:, 0]


def _about(origin: torch.Tensor, x: torch.Tensor, q: torch.Tensor, full: bool) -> torch.Tensor:
    """Moments of each component about its own origin: origin (K, d), x (b, d), q (b, K)."""
    found = []
    for k in range(len(origin)):
        y, r = x - origin[k], q[:, k]
        i, j = torch.triu_indices(x.shape[1], x.shape[1], device=x.device)
        second = ((y * r[:, None]).T @ y)[i, j] if full else r @ (y * y)
        found.append(torch.cat([r.sum()[None], r @ y, second]))
    return torch.stack(found)
