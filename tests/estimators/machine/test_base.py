"""The machines: the peers' answers, certificates, penalties, weights, quantiles, user losses, bad input."""

from __future__ import annotations

import pickle
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, PredefinedSplit, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR

from gramian import losses
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.estimators.ridge import KernelRidge
from gramian.features.fourier import FourierFeatures
from gramian.features.nystrom import Nystroem
from gramian.kernels import RBF, Spectrum
from gramian.losses import EpsilonInsensitive, Huber, Multinomial, Quantile, Ramp
from reference_machine import hinge_dual, hinge_objective, logistic_newton

CONVEX = [name for name, cls in losses.names().items() if cls.convex]
REGRESSION = [name for name in CONVEX if losses.names()[name].task == "regression"]
CLASSIFICATION = [name for name in CONVEX if losses.names()[name].task == "classification"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 3))
    y = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.standard_normal(120)
    return X, y, rng.standard_normal((15, 3))


# ---- the same answers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("approximation", [None, Nystroem(n_components=30, random_state=0)])
def test_squared_is_kernel_ridge(data, approximation):
    X, y, Z = data
    w = np.random.default_rng(1).uniform(0.5, 2.0, 120)
    Y = np.column_stack([y, X[:, 2]])
    options = {"kernel": RBF(1.0), "approximation": approximation}
    for lam, weight in ((1e-1, None), (1e-3, w)):
        alpha = lam * (120 if weight is None else weight.sum())
        ours = KernelMachineRegressor("squared", lam=lam, fit_intercept=False, **options).fit(X, Y, weight)
        ridge = KernelRidge(alpha, **options).fit(X, Y, weight)
        np.testing.assert_allclose(ours.predict(Z), ridge.predict(Z), atol=1e-6)
        assert ours.certificate_.gap <= 1e-6


def test_logistic_is_dense_newton(data):
    X, y, Z = data
    K, labels = RBF(1.0)(X), np.sign(y)
    alpha = logistic_newton(K, labels, 1e-3)
    model = KernelMachineClassifier(kernel=RBF(1.0), lam=1e-3, fit_intercept=False, tol=1e-12).fit(X, labels)
    np.testing.assert_allclose(model.dual_coef_, alpha, atol=1e-6)
    p = 1 / (1 + np.exp(-RBF(1.0)(Z, X) @ alpha))
    np.testing.assert_allclose(model.predict_proba(Z)[:, 1], p, atol=1e-6)


def test_hinge_is_the_svm(data):
    X, y, Z = data
    K, labels, lam = RBF(1.0)(X), np.sign(y), 1e-2
    model = KernelMachineClassifier("hinge", kernel=RBF(1.0), lam=lam, fit_intercept=False).fit(X, labels)
    least = hinge_objective(K, labels, hinge_dual(K, labels, lam), lam)
    assert model.certificate_.primal == pytest.approx(hinge_objective(K, labels, model.dual_coef_, lam))
    assert model.certificate_.primal == pytest.approx(least, rel=1e-6)
    # With the bias, scikit-learn's.
    model.set_params(fit_intercept=True).fit(X, labels)
    peer = SVC(C=1 / (120 * lam), kernel="precomputed", tol=1e-8).fit(K, labels)
    np.testing.assert_allclose(model.decision_function(Z), peer.decision_function(RBF(1.0)(Z, X)), atol=1e-4)


def test_epsilon_insensitive_is_support_vector_regression(data):
    X, y, Z = data
    lam = 1e-2
    model = KernelMachineRegressor(EpsilonInsensitive(0.2), kernel=RBF(1.0), lam=lam).fit(X, y)
    peer = SVR(C=1 / (120 * lam), kernel="precomputed", epsilon=0.2, tol=1e-8).fit(RBF(1.0)(X), y)
    np.testing.assert_allclose(model.predict(Z), peer.predict(RBF(1.0)(Z, X)), atol=1e-4)
    assert np.mean(model.dual_coef_ == 0) > 0.1  # rows within the tube have no coefficient at all


