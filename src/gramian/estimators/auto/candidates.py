"""What is tried: machines, kernels and scalings, the most promising first."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from gramian.estimators.auto.columns import Encoding, NumberColumn, Text
from gramian.kernels import RBF, Kernel, Laplace, Linear, Matern

__all__ = ["MACHINES", "Candidate", "candidates", "checked_machines", "derived"]

MACHINES = ("gp", "ridge", "svm", "machine")
"""Gaussian process (least squares on codes, for classes), ridge, support vectors, Huber or logistic loss."""
ARD_INPUTS = 64
"""Inputs up to which each may have a lengthscale of its own."""
SMALL, MEDIUM = 150, 400
"""Rows below which only the first few candidates are tried: more would be told apart by chance."""
FEW, SOME = 2, 5

# Smoothness, whether every input has its own lengthscale, scaling, whether a linear part is added.
NUMBERS_ORDER = (
    ("Matern-3/2", True, "standard", False),
    ("Matern-3/2", False, "standard", False),
    ("Matern-5/2", True, "standard", True),
    ("Matern-5/2", True, "standard", False),
    ("Matern-3/2", True, "normal", False),
    ("Matern-1/2", True, "standard", False),
    ("RBF", False, "standard", True),
    ("Matern-5/2", True, "normal", False),
    ("RBF", True, "standard", False),
    ("Laplace", False, "standard", False),
    ("Matern-1/2", True, "normal", False),
    ("Matern-3/2", False, "normal", True),
    ("RBF", False, "standard", False),
)
CLASSES_ORDER = (
    ("Matern-3/2", False, "standard", False),
    ("Matern-3/2", True, "standard", False),
    ("Matern-3/2", False, "normal", False),
    ("Matern-5/2", False, "standard", False),
    ("Matern-3/2", True, "normal", False),
    ("RBF", False, "standard", False),
    ("Matern-1/2", False, "standard", False),
    ("Matern-1/2", True, "normal", False),
    ("Matern-1/2", True, "standard", False),
    ("RBF", False, "standard", True),
    ("Laplace", False, "normal", False),
    ("Matern-5/2", True, "standard", False),
)
PLAIN_ORDER = (("RBF", "standard"), ("Laplace", "standard"), ("Matern-3/2", "normal"))
"""For machines that do not learn lengthscales, where there is no process to take them from."""
RADIAL: dict[str, Any] = {"RBF": RBF, "Laplace": Laplace}
RADIAL |= {f"Matern-{twice}/2": partial(Matern, nu=twice / 2) for twice in (1, 3, 5)}
REACH, OWN = 30.0, (0.05, 1e3)
"""How far a shared lengthscale may go from the typical distance, and where a column's own may be."""
MULTIPLES = (0.3, 0.6, 1.2)
"""Of the typical distance √(2d): lengthscales that such a machine chooses from, where its fits are cheap."""


@dataclass(frozen=True)
class Candidate:
    """A machine, a kernel and a scaling of the columns."""

    name: str  # In a few words
    machine: str  # One of ``MACHINES``
    scaling: str  # One of ``SCALINGS``
    kernels: tuple[Kernel, ...] = ()  # To learn from or to choose from; none where the kernel is learned by ``source``
    source: str = ""  # The name of the process whose kernel is taken
    each: bool = False  # Whether every column has a lengthscale of its own


def checked_machines(machines: Any) -> tuple[str, ...]:
    """Return the machines that a user allows."""
    if isinstance(machines, str) and machines == "auto":
        return MACHINES
    wrong = [m for m in machines if m not in MACHINES]
    if wrong or not len(machines):
        raise ValueError(f"machines must be 'auto' or a list of {', '.join(MACHINES)}, got {machines!r}.")
    return tuple(m for m in MACHINES if m in machines)


def candidates(encoding: Encoding, n: int, machines: Sequence[str], kernel: Kernel | None, classes: bool) -> Any:
    """Return what to try on the first rows, the most promising first."""
    most = FEW if n < SMALL else SOME if n < MEDIUM else None
    found = []
    if "gp" in machines:
        order = CLASSES_ORDER if classes else NUMBERS_ORDER
        found += _given("gp", kernel) if kernel is not None else list(_processes(order, encoding))[:most]
    for machine in (m for m in machines if m != "gp"):
        if machine == "ridge" or "gp" not in machines:
            plain = _given(machine, kernel) if kernel is not None else list(_plain(machine, encoding))
            found += plain[: 1 if n < SMALL else None]
    return found


def _given(machine: str, kernel: Kernel) -> list[Candidate]:
    return [Candidate(f"{machine}, {s}, kernel as given", machine, s, (kernel,)) for s in ("standard", "normal")]


def _processes(order: Iterable[tuple[str, bool, str, bool]], encoding: Encoding) -> Iterable[Candidate]:
    seen = set()
    scalable = bool(encoding.places(NumberColumn))
    for smoothness, each, scaling, linear in order:
        each = each and len(_dense_places(encoding)) <= ARD_INPUTS
        scaling = scaling if scalable else "standard"
        name = f"gp, {smoothness} {'per column' if each else 'shared'}{' + linear' if linear else ''}, {scaling}"
        if name not in seen:
            seen.add(name)
            yield Candidate(name, "gp", scaling, (_prior(smoothness, each, linear, encoding),), each=each)


def _plain(machine: str, encoding: Encoding) -> Iterable[Candidate]:
    for smoothness, scaling in PLAIN_ORDER:
        base = _prior(smoothness, False, False, encoding, scaled=False)
        factors = (1.0,) if machine == "machine" or not base.theta.size else MULTIPLES
        kernels = tuple(base.with_theta(base.theta + math.log(factor)) for factor in factors)
        yield Candidate(f"{machine}, {smoothness} shared, {scaling}", machine, scaling, kernels)


def derived(machines: Sequence[str], leaders: Sequence[Candidate]) -> list[Candidate]:
    """Return the machines that take the kernels of the leading processes."""
    return [
        Candidate(f"{machine}, kernel of {leader.name}", machine, leader.scaling, source=leader.name)
        for leader in leaders
        for machine in machines
        if machine in ("svm", "machine")
    ]


# ---- kernels ----------------------------------------------------------------------------------------------------


def _dense_places(encoding: Encoding) -> list[int]:
    texts = set(encoding.places(Text))
    return [place for place in range(encoding.width) if place not in texts]


def _prior(smoothness: str, each: bool, linear: bool, encoding: Encoding, *, scaled: bool = True) -> Kernel:
    """A kernel of the columns that are not text, and beside it the word counts of those that are."""
    texts, others = encoding.places(Text), _dense_places(encoding)
    terms: list[Kernel] = []
    if others:
        d = len(others)
        start = float(d) if smoothness == "Laplace" else math.sqrt(2.0 * d)
        # Without a floor the search can step to where every row is alone, and the evidence is flat.
        scale, bounds = ([start] * d, OWN) if each else (start, (start / REACH, start * REACH))
        main = RADIAL[smoothness](scale, lengthscale_bounds=bounds)
        terms = [1.0 * main if scaled else main] + ([0.1 * Linear()] if linear else [])
        terms = [term.on(*others) for term in terms] if texts else terms
    if texts:
        terms.append((1.0 * Linear()).on(*texts) if scaled else Linear().on(*texts))
    return sum(terms[1:], terms[0])
