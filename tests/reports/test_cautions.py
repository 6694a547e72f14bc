"""Warnings in words: each is given where it should be, and only there."""

import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from gramian import SVC, AutoKernelRegressor, GaussianProcessClassifier, GaussianProcessRegressor, KernelRidge
from gramian.kernels import RBF, Linear, Scaled, White
from gramian.reports.cautions import cautions
from gramian.reports.facts import Score, bytes_held, expression, measured, score_of, seconds_of, settings_of
from gramian.reports.held_out import evaluate, importance
from gramian.reports.subject import subject_of


def told(model, X=None, y=None):
    subject = subject_of(model, X, y)
    found = evaluate(subject)
    return " ".join(cautions(subject, found, score_of(subject, found)))


@pytest.fixture
def X(rng):
    return rng.standard_normal((60, 2))


def test_a_good_fit_has_nothing_to_be_said(X):
    y = np.sin(2.0 * X[:, 0])
    assert told(KernelRidge(0.1, kernel=RBF(2.0)).fit(X, y), X, y) == ""


def test_ill_conditioned(X):
    assert "ill-conditioned: about 6e+13 on 60" in told(KernelRidge(1e-12, kernel=RBF(20.0)).fit(X, X[:, 0]))


def test_at_the_edge_of_its_range(X, rng):
    noise = rng.standard_normal(60)
    edge = KernelRidge(alpha="loo", alphas=[1e-3, 1e-2, 1e-1], kernel=RBF(1.0)).fit(X, noise)
    assert "alpha is at the edge of the 3 values tried; widen alphas" in told(edge)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = GaussianProcessRegressor(RBF(1.0, (0.5, 1.1)), alpha=0.1).fit(X, X[:, 0])
    assert "at the upper end of its range" in told(gp)
    search = GridSearchCV(KernelRidge(kernel=RBF(2.0)), {"alpha": [1e-3, 10.0, 100.0]}).fit(X, X[:, 0])
    assert "alpha = 0.001 is at the edge of the 3 values tried" in told(search)


def test_unbalanced(X):
    y = np.where(np.arange(60) < 4, "few", "many")
    assert "“many” has 56 rows and “few” 4" in told(SVC().fit(X, y), X, y)


def test_far_from_the_training_data(X):
    model = KernelRidge(0.1, kernel=RBF(1.0)).fit(X, X[:, 0])
    new = np.concatenate([X[:30] + 0.01, X[:10] + 50])
    assert "10 of 40 rows (25%) are far from the training data" in told(model, new, new[:, 0])
    assert "far from" not in told(model, X[:30] + 0.01, X[:30, 0])


def test_no_better_than_the_baseline(X, rng):
    y = rng.standard_normal(60)
    assert "does not clearly beat the baseline: R²" in told(KernelRidge(1.0, kernel=RBF(0.5)).fit(X, y), X, y)


def test_stopped_short(X):
    with pytest.warns(ConvergenceWarning):
        model = SVC(max_iter=1, C=100.0).fit(X, X[:, 0] * X[:, 1] > 0)
    assert "did not reach its tolerance: NOT converged" in told(model)


def test_a_score_that_flatters_says_so(X):
    y = np.where(np.arange(60) < 1, "one", "many")  # too few of one class to part
    found = told(SVC(C=1e4).fit(X, y), X, y)
    assert "may have learned from, so it is too optimistic" in found


def test_predictions_of_folds_are_those_of_clones(X):
    y = X[:, 0] + X[:, 1] ** 2
    model = KernelRidge(0.1, kernel=RBF(1.0)).fit(X, y)
    found = evaluate(subject_of(model, X, y))
    for fold in np.unique(found.folds):
        train, test = found.folds != fold, found.folds == fold
        refit = KernelRidge(0.1, kernel=RBF(1.0)).fit(X[train], y[train])
        assert np.allclose(found.predicted[test], refit.predict(X[test]))
    assert found.honest
    assert not np.allclose(found.predicted, model.predict(X), atol=1e-3)


def test_a_process_keeps_its_kernel_in_the_folds(X):
    y = X[:, 0] + 0.1 * np.sin(7 * np.arange(60))
    gp = GaussianProcessRegressor(1.0 * RBF(1.0), noise="learn").fit(X, y)
    found = evaluate(subject_of(gp, X, y))
    assert "settings as they were learned" in found.how
    assert found.deviation is not None
    assert np.all(found.deviation > 0)


def test_noise_given_as_alpha_is_in_an_observation(X, rng):
    y = 5.0 * X[:, 0] + 2.0 * rng.standard_normal(60)
    gp = GaussianProcessRegressor(1.0 * RBF(2.0), alpha=0.25, normalize_y=True, optimizer=None).fit(X[:40], y[:40])
    found = evaluate(subject_of(gp, X[40:], y[40:]))
    own = gp.predict(X[40:], return_std=True)[1]
    assert np.allclose(found.deviation, np.sqrt(own**2 + 0.25 * y[:40].var()))


def test_one_row_is_not_evaluated(X):
    model = KernelRidge().fit(X, X[:, 0])
    assert evaluate(subject_of(model, X[:1], X[:1, 0])) is None


def test_what_cannot_be_fitted_again_is_judged_as_it_is(X):
    gp = GaussianProcessRegressor(RBF(1.0), alpha=np.full(60, 0.1), optimizer=None).fit(X, X[:, 0])
    found = evaluate(subject_of(gp, X, X[:, 0]))
    assert not found.honest
    assert "it could not be fitted again (alpha must be a scalar" in found.how


