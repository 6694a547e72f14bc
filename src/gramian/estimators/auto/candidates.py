"""Candidates of the search: machines, kernels and scalings, the most promising first, and how each is fitted."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate, certify
from gramian.estimators.auto.columns import Encoding
from gramian.estimators.auto.encoders import Text
from gramian.estimators.auto.plans import ONE_THREAD, PCG_TOL, RIDGE_ROWS, measured_pace
from gramian.estimators.auto.response import PAIRS, Classes, Response
from gramian.estimators.auto.scaling import FOREST, SCALINGS
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.ridge import KernelRidge
from gramian.estimators.svm import svm_path
from gramian.features.nystrom import Nystroem
from gramian.features.polynomial import PolynomialMap
from gramian.kernels import RBF, Kernel, Laplace, Linear, Matern, PowerExponential, Scaled, White
from gramian.kernels.linear_map import Metric
from gramian.progress import Clock
from gramian.resources import one_blas_thread, random_of
from gramian.solvers.gp.evidence import WeightedEvidence, signal_and_noise
from gramian.solvers.gp.hyperparameters import learn_from_rows, widened
from gramian.solvers.gp.metric_learning import Climb, MetricEvidence, Prior, agop_round, climb

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
METRIC_INPUTS = 40
"""With at most this many inputs a metric is learned: it has their square as entries."""
CLIMB, SETTLE, ROUNDS = (45, 15), 20, (3, 1)
"""Steps over the entries of a metric, at first and on more rows; steps over scale and variances; rounds of AGOP."""
METRIC_SLOPE = 0.01
"""A metric is learned where the slope of the evidence, for each row, is below this."""
NOISE, MOST_NOISE = 0.1, 10.0
"""Initial and largest variance of the noise, in units of the targets' variance."""
MORE = 10.0
"""On more rows a metric starts with at most this many times its noise."""
EVIDENCE_TOL = 1e-4
"""The search for hyperparameters ends where no slope of the evidence exceeds the root of this."""
STEPS = (60, 20)
"""Steps of that search, at first and on more rows."""
CONDITION_STEPS = 100
"""Conjugate gradient steps where a process is judged on many rows."""
LINEAR_COSTS = (0.03, 1.0, 30.0)
"""C of a linear model of classes, for columns of deviation one."""
COSTS = (1.0, 10.0, 100.0)
"""C of a support vector machine, for k(x, x) = 1."""
STRENGTHS = (1e-3, 1e-5)
"""lam of a kernel machine, for k(x, x) = 1."""
MOMENT = 0.1
"""Least seconds of a fit."""
AWAKE = 64
"""Rows of the fits that warm up a GPU."""
DIAGONAL = 200
"""Rows whose k(x, x) is averaged."""
TUBE = 0.5
"""Half width of the tube of SVR, in deviations of the noise."""
TOLERANCES = {"svm": 1e-2, "machine": 1e-3}
"""Tolerances of the solvers while candidates are compared."""
quiet = partial(warnings.catch_warnings, action="ignore")
"""Suppresses warnings: the certificate of a trial says the same."""


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

    ``classes`` is 0 for numbers. A forest, where there is one, has ``more`` columns.
    """
    most = FEW if n < SMALL else SOME if n < MEDIUM else None
    found: list[Candidate] = []
    if "gp" in machines:
        order = CLASSES_ORDER if classes else NUMBERS_ORDER
        order = (("Matern-3/2", False, "common", False), *order) if "common" in scalings else order
        if FOREST in scalings:
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
    if not 2 <= d <= METRIC_INPUTS or c.metric or c.name.endswith(GIVEN) or _radial(learned) is None:
        return []
    start = f"{c.name.removeprefix('gp, ').removesuffix(f', {c.scaling}')}"
    return [
        Candidate(f"gp, {start}, metric by {name}, {c.scaling}", "gp", c.scaling, (learned,), each=True, metric=name)
        for name in (CLASSES_METRICS if classes else METRICS)
    ]


def _radial(kernel: Kernel) -> Any:
    """The radial kernel of all columns that a process has a multiple of; None where its kernel is another."""
    signal = signal_and_noise(kernel)[0]
    inner = signal.kernel if isinstance(signal, Scaled) else None
    return inner if isinstance(inner, RBF | Matern | Metric) else None


def behind_map(kernel: Kernel, d: int) -> tuple[Kernel, Prior]:
    """Split the kernel of a process into a radial one of lengthscale one, and the map, variance and noise around it."""
    signal: Any
    signal, noise = signal_and_noise(kernel)
    inner = _radial(kernel)
    if isinstance(inner, Metric):
        return inner.kernel, Prior(np.asarray(inner.L), float(signal.factor), noise)
    base = RBF(1.0) if isinstance(inner, RBF) else Matern(1.0, nu=inner.nu)
    return base, Prior(np.diag(1.0 / np.broadcast_to(inner.lengthscale, d)), float(signal.factor), noise)


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


# ---- fits ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Means:
    """Resources of a fit."""

    memory: int  # Bytes
    n_jobs: int | None  # Threads
    seed: int  # Of everything random
    least_noise: float = 0.0  # Variance of the targets of equal rows: no process learns less noise
    clock: Clock = field(default_factory=Clock)  # When to be done
    device: str | None = None  # ``"auto"`` where a GPU is used
    pace: float = 1.0  # Seconds that a nominal second takes on this machine now
    busy: bool = False  # Whether other programs use the cores, so that one thread is faster than several

    def measured(self, rows: int) -> Means:
        """Return the same with pace and busy as they are now, if there is a time limit and more than a few rows."""
        if rows <= ONE_THREAD or self.device is not None or self.clock.max_time is None:
            return self
        pace, busy = measured_pace()
        return replace(self, pace=pace, busy=busy)

    def few_threads(self, rows: int) -> tuple[Means, AbstractContextManager[None]]:
        """Return the resources for a fit to some rows, with the limit on BLAS to make it under."""
        one = self.busy or rows <= ONE_THREAD
        return (replace(self, n_jobs=1), one_blas_thread()) if one else (self, nullcontext())

    @property
    def nominal_left(self) -> float:
        """Nominal seconds until the time is up."""
        return max(self.clock.left, 0.0) / self.pace

    def common(self, *, timed: bool = True) -> dict[str, Any]:
        """Return the parameters that every machine has; with ``timed``, max_time is what the clock leaves."""
        limited = timed and self.clock.max_time is not None
        left = max(self.clock.left, MOMENT / self.clock.pace) if limited else None
        return {"memory": self.memory, "n_jobs": self.n_jobs, "max_time": left, "device": self.device}


@dataclass(frozen=True, eq=False)
class Fitted:
    """A machine that has been fitted."""

    model: Any
    kernel: Kernel  # With what was learned, the noise of a process included
    settings: dict[str, Any]  # Plain values that, with the kernel, would make it again
    certificate: Certificate  # Of the fit


def fit(c: Candidate, response: Response, Z: Any, rows: Any, given: Kernel | None, means: Means) -> list[Fitted]:
    """Fit a candidate to some rows, once for each of its settings: Z (n, d)."""
    means, threads = means.few_threads(rows.size)
    with quiet(), threads:
        make = _metric if c.metric else {"gp": _process, "ridge": _ridge, LINEAR: _linear}.get(c.machine, _other)
        return make(c, response, Z[rows], rows, given, means)


def awaken(inputs: int, targets: int, device: str) -> None:
    """Warm up a GPU, so that the first trials are not timed with its start."""
    rng = np.random.default_rng(0)
    Z, Y, one = rng.standard_normal((AWAKE, inputs)), rng.standard_normal((AWAKE, targets)), np.ones(inputs)
    with quiet():
        for kernel in (1.0 * Matern(one, nu=1.5) + Linear(), 1.0 * PowerExponential(one, p=1.5, q=1.0)):
            gp = GaussianProcessRegressor(kernel + White(0.1), optimizer=None, solver="cholesky", device=device)
            gp.fit(Z, Y).predict(Z, return_std=True)
            gp.log_marginal_likelihood(gp.kernel_.theta, eval_gradient=True)
        KernelRidge("loo", kernel=RBF(1.0), device=device).fit(Z, Y)


def unit(kernel: Kernel, Z: Array) -> tuple[Kernel, float, float]:
    """Split a process's kernel into one with k(x, x) about one, its variance, and that of the noise: Z (n, d)."""
    signal, noise = signal_and_noise(kernel)
    inner, factor = (signal.kernel, float(signal.factor)) if isinstance(signal, Scaled) else (signal, 1.0)
    size = float(np.mean(inner.diag(Z[:DIAGONAL]))) or 1.0
    return inner if math.isclose(size, 1.0) else (1.0 / size) * inner, factor * size, noise


