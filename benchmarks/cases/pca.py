"""Kernel PCA: fifty components against scikit-learn, and a matrix that does not fit the memory."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from sklearn.decomposition import PCA
from sklearn.decomposition import KernelPCA as SklearnKernelPCA
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import Pipeline, make_pipeline

from benchmarks.harness import Comparison, case
from gramian.estimators.pca import KernelPCA

COMPONENTS = 50
GAMMA = 1 / 16


@case("pca")
def pca() -> Iterator[Comparison]:
    """Fifty components of the RBF kernel; then n = 40,000 in 1 GB."""
    yield fifty(10_000)
    yield bounded(40_000)


def fifty(n: int) -> Comparison:
    """Time, and how far eigenvalues are from the dense ones."""
    X = points(n)
    return Comparison(
        name=f"KernelPCA, n={n} d=8, {COMPONENTS} components",
        ours=lambda: model().fit(X).eigenvalues_,
        peer=lambda: SklearnKernelPCA(COMPONENTS, kernel="rbf", gamma=GAMMA).fit(X).eigenvalues_,
        against="scikit-learn's KernelPCA",
        quality=lambda ours, peer: f"eigenvalues differ by {np.max(np.abs(ours / peer - 1)):.1e}",
        once=True,
    )


def bounded(n: int) -> Comparison:
    """K would take 12.8 GB; scikit-learn's way is the PCA of a Nyström approximation."""
    X = points(n)
    return Comparison(
        name=f"KernelPCA, n={n} d=8, {COMPONENTS} components, memory='1GB'",
        ours=lambda: model(memory="1GB").fit(X),
        peer=lambda: approximate().fit(X),
        against="Nystroem(1000) + PCA",
        quality=lambda ours, peer: f"{ours.certificate_}; peer's eigenvalues {_short(ours, peer, n):.1e} off",
        once=True,
        snippets=(
            f"from benchmarks.cases.pca import *; model(memory='1GB').fit(points({n}))",
            f"from benchmarks.cases.pca import *; approximate().fit(points({n}))",
        ),
    )


def _short(ours: KernelPCA, peer: Pipeline, n: int) -> float:
    return float(np.max(np.abs(peer[-1].explained_variance_ * (n - 1) / ours.eigenvalues_ - 1)))


def approximate() -> Pipeline:
    """The peer's approximation."""
    return make_pipeline(Nystroem(gamma=GAMMA, n_components=1000, random_state=0), PCA(COMPONENTS, random_state=0))


def model(**options: object) -> KernelPCA:
    """Our estimator."""
    return KernelPCA(COMPONENTS, kernel="rbf", gamma=GAMMA, random_state=0, **options)


def points(n: int) -> np.ndarray:
    """Standard normal rows."""
    return np.random.default_rng(0).standard_normal((n, 8))
