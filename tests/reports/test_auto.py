"""Reports of automatic estimators: tables with text and gaps, leaderboards."""

import html
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.metrics import f1_score

import gramian
from gramian.estimators.auto.base import fit_by_clock
from gramian.estimators.auto.forest import Forest
from gramian.inspection import sensitivity
from gramian.progress import Clock
from gramian.reports.facts import measured, settings_of
from gramian.reports.held_out import evaluate, importance
from gramian.reports.subject import subject_of
from gramian.reports.worst import worst_rows


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"size <m>": rng.standard_normal(120), "kind": rng.choice(["a & b", "<i>c</i>"], 120)})
    frame["size <m>"] += 2000.0
    frame.loc[::17, "size <m>"] = np.nan
    target = (frame["size <m>"] - 2000.0).fillna(0.0) * 2 + (frame["kind"] == "a & b") + 0.1 * rng.standard_normal(120)
    return frame, target.rename("price")


def told(model, *data, tmp_path):
    return gramian.report(model, *data, path=tmp_path / "report.html").read_text(encoding="utf-8")


def test_a_regressor(table, tmp_path):
    X, y = table
    model = gramian.AutoKernelRegressor(time_limit=None, machines=["ridge"], cv=3, random_state=0).fit(X[:80], y[:80])
    new = told(model, X[80:], y[80:], tmp_path=tmp_path)
    assert "Predict price from 2 inputs" in new
    assert "on 40 rows new to the model" in new
    assert "Leaderboard" in new
    assert new.count('class="chosen"') == 1
    assert "size &lt;m&gt;" in new
    assert "<i>c</i>" not in new
    assert "Left out" not in new
    assert "The rows that are predicted worst" in new
    assert "How much worse 40 rows are predicted when a column is shuffled" in new
    assert "Baseline: linear" in new
    seen = told(model, X[:80], y[:80], tmp_path=tmp_path)
    assert "inside the search" in seen  # the honest score, and not that of rows it learned from
    assert "RMSE" in seen
    assert "too optimistic" not in seen
    assert "Leaderboard" in told(model, tmp_path=tmp_path)


@pytest.mark.parametrize("library", [pd.DataFrame, pa.Table.from_pandas, pl.from_pandas])
def test_columns_that_are_not_inputs_are_not_shown_as_such(table, library):
    X, y = table
    X = X.assign(key=[f"k{i}" for i in range(120)])
    model = gramian.AutoKernelRegressor(time_limit=None, machines=["ridge"], cv=3, random_state=0).fit(X[:80], y[:80])
    new = library(X[80:].assign(weight=1.0).iloc[:, ::-1])
    subject = subject_of(model, new, y[80:])
    found = evaluate(subject)
    inputs = importance(subject, found)
    assert inputs.names == ["kind", "size <m>"]
    worst = worst_rows(subject, found, inputs)
    assert set(worst.columns[1:3]) == {"kind", "size <m>"}
    assert not any("," in cell for line in worst.lines for cell in line[1:3])
    assert {line[1 + worst.columns[1:].index("kind")] for line in worst.lines} <= {"a & b", "<i>c</i>"}


def test_a_classifier(table, tmp_path):
    X, y = table
    labels = np.where(y > 0.5, "dear", "cheap")
    model = gramian.AutoKernelClassifier(time_limit=None, machines=["ridge"], cv=3, random_state=0)
    page = told(model.fit(X[:80], labels[:80]), X[80:], labels[80:], tmp_path=tmp_path)
    assert "Which classes are confused" in page
    assert "Log-loss; lower is better" in page
    assert "Left out" not in page
    for title in ("ROC curve", "Precision and recall", "Are probabilities right?", "Gain"):
        assert f"<h3>{title}</h3>" in page
    assert f"threshold {model.threshold_:.3g}" in page
    said = model.predict(X[80:])
    found = measured(evaluate(subject_of(model, X[80:], labels[80:])), "f1")  # of the second class, as in the search
    assert found == f1_score(labels[80:], said, pos_label="dear") != f1_score(labels[80:], said, average="macro")


@pytest.mark.parametrize("cuts", [[0.5], [-1.0, 1.0]])
def test_rows_that_a_classifier_learned_from_are_shown_as_held_out(cuts, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3))
    labels = np.digitize(X[:, 0] + rng.standard_normal(90), cuts)
    model = gramian.AutoKernelClassifier(time_limit=None, machines=["gp"], cv=3, random_state=0).fit(X, labels)
    gramian.save(model, tmp_path / "model")
    found = evaluate(subject_of(gramian.load(tmp_path / "model"), X[::-1], labels[::-1]))
    assert found.how == "on 90 rows, each predicted by models of the search that had not seen it"
    assert found.honest
    np.testing.assert_array_equal(found.truth, labels[::-1])
    in_search = model.best_trial_.figures["log_loss"]  # before the last calibration
    assert measured(found, "log_loss") == pytest.approx(in_search, rel=0.1)
    P = model.predict_proba(X)
    assert -np.mean(np.log(P[np.arange(90), labels])) < 0.95 * in_search


