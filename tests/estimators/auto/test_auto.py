"""AutoKernelRegressor and AutoKernelClassifier: the contract, the search, mixed tables, limits, bad input."""

from __future__ import annotations

import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import TimeSeriesSplit, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian import AutoKernelClassifier, AutoKernelRegressor, load, save
from gramian.estimators.auto import candidates, search
from gramian.estimators.auto.plans import Sizes
from gramian.estimators.auto.tables import TableWarning
from gramian.kernels import RBF, Matern
from gramian.progress import Clock
from gramian.verification import verify
from peak import peak_bytes

QUICK = {"time_limit": None, "cv": 2, "n_jobs": 1}


@parametrize_with_checks(
    [
        AutoKernelRegressor(machines=["ridge"], kernel=RBF(2.0), **QUICK),
        AutoKernelRegressor(machines=["gp"], kernel=1.0 * Matern(2.0), **QUICK),
        AutoKernelClassifier(machines=["svm"], kernel=RBF(2.0), **QUICK),
        AutoKernelClassifier(machines=["gp"], kernel=1.0 * Matern(2.0), **QUICK),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@parametrize_with_checks([AutoKernelRegressor(), AutoKernelClassifier()])
def test_scikit_learn_contract_as_constructed(estimator, check, monkeypatch):
    """With its own time limit; fewer kernels are tried, and no machines that follow them, for the sake of the suite."""
    for name in ("NUMBERS_ORDER", "CLASSES_ORDER", "PLAIN_ORDER"):
        monkeypatch.setattr(candidates, name, getattr(candidates, name)[:1])
    monkeypatch.setattr(search, "LEADERS", 0)
    check(estimator)


@pytest.fixture(scope="module")
def waves():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (260, 3))
    y = np.sin(3 * X[:, 0]) + 0.5 * X[:, 1] + 0.1 * rng.standard_normal(260)
    return X[:200], y[:200], X[200:], y[200:]


@pytest.fixture(scope="module")
def fitted(waves):
    return AutoKernelRegressor(None, cv=3, random_state=0, n_jobs=1).fit(*waves[:2])


def people(n, seed=0):
    """A table with numbers, categories, booleans, dates, text and gaps; the target needs all of them but the id."""
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 70, n)
    city = rng.choice(["Oslo", "Rome", "Lima"], n)
    member = rng.random(n) < 0.5
    day = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 300, n), unit="D")
    mood = rng.choice(["good", "bad"], n)
    filler = rng.choice(["it was a", "we had one very", "this is such a"], n)
    note = [f"{f} {m} day number {i}" for i, (f, m) in enumerate(zip(filler, mood, strict=True))]
    y = np.sin(age / 8) + (city == "Rome") + 0.5 * member + (mood == "good") + 0.1 * rng.standard_normal(n)
    frame = pd.DataFrame({"age": age, "city": city, "member": member, "day": day, "note": note})
    frame["id"] = [f"p{i}" for i in range(n)]
    frame.loc[rng.random(n) < 0.1, "age"] = np.nan
    frame.loc[rng.random(n) < 0.1, "city"] = None
    return frame, y


# ---- the search -------------------------------------------------------------------------------------------------


def test_beats_the_baselines_and_says_by_how_much(waves, fitted):
    *_, Z, z = waves
    error = np.sqrt(np.mean((fitted.predict(Z) - z) ** 2))
    assert fitted.best_trial_.score < 0.5 * fitted.baseline_
    assert error < 1.5 * fitted.best_trial_.score
    board = fitted.leaderboard_
    assert {"mean", "linear"} <= {t.name for t in board if t.baseline}
    assert {t.machine for t in board} == {"baseline", "linear", "gp", "ridge", "svm", "machine", "average"}
    assert board.best == fitted.best_trial_
    assert fitted.best_trial_.status == "winner"
    assert fitted.best_trial_.name in str(board)
    assert fitted.certificate_.converged
    assert np.isclose(board.baseline.score, fitted.baseline_)
    assert len({t.name for t in board}) == len(board)


