"""Pre-images: a training row from its own feature vector, and a similarity that never falls."""

from __future__ import annotations

import numpy as np

from gramian.kernels import RBF
from gramian.progress import Clock
from gramian.solvers.spectral.preimage import fixed_point


def test_a_row_is_its_own_preimage(rng):
    X = rng.standard_normal((30, 3))
    points, converged = fixed_point(RBF(1.5), X, np.eye(30)[:4], X[:4] + 0.3)
    np.testing.assert_allclose(points, X[:4], atol=1e-4)
    assert converged.all()


def test_it_rises_whatever_the_signs(rng):
    X = rng.standard_normal((40, 2))
    weights = rng.standard_normal((50, 40)) + 0.3
    start = rng.standard_normal((50, 2))
    points, converged = fixed_point(RBF([1.0, 2.0]), X, weights, start, max_iter=500)

    def height(Z):
        return np.sum(weights * RBF([1.0, 2.0])(Z, X), axis=1)

    assert np.all(height(points) >= height(start) - 1e-12)
    assert np.all(height(points)[converged] > 0)
    gradient = np.stack(
        [RBF([1.0, 2.0]).grad_inputs(z[None], X, w[None])[0] for z, w in zip(points, weights, strict=True)]
    )
    assert np.abs(gradient[converged]).max() < 1e-3


def test_it_stops_with_the_clock(rng):
    X = rng.standard_normal((10, 2))
    points, converged = fixed_point(RBF(1.0), X, np.ones((3, 10)), X[:3], clock=Clock(1e-9))
    np.testing.assert_array_equal(points, X[:3])
    assert not converged.any()
