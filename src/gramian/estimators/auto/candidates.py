"""Candidates of the search: machines, kernels and scalings, the most promising first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.estimators.auto.columns import Encoding
from gramian.estimators.auto.encoders import Text
from gramian.estimators.auto.scaling import FOREST, SCALINGS
from gramian.kernels import RBF, Kernel, Laplace, Linear, Matern, PowerExponential, Scaled
from gramian.kernels.linear_map import Metric
from gramian.solvers.gp.evidence import signal_and_noise

Array = NDArray[np.float64]

LINEAR = "linear"
MACHINES = ("gp", "ridge", "svm", "machine", LINEAR)
"""Gaussian process (least squares on class codes), ridge, support vectors, Huber or logistic loss, and a linear model,
which is always judged, whether or not it may win."""
ARD_INPUTS = 64
"""With at most this many inputs, each may have its own lengthscale."""
SMALL, MEDIUM = 150, 400
"""Below so many rows only the first ``FEW`` or ``SOME`` candidates are tried: chance would decide between more."""
FEW, SOME = 2, 5
GIVEN = "kernel as given"
PAIRED = 30
"""With at most this many classes, a support vector machine for each pair is cheap enough to come first."""

# Kernel, whether every input has its own lengthscale, scaling, whether a linear part is added.
NUMBERS_ORDER = (
    ("Matern-3/2", True, "standard", False),
    ("Power-3/2", True, "standard", False),
    ("Matern-3/2", False, "standard", False),
    ("Matern-5/2", True, "standard", True),
    ("Matern-1/2", True, "standard", False),
    ("Matern-5/2", True, "standard", False),
    ("Power-3/2", True, "normal", False),
    ("Matern-3/2", True, "normal", False),
    ("RBF", False, "standard", True),
    ("Power-3/2", True, "robust", False),
    ("Matern-1/2", True, "normal", False),
    ("Matern-3/2", True, "robust", False),
    ("Power-3/2", False, "normal", False),
    ("Matern-5/2", True, "normal", False),
    ("Matern-1/2", True, "robust", False),
    ("Power-3/2", False, "robust", False),
    ("Laplace", True, "standard", False),
    ("Matern-1/2", False, "normal", False),
    ("RBF", True, "standard", False),
    ("Power-3/2", False, "standard", False),
    ("Matern-3/2", False, "normal", True),
    ("Matern-1/2", False, "standard", False),
    ("RBF", False, "standard", False),
)
CLASSES_ORDER = (
    ("Matern-3/2", False, "standard", False),
    ("Power-3/2", False, "standard", False),
    ("Matern-3/2", True, "standard", False),
    ("Power-3/2", False, "robust", False),
    ("Power-3/2", False, "normal", False),
    ("Matern-5/2", False, "standard", False),
    ("Power-3/2", True, "standard", False),
    ("Laplace", False, "normal", False),
    ("Matern-3/2", False, "normal", False),
    ("Matern-3/2", False, "robust", False),
    ("RBF", False, "standard", False),
    ("Matern-1/2", False, "standard", False),
    ("Power-3/2", True, "normal", False),
    ("Laplace", True, "standard", False),
    ("Matern-3/2", True, "normal", False),
    ("Power-3/2", True, "robust", False),
    ("Matern-1/2", True, "normal", False),
    ("RBF", False, "standard", True),
    ("Matern-5/2", True, "standard", False),
)
FOREST_ORDER = (
    ("Matern-3/2", True, FOREST, True),
    ("Power-3/2", True, FOREST, True),
    ("Matern-5/2", False, FOREST, True),
)
"""With the predictions of a forest as more columns, which a linear part takes over."""
PLAIN_ORDER = (("RBF", "standard"), ("Laplace", "standard"), ("Matern-3/2", "normal"))
"""For machines that do not learn lengthscales, where no process has learned them."""
RADIAL: dict[str, Any] = {"RBF": RBF, "Laplace": Laplace, "Power-3/2": partial(PowerExponential, p=1.5, q=1.0)}
RADIAL |= {f"Matern-{twice}/2": partial(Matern, nu=twice / 2) for twice in (1, 3, 5)}
REACH, OWN = 30.0, (0.05, 1e3)
"""The factor by which a shared lengthscale may differ from the typical distance, and bounds of a column's own."""
MULTIPLES = (0.3, 0.6, 1.2)
"""Such a machine chooses its lengthscale from these multiples of the typical distance √(2d)."""

