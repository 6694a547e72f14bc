"""Covariances of features over passes, against dense ones."""

import numpy as np
import pytest

from gramian.data.blocks import Blocks
from gramian.data.passes import Held
from gramian.features.base import WorkerMap
from gramian.features.fourier import FourierFeatures
from gramian.features.nystrom import Nystroem
from gramian.kernels import RBF
from gramian.solvers.in_features.covariance import CentredProducts, covariance, projections


@pytest.mark.parametrize("features", [Nystroem(RBF(1.0), n_components=7), FourierFeatures(RBF(1.0), n_components=7)])
@pytest.mark.parametrize("center", [True, False])
@pytest.mark.parametrize("source", [Held, lambda X: Blocks(X, rows=30)])
def test_sums_over_passes_are_those_of_all_features(features, center, source, rng):
    X, V = rng.standard_normal((100, 2)), rng.standard_normal((7, 3))
    F = features.set_params(random_state=0).fit(X).transform(X)
    mean = F.mean(axis=0) if center else np.zeros(7)
    G = F - mean
    with source(X).passes() as passes:
        lift = WorkerMap.of(features, X[:1])
        found = covariance(passes, lift, passes.sample(20, 0), center=center)
        np.testing.assert_allclose(found.scatter, G.T @ G, atol=1e-10)
        np.testing.assert_allclose(found.mean, mean, atol=1e-13)
        np.testing.assert_allclose(CentredProducts(passes, lift, mean) @ V, G.T @ (G @ V), atol=1e-10)
        np.testing.assert_allclose(projections(passes, lift, V), F @ V, atol=1e-12)
    assert found.count == 100
    if isinstance(features, Nystroem):
        assert found.error == pytest.approx(1.0 - np.sum(F**2) / 100, rel=1e-8)


def test_features_far_from_zero_lose_no_digits(rng):
    class Shift:
        """A map that adds a large constant."""

        def transform(self, X):
            return X + 1e8

    X = rng.integers(-8, 8, (64, 3)).astype(float)
    with Held(X).passes() as passes:
        found = covariance(passes, WorkerMap(Shift(), 3), passes.sample(16, 0), center=True)
    G = X - X.mean(axis=0)
    np.testing.assert_allclose(found.scatter, G.T @ G, rtol=1e-6, atol=1e-4)
