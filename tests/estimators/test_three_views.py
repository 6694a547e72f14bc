"""Regularisation, minimum norm and probability are one object: ridge, interpolant and Gaussian process agree."""

from __future__ import annotations

import runpy
from pathlib import Path

import numpy as np
import pytest

from gramian.estimators.gp.regressor import GaussianProcessRegressor
from gramian.estimators.interpolator import KernelInterpolator
from gramian.estimators.ridge import KernelRidge
from gramian.kernels import RBF, Linear, Matern, White
from gramian.rkhs import Function

KERNELS = [RBF(0.8), 2.0 * Matern([0.5, 1.0], nu=1.5), Matern(1.0, nu=2.5) + 0.1 * Linear()]


def data(n=40):
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, (n, 2))
    return X, np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(n), rng.uniform(-3, 3, (25, 2))


def process(kernel, noise):
    return GaussianProcessRegressor(kernel, alpha=noise, optimizer=None)


@pytest.mark.filterwarnings("ignore:GaussianProcessRegressor. alpha=10 is noise far above")
@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("noise", [1e-4, 0.1, 10.0])
def test_ridge_is_the_mean_of_a_process(kernel, noise):
    X, y, Z = data()
    ridge = KernelRidge(alpha=noise, kernel=kernel, solver="cholesky").fit(X, y)
    gp = process(kernel, noise).fit(X, y)
    np.testing.assert_allclose(gp.predict(Z), ridge.predict(Z), atol=1e-8)
    np.testing.assert_allclose(gp.alpha_, ridge.dual_coef_, rtol=1e-6, atol=1e-8)
    assert gp.function_.norm() == pytest.approx(ridge.function_.norm(), rel=1e-6)


@pytest.mark.parametrize("kernel", KERNELS[1:], ids=repr)
def test_interpolation_is_the_limit_without_noise(kernel):
    X, y, Z = data()
    limit = KernelInterpolator(kernel=kernel).fit(X, y)
    distances = [
        np.abs(process(kernel, noise).fit(X, y).predict(Z) - limit.predict(Z)).max()
        for noise in 10.0 ** -np.arange(2, 10)
    ]
    assert distances[-1] < 1e-5
    assert np.all(np.diff(distances) < 0)
    np.testing.assert_allclose(process(kernel, 0.0).fit(X, y).predict(X), y, atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_variance_does_not_depend_on_the_targets(kernel):
    X, y, Z = data()
    first, second = (process(kernel, 0.1).fit(X, target).predict(Z, return_std=True)[1] for target in (y, y**2 - 3))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize("noise", [1e-3, 0.5])
def test_the_power_function_is_the_deviation(kernel, noise):
    X, y, Z = data()
    _, latent = process(kernel, noise).fit(X, y).predict(Z, return_std=True)
    gp = process(kernel + White(noise), 0.0).fit(X, y)
    _, observed = gp.predict(Z, return_std=True)
    ridge = KernelRidge(alpha=noise, kernel=kernel, solver="cholesky").fit(X, y)
    apart = process(kernel, noise).fit(X, y)
    inside = KernelRidge(alpha=0.0, kernel=kernel + White(noise), solver="cholesky").fit(X, y)
    for model in (ridge, gp, apart, inside):  # one meaning, however the noise came in
        np.testing.assert_allclose(model.function_.power(Z), latent, atol=1e-7)
        np.testing.assert_allclose(model.function_.power(Z, noisy=True), observed, atol=1e-7)
        w = np.linalg.solve(kernel(X) + noise * np.eye(len(X)), kernel(X, Z))
        squares = kernel.diag(Z) - 2 * np.sum(w * kernel(X, Z), axis=0) + np.sum(w * (kernel(X) @ w), axis=0)
        np.testing.assert_allclose(model.function_.worst_error(Z) ** 2, squares, atol=1e-7)
    with pytest.raises(ValueError, match="noise of its own"):
        process(kernel, np.full(len(X), noise)).fit(X, y).function_.power(Z, noisy=True)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
def test_the_deviation_is_attained_by_the_worst_function(kernel):
    """The sup over the unit ball of |g(x) - Σ w_i g(x_i)| is √k̄(x, x), attained at the residual of k(x, ·)."""
    X, y, Z = data(15)
    gp = process(kernel, 0.0).fit(X, y)
    _, std = gp.predict(Z, return_std=True)
    for x, deviation in zip(Z[:5], std[:5], strict=True):
        w = np.linalg.solve(kernel(X), kernel(X, x[None])[:, 0])
        worst = Function(kernel, x[None], [1.0]) - Function(kernel, X, w)
        assert worst.norm() == pytest.approx(deviation, abs=1e-5)
        error = worst(x[None])[0] - w @ worst(X)
        assert error / worst.norm() == pytest.approx(deviation, abs=1e-5)


def test_function_is_the_mean_with_several_targets():
    X, y, Z = data()
    Y = np.column_stack([y, 5 * y + 2])
    gp = GaussianProcessRegressor(RBF(1.0) + White(0.1), optimizer=None, normalize_y=True).fit(X, Y)
    mean = gp.predict(Z)
    for t, f in enumerate(gp.function_):
        np.testing.assert_allclose(f(Z) + Y[:, t].mean(), mean[:, t], atol=1e-10)


def test_the_example_runs():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    runpy.run_path(str(Path(__file__).parents[2] / "examples" / "regression" / "plot_three_views.py"))
    pyplot.close("all")