@pytest.mark.parametrize("classes", [False, True])
def test_a_linear_model_wins_where_nothing_is_better(classes, tmp_path):
    """It is fitted to all rows as scikit-learn fits it, saved, certified, explained."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    f = X @ [1.0, -2.0, 0.0] + rng.standard_normal(120)
    make, y = (AutoKernelClassifier, np.where(f > 0, "up", "down")) if classes else (AutoKernelRegressor, f)
    model = make(None, cv=3, random_state=0, n_jobs=1).fit(X, y)
    best = model.best_trial_
    assert (best.machine, best.status, best.score) == ("linear", "winner", model.baseline_)
    assert model.leaderboard_.best == best
    assert "A linear model does as well as any kernel" in model.explain()
    assert model.others_ == ()
    Z = model.scaling_.transform(X)
    if classes:
        C = best.settings["C"]
        peer = LogisticRegression(C=C, tol=1e-8).fit(Z, y)
        np.testing.assert_allclose(model.best_.decision_function(Z), peer.decision_function(Z), atol=0.02)
    else:
        slopes = np.polynomial.polynomial.polyfit(model.predict(X), f, 1)
        np.testing.assert_allclose(slopes, [0.0, 1.0], atol=0.05)
        assert np.std(np.diff(model.predict(np.linspace(0, 1, 5)[:, None] * np.ones(3)))) < 1e-10
    assert verify(model, X, y).converged
    save(model, tmp_path / "model")
    np.testing.assert_array_equal(load(tmp_path / "model").predict(X), model.predict(X))
    alone = make(None, machines=["gp"], cv=3, random_state=0, n_jobs=1).fit(X, y)
    assert alone.machine_ != "linear"
    assert alone.best_trial_.machine == "gp"
    assert "A linear model does as well" in alone.explain()
    only = make(None, machines=["linear"], random_state=0, n_jobs=1).fit(X, y)
    assert {t.machine for t in only.leaderboard_} == {"linear", "baseline"}
    with pytest.raises(ValueError, match="a linear model takes no kernel"):
        make(None, machines=["linear"], kernel="rbf").fit(X, y)


def test_a_linear_model_is_as_sure_as_all_rows_make_it():
    """It was chosen on few rows, whose fit is penalised so much that it is too unsure."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((1200, 20))
    p = 1.0 / (1.0 + np.exp(-2.0 * X[:, 0] - X[:, 1:4].sum(axis=1)))
    y = (rng.random(1200) < p).astype(int)
    model = AutoKernelClassifier(None, machines=["linear"], random_state=0, n_jobs=1)
    model._sizes = Sizes(ladder=(60,), folds=100)
    model.fit(X[:900], y[:900])
    peer = LogisticRegression().fit(X[:900], y[:900])
    loss = [log_loss(y[900:], each.predict_proba(X[900:])) for each in (model, peer)]
    assert model.best_trial_.rows < 1000
    assert loss[0] < 1.02 * loss[1]
    slope = np.log(model.predict_proba(X)[:, 1] / model.predict_proba(X)[:, 0])
    assert 0.8 < np.polyfit(peer.decision_function(X), slope, 1)[0] < 1.2


def test_what_was_found_in_words(fitted):
    told = fitted.explain()
    tried, won, columns, proof = told.split("\n\n")
    assert tried.startswith(f"{len(fitted.leaderboard_) - 1} models were tried in ")
    assert "1 linear model" in tried
    assert "lower than a linear model, which has 0." in won
    assert "Always predicting the mean gives 0." in won
    assert columns == "It uses 3 of 3 columns: 3 numbers (column 0, column 1, column 2)."
    assert "The certificate says that the fit is as exact as was asked for" in proof


def test_same_seed_same_winner(waves, fitted):
    X, y, Z, _ = waves
    again = clone(fitted).fit(X, y)
    np.testing.assert_array_equal(again.predict(Z), fitted.predict(Z))
    assert [t.name for t in again.leaderboard_] == [t.name for t in fitted.leaderboard_]