def test_multinomial_of_two_classes_is_logistic(data):
    X, y, Z = data
    labels = y > 0
    two = KernelMachineClassifier(Multinomial(), lam=1e-2).fit(X, labels)
    one = KernelMachineClassifier("logistic", lam=5e-3).fit(X, labels)  # f₁ = -f₀ = f/2: half of ‖f‖² each
    np.testing.assert_allclose(two.predict_proba(Z), one.predict_proba(Z), atol=1e-7)
    np.testing.assert_allclose(two.decision_function(Z), one.decision_function(Z), atol=1e-6)


@pytest.mark.parametrize("penalty", ["squared", "norm", "ball"])
@pytest.mark.parametrize("approximation", [None, Nystroem(n_components=20), FourierFeatures(n_components=20)])
def test_multinomial_constants_sum_to_zero(rng, penalty, approximation):
    # Two rare classes: Newton's steps for the constants are long, and drift along (1, 1, 1) by rounding.
    X, labels = rng.standard_normal((150, 3)), np.repeat([0, 1, 2], [100, 40, 10])
    options = {"penalty": penalty, "approximation": approximation, "lam": 1e-2, "random_state": 0}
    model = KernelMachineClassifier(**options).fit(X, labels)
    assert np.ptp(model.intercept_) > 0.5
    assert abs(model.intercept_.sum()) < 1e-12
    assert model.certificate_.converged


def test_more_rows_than_are_factorised(data, monkeypatch):
    """Conjugate gradients, and K by blocks, give what the dense route gives."""
    X, y, _ = data
    estimators = [
        KernelMachineRegressor("huber", kernel=RBF(1.0), tol=1e-10, random_state=0),
        KernelMachineRegressor("absolute", kernel=RBF(1.0), tol=1e-8, random_state=0),
        KernelMachineClassifier("multinomial", kernel=RBF(1.0), tol=1e-10, random_state=0),
    ]
    targets = [y, y, np.digitize(y, [-0.7, 0.7])]
    dense = [clone(m).fit(X, t).certificate_.primal for m, t in zip(estimators, targets, strict=True)]
    monkeypatch.setattr("gramian.solvers.machine.newton.DIRECT_SIZE", 10)
    monkeypatch.setattr("gramian.solvers.machine.function_space.DENSE_ROWS", 10)
    for model, t, primal in zip(estimators, targets, dense, strict=True):
        model.fit(X, t)
        assert model.certificate_.gap <= model.tol
        assert model.certificate_.primal == pytest.approx(primal, rel=1e-7)


# ---- certificates -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", REGRESSION)
def test_every_convex_loss_is_certified_on_diabetes(loss):
    X, y = load_diabetes(return_X_y=True)
    model = KernelMachineRegressor(loss, lam=1e-3).fit(10 * X, y / 50)
    assert model.certificate_.kind == "duality gap"
    assert model.certificate_.gap <= 1e-6
    assert model.certificate_.converged


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
@pytest.mark.parametrize("loss", CLASSIFICATION)
def test_every_convex_loss_is_certified_on_labels(loss, load):
    X, y = load(return_X_y=True)
    model = KernelMachineClassifier(loss, lam=1e-3).fit(StandardScaler().fit_transform(X), y)
    assert model.certificate_.gap <= 1e-6
    assert model.score(StandardScaler().fit_transform(X), y) > 0.97


def test_digits_by_features():
    X, y = load_digits(return_X_y=True)
    model = KernelMachineClassifier(
        "squared_hinge", approximation=Nystroem(n_components=100), gamma=0.001, random_state=0
    )
    model.fit(X[::2], y[::2])
    assert model.certificate_.gap <= 1e-6
    assert model.score(X[1::2], y[1::2]) > 0.95


def test_the_gap_is_that_of_fenchel_and_young(data):
    X, y, _ = data
    n, lam = 120, 1e-2
    model = KernelMachineRegressor("absolute", kernel=RBF(1.0), lam=lam).fit(X, y)
    alpha, b = model.dual_coef_, model.intercept_
    f = RBF(1.0)(X) @ alpha
    u = np.clip(-n * lam * alpha, -1.0, 1.0)
    assert abs(u.sum()) < 1e-8
    terms = np.abs(f + b - y) + u * y + n * lam * alpha * f
    assert terms.sum() / n <= 1e-6
    assert model.function_.norm() ** 2 == pytest.approx(alpha @ f)


