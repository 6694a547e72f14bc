"""Evidence behind a linear map and the outer products of gradients, beside dense loops."""

import itertools

import numpy as np
import pytest

from gramian.kernels import RBF, Matern
from gramian.progress import Clock
from gramian.solvers.gp.metric_learning import MetricEvidence, Prior, agop_round, learn_map, moved, root

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 3))
y = np.sin(X[:, 0] + X[:, 1]) + 0.02 * rng.standard_normal(80)
L = np.array([[0.6, -0.2], [0.1, 0.5], [0.3, 0.2]])


def dense_evidence(kernel, X, Y, weights, prior):
    """The log density of repeated rows, by the definition."""
    index = np.repeat(np.arange(len(X)), weights.astype(int))
    A = prior.amplitude * kernel(X[index] @ prior.L, X[index] @ prior.L) + prior.noise * np.eye(index.size)
    _sign, logdet = np.linalg.slogdet(A)
    quadratic = float(np.sum(Y[index] * np.linalg.solve(A, Y[index])))
    return -0.5 * quadratic - 0.5 * Y.shape[1] * (logdet + index.size * np.log(2 * np.pi))


@pytest.mark.parametrize("kernel", [Matern(1.0, nu=1.5), RBF(0.7)], ids=repr)
def test_the_evidence_and_its_slope(kernel):
    rows, Y, weights = X[:25], np.c_[y, y**2][:25], rng.integers(1, 4, 25).astype(float)
    evidence, prior = MetricEvidence(kernel, rows, Y, weights), Prior(L, 1.3, 0.2)
    value, by_L, by_variances = evidence.at(prior)
    assert value == pytest.approx(dense_evidence(kernel, rows, Y, weights, prior), rel=1e-10)
    step = 1e-5
    for i, j in itertools.product(range(3), range(2)):
        e = np.zeros(L.shape)
        e[i, j] = step
        up, down = (dense_evidence(kernel, rows, Y, weights, Prior(L + s * e, 1.3, 0.2)) for s in (1, -1))
        assert by_L[i, j] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-5)
    for which in range(2):
        steps = np.exp(step * np.eye(2)[which])
        up = dense_evidence(kernel, rows, Y, weights, Prior(L, 1.3 * steps[0], 0.2 * steps[1]))
        down = dense_evidence(kernel, rows, Y, weights, Prior(L, 1.3 / steps[0], 0.2 / steps[1]))
        assert by_variances[which] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-5)


def test_agop_is_the_double_loop():
    rows, Y, weights = X[:20], np.c_[y, y**2][:20], rng.random(20) + 0.5
    kernel, prior = RBF(1.0), Prior(L, 1.3, 0.2)
    A = 1.3 * kernel(rows @ L) + 0.2 * np.diag(1 / weights)
    alpha = np.linalg.solve(A, Y)
    G = np.zeros((3, 3))
    for c, i in itertools.product(range(2), range(20)):
        gradient = np.zeros(3)
        for j in range(20):
            k = 1.3 * np.exp(-0.5 * np.sum(((rows[i] - rows[j]) @ L) ** 2))
            gradient -= alpha[j, c] * k * L @ L.T @ (rows[i] - rows[j])
        G += weights[i] / weights.sum() * np.outer(gradient, gradient)
    evidence = MetricEvidence(kernel, rows, Y, weights)
    np.testing.assert_allclose(evidence.outer_products(prior), G, rtol=1e-9, atol=1e-12)
    after = agop_round(evidence, prior, 0.5, None).L
    values, axes = np.linalg.eigh(G)
    half = axes @ np.diag(np.sqrt(np.maximum(values, 0.0))) @ axes.T
    np.testing.assert_allclose(
        after @ after.T / np.linalg.norm(after @ after.T), half / np.linalg.norm(half), atol=1e-7
    )
    assert np.linalg.norm(after) == pytest.approx(np.linalg.norm(L))


def test_roots_and_moves():
    G = np.cov(rng.standard_normal((3, 20)))
    np.testing.assert_allclose(root(G, 1.0, None) @ root(G, 1.0, None).T, G)
    np.testing.assert_allclose(root(G, 1.0, 3) @ root(G, 1.0, 3).T, G)
    assert moved(L, 3.0 * L) == pytest.approx(0.0, abs=1e-12)
    assert moved(np.eye(2)[:, :1], np.eye(2)[:, 1:]) == pytest.approx(2**0.5)


@pytest.mark.parametrize("free", ["scale", "rows", "entries"])
def test_a_search_rises(free):
    evidence = MetricEvidence(Matern(1.0, nu=1.5), X, y[:, None], np.ones(80))
    start = Prior(np.eye(3) / 3**0.5)
    found = learn_map(evidence, start, free, max_iter=20, clock=Clock())
    assert found.value > evidence.at(start)[0]
    assert found.value == pytest.approx(evidence.at(found.prior)[0])