def test_intervals_of_a_process_and_of_others(waves):
    X, y, Z, z = waves
    for machine in ("gp", "ridge", "svm", "machine"):
        model = AutoKernelRegressor(None, machines=[machine], cv=3, random_state=0, n_jobs=1).fit(X[:140], y[:140])
        assert model.machine_ == machine
        mean, std = model.predict(Z, return_std=True)
        np.testing.assert_allclose(mean, model.predict(Z))
        same, lower, upper = model.predict(Z, return_interval=0.9)
        np.testing.assert_allclose(same, mean)
        assert np.all(std > 0)
        assert 0.75 < np.mean((lower <= z) & (z <= upper)) <= 1.0


def test_units_do_not_matter(waves):
    X, y, Z, _ = waves
    model = AutoKernelRegressor(None, machines=["gp"], kernel=1.0 * RBF(1.0), cv=2, random_state=0, n_jobs=1)
    plain = clone(model).fit(X, y)
    moved = clone(model).fit(1000.0 * X + 7.0, 50.0 * y - 3.0)
    np.testing.assert_allclose(moved.predict(1000.0 * Z + 7.0), 50.0 * plain.predict(Z) - 3.0, rtol=1e-4, atol=1e-3)


def test_many_rows_climb_the_ladder():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (400, 2))
    seen = []
    model = AutoKernelRegressor(None, machines=["gp", "svm"], random_state=0, n_jobs=1)
    model._observer, model._sizes = seen.append, Sizes(ladder=(60, 150), folds=200)
    model.fit(X, np.sin(3 * X[:, 0]))
    rows = {t.status: t.rows for t in model.leaderboard_}
    assert model.best_trial_.rows == 400
    assert rows["dropped"] == 400
    assert len(seen) > len(model.leaderboard_)
    assert seen[-1].doing == "the winner on all rows"
    assert model.predict(X).std() > 0.5


def test_a_kernel_of_ones_own(waves):
    X, y, Z, z = waves
    model = AutoKernelRegressor(None, kernel=1.0 * RBF([1.0, 1.0, 1.0]), cv=2, random_state=0, n_jobs=1).fit(X, y)
    assert all("RBF" in t.kernel for t in model.leaderboard_ if t.machine == "gp")
    assert np.sqrt(np.mean((model.predict(Z) - z) ** 2)) < 0.3
    named = AutoKernelRegressor(None, kernel="rbf", machines=["ridge"], cv=2, n_jobs=1).fit(X, y)
    assert "RBF" in repr(named.best_.kernel_)


def test_a_trial_that_fails_is_on_the_board(waves):
    X, y, *_ = waves
    model = AutoKernelRegressor(None, machines=["gp"], kernel=RBF([1.0, 1.0]), cv=2, n_jobs=1)
    with pytest.raises(ValueError, match="no machine could be fitted; the first: gp, standard, kernel as given"):
        model.fit(X, y)


# ---- mixed tables -----------------------------------------------------------------------------------------------


def test_text_categories_dates_and_gaps():
    frame, y = people(300)
    new, z = people(100, seed=1)
    model = AutoKernelRegressor(None, machines=["gp"], cv=2, random_state=0, n_jobs=1).fit(frame, y)
    kinds = str(model.columns_)
    told = model.explain()
    for part in (
        "It uses 5 of 6 columns: 1 number (age), 1 yes or no (member), 1 date (day), 1 category (city) and 1 text",
        "Gaps in age are filled with the median and marked.",
        "Left out: id (an identifier, 300 different values in 300 rows).",
    ):
        assert part in told
    for line in ("age: number, a missing value", "city: category with 3", "member: boolean", "day: date", "note: text"):
        assert line in kinds
    assert "id: left out" in kinds
    error = np.sqrt(np.mean((model.predict(new) - z) ** 2))
    assert error < 0.5 * z.std()
    assert model.best_trial_.score < 0.7 * model.baseline_
    np.testing.assert_array_equal(model.feature_names_in_, frame.columns)
    unseen = new.assign(city="Atlantis", age=np.nan, note=None)
    with pytest.warns(UserWarning, match="100 rows hold a level of 'city' that the fit had not seen"):
        assert np.isfinite(model.predict(unseen)).all()


