"""Every public estimator, fitted in the ways that leave different things inside it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.gaussian_process import kernels as theirs

import gramian
from gramian.kernels import RBF, Linear, Matern, Periodic, Spectrum, White, exp, polynomial
from gramian.losses import EpsilonInsensitive, Quantile

rng = np.random.default_rng(0)
X = rng.standard_normal((30, 3))
NEW = rng.standard_normal((7, 3))
y = X[:, 0] + 0.1 * rng.standard_normal(30)
Y = np.c_[y, X[:, 1] ** 2, y - 1.0]
TWO = X[:, 0] > 0
THREE = np.array(["ash", "birch", "čížek"])[np.digitize(X[:, 0], [-0.5, 0.5])]
SPARSE = sp.csr_matrix(np.where(np.abs(X) > 0.5, X, 0.0))
TEXTS = ["aab", "abc", "bca", "caa", "bbb", "ćab"]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
MIXED = FRAME.assign(tree=THREE, day=pd.Timestamp("2026-01-01"), note=[f"a {t} of {i}" for i, t in enumerate(THREE)])
MIXED.loc[3:5, ["a", "tree"]] = None
METHODS = ("predict", "predict_proba", "decision_function", "transform", "score_samples")


def public() -> list[str]:
    """The public estimators, found by walking the public names."""
    found = [name for name in gramian.__all__ if inspect.isclass(getattr(gramian, name))]
    return [name for name in found if issubclass(getattr(gramian, name), BaseEstimator)]


def plain(name: str) -> tuple[Any, Any]:
    """An estimator as it comes, and rows to try it on."""
    model = getattr(gramian, name)()
    if name == "KernelCenterer":
        return model.fit(X @ X.T), NEW @ X.T
    tags = model.__sklearn_tags__()
    kind = tags.estimator_type
    if not tags.target_tags.required:
        return model.fit(X), NEW
    return model.fit(X, THREE if kind == "classifier" else y), NEW


def _gram(A: Any, B: Any) -> Any:
    return np.exp(-0.5 * ((A[:, None] - B[None]) ** 2).sum(-1))


def _twice(model: Any, *data: Any) -> Any:
    return model.fit(*data).fit(*data)


def _parts(model: Any) -> Any:
    return model.partial_fit(X[:20], y[:20]).partial_fit(X[20:], y[20:])


TREE = 2.0 * RBF([0.5, 1.0, 2.0]) + Linear().on(0, 2) * Periodic(1.0) + exp(0.1 * Linear()).normalized() + White(0.1)
VARIANTS: dict[str, Callable[[], tuple[Any, Any]]] = {
    "precomputed ridge": lambda: (gramian.KernelRidge(kernel="precomputed").fit(_gram(X, X), y), _gram(NEW, X)),
    "precomputed svc": lambda: (gramian.SVC(kernel="precomputed").fit(_gram(X, X), THREE), _gram(NEW, X)),
    "sparse ridge": lambda: (gramian.KernelRidge(kernel="rbf").fit(SPARSE, Y), SPARSE[:4]),
    "sparse svr": lambda: (gramian.SVR().fit(SPARSE, y), SPARSE[:4]),
    "sparse array": lambda: (gramian.KernelRidge().fit(sp.csr_array(SPARSE), y), SPARSE[:4]),
    "single precision": lambda: (
        gramian.KernelRidge(kernel="rbf").fit(X.astype(np.float32), y),
        NEW.astype(np.float32),
    ),
    "many targets": lambda: (gramian.KernelRidge(alpha=[0.1, 1.0, 2.0], kernel=Matern(1.0)).fit(X, Y), NEW),
    "left out": lambda: (gramian.KernelRidge(alpha="loo", kernel="rbf", alphas=range(1, 4)).fit(X, Y), NEW),
    "zero weights": lambda: (gramian.KernelRidge(kernel="rbf").fit(X, y, np.arange(30) % 3), NEW),
    "tree": lambda: (gramian.KernelRidge(kernel=TREE).fit(X, y), NEW),
    "many terms": lambda: (gramian.KernelRidge(kernel=sum(RBF(1.0 + j).on(j % 3) for j in range(150))).fit(X, y), NEW),
    "polynomial of kernel": lambda: (gramian.KernelRidge(kernel=polynomial(RBF(1.0), [1.0, 2.0]) ** 2).fit(X, y), NEW),
    "landmarks": lambda: (
        gramian.KernelRidge(kernel="rbf", approximation=gramian.Nystroem(n_components=8)).fit(X, Y),
        NEW,
    ),
    "waves": lambda: (
        gramian.KernelRidge(kernel="rbf", approximation=gramian.FourierFeatures(n_components=20)).fit(X, Y),
        NEW,
    ),
    "in parts": lambda: (
        _parts(gramian.KernelRidge(kernel="rbf", approximation=gramian.Nystroem(n_components=8))),
        NEW,
    ),
    "warm ridge": lambda: (_twice(gramian.KernelRidge(kernel="rbf", solver="pcg", warm_start=True), X, y), NEW),
    "names": lambda: (gramian.KernelRidge(kernel="rbf").fit(FRAME, y), FRAME[:5]),
    "texts": lambda: (gramian.KernelRidge(kernel=Spectrum(2)).fit(TEXTS, range(6)), ["abb", "", "cab"]),
    "random state": lambda: (gramian.KernelRidge(random_state=np.random.RandomState(3)).fit(X, y), NEW),
    "interpolator": lambda: (gramian.KernelInterpolator(kernel=RBF(1.0)).fit(X, Y), NEW),
    "learned noise": lambda: (
        gramian.GaussianProcessRegressor(1.0 * RBF(1.0), noise="learn", normalize_y=True).fit(X, Y),
        NEW,
    ),
    "gp landmarks": lambda: (
        gramian.GaussianProcessRegressor(
            1.0 * RBF(1.0), noise="learn", approximation=gramian.Nystroem(n_components=9)
        ).fit(X, y),
        NEW,
    ),
    "gp waves": lambda: (
        gramian.GaussianProcessRegressor(
            1.0 * RBF(1.0), alpha=0.1, approximation=gramian.FourierFeatures(n_components=20)
        ).fit(X, y),
        NEW,
    ),
    "gp in little memory": lambda: (
        gramian.GaussianProcessRegressor(1.0 * RBF(1.0), alpha=0.1, memory="1KB", optimizer=None).fit(X, y),
        NEW,
    ),
    "their kernel": lambda: (
        gramian.GaussianProcessRegressor(theirs.ConstantKernel(2.0) * theirs.RBF(1.0) + theirs.WhiteKernel(0.1)).fit(
            X, y
        ),
        NEW,
    ),
    "their classes": lambda: (
        gramian.GaussianProcessClassifier(1.0 * RBF(1.0), multi_class="one_vs_one").fit(X, THREE),
        NEW,
    ),
    "gp of two": lambda: (gramian.GaussianProcessClassifier(1.0 * RBF(1.0)).fit(X, TWO), NEW),
    "svc landmarks": lambda: (gramian.SVC(approximation=gramian.Nystroem(n_components=8)).fit(X, THREE), NEW),
    "svc waves": lambda: (
        gramian.SVC(probability=True, random_state=0, approximation=gramian.FourierFeatures(n_components=20)).fit(
            X, THREE
        ),
        NEW,
    ),
    "svr waves": lambda: (gramian.SVR(approximation=gramian.FourierFeatures(n_components=20)).fit(X, y), NEW),
    "novelty landmarks": lambda: (gramian.OneClassSVM(approximation=gramian.Nystroem(n_components=8)).fit(X), NEW),
    "machine waves": lambda: (
        gramian.KernelMachineClassifier(approximation=gramian.FourierFeatures(n_components=20)).fit(X, THREE),
        NEW,
    ),
    "automatic": lambda: (
        gramian.AutoKernelRegressor(machines=["ridge"], cv=2, random_state=0).fit(MIXED, y),
        MIXED[:5],
    ),
    "probabilities": lambda: (gramian.SVC(probability=True, random_state=0).fit(X, THREE), NEW),
    "class weights": lambda: (gramian.SVC(class_weight={"ash": 2.0, "birch": 1.0, "čížek": 0.5}).fit(X, THREE), NEW),
    "object labels": lambda: (gramian.NuSVC(nu=0.2).fit(X, THREE.astype(object)), NEW),
    "novelty": lambda: (gramian.OneClassSVM(nu=0.3).fit(FRAME), FRAME[:5]),
    "own loss": lambda: (gramian.KernelMachineRegressor(loss=Quantile(0.3)).fit(X, Y), NEW),
    "tube": lambda: (gramian.KernelMachineRegressor(loss=EpsilonInsensitive(0.1)).fit(X, y), NEW),
    "warm machine": lambda: (
        _twice(
            gramian.KernelMachineClassifier(approximation=gramian.Nystroem(n_components=8), warm_start=True), X, THREE
        ),
        NEW,
    ),
    "logistic of two": lambda: (gramian.KernelMachineClassifier(loss="logistic").fit(X, TWO), NEW),
    "steps": lambda: (gramian.PegasosClassifier(n_iter=50, random_state=0).fit(X, TWO), NEW),
    "inverse": lambda: (gramian.KernelPCA(kernel=RBF(1.0), n_components=3, fit_inverse_transform=True).fit(X), NEW),
    "pca landmarks": lambda: (
        gramian.KernelPCA(kernel=RBF(1.0), n_components=3, approximation=gramian.Nystroem(n_components=9)).fit(X),
        NEW,
    ),
    "warm mixture": lambda: (_twice(gramian.GaussianMixture(2, warm_start=True, random_state=0), X), NEW),
    "diagonal": lambda: (gramian.GaussianMixture(2, covariance_type="diag", means_init=X[:2]).fit(X), NEW),
    "polynomial map": lambda: (gramian.PolynomialMap().fit(FRAME), FRAME[:5]),
    "set output": lambda: (gramian.Nystroem(n_components=5).set_output(transform="pandas").fit(FRAME), FRAME[:5]),
}
