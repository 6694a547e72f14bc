"""The automatic estimators over blocks: a search on a sample, then all rows."""

from __future__ import annotations

import numpy as np
import pytest

from gramian import AutoKernelClassifier, AutoKernelRegressor
from gramian.data import Blocks
from gramian.estimators.auto.plans import Sizes


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((900, 3))
    return X, np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(900)


@pytest.mark.parametrize(("machine", "classes"), [("ridge", False), ("gp", True), ("svm", True), ("machine", False)])
def test_a_search_on_a_sample_and_a_fit_to_all_rows(data, machine, classes):
    X, y = data
    y = np.where(X[:, 0] > 0, "up", "down") if classes else y
    make = AutoKernelClassifier if classes else AutoKernelRegressor
    model = make(time_limit=None, machines=[machine], random_state=0)
    model._sizes = Sizes(sample=200, other_landmarks=60)
    model.fit(Blocks(X[:800], y[:800], rows=130))
    assert "60 landmarks over 800 rows in blocks; chosen on 200" in model.refit_
    assert model.machine_ == ("ridge" if machine in ("gp", "ridge") else "machine")
    assert model.score(X[800:], y[800:]) > 0.8
    if classes:
        sure = model.predict_proba(X[800:])[np.arange(100), np.searchsorted(model.classes_, y[800:])]
        assert -np.log(sure).mean() < 0.25
    np.testing.assert_array_equal(np.asarray(model.predict(Blocks(X, rows=300))), model.predict(X))


def test_a_sample_of_all_rows_is_a_fit_in_memory(data):
    X, y = data
    model = AutoKernelRegressor(None, machines=["ridge"], kernel="rbf", cv=2, random_state=0)
    blocks = model.fit(Blocks(X[:300], y[:300], rows=130)).predict(X)
    np.testing.assert_allclose(model.fit(X[:300], y[:300]).predict(X), blocks)
    assert model.refit_ == "300 rows, exactly"


def test_bad_blocks(data):
    X, y = data
    with pytest.raises(ValueError, match="requires y"):
        AutoKernelRegressor().fit(Blocks(X))
    with pytest.raises(ValueError, match="takes no weights"):
        AutoKernelRegressor().fit(Blocks(X, y, weight=np.ones(900)))
    rare = AutoKernelClassifier(None, machines=["ridge"], kernel="rbf", cv=2, random_state=0)
    rare._sizes = Sizes(sample=100, other_landmarks=20)
    labels = np.where(y > 0, "a", "b").astype(object)
    labels[np.argsort(y)[-2:]] = "rare"
    with pytest.raises(ValueError, match="label 'rare' is too rare"):
        rare.fit(Blocks(X, labels.astype(str), rows=130))
