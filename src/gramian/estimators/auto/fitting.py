"""Fits of each machine of the search to some rows, for all of its settings, and its outputs for others."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.certificates import Certificate
from gramian.estimators.auto.candidates import Candidate
from gramian.estimators.auto.response import Classes, Response
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.estimators.ridge import KernelRidge
from gramian.estimators.svm import SVR, svm_path
from gramian.features.nystrom import Nystroem
from gramian.kernels import Kernel, Scaled, White
from gramian.progress import Clock
from gramian.solvers.gp.evidence import signal_and_noise

__all__ = ["PAIRS", "Fitted", "Means", "fit", "outputs", "quiet", "unit"]

Array = NDArray[np.float64]

NOISE, MOST_NOISE = 0.1, 10.0
"""Where the variance of the noise begins, and how large it may get, in units of the targets' own."""
LEAST_NOISE, LEAST_NOISE_OF_CODES = 1e-6, 1e-3
"""How small it may get: numbers can be exact, codes of classes are a manner of speaking."""
EVIDENCE_TOL = 1e-4
"""The search for hyperparameters ends where no slope of the evidence exceeds the root of this."""
STEPS = 60
"""Steps of that search."""
ONE_THREAD = 1000
"""Rows up to which threads cost more than they save."""
RIDGE_ROWS = 1500
"""Rows from which a ridge by leave-one-out goes through as many landmarks, not through all eigenvectors."""
COSTS = (1.0, 10.0, 100.0)
"""C of a support vector machine, for k(x, x) = 1."""
STRENGTHS = (1e-3, 1e-5)
"""lam of a kernel machine, for k(x, x) = 1."""
MOMENT = 0.1
"""Seconds that a fit has at least."""
SOME = 200
"""Rows that the size of k(x, x) is taken from."""
TUBE = 0.5
"""Half width of the tube of SVR, in deviations of the noise."""
SVM_TOL, MACHINE_TOL = 1e-2, 1e-3
"""What is asked of the solvers while candidates are compared."""
PAIRS = {"decision_function_shape": "ovo"}
"""Support vector machines of several classes are asked for the values of all pairs, not for votes."""


@dataclass(frozen=True)
class Means:
    """What a fit may use."""

    memory: int  # Bytes
    n_jobs: int | None  # Threads
    seed: int  # Of everything random
    least_noise: float = 0.0  # How much the targets of equal rows differ: no process learns less
    clock: Clock = field(default_factory=Clock)  # When to be done

    def common(self) -> dict[str, Any]:
        """Return what every machine takes; the next fit has the time that the last one left."""
        left = None if self.clock.max_time is None else max(self.clock.left, MOMENT / self.clock.pace)
        return {"memory": self.memory, "n_jobs": self.n_jobs, "max_time": left}


@dataclass(frozen=True, eq=False)
class Fitted:
    """A machine that has been fitted."""

    model: Any  # It
    kernel: Kernel  # With what was learned; of a process, its noise included
    settings: dict[str, Any]  # Plain values that, with the kernel, would make it again
    certificate: Certificate  # Of the fit


@contextmanager
def quiet() -> Iterator[None]:
    """Hold back warnings: what a trial has to say is in its certificate."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def fit(
    candidate: Candidate, response: Response, Z: Array, rows: NDArray[np.intp], given: Kernel | None, means: Means
) -> Any:
    """Fit a candidate to some rows, once for each of its settings: Z (n, d)."""
    means = replace(means, n_jobs=1) if rows.size <= ONE_THREAD else means
    with quiet():
        return FITS[candidate.machine](candidate, response, Z[rows], rows, given, means)


def outputs(candidate_machine: str, model: Any, response: Response, Z: Array) -> Array:
    """Return what a fitted machine says of new rows, in the response's own units: Z (m, d) → (m, 1) or (m, c)."""
    if candidate_machine in ("gp", "ridge"):
        return np.asarray(response.from_least_squares(model.predict(Z)))
    if not isinstance(response, Classes):
        return np.asarray(response.from_decisions(model.predict(Z)))
    f, present = model.decision_function(Z), model.classes_.size
    pairs = present > 2 and getattr(model, "decision_function_shape", "ovr") == "ovo"
    return _for_all_classes((response.from_pairs if pairs else response.from_decisions)(f, present), model, response)


