"""The E-step: sufficient statistics of rows, added up over blocks; and densities, posteriors and labels of rows.

Arithmetic is float64, and memory is that of a few blocks. Log-densities are computed in the expanded form ``θᵀ φ(x)``
for all components at once, unless its terms would cancel (narrow components far from the centre) or be too many; then
the residuals from each mean are formed in turn, and moments are taken about the means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.passes import Need, Part, Passes, Sums
from gramian.solvers.mixture.covariances import EPS, CovarianceFamily, Floats, quadratics
from gramian.solvers.mixture.exponential_family import LOG_ZERO, Mixture
from gramian.solvers.mixture.row_tiles import Block, Scratch, Tiles, Workers

# Largest absolute error of a row's log-density for which the expanded form is used.
ROUNDING = 1e-8

FEW = 20_000
"""Entries of the residuals from all means up to which few rows are evaluated without tiles."""
SUMS = ("moments", "log_likelihood", "entropy", "divergence")

Assignment = Callable[[Block], Floats]


@dataclass(frozen=True, eq=False)
class Statistics:
    """The result of an E-step: the sum of the expected ``φ`` over rows.

    Statistics of different rows, with the same family and origin, can be added.
    """

    family: CovarianceFamily  # The family, which defines the quadratics
    origin: Floats  # (K, d): Point o_k about which the moments of each component are taken
    moments: Floats  # (K, 1 + d + Q): ``Σ_n w_n q_nk φ(x_n - o_k)``
    log_likelihood: float = 0.0  # ``Σ_n w_n log p(x_n)``, under the mixture of the E-step
    entropy: float = 0.0  # ``-Σ_n w_n Σ_k q_nk log q_nk``
    divergence: float = 0.0  # ``Σ_n w_n KL(q_n ‖ p(· | x_n))``: zero if q is the posterior

    def __add__(self, other: Statistics) -> Statistics:
        if self.family != other.family or not np.array_equal(self.origin, other.origin):
            raise ValueError("statistics can be added only if family and origin are equal; take both about one origin.")
        sums = (getattr(self, name) + getattr(other, name) for name in SUMS)
        return Statistics(self.family, self.origin, *sums)

    @cached_property
    def total(self) -> float:
        """Total weight of all rows."""
        return float(np.sum(self.moments[:, 0]))

    @cached_property
    def weights(self) -> Floats:
        """Proportions, ``(K,)``; zero for an empty component, one whose weight is below rounding."""
        shares = self.moments[:, 0] / self.total
        return np.where(shares > EPS, shares, 0.0)

    @cached_property
    def means(self) -> Floats:
        """Mean of each component, ``(K, d)``; the mean of all rows for an empty one."""
        means = self.origin + self.moments[:, 1 : 1 + self.family.n_features] / self._held
        return np.where(np.isinf(self._held), self.weights @ means, means)

    @cached_property
    def second(self) -> Floats:
        """Mean quadratics about the means, ``(K, Q)``; those of all rows for an empty component."""
        about_origin = self.moments[:, 1 + self.family.n_features :] / self._held
        second = about_origin - quadratics(self.family, self.means - self.origin)
        if np.all(self.weights > 0):
            return second
        between = quadratics(self.family, self.means - self.weights @ self.means)
        return np.where(np.isinf(self._held), self.weights @ (second + between), second)

    @cached_property
    def _held(self) -> Floats:
        """Divisors of the moments, ``(K, 1)``; infinite for an empty component."""
        return np.where(self.weights > 0, self.moments[:, 0], np.inf)[:, None]


def expect(
    rows: Tiles, mixture: Mixture, workers: Workers, *, hard: bool = False, origin: Floats | None = None
) -> Statistics:
    """Take the E-step: the statistics of rows under the posterior of a mixture, about an origin (K, d)."""
    view = _View.of(rows, mixture)
    if origin is None and not view.expanded:
        origin = natural_origin(rows, mixture)

    def posterior(block: Block, phi: Floats, scratch: Scratch) -> tuple[Floats, ...]:
        return (_harden if hard else _soften)(view.joint(mixture, phi, scratch), scratch)

    return view.sum(posterior, workers, origin)


def natural_origin(rows: Tiles, mixture: Mixture) -> Floats:
    """Return an origin for which moments do not cancel, relative to the centre: zero if possible, else the means."""
    return np.zeros_like(mixture.means) if is_expanded(rows, mixture) else mixture.means


def is_expanded(rows: Tiles, mixture: Mixture) -> bool:
    """Whether the expanded form of densities is fast and accurate enough."""
    return _View.of(rows, mixture).expanded


def tally(
    rows: Tiles, family: CovarianceFamily, assignment: Assignment, workers: Workers, origin: Floats | None = None
) -> Statistics:
    """Return the statistics of rows for given responsibilities q: origin (K, d)."""
    view = _View(rows, family, expanded=origin is None and _worthwhile(family))
    return view.sum(lambda block, phi, scratch: (assignment(block),), workers, origin)


def evaluate(rows: Tiles, mixture: Mixture, workers: Workers, figure: str, out: NDArray[Any]) -> NDArray[Any]:
    """Write "labels", "log_density", "posterior" or "log_joint" of every row: out (n,) or (n, K)."""
    view = _View.of(rows, mixture)

    def job(block: Block, scratch: Scratch) -> None:
        joint = view.joint(mixture, view.load(block, scratch), scratch)
        out[block.rows] = _figure_of(figure, joint, scratch)

    for _ in workers.map(job, rows.blocks(view.width)):
        pass
    return out


def evaluate_few(X: NDArray[Any], mixture: Mixture, figure: str) -> NDArray[Any] | None:
    """As ``evaluate``, for a few rows without tiles and threads; None if there are too many rows: X (n, d)."""
    if X.size * len(mixture.means) > FEW:
        return None
    return _figure_of(figure, mixture.log_joint(X.T.astype(np.float64, copy=False))[None], Scratch())


def _figure_of(figure: str, joint: Floats, scratch: Scratch) -> NDArray[Any]:
    """Compute a figure of rows from ``log π_k N(x | μ_k, Σ_k)``, which it may overwrite: joint (t, K, b)."""
    if figure == "labels":
        return joint.argmax(axis=1).ravel()
    if figure == "log_joint":
        return joint.transpose(0, 2, 1).reshape(-1, joint.shape[1])
    q, log_density, *_ = _soften(joint, scratch)
    return log_density.ravel() if figure == "log_density" else q.transpose(0, 2, 1).reshape(-1, q.shape[1])


@dataclass(frozen=True, eq=False)
class _View:
    """Blocks of rows as ``φ``, with its quadratics only if the expanded form is used."""

    rows: Tiles
    family: CovarianceFamily
    expanded: bool

    @classmethod
    def of(cls, rows: Tiles, mixture: Mixture) -> _View:
        """Choose the fastest form that is accurate to ``ROUNDING``."""
        reach = np.maximum(rows.reach, np.abs(mixture.means))
        accurate = EPS * mixture.magnitude(reach) <= ROUNDING
        return cls(rows, mixture.family, expanded=accurate and _worthwhile(mixture.family))

    @property
    def width(self) -> int:
        """Numbers held for each row: φ or a few residuals, joint and posterior."""
        quadratics = self.family.size if self.expanded else 3 * self.family.n_features
        return 1 + self.family.n_features + quadratics + 2 * self.family.n_components

    def load(self, block: Block, scratch: Scratch) -> Floats:
        d = self.family.n_features
        height = 1 + d + (self.family.size if self.expanded else 0)
        phi = scratch.array("phi", (block.tiles, height, block.size))
        phi[:, 0] = 1.0
        x = self.rows.load(block, phi[:, 1 : 1 + d])
        if self.expanded:
            self.family.quadratics(x, phi[:, 1 + d :])
        return phi

    def joint(self, mixture: Mixture, phi: Floats, scratch: Scratch) -> Floats:
        """``log π_k N(x | μ_k, Σ_k)``, ``(tiles, K, size)``."""
        out = scratch.array("joint", (len(phi), self.family.n_components, phi.shape[2]))
        if self.expanded:
            return np.matmul(mixture.natural, phi, out=out)
        x = phi[:, 1:]
        with np.errstate(over="ignore", invalid="ignore"):
            for k, (mean, factor) in enumerate(zip(mixture.means, mixture.stacked, strict=True)):
                whitened = self.family.whiten(factor, x - mean[:, None])
                out[:, k] = mixture.constants[k] - 0.5 * np.sum(whitened**2, axis=1)
        # If a row is so far away that squares overflow, its density is zero.
        return np.fmax(out, LOG_ZERO, out=out)

    def sum(
        self, q_of: Callable[[Block, Floats, Scratch], tuple[Floats, ...]], workers: Workers, origin: Floats | None
    ) -> Statistics:
        """Statistics of all rows; ``q_of`` gives q (t, K, b) and further figures (t, b) for the rows of a block."""

        def job(block: Block, scratch: Scratch) -> Statistics:
            phi = self.load(block, scratch)
            q, *figures = q_of(block, phi, scratch)
            weights = self.rows.weights_of(block)
            if weights is not None:
                q, figures = q * weights[:, None, :], [figure * weights for figure in figures]
            return self.statistics(phi, q, origin, *(float(np.sum(figure)) for figure in figures))

        return reduce(add, workers.map(job, self.rows.blocks(self.width)))

    def statistics(self, phi: Floats, q: Floats, origin: Floats | None, *figures: float) -> Statistics:
        """Statistics of a block, about the centre if no origin is given."""
        centre = np.zeros((self.family.n_components, self.family.n_features))
        if origin is None and self.expanded:
            moments = np.sum(np.matmul(q, phi.transpose(0, 2, 1)), axis=0)
            return Statistics(self.family, centre, moments, *figures)
        origin, x = centre if origin is None else origin, phi[:, 1 : 1 + self.family.n_features]
        pairs = zip(origin, q.transpose(1, 0, 2), strict=True)
        return Statistics(self.family, origin, np.stack([self._moments(x - o[:, None], r) for o, r in pairs]), *figures)

    def _moments(self, x: Floats, r: Floats) -> Floats:
        first = np.matmul(x, r[:, :, None]).sum(axis=0)[:, 0]
        return np.concatenate([[np.sum(r)], first, self.family.scatter(x, r)])


def _worthwhile(family: CovarianceFamily) -> bool:
    """Whether forming all quadratics is faster than a loop over the components."""
    return family.size <= 2 * family.n_components * family.n_features


def _soften(joint: Floats, scratch: Scratch) -> tuple[Floats, Floats, Floats, Floats]:
    """Posterior ``(t, K, b)``; log-density, entropy and divergence of each row, ``(t, b)``. Overwrites ``joint``."""
    top = joint.max(axis=1)
    joint -= top[:, None]
    q = np.exp(joint, out=scratch.array("q", joint.shape))
    mass = q.sum(axis=1)
    q /= mass[:, None]
    log_mass = np.log(mass)
    entropy = log_mass - np.einsum("tkb,tkb->tb", q, joint)
    return q, top + log_mass, entropy, np.zeros_like(top)


def _harden(joint: Floats, scratch: Scratch) -> tuple[Floats, Floats, Floats, Floats]:
    """As ``_soften``, for the q that assigns each row to its most probable component."""
    best = joint.argmax(axis=1)[:, None]
    complete = np.take_along_axis(joint, best, axis=1)[:, 0]
    q, log_density, *_ = _soften(joint, scratch)
    np.equal(best, np.arange(q.shape[1])[:, None], out=q, casting="unsafe")
    return q, log_density, np.zeros_like(complete), log_density - complete


# ---- over passes -----------------------------------------------------------------------------------------------------


def _extent(shared: None, parts: Iterator[Part]) -> list[tuple[Any, ...]]:
    return [(p.X.min(axis=0), p.X.max(axis=0), p.X.sum(axis=0, dtype=np.float64), len(p.X), p.X.dtype) for p in parts]


def frame(passes: Passes) -> tuple[Tiles, int]:
    """Return the centre and reach of all rows, as an empty ``Tiles``, and the number of rows of positive weight."""
    found = [extent for extents in passes.map(_extent, None, need=Need(y=False)) for extent in extents]
    if not found:
        raise ValueError("weights must be positive for at least one row; all weights are zero.")
    low, high, sums, counts, dtypes = zip(*found, strict=True)
    bottom, top, n = np.min(low, axis=0), np.max(high, axis=0), sum(counts)
    centre = np.clip(np.sum(sums, axis=0) / n, bottom, top)
    return Tiles(np.empty((0, len(centre)), dtypes[0]), centre, np.maximum(top - centre, centre - bottom)), n


ALONE = Workers(1)
"""One worker for each thread of a pass, whose buffers are kept from part to part."""


def _expected(part: Part, seen: Tiles, mixture: Mixture, hard: bool, origin: Floats | None) -> Sums:
    rows = replace(seen, X=part.X, weights=part.weight)
    found = expect(rows, mixture, ALONE, hard=hard, origin=origin)
    return Sums.of(moments=found.moments, figures=[found.log_likelihood, found.entropy, found.divergence])


def expectation(passes: Passes, seen: Tiles) -> Any:
    """Return a function that takes the E-step over blocks, with the arguments of ``expect``."""

    def expected(
        rows: Tiles, mixture: Mixture, workers: Workers, *, hard: bool = False, origin: Floats | None = None
    ) -> Statistics:
        sums = passes.sum(_expected, seen, mixture, hard, origin, need=Need(y=False))
        about = natural_origin(rows, mixture) if origin is None else origin
        return Statistics(mixture.family, about, sums["moments"], *map(float, sums["figures"]))

    return expected
