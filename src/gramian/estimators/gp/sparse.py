"""Gaussian process regression with an approximation, over passes: sparse by landmarks, or linear in features."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gramian.data.passes import Held, Part, Passes
from gramian.estimators.base import adapted, has_landmarks, opened, sampled
from gramian.estimators.gp.predictions import Noise, Process
from gramian.features.base import fit_map, sample_seed, trace_error
from gramian.gram.operator import wide
from gramian.kernels import Kernel
from gramian.kernels.resolve import is_precomputed
from gramian.progress import Clock
from gramian.resources import memory_budget, worker_count
from gramian.solvers.choice import Choice
from gramian.solvers.gp.evidence import signal_and_noise
from gramian.solvers.gp.hyperparameters import Optimum, learn, widened
from gramian.solvers.in_features.sparse_gp import CollapsedBound, Observations, feature_posterior, landmark_posterior


class SparseProcess(Process):
    """Gaussian process regression with an approximation, on rows in memory or by blocks."""

    def _fit_blocks(self, X: Any, y: Any, clock: Clock) -> Optimum | None:
        """Fit rows that are read again in every pass; only those that hyperparameters are learned from are kept."""
        with opened(self, X, y) as passes:
            if passes.blocks.weight is not None:
                raise ValueError("GaussianProcessRegressor takes no weights; leave weight= out of Blocks.")
            if np.size(self.alpha) > 1:
                raise ValueError("over blocks alpha must be one number; an array of variances needs rows in memory.")
            observations = Observations(np.zeros(1), np.ones(1), float(self._noise(1)))
            sample = sampled(self, passes)
            single = sample.y is not None and sample.y.ndim == 1
            Y = observations.of(sample)[0]
            self._check_targets(Y[:, 0] if single else Y)
            if self.normalize_y:
                observations = observations.normalised(passes, sample)
            if self.evidence == "full" and sample.index.size < passes.blocks.n_rows:
                n = passes.blocks.n_rows
                raise ValueError(f"evidence='full' needs {n:,} rows in memory; over blocks give a number, or 'auto'.")
            why = f"as asked, over {len(passes.blocks.items)} blocks"
            rows, learned = self._through_map(passes, observations, sample, clock, why)
        kept = observations.of(rows)[0]
        self.X_train_, self.y_train_ = rows.X, kept[:, 0] if single else kept
        units = (np.broadcast_to(v, Y.shape[1:]).copy() for v in (observations.centre, observations.scale))
        self._y_train_mean, self._y_train_std = (v[0] if single else v for v in units)
        self._over_blocks = True
        return learned

    def _fit_held(self, X: Any, Y: NDArray[np.float64], noise: Noise, clock: Clock) -> Optimum | None:
        """Fit rows in memory: X (n, d), Y (n, t)."""
        held, observations = held_rows(X, Y, noise, self.memory)
        with held.passes(n_jobs=self.n_jobs) as passes:
            return self._through_map(passes, observations, sampled(self, passes), clock, "as asked")[1]

    def _through_map(
        self, passes: Passes, observations: Observations, sample: Part, clock: Clock, why: str
    ) -> tuple[Part, Optimum | None]:
        """Learn the hyperparameters from some rows, fit the map and condition on all rows."""
        X, Y = wide(sample.X), observations.of(sample)[0]
        kernel = self._prior(X, Y)
        wanted = self._evidence_size(passes.blocks.n_rows)
        # The sample that the map is fitted on, or a larger one if the evidence uses more rows.
        rows = sample if sample.index.size >= wanted else passes.sample(wanted, sample_seed(self.random_state))
        chosen, learned = self._learn(kernel, wide(rows.X), *observations.of(rows), clock)
        kernel = kernel if learned is None else kernel.with_theta(learned.theta)
        some = sample.index.size < passes.blocks.n_rows
        features = fit_map(adapted(self, signal_and_noise(kernel)[0]), passes, sample, error=not some)
        options: Any = {"memory": memory_budget(self.memory), "workers": worker_count(self.n_jobs)}
        options |= {"tol": self.tol, "clock": clock}
        if has_landmarks(features):
            if some:
                features.trace_error_ = trace_error(features, passes, sample)
            bound = CollapsedBound(passes, observations, features.components_)
            if learned is not None:
                # Maximise the bound on all rows, from the optimum of the evidence of some rows.
                with self._search(clock) as search:
                    learned = learn(kernel, bound, **search)
                kernel = kernel.with_theta(learned.theta)
            self.posterior_ = landmark_posterior(bound, kernel, **options)
        else:
            self.posterior_ = feature_posterior(passes, observations, features, kernel, X[:1], **options)
        self.kernel_ = widened(kernel, X, float(np.mean(Y**2)), back=True)
        self.approximation_, self.evidence_rows_ = features, rows.index[chosen]
        self.solver_ = Choice(type(self.approximation).__name__, why)
        return rows, learned

    def _prior_of_map(self, kernel: Kernel, X: Any) -> Kernel:
        """The given kernel, or that of a map which defines its own."""
        if is_precomputed(kernel):
            raise ValueError("approximation= needs rows, not a precomputed Gram matrix.")
        if self.solver != "auto":
            raise ValueError(f"solver={self.solver!r} cannot be combined with approximation=; leave solver='auto'.")
        features = adapted(self, signal_and_noise(kernel)[0])
        if "kernel" in features.get_params(deep=False):
            return kernel
        own: Kernel = features.fit(X).kernel_
        return own.fix()


def held_rows(X: Any, Y: NDArray[np.float64], noise: Noise, memory: int | str | None) -> tuple[Held, Observations]:
    """Return rows in memory as a source of passes, with their observations: X (n, d), Y (n, t)."""
    t, alike = Y.shape[1], isinstance(noise, float)
    held = Held(X, Y if alike else np.column_stack([Y, noise]), memory=memory)
    return held, Observations(np.zeros(t), np.ones(t), noise if isinstance(noise, float) else None)
