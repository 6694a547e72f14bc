"""Fits of the candidates of the search: processes, metrics, ridges, linear models, and machines with other losses."""

from __future__ import annotations

import math
import warnings
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate, certify
from gramian.estimators.auto.candidates import LINEAR, METRICS, NOISE, Candidate, radial_part
from gramian.estimators.auto.plans import ONE_THREAD, PCG_TOL, RIDGE_ROWS, measured_pace
from gramian.estimators.auto.response import PAIRS, Classes, Response
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.ridge import KernelRidge
from gramian.estimators.svm import svm_path
from gramian.features.nystrom import Nystroem
from gramian.features.polynomial import PolynomialMap
from gramian.kernels import RBF, Kernel, Linear, Matern, PowerExponential, Scaled, White
from gramian.kernels.linear_map import Metric
from gramian.progress import Clock
from gramian.resources import one_blas_thread, random_of
from gramian.solvers.gp.evidence import WeightedEvidence, signal_and_noise
from gramian.solvers.gp.hyperparameters import learn_from_rows, widened
from gramian.solvers.gp.metric_learning import MapFit, MetricEvidence, Prior, agop_round, learn_map

Array = NDArray[np.float64]

CLIMB, VARIANCE_STEPS, ROUNDS = (45, 15), 20, (3, 1)
"""Steps over the entries of a metric, at first and on more rows; steps over scale and variances; rounds of AGOP."""
METRIC_SLOPE = 0.01
"""A metric is learned where the slope of the evidence, for each row, is below this."""
MOST_NOISE = 10.0
"""The largest variance of the noise, in units of the targets' variance."""
GROWTH = 10.0
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
LEAST_SECONDS = 0.1
"""Least seconds of a fit."""
WARM_UP_ROWS = 64
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
class Resources:
    """Resources of a fit."""

    memory: int  # Bytes
    n_jobs: int | None  # Threads
    seed: int  # Of everything random
    least_noise: float = 0.0  # Variance of the targets of equal rows: no process learns less noise
    clock: Clock = field(default_factory=Clock)  # When to be done
    device: str | None = None  # ``"auto"`` or ``"auto:1"`` where a GPU is used
    pace: float = 1.0  # Seconds that a nominal second takes on this machine now
    busy: bool = False  # Whether other programs use the cores, so that one thread is faster than several

    def measured(self, rows: int) -> Resources:
        """Return the same with pace and busy as they are now, if there is a time limit and more than a few rows."""
        if rows <= ONE_THREAD or self.device is not None or self.clock.max_time is None:
            return self
        pace, busy = measured_pace()
        return replace(self, pace=pace, busy=busy)

    def few_threads(self, rows: int) -> tuple[Resources, AbstractContextManager[None]]:
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
        left = max(self.clock.left, LEAST_SECONDS / self.clock.pace) if limited else None
        return {"memory": self.memory, "n_jobs": self.n_jobs, "max_time": left, "device": self.device}


@dataclass(frozen=True, eq=False)
class Training:
    """The rows that a fit learns from."""

    Z: Array  # (n, d): Encoded and scaled
    Y: Array  # (n, t): Targets of least squares
    labels: NDArray[Any]  # (n,): Targets of the other machines
    weights: Array | None  # (n,)
    response: Response  # Of all rows


@dataclass(frozen=True, eq=False)
class Fitted:
    """A machine that has been fitted."""

    model: Any
    kernel: Kernel  # With what was learned, the noise of a process included
    settings: dict[str, Any]  # Plain values that, with the kernel, would make it again
    certificate: Certificate  # Of the fit


def fit(
    c: Candidate, response: Response, Z: Any, rows: Any, given: Kernel | None, resources: Resources
) -> list[Fitted]:
    """Fit a candidate to some rows, once for each of its settings: Z (n, d)."""
    resources, threads = resources.few_threads(rows.size)
    data = Training(Z[rows], response.targets[rows], response.labels[rows], response.weights_of(rows), response)
    with quiet(), threads:
        make = _metric if c.metric else {"gp": _process, "ridge": _ridge, LINEAR: _linear}.get(c.machine, _other)
        return make(c, data, given, resources)


def warm_up(inputs: int, targets: int, device: str) -> None:
    """Warm up a GPU, so that the first trials are not timed with its start."""
    rng = np.random.default_rng(0)
    Z, Y, one = (
        rng.standard_normal((WARM_UP_ROWS, inputs)),
        rng.standard_normal((WARM_UP_ROWS, targets)),
        np.ones(inputs),
    )
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


