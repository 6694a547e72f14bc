"""The last fit: every way gives about the same answer, and the way is chosen by what it costs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gramian import AutoKernelClassifier, AutoKernelRegressor
from gramian.estimators.auto import refit
from gramian.estimators.auto.calibration import conformal_reach, fit_temperature
from gramian.estimators.auto.candidates import Candidate
from gramian.estimators.auto.costs import Plan, Rates, measure, plan
from gramian.estimators.auto.leaderboard import Trial
from gramian.estimators.auto.search import Found, rungs
from gramian.estimators.auto.task import Classes, Numbers
from gramian.kernels import RBF

RATES = Rates(entry=5e-9, flop=2e-11, product=3e-10)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (500, 2))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.05 * rng.standard_normal(500)


def forced(monkeypatch, way):
    monkeypatch.setattr(refit, "_way", lambda *_, **__: Plan(way, 1.0, f"{way}: as the test asks", landmarks=200))


@pytest.mark.parametrize("way", ["exact", "pcg", "nystroem"])
def test_numbers_by_every_way(monkeypatch, rows, way):
    X, y = rows
    forced(monkeypatch, way)
    model = AutoKernelRegressor(None, machines=["gp"], kernel=1.0 * RBF(1.0), cv=2, random_state=0, n_jobs=1)
    model.fit(X[:400], y[:400])
    assert model.refit_ == f"{way}: as the test asks"
    assert model.machine_ == ("gp" if way == "exact" else "ridge")
    mean, lower, upper = model.predict(X[400:], return_interval=0.9)
    assert np.sqrt(np.mean((mean - y[400:]) ** 2)) < 0.15
    assert np.mean((lower <= y[400:]) & (y[400:] <= upper)) > 0.8
    assert np.mean(upper - lower) < 0.6


@pytest.mark.parametrize("way", ["exact", "pcg", "nystroem"])
def test_classes_by_every_way(monkeypatch, rows, way):
    X, y = rows
    forced(monkeypatch, way)
    labels = np.digitize(y, [0.5, 1.5])
    model = AutoKernelClassifier(None, machines=["gp"], kernel=1.0 * RBF(1.0), cv=2, random_state=0, n_jobs=1)
    model.fit(X[:400], labels[:400])
    assert model.score(X[400:], labels[400:]) > 0.85
    P = model.predict_proba(X[400:])
    assert -np.mean(np.log(P[np.arange(100), labels[400:]])) < 0.45


def test_an_iteration_that_leads_nowhere_is_replaced_by_landmarks(monkeypatch, rows):
    X, y = rows
    ways = iter([Plan("pcg", 1.0, "first"), Plan("nystroem", 1.0, "then", landmarks=100)])
    monkeypatch.setattr(refit, "_way", lambda *_, **__: next(ways))
    monkeypatch.setattr(refit, "USELESS", 0.0)
    model = AutoKernelRegressor(None, machines=["gp"], kernel=1.0 * RBF(1.0), cv=2, random_state=0, n_jobs=1)
    assert model.fit(X, y).refit_ == "the iteration did not converge"


def test_the_way_is_chosen_by_time_and_memory():
    chosen = {n: plan(n, 1, RATES, 60.0, 8 * 10**9, loo=False) for n in (1000, 30_000, 300_000)}
    assert [p.way for p in chosen.values()] == ["exact", "pcg", "nystroem"]
    assert all(p.seconds < 60 for p in chosen.values())
    assert plan(20_000, 1, RATES, 600.0, 5 * 10**8, loo=False).way == "nystroem"
    fast, slow = (plan(300_000, 1, RATES, left, 10**9, loo=False).landmarks for left in (10.0, 100.0))
    assert 30 <= fast < slow
    assert "too many" in chosen[300_000].reason


def test_rates_are_measured(rows):
    rates = measure(RBF(1.0), rows[0], 3, 1)
    assert all(0 < value < 1e-3 for value in (rates.entry, rates.flop, rates.product))


def test_support_vectors_of_too_many_rows_do_not_win():
    common = {"kernel": "", "settings": {}, "score": 1.0, "spread": 0.0, "predict_seconds": 0.0, "rows": 100}
    y = np.arange(3000.0)
    step = rungs(Numbers(y, "rmse"), 3000, 5, 0)[0]
    for machine, seconds, possible in (("svm", 5.0, False), ("svm", 1e-5, True), ("gp", 5.0, True)):
        trial = Trial(name="t", machine=machine, fit_seconds=seconds, **common)
        found = Found(Candidate("t", machine, "standard"), trial, rung=step, fits=3)
        assert refit.affordable(found, 200_000, 60.0) is possible
    assert refit.affordable(replace(found, rung=None), 200_000, 60.0)


# ---- the steps --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [10, 149, 150, 1000, 2000, 2001, 3500, 10_000])
def test_steps_hold_out_what_they_judge_by(n):
    rng = np.random.default_rng(0)
    for task in (Numbers(rng.standard_normal(n), "rmse"), Classes(rng.integers(0, 3, n), 3, "error")):
        steps = rungs(task, n, 5, 0)
        assert len(steps) == (1 if n < 150 else 2 if n <= 2000 else 3)
        for step in steps:
            for train, test in step.splits:
                assert not set(train) & set(test)
            assert sorted(np.concatenate(step.parts)) == list(range(step.held_out.size))
        assert all(a.learning <= b.learning for a, b in pairwise(steps))


def test_every_class_is_in_the_first_step():
    codes = np.zeros(5000, dtype=np.intp)
    codes[:40], codes[40:60] = 1, 2
    step = rungs(Classes(codes, 3, "error"), 5000, 5, 0)[0]
    assert set(codes[step.splits[0][0]]) == {0, 1, 2}


# ---- calibration ------------------------------------------------------------------------------------------------


def test_temperature_is_the_most_likely():
    rng = np.random.default_rng(0)
    logits = rng.standard_normal((4000, 3))
    P = np.exp(2.0 * logits)
    P /= P.sum(axis=1, keepdims=True)
    codes = np.array([rng.choice(3, p=p) for p in P])
    assert fit_temperature(logits, codes) == pytest.approx(2.0, rel=0.1)
    sure = 10.0 * np.eye(3)[codes]
    assert fit_temperature(sure, codes) < 10.0


def test_conformal_reach_covers():
    rng = np.random.default_rng(0)
    held, new = rng.standard_normal(500), rng.standard_normal(20_000)
    assert np.mean(np.abs(new) <= conformal_reach(held, 0.9)) == pytest.approx(0.9, abs=0.03)
    assert conformal_reach(np.array([1.0, -2.0]), 0.99) == 2.0


# ---- support vectors and any loss -------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["svm", "machine"])
@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_other_machines_through_landmarks(monkeypatch, rows, machine, make):
    X, y = rows
    monkeypatch.setattr(refit, "affordable", lambda *_: False)
    y = y > 1.0 if make is AutoKernelClassifier else y
    model = make(None, machines=[machine], kernel=RBF(1.0), cv=2, random_state=0, n_jobs=1).fit(X[:200], y[:200])
    assert model.refit_.startswith("Nyström with 100 landmarks: 200 rows are too many")
    assert model.score(X[400:], y[400:]) > 0.85