def test_the_same_table_from_polars():
    frame, y = people(150)
    model = AutoKernelRegressor(None, machines=["ridge"], cv=2, random_state=0, n_jobs=1)
    table = pl.DataFrame({name: frame[name].astype(object).where(frame[name].notna(), None).tolist() for name in frame})
    ours = clone(model).fit(frame, y).predict(frame)
    np.testing.assert_allclose(clone(model).fit(table, pl.Series(y)).predict(table), ours)


def test_only_text():
    frame, y = people(200)
    model = AutoKernelRegressor(None, machines=["gp", "ridge"], cv=2, random_state=0, n_jobs=1)
    model.fit(frame[["note"]], y)
    assert model.best_trial_.score < model.leaderboard_[-1].score


# ---- classes ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("machine", ["gp", "ridge", "svm", "machine"])
@pytest.mark.parametrize("count", [2, 3])
def test_classes_and_probabilities(machine, count):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((220, 2))
    y = np.array(["far", "near", "side"])[np.where(X[:, 0] > 0.8, count - 1, (X**2).sum(axis=1) < 1.0)]
    model = AutoKernelClassifier(None, machines=[machine], cv=2, random_state=0, n_jobs=1).fit(X[:140], y[:140])
    P = model.predict_proba(X[140:])
    assert model.best_trial_.score < 0.6 * model.leaderboard_.baseline.score
    assert np.mean(model.predict(X[140:]) == y[140:]) > 0.85
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X[140:]), model.classes_[np.argmax(P, axis=1)])
    np.testing.assert_allclose(model.predict_log_proba(X[140:]), np.log(P))
    assert model.score(X[140:], y[140:]) > 0.85
    assert -np.mean(np.log(P[np.arange(80), np.searchsorted(model.classes_, y[140:])])) < 0.5
    assert set(model.best_trial_.figures) == {"error", "log_loss", "calibration"} | (
        {"roc_auc"} if count == 2 else set()
    )
    assert model.decision_function(X[140:]).shape == ((80,) if count == 2 else (80, 3))


def test_a_class_with_one_row():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 2))
    y = (X[:, 0] > 0).astype(int)
    y[3] = 7
    for machines in (["svm"], ["machine"], ["gp"]):
        model = AutoKernelClassifier(None, machines=machines, cv=3, random_state=0, n_jobs=1).fit(X, y)
        assert model.predict_proba(X).shape == (90, 3)


def test_fewer_rows_of_each_class_than_folds():
    X = np.vstack([np.zeros((3, 2)), np.ones((3, 2))]) + 0.01 * np.arange(12).reshape(6, 2)
    model = AutoKernelClassifier(None, machines=["ridge"], random_state=0, n_jobs=1)
    assert model.fit(X, [0, 0, 0, 1, 1, 1]).score(X, [0, 0, 0, 1, 1, 1]) == 1.0
    with pytest.raises(ValueError, match="every class has only one row, so none can be held out"):
        model.fit(X[[0, 3]], ["a", "b"])


def test_scoring_by_log_loss():
    X = np.random.default_rng(0).standard_normal((80, 2))
    model = AutoKernelClassifier(None, scoring="log_loss", machines=["ridge"], cv=2, n_jobs=1).fit(X, X[:, 0] > 0)
    assert model.leaderboard_.metric == "log_loss"
    assert model.best_trial_.score == model.best_trial_.figures["log_loss"]


# ---- use --------------------------------------------------------------------------------------------------------


def test_in_a_pipeline_and_under_cross_validation(waves):
    X, y, Z, _ = waves
    inner = AutoKernelRegressor(None, machines=["ridge"], cv=2, random_state=0)
    pipeline = make_pipeline(FunctionTransformer(), inner)
    assert cross_val_score(pipeline, X, y, cv=2).mean() > 0.3
    model = inner.fit(X, y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(Z), model.predict(Z))


