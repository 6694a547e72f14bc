"""Least squares in the space of a map, over passes: against dense solves, whatever the rows come from."""

import numpy as np
import pytest
import scipy.sparse as sp

from gramian.data.blocks import Blocks
from gramian.data.passes import Held
from gramian.features.base import WorkerMap
from gramian.features.fourier import FourierFeatures
from gramian.features.nystrom import Nystroem
from gramian.features.polynomial import PolynomialMap
from gramian.kernels import RBF, Matern
from gramian.progress import Clock
from gramian.solvers.choice import Choice
from gramian.solvers.in_features.least_squares import by_kernel_values, moments, solve
from reference_least_squares import feature_leave_one_out

N = 90
RIDGE = np.array([0.1, 2.0])
MAPS = [Nystroem(Matern(1.0, nu=1.5), n_components=20), FourierFeatures(RBF(1.0), n_components=20)]


@pytest.fixture
def data(rng):
    return rng.standard_normal((N, 3)), rng.standard_normal((N, 2)), rng.uniform(0.1, 3.0, N)


def dense(F, Y, ridge, weights):
    A, right = (F.T * weights) @ F, F.T @ (weights[:, None] * Y)
    return np.stack([np.linalg.solve(A + r * np.eye(len(A)), b) for r, b in zip(ridge, right.T, strict=True)], axis=1)


def fitted(features, source, X, ridge=RIDGE, **options):
    features.set_params(**({"random_state": 0} if hasattr(features, "random_state") else {})).fit(X)
    with source.passes() as passes:
        sample = passes.sample(60, 0)
        return solve(passes, WorkerMap.of(features, X[:1]), sample, ridge, tol=1e-9, **options)


@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("solver", ["auto", "pcg"])
@pytest.mark.parametrize("weighted", [True, False])
def test_every_route_is_the_dense_solve(data, features, solver, weighted):
    X, Y, weights = data
    weights = weights if weighted else np.ones(N)
    for source in (Held(X, Y, weights if weighted else None), Blocks(X, Y, weights, rows=25)):
        fit = fitted(features, source, X, solver=solver)
        F = features.transform(X)
        np.testing.assert_allclose(fit.found.x, dense(F, Y, RIDGE, weights), atol=1e-7)
        assert fit.found.certificate.converged
        assert fit.choice.name == ("pcg" if solver == "pcg" else "moments")
        if solver == "auto" and isinstance(features, Nystroem):
            assert fit.error == pytest.approx(1.0 - np.sum(F**2) / N, rel=1e-8)


def test_sparse_rows_have_the_moments_of_dense_ones(data):
    X, Y, weights = data
    X = np.where(X > 0.5, X, 0.0)
    features = PolynomialMap(2).fit(X)
    for rows in (X, sp.csr_array(X)):
        with Held(rows, Y, weights).passes() as passes:
            sums, _ = moments(passes, WorkerMap.of(features, rows[:1]))
        F = features.transform(X)
        np.testing.assert_allclose(sums.second, (F.T * weights) @ F, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(sums.right, F.T @ (weights[:, None] * Y), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("features", MAPS)
def test_leave_one_out_is_refitting(data, features):
    X, Y, weights = data
    fit = fitted(features, Held(X, Y, weights), X, None, grid=np.array([0.3, 0.3]), loo=True)
    F, scale = features.transform(X), np.sqrt(weights)
    for j in range(2):
        errors = feature_leave_one_out(scale[:, None] * F, scale * Y[:, j], 0.3) / scale
        np.testing.assert_allclose(fit.found.loo[:, j], errors, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(fit.found.path[:, j], np.average(errors**2, weights=weights), rtol=1e-8)
    assert list(fit.found.ridge) == [0.3, 0.3]


def test_leave_one_out_of_targets_of_any_size(data):
    X, Y, weights = data
    unit = np.array([1e-200, 1e200])
    small = fitted(MAPS[0], Held(X, Y, weights), X, None, loo=True)
    other = fitted(MAPS[0], Held(X, Y * unit, weights), X, None, loo=True)
    np.testing.assert_array_equal(small.found.ridge, other.found.ridge)
    np.testing.assert_allclose(other.found.loo / unit, small.found.loo, rtol=1e-6, atol=1e-9)


def test_kernel_values_give_up_where_landmarks_nearly_coincide(rng):
    X = np.linspace(0, 1, N)[:, None]
    features = Nystroem(RBF(1.0), n_components=40, random_state=0).fit(X)
    lift = WorkerMap.of(features, X[:1])
    with Held(X, rng.standard_normal((N, 1))).passes() as passes:
        options = {"tol": 1e-12, "clock": Clock()}
        assert by_kernel_values(passes, lift, np.array([1e-12]), Choice("moments", ""), **options) is None
        assert solve(passes, lift, passes.sample(N, 0), np.array([1e-6]), tol=1e-6).found.certificate.converged