def test_a_fit_that_stops_short_says_so(data):
    X, y, _ = data
    with pytest.warns(ConvergenceWarning, match="max_iter=1 was reached"):
        model = KernelMachineClassifier("squared_hinge", max_iter=1).fit(X, y > 0)
    assert not model.certificate_.converged
    with pytest.warns(ConvergenceWarning, match="max_time=1e-09 s passed"):
        KernelMachineClassifier(max_time=1e-9).fit(X, y > 0)


# ---- penalties --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute"])
def test_penalties(data, loss):
    X, y, Z = data
    norm = KernelMachineRegressor(loss, penalty="norm", lam=0.05, tol=1e-8).fit(X, y)
    size = norm.function_.norm()
    assert norm.multiplier_ * size == pytest.approx(0.05, rel=1e-3)
    ball = KernelMachineRegressor(loss, penalty="ball", radius=size, tol=1e-8).fit(X, y)
    squared = KernelMachineRegressor(loss, lam=norm.multiplier_).fit(X, y)
    for model in (norm, ball):
        assert model.certificate_.gap <= 1e-8
        np.testing.assert_allclose(model.predict(Z), squared.predict(Z), atol=1e-2)
    assert ball.function_.norm() <= size * (1 + 1e-9)
    assert ball.multiplier_ == pytest.approx(norm.multiplier_, rel=0.05)
    zero = KernelMachineRegressor(loss, penalty="norm", lam=5.0).fit(X, y)
    assert not zero.dual_coef_.any()
    assert np.isinf(zero.multiplier_)
    assert zero.certificate_.converged


def test_a_small_multiplier_of_a_ball_is_found(rng):
    """At 1.6e-6 the norm of a function that is exact enough for its gap is wrong by 3e-4."""
    X = rng.standard_normal((80, 2))
    y = np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(80)
    for radius, gamma in ((50.0, 1.0), (100.0, 0.1), (100.0, 1.0)):
        model = KernelMachineRegressor("squared", penalty="ball", radius=radius, gamma=gamma).fit(X, y)
        assert model.certificate_.converged
        assert model.certificate_.iterations < 20
        assert model.function_.norm() == pytest.approx(radius, rel=1e-4)


def test_a_ball_that_does_not_bind(data):
    X, y, _ = data
    model = KernelMachineClassifier("hinge", penalty="ball", radius=1e4).fit(X, y > 0)
    assert model.certificate_.converged
    assert model.function_.norm() <= 1e4
    assert model.score(X, y > 0) == 1.0


# ---- quantiles, counts, ramp ------------------------------------------------------------------------------------


def test_quantiles_cover(rng):
    X = rng.uniform(-2, 2, (3000, 1))
    y = np.sin(2 * X[:, 0]) + (0.5 + 0.4 * X[:, 0] ** 2) * rng.standard_normal(3000)
    Z = rng.uniform(-2, 2, (20_000, 1))
    t = np.sin(2 * Z[:, 0]) + (0.5 + 0.4 * Z[:, 0] ** 2) * rng.standard_normal(20_000)
    q = [0.05, 0.5, 0.95]
    model = KernelMachineRegressor(Quantile(q, non_crossing=True), gamma=1.0, lam=1e-3, tol=1e-4).fit(X, y)
    f = model.predict(Z)
    np.testing.assert_allclose((t[:, None] <= f).mean(axis=0), q, atol=0.02)
    assert np.all(np.diff(f, axis=1) >= 0)
    assert f.shape == (20_000, 3)


def test_counts(rng):
    X = rng.uniform(-2, 2, (300, 1))
    mean = np.exp(1 + np.sin(2 * X[:, 0]))
    model = KernelMachineRegressor("poisson", gamma=1.0).fit(X, rng.poisson(mean))
    assert np.mean(np.abs(model.predict(X) / mean - 1)) < 0.2
    assert np.all(model.predict(X) > 0)