def _process(c: Candidate, data: Training, given: Kernel | None, resources: Resources) -> list[Fitted]:
    least = max(data.response.least_noise, resources.least_noise)
    signal, noise = (c.kernels[0], NOISE) if given is None else signal_and_noise(given)
    # With more rows than it was learned from, very small noise is a bad start of the search.
    prior = signal + White(max(noise, NOISE, least), (least, MOST_NOISE))
    options: Any = {"start": "data" if given is None else "given", "tol": EVIDENCE_TOL}
    options["max_iter"] = STEPS[given is not None]
    if data.weights is not None:
        return [_weighted_process(prior, data, data.weights, resources, **options)]
    options |= {"evidence": "full", "random_state": resources.seed, **resources.common()}
    model = GaussianProcessRegressor(prior, alpha=1e-10, **options).fit(data.Z, data.Y)
    return [Fitted(model, model.kernel_, {"noise": float(model.noise_)}, model.certificate_)]


def condition(response: Response, Z: Any, rows: Any, kernel: Kernel, resources: Resources) -> list[Fitted]:
    """Fit the mean of a process to some rows, its kernel being known; by conjugate gradients where rows are many."""
    signal, noise = signal_and_noise(kernel)
    resources, threads = resources.few_threads(rows.size)
    options: Any = {"tol": PCG_TOL, "max_iter": CONDITION_STEPS, "random_state": resources.seed, **resources.common()}
    with quiet(), threads:
        model = KernelRidge(noise, kernel=signal, **options)
        model.fit(Z[rows], response.targets[rows], response.weights_of(rows))
    return [Fitted(model, kernel, {"noise": noise}, model.certificate_)]


def _weighted_process(prior: Kernel, data: Training, weights: Array, resources: Resources, **options: Any) -> Fitted:
    """A process with weighted rows, as a ridge with its kernel and noise."""
    Z, Y, size = data.Z, data.Y, float(np.mean(data.Y**2))
    prior, place = widened(prior, Z, size), (resources.memory, resources.n_jobs, resources.device)

    def evidence_of(index: NDArray[np.intp]) -> WeightedEvidence:
        return WeightedEvidence(Z[index], Y[index], weights[index], *place)

    options |= {"optimizer": "fmin_l_bfgs_b", "clock": Clock(resources.common()["max_time"])}
    rng = random_of(resources.seed)
    learned = learn_from_rows(prior, evidence_of, np.arange(Y.shape[0]), Z, size, rng, **options)
    kernel = widened(prior.with_theta(learned.theta), Z, size, back=True)
    signal, noise = signal_and_noise(kernel)
    model = KernelRidge(noise, kernel=signal, **resources.common()).fit(Z, Y, weights)
    return Fitted(model, kernel, {"noise": noise}, learned.certified(model.certificate_))


def behind_map(kernel: Kernel, d: int) -> tuple[Kernel, Prior]:
    """Split the kernel of a process into a radial one of lengthscale one, and the map, variance and noise around it."""
    signal: Any
    signal, noise = signal_and_noise(kernel)
    inner = radial_part(kernel)
    if isinstance(inner, Metric):
        return inner.kernel, Prior(np.asarray(inner.L), float(signal.factor), noise)
    base = RBF(1.0) if isinstance(inner, RBF) else Matern(1.0, nu=inner.nu)
    return base, Prior(np.diag(1.0 / np.broadcast_to(inner.lengthscale, d)), float(signal.factor), noise)


def _metric(c: Candidate, data: Training, given: Kernel | None, resources: Resources) -> list[Fitted]:
    """A process with a learned metric, which starts at the lengthscales of another."""
    base, start = behind_map(c.kernels[0] if given is None else given, data.Z.shape[1])
    least, clock = max(data.response.least_noise, resources.least_noise), resources.common()["max_time"]
    # As in ``_process``, more rows start with more noise, but not with so much that reducing it takes all steps.
    start = replace(start, noise=max(start.noise, least, 0.0 if given is None else min(NOISE, GROWTH * start.noise)))
    counts = np.ones(data.Y.shape[0]) if data.weights is None else data.weights
    evidence = MetricEvidence(base, data.Z, data.Y, counts, resources.memory, resources.n_jobs)
    found = _learned_map(evidence, start, c.metric, given is not None, Clock(clock), (least, MOST_NOISE))
    kernel, noise = found.prior.kernel(base), found.prior.noise
    model = KernelRidge(noise, kernel=kernel, **resources.common()).fit(data.Z, data.Y, data.weights)
    why = "the evidence still rises with the metric; allow more time."
    done: Any = {"iterations": found.iterations, "seconds": model.certificate_.seconds, "primal": found.value}
    proof = certify("evidence", found.slope, METRIC_SLOPE, why, **done)
    return [Fitted(model, kernel + White(noise), {"noise": noise}, proof)]


