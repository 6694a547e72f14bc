"""Random Fourier features: law of the draws, errors seen and promised, scikit-learn's numbers."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.kernel_approximation import RBFSampler as SklearnRBFSampler
from sklearn.utils.estimator_checks import parametrize_with_checks

from gramian.features import waves
from gramian.features.accuracy import spectral_spread
from gramian.features.fourier import FourierFeatures, RBFSampler
from gramian.features.frequencies import draw, walsh_hadamard
from gramian.kernels import RBF, Constant, Laplace, Linear, Matern, Periodic, RationalQuadratic, exp, polynomial

ROTATING = [
    RBF([1.0, 2.0, 3.0]),
    Matern(2.0, nu=1.5),
    RationalQuadratic(1.0, alpha=2.0),
    2.0 * RBF(1.0) + Matern(0.5) * RBF(3.0),
    Constant(2.0) + RBF(1.0),
    polynomial(RBF(1.0), [1.0, 2.0]),
    Laplace(2.0) + RBF(1.0),
]
OTHERS = [Laplace(3.0), Periodic(1.0, period=3.0), exp(Laplace(1.0))]


@parametrize_with_checks([FourierFeatures(), FourierFeatures(method="qmc"), RBFSampler(), RBFSampler(gamma="scale")])
def test_sklearn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("method", ["orthogonal", "iid", "qmc"])
@pytest.mark.parametrize("kernel", ROTATING, ids=repr)
def test_inner_products_are_the_kernel(kernel, method, rng):
    X = rng.standard_normal((40, 3))
    F = FourierFeatures(kernel, 12_000, method=method, random_state=0).fit_transform(X)
    # Twelve thousand features, 780 pairs: four standard deviations of the worst case.
    np.testing.assert_allclose(F @ F.T, kernel(X), atol=0.045 * kernel.amplitude)
    np.testing.assert_allclose(np.einsum("ij,ij->i", F, F), kernel.diag(X))


@pytest.mark.parametrize("method", ["iid", "qmc"])
@pytest.mark.parametrize("kernel", OTHERS, ids=repr)
def test_kernels_without_rotation_invariance(kernel, method, rng):
    X = rng.standard_normal((40, 3))
    F = FourierFeatures(kernel, 12_000, method=method, random_state=0).fit_transform(X)
    np.testing.assert_allclose(F @ F.T, kernel(X), atol=0.045 * kernel.amplitude)


@pytest.mark.parametrize("method", ["orthogonal", "sorf"])
@pytest.mark.parametrize("kernel", OTHERS, ids=repr)
def test_orthogonal_is_refused_without_rotation_invariance(kernel, method):
    with pytest.raises(ValueError, match="use 'iid' or 'qmc'"):
        FourierFeatures(kernel, 2, method=method).fit(np.ones((2, 3)))


def test_sorf_in_many_inputs(rng):
    X, kernel = rng.standard_normal((40, 20)), RBF(5.0)
    F = FourierFeatures(kernel, 12_000, method="sorf", random_state=0).fit_transform(X)
    np.testing.assert_allclose(F @ F.T, kernel(X), atol=0.045)


def test_orthogonal_errs_less_than_iid():
    X = np.random.default_rng(0).standard_normal((300, 16))

    def rms(method, seed):
        return FourierFeatures(RBF(4.0), 256, method=method, random_state=seed).fit(X).error(X).rms

    assert sum(rms("orthogonal", s) < rms("iid", s) for s in range(20)) >= 19


def test_each_orthogonal_row_is_normal():
    rng = np.random.default_rng(0)
    W = np.concatenate([draw(RBF(1.0), 4, 4, "orthogonal", rng) for _ in range(5000)])
    np.testing.assert_allclose(W.T @ W / len(W), np.eye(4), atol=0.03)
    np.testing.assert_allclose((W**4).mean(axis=0), 3.0, atol=0.25)


def test_walsh_hadamard(rng):
    H = np.ones((1, 1))
    for _ in range(3):
        H = np.block([[H, H], [H, -H]])
    A = rng.standard_normal((5, 8))
    np.testing.assert_allclose(walsh_hadamard(A), A @ H)


@pytest.mark.parametrize("n_components", [1, 7, 8])
def test_any_number_of_components_is_unbiased(n_components, rng):
    X = rng.standard_normal((4, 2))
    products = [
        (F := FourierFeatures(RBF(1.0), n_components, random_state=s).fit_transform(X)) @ F.T for s in range(1000)
    ]
    assert products[0].shape == (4, 4)
    spread = np.std(products, axis=0) / np.sqrt(1000)
    assert np.all(np.abs(np.mean(products, axis=0) - RBF(1.0)(X)) <= 4.5 * spread + 1e-12)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_float32_and_threads_agree(dtype, rng):
    X = (rng.standard_normal((500, 6)) * (rng.random((500, 6)) < 0.5) + 1e3).astype(dtype)
    features = FourierFeatures(RBF(2.0), 601, random_state=0, n_jobs=1).fit(X.astype(float))
    F = features.transform(X)
    assert F.dtype == dtype
    np.testing.assert_allclose(F, features.transform(X.astype(float)), atol=1e-4 if dtype == np.float32 else 1e-12)
    np.testing.assert_array_equal(F, features.set_params(n_jobs=3).transform(X))
    if dtype == np.float64:
        np.testing.assert_allclose(features.transform(sp.csr_array(X)), F, atol=1e-9)


@pytest.mark.parametrize("gamma", [0.3, "scale"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rbf_sampler_is_scikit_learns(gamma, dtype, rng):
    X = rng.standard_normal((30, 5)).astype(dtype)
    ours = RBFSampler(gamma=gamma, n_components=50, random_state=3).fit(X)
    peer = SklearnRBFSampler(gamma=gamma, n_components=50, random_state=3).fit(X)
    np.testing.assert_array_equal(ours.random_offset_, peer.random_offset_)
    np.testing.assert_allclose(ours.random_weights_, peer.random_weights_, rtol=1e-6)
    assert ours.transform(X).dtype == peer.transform(X).dtype == dtype
    np.testing.assert_allclose(ours.transform(X), peer.transform(X), atol=3e-6 if dtype == np.float32 else 1e-14)


def test_error_is_what_all_pairs_say(rng):
    X = rng.standard_normal((60, 4))
    features = FourierFeatures(RBF(2.0), 100, random_state=0).fit(X)
    seen = features.error(X, n_pairs=4000)
    F = features.transform(X)
    errors = (F @ F.T - RBF(2.0)(X))[~np.eye(60, dtype=bool)]
    assert seen.maximum <= np.abs(errors).max() + 1e-12
    assert np.mean(np.abs(errors) > seen.maximum) <= seen.unseen
    low, high = seen.rms_interval
    assert low < np.sqrt(np.mean(errors**2)) < high


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (RBF([1.0, 2.0]), np.sqrt(1.25)),
        (3.0 * RBF(0.5), np.sqrt(8.0)),
        (Matern(1.0, nu=2.5), np.sqrt(2 * 5 / 3)),
        (Matern(1.0, nu=0.5), np.inf),
        (Laplace(1.0), np.inf),
        (Constant(2.0), 0.0),
    ],
    ids=repr,
)
def test_spectral_spread(kernel, expected):
    assert spectral_spread(kernel, 2) == pytest.approx(expected, rel=1e-3)


def test_components_for_keeps_its_promise(rng):
    X = rng.standard_normal((50, 2))
    asked = FourierFeatures(RBF(1.0), method="iid").fit(X).components_for(0.2, X, delta=0.1)
    assert asked.empirical < asked.uniform < np.inf
    failures = 0
    for seed in range(40):
        F = FourierFeatures(RBF(1.0), asked.empirical, method="iid", random_state=seed).fit_transform(X)
        failures += np.abs(F @ F.T - RBF(1.0)(X)).max() > 0.2
    assert failures <= 4
    assert FourierFeatures(Laplace(1.0), method="iid").fit(X).components_for(0.2, X).uniform == np.inf
    assert FourierFeatures().fit(X).components_for(0.2, sp.csr_array(X)).uniform < np.inf


def test_errors_say_what_to_do(rng):
    X = rng.standard_normal((5, 2))
    with pytest.raises(TypeError, match="stationary"):
        FourierFeatures(Linear()).fit(X)
    with pytest.raises(ValueError, match="gamma belongs to a kernel given by name"):
        FourierFeatures(RBF(1.0), gamma=1.0).fit(X)
    features = FourierFeatures().fit(X)
    with pytest.raises(ValueError, match="eps must be between 0 and 1"):
        features.components_for(2.0, X)
    with pytest.raises(ValueError, match="at least 2 rows"):
        features.error(X[:1])
    with pytest.raises(ValueError, match="n_pairs must be at least 2"):
        features.error(X, n_pairs=1)
    with pytest.raises(ValueError, match="method must be one of"):
        draw(RBF(1.0), 2, 3, "best", np.random.default_rng(0))


def test_compiled_waves_are_those_of_numpy(monkeypatch, rng):
    X = (rng.standard_normal((300, 6)) + 100.0).astype(np.float32)
    for model in (FourierFeatures(RBF(2.0), 41, random_state=0), RBFSampler(n_components=40, random_state=0)):
        plain = model.fit(X).transform(X)
        monkeypatch.setattr(waves, "COMPILED", 0)
        np.testing.assert_allclose(model.transform(X), plain, atol=2e-6)
        monkeypatch.undo()


@pytest.mark.parametrize("of", [np.asarray, sp.csr_array])
def test_large_phases_of_float32_rows_keep_their_digits(of, rng):
    X = (1e4 * rng.standard_normal((40, 3))).astype(np.float32)
    features = FourierFeatures(RBF(0.1), n_components=20, random_state=0).fit(of(X))
    exact = features.transform(of(X.astype(np.float64)))
    assert np.abs(features.transform(of(X)) - exact).max() < 1e-6


def test_gamma_as_a_number_is_kept():
    assert RBFSampler(gamma="scale").fit([[0.0], [1.0]])._gamma == pytest.approx(4.0)
    assert RBFSampler(gamma="auto").fit([[0.0, 1.0], [1.0, 2.0]])._gamma == 0.5
