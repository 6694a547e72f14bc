"""Machines with any loss through maps: the exact problem of the map's kernel."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.datasets import make_regression
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.data import Blocks
from gramian.estimators.machine.classifier import KernelMachineClassifier
from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.features.fourier import FourierFeatures, RBFSampler
from gramian.features.nystrom import Nystroem
from gramian.features.polynomial import PolynomialMap
from gramian.kernels import RBF, Polynomial

MAPS = [
    Nystroem(n_components=20, random_state=0),
    FourierFeatures(n_components=30, random_state=0),
    RBFSampler(n_components=30, random_state=0),
    PolynomialMap(2),
]
REGRESSION = ["squared", "absolute", "huber", "quantile", "epsilon_insensitive", "poisson"]
CLASSIFICATION = ["hinge", "squared_hinge", "logistic", "multinomial", "ramp"]
KINKED = ["absolute", "quantile", "epsilon_insensitive", "hinge", "ramp"]


@parametrize_with_checks(
    [
        KernelMachineRegressor(approximation=FourierFeatures()),
        KernelMachineRegressor("squared", approximation=PolynomialMap(1)),
        KernelMachineClassifier(approximation=FourierFeatures()),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def problem(n=90):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 3))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1] ** 2
    return X, f + 0.3 * rng.standard_normal(n), rng.integers(0, 3, n).astype(float)


@pytest.mark.parametrize("features", MAPS, ids=lambda m: type(m).__name__)
@pytest.mark.parametrize(("loss", "classes"), [*((loss, 0) for loss in REGRESSION), *product(CLASSIFICATION, (2, 3))])
def test_the_fit_is_that_of_the_maps_kernel(loss, classes, features):
    X, y, weight = problem()
    if classes:
        y = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))
    machine = KernelMachineClassifier if classes else KernelMachineRegressor
    y = np.round(np.exp(y)) if loss == "poisson" else y
    model = machine(loss, lam=1e-2, tol=1e-6 if loss in KINKED else 1e-8, approximation=features).fit(X, y, weight)
    F = model.approximation_.transform(X)
    exact = machine(loss, lam=1e-2, kernel="precomputed").fit(F @ F.T, y, weight)
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(exact.certificate_.primal, rel=1e-5)
    values = "decision_function" if classes else "predict"
    ours, theirs = getattr(model, values)(X), getattr(exact, values)(F @ F.T)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=2e-2 if loss in KINKED else 1e-3)
    assert model.kernel_ == model.approximation_.kernel_


def test_what_is_kept_of_a_map_without_landmarks():
    X, y, _ = problem()
    model = KernelMachineRegressor("huber", approximation=MAPS[1]).fit(X, np.column_stack([y, -y]))
    F = model.approximation_.transform(X)
    assert model.coef_.shape == (30, 2)
    np.testing.assert_allclose(model.predict(X), F @ model.coef_ + model.intercept_)
    assert not hasattr(model, "dual_coef_")
    assert not hasattr(model, "function_")
    assert model.predict(X.astype(np.float32)).dtype == np.float32
    # The next fit, of another kind, leaves nothing of this one.
    model.set_params(approximation=None).fit(X, y)
    assert model.function_(X) == pytest.approx(model.predict(X) - model.intercept_)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("penalty", ["norm", "ball"])
def test_other_penalties(penalty):
    X, y, _ = problem()
    options = {"penalty": penalty, "lam": 0.05, "radius": 0.7}
    model = KernelMachineRegressor("absolute", **options, approximation=MAPS[3]).fit(X, y)
    F = model.approximation_.transform(X)
    exact = KernelMachineRegressor("absolute", **options, kernel="precomputed").fit(F @ F.T, y)
    np.testing.assert_allclose(model.predict(X), exact.predict(F @ F.T), atol=2e-2)
    over = KernelMachineRegressor("absolute", **options, approximation=MAPS[3]).fit(Blocks(X, y, rows=40))
    assert over.certificate_.primal == pytest.approx(model.certificate_.primal, rel=2e-6)


class Bent:
    """The median, known by its value and its gradient alone."""

    def value(self, f, y):
        return np.abs(f - y)

    def gradient(self, f, y):
        return np.sign(f - y)


def test_a_loss_with_value_and_gradient_alone_over_blocks():
    X, y, weight = problem()
    options = {"lam": 1e-2, "approximation": MAPS[0], "tol": 1e-5}
    model = KernelMachineRegressor(Bent(), **options).fit(Blocks(X, y, weight, rows=25))
    known = KernelMachineRegressor("absolute", **options).fit(X, y, weight)
    assert model.certificate_.kind == "stationary"
    assert model.certificate_.converged
    assert model.certificate_.primal == pytest.approx(known.certificate_.primal, rel=1e-4)


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_blocks_without_some_class(loss):
    X, y, _ = problem()
    order = np.argsort(y)  # the first block holds only low labels, the last only high ones
    X, labels = X[order], np.array(["low", "mid", "top"])[np.digitize(y[order], np.quantile(y, [0.4, 0.7]))]
    options = {"lam": 1e-2, "approximation": MAPS[0], "class_weight": "balanced"}
    model = KernelMachineClassifier(loss, **options).fit(Blocks(X, labels, rows=20))
    one = KernelMachineClassifier(loss, **options).fit(X, labels)
    assert model.classes_.tolist() == ["low", "mid", "top"]
    assert model.certificate_.primal == pytest.approx(one.certificate_.primal, rel=1e-5)
    counts = KernelMachineRegressor("poisson", lam=1e-2, approximation=MAPS[0])
    events = np.repeat([0.0, 2.0], 45)  # blocks without an event
    assert counts.fit(Blocks(X, events, rows=15)).certificate_.converged


def test_warm_starts_over_blocks():
    X, y, _ = problem()
    model = KernelMachineRegressor(lam=1e-2, approximation=MAPS[0], warm_start=True)
    cold = model.fit(Blocks(X, y, rows=30)).n_iter_
    assert model.fit(Blocks(X, y, rows=30)).n_iter_ < cold


@pytest.mark.parametrize("loss", ["absolute", "hinge"])
def test_weights_are_repetitions_in_the_space_of_a_map(loss):
    X, y, weight = problem()
    machine = KernelMachineRegressor if loss == "absolute" else KernelMachineClassifier
    y = y if loss == "absolute" else y > 0
    options = {"lam": 1e-2, "approximation": PolynomialMap(2), "tol": 1e-5}
    weighted = machine(loss, **options).fit(X, y, weight)
    counts = weight.astype(int)
    repeated = machine(loss, **options).fit(np.repeat(X, counts, axis=0), np.repeat(y, counts))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, atol=1e-5)  # far below what tol promises


@pytest.mark.parametrize("features", MAPS, ids=lambda m: type(m).__name__)
def test_cross_validation_and_sparse_rows(features):
    X, y, _ = problem()
    options = {"lam": "cv", "lams": [1.0, 1e-2], "cv": 3, "approximation": features}
    model = KernelMachineRegressor("huber", **options).fit(X, y)
    assert model.lam_ == 1e-2
    sparse = KernelMachineRegressor("huber", **options).fit(sp.csr_array(X), y)
    assert sparse.predict(sp.csr_array(X)).shape == y.shape
    if isinstance(features, PolynomialMap):
        np.testing.assert_allclose(sparse.cv_path_, model.cv_path_, rtol=1e-6)


def test_hessians_that_do_not_fit_are_refused():
    X, y, _ = problem()
    with pytest.raises(MemoryError, match="lower n_components, or raise memory="):
        KernelMachineRegressor(approximation=FourierFeatures(n_components=400), memory=10_000).fit(X, y)


def test_lam_of_a_map_with_a_kernel_of_its_own_is_in_its_unit():
    X, y, _ = problem()
    model = KernelMachineRegressor("squared", lam="cv", approximation=PolynomialMap(2)).fit(X, y)
    assert model.lams_[0] == pytest.approx(np.mean((1 + np.sum(X**2, axis=1)) ** 2))
    assert KernelMachineRegressor("squared", kernel=RBF(), lam="cv").fit(X, y).lams_[0] == 1.0


@pytest.mark.parametrize("seed", [2, 6, 10])
def test_what_a_constant_may_cost_is_no_bound_far_from_the_optimum(seed):
    """There almost no row is where the Huber loss bends."""
    X, Y = make_regression(n_samples=42, n_features=5, n_informative=5, n_targets=5, random_state=42)
    model = KernelMachineRegressor(approximation=FourierFeatures(random_state=seed)).fit(X[:30], Y[:30])
    assert model.certificate_.converged, model.certificate_


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("classes", "seed"), [(2, 1), (2, 2), (3, 2)])
@pytest.mark.parametrize("offset", [10.0, 1e2, 1e4])
def test_features_far_from_the_origin(classes, seed, offset):
    """A change of their weight is like one of the intercept: no step is left out for that, and no gap."""
    rng = np.random.default_rng(seed)
    X = offset + rng.standard_normal((40, 2))
    y = np.digitize(X[:, 0] - offset + 0.3 * rng.standard_normal(40), [0.0] if classes == 2 else [-0.5, 0.5])
    options = {"kernel": Polynomial(2), "approximation": Nystroem(n_components=1, random_state=0), "lam": 1e-3}
    model = KernelMachineClassifier("multinomial", max_iter=2000, **options).fit(X, y)
    assert model.certificate_.converged or offset == 1e4  # where rounding is near the tolerance
    F = model.approximation_.transform(X)
    unit, hot = F.std(), np.eye(classes)[y]

    def objective(z):
        c, b = z.reshape(2, -1)
        f = (F - F.mean()) / unit * c + b
        return np.mean(logsumexp(f, axis=1) - np.sum(f * hot, axis=1)) + 0.5e-3 * np.sum((c / unit) ** 2)

    best = minimize(objective, np.zeros(2 * classes), options={"gtol": 1e-9}).fun
    assert model.certificate_.primal == pytest.approx(best, rel=2.0 * max(model.certificate_.gap, 1e-6))