def test_large_data_are_sampled(rng):
    X = rng.standard_normal((1500, 2))
    model = SVC().fit(X, X[:, 0] > 0)
    found = evaluate(subject_of(model, X, X[:, 0] > 0))
    assert len(found.truth) == 1000
    assert found.how == "5-fold cross-validation on 1,000 rows drawn from 1,500"


def test_scores_and_baselines():
    assert Score("accuracy", 0.9, 0.02, baseline=0.5).beats_baseline
    assert not Score("accuracy", 0.51, 0.02, baseline=0.5).beats_baseline
    assert Score("RMSE", 1.0, 0.1, baseline=2.0, less_is_better=True).beats_baseline
    assert Score("share inside", 0.9).beats_baseline


def test_memory_counts_each_array_once():
    a = np.zeros(1000)
    assert bytes_held(SimpleNamespace(a=a, again=[a, {"b": a}], deep=SimpleNamespace(c=np.zeros(10)))) == "8.08 KB"


def test_settings_are_what_was_changed(X):
    model = KernelRidge(alpha=0.25, kernel=RBF(2.0), n_jobs=1, memory="1GB").fit(X, X[:, 0])
    found = dict(settings_of(subject_of(model)))
    assert found["kernel"] == "RBF(2.0)"
    assert found["alpha"] == "0.25"
    assert "n_jobs" not in found
    assert seconds_of(subject_of(model)) == model.certificate_.seconds


def test_advice_names_only_parameters_that_exist(X):
    y = np.where(np.arange(60) < 4, "few", "many")
    assert "class_weight='balanced'" in told(SVC().fit(X, y), X, y)
    assert "class_weight" not in told(SVC(class_weight="balanced").fit(X, y), X, y)  # nor those that are set already
    gp = GaussianProcessClassifier(RBF(1.0), optimizer=None).fit(X, y)
    assert "Classes are unbalanced" in told(gp, X, y)
    assert "class_weight" not in told(gp, X, y)


def test_errors_that_grow_with_the_prediction(rng):
    X = rng.uniform(0, 3, (200, 1))
    y = np.exp(X[:, 0]) * (1 + 0.3 * rng.standard_normal(200))
    model = KernelRidge(1.0, kernel=RBF(1.0)).fit(X, y)
    assert "Errors depend on the prediction" in told(model, X, y)
    even = np.exp(X[:, 0]) + rng.standard_normal(200)
    assert "Errors depend" not in told(KernelRidge(1.0, kernel=RBF(1.0)).fit(X, even), X, even)
    auto = AutoKernelRegressor(None, machines=["linear"], target_scale="log", random_state=0).fit(X[:100], y[:100])
    assert "Errors depend" not in told(auto, X[100:], y[100:])  # its intervals grow with the prediction


def test_a_linear_model_stands_beside_in_the_same_folds(X):
    y = X[:, 0] + 0.1 * np.sin(7 * np.arange(60))
    subject = subject_of(KernelRidge(0.1, kernel=RBF(1.0)).fit(X, y), X, y)
    found = evaluate(subject)
    score = score_of(subject, found)
    assert score.baseline_name == "a linear model"
    assert score.baseline > 0.95
    inputs = importance(subject, found)
    assert inputs.n_rows == 60
    assert inputs.importance[0] > 10 * abs(inputs.importance[1])


def test_a_kernel_is_written_whole():
    many = repr(2.123456789 * RBF(np.linspace(1.0, 2.0, 30)))
    assert expression(many) == "2.12 * RBF([30 numbers])"
    assert expression(repr(RBF([1.0, 2.5]))) == repr(RBF([1.0, 2.5]))
    bounded = (Scaled(RBF(1.0), 2.0, (1.0, 3.0)) + White(1e-9, (1e-9, 1.0))) * Scaled(Linear(), 1.5, "fixed")
    assert expression(bounded) == expression(repr(bounded)) == "(2.0 * RBF(1.0) + White(1e-09)) * (1.5 * Linear())"
    assert expression("rbf") == "rbf"
    assert expression(RBF(1.0).on(*range(5)) + Linear().on(7)) == "RBF(1.0).on(5 columns) + Linear().on(7)"


def test_measures_are_those_of_their_definitions(X):
    y = X[:, 0] + 0.5 * np.sin(9 * np.arange(60)) > 0
    found = evaluate(subject_of(SVC(kernel=RBF(2.0), probability=True, random_state=0).fit(X, y), X, y))
    assert found.binary
    above = found.sureness[found.positive][:, None] - found.sureness[~found.positive]
    area = np.mean(above > 0) + 0.5 * np.mean(above == 0)
    assert measured(found, "roc_auc") == pytest.approx(area)
    right = np.where(found.positive, found.sureness, 1 - found.sureness)
    assert measured(found, "log_loss") == pytest.approx(-np.log(right).mean())
    rare = replace(found, truth=np.ones(60, dtype=bool), classes=np.array([False, True])).of_rarer
    assert list(rare.classes) == [True, False]
    assert np.array_equal(rare.sureness >= rare.threshold, found.sureness <= found.threshold)
    assert measured(found, "error") == pytest.approx(np.mean(found.truth != found.predicted))
