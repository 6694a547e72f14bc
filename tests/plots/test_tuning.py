"""Searches, paths and frontiers."""

import math
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.model_selection import GridSearchCV

from gramian import SVC, KernelInterpolator, KernelMachineRegressor, KernelRidge
from gramian.estimators.auto import Leaderboard, Trial
from gramian.kernels import RBF
from gramian.plots import FrontierDisplay, Run, TuningDisplay


@pytest.fixture(scope="module")
def search():
    X, y = load_iris(return_X_y=True)
    grid = {"C": [0.1, 1.0, 10.0], "gamma": [0.01, 0.1], "kernel": ["rbf", "linear"]}
    return GridSearchCV(SVC(), grid, cv=3).fit(X, y)


def test_a_search_over_two_settings_is_a_map(search):
    display = TuningDisplay.from_search(search, params=["C", "gamma"])
    results = search.cv_results_
    for i, C in enumerate(display.values[0]):
        for j, gamma in enumerate(display.values[1]):
            scores = [
                s
                for p, s in zip(results["params"], results["mean_test_score"], strict=True)
                if p["C"] == C and p["gamma"] == gamma
            ]
            assert display.scores[i, j] == max(scores)  # the best, whatever the kernel
    assert np.allclose(display.mesh_.get_array(), display.scores.T)
    best = search.best_params_
    assert [v[i] for v, i in zip(display.values, display.chosen, strict=True)] == [best["C"], best["gamma"]]
    assert int(display.chosen_.get_xdata()[0]) == display.chosen[0]
    assert display.ax_.get_xlabel() == "C"
    assert len(display.ax_.texts) == 6


def test_a_search_over_words_is_a_curve(search):
    display = TuningDisplay.from_search(search, params=["kernel"])
    assert display.values == (["linear", "rbf"],)
    assert [t.get_text() for t in display.ax_.get_xticklabels()] == ["linear", "rbf"]
    assert display.line_.get_ydata()[display.chosen[0]] == pytest.approx(search.best_score_)


def test_by_default_the_settings_that_vary():
    trials = [({"a": 1, "b": "x", "c": None}, 0.5, 0.1), ({"a": 2, "b": "x", "c": None}, 0.7, 0.1)]
    display = TuningDisplay.from_trials(trials, trials[1][0])
    assert display.names == ("a",)
    assert display.chosen == (1,)
    with pytest.raises(ValueError, match="one or two settings"):
        TuningDisplay.from_trials(trials[:1], trials[0][0])


def test_a_path_of_leave_one_out_errors(rng):
    X = rng.standard_normal((40, 2))
    model = KernelRidge(alpha="loo", kernel=RBF(1.0)).fit(X, X[:, 0] + 0.1 * rng.standard_normal(40))
    display = TuningDisplay.from_estimator(model)
    assert display.values[0][display.chosen[0]] == pytest.approx(model.alpha_)
    assert np.allclose(np.sort(display.scores), np.sort(model.loo_path_))
    assert display.ax_.get_xscale() == "log"
    assert display.ax_.get_ylabel() == "mean squared leave-one-out error"
    machine = KernelMachineRegressor(lam="cv", kernel=RBF(1.0)).fit(X, X[:, 0])
    assert TuningDisplay.from_estimator(machine).names == ("lam",)
    with pytest.raises(TypeError, match="keeps no path"):
        TuningDisplay.from_estimator(KernelRidge().fit(X, X[:, 0]))


def test_a_leaderboard_is_a_map_of_losses():
    def trial(name, score, rows=100, baseline=False):
        return Trial(name=name, machine="", score=score, spread=0.1, rows=rows, baseline=baseline)

    trials = [trial("gp, RBF, normal", 0.5), trial("gp, Linear, normal", 0.9), trial("svm, RBF, normal", 0.6)]
    board = Leaderboard([*trials, trial("few, RBF, normal", 0.1, rows=10), trial("mean", 2.0, baseline=True)], "rmse")
    display = TuningDisplay.from_estimator(SimpleNamespace(leaderboard_=board))
    assert display.names == ("machine", "kernel")
    assert display.values == (["gp, normal", "svm, normal"], ["Linear", "RBF"])
    assert np.array_equal(display.scores, [[0.9, 0.5], [np.nan, 0.6]], equal_nan=True)
    assert display.chosen == (0, 1)
    assert display.mesh_.get_cmap().name == "cividis_r"
    assert display.colorbar_.ax.get_ylabel() == "RMSE"


def test_the_frontier_holds_what_nothing_beats():
    runs = [
        Run("exact", 0, 0.9, 5.0, 9e6),
        Run("a", 5, 0.5, 1.0, 1e6),
        Run("a", 9, 0.4, 2.0, 2e6),
        Run("b", 5, 0.8, 2.0),
    ]
    display = FrontierDisplay(runs).plot()
    assert [run.score for run in display.best("time")] == [0.5, 0.8, 0.9]
    assert list(display.frontier_.get_ydata()) == [0.5, 0.8, 0.9]
    assert set(display.series_) == {"exact", "a", "b"}
    assert list(display.series_["a"].get_xdata()) == [1.0, 2.0]
    assert display.ax_.get_xscale() == "log"
    markers = [line.get_marker() for line in display.series_.values()]
    assert len(set(markers)) == 3
    with pytest.raises(ValueError, match="kind must be one of"):
        display.plot(kind="money")


def test_a_frontier_is_run(rng):
    X = rng.standard_normal((160, 2))
    y = np.sin(X[:, 0]) + 0.05 * rng.standard_normal(160)
    display = FrontierDisplay.from_estimator(KernelRidge(1e-2, kernel=RBF(1.0)), X, y, sizes=(4, 40, 4000))
    assert [(run.method, run.size) for run in display.runs] == [
        ("exact", 0),
        ("Nyström", 4),
        ("Nyström", 40),
        ("Fourier", 4),
        ("Fourier", 40),
    ]
    exact, four, forty, *_ = display.runs
    assert exact.score > 0.9
    assert forty.score > four.score
    assert exact.memory > 8 * 120 * 120  # at least K
    assert all(run.seconds > 0 for run in display.runs)
    assert "R²" in display.plot(kind="memory").ax_.get_ylabel()


def test_a_frontier_that_cannot_be_run(rng):
    X = rng.standard_normal((40, 2))
    with pytest.raises(TypeError, match="takes no approximation"):
        FrontierDisplay.from_estimator(KernelInterpolator(), X, X[:, 0])
    with pytest.raises(ValueError, match="methods must be among"):
        FrontierDisplay.from_estimator(KernelRidge(), X, X[:, 0], methods=["Taylor"])
    tracemalloc.start()
    try:
        display = FrontierDisplay.from_estimator(KernelRidge(kernel="rbf"), X, X[:, 0], sizes=())
    finally:
        tracemalloc.stop()
    assert math.isnan(display.runs[0].memory)  # somebody else was counting