def test_rows_that_a_regressor_learned_from_are_shown_as_held_out(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 3))
    y = np.exp(X[:, 0] + 0.5 * rng.standard_normal(90))
    model = gramian.AutoKernelRegressor(time_limit=None, machines=["gp"], cv=3, random_state=0).fit(X, y)
    found = evaluate(subject_of(model, X[10:50], y[10:50]))
    np.testing.assert_array_equal(found.truth, y[10:50])
    assert model.target_scale_ == "log"
    whole = evaluate(subject_of(model, X, y))
    np.testing.assert_array_equal(whole.predicted[10:50], found.predicted)
    assert measured(whole, "rmse") > 1.05 * np.sqrt(np.mean((model.predict(X) - y) ** 2))
    assert "each predicted by models of the search that had not seen it" in told(model, X, y, tmp_path=tmp_path)
    mixed = evaluate(subject_of(model, np.r_[X, X + 1.0], np.r_[y, y]))
    assert mixed.how.startswith("on 90 of 180 rows, each predicted by models")


def test_trees_that_know_a_target_do_not_predict_its_row_with_a_column_shuffled():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.standard_normal((1200, 3)).round(3), columns=["helps", "noise", "more noise"])
    X["kind"] = rng.choice(["a", "b"], 1200)
    y = np.where((X["helps"] > 0.3) * (X["kind"] == "a") ^ (rng.random(1200) < 0.2), "yes", "no")
    made = gramian.AutoKernelClassifier(8.0, machines=["gp", "linear"], random_state=0)
    model = fit_by_clock(made, X, y, Clock(8.0, pace=1e-9))  # a clock that a busy machine does not change
    assert any(isinstance(scaling, Forest) for *_, scaling in model._parts)
    subject = subject_of(model, X, y)
    found = importance(subject, evaluate(subject))
    with pytest.raises(ValueError, match="contains trees, whose predictions jump; use 'permutation' or 'leave_out'"):
        sensitivity(model, X, method="gradient")
    assert found.importance.argmax() == 0
    assert found.importance.min() > -0.003  # -0.005 where all trees are asked


def test_a_classifier_of_several(table, tmp_path):
    X, y = table
    labels = np.digitize(y, [-1.0, 1.0])
    model = gramian.AutoKernelClassifier(time_limit=None, machines=["ridge"], cv=3, random_state=0)
    page = told(model.fit(X[:80], labels[:80]), X[80:], labels[80:], tmp_path=tmp_path)
    assert model.threshold_ is None
    assert "Which classes are confused" in page
    assert "Left out" not in page


def test_new_rows_that_are_worse_than_promised(table, tmp_path):
    X, y = table
    model = gramian.AutoKernelRegressor(time_limit=None, machines=["ridge"], cv=3, random_state=0).fit(X[:80], y[:80])
    promise = "Scores on new rows are worse than in the search: RMSE"
    assert promise in told(model, X[80:], y[80:] + 5.0, tmp_path=tmp_path)
    assert promise not in told(model, X[80:], y[80:], tmp_path=tmp_path)


def test_time_that_ran_out_is_told(table, tmp_path):
    X, y = table
    model = gramian.AutoKernelRegressor(time_limit=None, machines=["ridge"], cv=3, random_state=0).fit(X, y)
    assert "The time limit cut" not in told(model, X, y, tmp_path=tmp_path)
    model.refit_ += "; time_limit ended the search after 1 of 2 steps"
    assert "The time limit cut the search" in told(model, X, y, tmp_path=tmp_path)


def test_a_folder_is_not_a_report(table, tmp_path):
    model = gramian.AutoKernelRegressor(time_limit=None, machines=["linear"], cv=3).fit(*table)
    with pytest.raises(IsADirectoryError, match=r"is a folder; give the name of a file, such as .*report\.html"):
        gramian.report(model, path=tmp_path)


def test_a_linear_winner_is_not_compared_with_itself(table, tmp_path):
    X, y = table
    model = gramian.AutoKernelRegressor(time_limit=None, machines=["linear"], cv=3, random_state=0).fit(X[:80], y[:80])
    page = told(model, X[80:], y[80:], tmp_path=tmp_path)
    assert "Baseline: mean" in page
    assert "did as well" not in page
    assert "does not clearly beat" not in page


def test_a_model_that_keeps_no_rows_tells_new_ones(table, tmp_path):
    X, y = table
    model = gramian.AutoKernelRegressor(time_limit=None, machines=["linear"], cv=3, random_state=0).fit(X[:80], y[:80])
    gramian.save(model, tmp_path / "model")
    model = gramian.load(tmp_path / "model")
    assert subject_of(model, X[80:], y[80:]).seen is False
    assert subject_of(model, X[:80], y[:80]).seen is True
    assert "on 40 rows new to the model" in told(model, X[80:], y[80:], tmp_path=tmp_path)


def test_one_set_of_numbers(table, tmp_path):
    X, y = table
    model = gramian.AutoKernelRegressor(time_limit=None, machines=["gp"], cv=2, random_state=0).fit(X[:80], y[:80])
    page = told(model, X[80:], y[80:], tmp_path=tmp_path)
    kernel = dict(settings_of(subject_of(model)))["kernel"]
    assert page.count(f"<code>{html.escape(kernel)}</code>") == 2  # of the winner, and of the settings
    assert page.count("NOT converged") == 2 * (not model.certificate_.converged)  # the certificate, and a warning
    assert re.search(r"of (\d+) rows \(\d+%\) are far", page) is None or "of 40 rows" in page
