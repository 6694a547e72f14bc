"""Averages of machines: weights from held-out rows, judged by rows that they were not learned from."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from gramian import AutoKernelClassifier, AutoKernelRegressor, verify
from gramian.estimators.auto import base, team
from gramian.estimators.auto.average import Average, averaged
from gramian.estimators.auto.candidates import Candidate
from gramian.estimators.auto.ladder import Rung
from gramian.estimators.auto.leaderboard import Trial
from gramian.estimators.auto.refit import Refit, refit_others
from gramian.estimators.auto.response import Classes, Numbers
from gramian.estimators.auto.scoring import scoring_of
from gramian.estimators.auto.search import Found
from gramian.estimators.auto.tables import array_columns
from gramian.files import load, save
from gramian.kernels import RBF

RMSE = scoring_of("rmse", classes=False)


def found(response, *outputs):
    """Trials with some outputs for all rows."""
    rows = np.arange(len(outputs[0]))
    step = Rung([(rows, rows)], [rows], rows.size)
    judged = [response.judge(held, rows, [rows]) for held in outputs]
    trials = [Trial(name=str(i), machine="gp", rows=rows.size, **vars(j)) for i, j in enumerate(judged)]
    return [Found(Candidate(t.name, "gp", ""), t, step, held=h) for t, h in zip(trials, outputs, strict=True)]


def test_independent_errors_are_averaged():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(400)
    response = Numbers(y, RMSE)
    noise = rng.standard_normal((3, 400, 1)) * np.r_[0.5, 0.5, 5.0][:, None, None]
    average = averaged(found(response, *(response.targets + noise)), response)
    assert average.helps
    assert set(average.members) == {0, 1}  # the third is hardly worth its weight
    assert average.weights.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(average.weights, 0.5, atol=0.1)
    assert average.judged.score == pytest.approx(0.5 / np.sqrt(2), rel=0.1)


def test_what_is_right_alone_stays_alone():
    rng = np.random.default_rng(0)
    response = Numbers(rng.standard_normal(100), RMSE)
    noise = rng.standard_normal((100, 1))
    assert not averaged(found(response, response.targets + noise, response.targets + 2.0 * noise), response).helps
    assert averaged(found(response, response.targets), response) is None


@pytest.mark.parametrize("count", [2, 4])
def test_classes_are_averaged_whatever_the_units(count):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, count, 600)
    response = Classes(codes, count, scoring_of("error", classes=True))
    hot = np.eye(count)[codes]
    noise = 0.7 * rng.standard_normal((3, 600, count))
    outputs = [hot + noise[0], 100.0 * (hot + noise[1]), rng.standard_normal((600, count))]
    trials = found(response, *outputs)
    average = averaged(trials, response)
    assert average.helps
    assert set(average.members) == {0, 1}
    weights = dict(zip(average.members, average.weights, strict=True))
    assert weights[0] / weights[1] == pytest.approx(100.0, rel=0.5)
    assert average.judged.score < min(t.trial.score for t in trials)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (330, 3))
    return X, np.abs(X[:, 0]) + np.sin(2 * X[:, 1]) * X[:, 2] + 0.3 * rng.standard_normal(330)


@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_an_average_predicts_and_is_kept_in_a_file(make, table, tmp_path, monkeypatch):
    """Whether or not it is the better one."""
    monkeypatch.setattr(team, "averaged", lambda *given: replace(averaged(*given), helps=True))
    X, y = table
    y = np.digitize(y, [0.5, 1.5]) if make is AutoKernelClassifier else y
    model = make(None, machines=["gp", "svm"], kernel=1.0 * RBF(1.0), cv=3, random_state=0, n_jobs=1).fit(
        X[:200], y[:200]
    )
    board = model.leaderboard_
    assert board[0].machine == "average"
    assert board[0].status == "winner"
    assert len(model.weights_) == 1 + len(model.others_) == len(board[0].settings["weights"]) >= 2
    assert {t.name for t in board if t.status == "in the average"} == set(board[0].settings["weights"])
    assert model.refit_ == f"each of {len(model.weights_)} machines to 200 rows, exactly"
    save(model, tmp_path / "model")
    same = load(tmp_path / "model")
    np.testing.assert_array_equal(same.predict(X[200:]), model.predict(X[200:]))
    Z = model.columns_.transform(array_columns(X[200:]))
    parts = [(model.best_, model.scaling_), *((m.model, m.scaling) for m in model.others_)]
    if make is AutoKernelRegressor:
        by_hand = sum(w * m.predict(s.transform(Z)).ravel() for w, (m, s) in zip(model.weights_, parts, strict=True))
        np.testing.assert_allclose(model.predict(X[200:]), model._centre + model._scale * by_hand)
        _, lower, upper = model.predict(X[200:], return_interval=0.9)
        assert 0.8 < np.mean((lower <= y[200:]) & (y[200:] <= upper)) < 0.98
    else:
        np.testing.assert_allclose(same.predict_proba(X[200:]).sum(axis=1), 1.0)
    assert verify(model, X[:200], y[:200]).converged == model.certificate_.converged


@pytest.mark.parametrize("late", [1, 2])
@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_the_score_is_that_of_the_machines_that_time_allowed(make, late, table, monkeypatch):
    """An average of three that loses its last machines to the time limit."""

    def equal(offered, response):
        step, weights = offered[0].rung, np.full(len(offered), 1 / len(offered))
        judged = response.judge(sum(f.held for f in offered) / len(offered), step.held_out, step.parts)
        return Average(tuple(range(len(offered))), weights, judged, helps=True)

    def cut(others):
        return [*refit_others(others[: len(others) - late]), *[None] * late]

    monkeypatch.setattr(team, "averaged", equal)
    monkeypatch.setattr(base, "refit_others", cut)
    X, y = table
    y = np.digitize(y, [0.5, 1.5]) if make is AutoKernelClassifier else y
    model = make(None, kernel=1.0 * RBF(1.0), machines=["gp", "ridge"], cv=3, random_state=0, n_jobs=1).fit(X, y)
    board, best = model.leaderboard_, model.best_trial_
    count = len(model.weights_)
    assert count == 1 + len(model.others_)
    first = next(t for t in board if t.status == "no time for all its machines")
    assert len(first.settings["weights"]) == count + late
    assert model.refit_.count("time_limit left it out") == late
    if count == 1:
        assert best.machine == model.machine_
        assert best.certificate == model.certificate_
        assert not any(t.status == "in the average" for t in board)
    else:
        assert best.name == f"average of {count}"
        assert list(best.settings["weights"].values()) == pytest.approx(list(model.weights_))
        assert {t.name for t in board if t.status == "in the average"} == set(best.settings["weights"])


def test_weights_come_from_last_fits_where_these_have_more_rows(rng):
    """A forest, which has seen all rows, is better in trials on few rows; a kernel on all rows is better in the end."""
    y = rng.standard_normal(2000)
    response, train, test = Numbers(y, RMSE), np.arange(200), np.arange(200, 600)
    step = Rung([(train, test)], [np.arange(400)], 600)
    noise = rng.standard_normal((2, 2000, 1))
    trials = []
    for name, size in (("forest", 0.3), ("kernel", 2.0)):
        held = response.targets[test] + size * noise[0, test]
        judged = vars(response.judge(held, test, step.parts))
        trial = Trial(name=name, machine="gp", rows=600, **judged)
        trials.append(Found(Candidate(name, "gp", ""), trial, step, held=held))
    winners = [SimpleNamespace(found=trial, response=response) for trial in trials]
    marked = {}
    search = SimpleNamespace(mark=lambda found, status: marked.update({found.trial.name: status}))
    search.add_average = lambda members, weights, judged: members[0]
    rows = np.arange(100, 2000)
    lasts = [Refit(None, "ridge", "", response.targets[rows] + e * noise[1, rows], rows) for e in (0.5, 0.01)]
    chosen = team.Team(trials[0], winners, np.array([1.0, 0.0]))
    settled, fitted = chosen.settled(search, lasts)
    assert settled.found is trials[1]
    assert fitted == lasts[1:]
    assert marked == {"forest": "done", "kernel": "done"}
    outputs, used, _ = settled.outputs(fitted)
    assert np.array_equal(used, np.arange(200, 2000))  # rows that taught the kernel in its trial are left out
    np.testing.assert_array_equal(outputs[0], lasts[1].held[100:])
    late, fitted = chosen.settled(search, [lasts[0], None])
    assert late.found is trials[0]
    assert fitted == lasts[:1]