def _process(c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means) -> list[Fitted]:
    least = max(response.least_noise, means.least_noise)
    signal, noise = (c.kernels[0], NOISE) if given is None else signal_and_noise(given)
    # With more rows than it was learned from, very small noise is a bad start of the search.
    prior = signal + White(max(noise, NOISE, least), (least, MOST_NOISE))
    options: Any = {"start": "data" if given is None else "given", "tol": EVIDENCE_TOL}
    options["max_iter"] = STEPS[given is not None]
    targets, weights = response.targets[rows], response.weights_of(rows)
    if weights is not None:
        return [_weighted_process(prior, Z, targets, weights, means, **options)]
    options |= {"evidence": "full", "random_state": means.seed, **means.common()}
    model = GaussianProcessRegressor(prior, alpha=1e-10, **options).fit(Z, targets)
    return [Fitted(model, model.kernel_, {"noise": float(model.noise_)}, model.certificate_)]


def condition(response: Response, Z: Any, rows: Any, kernel: Kernel, means: Means) -> list[Fitted]:
    """Fit the mean of a process to some rows, its kernel being known; by conjugate gradients where rows are many."""
    signal, noise = signal_and_noise(kernel)
    means, threads = means.few_threads(rows.size)
    options: Any = {"tol": PCG_TOL, "max_iter": CONDITION_STEPS, "random_state": means.seed, **means.common()}
    with quiet(), threads:
        model = KernelRidge(noise, kernel=signal, **options)
        model.fit(Z[rows], response.targets[rows], response.weights_of(rows))
    return [Fitted(model, kernel, {"noise": noise}, model.certificate_)]