def test_interrupted_it_is_as_before(waves, monkeypatch):
    X, y, Z, _ = waves
    model = AutoKernelRegressor(None, machines=["ridge"], cv=2, random_state=0, n_jobs=1)

    def interrupt(step):
        raise KeyboardInterrupt

    model._observer = interrupt
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    with pytest.raises(NotFittedError):
        model.predict(Z)
    model._observer = None
    before = model.fit(X, y).predict(Z)
    model._observer = interrupt
    with pytest.raises(KeyboardInterrupt):
        model.fit(X[:50], y[:50])
    np.testing.assert_array_equal(model.predict(Z), before)


def test_no_warnings_escape_from_trials(waves):
    X, y, *_ = waves
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        AutoKernelRegressor(None, machines=["gp"], cv=2, random_state=0, n_jobs=1).fit(X, np.round(y))


def test_too_short_a_limit_is_one_clear_error(waves):
    X, y, *_ = waves
    with pytest.raises(TimeoutError, match="time_limit=1e-06 s is too short for one trial"):
        AutoKernelRegressor(1e-6).fit(X, y)


@pytest.mark.parametrize(
    ("make", "X", "y", "error", "message"),
    [
        (AutoKernelRegressor(machines=["forest"]), [[1.0], [2.0]], [1, 2], ValueError, "machines must be 'auto' or"),
        (AutoKernelRegressor(machines=[]), [[1.0], [2.0]], [1, 2], ValueError, "machines must be 'auto' or"),
        (AutoKernelRegressor(scoring="f1"), [[1.0], [2.0]], [1, 2], ValueError, "scoring must be one of rmse, mae"),
        (
            AutoKernelRegressor(),
            [[1.0], [1.0]],
            [1, 2],
            ValueError,
            "no usable column: column 0: left out: every value is 1",
        ),
        (AutoKernelRegressor(), [[1.0], [2.0]], None, ValueError, "requires y to be passed"),
        (AutoKernelRegressor(), [[1.0], [2.0]], [1.0, np.nan], ValueError, "contains NaN"),
        (AutoKernelClassifier(), [[1.0], [2.0]], ["a", "a"], ValueError, "y has only 1 class"),
        (AutoKernelClassifier(), [[1.0], [2.0]], ["a"], ValueError, "inconsistent numbers of samples"),
    ],
)
def test_bad_input(make, X, y, error, message):
    with pytest.raises(error, match=message):
        make.fit(X, y)


