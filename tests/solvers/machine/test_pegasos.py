"""Steps of Pegasos beside the plain loop, and what merging rows costs."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

from gramian.kernels import RBF
from gramian.progress import Clock
from gramian.solvers.machine.pegasos import Counts, descend, duality_gap
from reference_machine import hinge_dual, hinge_objective


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(150, noise=0.2, random_state=0)
    return X, 2.0 * y - 1.0


def test_the_compiled_loop_is_the_plain_one(rng, moons):
    X, y = moons
    K, lam, order = RBF(0.5)(X), 1e-2, rng.integers(0, 150, 700)
    beta, total = np.zeros(150), np.zeros(150)
    for t, i in enumerate(order, start=1):
        alpha = beta / (lam * (t - 1)) if t > 1 else beta
        if y[i] * (K[i] @ alpha) < 1:
            beta[i] += y[i]
        total += t * beta / (lam * t)
    counts = descend(K.__getitem__, y, np.zeros(150), Counts(np.zeros(150), np.zeros(150)), order, lam, block=64)
    np.testing.assert_array_equal(counts.beta, beta)
    np.testing.assert_allclose(counts.average(lam), total / (700 * 701 / 2))


def test_the_published_average_is_the_mean_of_the_iterates(rng, moons):
    X, y = moons
    K, lam, order = RBF(0.5)(X), 1e-2, rng.integers(0, 150, 300)
    beta, history = np.zeros(150), []
    for t, i in enumerate(order, start=1):
        history.append(beta / (lam * t))
        if y[i] * (K[i] @ history[-1]) < 1:
            beta[i] += y[i]
    start = Counts(np.zeros(150), np.zeros(150), textbook=True)
    counts = descend(K.__getitem__, y, np.zeros(150), start, order, lam, block=64)
    np.testing.assert_allclose(counts.average(lam), np.mean(history, axis=0), atol=1e-12)


def test_a_budget_of_rows_is_kept(rng, moons):
    X, y = moons
    K, order = RBF(0.5)(X), rng.integers(0, 150, 600)
    values, start = np.zeros(150), Counts(np.zeros(150), np.zeros(150))
    few = descend(K.__getitem__, y, values, start, order, 1e-2, max_support=20, diagonal=np.ones(150), block=32)
    assert np.count_nonzero(few.beta) <= 20
    np.testing.assert_allclose(values, K @ few.beta, atol=1e-9)  # the running values follow the merges


def test_the_certificate_is_the_duality_gap(moons):
    X, y = moons
    K, lam = RBF(0.5)(X), 0.1
    alpha = hinge_dual(K, y, lam)
    said = duality_gap(0.9 * alpha, K.__matmul__, y, np.full(150, 1 / 150), lam, 1e-3, 7, Clock())
    assert said.primal == pytest.approx(hinge_objective(K, y, 0.9 * alpha, lam))
    assert said.dual <= hinge_objective(K, y, alpha, lam) <= said.primal
    assert not said.converged