def _weighted_process(prior: Kernel, Z: Array, Y: Array, weights: Array, means: Means, **options: Any) -> Fitted:
    """A process with weighted rows, as a ridge with its kernel and noise."""
    size, rng = float(np.mean(Y**2)), random_of(means.seed)
    prior = widened(prior, Z, size)

    def evidence_of(index: NDArray[np.intp]) -> WeightedEvidence:
        return WeightedEvidence(Z[index], Y[index], weights[index], means.memory, means.n_jobs, means.device)

    options |= {"optimizer": "fmin_l_bfgs_b", "clock": Clock(means.common()["max_time"])}
    learned = learn_from_rows(prior, evidence_of, np.arange(Y.shape[0]), Z, size, rng, **options)
    kernel = widened(prior.with_theta(learned.theta), Z, size, back=True)
    signal, noise = signal_and_noise(kernel)
    model = KernelRidge(noise, kernel=signal, **means.common()).fit(Z, Y, weights)
    return Fitted(model, kernel, {"noise": noise}, learned.certified(model.certificate_))


def _metric(c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means) -> list[Fitted]:
    """A process with a learned metric, which starts at the lengthscales of another."""
    base, start = behind_map(c.kernels[0] if given is None else given, Z.shape[1])
    least, clock = max(response.least_noise, means.least_noise), means.common()["max_time"]
    # As in ``_process``, more rows start with more noise, but not with so much that reducing it takes all steps.
    start = replace(start, noise=max(start.noise, least, 0.0 if given is None else min(NOISE, MORE * start.noise)))
    weights = response.weights_of(rows)
    counts = np.ones(rows.size) if weights is None else weights
    evidence = MetricEvidence(base, Z, response.targets[rows], counts, means.memory, means.n_jobs)
    found = _learned_map(evidence, start, c.metric, given is not None, Clock(clock), (least, MOST_NOISE))
    kernel = found.prior.kernel(base) + White(found.prior.noise)
    model = KernelRidge(found.prior.noise, kernel=found.prior.kernel(base), **means.common())
    model.fit(Z, response.targets[rows], weights)
    why = "the evidence still rises with the metric; allow more time."
    done: Any = {"iterations": found.iterations, "seconds": model.certificate_.seconds, "primal": found.value}
    proof = certify("evidence", found.slope, METRIC_SLOPE, why, **done)
    return [Fitted(model, kernel, {"noise": found.prior.noise}, proof)]


