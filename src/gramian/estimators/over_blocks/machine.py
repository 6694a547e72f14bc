"""Machines with any loss over blocks: regressors and classifiers, by Newton's method in the space of a map."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight

from gramian.certificates import Certificate
from gramian.data.parts import Need, Part
from gramian.data.passes import Passes
from gramian.estimators.approximation import has_landmarks
from gramian.estimators.base import as_array, restored_on_failure, warn_unless_converged
from gramian.estimators.machine.base import together
from gramian.estimators.over_blocks.opening import lifted, opened, sampled
from gramian.estimators.over_blocks.starts import starts
from gramian.losses import check_gradient, offers
from gramian.progress import Clock
from gramian.resources import memory_budget, readable
from gramian.solvers.choice import Choice
from gramian.solvers.in_features.least_squares import targets_of
from gramian.solvers.in_features.newton import minimise
from gramian.solvers.in_features.objective import Functions, Targets
from gramian.solvers.machine.corners import most_kinks
from gramian.solvers.machine.problem import choose

__all__ = [
    "Labels",
    "Numbers",
    "Objective",
    "fit_classifier",
    "fit_regressor",
    "keep_functions",
    "labels_of",
    "solved",
    "split",
]

Array = NDArray[np.float64]

COPIES = 3
"""Hessians alive at once: two that are added, and their sum."""
KINKS, LEAST_KINKS = 10, 5000
"""Rows near a kink that may come to the client: so many for each feature, or so many."""
OPTIONAL = ("lams_", "cv_path_", "dual_coef_", "X_fit_", "function_", "coef_", "_landmarks")
"""What one fit has and the next may not."""


@dataclass(frozen=True, eq=False)
class Numbers:
    """Targets that are numbers: each column, once for every part of the loss."""

    loss: Any  # Checks them, where it cares
    repeats: int = 1  # Parts of the loss

    def of(self, part: Part) -> tuple[list[Array], Array]:
        """Return the targets of each function, and weights."""
        Y = targets_of(part)
        if hasattr(self.loss, "check_targets"):
            self.loss.check_targets(Y)
        return [Y[:, [j]] for j in range(Y.shape[1]) for _ in range(self.repeats)], part.weights


@dataclass(frozen=True, eq=False)
class Labels:
    """Targets that are labels: signs for each class against the rest, or one column for each."""

    classes: NDArray[Any]  # (c,): The labels, in order
    coupled: bool  # Whether the loss takes all classes at once
    weights: Array  # (c,): Weights of the classes

    def of(self, part: Part) -> tuple[list[Array], Array]:
        """Return the targets of each function, and weights."""
        codes = np.searchsorted(self.classes, np.asarray(part.y))
        hot = np.eye(self.classes.size)[codes]
        weights = part.weights * self.weights[codes]
        if self.coupled:
            return [hot], weights
        signs = 2.0 * hot - 1.0
        chosen = [1] if self.classes.size == 2 else range(self.classes.size)
        return [signs[:, [c]] for c in chosen], weights


@dataclass(frozen=True, eq=False)
class Objective:
    """What a model minimises."""

    losses: tuple[Any, ...]  # One for each function, or group of functions
    targets: Targets  # Their targets
    intercept: bool  # Whether each has a constant
    lam: float  # Strength
    choice: Choice  # The solver
    max_iter: int  # Newton steps at most


def _counted(shared: None, parts: Iterator[Part]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    labels = [np.asarray(part.y) for part in parts]
    if not labels:
        return np.empty(0), np.empty(0, dtype=np.int64)
    if labels[0].ndim != 1:
        raise ValueError(f"labels are one column, got {labels[0].shape[1]}.")
    found, counts = np.unique(np.concatenate(labels), return_counts=True)
    if found.dtype.kind == "f" and np.any(found != np.floor(found)):
        raise ValueError("Unknown label type: continuous. The target must be labels, and holds numbers with fractions.")
    return found, counts


def labels_of(passes: Passes, name: str) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the labels of all rows, and how often each occurs, in a pass that reads nothing else."""
    found = [pair for pair in passes.map(_counted, None, need=Need(X=False, weight=False)) if pair[0].size]
    classes, codes = np.unique(np.concatenate([labels for labels, _ in found]), return_inverse=True)
    counts = np.bincount(codes, weights=np.concatenate([counts for _, counts in found])).astype(np.int64)
    if classes.size < 2:
        raise ValueError(f"{name} needs at least two classes, got 1 class: {classes[0]!r}.")
    return classes, counts


def fit_regressor(model: Any, X: Any, y: Any, sample_weight: Any, loss: Any) -> Any:
    """Fit a machine of numbers over blocks."""
    clock = Clock(model.max_time)
    with restored_on_failure(model), opened(model, X, y, sample_weight) as passes:
        _check(model)
        sample = sampled(model, passes)
        Y = targets_of(sample)
        pieces = tuple(getattr(loss, "parts", (loss,)))
        if len(pieces) > 1 and Y.shape[1] > 1:
            raise ValueError(f"several quantiles take one target, got {Y.shape[1]}; fit each target by itself.")
        for piece in pieces:
            check_gradient(piece, Y.ravel())
        losses = pieces * Y.shape[1]
        task = _objective(model, losses, Numbers(loss, len(pieces)))
        single = sample.y is not None and sample.y.ndim == 1 and len(losses) == 1
        _keep(model, *solved(model, passes, sample, task, clock), single)
        model.loss_ = loss
    warn_unless_converged(model.certificate_, model)
    return model


