"""Nyström's map: exact on landmarks, scikit-learn's contract, any landmark rule."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import Nystroem as Peer
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.estimators.machine.regressor import KernelMachineRegressor
from gramian.estimators.ridge import KernelRidge
from gramian.features.nystrom import Nystroem
from gramian.features.polynomial import PolynomialMap
from gramian.gram.landmarks import RULES
from gramian.kernels import RBF, Laplace, Spectrum, White


@pytest.mark.filterwarnings("ignore:n_components = 100 is more than")
@parametrize_with_checks([Nystroem(), Nystroem(selection="uniform", n_components=5)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("selection", sorted(RULES))
def test_is_the_nystrom_formula(selection, rng):
    X, Z = rng.standard_normal((60, 2)), rng.standard_normal((9, 2))
    kernel = Laplace(1.0)
    model = Nystroem(kernel, n_components=12, selection=selection, random_state=0)
    F = model.fit_transform(X)
    landmarks = model.components_
    np.testing.assert_array_equal(X[model.component_indices_], landmarks)
    K_mm, K_zm = kernel(landmarks), kernel(Z, landmarks)
    expected = K_zm @ np.linalg.solve(K_mm, kernel(landmarks, X))
    np.testing.assert_allclose(model.transform(Z) @ F.T, expected, atol=1e-9)
    np.testing.assert_allclose(model.transform(X), F, atol=1e-8)
    np.testing.assert_allclose(K_zm @ model.normalization_.T, model.transform(Z), atol=1e-10)
    error = np.trace(kernel(X) - F @ F.T) / 60
    assert model.trace_error_ == pytest.approx(error, abs=1e-9)
    w = rng.standard_normal((12, 2))[: F.shape[1]]
    np.testing.assert_allclose(K_zm @ model.expansion(w), model.transform(Z) @ w, atol=1e-9)


@pytest.mark.parametrize("selection", sorted(RULES))
def test_features_of_the_rows_of_fit_have_no_white_noise_either(selection):
    X = np.random.default_rng(0).standard_normal((60, 2))
    model = Nystroem(RBF(1.0) + White(0.1), n_components=20, selection=selection, random_state=0)
    F = model.fit_transform(X)
    np.testing.assert_allclose(F, model.transform(X), atol=1e-12)
    trace = model.kernel_.diag(X).sum()
    np.testing.assert_allclose(model.trace_error_, 1.0 - np.sum(F**2) / trace, rtol=1e-9)


def test_the_trace_error_is_that_of_the_rows_of_fit(rng):
    X = rng.standard_normal((60, 2))
    model = Nystroem(RBF(1.0), n_components=5, random_state=0).fit(X)
    F = model.transform(X)
    X[:] = 0.0
    copied = pickle.loads(pickle.dumps(model))
    assert vars(copied)["trace_error_"] == model.trace_error_ == pytest.approx(1.0 - np.sum(F**2) / 60)
    assert "_unseen" not in vars(copied)
    assert Nystroem(RBF(1.0), n_components=5).fit(X).trace_error_ == 0.0


def test_all_rows_as_landmarks_agree_with_scikit_learn(rng):
    X = rng.standard_normal((15, 3))
    ours = Nystroem(gamma=0.5, n_components=15, random_state=0).fit_transform(X)
    peer = Peer(gamma=0.5, n_components=15, random_state=0).fit_transform(X)
    np.testing.assert_allclose(ours @ ours.T, peer @ peer.T, atol=1e-8)


def test_kinds_of_input(rng):
    X = rng.standard_normal((30, 3))
    dense = Nystroem(gamma=0.5, n_components=6, random_state=0).fit(X)
    sparse = Nystroem(gamma=0.5, n_components=6, random_state=0).fit(sp.csr_array(X))
    np.testing.assert_allclose(sparse.transform(sp.csr_array(X)), dense.transform(X), atol=1e-10)
    single = Nystroem(n_components=6, random_state=0)
    assert single.fit_transform(X.astype(np.float32)).dtype == np.float32
    assert single.transform(X.astype(np.float32)).dtype == np.float32
    K = RBF(1.0)(X)
    ready = Nystroem("precomputed", n_components=6, random_state=0).fit(K)
    np.testing.assert_allclose(ready.transform(K), dense.transform(X), atol=1e-12)
    assert list(dense.get_feature_names_out()) == [f"nystroem{i}" for i in range(6)]


def test_landmarks_that_add_nothing_have_features_of_zero():
    X = np.repeat(np.arange(4.0), 10)[:, None]
    model = Nystroem(n_components=20, selection="uniform", random_state=0)
    F = model.fit_transform(X)
    assert F.shape == (40, 20)
    assert not F[:, 4:].any()
    assert np.unique(model.component_indices_).size == 20
    np.testing.assert_allclose(model.transform(X), F, atol=1e-12)
    # An estimator with this map has no use for them.
    assert KernelRidge(kernel="rbf", approximation=model).fit(X, X[:, 0]).dual_coef_.shape == (4,)
    np.testing.assert_allclose(F @ F.T, np.exp(-((X - X.T) ** 2)), atol=1e-10)


def test_memory_is_kept_and_misuse_told(rng):
    X = rng.standard_normal((50, 2))
    with pytest.raises(MemoryError, match="features of 50 rows by 20 landmarks take 8 KB and memory is 5 KB"):
        Nystroem(n_components=20, memory=5000).fit(X)
    with pytest.raises(ValueError, match=r"^Don't pass gamma, coef0 or degree to Nystroem"):
        Nystroem(RBF(1.0), gamma=2.0).fit(X)
    with pytest.warns(UserWarning, match="n_components = 60 is more than the 50 rows"):
        Nystroem(n_components=60).fit(X)


@pytest.mark.parametrize("selection", sorted(RULES))
def test_tol_takes_as_many_landmarks_as_it_needs(selection, rng):
    X = rng.standard_normal((300, 2))
    model = Nystroem(RBF(1.0), n_components=300, selection=selection, tol=1e-2, random_state=0).fit(X)
    assert model.trace_error_ <= 1e-2
    assert model.component_indices_.size < 150


def test_tol_out_of_reach_warns(rng):
    with pytest.warns(ConvergenceWarning, match="5 landmarks leave a trace error of .* raise n_components"):
        Nystroem(RBF(0.1), n_components=5, tol=1e-3, random_state=0).fit(rng.standard_normal((100, 2)))


def test_float32_stays_close(rng):
    X = (rng.standard_normal((400, 3)) + 50.0).astype(np.float32)
    model = Nystroem(RBF(2.0), n_components=200, random_state=0)
    F = model.fit_transform(X)
    assert F.dtype == np.float32
    np.testing.assert_allclose(F @ F.T, RBF(2.0)(X.astype(float)), atol=2e-3)
    np.testing.assert_allclose(model.transform(X), F, atol=2e-3)


def test_error_of_pairs(rng):
    X = rng.standard_normal((200, 2))
    assert Nystroem(RBF(1.0), n_components=150, random_state=0).fit(X).error(X).maximum < 1e-4
    with pytest.raises(ValueError, match="precomputed"):
        Nystroem("precomputed", n_components=5).fit(RBF(1.0)(X)).error(RBF(1.0)(X))


@pytest.mark.parametrize("selection", ["rpcholesky", "uniform", "greedy", "leverage"])
def test_landmarks_among_texts(rng, selection):
    texts = ["".join(rng.choice(list("abc"), 8)) for _ in range(50)]
    K = Spectrum(2)(texts)
    features = Nystroem(Spectrum(2), n_components=9, selection=selection, random_state=0)
    F = features.fit_transform(texts)
    assert F.dtype == np.float64
    assert features.n_features_in_ == 1
    np.testing.assert_array_equal(features.components_, np.array(texts)[features.component_indices_])
    # Pairs of three letters: nine dimensions, so nine landmarks that are independent leave nothing.
    if features.trace_error_ < 1e-12:
        np.testing.assert_allclose(F @ F.T, K, atol=1e-8)
    np.testing.assert_allclose(features.transform(texts), F, atol=1e-8)
    np.testing.assert_allclose((F @ F.T)[features.component_indices_], K[features.component_indices_], atol=1e-8)
    assert features.error(texts).maximum <= np.abs(F @ F.T - K).max() + 1e-8
    assert features.get_feature_names_out().shape == (F.shape[1],)


def test_landmarks_among_sets():
    sets = [{1, 2}, {2, 3}, {1}, {1, 2, 3}, {4}]
    features = Nystroem(lambda a, b: len(a & b) / len(a | b), n_components=5, random_state=0)
    F = features.fit_transform(sets)
    np.testing.assert_allclose(F @ F.T, [[len(a & b) / len(a | b) for b in sets] for a in sets], atol=1e-10)


def test_what_objects_need():
    with pytest.raises(ValueError, match="selection='kmeans' needs means of rows"):
        Nystroem(Spectrum(2), n_components=1, selection="kmeans").fit(["ab", "ba"])
    with pytest.raises(ValueError, match="Nystroem needs rows of numbers, got objects such as 'ab'"):
        Nystroem(n_components=1).fit(["ab", "ba"])
    with pytest.raises(ValueError, match="PolynomialMap needs rows of numbers"):
        PolynomialMap().fit(pd.Series(["ab", "ba"], index=[5, 6]))


def test_a_kernel_that_is_zero_on_all_rows():
    X = np.zeros((6, 2))
    features = Nystroem("linear", n_components=3, random_state=0)
    np.testing.assert_array_equal(features.fit_transform(X), np.zeros((6, 3)))
    np.testing.assert_array_equal(features.transform(np.ones((2, 2))), np.zeros((2, 3)))
    assert features.trace_error_ == 0.0
    np.testing.assert_array_equal(Nystroem(Spectrum(2), n_components=2).fit_transform(["", "a"]), np.zeros((2, 2)))
    features = Nystroem(n_components=3, random_state=0)
    assert KernelRidge(approximation=features).fit(X, np.arange(6.0)).predict(X[:1]) == [0.0]
    mapped = KernelMachineRegressor("squared", kernel="linear", approximation=features).fit(X, np.arange(6.0))
    np.testing.assert_allclose(mapped.predict(X[:1]), [2.5])
