"""The last fit: every way gives about the same answer, and the way is chosen by what it costs."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from gramian import SVC, AutoKernelClassifier, AutoKernelRegressor
from gramian.estimators.auto import base, costs, ladder, refit
from gramian.estimators.auto.calibration import conformal_reach, fit_softmax, fit_temperature
from gramian.estimators.auto.candidates import Candidate
from gramian.estimators.auto.costs import Effort, Rates, efforts, measure
from gramian.estimators.auto.fitting import outputs
from gramian.estimators.auto.ladder import rungs
from gramian.estimators.auto.leaderboard import Trial
from gramian.estimators.auto.plans import Plan, part, plan, reserve
from gramian.estimators.auto.search import Found
from gramian.estimators.auto.task import Classes, Numbers
from gramian.kernels import RBF

RATES = Rates(entry=5e-9, flop=2e-11, product=3e-10)
RIDGES = [Effort(1e-4, 60, 2000), Effort(2e-3, 20, 2000)]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (500, 2))
    return X, np.sin(3 * X[:, 0]) + X[:, 1] ** 2 + 0.05 * rng.standard_normal(500)


def forced(monkeypatch, way):
    monkeypatch.setattr(refit, "_way", lambda *_, **__: Plan(way, 1.0, f"{way}: as the test asks", 200, 0.01))


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
    forced(monkeypatch, "pcg")
    monkeypatch.setattr(refit, "USELESS", 0.0)
    model = AutoKernelRegressor(None, machines=["gp"], kernel=1.0 * RBF(1.0), cv=2, random_state=0, n_jobs=1)
    assert model.fit(X, y).refit_.startswith("an iteration over all rows did not converge; Nyström with 250 landmarks")


@pytest.mark.parametrize(("count", "note"), [(3, "400 of 500 rows predict others better than 3"), (200, "as")])
def test_a_part_of_the_rows_stands_against_landmarks(monkeypatch, rows, count, note):
    X, y = rows
    monkeypatch.setattr(refit, "_way", lambda *_, **__: Plan("nystroem", 1.0, "as the test asks", count))
    model = AutoKernelRegressor(60, machines=["gp"], kernel=1.0 * RBF(1.0), cv=2, random_state=0, n_jobs=1).fit(X, y)
    assert model.refit_.startswith(note)
    assert model.certificate_.converged
    assert model.residuals_.size == 100
    assert model.residuals_.std() < 0.2


def test_the_way_is_chosen_by_time_and_memory():
    chosen = {n: plan(n, 1, RATES, RIDGES, 60.0, 8 * 10**9, loo=False) for n in (1000, 30_000, 300_000)}
    assert [p.way for p in chosen.values()] == ["exact", "pcg", "nystroem"]
    assert all(p.seconds < 60 for p in chosen.values())
    fast, slow = (plan(300_000, 1, RATES, RIDGES, left, 10**9, loo=False).landmarks for left in (10.0, 100.0))
    assert 100 <= fast < slow
    assert "too many" in chosen[300_000].reason


def test_the_ridge_is_as_small_as_the_time_allows():
    ridges = [plan(30_000, 1, RATES, RIDGES, left, 8 * 10**9, loo=True).ridge for left in (50.0, 200.0)]
    assert ridges == [2e-3, 1e-4]


def test_blocks_that_do_not_fit_in_memory_take_time():
    little, much = (plan(30_000, 1, RATES, RIDGES, 1e3, memory, loo=True) for memory in (4 * 10**8, 2 * 10**9))
    assert little.way == much.way == "pcg"
    assert little.seconds > 2 * much.seconds


def test_more_time_more_rows_of_a_part():
    few, many = (part(300_000, 1, RATES, RIDGES, left, 2 * 10**9)[0] for left in (5.0, 50.0))
    assert 2000 < few < many < 300_000


def test_what_is_reserved_is_what_is_needed():
    common = {"memory": 8 * 10**9, "loo": False, "ridges": RIDGES}
    assert reserve(3000, 1, RATES, 300.0, **common) == 30.0
    assert reserve(10**6, 1, RATES, 300.0, **common) == 180.0
    kept = reserve(30_000, 1, RATES, 300.0, **common)
    assert plan(30_000, 1, RATES, RIDGES, kept, 8 * 10**9, loo=False).ridge == 1e-4


def test_smaller_ridges_take_more_iterations(rows):
    X, y = rows
    found = efforts(RBF(1.0), X, y[:, None], 1e-9, 10**8, 1)
    assert [effort.ridge for effort in found] == list(costs.FLOORS)
    assert found[0].iterations > found[-1].iterations
    assert [effort.ridge for effort in efforts(RBF(1.0), X, y[:, None], 0.5, 10**8, 1)] == [0.5]


def test_the_search_ends_by_what_its_best_will_need(monkeypatch, rows):
    monkeypatch.setattr(ladder, "LADDER", (60, 150))
    for module, name in ((ladder, "FOLDS_ROWS"), (base, "LEARN_ROWS")):
        monkeypatch.setattr(module, name, 200)
    asked = []
    monkeypatch.setattr(base, "needed", lambda found, *_: asked.append(found.trial.name) or 59.9)
    model = AutoKernelRegressor(60, machines=["gp"], random_state=0, n_jobs=1).fit(*rows)
    assert len(asked) == 1
    assert {trial.rows for trial in model.leaderboard_ if trial.machine == "gp"} == {500}
    assert any(trial.status == "dropped" for trial in model.leaderboard_)


@pytest.mark.parametrize("machines", ["auto", ["svm"]])
def test_the_last_fit_needs_what_it_takes(monkeypatch, rows, machines):
    monkeypatch.setattr(ladder, "FOLDS_ROWS", 200)
    monkeypatch.setattr(ladder, "LADDER", (60, 150))
    kept = []
    monkeypatch.setattr(base, "LEARN_ROWS", 200)
    monkeypatch.setattr(base, "needed", lambda *known: kept.append(refit.needed(*known)) or kept[-1])
    AutoKernelRegressor(60, machines=machines, kernel=1.0 * RBF(1.0), random_state=0, n_jobs=1).fit(*rows)
    assert len(kept) == 1
    assert 6.0 <= kept[0] <= 36.0


def test_equal_rows_with_other_targets_bound_the_noise():
    rng = np.random.default_rng(0)
    X = np.repeat(rng.uniform(-2, 2, (60, 2)), 2, axis=0)
    y = np.sin(3 * X[:, 0]) + 0.3 * rng.standard_normal(120)
    model = AutoKernelRegressor(None, machines=["gp"], kernel=1.0 * RBF(0.01), cv=2, random_state=0, n_jobs=1)
    noise = model.fit(X, y).best_trial_.settings["noise"] * y.var()
    assert 0.04 < noise < 0.2


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


def test_a_better_one_that_is_too_slow_is_passed_over(monkeypatch, rows):
    X, y = rows
    monkeypatch.setattr(base, "affordable", lambda found, *_: found.trial.name.endswith("normal, kernel as given"))
    model = AutoKernelRegressor(None, machines=["ridge"], kernel=RBF(1.0), cv=2, random_state=0, n_jobs=1)
    model.fit(X[:200], y[:200])
    assert model.best_trial_.settings["scaling"] == "normal"
    assert model.leaderboard_.best == model.best_trial_


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


def test_constants_are_the_most_likely():
    rng = np.random.default_rng(0)
    logits, constants = rng.standard_normal((6000, 3)), np.array([0.8, -0.2, -0.6])
    P = np.exp(2.0 * logits + constants)
    P /= P.sum(axis=1, keepdims=True)
    codes = np.array([rng.choice(3, p=p) for p in P])
    factor, found = fit_softmax(logits, codes)
    assert factor == pytest.approx(2.0, rel=0.1)
    np.testing.assert_allclose(found, constants, atol=0.1)
    assert np.linalg.norm(found) < np.linalg.norm(constants)  # drawn to zero
    # A few rows hardly move them.
    assert np.abs(fit_softmax(np.zeros((20, 3)), np.zeros(20, dtype=int))[1]).max() < 0.2
    assert not fit_softmax(np.zeros((1, 3)), np.array([0]))[1].any()


def test_pairs_of_a_machine_rank_classes_better_than_votes(rng):
    """Three classes in a row: votes alone cannot tell a row near the boundary from one far away."""
    X = rng.uniform(-3.0, 3.0, (600, 1))
    codes = np.digitize(X[:, 0] + 0.5 * rng.standard_normal(600), [-1.0, 1.0])
    task, train, test = Classes(codes, 3, "error"), np.arange(300), np.arange(300, 600)
    pairs, votes = (
        outputs("svm", SVC(kernel=RBF(1.0), decision_function_shape=shape).fit(X[train], codes[train]), task, X[test])
        for shape in ("ovo", "ovr")
    )
    assert np.all(pairs.max(axis=1) <= 0.0)
    assert np.mean(pairs.argmax(axis=1) == votes.argmax(axis=1)) > 0.99
    a, b = (task.judge(each, test, [np.arange(300)]).figures["log_loss"] for each in (pairs, votes))
    assert a < 0.9 * b


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
