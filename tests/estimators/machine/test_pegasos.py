"""PegasosClassifier: the item's plain loop, the objective of the SVM without a constant, budgets, streams."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn import config_context
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

from gramian import FourierFeatures, Nystroem
from gramian.estimators.machine.pegasos import PegasosClassifier, _distinct
from gramian.kernels import RBF, Spectrum
from reference_machine import hinge_dual, hinge_objective


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(150, noise=0.2, random_state=0)
    return X, 2.0 * y - 1.0


def test_the_algorithm_of_lectures_step_by_step(moons):
    """Draws from all rows, α = β/(λt) at step t, and the plain average of these α, from a history."""
    X, y = moons
    lam, steps = 1e-2, 450
    with pytest.warns(ConvergenceWarning):
        model = PegasosClassifier(RBF(0.5), lam=lam, n_iter=steps, variant="textbook", random_state=3).fit(X, y)
    rows = _distinct(X, (y > 0).astype(int), np.ones(150))[0]  # the order in which the estimator holds its rows
    K, signs = RBF(0.5)(X[rows]), y[rows]
    draws = np.random.RandomState(3)
    order = np.concatenate([draws.choice(150, 150, p=np.full(150, 1 / 150)) for _ in range(3)])
    assert len(set(order[:150])) < 130  # with replacement, and so not a pass
    beta, history = np.zeros(150), []
    for t, i in enumerate(order, start=1):
        history.append(beta / (lam * t))
        if signs[i] * (K[i] @ history[-1]) < 1:
            beta[i] += signs[i]
    expected = np.mean(history, axis=0)
    np.testing.assert_allclose(model.decision_function(X[rows]), K @ expected, atol=1e-10)
    np.testing.assert_allclose(model.dual_coef_, expected[beta != 0], atol=1e-12)


def test_the_algorithm_of_lectures_finds_the_optimum_too(moons):
    X, y = moons
    K, lam = RBF(0.5)(X), 1e-1
    least = hinge_objective(K, y, hinge_dual(K, y, lam), lam)
    model = PegasosClassifier(RBF(0.5), lam=lam, tol=1e-2, variant="textbook", random_state=0).fit(X, y)
    assert model.certificate_.dual <= least <= model.certificate_.primal <= 1.01 * least
    stream = PegasosClassifier(RBF(0.5), lam=lam, variant="textbook", random_state=0)
    for _ in range(3):
        stream.partial_fit(X, y, classes=[-1, 1])
    assert stream.n_iter_ == 450
    assert stream.score(X, y) > 0.85


def test_strings_and_objects():
    words = ["banana", "ananas", "bandana", "cabana", "stone", "rock", "boulder", "pebble", "rock"]
    y = np.array([1, 1, 1, 1, -1, -1, -1, -1, -1])
    K = Spectrum(2)(words)
    model = PegasosClassifier(Spectrum(2), lam=0.05, random_state=0).fit(words, y)
    least = hinge_objective(K, y, hinge_dual(K, y, 0.05), 0.05)
    assert model.certificate_.dual <= least <= model.certificate_.primal <= 1.01 * least
    np.testing.assert_array_equal(model.predict(words), y)
    once = PegasosClassifier(Spectrum(2), lam=0.05, random_state=0).fit(words[:8], y[:8], [1, 1, 1, 1, 1, 2, 1, 1])
    np.testing.assert_allclose(once.decision_function(words), model.decision_function(words))
    sets = [set(word) for word in words]
    shared = PegasosClassifier(lambda a, b: float(len(a & b)), lam=0.05, random_state=0).fit(sets, y)
    np.testing.assert_array_equal(shared.predict(sets), y)
    stream = PegasosClassifier(Spectrum(2), lam=0.05, random_state=0).partial_fit(words[::2], y[::2], [-1, 1])
    assert set(stream.partial_fit(words[1::2], y[1::2]).predict(words)) == {-1, 1}


def test_converges_to_the_svm_without_a_constant(moons, monkeypatch):
    X, y = moons
    K, lam = RBF(0.5)(X), 1e-2
    least = hinge_objective(K, y, hinge_dual(K, y, lam), lam)
    model = PegasosClassifier(RBF(0.5), lam=lam, tol=1e-3, random_state=0).fit(X, y)
    certificate = model.certificate_
    assert certificate.dual <= least <= certificate.primal
    assert certificate.gap <= 1e-3
    assert certificate.primal == pytest.approx(least, rel=1e-3)
    monkeypatch.setattr("gramian.gram.Gram.fits", False)
    by_blocks = PegasosClassifier(RBF(0.5), lam=lam, tol=1e-3, random_state=0).fit(X, y)
    np.testing.assert_allclose(by_blocks.decision_function(X), model.decision_function(X))


def test_a_budget_is_kept_and_its_price_reported(moons):
    X, y = moons
    with pytest.warns(ConvergenceWarning, match="above tol=1e-02: take more steps"):
        model = PegasosClassifier(gamma=2.0, lam=1e-2, max_support=15, n_iter=20_000, random_state=0).fit(X, y)
    assert model.X_fit_.shape[0] <= 15
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("approximation", [Nystroem(n_components=20), FourierFeatures(n_components=40)])
def test_with_a_map_it_ends_at_the_optimum_that_steps_approach(moons, approximation):
    X, y = moons
    model = PegasosClassifier(gamma=2.0, lam=1e-2, approximation=approximation, tol=1e-8, random_state=0).fit(X, y)
    F = model.approximation_.transform(X)
    least = hinge_objective(F @ F.T, y, hinge_dual(F @ F.T, y, 1e-2), 1e-2)
    assert model.certificate_.primal == pytest.approx(least, rel=1e-6)
    # Strong convexity: a gap g leaves a distance of at most the root of 2 g / lam.
    steps = PegasosClassifier("precomputed", lam=1e-2, tol=1e-3, random_state=0).fit(F @ F.T, y)
    apart = np.linalg.lstsq(F, steps.decision_function(F @ F.T) - model.decision_function(X), rcond=None)[0]
    assert np.linalg.norm(apart) <= np.sqrt(2.0 * steps.certificate_.gap * steps.certificate_.primal / 1e-2)


def test_what_makes_no_sense_with_a_map_is_refused(moons):
    X, y = moons
    approximation = Nystroem(n_components=20)
    with pytest.raises(ValueError, match=r"max_support=30 bounds .* set its n_components"):
        PegasosClassifier(approximation=approximation, max_support=30).fit(X, y)
    with pytest.raises(ValueError, match="variant='textbook' goes from row to row"):
        PegasosClassifier(approximation=approximation, variant="textbook").fit(X, y)
    with pytest.raises(ValueError, match="needs rows, not a precomputed Gram matrix"):
        PegasosClassifier("precomputed", approximation=approximation).fit(RBF(0.5)(X), y)


def test_a_stream(moons):
    X, y = moons
    model = PegasosClassifier(gamma=2.0, lam=1e-2, max_support=60, random_state=0)
    for _ in range(20):
        for part in np.array_split(np.arange(150), 5):
            model.partial_fit(X[part], y[part], classes=[-1.0, 1.0])
    assert model.n_iter_ == 20 * 150
    assert model.X_fit_.shape[0] <= 60
    assert model.score(X, y) > 0.9
    assert model.certificate_.kind == "stationary"
    with pytest.raises(ValueError, match="do not exist in the initial classes"):
        model.partial_fit(X[:2], [3.0, 1.0])
    with pytest.raises(ValueError, match="needs rows, not a Gram matrix"):
        PegasosClassifier("precomputed").partial_fit(np.eye(2), [0, 1], classes=[0, 1])


def test_several_classes_and_sparse_streams():
    X, y = load_iris(return_X_y=True)
    model = PegasosClassifier(lam=1e-2, tol=5e-2, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9
    assert model.decision_function(X).shape == (150, 3)
    stream = PegasosClassifier(lam=1e-2, random_state=0)
    for _ in range(10):
        stream.partial_fit(sp.csr_array(X), y, classes=[0, 1, 2])
    assert stream.score(sp.csr_array(X), y) > 0.8
    with pytest.raises(ValueError, match="at least two classes"):
        model.fit(X, np.zeros(150))


def test_a_weight_is_so_many_copies_step_by_step(moons):
    X, y = moons
    weight = np.random.default_rng(0).integers(0, 4, 150)
    options = {"gamma": 2.0, "lam": 1e-2, "random_state": 3}
    weighted = PegasosClassifier(**options).fit(X, y, weight)
    copies = np.random.default_rng(1).permutation(np.repeat(np.arange(150), weight))
    repeated = PegasosClassifier(**options).fit(X[copies], y[copies])
    np.testing.assert_array_equal(weighted.decision_function(X), repeated.decision_function(X))
    sparse = PegasosClassifier(**options).fit(sp.csr_array(X), y, weight)
    again = PegasosClassifier(**options).fit(sp.csr_array(X[copies]), y[copies])
    np.testing.assert_array_equal(sparse.decision_function(X), again.decision_function(X))


def test_weights_that_are_no_whole_numbers_lead_to_the_same_optimum(moons):
    X, y = moons
    weight = np.random.default_rng(0).integers(0, 3, 150) / 2
    options = {"lam": 1e-2, "tol": 3e-3, "random_state": 0}
    halves = PegasosClassifier(RBF(0.5), **options).fit(X, y, weight)
    whole = PegasosClassifier(RBF(0.5), **options).fit(X, y, 2 * weight)
    assert halves.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=5e-3)
    assert halves.certificate_.dual <= whole.certificate_.primal
    kept = weight > 0
    given = PegasosClassifier("precomputed", **options).fit(RBF(0.5)(X), y, weight)
    assert np.all(given.dual_coef_[~kept] == 0)
    assert given.certificate_.primal == pytest.approx(whole.certificate_.primal, rel=5e-3)


def test_weights_in_a_stream_and_bad_ones(moons):
    X, y = moons
    weight = np.where(np.arange(150) % 2, 2.0, 0.0)
    model = PegasosClassifier(gamma=2.0, lam=1e-2, random_state=0)
    for _ in range(10):
        model.partial_fit(X, y, classes=[-1.0, 1.0], sample_weight=weight)
    assert model.n_iter_ == 10 * 150
    assert model.score(X, y) > 0.85
    with pytest.raises(ValueError, match="zero or negative weights"):
        model.partial_fit(X, y, sample_weight=np.zeros(150))
    with pytest.raises(ValueError, match="only 1 of the 2 classes has rows of positive weight"):
        model.fit(X, y, (y > 0).astype(float))


def test_weights_are_routed(moons):
    X, y = moons
    with config_context(enable_metadata_routing=True):
        model = PegasosClassifier(gamma=2.0, lam=1e-2, random_state=0).set_fit_request(sample_weight=True)
        pipe = make_pipeline(MinMaxScaler((-1, 2)), model).fit(X, y, sample_weight=np.ones(150))
    assert pipe.score(X, y) > 0.9


def test_sparse_rows_are_drawn_in_the_order_of_dense_ones():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 5)) * (rng.random((120, 5)) < 0.4)
    X = np.concatenate([X, X[:20]])
    y = (X @ rng.standard_normal(5) > 0.1).astype(int)
    dense, sparse = (PegasosClassifier(lam=0.02, random_state=0).fit(rows, y) for rows in (X, sp.csr_array(X)))
    assert dense.n_iter_ == sparse.n_iter_
    np.testing.assert_allclose(dense.decision_function(X), sparse.decision_function(X), atol=1e-10)


def test_a_limit_of_time_is_named(moons):
    with pytest.warns(ConvergenceWarning, match=r"max_time passed; raise it"):
        PegasosClassifier(max_time=1e-9, random_state=0).fit(*moons)
    model = PegasosClassifier(max_time=1e-9).partial_fit(*moons, classes=[-1, 1])
    assert "max_time passed" in model.certificate_.message
