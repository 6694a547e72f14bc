"""Sensitivity of a fitted model to its inputs: by gradients, by leaving inputs out, and by permutation."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier
from sklearn.metrics import get_scorer
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from gramian.estimators.auto.tables import TableWarning
from gramian.inspection.fitted import Array, decision_values, forest_of, input_names, sampled, some_rows, unnamed
from gramian.inspection.tables import as_table, numbers, shuffled, with_column
from gramian.kernels.resolve import is_precomputed
from gramian.numerals import written

STEP = 1e-4
"""Step of a difference quotient, relative to the standard deviation of the input."""
DIRECTIONS = 2000
"""Up to this many inputs d, directions are computed, from a matrix of shape (d, d)."""
RARE = 1e-15
"""Lower bound on probabilities in the log-loss, which keeps it finite."""
METHODS = ("gradient", "leave_out", "permutation")


@dataclass(frozen=True, eq=False)
class Sensitivity:
    """How much a fitted model depends on each input; ``str()`` is a list, the most important first.

    Parameters
    ----------
    names : list of str
        Names of the inputs: the columns of the table, before any encoding.
    importance : array of shape (d,)
        The importance of each input, in ``unit``; nan for slopes with respect to non-numeric inputs.
    low, high : array of shape (d,)
        Quartiles of the slopes over rows; for the other methods, the mean over repeats ∓ one standard deviation.
    method : {"gradient", "leave_out", "permutation"}
        How it was measured.
    unit : str
        The unit of ``importance``, in words.
    n_rows : int
        Number of rows used.
    eigenvalues : array of shape (r,) or None
        Eigenvalues of the mean of ∇f ∇fᵀ over rows, largest first; None unless the method is "gradient".
    directions : array of shape (d, r) or None
        Its eigenvectors: the directions along which the function changes most.

    Examples
    --------
    >>> import numpy as np
    >>> from gramian import KernelRidge
    >>> from gramian.inspection import sensitivity
    >>> X = np.random.default_rng(0).standard_normal((100, 2))
    >>> found = sensitivity(KernelRidge(1e-3, kernel="rbf").fit(X, X[:, 0]), X)
    >>> found.names[int(np.argmax(found.importance))]
    'x1'
    """

    names: list[str]
    importance: Array
    low: Array
    high: Array
    method: str
    unit: str
    n_rows: int
    eigenvalues: Array | None = None
    directions: Array | None = None

    def __str__(self) -> str:
        order = np.argsort(-np.nan_to_num(self.importance, nan=-np.inf), kind="stable")
        width = max(len(name) for name in self.names)
        lines = [f"{self.names[j]:{width}}  {written(float(self.importance[j]))}" for j in order]
        return "\n".join([f"{self.unit}, on {self.n_rows:,} rows", *lines])


def sensitivity(
    estimator: Any,
    X: Any = None,
    y: Any = None,
    *,
    method: str | None = None,
    scoring: Any = None,
    n_repeats: int = 5,
    scaled: bool = True,
    max_rows: int = 500,
    random_state: Any = 0,
) -> Sensitivity:
    """Measure how much a fitted model depends on each of its inputs.

    There are three measures, for any model that predicts, on the columns before encoding, so that a categorical column
    is one input:

    - ``"permutation"``: how much worse the predictions of y get when a column is shuffled. On rows that were not used
      for training, it measures how much the column contributes to the accuracy.
    - ``"leave_out"``: √(½ E(f(x) - f(x'))²), where x' is x with this column taken from another row. For independent
      inputs, this is the root mean square distance of f to the nearest function without this input (Sobol's total
      effect).
    - ``"gradient"``: the mean of ∣∂f/∂xⱼ∣ over rows, times the standard deviation of the input: exact for kernel
      expansions, by finite differences otherwise, for numeric columns only, and not for models with trees. The
      eigenvectors of the mean of ∇f ∇fᵀ are the directions along which the function varies.

    None of them measures causal effects, and inputs with the same information share their importance.

    Parameters
    ----------
    estimator : estimator
        A fitted estimator of this library, including the automatic ones, a pipeline or a search.
    X : table or array-like of shape (n, d), or None, default=None
        Rows; ``None`` for those that the estimator stores.
    y : array-like of shape (n,) or None, default=None
        Targets, for ``"permutation"``.
    method : {"gradient", "leave_out", "permutation"} or None, default=None
        The measure; ``None`` for ``"permutation"`` if y is given, else ``"gradient"``.
    scoring : str, callable or None, default=None
        For ``"permutation"``: a scikit-learn scorer; ``None`` for the root mean squared error in regression, and in
        classification the log-loss, or the error rate if the model has no probabilities.
    n_repeats : int, default=5
        How often each column is shuffled.
    scaled : bool, default=True
        For ``"gradient"``: whether slopes are per standard deviation of the input, or per unit.
    max_rows : int, default=500
        Limit on the number of rows used, drawn at random.
    random_state : int, default=0
        Seed for drawing the rows and the shuffles.

    Returns
    -------
    Sensitivity
        The result; prints as a list.

    Examples
    --------
    >>> import pandas as pd
    >>> from gramian import AutoKernelRegressor
    >>> from gramian.inspection import sensitivity
    >>> table = pd.DataFrame(
    ...     {"size": range(80), "town": ["a", "b"] * 40, "colour": ["red", "red", "blue", "blue"] * 20}
    ... )
    >>> price = table["size"] + 100 * (table["town"] == "b")
    >>> model = AutoKernelRegressor(machines=["ridge"], random_state=0).fit(table[:60], price[:60])
    >>> found = sensitivity(model, table[60:], price[60:])
    >>> max(zip(found.importance, found.names))[1]
    'town'
    """
    check_is_fitted(estimator)
    method = method or ("gradient" if y is None else "permutation")
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)} or None, got {method!r}.")
    if n_repeats < 1 or max_rows < 2:
        raise ValueError(f"n_repeats must be 1 or more and max_rows 2 or more, got {n_repeats} and {max_rows}.")
    if scoring is not None and method != "permutation":
        raise ValueError(f"scoring= is for method='permutation', and cannot be combined with {method!r}.")
    table, names = _table(estimator, X)
    some = sampled(_num_samples(table), max_rows, random_state)
    rows = _safe_indexing(table, some)
    if method == "gradient":
        if forest_of(estimator) is not None:
            raise ValueError("the model contains trees, whose predictions jump; use 'permutation' or 'leave_out'.")
        return _by_gradients(estimator, table, rows, names, scaled)
    if method == "permutation" and (y is None or _num_samples(y) != _num_samples(table)):
        count = "None" if y is None else f"{_num_samples(y):,} of them"
        raise ValueError(f"method='permutation' needs a target for each of {_num_samples(table):,} rows, got {count}.")
    ask = Shuffles(rows, n_repeats, np.random.default_rng(random_state))
    with warnings.catch_warnings(action="ignore", category=TableWarning):  # it would count copies of the rows
        if method == "leave_out":
            return _left_out(estimator, ask, names)
        return _by_permutation(estimator, ask, np.asarray(y)[some], names, scoring)


def _table(estimator: Any, X: Any) -> tuple[Any, list[str]]:
    """The rows as a table, and the names of its columns."""
    if is_precomputed(getattr(estimator, "kernel", None)):
        raise ValueError("a precomputed kernel has no inputs; pass the rows and their kernel to the estimator.")
    if X is None and hasattr(estimator, "leaderboard_"):
        raise ValueError(f"{type(estimator).__name__} keeps no table; pass X.")
    table = as_table(some_rows(estimator, X, what="a sensitivity"))
    named = hasattr(table, "columns")  # use its own names: its columns may be in another order than in fit
    return table, input_names(None if named else estimator, X, table.shape[1])


# ---- slopes -------------------------------------------------------------------------------------------------------


def _by_gradients(estimator: Any, table: Any, rows: Any, names: list[str], scaled: bool) -> Sensitivity:
    d = len(names)
    discrete = getattr(getattr(estimator, "columns_", None), "discrete", ())  # an automatic model's categorical columns
    columns = [None if names[j] in discrete else numbers(table, j) for j in range(d)]
    deviation = np.array([np.nan if c is None or np.all(np.isnan(c)) else np.nanstd(c) for c in columns])
    slopes = _slopes(estimator, rows, deviation)  # (functions, rows, d)
    slopes = slopes * deviation if scaled else slopes
    each = np.abs(slopes).mean(axis=0)
    with np.errstate(invalid="ignore"):
        low, high = np.quantile(each, [0.25, 0.75], axis=0)
    unit = f"mean |slope| per {'deviation' if scaled else 'unit'}"
    values, directions = _directions(slopes.reshape(-1, d)) if d <= DIRECTIONS else (None, None)
    return Sensitivity(names, each.mean(axis=0), low, high, "gradient", unit, each.shape[0], values, directions)


def _slopes(estimator: Any, rows: Any, deviation: Array) -> Array:
    """∂f/∂xⱼ at every row, for every function; nan for non-numeric inputs: → (functions, rows, d)."""
    functions = getattr(estimator, "function_", None)
    if functions is not None and not np.isnan(deviation).any():
        several = np.atleast_1d(np.asarray(functions, dtype=object))
        plain = np.asarray(rows, dtype=np.float64)
        return np.stack([f.gradient(plain) for f in several])
    found: list[Any] = []
    for j, spread in enumerate(deviation):
        values = numbers(rows, j)
        if values is None or np.isnan(spread):
            found.append(np.full((1, _num_samples(rows)), np.nan))
            continue
        step = STEP * (spread or 1.0)
        ends = [decision_values(estimator, with_column(rows, j, values + side))[0] for side in (step, -step)]
        rise = (ends[0] - ends[1]).reshape(_num_samples(rows), -1).T / (2.0 * step)
        found.append(np.where(np.isnan(values), 0.0, rise))  # missing values have slope zero
    count = max(each.shape[0] for each in found)
    return np.stack([np.broadcast_to(each, (count, each.shape[1])) for each in found], axis=2)


def _directions(gradients: Array) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of the mean of ∇f ∇fᵀ, with missing slopes taken as zero: → (r,), (d, r)."""
    G = np.nan_to_num(gradients)
    values, vectors = np.linalg.eigh(G.T @ G / len(G))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    largest = vectors[np.abs(vectors).argmax(axis=0), np.arange(values.size)]
    return values, vectors * np.where(largest < 0, -1.0, 1.0)


# ---- columns that are shuffled ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Shuffles:
    """Repeated copies of rows with one column shuffled."""

    rows: Any
    repeats: int
    rng: np.random.Generator

    def of(self, j: int) -> Any:
        """Return ``repeats`` copies of the rows, stacked, with column j shuffled in each."""
        n = _num_samples(self.rows)
        several = _safe_indexing(self.rows, np.tile(np.arange(n), self.repeats))
        orders = [n * k + self.rng.permutation(n) for k in range(self.repeats)]
        return shuffled(several, j, np.concatenate(orders))


def _left_out(estimator: Any, ask: Shuffles, names: list[str]) -> Sensitivity:
    n = _num_samples(ask.rows)
    f = decision_values(estimator, ask.rows)[0].reshape(1, n, -1)
    found = []
    for j in range(len(names)):
        other = decision_values(estimator, ask.of(j))[0].reshape(ask.repeats, n, -1)
        found.append(np.sqrt(0.5 * np.mean((other - f) ** 2, axis=(1, 2))))
    unit = "root mean square of what a prediction loses without the input"
    return _summary(np.array(found), "leave_out", unit, n, names)


def _by_permutation(estimator: Any, ask: Shuffles, y: NDArray[Any], names: list[str], scoring: Any) -> Sensitivity:
    n = len(y)
    if scoring is None:
        name, values, loss = _loss(estimator, y)
        before = loss(values(ask.rows))
        after = [[loss(part) for part in np.split(values(ask.of(j)), ask.repeats)] for j in range(len(names))]
    else:
        scorer = get_scorer(scoring) if isinstance(scoring, str) else scoring
        name = scoring if isinstance(scoring, str) else getattr(scoring, "__name__", "score")
        with unnamed():
            before = -float(scorer(estimator, ask.rows, y))
            parts = [np.arange(n * k, n * (k + 1)) for k in range(ask.repeats)]
            tables = (ask.of(j) for j in range(len(names)))
            after = [[-float(scorer(estimator, _safe_indexing(t, part), y)) for part in parts] for t in tables]
        return _summary(np.array(after) - before, "permutation", f"fall of {name} when shuffled", n, names)
    return _summary(np.array(after) - before, "permutation", f"rise of the {name} when shuffled", n, names)


def _loss(estimator: Any, y: NDArray[Any]) -> tuple[str, Callable[[Any], Any], Callable[[Any], float]]:
    """The name of the loss, the function from rows to predictions, and the loss of predictions."""

    def asked(method: str) -> Callable[[Any], Any]:
        def values(rows: Any) -> Any:
            with unnamed():
                return np.asarray(getattr(estimator, method)(rows))

        return values

    if not is_classifier(estimator):
        return "RMSE", asked("predict"), lambda f: float(np.sqrt(np.mean((f - y.reshape(f.shape)) ** 2)))
    if not hasattr(estimator, "predict_proba") or y.ndim > 1:
        return "error rate", asked("predict"), lambda f: float(np.mean(f != y))
    classes = np.asarray(estimator.classes_)
    at = np.minimum(np.searchsorted(classes, y), classes.size - 1)
    known = classes[at] == y

    def log_loss(P: Any) -> float:
        return -float(np.mean(np.log(np.maximum(np.where(known, P[np.arange(len(y)), at], 0.0), RARE))))

    return "log-loss", asked("predict_proba"), log_loss


def _summary(found: Array, method: str, unit: str, n: int, names: list[str]) -> Sensitivity:
    """Mean and standard deviation over repeats: found (d, repeats)."""
    mean, deviation = found.mean(axis=1), found.std(axis=1)
    return Sensitivity(names, mean, mean - deviation, mean + deviation, method, unit, n)
