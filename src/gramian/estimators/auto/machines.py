"""Fits of each machine of the search to some rows, for all of its settings."""

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
from gramian.estimators.auto.response import PAIRS, Classes, Response
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.estimators.ridge import KernelRidge
from gramian.estimators.svm import svm_path
from gramian.features.nystrom import Nystroem
from gramian.kernels import Kernel, Scaled, White
from gramian.progress import Clock
from gramian.solvers.gp.evidence import signal_and_noise

__all__ = ["Fitted", "Means", "fit", "quiet", "unit"]

Array = NDArray[np.float64]

NOISE, MOST_NOISE = 0.1, 10.0
"""Where the variance of the noise begins, and how large it may get, in units of the targets' own."""
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
TOLERANCES = {"svm": 1e-2, "machine": 1e-3}
"""What is asked of the solvers while candidates are compared."""


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


def fit(c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means) -> list[Fitted]:
    """Fit a candidate to some rows, once for each of its settings: Z (n, d)."""
    means = replace(means, n_jobs=1) if rows.size <= ONE_THREAD else means
    with quiet():
        return {"gp": _process, "ridge": _ridge}.get(c.machine, _other)(c, response, Z[rows], rows, given, means)


def unit(kernel: Kernel, Z: Array) -> tuple[Kernel, float, float]:
    """Split a process's kernel into one with k(x, x) about one, its variance, and that of the noise: Z (n, d)."""
    signal, noise = signal_and_noise(kernel)
    inner, factor = (signal.kernel, float(signal.factor)) if isinstance(signal, Scaled) else (signal, 1.0)
    size = float(np.mean(inner.diag(Z[:SOME]))) or 1.0
    return inner if math.isclose(size, 1.0) else (1.0 / size) * inner, factor * size, noise


def _process(c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means) -> list[Fitted]:
    least = max(response.least_noise, means.least_noise)
    signal, noise = (c.kernels[0], NOISE) if given is None else signal_and_noise(given)
    # More rows than the kernel was learned from are a surprise to small noise: from there the evidence leads astray.
    prior = signal + White(max(noise, NOISE, least), (least, MOST_NOISE))
    options: Any = {"start": "data" if given is None else "given", "evidence": "full", "tol": EVIDENCE_TOL}
    options |= {"max_iter": STEPS, "random_state": means.seed, **means.common()}
    model = GaussianProcessRegressor(prior, alpha=1e-10, **options).fit(Z, response.targets[rows])
    return [Fitted(model, model.kernel_, {"noise": float(model.noise_)}, model.certificate_)]


def _ridge(c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means) -> list[Fitted]:
    """The lengthscale and the ridge of the least leave-one-out error, the Gram matrix shared by all ridges."""
    landmarks = None if rows.size <= RIDGE_ROWS else Nystroem(n_components=RIDGE_ROWS, selection="uniform")
    models = []
    for kernel in c.kernels:
        model = KernelRidge("loo", kernel=kernel, approximation=landmarks, random_state=means.seed, **means.common())
        models.append(model.fit(Z, response.targets[rows]))
    best = min(models, key=lambda m: float(np.sum(np.min(np.atleast_2d(m.loo_path_.T), axis=1))))
    alpha = float(np.exp(np.mean(np.log(best.alpha_))))
    return [Fitted(best, best.kernel_, {"alpha": alpha}, best.certificate_)]


def _other(c: Candidate, response: Response, Z: Array, rows: Any, given: Kernel | None, means: Means) -> list[Fitted]:
    """Support vectors and any loss, with the kernel of a process or with kernels to choose from."""
    kernels, relative = c.kernels, NOISE
    if given is not None:
        kernel, variance, noise = unit(given, Z)
        kernels, relative = (kernel,), noise / variance if variance > 0 else noise
    grid = [{"lam": lam} for lam in STRENGTHS] if c.machine == "machine" else [{"C": C} for C in COSTS]
    if c.machine == "svm" and not isinstance(response, Classes):
        grid = [{**each, "epsilon": float(min(TUBE * np.sqrt(relative), 0.1))} for each in grid]
    make, labels, tol = response.makers[c.machine], response.labels[rows], TOLERANCES[c.machine]
    found = []
    for kernel in kernels:
        if c.machine == "svm" and isinstance(response, Classes):
            models = svm_path(Z, labels, COSTS, kernel=kernel, tol=tol, **PAIRS, **means.common())
        else:
            models = [make(kernel=kernel, tol=tol, **each, **means.common()).fit(Z, labels) for each in grid]
        found += [Fitted(m, kernel, settings, m.certificate_) for m, settings in zip(models, grid, strict=True)]
    return found
