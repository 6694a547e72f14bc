"""The last fit: every way gives about the same answer, and no clock changes its sizes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gramian import AutoKernelClassifier, AutoKernelRegressor
from gramian.data import Blocks
from gramian.estimators.auto.base import Given
from gramian.estimators.auto.plans import Plan, Sizes
from gramian.estimators.auto.refit import refit
from gramian.kernels import RBF
from gramian.progress import Clock

SMALL = Sizes(ladder=(60, 150), folds=200, exact=200)
PROCESS = {"machines": ["gp"], "kernel": 1.0 * RBF(1.0), "cv": 2, "random_state": 0, "n_jobs": 1}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (500, 2))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.05 * rng.standard_normal(500)


def planned(way, landmarks=200):
    return Plan(way, f"{way}: as the test asks", 1.0, landmarks, 0.01)


@pytest.mark.parametrize("way", ["exact", "pcg", "nystroem"])
def test_numbers_by_every_way(rows, way):
    X, y = rows
    model = AutoKernelRegressor(None, **PROCESS)._fit(X[:400], y[:400], way=planned(way))
    assert model.refit_ == f"{way}: as the test asks"
    assert model.machine_ == ("gp" if way == "exact" else "ridge")
    mean, lower, upper = model.predict(X[400:], return_interval=0.9)
    assert np.sqrt(np.mean((mean - y[400:]) ** 2)) < 0.15
    assert np.mean((lower <= y[400:]) & (y[400:] <= upper)) > 0.8
    assert np.mean(upper - lower) < 0.6


@pytest.mark.parametrize("way", ["exact", "pcg", "nystroem"])
def test_classes_by_every_way(rows, way):
    X, y = rows
    labels = np.digitize(y, [0.5, 1.5])
    model = AutoKernelClassifier(None, **PROCESS)._fit(X[:400], labels[:400], way=planned(way))
    assert model.score(X[400:], labels[400:]) > 0.85
    P = model.predict_proba(X[400:])
    assert -np.mean(np.log(P[np.arange(100), labels[400:]])) < 0.45


def test_a_busy_machine_gets_the_same_model(rows):
    """A machine that takes ten times as long, and one with two threads: the same sizes and predictions."""
    X, y = rows
    found = []
    for pace, n_jobs in ((1e-6, 1), (1e-5, 1), (1e-6, 2)):
        model = AutoKernelRegressor(2e-3, **{**PROCESS, "machines": ["gp", "svm"], "n_jobs": n_jobs})
        model._sizes = SMALL
        found.append(model._fit(X, y, Clock(2e-3, pace=pace)))
    assert "landmarks" in found[0].refit_
    for other in found[1:]:
        assert other.refit_ == found[0].refit_
        assert [t.name for t in other.leaderboard_] == [t.name for t in found[0].leaderboard_]
        np.testing.assert_allclose(other.predict(X), found[0].predict(X), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("way", ["exact", "pcg", "nystroem"])
@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_what_would_overrun_is_cut_and_the_model_says_so(rows, make, way):
    X, y = rows
    y = y > 1.0 if make is AutoKernelClassifier else y
    winner = make(None, **PROCESS)._searched(Given(X, y), Clock())[1].winners[0]
    late, planner = replace(winner.resources, clock=Clock(1.0, pace=1e12)), winner.planner
    short = replace(winner, resources=late, planner=replace(planner, limit=1.0, sizes=SMALL))
    last = refit(replace(short, way=planned(way)))
    said = {"exact": "time_limit stopped an exact fit; ", "pcg": "time_limit stopped an iteration over all rows; "}
    assert last.note.startswith(said.get(way, "nystroem: as the test asks"))
    assert winner.response.judge(last.held, last.rows, [np.arange(100)]).score < 0.3


def test_equal_rows_with_other_targets_bound_the_noise():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(-2, 2, (60, 2)), 2, axis=0)
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(120)
    model = AutoKernelRegressor(None, **{**PROCESS, "kernel": 1.0 * RBF(0.01)})
    noise = model.fit(X, y).best_trial_.settings["noise"] * y.var()
    assert 0.04 < noise < 0.2


@pytest.mark.parametrize("machine", ["svm", "machine"])
@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_other_machines_through_landmarks(rows, machine, make):
    """A fast machine with a limit that counts say is too short for all rows."""
    X, y = rows
    y = y > 1.0 if make is AutoKernelClassifier else y
    limit = 1e-3
    model = make(limit, machines=[machine], kernel=RBF(1.0), cv=2, random_state=0, n_jobs=1)
    model._fit(X[:200], y[:200], Clock(limit, pace=1e-9))
    assert model.refit_.startswith("Nyström with 100 landmarks: 200 rows are too many")
    assert model.score(X[400:], y[400:]) > 0.85


# ---- over passes ------------------------------------------------------------------------------------------------


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
    assert "300 rows, exactly" in model.refit_


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
