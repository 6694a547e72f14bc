"""Machines over blocks: the optimum whatever the tolerance, and how many passes lead to it."""

from dataclasses import dataclass

import numpy as np
import pytest

import gramian.features.sample as landmark_sample
from gramian import FourierFeatures, KernelMachineClassifier, KernelMachineRegressor, Nystroem
from gramian.data import Blocks
from gramian.data.passes import Passes

N = 3000


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.3 * rng.standard_normal(N)
    return X, y, rng.poisson(np.exp(0.5 * np.clip(y, -3.0, 3.0)))


@pytest.fixture
def passes(monkeypatch):
    """What passes over the rows are made for, in order; those without a Hessian are chords."""
    made = []
    summed, mapped = Passes.sum, Passes.map

    def sum_(self, task, shared, **options):
        chord = task.__name__ == "local" and not any(shared.bends)
        made.append("chord" if chord else task.__name__)
        return summed(self, task, shared, **options)

    def map_(self, task, shared, **options):
        made.append(task.__name__)
        return mapped(self, task, shared, **options)

    monkeypatch.setattr(Passes, "sum", sum_)
    monkeypatch.setattr(Passes, "map", map_)
    return made


@pytest.fixture
def small_sample(monkeypatch):
    monkeypatch.setattr(landmark_sample, "LEAST", 600)
    monkeypatch.setattr(landmark_sample, "TIMES", 1)


def case(data, loss, classes):
    """The model that fits a loss, and the targets."""
    _, y, counts = data
    if classes:
        return KernelMachineClassifier, np.digitize(y, [0.0] if classes == 2 else [-0.5, 0.5])
    return KernelMachineRegressor, counts if loss == "poisson" else y


def values(model, X):
    return model.decision_function(X) if hasattr(model, "classes_") else model.predict(X)


SMOOTH = [("squared", 0), ("huber", 0), ("poisson", 0), ("logistic", 2), ("logistic", 3), ("squared_hinge", 2)]
KINKED = [("absolute", 0), ("quantile", 0), ("epsilon_insensitive", 0), ("hinge", 2), ("hinge", 3)]


@pytest.mark.parametrize("sampled", [True, False])
@pytest.mark.parametrize(("loss", "classes"), SMOOTH + KINKED)
def test_the_optimum_is_reached_with_the_default_tolerance(data, loss, classes, sampled, request):
    if sampled:
        request.getfixturevalue("small_sample")
    machine, y = case(data, loss, classes)
    options = {"approximation": FourierFeatures(n_components=40), "random_state": 0, "lam": 1e-4}
    one = machine(loss, tol=1e-14, max_iter=5000, **options).fit(data[0], y)
    other = machine(loss, **options).fit(Blocks(data[0], y, rows=700))
    assert other.certificate_.converged
    expected = values(one, data[0])
    np.testing.assert_allclose(values(other, data[0]), expected, atol=1e-6 * np.abs(expected).max(), rtol=0)


@pytest.mark.parametrize(("loss", "classes"), SMOOTH)
def test_a_smooth_loss_takes_few_hessians_and_then_chords(data, loss, classes, passes, small_sample):
    machine, y = case(data, loss, classes)
    machine(loss, approximation=Nystroem(n_components=40), random_state=0, lam=1e-4).fit(Blocks(data[0], y, rows=700))
    assert passes.count("local") <= 5
    assert passes.count("chord") <= 6
    assert passes.count("along") == 0


@pytest.mark.parametrize(("loss", "classes"), KINKED)
def test_a_loss_with_kinks_takes_few_passes(data, loss, classes, passes, small_sample, monkeypatch):
    # No corner may have more rows than so many, as with data beyond memory.
    monkeypatch.setattr("gramian.estimators.over_blocks.machine.LEAST_KINKS", 0)
    machine, y = case(data, loss, classes)
    model = machine(loss, approximation=Nystroem(n_components=40), random_state=0, lam=1e-4)
    model.fit(Blocks(data[0], y, rows=700))
    assert model.certificate_.gap < 1e-10
    assert passes.count("local") <= 6 * max(classes - 1, 1)
    assert len(passes) <= 17 * max(classes - 1, 1)


@pytest.mark.parametrize(("loss", "classes"), SMOOTH + KINKED)
def test_where_the_sample_is_all_rows_passes_confirm_it(data, loss, classes, passes):
    machine, y = case(data, loss, classes)
    machine(loss, approximation=Nystroem(n_components=40), random_state=0, lam=1e-4).fit(Blocks(data[0], y, rows=700))
    assert passes.count("local") == 0
    assert passes.count("chord") + passes.count("_gather") + passes.count("along") <= 4


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared_hinge"])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_class_that_is_not_in_the_sample(data, loss, classes, small_sample):
    X = data[0]
    y = (X[:, 0] > 0).astype(int) if classes == 3 else np.zeros(N, dtype=int)
    y[:3] = classes - 1
    options = {"approximation": FourierFeatures(n_components=20), "random_state": 0, "lam": 1e-3}
    one = KernelMachineClassifier(loss, tol=1e-14, max_iter=5000, **options).fit(X, y)
    other = KernelMachineClassifier(loss, **options).fit(Blocks(X, y, rows=700))
    assert other.certificate_.converged
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=1e-6)


@pytest.mark.parametrize("least", [5000, 0])
def test_a_constant_at_whose_kink_most_rows_lie(least, small_sample, monkeypatch):
    """One class between two others: the best function is nearly a constant, and two of three rows are at its kink."""
    monkeypatch.setattr("gramian.estimators.over_blocks.machine.LEAST_KINKS", least)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 3))
    y = np.digitize(np.sin(2.0 * X[:, 0]) + 0.1 * rng.standard_normal(N), [-0.5, 0.5])
    options = {"approximation": FourierFeatures(n_components=40), "random_state": 0}
    one = KernelMachineClassifier("hinge", tol=1e-14, **options).fit(X, y)
    other = KernelMachineClassifier("hinge", **options).fit(Blocks(X, y, rows=700))
    assert other.certificate_.converged
    np.testing.assert_allclose(other.decision_function(X), one.decision_function(X), atol=1e-6)


@dataclass(frozen=True)
class Own:
    """A user's loss: value and gradient, and a kink that nobody knows of."""

    kink: bool
    convex = True

    def value(self, f, y):
        return np.abs(f - y) if self.kink else np.log(np.cosh(f - y))

    def gradient(self, f, y):
        return np.sign(f - y) if self.kink else np.tanh(f - y)


@pytest.mark.parametrize("kink", [True, False])
def test_a_loss_known_by_its_gradient_alone(data, kink, small_sample):
    X, y, _ = data
    options = {"approximation": FourierFeatures(n_components=20), "random_state": 0, "lam": 1e-3}
    one = KernelMachineRegressor(Own(kink), tol=1e-14, **options).fit(X, y)
    other = KernelMachineRegressor(Own(kink), **options).fit(Blocks(X, y, rows=700))
    assert other.certificate_.converged
    np.testing.assert_allclose(other.predict(X), one.predict(X), atol=1e-6)