def fit_classifier(model: Any, X: Any, y: Any, sample_weight: Any, loss: Any) -> Any:
    """Fit a machine of labels over blocks."""
    clock = Clock(model.max_time)
    with restored_on_failure(model), opened(model, X, y, sample_weight) as passes:
        _check(model)
        sample = sampled(model, passes)
        classes, counts = labels_of(passes, type(model).__name__)
        if classes.size > 2:
            loss = getattr(loss, "several", loss)
        coupled = bool(getattr(loss, "coupled", False))
        losses = (loss,) * (1 if coupled or classes.size == 2 else classes.size)
        targets = Labels(classes, coupled, _class_weights(model.class_weight, classes, counts))
        task = _objective(model, losses, targets)
        model.classes_, model.loss_ = classes, loss
        _keep(model, *solved(model, passes, sample, task, clock), len(losses) == 1 and not coupled)
    warn_unless_converged(model.certificate_, model)
    return model


def _class_weights(asked: Any, classes: NDArray[Any], counts: NDArray[np.int64]) -> Array:
    if isinstance(asked, str):
        return np.asarray(counts.sum() / (classes.size * counts))
    return np.asarray(compute_class_weight(asked, classes=classes, y=classes), dtype=np.float64)


def _check(model: Any) -> None:
    if model.penalty != "squared":
        raise ValueError(
            f"over blocks penalty must be 'squared', which leads to the same functions; got {model.penalty!r}."
        )
    if not isinstance(model.lam, int | float):
        raise ValueError("lam='cv' fits many times; over blocks give lam as a number, chosen on a sample of the rows.")
    if model.warm_start:
        raise ValueError("warm_start goes on from coefficients in memory; over blocks use Blocks(..., checkpoint=...).")


def _objective(model: Any, losses: tuple[Any, ...], targets: Targets) -> Objective:
    loss = losses[0]
    choice = choose(loss, model.solver)
    if choice.name == "ccp":
        raise ValueError(
            f"{type(loss).__name__} is not convex, and its solver keeps a number for every row; over blocks use a "
            "convex loss, such as 'huber' or 'squared_hinge'."
        )
    return Objective(losses, targets, bool(model.fit_intercept), float(model.lam), choice, model.max_iter)


def solved(model: Any, passes: Passes, sample: Part, task: Objective, clock: Clock) -> tuple[Any, Any, Any, Any]:
    """Fit the map and the functions."""
    features, lift = lifted(model, model._resolved(sample.X), passes, sample)
    kinks = task.choice.name == "proximal"
    targets, weights = task.targets.of(sample)
    functions = Functions(task.losses, task.targets, task.intercept, task.lam, kinks, float(weights.mean()))
    memory, share = memory_budget(model.memory), sample.index.size / passes.blocks.n_rows
    _check_memory(memory, lift.width, targets)
    options: Any = {"tol": model.tol, "max_iter": task.max_iter, "clock": clock}
    begun = starts(lift, sample, functions, task.choice.name, memory, share, clock)
    most = most_kinks(lift.width, memory, KINKS, LEAST_KINKS)
    found, certificates, error = minimise(passes, lift, functions, begun, most_kinks=most, **options)
    if not kinks and any(_bent(loss, each) for loss, each in zip(task.losses, certificates, strict=True)):
        functions = replace(functions, kinks=True)
        begun = starts(lift, sample, functions, "proximal", memory, share, clock)
        found, certificates, error = minimise(passes, lift, functions, begun, most_kinks=most, **options)
    if hasattr(features, "trace_error_"):
        features.trace_error_ = error
    return features, found, certificates, task


def _bent(loss: Any, certificate: Certificate) -> bool:
    """Whether a loss that is known by its gradient alone has turned out to have kinks."""
    known = offers(loss, "curvature") or getattr(loss, "coupled", False) or not getattr(loss, "convex", True)
    return not (certificate.converged or known)


def _check_memory(memory: int, m: int, targets: list[Array]) -> None:
    needed = sum(COPIES * 8 * (y.shape[1] * (m + 1)) ** 2 for y in targets)
    if needed > memory:
        raise MemoryError(
            f"Hessians of {m:,} features for {sum(y.shape[1] for y in targets)} functions take {readable(needed)} and "
            f"memory is {readable(memory)}; lower n_components, or raise memory=."
        )


def _keep(
    model: Any, features: Any, found: list[Array], certificates: list[Any], task: Objective, single: bool
) -> None:
    for name in OPTIONAL:
        vars(model).pop(name, None)
    weights, constants = split(found, task.intercept)
    model.kernel_, model.solver_, model.approximation_ = features.kernel_, task.choice, features
    model.certificate_ = together(certificates)
    model.n_iter_ = max(model.certificate_.iterations, 1)
    model.lam_ = task.lam
    model.multiplier_ = task.lam if len(found) == 1 else np.full(len(found), task.lam)
    model.intercept_ = float(constants[0]) if single else constants
    keep_functions(model, features, weights, single)


def split(found: list[Array], intercept: bool) -> tuple[Array, Array]:
    """Return weights and constants of all functions: found (m, k) or (m + 1, k)."""
    both = np.hstack(found)
    return (both[:-1], both[-1]) if intercept else (both, np.zeros(both.shape[1]))


def keep_functions(model: Any, features: Any, weights: Array, single: bool) -> None:
    """Keep functions as expansions at landmarks or, where a map has none, by their weights: weights (m, k)."""
    if not has_landmarks(features):
        model.coef_ = weights.ravel() if single else weights
        return
    dual = features.expansion(weights)
    model.X_fit_, model._landmarks = features.components_, features.component_indices_
    model.dual_coef_ = dual.ravel() if single else dual
    model.function_ = as_array(model._functions(features.kernel_, features.components_, dual), single)
