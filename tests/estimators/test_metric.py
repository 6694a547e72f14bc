"""MetricMap: the evidence and AGOP beside dense loops, what it finds, weights, refusals, files."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian import KernelRidge, MetricMap, verify
from gramian.kernels import Matern

rng = np.random.default_rng(0)
X = rng.standard_normal((80, 3))
y = np.sin(X[:, 0] + X[:, 1]) + 0.02 * rng.standard_normal(80)
L = np.array([[0.6, -0.2], [0.1, 0.5], [0.3, 0.2]])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks([MetricMap(max_iter=2, n_rows=40), MetricMap("agop", rounds=1, n_rows=40)])
def test_sklearn_contract(estimator, check):
    check(estimator)


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
