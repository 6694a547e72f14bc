"""Maps as workers use them: features, and what they are combinations of."""

import numpy as np
import pytest

from gramian.data.passes import Held
from gramian.features.base import WorkerMap
from gramian.features.fourier import FourierFeatures
from gramian.features.nystrom import Nystroem
from gramian.kernels import RBF


@pytest.mark.parametrize("features", [Nystroem(RBF(1.0), n_components=9), FourierFeatures(RBF(1.0), n_components=9)])
def test_features_are_combinations_of_the_basis(features, rng):
    X = rng.standard_normal((50, 2))
    lift = WorkerMap.of(features.set_params(random_state=0).fit(X), X[:1])
    part, w = Held(X).all, rng.standard_normal((9, 2))
    F, R = lift(X), lift.raw(part)
    np.testing.assert_array_equal(F, features.transform(X))
    np.testing.assert_allclose(R @ lift.unmixed(w), F @ w, atol=1e-10)
    np.testing.assert_allclose(lift.mixed(R.T @ X), F.T @ X, atol=1e-10)
    np.testing.assert_allclose(lift.congruent(R.T @ R), F.T @ F, atol=1e-9)
    assert lift.independent == isinstance(features, Nystroem)


def test_rows_of_a_gram_matrix(rng):
    X = rng.standard_normal((30, 2))
    K = 2.0 * RBF(1.0)(X)
    features = Nystroem("precomputed", n_components=5, random_state=0).fit(K)
    lift, part = WorkerMap.of(features, K[:1]), Held(K).all.take(slice(10, 20))
    np.testing.assert_allclose(lift.diagonal(part), 2.0 * np.ones(10))
    np.testing.assert_array_equal(lift.raw(part), K[10:20][:, features.component_indices_])


def test_float32_rows_in_float64(rng):
    X = rng.standard_normal((20, 2)).astype(np.float32)
    lift = WorkerMap.of(Nystroem(RBF(1.0), n_components=5, random_state=0).fit(X.astype(float)), X[:1])
    assert lift(X).dtype == np.float64


def test_strips_cover_all_rows(rng):
    X = rng.standard_normal((1000, 2))
    heights = [part.index.size for part in Held(X).all.strips(2**14)]
    assert heights == [256, 256, 256, 232]