def test_ramp_ends_at_a_stationary_point_and_says_what_it_is(data):
    X, y, _ = data
    labels = np.sign(y)
    labels[:15] *= -1
    ramp = KernelMachineClassifier("ramp", kernel=RBF(1.0), lam=1e-2).fit(X, labels)
    hinge = KernelMachineClassifier("hinge", kernel=RBF(1.0), lam=1e-2).fit(X, labels)

    def objective(model):
        f = RBF(1.0)(X) @ model.dual_coef_
        return Ramp().value(f + model.intercept_, labels).mean() + 0.005 * model.dual_coef_ @ f

    assert objective(ramp) <= objective(hinge)
    assert ramp.certificate_.kind == "stationary"
    assert ramp.certificate_.primal == pytest.approx(objective(ramp))
    wrong = np.mean(ramp.predict(X) != labels)
    assert float(re.search(r"0-1 loss ([\d.]+)", ramp.certificate_.message)[1]) == pytest.approx(wrong, rel=1e-3)
    assert ramp.solver_.name == "ccp"


# ---- a user's own loss ------------------------------------------------------------------------------------------


class LogCosh:
    """Smooth, without curvature or conjugate of its own, and no subclass of Loss."""

    def value(self, f, y):
        return np.logaddexp(f - y, y - f) - np.log(2)

    def gradient(self, f, y):
        return np.tanh(f - y)


class Curved(LogCosh):
    def curvature(self, f, y):
        return 1 - np.tanh(f - y) ** 2

    def conjugate(self, u, y):
        a, b = np.clip(1 + u, 0, 2), np.clip(1 - u, 0, 2)
        entropy = 0.5 * (a * np.log(np.maximum(a, 1e-300)) + b * np.log(np.maximum(b, 1e-300)))
        return np.where(np.abs(u) <= 1 + 1e-9, u * y + entropy, np.inf)


class Kinked:
    def value(self, f, y):
        return np.abs(f - y)

    def gradient(self, f, y):
        return np.sign(f - y)


class Margin:
    def value(self, f, y):
        return np.logaddexp(0, -y * f)

    def gradient(self, f, y):
        return -y / (1 + np.exp(y * f))


def test_a_loss_of_ones_own(data):
    X, y, Z = data
    plain = KernelMachineRegressor(LogCosh()).fit(X, y)
    assert plain.certificate_.kind == "stationary"
    assert np.isnan(plain.certificate_.gap)
    assert plain.certificate_.violation < 1e-6
    curved = KernelMachineRegressor(Curved()).fit(X, y)
    assert curved.certificate_.kind == "duality gap"
    assert curved.certificate_.gap <= 1e-6
    np.testing.assert_allclose(plain.predict(Z), curved.predict(Z), atol=1e-6)
    labels = np.sign(y)
    ours = KernelMachineClassifier(Margin()).fit(X, labels).decision_function(Z)
    np.testing.assert_allclose(ours, KernelMachineClassifier().fit(X, labels).decision_function(Z), atol=1e-5)


def test_a_kinked_loss_of_ones_own_falls_back_on_the_proximal_method(data):
    X, y, Z = data
    ours = KernelMachineRegressor(Kinked(), lam=1e-2).fit(X, y)
    np.testing.assert_allclose(
        ours.predict(Z), KernelMachineRegressor("absolute", lam=1e-2).fit(X, y).predict(Z), atol=1e-3
    )


def test_solvers_say_what_they_need(data):
    X, y, _ = data
    with pytest.raises(
        ValueError, match="solver='newton' needs value, gradient, curvature of a loss; Hinge lacks curv"
    ):
        KernelMachineClassifier("hinge", solver="newton").fit(X, y > 0)
    with pytest.raises(ValueError, match="Absolute lacks convex_part and concave_gradient"):
        KernelMachineRegressor("absolute", solver="ccp").fit(X, y)
    with pytest.raises(ValueError, match="penalties other than 'squared' need conjugate of a loss"):
        KernelMachineRegressor(LogCosh(), penalty="ball").fit(X, y)
    same = KernelMachineRegressor("huber", solver="proximal").fit(X, y)
    assert same.certificate_.primal == pytest.approx(KernelMachineRegressor().fit(X, y).certificate_.primal, rel=1e-6)


