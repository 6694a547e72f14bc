"""Nyström's map: exact on landmarks, scikit-learn's contract, any landmark rule."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_approximation import Nystroem as Peer
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.features.nystrom import Nystroem
from gramian.gram.pivots import RULES
from gramian.kernels import RBF, Laplace


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


def test_landmarks_that_add_nothing_are_left_out():
    X = np.repeat(np.arange(4.0), 10)[:, None]
    F = Nystroem(n_components=20, selection="uniform", random_state=0).fit_transform(X)
    assert F.shape == (40, 4)
    np.testing.assert_allclose(F @ F.T, np.exp(-((X - X.T) ** 2)), atol=1e-10)


def test_memory_is_kept_and_misuse_told(rng):
    X = rng.standard_normal((50, 2))
    with pytest.raises(MemoryError, match="features of 50 rows by 20 landmarks take 8 KB and memory is 5 KB"):
        Nystroem(n_components=20, memory=5000).fit(X)
    with pytest.raises(ValueError, match="belong to a kernel given by name"):
        Nystroem(RBF(1.0), gamma=2.0).fit(X)
    with pytest.warns(UserWarning, match="n_components = 60 is more than the 50 rows"):
        Nystroem(n_components=60).fit(X)