@pytest.mark.parametrize("make", [AutoKernelRegressor, AutoKernelClassifier])
def test_columns_that_say_nothing_and_few_rows(make):
    """Constants, gaps alone, one category, the same column twice: left out or harmless, and so told; new levels too."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(15)}).assign(k=3.0, gaps=np.nan, none=None, one="a")
    frame = frame.assign(again=frame["x"], city=["Ulm", "Rome", "Lima"] * 5)
    y = np.where(frame["x"] > 0, 1, 0) if make is AutoKernelClassifier else frame["x"] + 1.0
    for table, targets in ((frame, y), (frame[:7], y[:7])):
        model = make(None, machines=["ridge", "linear"], random_state=0, n_jobs=1).fit(table, targets)
        read = {column.name: str(column) for column in model.columns_.columns}
        assert {name for name, told in read.items() if told.startswith("left out: every value is ")} == {
            *("k", "gaps", "none", "one")
        }
        assert np.isfinite(model.predict(table).astype(float)).all()
        with pytest.warns(TableWarning, match="1 row holds a level of 'city' that the fit had not seen"):
            model.predict(table.assign(city=["Oslo", *table["city"][1:]]))
    with pytest.raises(ValueError, match="contains infinity in x; leave such values out"):
        make().fit(frame.assign(x=[np.inf, *frame["x"][1:]]), y)
    with pytest.raises(ValueError, match="contains infinity in x; leave such values out"):
        model.predict(frame.assign(x=-np.inf))


def test_bad_prediction_requests(fitted, waves):
    Z = waves[2]
    with pytest.raises(ValueError, match="At most one of return_std and return_interval"):
        fitted.predict(Z, return_std=True, return_interval=0.5)
    with pytest.raises(ValueError, match="must be a probability"):
        fitted.predict(Z, return_interval=90)


def test_a_refit_that_stops_short_warns(waves, monkeypatch):
    X, y, *_ = waves
    short = AutoKernelRegressor(None, machines=["ridge"], cv=2, n_jobs=1)
    whole = short._keep

    def stopped(*found):
        whole(*found)
        short.certificate_ = replace(short.certificate_, converged=False)

    monkeypatch.setattr(short, "_keep", stopped)
    with pytest.warns(ConvergenceWarning, match="NOT converged"):
        short.fit(X, y)


def test_a_better_one_that_is_too_slow_is_passed_over(waves):
    """A limit that counts say is too short for support vectors on all rows, on a machine with time for every trial."""
    X, y, *_ = waves
    model = AutoKernelRegressor(0.02, machines=["ridge", "svm"], kernel=RBF(1.0), cv=2, random_state=0, n_jobs=1)
    model._fit(X, y, Clock(0.02, pace=1e-6))
    assert {model.machine_, *(m.machine for m in model.others_)} == {"ridge"}
    assert model.leaderboard_.best == model.best_trial_
    alone = min(t.score for t in model.leaderboard_ if t.machine == "ridge")
    better = [t for t in model.leaderboard_ if t.machine == "svm" and t.ok and t.score < alone]
    assert all(t.status == "too slow for all rows" for t in better if t.rows == model.best_trial_.rows)
    curved = AutoKernelRegressor(0.02, machines=["svm", "linear"], cv=2, random_state=0, n_jobs=1)
    curved._fit(X, y, Clock(0.02, pace=1e-6))
    assert curved.machine_ == "svm"  # through landmarks: far better than a line, which does not win by being fast


# ---- many rows --------------------------------------------------------------------------------------------------


def test_many_rows_stay_within_memory():
    peak, printed = peak_bytes(
        """
        import numpy as np
        from gramian import AutoKernelRegressor
        from gramian.estimators.auto.plans import Plan, Sizes
        rng = np.random.default_rng(0)
        X = rng.standard_normal((30_000, 6))
        y = np.sin(2 * X[:, 0]) + X[:, 1]
        model = AutoKernelRegressor(None, memory="60MB", machines=["gp"], random_state=0)
        model._sizes = Sizes(ladder=(100, 200), landmarks=200)
        model._fit(X, y, way=Plan("nystroem", "Nyström with 200 landmarks", landmarks=200))
        print(model.refit_)
        print(np.sqrt(np.mean((model.predict(X[:500]) - y[:500]) ** 2)) < 0.2)
        """
    )
    assert "Nyström with 200 landmarks" in printed
    assert "True" in printed
    assert peak < 400e6


# ---- scores, weights and splits ---------------------------------------------------------------------------------


def rare(n, seed=0):
    """Two classes, one row in eight of the second."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(3.0 - 2.0 * X[:, 0] - X[:, 1] ** 2)), "yes", "no")
    return X, y


RIDGE = {"machines": ["ridge"], "kernel": RBF(2.0), "cv": 3, "random_state": 0, "n_jobs": 1}