# ---- weights, cross-validation, containers ----------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["huber", "absolute", "squared"])
def test_weights_are_repetitions_and_zero_is_absence(data, loss):
    X, y, Z = data
    counts = np.random.default_rng(1).integers(0, 4, len(X))
    model = KernelMachineRegressor(loss, lam=1e-2, tol=1e-9)
    weighted = clone(model).fit(X, y, counts)
    repeated = clone(model).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.predict(Z), repeated.predict(Z), atol=1e-5)
    assert not weighted.dual_coef_[counts == 0].any()


def test_class_weights(data):
    X, y, Z = data
    labels = y > 1
    balanced = KernelMachineClassifier(class_weight="balanced").fit(X, labels)
    by_hand = KernelMachineClassifier().fit(X, labels, np.where(labels, 0.5 / labels.mean(), 0.5 / (~labels).mean()))
    np.testing.assert_allclose(balanced.decision_function(Z), by_hand.decision_function(Z), atol=1e-7)


@pytest.mark.parametrize("penalty", ["squared", "norm", "ball"])
def test_the_dual_point_proves_the_dual_value(rng, penalty):
    X, y = rng.standard_normal((40, 2)), rng.standard_normal(40)
    weights = np.where(np.arange(len(y)) % 7 == 0, 0.0, 1.5)
    model = KernelMachineRegressor("absolute", penalty=penalty, lam=0.01).fit(X, y, weights)
    u, w = model.dual_point_, weights
    assert u.shape == y.shape
    assert not u[w == 0].any()
    assert np.all(np.abs(u) <= w)  # where the conjugate of the absolute loss is u y, and infinite elsewhere
    norm = np.sqrt(u @ model.kernel_(X) @ u)
    share = min(1.0, 0.01 * w.sum() / norm) if penalty == "norm" else 1.0
    own = {"squared": norm**2 / (2 * 0.01 * w.sum()), "norm": 0.0, "ball": norm}[penalty]
    assert abs(u.sum()) <= 1e-9
    assert (-share * u @ y - own) / w.sum() == pytest.approx(model.certificate_.dual, rel=1e-7)


def test_a_dual_point_whose_norm_is_lost_in_rounding_proves_little():
    rng = np.random.default_rng(10)
    X = rng.standard_normal((20, 1))[rng.integers(0, 5, 20)] + 1e-9 * rng.standard_normal((20, 1))
    y = rng.standard_normal(20)
    with pytest.warns(ConvergenceWarning, match="rounding"):
        model = KernelMachineRegressor("absolute", penalty="norm", lam=1e-9, gamma=3.0).fit(X, y)
    assert -model.dual_point_ @ y / 20 == pytest.approx(model.certificate_.dual, rel=1e-7)


@pytest.mark.parametrize("penalty", ["squared", "norm"])
def test_lam_by_cross_validation(data, penalty):
    X, y, _ = data
    lams = [1.0, 1e-1, 1e-2, 1e-3, 1e-5]
    model = KernelMachineRegressor("squared", lam="cv", lams=lams, penalty=penalty, cv=4).fit(X, y)
    assert model.lam_ == model.lams_[np.argmin(model.cv_path_)]
    assert 1e-4 < model.lam_ < 1.0
    if penalty == "squared":
        grid = GridSearchCV(KernelMachineRegressor("squared"), {"lam": lams}, cv=4, scoring="neg_mean_squared_error")
        errors = -grid.fit(X, y).cv_results_["mean_test_score"]
        np.testing.assert_allclose(model.cv_path_, errors / 2, rtol=1e-4)


