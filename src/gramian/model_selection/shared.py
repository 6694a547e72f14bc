"""Fits of many candidates on many folds: warm-started along paths, on Gram matrices that are computed once."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.utils import _safe_indexing
from sklearn.utils.metaestimators import _safe_split

from gramian.estimators.base import NAMED, changed, validated
from gramian.gram import Gram
from gramian.gram.device import device_for
from gramian.gram.operator import narrow, wide
from gramian.kernels import Kernel
from gramian.kernels.objects import Table
from gramian.kernels.points import dtype_of
from gramian.kernels.resolve import holds_objects
from gramian.model_selection.gram_matrices import Tables
from gramian.resources import memory_budget, run, worker_count

OWN_WAY = ("approximation", "kernel_params", "max_iter", "max_time", "warm_start")
"""Parameters that, if set, exclude a candidate from shared fits."""

Array = NDArray[Any]
Rows = Callable[[Array], Any]
"""From row indices to the rows, as the fitted estimator's ``predict`` takes them."""
Score = Callable[[Any, int, int, Rows, float], None]
"""Called with each fit: the estimator, its candidate and fold, its rows, and the seconds that it took."""


@dataclass(frozen=True)
class Path:
    """Candidates that differ only in parameters along which fits share their set-up, on one fold."""

    fold: int
    candidates: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Shared:
    """The candidates of a search whose fits can share work."""

    machines: dict[int, Any]  # Unfitted estimators, by the index of the candidate
    X: Any
    y: Any
    weights: Array | None
    folds: list[tuple[Array, Array]]
    train_scores: bool = False  # Whether the training rows are scored too
    _validated: dict[bool, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, estimator: Any, candidates: list[Any], *rows: Any) -> Shared:
        """Find the candidates that can share work; separate fits report what is wrong with invalid ones."""
        machines = {}
        for i, parameters in enumerate(candidates):
            try:
                machine = clone(estimator).set_params(**clone(parameters, safe=False))
            except (TypeError, ValueError):
                continue
            if hasattr(machine, "_fit_path") and not changed(machine, OWN_WAY):
                machines[i] = machine
        return cls(machines, *rows)

    def fit(self, candidates: list[Any], n_jobs: int | None, score: Score, *, tables: bool) -> None:
        """Fit the candidates and call ``score`` with each fit; with ``tables``, on shared Gram matrices of all rows.

        A path that fails is skipped: separate fits then report which candidate fails, and why.
        """
        workers = worker_count(n_jobs)
        by_kernel: dict[Kernel | None, list[Path]] = {None: []}
        for path in self._paths(candidates):
            kernel = self._kernel(self.machines[path.candidates[0]], path.fold) if tables else None
            by_kernel.setdefault(kernel, []).append(path)
        alone = by_kernel.pop(None)
        matrices = Tables.among([kernel for kernel in by_kernel if kernel is not None])
        for kernel, paths in by_kernel.items():
            machine = self.machines[paths[0].candidates[0]]
            room = memory_budget(machine.memory)
            try:
                table = matrices.of(kernel, self._rows(machine), room // 2, machine.n_jobs)
            except (MemoryError, TypeError, ValueError):
                table = None
            if table is None:
                alone += paths
            else:
                self._on_table(table, paths, workers, room - matrices.held, score)
        matrices.forget()
        self._on_rows(alone, workers, score)

    def _paths(self, candidates: list[Any]) -> list[Path]:
        paths: dict[Any, Path] = {}
        for i, machine in self.machines.items():
            rest = joblib.hash({name: value for name, value in candidates[i].items() if name not in machine._along})
            for k in range(len(self.folds)):
                paths.setdefault((rest, k), Path(k)).candidates.append(i)
        return list(paths.values())

    def _rows(self, machine: Any) -> Any:
        """All rows, validated once for kernels on vectors and once for kernels on objects."""
        objects = holds_objects(machine.kernel, self.X)
        if objects not in self._validated:
            self._validated[objects] = validated(clone(machine), self.X)
        return wide(self._validated[objects])

    def _kernel(self, machine: Any, fold: int) -> Kernel | None:
        """The kernel of a machine on a fold; None if its matrix cannot be shared."""
        try:
            rows, train = self._rows(machine), self.folds[fold][0]
            kernel = machine._kernel_on(rows[train], None if self.weights is None else self.weights[train])
            hash(kernel)
            on_card = device_for(machine.device, rows) is not None
        except (ImportError, RuntimeError, TypeError, ValueError):
            return None
        # White depends on which rows are in one call, and a table does not know the trend of a conditional kernel.
        own = kernel.tells_copies or kernel.conditional_order
        return None if own or on_card else kernel  # a GPU makes a matrix sooner than it is copied there

    def _on_table(self, table: Table, paths: list[Path], workers: int, room: int, score: Score) -> None:
        """Fit paths on a Gram matrix of all rows, with row indices as inputs."""
        some = next(iter(self._validated.values()))
        # In the dtype of the rows, because predictions have the dtype of their input.
        numbers = np.arange(table.matrix.shape[0], dtype=dtype_of(some))[:, None]
        paths = self._across_folds(table, paths, numbers, room, score)
        workers = min(workers, max(len(paths), 1))

        def fit(path: Path) -> None:
            machines = [self._made(i, workers) for i in path.candidates]
            for machine in machines:
                known = inspect.signature(type(machine)).parameters
                named = {name: known[name].default for name in NAMED if name in known}
                vars(machine).update(named, kernel=table, memory=max(room // workers, 1))
            train = numbers[self.folds[path.fold][0]]
            self._fit(machines, path, train, numbers.__getitem__, score, table.matrix)

        run(fit, paths, workers)

    def _across_folds(self, table: Table, paths: list[Path], numbers: Array, room: int, score: Score) -> list[Path]:
        """Score predictions that one solver computes for all folds together; return the paths that are left."""
        together: dict[tuple[int, ...], list[Path]] = {}
        for path in paths:
            together.setdefault(tuple(path.candidates), []).append(path)
        for candidates, folds in list(together.items()):
            machines, trains = [self._made(i, 1) for i in candidates], [self.folds[path.fold][0] for path in folds]
            if not hasattr(machines[0], "_across_folds") or any(len(np.unique(rows)) < len(rows) for rows in trains):
                continue
            gram, begin = Gram(table, wide(numbers), memory=room, n_jobs=machines[0].n_jobs), time.perf_counter()
            try:
                found = machines[0]._across_folds(machines, gram, table.matrix, self.y, self.weights, trains)
                shared, begin = (time.perf_counter() - begin) / len(machines), time.perf_counter()
                for i, values in zip(candidates, found or (), strict=found is not None):
                    seconds = (shared + time.perf_counter() - begin) / len(folds)
                    for path, own in zip(folds, values, strict=True):
                        score(_Known(own), i, path.fold, numbers.__getitem__, seconds)
                    begin = time.perf_counter()
            except Exception:  # any error: the separate fit meets it again
                continue
            if found is not None:
                del together[candidates]
        return [path for folds in together.values() for path in folds]

    def _on_rows(self, paths: list[Path], workers: int, score: Score) -> None:
        """Fit paths to the rows themselves, without a shared Gram matrix."""
        workers = min(workers, max(len(paths), 1))

        def fit(path: Path) -> None:
            machines, train = [self._made(i, workers) for i in path.candidates], self.folds[path.fold][0]
            for machine in machines:
                machine.memory = memory_budget(machine.memory) // workers
            rows = _safe_split(machines[0], self.X, self.y, train)[0]
            self._fit(
                machines, path, rows, lambda some: _safe_split(machines[0], self.X, self.y, some, train)[0], score
            )

        run(fit, paths, workers)

    def _made(self, i: int, workers: int) -> Any:
        machine = clone(self.machines[i])
        machine.n_jobs = 1 if workers > 1 else machine.n_jobs
        return machine

    def _fit(
        self, machines: list[Any], path: Path, X: Any, rows: Rows, score: Score, matrix: Array | None = None
    ) -> None:
        train, test = self.folds[path.fold]
        y = None if self.y is None else _safe_indexing(self.y, train)
        given = {} if self.weights is None else {"sample_weight": self.weights[train]}
        begin = time.perf_counter()
        try:
            type(machines[0])._fit_path(machines, X, y, **given)
            if matrix is not None and hasattr(machines[0], "_evaluate_path"):
                asked = np.arange(len(matrix)) if self.train_scores else test
                machines[0]._evaluate_path(machines, matrix, train, asked)
        except Exception:  # any error: the separate fit meets it again
            return
        seconds = (time.perf_counter() - begin) / len(machines)
        for i, machine in zip(path.candidates, machines, strict=True):
            score(machine, i, path.fold, rows, seconds)


class _Known(RegressorMixin, BaseEstimator):
    """Predictions computed beforehand, looked up by row index."""

    def __init__(self, values: Array) -> None:
        self.values = values

    def predict(self, X: Array) -> Array:
        return narrow(self.values[X[:, 0].astype(np.intp)], X)
