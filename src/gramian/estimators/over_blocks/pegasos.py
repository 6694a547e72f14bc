"""The SVM without a constant over blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.estimators.base import is_precomputed, restored_on_failure, warn_unless_converged
from gramian.estimators.over_blocks.machine import Labels, Objective, labels_of, solved, split
from gramian.estimators.over_blocks.opening import opened, sampled
from gramian.losses import Hinge
from gramian.progress import Clock
from gramian.solvers.choice import Choice

__all__ = ["check_map", "fit_pegasos"]


def check_map(model: Any) -> None:
    """Refuse what makes no sense where f is sought in the space of a map."""
    if model.max_support is not None:
        raise ValueError(
            f"max_support={model.max_support} bounds the rows of a kernel expansion, and approximation= leaves none: "
            "set its n_components, and leave max_support=None."
        )
    if is_precomputed(model.kernel):
        raise ValueError("approximation= needs rows, not a precomputed Gram matrix.")


def fit_pegasos(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Minimise ``mean hinge + (lam/2) ‖f‖²`` over blocks."""
    clock = Clock(model.max_time)
    with restored_on_failure(model), opened(model, X, y, sample_weight) as passes:
        sample = sampled(model, passes)
        check_map(model)
        classes, _ = labels_of(passes, type(model).__name__)
        losses = (Hinge(),) * (1 if classes.size == 2 else classes.size)
        targets = Labels(classes, False, np.ones(classes.size))
        choice = Choice("proximal", "the loss has a kink")
        task = Objective(losses, targets, False, float(model.lam), choice, model.n_iter)
        features, found, certificates, _ = solved(model, passes, sample, task, clock)
        model.classes_ = classes
        model._keep_features(features, split(found, False)[0], certificates)
    warn_unless_converged(model.certificate_, model)
    return model