def test_cross_validation_by_folds_that_leave_rows_out(data):
    X, y, _ = data
    folds = ShuffleSplit(3, test_size=0.2, train_size=0.5, random_state=0)
    model = KernelMachineRegressor("squared", kernel=RBF(1.0), lam="cv", lams=[1e-2, 1e-3], cv=folds).fit(X, y)
    one = KernelMachineRegressor("squared", kernel=RBF(1.0), lam=1e-2)
    errors = [np.mean((one.fit(X[a], y[a]).predict(X[b]) - y[b]) ** 2) for a, b in folds.split(X)]
    assert model.cv_path_[0] == pytest.approx(np.mean(errors) / 2, rel=1e-4)
    ready = clone(model).set_params(kernel="precomputed").fit(RBF(1.0)(X), y)
    np.testing.assert_allclose(ready.cv_path_, model.cv_path_, rtol=1e-6)


@pytest.mark.parametrize("form", ["indices", "masks", "ids"])
@pytest.mark.parametrize("kernel", [RBF(1.0), "precomputed"])
def test_folds_given_by_the_user_count_rows_of_weight_zero(data, form, kernel):
    X, y, _ = data
    weights = np.ones(len(X))
    weights[::4] = 0.0
    kept, ids = weights > 0, np.arange(len(X)) % 3
    cv = [(np.flatnonzero(ids != k), np.flatnonzero(ids == k)) for k in range(3)]
    cv = {"indices": cv, "masks": [(ids != k, ids == k) for k in range(3)], "ids": PredefinedSplit(ids)}[form]
    model = KernelMachineRegressor("squared", kernel=kernel, lam="cv", lams=[1e-2, 1e-3])
    rows = RBF(1.0)(X) if kernel == "precomputed" else X
    part = rows[np.ix_(kept, kept)] if kernel == "precomputed" else rows[kept]
    alone = clone(model).set_params(cv=PredefinedSplit(ids[kept])).fit(part, y[kept])
    model.set_params(cv=cv).fit(rows, y, weights)
    np.testing.assert_allclose(model.cv_path_, alone.cv_path_, rtol=1e-9)


@pytest.mark.parametrize("approximation", [None, Nystroem(n_components=20)])
def test_cross_validation_of_labels_and_gram_matrices(data, approximation):
    X, y, Z = data
    labels = np.digitize(y, [-0.7, 0.7])
    options = {"lam": "cv", "lams": [1e-1, 1e-3], "cv": 3, "approximation": approximation, "random_state": 0}
    rows = KernelMachineClassifier(kernel=RBF(1.0), **options).fit(X, labels)
    ready = KernelMachineClassifier(kernel="precomputed", **options).fit(RBF(1.0)(X), labels)
    np.testing.assert_allclose(ready.cv_path_, rows.cv_path_, rtol=1e-6)
    np.testing.assert_allclose(ready.predict_proba(RBF(1.0)(Z, X)), rows.predict_proba(Z), atol=1e-6)


def test_containers(data):
    X, y, Z = data
    model = KernelMachineRegressor().fit(X, y)
    expected = model.predict(Z)
    for frame in (pd.DataFrame, pl.DataFrame):
        named = KernelMachineRegressor().fit(frame(X, columns=list("abc")) if frame is pd.DataFrame else pl.DataFrame(
            {c: X[:, i] for i, c in enumerate("abc")}), y)  # fmt: skip
        assert list(named.feature_names_in_) == ["a", "b", "c"]
    np.testing.assert_allclose(KernelMachineRegressor().fit(sp.csr_array(X), y).predict(sp.csr_array(Z)), expected)
    narrow = KernelMachineRegressor().fit(X.astype(np.float32), y)
    assert narrow.predict(Z.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(narrow.predict(Z), expected, atol=1e-4)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(Z), expected)
    texts = ["abab", "abba", "xyxy", "yxxy"]
    labels = KernelMachineClassifier(kernel=Spectrum(2), lam=1e-2).fit(texts, list("aabb"))
    assert labels.predict(["ab", "xy"]).tolist() == ["a", "b"]


def test_pipelines(data):
    X, y, _ = data
    grid = GridSearchCV(make_pipeline(StandardScaler(), KernelMachineClassifier()),
                        {"kernelmachineclassifier__lam": [1e-1, 1e-3]}, cv=3)  # fmt: skip
    assert grid.fit(X, y > 0).best_score_ > 0.8


