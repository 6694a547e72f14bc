"""Penalties of the user's own: beside those that have a name, and beside a general optimiser."""

import numpy as np
import pytest
from scipy.optimize import minimize

from gramian import KernelMachineClassifier, KernelMachineRegressor, Nystroem, verify
from machine_problems import noisy_sine

n = 30
X, y, k, K = noisy_sine(n)


class Power:
    """g(r) = r^p / p."""

    def __init__(self, p):
        self.p = p

    def value(self, r):
        return r**self.p / self.p

    def derivative(self, r):
        return r ** (self.p - 1.0)


class Logarithm:
    """g(r) = log(1 + r²), increasing and not convex."""

    def value(self, r):
        return np.log1p(r**2)

    def derivative(self, r):
        return 2 * r / (1 + r**2)


@pytest.mark.parametrize("loss", ["huber", "absolute"])
@pytest.mark.parametrize(("p", "name"), [(2, "squared"), (1, "norm")])
@pytest.mark.parametrize("lam", [1e-2, 10.0])
def test_penalties_that_have_a_name(loss, p, name, lam):
    own = KernelMachineRegressor(loss, penalty=Power(p), lam=lam, kernel=k, fit_intercept=False).fit(X, y)
    named = KernelMachineRegressor(loss, penalty=name, lam=lam, kernel=k, fit_intercept=False).fit(X, y)
    assert np.isclose(own.certificate_.primal, named.certificate_.primal, rtol=1e-5)
    assert np.allclose(own.predict(X), named.predict(X), atol=5e-3)
    assert own.certificate_.kind == "duality gap"
    assert own.certificate_.converged
    assert verify(own, X, y).converged


@pytest.mark.parametrize("intercept", [True, False])
def test_a_fourth_power_by_a_general_optimiser(intercept):
    lam = 0.05
    model = KernelMachineRegressor("squared", penalty=Power(4), lam=lam, kernel=k, fit_intercept=intercept, tol=1e-8)
    model.fit(X, y)
    values, vectors = np.linalg.eigh(K)
    F = np.column_stack([vectors * np.sqrt(np.maximum(values, 0)), np.ones(n) * intercept])

    def objective(v):
        return 0.5 * np.mean((F @ v - y) ** 2) + lam * (v[:-1] @ v[:-1]) ** 2 / 4

    best = minimize(objective, np.zeros(n + 1), method="BFGS", options={"gtol": 1e-10, "maxiter": 5000}).fun
    assert np.isclose(model.certificate_.primal, best, rtol=1e-6)
    assert model.certificate_.dual <= best + 1e-9
    assert verify(model, X, y).converged
    u = model.dual_point_
    assert np.isclose(model.dual(u), model.certificate_.dual, rtol=1e-6)
    assert model.dual(0.5 * u) <= model.lagrangian(0.5 * u) <= model.certificate_.primal + 1e-9
    assert model.kkt().worst < 1e-3
    norm = model.function_.norm()
    assert np.isclose(model.multiplier_, lam * norm**2, rtol=1e-3)  # g'(r)/r


def test_a_penalty_that_is_not_convex_says_so_and_is_stationary():
    lam = 0.02
    model = KernelMachineRegressor("squared", penalty=Logarithm(), lam=lam, kernel=k, fit_intercept=False).fit(X, y)
    assert model.certificate_.kind == "stationary"
    assert model.certificate_.converged
    assert "not convex" in model.certificate_.message
    alpha = model.dual_coef_

    def objective(a):
        return 0.5 * np.mean((K @ a - y) ** 2) + lam * np.log1p(a @ K @ a)

    slope = [(objective(alpha + h) - objective(alpha - h)) / 2e-6 for h in 1e-6 * np.eye(n)]
    assert np.abs(slope).max() < 1e-6
    assert verify(model, X, y).kind == "stationary"
    assert verify(model, X, y).converged
    with pytest.raises(ValueError, match="convex penalty"):
        model.kkt()


def test_classes_and_maps():
    labels = (y > 0).astype(int)
    model = KernelMachineClassifier("logistic", penalty=Power(3), lam=0.05, kernel=k).fit(X, labels)
    assert model.certificate_.converged
    assert verify(model, X, labels).converged
    mapped = KernelMachineRegressor(
        "huber", penalty=Power(3), lam=0.05, kernel=k, approximation=Nystroem(n_components=n, random_state=0)
    ).fit(X, y)
    exact = KernelMachineRegressor("huber", penalty=Power(3), lam=0.05, kernel=k).fit(X, y)
    assert np.isclose(mapped.certificate_.primal, exact.certificate_.primal, rtol=1e-4)
    assert mapped.certificate_.converged


def test_bad_penalties_are_refused():
    class Falling(Power):
        def value(self, r):
            return -r

        def derivative(self, r):
            return -1.0

    class Wrong(Power):
        def derivative(self, r):
            return 3.0 * r

    class Infinite(Power):
        def value(self, r):
            return np.inf

    for penalty, what in ((Falling(2), "must grow"), (Wrong(2), "disagrees"), (Infinite(2), "finite")):
        with pytest.raises(ValueError, match=what):
            KernelMachineRegressor(penalty=penalty, kernel=k).fit(X, y)
    with pytest.raises(ValueError, match="penalty"):
        KernelMachineRegressor(penalty=3.0, kernel=k).fit(X, y)