def _for_all_classes(scores: Array, model: Any, response: Classes) -> Array:
    """Columns for classes that the model's rows did not hold, too: they never win."""
    if model.classes_.size == response.count:
        return scores
    out = np.repeat(scores.min(axis=1, keepdims=True) - 1.0, response.count, axis=1)
    out[:, model.classes_] = scores
    return out


def unit(kernel: Kernel, Z: Array) -> tuple[Kernel, float, float]:
    """Split a process's kernel into one with k(x, x) about one, its variance, and that of the noise: Z (n, d)."""
    signal, noise = signal_and_noise(kernel)
    inner = signal.kernel if isinstance(signal, Scaled) else signal
    size = float(np.mean(inner.diag(Z[:SOME]))) or 1.0
    variance = float(signal.factor) * size if isinstance(signal, Scaled) else size
    return inner if math.isclose(size, 1.0) else (1.0 / size) * inner, variance, noise


def _process(c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means) -> list[Fitted]:
    least = max(LEAST_NOISE_OF_CODES if isinstance(response, Classes) else LEAST_NOISE, means.least_noise)
    # More rows than the kernel was learned from are a surprise to small noise: from there the evidence leads astray.
    noise = NOISE if given is None else max(signal_and_noise(given)[1], NOISE)
    signal = c.kernels[0] if given is None else signal_and_noise(given)[0]
    prior = signal + White(max(noise, least), (least, MOST_NOISE))
    start = "data" if given is None else "given"
    model = GaussianProcessRegressor(
        prior,
        alpha=1e-10,
        start=start,
        evidence="full",
        tol=EVIDENCE_TOL,
        max_iter=STEPS,
        random_state=means.seed,
        **means.common(),
    ).fit(Z, response.targets[rows])
    return [Fitted(model, model.kernel_, {"noise": float(model.noise_)}, model.certificate_)]


def _ridge(c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means) -> list[Fitted]:
    """The lengthscale and the ridge of the least leave-one-out error, the Gram matrix shared by all ridges."""
    landmarks = None if rows.size <= RIDGE_ROWS else Nystroem(n_components=RIDGE_ROWS, selection="uniform")
    models = [
        KernelRidge("loo", kernel=k, approximation=landmarks, random_state=means.seed, **means.common()).fit(
            Z, response.targets[rows]
        )
        for k in c.kernels
    ]
    best = min(models, key=lambda m: float(np.sum(np.min(np.atleast_2d(m.loo_path_.T), axis=1))))
    alpha = float(np.exp(np.mean(np.log(best.alpha_))))
    return [Fitted(best, best.kernel_, {"alpha": alpha}, best.certificate_)]


def _kernels(c: Candidate, given: Kernel | None, Z: Array) -> list[tuple[Kernel, float]]:
    """Kernels to choose from, each with the variance of the noise where it is known."""
    if given is None:
        return [(kernel, NOISE) for kernel in c.kernels]
    kernel, variance, noise = unit(given, Z)
    return [(kernel, noise / variance if variance > 0 else noise)]


def _support_vectors(
    c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means
) -> list[Fitted]:
    found = []
    for kernel, noise in _kernels(c, given, Z):
        if isinstance(response, Classes):
            models = svm_path(Z, response.codes[rows], COSTS, kernel=kernel, tol=SVM_TOL, **PAIRS, **means.common())
            grid: list[dict[str, Any]] = [{"C": C} for C in COSTS]
        else:
            epsilon = float(min(TUBE * np.sqrt(noise), 0.1))
            grid = [{"C": C, "epsilon": epsilon} for C in COSTS]
            labels = response.labels[rows]
            models = [SVR(kernel=kernel, tol=SVM_TOL, **each, **means.common()).fit(Z, labels) for each in grid]
        found += [Fitted(m, kernel, s, m.certificate_) for m, s in zip(models, grid, strict=True)]
    return found


def _any_loss(
    c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means
) -> list[Fitted]:
    make: Any = KernelMachineClassifier if isinstance(response, Classes) else KernelMachineRegressor
    found = []
    for kernel, _ in _kernels(c, given, Z):
        for lam in STRENGTHS:
            model = make(lam=lam, kernel=kernel, tol=MACHINE_TOL, random_state=means.seed, **means.common())
            model.fit(Z, response.labels[rows])
            found.append(Fitted(model, kernel, {"lam": lam}, model.certificate_))
    return found


FITS = {"gp": _process, "ridge": _ridge, "svm": _support_vectors, "machine": _any_loss}
