"""Losses of all values jointly, beside general optimisers and the same problem written row by row."""

import numpy as np
import pytest
from scipy.optimize import minimize

from gramian import KernelMachineRegressor, Nystroem, verify
from gramian.losses import Loss
from machine_problems import noisy_sine

n = 20
X, y, k, K = noisy_sine(n)


class Ranking(Loss):
    """Hinge of all pairs in the wrong order, or too close."""

    joint = True

    def pairs(self, f, y):
        D = np.sign(y[:, None] - y)
        return D, 1 - D * (f[:, None] - f)

    def value(self, f, y):
        D, v = self.pairs(f, y)
        return np.where(D != 0, np.maximum(v, 0), 0).sum() / len(f) ** 2

    def gradient(self, f, y):
        D, v = self.pairs(f, y)
        G = np.where((D != 0) & (v > 0), -D, 0)
        return (G.sum(axis=1) - G.sum(axis=0)) / len(f) ** 2


class Maximum(Loss):
    joint = True

    def value(self, f, y):
        return np.abs(f - y).max()

    def gradient(self, f, y):
        return np.where(np.arange(len(f)) == np.abs(f - y).argmax(), np.sign(f - y), 0.0)


class MeanSquares(Loss):
    joint = True

    def value(self, f, y):
        return 0.5 * np.mean((f - y) ** 2)

    def gradient(self, f, y):
        return (f - y) / len(f)


def test_a_sum_over_rows_is_the_ordinary_machine():
    joint = KernelMachineRegressor(MeanSquares(), lam=0.05, kernel=k, fit_intercept=False, tol=1e-9).fit(X, y)
    plain = KernelMachineRegressor("squared", lam=0.05, kernel=k, fit_intercept=False, tol=1e-9).fit(X, y)
    assert np.isclose(joint.certificate_.primal, plain.certificate_.primal, rtol=1e-8)
    assert np.allclose(joint.predict(X), plain.predict(X), atol=1e-4)
    assert joint.solver_.name == "bundle"


def test_the_largest_error_by_quadratic_programming():
    lam = 0.05
    model = KernelMachineRegressor(Maximum(), lam=lam, kernel=k, fit_intercept=False, tol=1e-9).fit(X, y)
    values, vectors = np.linalg.eigh(K)
    F = vectors * np.sqrt(np.maximum(values, 0))
    limits = [{"type": "ineq", "fun": lambda v, s=s: v[-1] - s * (F @ v[:-1] - y)} for s in (1, -1)]
    start = np.append(np.zeros(n), np.abs(y).max())
    program = minimize(
        lambda v: v[-1] + 0.5 * lam * v[:-1] @ v[:-1],
        start,
        constraints=limits,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert np.isclose(model.certificate_.primal, program.fun, rtol=1e-6)
    assert model.certificate_.kind == "duality gap"
    assert model.certificate_.dual <= program.fun + 1e-9


@pytest.mark.parametrize("lam", [0.1, 1e-3])
def test_ranking_has_no_better_neighbour_and_its_bound_is_one(lam, rng):
    model = KernelMachineRegressor(Ranking(), lam=lam, kernel=k).fit(X, y)
    alpha, loss = model.dual_coef_, Ranking()

    def objective(a):
        return loss.value(K @ a, y) + 0.5 * lam * a @ K @ a

    assert model.certificate_.converged
    assert np.isclose(objective(alpha), model.certificate_.primal)
    for size in (1e-3, 1e-1, 1.0):
        for _ in range(20):
            assert objective(alpha + size * rng.standard_normal(n)) >= model.certificate_.dual - 1e-12
    assert verify(model, X, y).converged
    order = np.argsort(model.predict(X))
    assert np.corrcoef(np.argsort(order), np.argsort(np.argsort(y)))[0, 1] > 0.8
    model.dual_coef_ = 1.05 * model.dual_coef_
    assert not verify(model, X, y).converged


def test_several_targets_and_rows_of_weight_zero():
    Y = np.column_stack([y, -y])
    w = np.append(np.ones(n - 3), np.zeros(3))
    model = KernelMachineRegressor(Maximum(), lam=0.05, kernel=k, fit_intercept=False).fit(X, Y, sample_weight=w)
    part = KernelMachineRegressor(Maximum(), lam=0.05, kernel=k, fit_intercept=False).fit(X[: n - 3], y[: n - 3])
    assert np.allclose(model.predict(X)[:, 0], part.predict(X), atol=1e-3)
    assert np.allclose(model.predict(X)[:, 1], -part.predict(X), atol=1e-3)


def test_what_stops_early_says_so():
    with pytest.warns(UserWarning, match="max_iter=2 was reached"):
        model = KernelMachineRegressor(Ranking(), lam=1e-3, kernel=k, max_iter=2).fit(X, y)
    assert model.certificate_.dual < model.certificate_.primal


def test_bad_joint_losses_and_combinations_are_refused():
    machine = KernelMachineRegressor(Maximum(), lam=0.1, kernel=k, fit_intercept=False)
    with pytest.raises(ValueError, match="fit_intercept=False"):
        KernelMachineRegressor(Maximum(), lam=0.1, kernel=k).fit(X, y)
    for params, what in (
        ({"approximation": Nystroem(n_components=5)}, "approximation="),
        ({"penalty": "norm"}, "penalty='norm'"),
        ({"lam": "cv"}, "lam='cv'"),
        ({"solver": "newton"}, "solver='newton' does not suit Maximum"),
    ):
        with pytest.raises(ValueError, match=what):
            KernelMachineRegressor(Maximum(), **{"lam": 0.1, "kernel": k, "fit_intercept": False, **params}).fit(X, y)
    with pytest.raises(ValueError, match="sample_weight"):
        machine.fit(X, y, sample_weight=np.arange(1, n + 1.0))
    with pytest.raises(ValueError, match="solver='bundle' does not suit Huber"):
        KernelMachineRegressor("huber", solver="bundle").fit(X, y)
    with pytest.raises(ValueError, match="of single rows with conjugate"):
        machine.fit(X, y).kkt()

    class Wrong(Maximum):
        def gradient(self, f, y):
            return -super().gradient(f, y)

    class Many(Maximum):
        def value(self, f, y):
            return np.abs(f - y)

    with pytest.raises(ValueError, match="gradient disagrees with value"):
        KernelMachineRegressor(Wrong(), lam=0.1, kernel=k, fit_intercept=False).fit(X, y)
    with pytest.raises(ValueError, match="must be one number"):
        KernelMachineRegressor(Many(), lam=0.1, kernel=k, fit_intercept=False).fit(X, y)
