"""The SVM without a constant over blocks."""

from __future__ import annotations

from typing import Any

import numpy as np

from gramian.estimators.base import warn_unless_converged
from gramian.estimators.machine import together
from gramian.estimators.over_blocks.machine import Labels, Objective, keep_functions, labels_of, solved, split
from gramian.estimators.over_blocks.opening import opened, sampled
from gramian.estimators.restore import restored_on_failure
from gramian.losses import Hinge
from gramian.progress import Clock
from gramian.solvers.choice import Choice

__all__ = ["fit_pegasos"]


def fit_pegasos(model: Any, X: Any, y: Any, sample_weight: Any) -> Any:
    """Minimise ``mean hinge + (lam/2) ‖f‖²`` over blocks.

    Parameters
    ----------
    model : PegasosClassifier
        Whose fit it is.
    X : Blocks, path or Dask collection
        Rows.
    y, sample_weight : object
        Labels and weights, as ``Blocks`` takes them.

    Returns
    -------
    PegasosClassifier
        The fitted estimator.
    """
    clock = Clock(model.max_time)
    with restored_on_failure(model), opened(model, X, y, sample_weight) as passes:
        sample = sampled(model, passes)
        classes, _ = labels_of(passes, type(model).__name__)
        losses = (Hinge(),) * (1 if classes.size == 2 else classes.size)
        targets = Labels(classes, False, np.ones(classes.size))
        task = Objective(losses, targets, False, float(model.lam), Choice("proximal", "the loss has a kink"))
        features, found, certificates, _ = solved(model, passes, sample, task, clock)
        weights, _ = split(found, False)
        for name in ("dual_coef_", "X_fit_", "function_", "coef_", "_landmarks", "_counts"):
            vars(model).pop(name, None)
        model.classes_, model.approximation_, model.kernel_ = classes, features, features.kernel_
        model.certificate_ = together(certificates)
        model.n_iter_ = max(model.certificate_.iterations, 1)
        keep_functions(model, features, weights, len(losses) == 1)
    warn_unless_converged(model.certificate_, model)
    return model
