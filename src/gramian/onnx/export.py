"""``export``: write a fitted model as an ONNX file and compare the two."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from gramian.estimators.auto import AutoKernelClassifier, AutoKernelRegressor
from gramian.estimators.auto.tables import TableWarning
from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.estimators.interpolator import KernelInterpolator
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.estimators.ridge import KernelRidge
from gramian.estimators.svm import SVC, SVR, NuSVC, NuSVR
from gramian.inspection.fitted import unnamed
from gramian.onnx import automatic
from gramian.onnx.columns import fed, forgetful, rows_like, rows_of_table
from gramian.onnx.machines import classifier, expansion, regressor, rows_of

Array = NDArray[np.float64]
CHECKED = 500
"""Rows on which the file is compared with the model."""
SAME, EPS = 1e-9, float(np.finfo(np.float64).eps)
"""Largest difference allowed, relative to the largest value, where rounding is not larger."""
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
    ``deviation``, a classifier ``label``, ``decision`` and, where it has them, ``probabilities``.

    Automatic models take the columns of their table, ``nan`` where a value is missing and dates as days since 1970.
    Where some are categories, each column that is used is an input (n, 1) with its name, categories as texts that are
    empty where a value is missing. Every row counts as new, those of the fit too.

    Parameters
    ----------
    model : estimator
        Fitted on numbers, or an automatic model of a table without free text, with a kernel that ONNX can write.
    path : str or Path
        Where to write.
    X : array-like or table of shape (n, d) or None, default=None
        Rows on which the file is compared with the model, 500 at most; by default those that the model keeps, or for
        automatic models random rows of the range that they were fitted to.

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
    g = Graph()
    if isinstance(model, AutoKernelRegressor | AutoKernelClassifier):
        outputs, kernel = automatic.outputs(g, model), model.best_.kernel_
        rows = (rows_like(model) if X is None else rows_of_table(model, X))[:CHECKED]
        given, model = fed(model.columns_.columns, rows), forgetful(model)
    else:
        rows = np.asarray(rows_of(model) if X is None else X, dtype=np.float64)[:CHECKED]
        given, kernel = {g.input("X", np.float64, model.n_features_in_): np.ascontiguousarray(rows)}, model.kernel_
        outputs = (classifier if is_classifier(model) else regressor)(g, model, "X")
    made = g.model(outputs, {"model": type(model).__name__, "kernel": repr(kernel)})
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    answers = dict(zip(outputs, session.run(None, given), strict=True))
    with unnamed():
        warnings.simplefilter("ignore", TableWarning)  # of levels made up to be new
        worst, same = _compared(model, rows, answers)
    if not same:
        raise ValueError(f"the graph differs from the model by {worst:.1e}, more than {SAME:.0e}; nothing was written.")
    path = Path(path)
    path.write_bytes(made.SerializeToString())
    return Exported(path, tuple(outputs), len(rows), worst)


def _compared(model: Any, X: Array, found: dict[str, Any]) -> tuple[float, bool]:
    """The largest difference from the model relative to the largest value, and whether it is no more than rounding."""
    wanted: dict[str, Any] = {}
    if "label" in found:
        wanted["decision"] = model.decision_function(X)
        wanted |= {"probabilities": model.predict_proba(X)} if "probabilities" in found else {}
        if not np.array_equal(found["label"].astype(str), model.predict(X).astype(str)):
            return np.inf, False
    elif "deviation" in found:
        wanted["prediction"], wanted["deviation"] = model.predict(X, return_std=True)
    else:
        wanted["prediction"] = model.predict(X)
    worst, same, rounding = 0.0, True, _rounding(model, X)
    for name, value in wanted.items():
        value, own = np.asarray(value, dtype=np.float64), found[name]
        scale = float(np.abs(value).max())
        if name == "deviation":  # the root of k(x, x) minus nearly the same
            value, own, scale = value**2, own**2, _variance(model, X)
        difference = float(np.abs(own.reshape(value.shape) - value).max())
        worst, same = max(worst, difference / (scale or 1.0)), same and difference <= max(SAME * scale, rounding)
    return worst, same


def _variance(model: Any, X: Array) -> float:
    """The largest prior variance, in which that of a prediction is rounded."""
    if isinstance(model, GaussianProcessRegressor):
        return float(np.max(model.kernel_.diag(X)) * np.max(model._y_train_std) ** 2)
    return max(_variance(process, Z) for _, _, process, Z in model._members(X)) * _units(model, X) ** 2


def _rounding(model: Any, X: Array) -> float:
    """What functions ``Σ_j α_j k(x, x_j)`` are rounded by, whose terms may be much larger than they are."""
    if hasattr(model, "leaderboard_"):
        errors = [(inside, _rounding(inside, Z)) for *_, inside, Z in model._members(X)]
        return max(error * (1.0 if hasattr(inside, "classes_") else _units(model, X)) for inside, error in errors)
    if (found := expansion(model)) is None:
        return 0.0
    rows, weights = found
    own, others = (np.abs(np.asarray(model.kernel_.diag(Z), dtype=np.float64)) for Z in (X, rows))
    terms = np.abs(weights).T @ np.sqrt(own.max() * others)
    return EPS * float(np.max(terms * getattr(model, "_y_train_std", 1.0)))


def _units(model: Any, X: Array) -> float:
    """What a prediction of an automatic model changes by, at most, if its machine's changes by one."""
    log = getattr(model, "target_scale_", "linear") == "log"
    return float(model._scale * (np.abs(model.predict(X)).max() if log else 1.0))