METRICS = {"evidence": 0.0, "AGOP": 0.5, "AGOP squared": 1.0}
"""Ways to learn a metric, and the power that the average gradient outer product is raised to."""
CLASSES_METRICS = ("AGOP",)
"""For classes the evidence overfits a metric."""
NOISE = 0.1
"""Initial variance of the noise, in units of the targets' variance."""
METRIC_INPUTS = 40
"""With at most this many inputs a metric is learned: it has their square as entries."""


@dataclass(frozen=True)
class Candidate:
    """A machine, a kernel and a scaling of the columns."""

    name: str  # In a few words
    machine: str  # One of ``MACHINES``
    scaling: str  # One of ``SCALINGS``
    kernels: tuple[Kernel, ...] = ()  # To start from or to choose from; none where ``source`` has learned the kernel
    source: str = ""  # The name of the process whose kernel is taken
    each: bool = False  # Whether every column has a lengthscale of its own
    metric: str = ""  # A key of ``METRICS`` where a metric is learned, starting from the kernel


def checked_machines(machines: Any, kernel: Any = None) -> tuple[str, ...]:
    """Return the machines that a user allows; a linear model takes no kernel."""
    if isinstance(machines, str) and machines == "auto":
        return MACHINES if kernel is None else MACHINES[:-1]
    if kernel is not None and LINEAR in machines:
        raise ValueError("a linear model takes no kernel; leave 'linear' out of machines, or leave kernel out.")
    wrong = [m for m in machines if m not in MACHINES]
    if wrong or not len(machines):
        raise ValueError(f"machines must be 'auto' or a list of {', '.join(MACHINES)}, got {machines!r}.")
    return tuple(m for m in MACHINES if m in machines)


def candidates(
    encoding: Encoding,
    n: int,
    machines: Sequence[str],
    kernel: Kernel | None,
    classes: int,
    scalings: Sequence[str] = SCALINGS[:2],
    more: int = 0,
) -> list[Candidate]:
    """Return what to try first: a cheap machine of each kind, then the most promising.

    ``classes`` is 0 for numbers. A forest that processes use has ``more`` columns; others only join an average.
    """
    most = FEW if n < SMALL else SOME if n < MEDIUM else None
    found: list[Candidate] = []
    if "gp" in machines:
        order = CLASSES_ORDER if classes else NUMBERS_ORDER
        order = (("Matern-3/2", False, "common", False), *order) if "common" in scalings else order
        if more:
            order = (*order[:1], *FOREST_ORDER[:1], *order[1:3], *FOREST_ORDER[1:], *order[3:])
        found += _given("gp", kernel) if kernel is not None else list(_processes(order, encoding, more))[:most]
        if kernel is None and n >= SMALL:
            cheap = [m for m in ("ridge", "svm") if m in machines and (m == "ridge" or 0 < classes <= PAIRED)]
            found = [_cheap(m, encoding, scalings) for m in cheap] + found
    for machine in (m for m in machines if m not in ("gp", LINEAR)):
        if machine == "ridge" or "gp" not in machines:
            plain = _given(machine, kernel) if kernel is not None else list(_plain(machine, encoding, scalings))
            found += plain[: 1 if n < SMALL else None]
    if FOREST in scalings and LINEAR in machines:
        found = [Candidate(f"{LINEAR}, {FOREST}", LINEAR, FOREST), *found]
    return list(dict.fromkeys(found))


def _given(machine: str, kernel: Kernel) -> list[Candidate]:
    return [Candidate(f"{machine}, {s}, {GIVEN}", machine, s, (kernel,)) for s in ("standard", "normal")]