@pytest.mark.parametrize("loss", ["hinge", "logistic"])
@pytest.mark.parametrize(
    "approximation",
    [None, Nystroem(n_components=30, random_state=0), FourierFeatures(n_components=40, random_state=0)],
    ids=["exact", "landmarks", "waves"],
)
def test_warm_starts(data, approximation, loss):
    X, y, Z = data
    model = KernelMachineClassifier(loss, lam=1e-3, approximation=approximation, warm_start=True).fit(X, y > 0)
    cold, primal = model.n_iter_, model.certificate_.primal
    model.fit(X, y > 0)
    # In a map, the envelope of a hinge may have to be widened once more.
    assert model.n_iter_ < (2 * cold if loss == "hinge" and approximation is not None else cold)
    assert model.certificate_.primal == pytest.approx(primal, rel=1e-9)
    weights = (np.arange(len(y)) % 3 > 0).astype(float)
    warm = model.set_params(lam=1e-2).fit(X, y > 0, weights).decision_function(Z)
    cold = clone(model).fit(X, y > 0, weights).decision_function(Z)
    np.testing.assert_allclose(warm, cold, atol=1e-3)
    assert model.fit(X[:40], y[:40] > 0).certificate_.converged


def test_an_interrupted_fit_leaves_things_as_they_were(data, monkeypatch):
    X, y, Z = data
    model = KernelMachineRegressor().fit(X, y)
    before = model.predict(Z)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("gramian.estimators.machine.base.solve", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, -y)
    np.testing.assert_array_equal(model.predict(Z), before)


# ---- bad input --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "error", "message"),
    [
        (lambda: KernelMachineRegressor(alpha=1.0), TypeError, r"no parameter 'alpha'.*lam=alpha/n"),
        (lambda: KernelMachineClassifier(C=1.0), TypeError, r"no parameter 'C'.*lam=1/\(n\*C\)"),
        (lambda: KernelMachineClassifier().set_params(C=1.0), ValueError, r"Invalid parameter 'C'.*lam=1/\(n\*C\)"),
        (lambda: KernelMachineRegressor("hubber"), ValueError, "did you mean 'huber'"),
        (lambda: KernelMachineRegressor(lam=-1.0), ValueError, "'lam' parameter"),
        (lambda: KernelMachineRegressor(penalty="ball", radius=0.0), ValueError, "'radius' parameter"),
        (lambda: KernelMachineRegressor("poisson"), ValueError, "counts >= 0, got -"),
        (lambda: KernelMachineRegressor("hinge"), ValueError, "a loss for labels; use KernelMachineClassifier"),
        (lambda: KernelMachineClassifier("huber"), ValueError, "a loss for numbers; use KernelMachineRegressor"),
        (lambda: KernelMachineRegressor(lams=[1.0]), ValueError, "lams is the grid of lam='cv'"),
        (lambda: KernelMachineRegressor(lam="cv", lams=[0.0]), ValueError, "lams must be a list of finite numbers > 0"),
        (lambda: KernelMachineRegressor(lam="cv", penalty="ball"), ValueError, "which penalty='ball' does not have"),
        (lambda: KernelMachineRegressor(approximation=Nystroem(gamma=1.0)), ValueError, "the kernel is set on Kernel"),
    ],
)
def test_bad_parameters(data, model, error, message):
    X, y, _ = data

    def fit():
        made = model()
        made.fit(X, y > 0 if isinstance(made, KernelMachineClassifier) else y)

    with pytest.raises(error, match=message):
        fit()


