"""Geometry of feature space beside explicit maps, in which distances, angles and means are those of vectors."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pytest

from gramian import KernelPCA, PolynomialMap
from gramian.gram import Gram
from gramian.kernels import (
    RBF,
    Callable,
    Linear,
    Multiquadric,
    Polynomial,
    Precomputed,
    Sigmoid,
    Spectrum,
    ThinPlate,
    White,
    from_dict,
    is_kernel,
    resolve,
)

K2 = Polynomial(2, offset=1.0)


@pytest.fixture
def rows(rng):
    return rng.standard_normal((7, 3)), rng.standard_normal((5, 3))


def features(X):
    return PolynomialMap(2, offset=1.0).fit_transform(X)


def test_distances_angles_and_lengths_are_those_of_the_features(rows):
    X, Y = rows
    F, G = features(X), features(Y)
    apart = np.linalg.norm(F[:, None] - G[None], axis=2)
    np.testing.assert_allclose(K2.distance(X, Y), apart)
    np.testing.assert_allclose(K2.distance(X), np.linalg.norm(F[:, None] - F[None], axis=2), atol=1e-6)
    assert np.all(K2.distance(X).diagonal() == 0)
    np.testing.assert_allclose(K2.norm(X), np.linalg.norm(F, axis=1))
    cosines = F @ G.T / np.outer(np.linalg.norm(F, axis=1), np.linalg.norm(G, axis=1))
    np.testing.assert_allclose(K2.angle(X, Y), np.arccos(cosines))
    assert np.all(K2.angle(X).diagonal() < 1e-7)
    assert Linear().angle([[0.0, 0.0]], [[1.0, 0.0]])[0, 0] == pytest.approx(np.pi / 2)


def test_the_mean_of_a_set(rows):
    X, Y = rows
    F, G = features(X), features(Y)
    np.testing.assert_allclose(K2.distance_to_mean(X, Y), np.linalg.norm(F - G.mean(axis=0), axis=1))
    np.testing.assert_allclose(K2.distance_to_mean(X), np.linalg.norm(F - F.mean(axis=0), axis=1))
    w = np.array([1.0, 0.0, 2.0, 0.5, 3.0])
    expected = np.linalg.norm(F - np.average(G, axis=0, weights=w), axis=1)
    np.testing.assert_allclose(K2.distance_to_mean(X, Y, w), expected)
    for bad in (w[:3], -w, 0 * w):
        with pytest.raises(ValueError, match="weights must be 5 numbers >= 0"):
            K2.distance_to_mean(X, Y, bad)
    words = ["banana", "ananas", "rock"]
    to_mean = Spectrum(2).distance_to_mean(words)
    K = Spectrum(2)(words)
    np.testing.assert_allclose(to_mean**2, K.diagonal() - 2 * K.mean(axis=1) + K.mean())


def test_noise_is_a_direction_of_its_own(rows):
    X, _ = rows
    k = RBF(1.0) + White(0.5)
    np.testing.assert_allclose(k.distance(X, X.copy()).diagonal(), 1.0)
    assert np.all(k.distance(X).diagonal() == 0)


def test_centred_kernels(rows):
    X, Y = rows
    k = K2.centred(X)
    F, G = features(X), features(Y)
    mean = F.mean(axis=0)
    np.testing.assert_allclose(k(Y, X), (G - mean) @ (F - mean).T, atol=1e-12)
    np.testing.assert_allclose(k.diag(Y), np.sum((G - mean) ** 2, axis=1))
    H = np.eye(7) - 1 / 7
    np.testing.assert_allclose(k(X), H @ K2(X) @ H, atol=1e-12)
    np.testing.assert_allclose(Gram(2.0 * k, X) @ np.ones(7), 0.0, atol=1e-10)
    np.testing.assert_allclose(k.norm(Y), K2.distance_to_mean(Y, X))
    assert is_kernel(k, Y)
    assert k(X.astype(np.float32)).dtype == np.float32
    about = KernelPCA(2, kernel=k, center=False).fit_transform(X)
    np.testing.assert_allclose(np.abs(about), np.abs(KernelPCA(2, kernel=K2).fit_transform(X)), atol=1e-8)


def test_a_centred_kernel_is_a_value():
    k = RBF(1.0).centred([[0.0], [1.0]])
    assert k == RBF(1.0).centred(np.array([[0.0], [1.0]])) != RBF(1.0).centred([[0.0], [2.0]])
    assert len({k, pickle.loads(pickle.dumps(k)), from_dict(json.loads(json.dumps(k.to_dict())))}) == 1
    assert repr(k) == "RBF(1.0).centred(2 rows)"
    assert k.theta.size == 0
    words = Spectrum(2).centred(["banana", "ananas"])
    np.testing.assert_allclose(words(["banana", "ananas"]).sum(), 0.0, atol=1e-12)
    sets = Callable(lambda a, b: float(len(a & b))).centred([{1, 2}, {2}])
    np.testing.assert_allclose(sets([{1, 2}, {2}]), [[0.25, -0.25], [-0.25, 0.25]])
    with pytest.raises(TypeError, match="KernelCenterer"):
        Precomputed().centred(np.eye(2))


def test_a_centred_kernel_says_of_itself_what_its_kernel_does(rows):
    X, _ = rows
    assert RBF(1.0).centred(X).definite
    assert not Sigmoid().centred(X).definite
    assert (RBF(1.0) + White(0.1)).centred(X).tells_copies
    assert Multiquadric().centred(X).conditional_order == 0
    assert is_kernel(Multiquadric().centred(X), X)
    with pytest.raises(ValueError, match=r"ThinPlate\(2\) also needs polynomials of higher degree"):
        resolve(ThinPlate().centred(X))
