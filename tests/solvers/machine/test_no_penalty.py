"""lam=0: the minimiser of least norm, beside what each loss is without a penalty; refused where there is none."""

import numpy as np
import pytest
from scipy.optimize import linprog
from sklearn.linear_model import LogisticRegression

from gramian import SVC, KernelInterpolator, KernelMachineClassifier, KernelMachineRegressor, Nystroem, verify
from gramian.kernels import Linear, Matern

rng = np.random.default_rng(0)
n = 40
X = rng.uniform(-2, 2, (n, 2))
y = X @ [1.0, -2.0] + 0.5 + 0.3 * rng.standard_normal(n)


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute"])
def test_a_kernel_that_can_interpolate_does(loss):
    k = Matern(1.0, nu=0.5)
    model = KernelMachineRegressor(loss, lam=0, kernel=k, fit_intercept=False, tol=1e-4).fit(X, y)
    through = KernelInterpolator(k).fit(X, y)
    assert np.allclose(model.predict(X), y, atol=1e-3)
    assert np.isclose(model.function_.norm(), through.function_.norm(), rtol=1e-2)
    assert model.certificate_.converged
    assert "limit" in model.certificate_.message
    assert verify(model, X, y).converged


def test_least_squares_and_least_absolute_deviations():
    squares = KernelMachineRegressor("squared", lam=0, kernel=Linear()).fit(X, y)
    A = np.column_stack([X, np.ones(n)])
    fit = A @ np.linalg.lstsq(A, y, rcond=None)[0]
    assert np.allclose(squares.predict(X), fit, atol=1e-5)
    assert np.isclose(squares.certificate_.primal, 0.5 * np.mean((fit - y) ** 2), rtol=1e-6)
    absolute = KernelMachineRegressor("absolute", lam=0, kernel=Linear()).fit(X, y)
    both = np.hstack([A, -A, np.eye(n), -np.eye(n)])
    program = linprog(np.append(np.zeros(6), np.ones(2 * n) / n), A_eq=both, b_eq=y)
    assert np.isclose(absolute.certificate_.primal, program.fun, rtol=1e-5)
    for model in (squares, absolute):
        assert model.certificate_.converged
        assert verify(model, X, y).converged


def test_logistic_regression_where_it_has_a_maximum_and_not_elsewhere():
    labels = (y + rng.standard_normal(n) > 0.5).astype(int)
    model = KernelMachineClassifier("logistic", lam=0, kernel=Linear()).fit(X, labels)
    theirs = LogisticRegression(C=1e10, tol=1e-10, max_iter=10_000).fit(X, labels)
    assert np.allclose(model.decision_function(X), theirs.decision_function(X), atol=1e-3)
    assert model.certificate_.converged
    separable = (X[:, 0] > 0).astype(int)
    with pytest.raises(ValueError, match="with lam=0 the loss has no minimum"):
        KernelMachineClassifier("logistic", lam=0, kernel=Linear()).fit(X, separable)


def test_the_hinge_becomes_the_hard_margin():
    far = X[np.abs(X[:, 0]) > 0.5]
    labels = (far[:, 0] > 0).astype(int)
    model = KernelMachineClassifier("hinge", lam=0, kernel=Linear()).fit(far, labels)
    hard = SVC(kernel="linear", C=np.inf, tol=1e-8).fit(far, labels)
    assert np.allclose(model.decision_function(far), hard.decision_function(far), atol=1e-2)


def test_what_lam_zero_cannot_be_combined_with_is_refused():
    for params in ({"penalty": "norm"}, {"approximation": Nystroem(n_components=5)}):
        with pytest.raises(ValueError, match="lam=0, the loss alone"):
            KernelMachineRegressor(lam=0, **params).fit(X, y)
    with pytest.raises(ValueError, match="with lam=0 the dual has no penalty"):
        KernelMachineRegressor("squared", lam=0, kernel=Linear()).fit(X, y).kkt()
    with pytest.raises(ValueError, match="lam"):
        KernelMachineRegressor(lam=-1.0).fit(X, y)