def _processes(order: Iterable[tuple[str, bool, str, bool]], encoding: Encoding, more: int) -> Iterable[Candidate]:
    seen = set()
    scalable = bool(encoding.scalable)
    for smoothness, each, scaling, linear in order:
        each = each and len(_dense_places(encoding)) <= ARD_INPUTS
        scaling = scaling if scalable or scaling == FOREST else "standard"
        kernel = _prior(smoothness, each, linear, encoding, more=more if scaling == FOREST else 0)
        name = f"gp, {smoothness} {'per column' if each else 'shared'}{' + linear' if linear else ''}, {scaling}"
        if (scaling, kernel) not in seen:  # of texts alone there is one
            seen.add((scaling, kernel))
            yield Candidate(name, "gp", scaling, (kernel,), each=each)


def _plain(machine: str, encoding: Encoding, scalings: Sequence[str]) -> Iterable[Candidate]:
    for smoothness, scaling in (("RBF", "common"), *PLAIN_ORDER) if "common" in scalings else PLAIN_ORDER:
        base = _prior(smoothness, False, False, encoding, scaled=False)
        factors = (1.0,) if machine == "machine" or not base.theta.size else MULTIPLES
        kernels = tuple(base.with_theta(base.theta + math.log(factor)) for factor in factors)
        yield Candidate(f"{machine}, {smoothness} shared, {scaling}", machine, scaling, kernels)


def _cheap(machine: str, encoding: Encoding, scalings: Sequence[str]) -> Candidate:
    """The first of the plain candidates with one lengthscale: a first model within a second or two."""
    first = next(iter(_plain(machine, encoding, scalings)))
    middle = first.kernels[len(first.kernels) // 2 :][:1]
    return replace(first, name=first.name.replace("shared", "typical"), kernels=middle)


def derived(machines: Sequence[str], leaders: Sequence[Candidate]) -> list[Candidate]:
    """Return the machines that take the kernels of the leading processes."""
    return [
        Candidate(f"{machine}, kernel of {leader.name}", machine, leader.scaling, source=leader.name)
        for leader in leaders
        for machine in machines
        if machine in ("svm", "machine")
    ]


def metrics(c: Candidate, learned: Kernel, d: int, *, classes: bool) -> list[Candidate]:
    """Return processes that learn a metric of d columns, starting from a process with a radial kernel."""
    if not 2 <= d <= METRIC_INPUTS or c.metric or c.name.endswith(GIVEN) or radial_part(learned) is None:
        return []
    start = f"{c.name.removeprefix('gp, ').removesuffix(f', {c.scaling}')}"
    return [
        Candidate(f"gp, {start}, metric by {name}, {c.scaling}", "gp", c.scaling, (learned,), each=True, metric=name)
        for name in (CLASSES_METRICS if classes else METRICS)
    ]


def radial_part(kernel: Kernel) -> Any:
    """Return the radial kernel of all columns that a process has a multiple of; None where its kernel is another."""
    signal = signal_and_noise(kernel)[0]
    inner = signal.kernel if isinstance(signal, Scaled) else None
    return inner if isinstance(inner, RBF | Matern | Metric) else None


# ---- kernels ----------------------------------------------------------------------------------------------------


def _dense_places(encoding: Encoding) -> list[int]:
    texts = set(encoding.places(Text))
    return [place for place in range(encoding.width) if place not in texts]


def _prior(
    smoothness: str, each: bool, linear: bool, encoding: Encoding, *, scaled: bool = True, more: int = 0
) -> Kernel:
    """A radial kernel of the columns that are not text, and of more columns, plus a linear one of word counts."""
    texts, others = encoding.places(Text), [*_dense_places(encoding), *range(encoding.width, encoding.width + more)]
    terms: list[Kernel] = []
    if others:
        d = len(others)
        start = {"Laplace": float(d), "Power-3/2": math.sqrt(2.0) * d ** (2 / 3)}.get(smoothness, math.sqrt(2.0 * d))
        # Without a lower bound the search can step to lengthscales at which K is diagonal and the evidence flat.
        scale, bounds = ([start] * d, OWN) if each else (start, (start / REACH, start * REACH))
        main = RADIAL[smoothness](scale, lengthscale_bounds=bounds)
        terms = [1.0 * main if scaled else main] + ([0.1 * Linear()] if linear else [])
        terms = [term.on(*others) for term in terms] if texts else terms
    if texts:
        terms.append((1.0 * Linear()).on(*texts) if scaled else Linear().on(*texts))
    return sum(terms[1:], terms[0])