def test_the_threshold_of_the_metric_is_what_predict_uses():
    X, y = rare(400)
    Z, z = rare(1000, seed=1)
    plain = AutoKernelClassifier(None, **RIDGE).fit(X, y)
    assert plain.leaderboard_.metric == "log_loss"
    assert plain.threshold_ == 0.5
    model = AutoKernelClassifier(None, scoring="f1", **RIDGE).fit(X, y)
    assert str(model.leaderboard_).startswith("F1, higher is better")
    assert 1.0 > model.best_trial_.score > model.baseline_ > 0.0
    assert model.threshold_ < 0.45
    np.testing.assert_array_equal(model.predict(Z) == "yes", model.predict_proba(Z)[:, 1] > model.threshold_)
    np.testing.assert_array_equal(model.predict(Z) == "yes", model.decision_function(Z) > 0)
    assert f1_score(z, model.predict(Z), pos_label="yes") > f1_score(z, plain.predict(Z), pos_label="yes")
    costs = AutoKernelClassifier(None, class_weight="balanced", **RIDGE).fit(X, y)
    np.testing.assert_allclose(costs.predict_proba(Z), plain.predict_proba(Z))
    assert costs.threshold_ == pytest.approx(np.mean(y == "yes"))
    assert np.mean(costs.predict(Z) == "yes") > np.mean(plain.predict(Z) == "yes")
    with pytest.raises(ValueError, match="class_weight of class 'yes' must be a finite number > 0, got 0"):
        AutoKernelClassifier(None, class_weight={"yes": 0.0}, **RIDGE).fit(X, y)


def test_classes_that_cost_more_among_several():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((150, 2)), rng.integers(0, 3, 150)
    model = AutoKernelClassifier(None, class_weight={0: 1.0, 1: 1.0, 2: 50.0}, **RIDGE).fit(X, y)
    assert model.threshold_ is None
    assert np.mean(model.predict(X) == 2) > 0.95
    np.testing.assert_array_equal(model.predict(X), np.argmax(model.decision_function(X), axis=1))


@pytest.mark.parametrize("machine", ["gp", "ridge", "svm", "machine"])
def test_weights_move_the_fit_of_every_machine(machine, waves):
    """Half of the rows say something else, and count next to nothing."""
    X, y, Z, z = waves
    X, y = X[:160], np.where(np.arange(160) % 2, y[:160], -3.0 * y[:160])
    weights = np.where(np.arange(160) % 2, 1.0, 1e-4)
    how = {"machines": [machine], "kernel": 1.0 * RBF(1.0), "cv": 2, "random_state": 0, "n_jobs": 1}
    errors = [np.mean((AutoKernelRegressor(None, **how).fit(X, y, w).predict(Z) - z) ** 2) for w in (None, weights)]
    assert errors[1] < 0.6 * errors[0]


def test_rows_of_weight_zero_are_not_there(waves):
    X, y, Z, _ = waves
    weights = np.r_[np.ones(100), np.zeros(100)]
    pairs = [(np.r_[0:60, 150:160], np.r_[60:100, 170]), (np.r_[40:100, 120], np.r_[0:40])]
    few = [(np.r_[0:60], np.r_[60:100]), (np.r_[40:100], np.r_[0:40])]
    how = RIDGE | {"cv": pairs}
    model = AutoKernelRegressor(None, **how).fit(X, y, weights)
    alone = AutoKernelRegressor(None, **(how | {"cv": few})).fit(X[:100], y[:100])
    np.testing.assert_allclose(model.predict(Z), alone.predict(Z), rtol=1e-6)
    assert model.best_trial_.score == pytest.approx(alone.best_trial_.score)
    with pytest.raises(ValueError, match="at least one non-zero number"):
        AutoKernelRegressor(None, **RIDGE).fit(X, y, np.zeros(200))


