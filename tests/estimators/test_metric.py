"""MetricMap: the evidence and AGOP beside dense loops, what it finds, weights, refusals, files."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian import KernelRidge, MetricMap, verify
from gramian.kernels import RBF, Matern
from gramian.progress import Clock
from gramian.solvers.gp.metric import MetricEvidence, Prior, agop_round, climb, moved, root

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 3))
y = np.sin(X[:, 0] + X[:, 1]) + 0.02 * rng.standard_normal(80)
L = np.array([[0.6, -0.2], [0.1, 0.5], [0.3, 0.2]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([MetricMap(max_iter=2, n_rows=40), MetricMap("agop", rounds=1, n_rows=40)])
def test_sklearn_contract(estimator, check):
    check(estimator)


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
    at = evidence.at(prior)
    assert at.value == pytest.approx(dense_evidence(kernel, rows, Y, weights, prior), rel=1e-10)
    step = 1e-5
    for i, j in itertools.product(range(3), range(2)):
        e = np.zeros(L.shape)
        e[i, j] = step
        up, down = (dense_evidence(kernel, rows, Y, weights, Prior(L + s * e, 1.3, 0.2)) for s in (1, -1))
        assert at.L[i, j] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-5)
    for which in range(2):
        steps = np.exp(step * np.eye(2)[which])
        up = dense_evidence(kernel, rows, Y, weights, Prior(L, 1.3 * steps[0], 0.2 * steps[1]))
        down = dense_evidence(kernel, rows, Y, weights, Prior(L, 1.3 / steps[0], 0.2 / steps[1]))
        assert at.variances[which] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-5)


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
    found = climb(evidence, start, free, max_iter=20, clock=Clock())
    assert found.value > evidence.at(start).value
    assert found.value == pytest.approx(evidence.at(found.prior).value)


@pytest.mark.parametrize("method", ["evidence", "agop"])
@pytest.mark.parametrize("rank", [None, 1])
def test_it_finds_the_direction(method, rank):
    shifted = X * [1.0, 10.0, 0.1] + [5.0, 0.0, 0.0]  # units must not matter
    model = MetricMap(method, rank=rank).fit(shifted, y)
    free = model.metric_ * np.outer([1.0, 10.0, 0.1], [1.0, 10.0, 0.1])
    values, axes = np.linalg.eigh(free)
    assert abs(axes[:, -1] @ [1.0, 1.0, 0.0]) / 2**0.5 > 0.99
    assert values[-2] < 0.2 * values[-1]
    np.testing.assert_allclose(model.transform(shifted), shifted @ model.L_)
    assert model.L_.shape == (3, rank or 3)
    found = verify(model, shifted, y)
    assert found.converged == model.certificate_.converged, (found, model.certificate_)
    if method == "evidence":
        assert found.violation == pytest.approx(model.certificate_.violation, rel=1e-2, abs=1e-5)


def test_a_ridge_behind_it_beats_the_ridge_alone():
    new = rng.standard_normal((300, 3))
    alone = KernelRidge("loo", kernel=Matern(3**0.5, nu=1.5)).fit(X, y)
    behind = make_pipeline(MetricMap(), KernelRidge("loo", kernel=Matern(1.0, nu=1.5))).fit(X, y)
    errors = [np.mean((m.predict(new) - np.sin(new[:, 0] + new[:, 1])) ** 2) for m in (alone, behind)]
    assert errors[1] < 0.5 * errors[0]


def test_classes_several_targets_weights_and_float32():
    labels = np.array(["low", "middle", "high"])[np.digitize(X[:, 0] + X[:, 1], [-1.0, 1.0])]
    model = MetricMap("agop", tol=2.0).fit(X, labels)
    assert model.classes_.tolist() == ["high", "low", "middle"]
    assert model.metric_[2, 2] < 0.3 * model.metric_[0, 0]
    assert verify(model, X, labels).violation <= 2.0
    several = MetricMap(max_iter=3, tol=1e3).fit(X, np.c_[y, X[:, 2]])
    assert not hasattr(several, "classes_")
    assert np.diagonal(several.metric_).min() > 0.05 * np.diagonal(several.metric_).max()
    weights = np.where(np.arange(80) < 40, 2.0, 0.0)
    twice = MetricMap(max_iter=3, tol=1e3).fit(np.r_[X[:40], X[:40]], np.r_[y[:40], y[:40]])
    heavy = MetricMap(max_iter=3, tol=1e3).fit(X, y, weights)
    np.testing.assert_allclose(heavy.L_, twice.L_, rtol=1e-9)
    assert heavy.rows_.max() < 40
    assert (
        MetricMap(max_iter=3, tol=1e3).fit(X.astype(np.float32), y).transform(X.astype(np.float32)).dtype == np.float32
    )


def test_a_seeded_sample_of_all_rows():
    many = np.r_[X, X + 0.01]
    model = MetricMap(n_rows=50, max_iter=2, tol=1e3, random_state=3).fit(many, np.r_[y, y])
    again = MetricMap(n_rows=50, max_iter=2, tol=1e3, random_state=3).fit(many, np.r_[y, y])
    np.testing.assert_array_equal(model.L_, again.L_)
    assert model.rows_.size == 50
    assert model.rows_.max() > 80


def test_constant_and_equal_columns():
    odd = np.c_[X, np.full(80, 7.0), X[:, 0]]
    model = MetricMap(max_iter=5, tol=1e3).fit(odd, y)
    assert np.all(model.L_[3] == 0.0)
    assert np.all(np.isfinite(model.L_))


def test_restarts_that_disagree_are_told():
    noise = np.random.default_rng(5).standard_normal(80)
    with pytest.warns(UserWarning, match="the metrics of 3 runs disagree"):
        model = MetricMap(max_iter=8, tol=1e6, n_restarts=2, random_state=0).fit(X, noise)
    assert model.restarts_.shape == (2,)
    agreed = MetricMap("agop", n_restarts=1, random_state=0).fit(X, y)
    assert agreed.restarts_[0] < 0.2


def test_what_is_refused():
    for args, wrong in (
        ((X, y), {"rank": 4}),
        ((X, np.ones(80)), {}),
        ((X, np.full(80, "a")), {}),
        ((X, y), {"target": "classes"}),
        ((np.where(X > 1, np.inf, X), y), {}),
    ):
        with pytest.raises(ValueError, match=r"rank must be|one class|is constant|needs one column of labels|infinity"):
            MetricMap(**wrong).fit(*args)
    with pytest.raises(TypeError, match="dense data is required"):
        MetricMap().fit(sp.csr_array(X), y)
    with pytest.raises(MemoryError, match="raise memory="):
        MetricMap(memory=1000).fit(X, y)
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        MetricMap(max_iter=1, tol=1e-9).fit(X, y)
    assert MetricMap(max_iter=3, tol=1e3).fit(X[:12], y[:12]).L_.shape == (3, 3)
