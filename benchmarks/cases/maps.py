"""Explicit maps: random Fourier features and Nyström against scikit-learn's."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn import kernel_approximation
from sklearn.linear_model import Ridge
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks.data import load
from benchmarks.harness import Comparison, case
from gramian.estimators.ridge import KernelRidge
from gramian.features.fourier import FourierFeatures, RBFSampler
from gramian.features.nystrom import Nystroem
from gramian.kernels import RBF

ALPHA, GAMMA, LANDMARKS = 1e-2, 1 / 8, 2000


@case("maps")
def maps() -> Iterator[Comparison]:
    """Transforms of 4,000 features, a fit in 2,000 landmarks, and landmarks on uneven data."""
    for dtype in (np.float32, np.float64):
        yield fourier(10_000, dtype)
        yield sampler(10_000, dtype)
    yield nystrom_ridge()
    yield uneven()


def fourier(n: int, dtype: type) -> Comparison:
    """4,000 features of n rows, and the error of either map."""
    X = points(n, dtype)
    ours = FourierFeatures(RBF(4.0), 4000, random_state=0).fit(X)
    peer = kernel_approximation.RBFSampler(gamma=1 / 32, n_components=4000, random_state=0).fit(X)
    exact = RBF(4.0)(X[:500].astype(float))

    def error(F: np.ndarray) -> float:
        return float(np.sqrt(np.mean((F[:500].astype(float) @ F[:500].T - exact) ** 2)))

    return Comparison(
        name=f"FourierFeatures(4000) transform, n={n} d=16, {dtype.__name__}",
        ours=lambda: ours.transform(X),
        peer=lambda: peer.transform(X),
        against="RBFSampler",
        quality=lambda a, b: f"RMS error {error(a):.4f} / {error(b):.4f}",
    )


def sampler(n: int, dtype: type) -> Comparison:
    """Our RBFSampler, whose numbers are the peer's."""
    X = points(n, dtype)
    ours = RBFSampler(gamma=1 / 32, n_components=4000, random_state=0).fit(X)
    peer = kernel_approximation.RBFSampler(gamma=1 / 32, n_components=4000, random_state=0).fit(X)
    return Comparison(
        name=f"RBFSampler(4000) transform, n={n} d=16, {dtype.__name__}",
        ours=lambda: ours.transform(X),
        peer=lambda: peer.transform(X),
        against="RBFSampler",
    )


def nystrom_ridge() -> Comparison:
    """Ridge in the space of 2,000 landmarks on kin40k, and the test errors."""
    split = load("kin40k")

    def rmse(model: KernelRidge | Pipeline) -> float:
        return float(np.sqrt(np.mean((model.predict(split.X_test) - split.y_test) ** 2)))

    return Comparison(
        name=f"Nystroem({LANDMARKS}) + ridge, n={len(split.y_train)} d=8",
        ours=lambda: in_landmarks(LANDMARKS).fit(split.X_train, split.y_train),
        peer=lambda: peer_in_landmarks(LANDMARKS).fit(split.X_train, split.y_train),
        against="Nystroem + Ridge",
        quality=lambda a, b: f"test RMSE {rmse(a):.4f} / {rmse(b):.4f}",
        data=split.source,
        repeats=2,
    )


def in_landmarks(m: int) -> KernelRidge:
    """Ours: random pivots."""
    return KernelRidge(ALPHA, kernel="rbf", gamma=GAMMA, approximation=Nystroem(n_components=m), random_state=0)


def peer_in_landmarks(m: int) -> Pipeline:
    """The peer: uniform landmarks, no intercept, as ours."""
    features = kernel_approximation.Nystroem(gamma=GAMMA, n_components=m, random_state=0)
    return make_pipeline(features, Ridge(ALPHA, fit_intercept=False))


def uneven() -> Comparison:
    """Sixty clusters of very different sizes: what 200 landmarks leave of the trace."""
    X = clusters()
    peer = kernel_approximation.Nystroem(gamma=0.5, n_components=200, random_state=0)

    def trace_error(F: np.ndarray) -> float:
        return float(1.0 - np.einsum("ij,ij->", F, F) / len(F))

    return Comparison(
        name=f"Nystroem(200), n={len(X)}, 60 imbalanced clusters",
        ours=lambda: Nystroem(RBF(1.0), n_components=200, random_state=0).fit_transform(X),
        peer=lambda: peer.fit_transform(X),
        against="Nystroem",
        quality=lambda a, b: f"trace error {trace_error(a):.4f} / {trace_error(b):.4f}",
    )


def clusters() -> np.ndarray:
    """Clusters whose sizes fall geometrically."""
    rng = np.random.default_rng(0)
    sizes = np.maximum((3000 * 0.85 ** np.arange(60)).astype(int), 5)
    centres = rng.uniform(-15, 15, (60, 3))
    return np.concatenate([c + 0.3 * rng.standard_normal((s, 3)) for c, s in zip(centres, sizes, strict=True)])


def points(n: int, dtype: type) -> np.ndarray:
    """Standard normal rows."""
    return np.random.default_rng(0).standard_normal((n, 16)).astype(dtype)
