"""Texts and other objects in place of rows of numbers, with landmarks and without; Gram matrices inside expressions."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone

import gramian
from gramian.kernels import Precomputed, Spectrum

KERNEL = Spectrum(2)
CLASSIFIERS = [
    gramian.SVC(kernel=KERNEL),
    gramian.NuSVC(kernel=KERNEL),
    gramian.KernelMachineClassifier(kernel=KERNEL, lam=1e-2, tol=1e-10),
]
REGRESSORS = [
    gramian.SVR(kernel=KERNEL),
    gramian.NuSVR(kernel=KERNEL),
    gramian.KernelRidge(kernel=KERNEL),
    gramian.KernelMachineRegressor(kernel=KERNEL, lam=1e-2),
    gramian.GaussianProcessRegressor(KERNEL, alpha=1.0, optimizer=None),
]
OTHERS = [gramian.OneClassSVM(kernel=KERNEL), gramian.KernelPCA(kernel=KERNEL, n_components=2)]
MODELS = [*CLASSIFIERS, *REGRESSORS, *OTHERS]


@pytest.fixture
def texts(rng):
    return ["".join(rng.choice(list("abcd"), 12)) for _ in range(40)]


def targets(model, texts):
    counts = np.array([text.count("a") for text in texts])
    return counts > 2 if model in CLASSIFIERS else counts.astype(np.float64)


def values(model, X):
    for method in ("transform", "decision_function", "predict"):
        if hasattr(model, method):
            return getattr(model, method)(X)
    raise AssertionError


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_texts_in_any_sequence_are_their_gram_matrix(model, texts):
    y = targets(model, texts)
    fitted = clone(model).fit(texts, y)
    if not isinstance(model, gramian.GaussianProcessRegressor):
        assert fitted.n_features_in_ == 1
    expected = values(clone(model).set_params(kernel=Precomputed()).fit(KERNEL(texts), y), KERNEL(texts[:5], texts))
    np.testing.assert_allclose(values(fitted, texts[:5]), expected, atol=1e-6)
    shuffled = pd.Series(texts, index=np.arange(len(texts))[::-1])
    for sequence in (tuple(texts), np.array(texts), np.array(texts, dtype=object), shuffled, pl.Series(texts)):
        again = clone(model).fit(sequence, y)
        np.testing.assert_allclose(values(again, sequence[:5]), values(fitted, texts[:5]), atol=1e-12)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_landmarks_may_be_texts(model, texts, tmp_path):
    y = targets(model, texts)
    mapped = clone(model).set_params(approximation=gramian.Nystroem(n_components=30, random_state=0)).fit(texts, y)
    np.testing.assert_allclose(values(mapped, texts[:5]), values(clone(model).fit(texts, y), texts[:5]), atol=1e-4)
    assert set(mapped.approximation_.components_) <= set(texts)
    gramian.save(mapped, tmp_path / "model")
    np.testing.assert_array_equal(values(gramian.load(tmp_path / "model"), texts[:5]), values(mapped, texts[:5]))
    with pytest.raises(ValueError, match="FourierFeatures needs rows of numbers, got objects such as"):
        clone(model).set_params(approximation=gramian.FourierFeatures()).fit(texts, y)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_fit_to_texts_can_be_kept(model, texts, tmp_path):
    fitted = clone(model).fit(texts, targets(model, texts))
    gramian.save(fitted, tmp_path / "model")
    np.testing.assert_array_equal(values(gramian.load(tmp_path / "model"), texts[:5]), values(fitted, texts[:5]))


def test_texts_have_no_pre_images(texts):
    with pytest.raises(ValueError, match="pre-images are rows of numbers"):
        gramian.KernelPCA(kernel=KERNEL, fit_inverse_transform=True).fit(texts)


# ---- a Gram matrix inside an expression -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "model",
    [
        gramian.KernelMachineRegressor("squared", lam="cv", lams=[1e-3, 1e-2], cv=3),
        gramian.KernelMachineClassifier(lam="cv", lams=[1e-3, 1e-2], cv=3),
        gramian.KernelRidge(approximation=gramian.Nystroem(n_components=10, random_state=0)),
        gramian.PegasosClassifier(lam=0.1, n_iter=400, tol=0.5, random_state=0),
    ],
    ids=lambda model: type(model).__name__,
)
def test_an_expression_of_a_gram_matrix_takes_one(model, rng):
    X, Z = rng.standard_normal((40, 2)), rng.standard_normal((5, 2))
    y = X[:, 0] if "Reg" in type(model).__name__ or isinstance(model, gramian.KernelRidge) else X[:, 0] > 0
    K, new = np.exp(-((X[:, None] - X) ** 2).sum(-1)), np.exp(-((Z[:, None] - X) ** 2).sum(-1))
    plain = clone(model).set_params(kernel="precomputed")
    expression = clone(model).set_params(kernel=1.0 * Precomputed())
    np.testing.assert_allclose(values(expression.fit(K, y), new), values(plain.fit(K, y), new), atol=1e-7)


def test_landmarks_of_an_expression_of_a_gram_matrix(rng):
    X = rng.standard_normal((30, 2))
    K = np.exp(-((X[:, None] - X) ** 2).sum(-1))
    features = gramian.Nystroem(2.0 * Precomputed(), n_components=8, random_state=0).fit(K)
    assert features.__sklearn_tags__().input_tags.pairwise
    F = features.transform(K)
    np.testing.assert_allclose((F @ F.T)[features.component_indices_], 2.0 * K[features.component_indices_], atol=1e-8)
    with pytest.raises(ValueError, match="which a precomputed matrix does not hold"):
        features.error(K)