def _learned_map(
    evidence: MetricEvidence, start: Prior, method: str, again: bool, clock: Clock, noises: tuple[float, float]
) -> Climb:
    options: Any = {"clock": clock, "noises": noises}
    if method == "evidence":
        return climb(evidence, start, "entries", max_iter=CLIMB[again], **options)
    found = climb(evidence, start, "scale", max_iter=SETTLE, **options) if again else Climb(start, 0.0, 0.0, 0)
    for _ in range(ROUNDS[again]):
        turned = agop_round(evidence, found.prior, METRICS[method], None)
        found = climb(evidence, turned, "scale", max_iter=SETTLE, **options)
    return found


def _ridge(c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means) -> list[Fitted]:
    """The lengthscale and the ridge of the least leave-one-out error; one Gram matrix serves all ridges."""
    landmarks = None if rows.size <= RIDGE_ROWS else Nystroem(n_components=RIDGE_ROWS, selection="uniform")
    models = []
    for kernel in c.kernels:
        model = KernelRidge("loo", kernel=kernel, approximation=landmarks, random_state=means.seed, **means.common())
        models.append(model.fit(Z, response.targets[rows], response.weights_of(rows)))
    best = min(models, key=lambda m: float(np.sum(np.min(np.atleast_2d(m.loo_path_.T), axis=1))))
    alpha = float(np.exp(np.mean(np.log(best.alpha_))))
    return [Fitted(best, best.kernel_, {"alpha": alpha}, best.certificate_)]


def linear_model(classes: bool, n: int, means: Means, settings: dict[str, Any], **options: Any) -> Any:
    """Return a linear model of n rows, unfitted: a ridge chosen by leave-one-out, or logistic regression."""
    options |= {"approximation": PolynomialMap(1), **means.common(), "device": None}
    if classes:
        return KernelMachineClassifier(lam=1.0 / (n * settings["C"]), **options)
    return KernelRidge(settings.get("alpha", "loo"), **options)


def _linear(c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means) -> list[Fitted]:
    """Linear functions of the columns: numbers by least squares, classes by the logistic loss."""
    weights, classes, found = response.weights_of(rows), isinstance(response, Classes), []
    targets = response.labels[rows] if classes else response.targets[rows]
    for settings in [{"C": C} for C in LINEAR_COSTS] if classes else [{}]:
        options = {"tol": TOLERANCES["machine"]} if classes else {}
        model = linear_model(classes, rows.size, means, settings, **options).fit(Z, targets, weights)
        settings = settings or {"alpha": float(model.alpha_[0])}
        found.append(Fitted(model, model.kernel_, settings, model.certificate_))
    return found


def _other(c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means) -> list[Fitted]:
    """Support vector machines and machines with any loss, with the kernel of a process or a choice of kernels."""
    kernels, relative = c.kernels, NOISE
    if given is not None:
        kernel, variance, noise = unit(given, Z)
        kernels, relative = (kernel,), noise / variance if variance > 0 else noise
    grid = [{"lam": lam} for lam in STRENGTHS] if c.machine == "machine" else [{"C": C} for C in COSTS]
    if c.machine == "svm" and not isinstance(response, Classes):
        grid = [{**each, "epsilon": float(min(TUBE * np.sqrt(relative), 0.1))} for each in grid]
    make, labels, tol = response.makers[c.machine], response.labels[rows], TOLERANCES[c.machine]
    weights, found = response.weights_of(rows), []
    for kernel in kernels:
        if c.machine == "svm" and isinstance(response, Classes):
            options: Any = {"kernel": kernel, "tol": tol, "sample_weight": weights, **PAIRS}
            models = svm_path(Z, labels, COSTS, **options, **means.common())
        else:
            models = [make(kernel=kernel, tol=tol, **each, **means.common()).fit(Z, labels, weights) for each in grid]
        found += [Fitted(m, kernel, settings, m.certificate_) for m, settings in zip(models, grid, strict=True)]
    return found