def test_groups_are_held_out_together():
    """Each group has its own level, which rows of the same group give away."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(20), 8)
    centres, levels = rng.standard_normal((20, 2)), rng.standard_normal(20)
    X, y = centres[groups] + 0.01 * rng.standard_normal((160, 2)), levels[groups]
    how = RIDGE | {"kernel": RBF(0.3)}
    leaky, honest = (AutoKernelRegressor(None, **how).fit(X, y, groups=g) for g in (None, groups))
    assert leaky.best_trial_.score < 0.2 * honest.best_trial_.score
    assert np.std(honest.residuals_) > 0.5
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        AutoKernelRegressor(None, **how).fit(X, y, groups=groups[1:])


def test_splits_in_time_can_be_saved(tmp_path, waves):
    X, y, Z, _ = waves
    model = AutoKernelRegressor(None, **(RIDGE | {"cv": TimeSeriesSplit(3)})).fit(X, y)
    assert model.residuals_.size == 150  # the first quarter is never held out
    save(model, tmp_path / "m")
    again = load(tmp_path / "m")
    assert again.cv.n_splits == 3
    np.testing.assert_array_equal(again.predict(Z), model.predict(Z))


def test_a_quantile_is_predicted_where_it_is_asked_for(waves):
    X, y, *_ = waves
    rng = np.random.default_rng(1)
    y = y + rng.exponential(0.5, y.size)
    model = AutoKernelRegressor(None, scoring="pinball-0.9", **RIDGE).fit(X[:150], y[:150])
    assert 0.75 < np.mean(y[150:] < model.predict(X[150:])) <= 1.0
    assert model.shift_ > 0.1


# ---- targets on a log scale -------------------------------------------------------------------------------------


def test_skewed_targets_are_learned_on_a_log_scale_where_that_predicts_better():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 2))
    y = np.exp(2.0 * X[:, 0] + np.sin(2.0 * X[:, 1]) + 0.3 * rng.standard_normal(300))
    for machine in ("ridge", "gp"):
        how = {"machines": [machine], "cv": 2, "random_state": 0, "n_jobs": 1}
        log = AutoKernelRegressor(None, **how).fit(X[:200], y[:200])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            linear = AutoKernelRegressor(None, target_scale="linear", **how).fit(X[:200], y[:200])
        assert (log.target_scale_, linear.target_scale_) == ("log", "linear")
        assert log.best_trial_.score < linear.best_trial_.score
        mean, lower, upper = log.predict(X[200:], return_interval=0.9)
        assert np.all(lower > 0)
        assert np.all(lower < mean)
        assert 0.8 < np.mean((lower <= y[200:]) & (y[200:] <= upper)) <= 1.0
        same, std = log.predict(X[200:], return_std=True)
        np.testing.assert_allclose(same, mean)
        assert np.corrcoef(std, mean)[0, 1] > 0.9
    assert verify(log, X[:200], y[:200]).converged
    with pytest.raises(ValueError, match="needs positive targets"):
        AutoKernelRegressor(target_scale="log").fit(X, X[:, 0])


def test_residuals_that_grow_with_the_prediction_are_told():
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 3, (300, 1))
    y = X[:, 0] + 0.4 * X[:, 0] * rng.standard_normal(300)
    with pytest.warns(UserWarning, match=r"residuals grow with the prediction \(rank correlation 0\.\d+\)"):
        AutoKernelRegressor(None, **RIDGE).fit(X, y)


def test_categories_of_many_levels_are_read_by_mean_targets_unless_splits_are_given(rng, tmp_path):
    n, worth = 1200, rng.standard_normal(15)
    codes = rng.integers(0, 15, n)
    X = pd.DataFrame({"level": [f"level {c}" for c in codes], "x": rng.standard_normal(n)})
    y = worth[codes] + 0.3 * X["x"].to_numpy() + 0.1 * rng.standard_normal(n)
    options = {"machines": ["linear"], "random_state": 0}
    model = AutoKernelRegressor(None, **options).fit(X, y)
    assert "each by the mean target of its rows" in str(model.columns_)
    assert "1 category of many levels (level)" in model.explain()
    save(model, tmp_path / "model")
    new = X.head(20).assign(level=["level 3", "never seen"] * 10)
    with pytest.warns(UserWarning, match="10 rows hold a level of 'level' that the fit had not seen"):
        np.testing.assert_array_equal(load(tmp_path / "model").predict(new), model.predict(new))
    grouped = AutoKernelRegressor(None, **options).fit(X, y, groups=np.arange(n) // 4)
    assert "category with 15 levels" in str(grouped.columns_)
    assert "mean target" not in str(grouped.columns_)
