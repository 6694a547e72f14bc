"""Sensitivities beside slow definitions, on arrays and on tables of every library."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gramian import SVC, AutoKernelClassifier, AutoKernelRegressor, KernelRidge
from gramian.inspection import sensitivity
from gramian.kernels import RBF, Precomputed


@pytest.fixture
def X(rng):
    return rng.standard_normal((80, 3)) * [1.0, 10.0, 0.1]


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"size": rng.standard_normal(150), "town": rng.choice(["a", "b", "c"], 150)})
    frame["door"] = rng.choice(["red", "blue"], 150)
    frame["floor"] = rng.integers(0, 5, 150)
    frame.loc[::19, "size"] = np.nan
    y = frame["size"].fillna(0.0) + 3.0 * frame["town"].map({"a": 0, "b": 1, "c": 2}) + 0.05 * rng.standard_normal(150)
    return frame, y.to_numpy()


@pytest.fixture(scope="module")
def automatic(table):
    X, y = table
    return AutoKernelRegressor(time_limit=None, machines=["ridge"], cv=3, random_state=0).fit(X[:100], y[:100])


def test_permutation_is_the_rise_of_the_loss_over_shuffles(X, rng):
    y = X[:, 0] + 0.2 * X[:, 1]
    model = KernelRidge(0.1, kernel=RBF([1.0, 10.0, 0.1])).fit(X[:50], y[:50])
    found = sensitivity(model, X[50:], y[50:], n_repeats=4, random_state=3)
    assert found.method == "permutation"
    draw, n = np.random.default_rng(3), 30
    for j in range(3):
        rise = []
        for _ in range(4):
            Z = X[50:].copy()
            Z[:, j] = Z[draw.permutation(n), j]
            rise.append(np.sqrt(np.mean((model.predict(Z) - y[50:]) ** 2)))
        rise = np.array(rise) - np.sqrt(np.mean((model.predict(X[50:]) - y[50:]) ** 2))
        assert found.importance[j] == pytest.approx(rise.mean())
        assert found.high[j] - found.low[j] == pytest.approx(2 * rise.std())
    assert str(found).splitlines()[0] == "rise of the RMSE when shuffled, on 30 rows"


def test_what_is_left_out_of_a_sum_is_its_deviation(rng):
    X = rng.standard_normal((2000, 3))
    model = LinearRegression().fit(X, 2 * X[:, 0] - X[:, 1])
    found = sensitivity(model, X, method="leave_out", max_rows=2000, n_repeats=10)
    assert np.allclose(found.importance, [2.0 * X[:, 0].std(), X[:, 1].std(), 0.0], rtol=0.03, atol=1e-9)


def test_gradients_and_the_directions_of_a_function(X):
    model = KernelRidge(1e-3, kernel=RBF([2.0, 20.0, 0.2])).fit(X, np.sin(X[:, 0] + X[:, 1] / 10))
    exact = sensitivity(model, X)
    pipeline = make_pipeline(StandardScaler(with_std=False), KernelRidge(1e-3, kernel=RBF([2.0, 20.0, 0.2])))
    differences = sensitivity(pipeline.fit(X, np.sin(X[:, 0] + X[:, 1] / 10)), X)
    assert np.allclose(exact.importance, differences.importance, rtol=1e-4)
    first = exact.directions[:, 0]
    assert np.allclose(first, [np.sqrt(0.5), np.sqrt(0.5), 0.0], atol=0.1)
    G = model.function_.gradient(X) * X.std(axis=0)
    assert np.allclose(exact.eigenvalues, np.linalg.eigvalsh(G.T @ G / len(G))[::-1])
    assert np.allclose(exact.directions @ np.diag(exact.eigenvalues) @ exact.directions.T, G.T @ G / len(G))
    by_unit = sensitivity(model, X, scaled=False)
    assert np.allclose(by_unit.importance * X.std(axis=0), exact.importance)


def test_columns_of_a_table_are_named_and_counted_once(automatic, table):
    X, y = table
    found = sensitivity(automatic, X[100:], y[100:])
    assert found.names == ["size", "town", "door", "floor"]
    assert list(np.argsort(-found.importance)[:2]) == [1, 0]
    assert np.abs(found.importance[2:]).max() < 0.1 * found.importance[0]
    slopes = sensitivity(automatic, X[100:])
    assert np.isnan(slopes.importance[1])  # a category has no slope
    assert slopes.importance[0] > 5 * slopes.importance[3]
    assert np.allclose(slopes.directions[1:3, :2], 0.0)


@pytest.mark.parametrize("method", ["permutation", "leave_out"])
def test_copies_of_rows_with_a_new_level_are_not_counted(automatic, table, method):
    X, y = table
    found = sensitivity(automatic, X[100:].replace({"town": {"a": "z"}}), y[100:], method=method)  # without a warning
    assert np.all(np.isfinite(found.importance))


@pytest.mark.parametrize("library", ["pyarrow", "polars", "array", "reordered"])
def test_every_library_gives_the_same(automatic, table, library):
    X, y = table[0][100:], table[1][100:]
    other = {
        "pyarrow": lambda: pa.Table.from_pandas(X, preserve_index=False),
        "polars": lambda: pl.from_pandas(X),
        "array": lambda: X.to_numpy(dtype=object),
        "reordered": lambda: X.iloc[:, ::-1],
    }[library]()
    for method in ("permutation", "leave_out", "gradient"):
        ours, theirs = (sensitivity(automatic, rows, y, method=method) for rows in (X, other))
        if library == "reordered":  # other shuffles, of the same columns
            assert theirs.names == ours.names[::-1]
            assert np.allclose(ours.importance[:2], theirs.importance[:1:-1], rtol=0.3, equal_nan=True)
        else:
            assert np.allclose(ours.importance, theirs.importance, equal_nan=True)


def test_classes_are_judged_by_what_the_model_gives(X, rng):
    y = np.where(X[:, 0] > 0, "yes", "no")
    logistic = LogisticRegression().fit(X, y)
    sure = logistic.predict_proba(X)[np.arange(80), (y == "yes").astype(int)]
    found = sensitivity(logistic, X, y, n_repeats=1)
    assert "log-loss" in found.unit
    Z = X.copy()
    Z[:, 0] = Z[np.random.default_rng(0).permutation(80), 0]
    shuffled = logistic.predict_proba(Z)[np.arange(80), (y == "yes").astype(int)]
    assert found.importance[0] == pytest.approx(np.log(sure).mean() - np.log(shuffled).mean())
    assert "error rate" in sensitivity(SVC().fit(X, y), X, y).unit
    scored = sensitivity(logistic, X, y, scoring="accuracy")
    assert scored.importance.argmax() == 0
    assert scored.unit == "fall of accuracy when shuffled"
    model = AutoKernelClassifier(time_limit=None, machines=["ridge"], cv=2, random_state=0).fit(X, y)
    assert sensitivity(model, X, y).importance.argmax() == 0


def test_rows_are_drawn_and_repeat(X):
    y = X[:, 0]
    model = KernelRidge().fit(X, y)
    first, again = (sensitivity(model, X, y, max_rows=20, random_state=5) for _ in range(2))
    assert first.n_rows == 20
    assert np.array_equal(first.importance, again.importance)
    assert np.allclose(sensitivity(model, sp.csr_array(X), y).importance, sensitivity(model, X, y).importance)


def test_what_cannot_be_measured_is_refused(X, automatic):
    model = KernelRidge().fit(X, X[:, 0])
    with pytest.raises(ValueError, match="method must be one of gradient, leave_out, permutation or None, got 'shap'"):
        sensitivity(model, X, method="shap")
    with pytest.raises(ValueError, match="needs a target for each of 80 rows, got None"):
        sensitivity(model, X, method="permutation")
    with pytest.raises(ValueError, match="got 5 of them"):
        sensitivity(model, X, X[:5, 0])
    with pytest.raises(ValueError, match="scoring= is for method='permutation'"):
        sensitivity(model, X, scoring="r2")
    with pytest.raises(ValueError, match="n_repeats must be 1 or more"):
        sensitivity(model, X, n_repeats=0)
    with pytest.raises(ValueError, match="keeps no table; pass X"):
        sensitivity(automatic)
    with pytest.raises(ValueError, match="precomputed kernel has no inputs"):
        sensitivity(KernelRidge(kernel=Precomputed()).fit(X @ X.T, X[:, 0]), X @ X.T)
    with pytest.raises(ValueError, match=r"got an array of shape \(3,\)"):
        sensitivity(model, ["a", "b", "c"])


def test_a_category_of_numbers_has_no_slope():
    table = pd.DataFrame({"size": np.linspace(0.0, 1.0, 60), "zip": [10115, 20095, 80331] * 20})
    model = AutoKernelRegressor(None, machines=["linear"], columns={"zip": "category"}, cv=3, random_state=0)
    found = sensitivity(model.fit(table, table["size"] + (table["zip"] == 10115)), table)
    np.testing.assert_array_equal(np.isnan(found.importance), [False, True])
