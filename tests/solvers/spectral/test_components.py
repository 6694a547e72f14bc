"""Principal components by the Gram matrix, by each solver, and by features, beside one dense decomposition."""

import numpy as np
import pytest

from gramian.data.passes import Held
from gramian.gram import Gram
from gramian.kernels import RBF, Linear
from gramian.solvers.spectral.components import by_features, by_gram
from gramian.solvers.spectral.eigen import Request
from own_features import own_features


def dense(K, center, rank):
    H = np.eye(len(K)) - center / len(K)
    values, vectors = np.linalg.eigh(H @ K @ H)
    return values[::-1][:rank], vectors[:, ::-1][:, :rank]


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("n", [5, 7, 9, 14])
def test_lanczos_on_few_rows(n, center, rng):
    X = rng.standard_normal((n, 2))
    for kernel in (RBF(1.0), RBF(1e-3), Linear()):
        found = by_gram(Gram(kernel, X), X, Request(rank=1, solver="lanczos", center=center))
        np.testing.assert_allclose(found.values, dense(kernel(X), center, 1)[0], rtol=1e-6)


@pytest.mark.parametrize("center", [False, True])
@pytest.mark.parametrize("solver", ["dense", "lanczos", "arpack", "randomized"])
def test_every_solver_finds_the_leading_components(solver, center, rng):
    X = rng.standard_normal((60, 2))
    found = by_gram(Gram(RBF(1.0), X), X, Request(rank=4, solver=solver, center=center))
    values, vectors = dense(RBF(1.0)(X), center, 4)
    np.testing.assert_allclose(found.values, values, rtol=1e-5)
    np.testing.assert_allclose(np.abs(np.sum(found.vectors * vectors, axis=0)), 1.0, atol=1e-5)
    assert found.certificate.converged
    assert found.trace == pytest.approx(np.trace(RBF(1.0)(X)) - center * 60 * RBF(1.0)(X).mean())


@pytest.mark.parametrize("center", [False, True])
def test_features_and_their_kernel_have_the_same_components(center, rng):
    F = rng.standard_normal((50, 6)) + 1.0
    ask = Request(rank=3, center=center)
    with Held(F, np.zeros((50, 1)), np.ones(50)).passes() as passes:
        found, _ = by_features(passes, own_features(6), passes.blocks.all, ask, every=True)
    exact = by_gram(Gram(Linear(), F), F, ask)
    np.testing.assert_allclose(found.values, exact.values, rtol=1e-9)
    np.testing.assert_allclose(np.abs(np.sum(found.vectors * exact.vectors, axis=0)), 1.0, atol=1e-9)


def test_sizes_that_a_solver_cannot_have(rng):
    X = rng.standard_normal((20, 2))
    for solver, rank in (("lanczos", 5), ("arpack", 20)):
        with pytest.raises(ValueError, match=solver):
            by_gram(Gram(RBF(1.0), X), X, Request(rank=rank, solver=solver))
