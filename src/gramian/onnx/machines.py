"""Fitted machines as ONNX operators: functions, decisions and probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.estimators.svm import SVC, SVR, NuSVC, NuSVR
from gramian.estimators.svm.base import SupportVectorMachine
from gramian.features.fourier import FourierFeatures
from gramian.features.polynomial import PolynomialMap
from gramian.kernels.points import dense
from gramian.kernels.resolve import is_precomputed
from gramian.onnx.kernels import matrix
from gramian.solvers.gp.evidence import signal_and_noise

if TYPE_CHECKING:
    from gramian.onnx.graph import Graph

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Output:
    """An output of the graph."""

    value: str
    rank: int  # 1 for one number per row, 2 for several
    dtype: Any = np.float64


def rows_of(model: Any) -> Array:
    """Return the rows that a model keeps: training rows, landmarks, or their mean."""
    features: Any = getattr(model, "approximation_", None)
    if isinstance(features, PolynomialMap):  # keeps no rows
        return np.eye(features.n_features_in_)
    kept: list[Any] = [getattr(model, name, None) for name in ("X_fit_", "X_train_")]
    kept += [getattr(features, "components_", None), getattr(features, "center_", None)]
    rows: Any = next((each for each in [*kept, getattr(model, "support_vectors_", None)] if each is not None), None)
    rows = np.atleast_2d(dense(rows))
    if rows.dtype.kind not in "biuf" or is_precomputed(model.kernel_):
        raise TypeError("ONNX needs rows of numbers, but this model was fitted to something else.")
    return np.asarray(rows, dtype=np.float64)


def expansion(model: Any) -> tuple[Array, Array] | None:
    """Return rows x_j (m, d) and coefficients α (m, k) of functions ``Σ_j α_j k(x, x_j)``; None for a map without."""
    features: Any = getattr(model, "approximation_", None)
    if features is not None and not hasattr(features, "expansion"):
        return None
    alpha: Any = getattr(model, "alpha_" if isinstance(model, GaussianProcessRegressor) else "dual_coef_", None)
    if isinstance(model, SupportVectorMachine):
        alpha = model._expansions().T if features is None else None
    if alpha is None:
        alpha = features.expansion(_in_features(model))
    rows = rows_of(model)
    return rows, np.asarray(alpha, dtype=np.float64).reshape(len(rows), -1)


def _in_features(model: Any) -> Array:
    """Coefficients w of functions ``<w, ψ(x)>``: (r, k)."""
    w = np.asarray(model.coef_, dtype=np.float64)
    return w.T if isinstance(model, SupportVectorMachine) else w.reshape(w.shape[0], -1)


def values(g: Graph, model: Any, x: str) -> str:
    """Return the functions without their constants, ``Σ_j α_j k(x, x_j)``, or ``<w, ψ(x)>`` of a map: (n, k)."""
    if (found := expansion(model)) is None:
        features, w = model.approximation_, _in_features(model)
        if isinstance(features, PolynomialMap):
            return _affine(g, features, w, x)
        return g("MatMul", _waves(g, features, x), np.sqrt(2.0 * features.kernel_.amplitude / len(w)) * w)
    rows, weights = found
    if len(rows) == 1:  # add a row of weight zero, so that the kernel has no scalar operand
        rows, weights = np.vstack([rows, rows]), np.vstack([weights, np.zeros_like(weights)])
    return g("MatMul", matrix(g, model.kernel_, x, rows), weights)


def _affine(g: Graph, features: Any, w: Array, x: str) -> str:
    """A linear function of the inputs and a constant."""
    if features.degree != 1:
        raise TypeError("PolynomialMap cannot be written as ONNX, except with degree 1; use kernel=Polynomial(...).")
    ends = np.vstack([np.zeros(features.n_features_in_), np.eye(features.n_features_in_)])
    constant, *slopes = np.asarray(features.transform(ends))
    return g("Add", g("MatMul", x, (np.asarray(slopes) - constant) @ w), constant @ w)


def _waves(g: Graph, features: Any, x: str) -> str:
    """Unscaled Fourier features."""
    if not isinstance(features, FourierFeatures):
        raise TypeError(
            f"{type(features).__name__} cannot be written as ONNX; Nystroem, FourierFeatures and PolynomialMap(1) can."
        )
    phases = g("MatMul", g("Sub", x, np.asarray(features.center_, dtype=np.float64)), features.frequencies_)
    phases, size = g("Add", phases, features.offset_), features.n_components
    both = g("Concat", g("Cos", phases), g("Sin", phases), axis=1)
    return g("Slice", both, np.array([0]), np.array([size]), np.array([1]))


def regressor(g: Graph, model: Any, x: str) -> dict[str, Output]:
    """Return a prediction, and the deviation of a process."""
    if getattr(model, "trend_", None) is not None:
        raise ValueError("a trend cannot be written as ONNX yet; fit without trend=.")
    if isinstance(model, GaussianProcessRegressor):
        return _process(g, model, x)
    constant = np.atleast_1d(np.asarray(getattr(model, "intercept_", 0.0), dtype=np.float64))
    f = g("Add", values(g, model, x), constant)
    single = isinstance(model, SVR | NuSVR) or np.ndim(getattr(model, "coef_", getattr(model, "dual_coef_", 0))) == 1
    if hasattr(getattr(model, "loss_", None), "inverse_link"):
        f = _linked(g, model.loss_, f)
    return {"prediction": _numbers(g, f, single)}


def _linked(g: Graph, loss: Any, f: str) -> str:
    """The link of a loss: the exponential or the identity."""
    probe = np.array([[-1.0], [0.5]])
    if np.array_equal(loss.inverse_link(probe), probe):
        return f
    if np.allclose(loss.inverse_link(probe), np.exp(probe), rtol=1e-12):
        return g("Exp", f)
    raise ValueError(f"the link of {type(loss).__name__} cannot be written as ONNX.")


def _process(g: Graph, model: Any, x: str) -> dict[str, Output]:
    if hasattr(model, "approximation_") or not hasattr(model, "L_"):
        raise ValueError(
            "only Gaussian processes with a Cholesky factor and without approximation can be written as ONNX."
        )
    signal, _ = signal_and_noise(model.kernel_)
    K, alpha = matrix(g, signal, x, rows_of(model)), np.asarray(model.alpha_, dtype=np.float64)
    scale, centre = (np.atleast_1d(np.asarray(v, float)) for v in (model._y_train_std, model._y_train_mean))
    mean = g("Add", g("MatMul", K, alpha.reshape(len(alpha), -1) * scale), centre)
    inverse = solve_triangular(model.L_, np.eye(len(alpha)), lower=True)
    explained = g("ReduceSumSquare", g("MatMul", K, inverse.T), axes=[1], keepdims=1)
    variance = g("Relu", g("Sub", matrix(g, model.kernel_, x, None), explained))
    deviation = g("Mul", g("Sqrt", variance), scale)
    single = alpha.ndim == 1
    named = {"prediction": mean, "deviation": deviation}
    return {name: _numbers(g, value, single) for name, value in named.items()}


def flat(g: Graph, value: str) -> str:
    """Return a column (n, 1) as (n,)."""
    return g("Squeeze", value, np.array([1]))


def _numbers(g: Graph, value: str, single: bool) -> Output:
    """One number for each row, or several."""
    return Output(flat(g, value), 1) if single else Output(value, 2)


def classifier(g: Graph, model: Any, x: str) -> dict[str, Output]:
    """Return labels, decision values and probabilities."""
    classes = model.classes_
    found: dict[str, Output] = {}
    if isinstance(model, SVC | NuSVC):
        decision, best = _pairs(g, model, x)
    else:
        f = g("Add", values(g, model, x), np.atleast_1d(np.asarray(model.intercept_, dtype=np.float64)))
        decision, columns = f, np.size(model.intercept_)
        if len(classes) == 2:
            decision = flat(g, f if columns == 1 else g("MatMul", f, np.array([[-1.0], [1.0]])))
            best = g("Cast", g("Greater", decision, 0.0), to=7)
        else:
            best = g("ArgMax", f, axis=1, keepdims=0)
        if hasattr(model, "predict_proba"):
            found["probabilities"] = Output(_probabilities(g, model.loss_, f, columns), 2)
    return {"label": labelled(g, classes, best), "decision": Output(decision, 1 if len(classes) == 2 else 2), **found}


def labelled(g: Graph, classes: NDArray[Any], best: str) -> Output:
    """Return the labels at the given class indices."""
    labels = classes.astype(str).astype(object) if classes.dtype.kind in "OUS" else classes
    labels = labels.astype(np.int64) if classes.dtype.kind in "iub" else labels
    return Output(g("Gather", labels, best), 1, labels.dtype)


def _probabilities(g: Graph, loss: Any, f: str, columns: int) -> str:
    if columns > 1 and getattr(loss, "coupled", False):
        return g("Softmax", f, axis=1)
    each = g("Sigmoid", f)
    if columns > 1:
        return g("Div", each, g("ReduceSum", each, np.array([1]), keepdims=1))
    return g("Concat", g("Sigmoid", g("Neg", f)), each, axis=1)


def _pairs(g: Graph, model: Any, x: str) -> tuple[str, str]:
    """Decision values as the model gives them, and the class with most votes."""
    c = len(model.classes_)
    both = list(combinations(range(c), 2))
    f = g("Add", values(g, model, x), np.asarray(model.intercept_, dtype=np.float64))
    if c == 2:
        decision = flat(g, f)
        return decision, g("Cast", g("Greater", decision, 0.0), to=7)
    wins, losses = np.zeros((2, len(both), c))
    for p, (i, j) in enumerate(both):
        wins[p, i], losses[p, j] = 1.0, 1.0
    won = g("Cast", g("Greater", f, 0.0), to=11)
    votes = g("Add", g("MatMul", won, wins), g("MatMul", g("Sub", 1.0, won), losses))
    sums = g("MatMul", f, wins - losses)
    shared = g("Div", sums, g("Mul", g("Add", g("Abs", sums), 1.0), 3.0))
    by_class = g("Add", votes, shared)
    decision = f if model.decision_function_shape == "ovo" else by_class
    return decision, g("ArgMax", by_class if model.break_ties else votes, axis=1, keepdims=0)
