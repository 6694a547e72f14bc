"""``export``: write a fitted model as an ONNX file and compare the two."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from gramian.estimators.auto import AutoKernelClassifier, AutoKernelRegressor
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.estimators.interpolator import KernelInterpolator
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.estimators.ridge import KernelRidge
from gramian.estimators.svm import SVC, SVR, NuSVC, NuSVR
from gramian.inspection.fitted import unnamed
from gramian.onnx import automatic
from gramian.onnx.machines import classifier, regressor, rows_of

Array = NDArray[np.float64]
CHECKED = 500
"""Rows on which the file is compared with the model."""
SAME = 1e-9
"""Largest difference allowed, relative to the largest value."""
ABLE = (
    *(SVC, NuSVC, SVR, NuSVR, KernelRidge, KernelInterpolator, GaussianProcessRegressor),
    *(KernelMachineClassifier, KernelMachineRegressor, AutoKernelRegressor, AutoKernelClassifier),
)


@dataclass(frozen=True)
class Exported:
    """What was written.

    Parameters
    ----------
    path : Path
        The file.
    outputs : tuple of str
        Names of what the graph answers.
    rows : int
        Rows on which it was compared with the model.
    difference : float
        The largest difference, relative to the largest value of its output.
    """

    path: Path
    outputs: tuple[str, ...]
    rows: int
    difference: float

    def __str__(self) -> str:
        return (
            f"{self.path}: {', '.join(self.outputs)}; on {self.rows:,} rows within {self.difference:.1e} of the model"
        )


def export(model: Any, path: str | Path, X: Any = None) -> Exported:
    """Write a fitted model as an ONNX file, and compare the two.

    The graph takes rows ``X`` (n, d) in double precision. A regressor answers ``prediction``, a process also
    ``deviation``, a classifier ``label``, ``decision`` and, where it has them, ``probabilities``. Automatic models take
    their columns as they were before they were scaled, ``nan`` where a value is missing, if all of them are numbers.

    Parameters
    ----------
    model : estimator
        Fitted on numbers, with a kernel that ONNX can write.
    path : str or Path
        Where to write.
    X : array-like of shape (n, d) or None, default=None
        Rows on which the file is compared with the model; by default those that the model keeps, or for automatic
        models random rows of the range that they were fitted to.

    Returns
    -------
    Exported
        The outputs, and how far they differ from the model's.
    """
    try:
        import onnxruntime

        from gramian.onnx.graph import Graph
    except ImportError as error:
        raise ImportError(f"{error}; ONNX files need an extra: pip install '.[onnx]' in the clone") from None
    if not isinstance(model, ABLE):
        names = ", ".join(kind.__name__ for kind in ABLE)
        raise TypeError(f"{type(model).__name__} cannot be written as ONNX; these can: {names}.")
    check_is_fitted(model)
    g, found = Graph(), isinstance(model, AutoKernelRegressor | AutoKernelClassifier)
    kept = automatic.rows_like(model) if found else rows_of(model)
    if found:
        outputs = automatic.outputs(g, model, "X")
    else:
        outputs = (classifier if is_classifier(model) else regressor)(g, model, "X")
    kernel = repr((model.best_ if found else model).kernel_)
    made = g.model(model.n_features_in_, outputs, {"model": type(model).__name__, "kernel": kernel})
    rows = np.asarray(kept if X is None else X, dtype=np.float64)[:CHECKED]
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    answers = dict(zip(outputs, session.run(None, {"X": np.ascontiguousarray(rows)}), strict=True))
    with unnamed():
        worst = _compared(model, rows, answers)
    if not worst <= SAME:
        raise ValueError(f"the graph differs from the model by {worst:.1e}, more than {SAME:.0e}; nothing was written.")
    path = Path(path)
    path.write_bytes(made.SerializeToString())
    return Exported(path, tuple(outputs), len(rows), worst)


def _compared(model: Any, X: Array, found: dict[str, Any]) -> float:
    """The largest difference from the model relative to the largest value; labels near a tie may differ."""
    wanted: dict[str, Any] = {}
    if "label" in found:
        wanted["decision"] = model.decision_function(X)
        wanted |= {"probabilities": model.predict_proba(X)} if "probabilities" in found else {}
        if not np.array_equal(found["label"].astype(str), model.predict(X).astype(str)):
            return np.inf
    elif "deviation" in found:
        wanted["prediction"], wanted["deviation"] = model.predict(X, return_std=True)
    else:
        wanted["prediction"] = model.predict(X)
    worst = 0.0
    for name, value in wanted.items():
        value, own = np.asarray(value, dtype=np.float64), found[name]
        scale = float(np.abs(value).max())
        if name == "deviation":  # the root of k(x, x) minus nearly the same
            value, own, scale = value**2, own**2, _variance(model, X)
        worst = max(worst, float(np.abs(own.reshape(value.shape) - value).max()) / (scale or 1.0))
    return worst


def _variance(model: Any, X: Array) -> float:
    """The largest prior variance, in which that of a prediction is rounded."""
    if isinstance(model, GaussianProcessRegressor):
        return float(np.max(model.kernel_.diag(X)) * np.max(model._y_train_std) ** 2)
    priors = [_variance(process, Z) for _, _, process, Z in model._members(X)]
    units = model._scale * (np.abs(model.predict(X)).max() if model.target_scale_ == "log" else 1.0)
    return float(max(priors) * units**2)