def _learned_map(
    evidence: MetricEvidence, start: Prior, method: str, again: bool, clock: Clock, noises: tuple[float, float]
) -> MapFit:
    options: Any = {"clock": clock, "noises": noises}
    if method == "evidence":
        return learn_map(evidence, start, "entries", max_iter=CLIMB[again], **options)
    found = (
        learn_map(evidence, start, "scale", max_iter=VARIANCE_STEPS, **options) if again else MapFit(start, 0.0, 0.0, 0)
    )
    for _ in range(ROUNDS[again]):
        turned = agop_round(evidence, found.prior, METRICS[method], None)
        found = learn_map(evidence, turned, "scale", max_iter=VARIANCE_STEPS, **options)
    return found


def _ridge(c: Candidate, data: Training, given: Kernel | None, resources: Resources) -> list[Fitted]:
    """The lengthscale and the ridge of the least leave-one-out error; one Gram matrix serves all ridges."""
    many = data.Z.shape[0] > RIDGE_ROWS
    landmarks = Nystroem(n_components=RIDGE_ROWS, selection="uniform") if many else None
    options: Any = {"approximation": landmarks, "random_state": resources.seed}
    made = [KernelRidge("loo", kernel=kernel, **options, **resources.common()) for kernel in c.kernels]
    models = [model.fit(data.Z, data.Y, data.weights) for model in made]
    best = min(models, key=lambda m: float(np.sum(np.min(np.atleast_2d(m.loo_path_.T), axis=1))))
    alpha = float(np.exp(np.mean(np.log(best.alpha_))))
    return [Fitted(best, best.kernel_, {"alpha": alpha}, best.certificate_)]


def linear_model(classes: bool, n: int, resources: Resources, settings: dict[str, Any], **options: Any) -> Any:
    """Return a linear model of n rows, unfitted: a ridge chosen by leave-one-out, or logistic regression."""
    options |= {"approximation": PolynomialMap(1), **resources.common(), "device": None}
    if classes:
        return KernelMachineClassifier(lam=1.0 / (n * settings["C"]), **options)
    return KernelRidge(settings.get("alpha", "loo"), **options)


def _linear(c: Candidate, data: Training, given: Kernel | None, resources: Resources) -> list[Fitted]:
    """Linear functions of the columns: numbers by least squares, classes by the logistic loss."""
    classes, n, found = isinstance(data.response, Classes), data.Z.shape[0], []
    for settings in [{"C": C} for C in LINEAR_COSTS] if classes else [{}]:
        options = {"tol": TOLERANCES["machine"]} if classes else {}
        model = linear_model(classes, n, resources, settings, **options)
        model.fit(data.Z, data.labels if classes else data.Y, data.weights)
        settings = settings or {"alpha": float(model.alpha_[0])}
        found.append(Fitted(model, model.kernel_, settings, model.certificate_))
    return found


def _other(c: Candidate, data: Training, given: Kernel | None, resources: Resources) -> list[Fitted]:
    """Support vector machines and machines with any loss, with the kernel of a process or a choice of kernels."""
    kernels, relative, classes = c.kernels, NOISE, isinstance(data.response, Classes)
    if given is not None:
        kernel, variance, noise = unit(given, data.Z)
        kernels, relative = (kernel,), noise / variance if variance > 0 else noise
    grid = [{"lam": lam} for lam in STRENGTHS] if c.machine == "machine" else [{"C": C} for C in COSTS]
    if c.machine == "svm" and not classes:
        grid = [{**each, "epsilon": float(min(TUBE * np.sqrt(relative), 0.1))} for each in grid]
    found = []
    for kernel in kernels:
        options: Any = {"kernel": kernel, "tol": TOLERANCES[c.machine]}
        if c.machine == "svm" and classes:
            options |= {"sample_weight": data.weights, **PAIRS, **resources.common()}
            models = svm_path(data.Z, data.labels, COSTS, **options)
        else:
            made = (data.response.makers[c.machine](**options, **each, **resources.common()) for each in grid)
            models = [model.fit(data.Z, data.labels, data.weights) for model in made]
        found += [Fitted(m, kernel, settings, m.certificate_) for m, settings in zip(models, grid, strict=True)]
    return found