def test_bad_data(data):
    X, y, _ = data
    with pytest.raises(ValueError, match="several quantiles need a single target"):
        KernelMachineRegressor(Quantile([0.1, 0.9])).fit(X, np.column_stack([y, y]))
    with pytest.raises(ValueError, match="at least two classes"):
        KernelMachineClassifier().fit(X, np.ones(len(X)))
    with pytest.raises(ValueError, match="only 1 of the 2 classes has rows of positive weight"):
        KernelMachineClassifier().fit(X, y > 0, (y > 0).astype(float))
    with pytest.raises(ValueError, match="at least one"):
        KernelMachineRegressor().fit(X, y, np.zeros(len(X)))
    with pytest.raises(AttributeError, match="predict_proba"):
        KernelMachineClassifier("hinge").fit(X, y > 0).predict_proba(X)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        KernelMachineRegressor(kernel="precomputed", lam=1e-6).fit(-RBF(1.0)(X), y)


class Mistaken(Huber):
    def gradient(self, f, y):
        return y - f


def test_a_gradient_that_disagrees_with_the_value_is_told(data):
    with pytest.raises(ValueError, match="Mistaken: gradient disagrees with value"):
        KernelMachineRegressor(Mistaken()).fit(*data[:2])


def test_float32_rows_predict_what_was_certified(rng):
    X = rng.standard_normal((200, 2)).astype(np.float32)
    y = np.sin(2 * X[:, 0].astype(np.float64)) + 0.3 * rng.standard_normal(200)
    model = KernelMachineRegressor(lam=1e-9, gamma=0.5)
    wide = model.fit(X.astype(np.float64), y).predict(X.astype(np.float64))
    np.testing.assert_allclose(model.fit(X, y).predict(X), wide, atol=1e-5)
    counts = KernelMachineRegressor("poisson").fit(X, np.exp(y))
    counts.intercept_ += 100.0
    assert np.all(np.isfinite(counts.predict(X)))  # exp(100) is beyond float32


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("penalty", ["squared", "norm", "ball"])
@pytest.mark.parametrize("loss", ["squared", "absolute", "huber", "quantile", "epsilon_insensitive", "poisson"])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
def test_a_few_rows_of_any_size_are_certified(rng, loss, penalty, size):
    for n, intercept in [(1, True), (2, True), (9, True)]:
        X, y = rng.standard_normal((n, 2)), size * (1.0 + rng.random(n))
        model = KernelMachineRegressor(loss, penalty=penalty, radius=size, fit_intercept=intercept).fit(X, y)
        assert model.certificate_.converged or (penalty == "ball" and loss == "poisson")
        f = np.log(model.predict(X)) if loss == "poisson" else model.predict(X)
        norm = model.function_.norm()
        own = {"squared": 0.5e-3 * norm**2, "norm": 1e-3 * norm, "ball": 0.0}[penalty]
        primal = np.mean(model.loss_.value(f, y)) + own
        zero = np.mean(model.loss_.value(np.zeros(n), y)) + 1.0 * (loss == "poisson")
        assert primal == pytest.approx(model.certificate_.primal, rel=1e-6, abs=1e-12 * zero)
        if penalty == "ball":
            assert norm <= size * (1 + 1e-9)
        # No smaller objective is found around it.
        for step in (1e-3, 1e-1):
            around = f + step * size * rng.standard_normal((20, 1)) * intercept
            tried = np.array([np.mean(model.loss_.value(each, y)) for each in around]) + own
            assert tried.min() >= primal - 1e-5 * max(primal, 1e-4 * zero)


def test_a_constant_far_from_zero(rng):
    X = rng.standard_normal((20, 2))
    for loss in ("absolute", "squared", "huber"):
        near = KernelMachineRegressor(loss).fit(X, X[:, 0])
        far = KernelMachineRegressor(loss).fit(X, X[:, 0] + 1e6)
        assert far.certificate_.converged
        np.testing.assert_allclose(far.predict(X) - 1e6, near.predict(X), atol=1e-3)


def test_nothing_but_a_constant_is_no_alarm():
    X, y = np.ones((16, 3)), np.arange(16) % 3 == 0
    for penalty in ("squared", "norm", "ball"):
        model = KernelMachineClassifier("logistic", kernel="linear", penalty=penalty, lam=1e-6).fit(X, y)
        assert model.certificate_.converged
        np.testing.assert_allclose(model.predict_proba(X)[:, 1], y.mean(), atol=1e-4)
